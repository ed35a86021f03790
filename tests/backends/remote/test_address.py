"""A server's name, its address and where its key is."""

from __future__ import annotations

from pathlib import Path

import pytest

from specchat.backends import UserError
from specchat.backends.remote.address import Address, find_server, quoted

SERVERS = {
    "work": {"url": "https://llm.example/v1", "model": "big", "key_env": "WORK_KEY"},
    "here": {"url": "http://localhost:8080"},
    "bare": {"model": "big"},
}


@pytest.mark.parametrize(
    ("spec", "root", "model", "key"),
    [
        ("http://localhost:8080", "http://localhost:8080", "", None),
        ("HTTP://localhost:8080/v1/", "http://localhost:8080", "", None),
        ("http://localhost:8080/v1#org/name", "http://localhost:8080", "org/name", None),
        ("https://host/api/v1#a%20b", "https://host/api", "a b", None),
        ("http://[::1]:8080", "http://[::1]:8080", "", None),
        # Without a scheme, and with what is pasted along.
        ("localhost:8080", "http://localhost:8080", "", None),
        ("127.0.0.1:8000/v1#my model", "http://127.0.0.1:8000", "my model", None),
        ("[::1]:8080", "http://[::1]:8080", "", None),
        ("gpu1:11434", "http://gpu1:11434", "", None),
        ("LLM.example:443/v1", "https://llm.example", "big", ("key_env", "WORK_KEY")),
        ("http://localhost:8080/v1/chat/completions", "http://localhost:8080", "", None),
        ("http://localhost:8080/v1/models/", "http://localhost:8080", "", None),
        ("http://localhost:11434/api/chat", "http://localhost:11434", "", None),
        ("https://host/api/v3/chat/completions", "https://host/api/v3", "", None),
        # A model's name as it is, and as it is printed.
        ("http://host/v1#my model 7B", "http://host", "my model 7B", None),
        ("http://host#a#b", "http://host", "a#b", None),
        ("http://host#a%23b", "http://host", "a#b", None),
        ("http://host#50%25off", "http://host", "50%off", None),
        ("work#my model 7B", "https://llm.example", "my model 7B", ("key_env", "WORK_KEY")),
        ("work#a%20b%23c", "https://llm.example", "a b#c", ("key_env", "WORK_KEY")),
        ("work", "https://llm.example", "big", ("key_env", "WORK_KEY")),
        ("work#small", "https://llm.example", "small", ("key_env", "WORK_KEY")),
        # An address has the key of the server that it is the address of, and no other.
        ("https://llm.example#x", "https://llm.example", "x", ("key_env", "WORK_KEY")),
        ("http://llm.example", "http://llm.example", "", None),
        ("https://llm.example.evil", "https://llm.example.evil", "", None),
    ],
)
def test_what_names_a_server(spec: str, root: str, model: str, key: tuple[str, str] | None) -> None:
    assert find_server(spec, SERVERS) == Address(spec, root, model, key)


@pytest.mark.parametrize("name", ["my model 7B", "a#b", "q%20x", "hf.co/unsloth/Q:Q4_K_M", "日本", "a'b\"c", "x\u3000y"])
def test_a_models_name_is_printed_as_one_word_that_means_it(name: str) -> None:
    assert len(quoted(name).split()) == 1
    for server in ("work", "http://host"):
        found = find_server(f"{server}#{quoted(name)}", SERVERS)
        assert found is not None
        assert found.model == name


@pytest.mark.parametrize(
    "spec",
    [
        "builtin",
        "owner/name",
        "./work",
        "model.gguf",
        "ollama:x",
        "recorded:x",
        "Work",
        "qwen3:4b",
        "gemma3:27",
        "a/b:8080",
        "C:\\x",
    ],
)
def test_what_names_another_model(spec: str) -> None:
    assert find_server(spec, SERVERS) is None


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("http://", "is not a server's address"),
        ("http:/localhost:8080", "is not a server's address"),
        ("http://host:99999", "is not a server's address"),
        ("http://ho st", "is not a server's address"),
        ("http://host\n/evil", "is not a server's address"),
        ("http://[::1", "is not a server's address"),
        ("http://me:secret@host", "must not hold a name or password"),
        ("http://host?key=1", "ends before the question mark"),
        ("http://host#a%0ab", "is not a model's name"),
        ("work#a\x1b[2J", "is not a model's name"),
        ("bare", r"\[servers.bare\] has no url"),
    ],
)
def test_what_is_no_address(spec: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        find_server(spec, SERVERS)
    assert "secret" not in str(caught.value)


def test_keys_come_from_the_environment_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORK_KEY", " sk-1 ")
    assert Address("x", "http://h", key=("key_env", "WORK_KEY")).read_key() == "sk-1"
    file = tmp_path / "key"
    file.write_text("sk-2\n")
    assert Address("x", "http://h", key=("key_file", str(file))).read_key() == "sk-2"
    assert Address("x", "http://h").read_key() == ""
    for value in ("a b\r\nX: 1", "", "schlüssel"):
        file.write_text(value)
        with pytest.raises(UserError, match="is empty or has characters that no key has"):
            Address("x", "http://h", key=("key_file", str(file))).read_key()
    for key in (("key_env", "NOT_SET"), ("key_file", str(tmp_path / "none"))):
        with pytest.raises(UserError, match="The server's key should be in"):
            Address("x", "http://h", key=key).read_key()


def test_only_this_machine_is_reached_without_a_proxy() -> None:
    here = ("localhost:1", "127.0.0.9", "[::1]:8", "0.0.0.0:8080", "me.localhost")
    assert [Address("x", f"http://{host}").local for host in (*here, "10.0.0.1", "host")] == [True] * 5 + [False] * 2
