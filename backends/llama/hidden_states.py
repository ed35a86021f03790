"""Reads a model's hidden states out of llama.cpp: the input of any layer, and the last state after the final norm.

llama.cpp has the former for its own drafters, in a header that is not part of its C interface (`src/llama-ext.h`), so the
functions go by mangled names. It notes them for some architectures only.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

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
    return (
        ""
        if layer_inputs() is not None
        else (
            "This build of llama.cpp does not hand out hidden states, so drafters trained on them cannot draft here. Run: "
            f"{pip_command()} --upgrade"
        )
    )


def states_unavailable(architecture: str) -> str:
    """Explain that llama.cpp does not expose the inputs of an architecture's layers."""
    return (
        f"llama.cpp does not hand out the hidden states of {architecture} models, so drafters trained on them cannot draft "
        "for this one. Use a draft model, or lookup."
    )
