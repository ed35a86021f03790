"""What a llama.cpp session costs beside llama.cpp itself.

    python benchmarks/llama_overhead.py [--threads N] [--steps N] [--pairs N]

Two figures: what the session adds to llama_decode (Python, and the bookkeeping of sequence ids) at 8k tokens of context with 32
leaves, and greedy tokens/s against llama-cpp-python's `create_completion` in interleaved pairs. Needs the packages gguf and
llama-cpp-python.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import llama_cpp
import torch

from specchat.backends import ROOT, LoadOptions, Sampling
from specchat.backends.llama.library import library
from specchat.backends.llama.model import LlamaModel, load_llama
from specchat.backends.loading import builtin_path
from specchat.builtin.gguf_export import export
from specchat.decoders import Conversation, Generation

CONTEXT = 8192
LEAVES = 32
GREEDY = Sampling()


def long_model(folder: Path) -> Path:
    """A GGUF file of the built-in model's size with room for CONTEXT tokens; its weights are random."""
    from transformers import AutoConfig, LlamaForCausalLM

    shutil.copytree(builtin_path(), folder, ignore=shutil.ignore_patterns("*.safetensors", "*.gguf"))
    torch.manual_seed(0)
    config = AutoConfig.from_pretrained(builtin_path(), max_position_embeddings=2 * CONTEXT)
    LlamaForCausalLM(config).save_pretrained(folder)
    file = folder / "long.gguf"
    export(folder, file, "Q8_0")
    return file


class Inside:
    """Seconds spent in llama_decode."""

    def __init__(self) -> None:
        self.seconds = 0.0
        lib = library()
        self._decode = lib.llama_decode
        lib.llama_decode = self.decode

    def decode(self, *args: Any) -> Any:
        begun = time.perf_counter()
        try:
            return self._decode(*args)
        finally:
            self.seconds += time.perf_counter() - begun


def tree(leaves: int, depth: int) -> tuple[list[int], list[int]]:
    """A root, and `leaves` chains of `depth` nodes below it."""
    tokens, parents = [9], [ROOT]
    for leaf in range(leaves):
        parent = 0
        for level in range(depth):
            parents.append(parent)
            parent = len(tokens)
            tokens.append(10 + leaf + 40 * level)
    return tokens, parents


def overhead(model: LlamaModel, steps: int, depth: int, accepted: int) -> dict[str, float]:
    """Milliseconds of a step (evaluate, choose, commit) and of the session's part in it."""
    inside = Inside()
    session = model.open_session(CONTEXT + 1024)
    session.prefill([(7 * i) % 2000 + 8 for i in range(CONTEXT)])
    tokens, parents = tree(LEAVES, depth)
    whole, own, commits = [], [], []
    for step in range(steps + 3):
        inside.seconds = 0.0
        begun = time.perf_counter()
        scores = session.evaluate(tokens, parents)
        evaluated = time.perf_counter()
        scores.choose(GREEDY)
        chosen = time.perf_counter()
        # A branch in the middle wins, so that every other id has to change sides.
        branch = 1 + depth * (step % LEAVES)
        session.commit([0, *range(branch, branch + accepted)])
        done = time.perf_counter()
        if step >= 3:
            whole.append(evaluated - begun + done - chosen)
            own.append(whole[-1] - inside.seconds)
            commits.append(done - chosen)
        session.rewind(CONTEXT)
    session.close()
    library().llama_decode = inside._decode
    ms = {name: 1000 * statistics.median(times) for name, times in (("pass", whole), ("own", own), ("commit", commits))}
    return {"nodes": len(tokens), "accepted": accepted, **ms, "share": ms["own"] / ms["pass"]}


def greedy_ratio(file: Path, threads: int, pairs: int, tokens: int = 128) -> dict[str, float]:
    """Tokens/s of our greedy over create_completion's, median of interleaved pairs."""
    lib = library()
    defaults = lib.llama_model_default_params

    def same() -> Any:
        params = defaults()
        params.use_extra_bufts = b"AMX_INT8 = 1" not in lib.llama_print_system_info()
        return params

    lib.llama_model_default_params = same
    theirs: Any = llama_cpp.Llama(str(file), n_ctx=2048, n_threads=threads, n_threads_batch=threads, verbose=False)
    lib.llama_model_default_params = defaults
    model = load_llama(file, "builtin", LoadOptions(device="cpu", threads=threads))
    prompt = model.encode_chat([{"role": "user", "content": "Write a long story about a fox and a crow in the forest."}])
    ratios, ours_rate, their_rate = [], [], []
    # EOS would end the answers at different places after a near tie.
    bias = dict.fromkeys(model.info.eos_ids, -1000000000.0)
    for pair in range(pairs + 1):
        rates = []
        for turn in (0, 1) if pair % 2 else (1, 0):
            if turn:
                conversation = Conversation(model)
                generation = Generation(conversation, prompt, "greedy", max_tokens=tokens)
                generation._eos = frozenset()
                begun = time.perf_counter()
                count = sum(len(step.tokens) for step in generation)
                rate = count / (time.perf_counter() - begun)
                conversation.close()
            else:
                theirs.reset()
                begun = time.perf_counter()
                made = theirs.create_completion(prompt, max_tokens=tokens, temperature=0, logit_bias=bias)
                rate = made["usage"]["completion_tokens"] / (time.perf_counter() - begun)
            rates.append((turn, rate))
        if pair:
            by_turn = dict(rates)
            ours_rate.append(by_turn[1])
            their_rate.append(by_turn[0])
            ratios.append(by_turn[1] / by_turn[0])
    median = statistics.median
    return {"ours": median(ours_rate), "create_completion": median(their_rate), "ratio": median(ratios), "pairs": len(ratios)}


def main() -> None:
    """Print both figures as JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--pairs", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as room:
        file = long_model(Path(room) / "long")
        model = load_llama(file, "long", LoadOptions(device="cpu", threads=options.threads, context=CONTEXT + 1024))
        for depth, accepted in ((1, 0), (1, 1), (3, 0), (3, 3)):
            print(json.dumps({"overhead": overhead(model, options.steps, depth, accepted)}), flush=True)
        builtin = Path(room) / "builtin.gguf"
        export(builtin_path(), builtin, "Q8_0")
        print(json.dumps({"greedy": greedy_ratio(builtin, options.threads, options.pairs)}), flush=True)


if __name__ == "__main__":
    main()
