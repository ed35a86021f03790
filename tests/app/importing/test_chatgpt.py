"""ChatGPT's export: a tree of messages of many kinds, in a zip or alone."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from specchat.app.history.chats import Chats
from specchat.app.importing.run import Report

from .conftest import said

Bring = Callable[..., Report]
Write = Callable[..., Path]


def node(id: str, parent: str | None, role: str = "", content: Any = None, **more: Any) -> dict[str, Any]:
    """A node as the export has it; without a role, one without a message."""
    if not role:
        return {"id": id, "parent": parent, "children": [], "message": None}
    if isinstance(content, str):
        content = {"content_type": "text", "parts": [content]}
    message = {
        "id": id,
        "author": {"role": role, "name": more.pop("name", None), "metadata": {}},
        "create_time": more.pop("at", 1_700_000_000.0),
        "content": content,
        "status": "finished_successfully",
        "weight": more.pop("weight", 1.0),
        "metadata": more.pop("metadata", {}),
        "recipient": more.pop("recipient", "all"),
    }
    return {"id": id, "parent": parent, "children": [], "message": message}


def export(*nodes: dict[str, Any], current: str, **more: Any) -> dict[str, Any]:
    """A conversation of the export."""
    return {
        "title": "Lamps",
        "create_time": 1_700_000_000.5,
        "update_time": 1_700_000_900.5,
        "mapping": {each["id"]: each for each in nodes},
        "current_node": current,
        "conversation_id": "c-1",
        "default_model_slug": "gpt-4o",
        **more,
    }


MODEL = {"model_slug": "gpt-4o-mini"}

TREE = (
    node("root", None),
    node("system", "root", "system", "", metadata={"is_visually_hidden_from_conversation": True}),
    node(
        "custom",
        "system",
        "user",
        {"content_type": "user_editable_context", "user_profile": "I am Ana.", "user_instructions": ""},
    ),
    node("q", "custom", "user", "Which lamp?"),
    node("a1", "q", "assistant", "The first.", metadata=MODEL, at=1_700_000_100.0),
    node("a2", "q", "assistant", "The second.", metadata=MODEL, at=1_700_000_200.0),
    node("q2", "a2", "user", "Why?"),
    node("a3", "q2", "assistant", "Because.", metadata=MODEL),
)


def test_a_tree_becomes_a_chat_with_its_variants(bring: Bring, chats: Chats, write: Write) -> None:
    report = bring(write("conversations.json", [export(*TREE, current="a3")]))
    assert (report.tally.chats, report.tally.branches, report.tally.messages) == (1, 1, 5)
    row = chats.newest()[0]
    assert (row.title, row.model, row.created, row.changed) == ("Lamps", "gpt-4o-mini", 1_700_000_000.5, 1_700_000_900.5)
    chat = chats.open(row.id)
    assert chat.transcript.system == "I am Ana."
    assert said(chat) == [("prompt", "Which lamp?"), ("answer", "The second."), ("prompt", "Why?"), ("answer", "Because.")]
    entries = chat.transcript.entries
    assert [answer.text for answer in chat.transcript.variants.answers(entries, 2)] == ["The second.", "The first."]


def test_the_way_that_was_shown_is_shown(bring: Bring, chats: Chats, write: Write) -> None:
    bring(write("conversations.json", [export(*TREE, current="a1")]))
    assert said(chats.open(1)) == [("prompt", "Which lamp?"), ("answer", "The first.")]


def test_forks_in_forks_come_back_with_them(bring: Bring, chats: Chats, write: Write) -> None:
    deep = (*TREE, node("a4", "q2", "assistant", "Why not?", at=1_700_000_300.0))
    bring(write("conversations.json", [export(*deep, current="a1")]))
    transcript = chats.open(1).transcript
    fork = transcript.variants.of(transcript.entries, 2)
    assert fork is not None
    transcript.variants.turn(transcript.entries, 2, 1 - fork.at)
    texts = [entry.text for entry in transcript.entries[2:]]
    assert texts[:2] == ["The second.", "Why?"]
    others = transcript.variants.answers(transcript.entries, 4)
    assert {answer.text for answer in others} == {"Because.", "Why not?"}


def test_a_zip_is_read_as_it_was_sent_and_nothing_comes_in_twice(bring: Bring, chats: Chats, tmp_path: Path) -> None:
    path = tmp_path / "renamed.bin"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("user.json", "{}")
        packed.writestr("export/conversations-000.json", json.dumps([export(*TREE, current="a3")]))
        packed.writestr("export/conversations-001.json", json.dumps([export(*TREE, current="a3", conversation_id="c-2")]))
    assert bring(path).tally.chats == 2
    again = bring(path)
    assert (again.tally.chats, again.tally.known, chats.count()) == (0, 2, 2)


def test_a_newer_export_adds_what_is_new_to_the_chat_and_disturbs_nothing(bring: Bring, chats: Chats, write: Write) -> None:
    bring(write("conversations.json", [export(*TREE[:6], current="a2")]))
    chats.rename(1, "My own title")
    grown = [*TREE, node("a4", "q", "assistant", "A third.", metadata=MODEL, at=1_700_000_800.0)]
    report = bring(write("conversations.json", [export(*grown, current="a3")]))
    assert (report.tally.chats, report.tally.continued, report.tally.messages, chats.count()) == (0, 1, 3, 1)
    chat = chats.open(1)
    assert chat.title == "My own title"
    assert [text for _, text in said(chat)] == ["Which lamp?", "The second.", "Why?", "Because."]
    answers = chat.transcript.variants.answers(chat.transcript.entries, 2)
    assert {answer.text for answer in answers} == {"The first.", "The second.", "A third."}


def test_a_deleted_chat_is_not_brought_back(bring: Bring, chats: Chats, write: Write) -> None:
    path = write("conversations.json", [export(*TREE[:6], current="a2")])
    bring(path)
    chats.delete(1)
    assert bring(path).tally.known == 1
    assert chats.count() == 0
    bring(write("conversations.json", [export(*TREE, current="a3")]))
    assert chats.count() == 0


def test_images_tools_code_and_thoughts_are_noted(bring: Bring, chats: Chats, write: Write) -> None:
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x", "width": 9}
    nodes = (
        node("q", None, "user", {"content_type": "multimodal_text", "parts": [picture, "What is that?"]}),
        node("t", "q", "assistant", {"content_type": "thoughts", "thoughts": [{"summary": "s", "content": "A cat?"}]}),
        node("c", "t", "assistant", {"content_type": "code", "language": "python", "text": "look()"}, recipient="python"),
        node("r", "c", "tool", {"content_type": "execution_output", "text": "cat"}, name="python"),
        node("h", "r", "assistant", "hidden", weight=0.0),
        node("a", "h", "assistant", "A cat.", metadata=MODEL),
        node("b", "a", "assistant", {"content_type": "code", "language": "unknown", "text": "x = 1"}),
        node("s", "b", "system", "Be strict."),
        node("e", "s", "user", {"content_type": "never_heard_of", "blob": 1}),
    )
    report = bring(write("conversations.json", [export(*nodes, current="e")]))
    assert said(chats.open(1)) == [
        ("prompt", "[image, not imported]\nWhat is that?"),
        ("notice", "Reasoning: A cat?"),
        ("notice", "Called python(look())"),
        ("notice", "python: cat"),
        ("answer", "A cat.\n\n```\nx = 1\n```"),
        ("notice", "System prompt from here on: Be strict."),
        ("prompt", "[never_heard_of, not imported]"),
    ]
    assert report.tally.missing == 1


def test_an_answer_that_was_cut_off_says_so(bring: Bring, chats: Chats, write: Write) -> None:
    cut = {"finish_details": {"type": "max_tokens"}}
    bring(
        write(
            "conversations.json",
            [export(node("q", None, "user", "Go"), node("a", "q", "assistant", "On and", metadata=cut), current="a")],
        )
    )
    assert chats.open(1).transcript.answers()[0].reason == "imported, cut off at its limit"


def test_damaged_trees_are_named_or_mended(bring: Bring, chats: Chats, write: Write) -> None:
    circle = export(node("q", "a", "user", "Hello"), node("a", "q", "assistant", "Hi"), current="a")
    path = write(
        "conversations.json",
        [circle, export(current="x"), {"mapping": {"a": 5}}, export(*TREE, current="gone", conversation_id="c-9"), 7],
    )
    report = bring(path)
    assert report.tally.chats == 2
    assert [bad.place for bad in report.bad] == [f"conversations.json, record {n}" for n in (2, 3, 5)]


def test_of_very_many_ways_the_newest_are_kept(bring: Bring, chats: Chats, write: Write) -> None:
    many = [node(f"a{i}", "q", "assistant", f"Answer {i}", at=1_700_000_000.0 + i) for i in range(150)]
    report = bring(write("conversations.json", [export(node("q", None, "user", "Go"), *many, current="a3")]))
    assert (report.tally.branches, report.tally.left_out) == (100, 49)
    assert said(chats.open(1)) == [("prompt", "Go"), ("answer", "Answer 3")]
