"""Decoding without a KV cache: every step evaluates the whole text again. Shows what incremental decoding saves."""

from __future__ import annotations

from ..base import Context, Drafter, Tree


class Recompute(Drafter):
    """Greedy's tokens at a cost that grows with the length of the text."""

    name = "recompute"
    summary = "Plain decoding without a KV cache: every pass reads the whole text again."
    pays = "Never; it shows what the KV cache saves, more with every token."
    drafts = False

    def draft(self, context: Context) -> Tree:
        context.session.rewind(0)
        context.session.prefill(context.tokens[:-1])
        return Tree.root(context.pending)
