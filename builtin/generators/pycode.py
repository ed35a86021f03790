"""Short Python functions: rename a variable, add a docstring."""

from . import words
from .draw import Draw, Message, exchange


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
    ask = d.pick(
        [f"Rename {old} to {new}", f"Rename the variable {old} to {new}", f"Call {old} {new} instead",
         f"Rename {old} to {new} in this code", f"Change the name of {old} to {new}"]
    )  # fmt: skip
    return exchange(f"{ask}:\n{template.format(v=old, o=other, n=n)}", template.format(v=new, o=other, n=n))


_VERBS = {
    "get": "Get", "set": "Set", "make": "Make", "find": "Find", "read": "Read", "load": "Load", "sum": "Sum up",
    "update": "Update", "count": "Count", "check": "Check", "print": "Print", "sort": "Sort", "remove": "Remove",
}  # fmt: skip


def docstring(d: Draw) -> list[Message]:
    """Add a docstring that says what the function's name and parameters say."""
    thing, *rest = d.some([word for word in words.IDENTIFIERS if word not in _VERBS], 3)
    parameters = rest[: d.number(0, 2)]
    if d.chance(0.3):
        parameters = d.some(list("abcnxyz"), d.number(1, 2))
    if d.chance(0.3) and parameters:
        verb, name = d.pick(
            [("Add", "add"), ("Multiply", "multiply"), ("Compare", "compare"), ("Join", "join"), ("Print", "print")]
        )
        name = f"{name}_{thing}" if d.chance(0.2) else name
        purpose = f"{verb} {' and '.join(parameters)}."
        body = d.pick([f"return {parameters[0]}", f"return {' + '.join(parameters)}", f"print({', '.join(parameters)})"])
    else:
        verb = d.pick(list(_VERBS))
        name = f"{verb}_{thing}"
        purpose = f"{_VERBS[verb]} the {thing}{' of ' + ' and '.join(parameters) if parameters else ''}."
        n = d.number(0, 50)
        first = parameters[0] if parameters else str(n)
        body = d.pick(
            [f"return {first}", f"{thing} = {first}\n    return {thing}", f"{thing} = {first} + {n}\n    print({thing})"]
        )
    head = f"def {name}({', '.join(parameters)}):"
    ask = d.pick(
        ["Add a docstring", "Add a docstring to this function", "Write a docstring for this function", "Document this function",
         "Please add a docstring", "Give this function a docstring"]
    )  # fmt: skip
    return exchange(f"{ask}:\n{head}\n    {body}", f'{head}\n    """{purpose}"""\n    {body}')
