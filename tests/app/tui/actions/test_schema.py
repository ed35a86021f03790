"""/schema: what answers must match, told in the header and below the answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specchat.app.tui.chat.header import ChatHeader
from specchat.app.tui.transcript.markdown_rows import as_markdown
from specchat.engine.messages import Finished, Generate, StepRecord
from specchat.errors import UserError

from ....fakes.pilots import ask, chatting, settle, shown

SCHEMA = {"title": "Person", "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


async def test_a_schema_is_asked_with_shown_and_taken_back(make_chat: Callable[..., Any], engine: Any, tmp_path: Path) -> None:
    file = tmp_path / "person.json"
    file.write_text(json.dumps(SCHEMA), encoding="utf-8")
    async with chatting(make_chat(), engine, size=(110, 26)) as (app, pilot):
        with pytest.raises(UserError, match=r"/schema: The schema is not JSON \(line 1, column 2"):
            app.actions.command("/schema {'no': 1}")
        app.actions.command(f"/schema {file}")
        await settle(app, pilot)
        header = app.chat_screen.query_one(ChatHeader)
        header.update()
        assert "{} Person" in header.render().plain
        steps = [
            StepRecord("lookup", [1, 2, 3], '{"name": "', nodes=0, grammar=3),
            StepRecord("lookup", [4], "Anna", nodes=4),
            StepRecord("lookup", [5, 6], '"}', nodes=0, grammar=2),
        ]
        await ask(pilot, engine, "Who?", steps, finish=False)
        asked = next(command for command in reversed(engine.sent) if isinstance(command, Generate))
        assert asked.constraint == {"kind": "json_schema", "text": json.dumps(SCHEMA)}
        engine.events.append(Finished(asked.id, "eos", "", 0.1, 1.0, valid=True))
        await settle(app, pilot)
        assert "✓" in shown(app)
        assert "the grammar wrote 5 of 6 tokens" in " ".join(shown(app).split())
        answer = app.dialogue.transcript.answers()[-1]
        assert answer.figures.tokens_per_step == 6
        assert answer.figures.own_tokens_per_step == 1
        assert as_markdown(answer) == '~~~~~~json\n{\n  "name": "Anna"\n}\n~~~~~~'
        app.actions.command("/schema")
        assert app.recent[-1].message == "Answers match Person: name. /schema off ends it."
        app.actions.command("/schema off")
        header.update()
        assert "Person" not in header.render().plain
        assert app.dialogue.options.constraint is None


async def test_a_regex_takes_the_place_of_a_schema(make_chat: Callable[..., Any], engine: Any) -> None:
    app = make_chat(json_object=True)
    async with app.run_test():
        assert app.dialogue.options.constraint == {"kind": "json_object", "text": ""}
        app.actions.command("/schema regex [a-c]+ x")
        assert app.dialogue.options.constraint == {"kind": "regex", "text": "[a-c]+ x"}
        app.actions.command("/schema json")
        assert app.dialogue.options.constraint == {"kind": "json_object", "text": ""}
