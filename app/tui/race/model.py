"""Which model a lane of a race runs on: those on this machine, or whatever name is typed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from time import monotonic

from ...race.choices import ModelChoice
from ...text.cells import fit, has_words, one_line, width
from ...text.lines import StyledLine, line
from ..keys.context import Hint, hints
from ..pickers.pick_list import PickList
from ..pickers.search_screen import SearchScreen

MOST_ROWS = 14

NEWS_SECONDS = 0.15
"""Between two looks of the list at what has been found."""


class RaceModel(SearchScreen[ModelChoice, ModelChoice]):
    """The list of models for a lane; answers with one.

    Args:
        title: what is asked.
        taken: keys of models that are in already.
        note: what is said of those.
        own: the chat's model.
        look: finds the others, as long as what it is given is false; called in a thread.
    """

    DEFAULT_CSS = "RaceModel > Frame { width: 84; height: auto; } RaceModel #detail { height: 2; }"

    def __init__(
        self,
        title: str,
        taken: Collection[str],
        note: str,
        own: ModelChoice,
        look: Callable[[Callable[[], bool]], Iterable[ModelChoice]],
        keymap: Mapping[str, str],
    ) -> None:
        listed = PickList[ModelChoice](lambda choice: choice.key, self._row)
        super().__init__(listed, keymap, title, "Search, or a FILE.gguf, a folder, owner/name")
        self._taken, self._note, self._look = taken, note, look
        self._choices = [own]
        self._gone = threading.Event()
        self._looking = True

    def on_mount(self) -> None:
        self.search("")
        self.run_worker(self._find, thread=True, group="race-models")

    def on_unmount(self) -> None:
        self._gone.set()

    def on_resize(self) -> None:
        """As high for few as for many, or it would jump about as one types."""
        self.grow(min(MOST_ROWS, len(self._choices)))

    def _find(self) -> None:
        waiting: list[ModelChoice] = []
        told = monotonic()
        for choice in self._look(self._gone.is_set):
            waiting.append(choice)
            if monotonic() - told > NEWS_SECONDS and not self._gone.is_set():
                self.app.call_from_thread(self._found, waiting, False)
                waiting, told = [], monotonic()
        if not self._gone.is_set():
            self.app.call_from_thread(self._found, waiting, True)

    def _found(self, found: list[ModelChoice], all_there: bool) -> None:
        known = {choice.key: choice for choice in (*found[::-1], *self._choices[::-1])}  # of two the first stays
        self._choices += [choice for choice in found if known.pop(choice.key, None) is choice]
        self._looking = not all_there
        self.search(self.box.value)

    def search(self, text: str) -> None:
        query = text.strip()
        shown = [choice for choice in self._choices if has_words(f"{choice.title} {choice.what} {choice.place}", query)]
        if query and all(query not in (c.model, c.title) for c in self._choices):
            shown.append(ModelChoice(query, "", one_line(query), "as typed"))
        self.grow(min(MOST_ROWS, len(self._choices)))
        self.listed.show(shown, self.listed.key)

    def item_hints(self) -> tuple[Hint, ...]:
        return hints(("list_choose", ""))

    def about(self, item: ModelChoice | None) -> Iterator[tuple[str, str]]:
        text, style = "", "$quiet"
        if item is not None and item.problem:
            text, style = item.problem, "$warning"
        elif self._looking:
            text = "Looking for models …"
        elif item is not None and item.key in self._taken:
            text = self._note
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
        mark = ("● ", "$primary") if choice.key in self._taken else "  "
        place = choice.place if cells >= 60 else ""
        name = fit(choice.title, max(8, cells - 24 - width(place)))
        said = fit(choice.what, max(0, cells - 6 - width(name) - width(place)))
        gap = max(1, cells - 2 - width(name) - width(said) - width(place) - 2 * bool(place))
        title, what = (name, "bold" if able else "$faint"), (said, "$quiet" if able else "$faint")
        return (line(mark, title, " " * gap, what, ("  " + place if place else "", "$faint")),)
