"""Saves a chat while it is written, from a thread of its own: the interface hands over a moment and goes on."""

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
from . import told
from .store import Store, damaged, history_file, purge, trouble
from .writing import ChatSnapshot, ChatTrack, catch_up, snapshot, write

FLUSH_SECONDS = 0.4
"""Between two moments of an answer. With the interface's own rhythm (0.25 s) and the write it stays below a second."""

RETRY_SECONDS = 3.0
"""Between two tries while the disk is full or the database busy. Nothing is lost meanwhile: each moment is the whole chat."""


class Recorder:
    """Writes chats into the history while they go on. All but the thread's own part is for the interface, and never waits.

    Args:
        path: the database; the user's own if None.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._changed = threading.Condition()
        self._waiting: dict[int, ChatSnapshot] = {}  # by track: the newest moment holds all that the ones before had
        self._writing = False
        self._closing = False
        self._sentences: deque[tuple[str, bool]] = deque()
        self._failing = False
        self._last: tuple[Any, ...] = ()
        self._transcript: Transcript | None = None
        self._due = 0.0
        self.off = False
        """The history failed, or was closed: nothing is saved any more."""
        # A daemon: a disk that hangs must not keep the terminal. `close` gives it time.
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        self._thread.start()

    def note(self, chat: SavableChat) -> None:
        """Take note of what changed, if anything did; call it at every change and a few times a second."""
        transcript = chat.transcript
        if self._transcript is not None and transcript is not self._transcript:
            left, self._transcript = self._transcript, None
            self._hand_over(chat, left)
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
        self._last, self._due = (state, written), now + FLUSH_SECONDS
        self._hand_over(chat, transcript)

    def rename(self, chat: SavableChat, title: str) -> None:
        """Give the chat on the screen a title; an empty one for the automatic one."""
        track = self.track(chat.transcript)
        track.title = title
        self.note(chat)

    def branch(self, chat: SavableChat, title: str) -> Transcript:
        """A chat that shares all that this one has so far. It is saved at once; show it in the place of this one."""
        self.note(chat)
        before = chat.transcript
        after = Transcript(list(before.entries), before.system)
        after.track = ChatTrack(title=title, origin=self.track(before))
        return after

    def track(self, transcript: Transcript) -> ChatTrack:
        if transcript.track is None:
            transcript.track = ChatTrack()
        found = transcript.track
        assert isinstance(found, ChatTrack)
        return found

    def sentences(self) -> list[tuple[str, bool]]:
        """What a person should be told since the last call; True: something is wrong."""
        own = [self._sentences.popleft() for _ in range(len(self._sentences))]
        return [(sentence, "damaged" in sentence) for sentence in told()] + own

    def settle(self, seconds: float = 10.0) -> bool:
        """Wait until everything that was noted is written; False if it took longer."""
        with self._changed:
            return self._changed.wait_for(lambda: self.off or not (self._waiting or self._writing), seconds)

    def close(self, chat: SavableChat | None = None, seconds: float = 5.0) -> None:
        """Write down the last moment and end.

        Args:
            chat: the one that is left.
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
        """Whether there is anything to keep: notices alone are not."""
        track = transcript.track
        first = track.quiet if track is not None else 0
        entries = transcript.entries
        # Once there was another variant, the first entries are no longer those that the database has.
        if transcript.variants.revision or any(not isinstance(entry, Notice) for entry in entries[first:]):
            self.track(transcript)
            return True
        if track is None:
            return False
        # Taken back, renamed, or the branch that was asked for.
        branched = track.chat is None and track.origin is not None
        return len(entries) < first or track.title != track.known_title or branched

    def _hand_over(self, chat: SavableChat, transcript: Transcript) -> None:
        if self.off or not self._worth(transcript):
            return
        now = snapshot(transcript, chat.about())
        with self._changed:
            self._waiting[id(now.track)] = now
            self._changed.notify_all()

    # The thread

    def _run(self) -> None:
        store: Store | None = None
        try:
            while True:
                with self._changed:
                    batch, self._waiting, self._writing = self._waiting, {}, bool(self._waiting)
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
        except Exception as error:  # a thread has nobody else who could say it
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
        """Wait for work; False when there is none and the end has come."""
        with self._changed:
            if self._failing and not self._closing:
                self._changed.wait_for(lambda: self._closing, RETRY_SECONDS)
            else:
                self._changed.wait_for(lambda: self._waiting or self._closing)
            return bool(self._waiting) or not self._closing

    def _write(self, store: Store, now: ChatSnapshot) -> None:
        with store.transaction() as db:
            written = write(db, now, store.identity)
        track = now.track
        track.chat, track.rows, track.ways = written.chat, written.rows, written.ways
        track.identity, track.known_title = written.identity, written.known_title

    def _say(self, sentence: str, wrong: bool) -> None:
        self._sentences.append((sentence, wrong))
