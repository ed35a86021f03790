"""What it costs an answer that its steps carry the target's probabilities: the built-in model, one thread, interleaved pairs.

    python -m specchat.benchmarks.probability_cost [--pairs 20] [--backend auto|transformers|llama.cpp]

Each pair is the same answer with and without, each step made into the message that leaves the engine. CPU seconds, which other
programs lengthen less than the clock's. Prints the median of the ratios with a 95 % interval (order statistics).
"""

from __future__ import annotations

import argparse
import time

from specchat.backends import LoadOptions, Model, load_model
from specchat.decoders.conversation import Conversation, encode_prompt
from specchat.decoders.loop import Generation
from specchat.engine.messages import Steps
from specchat.engine.wire import dump

from .step_cost import interval

PROMPTS = {
    "greedy": "What is a KV cache?",
    "lookup": "Repeat this text exactly: The lamp on the northern rock was lit each evening by Ana, who wrote down the wind.",
    "draft": "What is a KV cache?",
}
"""Method → a prompt that it has something to do with."""


def answer(conversation: Conversation, prompt: list[int], method: str, *, probs: bool) -> tuple[float, int]:
    """CPU seconds of an answer, and its steps."""
    conversation.forget()
    generation = Generation(conversation, prompt, method, max_tokens=128)
    generation.watch.on = probs
    begun = time.process_time()
    for step in generation:
        dump(Steps(1, [step]))
    return time.process_time() - begun, len(generation.totals.runs)


def measure(model: Model, draft: Model, method: str, pairs: int) -> str:
    """The ratio with / without, in words."""
    conversation = Conversation(model, draft_model=draft)
    prompt = encode_prompt(model, PROMPTS[method])
    steps = answer(conversation, prompt, method, probs=True)[1]
    ratios, least = [], []
    for number in range(pairs):
        found = {probs: answer(conversation, prompt, method, probs=probs)[0] for probs in (number % 2 == 0, number % 2 == 1)}
        ratios.append(found[True] / found[False])
        least.append(found[False] / steps * 1e3)
    conversation.close()
    return f"{interval(ratios)}; {steps} steps of {sorted(least)[pairs // 2]:.2f} ms"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--backend", nargs="*", default=["transformers", "llama.cpp"])
    options = parser.parse_args()
    for backend in options.backend:
        load = LoadOptions(device="cpu", threads=1, backend=backend)
        model, draft = load_model("builtin", load), load_model("builtin-draft", load)
        for method in PROMPTS:
            print(f"{backend} {method}: {measure(model, draft, method, options.pairs)}", flush=True)


if __name__ == "__main__":
    main()
