"""Constrained answers under other rules, limits, stops and beams, and behind thoughts."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from specchat.backends import LoadOptions, Model, Sampling, load_model
from specchat.backends.grammars.constraint import json_schema, regex
from specchat.backends.hf.graphs.graphs import Rerun
from specchat.backends.loading import builtin_path
from specchat.decoders import Acceptance, Conversation, Generation, Stops, encode_prompt

from ...cases import FULL
from ...fakes.answers import answered, one_by_one
from ...fakes.models.llama_tiny import needs_llama, tiny_folder
from ...fakes.models.thinkers import ANSWER, FAMILIES, THOUGHT, UNSAID, thinker
from ...fakes.models.tokenizers import metaspace, raw
from .cases import CONSTRAINTS, prompts, valid

MOST = 120 if FULL else 48
PROMPTS = 50 if FULL else 1
SHAPES = [*CONSTRAINTS] if FULL else ["flat", "regex"]


@pytest.fixture(scope="module", params=["transformers", "recorded", "llama.cpp"] if FULL else ["transformers", "llama.cpp"])
def model(request: pytest.FixtureRequest, builtin_model: Model) -> Iterator[Model]:
    """The built-in model on both runtimes; with transformers its passes are launched as they come, or run over buffers that
    never move, as on a GPU."""
    if request.param == "llama.cpp":
        pytest.importorskip("llama_cpp")
        loaded = load_model(str(builtin_path().parent / "target-Q8_0.gguf"), LoadOptions(device="cpu"))
        yield loaded
        loaded.close()
        return
    other: Any = copy(builtin_model)
    other._runner = replace(other._runner, graphs=Rerun if request.param == "recorded" else None)
    yield other


@cache
def reference(model: Model, text: str, name: str, sampling: Sampling) -> list[int]:
    return one_by_one(model, encode_prompt(model, text), sampling, MOST, CONSTRAINTS[name])


def constrained(model: Model, draft: Model, text: str, name: str, method: str, **options: Any) -> tuple[Generation, str]:
    asked = {"max_tokens": MOST, "constraint": CONSTRAINTS[name], **options}
    generation, steps = answered(model, text, method, draft=draft, **asked)
    return generation, "".join(step.text for step in steps)


@pytest.mark.parametrize("rule", ["rejection", "soft:1", "soft:0.5", "typical"] if FULL else ["rejection", "typical"])
def test_other_acceptance_rules_stay_within_the_constraint(model: Model, draft_model: Model, rule: str) -> None:
    for method in ("lookup", "tree", "lookahead", "jacobi"):
        for i, name in enumerate(SHAPES):
            options = {"acceptance": Acceptance.parse(rule), "sampling": Sampling(temperature=0.9, seed=i)}
            generation, shown = constrained(model, draft_model, prompts(2)[1], name, method, **options)
            assert generation.valid is valid(name, shown) or generation.finish_reason == "length", (method, name, shown)


def test_beam_search_follows_a_constraint_and_one_beam_is_greedy(model: Model, draft_model: Model) -> None:
    if not model.info.capabilities.tree:
        pytest.skip("no trees")
    for text in prompts(PROMPTS)[:12]:
        for name in SHAPES:
            one, _ = constrained(model, draft_model, text, name, "beam", settings={"beams": 1})
            assert one.answer == reference(model, text, name, Sampling())
            four, shown = constrained(model, draft_model, text, name, "beam")
            assert valid(name, shown) or four.finish_reason == "length"


@pytest.mark.parametrize("limit", [1, 3, 9])
def test_a_limit_or_a_stop_cuts_what_the_grammar_writes(model: Model, draft_model: Model, limit: int) -> None:
    text = prompts(1)[0]
    for name in SHAPES:
        whole = reference(model, text, name, Sampling())
        cut, _ = constrained(model, draft_model, text, name, "lookup", max_tokens=limit)
        assert cut.answer == whole[:limit]
        assert cut.valid is (limit >= len(whole))
    generation, shown = constrained(model, draft_model, text, "flat", "lookup", stops=Stops(['": '[: limit % 3 + 1]]))
    assert generation.finish_reason == "stop"
    assert not generation.valid
    assert '{"name": '.startswith(shown)


@pytest.mark.parametrize("name", [*CONSTRAINTS])
def test_what_the_grammar_writes_is_counted_apart(builtin_model: Model, draft_model: Model, name: str) -> None:
    """A step without nodes is the grammar's; elsewhere what it leaves no choice about is neither drafted nor accepted."""
    text = prompts(1)[0]
    conversation = Conversation(builtin_model)
    generation = Generation(conversation, encode_prompt(builtin_model, text), constraint=CONSTRAINTS[name], max_tokens=MOST)
    steps = [*generation]
    wrote = [step for step in steps if not step.nodes]
    assert all(step.grammar == len(step.tokens) > 0 for step in wrote)
    assert all(step.grammar == 0 and len(step.tokens) == 1 for step in steps if step.nodes)
    totals = generation.totals
    assert totals.steps == len(steps) - len(wrote)
    assert totals.tokens == totals.steps + totals.grammar
    assert totals.own_tokens_per_step == 1
    # Every token but the last, which nobody reads, goes through the model once.
    assert conversation.session.length in (len(generation.tokens) - 1, len(generation.tokens) - 1 - len(steps[-1].tokens))


