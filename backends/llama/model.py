"""Loads a GGUF file with llama.cpp, and proves what it can do here."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from math import prod
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ...errors import Cancelled, UserError
from ..base import PREFILL_CHUNK, Session
from ..chat_template import given_template
from ..codec import CodecModel
from ..files import ollama
from ..files.gguf_file import Header, read_header, read_layout
from ..files.gguf_file import Tensor as FileTensor
from ..files.sampling import GGUF, OLLAMA, recommended
from ..heads.mtp.format import in_gguf
from ..info import Capabilities, ModelInfo, token_id
from ..kept import identity, keep, recall
from ..options import UNKNOWN_CONTEXT, LoadOptions, StageProgress, pip_command
from ..pass_times import TOKENS as TIMED_TOKENS
from ..pass_times import Curve, given_curve, pass_seconds
from ..proof_text import proof_text
from ..rounding import MOST_COST, VERSION, Rounding, drafting_gain, measure, promise, ticking
from .attention_cost import NODES as ATTENTION_NODES
from .attention_cost import SEQUENCES, attention_cost, attention_seconds
from .attention_cost import SIZE as ATTENTION_SIZE
from .context import Context, Runtime, Weights
from .hidden_states import LayerOutputs, embeddings, refusal, untold
from .library import devices, library, version
from .options import (
    CACHE_TYPES,
    FLASH,
    cache_bytes,
    check_memory,
    choose_runtime,
    even_runtime,
    least_context,
    sequences,
    usual_context,
)
from .plain import LlamaHybridSession, LlamaPlainSession
from .proof import LENGTHS, PASSES, SIZE, prove, states_work
from .session import LlamaSession
from .tokenizer import LlamaCodec
from .trial import Trial, works

NO_LAYERS = "llama.cpp runs all layers of a model or none, so the first ones cannot draft. Load the model's safetensors folder."

HYBRID_ROWS = 64
"""Most rows of logits in a pass of a hybrid, whose chains are shorter."""


class LlamaModel(CodecModel):
    """A GGUF model in memory (see `load_llama`)."""

    _codec: LlamaCodec

    def __init__(
        self,
        weights: Weights,
        codec: LlamaCodec,
        header: Header,
        runtime: Runtime,
        info: ModelInfo,
    ) -> None:
        self._weights: Weights | None = weights
        self._codec = codec
        self.thoughts = codec.thoughts
        self.header = header
        """What its file says."""
        self.runtime = runtime
        """How its contexts are set up."""
        self._tried = set[Trial]()
        """What llama.cpp is known to hand out."""
        self._alike = info.capabilities.exact and runtime.flash_attention == FLASH["on"]
        self.info = info

    @property
    def weights(self) -> Weights:
        """What is loaded, for drafters that use parts of it.

        Raises:
            UserError: it is no longer.
        """
        if self._weights is None:
            raise UserError(f"{self.info.name} is no longer loaded. Load it again.")
        return self._weights

    @property
    def mtp(self) -> int:
        """Parameters of the MTP layer that is loaded with it; 0 without one."""
        return sum(prod(tensor.shape) for tensor in _mtp_layer(Path(self.info.path), self.header))

    def tapped(self, taps: Sequence[int]) -> tuple[int, ...]:
        trial: Trial = "inputs" if any(tap < self.info.layers for tap in taps) else "last"
        # Of models whose MTP layer is loaded, the last states come by the way that was tried with it.
        known = trial in self._tried or (trial == "last" and self.weights.all_last)
        if taps and self.info.capabilities.states and not known:
            architecture, file = self.header.architecture, Path(self.info.path)
            if not works(trial, architecture, file):
                if trial == "last" or not LayerOutputs.readable() or not works("last", architecture, file):
                    raise UserError(untold(architecture))
                self.weights.outputs, self.untrue_states = True, untold(architecture)
            self._tried.add(trial)
            self._states_proven = False
        if self.weights.outputs and 0 in taps:  # which is no layer's output
            raise UserError(untold(self.header.architecture))
        return super().tapped(taps)

    @property
    def tied(self) -> bool:
        """Whether its LM head is its table of embeddings."""
        return all(tensor.name != "output.weight" for layout in read_layout(Path(self.info.path)) for tensor in layout.tensors)

    def embeddings(self) -> Tensor:
        """The table of embeddings [vocab, width], float32: a copy, which takes its memory.

        Raises:
            UserError: this build of llama.cpp does not hand it out.
        """
        weights = self.weights
        write = embeddings(weights.handle)
        if write is None:
            raise UserError(
                f"This build of llama.cpp does not hand out the embeddings of {self.info.name}, which the drafter needs. Run: "
                f"{pip_command()} --upgrade"
            )
        table = torch.empty((weights.vocabulary, weights.width))
        write(table.data_ptr())
        return table

    def open_session(self, context: int | None = None, taps: Sequence[int] = ()) -> Session:
        """A new, empty KV cache; all its memory is taken at once (see `Model.open_session`)."""
        weights = self.weights
        size, taps = self.size(context), self.tapped(taps)
        if not self.info.capabilities.chain:
            run = open_context(weights, self.header, self.runtime, size, self.info.name, sequences=1)
            return LlamaPlainSession(run, size)
        check_memory(self.info.name, self.header, self.runtime, max(size, weights.least))
        return open_chat(weights, self.header, self.runtime, size, self.info.name, self._alike, taps)

    def states_work(self) -> bool:
        """Whether hidden states are the model's own (see `Model.states_work`): three passes in a context of their own."""
        weights = self.weights
        taps = range(int(weights.outputs) if "inputs" in self._tried else weights.layers, weights.layers + 1)
        tapped = open_chat(weights, self.header, self.runtime, SIZE, self.info.name, self._alike, taps)
        text = proof_text(self._codec, weights.vocabulary, SIZE)
        return states_work(tapped, text, weights.width, self.info.capabilities.tree)

    def close(self) -> None:
        """Free the weights; sessions that are open keep them until they are closed and dropped."""
        self._weights = None
        self._codec.close()


