"""A process that streams synthetic answers into the history until it is killed, and says on its standard output what is saved.

python streaming.py FILE NAME
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from typing import Any

from specchat.app.chat.dialogue import Dialogue
from specchat.app.chat.entries import Prompt
from specchat.app.chat.methods import Method
from specchat.app.chat.transcript import Transcript
from specchat.app.history.recorder import Recorder
from specchat.engine.messages import Finished, Generate, Loaded, Started, StepRecord, Steps

FRAME_SECONDS = 1 / 30
"""How often the chat looks for events, and so calls the recorder."""


class Engine:
    """Answers to what is asked with numbers in order."""

    def __init__(self) -> None:
        self.events: list[Any] = [Loaded(1, {"name": "synthetic"})]
        self.ids = 0
        self.asked = 0

    def drain(self) -> list[Any]:
        events, self.events = self.events, []
        return events

    def send(self, command: Any) -> None:
        if isinstance(command, Generate):
            self.asked = command.id
            self.events.append(Started(command.id, "main", command.method, "identical", 5, 0))

    def next_id(self) -> int:
        self.ids += 1
        return self.ids

    def load(self, model: str, **options: Any) -> int:
        return 1


def main(file: Path, name: str) -> None:
    """Stream for ever."""
    pick = random.Random(name)
    engine = Engine()
    dialogue = Dialogue(engine, "synthetic", {"lookup": Method("lookup")}, "lookup")
    recorder = Recorder(file)
    hand_over = recorder._hand_over
    handed: tuple[object, ...] = ()

    def note(chat: Any, transcript: Transcript) -> None:
        """Remember what the recorder was last given: the chat, the number of its last answer, and that one's tokens."""
        nonlocal handed
        prompt = next(entry for entry in transcript.entries if isinstance(entry, Prompt))
        answers = transcript.answers()
        handed = prompt.text.split()[1], len(answers), len(answers[-1].log.tokens)
        hand_over(chat, transcript)

    recorder._hand_over = note  # type: ignore[method-assign]
    dialogue.drain()
    chat = 0
    while True:
        chat += 1
        for _ in range(pick.choice((1, 2, 3))):
            dialogue.submit(f"{name} {chat}")
            number = 0
            for _ in range(pick.randrange(1, 60)):
                steps = []
                for _ in range(pick.randrange(4)):
                    tokens = list(range(number, number + pick.choice((1, 2, 5))))
                    steps.append(StepRecord("lookup", tokens, "".join(f" {token}" for token in tokens), 4, len(tokens) - 1, 5))
                    number += len(tokens)
                engine.events.append(Steps(engine.asked, steps))
                dialogue.drain()
                recorder.note(dialogue)
                if recorder.settle(0):
                    print(*handed, flush=True)
                time.sleep(FRAME_SECONDS)
            engine.events.append(Finished(engine.asked, "eos", "", 0.1, 1.0))
            dialogue.drain()
            recorder.note(dialogue)
        dialogue.clear()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
