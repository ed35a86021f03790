"""How near the verdict below an answer comes to the truth: its ratio beside that of two whole answers, plain and not.

    python -m benchmarks.verdict_truth [--pairs 10] [--tokens 128] [--backend transformers llama.cpp] [--methods lookup draft]

The built-in model answers each prompt plainly and with a method in turn, one thread. The verdict is what the chat would say of
the method's answer; the truth is the ratio of the two answers' seconds per token, the median over all pairs. Prints how many
verdicts give a ratio, and how far half of them are from the truth.
"""

from __future__ import annotations

import argparse
from statistics import median, quantiles

from specchat.app.chat.entries import Answer
from specchat.engine.client import EngineClient

PROMPTS = (
    "What is a KV cache?",
    "Repeat this text exactly: "
    + "The lamp on the northern rock was lit each evening by Ana, who wrote down the weather. " * 3,
)
METHODS = ("lookup", "draft", "early-exit", "fusion", "recompute")


def answered(client: EngineClient, prompt: str, method: str, tokens: int) -> Answer:
    """An answer, its lane closed before."""
    client.close_lane("main")
    answer = Answer(method, "")
    id = client.generate(prompt, method=method, max_tokens=tokens, compare=True)
    while not answer.done:
        if (event := client.wait(60)) is not None and getattr(event, "id", 0) == id:
            answer.take(event)
    return answer


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--backend", nargs="+", default=["transformers", "llama.cpp"])
    options = parser.parse_args()
    for backend in options.backend:
        with EngineClient() as client:
            client.load("builtin", device="cpu", threads=1, backend=backend)
            for prompt in PROMPTS:
                for method in options.methods:
                    answered(client, prompt, method, options.tokens)
                    told, true = [], []
                    for _ in range(options.pairs):
                        plain = answered(client, prompt, "greedy", options.tokens).figures
                        other = answered(client, prompt, method, options.tokens).figures
                        told.append(other.speedup)
                        true.append(other.timed_tokens / other.timed_seconds * plain.timed_seconds / plain.timed_tokens)
                    said = [ratio / median(true) - 1 for ratio in told if ratio] or [0.0]
                    low, _, high = quantiles(said * 2, n=4)
                    print(
                        f"{backend:12} {prompt[:6]} {method:10} {other.timed:3} passes: truth {median(true):5.2f}×, "
                        f"{sum(map(bool, told))} of {len(told)} verdicts, half of them {low:+.0%} to {high:+.0%} off",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
