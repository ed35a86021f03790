"""How near the verdict below an answer comes to the truth: its ratio beside that of two whole answers, plain and not.

    python -m benchmarks.verdict_truth [--pairs 10] [--tokens 128] [--backend transformers llama.cpp]

For each prompt and method the built-in model answers plainly and with the method in turn, one thread. The verdict takes the
method's answer and some plain steps at its end (`Generation.plain_seconds`); the truth is the ratio of the two answers' seconds
per token. Prints both medians, and how far single verdicts are from the median truth.
"""

from __future__ import annotations

import argparse
from statistics import median, quantiles

from specchat.backends import LoadOptions, load_model
from specchat.decoders.conversation import Conversation
from specchat.decoders.loop import Generation, encode_prompt
from specchat.engine.lanes import PLAIN_SECONDS, PLAIN_STEPS

PROMPTS = (
    "What is a KV cache?",
    "Repeat this text exactly: "
    + "The lamp on the northern rock was lit each evening by Ana, who wrote down the weather. " * 3,
    "Write a story about a lighthouse.",
)
METHODS = ("lookup", "draft", "early-exit", "fusion", "auto", "recompute")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--backend", nargs="+", default=["transformers", "llama.cpp"])
    options = parser.parse_args()
    for backend in options.backend:
        load = LoadOptions(device="cpu", threads=1, backend=backend)
        conversation = Conversation(load_model("builtin", load), draft_model=load_model("builtin-draft", load))
        for text in PROMPTS:
            prompt = encode_prompt(conversation.model, text)

            def answer(method: str, prompt: list[int] = prompt, conversation: Conversation = conversation) -> Generation:
                conversation.forget()
                generation = Generation(conversation, prompt, method, max_tokens=options.tokens)
                for _ in generation:
                    pass
                return generation

            for method in options.methods:
                answer(method)
                told, true = [], []
                for _ in range(options.pairs):
                    plain, other = answer("greedy").totals, answer(method)
                    told.append(other.totals.speedup(other.plain_seconds(PLAIN_STEPS, PLAIN_SECONDS)))
                    true.append(other.totals.speedup(plain.timed_seconds / plain.timed_tokens))
                truth = median(true)
                low, _, high = quantiles([ratio / truth for ratio in told], n=4)
                print(
                    f"{backend:12} {text[:12]:12} {method:10} {other.totals.timed:3} passes: verdict {median(told):.2f}×, "
                    f"truth {truth:.2f}×; half of the verdicts are {low - 1:+.0%} to {high - 1:+.0%} off",
                    flush=True,
                )


if __name__ == "__main__":
    main()
