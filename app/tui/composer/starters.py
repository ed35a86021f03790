"""Prompts to start a chat with."""

from __future__ import annotations

from typing import NamedTuple


class Starter(NamedTuple):
    """A prompt to start with, and why to try it."""

    title: str
    why: str
    prompt: str


STARTERS = (
    Starter(
        "Repeat a paragraph word for word",
        "the answer is in the prompt",
        "Repeat this text exactly: The lighthouse stood on the northern rock. Every evening Ana climbed the stairs, lit the "
        "lamp and wrote the weather into a book. Every morning she put out the lamp and rowed to the village for bread.",
    ),
    Starter(
        "Rename a variable in Python code",
        "a copy with small changes",
        "Rename the variable total to result:\ndef add(total, price):\n    total = total + price\n    return total",
    ),
    Starter("Explain speculative decoding", "new text: little to copy", "What is speculative decoding?"),
)
"""For a model that answers messages, the built-in one included."""

OPENINGS = (
    Starter("A story", "open text: harder to guess", "Once upon a time, in a small town by the sea, there lived"),
    Starter("A list", "only the names are new", "Rivers of Europe:\n- Danube\n- Rhine\n- Loire\n-"),
    Starter("A Python function", "code: easy to guess", 'def is_prime(n):\n    """Return whether n is a prime number."""\n'),
)
"""Beginnings for a base model, which would only continue an instruction."""

TOUR = Starter("Take the tour", "30 seconds, live", "/tour")
"""Stands before the starters; its prompt is a command."""

TITLE_WIDTH = max(len(starter.title) for starter in (*STARTERS, *OPENINGS))
"""Cells of the longest title."""
