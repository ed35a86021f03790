"""Short Python functions: rename a variable, add a docstring."""

from .. import words
from ..draw import Draw, Message, exchange
from ..wording import ask

_RENAME = """
rename (the variable|the name|) {old} (to|into|as) {new}( in @code| everywhere||)|call {old} {new} instead( in @code|)|
change (the name of|the variable|) {old} (to|into) {new}( in @code|)|(replace|swap) the variable {old} (by|with) {new}|
use {new} (instead of|for) {old} in @code|=the variable {old} should be (called|named) {new}"""
_DOCUMENT = """
(add|write|put|insert) a docstring (to|for|into) @code|document (@code|this function)|(add|write) a docstring|
give (this function|the function) a docstring|=@code needs a docstring, (add|write) one|explain @code in a docstring"""


def rename_variable(d: Draw) -> list[Message]:
    """Rename one variable in a short function."""
    old, new, other = d.some(words.IDENTIFIERS, 3)
    if d.chance(0.2):
        old, other = d.some(list("abcnxyz"), 2)
    n = d.number(1, 20)
    template = d.pick(
        ["def run({v}):\n    for item in {v}:\n        print(item)\n    return {v}",
         "{v} = {n}\nwhile {v} > 0:\n    print({v})\n    {v} -= 1",
         "def add({v}, {o}):\n    {v} = {v} + {o}\n    return {v}",
         "def scale({o}, {v}):\n    return {o} * {v}",
         "if {v} > {o}:\n    print({v})\nelse:\n    {v} = {o} + {n}",
         "{v} = [{n}, {n}]\n{o} = len({v})\nprint({v}, {o})"]
    )  # fmt: skip
    before, after = (template.format(v=name, o=other, n=n) for name in (old, new))
    return exchange(ask(d, _RENAME, before, old=old, new=new), after)


_VERBS = {
    "get": "Get", "set": "Set", "make": "Make", "find": "Find", "read": "Read", "load": "Load", "sum": "Sum up",
    "update": "Update", "count": "Count", "check": "Check", "print": "Print", "sort": "Sort", "remove": "Remove",
}  # fmt: skip


def docstring(d: Draw) -> list[Message]:
    """Add a docstring made from the function's name and parameters."""
    noun, *rest = d.some([word for word in words.IDENTIFIERS if word not in _VERBS], 3)
    parameters = rest[: d.number(0, 2)]
    if d.chance(0.3):
        parameters = d.some(list("abcnxyz"), d.number(1, 2))
    if d.chance(0.3) and parameters:
        verb, name = d.pick(
            [("Add", "add"), ("Multiply", "multiply"), ("Compare", "compare"), ("Join", "join"), ("Print", "print")]
        )
        name = f"{name}_{noun}" if d.chance(0.2) else name
        purpose = f"{verb} {' and '.join(parameters)}."
        body = d.pick([f"return {parameters[0]}", f"return {' + '.join(parameters)}", f"print({', '.join(parameters)})"])
    else:
        verb = d.pick(list(_VERBS))
        name = f"{verb}_{noun}"
        purpose = f"{_VERBS[verb]} the {noun}{' of ' + ' and '.join(parameters) if parameters else ''}."
        n = d.number(0, 50)
        first = parameters[0] if parameters else str(n)
        body = d.pick([f"return {first}", f"{noun} = {first}\n    return {noun}", f"{noun} = {first} + {n}\n    print({noun})"])
    head = f"def {name}({', '.join(parameters)}):"
    return exchange(ask(d, _DOCUMENT, f"{head}\n    {body}"), f'{head}\n    """{purpose}"""\n    {body}')
