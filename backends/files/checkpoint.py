"""Checks of a checkpoint folder before transformers opens it, so that a fault becomes one sentence and transformers sees
nothing but checked files."""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...errors import UserError, first_line, shell_line
from ...plain_file import opened, read_bytes, require_few_values
from ...plain_file import read_json as read_any
from ..confined import Confined
from ..kept import identity, keep, recall

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

MOST_CONFIG = 16_000_000
"""Bytes of a config.json; ours has 700."""

MOST_INDEX = 50_000_000
"""Bytes of an index, of which the largest known has 10 MB."""

MOST_BESIDE = 200_000_000
"""Bytes of a file beside the weights. The largest known tokenizer.json has 35 MB."""

BESIDE = (".json", ".model", ".jinja", ".txt", ".tiktoken")
"""Endings of the files beside the weights that transformers is shown: configuration and tokenizer."""

RELATIVES = {"mimo": ("qwen2", "Qwen2ForCausalLM")}
"""Model types without a class in transformers that are computed as another type: MiMo-7B is a Qwen2 with MTP layers."""

Tensors = dict[str, dict[str, Any]]
"""Name → dtype, shape and byte range, as in a header."""


def check_folder(folder: Path) -> list[Path]:
    """Check a model folder, and list its safetensors files, each of which is complete.

    Raises:
        UserError: it is not a model folder; it has only pickles or no weights; or a file is missing or damaged.
    """
    if not folder.exists():
        raise UserError(f"There is no folder {folder}. Check the path.")
    if not folder.is_dir():
        raise UserError(f"{folder} is a file. Give the folder that contains config.json and the safetensors files.")
    try:
        empty = not any(folder.iterdir())
    except OSError as error:
        raise UserError(f"Cannot read {folder} ({error.strerror or error}). Check its permissions.") from None
    if empty:
        raise UserError(f"{folder} is empty. Put a model there: config.json, *.safetensors and the tokenizer files.")
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
    index = folder / "model.safetensors.index.json"
    if not os.path.lexists(index):
        files = sorted(folder.glob("*.safetensors"))
        return [file for file in files if file.name == "model.safetensors"] or files
    weight_map = read_json(index, MOST_INDEX).get("weight_map")
    if not isinstance(weight_map, dict) or not all(
        isinstance(name, str) and name and "/" not in name and "\0" not in name and name.strip(".")
        for name in weight_map.values()
    ):
        raise UserError(f"{index} does not list the weight files. Download it again.")
    named = sorted(set(weight_map.values()))
    missing = [name for name in named if not os.path.lexists(folder / name)]
    if missing:
        raise UserError(
            f"{folder} is missing {len(missing)} of {len(named)} weight files, such as {missing[0]}. Download them."
        )
    return [folder / name for name in named]


def read_json(file: Path, most: int = MOST_CONFIG) -> dict[str, Any]:
    """Read a JSON object from a file of at most `most` bytes.

    Raises:
        UserError: it is something else.
    """
    try:
        data = read_any(file, most)
    except OSError as error:
        raise UserError(f"Cannot read {file} ({error.strerror or error}). Download it again.") from None
    except ValueError:
        raise UserError(f"{file} is not valid JSON. Download it again.") from None
    if not isinstance(data, dict):
        raise UserError(f"{file} is not a JSON object. Download it again.")
    return data


