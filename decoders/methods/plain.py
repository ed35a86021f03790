"""Plain decoding: one token per forward pass. Greedy is the reference that every method labelled identical must equal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base import Context, Drafter
from ..tree import Tree


class Greedy(Drafter):
    """One node a step. With a temperature in the sampling settings it samples; nothing else changes (Holtzman 2020,
    "The Curious Case of Neural Text Degeneration", arXiv:1904.09751).

    Example:
        text     one two
        guess    nothing: one node
        verdict  three
    """

    name = "greedy"
    group = "plain"
    reads_cache = False
    summary = "Plain decoding: one token a pass."
    pays = "Where nothing can be guessed. The other methods are measured against it."
    explains = (
        "The model reads the text once and predicts the most probable next token, or draws one if there is a temperature; that "
        "token is added, and it reads on. Every token takes a full pass over the model's weights, whose time goes mostly into "
        "moving them, not into computing. The other methods try to get more than one token out of such a pass."
    )
    undrafted = "each pass gives one token"
    drafts = False
    plain = True

    @classmethod
    def elsewhere(cls, params: Any, draft_model: str) -> Mapping[str, str]:
        return {"transformers": "model.generate(**inputs)", "llama-server": "--spec-type none"}

    def draft(self, context: Context) -> Tree:
        return Tree.root(context.pending)


class Recompute(Greedy):
    """Greedy's tokens at a cost that grows with the length of the text.

    Example:
        text     one two, read again from its first token
        guess    nothing
        verdict  three
    """

    name = "recompute"
    reads_cache = True
    summary = "Plain decoding without a KV cache: every pass reads the whole text again."
    pays = "Never. It shows what the KV cache saves, more with every token."
    explains = (
        "Each pass reads the whole text again instead of keeping the keys and values of earlier tokens. The text comes out the "
        "same, but more and more slowly as it grows."
    )
    undrafted = "each pass reads the whole text again"
    other_nodes = "Its other nodes are the earlier text, read again."
    compared = False
    drafts = False
    plain = False

    def draft(self, context: Context) -> Tree:
        context.session.rewind(0)
        context.session.prefill(context.tokens[:-1])
        return Tree.root(context.pending)
