"""Saving of a chat while it is written, on a thread: the interface hands over a snapshot and goes on."""

from __future__ import annotations

import json
import sqlite3
import threading
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from time import monotonic, time
from typing import Any

from ...errors import UserError
from ..attach.attachments import folded, split_attachments
from ..chat.about import LOADED_WITH, About, SavableChat
from ..chat.entries import Answer, ChatEntry, Notice, Prompt
from ..chat.runs import Pieces
from ..chat.transcript import Fork, Transcript
from ..saved import chat_json
from ..text.amounts import short_path
from ..text.cells import fit, one_line
from . import take_notices
from .store import NEXT_TURN, Store, damaged, history_file, purge, searchable, stored, trouble

TITLE_CELLS = 80
"""Longest automatic title."""

FLUSH_SECONDS = 0.4
"""Time between two snapshots of an answer. With the interface's interval (0.25 s) and the write it stays below a second."""

RETRY_SECONDS = 3.0
"""Time between two tries while the disk is full or the database busy. Nothing is lost: each snapshot is the whole chat."""


@dataclass(frozen=True, slots=True)
class Row:
    """An entry's row in the database, and how much of it is written."""

    id: int
    runs: int = 0
    """Number of an answer's runs."""
    done: bool = True


@dataclass(frozen=True, slots=True)
class Written:
    """The state of a chat in the database."""

    chat: int
    title: str
    """Title set by the user; empty for an automatic one."""
    rows: Mapping[ChatEntry, Row]
    """Rows of all entries, those of other variants included."""
    order: str
    """Order of the entries, as column `ways` has it."""
    identity: Any
    """Identity of the database."""


@dataclass(slots=True, eq=False)
class ChatTrack:
    """The history's record of a chat on the screen."""

    title: str = ""
    """Title set by the user; empty for an automatic one."""
    quiet: int = 0
    """Number of first entries that are no reason to write: those in the database, or in a file that was opened."""
    written: Written | None = None
    """The chat in the database, which only the writing thread changes; None before it is there."""

    @property
    def chat(self) -> int | None:
        return self.written.chat if self.written else None


@dataclass(frozen=True, slots=True)
class ChatSnapshot:
    """A chat at one moment."""

    track: ChatTrack
    path: Sequence[ChatEntry]
    """The entries on the screen."""
    forks: Sequence[Fork]
    entries: Mapping[ChatEntry, ChatEntry]
    """All entries, those of other variants included → themselves, or a copy of an answer that may grow meanwhile."""
    title: str
    model: str
    about: dict[str, Any]
    pieces: Pieces


def snapshot(transcript: Transcript, about: About) -> ChatSnapshot:
    """Take a snapshot of a chat: in a few microseconds, without a copy of any text."""
    from ... import __version__

    path = list(transcript.entries)
    forks = [
        Fork(fork.after, [[] if number == fork.at else list(end) for number, end in enumerate(fork.ends)], fork.at)
        for fork in transcript.forks.values()
    ]
    every = [*path, *(entry for fork in forks for end in fork.ends for entry in end)]
    model = chat_json.model_body(about)
    return ChatSnapshot(
        transcript.track,
        path,
        forks,
        entries={entry: chat_json.frozen(entry) if isinstance(entry, Answer) else entry for entry in every},
        title=transcript.track.title,
        model=one_line(str(model.get("name") or model["asked"])),
        about={
            "model": model,
            "settings": chat_json.settings_body(about),
            "load": {name: value for name in LOADED_WITH if (value := getattr(about.selection, name)) is not None},
            "system": transcript.system,
            "specchat": __version__,
        },
        pieces=about.pieces,
    )


