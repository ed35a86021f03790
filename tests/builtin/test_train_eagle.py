"""Training: losses fall, resumed runs equal unbroken ones, exports compute what was trained; the drafters that ship."""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import accumulate, islice
from math import inf
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

from specchat.backends import ROOT, LoadOptions, Model, Sampling, load_model
from specchat.backends.files.gguf_file import read_layout
from specchat.backends.heads.base import Head
from specchat.backends.loading import find_model
from specchat.backends.scores import TorchScores
from specchat.builtin import path
from specchat.builtin.recipe import data, train_eagle
from specchat.builtin.recipe import tokenizer as tokens_of
from specchat.builtin.recipe.corpus import TASKS
from specchat.builtin.recipe.data import IGNORED, Curriculum, batches
from specchat.builtin.recipe.evaluate import examples
from specchat.builtin.recipe.export import export
from specchat.builtin.recipe.model import SIZES, Size, TrainingLoss, build, inherit
from specchat.builtin.recipe.train import ModelRun, ModelSettings
from specchat.builtin.recipe.train_eagle import EagleRun, EagleSettings
from specchat.builtin.recipe.train_pard import MASK, PardLoss, masked
from specchat.builtin.recipe.training import text
from specchat.builtin.recipe.training.eagle import anchors
from specchat.builtin.recipe.training.run import Progress, rate_factor
from specchat.builtin.recipe.training.target import FrozenTarget
from specchat.decoders import Conversation, Generation

from ..cases import FULL, only_full

CPU = torch.device("cpu")
WIDTH, INNER, HEADS, SHARED, LAYERS, VOCABULARY = 32, 48, 4, 2, 8, tokens_of.VOCABULARY


def _model(folder: Path) -> Path:
    """Write a tiny random model with the built-in tokenizer, heads sharing keys, and an unusual rotation base."""
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
def target(model: Path) -> FrozenTarget:
    return FrozenTarget(model, CPU, torch.float32)


