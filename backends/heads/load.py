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
from ..base import ROOT, Model, Sampling
from ..hf.lean.halves import slim
from ..hf.lean.products import product
from ..hf.model import TransformersModel
from ..llama.model import LlamaModel
from ..proof import out_of_memory
from ..scores import TorchScores
from .assistant.format import ORDERING, AssistantFormat
from .assistant.network import AssistantNetwork, AssistantSession
from .base import BlockHead, Head, PathHead, PositionHead
from .dflash.format import UNUSED, DFlashFormat
from .dflash.network import DFlashNetwork, DFlashPathSession, DFlashSession
from .dflash.paths import PathBlockSession
from .eagle import EagleNetwork, EagleSession
from .eagle_format import EagleFormat
from .formats import IGNORED, LLAMA, Config, Format, Reading, Target
from .layers import DrafterParts, read_tensor, scattered
from .medusa_format import MedusaFormat


class MedusaNetwork:
    """The forward pass of Medusa heads.

    Args:
        format: their format.
        weights: their tensors, on one device and of one type.
        vocabulary: size of the target's vocabulary.
    """

    def __init__(self, format: MedusaFormat, weights: NamedTensors, vocabulary: int) -> None:
        self._format = format
        self._weights = weights
        self._vocabulary = vocabulary

    def __call__(self, state: Tensor, position: int, count: int) -> TorchScores:
        weights, rows = self._weights, []
        with torch.inference_mode():
            weight = next(iter(weights.values()))
            state = state.to(weight.device, weight.dtype)
            for head in range(count):
                hidden = state
                for at in (f"{head}.{block}" for block in range(self._format.blocks)):
                    hidden = hidden + F.silu(F.linear(hidden, weights[f"{at}.weight"], weights.get(f"{at}.bias")))
                name = f"{head}.lm_head.weight"
                rows.append(F.linear(hidden, weights[name if name in weights else "lm_head.weight"]))
            logits = scattered(torch.cat(rows), weights.ids, self._vocabulary)
        return TorchScores(logits, tuple(range(count)), tuple(range(position, position + count)))


TEXT = (
    "The lighthouse stood at the end of a long stone pier. Every evening, the keeper climbed the stairs, lit the lamp and "
    "wrote the weather into a book: the wind, the clouds, the height of the waves. In winter, ships passed only rarely, and he "
    "read or repaired his nets. When the fog came in, he rang the bell once a minute until the morning."
)
"""The text on which readings of a configuration are compared."""

MOST_TOKENS = 128
"""Most tokens of TEXT that are used."""

TABLES = ("d2t", "token_map")
"""Tables of a reduced vocabulary: offsets from the draft's ids to the target's, or the target's ids."""

INTEGERS = (*TABLES, ORDERING)
"""Tensors that hold no weights."""


