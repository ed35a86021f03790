"""Agreement of a built-in model's quantized files with its float32 weights: the share of equal greedy choices.

    python -m specchat.builtin.recipe.agreement                      # every GGUF file in builtin/weights
    python -m specchat.builtin.recipe.agreement FILE.gguf --limit 500

Both models read the prompts and the expected answers of the evaluation; their greedy choices are compared at every token of
an answer, its end included.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ...backends import LoadOptions, UserError, load_model
from ...backends.base import PREFILL_CHUNK, ROOT, Model, Sampling, Session
from .. import path
from .evaluate import Job, jobs
from .export import WEIGHTS
from .tokenizer import load

EXACT = LoadOptions(device="cpu", dtype="float32")


def choices(session: Session, prompt: Sequence[int], answer: Sequence[int]) -> list[int]:
    """Return the greedy choice at each token of `answer`, after `prompt` and the tokens before it [len(answer)]."""
    session.rewind(0)
    session.prefill(prompt[:-1])
    # The last token of the prompt chooses the first of the answer, and so on.
    nodes = [prompt[-1], *answer[:-1]]
    picks: list[int] = []
    for start in range(0, len(nodes), PREFILL_CHUNK):
        chunk = nodes[start : start + PREFILL_CHUNK]
        picks += session.evaluate(chunk, range(ROOT, len(chunk) - 1)).choose(Sampling())
        session.commit(range(len(chunk)))
    return picks


def agreement(reference: Model, other: Model, jobs: Sequence[Job]) -> tuple[int, int]:
    """Compare two models.

    Returns:
        the number of tokens at which they agree, and the number compared.
    """
    ours, theirs = reference.open_session(), other.open_session()
    same = count = 0
    for job in jobs:
        pairs = zip(choices(ours, job.prompt, job.expected_ids), choices(theirs, job.prompt, job.expected_ids), strict=True)
        same += sum(a == b for a, b in pairs)
        count += len(job.expected_ids)
    ours.close()
    theirs.close()
    return same, count


def main() -> None:
    """Print the share of equal greedy choices, for each file."""
    parser = argparse.ArgumentParser(prog="python -m specchat.builtin.recipe.agreement", description=main.__doc__)
    parser.add_argument("files", type=Path, nargs="*", help="GGUF files (default: those in builtin/weights)")
    parser.add_argument("--limit", type=int, default=500, help="about how many prompts")
    options = parser.parse_args()
    files = options.files or sorted(WEIGHTS.glob("target-*.gguf")) + sorted(WEIGHTS.glob("draft-*.gguf"))  # no head
    if not files:
        sys.exit(f"There is no GGUF file in {WEIGHTS}. Run `python -m specchat.builtin.recipe.gguf_export` first.")
    try:
        for file in files:
            name = file.name.partition("-")[0]
            folder = path(name if (WEIGHTS / name).is_dir() else "target")
            same, count = agreement(
                load_model(str(folder), EXACT), load_model(str(file), EXACT), jobs(load(folder), options.limit)
            )
            print(f"{file.name}: {same / count:.2%} of {count} tokens", flush=True)
    except (UserError, FileNotFoundError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
