"""Chat templates: messages in, text out, and a sentence where what a person wrote is not in that text.

Templates are programs that strangers wrote. They run in Jinja's sandbox, set up as in
`transformers.utils.chat_template_utils`: blocks trimmed, with `raise_exception`, `strftime_now`, and a `tojson` that keeps
characters as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from typing import Any

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.meta import find_undeclared_variables
from jinja2.nodes import CallBlock, Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ..errors import UserError, did_you_mean, first_line
from ..plain_file import as_text, read_bytes, user_path
from .base import Message
from .thinking.find import find_form
from .thinking.form import Form

MARK = "\U000f0000"
"""Private-use character set around special tokens that a message spells, while its template runs."""

TAG_LIKE = re.compile(r"[<\[◁].*[>\]▷]", re.DOTALL)
"""Spelling of a token that stands for a whole tag. Where the template writes it (`<think>`, `[/INST]`), it is protected in
messages although it is not special; where it does not (`<table>`), it is text."""

WORDS = 73059482 * 10**6
"""The first of the numbers that stand for contents in a trial: whatever a template does to a text, it keeps digits."""

LEFT_OUT = {
    "user": "your message. Use plain completion (--raw) or another model.",
    "earlier": "an earlier message of yours. Start a new chat, or use another model.",
    "system": "the system prompt. Remove it, or use plain completion (--raw).",
}
"""Advice for each kind of text that a person wrote and the template leaves out."""


class TemplateRefused(jinja2.TemplateError):
    """A template's own refusal of a conversation."""


class _Generation(Extension):
    """`{% generation %}`, which marks what the model writes for training: transparent here."""

    tags = {"generation"}  # noqa: RUF012 - jinja2's own declaration

    def parse(self, parser: Parser) -> Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return CallBlock(self.call_method("_say"), [], [], body).set_lineno(line)

    def _say(self, caller: Any) -> str:
        return str(caller())


def _raise(message: str) -> None:
    raise TemplateRefused(message)


def _to_json(value: Any, **options: Any) -> str:
    return json.dumps(value, **{"ensure_ascii": False, **options})


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment


