"""The decoding methods as the drawing process may see them, without importing a runtime."""

from __future__ import annotations

from ..backends.grammars.constraint import Constraint as Constraint
from ..backends.grammars.constraint import parse_constraint as parse_constraint
from ..decoders.acceptance import Acceptance as Acceptance
from ..decoders.base import effective_label as effective_label
from ..decoders.base import find_param as find_param
from ..decoders.base import parse_params as parse_params
from ..decoders.registry import broken as broken
from ..decoders.registry import describe as describe
from ..decoders.registry import elsewhere as elsewhere
from ..decoders.registry import get as get
from ..decoders.registry import methods as methods
from ..decoders.stats import Share as Share
from ..decoders.stats import Totals as Totals
from ..decoders.text import Stops as Stops
