"""Chats as files: nothing hostile survives in them, nothing is lost on the way through JSON, and no file is overwritten."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from html.parser import HTMLParser
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from specchat.app.chat.entries import Answer, Notice, Prompt
from specchat.app.chat.transcript import Transcript
from specchat.app.export.formats import Look, SavedChat, chat_chunks
from specchat.app.export.look import visible
from specchat.app.render.verdict import verdict_text
from specchat.app.saved.chat_json import chat_json, read_chat
from specchat.app.text.cells import one_line, sanitise
from specchat.app.theming.colouring import WAYS, Colouring
from specchat.app.theming.themes import STEPS, load_themes
from specchat.engine.messages import StepRecord

from ...cases import cases
from ...fakes.hostile_text import CONTROLS, MARKUP, UNICODE, calm
from ...fakes.thoughts import thinking_steps

PALETTES, _ = load_themes()

# Beside what is hostile anywhere: what a page, a picture or Markdown may take for its own.
HOSTILE = (
    *(*MARKUP, *CONTROLS, *UNICODE, "</div></body>", "<?php", "<style>*{}</style>", "<div\nclass=x>", "    "),
    *("```python\n", "\n\n", "[x]: <y>", "![<b>](<c>)", "`<b>` <i>", "- ```\n  <b>\n  ```\n", "\\<b>"),
)

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
    answer.figures.prompt_tokens, answer.figures.prefill_seconds = draw(st.integers(0, 99999)), draw(seconds)
    return answer


entries = (
    st.builds(Prompt, hostile) | answers() | st.builds(Notice, hostile, st.sampled_from(("information", "warning", "error")))
)
transcripts = st.builds(Transcript, st.lists(entries, max_size=4), st.none() | hostile)
chats = st.builds(
    SavedChat, transcripts, st.just({"name": "<b>\x1bm"}), st.just({"method": "lookup"}), st.just("2026-01-02T03:04:05")
)
many = cases(1250, 40)


def whole(chat: SavedChat, format: str, theme: str = "dark", way: Any = "length") -> str:
    return "".join(chat_chunks(chat, format, Look(PALETTES[theme], way)))


def parts(answer: Answer) -> list[str]:
    """An answer's text in the parts that have a colour of their own."""
    out: list[str] = []
    for run in answer.runs:
        if run.carried:
            out[-1] += run.text[: run.carried]
        out.append(run.text[run.carried :])
    return out


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
@given(chats, st.sampled_from(WAYS))
def test_a_page_holds_the_same_text_and_no_tags_but_ours(chat: SavedChat, way: str) -> None:
    text = whole(chat, "html", "light", way)
    assert calm(text, line=False)
    page = Page(text)
    assert {tag for tag, _ in page.tags} <= set(
        "html head meta title style body header main div span b p details summary".split()
    )
    assert {key for _, attrs in page.tags for key in attrs} <= {
        *("lang", "charset", "http-equiv", "content", "name", "class", "title", "data-method")
    }
    assert not page.strange
    said = [text.rstrip("\n") for kind, text in page.blocks if kind == "answer"]
    wanted = ["".join(map(visible, parts(answer))) for answer in chat.transcript.answers()]
    assert said == [text.rstrip("\n") for text in wanted]
    prompts = [entry.display_text for entry in chat.transcript.entries if isinstance(entry, Prompt)]
    assert [text.strip("\n") for kind, text in page.blocks if kind == "prompt"] == [
        visible(text.strip("\n")).strip("\n") for text in prompts
    ]


def unescaped(text: str) -> str:
    """Markdown with its `<` and brackets as they were, whatever was put before them."""
    return re.sub(r"\\*([<\[\]])", r"\1", text.replace("&lt;", "<"))


@many
@given(chats)
def test_markdown_holds_the_texts_without_raw_html(chat: SavedChat) -> None:
    text = whole(chat, "md")
    assert calm(text, line=False)
    parser = MarkdownIt("commonmark")
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    tokens = parser.parse(text)
    inner = [child for token in tokens for child in token.children or ()]
    assert not [token for token in (*tokens, *inner) if token.type.startswith("html")]
    links = [str(token.attrs.get("href") or token.attrs.get("src") or "") for token in inner]
    assert not [link for link in links if re.match(r"\s*(javascript|vbscript|data|file):", link, re.IGNORECASE)]
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
    told = [verdict_text(answer) for answer in chat.transcript.answers()]
    shown = ["".join(child.content for child in token.children or ()) for token in inline if token.content.startswith("*")]
    assert not Counter(map(one_line, told)) - Counter(shown)


