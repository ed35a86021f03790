"""/models: every model on this machine and, by name, those on the Hub; what fits; who drafts for whom; downloads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from time import monotonic
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType
from textual.content import Content

from ...models import details as telling
from ...models.rows import NO_DRAFT, ModelRow, drawn, spaced
from ...models.view import EVERYTHING, REPOSITORY, ModelsScope, ModelsView
from ...settings.keymap import MODELS
from ...text.cells import one_line
from ..keys.context import Hint, bindings_of, hints
from .pick_list import PickList
from .search_screen import SearchScreen

if TYPE_CHECKING:
    from ...models.hub import Offer
    from ...models.library import FoundModel

POLL_SECONDS = 0.1
"""Between looks at what threads have found."""

PROGRESS_SECONDS = 0.25
"""Between two pictures of a download's progress."""

DETAILS = 5
"""Rows that tell about the model under the cursor."""


class ModelsScreen(SearchScreen[None, ModelRow]):
    """The picker of models. What is chosen is loaded, or fetched."""

    DEFAULT_CSS = "ModelsScreen > Frame { width: 108; } ModelsScreen #detail { height: 6; }"
    BINDINGS: ClassVar[list[BindingType]] = bindings_of(MODELS)

    def __init__(self, view: ModelsView, load: Callable[..., None], keymap: Mapping[str, str], query: str = "") -> None:
        listed = PickList[ModelRow](lambda row: row.key, lambda row, cells: (drawn(row, cells),))
        super().__init__(listed, keymap, "Models", "Search, or owner/name on the Hub", query)
        self._view, self.looking, self._downloads = view, view.looking, view.downloads
        self._load_model = load
        self._drawn = 0.0
        self._states = self._states_now()
        self._stood: object = None  # what the cursor stood on when the list was last shown
        self._placed = False  # whether a person has put it elsewhere
        self._left = ""  # what the cursor stood on on the Hub

    def on_mount(self) -> None:
        self.set_interval(POLL_SECONDS, self._poll)
        self.action_again()
        if REPOSITORY.fullmatch(self.searched):
            self._ask_hub(self.searched)
        self._show()

    def on_unmount(self) -> None:
        self.looking.close()

    def _poll(self) -> None:
        changed, downloads = self.looking.poll(), self._downloads
        if (states := self._states_now()) != self._states:
            if any(state == "done" and self._states.get(spec) != "done" for spec, state in states.items()):
                self.looking.scan()
            self._states, changed = states, True
        if changed and self._view.look.target is not None and not self.looking.scanning:
            self.looking.judge(self._view.look.target)
        if changed or (downloads.active and monotonic() - self._drawn >= PROGRESS_SECONDS):
            self._show()

    def _states_now(self) -> dict[str, str]:
        return {spec: download.state for spec, download in self._downloads.all.items()}

    def _ask_hub(self, name: str) -> None:
        name = name.partition(":")[0]
        self._view.look = ModelsScope(repository=name)
        self.say(f"Asking the Hub about {name} …")
        self.looking.ask_hub(name, self._answered)
        self._show()

    def _answered(self, sentence: str) -> None:
        if sentence:
            self._view.look = EVERYTHING
        self.say(sentence, wrong=bool(sentence))

    # What is shown

    def _show(self, key: object = None) -> None:
        self._drawn = monotonic()
        listed, view = self.listed, self._view
        waiting = self.looking.scanning or view.look.repository
        listed.empty = "" if waiting else "No model here has that in its name. Type owner/name to ask the Hub."
        self._placed |= key is not None or listed.key != self._stood
        if key is None:
            key = listed.key if self._placed or view.look != EVERYTHING else view.fetched(self._left) or view.loaded()
        count = f" · {len(self.looking.found)}{' …' if self.looking.scanning else ''}" if self.looking.found else ""
        self.frame.border_title = Content("Draft models" if view.look.target else f"Models{count}")
        listed.show(spaced(view.rows(self.box.value.strip()), listed.size.height), key, listed.cursor)
        self._stood = listed.key

    def item_hints(self) -> Iterator[Hint]:
        row, view = self.listed.item, self._view
        found = view.found(row)
        if verb := view.verb(row):
            yield Hint(("list_choose",), verb)
        if view.download(row) is not None:
            yield Hint(("models_cancel",), "cancel")
        elif view.look == EVERYTHING and found is not None and not found.problem:
            yield Hint(("models_drafts",), "draft models")
        yield from hints(("models_again", ""))

    def about(self, item: ModelRow | None) -> list[tuple[str, str]]:
        return telling.lines(self._view.about(item), self.cells, DETAILS)

    # Keys

    def search(self, text: str) -> None:
        if self._view.look.repository:
            self._view.look = EVERYTHING
            self.looking.leave_hub()
        self.say("")
        self._show()

    def action_again(self) -> None:
        if self._view.look.repository:
            self._ask_hub(self._view.look.repository)
        else:
            self.looking.scan()

    def action_leave(self) -> None:
        if self._view.look == EVERYTHING:
            super().action_leave()
            return
        before, offer = self._view.look, self._view.offer(self.listed.item)
        self._view.look = EVERYTHING
        self.looking.leave_hub()
        self.say("")
        if before.target is not None:
            self._show(before.target.key)
            return
        # What was fetched may be found only after this: until then nobody has put the cursor anywhere.
        self._left, self._placed, self._stood = offer.spec if offer is not None else "", False, self.listed.key
        self._show()

    def action_drafts(self) -> None:
        row = self.listed.item
        found = self.looking.found.get(row.key) if row is not None else None
        if found is None or self._view.look != EVERYTHING:
            return
        if found.problem:
            self.say(one_line(found.problem), wrong=True)
            return
        self._view.look = ModelsScope(target=found)
        self.forget()
        self.say("")
        if not self.looking.scanning:
            self.looking.judge(found)
        self._show(NO_DRAFT)

    def action_cancel(self) -> None:
        """Give the download under the cursor up; asked twice where something would be lost."""
        download = self._view.download(self.listed.item)
        if download is None:
            return
        what = f"cancel {one_line(download.spec)}"
        if download.done and not self.sure(f"Press {self.key('models_cancel')} again to {what}."):
            return
        self._downloads.cancel(download)
        self.say(f"Cancelled the download of {one_line(download.spec)}.")
        self._show()

    def choose(self, item: ModelRow) -> None:
        if (download := self._view.download(item)) is not None:
            if not download.active:
                self._downloads.begin(download)
                self._show()
            return
        match item.key:
            case ("look", name):
                self._ask_hub(str(name))
            case ("server", spec) if not item.faint:
                self._attempt(lambda: self._load_model(str(spec)))
            case ("offer", _) if (offer := self._view.offer(item)) is not None:
                self._take(offer)
            case str() if self._view.look.target is not None:
                self._load(self._view.look.target, None)
            case key if (found := self.looking.found.get(key)) is not None:
                self._pair(found)

    def _pair(self, found: FoundModel) -> None:
        target = self._view.look.target
        if target is None:
            if found.problem:
                self.say(one_line(found.problem), wrong=True)
            else:
                self._load(found, None)
            return
        pairing = self.looking.pairings(target).get(found.key)
        if pairing is None:
            self.say("Still checking it. One moment.")
        elif not pairing.able:
            self.say(one_line(pairing.reason), wrong=True)
        else:
            self._load(target, found)

    def _take(self, offer: Offer) -> None:
        if not self._view.here(offer):
            self._downloads.start(offer)
            self.say(f"{one_line(offer.spec)} keeps downloading after you close this list.")
            self._show(("download", offer.spec))
            return
        repository = self.looking.repository
        commit = repository.commit if repository is not None else None
        self._attempt(lambda: self._load_model(offer.spec, revision=commit))

    def _load(self, target: FoundModel, draft: FoundModel | None) -> None:
        spot = target.spot
        head = draft is not None and draft.card.head is not None
        backend = spot.backend if spot.place == "Built-in" and not head else "auto"
        name = draft.spot.spec if draft is not None else None
        self._attempt(lambda: self._load_model(spot.spec, backend=backend, revision=spot.revision, draft=name))

    def _attempt(self, load: Callable[[], None]) -> None:
        if self.tried(load):
            self.dismiss(None)
