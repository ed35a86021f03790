"""The training text: chats of many small tasks, byte-identical by seed.

    python -m specchat.builtin.recipe.corpus --seed 1 --count 10

Chat `i` of seed `s` depends on nothing but `s`, `i` and the settings, so that training resumes anywhere and several
machines write the same corpus.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypedDict

from .generators import passages, poems, stories
from .generators.draw import Draw, Message, is_held_out
from .generators.facts import questions
from .generators.talk import odd, outside, small_talk
from .generators.tasks import copying, editing, extracting, formats, lists, pycode, records, spelling, sums


class Chat(TypedDict):
    """A training example; `task` names the tasks of its turns."""

    task: str
    messages: list[Message]


class Task(NamedTuple):
    """A generator, the family it is scored in, and its share of the corpus."""

    family: str
    make: Callable[[Draw], list[Message]]
    weight: float
    splits: bool = True  # by checksum; the others hold out prompts themselves
    practice: float = 1.0
    """Factor on its share in training: slowly learned tasks need more."""


TASKS: dict[str, Task] = {
    "copy_sentences": Task("copy", copying.copy_sentences, 10),
    "copy_long": Task("copy", copying.long_text, 2.5),
    "copy_words": Task("copy", copying.random_words, 5),
    "copy_names": Task("copy", copying.names, 4),
    "copy_list": Task("copy", copying.listing, 3),
    "copy_figures": Task("copy", copying.figures, 3),
    "copy_code": Task("copy", copying.code, 1.5),
    "several_times": Task("copy", copying.several_times, 4),
    "replace_word": Task("edit", editing.replace_word, 12, practice=1.2),
    "change_case": Task("edit", editing.change_case, 14, practice=1.2),
    "sort": Task("edit", lists.sort_items, 12, practice=1.2),
    "reverse": Task("edit", lists.reverse_items, 6, practice=0.6),
    "reformat": Task("edit", lists.reformat, 10, practice=1.3),
    "parts": Task("edit", lists.parts, 10, practice=0.8),
    "change_items": Task("edit", lists.change_items, 7),
    "record_json": Task("edit", records.record_json, 6, practice=1.5),
    "table": Task("edit", records.table, 5),
    "rename_variable": Task("edit", pycode.rename_variable, 2),
    "docstring": Task("edit", pycode.docstring, 3),
    "spelling": Task("edit", spelling.spelling, 5, practice=1.2),
    "number_format": Task("edit", formats.number_format, 5, practice=1.6),
    "markdown": Task("edit", formats.markdown, 5, practice=0.7),
    "follow_up": Task("edit", editing.follow_up, 5),
    "extract": Task("extract", extracting.extract, 14, practice=2.0),
    "count_items": Task("count", lists.count_items, 7),
    "count_up": Task("count", sums.count_up, 2),
    "arithmetic": Task("arithmetic", sums.arithmetic, 16),
    "fact": Task("fact", questions.fact, 16),
    "asked": Task("fact", questions.asked, 10, practice=1.6),
    "how_to": Task("fact", questions.how_to, 9, practice=1.6),
    "comparison": Task("fact", questions.comparison, 7),
    "small_talk": Task("talk", small_talk.small_talk, 22, splits=False, practice=2.0),
    "outside": Task("outside", outside.outside, 16, splits=False, practice=2.2),
    "large_numbers": Task("outside", sums.large_numbers, 3),
    "foreign": Task("odd", odd.foreign, 4),
    "noise": Task("odd", odd.noise, 4),
    "pasted": Task("odd", odd.pasted, 4, practice=1.5),
    "passage_question": Task("passage", passages.passage_question, 18, practice=2.0),
    "long_passage": Task("passage", passages.long_passage, 1.5),
    "summarise": Task("passage", passages.summarise, 5),
    "story": Task("story", stories.tell_story, 3, practice=1.8),
    "poem": Task("story", poems.poem, 3, practice=1.6),
}

_NAMES = list(TASKS)

COPY_FIRST = 3.0
"""Extra share of copying, on which every other task builds, while texts are shortest."""


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
    """Join all user messages, whose text decides whether a chat is held out."""
    return "\n".join(message["content"] for message in messages if message["role"] == "user")


def draw_task(name: str, d: Draw) -> list[Message]:
    """Draw an exchange of a task, on the side of the split that `d` stands for."""
    while True:
        messages = TASKS[name].make(d)
        if not TASKS[name].splits or is_held_out(prompt_text(messages)) == d.held_out:
            return messages


def chat(seed: int | str, index: int, reach: float = 1.0, held_out: bool = False) -> Chat:
    """Draw chat number `index` of a corpus.

    Args:
        seed: names the corpus.
        index: of the chat.
        reach: 0 … 1, limit of the length of texts and chats.
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
    """Draw the first `count` chats of a corpus."""
    return (chat(seed, index, reach, held_out) for index in range(count))


def bench_tasks(per_family: int) -> Iterator[dict[str, str]]:
    """Draw held-out questions in the format of `specchat bench`, from families with right answers or a natural end."""
    for family in ("copy", "edit", "extract", "fact", "passage", "story"):
        names = [name for name, task in TASKS.items() if task.family == family]
        for i in range(per_family):
            name = names[i % len(names)]
            question = draw_task(name, Draw(f"bench/{name}/{i}", held_out=True))[0]
            yield {"category": family, "prompt": question["content"]}


def main() -> None:
    """Print chats as JSON lines."""
    parser = argparse.ArgumentParser(prog="python -m specchat.builtin.recipe.corpus", description=main.__doc__)
    parser.add_argument("--seed", type=int, default=1, help="names the corpus")
    parser.add_argument("--count", type=int, default=10, help="how many chats")
    parser.add_argument("--reach", type=float, default=1.0, help="0 … 1, how long texts may be")
    parser.add_argument("--held-out", action="store_true", help="the evaluation side, which training never sees")
    parser.add_argument("--tasks", action="store_true", help="the prompts of `specchat bench` instead (builtin/prompts.jsonl)")
    options = parser.parse_args()
    for example in bench_tasks(60) if options.tasks else chats(options.seed, options.count, options.reach, options.held_out):
        print(json.dumps(example, ensure_ascii=False))


if __name__ == "__main__":
    main()
