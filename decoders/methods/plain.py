"""Plain decoding: one token per forward pass. Greedy is the reference that every method labelled identical must equal."""

from __future__ import annotations

from ..base import Context, Drafter
from ..tree import Tree


class Greedy(Drafter):
    """One node a step. With a temperature in the sampling settings it samples; nothing else changes."""

    name = "greedy"
    reads_cache = False
    summary = "Plain decoding: each forward pass produces one token."
    pays = "Always works; it is the measure of all others."
    drafts = False

    def draft(self, context: Context) -> Tree:
        return Tree.root(context.pending)


class Sample(Greedy):
    """One node a step, like `greedy`: the two are one method, and the sampling settings in force decide what it picks.

    A method changes no setting that others share, so with temperature 0 this is greedy decoding, and it says so.
    """

    name = "sample"
    reads_cache = False
    summary = "Plain decoding that follows the sampling settings: temperature, top-k, top-p, min-p, repetition penalty, seed."
    pays = (
        "For varied text: set a temperature above 0, else it is greedy. Every other identical method follows the same settings."
    )
    paper = "The Curious Case of Neural Text Degeneration, Holtzman 2020, arXiv:1904.09751"

    _greedy = False

    def draft(self, context: Context) -> Tree:
        self._greedy = context.sampling.greedy
        return super().draft(context)

    @property
    def note(self) -> str:
        return "The temperature is 0, so this is greedy decoding: set one above 0 to sample." if self._greedy else ""


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
