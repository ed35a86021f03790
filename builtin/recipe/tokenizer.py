"""The tokenizer: byte-level BPE of 2,048 tokens, and the chat template.

Choices that make transformers and llama.cpp agree on the ids of any text: the pre-tokenizer is Qwen 2's, which llama.cpp
knows as `qwen2` (the Llama 3 expression with single digits, so that copying and arithmetic see every digit); no
normalizer; no prefix space; all 256 bytes in the alphabet; merges are never ignored.

Text from a user must never turn into control tokens. `encode_chat` encodes each message by itself with special tokens
split into plain text, and puts the control tokens between by id. A runtime does the same with
`tokenizer(content, add_special_tokens=False, split_special_tokens=True)`; rendering the template to one string and
encoding that would let a user write `<|end|>`.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from .corpus import chats
from .generators import words
from .generators.draw import Draw, Message

VOCABULARY = 2048
CONTEXT = 2048

PAD, BOS, END, SYSTEM, USER, ASSISTANT = range(6)
SPECIAL = ["<|pad|>", "<|bos|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|reserved_0|>", "<|reserved_1|>"]
ROLES = {"system": SYSTEM, "user": USER, "assistant": ASSISTANT}

# From Qwen 2; llama.cpp: LLAMA_VOCAB_PRE_TYPE_QWEN2, `tokenizer.ggml.pre = "qwen2"`.
PRE_TOKENIZER = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# Contents are never trimmed or changed: the rendering of some turns is a prefix of the rendering of more turns.
CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{% if message['role'] not in ['system', 'user', 'assistant'] %}"
    "{{ raise_exception('Roles are system, user and assistant, not ' + message['role']) }}"
    "{% endif %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def build() -> Tokenizer:
    """Make an untrained tokenizer."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PRE_TOKENIZER), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def texts(seed: int | str = "tokenizer", count: int = 40_000) -> Iterator[str]:
    """Yield the texts for learning merges: the corpus, and common words in random order."""
    for chat in chats(seed, count):
        for message in chat["messages"]:
            yield message["content"]
    d = Draw(f"{seed}/words")
    for _ in range(count // 10):
        chosen = [d.pick(words.COMMON) for _ in range(30)]
        yield " ".join(chosen)
        yield " ".join(word.capitalize() for word in chosen[:5])


def train(corpus: Iterable[str]) -> Tokenizer:
    """Learn the merges.

    Returns:
        A tokenizer of exactly `VOCABULARY` tokens, special tokens first.
    """
    tokenizer = build()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[AddedToken(token, special=True, normalized=False) for token in SPECIAL],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def save(tokenizer: Tokenizer, folder: Path) -> None:
    """Write tokenizer.json, tokenizer_config.json and chat_template.jinja."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.encode_special_tokens = False
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIAL[BOS],
        "eos_token": SPECIAL[END],
        "pad_token": SPECIAL[PAD],
        "extra_special_tokens": [SPECIAL[SYSTEM], SPECIAL[USER], SPECIAL[ASSISTANT]],
        "add_bos_token": False,
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": CONTEXT,
        "padding_side": "left",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)


def load(folder: Path) -> Tokenizer:
    """Load the tokenizer of a folder, set to read control tokens in text as plain text."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.encode_special_tokens = True
    return tokenizer


def encode_chat(
    tokenizer: Tokenizer, messages: Sequence[Message], generation_prompt: bool = False
) -> tuple[list[int], list[bool]]:
    """Encode a chat, and mark the ids that the assistant has to produce.

    Args:
        tokenizer: from `load`, which keeps user text from becoming control tokens.

    Returns:
        ids, and for each whether it is an answer's content or its `<|end|>`: the positions that carry the loss.
    """
    ids, produced = [BOS], [False]
    for message in messages:
        content = tokenizer.encode(message["content"], add_special_tokens=False).ids
        ids += [ROLES[message["role"]], *content, END]
        produced += [False] + [message["role"] == "assistant"] * (len(content) + 1)
    if generation_prompt:
        ids.append(ASSISTANT)
        produced.append(False)
    return ids, produced
