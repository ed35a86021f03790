"""Reads a model's hidden states out of llama.cpp: the input of any layer, and the last state after the final norm.

llama.cpp has the former for its own drafters, in a header that is not part of its C interface (`src/llama-ext.h`), so the
functions go by mangled names. It notes them for some architectures; of others the outputs of layers are read by their tensors'
names.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np

from ..options import pip_command
from .library import library

SET_NAMES = (
    "llama_set_embeddings_layer_inp",
    "_Z30llama_set_embeddings_layer_inpP13llama_contextjb",
    "?llama_set_embeddings_layer_inp@@YAXPEAUllama_context@@I_N@Z",
)
GET_NAMES = (
    "llama_get_embeddings_layer_inp",
    "_Z30llama_get_embeddings_layer_inpP13llama_contextj",
    "?llama_get_embeddings_layer_inp@@YAPEAMPEAUllama_context@@I@Z",
)
"""The function's names in C, and as C++ compilers on Linux and macOS, and on Windows, name them."""

SET_NEXT_NAMES = (
    "llama_set_embeddings_nextn",
    "_Z26llama_set_embeddings_nextnP13llama_contextbb",
    "?llama_set_embeddings_nextn@@YAXPEAUllama_context@@_N1@Z",
)
GET_NEXT_NAMES = (
    "llama_get_embeddings_nextn",
    "_Z26llama_get_embeddings_nextnP13llama_context",
    "?llama_get_embeddings_nextn@@YAPEAMPEAUllama_context@@@Z",
)
"""The same for what a drafter hands on."""

EMBEDDING_NAMES = (
    "llama_model_get_tok_embd",
    "_Z24llama_model_get_tok_embdPK11llama_modelPf",
    "?llama_model_get_tok_embd@@YAIPEBUllama_model@@PEAM@Z",
)
"""The same for the table of embeddings."""


def exported(names: tuple[str, ...], answer: Any, *arguments: Any) -> Any:
    """A function of the library by the first of its names that it has; None if this build has none of them.

    Args:
        names: what it may be called.
        answer, arguments: their types, as ctypes has them.
    """
    raw = library()._lib
    name = next((name for name in names if hasattr(raw, name)), None)
    return None if name is None else ctypes.CFUNCTYPE(answer, *arguments)((name, raw))


@cache
def layer_inputs() -> tuple[Callable[..., None], Callable[..., int | None]] | None:
    """The functions that switch a layer's input on (context, layer, whether), and that say where it is (context, layer); None
    if this build does not have them."""
    switch = exported(SET_NAMES, None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_bool)
    where = exported(GET_NAMES, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32)
    return None if switch is None or where is None else (switch, where)


@cache
def next_states() -> tuple[Callable[..., None], Callable[..., int | None]] | None:
    """The functions that switch on what a drafter hands on (context, whether, whether only of rows that are scored), and that
    say where it is (context); None if this build does not have them."""
    switch = exported(SET_NEXT_NAMES, None, ctypes.c_void_p, ctypes.c_bool, ctypes.c_bool)
    where = exported(GET_NEXT_NAMES, ctypes.c_void_p, ctypes.c_void_p)
    return None if switch is None or where is None else (switch, where)


def embeddings(handle: int | None) -> Callable[[int], int] | None:
    """A function that writes the embeddings of a model to an address, in float32; None if this build or the model has none."""
    found = exported(EMBEDDING_NAMES, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p)
    return None if found is None or not found(handle, None) else lambda address: found(handle, address)


def refusal() -> str:
    """Why this build hands out no hidden states, as a sentence; empty if it does."""
    if layer_inputs() is not None:
        return ""
    return (
        "This build of llama.cpp does not hand out hidden states, so drafters trained on them cannot draft here. Run: "
        f"{pip_command()} --upgrade"
    )


@cache
def _tensor_functions() -> tuple[Callable[[int], int], Callable[[int], int], Callable[..., None]] | None:
    """The functions that say where a tensor's name is and how many bytes it has, and that copy its numbers (tensor, address,
    first byte, bytes); None if this build does not have them."""
    name = exported(("ggml_get_name",), ctypes.c_void_p, ctypes.c_void_p)
    size = exported(("ggml_nbytes",), ctypes.c_size_t, ctypes.c_void_p)
    copy = exported(("ggml_backend_tensor_get",), None, *[ctypes.c_void_p] * 2, *[ctypes.c_size_t] * 2)
    return None if name is None or size is None or copy is None else (name, size, copy)


class LayerOutputs:
    """Reads the inputs of layers of architectures for which llama.cpp does not note them: they are the outputs of the layers
    before. Its scheduler asks about each tensor of a pass, and waits behind those that are wanted (a microsecond each: 0.7 ms
    in a pass of 18 layers).

    Args:
        taps: layers, none of them the first.
        width: of a state.
        batch: most tokens in a pass.
    """

    def __init__(self, taps: Iterable[int], width: int, batch: int) -> None:
        functions = _tensor_functions()
        assert functions is not None  # checked before
        self._name, self._size, self._copy = functions
        self._names = {tap: f"l_out-{tap - 1}".encode() for tap in taps}
        self._rows = {name: np.empty((batch, width), np.float32) for name in self._names.values()}
        self._filled = dict.fromkeys(self._rows, 0)
        self._offset: int | None = None
        """Where the name is in a tensor."""

    @staticmethod
    def readable() -> bool:
        """Whether this build lets tensors be read."""
        return _tensor_functions() is not None

    def begin(self) -> None:
        """Forget the last pass."""
        self._filled = dict.fromkeys(self._rows, 0)

    def __call__(self, tensor: int, asked: bool, _data: object) -> bool:
        """Tell the scheduler whether a tensor is wanted, and read one that is."""
        if self._offset is None:
            self._offset = self._name(tensor) - tensor
        name = ctypes.string_at(tensor + self._offset)
        if asked or name not in self._rows:
            return name in self._rows
        rows, done, size = self._rows[name], self._filled[name], self._size(tensor)
        count = size // rows[0].nbytes
        # An exception would be lost here: what does not fit is missed by whoever reads it.
        if size % rows[0].nbytes == 0 and done + count <= len(rows):
            self._copy(tensor, rows[done:].ctypes.data, 0, size)
            self._filled[name] = done + count
        return True

    def address(self, tap: int, rows: int) -> int | None:
        """Where the last pass's states at a tap are [rows, width]; None if it had no such tensor, or one of another shape."""
        name = self._names[tap]
        return int(self._rows[name].ctypes.data) if self._filled[name] == rows else None


def untold(architecture: str) -> str:
    """What is said where llama.cpp does not note what layers are given."""
    return (
        f"llama.cpp does not hand out the hidden states of {architecture} models, so drafters trained on them cannot draft "
        "for this one. Use a draft model, or lookup."
    )
