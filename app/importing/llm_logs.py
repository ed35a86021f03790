"""logs.db of the tool `llm`: one row a response (`responses`), and since 0.32 a tree of messages (`messages`, `parts`, `turns`)
whose ends are the turns of a thread. Both may be in one file; a conversation that is in both is read from the tree."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

from .conversation import MOST_BRANCHES, Bad, Conversation, Message, NoChat, called, content_of, role_of, text_of, time_of

ORIGIN = "llm"


class LlmLogs:
    """Reads a database of `llm`, of any version since its conversations have a table.

    Args:
        db: open for reading.
        tables: those that it has.
    """

    def __init__(self, db: sqlite3.Connection, tables: set[str]) -> None:
        self.db, self.tables = db, tables

    def count(self) -> int:
        """How many conversations there are."""
        (number,) = self.db.execute(f"SELECT count(*) FROM ({self._ids()})").fetchone()
        return int(number)

    def read(self, done: Callable[[int], None]) -> Iterator[Conversation | Bad]:
        """The conversations; `done` is told how many were read."""
        for number, (id,) in enumerate(self.db.execute(f"{self._ids()} ORDER BY 1").fetchall(), 1):
            place = f"conversation {id if isinstance(id, str) and id else number}"
            try:
                yield self._conversation(id, place)
            except NoChat as wrong:
                yield Bad(place, str(wrong))
            done(number)
        if "responses" in self.tables:  # logged with --no-conversation, or by something else
            alone = "SELECT * FROM responses WHERE conversation_id IS NULL ORDER BY rowid"
            for row in self._rows(alone):
                place = f"response {row.get('id')}"
                if messages := self._of_response(row):
                    yield self._made([messages], place, str(row.get("id")), row)
                else:
                    yield Bad(place, "has no text")

    def _ids(self) -> str:
        parts = []
        if "responses" in self.tables:
            parts.append("SELECT DISTINCT conversation_id FROM responses WHERE conversation_id IS NOT NULL")
        if {"turns", "messages", "parts"} <= self.tables:
            parts.append("SELECT DISTINCT thread_id FROM turns WHERE thread_id IS NOT NULL")
        return " UNION ".join(parts)

    def _conversation(self, id: Any, place: str) -> Conversation:
        if {"turns", "messages", "parts"} <= self.tables:
            turns = list(self._rows("SELECT * FROM turns WHERE thread_id = ? ORDER BY datetime_utc DESC, id DESC", id))
            if turns:
                return self._of_turns(id, turns, place)
        messages: list[Message] = []
        rows = list(self._rows("SELECT * FROM responses WHERE conversation_id = ? ORDER BY datetime_utc, rowid", id))
        system = ""
        for row in rows:
            said = self._of_response(row)
            # The same system prompt is noted with every response.
            messages += [message for message in said if message.role != "system" or message.text != system]
            system = next((message.text for message in said if message.role == "system"), system)
        if not messages:
            raise NoChat("has no text in it")
        return self._made([messages], place, id, rows[-1])

    def _made(self, paths: list[list[Message]], place: str, id: Any, last: dict[str, Any]) -> Conversation:
        name = ""
        for table in ("threads", "conversations"):
            if table in self.tables and not name:
                found = self.db.execute(f"SELECT name FROM {table} WHERE id = ?", (id,)).fetchone()
                name = text_of(found[0]) if found else ""
        told = [message.at for path in paths for message in path if message.at is not None]
        model = text_of(last.get("resolved_model")) or text_of(last.get("model"))
        key = id if isinstance(id, str) else ""
        return Conversation(ORIGIN, paths, key, name, min(told, default=None), max(told, default=None), model, place=place)

    # One row a response

    def _of_response(self, row: dict[str, Any]) -> list[Message]:
        at = time_of(row.get("datetime_utc"))
        out = []
        prompt = self._joined("prompt_fragments", row, text_of(row.get("prompt")))
        system = self._joined("system_fragments", row, text_of(row.get("system")), "\n\n")
        if system.strip():
            out.append(Message("system", system, "", at))
        out += [
            Message("note", f"{text_of(name) or 'Tool'}: {text_of(text)}", "", at) for name, text in self._tools(row, "results")
        ]
        missing = self._attachments(row)
        if prompt.strip() or missing:
            text = "\n".join(filter(None, (prompt, *missing)))
            out.append(Message("user", text, "", at, missing=len(missing)))
        if text_of(row.get("reasoning")).strip():
            out.append(Message("note", f"Reasoning: {row['reasoning']}", "", at))
        model = text_of(row.get("resolved_model")) or text_of(row.get("model"))
        if text_of(row.get("response")).strip():
            out.append(Message("assistant", row["response"], "", at, model))
        out += [Message("note", called(name, text), "", at) for name, text in self._tools(row, "calls")]
        return out

    def _joined(self, table: str, row: dict[str, Any], text: str, gap: str = "\n") -> str:
        """A text behind the fragments that went before it."""
        if not {table, "fragments"} <= self.tables:
            return text
        found = self.db.execute(
            f'SELECT content FROM {table} JOIN fragments ON fragments.id = fragment_id WHERE response_id = ? ORDER BY "order"',
            (row.get("id"),),
        )
        return gap.join([*(text_of(content) for (content,) in found), *([text] if text else [])])

    def _attachments(self, row: dict[str, Any]) -> list[str]:
        if not {"prompt_attachments", "attachments"} <= self.tables:
            return []
        found = self.db.execute(
            "SELECT type, coalesce(path, url) FROM prompt_attachments JOIN attachments ON attachments.id = attachment_id"
            ' WHERE response_id = ? ORDER BY "order"',
            (row.get("id"),),
        )
        return [_left_out(kind, name) for kind, name in found]

    def _tools(self, row: dict[str, Any], which: str) -> list[tuple[Any, Any]]:
        if f"tool_{which}" not in self.tables:
            return []
        column = "arguments" if which == "calls" else "output"
        found = self.db.execute(f"SELECT name, {column} FROM tool_{which} WHERE response_id = ? ORDER BY id", (row.get("id"),))
        return list(found)

    # A tree of messages

    def _of_turns(self, id: Any, turns: list[dict[str, Any]], place: str) -> Conversation:
        written = {turn["tip_message_hash"]: turn for turn in reversed(turns)}
        if "threads" in self.tables:
            found = self.db.execute("SELECT tip_message_hash FROM threads WHERE id = ?", (id,)).fetchone()
            first = found[0] if found and found[0] in written else None
        else:
            first = None
        tips = list(dict.fromkeys(filter(None, (first, *(turn["tip_message_hash"] for turn in turns)))))
        known: dict[str, list[Message]] = {}
        paths: list[list[Message]] = []
        covered: set[str] = set()
        for tip in tips:
            if tip in covered or len(paths) > MOST_BRANCHES:
                continue
            way = self._chain(tip)
            covered.update(way)
            path: list[Message] = []
            turn: dict[str, Any] = {}
            for hash in reversed(way):  # from the end: what came before a turn's end is of that turn
                turn = written.get(hash, turn)
                if hash not in known:
                    known[hash] = self._of_message(hash, turn)
                path[:0] = known[hash]
            if any(message.role in ("user", "assistant") for message in path):
                paths.append(path)
        if not paths:
            raise NoChat("has no text in it")
        return self._made(paths, place, id, turns[0])

    def _chain(self, tip: Any) -> list[str]:
        """A message and those before it, the first one first."""
        way: list[str] = []
        seen: set[Any] = set()
        while tip is not None and tip not in seen:  # a damaged tree may go round in circles
            seen.add(tip)
            row = self.db.execute("SELECT parent_hash FROM messages WHERE hash = ?", (tip,)).fetchone()
            if row is None:
                break
            way.append(tip)
            tip = row[0]
        return way[::-1]

    def _of_message(self, hash: str, turn: dict[str, Any]) -> list[Message]:
        (role_name,) = self.db.execute("SELECT role FROM messages WHERE hash = ?", (hash,)).fetchone()
        role = role_of(role_name)
        at = time_of(turn.get("datetime_utc"))
        texts: list[str] = []
        notes: list[str] = []
        missing = 0
        parts = self.db.execute(
            "SELECT type, tool_name, text, payload FROM parts WHERE message_hash = ? ORDER BY position", (hash,)
        )
        for kind, tool, text, payload in parts.fetchall():
            body = _object(payload)
            said = text_of(text) or self._resolved(body)
            if kind == "text":
                texts.append(said)
            elif kind == "reasoning":
                notes += [f"Reasoning: {said}"] if said.strip() else []
            elif kind == "tool_call":
                notes.append(called(tool, body.get("arguments")))
            elif kind == "tool_result":
                notes.append(f"{text_of(tool) or 'Tool'}: {content_of(body.get('output')).text}")
            elif kind == "attachment":
                about = body.get("attachment")
                texts.append(self._attachment(about.get("id") if isinstance(about, dict) else None))
                missing += 1
        out = [Message("note", note, "", at) for note in notes]
        whole = "\n".join(filter(None, texts))
        if whole.strip():
            model = text_of(turn.get("resolved_model")) or text_of(turn.get("model")) if role == "assistant" else ""
            out.append(Message(role, whole, "", at, model, missing=missing))
        return out

    def _resolved(self, body: dict[str, Any]) -> str:
        """A text that is put together of fragments."""
        pieces = body.get("text_ref")
        if not isinstance(pieces, list):
            return text_of(body.get("text"))
        out = []
        for piece in pieces:
            if isinstance(piece, dict) and isinstance(piece.get("fragment"), int):
                found = self.db.execute("SELECT content FROM fragments WHERE id = ?", (piece["fragment"],)).fetchone()
                out.append(text_of(found[0]) if found else "")
            elif isinstance(piece, dict):
                out.append(text_of(piece.get("literal")))
        return "".join(out)

    def _attachment(self, id: Any) -> str:
        found = None
        if isinstance(id, str) and "attachments" in self.tables:
            found = self.db.execute("SELECT type, coalesce(path, url) FROM attachments WHERE id = ?", (id,)).fetchone()
        return _left_out(*found) if found else "[attachment, not imported]"

    def _rows(self, query: str, *values: Any) -> Iterator[dict[str, Any]]:
        cursor = self.db.execute(query, values)
        names = [column[0] for column in cursor.description]
        for row in cursor:
            yield dict(zip(names, row, strict=True))


def _left_out(kind: Any, name: Any) -> str:
    what = text_of(kind).partition("/")[0] or "attachment"
    return f"[{what}{f' {name}' if isinstance(name, str) and name else ''}, not imported]"


def _object(payload: Any) -> dict[str, Any]:
    try:
        body = json.loads(payload) if isinstance(payload, str | bytes) else {}
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}
