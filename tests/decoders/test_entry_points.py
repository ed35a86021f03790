"""Drafters of other packages are found through the entry point `specchat.drafters`; broken ones are left out, with a reason."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from specchat.backends import UserError
from specchat.decoders import Conversation, Generation, registry
from specchat.decoders.registry import methods

from ..fakes.answers import plain
from ..fakes.models.toy import ToyModel

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


class Nameless(Drafter):
    summary = pays = ""

    def draft(self, context):
        return Tree.root(context.pending)


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


class Settings(Echo):
    name = "acme-settings"
    Params = dict


def helper():
    pass
'''
POINTS = """[specchat.drafters]
echo = acme_drafters:Echo
nameless = acme_drafters:Nameless
unfinished = acme_drafters:Unfinished
taken = acme_drafters:Lookup
lists = acme_drafters:Lists
settings = acme_drafters:Settings
function = acme_drafters:helper
missing = acme_drafters:Nothing
absent = acme_nowhere:Drafter
"""
LEFT_OUT = {
    "nameless": "does not define name",
    "unfinished": "does not define draft",
    "taken": "reuses the name of another method, lookup",
    "lists": "Params.sizes is no option of a type among str, int",
    "settings": "Params is not a dataclass",
    "function": "is not a subclass of specchat.decoders.Drafter",
    "missing": "AttributeError",
    "absent": "ModuleNotFoundError",
}


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


def test_without_that_package_there_is_no_such_method() -> None:
    assert "acme-echo" not in methods()
    assert not registry.broken()
