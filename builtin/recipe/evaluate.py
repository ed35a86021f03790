"""Score a built-in model on prompts that training never saw.

    python -m specchat.builtin.recipe.evaluate --limit 500 --json

Answers are greedy, in float32, by transformers. What counts as right depends on the family (`right`): facts by their key
phrase, what is outside the model's subjects by the honest sentence, everything else character by character; stories are
scored on ending by themselves only. People and cities are drawn from names that training never sees, and no prompt occurs
in training (`draw.is_held_out`).
"""

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from .. import path
from .corpus import TASKS, draw_task
from .generators.draw import Draw, Message
from .generators.facts import FACTS
from .tokenizer import CONTEXT, END, PAD, encode_chat, load

SEED = "evaluation"
MARGIN = 24
"""Tokens beyond the expected answer after which an answer counts as endless."""

FREE = {"story"}
"""Families without a single right answer."""

STORY_LIMIT = 320

OUTSIDE_KEY = "small demonstration model"
"""Words that the honest sentence contains."""


class Score(NamedTuple):
    """The verdict on one answer."""

    right: bool
    exact: bool
    ended: bool


def examples(limit: int, names: Sequence[str] = tuple(TASKS), seed: str = SEED) -> list[tuple[str, list[Message]]]:
    """Draw about `limit` held-out exchanges, the tasks by their share in the corpus, each at least once."""
    total = sum(TASKS[name].weight for name in names)
    drawn: list[tuple[str, list[Message]]] = []
    for name in names:
        count = max(1, round(limit * TASKS[name].weight / total))
        drawn += [(name, draw_task(name, Draw(f"{seed}/{name}/{i}", held_out=True))) for i in range(count)]
    return drawn


