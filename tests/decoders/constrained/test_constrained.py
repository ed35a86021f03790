"""Constrained answers: all methods write plain constrained decoding's text, under other rules, limits and stops too."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import jsonschema
import pytest

from specchat.backends import LoadOptions, Model, Sampling, UserError, load_model
from specchat.backends.grammars.constraint import Constraint
from specchat.backends.hf.graphs import Rerun
from specchat.backends.loading import builtin_path
from specchat.decoders import Acceptance, Conversation, Generation, Stops, encode_prompt

from ...cases import FULL
from ...fakes.answers import answered, one_by_one
from ...fakes.constraints import json_schema, regex
from ...fakes.models.llama_tiny import needs_llama
from ...fakes.models.thinkers import ANSWER, FAMILIES, THOUGHT, UNSAID, thinker
from ..test_thoughts import HI, parted
from .cases import CONSTRAINTS, an_object, prompts, valid

MOST = 120 if FULL else 48
PROMPTS = 50 if FULL else 1
SHAPES = [*CONSTRAINTS] if FULL else ["flat", "regex"]


@pytest.fixture(scope="module", params=["transformers", "recorded", "llama.cpp"] if FULL else ["transformers", "llama.cpp"])
def model(request: pytest.FixtureRequest, builtin_model: Model) -> Iterator[Model]:
    """The built-in model on both runtimes; with transformers as passes come, or over buffers that never move, as on a GPU."""
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
    limits = {"max_tokens": MOST, "constraint": CONSTRAINTS[name], **options}
    generation, steps = answered(model, text, method, draft=draft, **limits)
    return generation, "".join(step.text for step in steps)


@pytest.mark.parametrize("rule", ["rejection", "soft:1", "soft:0.5", "typical"] if FULL else ["rejection", "typical"])
def test_other_acceptance_rules_stay_within_the_constraint(model: Model, draft_model: Model, rule: str) -> None:
    for method in ("lookup", "tree", "lookahead", "jacobi"):
        for i, name in enumerate(SHAPES):
            options = {"acceptance": Acceptance.parse(rule), "sampling": Sampling(temperature=0.9, seed=i)}
            generation, text = constrained(model, draft_model, prompts(2)[1], name, method, **options)
            assert generation.valid is valid(name, text) or generation.finish_reason == "length", (method, name, text)


def test_beam_search_follows_a_constraint_and_one_beam_is_greedy(model: Model, draft_model: Model) -> None:
    if not model.info.capabilities.tree:
        pytest.skip("no trees")
    for text in prompts(PROMPTS)[:12]:
        for name in SHAPES:
            one, _ = constrained(model, draft_model, text, name, "beam", settings={"beams": 1})
            assert one.answer == reference(model, text, name, Sampling())
            four, written = constrained(model, draft_model, text, name, "beam")
            assert valid(name, written) or four.finish_reason == "length"


@pytest.mark.parametrize("limit", [1, 3, 9])
def test_a_limit_or_a_stop_cuts_what_the_grammar_writes(model: Model, draft_model: Model, limit: int) -> None:
    text = prompts(1)[0]
    for name in SHAPES:
        whole = reference(model, text, name, Sampling())
        cut, _ = constrained(model, draft_model, text, name, "lookup", max_tokens=limit)
        assert cut.answer == whole[:limit]
        assert cut.valid is (limit >= len(whole))
    generation, written = constrained(model, draft_model, text, "flat", "lookup", stops=Stops(['": '[: limit % 3 + 1]]))
    assert generation.finish_reason == "stop"
    assert not generation.valid
    assert '{"name": '.startswith(written)


@pytest.mark.parametrize("name", SHAPES)
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


METHODS = ("greedy", "lookup", "recycle", "jacobi") if FULL else ("lookup",)
MARKED = [*(name for name in FAMILIES if name != "told"), "unsaid"] if FULL else ["opens", "unsaid"]
"""Families whose marks are tokens: a thought that is opened by spelling its mark out would break the constraint."""


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
            thought, answer = parted([*generation])
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
                _, answer = parted([*generation])
                assert generation.valid, (text, constraint, method, answer)
                assert (answer if constraint.kind == "regex" else json.loads(answer)) == expected
    conversation.close()


SCHEMAS = 300 if FULL else 3
RANDOM_TOKENS = 64
RANDOM_METHODS = ("greedy", "lookup", "tree", "recycle", "fusion")
MARKS = ("<think>", "</s>", "<|end|>", "{{x}}", "é\u4e16\U0001f600", 'a "quote"', "\n")


def simple(rng: Random) -> dict[str, Any]:
    """A schema of a value without parts."""
    low = rng.randint(-20, 20)
    return rng.choice(
        [
            {"type": "string", "maxLength": rng.randint(1, 12)},
            {"type": "string", "pattern": rng.choice(["^[a-z]{2,5}$", r"^\d+(,\d+)?$"]), "maxLength": 8},
            {"type": "string", "format": rng.choice(["date", "time", "ipv4", "uuid"])},
            {"type": "integer", "minimum": low, "maximum": low + rng.randint(0, 500)},
            {"type": "number", "exclusiveMinimum": 0, "maximum": 9, "multipleOf": 0.5},
            {"const": rng.choice([*MARKS, 1, -2.5, None, [], {"a": [1]}])},
            {"enum": rng.sample([*MARKS, 1, 20, True, None], 3)},
        ]
    )


def part(rng: Random, depth: int) -> dict[str, Any]:
    """A schema with others inside."""
    if depth == 0 or rng.random() < 0.3:
        return simple(rng)
    inner = [part(rng, depth - 1) for _ in range(rng.randint(1, 3))]
    names = rng.sample(["name", "age", "a b", "<b>", "id", 'q"', "\u00fc"], len(inner))
    match rng.choice(["object", "object", "array", "tuple", "any", "rest"]):
        case "object":
            required = [name for name in names if rng.random() < 0.7]
            return an_object(**dict(zip(names, inner, strict=True))) | {"required": required}
        case "array":
            least = rng.randint(0, 2)
            return {"type": "array", "items": inner[0], "minItems": least, "maxItems": least + rng.randint(0, 2)}
        case "tuple":
            return {"type": "array", "prefixItems": inner, "items": False, "minItems": len(inner)}
        case "any":
            return {"anyOf": inner}
        case _:
            return {"type": ["object", "null"], "properties": {"v": inner[0], "next": {"$ref": "#/$defs/r"}}, "required": ["v"]}


def schemas(count: int, seed: int = 0) -> Iterator[tuple[dict[str, Any], Constraint]]:
    rng, yielded = Random(seed), 0
    while yielded < count:
        schema = {"$defs": {"r": {"type": ["object", "null"], "maxProperties": 0}}, **part(rng, 3)}
        constraint = json_schema(schema)
        with suppress(UserError):
            constraint.check()
            yielded += 1
            yield schema, constraint


def test_every_method_writes_what_plain_decoding_does_and_jsonschema_takes(model: Model, draft_model: Model) -> None:
    ended = 0
    for i, (schema, constraint) in enumerate(schemas(SCHEMAS)):
        prompt = encode_prompt(model, prompts(i + 1)[i])
        expected = one_by_one(model, prompt, Sampling(), RANDOM_TOKENS, constraint)
        for method in RANDOM_METHODS:
            options: dict[str, Any] = {"max_tokens": RANDOM_TOKENS, "constraint": constraint}
            generation, steps = answered(model, prompt, method, draft=draft_model, **options)
            text = "".join(step.text for step in steps)
            assert generation.answer == expected, (i, method, schema, text)
            assert generation.valid or generation.finish_reason != "eos", (i, method, schema, text)
            if generation.valid:
                ended += 1
                jsonschema.validate(json.loads(text), schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    assert ended
