"""Speed on a GPU, checked against what it should be: one command, no network, nothing to download.

    python -m specchat.benchmarks.gpu [--device cuda] [--shape 7b] [--transcripts FOLDER --tokenizer FOLDER]

Makes a random bfloat16 model of that shape on the device, checks that methods give plain decoding's tokens there, measures, and
writes docs/gpu.md: each figure beside what it should reach. It stops after --minutes; the same command goes on from there, as
every part is kept in a state file. The transcripts are JSONL files as `specchat replay` takes them, with the tokenizer of the
model that wrote them; without any, answers of the built-in model are replayed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from specchat import plain_file
from specchat.backends import ROOT, LoadOptions, Model, load_model
from specchat.backends.hf.graphs import CHOICE
from specchat.backends.hf.model import prove_model
from specchat.backends.hf.tokenizer import TextCodec
from specchat.backends.loading import builtin_path
from specchat.backends.transcripts import FileTokenizer, encode_transcript, scan_transcripts
from specchat.backends.transfer import accelerator
from specchat.benchmarks import llama_cuda, timing
from specchat.benchmarks.shapes import SHAPES, config
from specchat.builtin.recipe.evaluate import examples
from specchat.decoders import Conversation, Generation
from specchat.decoders.methods.fusion import Fusion
from specchat.decoders.methods.lookup import Lookup, LookupParams
from specchat.decoders.methods.plain import Greedy
from specchat.decoders.replay import replay
from specchat.errors import UserError

PAGE = Path(__file__).resolve().parent.parent / "docs" / "gpu.md"
CONTEXT = 1024
"""Tokens in the cache meanwhile."""
NODES = (1, 2, 4, 8, 16, 32, 64)
METHODS = ("lookup", "fusion", "recycle", "lookahead", "jacobi")
"""Methods whose tokens are compared with plain decoding's."""
PROMPTS = 6
SHORT = {"tiny": 4, "360m": 16}
"""Tokens of a measurement, and rounds, on shapes for trying it out; 64 and 20 on others."""

Record = tuple[list[int], list[int], int]
"""Prompt, answer, and the token that ends it."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure with its target."""

    part: str
    key: str
    says: str
    bar: float
    least: bool = True
    """Whether it should be at least `bar`, or at most."""
    form: str = "{:.2f}×"

    def verdict(self, value: float) -> str:
        """Return PASS, or the distance from the target."""
        off = 1 - value / self.bar if self.least else value / self.bar - 1
        return "PASS" if off <= 0 else f"{off:.0%} {'short' if self.least else 'over'}"


ROWS = (
    Goal("passes", "roofline", "plain decoding, share of what the memory's bandwidth allows", 0.8, form="{:.0%}"),
    Goal("passes", "ratio_16", "a pass over 16 nodes, beside one over 1", 1.15, least=False),
    Goal("passes", "ratio_64", "a pass over 64 nodes, beside one over 1", 1.5, least=False),
    Goal("generate", "ratio", "plain decoding beside transformers' `generate`", 3.0),
    Goal("static", "ratio", "plain decoding beside its compiled static cache", 1.0),
    Goal("replay", "lookup", "reference prompt lookup on the transcripts, beside plain decoding", 2.4),
    Goal("replay", "fusion", "our best method without a model (fusion) on them, beside reference lookup", 1.3),
)


@dataclass(slots=True)
class Bench:
    """The settings and results that the parts share."""

    device: torch.device
    shape: str
    transcripts: Path | None
    tokenizer: Path | None
    sources: Path | None
    room: Path
    """Folder of builds and the state."""
    deadline: float
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    _model: Model | None = None

    @property
    def rounds(self) -> int:
        """Rounds of interleaved measurements."""
        return SHORT.get(self.shape, 20)

    @property
    def tokens(self) -> int:
        """Tokens of a decoding measurement."""
        return SHORT.get(self.shape, 64)

    @property
    def model(self) -> Model:
        """The random model, made on the device when first asked for."""
        if self._model is None:
            self._model = random_model(self.shape, self.device)
        return self._model

    def left(self) -> float:
        """Return the seconds left."""
        return self.deadline - time.monotonic()


def random_model(shape: str, device: torch.device) -> Model:
    """Make a bfloat16 Llama of random weights on a device, with the proofs of a load."""
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    auto: Any = AutoModelForCausalLM
    with torch.device(device):
        module = auto.from_config(config(shape), dtype=torch.bfloat16)
    module.to(device).eval().requires_grad_(False)
    folder = builtin_path()
    codec = TextCodec(folder, 0)
    # As on a GPU, where passes are not arranged to have the same bits.
    options = LoadOptions(device=str(device), exact="off")
    parameters = sum(p.numel() for p in module.parameters())
    return prove_model(module, parameters, codec, name=f"random {shape}", folder=folder, options=options)


