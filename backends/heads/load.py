"""Loads a trained drafter beside its target, and measures how to read its configuration where engines disagree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import UserError, first_line
from ..base import ROOT, Model, Sampling, Session
from ..hf.lean.halves import slim
from ..hf.lean.products import product
from ..hf.model import TransformersModel
from ..hf.runner import out_of_memory
from ..llama.model import LlamaModel
from ..scores import TorchScores
from .assistant.format import ORDERING, AssistantFormat
from .assistant.network import AssistantNetwork, AssistantSession
from .base import BlockHead, Head, HeadInfo, PathBlockSession, PathHead, PositionHead
from .dflash.format import UNUSED, DFlashFormat
from .dflash.network import DFlashNetwork, DFlashPathSession, DFlashSession
from .eagle import EagleNetwork, EagleSession
from .eagle_format import EagleFormat
from .formats import IGNORED, LLAMA, Format, Reading, Target, figure
from .layers import Parts, scattered, stored
from .medusa_format import MedusaFormat


class MedusaHead(PositionHead):
    """Loaded Medusa heads (see load.py).

    Args:
        info: what the interface shows.
        found: their format.
        weights: their tensors, on one device and of one type.
        ids: the target's id of each token that they draft; None where they draft all.
        vocabulary: the target's token ids.
    """

    def __init__(
        self, info: HeadInfo, found: MedusaFormat, weights: Mapping[str, Tensor], ids: Tensor | None, vocabulary: int
    ) -> None:
        super().__init__(info, weights)
        self._blocks, self._ids, self._vocabulary = found.blocks, ids, vocabulary
        self.positions = found.heads

    def guess(self, state: Tensor, position: int, count: int) -> TorchScores:
        weights: Mapping[str, Tensor] = self.loaded()
        with torch.inference_mode():
            some = next(iter(weights.values()))
            state, rows = state.to(some.device, some.dtype), []
            for head in range(count):
                hidden = state
                for at in (f"{head}.{block}" for block in range(self._blocks)):
                    block = weights[f"{at}.weight"]
                    hidden = hidden + F.silu(F.linear(hidden, block, weights.get(f"{at}.bias")))
                own = f"{head}.lm_head.weight"
                lm_head = weights[own if own in weights else "lm_head.weight"]
                rows.append(F.linear(hidden, lm_head))
            logits = scattered(torch.cat(rows), self._ids, self._vocabulary)
        return TorchScores(logits, tuple(range(count)), tuple(range(position, position + count)))


TEXT = (
    "The lighthouse stood at the end of a long stone pier. Every evening, the keeper climbed the stairs, lit the lamp and "
    "wrote the weather into a book: the wind, the clouds, the height of the waves. In winter, ships passed only rarely, and he "
    "read or repaired his nets. When the fog came in, he rang the bell once a minute until the morning."
)
"""What readings are tried on."""

LONGEST = 128
"""Tokens of it, at most."""

TABLES = ("d2t", "token_map")
"""Tables of a reduced vocabulary: offsets from the draft's ids to the target's, or the target's ids."""

INTEGERS = (*TABLES, ORDERING)
"""Tensors that hold no weights."""


MISFITS = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What torch and our own networks raise of tensors that are missing, or of other shapes than a configuration says."""


class Noted(dict[str, Tensor]):
    """Tensors by name, which notes those that were asked for."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        super().__init__(tensors)
        self.asked = set[str]()

    def __getitem__(self, name: str) -> Tensor:
        self.asked.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.asked.add(name)
        return super().get(name, default)


def load_head(found: Format, name: str, target: Model) -> Head:
    """Load a drafter, and draft with it once: that tells whether its tensors are those that its configuration speaks of.

    Args:
        found: its folder, as `read_format` reads it.
        name: as the user named it.
        target: the loaded model that it drafts for; it shares the embeddings and LM head that the drafter does not have.

    Raises:
        UserError: it cannot draft for this target; says why and what to do.
    """
    of, lender = target.info, _lender(target, name)
    readings = found.fitting(name, Target(of.name, lender.width, of.layers, of.vocabulary))
    target.tapped(readings[0].taps)  # which proves that its states can be read, now rather than in the first answer
    weights = Noted(_read(found, name, lender.device, lender.dtype))
    ids = _ids(weights, name, target)
    try:
        head = _made(found, name, target, lender, weights, ids, readings)
        drafted = _drafted_once(head, target, lender.width)
        if drafted != of.vocabulary:
            raise ValueError(f"it drafts from {drafted:,} tokens")
    except MISFITS as error:
        if out_of_memory(error):
            raise
        why = f"it lacks {error.args[0]}" if isinstance(error, KeyError) else first_line(error)
        raise UserError(
            f"{name} does not fit {of.name}, or its weights do not match its config.json ({why}). {found.made_for}"
        ) from None
    if unread := sorted(weights.keys() - weights.asked):
        raise UserError(
            f"{name} has tensors that specchat does not know, such as {unread[0]}, so it would not draft as it was trained. "
            "Use another drafter."
        )
    return head


