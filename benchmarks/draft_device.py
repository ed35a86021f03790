"""What a draft model gains from CPU cores of its own, on which it drafts on while the target verifies.

    python -m specchat.benchmarks.draft_device [--runtime transformers|llama.cpp] [--units N] [--draft-units N] [--cores N]
        [--pairs N] [--tokens N] [--temperature X] [--rpc HOST:PORT]

Compares ways to use the cores: target and draft model take turns on all of them (what everybody gets who does not ask); each
has half of them, in turn; each has half of them, and the draft model drafts on. Each way answers the same prompts in turn.
Prints tokens per second of decoding by the clock, and their ratio to the first way within a round: the median over the rounds
with a 95 % interval (order statistics). `--units` and `--draft-units` widen the built-in models' MLPs with units that add
nothing, so that agreement stays and passes are a larger model's (`shapes.widen`); 0 leaves a model as it is.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from specchat.backends import LoadOptions, Model, Sampling, load_model
from specchat.backends.loading import builtin_path
from specchat.builtin.recipe.gguf_export import export
from specchat.decoders import Conversation, Generation, encode_prompt
from specchat.decoders.parts.ahead import OwnThread

from .shapes import widen
from .step_cost import interval

CONTEXT = 2048
PROMPTS = (
    "Repeat this text exactly: Anna bought 12 apples and a red kite for $4.50. The train from Vienna leaves at 10:15.",
    "Fix the spelling: I has two appels and three banannas in the kichen. The train leeves at ten in the morning.",
    "What is a KV cache?",
    "Write a story about a lighthouse.",
    "List the months of the year.",
    "Who was Ada Lovelace, and what is she known for?",
)


@dataclass(slots=True)
class Way:
    """One way to use the cores."""

    name: str
    threads: int
    """Threads of the target."""
    target: Model
    draft: Model
    method: str = "draft"
    settings: dict[str, Any] = field(default_factory=dict)
    speeds: list[float] = field(default_factory=list)
    drafting: float = 0.0
    seconds: float = 0.0
    ahead: int = 0
    wasted: int = 0


def files(name: str, units: int, runtime: str, room: Path) -> str:
    """A built-in model for a runtime, made wider if that is asked for."""
    folder = builtin_path(name)
    if units:
        folder = widen(folder, room / name, units)
    if runtime == "transformers":
        return str(folder)
    file = room / f"{name}.gguf"
    export(folder, file, "Q8_0", name)
    return str(file)


def answer(way: Way, prompt: Sequence[int], sampling: Sampling, tokens: int) -> list[int]:
    """One answer by a way, which counts it."""
    torch.set_num_threads(way.threads)
    conversation = Conversation(way.target, draft_model=way.draft)
    generation = Generation(conversation, prompt, way.method, settings=way.settings, sampling=sampling, max_tokens=tokens)
    list(generation)
    conversation.close()
    totals = generation.totals
    way.speeds.append(totals.tokens_per_second)
    way.drafting, way.seconds = way.drafting + totals.draft_seconds, way.seconds + totals.seconds
    way.ahead, way.wasted = way.ahead + totals.ahead, way.wasted + totals.wasted
    return generation.answer


def ways(runtime: str, units: int, draft_units: int, cores: int, room: Path, rpc: str = "") -> list[Way]:
    """All ways, the one that the others are compared with first; each with models loaded for its number of threads."""
    target, small = files("builtin", units, runtime, room), files("builtin-draft", draft_units, runtime, room)

    def load(model: str, threads: int) -> Model:
        return load_model(model, LoadOptions(device="cpu", dtype="auto", threads=threads, context=CONTEXT))

    if rpc:
        far = load_model(target, LoadOptions(device="cpu", context=CONTEXT, rpc=rpc))
        here = OwnThread(lambda: load(small, cores))
        sizes = [f"{model.info.parameters / 1e6:.1f} M parameters on {model.info.device}" for model in (far, here)]
        print(f"{sizes[0]}; draft model {sizes[1]}")
        return [
            Way("a device each, in turn", cores, far, here, settings={"ahead": False}),
            Way("a device each, drafting on", cores, far, here),
            Way("plain decoding", cores, far, here, "greedy"),
        ]
    half = cores // 2
    whole, part = load(target, cores), load(target, half)
    drafts, own = load(small, cores), OwnThread(lambda: load(small, cores - half))
    print(
        f"{runtime}: {whole.info.parameters / 1e6:.1f} M parameters, {whole.info.dtype}; draft model "
        f"{drafts.info.parameters / 1e6:.1f} M; {cores} cores"
    )
    return [
        Way("both on all cores, in turn", cores, whole, drafts),
        Way("half each, in turn", half, part, own, settings={"ahead": False}),
        Way("half each, drafting on", half, part, own),
        Way("all cores, and one more to draft on", cores, whole, own),
        Way("plain decoding on all cores", cores, whole, drafts, "greedy"),
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runtime", choices=("transformers", "llama.cpp"), default="llama.cpp")
    parser.add_argument("--units", type=int, default=0)
    parser.add_argument("--draft-units", type=int, default=0)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--rpc", default="", help="the target is on this RPC server, the draft model here")
    options = parser.parse_args()
    sampling = Sampling(temperature=options.temperature, seed=1)
    with tempfile.TemporaryDirectory() as room:
        compared = ways(options.runtime, options.units, options.draft_units, options.cores, Path(room), options.rpc)
        prompts = [encode_prompt(compared[0].target, prompt) for prompt in PROMPTS]
        same = True
        for turn in range(-1, options.pairs):
            prompt = prompts[turn % len(prompts)]
            order = compared[turn % len(compared) :] + compared[: turn % len(compared)]
            answers = [answer(way, prompt, sampling, options.tokens) for way in order]
            same &= all(found == answers[0] for found in answers)
            if turn < 0:  # the first of each warms up
                for way in compared:
                    way.speeds.clear()
    print(f"the same tokens: {same}")
    first = compared[0]
    turns, on = (next(way for way in compared if way.name.endswith(end)) for end in ("h, in turn", "h, drafting on"))
    print(f"  drafting on, beside the same in turn: {interval([a / b for a, b in zip(on.speeds, turns.speeds, strict=True)])}")
    for way in compared:
        ratios = [a / b for a, b in zip(way.speeds, first.speeds, strict=True)]
        share = f", {way.wasted} of {way.ahead} tokens drafted on were for nothing" if way.ahead else ""
        print(
            f"  {way.name}: {statistics.median(way.speeds):.0f} tokens/s, {interval(ratios)}, drafting took "
            f"{way.drafting / way.seconds:.0%}{share}"
        )


if __name__ == "__main__":
    main()
