"""What drafts beside a target: the draft model or trained drafter that was asked for, or the built-in target's own draft model,
loaded when it is first needed."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

from ..backends.base import Model
from ..backends.files.checkpoint import read_json
from ..backends.heads.base import Head, HeadName
from ..backends.loading import Loader, builtin_path, find_model
from ..backends.options import BUILTIN, BUILTIN_DRAFT, BUILTIN_EAGLE, LoadOptions, StageProgress
from ..decoders import registry
from ..decoders.conversation import Conversation
from ..decoders.parts.ahead import OwnThread
from ..errors import UserError
from .messages import Load

OPTION = re.compile(r"--(?=(device|dtype|threads)\b)")
"""How the options that the draft model has too begin."""


def options_of(command: Load) -> LoadOptions:
    """How to load the target."""
    return LoadOptions(**{f.name: getattr(command, f.name) for f in fields(LoadOptions) if hasattr(command, f.name)})


class Drafts:
    """The draft model or trained drafter of one load, for all its lanes.

    One that was asked for is found before the target is loaded, so that a wrong name costs nothing, and loaded after it.

    Args:
        command: names the target and, perhaps, the draft model.
        progress: told about each stage.
        cancelled: polled; answering True raises Cancelled.

    Raises:
        UserError: there is no such model.
    """

    def __init__(
        self, command: Load, progress: StageProgress | None = None, cancelled: Callable[[], bool] | None = None
    ) -> None:
        target = self.target_options = options_of(command)
        """How to load the target."""
        self._options = _draft_options(command)
        self._own_threads = command.draft_threads is not None
        self._spec = command.draft_model or (BUILTIN_DRAFT if command.model == BUILTIN else "")
        self._target: Model | None = None
        self._found: Loader | None = None
        self.model: Model | None = None
        """The draft model, once it is loaded."""
        self.head: Head | None = None
        """The trained drafter, once it is loaded: the one that was asked for, or the target's own MTP layer."""
        self.no_mtp = ""
        """Why the target's own MTP layer is of no use, if it has one."""
        self._own_head: Loader | None = None
        """The built-in target's, which the first method that needs it loads."""
        if command.draft_model:
            try:
                self._found = find_model(self._spec, self._options, progress=progress, cancelled=cancelled)
            except UserError as error:
                raise _naming(self._spec, error) from None
            head = self._found.head
            if head is not None and command.model == BUILTIN and target.backend == "auto":
                self.target_options = replace(target, backend=head.runtime)
        elif self._spec and not any(builtin_path(self._spec).glob("*.safetensors")):
            self._spec = ""

    def __bool__(self) -> bool:
        """Whether there is a draft model, loaded or not."""
        return bool(self._spec) and (self._found is None or self._found.head is None)

    @property
    def pard(self) -> bool:
        """Whether it is a PARD model, loaded or not."""
        if self.model is not None:
            return self.model.info.pard_token is not None
        # What is loaded only when it is needed is the built-in one.
        return bool(self) and "pard_token" in read_json(builtin_path(self._spec) / "config.json")

    def join(self, target: Model) -> None:
        """The target is loaded: load what was asked for to draft for it.

        Raises:
            UserError: it cannot be loaded; says why.
            Cancelled: the load was cancelled.
        """
        self._target = target
        if self._found is not None and self._found.head is not None:
            try:
                self.head = self._found.beside(self._spec, target)
            except UserError as error:
                raise _naming(self._spec, error) from None
            return
        if self._found is not None:
            self.get()
        elif self._spec:
            with suppress(UserError):  # an installation without it, or a build of llama.cpp that has no use for it
                found = find_model(BUILTIN_EAGLE, replace(self._options, backend=target.info.backend))
                self._own_head = found if found.head is not None else None
        able = target.info.capabilities
        if target.info.backend != "recorded" and target.info.path and able.chain and able.states:
            self._load_mtp(target)

    def _load_mtp(self, target: Model) -> None:
        """Load the MTP layer of the target's own checkpoint; one that is of no use costs no more than the method."""
        from ..backends.heads.folders import mtp_tensors

        try:
            if target.info.backend == "llama.cpp":
                from ..backends.llama.drafters.load import load_gguf_mtp
                from ..backends.llama.model import LlamaModel

                if isinstance(target, LlamaModel):
                    self.head = load_gguf_mtp(target)
                return
            if not mtp_tensors(Path(target.info.path), target.info.layers):
                return
            from ..backends.heads.mtp import load_mtp
            from ..backends.hf.model import TransformersModel

            if isinstance(target, TransformersModel):
                self.head = load_mtp(target)
        except UserError as error:
            self.no_mtp = str(error)

    @property
    def head_name(self) -> HeadName | None:
        """The trained drafter, loaded or not."""
        if self.head is not None:
            return self.head.info
        found = self._own_head.head if self._own_head is not None else None
        return HeadName(BUILTIN_EAGLE, found.kind, found.title) if found is not None else None

    @property
    def asked(self) -> Head | None:
        """The trained drafter that was asked for. One that the target brings along is only offered: handing out hidden states
        takes time in every pass, so that waits until its method is chosen."""
        return self.head if self._found is not None else None

    def get_head(self) -> Head | None:
        """The trained drafter, loaded at the first call; None if there is none.

        Raises:
            UserError: it cannot be loaded; says why.
        """
        if self.head is None and self._own_head is not None and self._target is not None:
            self.head = self._own_head.beside(BUILTIN_EAGLE, self._target)
        return self.head

    def get(self) -> Model | None:
        """The draft model, loaded at the first call; None if there is none.

        Raises:
            UserError: it cannot be loaded; says why.
        """
        if self.model is None and self._spec:
            if self._target is not None:
                self._options = replace(self._options, context_at_most=self._target.info.context)
            try:
                self.model = self._load(self._found or find_model(self._spec, self._options))
            except UserError as error:
                raise _naming(self._spec, error) from None
        return self.model

    def _load(self, loader: Loader) -> Model:
        """The draft model; in a thread of its own where it has a device or CPU threads that the target leaves alone."""
        if self._own_threads:
            return OwnThread(partial(loader, self._options))
        model = loader(self._options)
        target = self._target.info if self._target is not None else model.info
        # The runtimes have names of their own for one GPU.
        comparable = target.backend == model.info.backend or "cpu" in (target.device, model.info.device)
        return OwnThread(lambda: model) if comparable and target.device != model.info.device else model

    def close(self) -> None:
        """Free it."""
        for part in (self.model, self.head):
            if part is not None:
                part.close()
        self.model = self.head = self._own_head = None
        self._spec = ""


