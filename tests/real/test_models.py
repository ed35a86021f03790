"""Real models: every method writes plain decoding's text, as far as its label says, and that is llama.cpp's own."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from specchat.backends import LoadOptions, Model, Sampling, load_model
from specchat.backends.base import PREFILL_CHUNK
from specchat.backends.grammars.constraint import Constraint
from specchat.decoders import Conversation, encode_prompt
from specchat.engine.client import EngineClient
from specchat.engine.messages import Failed, Finished, Steps
from specchat.engine.options import ModelSelection
from specchat.engine.tasks.peers import same_settings

from ..cases import FULL
from . import models
from .prompts import prompts, sentences

pytestmark = models.suite


def test_races_through_the_engine(model: Model, path: Path, page: models.Page, tmp_path: Path) -> None:
    """Lanes side by side in the engine: all write what plain decoding wrote here."""
    kind, text = prompts(1)[0]
    expected = models.fresh(model, encode_prompt(model, text))
    promised = ["greedy", *models.methods(model, model.info.capabilities.identical)]
    with EngineClient(log=tmp_path / "engine.log") as client:
        drafters = (models.HEAD,) if models.HEAD else ()
        load = client.load(ModelSelection(str(path), threads=models.THREADS, draft_model=drafters))
        failed = [event for event in client.stream(load) if isinstance(event, Failed)]
        assert not failed
        lanes = {client.generate(text, method=name, lane=name, max_tokens=models.TOKENS): name for name in promised}
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
    assert not running
    different = [name for id, name in lanes.items() if tokens[id] != expected]
    page.add(path.name, f"**A race of {len(lanes)} lanes** ({kind}): {len(different)} differ {different or ''}", "")
    assert not different or model.info.capabilities.identical != "identical"


def test_doctor(path: Path, page: models.Page) -> None:
    """`specchat doctor MODEL` says what the model can do, and ends well."""
    ran = subprocess.run([sys.executable, "-m", "specchat", "doctor", str(path)], capture_output=True, text=True, check=False)
    fenced = ["```", *ran.stdout.splitlines(), "```"]
    page.add(path.name, f"**`specchat doctor`** ended with {ran.returncode}:", "", *fenced, "")
    assert "Traceback" not in ran.stdout + ran.stderr
    assert ran.returncode == 0, ran.stderr[-2_000:]


CONTEXT = 2048


@pytest.fixture(scope="module", params=["on", "off"])
def llama_model(request: pytest.FixtureRequest, path: Path) -> Iterator[Model]:
    """A GGUF file with flash attention, or without, and keys and values in half floats."""
    if path.suffix != ".gguf":
        pytest.skip("llama-cpp-python reads GGUF files alone")
    options = LoadOptions(
        threads=models.THREADS, context=CONTEXT, device="cpu", exact="off", flash_attention=request.param, kv_type="f16"
    )
    model = load_model(str(path), options)
    yield model
    model.close()


def theirs(llama: Any, prompt: Sequence[int], ends: Sequence[int]) -> tuple[list[int], list[float]]:
    """The likeliest tokens after a prompt, read as here: all but its last token first; and how far each one led."""
    llama.reset()
    llama._ctx.kv_cache_clear()
    llama.eval(list(prompt[:-1]))
    tokens, leads = [int(prompt[-1])], []
    while len(tokens) <= models.TOKENS and tokens[-1] not in ends:
        llama.eval(tokens[-1:])
        logits = np.ctypeslib.as_array(llama._ctx.get_logits_ith(-1), (llama.n_vocab(),))
        second, first = np.partition(logits, -2)[-2:]
        leads.append(float(first - second))
        tokens.append(int(logits.argmax()))
    return tokens[1:], leads


def test_plain_text_is_llama_cpp_pythons(llama_model: Model, path: Path, page: models.Page) -> None:
    from llama_cpp import Llama

    llama = Llama(str(path), n_ctx=CONTEXT, verbose=False, **same_settings(llama_model))
    parted = []
    for kind, prompt in models.texts(llama_model):
        assert len(prompt) <= PREFILL_CHUNK
        ours = models.fresh(llama_model, prompt)
        expected, leads = theirs(llama, prompt, llama_model.info.eos_ids)
        if ours != expected:
            at = next(i for i, (one, other) in enumerate(zip(ours, expected, strict=False)) if one != other)
            parted.append(f"{kind}: at token {at}, which led by {leads[at]:.2f}")
    flash = "on" if same_settings(llama_model)["flash_attn"] else "off"
    page.add(
        path.name,
        f"Plain text, flash attention {flash}: {len(parted)} of {len(models.texts(llama_model))} differ from llama.cpp's.",
        "",
    )
    llama.close()
    del llama
    gc.collect()
    assert parted == []


Prompts = Sequence[tuple[str, list[int]]]
Write = Callable[[Conversation, Sequence[int], Sampling, models.Tally, int], list[int]]

COLUMNS = ("answers of", "answers", "differ", "tokens a pass", "CPU ÷ plain", "where they part")


class Comparison:
    """Answers of several kinds beside plain decoding's, of the same prompts."""

    def __init__(self, model: Model, prompts: Prompts, samplings: Sequence[Sampling]) -> None:
        self._model = model
        self._prompts = prompts
        self._samplings = samplings
        self.plain = models.Tally()
        self._wanted = {
            (i, sampling): models.fresh(model, prompt, sampling, tally=self.plain)
            for sampling in samplings
            for i, (_, prompt) in enumerate(prompts)
        }
        self.rows: list[Sequence[object]] = [self._row("greedy", self.plain)]

    def run(self, name: str, write: Write) -> models.Tally:
        """Write all answers, in one conversation for each sampling, and note what differs."""
        tally = models.Tally()
        for sampling in self._samplings:
            conversation = models.opened(self._model)
            try:
                for i, (kind, prompt) in enumerate(self._prompts):
                    plain = self._wanted[i, sampling]
                    written = write(conversation, prompt, sampling, tally, i)
                    if where := models.parting(self._model, prompt, plain, written, sampling):
                        tally.different.append(f"{kind} {i}, temperature {sampling.temperature:g}, {where}")
            finally:
                conversation.close()
        self.rows.append(self._row(name, tally))
        return tally

    def _row(self, name: str, tally: models.Tally) -> Sequence[object]:
        cost = tally.seconds / tally.tokens / (self.plain.seconds / self.plain.tokens) if tally.tokens else 0.0
        rate = tally.tokens / tally.passes if tally.passes else 0.0
        figures = [f"{figure:.2f}" if figure else "" for figure in (rate, cost)]
        answers, different = tally.answers or len(self._wanted), tally.different
        return [f"`{name}`", answers, len(different), *figures, "; ".join(different[:3])]