@torch.inference_mode()
def answers(model: Any, prompts: list[list[int]], limit: int) -> list[list[int]]:
    """Write greedy answers to prompts of token ids, as one batch.

    Returns:
        the new ids for each prompt, without `<|end|>`; an answer that never ended is `limit` long.
    """
    width = max(map(len, prompts))
    tokens = torch.tensor([[PAD] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    generated = model.generate(
        tokens, attention_mask=mask, max_new_tokens=limit, do_sample=False, eos_token_id=END, pad_token_id=PAD
    )
    rows: list[list[int]] = [row[width:].tolist() for row in generated]
    return [row[: row.index(END)] if END in row else row for row in rows]


@torch.inference_mode()
def spoken(model: Any, prompts: list[list[int]], expected: list[list[int]]) -> list[bool]:
    """Tell in one pass whether each expected answer is the greedy one: every token is the argmax after those before."""
    rows = [prompt + answer for prompt, answer in zip(prompts, expected, strict=True)]
    width = max(map(len, rows))
    tokens = torch.tensor([row + [PAD] * (width - len(row)) for row in rows])
    hidden = model.model(input_ids=tokens, use_cache=False).last_hidden_state
    matches = []
    for row, (prompt, answer) in enumerate(zip(prompts, expected, strict=True)):
        scores = model.lm_head(hidden[row, len(prompt) - 1 : len(prompt) + len(answer) - 1])
        matches.append(scores.argmax(-1).tolist() == answer)
    return matches


def right(name: str, expected: str, answer: str) -> bool:
    """Tell whether an answer is right: it contains the key phrase of each fact, or says that this is outside the model's
    subjects, or equals the expected text."""
    if TASKS[name].family == "fact":
        keys = [fact.key for fact in FACTS if fact.short in expected]
        # "Tell me more." is answered without the sentence that holds the key.
        return all(key in answer for key in keys) if keys else answer == expected
    if TASKS[name].family == "outside":
        return OUTSIDE_KEY in answer
    return answer == expected


class Job(NamedTuple):
    """An answer to be scored."""

    name: str
    prompt: list[int]
    expected: str
    expected_ids: list[int]
    limit: int  # tokens after which an answer counts as endless


def jobs(tokenizer: Tokenizer, limit: int, names: Sequence[str] = tuple(TASKS)) -> list[Job]:
    """List every answer of the examples, each after the right answers before it."""
    all_jobs = []
    for name, messages in examples(limit, names):
        for end in range(1, len(messages), 2):
            expected = messages[end]["content"]
            prompt, _ = encode_chat(tokenizer, messages[:end], generation_prompt=True)
            ids = [*tokenizer.encode(expected, add_special_tokens=False).ids, END]
            most = STORY_LIMIT if TASKS[name].family in FREE else len(ids) - 1 + MARGIN
            if len(prompt) + most <= CONTEXT:
                all_jobs.append(Job(name, prompt, expected, ids, most))
    return all_jobs


def evaluate(folder: Path, limit: int = 500, names: Sequence[str] = tuple(TASKS), batch: int = 16) -> dict[str, Any]:
    """Answer and compare.

    Args:
        folder: a model folder.
        limit: approximate number of exchanges.
        names: the tasks to score.
        batch: prompts that are answered together.

    Returns:
        `families` and `tasks` (name → count, right, exact and EOS share), `count`, `eos`, `seconds`, and `failures`.
    """
    model: Any = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    model.eval()
    tokenizer = load(folder)
    started = time.monotonic()
    scores: dict[str, list[Score]] = defaultdict(list)
    failures: list[dict[str, str]] = []
    open_jobs: list[Job] = []
    # Most answers are right, which one pass shows; only the others are written token by token.
    everything = sorted(jobs(tokenizer, limit, names), key=lambda job: len(job.prompt) + len(job.expected_ids))
    for start in range(0, len(everything), batch):
        group = everything[start : start + batch]
        matches = spoken(model, [job.prompt for job in group], [job.expected_ids for job in group])
        for job, exact in zip(group, matches, strict=True):
            if exact:
                scores[job.name].append(Score(True, True, True))
            else:
                open_jobs.append(job)
    open_jobs.sort(key=lambda job: job.limit)
    for start in range(0, len(open_jobs), batch):
        group = open_jobs[start : start + batch]
        most = max(job.limit for job in group)
        for job, ids in zip(group, answers(model, [job.prompt for job in group], most), strict=True):
            text, ended = tokenizer.decode(ids), len(ids) < most
            score = Score(right(job.name, job.expected, text), text == job.expected, ended)
            scores[job.name].append(score)
            if not score.right and TASKS[job.name].family not in FREE:
                prompt = tokenizer.decode(job.prompt, skip_special_tokens=False)
                failures.append({"task": job.name, "prompt": prompt, "wanted": job.expected, "answer": text})
    families: dict[str, list[Score]] = defaultdict(list)
    for name in TASKS:
        families[TASKS[name].family] += scores[name]
    return {
        "families": {name: _summary(results, name in FREE) for name, results in families.items() if results},
        "tasks": {name: _summary(scores[name], TASKS[name].family in FREE) for name in TASKS if scores[name]},
        "count": len(everything),
        "eos": round(sum(score.ended for results in scores.values() for score in results) / len(everything), 4),
        "seconds": round(time.monotonic() - started, 1),
        "failures": failures,
    }


def _summary(scores: list[Score], free: bool) -> dict[str, float | int | None]:
    def share(flags: Iterable[bool]) -> float:
        return round(sum(flags) / len(scores), 4)

    return {
        "count": len(scores),
        "right": None if free else share(score.right for score in scores),
        "exact": None if free else share(score.exact for score in scores),
        "eos": share(score.ended for score in scores),
    }


def main() -> None:
    """Print the share of right answers by family of tasks, and of answers that ended."""
    parser = argparse.ArgumentParser(prog="python -m specchat.builtin.recipe.evaluate", description=main.__doc__)
    parser.add_argument("--model", type=Path, default=None, help="a model folder (default: the built-in one)")
    parser.add_argument("--task", action="append", choices=list(TASKS), help="only this task (may be repeated)")
    parser.add_argument("--limit", type=int, default=500, help="about how many prompts")
    parser.add_argument("--json", action="store_true", help="one JSON object with every figure and failure")
    parser.add_argument("--failures", type=int, default=0, help="show this many wrong answers")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads (0: torch's choice)")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    try:
        folder = options.model or path()
    except FileNotFoundError as error:
        sys.exit(str(error))
    result = evaluate(folder, options.limit, options.task or tuple(TASKS))
    if options.json:
        print(json.dumps(result, ensure_ascii=False, indent=1))
        return
    for group in ("families", "tasks"):
        print(f"{group:16} count   right   exact    ended")
        for name, line in result[group].items():
            right_share, exact = ("     –" if line[key] is None else f"{line[key]:6.1%}" for key in ("right", "exact"))
            print(f"{name:16} {line['count']:5}  {right_share}  {exact}  {line['eos']:6.1%}")
        print()
    print(f"{result['count']} answers, {result['eos']:.1%} ended by themselves, {result['seconds']:.0f} s")
    for failure in result["failures"][: options.failures]:
        print(f"\n[{failure['task']}]\n{failure['prompt']}\n  wanted: {failure['wanted']!r}\n  answer: {failure['answer']!r}")


if __name__ == "__main__":
    main()
