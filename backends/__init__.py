"""Model runtimes: what evaluates a token tree. Importing this package imports no runtime."""

from __future__ import annotations

from .base import (
    ROOT,
    Cancelled,
    Capabilities,
    ContextFull,
    Message,
    Model,
    ModelInfo,
    Sampling,
    Scores,
    Session,
    UserError,
)
from .loading import LoadOptions, load_model

__all__ = [
    "ROOT",
    "Cancelled",
    "Capabilities",
    "ContextFull",
    "LoadOptions",
    "Message",
    "Model",
    "ModelInfo",
    "Sampling",
    "Scores",
    "Session",
    "UserError",
    "load_model",
]
