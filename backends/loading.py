"""Loads the model that a user names: `builtin`, a folder, a Hub name or a file. Runtimes are imported only here, on demand."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from ..errors import UserError
from ..plain_file import user_path
from .base import Model
from .heads.base import Head
from .heads.folders import read_format
from .heads.formats import Format
from .heads.gguf_format import DRAFTERS, GgufFormat, read_gguf_format
from .options import BUILTIN, SHIPPED, LoadOptions, StageProgress
from .remote.address import is_url

GGUF_ON_HUB = re.compile(r"[\w.-]+/[\w.-]+:[\w.-]+", re.ASCII)
"""Repository and quantization."""

RUNTIME = "SPECCHAT_RUNTIME"
"""Environment variable with a runtime outside this package, `module:function`: given a model's name, the function returns the
model, or None where that name is not one of its own. Tests bring models without weights this way."""


@dataclass(frozen=True, slots=True)
class Loader:
    """Loads a model that has been found, with the options it was searched with or with others."""

    path: Path | None
    """Its folder or GGUF file; None for a model without weights."""
    options: LoadOptions
    load: Callable[[LoadOptions], Model]
    head: Format | None = None
    """A trained drafter, which is no model of its own: `beside` loads it."""

    def __call__(self, later: LoadOptions | None = None) -> Model:
        """Load it; errors as `load_model`."""
        return self.load(later or self.options)

    def beside(self, name: str, target: Model) -> Head:
        """Load the trained drafter for a target, under the name that the user gave it.

        Raises:
            UserError: it cannot draft for this target; says why.
        """
        assert self.head is not None
        # Both import torch: not for those who never load one.
        if isinstance(self.head, GgufFormat):
            from .llama.drafters.load import load_gguf_head

            return load_gguf_head(self.head, name, target)
        from .heads.load import load_head

        return load_head(self.head, name, target)


def builtin_path(name: str = BUILTIN) -> Path:
    """Return the folder of one of SHIPPED."""
    return Path(__file__).resolve().parent.parent / "builtin" / "weights" / SHIPPED[name]


def builtin_gguf(name: str = BUILTIN) -> Path:
    """Return the same model as a GGUF file."""
    folder = builtin_path(name)
    return folder.with_name(f"{folder.name}-Q8_0.gguf")


def _check_backend(spec: str, options: LoadOptions, gguf: bool) -> None:
    if options.backend == ("transformers" if gguf else "llama.cpp"):
        other = "GGUF files run on llama.cpp only" if gguf else "llama.cpp runs only GGUF files"
        raise UserError(f"{spec} does not run on {options.backend}: {other}. Leave out --backend or choose another file.")


def load_model(
    spec: str,
    options: LoadOptions | None = None,
    *,
    progress: StageProgress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Model:
    """Load a model.

    Args:
        spec: `builtin`, `builtin-draft`, a folder with safetensors weights, FILE.gguf, `owner/name` on the Hub
            (`owner/name:Q4_K_M` for a GGUF file there), or `ollama:NAME:TAG` (a model that Ollama has downloaded).
        options: device, dtype, context and so on.
        progress: called for each stage.
        cancelled: polled; returning True raises Cancelled soon after.

    Raises:
        UserError: the model cannot be found, read or held in memory; says what to do.
        Cancelled: `cancelled` answered True.
    """
    return find_model(spec, options, progress=progress, cancelled=cancelled)()


def find_model(
    spec: str,
    options: LoadOptions | None = None,
    *,
    progress: StageProgress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Loader:
    """Find a model, and download it if it is on the Hub, without loading it. Arguments and errors are those of `load_model`."""
    first = options or LoadOptions()
    if is_url(spec):
        raise UserError(f"{spec} is a server, which can only be the chat's own model. Name a model of this machine here.")
    if (other := _of_another_runtime(spec)) is not None:
        return Loader(None, first, lambda _: other)
    if spec.startswith("ollama:"):
        from .files.ollama import locate_ollama

        _check_backend(spec, first, gguf=True)
        return _find_gguf(locate_ollama(spec), spec, first, progress, cancelled)
    gguf = spec.lower().endswith(".gguf") or (GGUF_ON_HUB.fullmatch(spec) is not None and not os.path.exists(spec))
    shipped = spec in SHIPPED
    if not shipped:
        _check_backend(spec, first, gguf)
    elif first.backend == "llama.cpp":  # where passes over several nodes save it nothing
        return _find_gguf(builtin_gguf(spec), spec, first, progress, cancelled)
    if spec.lower().endswith(".gguf"):
        return _find_gguf(user_path(spec), spec, first, progress, cancelled)
    from .files.checkpoint import check_folder
    from .files.hub import fetch, locate
    from .llama.library import library

    if gguf:
        library()  # gigabytes that nothing could open would be a poor surprise
        return _find_gguf(fetch(spec, first.revision, progress, cancelled), spec, first, progress, cancelled)

    # Importing the runtime takes seconds: a name that leads nowhere, or to a damaged model, should be told at once.
    if shipped and not builtin_path(spec).is_dir():
        raise UserError(
            f"This installation does not have {spec} ({builtin_path(spec)} is missing). Run `specchat doctor` for details."
        )
    folder = builtin_path(spec) if shipped else locate(spec, first, progress=progress, cancelled=cancelled)
    head = read_format(folder, check_folder(folder))
    if head is not None:
        return Loader(folder, first, lambda _: _alone(spec, head), head)

    def load(chosen: LoadOptions) -> Model:
        from .hf.devices import give_back
        from .hf.model import load_transformers

        model = load_transformers(folder, spec, chosen, progress=progress, cancelled=cancelled)
        give_back()
        return model

    return Loader(folder, first, load)


def _of_another_runtime(spec: str) -> Model | None:
    """Load a model from a runtime outside this package; None if it has none of that name."""
    module, _, function = os.environ.get(RUNTIME, "").partition(":")
    model: Model | None = getattr(import_module(module), function)(spec) if module else None
    return model


def _alone(spec: str, head: Format) -> Model:
    raise UserError(
        f"{spec} is a trained drafter ({head.title}), not a model of its own. Load the model that it was made for, and give "
        "this one as --draft-model."
    )


def _find_gguf(
    file: Path, spec: str, options: LoadOptions, progress: StageProgress | None, cancelled: Callable[[], bool] | None
) -> Loader:
    """Make the loader of a GGUF file. A damaged file or a missing runtime is reported before torch is imported."""
    from .files.gguf_file import read_header, read_layout
    from .llama.library import library

    header = read_header(file)
    head = read_gguf_format(read_layout(file)) if header.architecture in DRAFTERS else None
    library()
    if head is not None:
        return Loader(file, options, lambda _: _alone(spec, head), head)

    def load(chosen: LoadOptions) -> Model:
        from .llama.model import load_llama

        return load_llama(file, spec, chosen, header, progress=progress, cancelled=cancelled)

    return Loader(file, options, load)
