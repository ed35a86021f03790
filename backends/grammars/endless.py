"""Schemas that only an endless answer would match, because a part of them needs itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any
from urllib.parse import unquote


def endless(schema: Mapping[str, Any]) -> bool:
    """Whether every answer that matches a schema would contain itself. References that lead nowhere count as ends: they are
    refused elsewhere."""
    parts = {ref: _target(ref, schema) for ref in set(_references(schema))}
    ended = set[str]()
    while found := [ref for ref, part in parts.items() if ref not in ended and _ends(part, ended)]:
        ended.update(found)
    return not _ends(schema, ended)


def _ends(part: Any, ended: Collection[str]) -> bool:
    """Whether something finite matches a part, if `ended` are the references of which that is known."""
    if not isinstance(part, Mapping):
        return True
    if isinstance(ref := part.get("$ref"), str) and ref not in ended:
        return False
    if not all(_ends(each, ended) for each in _list(part, "allOf")):
        return False
    for word in ("anyOf", "oneOf"):
        choices = _list(part, word)
        if choices and not any(_ends(each, ended) for each in choices):
            return False
    known = part.get("properties")
    properties = known if isinstance(known, Mapping) else {}
    if not all(_ends(properties[name], ended) for name in _list(part, "required") if name in properties):
        return False
    least = part.get("minItems", 0)
    return not (isinstance(least, int) and least > 0) or _ends(part.get("items"), ended)


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, Mapping):
        if isinstance(ref := part.get("$ref"), str):
            yield ref
        part = part.values()
    if isinstance(part, list | type({}.values())):
        for each in part:
            yield from _references(each)


def _list(part: Mapping[str, Any], word: str) -> list[Any]:
    found = part.get(word)
    return [each for each in found if not isinstance(each, list)] if isinstance(found, list) else []


def _target(ref: str, whole: Mapping[str, Any]) -> Any:
    """What a reference within the schema leads to; None for others."""
    if not ref.startswith("#"):
        return None
    part: Any = whole
    for word in ref[1:].split("/")[1:]:
        key = unquote(word).replace("~1", "/").replace("~0", "~")
        if isinstance(part, Mapping):
            part = part.get(key)
        elif isinstance(part, list) and key.isdecimal() and int(key) < len(part):
            part = part[int(key)]
        else:
            return None
    return part
