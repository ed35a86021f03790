"""The list of models: its search in threads, its rows, and the details of a row.

The threads look for the models on this machine, free memory, possible draft models, and ask the Hub and servers. `poll` applies
their results; all other fields belong to the thread that polls.
"""

from __future__ import annotations

import asyncio
import queue
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ...backends.options import BUILTIN, BUILTIN_DRAFT, BUILTIN_EAGLE, LoadOptions
from ...backends.remote.address import find_server, quote_model
from ...errors import Cancelled, UserError
from ..chat.dialogue import Dialogue
from ..settings.fields import Settings
from ..text.amounts import count_of, short_path, size_of
from ..text.cells import has_words, one_line
from ..text.lines import flowed
from .hub import Download, Downloads, Offer, Repository, look_up
from .library import FoundModel, Library, in_order
from .memory import FreeMemory, MemoryFit, judge
from .pairing import Pairing, look_for, pair
from .rows import (
    VERDICTS,
    ModelRow,
    all_rows,
    download_rows,
    draft_rows,
    drafts_alone,
    fit_of,
    matches,
    needs_of_offer,
    offer_rows,
    title_of,
)

REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+(:[\w.-]*)?", re.ASCII)
"""A name on the Hub."""

MOST_MODELS = 100
"""Models of one server, in the list: a large provider has thousands."""

Sentence = tuple[str, str, int]
"""A sentence on the model under the cursor: text, style, most lines."""


@dataclass(frozen=True, slots=True)
class ModelsScope:
    """The listed models: all (neither field), those that may draft for one, or a repository's on the Hub."""

    target: FoundModel | None = None
    repository: str = ""


EVERYTHING = ModelsScope()


