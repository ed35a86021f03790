"""Train an EAGLE-3 head, for the built-in target or for your own model.

    python -m specchat.builtin.recipe.train_eagle                                             # for the built-in target
    python -m specchat.builtin.recipe.train_eagle MODEL --minutes 60                          # for a model in a folder
    python -m specchat.builtin.recipe.train_eagle MODEL --text chats.jsonl --tokens 20e6      # on your own text
    python -m specchat.builtin.recipe.train_eagle MODEL --text chats.jsonl --tokens 40e6 --resume
    python -m specchat.builtin.recipe.train_eagle --start HEAD                         # a new run, from a head that is there

The target runs frozen; its states and its distribution come from one pass, and nothing is stored. The head drafts several
steps on its own outputs, as in use (`training/eagle.py`), and is written in a layout that specchat, vLLM, SGLang and
llama.cpp's converter read (`training/layouts.py`), with `--gguf` for llama.cpp itself too (`training/gguf_head.py`).
A run that is stopped by ctrl+c writes the head as it is by then; `--resume` goes on.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import load_file

from ...backends import Message, UserError
from .. import path
from . import corpus
from . import tokenizer as tokens_of
from .data import CHUNK, Batch, Curriculum, batches
from .gguf_export import TYPES
from .model import compile_all
from .train import WORK
from .training import text
from .training.eagle import Comparison, EagleHead, Layer, divergence, unrolled_loss
from .training.gguf_head import check_target, export_head
from .training.layouts import DTYPES, LAYOUTS, export_eagle
from .training.run import TrainingRun, TrainingSettings, half, pick_device
from .training.target import FrozenTarget


@dataclass
class EagleSettings(TrainingSettings):
    """The settings of a run, saved in the checkpoint."""

    seed: int = 3
    tokens: float = 3e6
    optimizer: str = "muon"
    decay: float = 0.4
    longest: int = 1024
    steps: int = 5
    fading: float = 0.8
    taps: tuple[int, ...] = ()
    inner: int = 0
    vocabulary: int = 0
    lm_head: str = "own"
    precision: str = "bfloat16"


FIXED = ("taps", "inner", "vocabulary", "lm_head", "optimizer")
"""Settings that a resumed run cannot change, as they shape the weights and the optimizer's state."""