def _made(
    found: Format,
    name: str,
    target: Model,
    lender: Lender,
    weights: Noted,
    ids: Tensor | None,
    readings: list[Reading],
) -> Head:
    """The drafter, read in the way in which it agrees most with its target."""
    of, reading, note = target.info, readings[0], ""
    untrained = _untrained(weights.get("embed_tokens.weight"))
    size = sum(tensor.numel() for tensor in weights.values())
    make: Callable[[HeadInfo], Head]
    match found:
        case EagleFormat():
            eagle = EagleNetwork(found, weights, _parts(found, weights, ids, lender, of.vocabulary))
            reading, note = _measured(eagle, target, readings)
            eagle.residual_normed = reading.norm_before_residual
            make = partial(PathHead, weights=partial(EagleSession, eagle))
        case DFlashFormat():
            dflash = DFlashNetwork(found, weights, _parts(found, weights, ids, lender, of.vocabulary))
            kind = DFlashSession if dflash.paths is None else DFlashPathSession
            make = partial(BlockHead, weights=partial(kind, dflash), positions=found.positions)
        case AssistantFormat():
            if not isinstance(target, TransformersModel):
                raise UserError(
                    f"{name} reads its target's keys and values, which llama.cpp gives to an assistant in GGUF only. Take "
                    "the assistant as a GGUF file, or load the target from a folder with safetensors."
                )
            assistant = AssistantNetwork(found, weights, name, target)
            reading, note = _measured(assistant, target, readings)
            make = partial(PathHead, weights=partial(AssistantSession, assistant, reading))
        case _:
            assert isinstance(found, MedusaFormat)
            for tensor, value in weights.items():
                if ids is not None and tensor.endswith("lm_head.weight") and len(value) > len(ids):
                    weights[tensor] = value[ids]
            make = partial(MedusaHead, found=found, weights=weights, ids=ids, vocabulary=of.vocabulary)
    return make(
        HeadInfo(
            name=name,
            kind=found.kind,
            title=found.title,
            parameters=size,
            dtype=str(lender.dtype).removeprefix("torch."),
            taps=reading.taps,
            path=str(found.folder),
            notes=tuple(filter(None, (note, untrained))),
        )
    )


def _drafted_once(head: Head, target: Model, width: int) -> int:
    """Draft behind two tokens of a text, whatever their states are; how many tokens the guesses are among."""
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
        case _:
            assert isinstance(head, MedusaHead)
            scores = head.guess(states[:1], 2, head.positions)
    return int(scores.logits.shape[-1])


@dataclass(frozen=True, slots=True)
class Lender:
    """A target's part in its drafter."""

    width: int
    device: torch.device
    dtype: torch.dtype
    embeddings: Callable[[], Tensor]
    """[vocab, width]."""
    lm_head: Callable[[], Callable[[Tensor], Tensor]]
    cheap: bool
    """Whether the embeddings cost no memory."""


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


