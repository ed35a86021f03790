"""The MTP layer in a model's own checkpoint: one more layer, trained with the model to predict the token after the next. A
session (`eagle.EagleSession`) runs it again on its own output for the tokens after that. Of several, the first is used.

DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024), arXiv:2412.19437, section 2.2; Gloeckle et al., "Better & Faster Large
Language Models via Multi-token Prediction" (2024), arXiv:2404.19737. transformers leaves these tensors in the file; here they
become a layer of the model's own class, which reads an embedding next to the model's last state, after the final norm.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.cache_utils import DynamicCache

from ....errors import UserError, first_line
from ...hf.attention import NAME as ATTENTION
from ...hf.attention import register
from ...hf.model import TransformersModel
from ...hf.slot_cache import KVSpec, SlotCache
from ...transfer import on_device
from ..base import HeadInfo, PathHead
from ..eagle import EagleSession
from ..layers import guarded, read_tensor
from .format import OUTSIDE, SHARED, MtpFormat, mtp_format


class MtpNetwork:
    """The forward pass (as that of `EagleNetwork`).

    Args:
        module: the model, as transformers loads it.
        block: the layer.
        weights: the tensors before and after it (`format.OUTSIDE`).
        embeddings: the model's table [vocab, width].
        states_first: as `MtpFormat.states_first`.
    """

    def __init__(
        self, module: Any, block: nn.Module, weights: Mapping[str, Tensor], embeddings: Tensor, states_first: bool
    ) -> None:
        decoder_layer: Any = block
        kind, epsilon = type(decoder_layer.input_layernorm), module.config.get_text_config(decoder=True).rms_norm_eps

        def norm(name: str) -> nn.Module:
            layer: nn.Module = kind(len(weights[name]), eps=epsilon)
            layer.weight = nn.Parameter(weights[name], requires_grad=False)
            return layer

        self.device = embeddings.device
        self.dtype = embeddings.dtype
        self._enorm = norm("enorm.weight")
        self._hnorm = norm("hnorm.weight")
        self._norm = norm("shared_head.norm.weight")
        self._fc = weights["eh_proj.weight"]
        self._block = block
        self._embeddings = embeddings
        self._states_first = states_first
        self._rotary = module.get_decoder().rotary_emb
        self._logits = cast("Callable[[Tensor], Tensor]", module.get_output_embeddings())
        probe = DynamicCache()
        self._run(embeddings.new_zeros(2, embeddings.shape[1]), torch.arange(2, device=self.device)[None], None, probe)
        cached: Any = probe.layers[0]
        shapes = [(tensor.shape[1], tensor.shape[3]) for tensor in (cached.keys, cached.values)]
        self.specs = [KVSpec(shapes[0], shapes[1], self.dtype, self.device)]

    def features(self, states: Tensor) -> Tensor:
        """Return the states, which the layer reads as they are."""
        return states

    def __call__(
        self, tokens: Sequence[int], features: Tensor, places: Sequence[int], mask: Any, cache: SlotCache, *, last: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Run one pass (see `EagleNetwork.__call__`)."""
        embedded = self._enorm(F.embedding(on_device(tokens, self.device), self._embeddings))
        parts = [embedded, self._hnorm(features)]
        if self._states_first:
            parts.reverse()
        out = self._run(F.linear(torch.cat(parts, -1), self._fc), on_device(places, self.device)[None], mask, cache)
        if last:
            out = out[-1:]
        return self._logits(out), out

    def _run(self, hidden: Tensor, positions: Tensor, mask: Any, cache: Any) -> Tensor:
        """Run the layer and the norm behind it [n, width]."""
        around = self._rotary(hidden[None], position_ids=positions)
        out = self._block(
            hidden[None],
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            position_embeddings=around,
        )
        rows: Tensor = self._norm((out[0] if isinstance(out, tuple) else out)[0])
        return rows


