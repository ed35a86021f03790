"""Schemas by chance: all methods write the text of plain constrained decoding, and what ends by itself is valid to jsonschema.
The built-in model on both runtimes; where SPECCHAT_REAL names a folder, its first GGUF file in Q8_0 too."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import jsonschema
import pytest

from specchat.backends import LoadOptions, Model, Sampling, UserError, load_model
from specchat.backends.grammars.constraint import Constraint, json_schema
from specchat.backends.loading import builtin_gguf
from specchat.decoders import encode_prompt

from ...cases import FULL
from ...fakes.answers import answered, one_by_one
from .cases import an_object, prompts

SCHEMAS = 300 if FULL else 3
REAL = 30 if FULL else 2
MOST = 64
METHODS = ("greedy", "lookup", "tree", "recycle", "fusion")
MARKS = ("<think>", "</s>", "<|end|>", "[INST]", "<b>x</b>", "{{x}}", "é\u4e16\U0001f600", 'a "quote"', "\\n", "\n")


def simple(rng: Random) -> dict[str, Any]:
    """A schema of a value without parts."""
    low = rng.randint(-20, 20)
    return rng.choice(
        [
            {"type": "string", "maxLength": rng.randint(1, 12)},
            {"type": "string", "pattern": rng.choice(["^[a-z]{2,5}$", "^A-[0-9]{3}$", r"^\d+(,\d+)?$"]), "maxLength": 8},
            {"type": "string", "format": rng.choice(["date", "time", "ipv4", "uuid"])},
            {"type": "integer", "minimum": low, "maximum": low + rng.randint(0, 500)},
            {"type": "number", "exclusiveMinimum": 0, "maximum": 9, "multipleOf": 0.5},
            {"type": rng.choice(["boolean", "null"])},
            {"const": rng.choice([*MARKS, 1, -2.5, None, [], {"a": [1]}])},
            {"enum": rng.sample([*MARKS, 1, 20, True, None], 3)},
            {"type": [rng.choice(["boolean", "null"]), "integer"], "minimum": 0, "maximum": 99},
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
    """Those that can be followed."""
    rng, found = Random(seed), 0
    while found < count:
        schema = {"$defs": {"r": {"type": ["object", "null"], "maxProperties": 0}}, **part(rng, 3)}
        constraint = json_schema(schema)
        with suppress(UserError):
            constraint.check()
            found += 1
            yield schema, constraint


@pytest.fixture(scope="module", params=["transformers", "llama.cpp", "real"])
def model(request: pytest.FixtureRequest, builtin_model: Model) -> Iterator[Model]:
    if request.param == "transformers":
        yield builtin_model
        return
    pytest.importorskip("llama_cpp")
    real = Path(os.environ.get("SPECCHAT_REAL") or "nowhere").glob("*Q8_0.gguf")
    file = builtin_gguf() if request.param == "llama.cpp" else next(real, None)
    if file is None:
        pytest.skip("SPECCHAT_REAL names no folder with a model")
    loaded = load_model(str(file), LoadOptions(device="cpu", context=1024))
    yield loaded
    loaded.close()


def test_every_method_writes_what_plain_decoding_does_and_jsonschema_takes(model: Model, draft_model: Model) -> None:
    ours, ended = model.info.name in ("builtin", str(builtin_gguf())), 0
    for i, (schema, constraint) in enumerate(schemas(SCHEMAS if ours else REAL)):
        prompt = encode_prompt(model, prompts(i + 1)[i])
        expected = one_by_one(model, prompt, Sampling(), MOST, constraint)
        draft = draft_model if ours else None
        for method in METHODS if ours else ("greedy", "lookup", "recycle"):
            generation, steps = answered(model, prompt, method, draft=draft, max_tokens=MOST, constraint=constraint)
            text = "".join(step.text for step in steps)
            assert generation.answer == expected, (i, method, schema, text)
            assert generation.valid or generation.finish_reason != "eos", (i, method, schema, text)
            if generation.valid:
                ended += 1
                jsonschema.validate(json.loads(text), schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    print(f"{ended} ended")
    assert ended
