"""Methods as a table: odd settings, drafters of other packages, plain decoding as `generate` does it, floors on copies."""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specchat.backends import Model, Sampling, UserError
from specchat.decoders import Conversation, Drafter, Generation, encode_prompt, parse_params, registry
from specchat.decoders.needs import DraftModel, PardModel, TrainedDrafter
from specchat.decoders.registry import methods, unavailable
from specchat.option import declared_options

from ...cases import FULL
from ...fakes.answers import answered, plain
from ...fakes.drafters.heads import tiny_head
from ...fakes.models.llama_tiny import needs_llama, tiny_llama
from ...fakes.models.tiny import generated, smaller_model, tiny_model
from ...fakes.models.toy import ToyModel
from ...fakes.prompts import TEXTS, mixed_prompts

TOKENS = 16
PROMPT = [30, 31, 32, 33, 30, 31, 32, 40, 30, 31]
WRONG: dict[str, tuple[Any, ...]] = {
    "int": ("many", "", 1.5, None, [1], float("nan")), "float": ("much", "", None, float("nan")), "bool": ("perhaps", ""),
    "str": (None, 3),
}  # fmt: skip
"""Type of setting → values of another type."""


def every_field() -> list[Any]:
    return [
        pytest.param(method, name, id=f"{method.name}-{name}")
        for method in methods().values()
        for name in declared_options(method.Params)
    ]


def is_a_sentence(error: BaseException) -> None:
    text = str(error)
    assert text.endswith("."), text
    assert text[0].isupper() or text.startswith(tuple(methods())), text
    assert "\n" not in text
    assert len(text) > 20


@pytest.mark.parametrize(("method", "name"), every_field())
def test_every_value_within_its_range_is_taken_and_others_are_sentences(method: type[Drafter], name: str) -> None:
    param = declared_options(method.Params)[name]
    ends = [end for end in (param.low, param.high) if end is not None]
    for value in (*ends, *param.choices, *((True, "off") if param.type == "bool" else ())):
        parse_params(method, {name: value})
    beyond = [end + (1 if end == param.high else -1) for end in ends]
    for value in (*beyond, *WRONG[param.type], *(("?",) if param.choices else ())):
        with pytest.raises(UserError, match=name) as caught:
            parse_params(method, {name: value})
        is_a_sentence(caught.value)


LETTERS = 9
"""Few enough that nearly every token has been followed by every other one: trees have all branches that they may."""


@pytest.mark.parametrize("name", methods())
@pytest.mark.parametrize("runtime", ["transformers", pytest.param("llama.cpp", marks=needs_llama)])
def test_all_settings_at_the_ends_of_their_ranges(runtime: str, name: str) -> None:
    """`recycle nodes=256` asked llama.cpp for 214 leaves. There the model drafts for itself, with all its branches alive."""
    method = methods()[name]
    target, draft = (tiny_llama(),) * 2 if runtime == "llama.cpp" else (tiny_model("llama"), smaller_model("llama"))
    kind = next((need.kind for need in method.requires if isinstance(need, TrainedDrafter)), None)
    head = tiny_head(kind) if kind and runtime == "transformers" else None
    if unavailable(method, target.info.capabilities, draft_model=True, pard=True, head=head.info if head else None) or (
        runtime == "llama.cpp" and method.needs(PardModel)
    ):
        pytest.skip("not on this runtime")
    rng = random.Random(1)
    prompt = [10 + rng.randrange(LETTERS) for _ in range(120)]
    options = declared_options(method.Params)
    low = {name: option.low for name, option in options.items() if option.low is not None}
    high: dict[str, Any] = {name: option.high for name, option in options.items() if option.high is not None}
    high |= {"layers": 2} if "layers" in high else {}  # below the model's own
    widest = high | ({"floor": 0} if "floor" in high else {})
    longest = {name: option.high for name, option in options.items() if option.length}
    expected = answered(target, prompt, max_tokens=8)[0].answer
    conversation = Conversation(target, draft_model=draft, head=head)
    for settings in (low, widest, high, longest):
        generation = Generation(conversation, prompt, name, settings=settings, max_tokens=8)
        assert [token for step in generation for token in step.tokens] == expected or method.label != "identical", settings
        assert generation.finish_reason in ("length", "eos"), settings
    conversation.close()


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("early-exit", {"layers": 3}, "below the model's 3 layers"), ("early-exit", {"skip": "0,1,2"}, "skip"),
    *((name, {}, "tokenizer differs") for name, method in methods().items() if method.needs(DraftModel)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "settings", "words"), REFUSED, ids=str)
