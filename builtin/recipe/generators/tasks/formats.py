"""Notations: thousands, dates, and Markdown around words."""

from .. import words
from ..draw import Draw, Message, exchange
from ..wording import ask

_PUT = "(write|put|format|show|convert|turn|give me|rewrite)"
_SEPARATED = f"""
{_PUT} {{x}} with (commas|thousands separators|a comma for thousands)|put (commas|separators) (into|in) {{x}}|
=commas in {{x}}"""
_PLAIN = f"{_PUT} {{x}} without (the|) commas|(remove|drop|delete) the commas (from|in) {{x}}|{_PUT} {{x}} as a plain number"
_ISO = f"""
{_PUT} (the date|) {{x}} (as an iso date|in iso format|to iso|as yyyy-mm-dd|in the form yyyy-mm-dd)|
what is {{x}} (in iso format|as an iso date)?|={{x}} as (an iso date|yyyy-mm-dd)"""
_MONTH = f"""
{_PUT} (the date|) {{x}} (with the name of the month|in words|with the month as a word)|spell out the month in {{x}}|
={{x}} with the month in words"""


def number_format(d: Draw) -> list[Message]:
    """Write a number or a date in another notation."""
    value = d.number(1000, 10 ** d.number(4, 7))
    day, month, year = d.number(1, 28), d.number(1, 12), d.number(1950, 2039)
    name, iso = words.MONTHS[month - 1], f"{year}-{month:02d}-{day:02d}"
    match d.number(0, 3):
        case 0:
            return exchange(ask(d, _SEPARATED, x=str(value)), f"{value:,}")
        case 1:
            return exchange(ask(d, _PLAIN, x=f"{value:,}"), str(value))
        case 2:
            date = d.pick([f"{day} {name} {year}", f"{name} {day}, {year}", f"{day}. {name} {year}"])
            return exchange(ask(d, _ISO, x=date), iso)
        case _:
            return exchange(ask(d, _MONTH, x=iso), f"{day} {name} {year}")


_MARKED = {
    "bold": ("**{}**", "(make|set|print|write) @text (bold|in bold)|put @text in bold|=in bold|=bold"),
    "italic": ("*{}*", "(make|set|print|write) @text (italic|in italics)|put @text in italics|=in italics|italicize @text"),
    "heading": ("# {}", """
        (make|turn) @text (into|) a (markdown|) (heading|headline)|write @text as a (markdown|) (heading|headline)"""),
    "quote": ("> {}", """
        quote @text in markdown|(make|turn) @text (into|) a (markdown|) (quote|blockquote)|write @text as a markdown quote"""),
    "code": ("```\n{}\n```", """
        (put|wrap|write) @code (in|into|as) a code block|make a code block (of|out of|from) @code|=as a code block"""),
    "inline": ("`{}`", "(put|wrap|write) @text (in|between) (backticks|back ticks)|=in backticks"),
    "quoted": ('"{}"', "(put|wrap|write) @text (in|between) (double|) (quotes|quotation marks)|=in (quotes|quotation marks)"),
    "brackets": ("({})", """
        (put|wrap|write) @text (in|between) (round brackets|parentheses|brackets)|=in (brackets|parentheses)"""),
}  # fmt: skip
"""Format → its template, and the patterns of its requests (see `wording`)."""
_BOLD_WORD = """
(make|put|set|write|print) (the word|only the word|) {word} (in bold|bold)( in @text|)|bold (the word|) {word}( in @text|)"""


def markdown(d: Draw) -> list[Message]:
    """Format a text in Markdown: bold, italics, code, headings, quotes."""
    if d.chance(0.2):
        chosen = [d.word() for _ in range(d.span(3, 9))]
        word = d.pick(chosen)
        marked = " ".join(f"**{other}**" if other == word else other for other in chosen)
        return exchange(ask(d, _BOLD_WORD, " ".join(chosen), word=word), marked)
    name = d.pick(list(_MARKED))
    form, pattern = _MARKED[name]
    text = " ".join(d.word() for _ in range(d.span(1, 6)))
    if name == "code":
        text = f"{d.pick(words.IDENTIFIERS)} = {d.number(0, 99)}"
    return exchange(ask(d, pattern, text), form.format(text))