def load_mtp(target: TransformersModel) -> PathHead | None:
    """Load the MTP layer of a model's own checkpoint as a drafter; None if there is none.

    Raises:
        UserError: it is damaged, or its kind cannot be used here; says why.
    """
    folder, info = Path(target.info.path), target.info
    format = mtp_format(folder, info.layers)
    if format is None:
        return None
    target.tapped((info.layers,))
    module = target.module
    embeddings = module.get_input_embeddings().weight.detach()
    if module.get_output_embeddings().weight.device != embeddings.device:
        raise UserError(f"The MTP layer of {info.name} drafts only on one device. Give --device one.")
    try:
        network, size = guarded(lambda: _network(module, format, info.layers), embeddings.device)
    except UserError:
        raise
    except Exception as error:  # an unknown layer's constructor can raise anything
        reason = f"it lacks {error.args[0]}" if isinstance(error, KeyError) else first_line(error)
        raise UserError(f"The MTP layer of {info.name} cannot draft here ({reason}). Use another method.") from None
    dtype = str(embeddings.dtype).removeprefix("torch.")
    head_info = HeadInfo(
        name=info.name, kind="mtp", title="MTP", parameters=size, dtype=dtype, taps=(info.layers,), path=info.path
    )
    return PathHead(head_info, partial(EagleSession, network))


def _network(module: Any, format: MtpFormat, layers: int) -> tuple[MtpNetwork, int]:
    """Build the layer behind the model's `layers`, and count its weights."""
    embeddings = module.get_input_embeddings().weight.detach()
    block = _block(module, layers, format.full_attention)
    width = embeddings.shape[1]
    shapes = {name: tuple(tensor.shape) for name, tensor in block.state_dict().items()}
    shapes |= {name: (width,) if "norm" in name else (width, 2 * width) for name in OUTSIDE}
    weights = _read(format.names, shapes, embeddings)
    size = sum(tensor.numel() for tensor in weights.values())
    outside = {name: weights.pop(name) for name in OUTSIDE}
    block.load_state_dict(weights, assign=True)
    block.requires_grad_(False)
    return MtpNetwork(module, block.eval(), outside, embeddings, format.states_first), size


def _block(module: Any, index: int, full_attention: bool) -> nn.Module:
    """Create a layer of the model's own class without weights, as the one behind its last."""
    register()
    config = copy.deepcopy(module.config.get_text_config(decoder=True))
    config.num_hidden_layers = index + 1
    for key in ("layer_types", "mlp_layer_types"):
        if kinds := getattr(config, key, None):
            kind = "full_attention" if full_attention and key == "layer_types" else kinds[index - 1]
            setattr(config, key, [*kinds[:index], kind])
    config._attn_implementation = ATTENTION
    with torch.device("meta"):
        block: Any = type(module.get_decoder().layers[-1])(config, index)
    block.self_attn.layer_idx = 0  # in a cache of its own
    assert isinstance(block, nn.Module)
    return block


def _read(names: Mapping[str, tuple[Path, str]], shapes: Mapping[str, tuple[int, ...]], like: Tensor) -> dict[str, Tensor]:
    """Read the tensors of a layer, with experts stacked as in transformers.

    Args:
        names: name in the layer → its file and its name there.
        shapes: transformers' name → the expected shape.
        like: has the type and device of the result.

    Raises:
        KeyError: a tensor is missing.
        ValueError: one is damaged, of another shape or of unknown use.
    """
    left = set(names) - set(SHARED)
    out: dict[str, Tensor] = {}

    def read(name: str) -> Tensor:
        tensor = read_tensor(*names[name])
        left.discard(name)
        if not tensor.is_floating_point() or not bool(torch.isfinite(tensor.float()).all()):
            raise ValueError(f"{name} holds no plain numbers")
        return tensor.to(like)

    for name, shape in shapes.items():
        stacked = re.fullmatch(r"(.*\.experts)\.(gate_up_proj|down_proj)", name) if name not in names else None
        if stacked:
            parts = ("gate_proj", "up_proj") if stacked[2] == "gate_up_proj" else ("down_proj",)
            experts = (torch.cat([read(f"{stacked[1]}.{e}.{part}.weight") for part in parts]) for e in range(shape[0]))
            out[name] = torch.stack(list(experts))
        else:
            out[name] = read(name)
        if tuple(out[name].shape) != shape:
            raise ValueError(f"{name} has the shape {list(out[name].shape)} instead of {list(shape)}")
    if left:
        raise ValueError(f"specchat does not know {min(left)}")
    return out
