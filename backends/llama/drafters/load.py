"""Loads a drafter's GGUF file beside its target, and proves that this build of llama.cpp drafts with it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ....errors import UserError
from ...base import ROOT, Model, Session
from ...files.gguf_file import Tensor as FileTensor
from ...heads.assistant.memory import AssistantMemory
from ...heads.base import BlockHead, BlockSession, Head, HeadInfo, PathHead
from ...heads.dflash.paths import MarkovHead, SelectorHead, path_head
from ...heads.formats import Target
from ...heads.gguf_format import UNREAD, GgufAssistantFormat, GgufDFlashFormat, GgufFormat
from ...options import pip_command
from ...rounding import PREFIX
from ..context import PAD, Context, Weights
from ..hidden_states import next_states
from ..library import library
from ..model import LlamaModel, file_type
from ..proof import TOLERANCE, difference
from ..session import LlamaSession
from ..trial import works
from .context import Loaded, PathContext, opened
from .dflash import LlamaDFlashPathSession, LlamaDFlashSession
from .eagle import LlamaEagleSession

HOLDER = 1
"""The first of the target's sequences, as bits: it holds the text and nothing else."""


class LlamaAssistantSession(AssistantMemory):
    """What an assistant knows of a conversation, and its context beside the target's session.

    Args:
        loaded: the assistant.
        width: of the target's states.
        context: most tokens.
    """

    def __init__(self, loaded: Loaded, width: int, context: int) -> None:
        super().__init__(context)
        self._loaded, self._width = loaded, width
        self._run: PathContext | None = None

    def follow(self, target: Session) -> None:
        assert isinstance(target, LlamaSession)
        weights, runtime = self._loaded.weights, self._loaded.runtime

        def make(other: Context) -> PathContext:
            size = target.context
            return opened(lambda: PathContext(weights, runtime, size, other.rows, self._width, other, mtp=True), size)

        self._run = target.reader(weights, make)

    def _step(self, tokens: Sequence[int], states: Tensor) -> tuple[Tensor, Tensor]:
        assert self._run is not None, "follow comes first"
        run, found = self._run, []
        for begin in range(0, len(tokens), run.rows):
            part = tokens[begin : begin + run.rows]
            # Every node at the pending token's position: none stays in the cache.
            positions, holders = [self.length] * len(part), [HOLDER] * len(part)
            found.append(run.decode_beside(part, states[begin : begin + len(part)], positions, holders))
        logits, after = zip(*found, strict=True)
        return torch.cat(logits), torch.cat(after)

    def close(self) -> None:
        super().close()
        self._run = None


SHARED = ("token_embd.weight", "output.weight")
"""Tensors that a drafter uses of its target's where it has none."""

WHOLE: dict[int, np.dtype[Any]] = {0: np.dtype(np.float32), 1: np.dtype(np.float16), 27: np.dtype(np.int64)}
"""Types that need no decoding."""

PARENTS = (ROOT, ROOT, 0, 1, 2)
"""The proof's tree."""
PATHS = ((0, 2, 4), (1, 3))


