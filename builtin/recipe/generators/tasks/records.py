"""Records and tables: key: value lines, JSON, CSV and Markdown tables, each turned into another."""

import json
from collections.abc import Callable, Mapping

from .. import words
from ..draw import Draw, Message, capital, exchange
from ..wording import ask
from .lists import items

_FIELDS: dict[str, Callable[[Draw], str | int]] = {
    "name": Draw.full_name, "age": lambda d: d.number(2, 99), "city": Draw.city, "color": lambda d: d.pick(words.COLORS),
    "price": lambda d: d.number(1, 500), "email": Draw.email, "date": Draw.date, "job": lambda d: d.pick(words.JOBS),
    "title": lambda d: f"The {d.pick(words.ADJECTIVES)} {d.noun()}", "author": Draw.full_name,
    "year": lambda d: d.number(1900, 2030),
    "pages": lambda d: d.number(10, 900), "size": lambda d: d.pick(["small", "medium", "large", "XL"]), "time": Draw.time,
    "animal": lambda d: d.pick(words.ANIMALS), "owner": Draw.first_name, "day": lambda d: d.pick(words.DAYS),
    "place": lambda d: d.pick(words.PLACES), "item": Draw.noun, "count": lambda d: d.number(1, 99), "model": Draw.made_up,
    "weight": lambda d: f"{d.number(1, 90)} kg", "street": lambda d: f"{d.number(1, 99)} {d.pick(words.STREETS)} Street",
    "team": lambda d: d.made_up().capitalize(), "score": lambda d: d.number(0, 100), "id": lambda d: d.number(100, 9999),
    "favorite food": lambda d: d.pick(words.FOODS), "phone": lambda d: f"555-{d.number(1000, 9999)}",
    "room": lambda d: d.number(1, 60),
}  # fmt: skip

_JSON = """
(write|turn|convert|make|rewrite|transform|change|put|format) @lines (into|to|as|in) (json|a json object|an object in
json|valid json)|(make|create|build|give me|I need) (json|a json object) (out of|of|from|for) @lines|
=as (json|a json object)|=json|(what is|what does) @lines (look like|) (as|in) json?|(give me|show me) @lines as json|
=json for @lines"""
_LINES = """
(write|turn|convert|make|rewrite|change) @lines (into|to|as) (lines|plain lines|key: value lines|plain text)|
(write|list) (each|every) (field|key|entry) (on its own|on a) line|=as (lines|plain lines)|=one line per (key|field)"""


def _json(record: Mapping[str, str | int]) -> str:
    return json.dumps(record, ensure_ascii=False)


def record_json(d: Draw) -> list[Message]:
    """Turn a sentence or key: value lines into JSON, or JSON back into lines."""
    if d.chance(0.2):
        name, age, city = d.full_name(), d.number(18, 90), d.city()
        text = d.pick([f"{name} is {age} years old and lives in {city}.", f"{name}, aged {age}, comes from {city}.",
                       f"{name} lives in {city} and is {age}.", f"{name}, {age}, {city}"])  # fmt: skip
        pattern = """
            (write|turn|convert|put) @text (into|to|as) (json|a json object) with (the keys|) name, age and city|
            make (json|a json object) with name, age and city (out of|from) @text|=json with name, age, city"""
        return exchange(ask(d, pattern, text), _json({"name": name, "age": age, "city": city}))
    keys = d.some(list(_FIELDS), d.span(2, 6))
    record = {key: _FIELDS[key](d) for key in keys}
    if d.chance(0.15):
        record |= {d.made_up(): d.made_up() for _ in range(d.number(1, 2))}
    if d.chance(0.3):
        record = {capital(key): value for key, value in record.items()}
    lines = [f"{key}: {value}" for key, value in record.items()]
    if d.chance(0.2):
        return exchange(ask(d, _LINES, _json(record)), "\n".join(lines))
    mark = d.pick([": ", ": ", ": ", " = ", "=", " - ", ":"])
    pairs = [f"{key}{mark}{value}" for key, value in record.items()]
    text = d.pick(["\n", "\n", "\n", ", "]).join(pairs)
    if text.count(", ") >= len(record):  # a value holds a comma
        text = "\n".join(pairs)
    return exchange(ask(d, _JSON, text), _json(record))


_TABLE = """
(make|create|draw|build|give me|I need) a table (with the columns {a} and {b}|with {a} and {b}) (out of|of|from) @lines|
(write|turn|convert|put|format|rewrite) @lines (into|to|as|in) a (markdown|) table with (the columns|columns|) {a} and {b}|
=(a table|table), columns {a} and {b}"""
_CSV = """
(write|turn|convert|put|format|rewrite) @lines (into|to|as|in) csv with (the columns|columns|the header|) {a} and {b}|
(make|create|give me) (a csv|csv) with (the columns|) {a} and {b} (out of|from) @lines|=csv, columns {a} and {b}"""
_CSV_TABLE = """
(write|turn|convert|put|format|rewrite|make) @lines (into|to|as|in) a (markdown|) table|
(make|create|draw|show) a table (out of|from) @lines|=as a table|=csv to table"""
_TABLE_LINES = """
(write|turn|convert|put|format|rewrite) @table (into|to|as|in) (lines|a list|plain lines|key: value lines)|
(make|create) a list (out of|from) @table|=as (lines|a list|plain text)|list the rows of @table"""


def table(d: Draw) -> list[Message]:
    """Turn key: value lines or CSV into a Markdown table, or back."""
    rows = [(name, str(d.number(1, 99))) for name in items(d, 6)]
    a, b = d.pick([("Name", "Count"), ("Item", "Price"), ("Name", "Age"), ("Item", "Number"), ("Product", "Stock"),
                   ("City", "Visitors"), ("Player", "Points"), ("Word", "Length")])  # fmt: skip
    plain = "\n".join(f"{key}: {value}" for key, value in rows)
    markdown = "\n".join([f"| {a} | {b} |", "| --- | --- |", *(f"| {key} | {value} |" for key, value in rows)])
    comma = "\n".join(f"{key},{value}" for key, value in [(a, b), *rows])
    match d.number(0, 5):
        case 0:
            return exchange(ask(d, _CSV, plain, a=a, b=b), comma)
        case 1:
            return exchange(ask(d, _CSV_TABLE, comma), markdown)
        case 2:
            return exchange(ask(d, _TABLE_LINES, markdown), plain)
        case _:
            return exchange(ask(d, _TABLE, plain, a=a, b=b), markdown)
