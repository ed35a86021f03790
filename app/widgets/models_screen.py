"""/models: every model on this machine and, by name, those on the Hub; what fits; who drafts for whom; downloads."""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from textwrap import wrap
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from ...backends.base import UserError
from ...backends.hub_listing import Offer, Repository, look_up
from ...backends.loading import BUILTIN
from ..cells import fit, one_line
from ..keymap import MODELS, display
from ..models.amounts import path_of, size_of
from ..models.downloads import Download
from ..models.fitting import Room, judge
from ..models.found import Found, in_order
from ..models.pairing import Pairing, pair
from ..models.rows import (
    NO_DRAFT,
    about,
    all_rows,
    download_rows,
    draft_rows,
    fit_of,
    matches,
    needs_of_offer,
    offer_rows,
    spaced,
    title_of,
)
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
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._gone = threading.Event()
        self._scanning = False
        self._found: dict[object, Found] = {}
        self._room: Room | None = None
        self._look = _Look()
        self._pairings: dict[object, dict[object, Pairing]] = {}
        self._pairing: set[object] = set()
        self._repository: Repository | None = None
        self._drawn = 0.0
        self._sure: Download | None = None

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
        """What threads still find is nobody's business."""
        self._gone.set()

    # What threads bring

    def _in_thread(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work, name="models", daemon=True).start()

    def _poll(self) -> None:
        """Take in what threads have found; draw a download's progress."""
        changed = False
        while True:
            try:
                self._inbox.get_nowait()()
            except queue.Empty:
                break
            changed = True
        downloads = self.chat.models.downloads
        if changed or (downloads.active and monotonic() - self._drawn >= PROGRESS_SECONDS):
            self._show()

    def _scan(self) -> None:
        """In a thread: find every model."""
        from ..models.recent import recent

        models, settings = self.chat.models, self.chat.settings
        put = self._inbox.put
        room = models.room()
        put(lambda: setattr(self, "_room", room))
        seen: set[object] = set()

        def take(found: Found) -> Callable[[], None]:
            return lambda: self._found.update({found.key: found})

        for found in models.library.look(recent(), settings.model_folders, stopped=self._gone.is_set):
            seen.add(found.key)
            put(take(found))

        def end() -> None:
            self._scanning = False
            self._found = {key: found for key, found in self._found.items() if key in seen}
            self._judge()

        put(end)

    def _judge(self) -> None:
        """Let a thread look at vocabularies, for the target whose draft models are shown."""
        target = self._look.target
        if target is None or self._scanning:
            return
        known = self._pairings.setdefault(target.key, {})
        waiting = [
            each for each in in_order([*self._found.values()]) if each.key not in known and each.key not in self._pairing
        ]
        self._pairing.update(each.key for each in waiting)

        def work() -> None:
            for each in waiting:
                if self._gone.is_set():
                    return
                found = pair(self.chat.models.library, target, each)
                self._inbox.put(lambda key=each.key, found=found: known.update({key: found}))  # type: ignore[misc]

        if waiting:
            self._in_thread(work)

    def _ask_hub(self, name: str) -> None:
        """Let a thread ask the Hub what it offers under a name."""
        name = name.partition(":")[0]
        self._look, self._repository = _Look(repository=name), None
        self._say(f"Asking the Hub about {name} …")

        def work() -> None:
            try:
                found = look_up(name)
            except UserError as error:
                sentence = str(error)
                self._inbox.put(lambda: self._answered(name, None, sentence))
            else:
                self._inbox.put(lambda: self._answered(name, found, ""))

        self._in_thread(work)
        self._show()

    def _answered(self, name: str, repository: Repository | None, sentence: str) -> None:
        if self._look.repository != name:
            return
        self._repository = repository
        if repository is None:
            self._look = _Look()
        self._say(one_line(sentence), wrong=bool(sentence))

    # What is shown

    def _rows(self) -> list[Row]:
        options = self.chat.settings.load_options()
        downloads = self.chat.models.downloads.all
        found = in_order([*self._found.values()])
        if self._look.repository:
            return offer_rows(self._repository, self._room, options, downloads) if self._repository is not None else []
        text = self.box.value.strip()
        if self._look.target is not None:
            shown = [each for each in found if matches(each, text)]
            return draft_rows(self._look.target, shown, self._pairings.get(self._look.target.key, {}), self._marks())
        shown = [each for each in found if matches(each, text)]
        rows = [*download_rows(downloads.values()), *all_rows(shown, self._room, options, self._marks())]
        if REPOSITORY.fullmatch(text):
            name = one_line(text.partition(":")[0])
            rows.insert(0, Row(("look", name), f"Look up {name} on the Hub", ("↵", "$accent")))
        return rows

    def _marks(self) -> dict[object, tuple[str, str]]:
        """The target and the draft model that are loaded."""
        dialogue = self.chat.dialogue
        draft = dialogue.load.get("draft_model")
        marks: dict[object, tuple[str, str]] = {}
        for key, found in self._found.items():
            if self.chat.models.is_loaded(found):
                marks[key] = ("●", "$primary")
            elif draft and found.spot.spec == draft:
                marks[key] = ("◇", "$accent")
        return marks

    def _show(self, key: object = None) -> None:
        """Draw what there is."""
        if not self.is_attached:
            return
        self._drawn = monotonic()
        listed = self.listing
        listed.empty = (
            "" if self._scanning or self._look.repository else "No model here has that in its name: owner/name asks the Hub."
        )
        if key is None and listed.row is None and self._look == _Look():
            key = next((each for each, mark in self._marks().items() if mark[0] == "●"), None)
        listed.show(spaced(self._rows(), listed.size.height), key)
        self._frame()

    def _frame(self) -> None:
        frame = self.query_one(Vertical)
        count = f" · {len(self._found)}{' …' if self._scanning else ''}" if self._found else ""
        frame.border_title = "Draft models" if self._look.target else "Models" + count
        keymap = self.chat.settings.keymap
        keys = {key.id: display(keymap.get(key.id, key.keys)) for key in MODELS}
        row = self.listing.row
        download = self._download(row)
        parts = [f"enter {self._verb(row, download)}"] if row is not None else []
        if download is not None and download.state != "done":
            parts.append(f"{keys['models_cancel']} throw away")
        elif self._look == _Look() and isinstance(row and self._found.get(row.key), Found):
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
        self._sure = None
        self._tell()
        self._frame()

    def _tell(self) -> None:
        """Tell about the row under the cursor."""
        details = self.query_one("#models-details", Static)
        cells = max(20, details.size.width)
        lines: list[tuple[str, str]] = []
        for text, style, most in self._about(self.listing.row):
            pieces = wrap(text, cells, break_on_hyphens=False)
            if len(pieces) > most:
                pieces = [*pieces[: most - 1], fit(" ".join(pieces[most - 1 :]), cells)]
            lines += [(piece, style) for piece in pieces]
        parts = [part for text, style in lines[:DETAILS] for part in ((text, style), ("\n", ""))]
        details.update(Content.assemble(*parts[:-1]))

    def _about(self, row: Row | None) -> list[tuple[str, str, int]]:
        """Sentences about a row, each with its style and the most lines that it may take."""
        options = self.chat.settings.load_options()
        if row is None:
            return []
        download = self._download(row)
        if download is not None and download.state != "done":
            return _about_download(download)
        match row.key:
            case ("offer", spec) if self._repository is not None and (offer := self._offer(str(spec))) is not None:
                return _about_offer(self._repository, offer, self._room, options)
            case str():
                target = self._look.target
                if target is not None and target.spot.spec == BUILTIN:
                    return [("builtin-draft, which is loaded when a method first needs it.", "$foreground", 2)]
                return [("The target alone. Methods that need a draft model are not offered then.", "$foreground", 2)]
        found = self._found.get(row.key)
        if found is None:
            return []
        out = [(about(found.card), "$foreground", 1)]
        target = self._look.target
        if target is not None:
            pairing = self._pairings.get(target.key, {}).get(found.key)
            if pairing is not None:
                told = one_line(pairing.reason) or f"Has {title_of(target)}'s vocabulary, so it can draft for it."
                out.append((told, "$success" if pairing.able and not pairing.reason else "$warning", 3))
        elif found.problem:
            out.append((one_line(found.problem), "$warning", 3))
        else:
            judged = fit_of(found, self._room, options)
            style = {"fits": "$success", "short": "$warning", "too large": "$error"}.get(judged.verdict, "$quiet")
            out.append((judged.told, style, 3))
        return [*out, (one_line(path_of(found.spot.path)), "$quiet", 1)]

    def _offer(self, spec: str) -> Offer | None:
        offers = self._repository.offers if self._repository is not None else ()
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
        if self._look.repository:
            self._look, self._repository = _Look(), None
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
        elif not self._scanning:
            self._scanning = True
            self._in_thread(self._scan)

    def action_leave(self) -> None:
        """Back to all models, empty the search, or back to the chat."""
        if self._look != _Look():
            before = self._look.target
            self._look, self._repository = _Look(), None
            self._say("")
            self._show(before.key if before is not None else None)
        elif self.box.value:
            self.box.value = ""
        else:
            self.dismiss(None)

    def action_drafts(self) -> None:
        """Show which models can draft for the one under the cursor."""
        row = self.listing.row
        found = self._found.get(row.key) if row is not None else None
        if found is None or self._look != _Look():
            return
        if found.problem:
            self._say(one_line(found.problem), wrong=True)
            return
        self._look, self._pairing = _Look(target=found), set()
        with self.prevent(Input.Changed):
            self.box.value = ""
        self._say("")
        self._judge()
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
            case key if (found := self._found.get(key)) is not None:
                self._choose(found)

    def _choose(self, found: Found) -> None:
        target = self._look.target
        if target is None:
            if found.problem:
                self._say(one_line(found.problem), wrong=True)
            else:
                self._load(found, None)
            return
        pairing = self._pairings.get(target.key, {}).get(found.key)
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
        commit = self._repository.commit if self._repository is not None else None
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