def header(file: Path) -> Tensors:
    """Read the header of a safetensors file.

    Raises:
        UserError: the file is something else, or incomplete.
    """
    broken = UserError(f"{file} is damaged or incomplete. Download it again.")
    try:
        with opened(file) as stream:
            size = os.fstat(stream.fileno()).st_size
            first = stream.read(8)
            length = int.from_bytes(first, "little")
            if len(first) < 8 or not 2 <= length <= min(size - 8, MOST_HEADER):
                raise broken
            data = stream.read(length)
        require_few_values(data)
        content = json.loads(data)
    except OSError as error:
        raise UserError(f"Cannot read {file} ({error.strerror or error}). Download it again.") from None
    except (ValueError, RecursionError):
        raise broken from None
    if not isinstance(content, dict):
        raise broken
    tensors = {name: value for name, value in content.items() if name != "__metadata__"}
    try:
        whole = max((value["data_offsets"][1] for value in tensors.values()), default=0) + 8 + length == size
    except (TypeError, LookupError):
        raise broken from None
    if not whole:
        raise broken
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
        UserError: a file next to the weights is not an ordinary file, or too large; or the block's own error, with the
            folder's real path.
    """
    with tempfile.TemporaryDirectory(prefix="specchat-") as name:
        view = Path(name)
        for file in sorted(folder.iterdir()):
            if file.suffix in BESIDE and not file.name.endswith(".safetensors.index.json"):
                _check_beside(file)
                if (related := _related(file, bare)) is None:
                    (view / file.name).symlink_to(file.absolute())
                else:
                    (view / file.name).write_text(json.dumps(related), encoding="utf-8")
        names = ["model.safetensors"]
        if len(files) > 1:
            names = [f"model-{part:05}-of-{len(files):05}.safetensors" for part in range(1, len(files) + 1)]
            weight_map = {tensor: name for name, file in zip(names, files, strict=True) for tensor in header(file)}
            index = {"metadata": {}, "weight_map": weight_map}
            (view / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
        for link, file in zip(names, files, strict=True):
            (view / link).symlink_to(file.absolute())
        try:
            yield view
        except UserError as error:
            raise UserError(str(error).replace(str(view), str(folder))) from None


def _related(file: Path, bare: bool) -> dict[str, Any] | None:
    """Rewrite the configuration of one of RELATIVES, and with `bare` remove the quantization from any; None for a file that
    stays as it is."""
    if file.name != "config.json":
        return None
    config = read_json(file)
    kind = RELATIVES.get(config.get("model_type", ""))
    if bare:
        config.pop("quantization_config", None)
    if kind is None:
        return config if bare else None
    return {key: value for key, value in config.items() if key != "auto_map"} | {
        "model_type": kind[0],
        "architectures": [kind[1]],
    }


def _check_beside(file: Path) -> None:
    try:
        if file.suffix == ".json":
            require_few_values(read_bytes(file, MOST_BESIDE))
        else:
            with opened(file) as stream:
                if os.fstat(stream.fileno()).st_size > MOST_BESIDE:
                    raise OSError(errno.EFBIG, f"it is larger than {MOST_BESIDE / 1e6:.0f} MB")
    except OSError as error:
        raise UserError(f"Cannot read {file} ({error.strerror or error}). Download it again, or remove it.") from None


TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tekken.json", "merges.txt")
"""Files of a tokenizer."""

TRIAL_SECONDS, TRIAL_MEMORY = 10.0, 1_000_000_000
"""CPU time and memory that reading a tokenizer may take; the largest known, Gemma's, needs 3 s and 0.4 GB."""

CHARACTERS = "".join(chr(code) * 32 for code in range(0x20, 0x7F)) + "".join(
    map(chr, [*range(0xA0, 0xD800), *range(0xE000, 0x10000)])
)

QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')

OWN = Path(__file__).resolve().parents[2]
"""The package's own folder: tokenizers in it are not tried first."""

PACKAGES = {
    "aqlm": ("aqlm",), "auto-round": ("auto_round",), "awq": ("gptqmodel",), "bitsandbytes": ("bitsandbytes",),
    "compressed-tensors": ("compressed_tensors",), "eetq": ("kernels",), "fp_quant": ("fp_quant",),
    "gptq": ("optimum", "gptqmodel"), "hqq": ("hqq",), "quanto": ("optimum",), "quark": ("quark",), "spqr": ("spqr_quant",),
    "torchao": ("torchao",), "vptq": ("vptq",),
}  # fmt: skip
"""The packages that transformers' quantizers import, by `quant_method`."""


