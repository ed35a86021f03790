"""Chat templates: messages in, text out, and a sentence where what a person wrote is not in that text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Any, TypeVar

from jinja2.meta import find_undeclared_variables

from ..errors import UserError, did_you_mean
from ..plain_file import as_text, read_bytes, user_path
from .base import Message
from .confined import Broken, Confined
from .template_sandbox import Program, TemplateRefused
from .thinking.find import find_form
from .thinking.form import Form

T = TypeVar("T")

MARK = "\U000f0000"
"""Private-use character set around special tokens that a message spells, while its template runs."""

MOST_CHARACTERS, MOST_TIMES = 1_000_000, 4
"""A template makes at most so many characters, and so many more for each in the chat: a tokenizer cannot be stopped."""

TAG_LIKE = re.compile(r"[<\[◁].*[>\]▷]", re.DOTALL)
"""Spelling of a token that stands for a whole tag. Where the template writes it (`<think>`, `[/INST]`), it is protected in
messages although it is not special; where it does not (`<table>`), it is text."""

MOST_SECONDS = 10.0
"""CPU seconds that a template may take for a chat. Most need a millisecond."""

FIND_SECONDS = 2.0
"""CPU seconds for finding out what a template does with thoughts; the slowest we know needs 0.3."""

MOST_MEMORY = 512 << 20
"""Bytes that it may take; a chat of 1 MB takes 20 MB."""

TEMPLATES = Confined()
"""The confined process in which templates run."""

WORDS = 73059482 * 10**6
"""The first of the numbers that stand for contents in a trial: whatever a template does to a text, it keeps digits."""

INSIDE = "61840273915"
"""Content that shows up where a template prints a list of parts as Python or JSON would."""

ROLES = ("user", "assistant", "system")
"""Roles whose contents may be wanted as parts."""

LEFT_OUT = {
    "user": "your message. Use plain completion (--raw) or another model.",
    "earlier": "an earlier message of yours. Start a new chat, or use another model.",
    "system": "the system prompt. Remove it, or use plain completion (--raw).",
}
"""Advice for each kind of text that a person wrote and the template leaves out."""

ESCAPES = re.compile(r"\\[nrt]|&#?\w+;|[\W_]+")
"""Text that a template may write another way: escapes of JSON and HTML, white space, marks."""


class Template:
    """A model's chat template.

    Some want each content as a text, others (SmolVLM, LLaVA) as a list of typed parts, and show nothing of the wrong one. Which
    is tried out, for each role, with numbers in place of the contents.

    Args:
        source: Jinja.
        specials: names of special tokens (bos_token …) and their text.
    """

    def __init__(self, source: str, specials: Mapping[str, str | list[str]]) -> None:
        self.source = source
        self._values = {"tools": None, "documents": None, "add_generation_prompt": True, **specials}
        self._typed: tuple[str, ...] = ()
        """Roles whose contents were last wanted as parts."""
        self._given: Mapping[str, Any] = {}
        """Variables of the rendering that runs."""
        TEMPLATES.start()

    @cached_property
    def form(self) -> Form | None:
        """Format of thoughts; None if the template does not handle them, or cannot be read."""
        with suppress(Exception):  # nothing in a template must fail a load
            return TEMPLATES.call(_find_form, self.source, self._values, seconds=FIND_SECONDS, memory=MOST_MEMORY)
        return None

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """Variables that it reads and that users may set."""
        with suppress(Exception):  # rendering it will tell
            return TEMPLATES.call(_find_variables, self.source, self._values, seconds=FIND_SECONDS, memory=MOST_MEMORY)
        return ()

    def _call(self, function: Callable[..., T], *values: Any, cancelled: Callable[[], bool] | None = None) -> T:
        """Call a function with a copy of this template, where it can do no harm."""
        self.form  # noqa: B018 - finding that out has a time of its own
        return TEMPLATES.call(function, self, *values, seconds=MOST_SECONDS, memory=MOST_MEMORY, cancelled=cancelled)

    def variables(self, think: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Collect the variables for a word of `think` (see `Model.variables`), and those that are given."""
        names = self.form.info.variables if self.form is not None else self.reads
        for name in values:
            if name not in self.reads:
                options = f"it reads {', '.join(names)}." if names else "it reads none."
                raise UserError(f"The model's chat template has no variable {name!r}: {did_you_mean(name, names, options)}")
        return {**self._switched(think), **values}

    def _switched(self, think: str) -> Mapping[str, Any]:
        form = self.form
        words = form.words if form is not None else {"off": {}}
        if think in ("", form.info.default if form is not None else ""):
            return {}
        if think in words:
            return words[think]
        if form is None:
            raise UserError(f"By its chat template this model does not think, so think cannot be {think!r}. Leave it out.")
        if not words:
            raise UserError(f"This model's thinking cannot be switched, so think cannot be {think!r}. Leave it out.")
        raise UserError(f"Thinking cannot be {think!r} with this model: it takes {', '.join(form.info.words)}.")

    def render(
        self,
        messages: Sequence[Message],
        cancelled: Callable[[], bool] | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """Render the text of a chat up to where the next answer starts.

        Args:
            messages: the chat; an answer may have its `thought`.
            cancelled: polled; answering True stops a template that is still running.
            variables: more for the template.

        Raises:
            UserError: no messages; or the template refuses them, leaves out one that a person wrote, fails or does not end.
            Cancelled: `cancelled` answered True.
        """
        if not messages:
            raise UserError("A chat needs at least one message.")
        self._given = variables or {}
        try:
            text, self._typed = self._call(Template._render, list(messages), cancelled=cancelled)
            return text
        except TemplateRefused as refusal:
            raise UserError(
                f"The model's chat template rejects this conversation ({refusal}). Remove the system prompt, or use plain "
                "completion (--raw)."
            ) from None
        except Broken as error:
            raise UserError(
                f"The model's chat template is broken ({error}). Use plain completion (--raw) or another model."
            ) from None

    def shows(self, message: Message) -> bool:
        """Whether a message's content is in the text."""
        return self._call(Template._shows, message)

    def _shows(self, message: Message) -> bool:
        self._try([message], MOST_CHARACTERS)
        return message["content"] in self._text([message], MOST_CHARACTERS, self._typed)

    def _render(self, messages: Sequence[Message]) -> tuple[str, tuple[str, ...]]:
        """Render a chat; return the text, and the roles whose contents are wanted as parts."""
        most = MOST_CHARACTERS + MOST_TIMES * sum(len(text) for message in messages for text in message.values())
        lost = self._try(messages, most)
        text = self._text(messages, most, self._typed)
        letters = ""
        for index, message in enumerate(messages):
            content = message["content"]
            if message["role"] not in LEFT_OUT or index in lost or content.strip() in text:
                continue
            letters = letters or _letters(text)
            if _letters(content) not in letters and text == self._text(_changed(messages, {index: ""}), most, self._typed):
                lost.add(index)
        later = ""
        for index, message in reversed(list(enumerate(messages))):
            if index in lost and message["role"] in LEFT_OUT:
                what = LEFT_OUT["earlier" if message["role"] == later == "user" else message["role"]]
                raise UserError(f"The model's chat template leaves out {what}")
            later = "user" if message["role"] == "user" else later
        return text, self._typed

    def _try(self, messages: Sequence[Message], most: int) -> set[int]:
        """Find the roles whose contents are wanted as parts; return the places of messages that are left out anyway."""
        words = {index: str(WORDS + index) for index in range(len(messages))}
        trial = _changed(messages, words)
        roles = [role for role in ROLES if any(message["role"] == role for message in messages)]
        lost: set[int] | None = None
        for typed in [self._typed, *(subset for size in range(len(roles) + 1) for subset in combinations(roles, size))]:
            try:
                text = self._text(trial, most, typed, inside=INSIDE)
            except (TemplateRefused, Broken):
                continue
            left = {index for index, word in words.items() if word not in text or INSIDE in text}
            if lost is None or len(left) < len(lost):
                self._typed, lost = typed, left
            if not lost:
                break
        return lost or set()  # where nothing can be rendered, the chat itself will tell why

    def _text(self, messages: Sequence[Message], most: int, typed: Sequence[str], **more: str) -> str:
        """Render a chat, with contents as parts for the roles `typed`, and `more` in each part."""
        form = self.form
        chat = [form.message(message) if form is not None else without_thought(message) for message in messages]
        for message in chat:
            if message["role"] in typed and isinstance(message["content"], str):
                message["content"] = [{"type": "text", "text": message["content"], **more}]
        return _program(self.source).render({**self._values, **self._given, "messages": chat}, most)


def given_template(file: str) -> str:
    """Read the chat template that a user gives for a model, and try it; empty where no file is named.

    Raises:
        UserError: the file cannot be read, or what it holds does not work as a template; says which.
    """
    if not file:
        return ""
    try:
        source = as_text(read_bytes(user_path(file)), "strict")
    except OSError as error:
        raise UserError(f"The chat template {file} cannot be read ({error.strerror or error}). Check the path.") from None
    except UnicodeDecodeError:
        raise UserError(f"The chat template {file} is not text. Give a file in Jinja, such as chat_template.jinja.") from None
    if not source.strip():
        raise UserError(f"The chat template {file} is empty. Give a file in Jinja, such as chat_template.jinja.")
    message = {"role": "user", "content": str(WORDS)}
    try:
        shows = Template(source, {}).shows(message)
    except TemplateRefused:  # what it does not take may be another chat
        return source
    except Broken as error:
        raise UserError(f"The chat template {file} does not work ({error}). Correct it, or leave it out.") from None
    if not shows:
        raise UserError(f"The chat template {file} leaves out the message. It must write {{{{ message.content }}}}.")
    return source


@lru_cache(maxsize=8)
def _program(source: str) -> Program:
    return Program(source)


def _find_variables(source: str, values: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(sorted(find_undeclared_variables(_program(source).tree()) - {"messages", *values}))


def _find_form(source: str, values: Mapping[str, Any]) -> Form | None:
    program = _program(source)

    def render(messages: Sequence[Mapping[str, Any]], asks: bool, **variables: Any) -> str:
        named = {**values, **variables, "messages": [dict(message) for message in messages]}
        try:
            return program.render({**named, "add_generation_prompt": asks}, MOST_CHARACTERS)
        except (TemplateRefused, Broken):
            return ""

    return find_form(render, program.tree(), values)


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


def _changed(messages: Sequence[Message], contents: Mapping[int, str]) -> list[Message]:
    return [{**message, "content": contents.get(i, message["content"])} for i, message in enumerate(messages)]


def _letters(text: str) -> str:
    """Keep letters and digits, in one case, however a template escapes and spaces the rest."""
    return ESCAPES.sub("", text).casefold()
