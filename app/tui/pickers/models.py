"""/models: every model on this machine and, by name, those on the Hub; what fits; who drafts for whom; downloads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from ....errors import UserError
from ...models import details as telling
from ...models.rows import NO_DRAFT, spaced
from ...models.view import EVERYTHING, REPOSITORY, Look, View
from ...settings.keymap import MODELS, display
from ...text.amounts import size_of
from ...text.cells import one_line
from .model_list import ModelList

if TYPE_CHECKING:
    from ...models.downloads import Download
    from ...models.hub import Offer
    from ...models.library import Found

POLL_SECONDS = 0.1
"""Between looks at what threads have found."""

PROGRESS_SECONDS = 0.25
"""Between two pictures of a download's progress."""

DETAILS = 5
"""Rows that tell about the model under the cursor."""


class ModelsScreen(ModalScreen[None]):
    """The picker of models. What is chosen is loaded, or fetched.

    Args:
        view: what there is to show.
        load: loads a model.
        watch_downloads: called when one is begun.
        keymap: binding id → keys, where not the default.
        query: what to search for to begin with; a name on the Hub is looked up.
    """

    DEFAULT_CSS = """
    ModelsScreen {
        align: center middle;
        background: $background 60%;
        & > Vertical {
            width: 108; max-width: 96%; height: 92%;
            background: $surface; border: round $border; padding: 1 0 0 0;
            border-title-color: $primary; border-title-style: bold; border-subtitle-color: $quiet;
        }
        & #models-search { height: 1; padding: 0 2; margin-bottom: 1; }
        & #models-glyph { width: auto; color: $accent; text-style: bold; }
        & #models-input {
            height: 1; width: 1fr; border: none; padding: 0; background: $surface; color: $foreground;
            &:focus { border: none; background-tint: $surface 0%; }
            & .input--placeholder { color: $faint; }
        }
        & #models-list { height: 1fr; }
        & #models-details { height: 6; padding: 0 2; border-top: solid $line; }
        & #models-note { height: auto; max-height: 2; padding: 0 2; color: $quiet; display: none; }
        & #models-note.-shown { display: block; }
        & #models-note.-wrong { color: $warning; }
    }
    """
    AUTO_FOCUS = "#models-input"
    BINDINGS: ClassVar[list[BindingType]] = [
        # What is typed fast goes through the box first: this key must not overtake it.
        Binding(key.keys, key.action, key.what, show=False, priority=key.id != "models_choose", id=key.id, tooltip=key.what)
        for key in MODELS
    ]

    def __init__(
        self,
        view: View,
        load: Callable[..., None],
        watch_downloads: Callable[[], None],
        keymap: Mapping[str, str],
        query: str = "",
    ) -> None:
        super().__init__()
        self._view, self.looking, self._downloads = view, view.looking, view.downloads
        self._load_model, self._watch_downloads, self._keymap, self._query = load, watch_downloads, keymap, query
        self._drawn = 0.0
        self._states: dict[str, str] = {}
        self._sure: Download | None = None

    @property
    def listing(self) -> ModelList:
        """The list."""
        return self.query_one("#models-list", ModelList)

    @property
    def box(self) -> Input:
        """What is searched for."""
        return self.query_one("#models-input", Input)

    def compose(self) -> ComposeResult:
        """A box to search in, the list, what there is to say about the model under the cursor."""
        with Vertical() as frame:
            frame.border_title = "Models"
            with Horizontal(id="models-search"):
                yield Static("› ", id="models-glyph")
                box = Input(
                    self._query, placeholder="Search, or owner/name on the Hub", id="models-input", select_on_focus=False
                )
                box.cursor_blink = False  # a blinking one would repaint the screen twice a second for nothing
                yield box
            yield ModelList(id="models-list")
            yield Static(id="models-details")
            yield Static(id="models-note")

    def on_mount(self) -> None:
        """Look for models."""
        self.set_interval(POLL_SECONDS, self._poll)
        self.action_again()
        if REPOSITORY.fullmatch(self._query):
            self._ask_hub(self._query)
        self._show()

    def on_unmount(self) -> None:
        """Threads need not go on."""
        self.looking.close()

    def _poll(self) -> None:
        """Take in what threads have found; draw a download's progress."""
        changed, downloads = self.looking.poll(), self._downloads
        states: dict[str, str] = {spec: download.state for spec, download in downloads.all.items()}
        if states != self._states:
            if any(state == "done" and self._states.get(spec, "done") != "done" for spec, state in states.items()):
                self.looking.scan()
            self._states, changed = states, True
        if changed and self._view.look.target is not None and not self.looking.scanning:
            self.looking.judge(self._view.look.target)
        if changed or (downloads.active and monotonic() - self._drawn >= PROGRESS_SECONDS):
            self._show()

    def _ask_hub(self, name: str) -> None:
        """Ask the Hub what it offers under a name."""
        name = name.partition(":")[0]
        self._view.look = Look(repository=name)
        self._say(f"Asking the Hub about {name} …")
        self.looking.ask_hub(name, self._answered)
        self._show()

    def _answered(self, sentence: str) -> None:
        if sentence:
            self._view.look = EVERYTHING
        self._say(sentence, wrong=bool(sentence))

    # What is shown

    def _show(self, key: object = None) -> None:
        """Draw what there is."""
        self._drawn = monotonic()
        listed = self.listing
        waiting = self.looking.scanning or self._view.look.repository
        listed.empty = "" if waiting else "No model here has that in its name: owner/name asks the Hub."
        if key is None and listed.row is None and self._view.look == EVERYTHING:
            key = self._view.loaded()
        listed.show(spaced(self._view.rows(self.box.value.strip()), listed.size.height), key)
        self._frame()

    def _frame(self) -> None:
        frame = self.query_one(Vertical)
        count = f" · {len(self.looking.found)}{' …' if self.looking.scanning else ''}" if self.looking.found else ""
        frame.border_title = "Draft models" if self._view.look.target else "Models" + count
        keys = {key.id: display(self._keymap.get(key.id, key.keys)) for key in MODELS}
        row, view = self.listing.row, self._view
        verb, found = view.verb(row), view.found(row)
        parts = [f"enter {verb}"] if verb else []
        if view.download(row) is not None:
            parts.append(f"{keys['models_cancel']} throw away")
        elif view.look == EVERYTHING and found is not None and not found.problem:
            parts.append(f"{keys['models_drafts']} its draft models")
        if self.app.size.width >= 76:
            parts.append(f"{keys['models_again']} look again")
        frame.border_subtitle = " · ".join((*parts, keys["models_leave"]))

    @on(ModelList.Moved)
    def _moved(self, event: ModelList.Moved) -> None:
        event.stop()
        if self._view.download(self.listing.row) is not self._sure:
            self._sure = None
        self._tell()
        self._frame()

    def _tell(self) -> None:
        """Tell about the row under the cursor."""
        details = self.query_one("#models-details", Static)
        lines = telling.lines(self._view.about(self.listing.row), max(20, details.size.width), DETAILS)
        details.update(Content("\n").join(Content.styled(text, style) for text, style in lines))

    def _say(self, text: str, wrong: bool = False) -> None:
        if self.is_attached:
            note = self.query_one("#models-note", Static)
            note.set_class(wrong, "-wrong")
            note.set_class(bool(text), "-shown")
            note.update(Content(text))

    # Keys

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if event.value == self._query:  # also what the box begins with is told
            return
        self._query = event.value
        if self._view.look.repository:
            self._view.look = EVERYTHING
            self.looking.leave_hub()
        self._say("")
        self._show()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_choose()

    def action_move(self, by: int) -> None:
        """Move the cursor by some models."""
        self.listing.move(by)

    def action_page(self, direction: int) -> None:
        """Move the cursor by a page."""
        self.listing.move(direction * self.listing.page)

    def action_end(self, direction: int) -> None:
        """To the first model or the last."""
        self.listing.move(direction * len(self.listing.rows))

    def action_again(self) -> None:
        """Look for models again; on the Hub: ask again."""
        if self._view.look.repository:
            self._ask_hub(self._view.look.repository)
        else:
            self.looking.scan()

    def action_leave(self) -> None:
        """Back to all models, empty the search, or back to the chat."""
        if self._view.look != EVERYTHING:
            before = self._view.look.target
            self._view.look = EVERYTHING
            self.looking.leave_hub()
            self._say("")
            self._show(before.key if before is not None else None)
        elif self.box.value:
            self.box.value = ""
        else:
            self.dismiss(None)

    def action_drafts(self) -> None:
        """Show which models can draft for the one under the cursor."""
        row = self.listing.row
        found = self.looking.found.get(row.key) if row is not None else None
        if found is None or self._view.look != EVERYTHING:
            return
        if found.problem:
            self._say(one_line(found.problem), wrong=True)
            return
        self._view.look = Look(target=found)
        self._query = self.box.value = ""
        self._say("")
        if not self.looking.scanning:
            self.looking.judge(found)
        self._show(NO_DRAFT)

    def action_pause(self) -> None:
        """Hold the download under the cursor, or let it go on."""
        download = self._view.download(self.listing.row)
        if download is None:
            return
        downloads = self._downloads
        if download.active:
            downloads.pause(download)
        else:
            downloads.go_on(download)
            self._watch_downloads()
        self._show()

    def action_cancel(self) -> None:
        """Give the download under the cursor up; asked twice where something would be lost."""
        download = self._view.download(self.listing.row)
        if download is None:
            return
        if download.done and self._sure is not download:
            self._sure = download
            key = display(self._keymap.get("models_cancel", "ctrl+x"))
            self._say(f"{key} once more throws away the {size_of(download.done)} that came of {one_line(download.spec)}.", True)
            return
        self._sure = None
        self._downloads.cancel(download)
        self._say(f"{one_line(download.spec)} is not fetched any more.")
        self._show()

    def action_choose(self) -> None:
        """Load the model under the cursor, fetch it, or ask the Hub."""
        row = self.listing.row
        if row is None:
            return
        if self._view.download(row) is not None:
            self.action_pause()
            return
        match row.key:
            case ("look", name):
                self._ask_hub(str(name))
            case ("offer", _) if (offer := self._view.offer(row)) is not None:
                self._take(offer)
            case str() if self._view.look.target is not None:
                self._load(self._view.look.target, None)
            case key if (found := self.looking.found.get(key)) is not None:
                self._choose(found)

    def _choose(self, found: Found) -> None:
        target = self._view.look.target
        if target is None:
            if found.problem:
                self._say(one_line(found.problem), wrong=True)
            else:
                self._load(found, None)
            return
        pairing = self.looking.pairings(target).get(found.key)
        if pairing is None:
            self._say("Its vocabulary is being looked at: a moment.")
        elif not pairing.able:
            self._say(one_line(pairing.reason), wrong=True)
        else:
            self._load(target, found)

    def _take(self, offer: Offer) -> None:
        """Load what the Hub offers if it is here, else fetch it."""
        if not self._view.here(offer):
            self._downloads.start(offer)
            self._watch_downloads()
            self._say(f"{one_line(offer.spec)} goes on being fetched when this list is closed.")
            self._show(("download", offer.spec))
            return
        repository = self.looking.repository
        commit = repository.commit if repository is not None else None
        self._attempt(lambda: self._load_model(offer.spec, revision=commit))

    def _load(self, target: Found, draft: Found | None) -> None:
        spot = target.spot
        backend = spot.backend if spot.place == "Built in" else "auto"
        name = draft.spot.spec if draft is not None else None
        self._attempt(lambda: self._load_model(spot.spec, backend=backend, revision=spot.revision, draft=name))

    def _attempt(self, load: Callable[[], None]) -> None:
        try:
            load()
        except UserError as error:
            self._say(str(error), wrong=True)
            return
        self.dismiss(None)

    @on(ModelList.Chosen)
    def _clicked(self, event: ModelList.Chosen) -> None:
        event.stop()
        self.listing.cursor = event.index
        self.action_choose()

    def on_click(self, event: events.Click) -> None:
        """A click outside closes."""
        if event.widget is self:
            self.dismiss(None)

    def on_resize(self) -> None:
        """Sentences are wrapped anew; keys that no longer fit leave the frame."""
        self._frame()
        self._tell()
