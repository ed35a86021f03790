"""Loading of the MTP layer in a model's own checkpoint: one more layer, trained with the model to predict the token after the
next. Of several, the first is used.

DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024), arXiv:2412.19437. transformers leaves these tensors in the file; here they
become a layer of the model's own class, which reads an embedding next to the model's last state, after the final norm.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ....errors import UserError, counted
from ...hf.attention import NAME as ATTENTION
from ...hf.attention import register
from ...hf.model import TransformersModel
from ..base import HeadInfo, PathHead
from ..eagle import EagleSession
from ..layers import guarded, stored
from .format import OUTSIDE, SHARED, MtpFormat, mtp_format
from .network import MtpNetwork


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
        network, size = guarded(lambda: _network(module, format, target), embeddings.device)
    except (NotImplementedError, TypeError) as error:
        raise UserError(f"specchat cannot run the MTP layer of {info.architecture}: {error}") from None
    dtype = str(embeddings.dtype).removeprefix("torch.")
    head_info = HeadInfo(
        name=info.name, kind="mtp", title="MTP", parameters=size, dtype=dtype, taps=(info.layers,), path=info.path
    )
    return PathHead(head_info, partial(EagleSession, network))


def _network(module: Any, format: MtpFormat, target: TransformersModel) -> tuple[MtpNetwork, int]:
    """Build the layer, and count its weights."""
    info, embeddings = target.info, module.get_input_embeddings().weight.detach()
    try:
        block = _block(module, info.layers, format.full_attention)
    except Exception as error:  # an unknown layer's constructor can raise anything
        raise UserError(f"specchat cannot build an MTP layer of {info.architecture}: {error}") from None
    shapes = {name: tuple(tensor.shape) for name, tensor in block.state_dict().items()}
    width = embeddings.shape[1]
    shapes |= {name: (width,) if "norm" in name else (width, 2 * width) for name in OUTSIDE}
    weights = _read(format.names, shapes, info.name, embeddings.device, embeddings.dtype)
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


def _read(
    names: Mapping[str, tuple[Path, str]],
    shapes: Mapping[str, tuple[int, ...]],
    model: str,
    device: torch.device,
    dtype: torch.dtype,
) -> dict[str, Tensor]:
    """Read the tensors of a layer, with experts stacked as in transformers.

    Args:
        names: name in the layer → its file and its name there.
        shapes: transformers' name → the expected shape.
        model: the model's name.
        device: of the result.
        dtype: of the result.
    """
    left = set(names) - set(SHARED)
    out: dict[str, Tensor] = {}
    with stored(names) as read:

        def one(name: str) -> Tensor:
            if name not in names:
                raise UserError(
                    f"The MTP layer of {model} is missing the tensor {name}. Download the model again, or use another method."
                )
            left.discard(name)
            tensor = read(name)
            if not tensor.is_floating_point() or not bool(torch.isfinite(tensor.float()).all()):
                raise UserError(
                    f"The MTP layer of {model} is damaged or quantized: {name} holds no plain numbers. Use another method."
                )
            return tensor.to(device, dtype)

        for name, shape in shapes.items():
            stacked = re.fullmatch(r"(.*\.experts)\.(gate_up_proj|down_proj)", name) if name not in names else None
            if stacked:
                parts = ("gate_proj", "up_proj") if stacked[2] == "gate_up_proj" else ("down_proj",)
                experts = range(shape[0])
                out[name] = torch.stack([torch.cat([one(f"{stacked[1]}.{e}.{p}.weight") for p in parts]) for e in experts])
            else:
                out[name] = one(name)
            if tuple(out[name].shape) != shape:
                raise UserError(
                    f"The MTP layer of {model} does not fit it: {name} has the shape {list(out[name].shape)} instead of "
                    f"{list(shape)}. Download the model again, or use another method."
                )
    if left:
        raise UserError(
            f"The MTP layer of {model} has {counted(len(left), 'tensor')} that specchat does not know, such as {min(left)}. "
            "Use another method."
        )
    return out
