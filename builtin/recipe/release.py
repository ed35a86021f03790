"""All steps of new weights in one command.

    python -m specchat.builtin.recipe.release                 # go on training, write all files, measure
    python -m specchat.builtin.recipe.release --only figures  # of the files that are there

The target goes on from the weights that ship, at a third of the rates that made them, on the corpus as its generators write it
now. Then the draft model does, with masks (`train_pard`), so that it drafts one token a pass or several; then a new EAGLE head
learns from the target. A stopped run resumes. The steps left to a person are printed at the end.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from .export import WEIGHTS
from .handwritten import PROMPTS
from .train import WORK

WIDE = ["--optimizer", "muon", "--ramp", "0", "--longest", "1536"]
"""Texts are of full length from the start."""

TRAIN = {
    "target": [*WIDE, "--size", "target", "--seed", "4", "--tokens", "10e6", "--rate", "7e-4", "--matrix-rate", "0.007",
               "--decay", "0.9"],
    "pard": ["--tokens", "5e6", "--out", str(WEIGHTS / "draft"), "--type", "Q8_0", "Q4_0"],
    "eagle": ["--tokens", "17e6", "--lm-head", "shared", "--inner", "288", "--out", str(WEIGHTS / "eagle"), "--gguf", "Q8_0"],
}  # fmt: skip
"""Arguments for each folder of checkpoints. Drafters also write their files."""

BY_HAND = """
Now by hand:
- judge each answer of builtin/recipe/handwritten.jsonl ("good": true or false), then
  python -m specchat.builtin.recipe.handwritten > builtin/recipe/HAND_PROMPTS.md
- the figures of builtin/MODEL_CARD.md, from builtin/recipe/work/figures
- vLLM's drafts for the tests: benchmarks/methods/vllm_heads.py of commit c4f12999, --vllm PYTHON --record tests/builtin
- make test; make screenshots"""


def run(module: str, *arguments: str, to: Path | None = None) -> None:
    """Run a command of the recipe; a failure ends everything."""
    command = [sys.executable, "-m", f"specchat.{module}", *arguments]
    print("+", " ".join(command[1:]), flush=True)
    if to is None:
        subprocess.run(command, check=True)
        return
    to.parent.mkdir(parents=True, exist_ok=True)
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    to.write_bytes(text)


def train(name: str, *more: str) -> None:
    """Train on: the target from the weights that ship, the head from scratch."""
    resumed = (WORK / name / "checkpoint.pt").is_file()
    module = "builtin.recipe.train" if name == "target" else f"builtin.recipe.train_{name}"
    first = ["--start", str(WEIGHTS / name)] if name == "target" else []
    run(module, *TRAIN[name], *(["--resume"] if resumed else first), *more)


def measure() -> None:
    """Measure the figures of the model card, and write the answers to the handwritten prompts."""
    folder = WORK / "figures"
    run("builtin.recipe.evaluate", "--limit", "500", "--json", to=folder / "evaluation.json")
    run("builtin.recipe.agreement", "--limit", "500", to=folder / "agreement.txt")
    methods = [part for name in ("greedy", "draft", "pard", "eagle", "early-exit", "lookup") for part in ("--only", name)]
    run("benchmarks.methods.tokens_per_step", "--prompts", "5", "--tokens", "120", *methods, to=folder / "speculation.txt")
    run("builtin.recipe.handwritten", "--jsonl", to=PROMPTS)
    run("builtin.recipe.odd_prompts", to=folder / "odd_prompts.json")  # fails where an answer runs to the end of the context


def main() -> None:
    """Train, write and measure everything built in."""
    parser = argparse.ArgumentParser(prog="python -m specchat.builtin.recipe.release", description=main.__doc__)
    parser.add_argument("--only", choices=["training", "figures"], action="append", help="only this part")
    parser.add_argument("--threads", default="0", help="CPU threads of the training (0: torch's choice)")
    parser.add_argument("--processes", default="1", help="processes of the target's training")
    parser.add_argument("--compile", action="store_true", help="let torch compile the passes, as in `builtin.recipe.train`")
    options = parser.parse_args()
    parts = options.only or ["training", "figures"]
    more = ["--threads", options.threads, *(["--compile"] if options.compile else [])]
    try:
        if "training" in parts:
            train("target", *more, "--processes", options.processes)
            run("builtin.recipe.export", "--name", "target")
            run("builtin.recipe.gguf_export", "--name", "target", "--type", "Q8_0", "Q4_0")
            train("pard", *more)
            train("eagle", *more)
        if "figures" in parts:
            measure()
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
    except KeyboardInterrupt:
        sys.exit(130)
    print(BY_HAND)


if __name__ == "__main__":
    main()
