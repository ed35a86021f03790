"""From the name of a model to a folder: a folder is itself, `owner/name` is fetched from the Hugging Face Hub, or from its cache."""

from __future__ import annotations

import re
from collections.abc import Callable
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
            raise UserError(f"There is no folder {spec}: check the path, or use `{BUILTIN}`, the model that ships with specchat.")
        raise UserError(
            f"There is no model {spec!r}: name a folder, or a model on the Hub as owner/name; `{BUILTIN}` is the one that ships "
            "with specchat."
        )
    return _fetch(spec, options.revision, progress, cancelled)


def _fetch(
    spec: str, revision: str | None, progress: StageProgress | None, cancelled: Callable[[], bool] | None
) -> Path:
    """The snapshot of a Hub repository in the cache."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        IncompleteSnapshotError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        return Path(
            snapshot_download(
                spec,
                revision=revision,
                allow_patterns=list(WANTED),
                ignore_patterns=list(UNWANTED),
                tqdm_class=_bar(progress, cancelled),
            )
        )
    except Cancelled:
        raise
    except GatedRepoError:
        raise UserError(
            f"{spec} asks for its licence to be accepted: do so on its page on the Hub, then `hf auth login`."
        ) from None
    except RepositoryNotFoundError:
        raise UserError(
            f"There is no model {spec} on the Hub, or it is private: check the name, or `hf auth login` if it is yours."
        ) from None
    except RevisionNotFoundError:
        raise UserError(f"{spec} has no revision {revision}: check the branch, tag or commit.") from None
    except (LocalEntryNotFoundError, IncompleteSnapshotError):
        raise UserError(
            f"{spec} is not in the cache and the Hub cannot be reached: check the connection, or use `{BUILTIN}`."
        ) from None
    except HfHubHTTPError as error:
        status = getattr(error.response, "status_code", None)
        if status in (401, 403):
            raise UserError(f"The Hub refuses {spec} ({status}): `hf auth login` with an account that may read it.") from None
        raise UserError(f"The Hub answered {status} for {spec}: try again later, or use `{BUILTIN}`.") from None
    except OSError as error:
        raise UserError(f"{spec} could not be fetched ({error}): check the connection and the free disk space.") from None


def _bar(progress: StageProgress | None, cancelled: Callable[[], bool] | None) -> type[Any]:
    """A progress bar class that tells `progress` about bytes and stops the download when cancelled."""
    from tqdm.auto import tqdm

    class Bar(tqdm):  # type: ignore[type-arg]
        """Silent; several threads call it."""

        def __init__(self, *args: Any, **options: Any) -> None:
            self._bytes = options.get("unit") == "B"
            options.pop("name", None)
            options["disable"] = False
            options["file"] = _Nowhere()
            super().__init__(*args, **options)

        def update(self, n: float | None = 1) -> bool | None:
            if cancelled is not None and cancelled():
                raise Cancelled
            told = super().update(n)
            if self._bytes and progress is not None and self.total:
                progress("download", int(self.n), int(self.total))
            return told

    return Bar


class _Nowhere:
    """A stream that forgets."""

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        pass
