"""Gemma 4's assistants against transformers' own class; drafters in GGUF files against the torch ones behind them;
refusals. The target's own choices are replaced where two readings are told apart."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from specchat.backends import ROOT, Sampling, UserError, load_model
from specchat.backends.files.gguf_file import read_layout
from specchat.backends.heads.assistant.network import AssistantSession
from specchat.backends.heads.base import BlockHead, PathHead
from specchat.backends.heads.formats import Reading
from specchat.backends.heads.load import LONGEST, TEXT
from specchat.backends.hf.session import TransformersSession
from specchat.backends.llama.drafters.load import load_gguf_mtp, numbers
from specchat.backends.llama.model import load_llama
from specchat.backends.loading import find_model
from specchat.decoders import Conversation, Generation

from ...cases import FULL
from ...fakes.drafters.gguf_heads import (
    WIDTH,
    dflash_file,
    eagle_file,
    glm_file,
    glm_llama,
    llama_target,
    load_head,
    torch_target,
    write_blocks,
    write_eagle,
)
from ...fakes.drafters.heads import load, target
from ...fakes.drafters.mtp_files import LAYERS, mtp_folder, mtp_target
from ...fakes.models.gemma import (
    VOCAB,
    WINDOW,
    gemma,
    gemma_file,
    gemma_folder,
    gemma_llama,
    load_assistant,
    load_assistant_file,
    random_assistant_file,
    whole_assistants,
    write_assistant,
)
from ...fakes.models.gemma import VOCAB as GEMMA_VOCAB
from ...fakes.models.gemma import WIDTH as GEMMA_WIDTH
from ...fakes.models.gguf_changes import changed
from ...fakes.models.llama_tiny import FLOAT32, needs_llama, room, tiny_llama
from ...zoo import gguf_files as zoo


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


APART = {"F32": 1e-3, "F16": 1e-2, "Q8_0": 0.2}
"""Greatest root-mean-square difference of logits from torch's, in units of their standard deviation. Those of unlike
heads are 1.4 apart; random weights make more of rounding than trained ones, and each kind of CPU rounds in its own way (F32
2.3e-4 on an AMD EPYC)."""


def both(tmp_path: Path, make: Any, write: Any, kind: str, **options: Any) -> list[Any]:
    """A drafter on llama.cpp, and on transformers."""
    heads = [load_head(make(tmp_path / "head", kind, **options)), load_head(write(tmp_path / "head", **options))]
    assert all(isinstance(head, PathHead if write is write_eagle else BlockHead) for head in heads)
    return heads


@needs_llama
@pytest.mark.parametrize("options", [{}, {"layout": "speculators", "drafted": 512}, {"sample_from_anchor": False}])
def test_dsparks_chain_is_that_of_torch(options: dict[str, Any], tmp_path: Path) -> None:
    """In its one pass llama.cpp goes along the likeliest tokens, as torch does token by token."""
    ours, theirs = both(tmp_path, dflash_file, write_blocks, "F32", paths="vanilla", **options)
    assert (ours.info.title, ours.positions) == ("DSpark", theirs.positions)
    states = torch.randn(90, len(ours.info.taps) * WIDTH, generator=torch.Generator().manual_seed(2))
    sessions = [head.open(128) for head in (ours, theirs)]
    for begun, end in ((0, 40), (40, 43), (43, 90)):
        for session in sessions:
            session.extend(states[begun:end])
        rows = sessions[0].guess(9, ours.positions).logits
        found, far = sessions[1].begin(9, ours.positions), []
        for node in range(ours.positions):
            wanted = found.logits[0]
            drafted = wanted.isfinite()
            assert torch.equal(rows[node].isfinite(), drafted)
            far.append(float((rows[node] - wanted)[drafted].square().mean().sqrt() / wanted[drafted].std()))
            assert int(rows[node].argmax()) == int(wanted.argmax())
            if node + 1 < ours.positions:
                found = sessions[1].grow([int(wanted.argmax())], [node])
        assert max(far) < APART["F32"] / 5


@needs_llama
@pytest.mark.parametrize("kind", ["F16", "Q8_0", "Q5_0", "Q4_0"])
def test_tables_are_decoded_as_gguf_does(kind: str, tmp_path: Path) -> None:
    quants: Any = importlib.import_module("gguf.quants")
    reader: Any = importlib.import_module("gguf").GGUFReader
    file = dflash_file(tmp_path / "head", kind, paths="vanilla", rank=32)
    (layout,) = read_layout(file)
    theirs = {tensor.name: quants.dequantize(tensor.data, tensor.tensor_type) for tensor in reader(file).tensors}
    for tensor in layout.tensors:
        if tensor.name.startswith("markov"):
            np.testing.assert_array_equal(numbers(file, tensor).numpy(), theirs[tensor.name])


def assistant_file(folder: Path) -> Path:
    return gemma_file(write_assistant(folder), folder.with_suffix(".gguf"))


MASK, NAMES = "tokenizer.ggml.mask_token_id", "tokenizer.ggml.tokens"
BAD, TWO = "Cannot load head.gguf: .*invalid data", "a vocabulary of 2 tokens, and heads-target has 2,048"
WRONG: dict[str, tuple[Callable[[Path], Path], dict[str, tuple[dict[str, Any], dict[str, Any], str]]]] = {
    "eagle3": (
        partial(eagle_file, drafted=512),
        {
            "width": ({"target_hidden_size": 128}, {}, "hidden states 128 numbers wide, and those of heads-target have 64"),
            "taps": ({"target_layers": [1, 2, 6]}, {}, r"layers that heads-target does not have: it has 6 layers"),
            "two taps": ({"target_layers": [1, 2]}, {}, "one layer and read 3 of the target's. .* 1 layer and reads 2"),
            "no taps": ({"target_layers": None}, {}, r"damaged \(target_layers is None\)"),
            "layers": ({"block_count": 2}, {}, "has 2 layers and reads 3"),
            "no width": ({"target_hidden_size": None}, {}, r"damaged \(target_hidden_size is None\)"),
            "nan": ({}, {"fc.weight": np.full((64, 192), np.nan, np.float32)}, BAD),
            "vocabulary": ({NAMES: [b"a", b"b"]}, {}, TWO),
        },
    ),
    "dflash": (
        dflash_file,
        {
            "width": ({"embedding_length": 128}, {}, "hidden states 128 numbers wide, and those of heads-target have 64"),
            "taps": ({"target_layers": [1, 6]}, {}, r"layers that heads-target does not have: it has 6 layers"),
            "block": ({"block_size": 1}, {}, r"damaged \(block_size is 1\)"),
            "no mask": ({MASK: None}, {}, r"damaged \(mask_token_id is None\)"),
            "mask": ({MASK: 5000}, {}, "uses the token 5,000 as its mask, and heads-target has 2,048 tokens"),
            "nan": ({}, {"fc.weight": np.full((64, 128), np.nan, np.float32)}, BAD),
        },
    ),
    "dflash2": (
        partial(dflash_file, paths="dflash2", candidates=7),
        {
            "a part": ({}, {"d2t": np.arange(512)}, "drafts a part of the vocabulary, which DFlash 2 does not do"),
            "nan": ({}, {"selector_hidden.weight": np.full((12, 64), np.nan, np.float32)}, BAD),
            "vocabulary": ({NAMES: [b"a", b"b"]}, {}, TWO),
        },
    ),
    "gemma4-assistant": (
        assistant_file,
        {
            "nan": ({}, {"output_norm.weight": np.full(16, np.nan, np.float32)}, BAD),
            "clusters": ({}, {"masked_embd_centroids.weight": np.ones((4, 16), np.float32)}, "without masked_embd_centroids"),
            "width": (
                {"embedding_length_out": 48},
                {},
                f"hidden states 48 numbers wide, and those of gemma have {GEMMA_WIDTH}",
            ),
            "no width": ({"embedding_length_out": None}, {}, r"damaged \(embedding_length_out is None\)"),
            "vocabulary": ({NAMES: [b"a", b"b"]}, {}, "a vocabulary of 2 tokens, and gemma has 2,048"),
        },
    ),
}
"""Architecture → how it is written, and what is wrong with it: metadata, tensors, and what is said."""


@needs_llama
@pytest.mark.parametrize(("kind", "case"), [(kind, case) for kind, (_, cases) in WRONG.items() for case in cases])
def test_a_wrong_file_is_refused_in_one_sentence(kind: str, case: str, tmp_path: Path) -> None:
    make, cases = WRONG[kind]
    values, tensors, words = cases[case]
    values = {key if key.startswith("tokenizer.") else f"{kind}.{key}": value for key, value in values.items()}
    file = changed(make(tmp_path / "whole"), tmp_path / "head.gguf", values, tensors)
    with pytest.raises(UserError, match=words) as caught:
        load_head(file, gemma_llama() if kind == "gemma4-assistant" else None)
    assert "\n" not in str(caught.value)


@needs_llama
def test_pairs_that_do_not_go_together(tmp_path: Path) -> None:
    file = eagle_file(tmp_path / "head")
    with pytest.raises(UserError, match=r"trained drafter \(EAGLE-3\) in GGUF, which drafts for models on llama.cpp only"):
        load_head(file, torch_target())
    with pytest.raises(UserError, match=r"is a trained drafter \(EAGLE-3\), not a model of its own"):
        load_model(str(file))
    with pytest.raises(UserError, match="layers that tiny does not have"):
        load_head(file, tiny_llama())


@needs_llama
@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"layout": "deepspec"}, "sample_from_anchor"),
        ({"bias": True}, "biases"),
        ({"hidden": 32, "own_embeddings": True}, "another width than the target's"),
        ({"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 24}, "causal layers beside others"),
        ({"taps": (1, 5)}, "the target's last state"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "scaled rotary embeddings"),
    ],
)
def test_what_llama_cpp_does_not_compute_is_not_written(options: dict[str, Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"llama.cpp has no DFlash drafters with {why}"):
        dflash_file(tmp_path / "head", **options)
    assert not list(tmp_path.glob("*.gguf"))


@needs_llama
def test_its_states_are_the_models_own() -> None:
    model = glm_llama()
    assert model.info.layers == LAYERS
    assert model.info.capabilities.states
    session = model.open_session(64, (1, LAYERS))
    text = [3, 50, 60, 70, 80]
    session.prefill(text)
    theirs = mtp_target("glm4-moe").open_session(64, (1, LAYERS))
    theirs.prefill(text)
    torch.testing.assert_close(session.states(0, 5), theirs.states(0, 5), atol=1e-3, rtol=1e-3)
    with pytest.raises(UserError, match="a vocabulary of 2,048 tokens, and glm has 256"):
        load_head(eagle_file(room() / "for-another"), model)


@needs_llama
def test_files_without_a_layer_that_can_draft(tmp_path: Path) -> None:
    assert load_gguf_mtp(tiny_llama()) is None
    without = load_llama(glm_file(mtp_folder("glm4-moe"), tmp_path / "without.gguf", mtp=False), "without", FLOAT32)
    assert load_gguf_mtp(without) is None
    without.open_session(64).prefill([3, 4, 5])
    without.close()
    whole = glm_file(mtp_folder("glm4-moe"), tmp_path / "whole.gguf")
    alone = changed(whole, tmp_path / "alone.gguf", {}, {"blk.0.attn_norm.weight": None})
    with pytest.raises(UserError, match="contains a model's MTP layer alone"):
        load_llama(alone, "alone", FLOAT32)


DRAFTING = ("glm4moe", "cohere2moe", "qwen35", "qwen35moe", "qwen3next", "nemotron_h_moe", "bailingmoe3", "hy_v3", "step35")
NOT = ("mimo2",)
"""Architectures of which llama.cpp wants tensors that the file does not have."""


@needs_llama
@pytest.mark.parametrize("architecture", (*DRAFTING, *NOT) if FULL else ("qwen3next", "mimo2"))
def test_which_architectures_draft_with_their_own_layer_is_found_by_trying(
    architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECCHAT_CACHE", str(tmp_path))
    model = load_llama(zoo.write(f"{architecture}-mtp", tmp_path / "model.gguf"), architecture, FLOAT32)
    model.info = replace(model.info, eos_ids=())
    if architecture in NOT:
        with pytest.raises(UserError, match=f"does not draft with the MTP layers of {architecture} models"):
            load_gguf_mtp(model)
        model.open_session(64).prefill([5, 6, 7])
        model.close()
        return
    head = load_gguf_mtp(model)
    assert head is not None
    for number in range(20 if FULL else 1):
        prompt = [(31 * i * (number + 1) + 7) % 2000 + 8 for i in range(5 + number)]
        texts = []
        for method in ("greedy", "mtp", "lookup"):  # the last in a session that hands out states, too
            conversation = Conversation(model, head=head, context=128)
            generation = Generation(conversation, prompt, method, max_tokens=48 if FULL else 12)
            drafted = sum(step.drafted for step in generation)
            assert drafted or method != "mtp"
            texts.append(generation.answer)
            # The states are those of the text, whatever was refused on its way.
            end, layers = conversation.session.length, model.info.layers
            single = model.open_session(128, (layers,))
            for token in conversation.session.tokens:
                single.evaluate([token], (ROOT,))
                single.commit((0,))
            torch.testing.assert_close(conversation.session.states(0, end), single.states(0, end), atol=5e-3, rtol=1e-3)
            single.close()
            conversation.close()
        assert texts[0] == texts[1] == texts[2]
    model.close()


@needs_llama
@pytest.mark.parametrize("ordered", [False, True])
def test_its_scores_are_those_of_torch(ordered: bool, tmp_path: Path) -> None:
    folder = write_assistant(tmp_path / "assistant", ordered=ordered)
    ours, theirs, rng = load_assistant_file(gemma_file(folder, tmp_path / "a.gguf")), load_assistant(folder), random.Random(4)
    assert (ours.info.kind, ours.info.title, ours.info.taps) == ("eagle", "Gemma 4 assistant", (9,))
    network, _ = theirs.loaded().args
    theirs = PathHead(theirs.info, partial(AssistantSession, network, Reading((9,))))
    network.window = WINDOW - 2  # rows beside its own; llama.cpp's window is two rows shorter than transformers'
    text, ends = [rng.randrange(8, GEMMA_VOCAB) for _ in range(31)], (1, 4, WINDOW - 1, WINDOW, WINDOW + 2, 30)
    found: list[list[torch.Tensor]] = []
    pairs: tuple[tuple[Any, Any], ...] = ((gemma_llama(), ours), (gemma(), theirs))
    for model, head in pairs:
        target, rows = model.open_session(64, (9,)), []
        session: Any = head.open(64)
        session.follow(target)
        for end in ends:
            target.prefill(text[target.length : end])
            rows.append(session.extend(text[session.length + 1 : end + 1], target.states(session.length, end)).logits)
            rows += [session.grow(*nodes).logits for nodes in (([7, 9], [ROOT, ROOT]), ([11, 13, 15], [0, 0, 1]), ([17], [4]))]
        found.append(rows)
    for a, b in zip(*found, strict=True):
        drafted = b.isfinite()
        far = (a - b).where(drafted, 0.0).square().mean(-1).sqrt() / b[drafted].std()
        assert far.max() < 0.02  # the states are apart a little, too: llama.cpp looks GELU up in half precision


@needs_llama
def test_in_the_middle_of_a_text_the_texts_cache_stays_what_it_was() -> None:
    """llama.cpp empties the target's cache when an assistant's context is made."""
    model, head, prompt = gemma_llama(), random_assistant_file(), list(range(30, 55))
    sessions: list[Any] = [model.open_session(128, (9,)) for _ in range(2)]
    session, fresh = sessions
    session.prefill(prompt)
    head.open(128).follow(session)
    fresh.prefill(prompt)
    found, wanted = (each.evaluate([9, 10], [ROOT, 0]).logits.clone() for each in (session, fresh))
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)
    assert list(session.tokens) == prompt


@needs_llama
def test_assistants_and_targets_that_do_not_go_together(tmp_path: Path) -> None:
    folder = write_assistant(tmp_path / "assistant")
    file = gemma_file(folder, tmp_path / "a.gguf")
    with pytest.raises(UserError, match="hidden states 24 numbers wide, and those of heads-target have 64"):
        find_model(str(file)).beside("a", llama_target())
    with pytest.raises(UserError, match="gives to an assistant in GGUF only"):
        find_model(str(folder)).beside("a", gemma_llama())
    with pytest.raises(UserError, match="which drafts for models on llama"):
        find_model(str(file)).beside("a", gemma())