def facts(transcript: Transcript) -> list[Any]:
    """Everything that a chat consists of."""
    out: list[Any] = [transcript.system]
    for entry in transcript.entries:
        if not isinstance(entry, Answer):
            out.append((type(entry), entry.text, getattr(entry, "severity", None)))
            continue
        figures = entry.figures
        out.append((entry.method, entry.label, entry.reason, entry.methods, entry.runs, list(entry.log)))
        out.append((figures.prompt_tokens, figures.tokens, figures.steps, figures.drafted, figures.accepted))
        out.append((figures.prefill_seconds, figures.decode_seconds, entry.totals.runs, list(entry.by_method)))
    return out


@many
@given(transcripts)
def test_a_chat_comes_back_from_json_as_it_was(tmp_path_factory: Any, transcript: Transcript) -> None:
    path = tmp_path_factory.getbasetemp() / "chat.json"
    chat = SavedChat(transcript, {"name": "m"}, {"method": "lookup"}, "2026-01-02T03:04:05", "0.1.0")
    path.write_bytes("".join(chat_json(chat)).encode("utf-8", "backslashreplace"))
    back = read_chat(path)
    assert facts(back.transcript) == facts(transcript)
    assert (back.model, back.settings, back.saved, back.version) == (chat.model, chat.settings, chat.saved, chat.version)


def colours(text: str) -> set[str]:
    return set(re.findall(r"#[0-9a-f]{6}", text))


def test_the_colours_are_those_of_the_theme_and_of_the_way_of_colouring() -> None:
    answer = Answer("lookup", "identical")
    for length in (1, 2, 3, 5, 7, 9, 2, 1):
        answer.add(StepRecord("lookup", list(range(length)), f"{length} tokens ", length, length - 1))
    answer.finish("eos")
    chat = SavedChat(Transcript([Prompt("Hello"), answer]))
    for theme in ("dark", "light"):
        palette = PALETTES[theme]
        tones = {colour for step in STEPS for colour in palette.tone(step)}
        assert tones | {palette.colours["background"]} <= colours(whole(chat, "html", theme, "length"))
        for without in ("underline", "off"):
            assert not colours(whole(chat, "html", theme, without)) & tones
    assert "text-decoration: underline" in whole(chat, "html", "dark", "underline")

    def inks(way: Colouring) -> list[str | None]:
        return [attrs["class"] for tag, attrs in Page(whole(chat, "html", way=way)).tags if tag == "span" and "title" in attrs]

    steps = ("1", "2", "3", "4", "5", "1")
    assert inks("length") == ["run plain", *(f"run heat-{step}" for step in steps), "run plain"]


def test_code_survives_in_markdown() -> None:
    code = "Look:\n\n```html\n<b>bold</b>\n```\n\nand `<i>` too, but not <i>."
    answer = Answer("lookup", "identical")
    answer.add(StepRecord("lookup", [1], code))
    answer.finish("eos")
    text = whole(SavedChat(Transcript([answer])), "md")
    assert "```html\n<b>bold</b>\n```" in text
    assert "not \\<i>." in text


def test_what_a_page_has_no_character_for_is_spelled_out() -> None:
    told = whole(SavedChat(Transcript([Prompt("one\ufffetwo\x1b")])), "html")
    assert "\\ufffe" in told
    assert not set("\ufffe\x1b") & set(told)


@pytest.mark.parametrize("mark", [">", "> ", "- ", "> - ", "1. ", "- > "])
def test_raw_html_is_found_however_deep_it_is_nested(mark: str) -> None:
    for depth, end in product((1, 8, 9, 10, 19, 20, 21, 50), ("<b>", "see <i>", f"\n\n{mark}<b>")):
        text = mark * depth + end
        answer = Answer("lookup", "identical")
        answer.add(StepRecord("lookup", [1], text))
        answer.finish("eos")
        written = whole(SavedChat(Transcript([Prompt(text), answer], text)), "md")
        deep = MarkdownIt("commonmark", {"maxNesting": 300}).parse(written)
        assert not [token for token in (*deep, *(t for d in deep for t in d.children or ())) if token.type.startswith("html")]


def test_thoughts_are_written_where_they_are_asked_for() -> None:
    answer = Answer("lookup", "identical")
    for step in thinking_steps("A <b>lantern</b>?\n\n```\nopen", "By lamp."):
        answer.add(step)
    answer.finish("eos")
    chat = SavedChat(Transcript([Prompt("How?"), answer]))
    alone, both = whole(chat, "md"), "".join(chat_chunks(chat, "md", Look(PALETTES["dark"], thoughts=True)))
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
