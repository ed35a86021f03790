"""Passes have as many rows as their products need, and a plain answer has the bits of a new process whatever came before it."""

from __future__ import annotations

import hashlib
import multiprocessing
import random
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import Tensor

from specchat.backends import ROOT, LoadOptions, Sampling
from specchat.backends.hf.model import TransformersModel, load_transformers
from specchat.backends.hf.proving.prove import AMONG, MOST, cancelling, fewest_rows, settled_rows
from specchat.decoders import Conversation, Generation
from specchat.decoders.registry import methods, unavailable

from ...fakes.models.tiny import write_model

WIDE = 2048
"""Inputs of a layer whose products of one row sum otherwise in bfloat16 (oneDNN, AVX-512)."""
STEPS = 12


@pytest.mark.parametrize("fewest", [1, 2, 3, MOST, 12])
def test_products_that_sum_otherwise_among_few_rows_are_told(fewest: int) -> None:
    rows, weight = cancelling(64, 512, torch.bfloat16)

    def product(some: Tensor) -> Tensor:
        order = slice(None) if len(some) >= fewest else torch.arange(511, -1, -1)
        return torch.stack([(row[order] * weight[:, order]).cumsum(-1)[:, -1] for row in some])

    assert not torch.equal(product(rows)[0], product(rows[:1])[0]) or fewest == 1, "nothing but rounding is left of the sums"
    told = settled_rows(product, rows)
    assert told == fewest if fewest <= MOST else MOST < told <= fewest


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("inputs", [640, WIDE])
def test_a_layers_rows_are_alike_from_the_number_found_on(dtype: torch.dtype, inputs: int) -> None:
    layer = torch.nn.Linear(inputs, 300, bias=False, dtype=dtype)
    fewest = fewest_rows(torch.nn.Sequential(layer))
    rows, weight = cancelling(300, inputs, dtype)
    with torch.inference_mode():
        layer.weight.copy_(weight)
        whole = layer(rows)
        for n in range(fewest, max(AMONG)):
            assert torch.equal(layer(rows[-n:]), whole[-n:])


def opened(folder: Path) -> TransformersModel:
    return load_transformers(folder, "wide", LoadOptions(device="cpu", dtype="bfloat16"))


def offered(model: TransformersModel) -> list[str]:
    """The methods that need nothing beside the model and write its plain text."""
    able = model.info.capabilities
    found = (method for method in methods().values() if not unavailable(method, able, draft_model=False, pard=False))
    return [method.name for method in found if method.label == "identical"]


def plain_bits(folder: Path, threads: int, model: TransformersModel | None = None) -> list[str]:
    """The logits of a plain answer's passes, as digests."""
    if model is None:
        torch.set_num_threads(threads)
    session = (model or opened(folder)).open_session()
    session.prefill(range(20, 45))
    token, found = 45, []
    for _ in range(STEPS):
        scores = session.evaluate((token,), (ROOT,), (0,))
        found.append(hashlib.sha256(scores.logits.float().numpy().tobytes()).hexdigest())  # type: ignore[attr-defined]
        token = scores.choose(Sampling(temperature=0.8, seed=7))[0]
        session.commit((0,))
    return found


def test_a_plain_answer_has_the_bits_of_a_new_process_whatever_was_answered_before(tmp_path: Path) -> None:
    folder = write_model("gemma3", tmp_path, hidden_size=256, intermediate_size=WIDE)
    model = opened(folder)
    able = model.info.capabilities
    assert able.exact, "passes of one node have the bits of larger ones"
    assert able.layers, "early ones too"
    threads = torch.get_num_threads()
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        fresh = pool.submit(plain_bits, folder, threads)
        source, names = random.Random(0), offered(model)
        assert {"greedy", "lookup", "suffix", "recycle", "early-exit"} <= set(names)
        conversation = Conversation(model)
        for length, temperature in ((10, 0.8), (70, 0.0)):
            prompt = [source.randrange(4, 40) for _ in range(length)]
            answers = []
            for name in names:
                sampling = Sampling(temperature=temperature, seed=7)
                answer = Generation(conversation, prompt, name, max_tokens=16, sampling=sampling)
                for _ in answer:
                    if source.random() < 0.3 and answer.finish_reason is None:
                        answer.switch(source.choice(names))
                answers.append(answer.answer)
            assert all(answer == answers[0] for answer in answers)
        assert plain_bits(folder, threads, model) == fresh.result()
