"""The nearest equivalents of a method in other engines: prompt lookup or a draft model, and the options for it."""

from __future__ import annotations

import json

from ...errors import shell_line
from ..base import Elsewhere

LINE = (
    "Its prompt lookup drafts one chain from one match; specchat merges several into a tree, so more tokens are accepted here."
)

COPIED = "There, a copied passage takes one draft pass per token, not one for all."
"""Note on a drafter for which prompt lookup drafts in turn."""

FIXED = "There, the number of draft tokens stays the same."

DEEPEST = 32
"""Longest chain that stands for a tree."""


def chain_length(nodes: int) -> int:
    """Choose the length of a chain that stands for a tree of so many nodes: nearly all of them, as with a single match."""
    return max(2, min(nodes - 1, DEEPEST))


def prompt_lookup(tokens: int, longest: int = 3, note: str = LINE) -> Elsewhere:
    """Name prompt lookup: drafts of `tokens` tokens after a match of at most `longest`."""
    return {
        "transformers": (
            f"model.generate(**inputs, prompt_lookup_num_tokens={tokens}, max_matching_ngram_size={longest})",
            note,
        ),
        "llama-server": (
            f"--spec-type ngram-simple --spec-ngram-simple-size-n {longest} --spec-ngram-simple-size-m {tokens}",
            note,
        ),
        "vLLM": (speculative("ngram", num_speculative_tokens=tokens, prompt_lookup_max=longest, prompt_lookup_min=1), note),
        "SGLang": (
            f"--speculative-algorithm NGRAM --speculative-num-draft-tokens {tokens + 1}",
            "Its n-grams form a tree too.",
        ),
    }


def ngram_tree(nodes: int) -> Elsewhere:
    """Name prompt lookup in place of a tree from all earlier text: llama-server keeps its n-grams too."""
    return {
        **prompt_lookup(chain_length(nodes)),
        "llama-server": ("--spec-type ngram-cache", f"{LINE} There, a draft has at most 8 tokens."),
    }


def draft_chain(model: str, tokens: int, *, schedule: str = "constant", most: int = 0, threshold: float = 0.0) -> Elsewhere:
    """Name a draft model that writes a chain.

    Args:
        model: name of the draft model.
        tokens: draft tokens, at first.
        schedule: how their number changes (see schedules.py).
        most: largest number under a schedule.
        threshold: least probability of a draft token under `confidence`.
    """
    unmatched = "" if schedule == "constant" else FIXED
    if schedule == "confidence":
        note = ""
        call = f"num_assistant_tokens={most}, assistant_confidence_threshold={threshold}"
    else:
        note = "" if schedule in ("constant", "heuristic") else f"It has no equivalent of the schedule {schedule}."
        nearest = "heuristic" if schedule == "heuristic" else "constant"
        call = f"num_assistant_tokens={tokens}, num_assistant_tokens_schedule={nearest!r}"
    # Without the type, llama-server loads the draft model and drafts nothing.
    longest = tokens if schedule == "constant" else most
    llama = f"--spec-type draft-simple --spec-draft-model {shell_line(model)} --spec-draft-n-max {longest}"
    if schedule == "confidence" and threshold:
        llama += f" --spec-draft-p-min {threshold:g}"
    # SGLang counts the pending token as a draft token.
    chain = f"--speculative-num-steps {tokens} --speculative-eagle-topk 1 --speculative-num-draft-tokens {tokens + 1}"
    sglang = f"--speculative-algorithm STANDALONE --speculative-draft-model-path {shell_line(model)} {chain}"
    return {
        "transformers": (f"model.generate(**inputs, assistant_model=draft, {call})", note),
        "llama-server": (llama, ""),
        "vLLM": (speculative("draft_model", model=model, num_speculative_tokens=tokens), unmatched),
        "SGLang": (sglang, unmatched),
    }


def speculative(method: str, **settings: object) -> str:
    """Write vLLM's option for a speculative method."""
    return shell_line("--speculative-config", json.dumps({"method": method, **settings}))


def as_chain(equivalents: Elsewhere, width: int = 2) -> Elsewhere:
    """Note that the engines draft a chain, where the method drafts a tree of this width."""
    return equivalents if width == 1 else with_note(equivalents, "It drafts a chain, not a tree.")


def with_note(equivalents: Elsewhere, sentence: str) -> Elsewhere:
    """Add a sentence to each engine's note."""
    return {engine: (setting, f"{note} {sentence}".strip()) for engine, (setting, note) in equivalents.items()}
