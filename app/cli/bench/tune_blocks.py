"""`specchat tune`'s search over the attention and MLP blocks that early exit leaves out (see engine/tasks/block_search.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ....engine.options import ModelInfo
from ....errors import UserError, counted
from ...settings.fields import Settings
from .items import Item
from .lab import Lab, Spec, read_specs, say, show_table, spec_of

SETS = 3
"""Sets of blocks that are measured in tokens per second: those with the greatest expected speedups."""

PASSES_SHARE = 12
"""One in so many forward passes of the grid, as estimated, may go into the search for blocks."""

MOST_PASSES = 1000

TIME_SHARE = 0.2
"""Share of the time of the whole search."""

TOKENS_PER_PASS = 4
"""Taken for the estimate."""

SHOWN = 6
"""Sets in the table."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """What the search for blocks found."""

    passes: int = 0
    """All forward passes: those that wrote the text, scored sets of blocks, and were timed."""
    positions: int = 0
    answers: int = 0
    layers: int = 0
    found: Sequence[Mapping[str, Any]] = ()
    """What was found, by expected speedup (see `find_blocks`)."""
    specs: Sequence[Spec] = field(default=())
    """What is measured of it."""

    def as_dict(self) -> dict[str, Any]:
        """What --json says of the search for blocks."""
        return {
            "passes": self.passes,
            "positions": self.positions,
            "answers": self.answers,
            "found": [dict(row) for row in self.found],
            "measured": [spec.label for spec in self.specs],
        }


def wanted(methods: str, specs: Sequence[Spec], loaded: ModelInfo) -> bool:
    """Whether blocks are searched: early exit is among what is tried, its settings were not given, and the model stops between
    layers."""
    named = not methods or any(spec.name == "early-exit" and not spec.settings for spec in read_specs(methods))
    here = any(spec.name == "early-exit" for spec in specs)
    return named and here and loaded.layers > 1


def budget(candidates: int, prompts: int, max_tokens: int) -> int:
    """Forward passes that the search for blocks may take."""
    return min(MOST_PASSES, candidates * prompts * max_tokens // TOKENS_PER_PASS // PASSES_SHARE)


def fewest(layers: int) -> int:
    """Forward passes below which the search finds nothing: some text, the timing, every depth, and every block once."""
    return 3 * layers + 60


def search_blocks(lab: Lab, settings: Settings, items: Sequence[Item], most: int, seconds: float, clock: str) -> Blocks:
    """Search for blocks in at most so many forward passes and seconds, on the answers to the first of the prompts, which have
    one turn each."""
    layers = lab.info.layers
    if most < fewest(layers):
        lab.notes.sentence(
            f"The search for blocks to leave out is skipped. It takes {fewest(layers)} forward passes, but so few prompts and "
            f"tokens allow {most}. Give more of them."
        )
        return Blocks()

    def told(data: dict[str, Any]) -> None:
        lab.notes.progress(
            f"blocks to leave out, pass {data['passes']} of at most {data['most']}: without {data['skip']} "
            f"{data['agreement']:.0%} agree"
        )

    lab.notes.progress("blocks to leave out: writing text to score them on")
    prompts = [{"messages": item.chat(settings.system)} for item in items]
    try:
        result = lab.work("blocks", told, prompts=prompts, most=most, seconds=seconds, clock=clock)
    except UserError as error:
        lab.notes.sentence(f"The search for blocks to leave out is skipped: {error}")
        return Blocks()
    lab.notes.clear()
    found = result["found"]
    return Blocks(result["passes"], result["positions"], result["answers"], layers, found, block_specs(found))


def chosen(found: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The sets that are measured: the best, and the best number of first layers if it is not among them."""
    best = list(found[:SETS])
    if not any("layers" in row for row in best):
        best += [row for row in found if "layers" in row][:1]
    return best


def block_specs(found: Sequence[Mapping[str, Any]]) -> list[Spec]:
    """What is measured: the chosen sets, with drafts that end where they are unsure; the very best also with as many tokens as
    suit it."""
    out: list[Spec] = []
    for place, row in enumerate(chosen(found)):
        cut = {"skip": str(row["skip"])} if "skip" in row else {"layers": str(row["layers"])}
        lengths: list[dict[str, str]] = [{}]
        if not place:
            lengths.append({"schedule": "constant", "tokens": str(row["tokens"])})
        out += [spec_of("early-exit", {**cut, **length}) for length in lengths]
    return out


def show_blocks(blocks: Blocks) -> None:
    """Print what the search found."""
    say(
        "Blocks that early exit leaves out, and how often a draft without them agrees with the whole model, over "
        f"{counted(blocks.positions, 'token')} of {counted(blocks.answers, 'plain answer')} "
        f"({counted(blocks.passes, 'forward pass', 'forward passes')})"
    )
    rows, measured = [], chosen(blocks.found)
    for row in [*blocks.found[:SHOWN], *(row for row in measured if row not in blocks.found[:SHOWN])]:
        first = row.get("layers", 0)
        last = blocks.layers - 1
        rows.append(
            [
                str(row.get("skip") or (f"{first}-{last}" if first < last else first)),
                f"{row['blocks']} of {2 * blocks.layers}",
                f"{row['agreement']:.0%}",
                f"{row['cost']:.2f}",
                f"{row['speedup']:.2f}×",
                "measured" if row in measured else "",
            ]
        )
    show_table(["left out", "blocks run", "agrees", "cost of a pass", "expected", ""], rows)
