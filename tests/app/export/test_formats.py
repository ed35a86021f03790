"""Chats as files: nothing hostile survives in them, nothing is lost on the way through JSON, and no file is overwritten."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from specchat.app.chat.compare import Mark
from specchat.app.chat.entries import Answer, Notice, Prompt
from specchat.app.chat.runs import SomePieces
from specchat.app.chat.transcript import Transcript
from specchat.app.export.formats import FORMATS, Look, SavedChat, chunks, export, target
from specchat.app.export.html import visible
from specchat.app.export.race_html import photo_finish
from specchat.app.race.record import RaceLane, RaceRecord
from specchat.app.render.verdict import verdict_text
from specchat.app.saved.chat_json import chat_json, read_chat
from specchat.app.text.cells import one_line, sanitise
from specchat.app.theming.colouring import COLOURINGS
from specchat.app.theming.themes import STEPS, load_themes
from specchat.engine.messages import StepRecord
from specchat.errors import UserError

from ...cases import cases
from ...fakes.hostile_text import CONTROLS, MARKUP, UNICODE, calm
from ...fakes.thoughts import thinking_steps
from ..conftest import facts

PALETTES, _ = load_themes()

# Beside what is hostile anywhere: what a page, a picture or Markdown may take for its own.
HOSTILE = [*MARKUP, *CONTROLS, *UNICODE, "</div></body>", "<?php", "<style>*{}</style>", "<div\nclass=x>", "    "]
HOSTILE += ["```python\n", "\n\n", "[x]: <y>", "![<b>](<c>)", "`<b>` <i>", "- ```\n  <b>\n  ```\n", "\\<b>"]

# As the engine's messages bring it: two surrogates that make a character are one.
hostile = st.lists(st.sampled_from(HOSTILE) | st.text(max_size=8), max_size=6).map(
    lambda parts: json.loads(json.dumps("".join(parts)))
)
name = st.text(st.characters(min_codepoint=97, max_codepoint=122), min_size=1, max_size=8)
seconds = st.floats(0, 1e6, width=32)


@st.composite
def steps(draw: Any) -> StepRecord:
    """A step as the loop makes them, its text anything."""
    pick = random.Random(draw(st.integers(0, 2**32)))
    size = pick.choice((0, 0, 1, 2, 5, 9))
    parents = [-1, *(pick.randrange(node) for node in range(1, size))][:size]
    path = [0][:size]
    while path and (children := [node for node in range(size) if parents[node] == path[-1]]) and pick.random() < 0.7:
        path.append(pick.choice(children))
    count = max(1, len(path))
    text = draw(hostile)
    cut, share = sorted((0, len(text), pick.randrange(len(text) + 1)))[1], pick.randrange(count + 1)
    kind = pick.choice((0, 0, 1))
    spans = [[kind, cut, share], [1 - kind, len(text) - cut, count - share]] if pick.random() < 0.3 else []
    drafters = [draw(name) for _ in range(pick.choice((0, 2, 3)))] if size else []
    return StepRecord(
        draw(name),
        [pick.randrange(2**20) for _ in range(count)],
        text,
        drafted=max(0, size - 1),
        accepted=max(0, len(path) - 1),
        nodes=max(1, size),
        draft_seconds=draw(seconds),
        forward_seconds=draw(seconds),
        other_seconds=draw(seconds),
        tree_tokens=[pick.randrange(2**20) for _ in range(size)],
        tree_parents=parents,
        path=path,
        carried=pick.randrange(len(text) + 1) if pick.random() < 0.2 else 0,
        probs=[pick.random() for _ in range(size)] if pick.random() < 0.3 else [],
        note=pick.choice(("", "", "3-gram found 41 tokens back")),
        drafters=drafters,
        sources=[pick.randrange(1 << len(drafters)) for _ in range(size)] if drafters else [],
        shares=[0.25, 0.75] if drafters else [],
        spans=spans,
    )


@st.composite
def answers(draw: Any) -> Answer:
    answer = Answer(draw(name), draw(st.sampled_from(("identical", "same distribution", "lossy"))))
    for step in draw(st.lists(steps(), max_size=6)):
        answer.add(step)
    answer.finish(draw(st.sampled_from(("eos", "length", "cancelled", "died"))), draw(hostile))
    answer.figures.prompt_tokens = draw(st.integers(0, 99999))
    answer.figures.prefill_seconds = draw(seconds)
    return answer


entries = (
    st.builds(Prompt, hostile) | answers() | st.builds(Notice, hostile, st.sampled_from(("information", "warning", "error")))
)
transcripts = st.builds(Transcript, st.lists(entries, max_size=4), st.none() | hostile)
chats = st.builds(
    SavedChat, transcripts, st.just({"name": "<b>\x1bm"}), st.just({"method": "lookup"}), st.just("2026-01-02T03:04:05")
)
many = cases(1250, 40)


def whole(chat: SavedChat, format: str, theme: str = "dark", colouring: Any = "length") -> str:
    return "".join(chunks(chat, format, Look(PALETTES[theme], colouring)))


def parts(answer: Answer) -> list[str]:
    """Split an answer's text into the parts that have one colour each."""
    texts = [text for index in range(len(answer.runs)) for _, text in answer.own_pieces(index)]
    assert "".join(texts) == answer.all_text
    return texts