def open_chat(
    weights: Weights, header: Header, runtime: Runtime, size: int, name: str, alike: bool, taps: Sequence[int] = ()
) -> LlamaSession | LlamaHybridSession:
    """A session that verifies drafts, in a context of its own (see `open_context`)."""
    if weights.recurrent:
        run = open_context(weights, header, runtime, size, name, sequences=1, rows=HYBRID_ROWS, taps=taps)
        return LlamaHybridSession(run, size, taps)
    run = open_context(weights, header, runtime, size, name, sequences=sequences(weights.vocabulary), taps=taps)
    return LlamaSession(run, size, alike, taps)


def open_context(
    weights: Weights,
    header: Header,
    runtime: Runtime,
    size: int,
    name: str,
    *,
    sequences: int,
    rows: int | None = None,
    taps: Sequence[int] = (),
) -> Context:
    """A context of `size` tokens or more (see `least_context`).

    Raises:
        UserError: there is not enough memory.
    """
    size = max(size, weights.least)
    inner = {tap for tap in taps if tap < weights.layers}
    outputs = LayerOutputs(inner, weights.width, PREFILL_CHUNK) if inner and weights.outputs else None
    try:
        return Context(weights, runtime, size, sequences, rows=rows, outputs=outputs)
    except UserError as error:
        needed = cache_bytes(header, runtime, size) / 1e9
        raise UserError(
            f"llama.cpp could not open a context of {size:,} tokens for {name}, about {needed:.1f} GB ({error}). Use a smaller "
            "context or model."
        ) from None