def median_of(work: Callable[[], None], rounds: int) -> float:
    """Return the median seconds of work that waits for its end; the first run is not counted."""
    seconds = []
    for turn in range(rounds + 1):
        start = time.perf_counter()
        work()
        if turn:
            seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def wait(device: torch.device) -> None:
    """Wait until the device has finished."""
    if (module := accelerator(device)) is not None:
        module.synchronize(device)


def machine(bench: Bench) -> dict[str, Any]:
    """Describe the device, with its memory's bandwidth: measured by copying, and the driver's figure if there is one."""
    device = bench.device
    size = (2 << 30 if device.type == "cuda" else 256 << 20) // 4
    source, target = torch.ones(size, device=device), torch.empty(size, device=device)

    def copy() -> None:
        target.copy_(source)
        wait(device)

    measured = 2 * source.nbytes / median_of(copy, 10)
    figures = {"name": "CPU", "measured": measured, "peak": measured, "torch": torch.__version__}
    if device.type == "cuda":
        properties: Any = torch.cuda.get_device_properties(device)
        clock, width = getattr(properties, "memory_clock_rate", 0), getattr(properties, "memory_bus_width", 0)
        peak = 2 * clock * 1e3 * width / 8 or measured
        figures |= {"name": properties.name, "memory": properties.total_memory, "peak": peak, "cuda": torch.version.cuda}
    return figures


def held_out(model: Model, count: int) -> list[list[int]]:
    """Draw prompts of different kinds that the built-in model was not trained on."""
    prompts = [messages[:-1] for _, messages in examples(count)[:count]]
    return [model.encode_chat([{"role": m["role"], "content": m["content"]} for m in prompt]) for prompt in prompts]


def answers(model: Model, prompts: Sequence[list[int]], method: str, tokens: int) -> list[list[int]]:
    """Let a method answer prompts, each in a separate conversation."""
    out = []
    for prompt in prompts:
        conversation = Conversation(model)
        generation = Generation(conversation, prompt, method, max_tokens=tokens)
        for _ in generation:
            pass
        out.append(generation.answer)
        conversation.close()
    return out


def identity(bench: Bench) -> dict[str, Any]:
    """Check the built-in model on this device: count the methods' answers that equal plain decoding's, in float32 (where plain
    decoding equals `generate`) and in bfloat16."""
    from transformers import AutoModelForCausalLM

    checks: dict[str, Any] = {}
    tokens = max(16, bench.tokens)
    for dtype in ("float32", "bfloat16"):
        model = load_model("builtin", LoadOptions(device=str(bench.device), dtype=dtype, backend="transformers", exact="off"))
        prompts = held_out(model, PROMPTS)
        plain = answers(model, prompts, "greedy", tokens)
        same = [answers(model, prompts, method, tokens)[i] == plain[i] for method in METHODS for i in range(len(prompts))]
        checks[dtype] = {"same": sum(same), "of": len(same), "notes": list(model.info.notes)}
        if dtype == "float32":
            module: Any = AutoModelForCausalLM.from_pretrained(builtin_path(), dtype=torch.float32)
            module.to(bench.device)
            theirs = []
            for prompt in prompts:
                ids = torch.tensor([prompt], device=bench.device)
                length = {"max_new_tokens": tokens, "do_sample": False, "pad_token_id": 0}
                answer = module.generate(ids, attention_mask=torch.ones_like(ids), **length)[0, len(prompt) :].tolist()
                theirs.append(answer)
            checks["generate"] = {"same": sum(a == b for a, b in zip(plain, theirs, strict=True)), "of": len(theirs)}
        model.close()
    return checks


