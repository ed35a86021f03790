"""Gemma 4's assistants against transformers' own class, over texts shorter and longer than the window; refusals. The target's
own choices are replaced where two readings are told apart."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from specchat.backends import Sampling, UserError
from specchat.backends.base import ROOT
from specchat.backends.heads.assistant.network import AssistantSession
from specchat.backends.heads.formats import Reading
from specchat.backends.heads.load import LONGEST, TEXT
from specchat.backends.hf.session import TransformersSession

from ...fakes.drafters.heads import load, target
from ...fakes.models.gemma import VOCAB, WINDOW, gemma, gemma_folder, load_assistant, whole_assistants, write_assistant


class Theirs:
    """transformers' target and assistant, each as it is."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModelForCausalLM, Gemma4AssistantForCausalLM

        self.target: Any = AutoModelForCausalLM.from_pretrained(gemma_folder(), dtype=torch.float32)
        with whole_assistants():
            self.assistant: Any = Gemma4AssistantForCausalLM.from_pretrained(folder, dtype=torch.float32)

    def read(self, text: list[int]) -> tuple[Any, Tensor]:
        """What a text leaves for the assistant: keys and values, and the states after the last norm."""
        out = self.target(torch.tensor([text]), output_hidden_states=True, return_shared_kv_states=True)
        return out.shared_kv_states, out.hidden_states[-1][0]

    def step(self, token: int, state: Tensor, shared: Any, position: int) -> tuple[Tensor, Tensor]:
        """Logits and the next state."""
        embedded = self.target.get_input_embeddings()(torch.tensor([[token]]))[0, 0]
        inputs, at = torch.cat((embedded, state))[None, None], torch.tensor([[position]])
        with whole_assistants():
            out = self.assistant(inputs_embeds=inputs, position_ids=at, shared_kv_states=shared)
        return out.logits[0, 0], out.last_hidden_state[0, 0]


@pytest.mark.parametrize("ordered", [False, True])
@torch.no_grad()
def test_what_it_guesses_is_what_transformers_class_guesses(ordered: bool, tmp_path: Path) -> None:
    folder = write_assistant(tmp_path / "assistant", ordered=ordered)
    head, theirs, rng = load_assistant(folder), Theirs(folder), random.Random(4)
    assert (head.info.kind, head.info.title, head.info.taps) == ("eagle", "Gemma 4 assistant", (9,))
    network, _ = head.loaded().args
    text = [rng.randrange(8, VOCAB) for _ in range(31)]
    text_session = gemma().open_session(64, (9,))
    # Under transformers' reading, whichever a random one agrees with more.
    session = AssistantSession(network, Reading((9,)), 64)
    session.follow(text_session)
    for length in (1, 4, WINDOW, WINDOW + 1, WINDOW + 2, 30):
        text_session.prefill(text[text_session.length : length])
        shared, states = theirs.read(text[:length])
        found = session.extend(text[session.length + 1 : length + 1], text_session.states(session.length, length))
        wanted, after = theirs.step(text[length], states[-1], shared, length)
        reached, nodes = {ROOT: after}, [(7, ROOT), (9, ROOT), (11, 0), (13, 2), (15, 1)]
        kept = found.logits[0].isfinite()
        assert int(kept.sum()) == (5 * VOCAB // 64 if ordered else VOCAB)
        torch.testing.assert_close(found.logits[0][kept], wanted[kept], rtol=1e-4, atol=1e-4)
        rows = [session.grow(*zip(*nodes[a:b], strict=True)).logits for a, b in ((0, 2), (2, 3), (3, 5))]
        for node, ((token, parent), row) in enumerate(zip(nodes, torch.cat(rows), strict=True)):
            wanted, reached[node] = theirs.step(token, reached[parent], shared, length)
            kept = row.isfinite()
            torch.testing.assert_close(row[kept], wanted[kept], rtol=1e-4, atol=1e-4)
        session.drop(1)
        again = session.grow([9], [ROOT]).logits[0]
        torch.testing.assert_close(again, rows[0][1])
    text_session.close()


@pytest.mark.parametrize("earlier", [False, True])
def test_of_two_readings_that_is_kept_which_agrees_more_with_the_target(
    earlier: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, tokens = write_assistant(tmp_path / "assistant"), gemma().encode(TEXT)[:LONGEST]
    (network, _), session = load_assistant(folder).loaded().args, gemma().open_session(len(tokens), (9,))
    session.prefill(tokens)
    own = AssistantSession(network, Reading((9,), earlier=earlier), len(tokens))
    own.follow(session)
    pairs = [(tokens[i + 1 : i + 2], session.states(i, i + 1)) for i in range(len(tokens) - 1)]
    guesses = [own.extend(*pair).choose(Sampling())[0] for pair in pairs]
    session.close()
    evaluate = TransformersSession.evaluate

    def agreeing(self: TransformersSession, *args: Any, **options: Any) -> Any:
        """A target that goes on as the assistant guesses under this reading."""
        evaluate(self, *args, **options)
        return SimpleNamespace(choose=lambda _: [0, *guesses])

    monkeypatch.setattr(TransformersSession, "evaluate", agreeing)
    head = load_assistant(folder)
    assert head.loaded().args[1].earlier == earlier
    assert bool(head.info.notes) == earlier
    assert not earlier or "with the position of the last verified token and one row less it agrees" in head.info.notes[0]


def test_another_model_is_no_target(tmp_path: Path) -> None:
    folder = write_assistant(tmp_path / "assistant")
    with pytest.raises(UserError, match="a vocabulary of 2,048 tokens, and target has 256"):
        load(folder, target())
