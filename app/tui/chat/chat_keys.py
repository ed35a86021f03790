"""The keys that matter for the user's current task, and those of the transcript."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from textual.content import Content

from ....errors import UserError
from ...chat.dialogue import Dialogue
from ...chat.entries import Prompt
from ...settings import actions
from ...settings.keymap import shown_keys
from ...text.cells import fit, one_line
from ..actions.dispatch import runs
from ..actions.switch import check_name
from ..composer.box import PromptInput
from ..host import Host
from ..keys import KeyContext, hints
from ..transcript.rows import LineView
from ..transcript.view import TranscriptView

METHODS = (("next_method", ""), ("method_menu", ""))
LOOK = (("inspect", ""), ("panels", ""), ("colours", ""))
ALWAYS = (("leader", ""), ("help", ""), ("quit", ""))
"""Keys at the end of each context."""


def chat_keys(dialogue: Dialogue, box: PromptInput, view: TranscriptView, *, editing: bool, offer: bool) -> KeyContext:
    """Choose the keys that matter for the user's current task."""
    if view.cursor.active:
        return _looking(dialogue, view)
    if box.offering:
        offered = (("history_back history_forward", "choose"), ("complete", "take"), ("cancel", "close"), ("send", "run"))
        return KeyContext("A name or a command", hints(*offered, *ALWAYS), box)
    if box.text.startswith("/"):
        return KeyContext("A command", hints(("send", "run"), ("complete", ""), *ALWAYS), box)
    if dialogue.busy:
        return _answering(dialogue, box)
    if dialogue.queued is not None:
        return KeyContext("A message is waiting", hints(("cancel", "take it back"), *METHODS, *ALWAYS), box)
    if box.text:
        back = [("cancel", "stop editing")] if editing else []
        written = (*METHODS, ("race", ""), ("editor", ""))
        name = "Editing a message" if editing else "Writing a message"
        return KeyContext(name, hints(("send", ""), ("newline", ""), *back, *written, *ALWAYS), box)
    if view.mark.entry is not None:
        repeat = ("edit", "") if isinstance(view.mark.entry, Prompt) else ("retry", "")
        marked = (("copy_answer", ""), repeat, ("message_before message_after", "others"), ("cancel", "done"))
        return KeyContext("A message is marked", hints(*marked, *ALWAYS), box)
    return _idle(dialogue, box, offer)


def _looking(dialogue: Dialogue, view: TranscriptView) -> KeyContext:
    moves = ("inspect_previous inspect_next inspect_above inspect_below", "other passes")
    steps = [("step", ""), ("pause", "continue")] if dialogue.paused and dialogue.busy else []
    far = ("inspect_first inspect_last", "first and last pass")
    look = (("cancel", "back"), ("panels", ""), far, ("colours", ""))
    return KeyContext("Inspecting a pass", hints(moves, *steps, *look, *ALWAYS), view)


def _answering(dialogue: Dialogue, box: PromptInput) -> KeyContext:
    if dialogue.paused:
        steps = (("step", ""), ("pause", "continue"), ("cancel", "stop"))
        return KeyContext("An answer is paused", hints(*steps, *METHODS, *LOOK, *ALWAYS), box)
    more = (("step", ""), ("draft_shorter draft_longer", "draft length"))
    slowed = [("pace", "")] if dialogue.pace else []
    now = (("cancel", "stop"), METHODS[0], *slowed, METHODS[1], ("pause", ""))
    return KeyContext("An answer is being written", hints(*now, *LOOK, *more, *ALWAYS), box)


def _idle(dialogue: Dialogue, box: PromptInput, offer: bool) -> KeyContext:
    help = ("ask_help", "")
    if dialogue.transcript.has_messages:
        more = [("go_on", "")] if dialogue.completes else []
        done = (("next_method", ""), ("inspect", ""), ("race", ""), ("new_chat", ""), ("leader", ""), ("method_menu", ""))
        seldom = (("panels", ""), ("copy_answer", ""), ("retry", ""), ("compare", ""), ("edit", ""), ("quit", ""))
        return KeyContext("In a chat", hints(help, *more, *done, *seldom), box)
    tour = [("send", "tour")] if offer else []
    rest = (("race", ""), ("leader", ""), ("models", ""), ("chats", ""), ("theme_menu", ""), ("quit", ""))
    return KeyContext("A new chat", hints(help, *tour, *METHODS, *rest), box)


@dataclass(eq=False)
class TranscriptKeys:
    """Scrolls, marks, inspects and searches the transcript."""

    _host: Host
    _marked: Callable[[], None]

    @runs(actions.MARKDOWN)
    def markdown(self) -> None:
        view = self._host.view
        if view.cursor.active:
            self.inspect()
        view.markdown = not view.markdown
        what = "finished answers as Markdown" if view.markdown else "answers coloured by pass"
        keys = shown_keys("markdown", self._host.live.keymap)
        self._host.flash(Content.assemble((what, "$foreground"), "   ", (keys, "bold"), (" changes it", "$quiet")))

    @runs(actions.THOUGHTS)
    def thoughts(self, *words: str) -> None:
        """Open or fold the thought of the marked answer, else of the last; with a word, show all thoughts that way."""
        view = self._host.view
        if words:
            self._host.live.keep({"thoughts": check_name("way to show thoughts", words[0], actions.THOUGHTS.words)})
        elif not view.fold():
            self._host.tell("There is no thought in this chat yet.")

    @runs(actions.INSPECT)
    def inspect(self) -> None:
        """Inspect passes one by one, without Markdown, or return to the input box."""
        cursor = self._host.view.cursor
        if cursor.active:
            cursor.stop()
            self._host.box.focus()
        elif not cursor.start():
            self._host.tell("There is nothing to inspect yet. Ask something first.")

    @runs(actions.MESSAGE_BEFORE, -1)
    @runs(actions.MESSAGE_AFTER, 1)
    def jump(self, step: int) -> None:
        mark = self._host.view.mark
        place = mark.move(step)
        self._marked()
        if place is not None:
            self._host.flash(Content.styled(f"message {place[0]} of {place[1]}", "$foreground"))
        elif step < 0:
            self._host.tell("There are no more messages that way.")
        else:
            mark.clear()

    @runs(actions.FIND)
    def find(self, *words: str) -> None:
        """Select the last match of a text; without words, the match before it, or ask for a text."""
        finder = self._host.view.finder
        text = words[0] if words else finder.text
        if not text:
            self._host.box.bring("/find ")
            self._host.box.focus()
            return
        quote = fit(one_line(text), 40)
        if (place := finder.find(text)) is None:
            raise UserError(f"This chat does not contain “{quote}”. /chats {quote} searches all of them.")
        more = f" {shown_keys('find', self._host.live.keymap)} goes to the one before." if place[1] > 1 else ""
        self._host.tell(f"Match {place[0]} of {place[1]} for “{quote}”.{more}")

    @runs(actions.SCROLL_UP, -1)
    @runs(actions.SCROLL_DOWN, 1)
    def scroll_page(self, direction: int) -> None:
        """Scroll the transcript, or the focused side panel, by a page less two rows, so that the eye finds its place."""
        view, focused = self._host.view, self._host.view.screen.focused
        target = focused if isinstance(focused, LineView) else view
        target.scroll_relative(y=direction * max(1, target.size.height - 2), animate=False)

    @runs(actions.SCROLL_TOP)
    def scroll_top(self) -> None:
        self._host.view.scroll_home(animate=False)

    @runs(actions.SCROLL_END)
    def scroll_end(self) -> None:
        self._host.view.follow()
