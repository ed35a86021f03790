"""Chats out of the history as recorded answers: JSONL that `specchat replay` reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from ...errors import UserError
from ..chat.entries import OWN_END
from .chats import OpenedChat, reading

MOST = 2**31


def record(chat: OpenedChat) -> str:
    """A chat as a line: every answer in it is a record, with all that was said before as its prompt. Empty if it has none."""
    messages = chat.transcript.messages()
    if not any(message["role"] == "assistant" for message in messages):
        return ""
    last = chat.transcript.answers()[-1]
    body: dict[str, object] = {"messages": messages}
    if last.reason not in OWN_END:
        body["finish_reason"] = "length"
    return json.dumps(body)


@contextmanager
def recorded(wanted: Sequence[str] = ()) -> Iterator[Path]:
    """The history as a JSONL file, which is gone afterwards.

    Args:
        wanted: only these chats, by number or title; all if there are none.

    Raises:
        UserError: there is no such chat, or none at all with an answer in it.
    """
    from .resume import one_chat

    with TemporaryDirectory(prefix="specchat-") as folder:
        path = Path(folder) / "history.jsonl"
        count = 0
        with reading() as chats, path.open("w", encoding="utf-8") as file:
            rows = [one_chat(chats, text) for text in wanted] if wanted else chats.newest(limit=MOST)
            for row in rows:
                if line := record(chats.open(row.id)):
                    file.write(line + "\n")
                    count += 1
        if not count:
            what = "in these chats" if wanted else "in the history"
            raise UserError(f"There are no answers {what} yet. Ask something with `specchat`.")
        yield path
