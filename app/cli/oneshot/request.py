"""The request of `specchat run`: the command line's options, checked, and the prompt with its attachments."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ....engine.catalog import get, parse_params
from ....engine.options import CONSTRAINTS, ModelInfo
from ....errors import UserError
from ....plain_file import as_text, user_path
from ...attach.attachments import Attachment, attach, compose, decode, read
from ...chat.methods import first_method, known_methods
from ...settings.fields import CHAT_KEYS, Settings
from ...terminal.output import Notes
from ...terminal.piped import read_all
from ..options import FLAGS


@dataclass(frozen=True, slots=True)
class Request:
    """A request of `specchat run`."""

    prompt: str
    """The text, or `-` for standard input. Its `@path`s attach files."""
    settings: Settings
    explicit: frozenset[str] = frozenset()
    """Dotted keys of the settings on the command line."""
    method_settings: Mapping[str, str] = field(default_factory=dict)
    """The values of `--set`, as typed."""
    raw: bool = False
    """Send the prompt as it is: an @ in it is an @, and piped input is not attached."""
    as_json: bool = False
    as_lines: bool = False
    """Print a JSON object per step, then that of `as_json`."""
    go_on: bool = False
    """Continue the chat that `chat` names, or the last one."""
    chat: str | None = None
    keep: bool | None = None
    """Whether to save the answer in the history; None: if it continues a chat of the history, and the settings allow it."""
    files: tuple[Path, ...] = ()
    """Attached to the prompt."""
    color: str = "auto"

    def method(self, unavailable: Collection[str] = (), info: ModelInfo | None = None) -> str:
        """Return the decoding method: the one in the settings, else the one that a chat with this model starts with.

        Args:
            unavailable: methods that the model cannot run.
            info: the loaded model, once it is known.
        """
        settings = self.settings
        return settings.method or first_method(
            known_methods(), unavailable, settings.model, settings.draft_model, info or ModelInfo()
        )

    @property
    def plain(self) -> bool:
        """Whether the answer is printed as text."""
        return not (self.as_json or self.as_lines)

    @property
    def stop_loops(self) -> bool:
        """Whether to stop an answer that repeats itself. A program gets the model's own text unless it asks for it."""
        return self.settings.stop_loops and (self.plain or "stop_loops" in self.explicit)


def keeps(*, last: bool, resume: str | None, keep: bool, no_history: bool) -> bool | None:
    """Return `Request.keep` as the options set it.

    Raises:
        UserError: they contradict each other.
    """
    if last and resume is not None:
        raise UserError("--continue and --resume each choose a chat to continue. Use only one of them.")
    if keep and no_history:
        raise UserError("--keep and --no-history contradict each other. Use only one of them.")
    if keep and (last or resume is not None):
        raise UserError("--keep starts a new chat, but --continue and --resume continue one. Leave one of them out.")
    if keep:
        return True
    return False if no_history else None


def check(request: Request) -> None:
    """Check a request as far as possible without the engine, whose start takes seconds.

    Raises:
        UserError: something is wrong with it.
    """
    method = get(request.method())
    try:
        parse_params(method, dict(request.method_settings))
    except UserError:
        # In the chat, /set takes these and the method's settings alike.
        for name in request.method_settings:
            key = name if name in CHAT_KEYS else f"sampling.{name}"
            if key in CHAT_KEYS:
                raise UserError(
                    f"--set is for the settings of the method {method.name}, and {name} is none of them. "
                    f"Use {FLAGS[key]} instead."
                ) from None
        raise
    if len(constraints := [FLAGS[key] for key in CONSTRAINTS if key in request.explicit]) > 1:
        raise UserError(f"{' and '.join(constraints)} each say what the answer must look like. Use only one of them.")
    if request.prompt != "-" and not request.prompt.strip():
        raise UserError("The prompt is empty. Type something to answer, or - to read it from standard input.")
    if request.raw and "system" in request.explicit:
        raise UserError("--raw sends the prompt as it is, without a system prompt. Leave out --raw or --system.")
    if request.raw and (request.go_on or request.keep):
        raise UserError("--raw sends the prompt as it is, not as a chat. Leave out --raw, or --continue, --resume and --keep.")


def split_attachments(request: Request, notes: Notes) -> tuple[str, list[Attachment]]:
    """Return the prompt, and the files attached to it: those of -f first, then those that it names."""
    if request.raw:
        if request.files:
            raise UserError("--raw sends the prompt as it is, without files. Leave out --raw or -f.")
        return request.prompt, []  # an @ in code is code
    text, named = attach(request.prompt)
    attachments = [*(read(user_path(path), str(path)) for path in request.files), *named]
    for attachment in attachments:
        if attachment.notice:
            notes.sentence(attachment.notice)
    return text, attachments


def compose_prompt(request: Request, text: str, attachments: list[Attachment], notes: Notes) -> str:
    """Compose the message to send: the attachments, piped input, the prompt.

    The newline at the end of a pipe's last line is not part of a chat message.
    """
    if request.prompt != "-":
        if not request.raw and (piped := _piped(notes)) is not None:
            attachments = [*attachments, piped]
        return compose(text, attachments)
    if sys.stdin is None:
        raise UserError("There is no standard input to read the prompt from. Give the prompt itself instead of -.")
    text = as_text(read_all(sys.stdin.buffer))
    if not text.strip():
        raise UserError("The prompt on standard input is empty. Pipe some text in, or give the prompt itself instead of -.")
    return compose(text if request.raw else text.rstrip("\n"), attachments)


def _piped(notes: Notes) -> Attachment | None:
    """Read a pipe or a file on standard input; None for a terminal, /dev/null, or an empty one."""
    try:
        kind = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):
        return None
    if not (stat.S_ISFIFO(kind) or stat.S_ISREG(kind)):
        return None
    data = read_all(sys.stdin.buffer)
    text, notice = decode(data, "The piped input")
    if notice:
        notes.sentence(notice)
    return Attachment("standard input", text, len(data), file=False) if text.strip() else None
