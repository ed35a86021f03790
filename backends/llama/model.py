"""Loads a GGUF file with llama.cpp, and proves what it can do here."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from ...errors import Cancelled, UserError
from ..base import Session
from ..chat_template import given_template
from ..codec import CodecModel
from ..files import ollama
from ..files.gguf_file import Header, read_header, read_layout
from ..files.gguf_file import Tensor as FileTensor
from ..files.sampling import GGUF, OLLAMA, recommended
from ..heads.mtp.format import in_gguf
from ..info import ModelInfo, token_id
from ..options import UNKNOWN_CONTEXT, LoadOptions, StageProgress, pip_command
from ..pass_times import TOKENS as TIMED_TOKENS
from ..pass_times import given_curve
from ..proof_text import proof_text
from ..rounding import ticking
from .context import Runtime, Weights
from .hidden_states import LayerOutputs, copy_embeddings, refusal, states_unavailable
from .library import library
from .options import FLASH, check_memory, choose_runtime, device_name, least_context, usual_context
from .prove import PASSES, SIZE, Prover, states_work
from .session import Contexts, LlamaPlainSession
from .tokenizer import LlamaCodec
from .trial import Trial, trial_succeeds

NO_LAYERS = "llama.cpp runs all layers of a model or none, so the first ones cannot draft. Load the model's safetensors folder."


class LlamaModel(CodecModel):
    """A GGUF model in memory (see `load_llama`)."""

    _codec: LlamaCodec

    def __init__(self, contexts: Contexts, codec: LlamaCodec, runtime: Runtime, info: ModelInfo) -> None:
        self._contexts: Contexts | None = contexts
        self._codec = codec
        self.thoughts = codec.thoughts
        self.header = contexts.header
        """Metadata of its file."""
        self.runtime = runtime
        """Setup of its contexts."""
        self._tried = set[Trial]()
        """Trials in which llama.cpp exposed hidden states."""
        self._alike = info.capabilities.exact and runtime.flash_attention == FLASH["on"]
        self.info = info

    @property
    def _loaded(self) -> Contexts:
        if self._contexts is None:
            raise UserError(f"{self.info.name} is no longer loaded. Load it again.")
        return self._contexts

    @property
    def weights(self) -> Weights:
        """The loaded weights, for drafters that use parts of them."""
        return self._loaded.weights

    @property
    def mtp(self) -> int:
        """Parameters of the MTP layer that is loaded with it; 0 without one."""
        return sum(prod(tensor.shape) for tensor in _mtp_layer(Path(self.info.path), self.header))

    def tapped(self, taps: Sequence[int]) -> tuple[int, ...]:
        trial: Trial = "inputs" if any(tap < self.info.layers for tap in taps) else "last"
        # Of models whose MTP layer is loaded, the last states come by the setup that was tried with it.
        tried = trial in self._tried or (trial == "last" and self.weights.all_last)
        if taps and self.info.capabilities.states and not tried:
            architecture, file = self.header.architecture, Path(self.info.path)
            if not trial_succeeds(trial, architecture, file):
                if trial == "last" or not LayerOutputs.readable() or not trial_succeeds("last", architecture, file):
                    raise UserError(states_unavailable(architecture))
                self.weights.outputs = True
                self.untrue_states = states_unavailable(architecture)
            self._tried.add(trial)
            self._states_proven = False
        if self.weights.outputs and 0 in taps:  # which is no layer's output
            raise UserError(states_unavailable(self.header.architecture))
        return super().tapped(taps)

    @property
    def tied(self) -> bool:
        """Whether its LM head is its table of embeddings."""
        return all(tensor.name != "output.weight" for layout in read_layout(Path(self.info.path)) for tensor in layout.tensors)

    def embeddings(self) -> Tensor:
        """Copy the table of embeddings [vocab, width], float32."""
        weights = self.weights
        table = torch.empty((weights.vocabulary, weights.width))
        copy_embeddings(weights.handle, table.data_ptr())
        return table

    def open_session(self, context: int | None = None, taps: Sequence[int] = ()) -> Session:
        """Open a new, empty KV cache; all its memory is taken at once (see `Model.open_session`)."""
        contexts = self._loaded
        size, taps = self.size(context), self.tapped(taps)
        if not self.info.capabilities.chain:
            return LlamaPlainSession(contexts.open(self.runtime, size, sequences=1), size)
        check_memory(self.info.name, self.header, self.runtime, max(size, contexts.weights.least))
        return contexts.open_session(self.runtime, size, alike=self._alike, taps=taps)

    def states_work(self) -> bool:
        """Whether hidden states are the model's own (see `Model.states_work`): three passes in a new context."""
        weights = self.weights
        taps = range(int(weights.outputs) if "inputs" in self._tried else weights.layers, weights.layers + 1)
        session = self._loaded.open_session(self.runtime, SIZE, alike=self._alike, taps=taps)
        return states_work(session, self.proof_ids(SIZE), weights.width, self.info.capabilities.tree)

    def close(self) -> None:
        """Free the weights; sessions that are open keep them until they are closed and dropped."""
        self._contexts = None
        self._codec.close()


