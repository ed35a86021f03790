"""The methods there are, for the process that draws: no runtime is imported, so asking costs milliseconds."""

from __future__ import annotations

from ..backends.base import Capabilities
from ..decoders.acceptance import Acceptance
from ..decoders.base import label_of, parse_params
from ..decoders.registry import broken, describe, get, methods
from ..decoders.stats import Totals

__all__ = ["Acceptance", "Capabilities", "Totals", "broken", "describe", "get", "label_of", "methods", "parse_params"]