def passes(bench: Bench) -> dict[str, Any]:
    """Measure plain decoding and passes over n nodes behind CONTEXT tokens, and compare with the memory's bandwidth."""
    model: Any = bench.model
    ids = [(97 * i) % 4000 + 4 for i in range(CONTEXT)]
    figures: dict[str, Any] = {"notes": list(model.info.notes), "near_tie": model.info.capabilities.near_tie}
    graphs = model._runner.graphs
    for name, recorder in (("launched", None), ("recorded", graphs)):
        if name == "recorded" and graphs is None:
            continue
        model._runner = replace(model._runner, graphs=recorder)
        session = model.open_session(CONTEXT + 512)
        session.prefill(ids)
        seconds: dict[int, list[float]] = {n: [] for n in NODES}
        for turn in range(bench.rounds + 2):
            for n, times in seconds.items():
                start = time.perf_counter()
                session.evaluate(ids[:n], range(ROOT, n - 1)).choose(timing.GREEDY)
                if turn > 1:
                    times.append(time.perf_counter() - start)
                session.commit(())
        _, plain = timing.ours(model, ids, bench.tokens)
        figures[name] = {"plain": plain / bench.tokens, "passes": {n: statistics.median(t) for n, t in seconds.items()}}
        session.close()
    model._runner = replace(model._runner, graphs=graphs)
    best = figures.get("recorded", figures["launched"])
    module = model.module
    weights = sum(p.nbytes for p in module.parameters()) - module.get_input_embeddings().weight.nbytes
    cached = sum(spec.slot_bytes for spec in model._runner.specs) * CONTEXT
    peak = bench.results["machine"]["peak"]
    by_nodes = best["passes"]
    return {
        **figures,
        "bytes": weights + cached,
        "plain": best["plain"],
        "roofline": (weights + cached) / peak / best["plain"],
        "ratio_16": by_nodes[16] / by_nodes[1],
        "ratio_64": by_nodes[64] / by_nodes[1],
    }


@contextmanager
def own_attention(module: Any) -> Iterator[Any]:
    """Give a module transformers' own attention for a block."""
    ours = module.config._attn_implementation
    module.set_attn_implementation("sdpa")
    try:
        yield module
    finally:
        module.set_attn_implementation(ours)


def against(bench: Bench, **how: Any) -> dict[str, Any]:
    """Compare plain decoding with `generate`, in turns."""
    model: Any = bench.model
    ids = [(97 * i) % 4000 + 4 for i in range(CONTEXT)]
    ratios, mine, other = [], [], []
    for turn in range(4):
        _, ours = timing.ours(model, ids, bench.tokens)
        with own_attention(model.module) as module:
            _, theirs = timing.theirs(module, ids, bench.tokens, **how)
        if turn:
            ratios.append(theirs / ours)
            mine.append(ours / bench.tokens)
            other.append(theirs / bench.tokens)
    return {"ratio": statistics.median(ratios), "ours": statistics.median(mine), "theirs": statistics.median(other)}


def static_cache(bench: Bench) -> dict[str, Any]:
    """Compare plain decoding with `generate` on a static cache, which transformers compiles on a GPU."""
    if bench.device.type != "cuda":
        return {"why": "transformers compiles its static cache on GPUs only"}
    return against(bench, cache_implementation="static")


def records(bench: Bench) -> dict[str, list[Record]]:
    """Collect the answers to replay, by set."""
    vocabulary = bench.model.info.vocabulary
    out: dict[str, list[Record]] = {}
    if bench.transcripts is not None:
        encoder = FileTokenizer(bench.tokenizer or builtin_path())
        for path in sorted(bench.transcripts.glob("*.jsonl")):
            for transcript in scan_transcripts(path)[0]:
                prompt, response = encode_transcript(encoder, transcript)
                if len(prompt) + len(response) < bench.model.info.context and max(*prompt, *response) < vocabulary:
                    out.setdefault(path.stem, []).append((prompt, [*response, encoder.eos_id], encoder.eos_id))
        return out
    model = load_model("builtin", LoadOptions(device="cpu", dtype="float32", backend="transformers"))
    prompts = held_out(model, 2 * PROMPTS)
    eos = model.info.eos_ids[0]
    written = answers(model, prompts, "lookup", 4 * bench.tokens)
    out["answers of the built-in model"] = [(p, a, eos) for p, a in zip(prompts, written, strict=True) if len(a) > 1]
    return out


