"""Answers on the pretend GPU and on the CPU, as JSON: `python -m specchat.tests.pretend_gpu.check`."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import device  # isort: skip  (torch learns of the device before anything else imports it)

import torch

from specchat.backends import LoadOptions, Model, Sampling, load_model
from specchat.backends.choose import candidates
from specchat.backends.grammars.constraint import Constraint
from specchat.backends.hf import model as loading
from specchat.backends.hf.graphs import CHOICE
from specchat.backends.loading import builtin_path, find_model
from specchat.decoders import Conversation, Generation, encode_prompt

from ..cases import FULL
from ..fakes.models.tiny import tiny_folder

PROMPTS = ("Tell me a story about a farmer and a fox.", "Repeat this: the quick brown fox jumps over the lazy dog.")
STORY, COPY = PROMPTS[:1], PROMPTS[1:]
TOKENS = 20 if FULL else 12
FREE = ("greedy", "lookup", "suffix", "fusion", "recycle", "ngram", "lookahead", "jacobi", "beam", "auto")
"""Methods that run no model of their own."""


def load(spec: str, where: str, **options: Any) -> Model:
    """Load a model on the pretend GPU or on the CPU."""
    return load_model(spec, LoadOptions(device=where, backend="transformers", **options))


class Case:
    """Answers of one method to all prompts, and what they waited for after their first step."""

    def __init__(self, model: Model, method: str, prompts: Sequence[str], **more: Any) -> None:
        helpers = {key: more.pop(key, None) for key in ("draft_model", "head")}
        self.answers: list[list[int]] = []
        self.label = model.info.capabilities.identical
        self.steps = 0
        self.drafted = 0
        self.waits: Counter[tuple[str, str]] = Counter()
        for prompt in prompts:
            conversation = Conversation(model, **helpers)
            generation = Generation(conversation, encode_prompt(model, prompt), method, max_tokens=TOKENS, **more)
            next(generation)
            before = Counter(device.WAITS)
            self.steps += sum(1 for _ in generation)
            self.waits += Counter(device.WAITS) - before
            self.answers.append(generation.answer)
            self.drafted += generation.totals.drafted
            conversation.close()

    def record(self, other: Case) -> dict[str, Any]:
        """Compare with another case, for the test; `other` is the same on the CPU, or plain decoding on the same device."""
        places = {f"{kind} {place}": round(count / max(1, self.steps), 2) for (kind, place), count in self.waits.items()}
        waits = round(self.waits.total() / max(1, self.steps), 2)
        record = {"same": self.answers == other.answers, "label": self.label, "drafted": self.drafted, "waits": waits}
        return record | {"places": places}


@contextmanager
def recording(choice: str) -> Iterator[None]:
    """Models that are loaded meanwhile record their passes, or do not."""
    before = os.environ.get(CHOICE)
    os.environ[CHOICE] = choice
    try:
        yield
    finally:
        os.environ[CHOICE] = before or ""


@contextmanager
def over_two_devices() -> Iterator[None]:
    """Models that are loaded meanwhile have their second half on another GPU: accelerate's own map goes by sizes of memory."""
    read: Any = loading._read

    def split(folder: Path, config: Any, dtype: Any, where: Any, *rest: Any) -> Any:
        count = json.loads((Path(folder) / "config.json").read_text())["num_hidden_layers"]
        first, second = (torch.device("gpu", number) for number in (0, 1))
        placed = {f"model.layers.{layer}": second if layer >= count // 2 else first for layer in range(count)}
        placed |= {"model.embed_tokens": first, "model.rotary_emb": first, "model.norm": second, "lm_head": first}
        return read(folder, config, dtype, placed, *rest)

    loading._read = split  # type: ignore[assignment]
    try:
        yield
    finally:
        loading._read = read


def fact(same: bool) -> dict[str, Any]:
    """Make a record of something that is no answer."""
    return {"same": same, "label": "identical", "drafted": 1, "waits": 0, "places": {}}


def refuses() -> bool:
    """Return whether a CPU tensor next to a GPU tensor is an error; otherwise the tests could not fail."""
    try:
        torch.ones(2, device="gpu") + torch.ones(2)
    except RuntimeError as error:
        return "expected all tensors to be on the same device" in str(error)
    return False


def cases() -> Iterator[tuple[str, dict[str, Any]]]:
    """Run all cases; in `make test` on one prompt each, and without graphs only some."""
    yield "it refuses what a GPU refuses", fact(refuses())
    logits = torch.randn(4, 2000, generator=torch.Generator().manual_seed(1))
    for count in (1, 3):
        with device.without_float64():
            guesses = candidates(logits.to("gpu"), count, Sampling(), range(4))
        expected = logits.topk(count).indices.tolist()
        yield f"{count} guesses without float64", fact([[token for token, _ in row] for row in guesses] == expected)
    text, model_run = (PROMPTS, PROMPTS) if FULL else (COPY, STORY)
    cpu, drafts = load("builtin", "cpu"), {where: load("builtin-draft", where) for where in ("gpu", "cpu")}
    head_folder = str(builtin_path().parent / "eagle")
    plain = {method: Case(cpu, method, text) for method in FREE}
    for method in ("draft", "tree"):
        plain[method] = Case(cpu, method, model_run, draft_model=drafts["cpu"])
    plain["early-exit"] = Case(cpu, "early-exit", model_run)
    plain["eagle"] = Case(cpu, "eagle", model_run, head=find_model(head_folder).beside(head_folder, cpu))
    for choice, free in (("on", FREE), ("off", FREE if FULL else ("greedy", "recycle"))):
        with recording(choice):
            gpu = load("builtin", "gpu")
        for method in free:
            yield f"{method}, graphs {choice}", Case(gpu, method, text).record(plain[method])
        for method in ("early-exit", "draft", "tree") if FULL or choice == "on" else ("draft",):
            yield f"{method}, graphs {choice}", Case(gpu, method, model_run, draft_model=drafts["gpu"]).record(plain[method])
        if choice == "off" and not FULL:
            continue
        head = find_model(head_folder).beside(head_folder, gpu)
        case = Case(gpu, "fusion", text, head=head)
        yield f"fusion, a head is loaded, graphs {choice}", case.record(plain["fusion"])
        yield f"eagle, graphs {choice}", Case(gpu, "eagle", model_run, head=head).record(plain["eagle"])
    yield "draft on the CPU", Case(gpu, "draft", model_run, draft_model=drafts["cpu"]).record(plain["draft"])
    for name, more in (
        ("sampled", {"sampling": Sampling(temperature=0.8, seed=3, top_p=0.9)}),
        ("penalty", {"sampling": Sampling(repetition_penalty=1.3)}),
        ("constrained", {"constraint": Constraint("regex", "[a-z ]+[.]")}),
    ):
        yield f"recycle, {name}", Case(gpu, "recycle", text, **more).record(Case(cpu, "recycle", text, **more))
    with over_two_devices():
        both = load("builtin", "gpu")
    for method in ("recycle", "beam") if FULL else ("recycle",):
        yield f"{method}, two devices", Case(both, method, text).record(plain[method])
    yield "early-exit, two devices", Case(both, "early-exit", model_run).record(plain["early-exit"])
    for dtype in ("bfloat16", "float16") if FULL else ():
        half = load("builtin", "gpu", dtype=dtype)
        for method, prompts in (("recycle", text), ("early-exit", model_run)):
            yield f"{method}, {dtype}", Case(half, method, prompts).record(Case(half, "greedy", prompts))
    folder = str(tiny_folder("gemma3"))
    window = {where: load(folder, where) for where in ("gpu", "cpu")}
    yield "fusion, a window", Case(window["gpu"], "fusion", text).record(Case(window["cpu"], "fusion", text))


if __name__ == "__main__":
    torch.set_num_threads(1)
    json.dump(dict(cases()), sys.stdout, indent=1)