@pytest.mark.parametrize("ends", [[99999], [-1]])
def test_leading_spaces_are_shown_and_what_is_complete_ends_without_an_end_token(tmp_path: Path, ends: list[int]) -> None:
    """SentencePiece drops the space before a text; and ids that no token has are no ends."""
    folder = Path(shutil.copytree(tiny_folder(), tmp_path / "model"))
    tokenizer = raw(metaspace(folder))
    tokenizer.chat_template, tokenizer.eos_token = "{% for m in messages %}{{ m.content }}{% endfor %}", None
    tokenizer.save_pretrained(folder)
    for name in ("config.json", "generation_config.json"):
        file = folder / name
        file.write_text(json.dumps({**json.loads(file.read_text()), "eos_token_id": ends}))
    model = load_model(str(folder), LoadOptions(device="cpu"))
    assert model.info.eos_ids == ()
    for pattern, text in ((" hi", " hi"), ("  (a|hi)", None), ("hi", "hi")):
        generation, steps = answered(model, encode_prompt(model, HI), "lookup", max_tokens=9, constraint=regex(pattern))
        shown = "".join(step.text for step in steps)
        assert (generation.finish_reason, generation.valid) == ("eos", True)
        assert re.fullmatch(pattern, shown)
        assert text is None or shown == text
    model.close()


HI = [{"role": "user", "content": "Hi"}]
METHODS = ("greedy", "lookup", "recycle", "jacobi") if FULL else ("lookup",)
MARKED = [*(name for name in FAMILIES if name != "told"), "unsaid"] if FULL else ["opens", "unsaid"]
"""Families whose marks are tokens: a thought that is opened by spelling its mark out would break the constraint."""


def parts(generation: Generation) -> tuple[str, str]:
    told = ["", ""]
    for step in generation:
        at = 0
        for part, characters, _ in step.spans or [[0, len(step.text), 0]]:
            told[part] += step.text[at : at + characters]
            at += characters
    return told[1], told[0]


@pytest.mark.parametrize("runtime", ["transformers", pytest.param("llama.cpp", marks=needs_llama)])
@pytest.mark.parametrize("name", MARKED)
def test_the_answer_alone_is_constrained(name: str, runtime: str) -> None:
    model = thinker(name, runtime)
    variables: dict[str, Any] = FAMILIES[name].on[1] if name in FAMILIES else {}
    for method in METHODS:
        conversation = Conversation(model)
        for pattern, expected in ((r"Yes, [0-9]+\.", ANSWER), (r"(No|Never), [0-9]{2}!", None)):
            prompt = encode_prompt(model, HI, variables=variables)
            generation = Generation(conversation, prompt, method, max_tokens=60, constraint=regex(pattern))
            thought, answer = parts(generation)
            assert thought == THOUGHT, (method, thought, answer)
            assert generation.valid, (method, pattern, answer, generation.finish_reason)
            assert expected is None or answer == expected
        conversation.close()


SPELLED = ("a {0} b", "a {1} b", "{}b{}", "{1} {0}", "\n\n{}x") if FULL else ("{}b{}", "\n\n{}x")


@pytest.mark.parametrize("runtime", ["transformers", pytest.param("llama.cpp", marks=needs_llama)])
@pytest.mark.parametrize("name", [*FAMILIES, "unsaid"] if FULL else ["opens", "told", "unsaid"])
def test_what_a_constraint_spells_is_no_mark(name: str, runtime: str) -> None:
    model = thinker(name, runtime)
    conversation = Conversation(model)
    marks = FAMILIES[name].marks if name in FAMILIES else UNSAID.marks
    for text in (form.format(*marks) for form in (*SPELLED, "a <|end|> b", "<|user|>")):
        table = {"type": "object", "properties": {text: {"const": 1}}, "required": [text], "additionalProperties": False}
        cases = {regex(re.escape(text)): text, json_schema({"const": text}): text, json_schema(table): {text: 1}}
        for constraint, expected in cases.items():
            for method in METHODS:
                prompt = encode_prompt(model, HI)
                generation = Generation(conversation, prompt, method, max_tokens=150, constraint=constraint)
                _, answer = parts(generation)
                assert generation.valid, (text, constraint, method, answer)
                assert (answer if constraint.kind == "regex" else json.loads(answer)) == expected
    conversation.close()
