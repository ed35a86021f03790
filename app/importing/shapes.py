"""What a JSON record is, by what is in it: a conversation in one of the forms that programs write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .chatgpt import read_chatgpt
from .conversation import (
    Conversation,
    Message,
    NoChat,
    called,
    compact,
    content_of,
    notes_of,
    role_of,
    text_of,
    time_of,
)

NEEDS = (
    'is no chat that is known here: it needs "messages", "conversations", "mapping", "chat_messages", a "request" and a '
    '"response", or a "prompt" and a "completion"'
)

_TIMES = ("created", "created_at", "create_time", "timestamp", "datetime_utc", "date", "time")
_TITLES = ("title", "name", "summary")
_KEYS = ("conversation_id", "id", "uuid")
_WRAPS = ("conversations", "data", "chats", "items", "records", "rows", "train")
_SAID = ("content", "value", "text", "message")


def conversations(record: Any, place: str) -> Iterator[Conversation]:
    """The conversations in a record: mostly one; more of a file that wraps a list of them.

    Raises:
        NoChat: it is none that is known.
    """
    if is_talk(record):
        yield _talk(record, {}, place, "messages")
        return
    if not isinstance(record, dict):
        raise NoChat("is not an object")
    form = record.get("format")
    if isinstance(form, str) and form.startswith("specchat"):
        yield _own(record, form, place)
    elif isinstance(record.get("mapping"), dict):
        yield read_chatgpt(record, place)
    elif isinstance(record.get("chat_messages"), list):
        yield _claude(record, place)
    elif (messages := _list_of_messages(record)) is not None:
        yield _talk(messages, record, place, "ShareGPT" if "conversations" in record else "OpenAI messages")
    elif (pair := _pair(record)) is not None:
        yield answered(*pair, record, place)
    elif (rows := _wrapped(record)) is not None:
        for number, row in enumerate(rows, 1):
            yield from conversations(row, f"{place}, {number}")
    else:
        raise NoChat(NEEDS)


def batch_id(record: Any) -> str:
    """The id of a line of a batch, of its input or its output; empty if it is none."""
    if not isinstance(record, dict) or isinstance(record.get("messages"), list):
        return ""
    alone = ("body" in record) != ("response" in record)
    return text_of(record.get("custom_id")) if alone else ""


def is_message(value: Any) -> bool:
    """Whether a value is a message of a conversation."""
    if not isinstance(value, dict):
        return False
    who = next((value[key] for key in ("role", "from", "sender") if isinstance(value.get(key), str)), None)
    return who is not None and any(key in value for key in (*_SAID, "tool_calls", "parts"))


def is_talk(value: Any) -> bool:
    """Whether a value is a list of messages."""
    return isinstance(value, list) and bool(value) and all(map(is_message, value))


def _list_of_messages(record: dict[str, Any]) -> list[Any] | None:
    for key in ("messages", "conversations", "conversation", "turns", "items"):
        value = record.get(key)
        if isinstance(value, list) and (key == "messages" or is_talk(value)):
            return value
    return None


def _wrapped(record: dict[str, Any]) -> list[Any] | None:
    rows = next((record[key] for key in _WRAPS if isinstance(record.get(key), list) and record[key]), None)
    return rows if rows and all(isinstance(row, dict | list) for row in rows) else None


def messages_of(items: list[Any]) -> list[Message]:
    """Messages in the common form: whose it is, and a text or a list of parts.

    Raises:
        NoChat: one of them is something else.
    """
    out: list[Message] = []
    for number, item in enumerate(items, 1):
        if not is_message(item):
            raise NoChat(f"has no role and content in message {number}")
        name = next(item[key] for key in ("role", "from", "sender") if isinstance(item.get(key), str))
        role = role_of(name)
        said = next((item[key] for key in _SAID if item.get(key) is not None), item.get("parts"))
        found = content_of(said)
        at = next((at for key in _TIMES if (at := time_of(item.get(key))) is not None), None)
        for key in ("reasoning_content", "reasoning", "thinking"):
            if isinstance(item.get(key), str) and item[key].strip():
                found.notes.append(f"Reasoning: {item[key]}")
        out += notes_of(found, at)
        if found.text.strip():
            text = found.text if role != "note" else f"{text_of(item.get('name')) or name}: {found.text}"
            model = text_of(item.get("model")) if role == "assistant" else ""
            out.append(Message(role, text, "", at, model, missing=found.missing))
        calls = item.get("tool_calls")
        for call in calls if isinstance(calls, list) else [{"function": item.get("function_call")}]:
            function = call.get("function") if isinstance(call, dict) else None
            if isinstance(function, dict):
                out.append(Message("note", called(function.get("name"), function.get("arguments")), "", at))
    return out


def _talk(items: list[Any], record: dict[str, Any], place: str, origin: str) -> Conversation:
    messages = messages_of(items)
    model = text_of(record.get("model"))
    after: list[list[Message]] = []
    for key in ("response", "completion", "choices"):
        if record.get(key) is not None:
            after = answers_of(record if key == "choices" else record[key])
            break
    if record.get("finish_reason") == "length":
        for message in reversed([*messages, *(after[0] if after else [])]):
            message.cut = message.cut or message.role == "assistant"
            break
    return _made(origin, [[*messages, *more] for more in after] or [messages], record, place, model)


def answered(request: Any, response: Any, record: dict[str, Any], place: str) -> Conversation:
    """A conversation out of a request to an API of OpenAI's kind, and the response.

    Raises:
        NoChat: the request failed, or there is no answer in it.
    """
    asked = _body(request)
    before = _asked(asked)
    error = next((one.get("error") for one in (record, _object(response)) if one.get("error")), None)
    body = _body(response)
    answers = answers_of(body if isinstance(body, dict) else response)
    if not any(any(message.role == "assistant" for message in answer) for answer in answers):
        raise NoChat(
            f"has no answer: the request failed ({compact(error)[:200]})" if error else "has no answer in its response"
        )
    model = next(
        (text_of(one.get("model")) for one in (_object(body), _object(asked), record) if text_of(one.get("model"))), ""
    )
    times = [time_of(_object(body).get(key)) for key in ("created", "created_at")]
    made = _made("OpenAI requests", [[*before, *answer] for answer in answers], record, place, model)
    made.created = made.created or next((at for at in times if at is not None), None)
    made.changed = made.changed or made.created
    return made


def _asked(body: Any) -> list[Message]:
    if isinstance(body, str):
        return [Message("user", body)]
    table = _object(body)
    out = [Message("system", text) for key in ("instructions", "system") if (text := content_of(table.get(key)).text).strip()]
    for key in ("messages", "input", "prompt", "contents"):
        value = table.get(key)
        if isinstance(value, str):
            return [*out, Message("user", value)]
        if isinstance(value, list) and value:
            if all(isinstance(item, str) for item in value):
                return [*out, Message("user", "\n".join(value))]
            return out + messages_of([item for item in value if is_message(item)])
    if not out:
        raise NoChat("has no messages in its request")
    return out


def answers_of(value: Any) -> list[list[Message]]:
    """The answers in a response: several where several were asked for."""
    if isinstance(value, str):
        return [[Message("assistant", value)]]
    table = _object(value)
    if isinstance(choices := table.get("choices"), list):
        out = []
        for choice in choices:
            one = _object(choice)
            message = one.get("message") if isinstance(one.get("message"), dict) else {"content": one.get("text")}
            said = messages_of([{"role": "assistant", "content": "", **_object(message)}])
            for item in said:
                item.cut = one.get("finish_reason") == "length" and item.role == "assistant"
            out.append(said)
        return out
    if isinstance(output := table.get("output"), list):  # Responses API
        said = []
        for item in output:
            if is_message(item):
                said += messages_of([item])
            elif _object(item).get("type") == "function_call":
                said.append(Message("note", called(item.get("name"), item.get("arguments"))))
        cut = table.get("status") == "incomplete"
        for item in said:
            item.cut = cut and item.role == "assistant"
        return [said]
    if isinstance(message := table.get("message"), dict):  # Ollama
        return [messages_of([{"role": "assistant", "content": "", **message}])]
    if any(key in table for key in ("content", "text")) or isinstance(output, str):
        found = content_of(table.get("content", table.get("text", output)))
        return [[*notes_of(found), Message("assistant", found.text, cut=table.get("stop_reason") == "max_tokens")]]
    if isinstance(value, list) and all(map(is_message, value)):
        return [messages_of(value)]
    return []


def _pair(record: dict[str, Any]) -> tuple[Any, Any] | None:
    """A request and its response, by the names that they go by."""
    if isinstance(record.get("input"), dict) and "preferred_output" in record:
        return record["input"], record["preferred_output"]
    for ask in ("request", "body", "input", "prompt", "instruction", "question"):
        for answer in ("response", "output", "completion", "answer"):
            request, response = record.get(ask), record.get(answer)
            if isinstance(request, str | dict | list) and request and isinstance(response, str | dict | list):
                context = record.get("input")
                if ask == "instruction" and isinstance(request, str) and isinstance(context, str) and context.strip():
                    request = f"{request}\n\n{context}"
                system = record.get("system")
                if isinstance(system, str) and not isinstance(request, dict):
                    request = {"system": system, "prompt": request}
                return request, response
    return None


def _claude(record: dict[str, Any], place: str) -> Conversation:
    """A conversation of Claude's export."""
    items = []
    for item in record["chat_messages"]:
        if not isinstance(item, dict):
            continue
        content = item.get("content")
        parts = content if isinstance(content, list) and content else [item.get("text")]
        files = [
            {"type": "file", "filename": text_of(_object(file).get("file_name"))}
            for key in ("attachments", "files")
            for file in (item[key] if isinstance(item.get(key), list) else [])
        ]
        items.append({**item, "content": [*parts, *files]})
    if not items:
        raise NoChat("has no message in it")
    made = _made("Claude", [messages_of(items)], record, place, text_of(record.get("model")))
    made.changed = time_of(record.get("updated_at")) or made.changed
    return made


