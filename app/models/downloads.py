"""Downloads from the Hub beside the chat: each in a thread, with progress, paused and gone on with, also in a later chat."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Literal

from ... import plain_file
from ...errors import Cancelled, UserError
from .hub import Offer, Partial, fetch, forget

RATE_SECONDS = 5.0
"""Seconds of the latest progress that the rate is taken from."""

State = Literal["starting", "running", "paused", "failed", "done"]


@dataclass(slots=True)
class Download:
    """One model on its way. The fields are for reading; `Downloads` writes them."""

    spec: str
    """What loads it: `owner/name`, or `owner/name:Q4_K_M`."""
    total: int = 0
    done: int = 0
    """Bytes that are there."""
    state: State = "paused"
    sentence: str = ""
    """What is wrong, if it failed."""
    partials: list[Partial] = field(default_factory=list)
    """Its large files."""
    _told: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=64))
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    @property
    def active(self) -> bool:
        """Whether bytes are on their way."""
        return self.state in ("starting", "running")

    @property
    def rate(self) -> float:
        """Bytes a second of late; 0 while nothing can be said."""
        if self.state != "running":
            return 0.0
        now, told = monotonic(), list(self._told)
        late = [each for each in told if now - each[0] <= RATE_SECONDS]
        if not late or now - late[0][0] < 0.5:
            return 0.0
        return max(0.0, (self.done - late[0][1]) / (now - late[0][0]))

    @property
    def seconds_left(self) -> float | None:
        """Seconds until all is there, at the rate of late."""
        rate = self.rate
        return (self.total - self.done) / rate if rate else None


class Downloads:
    """All downloads of this chat, and those that earlier ones left unfinished. For one thread to call; it never blocks."""

    def __init__(self, record: Path | None = None) -> None:
        self._record = record or plain_file.cache_folder() / "downloads.json"
        self.all: dict[str, Download] = {}
        """Spec → its download, oldest first."""
        self.news: deque[Download] = deque()
        """Downloads that have ended, well or not, and of which nobody has been told."""
        self._lock = threading.Lock()
        for entry in self._read():
            with contextlib.suppress(KeyError, TypeError, ValueError):
                download = _restored(entry)
                if download.partials and download.done < download.total:
                    self.all[download.spec] = download

    @property
    def active(self) -> bool:
        return any(download.active for download in self.all.values())

    def start(self, offer: Offer) -> Download:
        """Fetch what the Hub offers; one that is under way or paused goes on."""
        download = self.all.get(offer.spec)
        if download is None or download.state == "done":
            download = self.all[offer.spec] = Download(offer.spec, offer.size, offer.there)
        self.go_on(download)
        return download

    def go_on(self, download: Download) -> None:
        """Begin, or begin again where it stopped."""
        if download.active:
            return
        before = download._thread
        download.state, download.sentence, download._stop = "starting", "", threading.Event()
        download._told.clear()
        stop = download._stop
        download._thread = threading.Thread(
            target=self._fetch, args=(download, stop, before), name=f"download {download.spec}", daemon=True
        )
        download._thread.start()

    def pause(self, download: Download) -> None:
        """Hold it; what came stays."""
        if download.active:
            download._stop.set()
            download.state = "paused"

    def cancel(self, download: Download) -> None:
        """Give it up, and throw away what came of files that are not whole."""
        self.pause(download)
        self.all.pop(download.spec, None)
        thread = download._thread

        def clear() -> None:
            if thread is not None:
                thread.join()
            forget(download.partials)
            self._write()

        threading.Thread(target=clear, daemon=True).start()

    def close(self) -> None:
        """Hold all; what came stays for a later chat."""
        for download in self.all.values():
            self.pause(download)

    def _fetch(self, download: Download, stop: threading.Event, before: threading.Thread | None) -> None:
        if before is not None:
            before.join()

        def planned(partials: list[Partial], total: int) -> None:
            download.partials, download.total = partials, total or download.total
            download.done = sum(file.there for file in partials)
            self._write()

        def progress(_: str, done: int, total: int) -> None:
            if stop.is_set():
                return
            download.state, download.done, download.total = "running", done, total
            download._told.append((monotonic(), done))

        try:
            fetch(download.spec, None, progress, stop.is_set, planned)
        except Cancelled:
            self._write()
            return
        except UserError as error:
            self._end(download, stop, "failed", str(error))
        except Exception as error:  # the library's own trouble
            self._end(download, stop, "failed", f"Could not download {download.spec} ({type(error).__name__}: {error}).")
        else:
            download.done = download.total
            self._end(download, stop, "done")

    def _end(self, download: Download, stop: threading.Event, state: State, sentence: str = "") -> None:
        if stop.is_set():  # paused meanwhile
            return
        download.sentence = " ".join(sentence.split())
        download.state = state
        self.news.append(download)
        self._write()

    # The record, so that a later chat can go on

    def _read(self) -> list[Any]:
        try:
            found = plain_file.read_json(self._record)
        except (OSError, ValueError):
            return []
        return found if isinstance(found, list) else []

    def _write(self) -> None:
        with self._lock:
            mine = {spec: download for spec, download in list(self.all.items()) if download.state != "done"}
            entries = [
                {
                    "spec": download.spec,
                    "total": download.total,
                    "files": [[str(file.blob), file.size] for file in download.partials],
                }
                for download in mine.values()
                if download.partials
            ]
            with contextlib.suppress(OSError):  # a convenience; the download itself does not need it
                plain_file.write_json(self._record, entries)


def _restored(entry: dict[str, Any]) -> Download:
    """A download that an earlier chat left, as far as it came."""
    files = [Partial(Path(blob), int(size)) for blob, size in entry["files"]]
    done = sum(file.there for file in files)
    # What is given up is deleted, so a record may name no other files than those in a cache.
    own = [file for file in files if file.blob.parent.name == "blobs"]
    return Download(str(entry["spec"]), int(entry["total"]), done, "paused", partials=own)
