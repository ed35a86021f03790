"""Loading of drafters in GGUF next to their target, with a proof that this build of llama.cpp drafts with them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ....errors import UserError
from ...base import Model
from ...files.gguf_file import Tensor as FileTensor
from ...heads.base import BlockHead, BlockSession, Head, HeadInfo, PathHead
from ...heads.dflash.paths import MarkovHead, SelectorHead, path_head
from ...heads.formats import Target
from ...heads.gguf_format import GgufAssistantFormat, GgufDFlashFormat, GgufFormat
from ...options import pip_command
from ..context import PAD, LlamaContext, Weights
from ..hidden_states import next_states
from ..library import library
from ..model import LlamaModel
from ..trial import trial_succeeds
from .sessions import LlamaAssistantSession, LlamaDFlashPathSession, LlamaDFlashSession, LlamaEagleSession, LoadedDrafter

SHARED = ("token_embd.weight", "output.weight")
"""Tensors that a drafter without them uses from its target."""

PLAIN_TYPES: dict[int, np.dtype[Any]] = {0: np.dtype(np.float32), 1: np.dtype(np.float16), 27: np.dtype(np.int64)}
"""GGUF's types that need no decoding."""


def load_gguf_head(format: GgufFormat, name: str, target: Model) -> Head:
    """Load a drafter in GGUF.

    Args:
        format: its file, as `read_gguf_format` reads it.
        name: as the user named it.
        target: the loaded model that it drafts for.

    Raises:
        UserError: it cannot draft for this target, or with this build of llama.cpp; says why and what to do.
    """
    if not isinstance(target, LlamaModel):
        raise UserError(
            f"{name} is a trained drafter ({format.title}) in GGUF, which drafts for models on llama.cpp only. Load the target "
            "from a GGUF file, or give the drafter's safetensors."
        )
    if next_states() is None:
        raise UserError(
            "This build of llama.cpp does not hand out what drafters compute, so trained drafters cannot run here. Run: "
            f"{pip_command()} --upgrade"
        )
    of, target_weights = target.info, target.weights
    taps = format.fitting(name, Target(of.name, target_weights.width, of.layers, of.vocabulary))
    if isinstance(format, GgufAssistantFormat):
        format.check_keys(name, of.name, target.header)
    target.tapped(taps)  # proves that its states can be read, now rather than in the first answer
    try:
        weights = Weights(format.folder, target.runtime, lambda _: True, checked=True, mtp=format.reads_keys)
    except UserError as error:
        why = str(error).rstrip(".") or "llama.cpp gives no reason"
        raise UserError(f"Cannot load {name}: {why}. Use another file of it.") from None
    # The smallest context is enough, as only the target's tensors are used.
    shares = not format.reads_keys and any(tensor not in format.shapes for tensor in SHARED)
    other = LlamaContext(target_weights, target.runtime, PAD, 1, batch=1) if shares else None
    info = format.describe(name, int(weights.lib.llama_model_n_params(weights.handle)), weights.file_type, taps)
    loaded = LoadedDrafter(weights, target.runtime, other)
    if isinstance(format, GgufDFlashFormat):
        paths, ids = _paths(format)
        session: Callable[[int], BlockSession] = partial(LlamaDFlashSession, loaded, format)
        if paths is not None:
            session = partial(LlamaDFlashPathSession, loaded, format, paths=paths, ids=ids)
        return BlockHead(info, session, format.positions)
    if isinstance(format, GgufAssistantFormat):
        return PathHead(info, partial(LlamaAssistantSession, loaded, target_weights.width))
    return PathHead(info, partial(LlamaEagleSession, loaded))


TABLES = {
    **{f"markov_{name}.weight": f"markov_head.markov_{name}.weight" for name in ("w1", "w2")},
    **{f"selector_{name}.weight": f"candidate_selector.{name}_codebook" for name in ("predecessor", "successor")},
    "selector_hidden.weight": "candidate_selector.hidden_projection.weight",
}
"""Tensors of DSpark's and DFlash 2's heads: GGUF's name → the one that `path_head` reads."""


def _paths(format: GgufDFlashFormat) -> tuple[MarkovHead | SelectorHead | None, Tensor | None]:
    """Read DSpark's or DFlash 2's head, and the target's ids of the drafted tokens."""
    if format.paths is None:
        return None, None
    tables = {name: numbers(format.folder, format.tensors[ours]) for ours, name in TABLES.items() if ours in format.tensors}
    ids = numbers(format.folder, format.tensors["d2t"]) if "d2t" in format.tensors else None
    return path_head(tables, format.paths), ids


def load_gguf_mtp(target: LlamaModel) -> Head | None:
    """Load the MTP layer in a target's own file as a drafter; None if it has none that llama.cpp can draft with.

    Raises:
        UserError: this build of llama.cpp cannot draft with it; says why.
    """
    of = target.info
    parameters = target.mtp
    if not parameters or next_states() is None:
        return None
    if not trial_succeeds("mtp", of.architecture, Path(of.path)):
        raise UserError(f"llama.cpp does not draft with the MTP layers of {of.architecture} models. Use another method.")
    target.tapped((of.layers,))
    info = HeadInfo(
        name=of.name, kind="mtp", title="MTP", parameters=parameters, dtype=of.dtype, taps=(of.layers,), path=of.path
    )
    loaded = LoadedDrafter(target.weights, target.runtime, None, mtp=True)
    return PathHead(info, partial(LlamaEagleSession, loaded))


@cache
def _ggml() -> Any:
    return ctypes.CDLL(str(next(Path(library()._lib._name).parent.glob("*ggml-base*"))))


def numbers(file: Path, tensor: FileTensor) -> Tensor:
    """Read a tensor as float32, or as int64 if it holds whole numbers.

    Raises:
        UserError: this build of ggml cannot decode its type.
    """
    data = np.fromfile(file, np.uint8, tensor.length, offset=tensor.begin)
    if tensor.kind in PLAIN_TYPES:
        values = data.view(PLAIN_TYPES[tensor.kind])
        return torch.from_numpy(values if tensor.kind == 27 else values.astype(np.float32)).reshape(tensor.shape)
    out = torch.empty(tensor.shape)
    try:
        name = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_int)(("ggml_type_name", _ggml()))(tensor.kind).decode()
        decode = getattr(_ggml(), "ggml_bf16_to_fp32_row" if name == "bf16" else f"dequantize_row_{name}")
    except (StopIteration, OSError, AttributeError):
        raise UserError(
            f"This build of llama.cpp does not decode {tensor.name}, which drafting needs. Take the drafter in F16, or run: "
            f"{pip_command()} --upgrade"
        ) from None
    decode.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    decode.restype = None
    decode(data.ctypes.data, out.data_ptr(), out.numel())
    return out
