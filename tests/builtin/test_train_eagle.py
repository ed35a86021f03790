"""An EAGLE-3 head for a model of one's own: what it learns, what is written, and that both are the published computation.
Arguments and interrupts are patched in."""

import json
import shutil
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

from specchat.backends import LoadOptions, load_model
from specchat.backends.files.gguf_file import read_layout
from specchat.backends.loading import find_model
from specchat.builtin import path
from specchat.builtin.recipe import tokenizer as tokens_of
from specchat.builtin.recipe import train_eagle
from specchat.builtin.recipe.train_eagle import EagleRun, Settings
from specchat.builtin.recipe.training import text
from specchat.builtin.recipe.training.eagle import anchors
from specchat.builtin.recipe.training.run import Progress, rate_factor
from specchat.builtin.recipe.training.target import Target

from ..cases import only_full

CPU = torch.device("cpu")
WIDTH, INNER, HEADS, SHARED, LAYERS, VOCABULARY = 32, 48, 4, 2, 8, tokens_of.VOCABULARY


def _model(folder: Path) -> Path:
    """A tiny random model with the built-in tokenizer, heads sharing keys, and a rotation base of its own."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        num_key_value_heads=SHARED, rope_parameters={"rope_type": "default", "rope_theta": 500.0}, max_position_embeddings=512,
        bos_token_id=tokens_of.BOS, eos_token_id=tokens_of.END, pad_token_id=tokens_of.PAD, tie_word_embeddings=True,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(path() / name, folder)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="module")
def target(model: Path) -> Target:
    return Target(model, CPU, torch.float32)


@pytest.fixture(scope="module")
def conversations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty chats that say much the same."""
    file = tmp_path_factory.mktemp("text") / "chats.jsonl"
    lines = []
    for i in range(20):
        said = "red green blue " * (2 + i % 3)
        answers = [{"role": "user", "content": "Again:"}, {"role": "assistant", "content": said}]
        lines.append(json.dumps({"messages": [{"role": "user", "content": f"Say {said}"}, answers[1], *answers]}))
    file.write_text("\n".join(lines))
    return file


def _settings(updates: int, **more: Any) -> Settings:
    # A batch holds at most 512 tokens.
    return Settings(tokens=updates * 400.0, batch=512, warmup=2000, precision="float32", **more)


def _run(settings: Settings, work: Path, target: Target, file: Path) -> EagleRun:
    return EagleRun(settings, work, target, text.Text(text.read([file]), target, settings.seed, settings.longest))


def _loaded(model: Path, head: Path) -> tuple[Any, Any]:
    """The target and a head as chats load them: tests/backends/heads/ compares what they compute with plain torch."""
    options = LoadOptions(device="cpu", backend="transformers", dtype="float32", threads=1)
    whole = load_model(str(model), options)
    return whole, find_model(str(head), options).beside("mine", whole)


def test_the_exported_head_computes_what_was_trained(tmp_path: Path, target: Target, model: Path, conversations: Path) -> None:
    run = _run(_settings(3, vocabulary=100), tmp_path / "work", target, conversations)
    run.train()
    run.export(tmp_path / "head", "safeailab", "float32")
    batch = next(run.batches())
    states, _ = target.read(batch.tokens, run.taps)
    hidden = target.module(batch.tokens, output_hidden_states=True).hidden_states
    assert torch.equal(states, torch.cat([hidden[2], hidden[4], hidden[5]], -1))
    places = anchors(batch.labels)
    with torch.no_grad():
        drafts = run.model(states, target.embedding[batch.tokens], places, 3)
    whole, head = _loaded(model, tmp_path / "head")
    compared = 0
    for chat, anchor in [(0, 0), (0, 3), (1, 1), (1, int(places.there[1].sum()) - 3)]:
        pair = int(places.places[chat, anchor]) - 1
        text, session = batch.tokens[chat].tolist(), head.open(512)
        row = session.extend(text[1 : pair + 2], states[chat, : pair + 1]).logits[-1]
        for step, (scores, rows) in enumerate(drafts):
            if anchor >= rows.shape[1] or not rows[chat, anchor]:
                break
            found = scores[rows.flatten().cumsum(0).view_as(rows)[chat, anchor] - 1]
            torch.testing.assert_close(row[row.isfinite()], found, atol=1e-4, rtol=1e-4)
            row = session.grow([text[pair + 2 + step]], [step - 1]).logits[-1]
            compared += 1
    assert compared >= 10
    whole.close()


@pytest.mark.parametrize(
    ("layout", "vocabulary"),
    [
        ("safeailab", 0),
        ("speculators", 100),
        pytest.param("safeailab", 100, marks=only_full),
        pytest.param("speculators", 0, marks=only_full),
    ],
)
def test_a_head_is_written_as_published(
    tmp_path: Path, target: Target, model: Path, conversations: Path, layout: str, vocabulary: int
) -> None:
    run = _run(_settings(1, vocabulary=vocabulary), tmp_path / "work", target, conversations)
    for _ in range(2):  # the second takes the place of the first
        run.export(tmp_path / "heads" / "mine", layout, "bfloat16")
    assert [entry.name for entry in (tmp_path / "heads").iterdir()] == ["mine"]
    tensors = load_file(tmp_path / "heads" / "mine" / "model.safetensors")
    assert ({"d2t", "t2d"} <= tensors.keys()) == bool(vocabulary)
    if vocabulary:
        ids = torch.arange(vocabulary) + tensors["d2t"]
        assert torch.equal(tensors["t2d"].nonzero()[:, 0], ids)
        said = {token for chat in text.read([conversations]) for token in text.encode(target, chat, 512)[0][0][-5:]}
        assert said <= set(ids.tolist())
    described = json.loads((tmp_path / "heads" / "mine" / "config.json").read_text())
    assert (described["draft_vocab_size"], described["torch_dtype"]) == (vocabulary or VOCABULARY, "bfloat16")
    if layout == "safeailab":
        assert described["architectures"] == ["LlamaForCausalLMEagle3"]
        assert "eagle_config" not in described
    else:
        assert (described["speculators_model_type"], described["norm_before_residual"]) == ("eagle3", False)
        assert described["speculators_config"]["verifier"]["architectures"] == ["LlamaForCausalLM"]
    # The loader, which knows the published formats, checks every tensor's name and shape.
    whole, head = _loaded(model, tmp_path / "heads" / "mine")
    assert (head.info.title, head.info.taps) == ("EAGLE-3", (2, 4, 5))
    whole.close()


