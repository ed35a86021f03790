"""The editor that the environment names."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from ...errors import UserError
from ..text.cells import one_line

FALLBACKS = ("nano", "vim", "vi", "emacs")
"""Editors to try if none is named; nano first, because it shows its keys."""
WAITING = {**dict.fromkeys(("code", "codium", "cursor", "zed", "subl"), "--wait"), **{"mate": "-w", "gvim": "-f"}}
"""Editors that open a window → the option without which they end at once."""


def alone_in_terminal() -> bool:
    """Whether there is no shell that could resume a chat that ctrl+z stops."""
    return os.getsid(0) == os.getpid()


def editor_command(environment: Mapping[str, str] | None = None) -> list[str]:
    """Return the words of the command that opens an editor.

    Args:
        environment: variables; those of this process if None.

    Raises:
        UserError: there is no such program, or none at all.
    """
    env = os.environ if environment is None else environment
    for source in ("$VISUAL", "$EDITOR"):
        text = env.get(source[1:], "")
        if not text.strip():
            continue
        try:
            words = shlex.split(text)
        except ValueError:
            raise UserError(f"A quote is not closed in {source}: {one_line(text)}.") from None
        words[0] = os.path.expanduser(words[0])
        if shutil.which(words[0], path=env.get("PATH")) is None:
            raise UserError(f"There is no program {one_line(words[0])}, the editor in {source}. Name another there.")
        name = Path(words[0]).name
        if name in WAITING and len(words) == 1:
            words.append(WAITING[name])
        return words
    for name in FALLBACKS:
        if shutil.which(name, path=env.get("PATH")):
            return [name]
    raise UserError("No editor is set. Set EDITOR=nano in your shell.")
