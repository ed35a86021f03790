"""Loading of a trained drafter next to its target. Where engines read its configuration differently, agreement decides."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import UserError, first_line
from ..base import ROOT, Model
from ..hf.lean.products import product, slim
from ..hf.model import TransformersModel
from ..llama.model import LlamaModel
from ..proof import out_of_memory
from ..scores import TorchScores
from .assistant import AssistantNetwork, AssistantSession
from .base import BlockHead, Head, PathHead, PositionHead
from .dflash.format import UNUSED, DFlashFormat
from .dflash.network import DFlashNetwork, DFlashPathSession, DFlashSession
from .dflash.paths import PathBlockSession
from .eagle import EagleNetwork, EagleSession
from .formats import IGNORED, ORDERING, AssistantFormat, EagleFormat, Format, MedusaFormat, Taps, Target
from .layers import DrafterParts, read_tensor

INTEGERS = ("d2t", ORDERING)
"""Tensors that hold no weights."""

LLAMA = (
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "rms_norm_eps",
    "hidden_act",
    "max_position_embeddings",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
)
"""Keys of a drafter's configuration that define its layers, as in Llama's."""


class MedusaNetwork:
    """The forward pass of Medusa heads.

    Args:
        format: their format.
        weights: their tensors, on one device and of one type.
    """

    def __init__(self, format: MedusaFormat, weights: NamedTensors) -> None:
        self._format = format
        self._weights = weights

    def __call__(self, state: Tensor, position: int, count: int) -> TorchScores:
        weights, rows = self._weights, []
        with torch.inference_mode():
            weight = next(iter(weights.values()))
            state = state.to(weight.device, weight.dtype)
            for head in range(count):
                hidden = state
                for at in (f"{head}.{block}" for block in range(self._format.blocks)):
                    hidden = hidden + F.silu(F.linear(hidden, weights[f"{at}.weight"], weights.get(f"{at}.bias")))
                rows.append(F.linear(hidden, weights[f"{head}.lm_head.weight"]))
        return TorchScores(torch.cat(rows), tuple(range(count)), tuple(range(position, position + count)))


class NamedTensors(dict[str, Tensor]):
    """A drafter's tensors by name, with a record of the names that were read.

    Args:
        tensors: in the target's type.
        ids: the target's id of each drafted token; None if all are drafted.
    """

    def __init__(self, tensors: dict[str, Tensor], ids: Tensor | None) -> None:
        super().__init__(tensors)
        self.ids = ids
        self.asked = set[str]()

    def __getitem__(self, name: str) -> Tensor:
        self.asked.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.asked.add(name)
        return super().get(name, default)


def load_head(format: Format, name: str, target: Model) -> Head:
    """Load a drafter, and draft with it once, which shows whether its tensors match its configuration.

    Args:
        format: its folder, as `read_format` reads it.
        name: as the user named it.
        target: the loaded model that it drafts for; it lends the embeddings and LM head that the drafter does not have.

    Raises:
        UserError: it cannot draft for this target; says why and what to do.
    """
    info, lender = target.info, _lender(target, name)
    taps = format.fitting(name, Target(info.name, lender.width, info.layers, info.vocabulary))
    target.tapped(taps)  # proves that its states can be read, now rather than in the first answer
    try:
        weights = _read(format, lender, info.vocabulary)
        head = _build(format, name, target, lender, weights, taps)
        scored = _scored_tokens(head, target, lender.width)
        if scored != info.vocabulary:
            raise ValueError(f"it drafts from {scored:,} tokens")
        if unread := sorted(weights.keys() - weights.asked):
            raise ValueError(f"specchat does not know {unread[0]}")
    except UserError:
        raise
    except Exception as error:  # torch, transformers and our networks raise many types
        if out_of_memory(error):
            raise
        why = f"it lacks {error.args[0]}" if isinstance(error, KeyError) else first_line(error)
        raise format.misfit(name, info.name, f"its weights do not match its config.json ({why})") from None
    return head


def _build(
    format: Format, name: str, target: Model, lender: Lender, weights: NamedTensors, taps: Taps
) -> PathHead | BlockHead | PositionHead:
    """Build the drafter."""
    vocabulary, size = target.info.vocabulary, sum(tensor.numel() for tensor in weights.values())
    info = format.describe(name, size, str(lender.dtype).removeprefix("torch."), taps)
    match format:
        case EagleFormat():
            eagle = EagleNetwork(format, weights, _parts(format, weights, lender, vocabulary))
            return PathHead(info, partial(EagleSession, eagle))
        case DFlashFormat():
            dflash = DFlashNetwork(format, weights, _parts(format, weights, lender, vocabulary))
            session = DFlashSession if dflash.paths is None else DFlashPathSession
            return BlockHead(info, partial(session, dflash), format.positions)
        case AssistantFormat():
            if not isinstance(target, TransformersModel):
                raise UserError(
                    f"{name} reads its target's keys and values, which llama.cpp gives to an assistant in GGUF only. Take "
                    "the assistant as a GGUF file, or load the target from a folder with safetensors."
                )
            assistant = AssistantNetwork(format, weights, name, target)
            return PathHead(info, partial(AssistantSession, assistant))
        case _:
            assert isinstance(format, MedusaFormat)
            return PositionHead(info, MedusaNetwork(format, weights), format.heads)


def _scored_tokens(head: PathHead | BlockHead | PositionHead, target: Model, width: int) -> int:
    """Draft after two tokens with states of zeros; return the size of the vocabulary that is scored."""
    states = torch.zeros((2, len(head.info.taps) * width))
    scores: Any
    match head:
        case PathHead():
            with closing(target.open_session(4, head.info.taps)) as text, closing(head.open(4)) as session:
                text.prefill((0, 0))
                session.follow(text)
                session.extend((0, 0), states)
                scores = session.grow([0], [ROOT])
        case BlockHead():
            with closing(head.open(2)) as block:
                block.extend(states)
                guess = block.begin if isinstance(block, PathBlockSession) else block.guess
                scores = guess(0, head.positions)
        case PositionHead():
            scores = head.guess(states[:1], 2, head.positions)
    return int(scores.logits.shape[-1])


@dataclass(frozen=True, slots=True)
class Lender:
    """The parts of a target that its drafter may use."""

    width: int
    device: torch.device
    dtype: torch.dtype
    embeddings: Callable[[], Tensor]
    """Returns the table [vocab, width]."""
    lm_head: Callable[[], Callable[[Tensor], Tensor]]
    cheap: bool
    """Whether the embeddings take no further memory."""


def _lender(target: Model, name: str) -> Lender:
    if isinstance(target, TransformersModel):
        module = target.module
        table = module.get_input_embeddings().weight.detach()
        width = int(module.config.get_text_config(decoder=True).hidden_size)
        return Lender(width, table.device, module.dtype, lambda: table, module.get_output_embeddings, cheap=True)
    if not isinstance(target, LlamaModel):
        raise UserError(f"{name} needs hidden states, which {target.info.name} does not hand out. Use a draft model.")

    def lm_head() -> Callable[[Tensor], Tensor]:
        if not target.tied:
            raise UserError(
                f"{name} has no LM head of its own, and llama.cpp does not hand out that of {target.info.name}. Give the "
                "drafter as a GGUF file, or load the target from a folder with safetensors."
            )
        return product(target.embeddings(), None)

    weights = target.weights
    return Lender(weights.width, torch.device("cpu"), torch.float32, target.embeddings, lm_head, cheap=False)


def _parts(format: EagleFormat | DFlashFormat, weights: NamedTensors, lender: Lender, vocabulary: int) -> DrafterParts:
    """Collect the embeddings and LM head: the drafter's, or the target's where it has none."""
    embeddings = weights.get("embed_tokens.weight")
    if embeddings is not None and lender.cheap and torch.equal(embeddings, lender.embeddings()):
        del weights["embed_tokens.weight"]  # many are copies
        embeddings = None
    if embeddings is None:
        embeddings = lender.embeddings()
    head_weight = weights.get("lm_head.weight")
    lm_head = lender.lm_head() if head_weight is None else slim(head_weight)
    if type(lm_head) is nn.Linear:  # the target's; a small one is worth a copy in halves
        lm_head = slim(lm_head.weight, lm_head.bias)
    return DrafterParts(_layer_config(format), embeddings, lm_head, weights.ids, vocabulary)


def _layer_config(format: EagleFormat | DFlashFormat) -> Any:
    """Read the configuration of the drafter's layers as Llama's."""
    from transformers import LlamaConfig

    settings = {key: format.layer[key] for key in LLAMA if format.layer.get(key) is not None}
    return LlamaConfig(**{"max_position_embeddings": 2048, **settings}, hidden_size=format.shapes["fc.weight"][0])


def _read(format: Format, lender: Lender, vocabulary: int) -> NamedTensors:
    """Read the tensors that drafting needs, in the target's type.

    Raises:
        ValueError: one is damaged or quantized.
    """
    tensors: dict[str, Tensor] = {}
    for ours, place in format.names.items():
        if ours in (*IGNORED, *UNUSED) or "rotary_emb" in ours:
            continue
        tensor = read_tensor(*place)
        whole = ours in INTEGERS
        if whole == tensor.is_floating_point() or not bool(torch.isfinite(tensor.float()).all()):
            raise ValueError(f"{ours} holds no plain numbers: it is damaged or quantized")
        tensors[ours] = tensor.to(lender.device, torch.int64 if whole else lender.dtype)
    ids = tensors.pop("d2t", None)
    if ids is not None:
        ids = ids + torch.arange(len(ids), device=ids.device)  # offsets
        if bool((ids < 0).any()) or bool((ids >= vocabulary).any()) or len(set(ids.tolist())) < len(ids):
            raise ValueError("d2t does not lead to the target's tokens, each once")
    return NamedTensors(tensors, ids)