MISFITS = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""Errors that torch and our networks raise for tensors that are missing, or whose shapes contradict the configuration."""


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
    readings = format.fitting(name, Target(info.name, lender.width, info.layers, info.vocabulary))
    target.tapped(readings[0].taps)  # proves that its states can be read, now rather than in the first answer
    weights = _read(format, name, target, lender)
    try:
        head = _build(format, name, target, lender, weights, readings)
        scored = _scored_tokens(head, target, lender.width)
        if scored != info.vocabulary:
            raise ValueError(f"it drafts from {scored:,} tokens")
    except MISFITS as error:
        if out_of_memory(error):
            raise
        why = f"it lacks {error.args[0]}" if isinstance(error, KeyError) else first_line(error)
        raise format.misfit(f"{name} does not fit {info.name}, or its weights do not match its config.json ({why})") from None
    if unread := sorted(weights.keys() - weights.asked):
        raise UserError(
            f"{name} has tensors that specchat does not know, such as {unread[0]}, so it would not draft as it was trained. "
            "Use another drafter."
        )
    return head


def _build(
    format: Format, name: str, target: Model, lender: Lender, weights: NamedTensors, readings: list[Reading]
) -> PathHead | BlockHead | PositionHead:
    """Build the drafter, under the reading that agrees most with its target."""
    vocabulary, size = target.info.vocabulary, sum(tensor.numel() for tensor in weights.values())
    describe = partial(format.describe, name, size, str(lender.dtype).removeprefix("torch."))
    match format:
        case EagleFormat():
            eagle = EagleNetwork(format, weights, _parts(format, weights, lender, vocabulary))
            reading, note = _choose_reading(eagle, target, readings)
            eagle.residual_normed = reading.norm_before_residual
            return PathHead(describe(reading, note), partial(EagleSession, eagle))
        case DFlashFormat():
            dflash = DFlashNetwork(format, weights, _parts(format, weights, lender, vocabulary))
            session = DFlashSession if dflash.paths is None else DFlashPathSession
            return BlockHead(describe(readings[0]), partial(session, dflash), format.positions)
        case AssistantFormat():
            if not isinstance(target, TransformersModel):
                raise UserError(
                    f"{name} reads its target's keys and values, which llama.cpp gives to an assistant in GGUF only. Take "
                    "the assistant as a GGUF file, or load the target from a folder with safetensors."
                )
            assistant = AssistantNetwork(format, weights, name, target)
            return PathHead(describe(readings[0]), partial(AssistantSession, assistant))
        case _:
            assert isinstance(format, MedusaFormat)
            ids = weights.ids
            for tensor, value in weights.items():
                if ids is not None and tensor.endswith("lm_head.weight") and len(value) > len(ids):
                    weights[tensor] = value[ids]
            return PositionHead(describe(readings[0]), MedusaNetwork(format, weights, vocabulary), format.heads)


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
    """Read the configuration of the drafter's layers as Llama's.

    Raises:
        UserError: transformers refuses it.
    """
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    file = format.folder / "config.json"
    settings = {key: format.layer[key] for key in LLAMA if format.layer.get(key) is not None}
    settings["hidden_size"] = format.shapes["fc.weight"][0]
    settings["max_position_embeddings"] = Config(file, settings).figure("max_position_embeddings", 2048)
    try:
        config = LlamaConfig(**settings)
        LlamaRotaryEmbedding(config)  # raises for an unknown kind of scaling
        return config
    except Exception as error:  # transformers' checks raise many types
        raise UserError(f"Cannot read {file}: {first_line(error)}.") from None


def _read(format: Format, name: str, target: Model, lender: Lender) -> NamedTensors:
    """Read the tensors that drafting needs, in the target's type."""
    tensors: dict[str, Tensor] = {}
    for ours, place in format.names.items():
        if ours in (*IGNORED, *UNUSED) or "rotary_emb" in ours:
            continue
        tensor = read_tensor(*place)
        if (ours in INTEGERS) == tensor.is_floating_point():
            kind = str(tensor.dtype).removeprefix("torch.")
            raise UserError(f"{name} has {ours} in {kind}, which specchat cannot use. Use a drafter that is not quantized.")
        if ours not in INTEGERS and not bool(torch.isfinite(tensor.float()).all()):
            raise UserError(f"{name} is damaged: {ours} holds numbers that are none (NaN or infinite). Download it again.")
        tensors[ours] = tensor.to(lender.device, torch.int64 if ours in INTEGERS else lender.dtype)
    table = next((table for table in TABLES if table in tensors), None)
    if table is None:
        return NamedTensors(tensors, None)
    ids = tensors.pop(table)
    if table == "d2t":  # offsets
        ids = ids + torch.arange(len(ids), device=ids.device)
    if bool((ids < 0).any()) or bool((ids >= target.info.vocabulary).any()) or len(set(ids.tolist())) < len(ids):
        raise UserError(
            f"{name} is damaged: its table {table} does not lead to tokens of {target.info.name}, each once. Download it again."
        )
    return NamedTensors(tensors, ids)


def _choose_reading(network: EagleNetwork, target: Model, readings: list[Reading]) -> tuple[Reading, str]:
    """Choose the reading under which the drafter agrees most with its target (the first of equals), with a note on it."""
    tokens = target.encode(TEXT)[: min(MOST_TOKENS, target.info.context)]
    if len(readings) == 1 or len(tokens) < 3:
        return readings[0], ""
    taps = sorted({tap for reading in readings for tap in reading.taps})
    with closing(target.open_session(len(tokens), taps)) as session:
        picks = session.evaluate(tokens, range(ROOT, len(tokens) - 1)).choose(Sampling())
        session.commit(range(len(tokens)))
        # Pair i predicts the target's pick after token i + 1.
        states, answers = session.states(0, len(tokens) - 1), torch.tensor(picks[1:])
    columns = dict(zip(taps, states.chunk(len(taps), -1), strict=True))
    agreed = []
    for reading in readings:
        network.residual_normed = reading.norm_before_residual
        inputs = torch.cat([columns[tap] for tap in reading.taps], -1)
        guesses = EagleSession(network, len(tokens)).every(tokens[1:], inputs).argmax(-1).cpu()
        agreed.append(int((guesses == answers).sum()))
    best = agreed.index(max(agreed))
    if not best:
        return readings[0], ""
    return readings[best], (
        f"Engines read this drafter's config.json differently; with {readings[best].note} it agrees with the target on "
        f"{agreed[best] / len(answers):.0%} of a short text's tokens, and on {agreed[0] / len(answers):.0%} otherwise."
    )
