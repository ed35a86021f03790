"""Downloads from the Hub beside the chat: each in a thread, with progress, given up and begun again."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from time import monotonic
from typing import Literal

from ...errors import Cancelled, UserError
from .hub import Offer, fetch

RATE_SECONDS = 5.0
"""Seconds of the latest progress that the rate is taken from."""

State = Literal["starting", "running", "failed", "done"]


@dataclass(slots=True)
class Download:
    """One model on its way. The fields are for reading; `Downloads` writes them."""

    spec: str
    """What loads it: `owner/name`, or `owner/name:Q4_K_M`."""
    total: int = 0
    done: int = 0
    """Bytes that are there."""
    state: State = "starting"
    sentence: str = ""
    """What is wrong, if it failed."""
    _told: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=64))
    _stop: threading.Event = field(default_factory=threading.Event)

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
    """All downloads of this chat. For one thread to call; it never blocks."""

    def __init__(self) -> None:
        self.all: dict[str, Download] = {}
        """Spec → its download, oldest first."""
        self.news: deque[Download] = deque()
        """Downloads that have ended, well or not, and of which nobody has been told."""

    @property
    def active(self) -> bool:
        return any(download.active for download in self.all.values())

    def start(self, offer: Offer) -> Download:
        """Fetch what the Hub offers; one that is under way goes on."""
        download = self.all.get(offer.spec)
        if download is None or not download.active:
            download = self.all[offer.spec] = Download(offer.spec, offer.size, offer.cached)
            self.begin(download)
        return download

    def begin(self, download: Download) -> None:
        """Begin, or begin again with the files that are not whole."""
        download.state, download.sentence = "starting", ""
        download._told.clear()
        threading.Thread(target=self._fetch, args=(download,), name=f"download {download.spec}", daemon=True).start()

    def cancel(self, download: Download) -> None:
        """Give it up; files that are whole stay."""
        download._stop.set()
        self.all.pop(download.spec, None)

    def close(self) -> None:
        """Give all of them up."""
        for download in self.all.values():
            download._stop.set()

    def _fetch(self, download: Download) -> None:
        stop = download._stop

        def progress(_: str, done: int, total: int) -> None:
            if stop.is_set():
                return
            download.state, download.done, download.total = "running", done, total or download.total
            download._told.append((monotonic(), done))

        try:
            fetch(download.spec, None, progress, stop.is_set)
        except Cancelled:
            return
        except UserError as error:
            self._end(download, "failed", str(error))
        except Exception as error:  # the library's own trouble
            self._end(download, "failed", f"Could not download {download.spec} ({type(error).__name__}: {error}).")
        else:
            download.done = download.total
            self._end(download, "done")

    def _end(self, download: Download, state: State, sentence: str = "") -> None:
        if download._stop.is_set():  # given up meanwhile
            return
        download.sentence = " ".join(sentence.split())
        download.state = state
        self.news.append(download)
