"""What a person can do something about, said in one sentence; and what ends work early."""

from __future__ import annotations

from collections.abc import Iterable


class UserError(Exception):
    """What a user can mend. Its text is one clear sentence that says what happened and what to do; no traceback is shown."""


class Cancelled(Exception):
    """Raised out of long work (a load, a prefill) when its `cancelled` callback answers True."""


class ContextFull(UserError):
    """The tokens asked for do not fit in the model's context."""


def did_you_mean(name: str, known: Iterable[str], otherwise: str | None = None) -> str:
    """The end of a sentence about an unknown name: `did you mean lookup?`

    Of dotted names `sampling.top_p` is meant by `top_p`, `samplng.top_p`, `sampling.topp` and `methods.top_p`, too.

    Args:
        name: as it was typed.
        known: the names there are.
        otherwise: the end where none of them is near; which there are if None.
    """
    from difflib import get_close_matches

    known = list(known)
    last = name.rpartition(".")[2]
    begun = [other for other in known if len(last) > 2 and other.rpartition(".")[2].startswith(last)]
    near = begun if len(begun) == 1 else get_close_matches(name, known, n=1)
    near = near or [other for other in known if other == last or other.endswith(f".{last}")]
    near = near or get_close_matches(last, known, n=1)
    if near:
        return f"did you mean {near[0]}?"
    return f"there are {', '.join(known)}." if otherwise is None else otherwise
