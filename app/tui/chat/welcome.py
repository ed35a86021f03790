"""The welcome of an empty chat: what this is, and a few prompts to start with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from ...chat.entries import ChatEntry, Notice, Severity
from ...settings.keymap import MENU, shown_keys
from ...theming.colouring import INKS
from ..keys.context import KeyContext, bindings_of, hints


@dataclass(frozen=True, slots=True)
class Starter:
    """A prompt to start with, and what there is to see."""

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
"""Prompts whose answers are mostly in them, for every model that answers messages."""

BUILTIN_STARTERS = (
    Starter("Explain speculative decoding", "new text: little to copy", "What is speculative decoding?"),
    Starter("Tell a story about a fox", "open text: harder to guess", "Tell me a story about a fox."),
)
"""Those that follow for the built-in model, which has learned to answer these."""

OWN_STARTERS = (
    Starter("Explain a rainbow", "new text: little to copy", "Explain in five sentences how a rainbow forms."),
    Starter("Plan a week of dinners", "a pattern, filled in", "Plan a dinner for each day of a week, with the ingredients."),
)
"""Those that follow for others."""

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
"""Beginnings for a base model, which goes on from a text: an instruction it would only continue."""

TOUR = Starter("Take the tour", "30 seconds, live", "/tour")
"""Stands before the starters; no prompt, but the command."""

STYLES: dict[Severity, str] = {"information": "italic $quiet", "warning": "$warning", "error": "$error"}
"""Severity of a notice → its style."""

DIGITS = "1234567890"
"""Digits of the rows, in order."""

TITLE_WIDTH = max(len(starter.title) for starter in (*STARTERS, *BUILTIN_STARTERS, *OWN_STARTERS, *OPENINGS))
"""Columns of the titles, so that the reasons stand below each other."""


def starters_for(base: bool, *, builtin: bool) -> tuple[Starter, ...]:
    """Prompts for a base model, the built-in one, or another that answers messages."""
    return OPENINGS if base else (*STARTERS, *(BUILTIN_STARTERS if builtin else OWN_STARTERS))


class Welcome(VerticalScroll, can_focus=False):
    """The welcome of an empty chat: three lines, and prompts to start with."""

    DEFAULT_CSS = """
    Welcome {
        align: center middle; height: 1fr; scrollbar-size-vertical: 1; padding: 1 0;
        & > Static { width: 76; max-width: 92%; height: auto; }
        & > #welcome-text { margin-bottom: 1; color: $quiet; }
        & > #welcome-offer, & > #welcome-notices { margin-bottom: 1; }
        & > OptionList {
            width: 76; max-width: 92%; height: auto; background: $background; border: none; padding: 0; overflow-x: hidden;
            text-wrap: nowrap; text-overflow: ellipsis;
            &:focus { border: none; background-tint: $background 0%; }
            & > .option-list--option { padding: 0; }
            & > .option-list--option-highlighted { background: $background; color: $foreground; text-style: none; }
            &:focus > .option-list--option-highlighted { background: $block-cursor-background; text-style: none; }
            & > .option-list--option-hover { background: $surface; }
        }
    }
    """
    # Only while the starters have the focus.
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_of(key for key in MENU if key.id != "menu_leave"),
        *(Binding(key, f"pick({at})", priority=True, show=False, tooltip=f"Starter {key}") for at, key in enumerate(DIGITS)),
    ]

    @dataclass
    class Chosen(Message):
        """A starter was picked."""

        text: str

    def __init__(self, keymap: Mapping[str, str], offer: bool = False, *, tiny: bool = True, id: str | None = None) -> None:
        super().__init__(id=id)
        self._keymap = keymap
        self._offer, self._tiny, self._base = offer, tiny, False
        self._notices: tuple[ChatEntry, ...] = ()

    def compose(self) -> ComposeResult:
        notices = Static(id="welcome-notices")
        notices.display = False
        yield notices
        letters = ("spec", f"bold {INKS['heat-3'].style}"), ("chat", f"bold {INKS['heat-5'].style}")
        yield Static(Content.assemble(*letters, ("  see how every token is decoded\n", "$quiet")), id="welcome-title")
        yield Static(self._what(), id="welcome-text")
        if self._offer:
            offer = (
                ("New here? Press ", "$foreground"),
                ("enter", "bold $accent"),
                (" for the tour, or just type.", "$foreground"),
            )
            yield Static(Content.assemble(*offer), id="welcome-offer")
        yield Static(self._how(), id="welcome-how")
        yield OptionList(*self._options(), id="starters")

    @property
    def rows(self) -> tuple[Starter, ...]:
        """What is offered: the tour, and what suits the model."""
        return (TOUR, *starters_for(self._base, builtin=self._tiny))

    def _options(self) -> list[Option]:
        return [
            Option(
                Content.assemble(
                    (f"{DIGITS[i : i + 1]:2}", "$quiet"),
                    (f"{starter.title:<{TITLE_WIDTH}}", "$foreground"),
                    (f"  {starter.why}", "$quiet"),
                ),
                id=str(i),
            )
            for i, starter in enumerate(self.rows)
        ]

    def _what(self) -> Content:
        if self._base:
            return Content.assemble(
                "This is a base model: it goes on from a text, and answers no messages. Type a beginning; ",
                (shown_keys("go_on", self._keymap), "bold $foreground"),
                " lets it write more. The stronger the colour, the more tokens came out of one pass.",
            )
        return Content.assemble(
            "A chat that shows how the model decodes. The stronger the colour, the more tokens came out of one pass; ",
            ("ctrl+n", "bold $foreground"),
            " changes the method, even in the middle of an answer, and the text stays the same.",
        )

    def _how(self) -> Content:
        model = " · builtin is a tiny demo model" if self._tiny else ""
        return Content.assemble(("Try one: ", "$quiet"), ("tab", "bold $foreground"), (f", then its number{model}", "$quiet"))

    def model_is(self, tiny: bool, base: bool) -> None:
        """Another model is loaded; `tiny`: the built-in one; `base`: one that goes on from a text."""
        if (tiny, base) == (self._tiny, self._base):
            return
        self._tiny, self._base = tiny, base
        self.query_one("#welcome-text", Static).update(self._what())
        self.query_one("#welcome-how", Static).update(self._how())
        self.choices.set_options(self._options())

    def tell(self, notices: tuple[ChatEntry, ...]) -> None:
        """Show what there is to say of the settings and the model, above everything else."""
        if notices == self._notices:
            return
        self._notices = notices
        shown = self.query_one("#welcome-notices", Static)
        shown.display = bool(notices)
        lines = [Content.styled(each.text, STYLES[each.severity]) for each in notices if isinstance(each, Notice)]
        shown.update(Content("\n").join(lines))

    def end_offer(self) -> None:
        self.query("#welcome-offer").remove()

    @property
    def choices(self) -> OptionList:
        return self.query_one(OptionList)

    @property
    def key_context(self) -> KeyContext:
        keys = (("menu_above menu_below", "choose"), ("menu_choose", "ask"), ("cancel", "back"), ("help", ""), ("quit", ""))
        return KeyContext("The starters: a digit asks at once", hints(*keys), self)

    def action_choose(self) -> None:
        self.choices.action_select()

    def answers(self, text: str) -> bool:
        """Ask by a digit that was sent as a message: whoever reads a numbered list types one. False if it is none, or out of
        view."""
        digit = text.strip()
        if not self.display or len(digit) != 1 or digit not in DIGITS:
            return False
        self.action_pick(DIGITS.index(digit))
        return True

    def action_pick(self, at: int) -> None:
        if at < len(self.rows):
            self.post_message(self.Chosen(self.rows[at].prompt))

    @on(OptionList.OptionSelected)
    def _picked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.post_message(self.Chosen(self.rows[event.option_index].prompt))