def test_what_a_model_cannot_do_is_a_sentence(draft_model: Model, name: str, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        answered(tiny_model("llama"), PROMPT, name, settings, draft=draft_model, max_tokens=TOKENS)
    is_a_sentence(caught.value)


COPIED_TOKENS = 128 if FULL else 40
PROMPTS = 50 if FULL else 2
RECOMPUTE_PROMPTS = PROMPTS if FULL else 1
"""Without a KV cache each token costs a pass over everything."""


@pytest.mark.parametrize("method", ["greedy", "recompute"])
def test_greedy_tokens_are_those_of_transformers_generate(builtin_model: Model, reference_network: Any, method: str) -> None:
    """The same without an end token, so that every answer has all its tokens; what drafts is held to these methods' text."""
    endless, reference_network.generation_config.eos_token_id = copy(builtin_model), None
    endless.info = replace(endless.info, eos_ids=())
    for text in mixed_prompts(RECOMPUTE_PROMPTS if method == "recompute" else PROMPTS):
        prompt = encode_prompt(endless, text)
        generation, _ = answered(endless, prompt, method, max_tokens=COPIED_TOKENS)
        assert generation.answer == generated(reference_network, prompt, COPIED_TOKENS)


FLOORS: list[tuple[str, dict[str, Any], float]] = [
    ("lookup", {}, 2.0), ("lookup", {"variant": "reference"}, 2.0), ("ngram", {}, 1.5), ("recycle", {}, 1.5),
    ("jacobi", {}, 1.05), ("lookahead", {}, 1.2), ("draft", {}, 1.5), ("early-exit", {"layers": 4}, 1.4),
    ("early-exit", {"layers": 6, "cascade": False}, 1.4), ("tree", {}, 1.5),
]  # fmt: skip
"""The fewest tokens a step on a copy."""
FROM_TEXT = ("lookup", "ngram", "recycle", "jacobi", "lookahead")
COPIES = [f"Repeat this text exactly: {text}" for text in TEXTS]


@pytest.mark.parametrize(("method", "settings", "floor"), FLOORS)
def test_a_copy_takes_few_steps_and_changes_no_token(
    builtin_model: Model, draft_model: Model, method: str, settings: dict[str, Any], floor: float
) -> None:
    for text in COPIES if FULL else COPIES[:1]:
        for sampling in [Sampling()] + [Sampling(temperature=0.8, seed=4)] * (
            FULL or (settings == {} and method not in FROM_TEXT)
        ):
            options: dict[str, Any] = {"sampling": sampling, "max_tokens": COPIED_TOKENS}
            generation, _ = answered(builtin_model, text, method, settings, draft=draft_model, **options)
            assert generation.answer == plain(builtin_model, text, **options)
            assert generation.totals.tokens_per_step >= floor
            assert generation.totals.draft_seconds > 0


MODULE = '''
"""A package that brings drafters; without postponed annotations, as many are written."""
from dataclasses import dataclass

from specchat.decoders import Drafter, Tree, option


@dataclass(frozen=True)
class EchoParams:
    tokens: int = option(3, "Tokens to repeat")


class Echo(Drafter):
    """Drafts what stood `tokens` places before the end."""

    name = "acme-echo"
    summary = "Drafts the last few tokens once more."
    pays = "Where text repeats itself at once."
    Params = EchoParams

    def draft(self, context):
        count = min(self.params.tokens, context.max_depth)
        ends = [i for i, token in enumerate(context.tokens[-count:]) if token in context.eos_ids] if count else []
        draft = list(context.tokens[-count:])[: ends[0] if ends else None] if count else []
        return Tree.chain(context.pending, draft)


class Unfinished(Drafter):
    name = "acme-unfinished"
    summary = pays = ""


class Lookup(Echo):
    name = "lookup"


@dataclass(frozen=True)
class ListParams:
    sizes: list = option((), "Sizes")


class Lists(Echo):
    name = "acme-lists"
    Params = ListParams

'''
POINTS = """[specchat.drafters]
echo = acme_drafters:Echo
unfinished = acme_drafters:Unfinished
taken = acme_drafters:Lookup
lists = acme_drafters:Lists
function = acme_drafters:dataclass
absent = acme_nowhere:Drafter
"""
LEFT_OUT = {
    "unfinished": "does not define draft", "taken": "reuses the name of another method, lookup",
    "lists": "Params is not a dataclass of options", "function": "is not a subclass of specchat.decoders.Drafter",
    "absent": "ModuleNotFoundError",
}  # fmt: skip


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A distribution as pip leaves it on the path."""
    (tmp_path / "acme_drafters.py").write_text(MODULE, encoding="utf-8")
    info = tmp_path / "acme_drafters-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-drafters\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(POINTS, encoding="utf-8")
    (info / "RECORD").write_text("acme_drafters.py,,\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    before = dict(registry._broken)
    registry.methods.cache_clear()
    yield tmp_path
    monkeypatch.undo()
    sys.modules.pop("acme_drafters", None)
    registry.methods.cache_clear()
    registry._broken.clear()
    registry._broken.update(before)
    importlib.invalidate_caches()


def test_a_drafter_of_another_package_is_a_method_like_ours(installed: Path) -> None:
    assert "acme-echo" in methods()
    model, prompt = ToyModel(1), [0, 1, 2, 3, 0, 1]
    conversation = Conversation(model)
    generation = Generation(conversation, prompt, "acme-echo", settings={"tokens": "5"}, max_tokens=200)
    assert sum(step.drafted for step in generation) > 200
    assert generation.totals.accepted > 0
    assert generation.answer == plain(model, prompt, 200)
    with pytest.raises(UserError, match=r"acme-echo.tokens takes a whole number, not 'x'"):
        Generation(conversation, prompt, "acme-echo", settings={"tokens": "x"})
    described = next(entry for entry in registry.describe() if entry["name"] == "acme-echo")
    assert described["params"][0]["type"] == "int"
    assert described["params"][0]["default"] == 3


def test_what_is_no_drafter_is_left_out_with_the_reason(installed: Path) -> None:
    names = list(methods())
    assert [name for name in names if name.startswith("acme")] == ["acme-echo"]
    assert names[: len(registry.BUILT_IN)] == list(registry.BUILT_IN)
    assert methods()["lookup"].__module__ == "specchat.decoders.methods.lookup"
    broken = registry.broken()
    assert broken.keys() == LEFT_OUT.keys()
    for name, words in LEFT_OUT.items():
        assert words in broken[name]
