"""The built-in model's answers to forty prompts written by hand, as a new user would, in Markdown.

    python -m specchat.builtin.recipe.handwritten > builtin/recipe/HAND_PROMPTS.md

`handwritten.jsonl` holds the prompts and what a good answer says. Whether an answer is good is judged by reading it; the
verdicts are in the file as well, each for the answer it was given to, and are left out where the answer has changed.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from transformers import LlamaForCausalLM

from .. import path
from .evaluate import answers
from .tokenizer import encode_chat, load

PROMPTS = Path(__file__).parent / "handwritten.jsonl"
LIMIT = 200
"""Most tokens of an answer."""


class HandwrittenPrompt(TypedDict):
    """One prompt, and the verdict on one answer to it."""

    prompt: str
    expect: str
    answer: NotRequired[str]
    good: NotRequired[bool]


def prompts() -> list[HandwrittenPrompt]:
    """Read all prompts."""
    return [json.loads(line) for line in PROMPTS.read_text(encoding="utf-8").splitlines()]


def answered(folder: Path) -> Iterator[tuple[HandwrittenPrompt, str]]:
    """Yield each prompt with its greedy answer, in float32."""
    model: Any = LlamaForCausalLM.from_pretrained(folder, dtype="float32", local_files_only=True)
    tokenizer = load(folder)
    for prompt in prompts():
        ids, _ = encode_chat(tokenizer, [{"role": "user", "content": prompt["prompt"]}], generation_prompt=True)
        yield prompt, tokenizer.decode(answers(model, [ids], LIMIT)[0])


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def main() -> None:
    """Print the transcript as Markdown, or with `--jsonl` the prompts with the answers, to be judged."""
    parser = argparse.ArgumentParser(prog="python -m specchat.builtin.recipe.handwritten", description=main.__doc__)
    parser.add_argument("--model", type=Path, default=None, help="a model folder (default: the built-in one)")
    parser.add_argument("--jsonl", action="store_true", help="lines like those of handwritten.jsonl, with these answers")
    options = parser.parse_args()
    try:
        pairs = list(answered(options.model or path()))
    except FileNotFoundError as error:
        sys.exit(str(error))
    if options.jsonl:
        for prompt, answer in pairs:
            print(json.dumps({"prompt": prompt["prompt"], "expect": prompt["expect"], "answer": answer}, ensure_ascii=False))
        return
    verdicts = [prompt.get("good") if prompt.get("answer") == answer else None for prompt, answer in pairs]
    print("# Forty prompts written by hand\n")
    print("What new users type first. The prompts were written by someone who knew what the model is for, and had seen neither")
    print("the generators nor an answer. A few are so short that they may stand in the training data too. Answers are greedy,")
    print("in float32 (`python -m specchat.builtin.recipe.handwritten`), and")
    print(f"judged by reading them: **{sum(verdict is True for verdict in verdicts)} of {len(pairs)} are good**.")
    names = {True: "good", False: "**not good**", None: "not judged"}
    for number, ((prompt, answer), verdict) in enumerate(zip(pairs, verdicts, strict=True), 1):
        print(f"\n## {number}. {names[verdict]}\n")
        print(f"{_quoted(prompt['prompt'])}\n\nA good answer: {prompt['expect']}\n\n{_quoted(answer)}")


if __name__ == "__main__":
    main()
