"""The chat's screen: header, transcript, figures, input box and keys, and the actions that concern it alone."""

from __future__ import annotations

from contextlib import suppress
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal, Vertical
from textual.content import Content
from textual.css.query import NoMatches
from textual.screen import Screen
from textual.widgets import Static

from ....engine.options import BUILTIN
from ....errors import NotPossible, UserError
from ...attach.attachments import attach, compose
from ...chat.dialogue import Busy
from ...render.inspection import strip_rows
from ...render.thoughts import parse_thoughts
from ...render.why_page import change_notice, no_change_notice
from ...settings import actions
from ...settings.keymap import CHAT, shown_keys
from ...terminal.piped import NAME
from ...text.cells import FOLDED
from ...theming.colouring import Colouring, effective, legend_line, parse_colouring
from ..actions.complete import Suggestions
from ..actions.copy import Copier
from ..actions.dispatch import Actions, command_of, is_command, runs
from ..actions.recall import PromptRecall
from ..actions.rewrite import MessageEdit
from ..actions.switch import check_name, lengthen
from ..composer.box import ASK, BEGIN, PromptInput
from ..composer.completion import Completion
from ..composer.starters import TOUR, Starter
from ..host import Host
from ..keys import KeyBar, KeyContext, bindings_of, hints
from ..tour import Caption, TourStart
from ..transcript.view import TranscriptView
from .chat_keys import ALWAYS, TranscriptKeys, chat_keys
from .side_panel import PAGES, SidePanel
from .widgets import ChatHeader, Inspector, StatusLine, Welcome


class Dock(Vertical):
    """Widgets below the transcript. Notices lie on its first row, above the input box."""

    def on_resize(self) -> None:
        rows = self.screen.size.height - self.region.y - self.query_one(StatusLine).display
        for rack in self.screen.query("ToastRack"):
            rack.styles.margin = (0, 0, max(0, rows), 0)


