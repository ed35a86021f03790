"""Prompts for tests of the decoding methods on the built-in model: fresh text, fixed by seed."""

from __future__ import annotations

import random

NAMES = "Ada Bruno Clara Dmitri Elena Farid Greta Hugo Ines Jonas Kira Luis Maya Nils Olga Pavel Rosa Sven Tara Umar".split()
THINGS = "lantern notebook kettle bicycle window garden letter ladder basket mirror pocket bridge carpet candle saddle".split()
PLACES = "harbour library station market orchard bakery museum valley workshop theatre kitchen meadow".split()
VERBS = "carried mended painted measured borrowed counted polished hid sold described".split()
TEXTS = (
    "Anna bought 12 apples and a red kite for $4.50. The train from Vienna to Rome leaves at 10:15 in the morning.",
    "The KV cache stores the keys and values of earlier tokens. Without it, every step would read the whole text again. "
    "That is why a long chat is still quick. Each new token costs only one small pass.",
    "Speculative decoding drafts several tokens cheaply and checks them with one pass of a larger model. The output is the "
    "same as before, but it arrives sooner. That is why people use it on laptops and servers alike.",
)
"""Texts that the built-in model repeats without a mistake."""
QUESTIONS = (
    "What is prompt lookup?", "Tell me a short story.", "What is a KV cache?", "Who are you?",
    "What does temperature do?", "Explain speculative decoding.", "What is the acceptance rate?", "What can you do?",
    "What is beam search?", "Write a story about a lighthouse.",
)  # fmt: skip


def passage(rng: random.Random, sentences: int) -> str:
    """Plain sentences with unlikely pairings, so that copying them takes copying."""
    out = []
    for _ in range(sentences):
        name, other = rng.sample(NAMES, 2)
        out.append(
            f"{name} {rng.choice(VERBS)} the {rng.choice(THINGS)} near the {rng.choice(PLACES)} "
            f"before {other} {rng.choice(VERBS)} {rng.randint(2, 99)} {rng.choice(THINGS)}s."
        )
    return " ".join(out)


def mixed_prompts(count: int) -> list[str]:
    """Half copying, half questions and stories."""
    rng, copied = random.Random(11), random.Random(11)
    copies = (f"Repeat this text exactly: {passage(copied, 4)}" for _ in range(count))
    return [
        next(copies) if i % 2 else rng.choice(QUESTIONS) + " " + rng.choice(("", "Please.", f"I am {rng.choice(NAMES)}."))
        for i in range(count)
    ]
