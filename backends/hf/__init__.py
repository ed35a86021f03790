"""The transformers runtime."""

from __future__ import annotations

import sys

# transformers would fetch and run native code from the Hub where a model's configuration names some, through this package.
sys.modules.setdefault("kernels", None)  # type: ignore[arg-type]
