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

CONTEXT = "P13llama_context"
"""A context among the parameters of a mangled name."""


def exported(name: str, parameters: str, answer: Any, *arguments: Any) -> Any:
    """Look up a function of the library by its name in C, or as C++ compilers mangle it; None if this build does not have it.

    Args:
        name: the function's.
        parameters: their mangled types.
        answer, arguments: their ctypes.
    """
    raw = library()._lib
    symbol = next((symbol for symbol in (name, f"_Z{len(name)}{name}{parameters}") if hasattr(raw, symbol)), None)
    return None if symbol is None else ctypes.CFUNCTYPE(answer, *arguments)((symbol, raw))


@cache
def layer_inputs() -> tuple[Callable[..., None], Callable[..., int | None]] | None:
    """Look up the functions that switch a layer's input on (context, layer, on), and that return its address (context, layer);
    None if this build does not have them."""
    switch = exported("llama_set_embeddings_layer_inp", f"{CONTEXT}jb", None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_bool)
    where = exported("llama_get_embeddings_layer_inp", f"{CONTEXT}j", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32)
    return None if switch is None or where is None else (switch, where)


@cache
def next_states() -> tuple[Callable[..., None], Callable[..., int | None]] | None:
    """Look up the functions that switch on the last states (context, on, scored rows only), and that return their address
    (context); None if this build does not have them."""
    switch = exported("llama_set_embeddings_nextn", f"{CONTEXT}bb", None, ctypes.c_void_p, ctypes.c_bool, ctypes.c_bool)
    where = exported("llama_get_embeddings_nextn", CONTEXT, ctypes.c_void_p, ctypes.c_void_p)
    return None if switch is None or where is None else (switch, where)


def copy_embeddings(handle: int | None, address: int) -> None:
    """Write a model's embeddings to an address, in float32. Builds that hand out hidden states have this, too."""
    write = exported("llama_model_get_tok_embd", "PK11llama_modelPf", ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p)
    write(handle, address)


def refusal() -> str:
    """Explain why this build exposes no hidden states; empty if it does."""
    if layer_inputs() is not None:
        return ""
    return (
        "This build of llama.cpp does not hand out hidden states, so drafters trained on them cannot draft here. Run: "
        f"{pip_command()} --upgrade"
    )


@cache
def _tensor_functions() -> tuple[Callable[[int], int], Callable[[int], int], Callable[..., None]] | None:
    """Look up the functions for a tensor's name and size in bytes, and the one that copies its numbers (tensor, address, first
    byte, bytes); None if this build does not have them."""
    name = exported("ggml_get_name", "", ctypes.c_void_p, ctypes.c_void_p)
    size = exported("ggml_nbytes", "", ctypes.c_size_t, ctypes.c_void_p)
    copy = exported("ggml_backend_tensor_get", "", None, *[ctypes.c_void_p] * 2, *[ctypes.c_size_t] * 2)
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
        self._functions = functions
        self._names = {tap: f"l_out-{tap - 1}".encode() for tap in taps}
        self._rows = {name: np.empty((batch, width), np.float32) for name in self._names.values()}
        self._filled = dict.fromkeys(self._rows, 0)
        self._offset: int | None = None
        """Offset of the name in a tensor."""

    @staticmethod
    def readable() -> bool:
        """Whether this build lets tensors be read."""
        return _tensor_functions() is not None

    def begin(self) -> None:
        """Forget the last pass."""
        self._filled = dict.fromkeys(self._rows, 0)

    def __call__(self, tensor: int, asks: bool, _data: object) -> bool:
        """Tell the scheduler whether a tensor is wanted, and read one that is."""
        name_of, size_of, copy = self._functions
        if self._offset is None:
            self._offset = name_of(tensor) - tensor
        name = ctypes.string_at(tensor + self._offset)
        if asks or name not in self._rows:
            return name in self._rows
        rows, done, size = self._rows[name], self._filled[name], size_of(tensor)
        count = size // rows[0].nbytes
        # An exception would be lost here: what does not fit is missed by whoever reads it.
        if size % rows[0].nbytes == 0 and done + count <= len(rows):
            copy(tensor, rows[done:].ctypes.data, 0, size)
            self._filled[name] = done + count
        return True

    def address(self, tap: int, rows: int) -> int | None:
        """Return the address of the last pass's states at a tap [rows, width]; None if it had no such tensor, or one of another
        shape."""
        name = self._names[tap]
        return int(self._rows[name].ctypes.data) if self._filled[name] == rows else None


def states_unavailable(architecture: str) -> str:
    """Explain that llama.cpp does not expose the inputs of an architecture's layers."""
    return (
        f"llama.cpp does not hand out the hidden states of {architecture} models, so drafters trained on them cannot draft "
        "for this one. Use a draft model, or lookup."
    )
