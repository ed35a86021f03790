"""The options of loads and answers, and the built-in models, as the drawing process may see them without a runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import partial
from typing import Any, TypedDict

from ..backends.base import Sampling as Sampling
from ..backends.info import MOST_NODES as MOST_NODES
from ..backends.info import Capabilities as Capabilities
from ..backends.info import ModelInfo as ModelInfo
from ..backends.info import least_share as least_share
from ..backends.info import plain_passes as plain_passes
from ..backends.loading import builtin_gguf as builtin_gguf
from ..backends.loading import builtin_path as builtin_path
from ..backends.options import BACKENDS as BACKENDS
from ..backends.options import BUILTIN as BUILTIN
from ..backends.options import BUILTIN_DRAFT as BUILTIN_DRAFT
from ..backends.options import BUILTIN_EAGLE as BUILTIN_EAGLE
from ..backends.options import DEVICE, DTYPES, at_load
from ..backends.options import SHIPPED as SHIPPED
from ..backends.options import LoadOptions as LoadOptions
from ..backends.options import draft_label as draft_label
from ..backends.options import rebuild_command as rebuild_command
from ..backends.remote.address import find_server as find_server
from ..backends.remote.address import is_url as is_url
from ..backends.remote.address import parse_url as parse_url
from ..errors import UserError
from ..option import declared_options, option
from ..plain_file import as_text, user_path

MODEL_NAME = {"pattern": r"(?s).*\S.*", "takes": "a model, a folder, a GGUF file, or owner/name on the Hub"}


def _check_model(name: str) -> str:
    """Refuse an address that holds a password."""
    if is_url(name):
        parse_url(name)
    return name


def _check_draft_models(names: tuple[str, ...]) -> tuple[str, ...]:
    if repeated := [name for name in names if names.count(name) > 1]:
        raise UserError(f"{repeated[0]} is named more than once. Each draft model must be another one.")
    return names


@dataclass(frozen=True, kw_only=True)
class DraftOptions:
    """Options of the draft model's load that differ from its target's."""

    draft_device: str | None = at_load(
        None, "Device of the draft model; by default the model's.", "DEVICE", **DEVICE, unset="the model's"
    )
    draft_dtype: str | None = at_load(
        None,
        "Data type of the draft model; by default the model's.",
        "DTYPE",
        choices=DTYPES,
        title="Draft data type",
        unset="the model's",
    )
    draft_threads: int | None = at_load(
        None,
        "CPU threads of the draft model's own, to draft on while the model verifies; by default they take turns.",
        "N",
        low=1,
        unset="the model's, in turns",
    )


@dataclass(frozen=True)
class ModelSelection(LoadOptions, DraftOptions):
    """A model, the models that draft for it, and the options of their load."""

    model: str = at_load(
        BUILTIN,
        "The model: builtin, a folder with safetensors weights, FILE.gguf, OWNER/NAME on the Hub (OWNER/NAME:Q4_K_M for a GGUF "
        "file there), ollama:NAME:TAG, or the address of a server (http://HOST:PORT, #NAME behind it for one of its models).",
        "MODEL",
        **MODEL_NAME,
        check=_check_model,
    )
    _: KW_ONLY
    draft_model: tuple[str, ...] = at_load(
        (),
        "Draft model or trained drafter, given like the model, or several draft models; the built-in model has its own.",
        "MODEL",
        **MODEL_NAME,
        check=_check_draft_models,
    )
    servers: dict[str, dict[str, str]] = field(default_factory=dict)
    """Servers by name, as in the settings: their addresses, and the places of their keys (never the keys)."""

    def selection(self) -> ModelSelection:
        """Return these fields alone, of an object that has more."""
        return ModelSelection(**{f.name: getattr(self, f.name) for f in fields(ModelSelection)})

    def target_options(self) -> LoadOptions:
        """Return the options of the target's load alone."""
        return LoadOptions(**{f.name: getattr(self, f.name) for f in fields(LoadOptions)})


MOST_CONSTRAINT_BYTES = 4_000_000

CONSTRAINTS = {"schema": "json_schema", "regex": "regex", "grammar": "grammar", "json_object": "json_object"}
"""Options that constrain answers, with the kind of constraint that each is. Only one applies: of several in one place the
first; a stronger place overrides the others."""


class ConstraintFields(TypedDict):
    """A constraint on answers, as in `Generate`."""

    kind: str
    """json_schema, json_object, regex or grammar."""
    text: str


