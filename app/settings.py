"""The settings: what the file may say, how it is checked, and how a change is written back.

Settings are addressed by dotted keys, the same in the file, in changes made by the chat, and in messages: `theme`,
`sampling.temperature`, `methods.lookup.max_draft`, `keymap.next_method`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ..backends.base import Sampling, UserError
from ..backends.loading import BACKENDS
from . import locations
from .keymap import ALL as KEYS

DTYPES = ("auto", "float32", "bfloat16", "float16")
DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d+)?")
RPC = re.compile(r"[^\s,:]+:\d{1,5}(,[^\s,:]+:\d{1,5})*")
THEMES = locations.package_folder() / "themes"


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set. The defaults are those of a missing file."""

    model: str = "builtin"
    """Target model: `builtin`, a folder with safetensors weights, FILE.gguf, `owner/name` or `owner/name:Q4_K_M` on the Hub."""
    draft_model: str | None = None
    """Model that drafts for the target, named in the same way; the built-in target brings its own."""
    device: str = "auto"
    """Where the target runs: auto, cpu, cuda, cuda:N or mps."""
    dtype: str = "auto"
    """Type of the weights: auto, float32, bfloat16 or float16."""
    context: int | None = field(default=None, metadata={"low": 1})
    """Most tokens of a conversation; the model's own limit where not set."""
    threads: int | None = field(default=None, metadata={"low": 1})
    """CPU threads; all physical cores where not set."""
    revision: str | None = None
    """Branch, tag or commit of the target's Hub repository."""
    backend: str = "auto"
    """Runtime of the built-in model: auto, transformers or llama.cpp; other models come for one only."""
    gpu_layers: int | None = field(default=None, metadata={"low": 0})
    """GGUF: layers on the GPU; all where there is one if not set, 0 for none."""
    split_mode: str = "layer"
    """GGUF: how several GPUs share the target: layer, row or none."""
    flash_attention: str = "auto"
    """GGUF: auto, on or off."""
    kv_type: str = "auto"
    """GGUF: type of the KV cache: f16, f32, bf16, q8_0, q5_1, q5_0, q4_1 or q4_0; auto is f16."""
    rpc: str = ""
    """GGUF: llama.cpp RPC servers that hold layers of the target, as host:port,host:port."""
    method: str = "lookup"
    """Decoding method that a chat starts with."""
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings of decoding methods: a table per method."""
    tuned: Mapping[str, str] = field(default_factory=dict)
    """By model the method that `specchat tune` found best, such as `builtin = "lookup:nodes=32"`; goes before `method`."""
    theme: str = "dark"
    """Colour theme: the name of a file in `themes/`."""
    colours: str = "cycle"
    """How runs are told apart: cycle (neighbours differ), heat (by length), underline (no colours), off."""
    panel: str = "off"
    """Page of the side panel that a chat starts with: numbers, tree, method or off."""
    sampling: Sampling = field(default_factory=Sampling)
    """How the target picks a token: temperature, top_k, top_p, min_p, repetition_penalty, seed."""
    accept: str = "exact"
    """When a draft token is accepted: exact, rejection, soft:BETA or typical:EPSILON,DELTA."""
    max_tokens: int | None = field(default=None, metadata={"low": 1})
    """Most tokens of an answer; as many as the context holds where not set."""
    stop: tuple[str, ...] = ()
    """Texts that end an answer."""
    system: str | None = None
    """System prompt that a chat starts with."""
    history: bool = True
    """Whether chats are kept: true or false."""
    model_folders: tuple[str, ...] = ()
    """Folders with models, which the list of models looks into besides the places that it knows."""
    editor: str | None = None
    """Command that opens the draft; $VISUAL or $EDITOR where not set."""
    notify: str = "auto"
    """How to say that a long answer has ended while the terminal is not in front: auto, osc9, osc777, bell or off."""
    keymap: Mapping[str, str] = field(default_factory=dict)
    """Keys of the chat's bindings: the binding's id to its keys, separated by commas."""

    def load_options(self) -> dict[str, Any]:
        """What the engine is told about a load beside the target's name (fields of its message `Load`)."""
        return {name: getattr(self, name) for name in LOADING}