@pytest.fixture(scope="module")
def conversations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty chats that say much the same."""
    file = tmp_path_factory.mktemp("text") / "chats.jsonl"
    lines = []
    for i in range(20):
        words = "red green blue " * (2 + i % 3)
        answers = [{"role": "user", "content": "Again:"}, {"role": "assistant", "content": words}]
        lines.append(json.dumps({"messages": [{"role": "user", "content": f"Say {words}"}, answers[1], *answers]}))
    file.write_text("\n".join(lines))
    return file


def eagle_settings(updates: int, **more: Any) -> EagleSettings:
    # A batch holds at most 512 tokens.
    return EagleSettings(tokens=updates * 400.0, batch=512, warmup=2000, precision="float32", **more)


def _run(settings: EagleSettings, work: Path, target: FrozenTarget, file: Path) -> EagleRun:
    return EagleRun(settings, work, target, text.Text(text.read([file]), target, settings.seed, settings.longest))


def _loaded(model: Path, head: Path) -> tuple[Any, Any]:
    """The target and a head as chats load them: tests/backends/heads/ compares what they compute with plain torch."""
    options = LoadOptions(device="cpu", backend="transformers", dtype="float32", threads=1)
    whole = load_model(str(model), options)
    return whole, find_model(str(head), options).beside("mine", whole)


def test_the_exported_head_computes_what_was_trained(
    tmp_path: Path, target: FrozenTarget, model: Path, conversations: Path
) -> None:
    run = _run(eagle_settings(3, vocabulary=100), tmp_path / "work", target, conversations)
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
    for chat, anchor in [(0, 0), (0, 3), (1, 1), (1, int(places.valid[1].sum()) - 3)]:
        pair = int(places.places[chat, anchor]) - 1
        text, session = batch.tokens[chat].tolist(), head.open(512)
        row = session.extend(text[1 : pair + 2], states[chat, : pair + 1]).logits[-1]
        for step, (scores, rows) in enumerate(drafts):
            if anchor >= rows.shape[1] or not rows[chat, anchor]:
                break
            drafted = scores[rows.flatten().cumsum(0).view_as(rows)[chat, anchor] - 1]
            torch.testing.assert_close(row[row.isfinite()], drafted, atol=1e-4, rtol=1e-4)
            row = session.grow([text[pair + 2 + step]], [step - 1]).logits[-1]
            compared += 1
    assert compared >= 10
    whole.close()


@pytest.mark.parametrize(("layout", "vocabulary"), [
    ("safeailab", 0), ("speculators", 100), pytest.param("safeailab", 100, marks=only_full),
    pytest.param("speculators", 0, marks=only_full),
])  # fmt: skip
def test_a_head_is_written_as_published(
    tmp_path: Path, target: FrozenTarget, model: Path, conversations: Path, layout: str, vocabulary: int
) -> None:
    run = _run(eagle_settings(1, vocabulary=vocabulary), tmp_path / "work", target, conversations)
    for _ in range(2):  # the second takes the place of the first
        run.export(tmp_path / "heads" / "mine", layout, "bfloat16")
    assert [entry.name for entry in (tmp_path / "heads").iterdir()] == ["mine"]
    tensors = load_file(tmp_path / "heads" / "mine" / "model.safetensors")
    assert ({"d2t", "t2d"} <= tensors.keys()) == bool(vocabulary)
    if vocabulary:
        ids = torch.arange(vocabulary) + tensors["d2t"]
        assert torch.equal(tensors["t2d"].nonzero()[:, 0], ids)
        answers = {token for chat in text.read([conversations]) for token in text.encode(target, chat, 512)[0][0][-5:]}
        assert answers <= set(ids.tolist())
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
    monkeypatch.setattr(sys, "argv", ["train_eagle", *" ".join(map(str, arguments)).split()])
    train_eagle.main()


def test_a_run_that_ends_early_writes_its_head(
    tmp_path: Path, model: Path, conversations: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The clock ends one, and ctrl+c the other, which a text that presses it stands for; the corpus is made small."""
    monkeypatch.setattr(train_eagle, "CHATS", 64)
    monkeypatch.chdir(tmp_path)
    common = [model, "--precision float32 --device cpu --steps 2"]
    _main(monkeypatch, *common, "--text", conversations, "--minutes 1e-6 --batch 400")
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
    settings = EagleSettings(tokens=1e6, minutes=10, batch=500, warmup=200_000, decay=0.4)
    rates = [rate_factor(Progress(tokens=tokens, seconds=seconds), settings) for tokens, seconds in RATES]
    assert rates == pytest.approx([0.02, 1.0, 1.0, 0.5, 0.02, 0.02])


RATES = [(0, 0), (1_000, 60), (500_000, 60), (2_000, 480), (2_000, 600), (1_000_000, 60)]
"""Tokens and seconds of a run of at most 1,000,000 and 600."""


