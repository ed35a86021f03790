"""The training text: chats of many small tasks, byte-identical by seed.

    python -m specchat.builtin.corpus --seed 1 --count 10

Chat `i` of seed `s` depends on nothing but `s`, `i` and the settings, so that training resumes anywhere and several
machines write the same corpus.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypedDict

from .generators import copying, editing, formats, odd, poems, prose, pycode, questions, small_talk, spelling
from .generators.draw import Draw, Message, is_held_out
from .generators.outside import outside


class Chat(TypedDict):
    """One training example; `task` names the tasks of its turns."""

    task: str
    messages: list[Message]


class Task(NamedTuple):
    """A generator, the family it is scored in, and its share of the corpus."""

    family: str
    make: Callable[[Draw], list[Message]]
    weight: float
    splits: bool = True  # by checksum; the others know themselves what they keep for evaluation
    practice: float = 1.0
    """How many times its share training has of it: what is learned slowly needs more."""


TASKS: dict[str, Task] = {
    "copy_sentences": Task("copy", copying.sentences, 10, practice=1.2),
    "copy_long": Task("copy", copying.long_text, 2.5),
    "copy_words": Task("copy", copying.random_words, 4),
    "copy_names": Task("copy", copying.names, 3),
    "copy_list": Task("copy", copying.listing, 2.5),
    "copy_figures": Task("copy", copying.figures, 3),
    "copy_code": Task("copy", copying.code, 1.5),
    "several_times": Task("copy", copying.several_times, 4),
    "replace_word": Task("edit", editing.replace_word, 13, practice=1.2),
    "change_case": Task("edit", editing.change_case, 22, practice=1.5),
    "sort": Task("edit", editing.sort_items, 14, practice=2.0),
    "reverse": Task("edit", editing.reverse_items, 6, practice=0.6),
    "reformat": Task("edit", editing.reformat, 7, practice=0.7),
    "record_json": Task("edit", editing.record_json, 2),
    "table": Task("edit", editing.table, 5, practice=1.5),
    "rename_variable": Task("edit", pycode.rename_variable, 2),
    "docstring": Task("edit", pycode.docstring, 4),
    "spelling": Task("edit", spelling.spelling, 4, practice=3.0),
    "number_format": Task("edit", formats.number_format, 7, practice=1.6),
    "markdown": Task("edit", formats.markdown, 5, practice=0.6),
    "follow_up": Task("edit", editing.follow_up, 5),
    "extract": Task("extract", editing.extract, 8, practice=0.6),
    "list_people": Task("extract", prose.list_people, 4, practice=0.6),
    "count_items": Task("count", editing.count_items, 4, practice=0.6),
    "count_up": Task("count", editing.count_up, 2),
    "arithmetic": Task("arithmetic", editing.arithmetic, 18, practice=1.2),
    "fact": Task("fact", questions.fact, 13, practice=0.6),
    "comparison": Task("fact", questions.comparison, 5, practice=0.6),
    "small_talk": Task("talk", small_talk.small_talk, 12, splits=False, practice=2.5),
    "feelings": Task("talk", odd.feelings, 1.5),
    "outside": Task("outside", outside, 9, splits=False, practice=2.5),
    "large_numbers": Task("outside", editing.large_numbers, 3),
    "foreign": Task("odd", odd.foreign, 4, practice=1.2),
    "noise": Task("odd", odd.noise, 4, practice=1.2),
    "pasted": Task("odd", odd.pasted, 3),
    "passage_question": Task("passage", prose.passage_question, 10),
    "long_passage": Task("passage", prose.long_passage, 0.7),
    "summarise": Task("passage", prose.summarise, 2.5),
    "story": Task("story", prose.tell_story, 1.5, practice=3.0),
    "poem": Task("story", poems.poem, 1.5, practice=3.0),
}

_NAMES = list(TASKS)

COPY_FIRST = 3.0
"""How many times its share copying gets, on top, while texts are shortest: what every other task is built on."""


def _share(name: str, d: Draw) -> float:
    task = TASKS[name]
    if d.held_out:
        return task.weight
    return task.weight * task.practice * (1 + COPY_FIRST * (1 - d.reach) if task.family == "copy" else 1)


def _task_name(d: Draw) -> str:
    shares = [_share(name, d) for name in _NAMES]
    point = d.rng.random() * sum(shares)
    for name, share in zip(_NAMES, shares, strict=True):
        point -= share
        if point < 0:
            return name
    return _NAMES[-1]


def prompt_text(messages: list[Message]) -> str:
    """What decides whether a chat is held out: all that the user says."""
    return "\n".join(message["content"] for message in messages if message["role"] == "user")


def draw_task(name: str, d: Draw) -> list[Message]:
    """One exchange of a task, on the side of the split that `d` stands for."""
    while True:
        messages = TASKS[name].make(d)
        if not TASKS[name].splits or is_held_out(prompt_text(messages)) == d.held_out:
            return messages


def chat(seed: int | str, index: int, reach: float = 1.0, held_out: bool = False) -> Chat:
    """Chat number `index` of a corpus.

    Args:
        seed: names the corpus.
        reach: 0 … 1, how long texts and chats may be.
        held_out: draw from the evaluation side.
    """
    d = Draw(f"{seed}/{'held-out' if held_out else 'train'}/{index}", reach, held_out)
    turns = 1 if d.chance(0.7) else d.span(1, 5)
    names = [_task_name(d) for _ in range(turns)]
    messages: list[Message] = []
    if d.chance(0.06):
        messages.append({"role": "system", "content": d.pick(_SYSTEM)})
    for name in names:
        messages += draw_task(name, d)
    return {"task": "+".join(names), "messages": messages}


_SYSTEM = [
    "You are a helpful assistant.", "You are the built-in model of specchat.", "Answer briefly.", "Be kind and honest.",
    "You are a small model that explains decoding methods.", "You are a careful assistant that copies text exactly.",
]  # fmt: skip


def chats(seed: int | str, count: int, reach: float = 1.0, held_out: bool = False) -> Iterator[Chat]:
    """The first `count` chats of a corpus."""
    return (chat(seed, index, reach, held_out) for index in range(count))


def main() -> None:
    """Print chats as JSON lines."""
    parser = argparse.ArgumentParser(prog="python -m specchat.builtin.corpus", description=main.__doc__)
    parser.add_argument("--seed", type=int, default=1, help="names the corpus")
    parser.add_argument("--count", type=int, default=10, help="how many chats")
    parser.add_argument("--reach", type=float, default=1.0, help="0 … 1, how long texts may be")
    parser.add_argument("--held-out", action="store_true", help="the evaluation side, which training never sees")
    options = parser.parse_args()
    for example in chats(options.seed, options.count, options.reach, options.held_out):
        print(json.dumps(example, ensure_ascii=False))


if __name__ == "__main__":
    main()
