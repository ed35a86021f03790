"""Downloads from the Hub during a chat: each in a thread, with progress; they can be cancelled and started again."""

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
    """The download of one model. The fields are for reading; `Downloads` writes them."""

    spec: str
    """Name that loads it: `owner/name`, or `owner/name:Q4_K_M`."""
    total: int = 0
    done: int = 0
    """Bytes on the disk."""
    state: State = "starting"
    sentence: str = ""
    """Error message, if it failed."""
    _progress: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=64))
    _stop: threading.Event = field(default_factory=threading.Event)

    @property
    def active(self) -> bool:
        """Whether it is under way."""
        return self.state in ("starting", "running")

    @property
    def rate(self) -> float:
        """Bytes a second lately; 0 while that is unknown."""
        if self.state != "running":
            return 0.0
        now = monotonic()
        time, done = next((point for point in list(self._progress) if now - point[0] <= RATE_SECONDS), (now, 0))
        return max(0.0, (self.done - done) / (now - time)) if now - time >= 0.5 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Seconds to the end at the present rate; None while that is unknown."""
        rate = self.rate
        return (self.total - self.done) / rate if rate else None


class Downloads:
    """All downloads of this chat. For one thread to call; it never blocks."""

    def __init__(self) -> None:
        self.all: dict[str, Download] = {}
        """Spec → its download, oldest first."""
        self.news: deque[Download] = deque()
        """Downloads that have ended, successfully or not, and were not announced yet."""

    @property
    def active(self) -> bool:
        return any(download.active for download in self.all.values())

    def start(self, offer: Offer) -> Download:
        """Start a download; one that is under way continues."""
        download = self.all.get(offer.spec)
        if download is None or not download.active:
            download = self.all[offer.spec] = Download(offer.spec, offer.size, offer.cached)
            self.begin(download)
        return download

    def begin(self, download: Download) -> None:
        """Start a download, or start it again with the incomplete files."""
        download.state = "starting"
        download.sentence = ""
        download._progress.clear()
        threading.Thread(target=self._fetch, args=(download,), name=f"download {download.spec}", daemon=True).start()

    def cancel(self, download: Download) -> None:
        """Cancel a download; complete files stay."""
        download._stop.set()
        self.all.pop(download.spec, None)

    def close(self) -> None:
        """Cancel all downloads."""
        for download in self.all.values():
            download._stop.set()

    def _fetch(self, download: Download) -> None:
        stop = download._stop

        def progress(_: str, done: int, total: int) -> None:
            if stop.is_set():
                return
            download.state = "running"
            download.done = done
            download.total = total or download.total
            download._progress.append((monotonic(), done))

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
        if download._stop.is_set():  # cancelled meanwhile
            return
        download.sentence = " ".join(sentence.split())
        download.state = state
        self.news.append(download)
