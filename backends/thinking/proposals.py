"""What a template's syntax tree proposes to try: it names variables, fields and texts, and a rendering decides."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from jinja2 import meta, nodes

GIVEN = frozenset(
    "messages tools documents add_generation_prompt tool_choice functions custom_tools date_string add_vision_id".split()
)
"""Variables that are about something else."""

FIELDS = frozenset("role content tool_calls tool_call_id name type function arguments id text parameters".split())
"""Fields of a message that are about something else."""

WORD = re.compile(r"[a-z_]{2,12}")


@dataclass(frozen=True, slots=True)
class Proposals:
    """What to try."""

    variables: tuple[str, ...]
    """Names that the template reads where it may not have set them."""
    given: tuple[str, ...]
    """The variables that the template reads and never sets."""
    fields: tuple[str, ...]
    """Fields that are read from anything."""
    inside: tuple[str, ...]
    """Fields that are read from a content."""
    kinds: tuple[str, ...]
    """Texts that a field `type` is compared with."""
    words: tuple[str, ...]
    """Words that something is compared with."""
    cuts: tuple[str, ...]
    """Texts that something is split at, or looked for in something."""
    mapping: bool
    """Whether it looks for mappings."""


def propose(tree: nodes.Template, known: Iterable[str]) -> Proposals:
    """Read a template's tree; `known` are names that are always given."""
    fields, inside, kinds, words, cuts = (dict[str, None]() for _ in range(5))
    for read in tree.find_all((nodes.Getattr, nodes.Getitem)):
        if name := _field(read):
            fields[name] = None
            if _field(getattr(read, "node", None)) == "content":
                inside[name] = None
    for call in tree.find_all(nodes.Call):
        method, told = _field(call.node), _texts(call.args[:1])
        if method == "get":
            fields |= dict.fromkeys(told)
        elif method in ("split", "partition", "rpartition", "startswith", "endswith", "find"):
            cuts |= dict.fromkeys(told)
    for compare in tree.find_all(nodes.Compare):
        sides = [compare.expr, *(operand.expr for operand in compare.ops)]
        told = [text for side in sides for text in _texts([side, *getattr(side, "items", ())])]
        words |= dict.fromkeys(told)
        if any(_field(each) == "type" for side in sides for each in (side, *side.find_all(nodes.Getattr))):
            kinds |= dict.fromkeys(told)
        if any(operand.op in ("in", "notin") for operand in compare.ops):
            cuts |= dict.fromkeys(told)
    for assign in tree.find_all(nodes.Assign):  # {% set end = "</think>" %} … content.split(end)
        cuts |= dict.fromkeys(_texts([assign.node]))
    variables = sorted(meta.find_undeclared_variables(tree) - GIVEN - set(known))
    own = {name.name for name in tree.find_all(nodes.Name) if name.ctx == "store"}
    return Proposals(
        tuple(variables),
        tuple(name for name in variables if name not in own),
        tuple(name for name in fields if name.isidentifier() and name not in FIELDS),
        tuple(inside),
        tuple(kinds),
        tuple(word for word in words if WORD.fullmatch(word)),
        tuple(dict.fromkeys(cut.strip() for cut in cuts if 3 <= len(cut.strip()) < 64)),
        any(test.name == "mapping" for test in tree.find_all(nodes.Test)),
    )


def _field(node: Any) -> str:
    """The field that an expression reads, if it reads one by its name."""
    if isinstance(node, nodes.Getattr):
        return node.attr
    return next(iter(_texts([node.arg])), "") if isinstance(node, nodes.Getitem) else ""


def _texts(found: Iterable[nodes.Node]) -> list[str]:
    return [node.value for node in found if isinstance(node, nodes.Const) and isinstance(node.value, str)]
