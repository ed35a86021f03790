"""Actions of the transcript: scrolling, jumping between messages, inspecting passes, Markdown, search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from textual.content import Content

from ....errors import UserError
from ...settings import actions
from ...settings.keymap import shown_keys
from ...text.cells import fit, one_line
from ..actions.dispatch import runs
from ..actions.switch import check_name
from ..host import Host
from ..transcript.rows import LineView


@dataclass(eq=False)
class TranscriptKeys:
    """Scrolls, marks, inspects and searches the transcript."""

    _host: Host
    _marked: Callable[[], None]

    @runs(actions.MARKDOWN)
    def markdown(self) -> None:
        view = self._host.view
        if view.cursor.by_keys:
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
        if cursor.by_keys:
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