@only_full
def test_the_command_trains_resumes_and_writes(
    tmp_path: Path, model: Path, conversations: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    common = [model, "--text", conversations, "--precision float32 --device cpu"]
    _main(monkeypatch, *common, "--tokens 1000 --batch 400 --vocabulary 64 --steps 2")
    assert "tiny-eagle/head" in capsys.readouterr().out
    before = load_file("tiny-eagle/head/model.safetensors")
    _main(monkeypatch, *common, "--resume --tokens 0 --out again")
    resumed = load_file("again/model.safetensors")
    assert before.keys() == resumed.keys()
    assert all(torch.equal(before[name], resumed[name]) for name in before)
    _main(monkeypatch, *common, "--resume --tokens 2000 --layout speculators --out more --gguf Q8_0 F16")
    for kind in ("Q8_0", "F16"):
        (layout,) = read_layout(Path(f"more-{kind}.gguf"))
        assert layout.header.metadata["eagle3.target_layers"] == [2, 4, 5]
        assert layout.header.vocabulary == VOCABULARY
        assert {t.name: t.shape for t in layout.tensors}["d2t"] == (64,)
    assert json.loads(Path("more/config.json").read_text())["draft_vocab_size"] == 64
    _main(monkeypatch, *common, "--start more --work new --tokens 0 --vocabulary 64 --out started")
    started, more = load_file("started/model.safetensors"), load_file("more/model.safetensors")
    assert all(torch.equal(started[name.replace("layers.0.", "midlayer.")], more[name]) for name in more)
    with pytest.raises(SystemExit, match="built otherwise than the one to train"):
        _main(monkeypatch, *common, "--start more --work new --tokens 0")
    with pytest.raises(SystemExit, match="no head in none"):
        _main(monkeypatch, *common, "--start none --work new --tokens 0")
    with pytest.raises(SystemExit, match="made with another --inner and --vocabulary"):
        _main(monkeypatch, *common, "--resume --vocabulary 32 --inner 16 --steps 3")
    with pytest.raises(SystemExit, match="for another target"):
        _main(monkeypatch, "--resume --tokens 0 --work tiny-eagle --device cpu")
    checkpoint = Path("tiny-eagle/checkpoint.pt")
    torch.save(torch.load(checkpoint, weights_only=True) | {"settings": {"size": "target"}}, checkpoint)
    with pytest.raises(SystemExit, match="not of an EAGLE head"):
        _main(monkeypatch, *common, "--resume")


WEIGHTS = path()


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "CHUNK", 64)


def _work(folder: Path) -> Path:
    folder.mkdir()
    shutil.copy(WEIGHTS / "tokenizer.json", folder)
    return folder


def model_settings(steps: int, optimizer: str = "adamw") -> ModelSettings:
    # A batch always holds 400 … 512 tokens; the schedule depends on `tokens`, so both halves of a run share it.
    return ModelSettings(size="tiny", tokens=steps * 450.0, batch=512, warmup=2000, rate=1e-2, ramp=2000, optimizer=optimizer)


@only_full
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_the_loss_falls_and_a_resumed_run_equals_an_unbroken_one(tmp_path: Path, optimizer: str) -> None:
    settings = model_settings(20, optimizer)
    whole = ModelRun(settings, _work(tmp_path / "whole"), CPU)
    losses = whole.train()
    assert len(losses) >= 18
    assert sum(losses[-3:]) < 0.9 * sum(losses[:3])

    first = ModelRun(settings, _work(tmp_path / "parts"), CPU)
    stream = batches(first.tokenizer, settings.seed, settings.batch, Curriculum(settings.ramp, longest=settings.longest))
    for batch in islice(stream, 9):
        first.step(batch)
    first.save()
    second = ModelRun(settings, tmp_path / "parts", CPU)
    second.restore()
    assert second.train() == pytest.approx(losses[9:], abs=1e-4)