class EagleRun(TrainingRun[EagleSettings]):
    """A training run.

    Args:
        settings: of the run.
        work: folder of the checkpoint and the loss curve.
        target: the model that the head drafts for.
        source: the user's text; None for the recipe's corpus.
        resumed: whether `restore` follows, which loads the draft vocabulary.
    """

    model: EagleHead

    def __init__(
        self,
        settings: EagleSettings,
        work: Path,
        target: FrozenTarget,
        source: text.Text | None = None,
        *,
        resumed: bool = False,
    ) -> None:
        self.target = target
        self.source = source
        self.taps = target.taps(settings.taps)
        count = settings.vocabulary or target.vocabulary
        if not 0 < count <= target.vocabulary:
            raise UserError(
                f"The target's vocabulary has {target.vocabulary:,} tokens. Choose fewer for --vocabulary, or none."
            )
        if settings.lm_head == "shared" and count < target.vocabulary:
            raise UserError("A head that drafts with the target's LM head has its whole vocabulary. Give --vocabulary 0.")
        draft_ids = torch.arange(count, device=target.device)
        if count < target.vocabulary and not resumed:
            draft_ids = text.frequent(self._batches(settings, 0, 0), count).to(target.device)
        torch.manual_seed(settings.seed)
        shared = target.head if settings.lm_head == "shared" else None
        head = EagleHead(target.layer(settings.inner), len(self.taps), draft_ids, shared).to(target.device)
        if head.lm_head is not None:
            head.lm_head.weight.data.copy_(target.head[draft_ids])
        worker = half(head) if settings.precision == "bfloat16" else head
        super().__init__(settings, work, target.device, head, worker)
        self._compare: Comparison = divergence

    def inherit(self, folder: Path) -> None:
        """Start from the head in a folder.

        Raises:
            UserError: there is none, or it is another kind of head than this run trains.
        """
        file = folder / "model.safetensors"
        if not file.is_file():
            raise UserError(f"There is no head in {folder}. Give a folder that this command has written for --start.")
        tensors = load_file(file)
        offsets = tensors.pop("d2t", torch.zeros(len(self.model.draft_ids), dtype=torch.int64))
        head_state = {name.replace("layers.0.", "midlayer."): value for name, value in tensors.items() if name != "t2d"}
        head_state["draft_ids"] = offsets + torch.arange(len(offsets))
        model_state = self.model.state_dict()
        if {name: value.shape for name, value in head_state.items()} != {
            name: value.shape for name, value in model_state.items()
        }:
            raise UserError(
                f"The head in {folder} is built otherwise than the one to train. "
                "Give the --inner, --vocabulary, --taps and --lm-head that it was made with."
            )
        self.model.load_state_dict(head_state)
        self.refresh()

    def compile_passes(self) -> None:
        """Let torch compile most of a pass: it takes half a minute and a C++ compiler, and brings 1.4 times the tokens a CPU
        second."""
        layer = cast(Layer, self.worker.midlayer)
        compile_all([layer.mlp, layer.post_attention_layernorm])
        layer.pairs = torch.compile(layer.pairs, dynamic=True)  # type: ignore[method-assign]
        self._compare = torch.compile(divergence, dynamic=True)
        if (layers := getattr(self.target.module.base_model, "layers", None)) is not None:
            compile_all(layers)

    def _batches(self, settings: EagleSettings, chunk: int, position: int) -> Iterator[Batch]:
        if self.source is not None:
            return self.source.batches(settings.batch, chunk, position)
        curriculum = Curriculum(ramp=0, longest=settings.longest)
        return batches(tokens_of.load(self.target.folder), settings.seed, settings.batch, curriculum, chunk, position)

    def batches(self) -> Iterator[Batch]:
        """Yield endless batches from the run's position on."""
        return self._batches(self.settings, self.progress.chunk, self.progress.position)

    def losses(self, batch: Batch) -> tuple[torch.Tensor, list[float]]:
        """Compute the weighted mean over the steps; the figures are this, the loss, hits and anchors of each step, and
        chains."""
        tokens, labels = batch.tokens.to(self.device), batch.labels.to(self.device)
        states, logits = self.target.read(tokens, self.taps)
        embedded = torch.nn.functional.embedding(tokens, self.target.embedding)
        dtype = next(self.worker.parameters()).dtype
        outcome = unrolled_loss(
            self.worker,
            states.to(dtype),
            embedded.to(dtype),
            logits=logits,
            labels=labels,
            draft_ids=self.model.draft_ids,
            steps=self.settings.steps,
            fading=self.settings.fading,
            compare=self._compare,
        )
        return outcome.loss, [
            outcome.loss.item(),
            *outcome.losses,
            *outcome.hits,
            *outcome.rows,
            outcome.chains,
            outcome.anchors,
        ]

    def figures(self, means: Sequence[float]) -> tuple[dict[str, Any], str]:
        """Format the loss and accuracy of each step, and the tokens that a step of decoding makes with such a chain."""
        steps = self.settings.steps
        losses, hits, rows = (means[1 + i * steps : 1 + (i + 1) * steps] for i in range(3))
        chains, anchors = means[-2:]
        loss = [round(a / n, 4) if n else None for a, n in zip(losses, rows, strict=True)]
        accuracy = [round(a / n, 4) if n else None for a, n in zip(hits, rows, strict=True)]
        fields = {
            "loss": round(means[0], 4),
            "losses": loss,
            "accuracy": accuracy,
            "tokens_per_step": round(1 + chains / anchors, 3),
        }
        spoken = " ".join("–" if share is None else f"{share:.3f}" for share in accuracy)
        return fields, f"loss {means[0]:.3f}  accuracy {spoken}  {fields['tokens_per_step']:.2f} tokens/step"

    def export(self, folder: Path, layout: str, dtype: str) -> None:
        """Write the head as it is (see `export_eagle`)."""
        state = {name: value.cpu() for name, value in self.model.state_dict().items()}
        export_eagle(
            state, self.model.config, self.taps, bool(self.settings.taps), folder,
            target=(str(self.target.folder), self.target.module.config.architectures or []), layout=layout, dtype=dtype,
        )  # fmt: skip


