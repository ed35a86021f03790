"""Checks of a checkpoint folder before transformers opens it, so that a fault becomes one sentence and transformers sees
nothing but checked files."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...errors import UserError, shell_line
from ...plain_file import opened
from ...plain_file import read_json as read_any

PICKLES = ("pytorch_model*.bin", "*.pt", "*.pth", "*.ckpt", "consolidated*.pth")
UNPICKLE = (
    "import torch, safetensors.torch as s; [s.save_file({{k: v.clone().contiguous() for k, v in torch.load(file, "
    "map_location='cpu', weights_only=True).items()}}, file.rpartition('.')[0] + '.safetensors') for file in {files}]"
)
"""Python that turns pickled tensors into safetensors. With `weights_only` torch runs no code of the file."""

ITEM_BYTES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1,
    "BOOL": 1, "C64": 8, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
}  # fmt: skip

MOST_HEADER = 100_000_000
"""Bytes of a safetensors header, by its specification."""

MOST_JSON = 50_000_000
"""Bytes of a configuration or an index; the largest known index has 10 MB."""

BESIDE = (".json", ".model", ".jinja", ".txt", ".tiktoken")
"""Endings of the files beside the weights that transformers is shown: configuration and tokenizer."""

TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tekken.json", "merges.txt")
"""Files of a tokenizer."""

RELATIVES = {"mimo": ("qwen2", "Qwen2ForCausalLM")}
"""Model types without a class in transformers that are computed as another type: MiMo-7B is a Qwen2 with MTP layers."""

INDEX = "model.safetensors.index.json"

Tensors = dict[str, dict[str, Any]]
"""Name → dtype, shape and byte range, as in a header."""


def check_folder(folder: Path) -> list[Path]:
    """Check a model folder, and list its safetensors files, each of which is complete.

    Raises:
        UserError: it is not a model folder; it has only pickles or no weights; or a file is missing or damaged.
    """
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}. Check the path.")
    if not (folder / "config.json").exists():
        raise UserError(f"{folder} has no config.json. Give the folder of a transformers model, or use `builtin`.")
    read_json(folder / "config.json")
    files = _weight_files(folder)
    if not files:
        if pickles := sorted(str(file) for pattern in PICKLES for file in folder.glob(pattern)):
            raise UserError(
                f"{folder} has only pickled weights, which can run code when opened, so specchat does not open them. Convert "
                f"them once with `{shell_line('python', '-c', UNPICKLE.format(files=pickles))}`."
            )
        raise UserError(f"{folder} has no weights (*.safetensors). Download the model again.")
    for file in files:
        header(file)
    return files


def _weight_files(folder: Path) -> list[Path]:
    """List the files with a folder's weights: those in its index if it has one, else model.safetensors, else all."""
    if not (folder / INDEX).exists():
        files = sorted(folder.glob("*.safetensors"))
        return [file for file in files if file.name == "model.safetensors"] or files
    weight_map = read_json(folder / INDEX).get("weight_map")
    if not isinstance(weight_map, dict):
        raise UserError(f"{folder / INDEX} does not list the weight files. Download it again.")
    names = sorted(set(map(str, weight_map.values())))
    if missing := [name for name in names if not (folder / name).exists()]:
        raise UserError(
            f"{folder} is missing {len(missing)} of {len(names)} weight files, such as {missing[0]}. Download them."
        )
    return [folder / name for name in names]


def read_json(file: Path, most: int = MOST_JSON) -> dict[str, Any]:
    """Read a JSON object from a file of at most `most` bytes.

    Raises:
        UserError: it is something else.
    """
    try:
        content = read_any(file, most)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not valid JSON"
        raise UserError(f"Cannot read {file} ({reason}). Download it again.") from None
    if not isinstance(content, dict):
        raise UserError(f"{file} is not a JSON object. Download it again.")
    return content


def header(file: Path) -> Tensors:
    """Read the header of a safetensors file.

    Raises:
        UserError: the file is something else, or incomplete.
    """
    try:
        with opened(file) as stream:
            size = os.fstat(stream.fileno()).st_size
            length = int.from_bytes(stream.read(8), "little")
            content = json.loads(stream.read(min(length, MOST_HEADER)))
        tensors = {name: value for name, value in content.items() if name != "__metadata__"}
        whole = max((value["data_offsets"][1] for value in tensors.values()), default=0) + 8 + length == size
    except OSError as error:
        raise UserError(f"Cannot read {file} ({error.strerror or error}). Download it again.") from None
    except (ValueError, RecursionError, TypeError, LookupError, AttributeError):
        whole = False
    if not whole:
        raise UserError(f"{file} is damaged or incomplete. Download it again.")
    return tensors


@contextmanager
def shown(folder: Path, files: list[Path], *, bare: bool = False) -> Iterator[Path]:
    """Make a temporary folder for transformers, with links to checked weights and to the configuration and tokenizer.

    transformers picks files by their names: one that an index calls `model.bin` would be unpickled, and so would a `.metadata`,
    or the file that config.json names as `transformers_weights`. Here all weights are called `*.safetensors`, and no other
    files are visible.

    Args:
        folder: the model's.
        files: its weights, from `check_folder`.
        bare: leave out that they are quantized, so that integers are read as they are.

    Raises:
        UserError: the block's own error, with the folder's real path.
    """
    with tempfile.TemporaryDirectory(prefix="specchat-") as name:
        view = Path(name)
        for file in folder.iterdir():
            if file.suffix in BESIDE and file.name not in (INDEX, "config.json"):
                (view / file.name).symlink_to(file.absolute())
        config = json.dumps(_config(folder, bare))
        (view / "config.json").write_text(config, encoding="utf-8")
        names = ["model.safetensors"]
        if len(files) > 1:
            names = [f"model-{part:05}-of-{len(files):05}.safetensors" for part in range(1, len(files) + 1)]
            weight_map = {tensor: name for name, file in zip(names, files, strict=True) for tensor in header(file)}
            (view / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}), encoding="utf-8")
        for link, file in zip(names, files, strict=True):
            (view / link).symlink_to(file.absolute())
        try:
            yield view
        except UserError as error:
            raise UserError(str(error).replace(str(view), str(folder))) from None


def _config(folder: Path, bare: bool) -> dict[str, Any]:
    """Read the configuration, of one of RELATIVES as that of its relative, and with `bare` without the quantization."""
    config = read_json(folder / "config.json")
    if bare:
        config.pop("quantization_config", None)
    if (kind := config.get("model_type")) in RELATIVES:
        model_type, architecture = RELATIVES[str(kind)]
        config.pop("auto_map", None)
        config |= {"model_type": model_type, "architectures": [architecture]}
    return config


def tokenizer_problem(folder: Path) -> str:
    """Explain why a folder's tokenizer cannot be used, and what to do; empty if there is no problem."""
    if any((folder / name).is_file() for name in TOKENIZERS):
        return ""
    return "It has no tokenizer (tokenizer.json or tokenizer.model). Copy the model's tokenizer files into its folder."


def int8_rows(config: Mapping[str, Any]) -> bool:
    """Tell whether the linear layers' weights are eight-bit integers with a scale for each output, as compressed-tensors writes
    them. Activations, which it would round to eight bits, keep sixteen here."""
    match config.get("quantization_config"):
        case {"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": dict(groups)}:
            scheme = {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True}
            return all(scheme.items() <= group["weights"].items() for group in groups.values())
    return False
