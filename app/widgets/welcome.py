"""What an empty chat shows: what this is, and a few prompts to start with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

STARTERS = (
    ("Copy this list, and add one more city: Lisbon, Oslo, Quito, Seoul, Tunis.", "copying: drafts pay best here"),
    ("Write a short story about a lighthouse keeper and a fox.", "prose: mostly one token at a time"),
    ("Rewrite this line in capitals: the quick brown fox jumps over the lazy dog.", "editing: in between"),
)
"""Prompts that show the difference between methods, with what to look for."""


class Welcome(VerticalScroll, can_focus=False):
    """Greets, explains in three lines, and offers starter prompts."""

    DEFAULT_CSS = """
    Welcome {
        align: center middle; height: 1fr; scrollbar-size-vertical: 1;
        & > Static { width: 76; max-width: 92%; height: auto; }
        & > #welcome-text { margin-bottom: 1; color: $quiet; }
        & > OptionList {
            width: 76; max-width: 92%; height: auto; background: $background; border: none; padding: 0; overflow-x: hidden;
            &:focus { border: none; background-tint: $background 0%; }
            & > .option-list--option { padding: 0 0 1 0; }
            & > .option-list--option-highlighted { background: $background; color: $foreground; text-style: none; }
            &:focus > .option-list--option-highlighted { background: $block-cursor-background; text-style: none; }
            & > .option-list--option-hover { background: $surface; }
        }
        &:nocolor OptionList:focus > .option-list--option-highlighted { text-style: reverse; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = []

    @dataclass
    class Chosen(Message):
        """A starter prompt was picked."""

        text: str

    def compose(self) -> ComposeResult:
        """Title, text, prompts."""
        yield Static(title(), id="welcome-title")
        yield Static(
            Content.assemble(
                "A chat that shows how the model decodes. Tokens that came out of one forward pass share a colour; ",
                ("ctrl+n", "bold $foreground"),
                " changes the method, even in the middle of an answer, and the text stays the same.",
            ),
            id="welcome-text",
        )
        options = [
            Option(Content.assemble(("› ", "$accent"), (text, "$foreground"), (f"\n  {why}", "$quiet")), id=str(i))
            for i, (text, why) in enumerate(STARTERS)
        ]
        yield OptionList(*options, id="starters")

    @on(OptionList.OptionSelected)
    def _picked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.post_message(self.Chosen(STARTERS[event.option_index][0]))


def title() -> Content:
    """The name, in run colours."""
    runs = (("spec", 0), ("chat", 1))
    return Content.assemble(
        *((part, f"bold $run-{i} on $run-{i}-tint") for part, i in runs),
        ("  every token, how it came about\n", "$quiet"),
    )
