"""A method and its settings in the words of other engines, where they have it: transformers, llama-server, vLLM."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ....engine.catalog import get, parse_params


@dataclass(frozen=True, slots=True)
class Equivalent:
    """The nearest setting of another engine."""

    engine: str
    setting: str
    """To be copied; empty if there is none."""
    note: str = ""
    """What differs; one sentence."""


PLAIN = ("greedy", "sample", "recompute")
N_GRAMS = ("lookup", "ngram", "fusion", "recycle", "auto")
"""Methods that draft from text: elsewhere prompt lookup is the nearest to them."""

CHAIN_NOTE = "Its prompt lookup drafts one line from one match; ours merges several into a tree, so it accepts less."


def equivalents(name: str, settings: Mapping[str, Any], draft_model: str = "DRAFT") -> list[Equivalent]:
    """How to get the same, or the nearest, elsewhere.

    Args:
        name: of the method.
        settings: of the method, those that are not at their default.
        draft_model: how the draft model is named.

    Raises:
        UserError: there is no such method or setting.
    """
    params = parse_params(get(name), dict(settings))
    if name in PLAIN:
        return [
            Equivalent("transformers", "model.generate(**inputs)"),
            Equivalent("llama-server", "--spec-type none"),
            Equivalent("vLLM", "", "Plain decoding: leave out --speculative-config."),
        ]
    if name in N_GRAMS:
        return _lookup(name, params)
    match name:
        case "draft" | "tree":
            return _draft(name, params, draft_model)
        case "early-exit":
            return _early_exit(params)
        case "beam":
            return [
                Equivalent("transformers", f"model.generate(**inputs, num_beams={getattr(params, 'beams', 4)})"),
                Equivalent("llama-server", "", "It has no beam search."),
                Equivalent("vLLM", "", "Beam search is a method of its LLM class (`beam_search`), not a server setting."),
            ]
    return [Equivalent(engine, "", f"It has nothing like {name}.") for engine in ("transformers", "llama-server", "vLLM")]


def _lookup(name: str, params: Any) -> list[Equivalent]:
    reference = getattr(params, "variant", "") == "reference"
    # A tree of n nodes drafts to a depth of about n - 1 where one match is all there is.
    tokens = params.tokens if reference else max(2, min(int(getattr(params, "nodes", 16)) - 1, 32))
    longest = int(getattr(params, "longest", 0)) if reference else 3
    note = "" if reference else CHAIN_NOTE
    kind = "ngram-cache" if name in ("ngram", "fusion", "recycle", "auto") else "ngram-simple"
    llama = f"--spec-type {kind}"
    if kind == "ngram-simple":
        llama += f" --spec-ngram-simple-size-n {longest} --spec-ngram-simple-size-m {tokens}"
    else:
        llama += f" --spec-draft-n-max {tokens}"
    lookup = {"method": "ngram", "num_speculative_tokens": tokens, "prompt_lookup_max": longest, "prompt_lookup_min": 1}
    out = [
        Equivalent(
            "transformers",
            f"model.generate(**inputs, prompt_lookup_num_tokens={tokens}, max_matching_ngram_size={longest})",
            note,
        ),
        Equivalent("llama-server", llama, "It looks up exactly n tokens, not n down to 1." if reference else note),
        Equivalent("vLLM", f"--speculative-config '{json.dumps(lookup)}'", note),
    ]
    if name == "fusion":
        suffix = {"method": "suffix", "num_speculative_tokens": tokens}
        out[2] = Equivalent(
            "vLLM",
            f"--speculative-config '{json.dumps(suffix)}'",
            "Suffix decoding: how often each continuation occurred decides there too, but it drafts a tree of its own.",
        )
    return out


def _draft(name: str, params: Any, draft_model: str) -> list[Equivalent]:
    schedule = getattr(params, "schedule", "constant")
    tokens = int(getattr(params, "tokens", 0) or getattr(params, "depth", 4))
    longest = int(getattr(params, "most", tokens)) if schedule != "constant" else tokens
    tree = "It drafts a line, not a tree." if name == "tree" else ""
    ours = schedule if schedule in ("constant", "heuristic") else ""
    call = f"assistant_model=draft, num_assistant_tokens={tokens}, num_assistant_tokens_schedule={ours or 'constant'!r}"
    if schedule == "confidence":
        call = f"assistant_model=draft, num_assistant_tokens={longest}, assistant_confidence_threshold={params.threshold}"
    note = tree if schedule in ("constant", "heuristic", "confidence") else f"It has no schedule like {schedule}."
    llama = f"--spec-draft-model {draft_model} --spec-draft-n-max {longest}"
    if schedule == "confidence":
        llama += f" --spec-draft-p-min {params.threshold}"
    config = {"method": "draft_model", "model": draft_model, "num_speculative_tokens": tokens}
    fixed = tree or ("" if schedule == "constant" else "The number of draft tokens stays the same there.")
    return [
        Equivalent("transformers", f"model.generate(**inputs, {call})", _notes(note, params)),
        Equivalent("llama-server", llama, _notes(tree, params)),
        Equivalent("vLLM", f"--speculative-config '{json.dumps(config)}'", _notes(fixed, params)),
    ]


def _notes(note: str, params: Any) -> str:
    """A note, and what is said of every engine but ours."""
    copied = "What is copied takes a draft pass a token there, not one for all." if getattr(params, "cascade", False) else ""
    return f"{note} {copied}".strip()


def _early_exit(params: Any) -> list[Equivalent]:
    none = "It has no early exit: a draft model of the first layers as a file of its own is the nearest."
    if params.skip:
        none = "It leaves out no layers or blocks of the model: a small draft model as a file of its own is the nearest."
        only = "Its early exit drafts with the first N layers: it leaves out no layers in the middle and no single blocks."
        first = Equivalent("transformers", "", only)
    else:
        depth = params.layers or "N"
        note = "" if params.layers else "Choose N; ours compares a quarter, half and three quarters of the layers."
        first = Equivalent(
            "transformers",
            f"model.generate(**inputs, assistant_early_exit={depth}, num_assistant_tokens={params.tokens})",
            _notes(note, params),
        )
    return [first, Equivalent("llama-server", "", none), Equivalent("vLLM", "", none)]