class Template:
    """A model's chat template.

    Args:
        source: Jinja.
        specials: names of special tokens (bos_token …) and their text.
    """

    def __init__(self, source: str, specials: Mapping[str, str | list[str]]) -> None:
        self.source = source
        self._values = {"tools": None, "documents": None, "add_generation_prompt": True, **specials}

    @cached_property
    def _compiled(self) -> jinja2.Template:
        return _environment().from_string(self.source)

    @cached_property
    def form(self) -> Form | None:
        """Format of thoughts; None if the template does not handle them, or cannot be read."""
        with suppress(Exception):  # nothing in a template must fail a load
            return find_form(self._try, _environment().parse(self.source), self._values)
        return None

    @cached_property
    def _reads(self) -> tuple[str, ...]:
        """Variables that it reads and that users may set."""
        with suppress(Exception):  # rendering it will tell
            names = find_undeclared_variables(_environment().parse(self.source))
            return tuple(sorted(names - {"messages", *self._values}))
        return ()

    @cached_property
    def _in_parts(self) -> bool:
        """Whether contents are lists of typed parts, as for SmolVLM and LLaVA, which show nothing of a text."""
        word = str(WORDS)
        text, parts = ([{"role": "user", "content": content}] for content in (word, _parts(word)))
        return word not in self._try(text) and word in self._try(parts)

    def variables(self, think: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Collect the variables for a word of `think` (see `Model.variables`), and those that are given."""
        words = self.form.words if self.form is not None else {"off": {}}
        names = self.form.info.variables if self.form is not None else self._reads
        for name in values:
            if name not in self._reads:
                options = f"it reads {', '.join(names)}." if names else "it reads none."
                raise UserError(f"The model's chat template has no variable {name!r}: {did_you_mean(name, names, options)}")
        if think and think not in words:
            able = f"takes {', '.join(words)}" if len(words) > 1 else "does not think, or always does"
            raise UserError(f"By its chat template this model {able}, so think cannot be {think!r}. Leave it out.")
        return {**words.get(think, {}), **values}

    def render(self, messages: Sequence[Message], variables: Mapping[str, Any] | None = None) -> str:
        """Render the text of a chat up to where the next answer starts.

        Args:
            messages: the chat; an answer may have its `thought`.
            variables: more for the template.

        Raises:
            UserError: no messages; or the template refuses them, leaves out one that a person wrote, or fails.
        """
        if not messages:
            raise UserError("A chat needs at least one message.")
        more = variables or {}
        try:
            text = self._compiled.render({**self._values, **more, "messages": self._own_form(messages)})
        except TemplateRefused as refusal:
            raise UserError(
                f"The model's chat template rejects this conversation ({first_line(refusal)}). Remove the system prompt, or "
                "use plain completion (--raw)."
            ) from None
        except Exception as error:  # a template can raise whatever Python can
            reason = f"{type(error).__name__}: {first_line(error)}"
            raise UserError(
                f"The model's chat template is broken ({reason}). Use plain completion (--raw) or another model."
            ) from None
        self._require_all(messages, more)
        return text

    def _require_all(self, messages: Sequence[Message], variables: Mapping[str, Any]) -> None:
        """Refuse a chat of which the template leaves out what a person wrote, by a trial with numbers for contents."""
        words = [str(WORDS + i) if message["content"].strip() else "" for i, message in enumerate(messages)]
        chat = [{**message, "content": word} for message, word in zip(messages, words, strict=True)]
        if not (text := self._try(self._own_form(chat), **variables)):
            return
        lost = [i for i, word in enumerate(words) if word not in text and messages[i]["role"] in ("user", "system")]
        if not lost:
            return
        role = messages[lost[-1]]["role"]
        earlier = role == "user" and any(message["role"] == "user" for message in messages[lost[-1] + 1 :])
        raise UserError(f"The model's chat template leaves out {LEFT_OUT['earlier' if earlier else role]}")

    def _own_form(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Convert messages to the form that the template takes."""
        form = self.form
        chat = [form.message(message) if form is not None else without_thought(message) for message in messages]
        if self._in_parts:
            chat = [{**message, "content": _parts(message["content"])} for message in chat]
        return chat

    def _try(self, messages: Sequence[Mapping[str, Any]], asks: bool = True, **variables: Any) -> str:
        """Render messages as they are; empty where the template fails.

        Args:
            messages: in the template's own form.
            asks: whether the beginning of an answer follows.
            variables: for the template.
        """
        with suppress(Exception):
            values = {**self._values, **variables, "messages": messages, "add_generation_prompt": asks}
            return self._compiled.render(values)
        return ""


def _parts(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


def given_template(file: str) -> str:
    """Read and compile the chat template that a user gives for a model; empty where no file is named.

    Raises:
        UserError: the file cannot be read, or is no template; says why.
    """
    if not file:
        return ""
    try:
        source = as_text(read_bytes(user_path(file)), "strict")
        _environment().from_string(source)
    except Exception as error:
        reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {first_line(error)}"
        raise UserError(f"The chat template {file} does not work ({reason}). Correct it, or leave it out.") from None
    return source


def without_thought(message: Message) -> dict[str, Any]:
    """Drop the thought of a message, for a template that does not take any."""
    return {name: value for name, value in message.items() if name != "thought"}


def any_of(texts: Iterable[str]) -> re.Pattern[str]:
    """Compile a pattern that matches any of some texts, the longest first."""
    return re.compile("|".join(map(re.escape, sorted(filter(None, texts), key=len, reverse=True))) or r"(?!)")


def marked(text: str, special: re.Pattern[str]) -> str:
    """Put marks around the special tokens that a text spells."""
    return special.sub(rf"{MARK}\g<0>{MARK}", text.replace(MARK, ""))


def parted_at_marks(text: str, special: re.Pattern[str]) -> Iterator[tuple[str, bool]]:
    """Split a text at marks; the flag says whether a part is text in any case. A mark that a template separated from its
    other one still splits the text."""
    # Text, token, text, token … text.
    for index, part in enumerate(re.split(rf"{MARK}({special.pattern}){MARK}|{MARK}", text)):
        if part:
            yield part, index % 2 == 1
