"""Options of other engines for prompt lookup, a draft model or a trained drafter."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ...errors import shell_line

DEEPEST = 32
"""Longest chain that stands for a tree."""


def chain_length(nodes: int) -> int:
    """Choose the length of a chain that stands for a tree of so many nodes: nearly all of them, as with a single match."""
    return max(2, min(nodes - 1, DEEPEST))


def prompt_lookup(tokens: int, longest: int = 3) -> Mapping[str, str]:
    """Name prompt lookup: drafts of `tokens` tokens after a match of at most `longest`."""
    return {
        "transformers": f"model.generate(**inputs, prompt_lookup_num_tokens={tokens}, max_matching_ngram_size={longest})",
        "llama-server": f"--spec-type ngram-simple --spec-ngram-simple-size-n {longest} --spec-ngram-simple-size-m {tokens}",
        "vLLM": speculative("ngram", num_speculative_tokens=tokens, prompt_lookup_max=longest, prompt_lookup_min=1),
        "SGLang": f"--speculative-algorithm NGRAM --speculative-num-draft-tokens {tokens + 1}",
    }


def ngram_tree(nodes: int) -> Mapping[str, str]:
    """Name prompt lookup in place of a tree from all earlier text: llama-server keeps its n-grams too."""
    return {**prompt_lookup(chain_length(nodes)), "llama-server": "--spec-type ngram-cache"}


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