def load_llama(
    file: Path,
    name: str,
    options: LoadOptions,
    header: Header | None = None,
    *,
    progress: StageProgress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> LlamaModel:
    """Load a GGUF file, or the first of its parts.

    Args:
        file, name: of the model; the name is as the user gave it.
        options: device, gpu_layers, split_mode, flash_attention, kv_type, dtype (of the cache), context, threads.
        header: the file's, if it has been read already.
        progress: called in the stages "weights" (tensors) and "check" (forward passes of the proof).
        cancelled: polled between tensors and between passes; answering True raises Cancelled.

    Raises:
        UserError: the runtime is not installed, or the file holds no model that can be loaded here; says what to do.
    """
    start = time.perf_counter()
    header = header or read_header(file)
    template = given_template(options.chat_template)
    library()
    runtime = choose_runtime(options, header)
    limit = header.number("context_length") or UNKNOWN_CONTEXT
    if options.context is None and options.context_at_most is None:
        options = replace(options, context_at_most=usual_context(header, runtime, limit))
    size = options.size(name, limit)
    mtp = bool(_mtp_layer(file, header))

    def tick(share: float) -> bool:
        if progress is not None:
            progress("weights", int(share * header.tensors), header.tensors)
        return cancelled is None or not cancelled()

    try:
        weights = Weights(file, runtime, tick, mtp=mtp)
    except InterruptedError:
        raise Cancelled from None
    except UserError as error:
        raise _unloadable(file, header, str(error)) from None
    tensors = [tensor for layout in read_layout(file) for tensor in layout.tensors]
    weights.least = least_context(header, (tensor.name for tensor in tensors), size)
    lib, handle = weights.lib, weights.handle
    if not lib.llama_model_has_decoder(handle) or lib.llama_model_has_encoder(handle) or lib.llama_model_is_diffusion(handle):
        raise UserError(
            f"{file} ({header.architecture}) is not a causal language model, so it cannot generate text. Use another model."
        )
    check_memory(name, header, runtime, size)
    codec = LlamaCodec(weights, template)
    contexts = Contexts(weights, header)
    text = proof_text(codec, weights.vocabulary, max(SIZE, TIMED_TOKENS))
    prover = Prover(contexts, options, file, mtp=mtp, text=text, tick=ticking(PASSES, progress, cancelled))
    setup = prover.find(runtime)
    # An MTP layer reads nothing but the last state, which llama.cpp always hands out.
    no_states = setup.capabilities.reasons.get("chain") or ("" if mtp else refusal())
    reasons = {**setup.capabilities.reasons, "layers": NO_LAYERS} | ({"states": no_states} if no_states else {})
    if progress is not None:
        progress("check", PASSES, PASSES)
    metadata = {name: value for name, value in header.metadata.items() if not name.startswith("tokenizer.")}
    made_by_ollama = name.startswith(ollama.PREFIX)
    info = ModelInfo(
        name=name,
        backend="llama.cpp",
        device=device_name(setup.runtime),
        dtype=weights.file_type,
        architecture=header.architecture,
        parameters=int(lib.llama_model_n_params(handle)),
        layers=int(lib.llama_model_n_layer(handle)),
        vocabulary=weights.vocabulary,
        context=size,
        eos_ids=codec.ends,
        has_template=codec.has_template,
        capabilities=replace(setup.capabilities, states=not no_states, reasons=reasons),
        # GGUF has no key for PARD; other causal models have no mask token.
        pard_token=token_id(header.metadata.get("tokenizer.ggml.mask_token_id"), weights.vocabulary),
        path=str(file),
        load_seconds=time.perf_counter() - start,
        notes=tuple(dict.fromkeys(why for what, why in reasons.items() if what not in ("layers", "states"))),
        pass_seconds=given_curve() or setup.curve,
        timed=setup.timed,
        active=header.active,
        thinking=codec.thoughts.info if codec.thoughts is not None else None,
        sampling=recommended(ollama.parameters(name), OLLAMA) if made_by_ollama else recommended(metadata, GGUF),
    )
    return LlamaModel(contexts, codec, setup.runtime, info)


def _mtp_layer(file: Path, header: Header) -> list[FileTensor]:
    """List the tensors of the MTP layer in a file; none if it has none that can draft here."""
    if not header.number("nextn_predict_layers"):
        return []
    tensors = [tensor for layout in read_layout(file) for tensor in layout.tensors]
    names = {tensor.name for tensor in tensors}
    if "blk.0.attn_norm.weight" not in names:
        raise UserError(f"{file} contains a model's MTP layer alone. Give the model's own file.")
    layers = in_gguf(header, names)
    if layers is None or layers.problem:
        return []
    last = f"blk.{header.number('block_count') - 1}."
    return [tensor for tensor in tensors if tensor.name.startswith(last)]


def _unloadable(file: Path, header: Header, message: str) -> UserError:
    if "unknown model architecture" in message:
        return UserError(
            f"{file} has the architecture {header.architecture!r}, which this version of llama.cpp does not know. Use another "
            f"model, or run: {pip_command()} --upgrade"
        )
    return UserError(
        f"Cannot load {file} ({message or 'llama.cpp gives no reason'}). Download it again, or use another or a smaller file."
    )
