"""What a person can do something about, said in one sentence; and what ends work early."""

from __future__ import annotations


class UserError(Exception):
    """What a user can mend. Its text is one clear sentence that says what happened and what to do; no traceback is shown."""


class Cancelled(Exception):
    """Raised out of long work (a load, a prefill) when its `cancelled` callback answers True."""


class ContextFull(UserError):
    """The tokens asked for do not fit in the model's context."""