def _main(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["train_eagle", *map(str, arguments)])
    train_eagle.main()


def test_a_run_that_ends_early_writes_its_head(
    tmp_path: Path, model: Path, conversations: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the clock, and by ctrl+c, which a text that presses it stands for; the corpus is made small."""
    monkeypatch.setattr(train_eagle, "CHATS", 64)
    monkeypatch.chdir(tmp_path)
    common = [model, "--precision", "float32", "--device", "cpu", "--steps", 2]
    _main(monkeypatch, *common, "--text", conversations, "--minutes", 1e-6, "--batch", 400)
    assert torch.load("tiny-eagle/checkpoint.pt", weights_only=True)["progress"]["step"] == 1
    batches = text.Text.batches

    def interrupted(*arguments: Any) -> Iterator[Any]:
        yield from islice(batches(*arguments), 3)
        raise KeyboardInterrupt

    monkeypatch.setattr(text.Text, "batches", interrupted)
    _main(monkeypatch, *common, "--work", "stopped")  # on the recipe's corpus
    assert torch.load("stopped/checkpoint.pt", weights_only=True)["progress"]["step"] == 3
    assert "Stopped. Go on with --resume" in capsys.readouterr().out
    for head in ("tiny-eagle", "stopped"):
        assert load_file(f"{head}/head/model.safetensors")
    with pytest.raises(SystemExit, match="is a GGUF file, which cannot be trained on"):
        _main(monkeypatch, "model.gguf")


def test_a_short_run_warms_up_and_cools_down_within_it() -> None:
    settings = Settings(tokens=1e6, minutes=10, batch=500, warmup=200_000, decay=0.4)
    rates = [rate_factor(Progress(tokens=tokens, seconds=seconds), settings) for tokens, seconds in RATES]
    assert rates == pytest.approx([0.02, 1.0, 1.0, 0.5, 0.02, 0.02])


RATES = [(0, 0), (1_000, 60), (500_000, 60), (2_000, 480), (2_000, 600), (1_000_000, 60)]
"""Tokens and seconds of a run of at most 1,000,000 and 600."""


@only_full
def test_the_command_trains_resumes_and_writes(
    tmp_path: Path, model: Path, conversations: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    common = [model, "--text", conversations, "--precision", "float32", "--device", "cpu"]
    _main(monkeypatch, *common, "--tokens", 1000, "--batch", 400, "--vocabulary", 64, "--steps", 2)
    assert "tiny-eagle/head" in capsys.readouterr().out
    before = load_file("tiny-eagle/head/model.safetensors")
    _main(monkeypatch, *common, "--resume", "--tokens", 0, "--out", "again")
    again = load_file("again/model.safetensors")
    assert before.keys() == again.keys()
    assert all(torch.equal(before[name], again[name]) for name in before)
    _main(
        monkeypatch, *common, "--resume", "--tokens", 2000, "--layout", "speculators", "--out", "more", "--gguf", "Q8_0", "F16"
    )
    for kind in ("Q8_0", "F16"):
        (layout,) = read_layout(Path(f"more-{kind}.gguf"))
        assert layout.header.metadata["eagle3.target_layers"] == [2, 4, 5]
        assert layout.header.vocabulary == VOCABULARY
        assert {t.name: t.shape for t in layout.tensors}["d2t"] == (64,)
    assert json.loads(Path("more/config.json").read_text())["draft_vocab_size"] == 64
    _main(monkeypatch, *common, "--start", "more", "--work", "new", "--tokens", 0, "--vocabulary", 64, "--out", "started")
    started, more = load_file("started/model.safetensors"), load_file("more/model.safetensors")
    assert all(torch.equal(started[name.replace("layers.0.", "midlayer.")], more[name]) for name in more)
    with pytest.raises(SystemExit, match="built otherwise than the one to train"):
        _main(monkeypatch, *common, "--start", "more", "--work", "new", "--tokens", 0)
    with pytest.raises(SystemExit, match="no head in none"):
        _main(monkeypatch, *common, "--start", "none", "--work", "new", "--tokens", 0)
    with pytest.raises(SystemExit, match="made with another --inner and --vocabulary"):
        _main(monkeypatch, *common, "--resume", "--vocabulary", 32, "--inner", 16, "--steps", 3)
    with pytest.raises(SystemExit, match="for another target"):
        _main(monkeypatch, "--resume", "--tokens", 0, "--work", "tiny-eagle", "--device", "cpu")
    checkpoint = Path("tiny-eagle/checkpoint.pt")
    torch.save(torch.load(checkpoint, weights_only=True) | {"settings": {"size": "target"}}, checkpoint)
    with pytest.raises(SystemExit, match="not of an EAGLE head"):
        _main(monkeypatch, *common, "--resume")
