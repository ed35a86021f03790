"""Races that were run in a chat: a line of the chat tells of each, which is kept with it and can be opened again."""

from __future__ import annotations

import asyncio
import json
import zlib
from array import array
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from ...backends.base import UserError
from ..chat.dialogue import Dialogue
from ..chat.entries import Notice, Transcript
from ..text.cells import fit, one_line
from .clock import Track, Unit
from .entry import Entry
from .lane import Racer
from .race import FEWEST, MOST, Race
from .record import SIGNS, Mark, RaceRecord

if TYPE_CHECKING:
    from ..tui.app import SpecchatApp

NAMED = 40
"""Cells of a prompt in the line about its race."""


class KeptRace(Race):
    """A race that is over, as it was; run again, it is one like any other.

    Args:
        dialogue: the chat, as for Race.
        record: what is kept of it.
        messages: what the model was told.
        entries: who took part.
        heard: as for Race.
    """

    def __init__(
        self,
        dialogue: Dialogue,
        record: RaceRecord,
        messages: list[dict[str, str]],
        entries: list[Entry],
        heard: Collection[int] = (),
    ) -> None:
        super().__init__(dialogue, record.prompt, messages, entries, heard)
        self.kept: RaceRecord | None = record
        """None once something is another than it was."""
        for racer, lane in zip(self.racers, record.lanes, strict=True):
            racer.answer, racer.started, racer.position, racer.gap = lane.answer, True, lane.position, lane.gap
            racer.tokens, racer.track = array("i", lane.answer.log.tokens()), Track.of(lane.answer)
            racer.compared = len(racer.tokens) if lane.position is None else lane.position

    def start(self) -> None:
        """Run it again."""
        self.kept = None
        super().start()

    def swap(self, index: int, entry: Entry) -> None:
        """Let another method or model run in a lane."""
        self.kept = None
        super().swap(index, entry)

    def add(self, entry: Entry) -> None:
        """One lane more."""
        self.kept = None
        super().add(entry)

    def remove(self, index: int) -> None:
        """One lane fewer."""
        self.kept = None
        super().remove(index)

    @property
    def unit(self) -> Unit:
        """What the lanes are compared in."""
        return super().unit if self.kept is None else self.kept.unit

    def mark(self, racer: Racer) -> Mark:
        """How a lane's tokens compare."""
        return super().mark(racer) if self.kept is None else self.kept.lanes[self.racers.index(racer)].mark

    def record(self) -> RaceRecord:
        """The race as plain data."""
        return super().record() if self.kept is None else self.kept


def pack(record: RaceRecord, messages: list[dict[str, str]], entries: list[Entry]) -> bytes:
    """A race for the database: zlib of JSON with `race` (as docs/export.md describes it), `messages` and `entries`."""
    from ..export.race import race_json

    body = {
        "race": json.loads("".join(race_json(record))),
        "messages": messages,
        "entries": [[entry.method, dict(entry.settings), entry.model, entry.backend] for entry in entries],
    }
    return zlib.compress(json.dumps(body).encode())


def unpack(data: bytes) -> tuple[RaceRecord, list[dict[str, str]], list[Entry]]:
    """What `pack` was given.

    Raises:
        UserError: it is damaged.
    """
    from ..export.race import race_of
    from ..saved.reading import Table, Wrong

    try:
        body: Any = json.loads(zlib.decompress(data))
        table = Table(body)
        record = race_of(table.table("race"))
        messages = [{key: message.text(key) for key in ("role", "content")} for message in table.tables("messages")]
        entries = [Entry(str(method), dict(given), str(model), str(on)) for method, given, model, on in body["entries"]]
    except (zlib.error, ValueError, KeyError, TypeError, RecursionError, Wrong):
        raise UserError("This race is damaged in the history: it cannot be opened.") from None
    if not FEWEST <= len(entries) == len(record.lanes) <= MOST:
        raise UserError("This race is damaged in the history: it cannot be opened.")
    return record, messages, entries


def sentence(record: RaceRecord) -> str:
    """A line on a race: who took part, and how it came out."""
    lanes = []
    for lane in record.lanes:
        speedup = record.speedup(lane)
        figure = f" {speedup:.2f}×" if speedup else ""
        lanes.append(f"{one_line(lane.name)}{figure} {SIGNS[lane.mark] if lane.mark != 'reference' else ''}".rstrip())
    return f"Race on “{fit(one_line(record.prompt), NAMED)}”: {', '.join(lanes)}. /races opens it again."


class KeptRaces:
    """Keeps the races of a chat, and opens them again.

    Args:
        chat: the app.
    """

    def __init__(self, chat: SpecchatApp) -> None:
        self.chat = chat

    def left(self, race: Race) -> None:
        """A race is no longer on the screen: it becomes a line of the chat, if it is a new one and a lane came through."""
        known = isinstance(race, KeptRace) and race.kept is not None
        if known or not any(racer.through and racer.tokens for racer in race.racers):
            return
        record, transcript = race.record(), self.chat.dialogue.transcript
        entries, messages = [racer.entry for racer in race.racers], race.messages

        async def keep() -> None:
            data = await asyncio.to_thread(pack, record, messages, entries)
            transcript.entries.append(Notice(sentence(record), race=data))
            self.chat.changed()

        self.chat.run_worker(keep(), group="races")

    def of(self, transcript: Transcript) -> list[Notice]:
        """The lines about races, oldest first."""
        return [entry for entry in transcript.entries if isinstance(entry, Notice) and entry.race]

    def command(self, arguments: list[str]) -> None:
        """What /races does: open race number N, or choose.

        Raises:
            UserError: there is none.
        """
        races = self.of(self.chat.dialogue.transcript)
        if not races:
            raise UserError("No race was run in this chat yet: F5 or /race runs one.")
        match arguments:
            case []:
                if len(races) == 1:
                    self.open(races[0])
                else:
                    self._choose(races)
            case [number] if number.isdecimal() and 0 < int(number[:9]) <= len(races):
                self.open(races[int(number) - 1])
            case _:
                raise UserError(f"/races takes a number from 1 to {len(races)}; alone, it asks which.")

    def attempt(self) -> None:
        """For the palette: open or choose; what is in the way is told."""
        try:
            self.command([])
        except UserError as error:
            self.chat.tell(str(error), "warning")

    def _choose(self, races: list[Notice]) -> None:
        from ..tui.pickers.menu import Item, Menu

        items = []
        for number, race in enumerate(races):
            title, _, detail = race.text.removesuffix(" /races opens it again.").partition("”: ")
            items.append(Item(str(number), fit(title.removeprefix("Race on “"), NAMED), detail=detail))

        def chosen(number: str | None) -> None:
            if number is not None:
                self._attempt(races[int(number)])

        self.chat.push_screen(Menu("Races of this chat", items, str(len(races) - 1)), chosen)

    def _attempt(self, race: Notice) -> None:
        try:
            self.open(race)
        except UserError as error:
            self.chat.tell(str(error), "warning")

    def open(self, race: Notice) -> None:
        """Show a race as it ended.

        Raises:
            UserError: it is damaged, or an answer is under way.
        """
        dialogue = self.chat.dialogue
        if dialogue.busy or dialogue.queued is not None:
            raise UserError("An answer is being written: stop it with esc, then open the race.")
        record, messages, entries = unpack(race.race or b"")
        self.chat.racing.show(KeptRace(dialogue, record, messages, entries, self.chat.racing.heard))