class Page(HTMLParser):
    """Tags with their attributes, and the text of each kind of block."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.blocks: list[tuple[str, str]] = []
        self.strange: list[str] = []
        self.summing = False
        """Inside what stands for a folded thought."""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.summing = tag == "summary"
        if tag in ("div", "p"):
            self.blocks.append((str(dict(attrs).get("class")), ""))

    def handle_endtag(self, tag: str) -> None:
        self.summing = False

    def handle_data(self, data: str) -> None:
        if self.blocks and not self.summing:
            kind, text = self.blocks[-1]
            self.blocks[-1] = (kind, text + data)

    def handle_comment(self, data: str) -> None:
        self.strange.append(data)

    def unknown_decl(self, data: str) -> None:
        self.strange.append(data)

    def handle_pi(self, data: str) -> None:
        self.strange.append(data)


@many
@given(chats, st.sampled_from(COLOURINGS))
def test_a_page_holds_the_same_text_and_no_tags_but_ours(chat: SavedChat, way: str) -> None:
    text = whole(chat, "html", "light", way)
    assert calm(text, line=False)
    page = Page(text)
    assert {tag for tag, _ in page.tags} <= set(
        "html head meta title style body header main div span b p details summary".split()
    )
    assert {key for _, attrs in page.tags for key in attrs} <= set(
        "lang charset http-equiv content name class title data-method".split()
    )
    assert not page.strange
    said = [text.rstrip("\n") for kind, text in page.blocks if kind == "answer"]
    wanted = ["".join(map(visible, parts(answer))) for answer in chat.transcript.answers()]
    assert said == [text.rstrip("\n") for text in wanted]
    prompts = [entry.display_text for entry in chat.transcript.entries if isinstance(entry, Prompt)]
    assert [text.strip("\n") for kind, text in page.blocks if kind == "prompt"] == [
        visible(text.strip("\n")).strip("\n") for text in prompts
    ]


def unescaped(text: str) -> str:
    """Markdown with its `<` as they were, whatever was put before them."""
    return re.sub(r"\\*<", "<", text.replace("&lt;", "<"))


@many
@given(chats)
def test_markdown_holds_the_texts_without_raw_html(chat: SavedChat) -> None:
    text = whole(chat, "md")
    assert calm(text, line=False)
    tokens = MarkdownIt("commonmark").parse(text)
    inner = [child for token in tokens for child in token.children or ()]
    assert not [token for token in (*tokens, *inner) if token.type.startswith("html")]
    plain = unescaped(text)
    for entry in chat.transcript.entries:
        lines = unescaped(sanitise(entry.text)).strip("\n").split("\n")
        match entry:
            case Answer():
                assert "\n".join(lines) in plain
            case Prompt():
                assert "\n".join(f"> {line}" if line else ">" for line in lines) in plain
    # Whatever an answer opens, its figures stand below it as a paragraph of the page.
    inline = [token for token in tokens if token.type == "inline" and token.level == 1]
    verdicts = [verdict_text(answer) for answer in chat.transcript.answers()]
    emphasised = ["".join(child.content for child in token.children or ()) for token in inline if token.content.startswith("*")]
    assert not Counter(map(one_line, verdicts)) - Counter(emphasised)


@many
@given(transcripts)
def test_a_chat_comes_back_from_json_as_it_was(tmp_path_factory: Any, transcript: Transcript) -> None:
    path = tmp_path_factory.getbasetemp() / "chat.json"
    chat = SavedChat(transcript, {"name": "m"}, {"method": "lookup"}, "2026-01-02T03:04:05", "0.1.0")
    path.write_bytes("".join(chat_json(chat)).encode("utf-8", "backslashreplace"))
    back = read_chat(path)
    assert facts(back.transcript) == facts(transcript)
    assert (back.model, back.settings, back.saved, back.version) == (chat.model, chat.settings, chat.saved, chat.version)


def test_the_colours_are_those_of_the_theme_and_of_the_way_of_colouring() -> None:
    answer = Answer("lookup", "identical")
    for length in (1, 2, 3, 5, 7, 9, 2, 1):
        answer.add(StepRecord("lookup", list(range(length)), f"{length} tokens ", length, length - 1))
    answer.finish("eos")
    chat = SavedChat(Transcript([Prompt("Hello"), answer]))
    for theme in ("dark", "light"):
        palette = PALETTES[theme]
        tones = {colour for step in STEPS for colour in palette.tone(step)}
        assert all(colour in whole(chat, "html", theme, "length") for colour in (*tones, palette.colours["background"]))
        for without in ("underline", "off"):
            assert not any(colour in whole(chat, "html", theme, without) for colour in tones)
    assert "text-decoration: underline" in whole(chat, "html", "dark", "underline")
    spans = [attrs["class"] for tag, attrs in Page(whole(chat, "html")).tags if tag == "span" and "title" in attrs]
    assert spans == ["run plain", *(f"run heat-{step}" for step in (1, 2, 3, 4, 5, 1)), "run plain"]


def test_code_and_what_a_page_has_no_character_for_are_spelled_out() -> None:
    code = "Look:\n\n```html\n<b>bold</b>\n```\n\nand `<i>` too, but not <i>."
    answer = Answer("lookup", "identical")
    answer.add(StepRecord("lookup", [1], code))
    answer.finish("eos")
    chat = SavedChat(Transcript([Prompt("one\ufffetwo\x1b"), answer]))
    text = whole(chat, "md")
    assert "```html\n<b>bold</b>\n```" in text
    assert "not \\<i>." in text
    page = whole(chat, "html")
    assert "\\ufffe" in page
    assert not set("\ufffe\x1b") & set(page)


def test_thoughts_are_written_where_they_are_asked_for() -> None:
    answer = Answer("lookup", "identical")
    for step in thinking_steps("A <b>lantern</b>?\n\n```\nopen", "By lamp."):
        answer.add(step)
    answer.finish("eos")
    chat = SavedChat(Transcript([Prompt("How?"), answer]))
    alone, both = whole(chat, "md"), "".join(chunks(chat, "md", Look(PALETTES["dark"], thoughts=True)))
    assert "By lamp." in alone
    assert "lantern" not in alone
    before, folded, after = re.split(r"</?details>\n", both)
    assert before.removesuffix("\n") + after == alone
    assert folded.startswith("<summary>Thought for 0.")
    # What the thought leaves open does not swallow the answer.
    assert folded.count("```") == 2
    assert "<b>" not in folded.replace("\\<b>", "")
    assert "lantern" in whole(chat, "html")
    assert '<details class="thought"><summary>' in whole(chat, "html")
    assert json.loads(whole(chat, "json"))["entries"][1]["thought"] == answer.thought


def chat() -> SavedChat:
    answer = Answer("lookup", "identical")
    answer.add(StepRecord("lookup", [1, 2], "Hi there", 4, 1, 5, tree_tokens=[9, 1, 8], tree_parents=[-1, 0, 0], path=[0, 1]))
    answer.finish("eos")
    return SavedChat(Transcript([Prompt("Hello"), answer]), {"name": "builtin"})


def look() -> Look:
    return Look(load_themes()[0]["dark"])


def test_a_name_has_a_format_or_gets_one(empty_folder: Path) -> None:
    (empty_folder / "folder").mkdir()
    for name in ("chat", "chat.txt", ".html", "x.html.gz", "folder"):
        with pytest.raises(UserError, match=r"\.html, \.md or \.json"):
            target(name)
    assert target("notes", "html") == Path("notes.html")
    assert target("notes.HTML", "html") == Path("notes.HTML")
    assert target("v1.2", "md") == Path("v1.2.md")
    with pytest.raises(UserError, match=r"ends in \.md, but you asked for html"):
        target("notes.md", "html")
    assert target("folder", "md").parent == Path("folder")
    assert target("", "json").name.startswith("specchat-")


def test_a_file_is_never_overwritten_unasked(empty_folder: Path) -> None:
    paths = [export(chat(), Path("chat.html"), look()) for _ in range(3)]
    assert [path.name for path in paths] == ["chat.html", "chat-2.html", "chat-3.html"]
    (empty_folder / "chat-2.html").write_text("mine")
    (empty_folder / "chat-2.html").chmod(0o640)
    assert export(chat(), Path("chat-2.html"), look(), overwrite=True).name == "chat-2.html"
    assert (empty_folder / "chat-2.html").read_text() == (empty_folder / "chat.html").read_text()
    assert (empty_folder / "chat-2.html").stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(empty_folder)) == ["chat-2.html", "chat-3.html", "chat.html"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_failed_write_leaves_the_files_alone(empty_folder: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool) -> None:
    (empty_folder / "chat.html").write_text("before")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(UserError, match=r"Could not write chat\.html \(No space left on device\)"):
            export(chat(), Path("chat.html"), look(), overwrite)
    assert os.listdir(empty_folder) == ["chat.html"]
    assert (empty_folder / "chat.html").read_text() == "before"
    with pytest.raises(UserError, match="No such file or directory"):
        export(chat(), Path("nowhere/chat.html"), look())
    (empty_folder / "folder.html").mkdir()
    with pytest.raises(UserError, match="not a regular file"):
        export(chat(), Path("folder.html"), look(), overwrite=True)


SPOILT: dict[str, Callable[[Any], object]] = {
    "'entries' is missing": lambda d: d.pop("entries"),
    "no chat of this version": lambda d: d.update(version=2),
    "model: 3 is not dict": lambda d: d.update(model=3),
    "entries[2]: it is no prompt, answer or notice": lambda d: d["entries"].append([]),
    "entries[1]: 'label' is missing": lambda d: d["entries"][1].pop("label"),
    "entries[1]: runs[0]: tokens: '2' is not int": lambda d: d["entries"][1]["runs"][0].update(tokens=[1, "2"]),
    "entries[1]: runs[0]: ": lambda d: d["entries"][1]["runs"][0].update(tokens=[2**40]),
    "runs[0]: there is no shade 17": lambda d: d["entries"][1]["runs"][0].update(shade=17),
    "do not fit together": lambda d: d["entries"][1]["runs"][0]["tree"].update(parents=[-1, 5, 0]),
    "its tree, path, spans and text": lambda d: d["entries"][1]["runs"][0].update(path=[0, 1, 2]),
    "entries[1]: invalid literal": lambda d: d["entries"][1].update(pieces={"x": "y"}),
    "'tokens'": lambda d: d["entries"][1]["figures"].pop("tokens"),
}
"""Words of an error → a change of a saved chat that leads to it."""


@pytest.mark.parametrize("words", SPOILT)
@pytest.mark.usefixtures("empty_folder")
def test_what_is_wrong_in_a_file_is_named(words: str) -> None:
    path = export(chat(), Path("chat.json"), look(), overwrite=True)
    data = json.loads(path.read_text())
    SPOILT[words](data)
    path.write_text(json.dumps(data))
    with pytest.raises(UserError) as caught:
        read_chat(path)
    assert words in str(caught.value)
    assert str(caught.value).startswith("chat.json")
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("empty_folder")
def test_other_files_and_those_that_have_no_end_are_sentences() -> None:
    for content, words in (
        (b"\xff\xfe\x00", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[1]", "no chat"),
        (b'{"format": "\\u001b[31m"}', "no chat"),
    ):
        Path("other.json").write_bytes(content)
        with pytest.raises(UserError, match=rf"other\.json is {words}"):
            read_chat(Path("other.json"))
    os.mkfifo("pipe.json")
    with Path("sparse.json").open("wb") as file:
        file.truncate(10**11)
    for name, words in (("pipe.json", "not a regular file"), ("sparse.json", "larger than 200 MB")):
        with pytest.raises(UserError, match=rf"Cannot read {name}: .*{words}"):
            read_chat(Path(name))


@pytest.mark.parametrize("value", [[], {"a": 1}, -1, "\ud83d\0"], ids=str)
def test_whatever_a_file_says_of_its_model_it_is_exported_again(value: Any) -> None:
    opened = chat()
    opened.model = dict.fromkeys(("asked", "name", "backend", "device", "dtype", "parameters", "layers", "context"), value)
    opened.transcript.answers()[0].asked = {"model": "one"}
    for format in FORMATS:
        assert whole(opened, format)


DARK = load_themes()[0]["dark"]
NASTY = "</span></script><script>alert(1)</script>\x1b[31m\u202e]]>\x00"


def lane(method: str, counts: list[int], step_seconds: float, mark: Mark = "identical", **more: Any) -> RaceLane:
    """A lane whose steps made so many tokens and took so long; the first step's text is hostile."""
    answer = Answer(method, "identical")
    for i, count in enumerate(counts):
        answer.add(
            StepRecord(method, list(range(count)), NASTY if i == 0 else f" word{i}", 6, count - 1, forward_seconds=step_seconds)
        )
    answer.figures.prefill_seconds = 0.5
    answer.finish("eos")
    answer.pieces = SomePieces({0: "a", 1: "b"})
    return RaceLane(method, more.pop("settings", {}), answer, mark=mark, **more)


