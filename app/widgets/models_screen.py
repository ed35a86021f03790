"""/models: every model on this machine and, by name, those on the Hub; what fits; who drafts for whom; downloads."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from ...backends.base import UserError
from ...backends.hub_listing import Offer
from ..cells import one_line
from ..keymap import MODELS, display
from ..models import telling
from ..models.amounts import size_of
from ..models.downloads import Download
from ..models.found import Found
from ..models.looking import Looking
from ..models.rows import NO_DRAFT, all_rows, download_rows, draft_rows, matches, offer_rows, spaced
from .model_list import ModelList, Row

if TYPE_CHECKING:
    from ..chat import SpecchatApp

POLL_SECONDS = 0.1
"""Between looks at what threads have found."""

PROGRESS_SECONDS = 0.25
"""Between two pictures of a download's progress."""

REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+(:[\w.-]*)?", re.ASCII)
"""A name on the Hub."""

DETAILS = 5
"""Rows that tell about the model under the cursor."""


@dataclass(frozen=True, slots=True)
class _Look:
    """Which of the screen's three views: all models (neither), those that draft for one, or a repository on the Hub."""

    target: Found | None = None
    repository: str = ""


class ModelsScreen(ModalScreen[None]):
    """The picker of models. What is chosen is loaded, or fetched.

    Args:
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
        Binding(key.keys, key.action, key.what, show=False, priority=True, id=key.id, tooltip=key.what) for key in MODELS
    ]

    def __init__(self, query: str = "") -> None:
        super().__init__()
        self._query = query
        self._looking: Looking
        self._look = _Look()
        self._drawn = 0.0
        self._states: dict[str, str] = {}
        self._sure: Download | None = None

    @property
    def looking(self) -> Looking:
        """What has been found out."""
        return self._looking

    @property
    def chat(self) -> SpecchatApp:
        """The app, by its own type."""
        return cast("SpecchatApp", self.app)

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
        self._looking = Looking(self.chat)
        self.set_interval(POLL_SECONDS, self._poll)
        if self.chat.dialogue.info:
            self.chat.models.remember(self.chat.dialogue.model)
        self.action_again()
        if self.chat.models.downloads.active:
            self.chat.models.watch_downloads()
        if REPOSITORY.fullmatch(self._query):
            self._ask_hub(self._query)
        self._show()

    def on_unmount(self) -> None:
        """Threads need not go on."""
        self._looking.close()

    def _poll(self) -> None:
        """Take in what threads have found; draw a download's progress."""
        changed, downloads = self._looking.poll(), self.chat.models.downloads
        states: dict[str, str] = {spec: download.state for spec, download in downloads.all.items()}
        if states != self._states:
            if any(state == "done" and self._states.get(spec, "done") != "done" for spec, state in states.items()):
                self._looking.scan()
            self._states, changed = states, True
        if changed and self._look.target is not None and not self._looking.scanning:
            self._looking.judge(self._look.target)
        if changed or (downloads.active and monotonic() - self._drawn >= PROGRESS_SECONDS):
            self._show()

    def _ask_hub(self, name: str) -> None:
        """Ask the Hub what it offers under a name."""
        name = name.partition(":")[0]
        self._look = _Look(repository=name)
        self._say(f"Asking the Hub about {name} …")
        self._looking.ask_hub(name, self._answered)
        self._show()

    def _answered(self, sentence: str) -> None:
        if sentence:
            self._look = _Look()
        self._say(sentence, wrong=bool(sentence))

    # What is shown

    def _rows(self) -> list[Row]:
        options = self.chat.settings.load_options()
        downloads = self.chat.models.downloads.all
        looking, found = self._looking, self._looking.models()
        if self._look.repository:
            told = looking.repository
            return offer_rows(told, looking.room, options, downloads) if told is not None else []
        text = self.box.value.strip()
        if self._look.target is not None:
            shown = [each for each in found if matches(each, text)]
            return draft_rows(self._look.target, shown, looking.pairings(self._look.target), self._marks())
        shown = [each for each in found if matches(each, text)]
        rows = [*download_rows(downloads.values()), *all_rows(shown, looking.room, options, self._marks())]
        if REPOSITORY.fullmatch(text):
            name = one_line(text.partition(":")[0])
            rows.insert(0, Row(("look", name), f"Look up {name} on the Hub", ("↵", "$accent")))
        return rows

    def _marks(self) -> dict[object, tuple[str, str]]:
        """The target and the draft model that are loaded."""
        dialogue = self.chat.dialogue
        draft = dialogue.load.get("draft_model")
        marks: dict[object, tuple[str, str]] = {}
        for key, found in self._looking.found.items():
            if self.chat.models.is_loaded(found):
                marks[key] = ("●", "$primary")
            elif draft and found.spot.spec == draft:
                marks[key] = ("◇", "$accent")
        return marks

    def _show(self, key: object = None) -> None:
        """Draw what there is."""
        self._drawn = monotonic()
        listed = self.listing
        waiting = self._looking.scanning or self._look.repository
        listed.empty = "" if waiting else "No model here has that in its name: owner/name asks the Hub."
        if key is None and listed.row is None and self._look == _Look():
            key = next((each for each, mark in self._marks().items() if mark[0] == "●"), None)
        listed.show(spaced(self._rows(), listed.size.height), key)
        self._frame()

    def _frame(self) -> None:
        frame = self.query_one(Vertical)
        count = f" · {len(self._looking.found)}{' …' if self._looking.scanning else ''}" if self._looking.found else ""
        frame.border_title = "Draft models" if self._look.target else "Models" + count
        keymap = self.chat.settings.keymap
        keys = {key.id: display(keymap.get(key.id, key.keys)) for key in MODELS}
        row = self.listing.row
        download = self._download(row)
        found = self._looking.found.get(row.key) if row is not None else None
        usable = row is not None and (found is None or not (row.faint or found.problem))
        parts = [f"enter {self._verb(row, download)}"] if usable else []
        if download is not None and download.state != "done":
            parts.append(f"{keys['models_cancel']} throw away")
        elif self._look == _Look() and found is not None and not found.problem:
            parts.append(f"{keys['models_drafts']} its draft models")
        if self.app.size.width >= 76:
            parts.append(f"{keys['models_again']} look again")
        frame.border_subtitle = " · ".join((*parts, keys["models_leave"]))

    def _verb(self, row: Row | None, download: Download | None) -> str:
        """What enter does."""
        if download is not None and download.state != "done":
            return "pause" if download.active else "go on"
        match row.key if row is not None else None:
            case ("look", _):
                return "ask"
            case ("offer", spec):
                offer = self._offer(str(spec))
                return "load" if offer is not None and (offer.here or download is not None) else "fetch"
            case _:
                return "load"

    @on(ModelList.Moved)
    def _moved(self, event: ModelList.Moved) -> None:
        event.stop()
        if self._download(self.listing.row) is not self._sure:
            self._sure = None
        self._tell()
        self._frame()

    def _tell(self) -> None:
        """Tell about the row under the cursor."""
        details = self.query_one("#models-details", Static)
        lines = telling.lines(self._about(self.listing.row), max(20, details.size.width), DETAILS)
        details.update(Content("\n").join(Content.styled(text, style) for text, style in lines))

    def _about(self, row: Row | None) -> list[telling.Sentence]:
        if row is None:
            return []
        download, target, looking = self._download(row), self._look.target, self._looking
        if download is not None and download.state != "done":
            return telling.of_download(download)
        options = self.chat.settings.load_options()
        match row.key:
            case ("offer", spec) if looking.repository is not None and (offer := self._offer(str(spec))) is not None:
                return telling.of_offer(looking.repository, offer, looking.room, options)
            case str() if target is not None:
                return telling.of_target_alone(target)
        found = looking.found.get(row.key)
        if found is None:
            return []
        if target is not None:
            return telling.of_draft(target, found, looking.pairings(target).get(found.key))
        return telling.of_model(found, looking.room, options)

    def _offer(self, spec: str) -> Offer | None:
        offers = self._looking.repository.offers if self._looking.repository is not None else ()
        return next((offer for offer in offers if offer.spec == spec), None)

    def _download(self, row: Row | None) -> Download | None:
        """The download that a row shows."""
        match row.key if row is not None else None:
            case ("download" | "offer", spec):
                return self.chat.models.downloads.all.get(str(spec))
        return None

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
        if self._look.repository:
            self._look = _Look()
            self._looking.leave_hub()
        self._say("")
        self._show()

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
        if self._look.repository:
            self._ask_hub(self._look.repository)
        else:
            self._looking.scan()

    def action_leave(self) -> None:
        """Back to all models, empty the search, or back to the chat."""
        if self._look != _Look():
            before = self._look.target
            self._look = _Look()
            self._looking.leave_hub()
            self._say("")
            self._show(before.key if before is not None else None)
        elif self.box.value:
            self.box.value = ""
        else:
            self.dismiss(None)

    def action_drafts(self) -> None:
        """Show which models can draft for the one under the cursor."""
        row = self.listing.row
        found = self._looking.found.get(row.key) if row is not None else None
        if found is None or self._look != _Look():
            return
        if found.problem:
            self._say(one_line(found.problem), wrong=True)
            return
        self._look = _Look(target=found)
        self._query = self.box.value = ""
        self._say("")
        if not self._looking.scanning:
            self._looking.judge(found)
        self._show(NO_DRAFT)

    def action_pause(self) -> None:
        """Hold the download under the cursor, or let it go on."""
        download = self._download(self.listing.row)
        if download is None or download.state == "done":
            return
        downloads = self.chat.models.downloads
        if download.active:
            downloads.pause(download)
        else:
            downloads.go_on(download)
            self.chat.models.watch_downloads()
        self._show()

    def action_cancel(self) -> None:
        """Give the download under the cursor up; asked twice where something would be lost."""
        download = self._download(self.listing.row)
        if download is None or download.state == "done":
            return
        if download.done and self._sure is not download:
            self._sure = download
            key = display(self.chat.settings.keymap.get("models_cancel", "ctrl+x"))
            self._say(f"{key} once more throws away the {size_of(download.done)} that came of {one_line(download.spec)}.", True)
            return
        self._sure = None
        self.chat.models.downloads.cancel(download)
        self._say(f"{one_line(download.spec)} is not fetched any more.")
        self._show()

    def action_choose(self) -> None:
        """Load the model under the cursor, fetch it, or ask the Hub."""
        row = self.listing.row
        if row is None:
            return
        download = self._download(row)
        if download is not None and download.state != "done":
            self.action_pause()
            return
        match row.key:
            case ("look", name):
                self._ask_hub(str(name))
            case ("offer", spec) if (offer := self._offer(str(spec))) is not None:
                self._take(offer, here=offer.here or download is not None)
            case str() if self._look.target is not None:
                self._load(self._look.target, None)
            case key if (found := self._looking.found.get(key)) is not None:
                self._choose(found)

    def _choose(self, found: Found) -> None:
        target = self._look.target
        if target is None:
            if found.problem:
                self._say(one_line(found.problem), wrong=True)
            else:
                self._load(found, None)
            return
        pairing = self._looking.pairings(target).get(found.key)
        if pairing is None:
            self._say("Its vocabulary is being looked at: a moment.")
        elif not pairing.able:
            self._say(one_line(pairing.reason), wrong=True)
        else:
            self._load(target, found)

    def _take(self, offer: Offer, here: bool) -> None:
        """Load what the Hub offers if it is here, else fetch it."""
        if not here:
            self.chat.models.downloads.start(offer)
            self.chat.models.watch_downloads()
            self._say(f"{one_line(offer.spec)} goes on being fetched when this list is closed.")
            self._show(("download", offer.spec))
            return
        repository = self._looking.repository
        commit = repository.commit if repository is not None else None
        self._attempt(lambda: self.chat.models.load(offer.spec, revision=commit))

    def _load(self, target: Found, draft: Found | None) -> None:
        spot = target.spot
        backend = spot.backend if spot.place == "Built in" else "auto"
        name = draft.spot.spec if draft is not None else None
        self._attempt(lambda: self.chat.models.load(spot.spec, backend=backend, revision=spot.revision, draft=name))

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