class ChatScreen(Screen[None]):
    """The screen of the chat."""

    AUTO_FOCUS = "#input"
    # Textual declares these as an instance's.
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-short"), (10, "-low"), (16, "-tall")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = bindings_of(CHAT)

    def __init__(
        self,
        host: Host,
        actions: Actions,
        message_edit: MessageEdit,
        copier: Copier,
        keep: bool = False,
        piped: str = "",
        tour: TourStart = "",
    ) -> None:
        super().__init__()
        self.host = host
        self.dialogue = host.dialogue
        self._keymap = host.live.keymap
        self._actions = actions
        self._message_edit = message_edit
        self._copier = copier
        self._piped = piped
        self._tour = tour
        self._quit_armed = False
        self.suggestions = Suggestions(host, lambda: self.query_one(Completion), message_edit.files)
        self.recall = PromptRecall(host, keep)
        self.transcript_keys = TranscriptKeys(host, self.show_key_context)

    def compose(self) -> ComposeResult:
        yield ChatHeader(self.dialogue, id="header")
        with Vertical(id="body"):
            with Container(id="stage"):
                yield Welcome(self._keymap, id="welcome")
                yield TranscriptView(self.dialogue.transcript, id="transcript")
                yield Inspector(self._keymap, id="inspector")
                yield Static(id="below")
            yield SidePanel(self.dialogue, self._keymap, id="panel")
            with Dock(id="dock"):
                yield Caption(id="caption")
                yield StatusLine(self.dialogue, self._keymap, id="status")
                yield Completion(id="completion")
                with Horizontal(id="composer"):
                    yield Static("›", id="glyph")
                    yield PromptInput(id="input")
        yield KeyBar(self._keymap, id="keys")

    def on_mount(self) -> None:
        self.input.submit = self._submit
        self.input.choose = self.suggestions.names.move
        self.input.complete = self._complete
        settings = self.host.live.settings
        self._set_colouring(parse_colouring(settings.colours))
        self.view.thoughts = parse_thoughts(settings.thoughts)
        self.panel.open("" if settings.panel == "off" else settings.panel)
        self.refresh_dialogue()
        if self._piped:
            self.input.put_paste(NAME, self._piped)
        self.call_after_refresh(self.recall.begin)
        if self._tour == "begin":
            self.call_after_refresh(self._actions.do, "tour")

    @property
    def input(self) -> PromptInput:
        return self.query_one("#input", PromptInput)

    @property
    def view(self) -> TranscriptView:
        return self.query_one("#transcript", TranscriptView)

    @property
    def panel(self) -> SidePanel:
        return self.query_one("#panel", SidePanel)

    def refresh_dialogue(self) -> None:
        if not self.children:  # the engine may be faster than the first frame; `on_mount` catches up
            return
        if self.dialogue.queued is not None and self.dialogue.phase in ("ready", "unloaded"):
            # The load it waited for has failed: back into the box, before any later text.
            self.input.put("\n".join(filter(None, (self.dialogue.take_queued(), self.input.text))))
        empty = not self.dialogue.transcript.has_messages and self.dialogue.phase != "unloaded"
        welcome = self.query_one(Welcome)
        if not empty and self._tour == "offer":  # once is enough
            self._tour = ""
        welcome.display = empty
        if empty:
            tiny, notices = self.dialogue.model == BUILTIN, self.dialogue.transcript.entries
            welcome.show(tiny=tiny, base=self.dialogue.completes, offer=self._tour == "offer", notices=notices)
        self.input.placeholder = BEGIN if self.dialogue.completes else ASK
        self.view.can_focus = not empty
        cursor = self.view.cursor
        stepping = self.dialogue.paused and cursor.active and cursor.at_end
        self.view.update_text()
        if stepping:
            cursor.move("last")
        cursor.at_end = cursor.on_last
        self.show_inspection()
        self.query_one("#header", ChatHeader).update()
        self.query_one("#status", StatusLine).update()
        self.panel.update()
        self.show_key_context()

    @property
    def key_context(self) -> KeyContext:
        if self.query_one(Caption).display:
            return KeyContext("The tour", hints(("cancel", "end the tour"), *ALWAYS), self.input)
        offer = self._tour == "offer" and bool(self.query_one(Welcome).display)
        return chat_keys(self.dialogue, self.input, self.view, editing=self._message_edit.active, offer=offer)

    def show_key_context(self) -> None:
        with suppress(NoMatches):  # some widgets are missing while the screen opens or closes
            self.query_one(KeyBar).key_context = self.key_context

    def _set_colouring(self, colouring: Colouring) -> Colouring:
        """Change how runs are coloured; return the colouring that this terminal shows."""
        self.view.colouring = self.panel.colouring = colouring
        visible = effective(colouring, self.app.no_color)
        self.query_one("#keys", KeyBar).colouring = self.query_one(StatusLine).colouring = visible
        return visible

    def recolour(self, colouring: Colouring) -> None:
        """Change how runs are coloured, and show the legend for a moment."""
        visible = self._set_colouring(colouring)
        self.panel.update(now=True)
        self.show_inspection()
        legend = legend_line(visible) or [("passes are not coloured", "$quiet")]
        self.host.flash(Content.assemble(("colours: ", "$quiet"), (colouring, "bold $foreground"), "   ", *legend))

    # The input box

    def _submit(self, text: str) -> None:
        if self.suggestions.take_chosen():
            return
        if is_command(text):
            if chip := next((chip for chip in self.input.pastes if chip in text), ""):
                name = chip.replace(FOLDED, "[")
                warning = f"A command cannot contain a folded paste. Put the cursor after {name} and press tab to unfold it."
                self.host.tell(warning, "warning")
                return
            self.input.take(text)  # before it runs, since it may put a text into the box
            try:
                self._actions.command(text)
            except UserError as error:
                self.host.refuse(error)
                self.refused(text, error)
            return
        if (starter := self.query_one(Welcome).pick(text)) is not None:
            self.input.take(text)
            self._begin_with(starter)
            return
        try:
            message = self._attach_files(text)
        except UserError as error:
            self.host.tell(f"Not sent; your message stays in the input box. {error}", "warning")
            return
        if self._message_edit.fits(text, message, self.send):
            self.send(text, message)
        else:
            self.host.expect_events()

    def _attach_files(self, draft: str) -> str:
        """Compose a message from a draft and the files and pastes that it names.

        Raises:
            UserError: a file cannot be attached.
        """
        unfolded, pastes = self.suggestions.unfold(draft)
        text, files = attach(unfolded)
        for file in files:
            if file.notice:
                self.host.tell(file.notice, "warning")
        return compose(text, [*files, *pastes])

    def refused(self, command: str, error: UserError) -> None:
        """Put a command back into the empty box, if correcting it or waiting may help."""
        if not isinstance(error, NotPossible) and not self.input.text:
            self.input.bring(command)

    def send(self, draft: str, message: str) -> None:
        """Send a message, and take its draft out of the input box."""
        if not self._message_edit.submit(message, draft):
            waiting = "A message is already waiting. Press esc to take it back."
            advice = waiting if self.dialogue.queued else "Press esc to stop the answer."
            self.host.refuse(Busy(f"Not sent; your message stays in the input box. {advice}"))
            return
        self.input.take(draft)
        self._message_edit.finish()
        self.view.mark.clear()
        self.refresh_dialogue()
        self.view.follow()
        self.host.expect_events()

    @on(PromptInput.Changed)
    def _typed(self, event: PromptInput.Changed) -> None:
        status = self.query_one(StatusLine)
        self.suggestions.offer()
        self.show_key_context()
        if self.input.chip():
            keys = Content.assemble(("tab", "bold"), (" shows the pasted text, ", "$quiet"), ("backspace", "bold"))
            status.hint(Content.assemble(keys, (" removes it", "$quiet")))
            return
        row = command_of(event.text_area.text[1:].partition(" ")[0])
        if row is None or not is_command(event.text_area.text):
            status.hint(None)
            return
        usage = Content.assemble((f"/{row.command} ", "bold $primary"), (row.arguments, "$foreground"))
        status.hint(Content.assemble(usage, "  " if row.arguments else " ", (row.what, "$quiet")))

    @on(Completion.Taken)
    def _take_clicked(self) -> None:
        self.suggestions.take()

    @on(PromptInput.Unused)
    def _unused(self, event: PromptInput.Unused) -> None:
        if event.key == "end":
            self.view.follow()
        elif event.key == "help":
            self.app.call_later(self._actions.do, "help")
        elif event.key == "enter" and self._tour == "offer" and self.query_one(Welcome).display:
            self._actions.do("tour")

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _focus_moved(self) -> None:
        self.show_key_context()

    def action_starter(self, number: str) -> None:
        """Begin with a prompt that was clicked, unless a message is being written."""
        if not self.input.text.strip() and (starter := self.query_one(Welcome).pick(number)) is not None:
            self._begin_with(starter)

    def _begin_with(self, starter: Starter) -> None:
        if starter == TOUR:
            self._actions.do("tour")
        elif self.dialogue.submit(starter.prompt):
            self.refresh_dialogue()
            self.host.expect_events()

    @on(TranscriptView.Followed)
    def _followed(self, event: TranscriptView.Followed) -> None:
        hint = self.query_one("#below", Static)
        if event.fresh or not hint.has_class("-shown"):
            keys = shown_keys("scroll_end", self._keymap)
            hint.update(Content.assemble("↓ new text  " if event.fresh else "↓ end  ", (keys, "bold")))
        # During inspection more text below is no news, unless it is fresh.
        useful = event.fresh or hint.has_class("-shown") or not self.view.cursor.active
        hint.set_class(not event.following and useful, "-shown")

    @on(TranscriptView.Inspected)
    def _inspected(self, event: TranscriptView.Inspected) -> None:
        self.show_inspection()
        cursor = self.view.cursor  # the event may be older than its position
        self.panel.select(cursor.answer or event.answer, cursor.spot.run if cursor.spot is not None else None)
        self.show_key_context()

    def show_inspection(self) -> None:
        """Show the strip about the inspected run, without covering the run."""
        strip, cursor, view = self.query_one(Inspector), self.view.cursor, self.view
        if cursor.answer is None:
            if strip.display:
                strip.display = False
                self.query_one("#below").styles.offset = (0, 0)
            return
        strip.tell(view, self.dialogue.pieces)
        self.query_one("#below").styles.offset = (0, -strip_rows(view.size.height))
        strip.display = True

    def on_click(self, event: events.Click) -> None:
        if event.widget is not None and event.widget.id == "below":
            self.view.follow()

    def on_key(self, event: events.Key) -> None:
        """Type into the input box from everywhere, unless the focused widget has the key."""
        if self.focused is self.input:
            return
        if event.is_printable and event.character:
            event.stop()
            event.prevent_default()
            self.input.focus()
            self.input.insert(event.character)

    def _complete(self) -> None:
        """Complete the word being typed, else unfold a paste, else move the focus to the next widget."""
        if not (self.suggestions.take() or self.input.unfold() or self.input.text.startswith("/")):
            self.focus_next()

    # Keys

    @runs(actions.CANCEL)
    def action_cancel(self) -> None:
        if self.suggestions.close():
            return
        if self.view.cursor.active:
            self.transcript_keys.inspect()
            return
        if self.focused is not self.input:
            self.input.focus()
        if not self.dialogue.busy and self._message_edit.leave():
            return
        if not self.dialogue.busy and self.selections:
            self.clear_selection()
            return
        if not self.dialogue.busy and self.view.mark.clear():
            self.show_key_context()
            return
        if self.dialogue.queued is not None and not self.input.text:
            self.input.put(self.dialogue.take_queued())
        elif self.dialogue.cancel():
            self.host.expect_events()
        self.refresh_dialogue()

    @runs(actions.INTERRUPT)
    def action_interrupt(self) -> None:
        """Ctrl+C: copy a selection, else stop the answer, else quit at the second press."""
        selected = self.input.selected_text or self.get_selected_text()
        if selected:
            self._copier.text(selected, "the selection")
        elif self.dialogue.cancel():
            self.refresh_dialogue()
        elif self._quit_armed:
            self.app.exit()
        else:
            self._quit_armed = True
            self.host.tell("Press ctrl+c again to quit.", until=lambda: not self._quit_armed)
            self.set_timer(2.0, self._disarm)

    def _disarm(self) -> None:
        self._quit_armed = False

    @runs(actions.PANELS)
    def action_panel(self, *words: str) -> None:
        """Open a page of the side panel, or close it with `off`; without words, the next of these."""
        if not words:
            self.panel.next()
            return
        page = check_name("panel", words[0], (*PAGES, "off"))
        self.panel.open("" if page == "off" else page)

    @runs(actions.WHY)
    def action_why(self) -> None:
        """Open the page on speed; if it is open, make the change that it proposes."""
        if self.panel.page != "speed":
            self.panel.open("speed")
            return
        diagnosis = self.panel.diagnosis()
        change = diagnosis.change if diagnosis is not None else None
        if change is None or not change.method or self.panel.in_force(diagnosis):
            self.host.tell(no_change_notice(diagnosis), until=lambda: self.panel.page != "speed")
            return
        self.dialogue.switch(change.method, dict(change.settings))
        self._show_change(change_notice(change))

    @runs(actions.DRAFT_SHORTER, -1)
    @runs(actions.DRAFT_LONGER, 1)
    def action_draft_length(self, direction: int) -> None:
        self._show_change(lengthen(self.dialogue, direction))

    def _show_change(self, sentence: str) -> None:
        self.host.flash(Content.styled(sentence, "bold $accent"))
        self.refresh_dialogue()
        self.panel.update(now=True)

    @runs(actions.REDO)
    def action_redo(self) -> None:
        self.input.action_redo()

    @runs(actions.QUIT)
    def action_quit(self) -> None:
        self.app.exit()
