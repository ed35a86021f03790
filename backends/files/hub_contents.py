"""The files that a Hub says a repository holds: names, sizes and checksums, of which nothing is believed."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from ...errors import UserError
from .hub_client import Broken, Session, constants, endpoint, fault, refusal, unreachable

MOST_SIZE = 10**15
"""Bytes of a file that can be meant."""

MOST_NAME, MOST_PATH = 255, 1000
"""Bytes of a file's name and of each folder's, and characters of a path in a repository: less than file systems take."""

ETAG = re.compile(r"[\w-]{1,200}", re.ASCII)
"""A file's SHA-256 (in large file storage), its git object id, or whatever a mirror calls it. It becomes a file's name."""

_COMMIT = re.compile(r"[0-9A-Za-z][\w.-]{0,99}", re.ASCII)
"""What becomes a folder's name."""


@dataclass(frozen=True, slots=True)
class File:
    """What the Hub tells of a file."""

    size: int | None
    etag: str
    """None and empty where a mirror does not tell; a request for the file does then."""


@dataclass(frozen=True, slots=True)
class Contents:
    """A repository at a commit."""

    name: str
    commit: str
    files: dict[str, File]
    """By name."""
    told: dict[str, Any]
    """All that the Hub told."""

    def url(self, file: str) -> str:
        """Where a file is."""
        return f"{endpoint()}/{self.name}/resolve/{quote(self.commit, safe='')}/{quote(file)}"

    def chosen(self, allow: Sequence[str], ignore: Sequence[str]) -> list[str]:
        """The files whose names match one of `allow` and none of `ignore`.

        Raises:
            UserError: a name among them is none that may be written.
        """
        found = [name for name in self.files if matches(name, allow) and not matches(name, ignore)]
        for name in found:
            if not fit(name):
                raise UserError(
                    f"The Hub lists a file of {self.name} whose name is not safe to write here ({name!r:.100}), so nothing was "
                    "downloaded. Check HF_ENDPOINT, or tell the owner of the repository."
                )
        return found


def contents(session: Session, spec: str, revision: str | None = None) -> Contents:
    """Ask what a repository holds.

    Args:
        spec: `owner/name`.

    Raises:
        UserError: there is no such repository or revision, it may not be read, the Hub cannot be reached or answers nonsense.
        Cancelled
    """
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(spec)
    except HFValidationError:
        raise UserError(f"{spec!r} is not a name on the Hub. Give owner/name, or a folder.") from None
    if revision is not None and not fit(revision):
        raise UserError(f"{revision!r} is not a revision. Give a branch, a tag or a commit.")
    at = "" if revision is None else f"/revision/{quote(revision, safe='')}"
    try:
        response, told = session.table(f"{endpoint()}/api/models/{spec}{at}?blobs=true", constants().HF_HUB_ETAG_TIMEOUT)
    except Broken as broken:
        raise unreachable(spec, broken) from None
    if response.status_code != 200:
        raise refusal(spec, revision, response)
    commit, listed = told.get("sha"), told.get("siblings")
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit) or not isinstance(listed, list):
        raise fault(response, "a model description without a commit id and a file list")
    files = {}
    for each in listed:
        if isinstance(each, dict) and isinstance(name := each.get("rfilename"), str):
            files[name] = _file(each)
    return Contents(spec, commit, files, told)


def _file(told: dict[str, Any]) -> File:
    size, lfs = told.get("size"), told.get("lfs")
    etag = lfs.get("sha256") if isinstance(lfs, dict) else told.get("blobId")
    return File(
        size if isinstance(size, int) and not isinstance(size, bool) and 0 <= size <= MOST_SIZE else None,
        etag if isinstance(etag, str) and ETAG.fullmatch(etag) else "",
    )


def complete(session: Session, there: Contents, name: str) -> File:
    """A file's size and checksum, asked for where the list of files lacks them.

    Raises:
        UserError: the Hub refuses it, or does not tell.
        Cancelled
    """
    file = there.files[name]
    if file.size is not None and file.etag:
        return file
    try:
        with session.asked(there.url(name), constants().HF_HUB_ETAG_TIMEOUT, method="HEAD") as response:
            if response.status_code != 200:
                raise refusal(there.name, there.commit, response, name)
    except Broken as broken:
        raise unreachable(there.name, broken) from None
    # Of a large file the Hub tells before it redirects to where that is.
    answers = [*response.history, response]
    etags = [each.headers.get("X-Linked-Etag") for each in answers] + [response.headers.get("ETag")]
    sizes = [each.headers.get("X-Linked-Size") for each in answers] + [response.headers.get("Content-Length")]
    etag = next((each.removeprefix("W/").strip('"') for each in etags if each), "")
    size = next((each for each in sizes if each), "")
    if not ETAG.fullmatch(etag) or not re.fullmatch(r"[0-9]{1,15}", size):
        raise fault(response, f"no usable size or checksum (ETag) for {name}")
    return File(int(size), etag)


def fit(name: str) -> bool:
    """Whether a name from elsewhere stays in its folder, and on its line of a terminal."""
    if not name.isprintable() or "\\" in name or len(name) > MOST_PATH:
        return False
    return all(part not in ("", ".", "..") and len(part.encode()) <= MOST_NAME for part in name.split("/"))


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns is a file's."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
