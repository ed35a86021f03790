"""An EAGLE-3 head for a model of one's own: what it learns, what is written, and that both are the published computation."""

import json
import shutil
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional as F
from transformers import LlamaConfig, LlamaForCausalLM

from specchat.backends import LoadOptions, Message, load_model
from specchat.backends.files.gguf_file import read_layout
from specchat.backends.loading import find_model
from specchat.builtin import path
from specchat.builtin.recipe import tokenizer as tokens_of
from specchat.builtin.recipe import train_eagle
from specchat.builtin.recipe.train_eagle import EagleRun, Settings
from specchat.builtin.recipe.training import text
from specchat.builtin.recipe.training.eagle import anchors
from specchat.builtin.recipe.training.target import Target

from ..cases import FULL, only_full

CPU = torch.device("cpu")
WIDTH, INNER, HEADS, SHARED, LAYERS, VOCABULARY = 32, 48, 4, 2, 8, tokens_of.VOCABULARY


def _model(folder: Path, layers: int = LAYERS) -> Path:
    """A tiny random model with the built-in tokenizer, heads sharing keys, and a rotation base of its own."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=layers, num_attention_heads=HEADS,
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


def _reference(
    tensors: dict[str, torch.Tensor], embedded: torch.Tensor, features: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """One pass of the published head over pairs [n, hidden] at positions 0 …: logits of the last one, and its next feature."""
    n, width = len(embedded), WIDTH // HEADS

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * tensors[f"{name}.weight"]

    def turned(x: torch.Tensor) -> torch.Tensor:
        angles = torch.arange(n)[:, None] * 500.0 ** -(torch.arange(0, width, 2) / width)
        cos, sin = (torch.cat([f(angles)] * 2, -1)[:, None] for f in (torch.cos, torch.sin))
        return x * cos + torch.cat([-x[..., width // 2 :], x[..., : width // 2]], -1) * sin

    x = torch.cat([norm(embedded, "midlayer.input_layernorm"), norm(features, "midlayer.hidden_norm")], -1)
    q, k, v = (
        (x @ tensors[f"midlayer.self_attn.{name}_proj.weight"].T).view(n, -1, width).repeat_interleave(times, 1)
        for name, times in (("q", 1), ("k", HEADS // SHARED), ("v", HEADS // SHARED))
    )
    q, k = turned(q), turned(k)
    scores = torch.einsum("qhd,khd->hqk", q, k) / width**0.5
    weights = scores.masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf).softmax(-1)
    mixed = torch.einsum("hqk,khd->qhd", weights, v).flatten(1)
    h = features + mixed @ tensors["midlayer.self_attn.o_proj.weight"].T
    y = norm(h, "midlayer.post_attention_layernorm")
    gate, up, down = (tensors[f"midlayer.mlp.{name}_proj.weight"] for name in ("gate", "up", "down"))
    h = h + (F.silu(y @ gate.T) * (y @ up.T)) @ down.T
    return norm(h, "norm")[-1] @ tensors["lm_head.weight"].T, h[-1]


def test_the_exported_head_computes_what_was_trained(tmp_path: Path, target: Target, conversations: Path) -> None:
    run = _run(_settings(3, vocabulary=100), tmp_path / "work", target, conversations)
    run.train()
    run.export(tmp_path / "head", "safeailab", "float32")
    tensors = load_file(tmp_path / "head" / "model.safetensors")
    batch = next(run.batches())
    states, _ = target.read(batch.tokens, run.taps)
    hidden = target.module(batch.tokens, output_hidden_states=True).hidden_states
    assert torch.equal(states, torch.cat([hidden[2], hidden[4], hidden[5]], -1))
    embedded = target.embedding[batch.tokens]
    places = anchors(batch.labels)
    with torch.no_grad():
        drafts = run.model(states, embedded, places, 3)
    compared = 0
    for chat, anchor in [(0, 0), (0, 3), (1, 1), (1, int(places.there[1].sum()) - 3)]:
        pair = int(places.places[chat, anchor]) - 1
        features = states[chat, : pair + 1] @ tensors["fc.weight"].T
        for step, (scores, rows) in enumerate(drafts):
            if anchor >= rows.shape[1] or not rows[chat, anchor]:
                break
            expected, made = _reference(tensors, embedded[chat, 1 : pair + 2 + step], features)
            found = scores[rows.flatten().cumsum(0).view_as(rows)[chat, anchor] - 1]
            torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
            features = torch.cat([features, made[None]])
            compared += 1
    assert compared >= 10


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
    options = LoadOptions(device="cpu", backend="transformers", threads=1)
    whole = load_model(str(model), options)
    head = find_model(str(tmp_path / "heads" / "mine"), options).beside("mine", whole)
    assert (head.info.title, head.info.taps) == ("EAGLE-3", (2, 4, 5))
    whole.close()


@only_full
@pytest.mark.parametrize("optimizer", ["adamw", "muon"] if FULL else ["muon"])
def test_every_step_learns_what_the_target_says(tmp_path: Path, target: Target, conversations: Path, optimizer: str) -> None:
    run = _run(_settings(60, optimizer=optimizer, rate=1e-2, steps=3), tmp_path / "work", target, conversations)
    batch = next(run.batches())
    before = run.losses(batch)[1]
    run.train(log_every=10)
    last = json.loads((tmp_path / "work" / "loss.jsonl").read_text().splitlines()[-1])
    assert all(hits / rows < 0.2 for hits, rows in zip(before[4:7], before[7:10], strict=True))
    assert min(last["accuracy"]) > 0.6
    assert last["tokens_per_step"] > 2.2


@only_full
@pytest.mark.parametrize("optimizer", ["adamw", "muon"] if FULL else ["muon"])
def test_a_resumed_run_equals_an_unbroken_one(tmp_path: Path, target: Target, conversations: Path, optimizer: str) -> None:
    settings = _settings(12, optimizer=optimizer, vocabulary=100)
    losses = _run(settings, tmp_path / "whole", target, conversations).train()
    first = _run(settings, tmp_path / "parts", target, conversations)
    first.work.mkdir()
    for batch in islice(first.batches(), 5):
        first.step(batch)
    first.save()
    source = text.Text(text.read([conversations]), target, settings.seed, settings.longest)
    second = EagleRun(train_eagle.settings_of(first.checkpoint, {}), tmp_path / "parts", target, source, resumed=True)
    second.restore()
    assert second.train() == pytest.approx(losses[5:], abs=1e-4)


@only_full
def test_the_target_answers_itself(tmp_path: Path) -> None:
    target = Target(path(), CPU, torch.float32)
    question = {"role": "user", "content": "Repeat this text exactly: The red kite."}
    asked: list[Message] = [question, {"role": "assistant", "content": "No."}]
    entries: list[str | list[Message]] = ["a text", [*asked, *asked], asked, [*asked, *asked]]
    text.regenerate(target, entries, tmp_path / "work" / "answers.jsonl", 24, batch=2)
    first = (tmp_path / "work" / "answers.jsonl").read_text()
    found = text.read([tmp_path / "work" / "answers.jsonl"])
    assert found[0] == "a text"
    assert found[2] == [question, {"role": "assistant", "content": "The red kite."}]
    assert found[1] == found[3]
    assert len(found[1]) == 4
    for left in (first[: first.index("\n", first.index("\n") + 1) + 9], first[:-9]):  # each stopped in the middle of a line
        (tmp_path / "work" / "answers.jsonl").write_text(left)
        text.regenerate(target, entries, tmp_path / "work" / "answers.jsonl", 24, batch=2)
        assert (tmp_path / "work" / "answers.jsonl").read_text() == first
    # Answers to other chats are no use.
    text.regenerate(target, entries[2:], tmp_path / "work" / "answers.jsonl", 24, batch=2)
    assert text.read([tmp_path / "work" / "answers.jsonl"]) == [found[2], found[3]]


def _main(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["train_eagle", *map(str, arguments)])
    train_eagle.main()


@only_full
def test_the_command_trains_resumes_and_writes(
    tmp_path: Path, model: Path, conversations: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    common = ["--target", model, "--text", conversations, "--precision", "float32", "--device", "cpu"]
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


@only_full
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--target", "tiny"], "Give --text FILES"),
        (["--regenerate"], "--regenerate needs chats to answer"),
        (["--target", "speechless", "--text", "good.jsonl"], "no chat template"),
        (
            ["--target", "shallow", "--text", "good.jsonl"],
            "reads the inputs of different layers.*2, 3, 3.*has the layers 0 to 5",
        ),
        (["--target", "tiny", "--text", "good.jsonl", "--taps", "2", "8"], "Name others with --taps"),
        (["--target", "nothing", "--text", "good.jsonl"], "There is no folder nothing"),
        (["--target", "tiny", "--text", "none.txt"], "Cannot read none.txt: No such file"),
        (["--target", "tiny", "--text", "empty.txt"], "There is no text in these files"),
        (["--target", "tiny", "--text", "bad.jsonl"], "Line 2 of bad.jsonl is neither a chat nor a text"),
        (["--target", "tiny", "--text", "asked.jsonl"], "chats need an answer by the assistant"),
        (["--target", "tiny", "--text", "good.jsonl", "--vocabulary", "5000"], "vocabulary has 2,048 tokens"),
        (["--target", "tiny", "--text", "good.jsonl", "--resume"], "no checkpoint in tiny-eagle"),
        (
            ["--target", "tiny", "--text", "good.jsonl", "--taps", "1", "2", "--gguf", "F16"],
            "read 3 layers of the target, not 2",
        ),
        (["--target", "split", "--text", "good.jsonl", "--gguf", "F16"], "convert_hf_to_gguf.py HEAD --target-model-dir split"),
    ],
)
def test_what_cannot_work_gets_a_sentence(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny").symlink_to(model)
    if "shallow" in arguments:
        _model(Path("shallow"), layers=6)
    shutil.copytree(model, "speechless", ignore=shutil.ignore_patterns("chat_template.jinja"))
    shutil.copytree(model, "split")
    tokenizer = json.loads(Path("split/tokenizer.json").read_text())
    tokenizer["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "."
    Path("split/tokenizer.json").write_text(json.dumps(tokenizer))
    good = json.dumps({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello, you."}]})
    Path("good.jsonl").write_text(good)
    Path("bad.jsonl").write_text(f"{good}\n[1]\n")
    Path("asked.jsonl").write_text(json.dumps({"messages": [{"role": "user", "content": "Hi"}]}))
    Path("empty.txt").write_text(" ")
    with pytest.raises(SystemExit, match=sentence):
        _main(monkeypatch, *arguments)
