"""From a model's name to a folder: a folder is itself, `owner/name` is fetched from the Hugging Face Hub, or from its cache."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from .base import Cancelled, UserError
from .loading import BUILTIN, LoadOptions, StageProgress

WANTED = (
    "*.json",
    "*.safetensors",
    "*.model",
    "*.jinja",
    "merges.txt",
    "vocab.txt",
    "*.tiktoken",
)
"""Configuration, safetensors weights and tokenizer; other runtimes' weights and pickles stay where they are."""

UNWANTED = ("*/*", "consolidated*.safetensors", "*.bin.index.json")
"""Subfolders (other formats), and Mistral's second copy of the weights."""

_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


def locate(
    spec: str,
    options: LoadOptions,
    *,
    progress: StageProgress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Path:
    """The folder of the model that `spec` names; fetches what the cache lacks.

    Args:
        spec: a folder, or `owner/name` on the Hub (or on the server that HF_ENDPOINT names).
        options: `revision` is used.
        progress: told ("download", bytes, bytes in all).
        cancelled: polled while bytes arrive.

    Raises:
        UserError: there is no such model, it may not be read, or the Hub cannot be reached; says what to do.
        Cancelled: `cancelled` answered True; what arrived is kept, the next call goes on from there.
    """
    folder = Path(spec).expanduser()
    if folder.exists():
        return folder
    if not _REPOSITORY.fullmatch(spec) or spec.startswith((".", "/")):
        if "/" in spec or "\\" in spec or spec.startswith((".", "~")):
            raise UserError(
                f"There is no folder {spec}: check the path, or use `{BUILTIN}`, the model that ships with specchat."
            )
        raise UserError(
            f"There is no model {spec!r}: name a folder, or a model on the Hub as owner/name; `{BUILTIN}` is the one that "
            "ships with specchat."
        )
    return fetch(spec, options.revision, progress, cancelled)


def fetch(
    spec: str,
    revision: str | None,
    progress: StageProgress | None,
    cancelled: Callable[[], bool] | None,
    allow: Sequence[str] = WANTED,
    ignore: Sequence[str] = UNWANTED,
) -> Path:
    """The snapshot of a Hub repository in the cache: its files of the patterns `allow` that match none of `ignore`.

    Raises:
        UserError, Cancelled: as `locate`.
    """
    import huggingface_hub.errors as hub
    from huggingface_hub import snapshot_download

    wanted: dict[str, Any] = {"revision": revision, "allow_patterns": list(allow), "ignore_patterns": list(ignore)}
    try:
        try:
            # The total is not in the bars: theirs grows with each file that begins.
            missing = sum(file.file_size for file in snapshot_download(spec, **wanted, dry_run=True) if file.will_download)
        except hub.DryRunError:
            missing = 0
        return Path(snapshot_download(spec, **wanted, tqdm_class=_bar(missing, progress, cancelled)))
    except hub.HFValidationError:
        raise UserError(f"{spec!r} is no name on the Hub: name a model as owner/name, or a folder.") from None
    except hub.GatedRepoError:
        raise UserError(
            f"{spec} asks for its licence to be accepted: do so on its page on the Hub, then run `hf auth login`."
        ) from None
    except hub.RepositoryNotFoundError:
        raise UserError(
            f"There is no model {spec} on the Hub, or it is private: check the name, or run `hf auth login` if it is yours."
        ) from None
    except hub.RevisionNotFoundError:
        raise UserError(f"{spec} has no revision {revision!r}: check the branch, tag or commit.") from None
    except (hub.LocalEntryNotFoundError, hub.IncompleteSnapshotError) as error:
        status = getattr(getattr(error.__cause__, "response", None), "status_code", None)
        answered = "cannot be reached" if status is None else f"answers {status}"
        raise UserError(
            f"{spec} is not in the cache and the Hub {answered}: check the connection, or use `{BUILTIN}`, which ships with "
            "specchat."
        ) from None
    except hub.HfHubHTTPError as error:
        status = getattr(error.response, "status_code", None)
        if status in (401, 403):
            raise UserError(
                f"The Hub refuses {spec} ({status}): run `hf auth login` with an account that may read it."
            ) from None
        raise UserError(f"The Hub answers {status} for {spec}: try again later, or use `{BUILTIN}`.") from None
    except (OSError, httpx_error()) as error:
        raise UserError(f"{spec} could not be fetched ({error}): check the connection and the free disk space.") from None


def httpx_error() -> type[Exception]:
    """The base of what the Hub client's HTTP library raises when a connection breaks; its name differs between versions."""
    from huggingface_hub import errors

    for base in errors.HfHubHTTPError.__mro__:
        if base.__name__ == "HTTPError":
            return base
    return OSError


def _bar(total: int, progress: StageProgress | None, cancelled: Callable[[], bool] | None) -> type[Any]:
    """A progress bar class that tells `progress` about bytes, of `total`, and stops the download when cancelled."""
    tqdm: Any = import_module("tqdm.auto").tqdm

    class Bar(tqdm):  # type: ignore[misc]
        """Silent; several threads call it."""

        def __init__(self, *args: Any, **options: Any) -> None:
            # Of the two bars of bytes, the one that counts what reaches the disk.
            self.counts = options.get("unit") == "B" and not str(options.get("desc")).startswith("Downloading bytes")
            super().__init__(*args, **options | {"disable": False, "file": io.StringIO()})

        def update(self, n: float | None = 1) -> Any:
            """Some bytes have come."""
            if cancelled is not None and cancelled():
                raise Cancelled
            told = super().update(n)
            if self.counts and progress is not None and total:
                progress("download", min(int(self.n), total), total)
            return told

    return Bar