def load_llama(
    file: Path,
    name: str,
    options: LoadOptions,
    header: Header | None = None,
    *,
    progress: StageProgress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> LlamaModel:
    """Load a GGUF file.

    Args:
        file: the file, or the first of its parts.
        name: as the user named the model.
        options: device, gpu_layers, split_mode, flash_attention, kv_type, dtype (of the cache), context, threads.
        header: the file's, if it has been read already.
        progress: told about the stages "weights" (tensors) and "check" (forward passes of the proof).
        cancelled: polled between tensors and between passes.

    Raises:
        UserError: the runtime is not installed, or the file holds no model that can be loaded here; says what to do.
        Cancelled: `cancelled` answered True.
    """
    begun = time.perf_counter()
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
    prover = _Prover(weights, header, codec, options, name, ticking(PASSES, progress, cancelled), mtp=mtp, file=file)
    runtime, capabilities, taken = prover.find(runtime)
    # An MTP layer reads nothing but the last state, which llama.cpp always hands out.
    why = capabilities.reasons.get("chain") or ("" if mtp else refusal())
    reasons = {**capabilities.reasons, "layers": NO_LAYERS} | ({"states": why} if why else {})
    capabilities = replace(capabilities, states=not why, reasons=reasons)
    if progress is not None:
        progress("check", PASSES, PASSES)
    kind = file_type(weights)
    about = {name: value for name, value in header.metadata.items() if not name.startswith("tokenizer.")}
    info = ModelInfo(
        name=name,
        backend="llama.cpp",
        device=_device_name(runtime),
        dtype=kind,
        architecture=header.architecture,
        parameters=int(lib.llama_model_n_params(handle)),
        layers=int(lib.llama_model_n_layer(handle)),
        vocabulary=weights.vocabulary,
        context=size,
        eos_ids=codec.ends,
        has_template=codec.has_template,
        capabilities=capabilities,
        # GGUF has no key for PARD; other causal models have no mask token.
        pard_token=token_id(header.metadata.get("tokenizer.ggml.mask_token_id"), weights.vocabulary),
        path=str(file),
        load_seconds=time.perf_counter() - begun,
        notes=(*codec.notes, *dict.fromkeys(why for what, why in reasons.items() if what not in ("layers", "states"))),
        pass_seconds=given_curve() or taken[0],
        timed=taken[1],
        active=header.active,
        weights=_weights(header, tensors),
        thinking=codec.thoughts.info if codec.thoughts is not None else None,
        sampling=recommended(ollama.parameters(name), OLLAMA) if name.startswith(ollama.PREFIX) else recommended(about, GGUF),
    )
    return LlamaModel(weights, codec, header, runtime, info)


class Way(NamedTuple):
    """A way to set up contexts, with what it was found to give."""

    runtime: Runtime
    able: Capabilities
    rounding: Rounding | None
    """None where nothing can be drafted, and for float32."""
    taken: tuple[Curve, float]
    """Seconds of passes by their nodes, and when that was measured."""


class _Prover:
    """Finds how a model's contexts are to be set up, what it can do, and what is promised of its texts.

    Args:
        weights, header, codec: the model's.
        options: as it is loaded.
        name: for messages.
        tick: called after each pass; may raise Cancelled.
        mtp: whether its MTP layer is loaded.
        file: what it was loaded from.
    """

    def __init__(
        self,
        weights: Weights,
        header: Header,
        codec: LlamaCodec,
        options: LoadOptions,
        name: str,
        tick: Callable[[], None],
        *,
        mtp: bool,
        file: Path,
    ) -> None:
        self._weights, self._header, self._options = weights, header, options
        self._name, self._tick, self._mtp, self._file = name, tick, mtp, file
        # Beyond its table of positions llama.cpp ends the process.
        self._limit = header.number("context_length") or ATTENTION_SIZE
        self._text = proof_text(codec, weights.vocabulary, max(SIZE, TIMED_TOKENS))

    def find(self, runtime: Runtime) -> tuple[Runtime, Capabilities, tuple[Curve, float]]:
        """Return what is kept of this file in these settings, or find it and keep it.

        Returns:
            how contexts are set up, what the model can do, and the seconds of its passes with the time of their measurement.
        """
        options = self._options
        asked = options.exact, options.flash_attention, options.kv_type, options.dtype
        about = VERSION, identity([self._file]), version(), runtime, asked, _device_name(runtime), self._mtp
        kept = recall("loads", about)
        with suppress(KeyError, TypeError, ValueError):
            able = Capabilities(**kept["capabilities"])
            curve = tuple((int(nodes), float(seconds)) for nodes, seconds in kept["seconds"])
            return replace(runtime, **kept["runtime"]), replace(able, equal=tuple(able.equal)), (curve, kept["measured"])
        way = self._choose(runtime)
        if way.able.chain:  # a mishap is not kept
            changed = {name: getattr(way.runtime, name) for name in ("flash_attention", "type_k", "type_v")}
            keep("loads", about, {"capabilities": asdict(way.able), "seconds": way.taken[0], "runtime": changed})
        return way.runtime, way.able, way.taken

    def _choose(self, runtime: Runtime) -> Way:
        """Choose between a runtime and the same with flash attention, in which sizes of passes can have equal bits."""
        exact, even = self._options.exact, even_runtime(runtime, self._options)
        way = self._try(even or runtime)
        if even is not None and not way.able.chain:
            way, even = self._try(runtime), None
        if way.rounding is None or exact == "on":
            return self._promised(way, hold=exact == "on")
        cost = 1.0 if even is None else attention_cost(self._attention(even), self._attention(runtime))
        if exact == "auto" and way.rounding.most > 1:
            curve = way.taken[0]
            most = None if way.rounding.exact else way.rounding.most
            if cost * drafting_gain(curve) / drafting_gain(curve, most) <= MOST_COST:
                return self._promised(way, hold=True)
        return self._promised(self._try(runtime) if cost > 1 else way, hold=False)

    def _promised(self, way: Way, *, hold: bool) -> Way:
        return way if way.rounding is None else way._replace(able=promise(way.able, way.rounding, hold=hold))

    def _try(self, runtime: Runtime) -> Way:
        """Prove and measure one way."""
        even = runtime.flash_attention == FLASH["on"]
        session = open_chat(self._weights, self._header, runtime, min(SIZE, self._limit), self._name, even)
        able = prove(session, self._text, self._tick)
        rounding: Rounding | None = None
        taken: tuple[Curve, float] = (), 0.0
        cpu = not runtime.gpu_layers
        # On a GPU the sums of large passes are other ones in float32, too.
        float32 = runtime.type_k == runtime.type_v == CACHE_TYPES["f32"] and file_type(self._weights) == "all F32"
        if able.chain:
            if not (cpu and float32):
                rounding = measure(session, self._text, self._tick, tree=able.tree, contexts=LENGTHS)
                if not even:  # whose rows go through several kernels, by their number and by the length of the text
                    rounding = replace(rounding, equal=(), rest=False)
            taken = pass_seconds(session, self._text, self._tick, cpu=cpu), time.time()
        session.close()
        return Way(runtime, able, rounding, taken)

    def _attention(self, runtime: Runtime) -> list[float]:
        """Time a runtime's attention; nothing where the model does not take so long a text, or cannot branch."""
        if self._limit < ATTENTION_SIZE or self._weights.recurrent:
            return []
        run = open_context(
            self._weights, self._header, runtime, ATTENTION_SIZE, self._name, sequences=SEQUENCES, rows=max(ATTENTION_NODES)
        )
        return attention_seconds(run, self._text, self._header.number("attention.sliding_window"), self._tick)


def _weights(header: Header, tensors: Sequence[FileTensor]) -> int:
    """See `ModelInfo.weights`. MTP layers stand behind the others, and do not run with them."""
    sizes = {tensor.name: prod(tensor.shape) for tensor in tensors if len(tensor.shape) > 1}
    if "output.weight" in sizes:
        sizes.pop("token_embd.weight", None)
    own = header.number("block_count") - header.number("nextn_predict_layers")
    behind = tuple(f"blk.{layer}." for layer in range(own, header.number("block_count")))
    looked_up = ("position_embd.", "token_types.", "per_layer_token_embd.", *behind)
    kept = {name: size for name, size in sizes.items() if not name.startswith(looked_up)}
    return round(sum(size * (header.active if "_exps." in name else 1) for name, size in kept.items()))


def _mtp_layer(file: Path, header: Header) -> list[FileTensor]:
    """The tensors of the MTP layer in a file; none if it has none that can draft here."""
    if not header.number("nextn_predict_layers"):
        return []
    tensors = [tensor for layout in read_layout(file) for tensor in layout.tensors]
    names = {tensor.name for tensor in tensors}
    if "blk.0.attn_norm.weight" not in names:
        raise UserError(f"{file} contains a model's MTP layer alone. Give the model's own file.")
    found = in_gguf(header, names)
    if found is None or found.problem:
        return []
    last = f"blk.{header.number('block_count') - 1}."
    return [tensor for tensor in tensors if tensor.name.startswith(last)]


def _unloadable(file: Path, header: Header, said: str) -> UserError:
    if "unknown model architecture" in said:
        return UserError(
            f"{file} has the architecture {header.architecture!r}, which this version of llama.cpp does not know. Use another "
            f"model, or run: {pip_command()} --upgrade"
        )
    if "unable to allocate" in said or "failed to allocate" in said:
        return UserError(f"{file} needs {header.weight_bytes / 1e9:.1f} GB ({said}). Use a smaller model or fewer GPU layers.")
    if "'token_embd.weight' has wrong shape" in said:
        return UserError(
            f"{file} names {header.vocabulary:,} tokens, and its table of embeddings has another number of rows: it holds the "
            "tokenizer of one model and the weights of another. Use another file."
        )
    return UserError(f"Cannot load {file} ({said or 'llama.cpp gives no reason'}). Download it again, or use another file.")


def _device_name(runtime: Runtime) -> str:
    """The device for the interface: cpu, or the GPUs' names in llama.cpp."""
    gpus = [device.name for device in devices() if device.gpu] if runtime.gpu_layers else []
    if runtime.split_mode == 0 and gpus:
        gpus = gpus[runtime.main_gpu : runtime.main_gpu + 1]
    return ", ".join(gpus) or "cpu"


def file_type(weights: Weights) -> str:
    """Q8_0, Q4_K - Medium, all F32 …"""
    name = weights.lib.llama_ftype_name(weights.lib.llama_model_ftype(weights.handle))
    return str(name.decode("utf-8", "replace")) if name else "unknown"