def _method(name: str) -> Write:
    return lambda conversation, prompt, sampling, tally, _: models.answer(conversation, prompt, name, sampling, tally=tally)


def _switching(names: Sequence[str]) -> Write:
    return lambda conversation, prompt, sampling, _, i: models.switching(conversation, prompt, names, sampling, seed=i)


def _compare(model: Model, prompts: Prompts, samplings: Sequence[Sampling]) -> tuple[Comparison, list[str]]:
    """All methods on all prompts, then switching, then plain decoding; and what differs of what is labelled identical."""
    identical = models.methods(model, "identical")
    promised = [*models.methods(model, model.info.capabilities.identical)]
    compared = Comparison(model, prompts, samplings)
    rates = {name: compared.run(name, _method(name)) for name in promised}
    rates["switching"] = compared.run("switching", _switching(["greedy", *promised]))
    rates["greedy"] = compared.run("greedy, after all these", _method("greedy"))
    wrong = {"greedy": rates["greedy"]} | ({name: rates[name] for name in [*identical, "switching"]} if identical else {})
    return compared, [f"{name}: {where}" for name, tally in wrong.items() for where in tally.different]


def test_every_method_writes_plain_decodings_text(model: Model, path: Path, page: models.Page) -> None:
    """At temperature 0 and, with a seed, at 0.8; in a conversation that has had other prompts before."""
    compared, wrong = _compare(model, models.texts(model), (models.GREEDY, models.WARM))
    page.table(path.name, f"Answers of {models.TOKENS} tokens beside plain decoding's", COLUMNS, compared.rows)
    assert not wrong


WINDOW = 512
"""Tokens of the sliding window of Gemma 3, and of others."""


def test_across_a_window(model: Model, path: Path, page: models.Page) -> None:
    """An answer that crosses the end of the model's window, and one in a text that is longer than it."""
    long = model.encode(sentences(Random(5), WINDOW // 5))
    assert len(long) > WINDOW + 100
    # A conversation reads the half of them that is the same once. They part before the first answer, which other passes read.
    half = WINDOW // 2
    prompts = [("crossing", long[: WINDOW - models.TOKENS // 2]), ("beyond", long[:half] + long[-half - 100 :])]
    compared, wrong = _compare(model, prompts, (models.GREEDY, models.WARM) if FULL else (models.GREEDY,))
    page.table(path.name, f"Around {WINDOW:,} tokens", COLUMNS, compared.rows)
    assert not wrong


SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"enum": ["Vienna", "Porto", "Oslo"]},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "name": {"type": "string", "maxLength": 12},
    },
    "required": ["city", "age", "name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("kind", ["json_schema", "regex"])
def test_structured_answers(model: Model, path: Path, page: models.Page, kind: str) -> None:
    """A schema and a regex, with the model's own vocabulary: every method's answer matches, and is plain decoding's."""
    text = json.dumps(SCHEMA) if kind == "json_schema" else r"(yes|no|maybe), because [a-z ]{8,24}\."
    constraint = Constraint("json_schema" if kind == "json_schema" else "regex", text)
    prompt = model.encode("Anna Miller is 31 years old and lives in Vienna. Asked about it, she says:")
    plain = models.fresh(model, prompt, constraint=constraint, tokens=80)
    rows, wrong = [], []
    for name in models.methods(model, model.info.capabilities.identical):
        conversation, tally = models.opened(model), models.Tally()
        try:
            written = models.answer(conversation, prompt, name, constraint=constraint, tokens=80, tally=tally)
        finally:
            conversation.close()
        same = written == plain
        rows.append([f"`{name}`", "yes" if same else "no", f"{tally.tokens / tally.passes:.2f}"])
        wrong += [] if same else [name]
        if kind == "json_schema":
            assert json.loads(model.decode(written)).keys() == {"city", "age", "name"}, name
    title = f"Structured answers ({kind}): `{model.decode(plain).strip()}`"
    page.table(path.name, title, ("method", "plain decoding's", "tokens a pass"), rows)
    assert not wrong or model.info.capabilities.identical != "identical"
