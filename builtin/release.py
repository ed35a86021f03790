"""Everything that new weights ask for, by one command.

    python -m specchat.builtin.release                 # go on training both models, write all files, measure
    python -m specchat.builtin.release --only files    # the files of the checkpoints that are there

The target goes on from the weights that ship, at a fifth of the rates that made them, on the corpus as its generators write it
now; then the draft model does, so that it drafts what the target says. A stopped run goes on where it was. What a person has to
do is printed at the end.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from .export import WEIGHTS
from .handwritten import PROMPTS
from .train import WORK

TRAIN = {
    "target": ["--tokens", "10e6", "--rate", "4e-4", "--matrix-rate", "0.004", "--decay", "0.7", "--longest", "1536"],
    "draft": ["--tokens", "3e6", "--rate", "4e-4", "--matrix-rate", "0.004", "--decay", "0.7", "--batch", "1536"],
}
"""Of each model."""
SHARED = ["--optimizer", "muon", "--ramp", "0", "--seed", "2"]
"""Texts are of full length from the start, and others than those that the weights have seen."""

BY_HAND = """
Now by hand:
- judge each answer of builtin/handwritten.jsonl ("good": true or false), then
  python -m specchat.builtin.handwritten > builtin/HAND_PROMPTS.md
- the figures of builtin/MODEL_CARD.md, from builtin/work/figures
- make test; make screenshots"""


def run(module: str, *arguments: str, to: Path | None = None) -> None:
    """Run a command of the recipe; one that fails ends everything."""
    command = [sys.executable, "-m", f"specchat.{module}", *arguments]
    print("+", " ".join(command[1:]), flush=True)
    if to is None:
        subprocess.run(command, check=True)
        return
    to.parent.mkdir(parents=True, exist_ok=True)
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    to.write_bytes(text)


def train(name: str, more: list[str]) -> None:
    """Go on training a model from the weights that ship."""
    begun = (WORK / name / "checkpoint.pt").is_file()
    start = ["--resume"] if begun else ["--start", str(WEIGHTS / name)]
    run("builtin.train", "--size", name, *SHARED, *TRAIN[name], *start, *more)


def files(name: str) -> None:
    """The model folder, and its GGUF files."""
    run("builtin.export", "--name", name)
    run("builtin.gguf_export", "--name", name, "--type", "Q8_0", "Q4_0")


def measure() -> None:
    """The figures of the model card, and the answers to the prompts by hand."""
    folder = WORK / "figures"
    run("builtin.evaluate", "--limit", "500", "--json", to=folder / "evaluation.json")
    run("builtin.agreement", "--limit", "500", to=folder / "agreement.txt")
    methods = [part for name in ("greedy", "draft", "early-exit", "lookup") for part in ("--only", name)]
    run("benchmarks.methods.tokens_per_step", "--prompts", "5", "--tokens", "120", *methods, to=folder / "speculation.txt")
    run("builtin.handwritten", "--jsonl", to=PROMPTS)
    run("builtin.odd_prompts", to=folder / "odd_prompts.json")  # fails where an answer runs to the end of the context


def main() -> None:
    """Train, write and measure both models."""
    parser = argparse.ArgumentParser(prog="python -m specchat.builtin.release", description=main.__doc__)
    parser.add_argument("--only", choices=["training", "files", "figures"], action="append", help="only this part")
    parser.add_argument("--threads", default="0", help="CPU threads of the training (0: torch's choice)")
    parser.add_argument("--processes", default="1", help="processes of the target's training")
    options = parser.parse_args()
    parts = options.only or ["training", "files", "figures"]
    threads = ["--threads", options.threads]
    try:
        for name, more in (("target", ["--processes", options.processes]), ("draft", [])):
            if "training" in parts:
                train(name, [*threads, *more])
            if "files" in parts:
                files(name)
        if "figures" in parts:
            measure()
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
    except KeyboardInterrupt:
        sys.exit(130)
    print(BY_HAND)


if __name__ == "__main__":
    main()