def restore_settings(checkpoint: Path, options: dict[str, Any]) -> EagleSettings:
    """Read the settings of a checkpoint, replaced by those in `options`.

    Raises:
        UserError: there is no checkpoint of a head, or the options would make another head.
    """
    if not checkpoint.is_file():
        raise UserError(f"There is no checkpoint in {checkpoint.parent}. Start without --resume.")
    saved: dict[str, Any] = torch.load(checkpoint, map_location="cpu", weights_only=True)["settings"]
    if saved.keys() != asdict(EagleSettings()).keys():
        raise UserError(f"{checkpoint} is not of an EAGLE head. Give another folder with --work.")
    changed = [name for name in FIXED if options.get(name, saved[name]) != saved[name]]
    if changed:
        names = " and ".join(f"--{name.replace('_', '-')}" for name in changed)
        raise UserError(f"The checkpoint in {checkpoint.parent} was made with another {names}. Leave that out with --resume.")
    return EagleSettings(**saved | options)


MODEL_DEFAULTS = {"batch": 512}
"""Default settings for other models than the built-in one, for two cores: the logits of all positions of a step are in memory
together, a gigabyte for 1,024 positions and 262,144 tokens."""

MOST_VOCABULARY = 65_536
"""Size of a vocabulary above which a head drafts the `COMMON` most frequent tokens by default."""

COMMON = 16_384

CHATS = 8 * CHUNK
"""Number of chats of the recipe's corpus for other models than the built-in one, if no text is given."""


def texts(options: argparse.Namespace, target: FrozenTarget) -> list[str | list[Message]] | None:
    """Read the texts and chats to train on; None for the recipe's corpus as the built-in target reads it.

    Raises:
        UserError: a file cannot be read, or the target has no chat template for chats.
    """
    if options.text is not None:
        entries = text.read(options.text)
        if not target.codec.has_template and not all(isinstance(entry, str) for entry in entries):
            raise UserError(f"{target.folder} has no chat template, so it cannot be trained on chats. Give plain text.")
        return entries
    if options.model is None:
        return None
    chats: list[str | list[Message]] = []
    for example in corpus.chats("own", CHATS):
        chat: list[Message] = [{"role": turn["role"], "content": turn["content"]} for turn in example["messages"]]
        chats.append(chat if target.codec.has_template else "\n\n".join(message["content"] for message in chat))
    return chats


def train(options: argparse.Namespace, settings_given: dict[str, Any]) -> None:
    """Train, and write the head, also if the run is stopped.

    Raises:
        UserError: the target, the text or the options cannot be used.
    """
    if options.model is not None and options.model.suffix == ".gguf":
        raise UserError(
            f"{options.model} is a GGUF file, which cannot be trained on. Give the folder with safetensors that it was made "
            "from: the head drafts for the file, too."
        )
    if options.regenerate and options.text is None:
        raise UserError("--regenerate needs chats to answer. Give --text FILES, such as chats as JSON lines.")
    if options.threads:
        torch.set_num_threads(options.threads)
    folder: Path = options.model or path()
    work: Path = options.work or (WORK / "eagle" if options.model is None else Path(f"{folder.resolve().name}-eagle"))
    if options.resume:
        settings_given = asdict(restore_settings(work / "checkpoint.pt", settings_given))
    elif options.model is not None:
        settings_given = MODEL_DEFAULTS | settings_given
    target = FrozenTarget(folder, pick_device(options.device), DTYPES[settings_given.get("precision", EagleSettings.precision)])
    if options.model is not None and target.vocabulary > MOST_VOCABULARY and settings_given.get("lm_head") != "shared":
        settings_given.setdefault("vocabulary", COMMON)
    settings = EagleSettings(**settings_given)
    source, entries = None, texts(options, target)
    if entries is not None:
        if options.regenerate:
            answers = work / "answers.jsonl"
            text.regenerate(target, entries, answers, options.answer)
            entries = text.read([answers])
        source = text.Text(entries, target, settings.seed, settings.longest)
    training = EagleRun(settings, work, target, source, resumed=options.resume)
    if options.gguf:
        check_target(folder, training.taps)
    if options.compile:
        training.compile_passes()
    if options.resume:
        try:
            training.restore()
        except RuntimeError:
            raise UserError(
                f"The checkpoint in {work} is of a head for another target. Give another folder with --work."
            ) from None
    elif options.start is not None:
        training.inherit(options.start)
    weights = sum(parameter.numel() for parameter in training.model.parameters())
    print(
        f"A head of {weights / 1e6:.1f} M parameters drafts {len(training.model.draft_ids):,} of {target.vocabulary:,} tokens "
        f"from the inputs of layers {', '.join(map(str, training.taps))} of {folder}; checkpoints in {work}",
        flush=True,
    )
    training.train_until_stopped(options.save_every)
    out: Path = options.out or work / "head"
    training.export(out, options.layout, options.dtype)
    size = (out / "model.safetensors").stat().st_size
    print(f"{out}: {size / 1e6:.1f} MB. Try it: specchat --model {folder} --draft-model {out}")
    for kind in options.gguf:
        file = out.with_name(f"{out.name}-{kind}.gguf")
        print(f"{file}: {export_head(out, folder, file, kind) / 1e6:.1f} MB")


