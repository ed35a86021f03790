"""The draft models and the trained drafter of a target: those that a load names, or the built-in target's, loaded when first
needed."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from ..backends.base import Model
from ..backends.files.checkpoint import read_json
from ..backends.heads.base import Head, HeadName
from ..backends.loading import Loader, builtin_path, find_model
from ..backends.options import BUILTIN, BUILTIN_DRAFT, BUILTIN_EAGLE, SHIPPED, LoadOptions, StageProgress
from ..decoders import registry
from ..decoders.conversation import Conversation
from ..decoders.parts.ahead import OwnThread
from ..decoders.parts.proposers import mismatch, shorter
from ..errors import UserError
from .options import ModelSelection

OPTION = re.compile(r"--(?=(device|dtype|threads)\b)")
"""The dashes of options that the draft model has too."""


class Drafters:
    """The draft models and the trained drafter of one load, for all its lanes.

    Those that the load names are located before the target is loaded, so that a wrong name costs nothing, and loaded after it.

    Args:
        selection: the target, and perhaps its drafters.
        progress: called at each stage.
        cancelled: polled; answering True raises Cancelled.

    Raises:
        UserError: there is no such model, or two are trained drafters.
    """

    def __init__(
        self, selection: ModelSelection, progress: StageProgress | None = None, cancelled: Callable[[], bool] | None = None
    ) -> None:
        target = self.target_options = selection.target_options()
        self._options = _draft_options(selection)
        self._own_threads = selection.draft_threads is not None
        self._target: Model | None = None
        self._named: dict[str, Loader] = {}
        """The draft models that the load names."""
        self._named_head: tuple[str, Loader] | None = None
        """The trained drafter that the load names."""
        self._built_in = ""
        """The built-in target's draft model, if the load names no drafter."""
        self.models: list[Model] = []
        """The draft models, once they are loaded."""
        self.head: Head | None = None
        """The trained drafter, once it is loaded: the named one, or the target's MTP layer."""
        self.no_mtp = ""
        """The reason why the target's MTP layer cannot be used, if it has one."""
        self._built_in_head: Loader | None = None
        """The built-in target's trained drafter, which the first method that needs it loads."""
        for spec in selection.draft_model:
            # A built-in head ships for both runtimes: choose the one for the target's.
            options = replace(self._options, backend=target.backend) if spec == BUILTIN_EAGLE else self._options
            try:
                loader = find_model(spec, options, progress=progress, cancelled=cancelled)
            except UserError as error:
                raise _naming(spec, error) from None
            if loader.head is None:
                self._named[spec] = loader
            elif self._named_head is not None:
                raise UserError(
                    f"{self._named_head[0]} and {spec} are both trained drafters, and a model runs with one at a time. Leave "
                    "one of them out; draft models may be several."
                )
            else:
                self._named_head = spec, loader
                if selection.model == BUILTIN and target.backend == "auto":
                    self.target_options = replace(target, backend=loader.head.runtime)
        unnamed = selection.model == BUILTIN and not selection.draft_model
        if unnamed and any(builtin_path(BUILTIN_DRAFT).glob("*.safetensors")):
            self._built_in = BUILTIN_DRAFT

    def __bool__(self) -> bool:
        """Return whether there is a draft model, loaded or not."""
        return bool(self._named or self._built_in)

    @property
    def pard(self) -> bool:
        """Whether one is a PARD model, loaded or not."""
        if self.models:
            return any(model.info.pard_token is not None for model in self.models)
        # Only the built-in one is loaded later.
        return bool(self) and "pard_token" in read_json(builtin_path(BUILTIN_DRAFT) / "config.json")

    def join(self, target: Model) -> None:
        """Load the named drafters, once the target is loaded.

        Raises:
            UserError: it cannot be loaded, or one of several draft models has other tokens than the target; says why.
            Cancelled: the load was cancelled.
        """
        self._target = target
        if self._named:
            self.get()
        if self._named_head is not None:
            spec, loader = self._named_head
            try:
                if spec == BUILTIN_EAGLE:
                    loader = self._find_built_in(BUILTIN_EAGLE, target)
                self.head = loader.beside(spec, target)
            except UserError as error:
                raise _naming(spec, error) from None
            return
        if self._built_in:
            with suppress(UserError):  # an installation without it, or a build of llama.cpp that cannot run it
                loader = self._find_built_in(BUILTIN_EAGLE, target)
                self._built_in_head = loader if loader.head is not None else None
        able = target.info.capabilities
        if target.info.path and able.chain and able.states:
            self._load_mtp(target)

    def _find_built_in(self, spec: str, target: Model) -> Loader:
        """Locate a built-in draft model or head for the target's runtime; UserError if this installation does not have it."""
        return find_model(spec, replace(self._options, backend=target.info.backend))

    def _load_mtp(self, target: Model) -> None:
        """Load the MTP layer of the target's checkpoint; without a usable one only the method is unavailable."""
        from ..backends.heads.mtp.format import mtp_format

        try:
            if target.info.backend == "llama.cpp":
                from ..backends.llama.model import LlamaModel

                if isinstance(target, LlamaModel) and target.mtp:
                    # Imports transformers, which a GGUF model does not need otherwise: 2 seconds of its load.
                    from ..backends.llama.drafters.load import load_gguf_mtp

                    self.head = load_gguf_mtp(target)
                return
            if mtp_format(Path(target.info.path), target.info.layers) is None:
                return
            from ..backends.heads.mtp.load import load_mtp
            from ..backends.hf.model import TransformersModel

            if isinstance(target, TransformersModel):
                self.head = load_mtp(target)
        except UserError as error:
            self.no_mtp = str(error)

    @property
    def notes(self) -> list[str]:
        """Sentences worth showing about the loaded draft models."""
        context = self._target.info.context if self._target is not None else 0
        return [shorter(model, model.info.context) for model in self.models if model.info.context < context]

    @property
    def head_name(self) -> HeadName | None:
        """The trained drafter, loaded or not."""
        if self.head is not None:
            return self.head.info
        built_in = self._built_in_head.head if self._built_in_head is not None else None
        return HeadName(BUILTIN_EAGLE, built_in.kind, built_in.title) if built_in is not None else None

    @property
    def named_head(self) -> Head | None:
        """The trained drafter that the load names. One that comes with the target waits until its method is chosen, as handing
        out hidden states takes time in every pass."""
        return self.head if self._named_head is not None else None

    def get_head(self) -> Head | None:
        """Return the trained drafter, loaded at the first call; None if there is none.

        Raises:
            UserError: it cannot be loaded; says why.
        """
        if self.head is None and self._built_in_head is not None and self._target is not None:
            self.head = self._built_in_head.beside(BUILTIN_EAGLE, self._target)
        return self.head

    def get(self) -> list[Model]:
        """Return the draft models, loaded at the first call.

        Raises:
            UserError: one cannot be loaded; says why.
        """
        if self.models or not self:
            return self.models
        if self._target is not None:
            self._options = replace(self._options, context_at_most=self._target.info.context)
        loaders = self._named or {self._built_in: find_model(self._built_in, self._options)}
        if self._target is not None:  # built-in models ship for both runtimes
            built_in = {spec: self._find_built_in(spec, self._target) for spec in loaders if spec in SHIPPED}
            loaders = {**loaders, **built_in}
        models: list[Model] = []
        try:
            for spec, loader in loaders.items():
                models.append(self._load(spec, loader))
                # A single one is checked when its method is chosen.
                if len(loaders) > 1 and self._target is not None and (reason := mismatch(self._target, models[-1])):
                    raise UserError(
                        f"The draft model {spec} cannot be used with others: its tokenizer differs from the target's "
                        f"({reason}). Leave it out, or choose one of the same family."
                    )
        except BaseException:
            for model in models:
                model.close()
            raise
        self.models = models
        return models

    def _load(self, spec: str, loader: Loader) -> Model:
        """Load a draft model; in another thread if it has a device or CPU threads that the target does not use."""
        try:
            if self._own_threads:
                return OwnThread(partial(loader, self._options))
            model = loader(self._options)
        except UserError as error:
            raise _naming(spec, error) from None
        target = self._target.info if self._target is not None else model.info
        # The runtimes name the same GPU differently.
        comparable = target.backend == model.info.backend or "cpu" in (target.device, model.info.device)
        return OwnThread(lambda: model) if comparable and target.device != model.info.device else model

    def close(self) -> None:
        """Free the draft models and the trained drafter."""
        for part in (*self.models, self.head):
            if part is not None:
                part.close()
        self.models = []
        self.head = self._built_in_head = None
        self._named = {}
        self._built_in = ""


