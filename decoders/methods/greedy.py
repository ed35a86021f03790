"""Plain decoding: one token per forward pass. The reference that every method labelled identical must equal."""

from __future__ import annotations

from ..base import Context, Drafter, Tree


class Greedy(Drafter):
    """One node a step. With a temperature in the sampling settings it samples; nothing else changes."""

    name = "greedy"
    reads_cache = False
    summary = "Plain decoding: each forward pass produces one token."
    pays = "Always works; it is the measure of all others."
    drafts = False

    def draft(self, context: Context) -> Tree:
        return Tree.root(context.pending)
