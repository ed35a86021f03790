"""Servers in the list of models, and from the shell."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from specchat.app.cli.main import app
from specchat.app.models.servers import FoundServer, ask, server_rows

from ...fakes.model_servers import serving


def test_what_servers_serve() -> None:
    with serving() as other, serving("vLLM") as fake:
        servers = {"work": {"url": fake.url}, "other": {"url": other.url}, "gone": {"url": "http://127.0.0.1:9"}}
        work, many, gone = ask(servers, servers)
    assert work == FoundServer("work", "vLLM", "0.32.0", "speculation K=10", 2048, ("builtin",))
    assert many.models == ("big", "small")
    assert gone.problem.startswith("Nothing answers at 127.0.0.1:9")
    rows = server_rows([work, many, gone], "", "other#small")
    assert [(row.key, row.title, row.mark[0], row.faint) for row in rows[1:]] == [
        (("server", "work"), "work · builtin", "", False),
        (("server", "other#big"), "other · big", "", False),
        (("server", "other#small"), "other · small", "●", False),
        (("server", "gone"), "gone", "", True),
    ]
    assert rows[1].note == "vLLM · speculation K=10"
    assert [row.title for row in server_rows([work, many, gone], "vllm", "")] == ["Servers", "work · builtin"]
    assert server_rows([], "", "") == []


def test_the_shell_tells_what_a_server_serves() -> None:
    with serving() as fake:
        shown = CliRunner().invoke(app, ["models", "--server", fake.url])
        told = json.loads(CliRunner().invoke(app, ["models", "--server", f"{fake.url}/v1", "--json"]).stdout)
    assert shown.stdout.splitlines() == [
        "OpenAI-compatible · decodes with server",
        f"  big: specchat --model '{fake.url}#big'",
        f"  small: specchat --model '{fake.url}#small'",
    ]
    assert told["specs"] == [f"{fake.url}/v1#big", f"{fake.url}/v1#small"]


@pytest.mark.parametrize(
    ("name", "said"), [("builtin", "is not a server"), ("http://127.0.0.1:9", "Nothing answers"), ("http://a:b@c", "password")]
)
def test_what_is_no_server_is_said(name: str, said: str) -> None:
    shown = CliRunner().invoke(app, ["models", "--server", name])
    assert shown.exit_code != 0
    assert said in f"{shown.output} {shown.exception}"
