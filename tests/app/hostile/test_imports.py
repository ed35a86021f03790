"""Hostile text in files to import ends in a chat or a sentence. 5,000 cases of each property with SPECCHAT_FULL=1."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.app.chat.entries import Notice
from specchat.app.text.cells import one_line

from ...fakes.hostile_text import CASES, TEXTS, calm


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Any], Any]:
    """Imports a record and opens the chat that comes of it."""
    from specchat.app.history.chats import Chats
    from specchat.app.history.store import Store
    from specchat.app.importing.run import import_files

    folder = tmp_path_factory.mktemp("hostile")

    def keep(record: Any) -> Any:
        for file in folder.glob("*"):
            file.unlink()
        path = folder / "x.json"
        path.write_text(json.dumps(record), encoding="utf-8")
        report = import_files([path], history=folder / "history.db")
        assert all(calm(sentence) for sentence in (report.sentence(), *report.problems()))
        if not report.tally:
            return None
        with Store(folder / "history.db") as store:
            chats = Chats(store)
            (row,) = chats.newest()
            assert calm(row.title)
            assert calm(row.model)
            opened = chats.open(row.id)
            for word in one_line(record["title"]).split()[:2]:
                chats.search(word)
            return opened

    return keep


def test_imported_chats_say_what_was_said(kept: Callable[[Any], Any]) -> None:
    @CASES
    @given(TEXTS, TEXTS)
    def check(title: str, text: str) -> None:
        talk = [
            {"role": "user", "content": f"{text} ?"},
            {"role": text, "content": text},
            {"role": "assistant", "content": f"! {text}"},
        ]
        opened = kept({"id": text, "title": title, "model": text, "messages": talk})
        said = [entry.text for entry in opened.transcript.entries if not isinstance(entry, Notice)]
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")  # JSON puts halves of a pair together
        assert said[0] == f"{whole} ?"
        assert said[-1] == f"! {whole}"
        assert calm(opened.transcript.answers()[0].method)

    check()


KEYS = (
    "messages role content parts text mapping id parent message author metadata current_node title model choices response "
    "request body prompt completion conversations from value chat_messages sender create_time format entries kind type"
).split()

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=5,
        )
    ),
    max_leaves=14,
)


def test_records_of_any_shape_end_in_a_chat_or_a_sentence(tmp_path_factory: pytest.TempPathFactory) -> None:
    from specchat.app.importing.run import import_files

    path = tmp_path_factory.mktemp("shapes") / "x.json"

    @CASES
    @given(st.lists(ANYTHING, max_size=3), st.booleans())
    def check(items: list[Any], lines: bool) -> None:
        path.write_text("\n".join(map(json.dumps, items)) if lines else json.dumps(items), encoding="utf-8")
        report = import_files([path], dry=True, history=path.with_name("none.db"))
        assert all(calm(sentence) and sentence.endswith(".") for sentence in report.problems())

    check()


def test_trees_of_any_shape_end_in_a_chat_or_a_sentence(tmp_path_factory: pytest.TempPathFactory) -> None:
    from specchat.app.history.chats import Chats
    from specchat.app.history.store import Store
    from specchat.app.importing.run import import_files

    folder = tmp_path_factory.mktemp("trees")
    node = st.builds(
        lambda parent, role, text, at: {
            "parent": parent,
            "message": role
            and {"author": {"role": role}, "content": {"content_type": "text", "parts": [text]}, "create_time": at},
        },
        st.sampled_from([None, *"abcdefgh"]),
        st.sampled_from(["user", "assistant", "user", "assistant", "system", "tool", None]),
        st.sampled_from(["x", "y", ""]) | TEXTS,
        st.none() | st.floats(0, 2e9),
    )

    @CASES
    @given(
        st.lists(st.dictionaries(st.sampled_from("abcdefgh"), node, max_size=8), min_size=1, max_size=2),
        st.sampled_from("abcz"),
    )
    def check(trees: list[dict[str, Any]], current: str) -> None:
        for file in folder.glob("*"):
            file.unlink()
        history = folder / "history.db"
        said: set[int] = set()
        for tree in trees:  # the second is a later export of the same conversation
            (folder / "x.json").write_text(json.dumps([{"mapping": tree, "current_node": current, "id": "c", "title": "t"}]))
            assert not any(
                sentence.startswith("x.json cannot") for sentence in import_files([folder / "x.json"], history=history).failed
            )
            again = import_files([folder / "x.json"], history=history)
            assert not again.tally
        with Store(history) as store:
            chats = Chats(store)
            for row in chats.newest():
                transcript = chats.open(row.id).transcript
                for fork in transcript.variants:
                    assert 0 <= fork.at < len(fork.ends)
                    said.update(id(entry) for end in fork.ends for entry in end)
                transcript.messages()

    check()
