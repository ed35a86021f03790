"""Fixtures of the suite for real models: each model of the folder, loaded once, and the page."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from specchat.backends import Model, load_model

from .models import FOLDER, Page, found, head_of, options


@pytest.fixture(scope="session")
def page() -> Page:
    return Page(Path(os.environ.get("SPECCHAT_REAL_PAGE") or Path(FOLDER) / "real-models.md"))


@pytest.fixture(scope="session", params=found() or [Path("none")], ids=lambda path: path.name)
def path(request: pytest.FixtureRequest) -> Path:
    chosen: Path = request.param
    return chosen


@pytest.fixture(scope="session")
def model(path: Path, page: Page) -> Iterator[Model]:
    """A loaded model of the folder; its section of the page begins."""
    os.environ.pop("SPECCHAT_PASSES", None)  # what passes cost is measured here, not given
    model = load_model(str(path), options())
    able = model.info.capabilities
    page.add(
        path.name,
        f"{model.info.architecture} in {model.info.dtype} on {model.info.backend}, {model.info.parameters / 1e6:,.0f} M "
        f"parameters, vocabulary {model.info.vocabulary:,}, context {model.info.context:,}. "
        f"Label: *{able.identical}*. Trees: {'yes' if able.tree else 'no'}. Chains: {'yes' if able.chain else 'no'}."
        f"{f' Passes are held to chains of {able.most} nodes.' if able.most else ''}",
        "", *(f"- {reason}" for reason in able.reasons.values()), *(f"- {note}" for note in model.info.notes), "",
    )  # fmt: skip
    yield model
    head_of.cache_clear()
    model.close()