def open_conversation(model: Model, drafts: Drafters | None, context: int | None = None) -> Conversation:
    """Open an empty conversation with a target and its drafters, of at most `context` tokens.

    Raises:
        UserError: there is not enough memory.
    """
    head = None if drafts is None else drafts.named_head or drafts.get_head
    return Conversation(model, draft_model=drafts.get if drafts else None, head=head, context=context)


def refusals(model: Model, drafts: Drafters | None) -> dict[str, str]:
    """List the methods that a target cannot run, each with the reason."""
    reasons = {
        name: registry.unavailable(
            method,
            model.info.capabilities,
            draft_model=bool(drafts),
            pard=drafts is not None and drafts.pard,
            head=drafts.head_name if drafts is not None else None,
        )
        for name, method in registry.methods().items()
    }
    if drafts is not None and drafts.no_mtp:
        reasons["mtp"] = drafts.no_mtp
    return {name: reason for name, reason in reasons.items() if reason}


def _draft_options(selection: ModelSelection) -> LoadOptions:
    """Return the options of the draft model's load. A revision is one of the target's
    repository."""
    target, device, dtype = selection.target_options(), selection.draft_device, selection.draft_dtype
    return replace(
        target,
        device=target.device if device is None else device,
        dtype=target.dtype if dtype is None else dtype,
        kv_type=target.kv_type if dtype is None else "auto",
        threads=target.threads if selection.draft_threads is None else selection.draft_threads,
        context=None,
        revision=None,
        chat_template="",
        backend="auto",
        gpu_layers=0 if target.gpu_layers == 0 and device is None else None,
    )


def _naming(spec: str, error: UserError) -> UserError:
    """Name the draft model in an error, and its options as a user gives them."""
    return UserError(f"The draft model {spec} cannot be used: {OPTION.sub('--draft-', str(error))}")
