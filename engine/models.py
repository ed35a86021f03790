"""The loaded models: the chat's, the primary one, and secondary ones next to it for the lanes of a race."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..backends.base import Model
from ..backends.options import LoadOptions
from ..errors import Cancelled, UserError, counted
from .failures import failure
from .messages import Event, Load, Loaded, LoadedSecondary, Loading, LoadSecondary, Unloaded
from .past import PastAnswers, fingerprint

if TYPE_CHECKING:
    from ..backends.remote.address import Address
    from ..backends.remote.model import ServerModel
    from .drafts import Drafters
    from .lanes import Lanes
    from .remote import ServerAnswers

PRIMARY = ""
"""Key of the chat's model."""

UNKNOWN_CONTEXT = 32_768
"""Context, in tokens, of models that state none."""


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model of this machine, and its drafters."""

    model: Model
    drafts: Drafters

    def close(self) -> None:
        """Free the memory; the model's lanes must be closed."""
        for part in (self.drafts, self.model):
            try:
                part.close()
            except BaseException as error:  # the memory goes with the last reference
                failure(0, error)


class ModelTable:
    """Loads and frees models, by key. Every method posts events rather than raising.

    Args:
        post: receives the events.
        lanes: those that the models' answers run in.
        past: the index of past answers, which the primary model's tokens fill.
        cancelled: whether the load with an id is cancelled.
    """

    def __init__(
        self, post: Callable[[Event], None], lanes: Lanes, past: PastAnswers, cancelled: Callable[[int], bool]
    ) -> None:
        self._post = post
        self._lanes = lanes
        self._past = past
        self._cancelled = cancelled
        self._models: dict[str, LocalModel | ServerModel] = {}
        self.answers: ServerAnswers | None = None
        """The servers' answers; created, with httpx imported, when the first server is named."""

    def local(self, key: str = PRIMARY) -> tuple[Model, Drafters] | tuple[None, None]:
        """Return the model of this machine with a key, and its drafters."""
        local = self._models.get(key)
        return (local.model, local.drafts) if isinstance(local, LocalModel) else (None, None)

    def server(self, key: str = PRIMARY) -> ServerModel | None:
        """Return the model on a server with a key."""
        model = self._models.get(key)
        return None if isinstance(model, LocalModel) else model

    def load(self, command: Load | LoadSecondary) -> None:
        """Load a model in place of the one with the same key. The primary one is freed when the new one's weights are about to
        be read, so that a wrong name costs nothing and two are never in memory together."""
        from ..backends.remote.address import find_server

        key = command.key if isinstance(command, LoadSecondary) else PRIMARY
        selection, start = command.selection, time.perf_counter()
        had_model = PRIMARY in self._models
        # Importing torch and transformers makes a million objects that stay: scanning them again and again takes a fifth of
        # the import (4.3 instead of 5.2 CPU seconds without), and would slow every later collection.
        gc.disable()
        try:
            if key:
                self.free(key)
            address = find_server(selection.model, selection.servers)
            loaded = self._connect(command.id, key, address) if address else self._load(command, key)
        except BaseException as error:  # see `failure`
            failed = failure(command.id, error, loading=selection.model)
            if had_model and PRIMARY not in self._models:
                failed.sentence += " The previous model is no longer loaded. Load one again."
            self._post(failed)
            return
        finally:
            gc.freeze()
            gc.enable()
        seconds = time.perf_counter() - start
        loaded.model = replace(loaded.model, load_seconds=loaded.model.load_seconds or seconds)
        self._post(loaded)

    def _connect(self, id: int, key: str, address: Address) -> Loaded | LoadedSecondary:
        """Identify a server, then free the model in whose place it is."""
        from .remote import ServerAnswers, describe_server, refusals

        self._post(Loading(id, "connect"))
        self.answers = self.answers or ServerAnswers(self._post)
        server = self.answers.load(address, lambda: self._cancelled(id))
        self.free(key)
        self._models[key] = server
        info, unavailable = describe_server(server), refusals(server)
        return LoadedSecondary(id, key, info, unavailable) if key else Loaded(id, info, unavailable)

    def _load(self, command: Load | LoadSecondary, key: str) -> Loaded | LoadedSecondary:
        from ..backends.loading import find_model
        from .drafts import Drafters, refusals

        id, selection = command.id, command.selection
        self._post(Loading(id, "import"))

        def progress(stage: str, done: int, total: int) -> None:
            if stage == "weights":
                self.free(key)
            self._post(Loading(id, stage, done, total))

        def draft_progress(stage: str, done: int, total: int) -> None:
            self._post(Loading(id, f"draft {stage}", done, total))

        def cancelled() -> bool:
            return self._cancelled(id)

        drafts = Drafters(selection, draft_progress, cancelled)
        options, (primary, _) = drafts.target_options, self.local()
        if key:
            # No longer a context than the primary model's is of use.
            limit = primary.info.context if primary is not None else None
            options = replace(options, context=None, context_at_most=options.context or limit)
        loader = find_model(selection.model, options, progress=progress, cancelled=cancelled)
        if cancelled():
            raise Cancelled
        if isinstance(command, LoadSecondary) and loader.path is not None:
            check_room(selection.model, loader.path, options, command.lanes)
        model = loader()
        try:
            self.free(key)
            drafts.join(model)
        except BaseException:
            model.close()
            raise
        self._models[key] = LocalModel(model, drafts)
        info = replace(model.info, notes=(*model.info.notes, *drafts.notes))
        unavailable = refusals(model, drafts)
        if key:
            tokenizers = fingerprint(model), fingerprint(primary) if primary is not None else ""
            return LoadedSecondary(id, key, info, unavailable, *tokenizers)
        head = drafts.head.info.name if drafts.head else ""
        return Loaded(id, info, unavailable, [draft.info for draft in drafts.models], head)

    def free(self, key: str) -> None:
        """Free the model of a key and its lanes; with the primary one all others, announced by Unloaded."""
        if key not in self._models:
            return
        if key == PRIMARY:
            self.free_secondary()
        model = self._models.pop(key)
        if not isinstance(model, LocalModel):
            if self.answers is not None:
                self.answers.free(model)
        else:
            self._lanes.close_model(model.model)
            if key == PRIMARY:
                self._past.close()
            model.close()
            del model
            gc.unfreeze()
            gc.collect()
            gc.freeze()
        if key == PRIMARY:
            self._post(Unloaded())

    def free_secondary(self, key: str = "") -> None:
        """Free the secondary model of a key, or (empty) all of them."""
        for name in [name for name in self._models if name and key in ("", name)]:
            self.free(name)


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
    from ..backends.files.model_card import USUAL, read_card

    card = read_card(path)
    if card.problem:  # the load itself words it better
        return
    gguf = card.backend == "llama.cpp"
    gpu, free, where = (_llama_room if gguf else _torch_room)(path, options)
    model = card.needs.footprint(gpu=gpu, dtype=options.dtype, kv_type=options.kv_type)
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