def _read_constraint(name: str, value: str) -> str:
    """Return the text of a schema, a regex or a grammar: `value`, or the content of the file that it names.

    Raises:
        UserError: there is no such file, or the constraint cannot be used; says which part.
    """
    from .catalog import Constraint

    match name:
        case "schema":
            inline = value.lstrip()[:1] in ("{", "[", '"') or value.strip() in ("true", "false")
        case "grammar":
            inline = "\n" in value or "::=" in value or value.lstrip().startswith("start:")
        case _:
            inline = True
    if not value.strip():
        return ""
    text = value if inline else _read_file(value, "the JSON schema itself" if name == "schema" else "the grammar itself")
    Constraint(CONSTRAINTS[name], text).check()  # type: ignore[arg-type]
    return text


def _read_file(name: str, alternative: str) -> str:
    try:
        with user_path(name).open("rb") as file:
            data = file.read(MOST_CONSTRAINT_BYTES + 1)
    except OSError as error:
        reason = "There is no such file" if isinstance(error, FileNotFoundError) else error.strerror
        raise UserError(f"{name} cannot be read ({reason}). Give a file, or {alternative}.") from None
    if len(data) > MOST_CONSTRAINT_BYTES:
        raise UserError(f"{name} is too large to follow. Use a smaller part of it.")
    return as_text(data)


def _check_acceptance(rule: str) -> str:
    from .catalog import Acceptance

    return str(Acceptance.parse(rule))


def _check_stops(texts: Sequence[str]) -> Sequence[str]:
    from .catalog import Stops

    Stops(texts)
    return texts


limit = partial(option, group="Sampling and limits")


@dataclass(frozen=True, kw_only=True)
class RequestOptions:
    """Options of answers that reach the engine as they are, as fields of its message `Generate`."""

    accept: str = option(
        "exact",
        "When a draft token is accepted: exact, rejection, soft:BETA or typical:EPSILON,DELTA.",
        "RULE",
        group="Decoding",
        title="Acceptance rule",
        check=_check_acceptance,
    )
    max_tokens: int | None = limit(
        None,
        "Stop an answer after N tokens; by default when the context is full.",
        "N",
        low=1,
        title="Token limit",
        unset="until the context is full",
    )
    stop: tuple[str, ...] = limit((), "End an answer at this text.", "TEXT", title="Stop texts", check=_check_stops)
    stop_loops: bool = limit(
        True,
        "Stop an answer that repeats itself endlessly (the default, but not with JSON).",
        title="Stop endless repetition",
    )
    think: str = limit(
        "",
        "How the model thinks before it answers, in its own words: on, off, low, medium, high, … `specchat doctor MODEL` lists "
        "them; by default as its chat template has it.",
        "WORD",
        title="Thinking",
        unset="as the model does",
    )
    think_budget: int | None = limit(
        None, "End a thought after N tokens.", "N", low=0, title="Longest thought", unset="no limit"
    )

    def request_options(self) -> dict[str, Any]:
        """Return these options as plain data."""
        values = {name: getattr(self, name) for name in declared_options(RequestOptions)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


@dataclass(frozen=True, kw_only=True)
class AnswerOptions(RequestOptions):
    """Options of answers, independent of the method."""

    sampling: Sampling = field(default_factory=Sampling)
    schema: str = limit(
        "",
        "Answers are JSON that matches this JSON schema, given as a file or as itself.",
        "FILE",
        title="JSON schema",
        check=partial(_read_constraint, "schema"),
    )
    regex: str = limit("", "Answers match this regex, from start to end.", "REGEX", check=partial(_read_constraint, "regex"))
    grammar: str = limit(
        "",
        "Answers match this grammar (Lark as llguidance reads it, or GBNF), given as a file or as itself.",
        "FILE",
        check=partial(_read_constraint, "grammar"),
    )
    json_object: bool = limit(False, "Answers are JSON objects, whatever is in them.", title="Any JSON object")
    template_var: tuple[str, ...] = limit(
        (),
        "A variable of the chat template.",
        "NAME=VALUE",
        pattern=r"(?s)\s*[A-Za-z_]\w*\s*=.*",
        takes="texts of the form NAME=VALUE",
        title="Template variables",
    )

    @property
    def constraint(self) -> ConstraintFields | None:
        """The constraint on answers; None without one."""
        for name, kind in CONSTRAINTS.items():
            if value := getattr(self, name):
                return {"kind": kind, "text": value if isinstance(value, str) else ""}
        return None


LOADING = tuple(declared_options(LoadOptions))
"""Options of a target's load."""
DRAFTING = tuple(declared_options(DraftOptions))
"""Options of a draft model's load."""
ANSWERING = tuple(name for name in declared_options(AnswerOptions) if name not in CONSTRAINTS)
"""Options of answers, without sampling and constraints."""
