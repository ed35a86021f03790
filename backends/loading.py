"""From what a user names (`builtin`, a folder, a Hub name, a file) to a Model. The runtime is imported only here, on demand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .base import Model, UserError

BUILTIN = "builtin"
"""Name of the model that ships with specchat."""

StageProgress = Callable[[str, int, int], None]
"""Called with (stage, done, total): "download" in bytes, "weights" in tensors, "check" in passes."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How to load a model."""

    device: str = "auto"
    """auto, cpu, cuda, cuda:N, mps; auto takes CUDA, then MPS, then the CPU."""
    dtype: str = "auto"
    """auto, float32, bfloat16, float16; auto is the file's own type on a GPU and float32 on the CPU."""
    context: int | None = None
    """Most tokens of a conversation; None for the model's own limit."""
    threads: int | None = None
    """CPU threads; None for all physical cores."""
    revision: str | None = None
    """Branch, tag or commit of a Hub repository."""


def builtin_path(name: str = "target") -> Path:
    """Folder of a model that ships with specchat."""
    return Path(__file__).resolve().parent.parent / "builtin" / "weights" / name


def load_model(
    spec: str,
    options: LoadOptions | None = None,
    *,
    progress: StageProgress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Model:
    """Load the model that `spec` names.

    Args:
        spec: `builtin`, a folder with safetensors weights, `owner/name` on the Hub, or `recorded:FILE.jsonl`.
        options: device, dtype, context, threads, revision.
        progress: told about each stage.
        cancelled: polled; answering True raises Cancelled soon after.

    Raises:
        UserError: the model cannot be found, read or held; says what to do.
        Cancelled: `cancelled` answered True.
    """
    options = options or LoadOptions()
    if spec.startswith("recorded:"):
        from .recorded import load_recorded

        return load_recorded(Path(spec.removeprefix("recorded:")))
    if spec.endswith(".gguf"):
        raise UserError("GGUF files need the llama.cpp runtime, which this version does not have yet: use a safetensors model.")
    from .hub import locate

    # Importing the runtime takes seconds: a name that leads nowhere should be told at once.
    folder = builtin_path() if spec == BUILTIN else locate(spec, options, progress=progress, cancelled=cancelled)
    from .transformers_model import load_transformers

    return load_transformers(folder, spec, options, progress=progress, cancelled=cancelled)