def test_batches_go_on_where_a_checkpoint_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "CHUNK", 256)  # more than six batches
    tokenizer = tokens_of.load(WEIGHTS)
    stream = list(islice(batches(tokenizer, 3, 1024, Curriculum()), 12))
    later = list(islice(batches(tokenizer, 3, 1024, Curriculum(), stream[4].chunk, stream[4].position), 7))
    assert all(torch.equal(a.tokens, b.tokens) for a, b in zip(stream[5:], later, strict=True))
    # Two processes share what one would do alone.
    turns = [list(islice(batches(tokenizer, 3, 1024, Curriculum(), rank=rank, world=2), 3)) for rank in (0, 1)]
    for i in range(6):
        assert torch.equal(stream[i].tokens, turns[i % 2][i // 2].tokens)


def test_the_training_attention_is_the_models_own() -> None:
    model = build(SIZES["tiny"], 0)
    tokens = torch.randint(10, tokens_of.VOCABULARY, (3, 33))
    labels = tokens.roll(-1, 1)
    labels[:, -1] = IGNORED
    expected = model(tokens).logits[:, :-1].flatten(0, 1)
    loss, _ = TrainingLoss(model)(tokens, labels)
    assert loss.item() == pytest.approx(torch.nn.functional.cross_entropy(expected, tokens[:, 1:].flatten()).item(), abs=1e-4)


def test_the_loss_of_the_exits_is_that_of_their_layers() -> None:
    model = build(Size(layers=4, width=32, heads=2, inner=64), 0)
    tokens = torch.randint(10, tokens_of.VOCABULARY, (3, 33))
    labels = tokens.roll(-1, 1)
    labels[:, -1] = IGNORED
    full, early = TrainingLoss(model, (1, 2))(tokens, labels)
    states = model(tokens, output_hidden_states=True).hidden_states
    expected = [
        torch.nn.functional.cross_entropy(
            model.lm_head(model.model.norm(states[n]))[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()
        )
        for n in (1, 2)
    ]
    assert early.item() == pytest.approx(torch.stack(expected).mean().item(), abs=1e-4)
    assert full.item() != pytest.approx(early.item(), abs=1e-4)


def test_an_export_loads_and_replaces_the_old_one(tmp_path: Path) -> None:
    run = ModelRun(model_settings(1), _work(tmp_path / "work"), CPU)
    run.save()
    folder = tmp_path / "weights" / "tiny"
    for _ in range(2):
        export(run.checkpoint, tmp_path / "work", folder)
    assert [entry.name for entry in folder.parent.iterdir()] == ["tiny"]
    loaded = LlamaForCausalLM.from_pretrained(folder, local_files_only=True)
    assert loaded.dtype == torch.float32
    assert loaded.lm_head.weight is loaded.model.embed_tokens.weight
    close = torch.allclose(loaded.model.norm.weight, run.model.model.norm.weight.detach(), atol=1e-3)
    assert close
    assert json.loads((folder / "generation_config.json").read_text())["eos_token_id"] == [tokens_of.END]


def test_a_shallow_model_starts_from_layers_of_a_deep_one() -> None:
    teacher, shallow = build(SIZES["tiny"], 0), build(Size(layers=1, width=32, heads=2, inner=48), 1)
    with torch.no_grad():
        # Neurons that do nothing are the ones left out.
        teacher.model.layers[0].mlp.down_proj.weight[:, ::4] = 0
    inherit(shallow, teacher, [0])
    tokens = torch.randint(10, tokens_of.VOCABULARY, (2, 20))
    del teacher.model.layers[1]
    assert torch.allclose(shallow(tokens).logits, teacher(tokens, use_cache=False).logits, atol=1e-5)


def test_the_loss_is_that_of_every_chain_of_masks_by_itself() -> None:
    model = build(SIZES["tiny"], 0)
    tokens = torch.randint(10, tokens_of.VOCABULARY, (3, 33), generator=torch.Generator().manual_seed(1))
    labels = tokens.roll(-1, 1)
    labels[:, -1] = labels[:, :5] = labels[1, 12:20] = IGNORED
    mean, unmasked = PardLoss(model, 4, 0.7)(tokens, labels)
    batch = masked(tokens, labels, 4, 0.7, torch.Generator().manual_seed(int(tokens.sum())))
    model.set_attn_implementation("eager")
    losses: list[tuple[int, float]] = []
    for chat, row in (batch.labels != IGNORED).nonzero().tolist():
        # A chain sees the text up to a token, and that many masks.
        visible = batch.visible[chat, row]
        text, masks = int(visible[:33].sum()), int(visible[33:].sum())
        assert batch.places[chat, row] == text - 1 + masks
        assert batch.labels[chat, row] == tokens[chat, text + masks]
        ids = torch.tensor([[*tokens[chat, :text].tolist(), *[MASK] * masks]])
        logits = model(ids).logits[0, -1]
        losses.append((masks, torch.nn.functional.cross_entropy(logits, batch.labels[chat, row]).item()))
    assert {masks for masks, _ in losses} == {0, 1, 2, 3}
    assert mean.item() == pytest.approx(sum(loss for _, loss in losses) / len(losses), abs=1e-4)
    alone = [loss for masks, loss in losses if not masks]
    assert len(alone) == int((labels != IGNORED).sum())
    assert unmasked.item() == pytest.approx(sum(alone) / len(alone), abs=1e-4)


RECORDED = Path(__file__).parent
"""Prompts, answers and what was drafted in each step: of vLLM 0.32.0 (`benchmarks/methods/vllm_heads.py` of commit c4f12999),
and of llama-server of llama-cpp-python 0.3.36 (`tests/backends/servers/test_real_eagle.py` of commit a71d390e)."""

FAMILIES = ("copy", "edit", "extract", "fact", "passage", "story")
EACH = 9 if FULL else 1
TOKENS = 128 if FULL else 64
DEPTH = 4
"""Tokens that a chain drafts."""
CHAIN: dict[str, Any] = {"width": 1, "depth": DEPTH, "nodes": DEPTH + 1, "floor": 0.0, "cascade": False}
WAYS: dict[str, tuple[str, dict[str, Any], float]] = {
    "eagle, a tree": ("eagle", {}, 4.0),
    "eagle, a chain": ("eagle", CHAIN, 2.5),
    "pard, a tree": ("pard", {"floor": 0.0}, 3.0),
    "pard, a chain": ("pard", {"floor": 0.0, "width": 1}, 2.0),
}
"""Method, settings, and the fewest tokens a pass over all families."""

TIE = 0.1
"""Logits so near each other are next to equal: llama.cpp rounds activations to 8 bits."""

RUNTIMES = ["transformers", "llama.cpp"]


@cache
def loaded(runtime: str) -> tuple[Model, Model, Head]:
    """Target, draft model and head on a runtime, in one thread."""
    options = LoadOptions(device="cpu", backend=runtime, threads=1)
    target = load_model("builtin", options)
    return target, load_model("builtin-draft", options), find_model("builtin-eagle", options).beside("builtin-eagle", target)


def parting(ours: list[int], theirs: list[int]) -> int | None:
    """Find where two lists differ first, as far as both go."""
    return next((i for i, (one, other) in enumerate(zip(ours, theirs, strict=False)) if one != other), None)


def conversation(runtime: str) -> Conversation:
    target, draft, head = loaded(runtime)
    return Conversation(target, draft_model=draft, head=head)


@cache
def prompts() -> list[list[int]]:
    target, _, _ = loaded("transformers")
    chats: dict[str, list[list[int]]] = defaultdict(list)
    for name, messages in examples(40 * EACH):
        family = TASKS[name].family
        if family in FAMILIES and len(chats[family]) < EACH:
            chats[family].append(target.encode_chat([{"role": m["role"], "content": m["content"]} for m in messages[:-1]]))
    return [prompt for family in FAMILIES for prompt in chats[family]]


@cache
def plain(runtime: str, number: int, sampling: Sampling) -> list[int]:
    alone = Conversation(loaded(runtime)[0])
    generation = Generation(alone, prompts()[number], sampling=sampling, max_tokens=TOKENS)
    list(generation)
    alone.close()
    return generation.answer


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_the_targets_own_tokens_in_few_passes(runtime: str, name: str) -> None:
    method, settings, fewest = WAYS[name]
    talk = conversation(runtime)
    tokens = passes = 0
    for number, prompt in enumerate(prompts()):
        generation = Generation(talk, prompt, method, settings=settings, max_tokens=TOKENS)
        list(generation)
        assert generation.answer == plain(runtime, number, Sampling())
        tokens, passes = tokens + generation.totals.tokens, passes + generation.totals.steps
    talk.close()
    assert tokens / passes >= fewest


def by_place(answer: list[int], drafts: list[list[int]], counts: Counter[int]) -> dict[int, list[int]]:
    """Each draft by the place in the answer where it begins; how much of it was accepted is counted."""
    out: dict[int, list[int]] = {}
    at = 1
    for draft in drafts:
        if at >= len(answer):  # vLLM drafts behind the end as well
            break
        out[at] = list(draft)
        follows = answer[at:-1]  # the last token is never a draft of ours
        pairs = enumerate(zip(draft, follows, strict=False))
        right = next((i for i, (token, target) in pairs if token != target), min(len(draft), len(follows)))
        counts[right] += 1
        at += right + 1
    return out


def test_a_chain_is_what_vllm_drafts() -> None:
    """The same drafts, and as many accepted tokens, step by step."""
    target, _, head = loaded("transformers")
    lines = [json.loads(line) for line in (RECORDED / "vllm_eagle.jsonl").read_text(encoding="utf-8").splitlines()]
    talk, steps, equal = Conversation(target, head=head), 0, 0
    theirs, ours = Counter[int](), Counter[int]()
    for line in lines if FULL else lines[::4]:
        first, *rest = line["answer"]
        talk.forget()
        talk.session.prefill(line["prompt"])  # whose pass gives the first token
        generation = Generation(talk, [*line["prompt"], first], "eagle", settings=CHAIN, max_tokens=len(rest))
        drafts = [list(step.tree.tokens[1:]) for step in generation]
        assert generation.answer == rest
        their, our = by_place(line["answer"], line["drafts"], theirs), by_place(line["answer"], drafts, ours)
        for at, draft in our.items():  # our last ones are cut to what may still be written
            steps += bool(draft)
            equal += bool(draft) and their.get(at, [])[: len(draft)] == draft
    talk.close()
    assert steps > (250 if FULL else 60)
    assert equal >= 0.999 * steps
    assert theirs == ours
    assert {1, 2, 3} <= ours.keys()


def test_a_chain_is_what_llama_server_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same drafts, with llama.cpp's cache types, and as many tokens of each are accepted. Another processor rounds
    otherwise: where two tokens are next to equal a draft may go on differently, and so may an answer, whose comparison ends."""
    options = LoadOptions(device="cpu", backend="llama.cpp", threads=1, kv_type="f16", flash_attention="on")
    target = load_model("builtin", options)
    talk = Conversation(target, head=find_model("builtin-eagle", options).beside("builtin-eagle", target))
    steps = equal = parted = 0
    guessed: list[dict[int, float]] = []
    guess = TorchScores.candidates

    def noting(self: TorchScores, *args: Any, **options: Any) -> list[list[tuple[int, float]]]:
        guessed.extend(dict(row) for row in self.top(8))
        return guess(self, *args, **options)

    monkeypatch.setattr(TorchScores, "candidates", noting)
    lines = (RECORDED / "llama_server_eagle.jsonl").read_text(encoding="utf-8").splitlines()
    for line in lines if FULL else lines[::3]:
        theirs = json.loads(line)
        first, *rest = theirs["answer"]
        talk.forget()
        talk.session.prefill(theirs["prompt"])
        generation = Generation(talk, [*theirs["prompt"], first], "eagle", settings=CHAIN, max_tokens=len(rest))
        at = 0
        guessed.clear()
        # By the place in the answer: after a draft that differs, passes may begin elsewhere for a while.
        starts = accumulate((round_["accepted"] + 1 for round_ in theirs["passes"]), initial=0)
        passes = dict(zip(starts, theirs["passes"], strict=False))
        for step in generation:
            drafted, tokens = list(step.tree.tokens[1:]), rest[at : at + len(step.tokens)]
            if (other := parting(list(step.tokens), tokens)) is not None:
                session = target.open_session()
                text = [*theirs["prompt"], first, *rest[: at + other]]
                session.prefill(text[:-1])
                assert session.evaluate([text[-1]], [ROOT]).gap(0, tokens[other]) < TIE
                session.close()
                parted += 1
                break
            steps += bool(drafted)  # the last token of an answer has no draft
            if (expected := passes.get(at)) is not None and drafted:
                other = parting(drafted, expected["draft"])
                equal += other is None
                if other is None:
                    assert list(step.tokens) == rest[at : at + expected["accepted"] + 1]
                else:
                    assert max(guessed[other].values()) - guessed[other].get(expected["draft"][other], -inf) < TIE
            at += len(step.tokens)
            guessed.clear()
        else:
            assert generation.answer == rest
    talk.close()
    target.close()
    assert steps > (220 if FULL else 60)
    assert equal >= 0.98 * steps
    assert parted <= 1
