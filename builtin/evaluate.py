"""Score a built-in model on prompts that training never saw.

    python -m specchat.builtin.evaluate --limit 400 --json

Every answer is generated greedily in float32 by transformers and compared character by character. Families whose texts
are free (stories) are scored on ending by themselves only. People and cities are drawn from names that training never
sees, and no prompt occurs in training (`draw.is_held_out`).
"""

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaForCausalLM

from . import path
from .corpus import TASKS, draw_task
from .draw import Draw, Message
from .tokenizer import CONTEXT, END, PAD, encode_chat, load

SEED = "evaluation"
MARGIN = 24
"""Tokens that an answer may exceed the expected one by before it counts as endless."""

FREE = {"story"}
"""Families without a single right answer."""

STORY_LIMIT = 320


def examples(limit: int, names: Sequence[str] = tuple(TASKS), seed: str = SEED) -> list[tuple[str, list[Message]]]:
    """About `limit` held-out exchanges, the tasks by their share in the corpus, each at least once."""
    total = sum(TASKS[name].weight for name in names)
    found: list[tuple[str, list[Message]]] = []
    for name in names:
        count = max(1, round(limit * TASKS[name].weight / total))
        found += [(name, draw_task(name, Draw(f"{seed}/{name}/{i}", held_out=True))) for i in range(count)]
    return found


@torch.inference_mode()
def answers(model: Any, prompts: list[list[int]], limit: int) -> list[list[int]]:
    """Greedy answers to prompts of token ids, as one batch.

    Returns:
        for each prompt the new ids up to and without `<|end|>`; an answer that never ended is `limit` long.
    """
    width = max(map(len, prompts))
    tokens = torch.tensor([[PAD] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    made = model.generate(
        tokens, attention_mask=mask, max_new_tokens=limit, do_sample=False, eos_token_id=END, pad_token_id=PAD
    )
    rows: list[list[int]] = [row[width:].tolist() for row in made]
    return [row[: row.index(END)] if END in row else row for row in rows]


def evaluate(folder: Path, limit: int = 400, names: Sequence[str] = tuple(TASKS), batch: int = 16) -> dict[str, Any]:
    """Generate and compare.

    Args:
        folder: a model folder.
        limit: about how many exchanges.
        names: the tasks to score.
        batch: prompts that are generated together.

    Returns:
        `families` and `tasks` (name → count, exact share, EOS share), `count`, `eos`, `seconds`, and `failures`.
    """
    model: Any = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    model.eval()
    tokenizer = load(folder)
    started = time.monotonic()
    jobs: list[tuple[int, str, list[int], str]] = []
    for name, messages in examples(limit, names):
        # Every answer of a chat is asked for, each after the right answers before it.
        for end in range(1, len(messages), 2):
            if end > 1 and name in FREE:
                continue
            wanted = messages[end]["content"]
            prompt, _ = encode_chat(tokenizer, messages[:end], generation_prompt=True)
            length = STORY_LIMIT if TASKS[name].family in FREE else len(tokenizer.encode(wanted).ids) + MARGIN
            if len(prompt) + length <= CONTEXT:
                jobs.append((length, name, prompt, wanted))
    jobs.sort(key=lambda job: (job[0], len(job[2])))
    scores: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    failures: list[dict[str, str]] = []
    for start in range(0, len(jobs), batch):
        group = jobs[start : start + batch]
        most = max(length for length, *_ in group)
        for (_, name, prompt, wanted), ids in zip(group, answers(model, [job[2] for job in group], most), strict=True):
            text, ended = tokenizer.decode(ids), len(ids) < most
            exact = text == wanted
            scores[name].append((exact, ended))
            if not exact and TASKS[name].family not in FREE:
                asked = tokenizer.decode(prompt, skip_special_tokens=False)
                failures.append({"task": name, "prompt": asked, "wanted": wanted, "answer": text})
    families: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    for name in TASKS:
        families[TASKS[name].family] += scores[name]
    everything = [pair for pairs in scores.values() for pair in pairs]
    return {
        "families": {name: _summary(pairs, name in FREE) for name, pairs in families.items() if pairs},
        "tasks": {name: _summary(scores[name], TASKS[name].family in FREE) for name in TASKS if scores[name]},
        "count": len(everything),
        "eos": round(sum(ended for _, ended in everything) / len(everything), 4),
        "seconds": round(time.monotonic() - started, 1),
        "failures": failures,
    }


def _summary(pairs: list[tuple[bool, bool]], free: bool) -> dict[str, float | int | None]:
    exact = None if free else round(sum(exact for exact, _ in pairs) / len(pairs), 4)
    return {"count": len(pairs), "exact": exact, "eos": round(sum(ended for _, ended in pairs) / len(pairs), 4)}


def main() -> None:
    """Exact-match share by family of tasks, and the share of answers that end by themselves."""
    parser = argparse.ArgumentParser(prog="python -m specchat.builtin.evaluate", description=main.__doc__)
    parser.add_argument("--model", type=Path, default=None, help="a model folder (default: the built-in one)")
    parser.add_argument("--task", action="append", choices=list(TASKS), help="only this task (may be repeated)")
    parser.add_argument("--limit", type=int, default=400, help="about how many prompts")
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
        print(f"{group:16} count  exact    eos")
        for name, line in result[group].items():
            exact = "    –" if line["exact"] is None else f"{line['exact']:6.1%}"
            print(f"{name:16} {line['count']:5}  {exact}  {line['eos']:6.1%}")
        print()
    print(f"{result['count']} answers, {result['eos']:.1%} ended by themselves, {result['seconds']:.0f} s")
    for failure in result["failures"][: options.failures]:
        print(f"\n[{failure['task']}]\n{failure['prompt']}\n  wanted: {failure['wanted']!r}\n  answer: {failure['answer']!r}")


if __name__ == "__main__":
    main()
