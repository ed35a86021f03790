"""The choice of a model for a lane of a race: those on this machine, or any typed name."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from time import monotonic

from ...race.choices import ModelChoice
from ...text.cells import fit, has_words, one_line, width
from ...text.lines import StyledLine, line
from ..keys import Hint, hints
from ..pickers.pick_list import PickList
from ..pickers.search_screen import SearchScreen

MOST_ROWS = 14

NEWS_SECONDS = 0.15
"""Between two updates of the list during the search."""


class RaceModel(SearchScreen[ModelChoice, ModelChoice]):
    """The list of models for a lane; answers with one.

    Args:
        added: keys of models in the race.
        note: sentence about those.
        chat_model: the chat's model.
        find: finds the others until its argument returns true; called in a thread.
    """

    DEFAULT_CSS = "RaceModel > Frame { width: 84; height: auto; } RaceModel #detail { height: 2; }"

    def __init__(
        self,
        title: str,
        added: Collection[str],
        note: str,
        chat_model: ModelChoice,
        find: Callable[[Callable[[], bool]], Iterable[ModelChoice]],
        keymap: Mapping[str, str],
    ) -> None:
        listed = PickList[ModelChoice](lambda choice: choice.key, self._row)
        super().__init__(listed, keymap, title, "Search, or a FILE.gguf, a folder, owner/name")
        self._added = added
        self._added_note = note
        self._find = find
        self._choices = [chat_model]
        self._stop = threading.Event()
        self._finding = True

    def on_mount(self) -> None:
        self.search("")
        self.run_worker(self._collect, thread=True, group="race-models")

    def on_unmount(self) -> None:
        self._stop.set()

    def on_resize(self) -> None:
        """Keep the height for all models, so that the frame does not jump during typing."""
        self.grow(min(MOST_ROWS, len(self._choices)))

    def _collect(self) -> None:
        batch: list[ModelChoice] = []
        updated = monotonic()
        for choice in self._find(self._stop.is_set):
            batch.append(choice)
            if monotonic() - updated > NEWS_SECONDS and not self._stop.is_set():
                self.app.call_from_thread(self._add, batch)
                batch, updated = [], monotonic()
        if not self._stop.is_set():
            self.app.call_from_thread(self._add, batch, last=True)

    def _add(self, choices: list[ModelChoice], last: bool = False) -> None:
        """Add choices with new keys; of two with the same key the first stays."""
        by_key = {choice.key: choice for choice in (*reversed(choices), *self._choices)}
        self._choices += [choice for choice in choices if by_key[choice.key] is choice]
        self._finding = not last
        self.search(self.box.value)

    def search(self, text: str) -> None:
        query = text.strip()
        matches = [choice for choice in self._choices if has_words(f"{choice.title} {choice.what} {choice.place}", query)]
        if query and all(query not in (choice.model, choice.title) for choice in self._choices):
            matches.append(ModelChoice(query, "", one_line(query), "as typed"))
        self.on_resize()
        self.listed.show(matches, self.listed.key)

    def hints(self) -> tuple[Hint, ...]:
        return hints(("list_choose", ""))

    def about(self, item: ModelChoice | None) -> Iterator[tuple[str, str]]:
        text, style = "", "$quiet"
        if item is not None and item.problem:
            text, style = item.problem, "$warning"
        elif self._finding:
            text = "Looking for models …"
        elif item is not None and item.key in self._added:
            text = self._added_note
        elif item is not None and item.model:
            text = "Loaded for the race, next to the chat's model."
        yield fit(one_line(text), self.cells), style

    def choose(self, item: ModelChoice) -> None:
        if item.problem:
            self.app.bell()
        else:
            self.dismiss(item)

    def _row(self, choice: ModelChoice, cells: int) -> tuple[StyledLine]:
        able = not choice.problem
        mark = ("● ", "$primary") if choice.key in self._added else "  "
        place = choice.place if cells >= 60 else ""
        name = fit(choice.title, max(8, cells - 24 - width(place)))
        what = fit(choice.what, max(0, cells - 6 - width(name) - width(place)))
        gap = " " * max(1, cells - 2 - width(name) - width(what) - width(place) - 2 * bool(place))
        left = line(mark, (name, "bold" if able else "$faint"), gap, (what, "$quiet" if able else "$faint"))
        return ((*left, ("  " + place if place else "", "$faint")),)