def _untrained(embeddings: Tensor | None) -> str:
    """Warn about a drafter whose own embeddings were never trained: normal numbers, in rows of one length."""
    if embeddings is None or embeddings.shape[1] < 32:
        return ""
    some = embeddings[:: max(1, len(embeddings) // 1024)].float()
    lengths = some.norm(dim=1)
    spread = float(lengths.std() / lengths.mean()) * (2 * some.shape[1]) ** 0.5  # 1 for normal numbers
    kurtosis = float(((some - some.mean()) / some.std()).pow(4).mean())  # 3
    if not (0.8 < spread < 1.2 and 2.9 < kurtosis < 3.1):
        return ""
    return "This drafter's own embeddings look as if they had never been trained, so it may guess badly. Use another one."


def _parts(
    found: EagleFormat | DFlashFormat, weights: dict[str, Tensor], ids: Tensor | None, lender: Lender, vocabulary: int
) -> Parts:
    """What a network has beside its tensors: the target's embeddings and LM head where the drafter has none of its own."""
    own = weights.get("embed_tokens.weight")
    if own is not None and lender.cheap and torch.equal(own, lender.embeddings()):
        del weights["embed_tokens.weight"]  # many are copies
        own = None
    own_head = weights.get("lm_head.weight")
    lm_head = lender.lm_head() if own_head is None else slim(own_head)
    if type(lm_head) is nn.Linear:  # the target's; in halves a small one is worth a copy
        lm_head = slim(lm_head.weight, lm_head.bias)
    embeddings = lender.embeddings() if own is None else own
    return Parts(_config(found), embeddings, lm_head, ids, vocabulary)


def _config(found: EagleFormat | DFlashFormat) -> Any:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    known = {key: found.layer[key] for key in LLAMA if found.layer.get(key) is not None}
    known["hidden_size"] = found.shapes["fc.weight"][0]
    known["max_position_embeddings"] = figure(found.folder, known, "max_position_embeddings", 2048)
    try:
        config = LlamaConfig(**known)
        LlamaRotaryEmbedding(config)  # the scaling of its angles may be of a kind that nobody knows
        return config
    except Exception as error:  # whatever transformers' checks raise
        raise UserError(f"Cannot read {found.folder / 'config.json'}: {first_line(error)}.") from None


def _read(found: Format, name: str, device: torch.device, dtype: torch.dtype) -> dict[str, Tensor]:
    """The tensors that drafting needs, in the target's type."""
    out: dict[str, Tensor] = {}
    with stored(found.names) as read:
        for ours in found.names:
            if ours in (*IGNORED, *UNUSED) or "rotary_emb" in ours:
                continue
            tensor = read(ours)
            if (ours in INTEGERS) == tensor.is_floating_point():
                kind = str(tensor.dtype).removeprefix("torch.")
                raise UserError(f"{name} has {ours} in {kind}, which specchat cannot use. Use a drafter that is not quantized.")
            if ours not in INTEGERS and not bool(torch.isfinite(tensor.float()).all()):
                raise UserError(f"{name} is damaged: {ours} holds numbers that are none (NaN or infinite). Download it again.")
            out[ours] = tensor.to(device, torch.int64 if ours in INTEGERS else dtype)
    return out


def _ids(weights: dict[str, Tensor], name: str, target: Model) -> Tensor | None:
    """The target's ids of the tokens that are drafted, taken out of the tensors; None where all are."""
    table = next((table for table in TABLES if table in weights), None)
    if table is None:
        return None
    ids = weights.pop(table)
    if table == "d2t":  # of offsets
        ids = ids + torch.arange(len(ids), device=ids.device)
    if bool((ids < 0).any()) or bool((ids >= target.info.vocabulary).any()) or len(set(ids.tolist())) < len(ids):
        raise UserError(
            f"{name} is damaged: its table {table} does not lead to tokens of {target.info.name}, each once. Download it again."
        )
    return ids


def _measured(network: EagleNetwork | AssistantNetwork, target: Model, readings: list[Reading]) -> tuple[Reading, str]:
    """The reading under which the drafter agrees most with its target (the first of equals), and a note on it."""
    if len(readings) == 1:
        return readings[0], ""
    tokens = target.encode(TEXT)[: min(LONGEST, target.info.context)]
    if len(tokens) < 3:
        return readings[0], ""
    taps = sorted({tap for reading in readings for tap in reading.taps})
    session = target.open_session(len(tokens), taps)
    agreed = []
    try:
        picks = session.evaluate(tokens, range(ROOT, len(tokens) - 1)).choose(Sampling())
        session.commit(range(len(tokens)))
        # Pair i predicts what the target picks after token i + 1.
        states, wanted = session.states(0, len(tokens) - 1), torch.tensor(picks[1:])
        width = states.shape[1] // len(taps)
        for reading in readings:
            columns = [states[:, taps.index(tap) * width :][:, :width] for tap in reading.taps]
            inputs = torch.cat(columns, -1)
            if isinstance(network, AssistantNetwork):
                found = _one_by_one(AssistantSession(network, reading, len(tokens)), session, tokens, inputs)
            else:
                network.residual_normed = reading.norm_before_residual
                found = EagleSession(network, len(tokens)).every(tokens[1:], inputs).argmax(-1).cpu()
            agreed.append(int((found == wanted).sum()))
    finally:
        session.close()
    best = agreed.index(max(agreed))
    if not best:
        return readings[0], ""
    share = [f"{count / len(wanted):.0%}" for count in (agreed[best], agreed[0])]
    return readings[best], (
        f"Engines read this drafter's config.json differently; with {readings[best].note} it agrees with the target on "
        f"{share[0]} of a short text's tokens, and on {share[1]} otherwise."
    )


def _one_by_one(head: AssistantSession, target: Session, tokens: Sequence[int], states: Tensor) -> Tensor:
    """What an assistant drafts first behind every pair of a text, which the target holds."""
    head.follow(target)
    rows = [head.extend(tokens[i + 1 : i + 2], states[i : i + 1]).logits[0].argmax() for i in range(len(states))]
    return torch.stack(rows).cpu()
