"""From a model's name to a folder: a folder is itself, `owner/name` is fetched from the Hugging Face Hub, or from its cache."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from .base import Cancelled, UserError
from .hub_transfer import Missing, http_error, missing, transfer
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
    planned: Callable[[list[Missing]], None] | None = None,
) -> Path:
    """The snapshot of a Hub repository in the cache: its files of the patterns `allow` that match none of `ignore`.

    The bytes come in through `hub_transfer`, the cache is the library's.

    Args:
        planned: told what will be fetched, before the first byte.
        spec, revision, progress, cancelled: as `locate`.

    Raises:
        UserError, Cancelled: as `locate`.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import DryRunError

    wanted: dict[str, Any] = {"revision": revision, "allow_patterns": list(allow), "ignore_patterns": list(ignore)}
    with sentences(spec, revision):
        # Without the Hub there may still be all of it in the cache; if not, the last call says what is wrong.
        with suppress(DryRunError):
            files = snapshot_download(spec, **wanted, dry_run=True, tqdm_class=_bar(cancelled))
            needed = missing(spec, files)
            if planned is not None:
                planned(needed)
            transfer(spec, needed, progress, cancelled)
        return Path(snapshot_download(spec, **wanted, tqdm_class=_bar(cancelled)))


def cached_snapshot(spec: str, revision: str | None = None) -> Path | None:
    """The folder in the cache that holds what has been fetched of a repository, whole or not; None if there is none."""
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    folder = Path(constants.HF_HUB_CACHE).expanduser() / repo_folder_name(repo_id=spec, repo_type="model")
    name = revision or constants.DEFAULT_REVISION
    with suppress(OSError, ValueError):
        reference = folder / "refs" / name
        commit = reference.read_text().strip() if reference.is_file() else name
        if commit and (snapshot := folder / "snapshots" / commit).is_dir():
            return snapshot
    return None


@contextmanager
def sentences(spec: str, revision: str | None = None) -> Iterator[None]:
    """What the Hub's client raises as one sentence about the repository `spec`.

    Raises:
        UserError: in place of what was raised.
    """
    import huggingface_hub.errors as hub

    try:
        yield
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
        if status in (401, 403):
            raise _refused(spec, status) from None
        answered = "cannot be reached" if status is None else f"answers {status}"
        raise UserError(
            f"{spec} is not in the cache and the Hub {answered}: check the connection, or use `{BUILTIN}`, which ships with "
            "specchat."
        ) from None
    except hub.HfHubHTTPError as error:
        status = getattr(error.response, "status_code", None)
        if status in (401, 403):
            raise _refused(spec, status) from None
        if status == 404:
            raise UserError(f"The Hub lists a file of {spec} and does not have it (404): try again later.") from None
        raise UserError(f"The Hub answers {status} for {spec}: try again later, or use `{BUILTIN}`.") from None
    except (OSError, http_error()) as error:
        raise UserError(f"{spec} could not be fetched ({error}): check the connection and the free disk space.") from None


def _refused(spec: str, status: int) -> UserError:
    return UserError(f"The Hub refuses {spec} ({status}): run `hf auth login` with an account that may read it.")


def _bar(cancelled: Callable[[], bool] | None) -> type[Any]:
    """A progress bar class that shows nothing and stops the library's work when cancelled."""
    tqdm: Any = import_module("tqdm.auto").tqdm

    class Bar(tqdm):  # type: ignore[misc]
        """Silent; several threads call it."""

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options | {"disable": False, "file": io.StringIO()})

        def update(self, n: float | None = 1) -> Any:
            """Something has been done."""
            if cancelled is not None and cancelled():
                raise Cancelled
            return super().update(n)

    return Bar