def race() -> RaceRecord:
    return RaceRecord(
        f"Say it. {NASTY}",
        "builtin",
        [
            lane("greedy", [1] * 12, 0.5, "reference"),
            lane("lookup", [3, 3, 3, 3], 0.5, settings={"max_ngram": 3}),
            lane("fusion", [6, 6], 0.6, "near tie", position=4, gap=0.00012),
        ],
        info={"name": "<b>builtin", "device": "cpu", "dtype": "float32"},
        saved="2026-01-02T03:04:05",
        version="0.1.0",
    )


def race_page(record: RaceRecord) -> str:
    return "".join(chunks(record, "html", Look(DARK)))


def test_a_bar_is_as_long_as_its_lane_is_fast_and_json_has_every_lane() -> None:
    first, second, third = photo_finish(race())
    # Greedy decodes for 6 s, lookup for 2 s, fusion for 1.2 s.
    assert [first.share, second.share, third.share] == pytest.approx([0.2, 0.6, 1.0])
    assert second.speedup == pytest.approx(3.0)
    assert third.mark == "≈ near tie"
    assert third.difference == "from token 5 on, gap 0.00012"
    lanes = json.loads("".join(chunks(race(), "json", Look(DARK))))["lanes"]
    facts = [(lane["lane"], lane["mark"], lane["position"], lane["gap"], len(lane["runs"])) for lane in lanes]
    assert facts[0] == ("greedy", "reference", None, None, 12)
    assert facts[2] == ("fusion", "near tie", 4, 0.00012, 2)