def tokenizer_problem(folder: Path) -> str:
    """Explain why a folder's tokenizer cannot be used, and what to do; empty if there is no problem."""
    names = [name for name in TOKENIZERS if (folder / name).is_file()]
    if not names:
        return "It has no tokenizer (tokenizer.json or tokenizer.model). Copy the model's tokenizer files into its folder."
    if names != ["tokenizer.model"]:
        return ""
    with opened(folder / names[0]) as file:
        # A SentencePiece model begins with a field of a protocol buffer, tiktoken's with base64.
        needed = ("sentencepiece", "google.protobuf") if file.read(1) == b"\n" else ("tiktoken",)
    return _lacking("Its only tokenizer, tokenizer.model,", needed)


def try_tokenizer(folder: Path) -> None:
    """Read a folder's tokenizer in a confined process: a hostile normalizer can write 70 GB, a regex can search for ever, and
    libraries in Rust end the process. Files that passed are remembered.

    Raises:
        UserError: it cannot be read.
    """
    files = [(folder / name).resolve() for name in TOKENIZERS if (folder / name).is_file()]
    about = identity(files)
    if files[0].is_relative_to(OWN) or recall("tokenizers", about):
        return
    trial = Confined()
    try:
        trial.call(_read_tokenizer, str(folder), seconds=TRIAL_SECONDS, memory=TRIAL_MEMORY)
    except Exception as error:
        raise UserError(f"{files[0]} cannot be read ({first_line(error)}). Copy the tokenizer's files again.") from None
    finally:
        trial.close()
    keep("tokenizers", about, {"read": True})


def _read_tokenizer(folder: str) -> None:
    """Read a tokenizer; decode all of its tokens, and encode characters of all scripts and the texts in its rules."""
    from tokenizers import Tokenizer

    file = Path(folder) / TOKENIZERS[0]
    if not file.is_file():
        from transformers import AutoTokenizer

        AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False).encode(CHARACTERS)
        return
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.decode(list(tokenizer.get_vocab().values()))
    tokenizer.encode(CHARACTERS)
    for part in (tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.post_processor, tokenizer.decoder):
        for text in QUOTED.findall(part.__getstate__().decode()) if part is not None else ():
            tokenizer.encode(json.loads(text))


def quantization_problem(config: Mapping[str, Any]) -> str:
    """Explain why a configuration's quantized weights cannot be used here; empty if there is no problem."""
    how = config.get("quantization_config")
    method = str(how.get("quant_method", "")) if isinstance(how, Mapping) else ""
    if int8_rows(config):
        return ""
    if not method and isinstance(mlx := config.get("quantization"), Mapping) and "group_size" in mlx:
        return "Its weights are quantized for MLX, which specchat does not run. Download the original or a GGUF version."
    problem = _lacking(f"Its weights are quantized with {method.upper()}, which", PACKAGES.get(method, ()))
    return f"{problem} Or download a GGUF version." if problem else ""


def int8_rows(config: Mapping[str, Any]) -> bool:
    """Tell whether the linear layers' weights are eight-bit integers with a scale for each output, as compressed-tensors writes
    them. Activations, which it would round to eight bits, keep sixteen here."""
    how = config.get("quantization_config")
    if not isinstance(how, Mapping) or how.get("quant_method") != "compressed-tensors" or how.get("format") != "int-quantized":
        return False
    groups = how.get("config_groups")
    kinds = (
        [group.get("weights") for group in groups.values() if isinstance(group, Mapping)] if isinstance(groups, Mapping) else []
    )
    scheme = {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True}
    return bool(kinds) and all(isinstance(kind, Mapping) and scheme.items() <= kind.items() for kind in kinds)


def _lacking(what: str, packages: Sequence[str]) -> str:
    """Name all packages that are not installed, in one sentence; empty if none is missing."""
    lacking = []
    for name in packages:
        try:
            installed = importlib.util.find_spec(name) is not None
        except ModuleNotFoundError:  # of its parent
            installed = False
        if not installed:
            lacking.append(name.removeprefix("google.").replace("_", "-"))
    if not lacking:
        return ""
    return f"{what} needs {' and '.join(lacking)}, not installed here: `{shell_line('pip', 'install', *lacking)}`."