class ModelSearch:
    """The list of models while it is open.

    Args:
        library: with the results of earlier searches.
        downloads: under way or over.
        measure: returns the free memory for another model; called in a thread.
        dialogue: with the model to mark.
        settings: with the user's folders and servers, and the options of a load.
    """

    def __init__(
        self,
        library: Library,
        downloads: Downloads,
        measure: Callable[[], FreeMemory],
        dialogue: Dialogue,
        settings: Settings,
    ) -> None:
        self._library = library
        self.downloads = downloads
        self._measure = measure
        self._dialogue = dialogue
        self._settings = settings
        self.scope = EVERYTHING
        self._served: list[FoundServer] = []  # answers of the servers in the settings
        self._room: FreeMemory | None = None  # free memory, once it is known
        self.by_key: dict[object, FoundModel] = {}
        """The models on this machine."""
        self.scanning = False
        self.repository: Repository | None = None
        """The Hub's last answer."""
        self._pairings: dict[object, dict[object, Pairing]] = {}
        self._judged: set[tuple[object, object]] = set()
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._gone = threading.Event()
        self._queries = 0
        self._again = False  # whether to search once more after the present search

    def close(self) -> None:
        """Discard the results of threads that still run."""
        self._gone.set()

    def poll(self) -> bool:
        """Apply the results of threads; return whether there were any."""
        count = self._inbox.qsize()
        for _ in range(count):
            self._inbox.get_nowait()()
        return count > 0

    def pairings(self, target: FoundModel) -> dict[object, Pairing]:
        """Return the pairings of a target with the models judged so far."""
        return self._pairings.setdefault(target.key, {})

    def scan(self) -> None:
        """Search for models, once more if a search is under way; deleted models leave the list at its end."""
        self._again = self.scanning
        if self.scanning:
            return
        self.scanning = True
        self._start(self._scan)
        if self._settings.servers:
            self._start(self._ask_servers)

    def _scan(self) -> None:
        self._inbox.put(partial(setattr, self, "_room", self._measure()))
        keys: set[object] = set()
        for model in self._library.look(self._settings.model_folders, stopped=self._gone.is_set):
            keys.add(model.key)
            self._inbox.put(partial(self.by_key.__setitem__, model.key, model))

        def end() -> None:
            self.scanning = False
            for key in self.by_key.keys() - keys:
                del self.by_key[key]
            if self._again:
                self.scan()

        self._inbox.put(end)

    def _ask_servers(self) -> None:
        self._inbox.put(partial(setattr, self, "_served", ask(self._settings.servers)))

    def judge(self, target: FoundModel) -> None:
        """Judge the models that are not paired with this target yet, by their vocabularies."""
        pairings = self.pairings(target)
        waiting = [model for model in self.by_key.values() if (target.key, model.key) not in self._judged]
        self._judged.update((target.key, model.key) for model in waiting)

        def work() -> None:
            for model in waiting:
                if self._gone.is_set():
                    return
                self._inbox.put(partial(pairings.__setitem__, model.key, pair(self._library, target, model)))

        if waiting:
            self._start(work)

    def ask_hub(self, name: str, report: Callable[[str], None]) -> None:
        """Ask the Hub for its offers under a name; `repository` is None until it has answered.

        Args:
            name: `owner/name`.
            report: called by `poll` with the error message, empty without an error, unless there was another query since.
        """
        self.leave_hub()
        query = self._queries

        def answered(repository: Repository | None, sentence: str = "") -> None:
            if query == self._queries:
                self.repository = repository
                report(one_line(sentence))

        def work() -> None:
            try:
                repository = look_up(name, cancelled=lambda: query != self._queries or self._gone.is_set())
            except Cancelled:
                return
            except UserError as error:
                self._inbox.put(partial(answered, None, str(error)))
            except Exception as error:  # the library's own trouble
                self._inbox.put(partial(answered, None, f"Cannot read the Hub's answer ({type(error).__name__})."))
            else:
                self._inbox.put(partial(answered, repository))

        self._start(work)

    def leave_hub(self) -> None:
        """Discard the Hub's answer, also one that is still to come."""
        self._queries += 1
        self.repository = None

    def _start(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work, name="models", daemon=True).start()

    # Rows

    def rows(self, query: str) -> list[ModelRow]:
        """List the rows that match a search."""
        downloads = self.downloads.all
        if self.scope.repository:
            repository = self.repository
            return offer_rows(repository, self._room, self._settings, downloads) if repository is not None else []
        models = [model for model in in_order([*self.by_key.values()]) if matches(model, query)]
        if (target := self.scope.target) is not None:
            return draft_rows(target, models, self.pairings(target), self._marks())
        rows = [*download_rows(downloads.values()), *all_rows(models, self._room, self._settings, self._marks())]
        rows += server_rows(self._served, query, self._dialogue.model)
        if REPOSITORY.fullmatch(query):
            name = one_line(query.partition(":")[0])
            rows.append(ModelRow(("look", name), f"Look up {name} on the Hub", ("↵", "$accent"), verb="ask"))
        return rows

    def _marks(self) -> dict[object, tuple[str, str]]:
        """Mark the loaded target and draft models."""
        draft_models = self._dialogue.selection.draft_model
        marks: dict[object, tuple[str, str]] = {}
        for key, model in self.by_key.items():
            if self._is_loaded(model):
                marks[key] = ("●", "$primary")
            elif model.spot.spec in draft_models:
                marks[key] = ("◇", "$accent")
        return marks

    def _is_loaded(self, model: FoundModel) -> bool:
        """Whether this is the model in the engine, or the one that is being loaded."""
        dialogue = self._dialogue
        spot = model.spot
        if spot.spec != dialogue.model:
            return str(spot.path) == dialogue.info.path and spot.place != "Built-in"
        backend = str(dialogue.info.backend or dialogue.selection.backend)
        return "auto" in (spot.backend, backend) or spot.backend == backend

    def loaded(self) -> object:
        """Return the key of the loaded target, if it is in the list."""
        return next((key for key, mark in self._marks().items() if mark[0] == "●"), None)

    def about(self, row: ModelRow | None) -> list[Sentence]:
        """Describe a row in sentences."""
        target = self.scope.target
        match row.item if row is not None else None:
            case Download() as download:
                return of_download(download)
            case Offer() as offer if self.repository is not None:
                return of_offer(self.repository, offer, self._room, self._settings)
            case FoundModel() as model if target is not None:
                return of_draft(target, model, self.pairings(target).get(model.key))
            case FoundModel() as model:
                return of_model(model, self._room, self._settings)
            case str() if row is not None:
                return [(row.note, "$warning" if row.faint else "$foreground", 3)]
        return of_target_alone(target) if row is not None and target is not None else []


# Servers


@dataclass(frozen=True, slots=True)
class FoundServer:
    """The answer of a server in the settings, or its error."""

    name: str
    method: str = ""
    """Its engine, and how it decodes."""
    models: tuple[str, ...] = ()
    problem: str = ""
    """A sentence; empty if it answers."""


def ask(servers: Mapping[str, Mapping[str, str]]) -> list[FoundServer]:
    """Ask servers for their models, all at once; takes as long as the slowest, at most some ten seconds."""

    async def ask_all() -> list[FoundServer]:
        return list(await asyncio.gather(*(_ask(name, servers) for name in servers)))

    return asyncio.run(ask_all())


async def _ask(name: str, servers: Mapping[str, Mapping[str, str]]) -> FoundServer:
    # Deferred: httpx takes 100 ms, and few have servers.
    from ...backends.remote.model import connect

    try:
        address = find_server(name, servers)
        assert address is not None, "it is one of the settings"
        model = await connect(address)
    except UserError as error:
        return FoundServer(name, problem=one_line(str(error)))
    served = model.served
    await model.close()
    method = one_line(" · ".join(filter(None, (served.engine, served.method))))
    return FoundServer(name, method, served.models or tuple(filter(None, (served.model,))))