def load_gguf_head(found: GgufFormat, name: str, target: Model) -> Head:
    """Load a drafter.

    Args:
        found: its file, as `read_gguf_format` reads it.
        name: as the user named it.
        target: the loaded model that it drafts for.

    Raises:
        UserError: it cannot draft for this target, or not with this build of llama.cpp; says why and what to do.
    """
    if not isinstance(target, LlamaModel):
        raise UserError(
            f"{name} is a trained drafter ({found.title}) in GGUF, which drafts for models on llama.cpp only. Load the target "
            "from a GGUF file, or give the drafter's safetensors."
        )
    if next_states() is None:
        raise UserError(
            "This build of llama.cpp does not hand out what drafters compute, so trained drafters cannot run here. Run: "
            f"{pip_command()} --upgrade"
        )
    of, own = target.info, target.weights
    (reading,) = found.fitting(name, Target(of.name, own.width, of.layers, of.vocabulary))
    if isinstance(found, GgufAssistantFormat):
        found.check_keys(name, of.name, target.header)
    target.tapped(reading.taps)  # which proves that its states can be read, now rather than in the first answer
    try:
        weights = Weights(found.folder, target.runtime, lambda _: True, checked=True, mtp=found.reads_keys)
    except UserError as error:
        why = str(error).rstrip(".") or "llama.cpp gives no reason"
        advice = "Download it again."
        if found.reads_keys and (table := next((tensor for tensor in UNREAD if tensor in found.shapes), "")):
            advice = f"Take a file without {table}, which llama.cpp does not use."
        raise UserError(f"Cannot load {name}: {why}. {advice}") from None
    # Only the tensors of the target are used of it, so that the least context will do.
    shares = not found.reads_keys and any(tensor not in found.shapes for tensor in SHARED)
    other = Context(own, target.runtime, PAD, 1, batch=1) if shares else None
    info = HeadInfo(
        name=name,
        kind=found.kind,
        title=found.title,
        parameters=int(weights.lib.llama_model_n_params(weights.handle)),
        dtype=file_type(weights),
        taps=reading.taps,
        path=str(found.folder),
    )
    loaded, reads = Loaded(weights, target.runtime, other), len(reading.taps) * own.width
    head: PathHead | BlockHead
    text = target.proof_ids(PREFIX + len(PARENTS))
    if isinstance(found, GgufDFlashFormat):
        paths, ids = _paths(found)
        session: Callable[[int], BlockSession] = partial(LlamaDFlashSession, loaded, found)
        if paths is not None:
            session = partial(LlamaDFlashPathSession, loaded, found, paths=paths, ids=ids)
        head = BlockHead(info, session, found.positions)
        sound = drafts_blocks(head, text, reads)
    elif isinstance(found, GgufAssistantFormat):
        head = PathHead(info, partial(LlamaAssistantSession, loaded, own.width))
        with closing(target.open_session(PAD, reading.taps)) as beside:
            sound = drafts_trees(head, text, reads, beside)
    else:
        head = PathHead(info, partial(LlamaEagleSession, loaded))
        sound = drafts_trees(head, text, reads)
    if not sound:
        raise UserError(
            f"This build of llama.cpp does not draft with {name} as it should: the same tokens get other scores in another "
            f"pass. Run: {pip_command()} --upgrade"
        )
    return head


TABLES = {
    **{f"markov_{name}.weight": f"markov_head.markov_{name}.weight" for name in ("w1", "w2")},
    **{f"selector_{name}.weight": f"candidate_selector.{name}_codebook" for name in ("predecessor", "successor")},
    "selector_hidden.weight": "candidate_selector.hidden_projection.weight",
}
"""Tensors by which guesses go by the token before: in GGUF, and as `path_head` calls them."""


def _paths(found: GgufDFlashFormat) -> tuple[MarkovHead | SelectorHead | None, Tensor | None]:
    """What makes a drafter's guesses go by the token before, and the target's ids of the tokens that are drafted."""
    if found.paths is None:
        return None, None
    tables = {name: numbers(found.folder, found.tensors[ours]) for ours, name in TABLES.items() if ours in found.tensors}
    ids = numbers(found.folder, found.tensors["d2t"]) if "d2t" in found.tensors else None
    return path_head(tables, found.paths), ids


def load_gguf_mtp(target: LlamaModel) -> Head | None:
    """The MTP layer in a target's own file, as a drafter; None if it has none that llama.cpp can draft with.

    Raises:
        UserError: this build of llama.cpp cannot; says why.
    """
    of = target.info
    parameters = target.mtp
    if not parameters or next_states() is None:
        return None
    if not works("mtp", of.architecture, Path(of.path)):
        raise UserError(f"llama.cpp does not draft with the MTP layers of {of.architecture} models. Use another method.")
    target.tapped((of.layers,))
    info = HeadInfo(of.name, "mtp", "MTP", parameters, of.dtype, (of.layers,), of.path)
    loaded = Loaded(target.weights, target.runtime, None, mtp=True)
    head = PathHead(info, partial(LlamaEagleSession, loaded))
    if not drafts_trees(head, target.proof_ids(PREFIX + len(PARENTS)), target.weights.width):
        raise UserError(
            f"This build of llama.cpp does not draft with the MTP layer of {of.name} as it should. Use another method."
        )
    return head


