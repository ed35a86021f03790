"""Models beside the chat's own, for the lanes of a race: loaded when asked for, freed after it."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from ..backends.base import Model
from ..backends.loading import find_model
from ..backends.options import LoadOptions
from ..errors import Cancelled, UserError, counted
from .drafts import Drafts, options_of, refusals
from .failures import failure
from .messages import Event, Load, LoadBeside, LoadedBeside, Loading

if TYPE_CHECKING:
    from .lanes import Lanes

UNKNOWN_CONTEXT = 32_768
"""Tokens, of models that state none."""

_TAKEN = {f.name for f in fields(Load)} - {"id", "model"}


@dataclass(frozen=True, slots=True)
class Guest:
    """A model beside the chat's."""

    model: Model
    drafts: Drafts

    def close(self) -> None:
        """Free it; its lanes must be gone."""
        self.drafts.close()
        self.model.close()


class Beside:
    """All of them, by key.

    Every method posts events rather than raising: a model that cannot be loaded costs its own lanes alone.
    """

    def __init__(self, post: Callable[[Event], None]) -> None:
        self._post = post
        self._guests: dict[str, Guest] = {}

    def get(self, key: str) -> Guest | None:
        """The model of this key, if it is loaded."""
        return self._guests.get(key)

    def load(self, command: LoadBeside, own: Model | None, lanes: Lanes, cancelled: Callable[[], bool]) -> None:
        """Load a model.

        Args:
            command: names it.
            own: the chat's model.
            lanes: what runs; it has its turn again once this has returned.
            cancelled: polled.
        """
        self.free(lanes, command.key)
        self._post(Loading(command.id, "import"))

        def progress(stage: str, done: int, total: int) -> None:
            self._post(Loading(command.id, stage, done, total))

        model: Model | None = None
        gc.disable()  # as for the chat's model: see Server._load
        try:
            load = Load(command.id, command.model, **{k: v for k, v in command.options.items() if k in _TAKEN})
            options = _beside(options_of(load), own)
            loader = find_model(command.model, options, progress=progress, cancelled=cancelled)
            if cancelled():
                raise Cancelled
            if loader.path is not None:
                check_room(command.model, loader.path, options, command.lanes)
            drafts = Drafts(load, progress, cancelled)
            model = loader()
            drafts.join(model)
            loaded = LoadedBeside(
                command.id,
                command.key,
                asdict(model.info),
                refusals(model, drafts),
                fingerprint(model),
                fingerprint(own) if own is not None else "",
            )
        except BaseException as error:  # see `failure`
            if model is not None:
                model.close()
            self._post(failure(command.id, error, loading=command.model))
            return
        finally:
            gc.freeze()
            gc.enable()
        self._guests[command.key] = Guest(model, drafts)
        self._post(loaded)

    def free(self, lanes: Lanes, key: str = "") -> None:
        """Free the model of a key, or (empty) all of them, and their lanes."""
        going = [self._guests.pop(name) for name in tuple(self._guests) if key in ("", name)]
        for guest in going:
            lanes.close_of(guest.model)
            try:
                guest.close()
            except BaseException as error:  # its memory goes with the last reference
                failure(0, error)
        if going:
            del guest
            going.clear()
            gc.unfreeze()
            gc.collect()
            gc.freeze()


def _beside(options: LoadOptions, own: Model | None) -> LoadOptions:
    """Options of the chat's model, for one that is its guest: it needs no longer context."""
    limit = own.info.context if own is not None else None
    return replace(options, context=None, context_at_most=options.context or limit)


def check_room(name: str, path: Path, options: LoadOptions, lanes: int) -> None:
    """Refuse a model that does not fit beside those that are loaded, before anything of it is read.

    Args:
        name: as the user named it.
        path: its folder or GGUF file.
        options: how it is going to be loaded.
        lanes: conversations that are going to share it.

    Raises:
        UserError: says what it needs, and what is free.
    """
    # They read files of all kinds: 10 ms that only a race with models need pay.
    from ..backends.files.memory import USUAL, needs_of
    from ..backends.files.model_card import read_card

    card = read_card(path)
    if card.problem:  # which the load itself words better
        return
    gguf = card.backend == "llama.cpp"
    gpu, free, where = (_llama_room if gguf else _torch_room)(path, options)
    model = needs_of(card).footprint(gpu=gpu, dtype=options.dtype, kv_type=options.kv_type)
    tokens = options.context or min(card.context or UNKNOWN_CONTEXT, options.context_at_most or UNKNOWN_CONTEXT)
    # llama.cpp takes the memory of the whole context at once, transformers as it fills.
    needed = model.base + lanes * model.cache(tokens if gguf else min(tokens, USUAL))
    if needed <= free:
        return
    takes = f"{_gigabytes(needed)} ({_gigabytes(model.weights)} of weights, the rest for the text of {counted(lanes, 'pane')})"
    raise UserError(
        f"{name} does not fit in memory next to the chat's model. It takes about {takes}, but {_gigabytes(free)} are free "
        f"{where}. Race a smaller model, or close other programs."
    )


def _llama_room(path: Path, options: LoadOptions) -> tuple[bool, int, str]:
    """Whether llama.cpp takes the GPU, bytes that are free there, and where that is."""
    from ..backends.files.gguf_file import read_header
    from ..backends.llama.options import choose_runtime, free_memory

    runtime = choose_runtime(options, read_header(path))
    return bool(runtime.gpu_layers), *free_memory(runtime)


def _torch_room(path: Path, options: LoadOptions) -> tuple[bool, int, str]:
    """Whether transformers takes a GPU, bytes that are free there, and where that is."""
    from ..backends.hf.devices import choose_device, free_memory

    device = choose_device(options.device)
    return device.type != "cpu", free_memory(device), "in memory" if device.type == "cpu" else f"on {device}"


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 / 2 else f"{max(1, round(count / 1e6))} MB"


def fingerprint(model: Model) -> str:
    """The same for two models whose tokens have the same texts."""
    digest = sha256()
    for piece in model.pieces():
        digest.update(piece.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()
