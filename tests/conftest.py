"""Fixtures that several folders of tests share."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings

from specchat.backends import LoadOptions, Model, load_model
from specchat.backends.loading import builtin_path
from specchat.builtin.recipe.tokenizer import SPECIAL

from .cases import FULL

MASK = SPECIAL.index("<|reserved_0|>")

# As the engine does: OpenMP threads that spin while they wait take the cores from the tests beside them.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Passes cost the same in every run, and a node next to nothing, so that all that is drafted is verified.
os.environ.setdefault("SPECCHAT_PASSES", "1:1 64:1.001")

# Answers that were written down pass for models, in the programs that tests start as well.
os.environ["SPECCHAT_RUNTIME"] = "specchat.tests.fakes.recorded:load_recorded"

# A busy machine takes its time; what hangs is found by pytest-timeout.
settings.register_profile("patient", deadline=None, max_examples=100 if FULL else 40, derandomize=not FULL)
settings.load_profile("patient")

# Full collections look through a million objects of torch and of the tests: half a second each, a sixth of all that the
# interface's tests take.
gc.set_threshold(20_000, 20, 20)

# A shell starts what runs in its background with ctrl+c ignored, and programs that tests start would inherit that.
for _number in (signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # by nohup, which is about the tests alone: a handler is not inherited
    signal.signal(signal.SIGHUP, lambda *_: None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long tests of `make test-all` may take longer before they count as hanging."""
    if FULL:
        for item in items:
            item.add_marker(pytest.mark.timeout(7200))


@pytest.fixture(scope="session", autouse=True)
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test touches the user's chats."""
    os.environ["SPECCHAT_DATA"] = str(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def builtin_model() -> Iterator[Model]:
    """The model that ships with specchat, in float32 on the CPU."""
    model = load_model("builtin", LoadOptions(device="cpu", dtype="float32"))
    yield model
    model.close()


@pytest.fixture(scope="session")
def reference_network() -> Any:
    """The same weights as transformers itself loads them, in float32."""
    from .fakes.models.tiny import network

    return network(builtin_path())


@pytest.fixture(scope="session")
def draft_model(builtin_model: Model) -> Iterator[Model]:
    """A draft model that is often right and often wrong: the built-in target with noise on its weights. It passes for
    a PARD model, though it has never seen its mask token."""
    import torch

    model = load_model("builtin", LoadOptions(device="cpu", dtype="float32"))
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in model._runner.module.parameters():  # type: ignore[attr-defined]
            weight += 0.12 * weight.std() * torch.randn(weight.shape, generator=generator)
    model.info = replace(model.info, pard_token=MASK)
    yield model
    model.close()
