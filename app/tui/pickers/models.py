"""/models: models on this machine and, by name, on the Hub; memory, draft models, downloads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from time import monotonic
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType
from textual.content import Content

from ....errors import UserError
from ...models.rows import NO_DRAFT, ModelRow, drawn, spaced
from ...models.view import EVERYTHING, REPOSITORY, ModelsScope, ModelsView, lines
from ...settings.keymap import MODELS
from ...text.cells import one_line
from ..keys import Hint, bindings_of, hints
from .pick_list import PickList
from .search_screen import SearchScreen

if TYPE_CHECKING:
    from ...models.hub import Offer
    from ...models.library import FoundModel

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

    def __init__(self, view: ModelsView, load: Callable[..., None], keymap: Mapping[str, str], query: str = "") -> None:
        listed = PickList[ModelRow](lambda row: row.key, lambda row, cells: (drawn(row, cells),))
        super().__init__(listed, keymap, "Models", "Search, or owner/name on the Hub", query)
        self._view = view
        self.looking = view.looking
        self._downloads = view.downloads
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
        if changed and self._view.look.target is not None and not self.looking.scanning:
            self.looking.judge(self._view.look.target)
        if changed or (downloads.active and monotonic() - self._drawn >= PROGRESS_SECONDS):
            self._show()

    def _download_states(self) -> dict[str, str]:
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

    # Drawing

    def _show(self, key: object = None) -> None:
        self._drawn = monotonic()
        listed, view = self.listed, self._view
        waiting = self.looking.scanning or view.look.repository
        listed.empty = "" if waiting else "No model here has that in its name. Type owner/name to ask the Hub."
        self._placed |= key is not None or listed.key != self._last_key
        if key is None:
            key = listed.key if self._placed or view.look != EVERYTHING else view.loaded()
        count = f" · {len(self.looking.by_key)}{' …' if self.looking.scanning else ''}" if self.looking.by_key else ""
        self.frame.border_title = Content("Draft models" if view.look.target else f"Models{count}")
        listed.show(spaced(view.rows(self.box.value.strip()), listed.size.height), key, listed.cursor)
        self._last_key = listed.key

    def hints(self) -> Iterator[Hint]:
        row, view = self.listed.item, self._view
        model = view.found(row)
        if verb := view.verb(row):
            yield Hint(("list_choose",), verb)
        if view.download(row) is not None:
            yield Hint(("models_cancel",), "cancel")
        elif view.look == EVERYTHING and model is not None and not model.problem:
            yield Hint(("models_drafts",), "draft models")
        yield from hints(("models_again", ""))

    def about(self, item: ModelRow | None) -> list[tuple[str, str]]:
        return lines(self._view.about(item), self.cells, DETAILS)

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
        target = self._view.look.target
        self._view.look = EVERYTHING
        self.looking.leave_hub()
        self.say("")
        self._show(target.key if target is not None else None)

    def action_drafts(self) -> None:
        model = self._view.found(self.listed.item)
        if model is None or self._view.look != EVERYTHING:
            return
        if model.problem:
            self.say(one_line(model.problem), wrong=True)
            return
        self._view.look = ModelsScope(target=model)
        self.box.value = ""
        self.say("")
        if not self.looking.scanning:
            self.looking.judge(model)
        self._show(NO_DRAFT)

    def action_cancel(self) -> None:
        """Cancel the download under the cursor."""
        if (download := self._view.download(self.listed.item)) is not None:
            self._downloads.cancel(download)
            self.say(f"Cancelled the download of {one_line(download.spec)}.")
            self._show()

    def choose(self, item: ModelRow) -> None:
        try:
            self._choose(item)
        except UserError as error:
            self.say(one_line(str(error)), wrong=True)

    def _choose(self, item: ModelRow) -> None:
        target = self._view.look.target
        if (download := self._view.download(item)) is not None:
            if not download.active:
                self._downloads.begin(download)
                self._show()
            return
        match item.key:
            case ("look", name):
                self._ask_hub(str(name))
            case ("server", spec) if not item.faint:
                self._load_model(str(spec))
                self.dismiss(None)
            case ("offer", _) if (offer := self._view.offer(item)) is not None:
                self._choose_offer(offer)
            case str() if target is not None:
                self._load(target, None)
            case key if (model := self.looking.by_key.get(key)) is not None:
                self._choose_model(model)

    def _choose_model(self, model: FoundModel) -> None:
        target = self._view.look.target
        if target is None:
            if model.problem:
                raise UserError(model.problem)
            self._load(model, None)
            return
        pairing = self.looking.pairings(target).get(model.key)
        if pairing is None or not pairing.able:
            raise UserError(pairing.reason if pairing is not None else "Still checking it. One moment.")
        self._load(target, model)

    def _choose_offer(self, offer: Offer) -> None:
        if self._view.here(offer):
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
