"""All decoding methods by name: specchat's own, and those that other packages provide through the entry point
`specchat.drafters`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, get_args

from ..backends.heads.base import HeadName
from ..backends.info import Capabilities
from ..errors import UserError, did_you_mean
from ..option import TYPES, declared_options
from .base import Drafter, Group, describe_params, parse_params
from .needs import Chains, Present

BUILT_IN = {
    "greedy": "plain:Greedy",
    "recompute": "plain:Recompute",
    "beam": "beam:Beam",
    "lookup": "lookup:Lookup",
    "fusion": "fusion:Fusion",
    "suffix": "suffix:Suffix",
    "ngram": "ngram:Ngram",
    "recycle": "recycle:Recycle",
    "lookahead": "lookahead:Lookahead",
    "jacobi": "jacobi:Jacobi",
    "draft": "draft:Draft",
    "tree": "token_tree:TokenTree",
    "early-exit": "early_exit:EarlyExit",
    "eagle": "eagle:Eagle",
    "medusa": "medusa:Medusa",
    "dflash": "dflash:DFlash",
    "mtp": "eagle:Mtp",
    "pard": "pard:Pard",
    "auto": "auto.auto:Auto",
}
"""Method name → module in `methods` and class, in the order in which the interface shows them: by group, the most useful first
in each."""


@cache
def methods() -> Mapping[str, type[Drafter]]:
    """Load every method, by name. A method of a broken package is left out; `broken()` says why."""
    drafters = {name: _load_built_in(target) for name, target in BUILT_IN.items()}
    for point in entry_points(group="specchat.drafters"):
        try:
            drafter = _checked(point.load(), point.value)
            if drafter.name in drafters:
                raise TypeError(f"{point.value} reuses the name of another method, {drafter.name}")
        except Exception as error:  # others' code may raise anything
            _broken[point.name] = f"{type(error).__name__}: {error}"
            continue
        drafters[drafter.name] = drafter
    return drafters


def _checked(method: object, source: str) -> type[Drafter]:
    """Return an entry point's object if it is a method; `source` names it in errors."""
    if not (isinstance(method, type) and issubclass(method, Drafter)):
        raise TypeError(f"{source} is not a subclass of specchat.decoders.Drafter")
    missing = [name for name in ("name", "summary", "pays") if not isinstance(getattr(method, name, None), str)]
    missing += sorted(getattr(method, "__abstractmethods__", ()))
    if missing:
        raise TypeError(f"{source} does not define {', '.join(missing)}")
    if method.group not in get_args(Group):
        raise TypeError(f"{source}.group is none of {', '.join(get_args(Group))}")
    options = declared_options(method.Params) if is_dataclass(method.Params) else {}
    settings = [setting.name for setting in fields(method.Params)] if is_dataclass(method.Params) else ["?"]
    if any(name not in options or options[name].type not in TYPES for name in settings):
        raise TypeError(f"{source}.Params is not a dataclass of options of the types {', '.join(TYPES)}")
    return method


_broken: dict[str, str] = {}


def broken() -> Mapping[str, str]:
    """Map each entry point that could not be loaded to the reason."""
    methods()
    return _broken


def _load_built_in(target: str) -> type[Drafter]:
    module, name = target.split(":")
    drafter: type[Drafter] = getattr(import_module(f".methods.{module}", __package__), name)
    return drafter


def get(name: str) -> type[Drafter]:
    """Return the method with this name.

    Raises:
        UserError: there is none; suggests the nearest.
    """
    if name in methods():
        return methods()[name]
    hint = did_you_mean(name, methods())
    if name == "sample":  # other engines' name for it
        hint = "greedy samples at a temperature above 0. Use greedy and set the temperature."
    raise UserError(f"There is no method {name!r}: {hint}")


def unavailable(
    method: type[Drafter],
    capabilities: Capabilities,
    *,
    draft_model: bool = True,
    pard: bool = True,
    head: HeadName | None = None,
) -> str:
    """Return the reason why a model with these capabilities cannot run `method`; "" if it can. The other arguments are those of
    `Present`."""
    if not method.drafts:
        return ""
    present = Present(capabilities, draft_model, pard, head)
    return next((reason for need in (Chains(), *method.requires) if (reason := need.lacks(present))), "")


ROUNDED = "identical but for near ties"
"""The label in place of *identical* on a model whose passes of many nodes round differently (see `Capabilities.identical`)."""


def describe() -> list[dict[str, Any]]:
    """Describe every method as plain data, as `specchat methods --json` prints it."""
    texts = ("summary", "pays", "paper", "explains", "plain", "undrafted", "other_nodes", "compared")
    return [
        {
            "name": method.name,
            "group": method.group,
            "label": method.label,
            "labels": [method.label, ROUNDED] if method.label == "identical" and method.drafts else [method.label],
            **{name: getattr(method, name) for name in texts},
            "params": describe_params(method),
        }
        for method in methods().values()
    ]


ENGINES = ("transformers", "llama-server", "vLLM", "SGLang")


def elsewhere(name: str, settings: Mapping[str, Any], draft_model: str = "DRAFT") -> dict[str, tuple[str, str]]:
    """Translate a method into settings of other engines.

    Args:
        name: of the method.
        settings: of the method, those that are not at their default.
        draft_model: the draft model's name.

    Returns:
        for each of ENGINES, the setting to copy, and a sentence where there is none.

    Raises:
        UserError: there is no such method or setting.
    """
    method = get(name)
    equivalents = method.elsewhere(parse_params(method, dict(settings)), draft_model)
    none = f"It has no equivalent of {name}."
    return {engine: (equivalents.get(engine, ""), "" if engine in equivalents else none) for engine in ENGINES}