def states_of(reads: int) -> Tensor:
    """States to prove drafting with [PREFIX, reads]."""
    return torch.randn((PREFIX, reads), generator=torch.Generator().manual_seed(1))


def logits(scores: Any) -> Tensor:
    """The logits of tokens that are drafted: of a reduced vocabulary's, the others are minus infinity."""
    found: Tensor = scores.logits
    return found[:, found[0].isfinite()]


def drafts_blocks(head: BlockHead, text: Sequence[int], reads: int) -> bool:
    """Whether a block gets the same behind states taken in at once or one by one, and leaves nothing behind."""
    states, token, session = states_of(reads), text[-1], head.open(PAD)
    try:
        session.extend(states)
        whole = logits(session.guess(token, head.positions))
        session.rewind(2)
        for i in range(2, PREFIX):
            session.extend(states[i : i + 1])
            last = logits(session.guess(token, head.positions))
    finally:
        session.close()
    return last.shape == whole.shape and difference(last, whole) <= TOLERANCE


def drafts_trees(head: PathHead, line: Sequence[int], reads: int, beside: Session | None = None) -> bool:
    """Whether nodes of a tree get what the same tokens get as a chain, behind pairs taken in at once or one by one.

    Args:
        head: what to prove.
        line: ids of a text, PREFIX and the tree's.
        reads: numbers in the states of a token.
        beside: a session of the target, empty, if the drafter reads its keys and values.
    """
    states, text, tree = states_of(reads), line[:PREFIX], line[PREFIX:]
    session = head.open(PAD)

    def extend(begin: int, end: int) -> Tensor:
        if beside is not None:
            beside.rewind(min(beside.length, end))
            beside.prefill(text[beside.length : end])
            session.follow(beside)
        return logits(session.extend(text[begin:end], states[begin:end]))

    try:
        whole = extend(0, PREFIX)
        grown = torch.cat([logits(session.grow(tree[a:b], PARENTS[a:b])) for a, b in ((0, 2), (2, 4), (4, 5))])
        session.rewind(2)
        for i in range(2, PREFIX):
            last = extend(i, i + 1)
        if last.shape != whole.shape or not difference(last, whole) <= TOLERANCE:
            return False
        for path in PATHS:
            session.drop(0)
            for depth, node in enumerate(path):
                found = logits(session.grow([tree[node]], [depth - 1]))
                if not difference(found, grown[node : node + 1]) <= TOLERANCE:
                    return False
    finally:
        session.close()
    return True


@cache
def _ggml() -> Any:
    return ctypes.CDLL(str(next(Path(library()._lib._name).parent.glob("*ggml-base*"))))


def numbers(file: Path, tensor: FileTensor) -> Tensor:
    """A tensor in float32, or in int64 if it holds whole numbers.

    Raises:
        UserError: this build of ggml does not say how to decode it.
    """
    data = np.fromfile(file, np.uint8, tensor.length, offset=tensor.begin)
    if tensor.kind in WHOLE:
        found = data.view(WHOLE[tensor.kind])
        return torch.from_numpy(found if tensor.kind == 27 else found.astype(np.float32)).reshape(tensor.shape)
    out = torch.empty(tensor.shape)
    try:
        name = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_int)(("ggml_type_name", _ggml()))(tensor.kind).decode()
        decode = getattr(_ggml(), "ggml_bf16_to_fp32_row" if name == "bf16" else f"dequantize_row_{name}")
    except (StopIteration, OSError, AttributeError):
        raise UserError(
            f"This build of llama.cpp does not decode {tensor.name}, which drafting needs. Take the drafter in F16, or run: "
            f"{pip_command()} --upgrade"
        ) from None
    decode.argtypes, decode.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64], None
    decode(data.ctypes.data, out.data_ptr(), out.numel())
    return out