def _own(record: dict[str, Any], form: str, place: str) -> Conversation:
    """A chat that /export json wrote, with all that it has."""
    from ..saved.chat_json import FORMAT, VERSION, chat_of
    from ..saved.reading import Table, Wrong

    if form != FORMAT:
        raise NoChat("is a race, not a chat" if "race" in form else f"has a format that is not {FORMAT}")
    table = Table(record)
    try:
        if table.count("version", least=1) > VERSION:
            raise NoChat("was saved by a newer specchat: update this one")
        saved = chat_of(table)
    except Wrong as error:
        raise NoChat(f"is damaged: {error}") from None
    if not saved.transcript.entries:
        raise NoChat("has no message in it")
    at = time_of(saved.saved)
    return Conversation("specchat", [], created=at, changed=at, model=saved.model_name, place=place, saved=saved)


def _made(origin: str, paths: list[list[Message]], record: dict[str, Any], place: str, model: str) -> Conversation:
    paths = [path for path in paths if any(message.role in ("user", "assistant") for message in path)]
    if not paths:
        raise NoChat("has no message in it")
    times = [at for key in _TIMES if (at := time_of(record.get(key))) is not None]
    told = [message.at for path in paths for message in path if message.at is not None]
    created = times[0] if times else min(told, default=None)
    key = next((str(record[key]) for key in _KEYS if isinstance(record.get(key), str | int) and record[key] != ""), "")
    title = next((text for key in _TITLES if (text := text_of(record.get(key))).strip()), "")
    return Conversation(origin, paths, key, title, created, max(told, default=created), model, place=place)


def _body(value: Any) -> Any:
    """What a request or a response says: the thing itself, its body, or JSON in a text."""
    if isinstance(value, dict) and isinstance(value.get("body"), dict | str):
        value = value["body"]
    if isinstance(value, str) and value[:1] in "{[" and value:
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
