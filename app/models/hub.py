"""Models on the Hub: what a repository offers, and downloads during a chat, each in a thread."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from time import monotonic
from typing import Literal

from ...backends.files.hub import fetch, look_up
from ...backends.files.hub_files import Offer, Repository
from ...backends.loading import GGUF_ON_HUB
from ...errors import Cancelled, UserError

__all__ = ["GGUF_ON_HUB", "Download", "Downloads", "Offer", "Repository", "fetch", "look_up"]


@dataclass(slots=True)
class Download:
    """The download of one model. The fields are for reading; `Downloads` writes them."""

    spec: str
    """Name that loads it: `owner/name`, or `owner/name:Q4_K_M`."""
    total: int = 0
    done: int = 0
    """Bytes on the disk."""
    state: Literal["starting", "running", "failed", "done"] = "starting"
    sentence: str = ""
    """Error message, if it failed."""
    first: tuple[float, int] | None = None
    """Moment of the first progress, and the bytes on the disk then."""
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def active(self) -> bool:
        """Whether it is under way."""
        return self.state in ("starting", "running")

    @property
    def rate(self) -> float:
        """Bytes a second; 0 while that is unknown."""
        if self.state != "running" or self.first is None:
            return 0.0
        began, before = self.first
        seconds = monotonic() - began
        return (self.done - before) / seconds if seconds >= 0.5 else 0.0


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

    def start(self, offer: Offer) -> None:
        """Start a download; one that is under way continues."""
        download = self.all.get(offer.spec)
        if download is None or not download.active:
            self.begin(Download(offer.spec, offer.size, offer.cached))

    def begin(self, download: Download) -> None:
        """Start a download, or start a failed one again."""
        self.all[download.spec] = download
        download.state = "starting"
        download.sentence = ""
        download.first = None
        threading.Thread(target=self._fetch, args=(download,), name=f"download {download.spec}", daemon=True).start()

    def cancel(self, download: Download) -> None:
        """Cancel a download; complete files stay."""
        download.stop.set()
        self.all.pop(download.spec, None)

    def close(self) -> None:
        """Cancel all downloads."""
        for download in self.all.values():
            download.stop.set()

    def _fetch(self, download: Download) -> None:
        def progress(_: str, done: int, total: int) -> None:
            download.state = "running"
            download.done = done
            download.total = total or download.total
            download.first = download.first or (monotonic(), done)

        try:
            fetch(download.spec, None, progress, download.stop.is_set)
        except Cancelled:
            return
        except UserError as error:
            sentence = str(error)
        except Exception as error:  # the library's own trouble
            sentence = f"Could not download {download.spec} ({type(error).__name__}: {error})."
        else:
            sentence = ""
            download.done = download.total
        if download.stop.is_set():  # cancelled meanwhile
            return
        download.sentence = " ".join(sentence.split())
        download.state = "failed" if sentence else "done"
        self.news.append(download)
