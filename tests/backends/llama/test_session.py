"""What a session of llama.cpp promises beside right logits: limits, and that a failure changes nothing."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from specchat.backends import ROOT, ContextFull, UserError
from specchat.backends.llama.context import Context, Weights

from ...fakes.models.llama_tiny import needs_llama, reference, tiny_llama
from ...fakes.models.mirror import Mirror, loose
from ...fakes.models.references import logits_of

pytestmark = needs_llama


@pytest.fixture
def mirror() -> Mirror:
    """A session that has 10 tokens of context."""
    return Mirror(tiny_llama().open_session(10), partial(logits_of, reference()), same=loose)


def test_a_full_context_is_refused_and_nothing_changes(mirror: Mirror) -> None:
    mirror.prefill([5, 6, 7, 8])
    mirror.evaluate([9, 10, 11], [ROOT, ROOT, 0])
    with pytest.raises(ContextFull, match="do not fit"):
        mirror.session.evaluate([1, 2, 3, 4], [ROOT] * 4)
    with pytest.raises(ContextFull, match="The prompt has"):
        mirror.session.prefill([1] * 7)
    mirror.evaluate([9, 10, 11], [2, 1, 4])
    mirror.check()


def test_a_pass_that_fails_leaves_the_session_as_it_was(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    """llama.cpp itself is made to fail, below the session."""
    mirror.prefill([5, 6, 7])
    mirror.evaluate([8, 9], [ROOT, ROOT])
    decode = Context.decode

    def fail(self: Context, *args: Any) -> int:
        decode(self, *args)
        return -3

    with monkeypatch.context() as patch:
        patch.setattr(Context, "decode", fail)
        with pytest.raises(UserError, match="could not evaluate"):
            mirror.session.evaluate([10, 11, 12], [0, 0, ROOT])
    mirror.evaluate([13, 14], [0, 1])
    mirror.check()


def test_what_is_open_when_python_ends_is_left_to_the_process() -> None:
    weights: Any = Weights.__new__(Weights)
    weights.handle, weights.lib = 1, None  # llama.cpp's module is gone
    weights.__del__(lambda: True)
    assert weights.handle == 1
    weights.handle = None
