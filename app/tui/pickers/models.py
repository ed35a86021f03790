"""/models: models on this machine and, by name, on the Hub; memory, draft models, downloads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from time import monotonic
from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content

from ....errors import UserError
from ...models.hub import Download, Offer
from ...models.library import FoundModel
from ...models.rows import NO_DRAFT, ModelRow, drawn, spaced
from ...models.search import EVERYTHING, REPOSITORY, ModelSearch, ModelsScope, lines
from ...settings.keymap import MODELS
from ...text.cells import one_line
from ..keys import Hint, bindings_of, hints
from .pick_list import PickList
from .search_screen import SearchScreen

POLL_SECONDS = 0.1
"""Between two checks for results of threads."""

PROGRESS_SECONDS = 0.25
"""Between two updates of a download's progress."""

DETAILS = 5
"""Rows about the model under the cursor."""


class ModelsScreen(SearchScreen[None, ModelRow]):
    """The picker of models, which loads or downloads the chosen one."""

    DEFAULT_CSS = "ModelsScreen > Frame { width: 108; } ModelsScreen #detail { height: 6; }"
    BINDINGS: ClassVar[list[BindingType]] = bindings_of(MODELS)

    def __init__(self, looking: ModelSearch, load: Callable[..., None], keymap: Mapping[str, str], query: str = "") -> None:
        listed = PickList[ModelRow](lambda row: row.key, lambda row, cells: (drawn(row, cells),))
        super().__init__(listed, keymap, "Models", "Search, or owner/name on the Hub", query)
        self.looking = looking
        self._downloads = looking.downloads
        self._load_model = load
        self._drawn = 0.0
        self._states = self._download_states()
        self._last_key: object = None  # under the cursor when the list was last shown
        self._placed = False  # whether the user has moved the cursor since

    def on_mount(self) -> None:
        self.set_interval(POLL_SECONDS, self._poll)
        self.action_again()
        if REPOSITORY.fullmatch(self.box.value):
            self._ask_hub(self.box.value)
        self._show()

    def on_unmount(self) -> None:
        self.looking.close()

    def _poll(self) -> None:
        changed, downloads = self.looking.poll(), self._downloads
        if (states := self._download_states()) != self._states:
            if any(state == "done" and self._states.get(spec) != "done" for spec, state in states.items()):
                self.looking.scan()
            self._states, changed = states, True
        if changed and self.looking.scope.target is not None and not self.looking.scanning:
            self.looking.judge(self.looking.scope.target)
        if changed or (downloads.active and monotonic() - self._drawn >= PROGRESS_SECONDS):
            self._show()

    def _download_states(self) -> dict[str, str]:
        return {spec: download.state for spec, download in self._downloads.all.items()}

    def _ask_hub(self, name: str) -> None:
        name = name.partition(":")[0]
        self.looking.scope = ModelsScope(repository=name)
        self.say(f"Asking the Hub about {name} …")
        self.looking.ask_hub(name, self._answered)
        self._show()

    def _answered(self, sentence: str) -> None:
        if sentence:
            self.looking.scope = EVERYTHING
        self.say(sentence, wrong=bool(sentence))

    # Drawing

    def _show(self, key: object = None) -> None:
        self._drawn = monotonic()
        listed, looking = self.listed, self.looking
        waiting = looking.scanning or looking.scope.repository
        listed.empty = "" if waiting else "No model here has that in its name. Type owner/name to ask the Hub."
        self._placed |= key is not None or listed.key != self._last_key
        if key is None:
            key = listed.key if self._placed or looking.scope != EVERYTHING else looking.loaded()
        count = f" · {len(looking.by_key)}{' …' if looking.scanning else ''}" if looking.by_key else ""
        self.frame.border_title = Content("Draft models" if looking.scope.target else f"Models{count}")
        listed.show(spaced(looking.rows(self.box.value.strip()), listed.size.height), key, listed.cursor)
        self._last_key = listed.key

    def hints(self) -> Iterator[Hint]:
        row = self.listed.item
        if row is not None and row.verb:
            yield Hint(("list_choose",), row.verb)
        match row.item if row is not None else None:
            case Download():
                yield Hint(("models_cancel",), "cancel")
            case FoundModel(problem="") if self.looking.scope == EVERYTHING:
                yield Hint(("models_drafts",), "draft models")
        yield from hints(("models_again", ""))

    def about(self, item: ModelRow | None) -> list[tuple[str, str]]:
        return lines(self.looking.about(item), self.cells, DETAILS)

    # Keys

    def search(self, text: str) -> None:
        if self.looking.scope.repository:
            self.looking.scope = EVERYTHING
            self.looking.leave_hub()
        self.say("")
        self._show()

    def action_again(self) -> None:
        if self.looking.scope.repository:
            self._ask_hub(self.looking.scope.repository)
        else:
            self.looking.scan()

    def action_leave(self) -> None:
        if self.looking.scope == EVERYTHING:
            super().action_leave()
            return
        target = self.looking.scope.target
        self.looking.scope = EVERYTHING
        self.looking.leave_hub()
        self.say("")
        self._show(target.key if target is not None else None)

    def action_drafts(self) -> None:
        model = self.listed.item.item if self.listed.item is not None else None
        if not isinstance(model, FoundModel) or self.looking.scope != EVERYTHING:
            return
        if model.problem:
            self.say(one_line(model.problem), wrong=True)
            return
        self.looking.scope = ModelsScope(target=model)
        self.box.value = ""
        self.say("")
        if not self.looking.scanning:
            self.looking.judge(model)
        self._show(NO_DRAFT)

    def action_cancel(self) -> None:
        """Cancel the download under the cursor."""
        download = self.listed.item.item if self.listed.item is not None else None
        if isinstance(download, Download):
            self._downloads.cancel(download)
            self.say(f"Cancelled the download of {one_line(download.spec)}.")
            self._show()

    def choose(self, item: ModelRow) -> None:
        try:
            self._choose(item)
        except UserError as error:
            self.say(one_line(str(error)), wrong=True)

    def _choose(self, item: ModelRow) -> None:
        match item.item:
            case Download() as download:
                if not download.active:
                    self._downloads.begin(download)
                    self._show()
            case Offer() as offer:
                self._choose_offer(offer, downloaded=item.verb == "load")
            case FoundModel() as model:
                self._choose_model(model)
            case str() as spec if not item.faint:
                self._load_model(spec)
                self.dismiss(None)
            case None if (target := self.looking.scope.target) is not None:
                self._load(target, None)
            case None:
                self._ask_hub(self.box.value.strip())

    def _choose_model(self, model: FoundModel) -> None:
        target = self.looking.scope.target
        if target is None:
            if model.problem:
                raise UserError(model.problem)
            self._load(model, None)
            return
        pairing = self.looking.pairings(target).get(model.key)
        if pairing is None or not pairing.able:
            raise UserError(pairing.reason if pairing is not None else "Still checking it. One moment.")
        self._load(target, model)

    def _choose_offer(self, offer: Offer, *, downloaded: bool) -> None:
        if downloaded:
            repository = self.looking.repository
            self._load_model(offer.spec, revision=repository.commit if repository is not None else None)
            self.dismiss(None)
            return
        self._downloads.start(offer)
        self.say(f"{one_line(offer.spec)} keeps downloading after you close this list.")
        self._show(("download", offer.spec))

    def _load(self, target: FoundModel, draft: FoundModel | None) -> None:
        spot = target.spot
        head = draft is not None and draft.card.head is not None
        backend = spot.backend if spot.place == "Built-in" and not head else "auto"
        name = draft.spot.spec if draft is not None else None
        self._load_model(spot.spec, backend=backend, revision=spot.revision, draft=name)
        self.dismiss(None)
