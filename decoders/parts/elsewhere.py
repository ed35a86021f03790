"""What is nearest to a method in other engines: prompt lookup or a draft model, and the options that ask for it."""

from __future__ import annotations

import json

from ...errors import shell_line
from ..base import Elsewhere

LINE = (
    "Its prompt lookup drafts one chain from one match; specchat merges several into a tree, so more tokens are accepted here."
)

COPIED = "There, a copied passage takes one draft pass per token, not one for all."
"""Said of a drafter for which prompt lookup drafts in turn."""

DEEPEST = 32
"""Longest draft that is named for a tree."""


def depth(nodes: int) -> int:
    """Length of a line that stands for a tree of so many nodes: nearly all of them where one match is all there is."""
    return max(2, min(nodes - 1, DEEPEST))


def prompt_lookup(tokens: int, longest: int = 3, note: str = LINE) -> Elsewhere:
    """Prompt lookup: drafts of `tokens` tokens after a match of at most `longest`."""
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
    """Prompt lookup, for a tree from what was read and written before: llama-server keeps its n-grams too."""
    tokens = depth(nodes)
    return {
        **prompt_lookup(tokens),
        "llama-server": ("--spec-type ngram-cache", f"{LINE} There, a draft has at most 8 tokens."),
    }


def draft_chain(model: str, tokens: int, *, schedule: str = "constant", most: int = 0, threshold: float = 0.0) -> Elsewhere:
    """A draft model that writes a chain.

    Args:
        model: name of the draft model.
        tokens: draft tokens, at first.
        schedule: how their number changes (see schedules.py).
        most: largest number under a schedule.
        threshold: least probability of a draft token under `confidence`.
    """
    constant, confident = schedule == "constant", schedule == "confidence"
    known = schedule if schedule == "heuristic" else "constant"
    call = f"num_assistant_tokens={tokens}, num_assistant_tokens_schedule={known!r}"
    if confident:
        call = f"num_assistant_tokens={most}, assistant_confidence_threshold={threshold}"
    ended = threshold if confident else 0.0
    return {
        "transformers": (
            f"model.generate(**inputs, assistant_model=draft, {call})",
            "" if constant or confident or known == schedule else f"It has no equivalent of the schedule {schedule}.",
        ),
        "llama-server": (draft_simple(model, tokens if constant else most, ended), ""),
        "vLLM": (speculative("draft_model", model=model, num_speculative_tokens=tokens), "" if constant else FIXED),
        "SGLang": (standalone(model, tokens), "" if constant else FIXED),
    }


FIXED = "There, the number of draft tokens stays the same."


def draft_simple(model: str, most: int, threshold: float = 0.0) -> str:
    """llama-server's options for a draft model; without the type it loads it and drafts nothing.

    Args:
        model: the draft model.
        most: draft tokens.
        threshold: least probability of a draft token.
    """
    found = f"--spec-type draft-simple --spec-draft-model {shell_line(model)} --spec-draft-n-max {most}"
    return found + (f" --spec-draft-p-min {threshold:g}" if threshold else "")


def standalone(model: str, tokens: int) -> str:
    """SGLang's options for a draft model that writes a chain. It counts the pending token as a draft token."""
    chain = f"--speculative-num-steps {tokens} --speculative-eagle-topk 1 --speculative-num-draft-tokens {tokens + 1}"
    return f"--speculative-algorithm STANDALONE --speculative-draft-model-path {shell_line(model)} {chain}"


def speculative(method: str, **settings: object) -> str:
    """vLLM's option for a method of its own."""
    return shell_line("--speculative-config", json.dumps({"method": method, **settings}))


def as_chain(found: Elsewhere, width: int = 2) -> Elsewhere:
    """The same of an engine that has no trees, where one of this width was meant."""
    return found if width == 1 else noted(found, "It drafts a chain, not a tree.")


def noted(found: Elsewhere, sentence: str) -> Elsewhere:
    """The same with one more sentence on each engine."""
    return {engine: (setting, f"{note} {sentence}".strip()) for engine, (setting, note) in found.items()}
