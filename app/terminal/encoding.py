"""UTF-8 whatever the locale: almost every terminal uses it, and containers often have no locale."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence


def use_utf8() -> None:
    """Start this process again in Python's UTF-8 mode if the locale names another encoding: then file names, standard streams
    and the engine use UTF-8 as well. For the locale C Python does so already."""
    if sys.flags.utf8_mode or sys.getfilesystemencoding() == "utf-8" or os.environ.get("PYTHONUTF8") == "1":
        return
    os.environ["PYTHONUTF8"] = "1"
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def texts(arguments: Sequence[str]) -> list[str]:
    """Replace surrogates, which stand for bytes outside UTF-8, in a command line, except in names of existing files."""
    return [
        argument if argument.isascii() or os.path.lexists(argument) else _OTHER_WORDS.sub(_as_text, argument)
        for argument in arguments
    ]


_OTHER_WORDS = re.compile(r"\S+|\s+")


def _as_text(word: re.Match[str]) -> str:
    named = word[0].startswith("@") and os.path.lexists(word[0][1:])
    return word[0] if named else os.fsencode(word[0]).decode(errors="replace")