def server_rows(servers: Sequence[FoundServer], query: str, loaded: str) -> list[ModelRow]:
    """List the servers' models that match a search; `loaded` is the name of the loaded model."""
    rows = []
    for server in servers:
        for model in server.models[:MOST_MODELS]:
            spec = f"{server.name}#{quote_model(model)}" if len(server.models) > 1 else server.name
            mark = ("●", "$primary") if spec == loaded else ("", "")
            title = one_line(f"{server.name} · {model}")
            rows.append(ModelRow(("server", spec), title, mark, note=server.method, item=spec, verb="load"))
        if server.problem:
            key, title = ("server", server.name), one_line(server.name)
            rows.append(ModelRow(key, title, note=server.problem, faint=True, item=server.name))
    rows = [row for row in rows if has_words(f"{row.title} {row.note}", query)]
    return [ModelRow(None, "Servers"), *rows] if rows else []


# Details


def _of_files(model: FoundModel, *verdicts: Sentence) -> list[Sentence]:
    """Put verdicts between a model's description and its path."""
    card = model.card
    parts = (
        one_line(card.architecture),
        f"{count_of(card.parameters)} parameters" if card.parameters else "",
        one_line(card.quantization),
        "PARD draft model" if card.pard else "",
        "drafts for itself (MTP)" if drafts_alone(card) else "",
        "GGUF on llama.cpp" if card.backend == "llama.cpp" else "safetensors on transformers",
        f"{card.context:,} tokens of context" if card.context else "",
    )
    return [(" · ".join(filter(None, parts)), "$foreground", 1), *verdicts, (short_path(model.spot.path), "$quiet", 1)]


def of_model(model: FoundModel, room: FreeMemory | None, options: LoadOptions) -> list[Sentence]:
    """Describe a model on this machine: what it is, whether it fits, its path."""
    card = model.card
    if model.problem:
        return _of_files(model, (one_line(model.problem), "$quiet" if card.head is not None else "$warning", 3))
    verdicts = [_of_fit(fit_of(model, room, options))]
    if card.mtp is not None and card.mtp.problem:
        verdicts.append((one_line(card.mtp.sentence), "$quiet", 2))
    return _of_files(model, *verdicts)


def of_draft(target: FoundModel, model: FoundModel, pairing: Pairing | None) -> list[Sentence]:
    """Describe a model that might draft for a target."""
    if pairing is None:
        return _of_files(model)
    why = "its sizes fit" if model.card.head is not None else "the vocabulary is the same"
    verdict = one_line(pairing.reason) or f"Can draft for {title_of(target)}: {why}."
    return _of_files(model, (verdict, "$warning" if pairing.reason else "$success", 3))


def of_target_alone(target: FoundModel) -> list[Sentence]:
    """Describe the row without a draft model."""
    if target.spot.spec == BUILTIN:
        return [(f"{BUILTIN_DRAFT} and {BUILTIN_EAGLE}, each loaded when a method first needs it.", "$foreground", 2)]
    mtp = f" {target.card.mtp.sentence}" if target.card.mtp is not None else ""
    alone = f"No draft model. Methods that need one are not available.{mtp}"
    return [(alone, "$foreground", 3), (look_for(target), "$quiet", 3)]


def of_download(download: Download) -> list[Sentence]:
    amount = f"{size_of(download.done)} of {size_of(download.total)} downloaded."
    if download.state == "failed":
        return [(one_line(download.sentence), "$warning", 4), (amount, "$quiet", 1)]
    return [(amount, "$foreground", 1), ("Continues when you close this list.", "$quiet", 1)]


def of_offer(repository: Repository, offer: Offer, room: FreeMemory | None, options: LoadOptions) -> list[Sentence]:
    kind = "GGUF on llama.cpp" if offer.kind == "gguf" else "safetensors on transformers"
    context = f"{repository.context:,} tokens of context" if repository.context else ""
    parts = (one_line(repository.name), one_line(offer.quantization), kind, context)
    sentences: list[Sentence] = [(" · ".join(filter(None, parts)), "$foreground", 1)]
    if room is not None:
        sentences.append(_of_fit(judge(needs_of_offer(repository, offer), room, options)))
    if offer.cached and not offer.here:
        sentences.append((f"{size_of(offer.cached)} of {size_of(offer.size)} already downloaded.", "$quiet", 1))
    if repository.gated and not offer.here:
        sentences.append(("Accept its licence on its page on the Hub first, then run `hf auth login`.", "$warning", 2))
    return sentences


def _of_fit(verdict: MemoryFit) -> Sentence:
    return verdict.sentence, VERDICTS[verdict.verdict][2], 3


def lines(sentences: list[Sentence], cells: int, most: int) -> list[tuple[str, str]]:
    """Break sentences into at most so many lines of so many cells; a longer one ends in an ellipsis."""
    rows = [row for text, style, limit in sentences for row in flowed(((text, style),), cells, limit)]
    return [part for row in rows[:most] for part in row]