def test_a_race_in_slow_motion_tells_passes_and_no_seconds() -> None:
    page = race_page(replace(race(), slowed=True))
    assert all(re.search(rf"(?<![\d.]){count}( passes|(</|<| \|))", page) for count in (12, 4, 2))
    assert not re.search(r"\b(6\.50|2\.50|1\.70|6\.5|2\.5|1\.7) s\b", page)


def test_the_page_runs_no_script_but_ours_and_replays_at_the_recorded_pace() -> None:
    text = race_page(race())
    page = Page(text)
    assert [tag for tag, _ in page.tags].count("script") == 1
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    policy = next(str(attrs["content"]) for _, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert f"script-src 'sha256-{b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" in policy
    assert "default-src 'none'" in policy
    assert not [attrs for _, attrs in page.tags for key in attrs if key.startswith("on")]
    # Without the script: no button, nothing hidden, the bars where they stood.
    assert "button" not in {tag for tag, _ in page.tags}
    assert not [attrs for _, attrs in page.tags if "later" in str(attrs.get("class"))]
    widths = [str(attrs["style"]).split(";")[0] for _, attrs in page.tags if attrs.get("class") == "bar"]
    assert widths == ["width: 20.0%", "width: 60.0%", "width: 100.0%"]
    times = [int(str(attrs["data-t"])) for _, attrs in page.tags if "data-t" in attrs]
    assert times[12:16] == [500, 1000, 1500, 2000]
