"""Text is UTF-8 here whatever the locale says: almost every terminal is, and a container's locale often is nothing at all."""

from __future__ import annotations

import locale
import os
import sys
from collections.abc import Sequence


def use_utf8() -> None:
    """Start this process again in Python's UTF-8 mode where the locale names another encoding. Only so are the names of files,
    the standard streams and the engine's own UTF-8 as well; Python does it by itself for the locale C."""
    if sys.flags.utf8_mode or sys.getfilesystemencoding() == "utf-8" or os.environ.get("PYTHONUTF8") == "1":
        return
    os.environ["PYTHONUTF8"] = "1"
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def lacking() -> str:
    """A sentence on a locale that is not UTF-8; empty if it is."""
    if locale.getencoding().lower().replace("-", "") == "utf8":
        return ""
    name = next((name for name in ("LC_ALL", "LC_CTYPE", "LANG") if os.environ.get(name)), "LANG")
    value = os.environ.get(name, "")
    found = f"{name}={value} is not a UTF-8 locale on this system" if value else "No locale is set"
    return f"{found}, but specchat reads and writes UTF-8. `export {name}=C.UTF-8` tells other programs, too."


def texts(arguments: Sequence[str]) -> list[str]:
    """A command line without the half characters that stand for bytes outside UTF-8. The name of a file stays as it is."""
    return [argument if argument.isascii() or os.path.lexists(argument) else _text(argument) for argument in arguments]


def _text(argument: str) -> str:
    data = os.fsencode(argument)
    try:
        return data.decode()
    except UnicodeDecodeError:
        # As the locale has it; where that is UTF-8 or ASCII, with marks for what is neither.
        return data.decode(locale.getencoding(), "replace")
