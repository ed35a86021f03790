"""The text that a model is proven and timed on: English prose, through the model's own tokenizer.

Ids that are spread over a vocabulary are no text to a trained model: its logits then spread seven times as wide, and whatever
is measured on them is off (Gemma 3 270M: near ties of 8.4 logits in place of 1.2).
"""

from __future__ import annotations

from typing import Protocol

TEXT = """\
The harbour town of Ellerby lies where a small river meets the sea. Its houses are built of grey stone, and most of them have
blue doors, because a merchant once brought home a ship full of blue paint and could not sell it anywhere else. In winter the
wind comes from the north-east and carries the smell of salt and smoke into every street. In summer the town is full of
visitors, who take photographs of the doors and buy more ice cream than the three shops can make.

Mara Lindqvist moved there in 1987 to repair clocks. "I had planned to stay for one year," she says, "but the tower clock took
me two, and by then I knew everybody." The clock had stopped in 1951. Nobody could say why: the wheels were clean, the weights
were in place, and the pendulum swung freely. She took it apart, drew each of its 214 pieces, and found that one tooth of one
wheel had been filed down by 0.3 millimetres. Somebody had done it on purpose. Who was it, and what for? The parish records
name a sexton who lived below the tower and complained, in eleven letters, that the bell kept his children awake.

Today the clock strikes from eight in the morning until nine at night. A computer of the size of a matchbox corrects it once a
day:

    def correct(clock, seconds):
        while abs(seconds) > 0.5:
            step = max(-0.5, min(0.5, seconds))
            clock.shift(step)
            seconds -= step

It is a simple idea, Lindqvist explains. A clock must never jump, since a jump would wear out the wheels; but it may be hurried
or held back by half a second at each swing, and after a few minutes it is right again. She wrote the program together with her
neighbour's daughter, who was fourteen at the time and has since become an engineer.

What does the town think of it? Opinions differ. Some people miss the silence, others set their watches by the bell, and the
owner of the bakery, who gets up at three, says that he would rather have it strike at night as well. The council has discussed
the matter four times, with the following results: two votes in favour, two against, and a promise to discuss it once more. In
the meantime the blue doors have been painted again, the river has flooded the lower market twice, and on most evenings, when
the last visitors have gone, you can hear the clock all the way out to the lighthouse.
"""


class Encoder(Protocol):
    """A tokenizer."""

    @property
    def reads_text(self) -> bool:
        """Whether there is a vocabulary to encode text with."""

    def encode(self, text: str) -> list[int]:
        """Encode plain text."""


def proof_text(codec: Encoder | None, vocabulary: int, count: int) -> list[int]:
    """Encode `count` ids of the text, with BOS where the tokenizer puts one before a text; repeat it where it is too short."""
    ids = [token for token in codec.encode(TEXT) if token < vocabulary] if codec is not None and codec.reads_text else []
    if not ids:
        return [(7919 * (i + 1)) % max(2, vocabulary - 1) for i in range(count)]  # spread over the vocabulary
    return [ids[i % len(ids)] for i in range(count)]
