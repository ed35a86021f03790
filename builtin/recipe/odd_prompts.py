"""The ends of the built-in model's answers to two hundred prompts that the recipe does not expect.

    python -m specchat.builtin.recipe.odd_prompts [--model MODEL] [--method lookup] [--threads 1] [--show]

Emoji, other scripts, code, single characters, control characters, noise, and texts of 1,500 tokens, the same in each run.
Answers are greedy, with the loop guard as in the chat. Exit code 1 if one runs to the end of the context.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator

from ...backends import LoadOptions, Model, UserError, load_model
from ...decoders import Conversation, Generation, encode_prompt
from .generators import words
from .generators.draw import Draw
from .generators.sentences import sentence
from .generators.tasks.copying import code_text

COUNT = 200
LONG = 1500
"""Tokens of the long prompts."""

EMOJI = "🙂 🚀 👍 ❤️ 😂 🎉 🤖 👩‍💻 🇫🇷 🏳️‍🌈 1️⃣ 👋🏽 🐍 ☕ ✅ 🔥".split()
SCRIPTS = {
    "cjk": ((0x4E00, 0x9FA5), (0x3041, 0x3096), (0xAC00, 0xD7A3)),
    "rtl": ((0x05D0, 0x05EA), (0x0627, 0x064A)),
    "other": ((0x0410, 0x044F), (0x0391, 0x03C9), (0x0905, 0x0939), (0x0E01, 0x0E2E)),
}
"""Ranges of code points."""
CODE = (
    "<div class='a'><p>",
    "SELECT * FROM users WHERE id = 1;",
    "#include <stdio.h>\nint main() {",
    "fn main() { println!(); }",
    '{"a": [1, 2, {"b": null}]}',
    "for i in range(10):\n    print(i",
    "rm -rf /tmp/x",
    "a[i++] = *p--;",
    "λx. x x",
    "```\n```",
    "def f(n):\n    return n * f(n - 1)",
    "0x7fff 0b1010 1e-9",
    "console.log('hi')",
    "=SUM(A1:A9)",
    "\\frac{a}{b}",
    "http://a.b/?c=d&e",
)
MARKS = "? ! . ... ??? !!! - _ / \\ ' \" * # % & @ ~ | $ () [] {}".split()


def _emoji(d: Draw) -> str:
    return d.pick(["", " "]).join(d.pick(EMOJI) for _ in range(d.number(1, 8)))


def _script(kind: str) -> Callable[[Draw], str]:
    def text(d: Draw) -> str:
        low, high = d.pick(SCRIPTS[kind])
        count = d.number(1, 30)
        return "".join(chr(d.number(low, high)) if d.chance(0.85) else " " for _ in range(count)).strip() or chr(low)

    return text


def _character(d: Draw) -> str:
    return d.pick([d.pick(MARKS), chr(d.number(33, 126)), str(d.number(0, 9)), d.pick(words.COMMON)])


def _control(d: Draw) -> str:
    parts = [d.pick(words.COMMON), "\x00", "\x07", "\x1b[31m", "\u200b", "\u202e", "\ufeff", "\t", "\r\n", "<|end|>", "\x7f"]
    return "".join(d.pick(parts) for _ in range(d.number(2, 8)))


def _noise(d: Draw) -> str:
    keys = d.pick(["asdfghjkl", "qwertyuiop", "abcdefghijklmnopqrstuvwxyz", "0123456789", "xyzXYZ 123", ",.-;:_#+*"])
    return "".join(d.pick(keys) for _ in range(d.number(3, 60)))


def _repeated(d: Draw) -> str:
    return d.pick([d.pick(words.COMMON) + " ", d.pick("aeioxyz!?.0"), d.pick(EMOJI), sentence(d) + " "]) * d.number(5, 40)


def _mixed(d: Draw) -> str:
    return " ".join(d.pick([_emoji, _script("cjk"), _character, _control, sentence])(d) for _ in range(d.number(2, 5)))


def _long(d: Draw) -> str:
    """Draw a text longer than LONG tokens, to be cut."""
    make: Callable[[], str] = d.pick(
        [lambda: sentence(d), lambda: code_text(d), lambda: _noise(d), lambda: f"{d.noun()}: {d.number(1, 999)}", d.made_up]
    )
    return d.pick([" ", "\n", "\n\n"]).join(make() for _ in range(700))


KINDS: dict[str, Callable[[Draw], str]] = {
    "emoji": _emoji,
    "cjk": _script("cjk"),
    "rtl": _script("rtl"),
    "other": _script("other"),
    "code": lambda d: d.pick([d.pick(CODE), d.pick(CODE), code_text(d)]),
    "character": _character,
    "control": _control,
    "noise": _noise,
    "repeated": _repeated,
    "mixed": _mixed,
    "long": _long,
}


def prompts(model: Model, count: int = COUNT) -> Iterator[tuple[str, str]]:
    """Yield the prompts, each with its kind; the kinds take turns."""
    names = list(KINDS)
    for index in range(count):
        kind = names[index % len(names)]
        text = KINDS[kind](Draw(f"odd/{index}"))
        yield kind, model.decode(model.encode(text)[:LONG]) if kind == "long" else text


def main() -> None:
    """Print how the answers end, by kind of prompt."""
    parser = argparse.ArgumentParser(prog="python -m specchat.builtin.recipe.odd_prompts", description=main.__doc__)
    parser.add_argument("--model", default="builtin", help="as --model of specchat (default: the built-in one)")
    parser.add_argument("--method", default="lookup", help="decoding method")
    parser.add_argument("--threads", type=int, default=None, help="CPU threads")
    parser.add_argument("--count", type=int, default=COUNT, help="how many prompts")
    parser.add_argument("--show", action="store_true", help="each prompt with its answer, as JSON lines")
    options = parser.parse_args()
    try:
        model = load_model(options.model, LoadOptions(device="cpu", threads=options.threads))
    except UserError as error:
        sys.exit(str(error))
    conversation = Conversation(model)
    ends: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    tokens = 0
    for kind, prompt in prompts(model, options.count):
        generation = Generation(conversation, encode_prompt(model, prompt), options.method, stop_loops=True)
        text = "".join(step.text for step in generation) + generation.flush()
        reason = generation.finish_reason or ""
        ends[kind][reason] += 1
        tokens += len(generation.answer)
        if options.show:
            print(json.dumps({"kind": kind, "reason": reason, "prompt": prompt[:300], "answer": text}, ensure_ascii=False))
    total = sum(ends.values(), Counter())
    print(json.dumps({"tokens": tokens, "ends": dict(total), "kinds": {kind: dict(counts) for kind, counts in ends.items()}}))
    if total["context"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
