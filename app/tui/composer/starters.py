"""Prompts to start a chat with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Starter:
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
        "Write a list with bullets",
        "only the bullets are new",
        "Write this as a bulleted list: apple, pear, plum, cherry",
    ),
    Starter(
        "Turn it into a JSON array",
        "only the quotes are new",
        "Turn this into a JSON array: lantern, compass, telescope, notebook",
    ),
    Starter(
        "Make a table",
        "the rows look alike",
        "Make a table with the columns Name and Age:\nAnna: 31\nBruno: 45\nClara: 28",
    ),
    Starter(
        "Rename a variable in Python code",
        "a copy with small changes",
        "Rename the variable total to result:\ndef add(total, price):\n    total = total + price\n    return total",
    ),
    Starter(
        "Find the dates in a text",
        "copied from three places",
        "Extract the dates: The lamp was made on 4 June 1962. On 12 March 2021, Clara left. Bruno arrived on 3 May 2022.",
    ),
    Starter(
        "Ask about a text",
        "a short answer in a pass or two",
        "Anna is a baker from Lisbon. Bruno lives in Vienna and owns a red boat. On Friday, Clara travels to Rome.\n\n"
        "What does Bruno own?",
    ),
)
"""For every model that answers messages: most of each answer is in the prompt."""

BUILTIN_STARTERS = (
    Starter("Explain speculative decoding", "new text: little to copy", "What is speculative decoding?"),
    Starter("Tell a story about a fox", "open text: harder to guess", "Tell me a story about a fox."),
)
"""Further ones for the built-in model, which has learned to answer these."""

OWN_STARTERS = (
    Starter("Explain a rainbow", "new text: little to copy", "Explain in five sentences how a rainbow forms."),
    Starter("Plan a week of dinners", "a pattern, filled in", "Plan a dinner for each day of a week, with the ingredients."),
)
"""Further ones for other models."""

OPENINGS = (
    Starter("A story", "open text: harder to guess", "Once upon a time, in a small town by the sea, there lived"),
    Starter(
        "The same lines once more",
        "the text is there already",
        "The lighthouse stood on the northern rock. Every evening Ana climbed the stairs and lit the lamp.\n\n"
        "The lighthouse stood on the northern rock. Every evening",
    ),
    Starter("A list", "only the names are new", "Rivers of Europe:\n- Danube\n- Rhine\n- Loire\n-"),
    Starter(
        "A table in HTML",
        "the rows look alike",
        "<table>\n<tr><td>Anna</td><td>31</td></tr>\n<tr><td>Bruno</td><td>45</td></tr>\n<tr><td>Clara</td>",
    ),
    Starter("Translate, by examples", "a pattern to follow", "English: bread\nFrench: pain\n\nEnglish: water\nFrench:"),
    Starter(
        "A question, by examples",
        "a short answer, then a new question",
        "Q: What is the capital of Italy?\nA: Rome\n\nQ: What is the capital of Austria?\nA:",
    ),
    Starter("A Python function", "code: easy to guess", 'def is_prime(n):\n    """Return whether n is a prime number."""\n'),
    Starter("A recipe", "headings and a list", "# Tomato soup\n\n## Ingredients\n\n-"),
    Starter("A letter", "open text: harder to guess", "Dear Ana,\n\nthank you for your letter from Lisbon."),
)
"""Beginnings for a base model, which would only continue an instruction."""

TOUR = Starter("Take the tour", "30 seconds, live", "/tour")
"""Stands before the starters; its prompt is a command."""

TITLE_WIDTH = max(len(starter.title) for starter in (*STARTERS, *BUILTIN_STARTERS, *OWN_STARTERS, *OPENINGS))
"""Cells of the longest title."""


def starters_for(base: bool, *, builtin: bool) -> tuple[Starter, ...]:
    """Choose the prompts for a base model, the built-in one, or another that answers messages."""
    return OPENINGS if base else (*STARTERS, *(BUILTIN_STARTERS if builtin else OWN_STARTERS))
