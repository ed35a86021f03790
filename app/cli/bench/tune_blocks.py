"""`specchat tune`'s search over the attention and MLP blocks that early exit leaves out (see engine/tasks/block_search.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from ....errors import UserError, counted
from ...settings.fields import Settings
from .items import Item
from .lab import Lab, Spec, make_spec, read_specs, say, show_table

SETS = 3
"""Sets of blocks that are measured in tokens per second: those with the greatest expected speedups."""

PASSES_SHARE = 12
"""One in PASSES_SHARE forward passes of the grid, as estimated, may go into the search for blocks."""

MOST_PASSES = 1000

TIME_SHARE = 0.2
"""Share of the time of the whole search."""

TOKENS_PER_PASS = 4
"""Assumption of the estimate."""

SHOWN = 6
"""Number of sets in the table."""


class BlockSet(TypedDict, total=False):
    """Blocks that early exit may leave out, with their score (see `find_blocks`)."""

    skip: str
    """The blocks; `layers` instead for all after the first layers."""
    layers: int
    blocks: int
    """Number of blocks that run."""
    agreement: float
    """Share of tokens that the whole model chooses too."""
    cost: float
    """Time of a pass, in passes of the whole model."""
    tokens: int
    """Length of the drafts that suits it."""
    speedup: float
    """Expected speedup."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """The result of the search for blocks."""

    passes: int = 0
    """All forward passes: those that wrote the text, scored sets of blocks, and were timed."""
    positions: int = 0
    answers: int = 0
    layers: int = 0
    sets: Sequence[BlockSet] = ()
    """The sets, by expected speedup."""
    specs: Sequence[Spec] = ()
    """The methods to measure."""

    def as_dict(self) -> dict[str, object]:
        """Return the object that --json prints."""
        return {
            "passes": self.passes,
            "positions": self.positions,
            "answers": self.answers,
            "found": list(self.sets),
            "measured": [spec.label for spec in self.specs],
        }


def needs_search(methods: str, specs: Sequence[Spec], layers: int) -> bool:
    """Whether to search for blocks: early exit is a candidate, its settings are open, and the model stops between layers."""
    is_open = not methods or any(spec.name == "early-exit" and not spec.settings for spec in read_specs(methods))
    return is_open and layers > 1 and any(spec.name == "early-exit" for spec in specs)


def budget(candidates: int, prompts: int, max_tokens: int) -> int:
    """Compute the number of forward passes that the search for blocks may take."""
    return min(MOST_PASSES, candidates * prompts * max_tokens // TOKENS_PER_PASS // PASSES_SHARE)


def fewest(layers: int) -> int:
    """Compute the number of forward passes below which the search finds nothing: some text, the timing, every depth, and every
    block once."""
    return 3 * layers + 60


def search_blocks(lab: Lab, settings: Settings, items: Sequence[Item], most: int, seconds: float, clock: str) -> Blocks:
    """Search for blocks in at most `most` forward passes and `seconds`, on the answers to the first of the prompts, which have
    one turn each."""
    layers = lab.info.layers
    if most < fewest(layers):
        lab.notes.sentence(
            f"The search for blocks to leave out is skipped. It takes {fewest(layers)} forward passes, but so few prompts and "
            f"tokens allow {most}. Give more of them."
        )
        return Blocks()

    def show(data: Any) -> None:
        lab.notes.progress(
            f"blocks to leave out, pass {data['passes']} of at most {data['most']}: without {data['skip']} "
            f"{data['agreement']:.0%} agree"
        )

    lab.notes.progress("blocks to leave out: writing text to score them on")
    prompts = [{"messages": item.chat(settings.system)} for item in items]
    try:
        result = lab.work("blocks", show, prompts=prompts, most=most, seconds=seconds, clock=clock)
    except UserError as error:
        lab.notes.sentence(f"The search for blocks to leave out is skipped: {error}")
        return Blocks()
    lab.notes.clear()
    sets: list[BlockSet] = result["found"]
    return Blocks(result["passes"], result["positions"], result["answers"], layers, sets, block_specs(sets))


def best_sets(sets: Sequence[BlockSet]) -> list[BlockSet]:
    """Choose the sets to measure: the best, and the best number of first layers if it is not among them."""
    best = list(sets[:SETS])
    if not any("layers" in row for row in best):
        best += [row for row in sets if "layers" in row][:1]
    return best


def block_specs(sets: Sequence[BlockSet]) -> list[Spec]:
    """List the methods to measure: the best sets, with drafts that end where they are unsure; the very best also with drafts of
    the length that suits it."""
    out: list[Spec] = []
    for place, row in enumerate(best_sets(sets)):
        cut = {"skip": str(row["skip"])} if "skip" in row else {"layers": str(row["layers"])}
        lengths: list[dict[str, str]] = [{}]
        if not place:
            lengths.append({"schedule": "constant", "tokens": str(row["tokens"])})
        out += [make_spec("early-exit", {**cut, **length}) for length in lengths]
    return out


def show_blocks(blocks: Blocks) -> None:
    """Print the result of the search."""
    say(
        "Blocks that early exit leaves out, and how often a draft without them agrees with the whole model, over "
        f"{counted(blocks.positions, 'token')} of {counted(blocks.answers, 'plain answer')} "
        f"({counted(blocks.passes, 'forward pass', 'forward passes')})"
    )
    rows = []
    measured = best_sets(blocks.sets)
    for row in [*blocks.sets[:SHOWN], *(row for row in measured if row not in blocks.sets[:SHOWN])]:
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
