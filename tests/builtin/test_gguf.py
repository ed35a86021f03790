"""The built-in models as GGUF files: the same ids for any text, nearly the same choices."""

import importlib.util
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from specchat.backends import LoadOptions, load_model
from specchat.builtin import path
from specchat.builtin.recipe.agreement import agreement
from specchat.builtin.recipe.evaluate import jobs
from specchat.builtin.recipe.gguf_export import export
from specchat.builtin.recipe.tokenizer import load

from ..cases import FULL

_missing = [name for name in ("llama_cpp", "gguf") if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(_missing), reason=f"not installed. Run: {', '.join(_missing)}")

STRINGS = 10_000 if FULL else 1_500
"""SPECCHAT_FULL=1 compares all 10,000 texts."""

EXACT = LoadOptions(device="cpu", dtype="float32", threads=1)

EMOJI = "🙂 👩‍👩‍👧‍👦 🇩🇪 🇫🇷 ❤️ ✌🏽 🏳️‍🌈 0️⃣ 🧑🏿‍🚀".split()
CODE = (
    "def f(x):\n    return x ** 2\n", "for (int i = 0; i < n; ++i) {\n\t", "a[b]->c = &d;", "</div>", "<|end|>", "<|user|>",
    '{"k": [1, 2.5e-3, null]}', "SELECT * FROM t WHERE a<>'b';", "#!/bin/sh\r\n", "λ x. x", "${HOME}/*.py", "0xFF_u8", "\\n",
)  # fmt: skip
WORDS = (
    "don't I'LL we've the The THE naïve café straße Zürich e\u0301 ﬁ Ⅷ ½ １２ 2026 3.14 1,000 … — “quoted” a_b camelCase"
).split()


def strings(count: int) -> Iterator[str]:
    """Words, emoji, CJK, code, control bytes, whitespace, any code points, and random bytes decoded with replacement."""
    rng = random.Random(5)

    def points(low: int, high: int) -> str:
        return "".join(chr(rng.randrange(low, high)) for _ in range(rng.randint(1, 12)))

    for i in range(count):
        match i % 8:
            case 0:
                yield " ".join(rng.choices(WORDS, k=rng.randint(1, 9)))
            case 1:
                yield "".join(rng.choices([*EMOJI, " ", "\ufe0f", "\u200d", "ok"], k=rng.randint(1, 7)))
            case 2:
                yield (
                    points(0x4E00, 0x9FFF) + rng.choice(["", " ", "。", "A"]) + points(0x3040, 0x30FF) + points(0xAC00, 0xD7A3)
                )
            case 3:
                yield rng.choice(["", " ", "\n"]).join(rng.choices(CODE, k=rng.randint(1, 4)))
            case 4:
                yield points(0, 0x20) + rng.choice(["", "x", "\x7f"]) + points(0, 0xA1)
            case 5:
                yield "".join(
                    rng.choices([" ", "  ", "\n", "\t", "\r\n", "\u00a0", "\u3000", "a", "1", "."], k=rng.randint(1, 14))
                )
            case 6:
                yield points(0, 0xD800) + points(0xE000, 0x110000)
            case _:
                yield rng.randbytes(rng.randint(1, 40)).decode("utf-8", "replace")


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The target in Q8_0, written by the recipe from the weights that ship."""
    file = tmp_path_factory.mktemp("gguf") / "target-Q8_0.gguf"
    export(path(), file, "Q8_0", "specchat target")
    return file


def test_any_text_has_the_same_ids_in_transformers_and_llama_cpp(quantized: Path) -> None:
    import llama_cpp

    theirs: Any = llama_cpp.Llama(str(quantized), vocab_only=True, verbose=False)
    ours = AutoTokenizer.from_pretrained(path(), local_files_only=True)
    for text in strings(STRINGS):
        wanted = ours(text, add_special_tokens=False, split_special_tokens=True).input_ids
        assert theirs.tokenize(text.encode(), add_bos=False, special=False) == wanted, repr(text)


def test_q8_0_chooses_what_float32_chooses() -> None:
    """98% of the tokens of the evaluation's answers (`python -m specchat.builtin.recipe.agreement` takes all of them)."""
    shipped = path().parent / "target-Q8_0.gguf"
    folder = path()
    asked = jobs(load(folder), 500 if FULL else 20)
    same, count = agreement(load_model(str(folder), EXACT), load_model(str(shipped), EXACT), asked)
    assert count > 300
    assert same / count >= 0.98


def test_the_files_that_ship_are_the_recipes(quantized: Path) -> None:
    assert (path().parent / "target-Q8_0.gguf").read_bytes() == quantized.read_bytes()
    assert {file.name for file in path().parent.glob("*.gguf")} == {
        "eagle-Q8_0.gguf",
        *(f"{name}-{kind}.gguf" for name in ("target", "draft") for kind in ("Q8_0", "Q4_0")),
    }


def test_all_of_builtin_is_small() -> None:
    work = path().parent.parent / "work"
    files = [file for file in path().parent.parent.rglob("*") if file.is_file() and work not in file.parents]
    assert sum(file.stat().st_size for file in files) <= 45_000_000
    assert sum(file.stat().st_size for file in path().iterdir()) <= 20_000_000