def teacher_forced(bench: Bench) -> dict[str, Any]:
    """Measure the speedup of reference lookup and of fusion over plain decoding on recorded answers: the passes are real, their
    choices the record's. The figures are means over the records, which are taken from the sets in turn until time is up."""
    drafters: dict[str, Callable[[], Any]] = {
        "greedy": Greedy,
        "lookup": lambda: Lookup(LookupParams(variant="reference")),
        "fusion": Fusion,
    }
    sets = records(bench)
    ratios: dict[str, dict[str, list[float]]] = {name: {"lookup": [], "fusion": []} for name in sets}
    until = time.monotonic() + 0.6 * bench.left()
    for number in range(max(map(len, sets.values()))):
        for name, recorded in sets.items():
            if number >= len(recorded) or (time.monotonic() > until and ratios[name]["fusion"]):
                continue
            prompt, response, eos = recorded[number]
            seconds = {}
            for method, make in drafters.items():
                totals = replay(prompt, response, make(), eos_ids=(eos,), over=bench.model, forced=True)
                seconds[method] = totals.draft_seconds + totals.forward_seconds
            for method, method_ratios in ratios[name].items():
                method_ratios.append(seconds["greedy"] / seconds[method])
    means = {name: {method: statistics.mean(r) for method, r in both.items()} for name, both in ratios.items()}
    every = {method: statistics.mean([r for both in ratios.values() for r in both[method]]) for method in ("lookup", "fusion")}
    count = sum(len(both["lookup"]) for both in ratios.values())
    return {"sets": means, "records": count, "lookup": every["lookup"], "fusion": every["fusion"] / every["lookup"]}


def llama_cpp(bench: Bench) -> dict[str, Any]:
    """Measure passes over n tokens in llama.cpp, built for this GPU."""
    if bench.device.type != "cuda":
        return {"why": "it is built for GPUs only here"}
    return llama_cuda.measure(bench.sources, bench.room, bench.shape, CONTEXT, NODES, bench.left)


PARTS: dict[str, tuple[Callable[[Bench], dict[str, Any]], float]] = {
    "machine": (machine, 10),
    "identity": (identity, 60),
    "passes": (passes, 60),
    "generate": (against, 30),
    "replay": (teacher_forced, 60),
    "static": (static_cache, 120),
    "llama.cpp": (llama_cpp, 60),
}
"""The measurements in their order, each with the seconds that must be left to begin it."""


def page(bench: Bench) -> str:
    """Write the results so far as Markdown."""
    results = bench.results
    gpu = results.get("machine", {})
    lines = [HEAD]
    if not gpu:
        lines.append("**No GPU has been measured with this version yet.**\n")
    else:
        memory = f", {gpu['memory'] / 2**30:.0f} GiB" if "memory" in gpu else ""
        lines.append(
            f"Measured on **{gpu['name']}**{memory} (memory {gpu['peak'] / 1e12:.2f} TB/s, {gpu['measured'] / 1e12:.2f} by "
            f"copying), torch {gpu['torch']}: a random {bench.shape} Llama in bfloat16, batch 1, {CONTEXT:,} tokens of "
            "context.\n"
        )
    lines += ["| | measured | should be | |", "|---|---:|---:|---|"]
    for row in ROWS:
        part = results.get(row.part)
        sign = "≥" if row.least else "≤"
        bar = f"{sign} {row.form.format(row.bar)}"
        if part is None or row.key not in part:
            why = "not measured yet" if part is None else str(part.get("why", "not measured"))
            lines.append(f"| {row.says} | – | {bar} | {why} |")
        else:
            lines.append(f"| {row.says} | {row.form.format(part[row.key])} | {bar} | {row.verdict(part[row.key])} |")
    if same := results.get("identity"):
        if "why" in same:
            lines.append(f"\nWhether methods give the same tokens could not be checked: {same['why']}.")
        else:
            lines.append(
                "\nSame tokens (the built-in model on this device): plain decoding in float32 and `generate`: "
                + f"{same['generate']['same']} of {same['generate']['of']} answers; "
                + ", ".join(
                    f"{len(METHODS)} methods and plain decoding in {dtype}: {same[dtype]['same']} of {same[dtype]['of']}"
                    for dtype in ("float32", "bfloat16")
                )
                + "."
            )
    if (pass_times := results.get("passes")) and "why" not in pass_times:
        lines += ["\n| milliseconds a pass | " + " | ".join(f"{n} node{'s' * (n > 1)}" for n in NODES) + " | plain, a token |"]
        lines += ["|---|" + "---:|" * (len(NODES) + 1)]
        for name, says in (("recorded", "as graphs"), ("launched", "kernel by kernel")):
            if name in pass_times:
                cells = [f"{1e3 * s:.2f}" for s in (*pass_times[name]["passes"].values(), pass_times[name]["plain"])]
                lines.append(f"| {says} | " + " | ".join(cells) + " |")
        lines += [f"\n{note}" for note in pass_times["notes"]]
    if (replayed := results.get("replay")) and "why" not in replayed:
        lines += [
            f"\n| {replayed['records']} recorded answers, teacher-forced | reference lookup | fusion |",
            "|---|---:|---:|",
        ]
        lines += [f"| {name} | {both['lookup']:.2f}× | {both['fusion']:.2f}× |" for name, both in replayed["sets"].items()]
    if peer := results.get("llama.cpp"):
        if "why" in peer:
            lines.append(f"\nllama.cpp: not measured, because {peer['why']}.")
        else:
            lines += [f"\n| llama.cpp ({peer['what']}), milliseconds | " + " | ".join(peer["passes"]) + " |"]
            lines += ["|---|" + "---:|" * len(peer["passes"])]
            lines.append("| a pass | " + " | ".join(f"{1e3 * s:.2f}" for s in peer["passes"].values()) + " |")
    return "\n".join(lines) + "\n"


