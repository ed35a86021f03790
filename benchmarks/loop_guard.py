"""The loop guard: what it costs, and how often it fires on texts that somebody wrote.

    python -m specchat.benchmarks.loop_guard [TEXTS …] [--tokenizer tokenizer.json] [--tokens 100000]

TEXTS are files; of .jsonl files each string of an object is a text. Prints JSON: microseconds of processor time per token, how
many texts and tokens there were, and what the guard stopped.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from specchat.backends.loading import builtin_path
from specchat.decoders.repeats import LoopGuard


def strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value."""
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from strings(item)
        case dict():
            yield from strings(list(value.values()))


def texts(path: Path) -> Iterator[str]:
    """The texts of a file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".jsonl":
        yield text
        return
    for line in text.splitlines():
        yield from strings(json.loads(line))


def cost(tokenizer: Tokenizer, tokens: int) -> float:
    """Seconds of processor time per token, over tokens of which half belong to repeats too short to fire."""
    rng = random.Random(1)
    ids: list[int] = []
    while len(ids) < tokens:
        unit = [rng.randrange(tokenizer.get_vocab_size()) for _ in range(rng.randint(1, 60))]
        ids += unit * 6 if rng.random() < 0.2 else unit
    guard = LoopGuard(tokenizer.decode)
    begun = time.process_time()
    for token in ids[:tokens]:
        guard.push(token)
    return (time.process_time() - begun) / tokens


def stopped(tokenizer: Tokenizer, text: str) -> tuple[int, dict[str, Any] | None]:
    """How many tokens a text has, and where the guard stops it, if it does."""
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    guard = LoopGuard(tokenizer.decode)
    for count, token in enumerate(ids, 1):
        if loop := guard.push(token):
            end = tokenizer.decode(ids[max(0, count - 2 * loop.period) : count])
            return len(ids), {"after": count, "of": len(ids), **loop._asdict(), "end": end[-200:]}
    return len(ids), None


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(prog="python -m specchat.benchmarks.loop_guard", description=main.__doc__)
    parser.add_argument("texts", type=Path, nargs="*", help="files to look for loops in")
    parser.add_argument(
        "--tokenizer", type=Path, default=builtin_path() / "tokenizer.json", help="default: the built-in model's"
    )
    parser.add_argument("--tokens", type=int, default=100_000, help="how many to measure the cost on")
    options = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(options.tokenizer))
    found: dict[str, Any] = {"microseconds_per_token": round(cost(tokenizer, options.tokens) * 1e6, 2)}
    counts = {"texts": 0, "tokens": 0}
    fired = []
    for path in options.texts:
        for text in texts(path):
            tokens, loop = stopped(tokenizer, text)
            counts["texts"] += 1
            counts["tokens"] += tokens
            if loop:
                fired.append({"file": path.name, **loop})
    print(json.dumps({**found, **counts, "fired": fired}, ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main()
