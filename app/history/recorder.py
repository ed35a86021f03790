"""Saving of a chat while it is written, on a thread: the interface hands over a snapshot and goes on."""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from pathlib import Path
from time import monotonic
from typing import Any

from ...errors import UserError
from ..chat.about import SavableChat
from ..chat.entries import Answer, Notice
from ..chat.transcript import Transcript
from ..text.amounts import short_path
from . import take_notices
from .store import Store, damaged, history_file, purge, trouble
from .writing import ChatSnapshot, ChatTrack, catch_up, snapshot, write

FLUSH_SECONDS = 0.4
"""Time between two snapshots of an answer. With the interface's interval (0.25 s) and the write it stays below a second."""

RETRY_SECONDS = 3.0
"""Time between two tries while the disk is full or the database busy. Nothing is lost: each snapshot is the whole chat."""


class Recorder:
    """Writer of chats into the history while they go on. Its public methods are for the interface and never wait.

    Args:
        path: the database; the user's own if None.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._changed = threading.Condition()
        self._waiting: dict[int, ChatSnapshot] = {}  # by track: the newest snapshot has all that the ones before had
        self._writing = False
        self._closing = False
        self._sentences: deque[tuple[str, bool]] = deque()
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
        reason, revision = answer and answer.reason, transcript.variants.revision
        state = (len(entries), id(entries[-1]) if entries else 0, transcript.track.title, reason, revision)
        written = len(answer.runs) if answer else 0
        now = monotonic()
        if self._last == (state, written) or (self._last[:1] == (state,) and now < self._due):
            return
        self._last = (state, written)
        self._due = now + FLUSH_SECONDS
        self._hand_over(chat, transcript)

    def rename(self, chat: SavableChat, title: str) -> None:
        """Set the title of the chat on the screen; an empty one brings the automatic title back."""
        track = self.track(chat.transcript)
        track.title = title
        self.note(chat)

    def branch(self, chat: SavableChat, title: str) -> Transcript:
        """Return a new chat with the entries of this one, which is saved first."""
        self.note(chat)
        origin = chat.transcript
        transcript = Transcript(list(origin.entries), origin.system)
        transcript.track = ChatTrack(title=title, origin=self.track(origin))
        return transcript

    def track(self, transcript: Transcript) -> ChatTrack:
        if transcript.track is None:
            transcript.track = ChatTrack()
        track = transcript.track
        assert isinstance(track, ChatTrack)
        return track

    def take_sentences(self) -> list[tuple[str, bool]]:
        """Return the sentences for the user since the last call; True marks a problem."""
        sentences = [self._sentences.popleft() for _ in range(len(self._sentences))]
        return [(notice, "damaged" in notice) for notice in take_notices()] + sentences

    def settle(self, seconds: float = 10.0) -> bool:
        """Wait until every snapshot is written; False if that took longer than `seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: self.off or not (self._waiting or self._writing), seconds)

    def close(self, chat: SavableChat | None = None, seconds: float = 5.0) -> None:
        """Write the last snapshot and end the thread.

        Args:
            chat: the open chat.
            seconds: longest wait for the disk.
        """
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
                "close other programs that use it.",
                True,
            )

    def _worth(self, transcript: Transcript) -> bool:
        """Whether there is anything to save; notices alone are not."""
        track = transcript.track
        first = track.quiet if track is not None else 0
        entries = transcript.entries
        # After a change of variants, the first entries are no longer those in the database.
        if transcript.variants.revision or any(not isinstance(entry, Notice) for entry in entries[first:]):
            self.track(transcript)
            return True
        if track is None:
            return False
        # Entries taken back, a new title, or a new branch.
        branched = track.chat is None and track.origin is not None
        return len(entries) < first or track.title != track.known_title or branched

    def _hand_over(self, chat: SavableChat, transcript: Transcript) -> None:
        if self.off or not self._worth(transcript):
            return
        state = snapshot(transcript, chat.about())
        with self._changed:
            self._waiting[id(state.track)] = state
            self._changed.notify_all()

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
                    for key in list(batch):
                        self._write(store, batch[key])
                        del batch[key]
                    if self._failing:
                        self._failing = False
                        self._say("The chat is being saved in the history again.", False)
                except (sqlite3.Error, UserError) as error:
                    with self._changed:
                        self._waiting = {**batch, **self._waiting}
                    if store is not None and isinstance(error, sqlite3.Error) and damaged(error):
                        store.close()
                        store = Store(self._path, broken=store.identity)
                        continue
                    wrong = trouble(error, store.path) if store is not None else str(error)
                    if self._closing:
                        if self._waiting and (f"The chat is not being saved. {wrong}", True) not in self._sentences:
                            self._say(f"The end of the chat was not saved. {wrong}", True)
                        return
                    if not self._failing:
                        self._failing = True
                        self._say(f"The chat is not being saved. {wrong}", True)
                finally:
                    with self._changed:
                        self._writing = False
                        self._changed.notify_all()
                if not self._next():
                    return
        except Exception as error:  # the thread must report its own end
            self._say(
                f"The history failed ({type(error).__name__}: {error}). The chat continues without being saved. Please "
                "report this.",
                True,
            )
        finally:
            if store is not None:
                store.close()
            with self._changed:
                self.off = True
                self._waiting.clear()
                self._changed.notify_all()

    def _next(self) -> bool:
        """Wait for work; False if there is none and the recorder is closing."""
        with self._changed:
            if self._failing and not self._closing:
                self._changed.wait_for(lambda: self._closing, RETRY_SECONDS)
            else:
                self._changed.wait_for(lambda: self._waiting or self._closing)
            return bool(self._waiting) or not self._closing

    def _write(self, store: Store, state: ChatSnapshot) -> None:
        with store.transaction() as db:
            written = write(db, state, store.identity)
        track = state.track
        track.chat = written.chat
        track.rows = written.rows
        track.order = written.order
        track.identity = written.identity
        track.known_title = written.known_title

    def _say(self, sentence: str, wrong: bool) -> None:
        self._sentences.append((sentence, wrong))