HEAD = """# Speed on a GPU

`python -m specchat.benchmarks.gpu` measures this on the GPU of your machine and writes this page: in at most nine minutes,
without network. The same command goes on where it stopped. `--transcripts FOLDER --tokenizer FOLDER` replays recorded answers
of your own, `--llama-cpp FOLDER` builds llama.cpp from those sources and measures it too.

On CUDA a pass of up to 64 nodes runs as a CUDA graph: over buffers that never move, of 1, 2, 4 … 64 nodes, with attention over
the whole cache, masked. Loading a model compares such passes with the model's own; where they differ, or the driver refuses,
passes are launched kernel by kernel, and a notice says why. `SPECCHAT_GRAPHS=off` does the same.
"""


def run(bench: Bench, state: Path, page_file: Path, tell: Callable[[str], None] = print) -> bool:
    """Measure everything that is not in the state file; return whether nothing is left."""
    for name, (part, needs) in PARTS.items():
        if name in bench.results:
            continue
        if bench.left() < needs and bench.shape not in SHORT:
            tell(f"{name}: left for the next run.")
            continue
        start = time.monotonic()
        try:
            figures = part(bench)
        except llama_cuda.Unfinished:
            tell(f"{name}: begun, and left for the next run.")
            continue
        except Exception as error:
            # A part that fails must not cost the others.
            if name == "machine":
                raise
            figures = {"why": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
        bench.results[name] = json.loads(json.dumps(figures))
        state.parent.mkdir(parents=True, exist_ok=True)
        state.write_text(json.dumps(bench.results, indent=1) + "\n", encoding="utf-8")
        page_file.write_text(page(bench), encoding="utf-8")
        tell(f"{name}: {time.monotonic() - start:.0f} s{', ' + figures['why'] if 'why' in figures else ''}")
    page_file.write_text(page(bench), encoding="utf-8")
    return set(PARTS) <= set(bench.results)


def command_line() -> argparse.ArgumentParser:
    """Build the parser of the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N, or cpu to try it out")
    parser.add_argument("--shape", choices=SHAPES, default="7b")
    parser.add_argument("--transcripts", type=Path, help="folder of JSONL files with recorded answers")
    parser.add_argument("--tokenizer", type=Path, help="folder with the tokenizer of the model that wrote them")
    parser.add_argument("--llama-cpp", type=Path, help="folder with the sources of llama.cpp, to build and measure it")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write")
    parser.add_argument("--room", type=Path, default=plain_file.cache_folder() / "gpu", help="where state and builds are kept")
    parser.add_argument("--again", action="store_true", help="measure everything again")
    return parser


def main() -> None:
    """Measure the rest, within the time limit."""
    options = command_line().parse_args()
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        sys.exit(
            "There is no CUDA device here, so there is nothing to measure: run this where there is one, or try it out with "
            "--device cpu --shape tiny."
        )
    if device.type == "cpu":
        os.environ.setdefault(CHOICE, "rerun")  # all but the driver's part
    module = accelerator(device)
    name = module.get_device_name(device) if module is not None else "cpu"
    state = options.room / f"{name.replace(' ', '-')}-{options.shape}-torch{torch.__version__}.json"
    results = {} if options.again or not state.is_file() else json.loads(state.read_text(encoding="utf-8"))
    folders = options.transcripts, options.tokenizer, options.llama_cpp, options.room
    bench = Bench(device, options.shape, *folders, deadline=time.monotonic() + 60 * options.minutes, results=results)
    try:
        with module.device(device) if module is not None else nullcontext():
            done = run(bench, state, options.page)
    except UserError as error:
        sys.exit(str(error))
    print(f"{options.page} has what was measured." + ("" if done else " Run the same command again for the rest."))


if __name__ == "__main__":
    main()