LOADING = (
    *("draft_model", "device", "dtype", "context", "threads", "revision", "backend"),
    *("gpu_layers", "split_mode", "flash_attention", "kv_type", "rpc"),
)
"""Settings that count when a model is loaded."""

CHOICES: Mapping[str, tuple[str, ...]] = {
    "dtype": DTYPES,
    "backend": BACKENDS,
    "colours": ("cycle", "heat", "underline", "off"),
    "panel": ("numbers", "tree", "method", "off"),
    "notify": ("auto", "osc9", "osc777", "bell", "off"),
    "split_mode": ("layer", "row", "none"),
    "flash_attention": ("auto", "on", "off"),
    "kv_type": ("auto", "f16", "f32", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"),
}
"""Settings that take one of a few words."""


_FIELDS = {f.name: f for f in fields(Settings)}
_SAMPLING = {f.name: f for f in fields(Sampling)}
_TABLES = ("methods", "sampling", "keymap", "tuned")


def load_settings(path: Path | None = None) -> tuple[Settings, str | None]:
    """The settings, or the defaults and a sentence that says what is wrong with the file."""
    try:
        return read_settings(path), None
    except UserError as error:
        return Settings(), str(error)


def read_settings(path: Path | None = None) -> Settings:
    """The settings in a file; the defaults if there is no file.

    Raises:
        UserError: the file cannot be read or says something that is not a setting; names the file, the key and what to do.
    """
    path = path or locations.settings_file()
    text = _text(path)
    if text is None:
        return Settings()
    try:
        flat = dict(_flatten(tomllib.loads(text)))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{_short(path)}{_where(str(error), text)}; mend that line or delete the file.") from None
    try:
        return changed(Settings(), flat)
    except UserError as error:
        raise UserError(f"{_short(path)}: {str(error).rstrip('.')}; correct it there or delete the line.") from None


def changed(settings: Settings, changes: Mapping[str, Any], names: Mapping[str, str] | None = None) -> Settings:
    """Settings with some of them changed.

    Args:
        settings: what to start from.
        changes: dotted key → value as TOML would give it.
        names: what to call a key in a message, where not by itself (`{"sampling.top_k": "--top-k"}`).

    Raises:
        UserError: an unknown key (with the nearest known one), a wrong type, or a value out of its range.
    """
    values: dict[str, Any] = {}
    sampling = {name: getattr(settings.sampling, name) for name in _SAMPLING}
    methods = {name: dict(table) for name, table in settings.methods.items()}
    keymap, tuned = dict(settings.keymap), dict(settings.tuned)
    for key, value in changes.items():
        called = (names or {}).get(key, key)
        match _split(key):
            case ("sampling", name):
                sampling[name] = _number(called, str(_SAMPLING[name].type), value)
                _check_sampling(called, name, sampling[name])
            case ("methods", method, name):
                methods.setdefault(method, {})[name] = value
                _check_method(called, method, {name: value})
            case ("keymap", binding):
                keymap[binding] = _keys(called, binding, value)
            case ("tuned", model):
                tuned[model] = _tuned(called, value)
            case (name,):
                values[name] = _value(called, name, value)
            case _:
                raise UserError(_unknown(called, key))
    return replace(settings, **values, sampling=Sampling(**sampling), methods=methods, keymap=keymap, tuned=tuned)


def save(changes: Mapping[str, Any], path: Path | None = None) -> Settings:
    """Write changes into the settings file, all or nothing; comments and order stay.

    Args:
        changes: dotted key → value; None removes the key, so that its default holds again.
        path: the file; the user's own if None.

    Returns:
        the settings as the file has them now.

    Raises:
        UserError: a change or the file as it is does not check, or the file cannot be written.
    """
    import tomlkit  # 40 ms, and only a change needs it

    path = path or locations.settings_file()
    current = read_settings(path)
    changed(current, {key: value for key, value in changes.items() if value is not None})
    document = tomlkit.parse(_text(path) or "")
    for key, value in changes.items():
        _put(document, _split(key), list(value) if isinstance(value, tuple) else value)
    _write(path, tomlkit.dumps(document))
    return read_settings(path)


def theme_names() -> list[str]:
    """Every theme that `theme` may name: those that ship, and the user's own in the config folder."""
    folders = (THEMES, locations.themes_folder())
    return sorted({file.stem for folder in folders for file in folder.glob("*.toml")})


def _split(key: str) -> tuple[str, ...]:
    """A dotted key in parts; () if there is no such setting."""
    head, _, rest = key.partition(".")
    match head:
        case "sampling":
            return (head, rest) if rest in _SAMPLING else ()
        case "keymap" | "tuned":
            return (head, rest) if rest else ()
        case "methods":
            method, _, name = rest.partition(".")
            return (head, method, name) if method and name else ()
        case _:
            return (head,) if head in _FIELDS and not rest else ()


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys of a parsed file. A table where a plain value belongs flattens to an unknown key, and so is named."""
    for name, value in table.items():
        if isinstance(value, Mapping) and (value or name in _TABLES):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _unknown(called: str, key: str) -> str:
    head, _, rest = key.partition(".")
    if head in _TABLES and not rest:
        return f"{called} is a table: write [{key}] and its settings below it"
    if head == "methods":
        return f"{called} must be a table: write [{key}] and the method's settings below it"
    known = [*(name for name in _FIELDS if name not in _TABLES), *(f"sampling.{name}" for name in _SAMPLING)]
    near = get_close_matches(key, known, n=1)
    # `temperature = 0.5` at the top of the file, or `top` for `sampling.top_p`.
    near = near or [name for name in known if name.endswith(f".{rest or head}")]
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}, [methods.NAME] and [keymap]"
    return f"there is no setting {called}: {hint}"


def _value(called: str, name: str, value: Any) -> Any:
    """A top-level setting in its type, checked."""
    spec = _FIELDS[name]
    match str(spec.type):
        case "str" | "str | None":
            if not isinstance(value, str):
                raise UserError(f"{called} takes a text in quotes, not {value!r}.")
            return _text_value(called, name, value)
        case "bool":
            if not isinstance(value, bool):
                raise UserError(f"{called} takes true or false, not {value!r}.")
            return value
        case "tuple[str, ...]":
            texts = [value] if isinstance(value, str) else value
            if not isinstance(texts, list | tuple) or not all(isinstance(text, str) and text for text in texts):
                raise UserError(f"{called} takes a list of texts, none of them empty, not {value!r}.")
            return tuple(texts)
        case kind:
            number = _number(called, kind, value)
            if number < spec.metadata["low"]:
                raise UserError(f"{called} must be at least {spec.metadata['low']}, not {value}.")
            return number


def _text_value(called: str, name: str, value: str) -> str:
    match name:
        case "model" | "draft_model" if not value.strip():
            raise UserError(f"{called} is empty: name a model, a folder, a GGUF file, or owner/name on the Hub.")
        case _ if name in CHOICES and value not in CHOICES[name]:
            raise UserError(f"{called} is one of {', '.join(CHOICES[name])}, not {value!r}.")
        case "accept":
            from ..engine.catalog import Acceptance

            try:
                return str(Acceptance.parse(value))
            except UserError as error:
                raise UserError(f"{called}: {error}") from None
        case "rpc" if value and not RPC.fullmatch(value):
            raise UserError(f"{called} takes host:port, several with commas between them, not {value!r}.")
        case "device" if not DEVICE.fullmatch(value):
            raise UserError(f"{called} is one of auto, cpu, cuda, cuda:N, mps, not {value!r}.")
        case "method":
            _check_method(called, value, {})
        case "theme":
            names = theme_names()
            if names and value not in names:
                raise UserError(f"{called} is one of {', '.join(names)}, not {value!r}.")
    return value


def _number(called: str, kind: str, value: Any) -> Any:
    whole = not kind.startswith("float")
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise UserError(f"{called} takes {'a whole number' if whole else 'a number'}, not {value!r}.")
    return value if whole else float(value)


def _keys(called: str, binding: str, value: Any) -> str:
    known = [key.id for key in KEYS]
    if binding not in known:
        near = get_close_matches(binding, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        raise UserError(f"there is no binding {called}: {hint}")
    keys = [value] if isinstance(value, str) else value
    if not isinstance(keys, list | tuple) or not keys or not all(isinstance(key, str) and key for key in keys):
        raise UserError(f'{called} takes keys such as "ctrl+n" or ["f2", "ctrl+n"], not {value!r}.')
    return ",".join(keys)


def _tuned(called: str, value: Any) -> str:
    if not isinstance(value, str):
        raise UserError(f'{called} takes a method such as "lookup:nodes=32", not {value!r}.')
    name, settings = method_of(value)
    _check_method(called, name, settings)
    return value


def method_of(text: str) -> tuple[str, dict[str, Any]]:
    """Name and settings of a method written as `lookup:nodes=32:floor=0.1`."""
    name, *pairs = text.split(":")
    return name, dict(pair.partition("=")[::2] for pair in pairs)


def with_tuned(settings: Settings, given: Iterable[str]) -> Settings:
    """The settings with the method that was tuned for their model, unless a method is among what was given."""
    if settings.model not in settings.tuned or "method" in given:
        return settings
    name, found = method_of(settings.tuned[settings.model])
    return changed(settings, {"method": name, **{f"methods.{name}.{key}": value for key, value in found.items()}})


def _check_sampling(called: str, name: str, value: Any) -> None:
    if name == "seed" and not 0 <= value < 2**63:
        raise UserError(f"{called} must be between 0 and 2^63 - 1, not {value}.")
    try:
        Sampling(**{name: value})
    except UserError as error:
        sentence = str(error).replace(name, called, 1).rstrip(".")
        raise UserError(f"{sentence}, not {value}.") from None


def _check_method(called: str, method: str, values: dict[str, Any]) -> None:
    """Refuse a method or a setting of it that does not exist."""
    from ..decoders.base import parse_params  # 30 ms with what it needs, and most files name no method
    from ..decoders.registry import get

    try:
        parse_params(get(method), values)
    except UserError as error:
        raise UserError(f"{called}: {error}") from None


def _text(path: Path) -> str | None:
    """What the file holds; None if there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise UserError(f"{_short(path)} is not UTF-8 text: save it as UTF-8 or delete it.") from None
    except OSError as error:
        raise UserError(f"{_short(path)} cannot be read ({error.strerror}): make it a readable file.") from None


def _where(error: str, text: str) -> str:
    """', line 3: Expected …' out of tomllib's 'Expected … (at line 3, column 5)'."""
    found = re.fullmatch(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", error, re.DOTALL)
    if not found:
        return f" is not TOML: {error}"
    line = found[2] or max(1, len(text.splitlines()))
    return f", line {line}, is not TOML: {found[1][:1].lower()}{found[1][1:]}"


def _short(path: Path) -> str:
    """A path as people write it."""
    try:
        return f"~/{path.relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return str(path)


def _put(table: Any, parts: tuple[str, ...], value: Any) -> None:
    """Set or (None) remove one key of a tomlkit document; tables are made as needed."""
    import tomlkit

    *heads, last = parts
    for i, head in enumerate(heads):
        if head not in table:
            if value is None:
                return
            # Without this a new [methods.lookup] would come with an empty [methods] above it.
            table[head] = tomlkit.table(is_super_table=i < len(heads) - 1)
        table = table[head]
    if value is None:
        table.pop(last, None)
    else:
        table[last] = value


def _write(path: Path, text: str) -> None:
    """Replace a file in one move; a link to it (dotfiles are often links) stays a link."""
    import os
    import tempfile

    target = path.resolve()
    locations.ensure(target.parent)
    temporary = None
    try:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=target.parent, prefix=".settings-", delete=False) as file:
            temporary = Path(file.name)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o777)
        temporary.replace(target)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise UserError(f"{_short(path)} cannot be written ({error.strerror}): make its folder writable.") from None