DEFAULTS_IN_WORDS = {"batch": f"{EagleSettings.batch:,}, {MODEL_DEFAULTS['batch']} for a model of your own"}
"""Defaults that are described in words."""


def command_line() -> argparse.ArgumentParser:
    """Build the parser of the command's options."""
    parser = argparse.ArgumentParser(prog="python -m specchat.builtin.recipe.train_eagle", description=main.__doc__)
    parser.add_argument(
        "model", metavar="MODEL", type=Path, nargs="?", help="folder of the model to draft for (default: the built-in target)"
    )
    parser.add_argument(
        "--text", type=Path, nargs="+", help="text files, or chats as JSON lines (default: the recipe's corpus)"
    )
    parser.add_argument("--regenerate", action="store_true", help="let the target write the answers to the chats first")
    parser.add_argument("--answer", type=int, default=512, help="most tokens of such an answer")
    parser.add_argument("--out", type=Path, help="folder for the head (default: WORK/head)")
    parser.add_argument("--layout", choices=LAYOUTS, default=LAYOUTS[0])
    parser.add_argument("--dtype", choices=list(DTYPES), default="float16", help="of the weights in the file")
    parser.add_argument(
        "--gguf", choices=TYPES, nargs="+", default=[], help="types to write the head in for llama.cpp too: OUT-TYPE.gguf"
    )
    parser.add_argument("--work", type=Path, help="folder for checkpoints (default: recipe/work/eagle, or ./NAME-eagle)")
    parser.add_argument(
        "--resume", action="store_true", help="go on from the checkpoint, with its settings where none are given"
    )
    parser.add_argument("--start", type=Path, help="folder of a head for the same target to start from")
    parser.add_argument("--save-every", type=float, default=120.0, help="seconds between checkpoints")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads (0: torch's choice)")
    parser.add_argument("--compile", action="store_true", help="let torch compile the passes, as in `builtin.recipe.train`")
    standard = EagleSettings()

    def setting(name: str, what: str, **more: Any) -> None:
        # Absent unless given: a resumed run keeps its settings.
        value = getattr(standard, name)
        default = DEFAULTS_IN_WORDS.get(name, value)
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            default=argparse.SUPPRESS,
            help=f"{what} (default: {default})",
            **({"type": type(value)} | more),
        )

    setting("tokens", "when to stop, padding included")
    setting("minutes", "when to stop at the latest, 0 for never")
    setting("seed", "of the weights and the order of the text")
    setting("batch", "tokens in a step")
    setting("longest", "longest part of a text in tokens")
    setting("steps", "drafts in a row that the head learns to make")
    setting("fading", "what each counts beside the one before")
    setting("inner", "width of the feed-forward network, 0 for the target's")
    setting(
        "vocabulary",
        f"how many of the target's tokens the head can draft, 0 for all; of more than {MOST_VOCABULARY:,} it drafts {COMMON:,}",
    )
    setting("lm_head", "its own, or the target's", choices=["own", "shared"])
    setting("taps", "layers whose inputs the head reads, if not 2, N/2 and N - 3", type=int, nargs="+")
    setting("optimizer", "Muon for the matrices, or AdamW alone", choices=["adamw", "muon"])
    setting("rate", "peak learning rate of AdamW")
    setting("matrix_rate", "peak learning rate of Muon")
    setting("decay", "share of the run in which the rate falls")
    setting("precision", "of the passes", choices=["float32", "bfloat16"])
    return parser


def main() -> None:
    """Train an EAGLE-3 head; it goes to a folder, checkpoints and the loss curve to the work folder."""
    options = command_line().parse_args()
    settings_given = {name: value for name, value in vars(options).items() if name in asdict(EagleSettings())}
    if "taps" in settings_given:
        settings_given["taps"] = tuple(settings_given["taps"])
    try:
        train(options, settings_given)
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
