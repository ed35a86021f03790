"""Real models: every method writes plain decoding's text, as far as its label says, and that is llama.cpp's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from specchat.backends import LoadOptions, Model, Sampling, load_model
from specchat.backends.grammars.constraint import Constraint
from specchat.backends.heads.base import Head
from specchat.backends.loading import find_model
from specchat.decoders import Conversation, Generation, encode_prompt, registry
from specchat.decoders.acceptance import EXACT
from specchat.decoders.base import effective_label
from specchat.engine.client import EngineClient
from specchat.engine.messages import Failed, Finished, Steps
from specchat.engine.options import ModelSelection
from specchat.engine.tasks.peers import same_settings

from ..cases import FULL

FOLDER = os.environ.get("SPECCHAT_REAL", "")
HEAD = os.environ.get("SPECCHAT_REAL_HEAD", "")
"""A trained drafter for all of them, which `eagle` and its like are tested with."""
THREADS = int(os.environ.get("SPECCHAT_REAL_THREADS", "0")) or None
TOKENS = 64 if FULL else 32

GREEDY = Sampling()
WARM = Sampling(temperature=0.8, seed=7)

pytestmark = [
    pytest.mark.skipif(not FOLDER, reason="SPECCHAT_REAL names a folder of models: make test-real runs it"),
    pytest.mark.timeout(7200),
]

STORY = "Once upon a time, Ana lived in an old lighthouse. One evening, Jonas"
TEXT = "Clara counted the boats in the harbour. Hugo read a letter in the library. Greta lit the lamp in the bakery."
PROMPTS = {
    "story": STORY,
    "copy": f"Text: {TEXT}\nThe same text again: Clara counted",
    "code": "def area(w, h):\n    return w * h * 2\n\n\n# The same function with a third argument d:\ndef area(w, h, d):\n",
    "list": "Ten capitals of Europe:\n1. Paris\n2. Berlin\n3. Madrid\n4.",
    "question": "Question: What is a prime number, and what is it good for?\nAnswer:",
    "table": "| name | age | city |\n|---|---|---|\n| Ana | 31 | Porto |\n| Farid | 54 | Oslo |\n| Ines |",
}


def found() -> list[Path]:
    """GGUF files and transformers folders in SPECCHAT_REAL."""
    folder = Path(FOLDER)
    return sorted([*folder.glob("*.gguf"), *(file.parent for file in folder.glob("*/config.json"))]) if FOLDER else []


@pytest.fixture(scope="module", params=found() or [Path("none")], ids=lambda path: path.name)
def path(request: pytest.FixtureRequest) -> Path:
    chosen: Path = request.param
    return chosen


@pytest.fixture(scope="module")
def model(path: Path) -> Iterator[Model]:
    os.environ.pop("SPECCHAT_PASSES", None)  # what passes cost is measured here, not given
    model = load_model(str(path), LoadOptions(threads=THREADS))
    yield model
    head_of.cache_clear()
    model.close()


@cache
def head_of(model: Model) -> Head | None:
    return find_model(HEAD, LoadOptions(threads=THREADS)).beside(HEAD, model) if HEAD else None


def methods(model: Model, label: str) -> list[str]:
    """Methods of a label that the model offers without a draft model."""
    able, head = model.info.capabilities, head_of(model)
    info = None if head is None else head.info
    return [
        name
        for name, method in registry.methods().items()
        if method.drafts
        and not registry.unavailable(method, able, draft_model=False, pard=False, head=info)
        and effective_label(method, EXACT, GREEDY, able) == label
    ]


def answers(
    model: Model, names: Sequence[str], prompts: Sequence[Sequence[int]], sampling: Sampling = GREEDY, **more: Any
) -> list[list[int]]:
    """Write answers in one conversation, by one method, or by several between which each changes at random; print the cost."""
    conversation, rng = Conversation(model, head=head_of(model)), Random(0)
    written, passes, start = [], 0, time.process_time()
    try:
        for prompt in prompts:
            generation = Generation(conversation, prompt, names[0], sampling=sampling, **{"max_tokens": TOKENS, **more})
            while generation.finish_reason is None:
                step = generation.advance()
                passes += step is not None and step.nodes > 0
                if len(names) > 1 and rng.random() < 0.4:
                    generation.switch(rng.choice(names))
            written.append(generation.answer)
    finally:
        conversation.close()
    count = sum(map(len, written)) or 1
    cost = (time.process_time() - start) / count
    print(f"{model.info.name} {names[0]} x {len(names)}: {count / passes:.2f} tokens a pass, {cost:.4f} s of CPU a token")
    return written


def compare(model: Model, prompts: Sequence[Sequence[int]], sampling: Sampling, **more: Any) -> None:
    """All methods of the model's best label, switching between them, and plain decoding after them, against fresh plain
    answers. Methods but for near ties are only counted."""
    label = model.info.capabilities.identical
    names = methods(model, label)
    plain = [answers(model, ["greedy"], [prompt], sampling, **more)[0] for prompt in prompts]
    for names_to_try in (*([name] for name in names), ["greedy", *names], ["greedy"]):
        written = answers(model, names_to_try, prompts, sampling, **more)
        different = [i for i, answer in enumerate(written) if answer != plain[i]]
        print(f"{names_to_try[0]} x {len(names_to_try)}: {len(different)} of {len(prompts)} differ")
        assert not different or label != "identical", (names_to_try, different)


@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "warm"])
def test_every_method_writes_plain_decodings_text(model: Model, sampling: Sampling) -> None:
    compare(model, [encode_prompt(model, text) for text in PROMPTS.values()], sampling)


WINDOW = 512
"""Tokens of the sliding window of Gemma 3, and of others."""


def test_across_a_window(model: Model) -> None:
    """An answer that crosses the end of the model's window, and one in a text that is longer than it."""
    long = model.encode(" ".join(f"{i}. {TEXT}" for i in range(WINDOW // 16)))
    assert len(long) > WINDOW + 100
    # A conversation reads the half of them that is the same once. They part before the first answer, which other passes read.
    half = WINDOW // 2
    compare(model, [long[: WINDOW - TOKENS // 2], long[:half] + long[-half - 100 :]], GREEDY)


SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Vienna", "Porto", "Oslo"]}, "name": {"type": "string", "maxLength": 12}},
    "required": ["city", "name"],
    "additionalProperties": False,
}
CONSTRAINTS = (
    Constraint("json_schema", json.dumps(SCHEMA)),
    Constraint("regex", r"(yes|no|maybe), because [a-z ]{8,24}\."),
)


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=lambda constraint: constraint.kind)
def test_structured_answers(model: Model, constraint: Constraint) -> None:
    prompt = model.encode("Anna Miller lives in Vienna. Asked about it, she says:")
    compare(model, [prompt], GREEDY, constraint=constraint, max_tokens=80)
    (answer,) = answers(model, ["greedy"], [prompt], constraint=constraint, max_tokens=80)
    assert constraint.matches(model.decode(answer))


def test_races_through_the_engine(model: Model, path: Path, tmp_path: Path) -> None:
    """Lanes side by side in the engine: all write what plain decoding wrote here."""
    (expected,) = answers(model, ["greedy"], [encode_prompt(model, STORY)])
    promised = ["greedy", *methods(model, model.info.capabilities.identical)]
    with EngineClient(log=tmp_path / "engine.log") as client:
        load = client.load(ModelSelection(str(path), threads=THREADS, draft_model=(HEAD,) if HEAD else ()))
        assert not [event for event in client.stream(load) if isinstance(event, Failed)]
        lanes = {client.generate(STORY, method=name, lane=name, max_tokens=TOKENS): name for name in promised}
        tokens: dict[int, list[int]] = {id: [] for id in lanes}
        running = set(lanes)
        while running and (event := client.wait(600)) is not None:
            match event:
                case Steps():
                    for step in event.steps:
                        tokens[event.id] += step.tokens
                case Finished():
                    running.discard(event.id)
                case Failed():
                    raise AssertionError(event)
    different = [name for id, name in lanes.items() if tokens[id] != expected]
    assert not running
    assert not different or model.info.capabilities.identical != "identical"


def test_doctor(path: Path) -> None:
    """`specchat doctor MODEL` says what the model can do, and ends well."""
    subprocess.run([sys.executable, "-m", "specchat", "doctor", str(path)], check=True)


CONTEXT = 2048


@pytest.mark.parametrize("flash", ["on", "off"])
def test_plain_text_is_llama_cpps(path: Path, flash: str) -> None:
    """Greedy text with keys and values in half floats."""
    if path.suffix != ".gguf":
        pytest.skip("llama-cpp-python reads GGUF files alone")
    from llama_cpp import Llama

    options = LoadOptions(threads=THREADS, context=CONTEXT, device="cpu", exact="off", flash_attention=flash, kv_type="f16")
    ours: Any = load_model(str(path), options)
    theirs: Any = Llama(str(path), n_ctx=CONTEXT, verbose=False, **same_settings(ours))
    for kind, text in PROMPTS.items():
        prompt = encode_prompt(ours, text)
        # Read as here: all but its last token first.
        theirs.reset()
        theirs._ctx.kv_cache_clear()
        theirs.eval(prompt[:-1])
        tokens = prompt[-1:]
        while len(tokens) <= TOKENS and tokens[-1] not in ours.info.eos_ids:
            theirs.eval(tokens[-1:])
            logits = np.ctypeslib.as_array(theirs._ctx.get_logits_ith(-1), (theirs.n_vocab(),))
            tokens.append(int(logits.argmax()))
        assert answers(ours, ["greedy"], [prompt])[0] == tokens[1:], kind
    theirs.close()
    ours.close()