class Recorder:
    """Writer of chats into the history (the user's own if `path` is None) while they go on. Its public methods are for the
    interface and never wait."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._changed = threading.Condition()
        self._waiting: dict[ChatTrack, ChatSnapshot] = {}  # the newest snapshot has all that the ones before had
        self._writing = False
        self._closing = False
        self._sentences: list[tuple[str, bool]] = []
        self._failing = False
        self._last: tuple[Any, ...] = ()
        self._transcript: Transcript | None = None
        self._due = 0.0
        self.off = False
        """Whether saving has ended, after a failure or a close."""
        # A daemon: a disk that hangs must not block the terminal. `close` gives it time.
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        self._thread.start()

    def note(self, chat: SavableChat) -> None:
        """Hand over a snapshot if something changed; call it at every change and a few times a second."""
        transcript = chat.transcript
        if self._transcript is not None and transcript is not self._transcript:
            previous = self._transcript
            self._transcript = None
            self._hand_over(chat, previous)
            self._last = ()
        if self.off or not self._worth(transcript):
            return
        self._transcript = transcript
        entries = transcript.entries
        answer = next((entry for entry in reversed(entries) if isinstance(entry, Answer)), None)
        last = id(entries[-1]) if entries else 0
        state = (len(entries), last, transcript.track.title, answer and answer.reason, transcript.revision)
        written = len(answer.runs) if answer else 0
        now = monotonic()
        if self._last == (state, written) or (self._last[:1] == (state,) and now < self._due):
            return
        self._last = (state, written)
        self._due = now + FLUSH_SECONDS
        self._hand_over(chat, transcript)

    def rename(self, chat: SavableChat, title: str) -> None:
        """Set the title of the chat on the screen; an empty one brings the automatic title back."""
        self.track(chat.transcript).title = title
        self.note(chat)

    def track(self, transcript: Transcript) -> ChatTrack:
        if transcript.track is None:
            transcript.track = ChatTrack()
        track = transcript.track
        assert isinstance(track, ChatTrack)
        return track

    def take_sentences(self) -> list[tuple[str, bool]]:
        """Return the sentences for the user since the last call; True marks a problem."""
        sentences, self._sentences = self._sentences, []
        return [(notice, "damaged" in notice) for notice in take_notices()] + sentences

    def settle(self, seconds: float = 10.0) -> bool:
        """Wait until every snapshot is written; False if that took longer than `seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: self.off or not (self._waiting or self._writing), seconds)

    def close(self, chat: SavableChat | None = None, seconds: float = 5.0) -> None:
        """Write the last snapshot of the open chat and end the thread; wait no longer than `seconds` for the disk."""
        if chat is not None:
            self.note(chat)
            if self._transcript is not None:
                self._hand_over(chat, self._transcript)
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(seconds)
        if self._thread.is_alive() and not self._failing and (self._waiting or self._writing):
            path = short_path(self._path or history_file())
            self._say(
                f"The end of the chat was not saved. {path} could not be written for {seconds:.0f} s. Check its disk, and "
                "close other programs that use it."
            )

    def _worth(self, transcript: Transcript) -> bool:
        """Whether there is anything to save; notices alone are not."""
        track = transcript.track
        first = track.quiet if track is not None else 0
        entries = transcript.entries
        # After a change of variants, the first entries are no longer those in the database.
        if transcript.revision or any(not isinstance(entry, Notice) for entry in entries[first:]):
            self.track(transcript)
            return True
        # Entries taken back, or a new title.
        return track is not None and (len(entries) < first or track.title != (track.written.title if track.written else ""))

    def _hand_over(self, chat: SavableChat, transcript: Transcript) -> None:
        if self.off or not self._worth(transcript):
            return
        state = snapshot(transcript, chat.about())
        with self._changed:
            self._waiting[state.track] = state
            self._changed.notify_all()

    def _say(self, sentence: str, wrong: bool = True) -> None:
        if (sentence, wrong) not in self._sentences:
            self._sentences.append((sentence, wrong))

    # The thread

    def _run(self) -> None:
        store: Store | None = None
        try:
            while True:
                with self._changed:
                    batch = self._waiting
                    self._waiting = {}
                    self._writing = bool(batch)
                try:
                    if store is None or (batch and store.moved):
                        if store is not None:
                            store.close()
                        store = None
                        store = Store(self._path)
                        with store.transaction() as db:
                            purge(db)
                            catch_up(db)
                    for track, state in list(batch.items()):
                        with store.transaction() as db:
                            written = write(db, state, store.identity)
                        track.written = written
                        del batch[track]
                    if self._failing:
                        self._failing = False
                        self._say("The chat is being saved in the history again.", wrong=False)
                except (sqlite3.Error, UserError) as error:
                    with self._changed:
                        self._waiting = {**batch, **self._waiting}
                    if store is not None and damaged(error):
                        store.close()
                        store = Store(self._path, broken=store.identity)
                        continue
                    wrong = trouble(error, store.path) if store is not None else str(error)
                    if not self._failing:
                        self._failing = True
                        self._say(f"The chat is not being saved. {wrong}")
                    if self._closing:
                        return
                finally:
                    with self._changed:
                        self._writing = False
                        self._changed.notify_all()
                with self._changed:
                    if self._failing:
                        self._changed.wait_for(lambda: self._closing, RETRY_SECONDS)
                    else:
                        self._changed.wait_for(lambda: self._waiting or self._closing)
                    if self._closing and not self._waiting:
                        return
        except Exception as error:  # the thread must report its own end
            self._say(
                f"The history failed ({type(error).__name__}: {error}). The chat continues without being saved. Please "
                "report this."
            )
        finally:
            if store is not None:
                store.close()
            with self._changed:
                self.off = True
                self._waiting.clear()
                self._changed.notify_all()


def automatic_title(entries: Sequence[ChatEntry]) -> str:
    """Return the first prompt on one line, without its attachments unless there is nothing else."""
    first = next((entry.text for entry in entries if isinstance(entry, Prompt)), "")
    if first.startswith("Attached "):
        first = split_attachments(first)[0].strip() or folded(first)
    return fit(one_line(first[:2000]), TITLE_CELLS) or "(empty)"


def write(db: sqlite3.Connection, state: ChatSnapshot, identity: Any) -> Written:
    """Bring a chat's rows up to date, in a transaction; return its new state, valid once that is committed. Ids of a database
    of another `identity` are not taken for its own."""
    before = state.track.written
    at = time()
    title = stored(state.title or automatic_title(state.path))
    if before is not None:
        present = db.execute("SELECT ways FROM chats WHERE id = ?", (before.chat,)).fetchone()
        # If another specchat continued the chat, its rows stay, and this is a new chat.
        before = before if before.identity == identity and present == (before.order,) else None
    if before is None:
        chat = db.execute(
            f"INSERT INTO chats (title, named, created, changed, model, turn, about) VALUES (?, ?, ?, ?, '', {NEXT_TURN}, '')",
            (title, bool(state.title), at, at),
        ).lastrowid
        assert chat is not None
    else:
        chat = before.chat
        if state.title != before.title:
            db.execute("UPDATE chats SET title = ?, named = ? WHERE id = ?", (title, bool(state.title), chat))
    old_rows = before.rows if before else {}
    rows = {
        entry: _write_entry(db, chat, entry, now, old_rows.get(entry), state.pieces) for entry, now in state.entries.items()
    }

    def ids(entries: Sequence[ChatEntry]) -> list[int]:
        return [rows[entry].id for entry in entries]

    forks = [[rows[fork.after].id if fork.after else 0, fork.at, [*map(ids, fork.ends)]] for fork in state.forks]
    order = json.dumps([ids(state.path), forks])
    answers = sum(isinstance(entry, Answer) for entry in state.path)
    values = (stored(state.model), stored(chat_json.dump(state.about)), answers, order, chat)
    db.execute("UPDATE chats SET model = ?, about = ?, answers = ?, ways = ? WHERE id = ?", values)
    if before and any(row is not old_rows.get(entry) for entry, row in rows.items()):
        # A chat that continues is no longer deleted.
        db.execute(f"UPDATE chats SET changed = ?, turn = {NEXT_TURN}, deleted_at = NULL WHERE id = ?", (at, chat))
    return Written(chat, state.title, rows, order, identity)


def _write_entry(db: sqlite3.Connection, chat: int, entry: ChatEntry, now: ChatEntry, row: Row | None, pieces: Pieces) -> Row:
    """Bring an entry's row up to date and return it. `now` is the entry, or the copy of an answer that may grow."""
    if row is not None and row.done:
        return row
    if row is None:
        id = db.execute("INSERT INTO entries (chat, json) VALUES (?, '')", (chat,)).lastrowid
        assert id is not None
        row = Row(id, done=False)
    done = entry is now
    # The thought is in the parts, and takes long to put together at every flush.
    head = chat_json.entry_head(now if done or not isinstance(now, Answer) else replace(now, runs=[]))
    head.pop("text", None)
    if isinstance(now, Answer):
        steps = chat_json.steps_of(now)
        if steps > row.runs:
            token_ids: set[int] = set()
            runs = ", ".join(chat_json.run_json(now, index, token_ids) for index in range(row.runs, steps))
            texts = chat_json.dump(chat_json.pieces_body(token_ids, now.pieces if len(now.pieces) else pieces))
            part = zlib.compress(stored(f'{{"runs": [{runs}], "pieces": {texts}}}').encode())
            db.execute("INSERT INTO parts VALUES (?, ?, ?)", (row.id, row.runs, part))
            row = replace(row, runs=steps)
        head["tail"] = chat_json.tail_of(now, steps)
    db.execute("UPDATE entries SET json = ? WHERE id = ?", (stored(chat_json.dump(head)), row.id))
    if done:
        _finish(db, row.id, now)
    return replace(row, done=done)


def _finish(db: sqlite3.Connection, id: int, entry: ChatEntry) -> None:
    """Index an entry for the search, and an answer for those that draft from past ones."""
    text = stored(entry.text)
    key = None
    if isinstance(entry, Answer) and text:
        key = int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) >> 1
    db.execute("UPDATE entries SET text = ?, key = ? WHERE id = ?", (text, key, id))
    if not isinstance(entry, Notice):
        db.execute("INSERT OR REPLACE INTO words (rowid, text) VALUES (?, ?)", (id, searchable(text)))


def catch_up(db: sqlite3.Connection) -> None:
    """Index the answers that were being written when specchat was killed, in a transaction. If another specchat is still
    writing one, it replaces the text later."""
    for id, body in db.execute("SELECT id, json FROM entries WHERE text IS NULL").fetchall():
        answer = read_row(db, id, None, body)
        head = {**json.loads(body), **chat_json.entry_head(answer)}
        db.execute("UPDATE entries SET json = ? WHERE id = ?", (stored(chat_json.dump(head)), id))
        _finish(db, id, answer)


def read_row(db: sqlite3.Connection, id: int, text: str | None, body: str) -> ChatEntry:
    """Return the entry in a row of `entries`; of an answer whose runs are damaged, its text alone."""
    head = json.loads(body)
    runs: list[Any] = []
    pieces: dict[str, Any] = {}
    try:
        for (part,) in db.execute("SELECT json FROM parts WHERE entry = ? ORDER BY part", (id,)):
            more = json.loads(zlib.decompress(part))
            runs += more["runs"]
            pieces |= more["pieces"]
        return chat_json.read_entry({**head, "text": text or "", "runs": runs, "pieces": pieces})
    except (chat_json.BadFile, zlib.error, ValueError, KeyError, TypeError, RecursionError):
        answer = Answer(one_line(head["method"]), one_line(head["label"]))
        answer.finish("damaged", text or "")
        return answer
