"""Exit codes of the commands."""

from __future__ import annotations

ANSWERED, BROKEN, USER = 0, 1, 2
"""An answer; a failure; a mistake that the message says how to fix."""

CANCELLED, ENDED, CLOSED = 130, 143, 141
"""128 and the signal's number, as shells have it: Ctrl-C (SIGINT), SIGTERM, a closed pipe behind our output (SIGPIPE)."""
