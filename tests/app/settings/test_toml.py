"""TOML files that people write: lines of keys, and changes that keep everything else."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import example, given
from hypothesis import strategies as st

from specchat.app.settings import key_path as dotted
from specchat.app.settings.file import read, save
from specchat.app.settings.toml import leaves, line_numbers, line_of, parse, put
from specchat.errors import UserError

from ...cases import cases

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
lines = texts | st.text(st.sampled_from("ab\n\"'\\#[]{}=, "), max_size=30)
names = st.text(min_size=1, max_size=12).filter(lambda name: all(not 0xD800 <= ord(letter) < 0xE000 for letter in name))
simple = (
    st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False)
    | lines
    | st.lists(lines | st.integers(), max_size=3)
)
tables = st.dictionaries(
    names, st.recursive(simple, lambda inner: st.dictionaries(names, inner, min_size=1, max_size=3), max_leaves=6), max_size=6
)


@given(st.lists(names, min_size=1, max_size=4))
def test_a_key_in_parts_is_the_same_after_it_was_written(parts: list[str]) -> None:
    assert dotted.split(dotted.join(parts)) == tuple(parts)


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("a.b", ("a", "b")),
        ('models."Qwen/Qwen3-0.6B".method', ("models", "Qwen/Qwen3-0.6B", "method")),
        ("models.'a b'.x", ("models", "a b", "x")),
        (' a . "b" ', ("a", "b")),
        ("a..b", ()),
        ("", ()),
        ('"a', ()),
        ("'a", ()),
        ('"a"b', ()),
        ("a.", ()),
    ],
)
def test_keys_are_read_as_toml_has_them(key: str, parts: tuple[str, ...]) -> None:
    assert dotted.split(key) == parts


@cases(100)
@given(tables)
@example({"a": 'x"""\n[b]\nc = 1\n', "b": {"c": ["[d]", "#"]}})
@example({"a#b": {"c]": 1}})
def test_every_key_is_found_on_its_line(table: dict[str, Any]) -> None:
    text = "# first\n\n" + tomlkit.dumps(table)
    found = line_numbers(text)
    rows = text.split("\n")
    for parts, _ in leaves(tomllib.loads(text), ()):
        line = line_of(found, parts)
        assert line, (parts, text)
        # The part itself stands there, as it is or in quotes.
        assert any(dotted.split(key)[-1:] == parts[-1:] for key in _keys(rows[line - 1])), (parts, rows[line - 1])


def _keys(row: str) -> list[str]:
    """What stands before each equals sign, and in the brackets of a table."""
    cuts = [row[:at].strip() for at, letter in enumerate(row) if letter == "="]
    return [*cuts, row.strip().strip("[]"), *(row.strip()[1:at] for at, letter in enumerate(row.strip()) if letter == "]")]


SETTINGS = {
    "theme": st.sampled_from(["dark", "light"]),
    "max_tokens": st.integers(1, 9999),
    "stop": st.lists(texts.filter(bool), max_size=3).map(tuple),
    "system": lines,
    "editor": texts,
    "history": st.booleans(),
    "sampling.temperature": st.floats(0, 9),
    "sampling.top_k": st.integers(0, 99),
    "sampling.top_p": st.floats(0.01, 1),
    "keymap.next_method": st.sampled_from(["f12", "ctrl+n,f2"]),
    "methods.lookup.max_ngram": st.integers(1, 4),
    'models."a.b/c".system': lines,
    'models."a.b/c".sampling.top_k': st.integers(0, 99),
    "models.builtin.stop": st.lists(texts.filter(bool), max_size=2).map(tuple),
    "models.builtin.methods.lookup.nodes": st.integers(1, 64),
}
changes = st.fixed_dictionaries({}, optional={key: st.none() | value for key, value in SETTINGS.items()})
FILE = """# my settings
theme = "light"  # easier on the eyes

# what I use at work
[models."a.b/c"]
system = "Be brief."
[models."a.b/c".sampling]
temperature = 0.7  # as its card says

[sampling]
# cool
temperature = 0.1
"""


def test_a_key_that_is_taken_out_takes_its_empty_table_with_it() -> None:
    document = tomlkit.parse("[a.b]\nc = 1\n[d]\ne = 1\n")
    put(document, ("a", "b", "c"), None)
    put(document, ("d", "x"), None)
    put(document, ("nowhere", "x"), None)
    assert tomlkit.dumps(document) == "[d]\ne = 1\n"


def test_saving_is_refused_where_a_value_is_wrong_and_nothing_else_needs_to_be_right(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('zzz = 1\ntheme = "dark"\n')
    save({"threads": 3}, path)
    assert read(path).values == {"theme": "dark", "threads": 3}
    save({"zzz": None}, path)
    assert read(path).problems == ()


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 5000 + "]" * 5000, ".".join(["a"] * 4000) + " = 1"], ids=["lists", "a key of many parts"]
)
def test_a_file_that_is_nested_too_deeply_says_so(text: str) -> None:
    with pytest.raises(UserError, match="nested too deeply"):
        parse(text, "settings.toml")


def test_a_number_that_python_does_not_read_is_named() -> None:
    with pytest.raises(UserError, match="a number in it is too long"):
        parse("a = " + "1" * 5000, "settings.toml")
