"""Tensors on their way to an accelerator and back: nothing makes Python wait but what asks to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def accelerator(device: torch.device) -> Any:
    """Return torch's module for a device with separate streams and memory, such as `torch.cuda`; None for the CPU and MPS."""
    return None if device.type in ("cpu", "mps") else torch.get_device_module(device)


def on_device(values: Tensor | Sequence[Any], device: torch.device) -> Tensor:
    """Put a CPU tensor, or a tensor of these integers, on a device.

    To an accelerator it goes from pinned memory: from any other the copy would wait until all work before it is done.
    """
    tensor = values if isinstance(values, Tensor) else torch.tensor(values, dtype=torch.long)
    if accelerator(device) is None:
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
