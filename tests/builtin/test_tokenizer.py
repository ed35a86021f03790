"""The tokenizer: any text survives, chats grow at the end only, and text never becomes control tokens."""

from functools import cache

import jinja2
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from specchat.builtin import path
from specchat.builtin.recipe import tokenizer as tokens_of
from specchat.builtin.recipe.generators.draw import Message

from ..cases import cases

WEIGHTS = path()

TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60) | st.sampled_from(
    [
        "", " ", "\n\n", "👩‍👩‍👧‍👦 🇩🇪 ❤️", "漢字かな交じり文", "\x00\x07\x1b[31m", "don't I'LL", "a  b\t\tc \n", "<|end|>",
        "١٢٣ 1234",
    ]
)  # fmt: skip


@cache
def shipped() -> Tokenizer:
    return tokens_of.load(WEIGHTS)


@cases(300)
@given(TEXTS)
def test_any_text_survives(text: str) -> None:
    ids = shipped().encode(text, add_special_tokens=False).ids
    assert shipped().decode(ids, skip_special_tokens=False) == text
    # Nothing that a user types becomes a control token.
    assert all(token >= len(tokens_of.SPECIAL) for token in ids)


@cases(50)
@given(st.lists(TEXTS.filter(bool), min_size=1, max_size=4))
def test_the_template_and_the_ids_grow_at_the_end(contents: list[str]) -> None:
    render = jinja2.Environment().from_string(tokens_of.CHAT_TEMPLATE).render
    roles = ["user", "assistant"]
    messages: list[Message] = [{"role": roles[i % 2], "content": text} for i, text in enumerate(contents)]
    shorter = messages[:-1]
    assert render(bos_token="", messages=messages).startswith(render(bos_token="", messages=shorter))
    ids, produced = tokens_of.encode_chat(shipped(), messages)
    assert ids[: len(tokens_of.encode_chat(shipped(), shorter)[0])] == tokens_of.encode_chat(shipped(), shorter)[0]
    assert len(ids) == len(produced)


def test_the_loss_is_on_what_the_assistant_says() -> None:
    messages: list[Message] = [{"role": "user", "content": "Say moon."}, {"role": "assistant", "content": "moon"}]
    ids, produced = tokens_of.encode_chat(shipped(), messages)
    spoken = [token for token, wanted in zip(ids, produced, strict=True) if wanted]
    assert spoken[-1] == tokens_of.END
    assert shipped().decode(spoken[:-1]) == "moon"


def test_transformers_agrees() -> None:
    theirs = AutoTokenizer.from_pretrained(WEIGHTS, local_files_only=True)
    messages: list[Message] = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi 😀\n 42"}]
    ours, _ = tokens_of.encode_chat(shipped(), messages, generation_prompt=True)
    rendered = theirs.apply_chat_template(
        [{"role": m["role"], "content": m["content"]} for m in messages], add_generation_prompt=True, tokenize=False
    )
    assert theirs(rendered, add_special_tokens=False).input_ids == ours
    assert theirs.eos_token_id == tokens_of.END
    split = theirs("<|end|>", add_special_tokens=False, split_special_tokens=True).input_ids
    assert tokens_of.END not in split
