"""llama.cpp's objects as Python's: weights, and contexts over them that know their cache, their batch and their logits."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...errors import UserError
from ..base import PREFILL_CHUNK
from .hidden_states import LayerOutputs, layer_inputs, next_states
from .library import errors, last_error, library

PAD = 256
"""llama.cpp's caches hold a multiple of this many tokens."""

BYTES = ctypes.POINTER(ctypes.c_uint8)
INT32S = ctypes.POINTER(ctypes.c_int32)

ROW_CACHE = 1024
"""Sets of sequence ids whose arrays are kept."""


def padded(size: int) -> int:
    """Round a context's size up to the tokens that it holds."""
    return -(-size // PAD) * PAD


@dataclass(frozen=True, slots=True)
class Runtime:
    """Setup of weights and contexts, in llama.cpp's own numbers."""

    gpu_layers: int = 0
    split_mode: int = 1
    main_gpu: int = 0
    flash_attention: int = -1
    """-1 auto, 0 off, 1 on."""
    type_k: int = 1
    """ggml_type of the cached keys: 0 float32, 1 float16 …"""
    type_v: int = 1
    threads: int = 1


class Weights:
    """A model in memory; freed with its last context.

    Args:
        file: a whole GGUF file.
        runtime: setup.
        tick: called with the share that is loaded, 0 to 1; answering False raises InterruptedError.
        checked: refuse numbers that are none.
        mtp: load the model's MTP layers too.

    Raises:
        UserError: llama.cpp cannot load it; in its own words.
    """

    def __init__(
        self, file: Path, runtime: Runtime, tick: Callable[[float], bool], *, checked: bool = False, mtp: bool = False
    ) -> None:
        self.handle: int | None = None
        self.all_last = mtp and next_states() is not None
        """Whether the last states of all tokens can be had, scored or not: MTP layers read them so."""
        lib = self.lib = library()
        params = lib.llama_model_default_params()
        params.n_gpu_layers = runtime.gpu_layers
        params.split_mode = runtime.split_mode
        params.main_gpu = runtime.main_gpu
        params.check_tensors = checked
        if mtp:
            params.load_mtp = True
        # A list that ends with a null, and lives until the model is loaded.
        no_devices = (ctypes.c_void_p * 1)()
        if not runtime.gpu_layers:  # else llama.cpp gives large passes to a GPU that holds no layer
            params.devices = ctypes.cast(no_devices, ctypes.c_void_p)
        # ggml's AMX kernels load a tile configuration that compilers optimise away, and end the process in the first pass of
        # several tokens over quantized weights (ggml-org/llama.cpp issue 20824, pull request 26954). Only all buffers with
        # rearranged weights together can be left out.
        params.use_extra_bufts = b"AMX_INT8 = 1" not in lib.llama_print_system_info()
        stopped = False

        def progress(share: float, _data: Any) -> bool:
            nonlocal stopped
            try:
                stopped = stopped or not tick(share)
            except Exception:
                # ctypes would print it and go on.
                stopped = True
            return not stopped

        callback = lib.llama_progress_callback(progress)
        params.progress_callback = callback
        errors.clear()
        self.handle = lib.llama_model_load_from_file(os.fsencode(file), params)
        if stopped:
            self.free()
            raise InterruptedError
        if not self.handle:
            raise UserError(last_error())
        self.vocab: int = lib.llama_model_get_vocab(self.handle)
        self.vocabulary: int = lib.llama_vocab_n_tokens(self.vocab)
        self.layers: int = lib.llama_model_n_layer(self.handle)
        self.width: int = lib.llama_model_n_embd(self.handle)
        self.recurrent = bool(lib.llama_model_is_recurrent(self.handle) or lib.llama_model_is_hybrid(self.handle))
        """Whether some layers keep a state that each token overwrites."""
        self.least = 1
        """Fewest tokens that a context must hold to read a text as the model's own does (see `least_context`)."""
        self.outputs = False
        """Whether layers' outputs are read, as llama.cpp does not note their inputs."""

    @property
    def file_type(self) -> str:
        """Q8_0, Q4_K - Medium, all F32 …"""
        name = self.lib.llama_ftype_name(self.lib.llama_model_ftype(self.handle))
        return str(name.decode("utf-8", "replace")) if name else "unknown"

    def metadata(self, key: str) -> str | None:
        """Read a value of the file's metadata as text."""
        size = 256
        while True:
            buffer = ctypes.create_string_buffer(size)
            length = self.lib.llama_model_meta_val_str(self.handle, key.encode(), buffer, size)
            if length < 0:
                return None
            if length < size:
                return buffer.value.decode("utf-8", "replace")
            size = length + 1

    def free(self) -> None:
        """Give the memory back; contexts must be gone."""
        handle, self.handle = self.handle, None
        if handle:
            self.lib.llama_model_free(handle)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # When Python ends, llama.cpp's module may be gone already; the memory goes with the process.
        if not is_finalizing():
            self.free()


class _Keeper:
    """Frees a context once neither it nor its logits are in use, and then lets go of the weights."""

    def __init__(self, handle: int, weights: Weights) -> None:
        self._handle: int | None = handle
        self._weights = weights

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        handle, self._handle = self._handle, None
        if handle and not is_finalizing():
            self._weights.lib.llama_free(handle)


C = TypeVar("C", bound="LlamaContext")


def alive(context: C | None) -> C:
    """Return the context of a session, unless it has been closed."""
    if context is None:
        raise UserError("This conversation is closed. Start a new one.")
    return context


def states_at(address: int | None, rows: int, width: int) -> Tensor:
    """View hidden states at an address in llama.cpp's memory [rows, width], unless that is null; the next pass
    overwrites them."""
    if not address:
        raise UserError("llama.cpp did not hand out this model's hidden states. Use a method without a trained drafter.")
    array: Any = (ctypes.c_float * (rows * width)).from_address(address)
    return torch.from_numpy(np.frombuffer(array, np.float32)).view(rows, width)


class LlamaContext:
    """A KV cache on some weights, and the passes over them.

    Args:
        weights, runtime: kept alive; as they were loaded.
        size: most tokens in the cache.
        sequences: most sequence ids.
        rows: most rows of logits in one pass, so that their buffer never moves; as many as ids if None.
        batch: most tokens in a pass.
        other: a context of the model whose embeddings and LM head these weights use, if they have none.
        mtp: run the model's MTP layer, not its others.
        outputs: reads the layers' outputs in each pass, for taps whose inputs llama.cpp does not note.

    Raises:
        UserError: there is not enough memory.
    """

    def __init__(
        self,
        weights: Weights,
        runtime: Runtime,
        size: int,
        sequences: int,
        *,
        rows: int | None = None,
        batch: int = PREFILL_CHUNK,
        other: LlamaContext | None = None,
        mtp: bool = False,
        outputs: LayerOutputs | None = None,
    ) -> None:
        lib = self.lib = weights.lib
        self.weights = weights
        self._outputs = outputs
        self.rows = rows or sequences
        params = lib.llama_context_default_params()
        params.n_ctx = padded(size)
        params.n_batch = params.n_ubatch = batch
        params.n_seq_max = sequences
        params.n_outputs_max = params.n_outputs_max_per_seq = self.rows
        params.n_threads = params.n_threads_batch = runtime.threads
        params.flash_attn_type = runtime.flash_attention
        params.type_k = runtime.type_k
        params.type_v = runtime.type_v
        # One buffer for all sequences: a shared prefix is stored once, and copying part of a sequence cannot abort.
        params.kv_unified = True
        # Windowed layers keep all tokens too: otherwise nothing could be rewound, and shared cells would never be free again.
        params.swa_full = True
        if mtp:
            params.ctx_type = lib.LLAMA_CONTEXT_TYPE_MTP
        if outputs is not None:
            params.cb_eval = self._asked = lib.ggml_backend_sched_eval_callback(outputs)  # which must live as long
        if other is not None:
            params.ctx_other = other.handle
            self._other = other  # which must outlive this
        errors.clear()
        self.handle: int | None = lib.llama_init_from_model(weights.handle, params)
        if not self.handle:
            raise UserError(
                f"llama.cpp could not open a context of {size:,} tokens ({last_error() or 'no memory'}). Use a smaller context."
            )
        self._keeper = _Keeper(self.handle, weights)
        self._memory: int | None = lib.llama_get_memory(self.handle)
        # As an address: the bindings' pointer object takes longer to make than to read.
        prototype = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
        self._logits_address = prototype(("llama_get_logits", lib._lib))
        self._logits: Tensor | None = None
        self._seen: int | None = None
        """Address of what `_logits` views."""
        self._views: dict[int, Tensor] = {}
        n = batch
        # Ours instead of llama_batch_init's: nodes with the same ids share one array of them.
        self._tokens = np.zeros(n, np.int32)
        self._positions = np.zeros(n, np.int32)
        self._counts = np.zeros(n, np.int32)
        self._ids = np.zeros(n, np.uintp)
        self._wanted = np.zeros(n, np.int8)
        self._batch = self.batch(self._positions, self._counts, self._ids, self._wanted)
        self._batch.token = self._tokens.ctypes.data_as(INT32S)
        self._id_rows: dict[int, tuple[int, int, Any]] = {}

    def batch(self, positions: Any, counts: Any, ids: Any, scored: Any) -> Any:
        """Make llama.cpp's batch, without tokens or states, over arrays that live as long: positions, numbers and addresses of
        sequence ids, and flags for the rows whose logits to keep."""
        return self.lib.llama_batch(
            n_tokens=0,
            token=None,
            embd=None,
            pos=positions.ctypes.data_as(INT32S),
            n_seq_id=counts.ctypes.data_as(INT32S),
            seq_id=ctypes.cast(ids.ctypes.data, ctypes.POINTER(INT32S)),
            logits=scored.ctypes.data_as(ctypes.POINTER(ctypes.c_int8)),
        )

    def decode(self, tokens: Sequence[int], positions: Sequence[int], holders: Sequence[int], scored: Sequence[int]) -> int:
        """Run one pass over at most PREFILL_CHUNK tokens, `holders` being the ids of each as bits; return
        llama_decode's answer: 0 if it worked. `scored`: indices whose logits are wanted, at most `rows`, ascending."""
        n = len(tokens)
        self._tokens[:n] = tokens
        self._positions[:n] = positions
        if len(self._id_rows) > ROW_CACHE:
            self._id_rows.clear()
        mask = 0
        for i, next_mask in enumerate(holders):
            if next_mask != mask:
                mask = next_mask
                count, address = self._row(mask)
            self._counts[i], self._ids[i] = count, address
        self._wanted[:n] = 0
        if scored:
            self._wanted[scored] = 1
        self._batch.n_tokens = n
        if self._outputs is not None:
            self._outputs.begin()
        return int(self.lib.llama_decode(self.handle, self._batch))

    def _row(self, mask: int) -> tuple[int, int]:
        row = self._id_rows.get(mask)
        if row is None:
            ids = np.array([k for k in range(mask.bit_length()) if mask >> k & 1], np.int32)
            row = self._id_rows[mask] = (len(ids), ids.ctypes.data, ids)
        return row[0], row[1]

    def logits(self, rows: int) -> Tensor:
        """View the logits of the last pass [rows, vocab]; the next pass overwrites them."""
        address = self._logits_address(self.handle)
        if self._logits is None or self._seen != address:
            self._seen = address
            array: Any = (ctypes.c_float * (self.rows * self.weights.vocabulary)).from_address(address or 0)
            # Scores may outlive their session; then they keep the buffer.
            array.owner = self._keeper
            flat = torch.from_numpy(np.frombuffer(array, np.float32))
            self._logits = flat.view(self.rows, self.weights.vocabulary)
            self._views.clear()
        if rows not in self._views:
            self._views[rows] = self._logits[:rows]
        return self._views[rows]

    def tap(self, taps: Sequence[int]) -> None:
        """Keep the hidden states at these taps from now on (see `Model.open_session`). Without `Weights.all_last` the last ones
        come only with logits of the same tokens: then every token of a pass has to be a wanted one."""
        functions = layer_inputs()
        for tap in set(taps):
            if tap == self.weights.layers and self.weights.all_last and (following := next_states()):
                following[0](self.handle, True, False)
            elif tap == self.weights.layers:
                self.lib.llama_set_embeddings(self.handle, True)
            elif self._outputs is None:
                assert functions is not None  # checked at load
                functions[0](self.handle, tap, True)

    def hidden(self, tap: int, rows: int) -> Tensor:
        """View the states of the last pass at a tap [rows, width]; the next pass overwrites them."""
        functions = layer_inputs()
        if tap == self.weights.layers and self.weights.all_last and (following := next_states()):
            address = following[1](self.handle)
        elif tap == self.weights.layers:
            address = ctypes.cast(self.lib.llama_get_embeddings(self.handle), ctypes.c_void_p).value
        elif self._outputs is not None:
            address = self._outputs.address(tap, rows)
        else:
            assert functions is not None  # checked at load
            address = functions[1](self.handle, tap)
        return states_at(address, rows, self.weights.width)

    def remove(self, sequence: int, begin: int, end: int) -> bool:
        """Call llama_memory_seq_rm; return whether the cache could do it."""
        return bool(self.lib.llama_memory_seq_rm(self._memory, sequence, begin, end))

    def cut(self, sequence: int, begin: int, end: int) -> None:
        """Call llama_memory_seq_rm.

        Raises:
            UserError: the cache cannot do it.
        """
        if not self.remove(sequence, begin, end):
            raise UserError("This model's cache cannot rewind. Load it again for plain decoding.")

    def copy(self, source: int, target: int, begin: int, end: int) -> None:
        """Call llama_memory_seq_cp."""
        self.lib.llama_memory_seq_cp(self._memory, source, target, begin, end)

    def save(self) -> NDArray[np.uint8]:
        """Copy the first sequence's recurrent state; attention's part of its text stays in the cache."""
        lib, only = self.lib, self.lib.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY
        room = np.empty(lib.llama_state_seq_get_size_ext(self.handle, 0, only), np.uint8)
        if lib.llama_state_seq_get_data_ext(self.handle, room.ctypes.data_as(BYTES), len(room), 0, only) != len(room):
            raise UserError("llama.cpp could not copy this model's state. Use a smaller context or model.")
        return room

    def restore(self, room: NDArray[np.uint8], length: int) -> bool:
        """Put back a copy made after `length` tokens and forget the later ones; return whether the cache could do it."""
        lib, only = self.lib, self.lib.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY
        done = lib.llama_state_seq_set_data_ext(self.handle, room.ctypes.data_as(BYTES), len(room), 0, only)
        # In this order: while the state is the later one, the removal would be refused.
        return bool(done == len(room)) and self.remove(0, length, -1)

    def cells(self) -> NDArray[np.uint8]:
        """Copy the first sequence's cells."""
        room = np.empty(self.lib.llama_state_seq_get_size(self.handle, 0), np.uint8)
        self.lib.llama_state_seq_get_data(self.handle, room.ctypes.data_as(BYTES), len(room), 0)
        return room

    def add_cells(self, cells: NDArray[np.uint8]) -> bool:
        """Append copies of cells to those of the first sequence, as if its text went on; return whether it worked. Takes a
        context of two sequences."""
        size = self.lib.llama_state_seq_set_data(self.handle, cells.ctypes.data_as(BYTES), len(cells), 1)
        self.copy(1, 0, -1, -1)
        self.remove(1, -1, -1)
        return bool(size == len(cells))

    def clear(self) -> None:
        """Forget everything."""
        self.lib.llama_memory_clear(self._memory, False)