def conversation_of(model: Model, drafts: Drafts | None, context: int | None = None) -> Conversation:
    """An empty conversation with a target, and with what drafts for it.

    Args:
        context: the most tokens in it.

    Raises:
        UserError: there is not enough memory.
    """
    head = None if drafts is None else drafts.asked or drafts.get_head
    return Conversation(model, draft_model=drafts.get if drafts else None, head=head, context=context)


def refusals(model: Model, drafts: Drafts | None) -> dict[str, str]:
    """Methods that a target cannot run, each with the reason."""
    found = {
        name: registry.unavailable(
            *(method, model.info.capabilities),
            draft_model=bool(drafts),
            pard=drafts is not None and drafts.pard,
            head=drafts.head_name if drafts is not None else None,
        )
        for name, method in registry.methods().items()
    }
    if drafts is not None and drafts.no_mtp:
        found["mtp"] = drafts.no_mtp
    return {name: reason for name, reason in found.items() if reason}


def _draft_options(command: Load) -> LoadOptions:
    """How to load the draft model. It runs here, whoever shares the target's layers; a revision is one of the target's
    repository."""
    target, device, dtype = options_of(command), command.draft_device, command.draft_dtype
    return replace(
        target,
        device=target.device if device is None else device,
        dtype=target.dtype if dtype is None else dtype,
        kv_type=target.kv_type if dtype is None else "auto",
        threads=target.threads if command.draft_threads is None else command.draft_threads,
        context=None,
        revision=None,
        rpc="",
        backend="auto",
        gpu_layers=0 if target.gpu_layers == 0 and device is None else None,
    )


def _naming(spec: str, error: UserError) -> UserError:
    """The same sentence; it must be seen which of the two models it is about, and its options have names of their own."""
    return UserError(f"The draft model {spec} cannot be used: {OPTION.sub('--draft-', str(error))}")
