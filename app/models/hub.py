"""Models on the Hub: what a repository offers, and fetching one of its offers into huggingface_hub's cache."""

from __future__ import annotations

from ...backends.files.hub import fetch, look_up
from ...backends.files.hub_listing import Offer, Repository
from ...backends.loading import GGUF_ON_HUB

__all__ = ["GGUF_ON_HUB", "Offer", "Repository", "fetch", "look_up"]
