"""Requests of bench, replay and tune: the fields of a request are the options of its command."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from ....engine.options import CONSTRAINTS
from ....errors import UserError
from ...settings.fields import Settings
from ...settings.precedence import layers_of
from ..options import MODELS, AsJson, SettingOptions, argument, flag, option

OnModels = Annotated[Settings, SettingOptions(*MODELS)]
Constrained = Annotated[Settings, SettingOptions(*MODELS, *CONSTRAINTS)]
Methods = Annotated[str, option("--methods", "Only these methods, as NAME or NAME:SETTING=VALUE:…", "LIST")]
Category = Annotated[list[str] | None, option("--category", "Only this category. Repeat for more.", "NAME")]
Past = Annotated[list[Path] | None, option("--past", "Draft from these earlier answers too. Repeat for more.", "FILE")]
Clock = Annotated[
    Literal["wall", "cpu"],
    option("--clock", "wall, or cpu for processor seconds (on a busy machine without a GPU).", "CLOCK"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRequest:
    """A request of `specchat bench`."""

    prompts: Annotated[
        Path | None, argument("JSONL (prompt, turns or messages) or plain text; by default the built-in tasks.", "FILE")
    ] = None
    settings: Constrained
    methods: Methods = ""
    against: Annotated[
        str, option("--against", "Also compare other implementations: transformers, llama-cpp, or one as NAME/METHOD.", "LIST")
    ] = ""
    limit: Annotated[int | None, option("--limit", "At most N prompts per category (built-in tasks: 6).", "N", least=1)] = None
    category: Category = None
    rounds: Annotated[int, option("--rounds", "Answer each prompt N times with each method (default 1).", "N", least=1)] = 1
    max_tokens: Annotated[int, option("--max-tokens", "Stop each answer after N tokens (default 256).", "N", least=1)] = 256
    clock: Clock = "wall"
    raw: Annotated[bool, flag("--raw", "Continue the prompts as they are, without the chat template.")] = False
    record: Annotated[Path | None, option("--record", "Write every answer with its figures to this file.", "FILE")] = None
    as_json: AsJson = False
    markdown: Annotated[Path | None, option("--markdown", "Write the table to this file as Markdown.", "FILE")] = None

    @property
    def others(self) -> list[str]:
        """The implementations or servers in `against`."""
        return [name.strip() for name in self.against.split(",") if name.strip()]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """A request of `specchat replay`."""

    transcripts: Annotated[list[Path] | None, argument("JSONL files of recorded answers.", "FILE")] = None
    history: Annotated[bool, flag("--history", "Replay the chats in your history.")] = False
    tokenizer: Annotated[
        Path | None, option("--tokenizer", "Folder with the tokenizer.json of the model that wrote the answers.", "FOLDER")
    ] = None
    methods: Methods = ""
    limit: Annotated[int | None, option("--limit", "Only the first N records of each file.", "N", least=1)] = None
    past: Past = None
    remember: Annotated[
        bool, flag("--remember", "Draft from the answers before it in its file too; the order is taken for time.")
    ] = False
    settings: OnModels
    on_model: Annotated[
        str | None, option("--on-model", "Run the passes on this model, though another wrote the answers.", "MODEL")
    ] = None
    as_json: AsJson = False

    def __post_init__(self) -> None:
        if self.on_model is not None and self._names_model:
            raise UserError("--on-model names the model that runs the passes: leave out --model.")

    @property
    def _names_model(self) -> bool:
        return "model" in layers_of(self.settings).command_line

    @property
    def forced(self) -> bool:
        """Whether the model is not the one that wrote the answers: its choices do not count, only its seconds."""
        return self.on_model is not None

    @property
    def over_model(self) -> bool:
        """Whether a model runs the passes."""
        return self.forced or self._names_model


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneRequest:
    """A request of `specchat tune`."""

    prompts: Annotated[Path | None, argument("Prompts as for bench; by default the built-in tasks.", "FILE")] = None
    settings: OnModels
    minutes: Annotated[float, option("--minutes", "Minutes to search (default 10).", "N", least=0)] = 10.0
    methods: Methods = ""
    limit: Annotated[int | None, option("--limit", "At most N prompts per category (built-in tasks: 4).", "N", least=1)] = None
    category: Category = None
    past: Past = None
    max_tokens: Annotated[int, option("--max-tokens", "Stop each answer after N tokens (default 128).", "N", least=1)] = 128
    clock: Clock = "wall"
    no_save: Annotated[bool, flag("--no-save", "Do not save the result in the settings.")] = False
    as_json: AsJson = False
