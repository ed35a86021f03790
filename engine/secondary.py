"""Secondary models, loaded next to the chat's for the lanes of a race and freed after it."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from ..backends.base import Model
from ..backends.loading import find_model
from ..backends.options import LoadOptions
from ..errors import Cancelled, UserError, counted
from .drafts import Drafters, refusals
from .failures import failure
from .messages import Event, LoadedSecondary, Loading, LoadSecondary

if TYPE_CHECKING:
    from .lanes import Lanes

UNKNOWN_CONTEXT = 32_768
"""Context, in tokens, of models that state none."""


@dataclass(frozen=True, slots=True)
class SecondaryModel:
    """A model loaded next to the chat's."""

    model: Model
    drafts: Drafters

    def close(self) -> None:
        """Free the model; its lanes must be closed."""
        self.drafts.close()
        self.model.close()


class SecondaryModels:
    """The secondary models, by key.

    Every method posts events rather than raising: a model that cannot be loaded costs only its own lanes.
    """

    def __init__(self, post: Callable[[Event], None]) -> None:
        self._post = post
        self._models: dict[str, SecondaryModel] = {}

    def get(self, key: str) -> SecondaryModel | None:
        """Return the model of this key, if it is loaded."""
        return self._models.get(key)

    def load(self, command: LoadSecondary, primary: Model | None, lanes: Lanes, cancelled: Callable[[], bool]) -> None:
        """Load a model next to the primary one, the chat's. `lanes` wait meanwhile; `cancelled` is polled."""
        self.free(lanes, command.key)
        self._post(Loading(command.id, "import"))

        def progress(stage: str, done: int, total: int) -> None:
            self._post(Loading(command.id, stage, done, total))

        model: Model | None = None
        gc.disable()  # as for the chat's model: see Server._load
        try:
            selection = command.selection
            options = _secondary_options(selection.target_options(), primary)
            loader = find_model(selection.model, options, progress=progress, cancelled=cancelled)
            if cancelled():
                raise Cancelled
            if loader.path is not None:
                check_room(selection.model, loader.path, options, command.lanes)
            drafts = Drafters(selection, progress, cancelled)
            model = loader()
            drafts.join(model)
            loaded = LoadedSecondary(
                id=command.id,
                key=command.key,
                model=model.info,
                unavailable=refusals(model, drafts),
                tokenizer=fingerprint(model),
                primary_tokenizer=fingerprint(primary) if primary is not None else "",
            )
        except BaseException as error:  # see `failure`
            if model is not None:
                model.close()
            self._post(failure(command.id, error, loading=command.selection.model))
            return
        finally:
            gc.freeze()
            gc.enable()
        self._models[command.key] = SecondaryModel(model, drafts)
        self._post(loaded)

    def free(self, lanes: Lanes, key: str = "") -> None:
        """Free the model of a key, or (empty) all of them, and their lanes."""
        removed = [self._models.pop(name) for name in tuple(self._models) if key in ("", name)]
        for secondary in removed:
            lanes.close_model(secondary.model)
            try:
                secondary.close()
            except BaseException as error:  # its memory goes with the last reference
                failure(0, error)
        if removed:
            del secondary
            removed.clear()
            gc.unfreeze()
            gc.collect()
            gc.freeze()


def _secondary_options(options: LoadOptions, primary: Model | None) -> LoadOptions:
    """Limit the context of a secondary model, which needs no longer one than the primary model."""
    limit = primary.info.context if primary is not None else None
    return replace(options, context=None, context_at_most=options.context or limit)


def check_room(name: str, path: Path, options: LoadOptions, lanes: int) -> None:
    """Refuse a model that does not fit next to those that are loaded, before reading its weights.

    Args:
        name: as the user named it.
        path: its folder or GGUF file.
        options: of its load.
        lanes: conversations that are going to share it.

    Raises:
        UserError: says what it needs, and what is free.
    """
    # They read files of all kinds: 10 ms that only a race with models need pay.
    from ..backends.files.memory import USUAL, needs_of
    from ..backends.files.model_card import read_card

    card = read_card(path)
    if card.problem:  # the load itself words it better
        return
    gguf = card.backend == "llama.cpp"
    gpu, free, where = (_llama_room if gguf else _torch_room)(path, options)
    model = needs_of(card).footprint(gpu=gpu, dtype=options.dtype, kv_type=options.kv_type)
    tokens = options.context or min(card.context or UNKNOWN_CONTEXT, options.context_at_most or UNKNOWN_CONTEXT)
    # llama.cpp allocates the whole context at once, transformers as it fills.
    needed = model.base + lanes * model.cache(tokens if gguf else min(tokens, USUAL))
    if needed <= free:
        return
    takes = f"{_gigabytes(needed)} ({_gigabytes(model.weights)} of weights, the rest for the text of {counted(lanes, 'pane')})"
    raise UserError(
        f"{name} does not fit in memory next to the chat's model. It takes about {takes}, but {_gigabytes(free)} are free "
        f"{where}. Race a smaller model, or close other programs."
    )


def _llama_room(path: Path, options: LoadOptions) -> tuple[bool, int, str]:
    """Return whether llama.cpp uses the GPU, the free bytes on the device, and the device in words."""
    from ..backends.files.gguf_file import read_header
    from ..backends.llama.options import choose_runtime, free_memory

    runtime = choose_runtime(options, read_header(path))
    return bool(runtime.gpu_layers), *free_memory(runtime)


def _torch_room(path: Path, options: LoadOptions) -> tuple[bool, int, str]:
    from ..backends.hf.devices import choose_device, free_memory

    device = choose_device(options.device)
    return device.type != "cpu", free_memory(device), "in memory" if device.type == "cpu" else f"on {device}"


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 / 2 else f"{max(1, round(count / 1e6))} MB"


def fingerprint(model: Model) -> str:
    """Hash a model's token texts: equal for two models whose tokens have the same texts."""
    digest = sha256()
    for piece in model.pieces():
        digest.update(piece.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()
