"""The handwritten prompts and their published transcript belong together."""

from pathlib import Path

from specchat import builtin
from specchat.builtin.recipe import handwritten


def test_there_are_forty_judged_prompts() -> None:
    prompts = handwritten.prompts()
    assert len({asked["prompt"] for asked in prompts}) == 40
    assert all(asked["expect"] and asked["answer"] and asked["good"] in (True, False) for asked in prompts)


def test_the_transcript_shows_every_judged_answer() -> None:
    published = (handwritten.PROMPTS.parent / "HAND_PROMPTS.md").read_text(encoding="utf-8")
    prompts = handwritten.prompts()
    good = sum(asked["good"] for asked in prompts)
    assert f"**{good} of 40 are good**" in published
    assert f"{good} of 40" in (Path(builtin.__file__).parent / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert published.count("\n## ") == 40
    assert "not judged" not in published
    for asked in prompts:
        for line in asked["answer"].split("\n"):
            assert f"> {line}".rstrip() in published


def test_the_first_answers_are_what_the_weights_say() -> None:
    for _, (asked, answer) in zip(range(3), handwritten.answered(builtin.path()), strict=False):
        assert answer == asked["answer"]
