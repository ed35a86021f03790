"""Sampling: plain decoding under a temperature."""

from __future__ import annotations

from ..base import Context, Tree
from .greedy import Greedy


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
