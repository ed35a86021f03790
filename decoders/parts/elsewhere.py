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

OLDER = "For a head of EAGLE or EAGLE-2 it is eagle in place of eagle3."

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
            "Its n-grams form a tree too. It needs CUDA.",
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
    llama = llama_server("draft-simple", model, tokens if schedule == "constant" else most)
    if schedule == "confidence" and threshold:
        llama += f" --spec-draft-p-min {threshold:g}"
    return {
        "transformers": (f"model.generate(**inputs, assistant_model=draft, {call})", note),
        "llama-server": (llama, ""),
        "vLLM": (speculative("draft_model", model=model, num_speculative_tokens=tokens), unmatched),
        "SGLang": (sglang("STANDALONE", model, tokens), unmatched),
    }


def llama_server(kind: str, model: str, most: int) -> str:
    """Write llama-server's options for a drafter. Without the type, it loads the drafter and drafts nothing."""
    return f"--spec-type {kind} --spec-draft-model {shell_line(model)} --spec-draft-n-max {most}"


def sglang(algorithm: str, model: str, depth: int, width: int = 1, nodes: int = 0) -> str:
    """Write SGLang's options for a drafter (empty for the model's own layers) that grows a tree, or a chain where its width is
    1. It counts the pending token as a draft token, and takes all three figures or none."""
    drafter = f" --speculative-draft-model-path {shell_line(model)}" if model else ""
    drafts = nodes if width > 1 else depth + 1
    tree = f"--speculative-num-steps {depth} --speculative-eagle-topk {width} --speculative-num-draft-tokens {drafts}"
    return f"--speculative-algorithm {algorithm}{drafter} {tree}"


def speculative(method: str, **settings: object) -> str:
    """Write vLLM's option for a speculative method."""
    return shell_line("--speculative-config", json.dumps({"method": method, **settings}))


def as_chain(equivalents: Elsewhere, width: int = 2) -> Elsewhere:
    """Note that the engines draft a chain, where the method drafts a tree of this width."""
    return equivalents if width == 1 else with_note(equivalents, "It drafts a chain, not a tree.")


def with_note(equivalents: Elsewhere, sentence: str) -> Elsewhere:
    """Add a sentence to each engine's note."""
    return {engine: (setting, f"{note} {sentence}".strip()) for engine, (setting, note) in equivalents.items()}
