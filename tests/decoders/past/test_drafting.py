"""Methods that draft from past answers: what they draft, and that no token of an answer depends on it."""

from __future__ import annotations

import pytest

from specchat.backends.base import Sampling
from specchat.decoders.base import Context, Drafter
from specchat.decoders.methods.fusion import Fusion, FusionParams
from specchat.decoders.methods.lookup import Lookup, LookupParams
from specchat.decoders.methods.suffix import Suffix
from specchat.decoders.past.index import Past
from specchat.decoders.replay import replay

from ...fakes.models.toy import ToyModel

EOS = 2
ANSWER = [*range(40, 80), EOS]


@pytest.fixture
def past() -> Past:
    found = Past()
    found.add([(1, ANSWER)])
    return found


@pytest.mark.parametrize("method", [Lookup, Fusion, Suffix])
def test_an_answer_that_was_given_before_takes_few_passes(method: type[Drafter], past: Past) -> None:
    without = replay([9, 8], ANSWER, method(), eos_ids=(EOS,))
    with_it = replay([9, 8], ANSWER, method(), eos_ids=(EOS,), past=past)
    assert without.tokens == with_it.tokens == len(ANSWER)
    assert without.steps == len(ANSWER)
    assert with_it.steps < len(ANSWER) / 3


@pytest.mark.parametrize("drafter", [Lookup(LookupParams(past=False)), Fusion(FusionParams(past=False))])
def test_it_can_be_turned_off(drafter: Drafter, past: Past) -> None:
    assert replay([9, 8], ANSWER, drafter, eos_ids=(EOS,), past=past).steps == len(ANSWER)


@pytest.mark.parametrize("method", [Lookup, Fusion, Suffix])
@pytest.mark.parametrize("room", [0, 1, 3])
def test_nothing_is_drafted_past_the_end(method: type[Drafter], room: int, past: Past) -> None:
    past.add([(2, [40, 41, EOS, 5, 6])])
    session = ToyModel(1).open_session()
    for tokens in ([1, 40, 41], [70, 71, 72], [77, 78, 79]):
        tree = method().draft(Context(tokens, session, Sampling(), room, frozenset({EOS}), past=past))
        assert max(tree.depths()) <= room
        for node, parent in enumerate(tree.parents):
            assert parent < 0 or tree.tokens[parent] != EOS or parent == 0
            assert tree.tokens[node] >= 0
