"""The llama.cpp bindings: imported on demand, their log kept off the screen, their last error kept for a sentence."""

from __future__ import annotations

import ctypes
import importlib
import logging
import os
from collections import deque
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ...errors import UserError, first_line
from ..options import pip_command

logger = logging.getLogger("specchat.llama.cpp")
"""Gets every line that llama.cpp prints; only its errors at a level that Python shows by default."""

DEBUG, INFO, WARN, ERROR, CONTINUED = 1, 2, 3, 4, 5
"""ggml_log_level."""

LEVELS = {WARN: logging.INFO, ERROR: logging.ERROR}
"""Its warnings are not for users (a smaller context than the model was trained with); below them only tensors are listed."""

errors: deque[str] = deque(maxlen=8)
"""Its last error lines."""


@cache
def library() -> Any:
    """Import the low-level bindings (`llama_cpp.llama_cpp`) and make them ready for use.

    Raises:
        UserError: they are not installed, or their shared library cannot be loaded; says how to install them.
    """
    try:
        bindings: Any = importlib.import_module("llama_cpp.llama_cpp")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("llama_cpp"):
            raise UserError(
                f"llama-cpp-python needs the package {error.name}, which is missing. Run: {pip_command()} --force-reinstall"
            ) from None
        raise UserError(f"GGUF files need the llama.cpp runtime, which is not installed. Run: {pip_command()}") from None
    except (OSError, RuntimeError, AttributeError) as error:
        raise UserError(
            f"llama-cpp-python is installed but does not work ({first_line(error)}). Run: {pip_command()} --force-reinstall "
            "--no-cache-dir"
        ) from None
    # Where gdb is installed, an abort would have it print a backtrace first, for 15 seconds.
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")
    # The function object must live as long as the library.
    bindings.specchat_log = bindings.llama_log_callback(_log)
    bindings.llama_log_set(bindings.specchat_log, ctypes.c_void_p(0))
    bindings.llama_backend_init()
    return bindings


_line = ""
_level = DEBUG


def _log(level: int, text: bytes | None, _data: Any) -> None:
    """Pass whole lines of llama.cpp's log to `logger`, errors to `errors` as well."""
    global _line, _level
    if level != CONTINUED:
        _level = level
    if _level < WARN:
        return
    _line += (text or b"").decode("utf-8", "replace")
    if not _line.endswith("\n"):
        return
    line, _line = _line.strip(), ""
    if line:
        if _level >= ERROR:
            errors.append(line)
        logger.log(LEVELS.get(_level, logging.DEBUG), "%s", line)


def last_error() -> str:
    """Return the text of llama.cpp's newest error, without the functions that raised it; empty if there is none."""
    for line in reversed(errors):
        # "llama_model_load: error loading model: missing tensor 'x'" → the part that tells something.
        message = line.rpartition("error loading model: ")[2] if "error loading model: " in line else line.partition(": ")[2]
        if message and not message.startswith("failed to load model"):
            return message.rstrip(".")
    return ""


@dataclass(frozen=True, slots=True)
class Device:
    """A device that the installed build computes on."""

    name: str
    """CPU, CUDA0, Metal, Vulkan0 …"""
    description: str
    gpu: bool
    free: int
    """Bytes."""
    total: int


def devices() -> list[Device]:
    """List the devices of the installed build, the CPU among them; empty where the library does not tell."""
    raw: Any = library()._lib
    try:
        raw.ggml_backend_dev_get.restype = ctypes.c_void_p
        raw.ggml_backend_dev_count.restype = ctypes.c_size_t
        count = raw.ggml_backend_dev_count()
        return [_describe_device(raw, raw.ggml_backend_dev_get(ctypes.c_size_t(index))) for index in range(count)]
    except AttributeError:
        return []


def _describe_device(raw: Any, handle: int) -> Device:
    device = ctypes.c_void_p(handle)
    for name in ("ggml_backend_dev_name", "ggml_backend_dev_description"):
        getattr(raw, name).restype = ctypes.c_char_p
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    raw.ggml_backend_dev_memory(device, ctypes.byref(free), ctypes.byref(total))
    # ggml_backend_dev_type: 0 CPU, 1 GPU, 2 integrated GPU, 3 accelerator beside the CPU.
    gpu = raw.ggml_backend_dev_type(device) in (1, 2)
    name = raw.ggml_backend_dev_name(device).decode("utf-8", "replace")
    description = raw.ggml_backend_dev_description(device).decode("utf-8", "replace")
    return Device(name, description, gpu, free.value, total.value)


def backends() -> list[str]:
    """Name the backends of the installed build: CPU, CUDA, Metal, Vulkan …; empty where the library does not say."""
    raw: Any = library()._lib
    try:
        raw.ggml_backend_reg_count.restype = ctypes.c_size_t
        raw.ggml_backend_reg_get.restype = ctypes.c_void_p
        raw.ggml_backend_reg_name.restype = ctypes.c_char_p
        names = []
        for index in range(raw.ggml_backend_reg_count()):
            registry = ctypes.c_void_p(raw.ggml_backend_reg_get(ctypes.c_size_t(index)))
            names.append(raw.ggml_backend_reg_name(registry).decode("utf-8", "replace"))
    except AttributeError:
        return []
    return names


def version() -> str:
    """Version of llama-cpp-python."""
    return str(importlib.import_module("llama_cpp").__version__)


def build_report() -> dict[str, Any]:
    """Describe the installed build for `specchat doctor`, as plain data."""
    folder = Path(str(library()._lib._name)).parent
    return {"backends": backends(), "devices": [asdict(device) for device in devices()], "library": str(folder)}