def _about_download(download: Download) -> list[tuple[str, str, int]]:
    amount = f"{size_of(download.done)} of {size_of(download.total)} are there."
    if download.state == "failed":
        return [(one_line(download.sentence), "$warning", 4), (amount, "$quiet", 1)]
    told = {"paused": "Held; what came stays, also for a later chat.", "starting": "Asking the Hub …"}
    return [(amount, "$foreground", 1), (told.get(download.state, "Goes on when this list is closed."), "$quiet", 1)]


def _about_offer(repository: Repository, offer: Offer, room: Room | None, options: Any) -> list[tuple[str, str, int]]:
    parts = [one_line(repository.name), one_line(offer.quantization)]
    parts.append("GGUF on llama.cpp" if offer.kind == "gguf" else "safetensors on transformers")
    parts += [f"{repository.context:,} tokens of context"] if repository.context else []
    out = [(" · ".join(filter(None, parts)), "$foreground", 1)]
    if room is not None:
        judged = judge(needs_of_offer(repository, offer), room, options)
        style = {"fits": "$success", "short": "$warning", "too large": "$error"}.get(judged.verdict, "$quiet")
        out.append((judged.told, style, 2))
    if offer.there and not offer.here:
        out.append((f"{size_of(offer.there)} of {size_of(offer.size)} are here already.", "$quiet", 1))
    if repository.gated and not offer.here:
        out.append(("It asks for its licence to be accepted on its page on the Hub, and for `hf auth login`.", "$warning", 1))
    return out
