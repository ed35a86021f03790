"""Model runtimes, which evaluate token trees. Importing this package imports no runtime."""

from __future__ import annotations

from ..errors import Cancelled, ContextFull, UserError
from .base import ROOT, Message, Model, Sampling, Scores, Session
from .info import Capabilities, ModelInfo
from .loading import load_model
from .options import LoadOptions

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
