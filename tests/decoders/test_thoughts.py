"""Models that think: thought and answer apart in every step, on both runtimes, whatever decodes, switches or ends them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from specchat.backends import Model
from specchat.decoders import Conversation, Generation, Stops, encode_prompt
from specchat.decoders.step import StepRecord
from specchat.engine.lanes import Lanes
from specchat.engine.messages import Event, Failed, Finished, Generate, Started, Steps

from ..fakes.models.llama_tiny import needs_llama
from ..fakes.models.thinkers import ANSWER, FAMILIES, NAMES, THOUGHT, thinker

RUNTIMES = ["transformers", pytest.param("llama.cpp", marks=needs_llama)]
HI = [{"role": "user", "content": "Hi"}]


def parted(steps: Sequence[StepRecord], tail: str = "") -> tuple[str, str]:
    """Thought and answer of some steps, whose spans add up to their text and tokens."""
    told = ["", ""]
    part = 0
    for step in steps:
        at = 0
        assert step.spans
        for part, characters, _ in step.spans:
            told[part] += step.text[at : at + characters]
            at += characters
        assert (at, sum(tokens for _, _, tokens in step.spans)) == (len(step.text), len(step.tokens))
    told[part] += tail
    return told[1], told[0]


def thinking(name: str) -> dict[str, Any]:
    """The template's variables for thinking."""
    return FAMILIES[name].on[1]


def answer(model: Model, chat: Sequence[Any], variables: dict[str, Any], method: str = "lookup", **more: Any) -> Generation:
    return Generation(Conversation(model), encode_prompt(model, chat, variables=variables), method, **more)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", FAMILIES)
def test_three_turns(name: str, runtime: str) -> None:
    """Each answer is parted, and the next prompt is what the template renders from messages in its authors' own form."""
    model, family, method = thinker(name, runtime), FAMILIES[name], "greedy" if runtime == "transformers" else "lookup"
    assert model.info.thinking is not None
    assert model.info.thinking.marks == family.marks
    talk, chat, own, before = Conversation(model), list(HI), list(HI), 0
    for turn in range(3):
        prompt = encode_prompt(model, chat, variables=thinking(name))
        assert spelled(model, prompt) == rendered(name, own)
        generation = Generation(talk, prompt, method, max_tokens=40)
        steps = list(generation)
        assert parted(steps) == (THOUGHT, ANSWER)
        assert generation.finish_reason == "eos"
        if family.kept == "all":  # all that was said before is in the cache
            assert generation.reused >= before
        before = len(generation.tokens) - 1
        chat += [{"role": "assistant", "content": ANSWER, "thought": THOUGHT}, {"role": "user", "content": f"More {turn}"}]
        own += [{"role": "assistant", **family.structured(THOUGHT, ANSWER)}, chat[-1]]


def spelled(model: Model, prompt: Sequence[int]) -> str:
    assert model.thoughts is not None
    return model.thoughts.spell(prompt)


def rendered(name: str, chat: Sequence[Any]) -> str:
    from jinja2 import Environment

    program = Environment(extensions=["jinja2.ext.loopcontrols"]).from_string(FAMILIES[name].template)
    return str(program.render({**NAMES, **thinking(name), "messages": list(chat), "add_generation_prompt": True}))


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.off[0] or family.default == "off"])
def test_switched_off(name: str, runtime: str) -> None:
    """Where the prompt closes the thought, there is none; where only words ask for it, the model is free to."""
    model, (_, variables) = thinker(name, runtime), FAMILIES[name].off
    told = parted(list(answer(model, HI, variables)))
    assert told == (("" if name != "told" else THOUGHT), ANSWER)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(("budget", "kept"), [(0, ""), (1, "Hm,"), (2, THOUGHT), (9, THOUGHT)])
@pytest.mark.parametrize(("name", "method"), [("opens", "beam"), ("opened", "lookup"), ("channels", "greedy")])
def test_a_budget_ends_the_thought(name: str, method: str, budget: int, kept: str, runtime: str) -> None:
    """The end mark is put in after so many tokens, a note says so, and the answer follows."""
    model = thinker(name, runtime)
    talk, prompt = Conversation(model), encode_prompt(model, HI)
    for _ in range(2):  # the second time a draft holds the end already
        steps = list(Generation(talk, prompt, method, think_budget=budget, max_tokens=40))
        assert parted(steps) == (kept, ANSWER)
        forced = [step for step in steps if step.note.startswith("The thought had its")]
        # Of the channels' model the end of the thought is one token, and comes where the budget has just been kept.
        assert len(forced) == (budget < 9 and kept != THOUGHT) or kept == THOUGHT
        assert all(part == 1 for step in forced for part, _, _ in step.spans)


def test_limits_and_stops() -> None:
    """The limit may end the thought, which is told apart; a stop text ends the answer only; half a mark is never shown."""
    model = thinker("told", "transformers")
    for limit in range(1, 14):
        generation = answer(model, HI, {}, "greedy", max_tokens=limit)
        steps = list(generation)
        thought, text = parted(steps)
        assert THOUGHT.startswith(thought.removesuffix("</th"))
        assert ANSWER.startswith(text.removesuffix("</res")) or (limit, text) in ((1, "<th"), (6, "<"))
        assert generation.thinking == (2 <= limit < 6)
        assert not any(mark in step.held for step in steps for mark in "<>")
    assert parted(list(answer(model, HI, {}, stops=Stops(["so", " 42"])))) == (THOUGHT, "Yes,")


def test_a_cancel_loses_nothing() -> None:
    """What is shown by then and what is flushed are a beginning of the whole."""
    model = thinker("told", "transformers")
    for passes in range(1, 12):
        generation = answer(model, HI, {}, "greedy")
        steps = [step for _ in range(passes) if (step := generation.run_pass()) is not None]
        generation.cancel()
        generation.run_pass()
        thought, text = parted(steps, generation.flush())
        assert THOUGHT.startswith(thought.removesuffix("</th")) or (passes, thought) == (1, "<th")
        assert not text or thought == THOUGHT


@pytest.fixture
def lanes() -> Iterator[tuple[Lanes, list[Event]]]:
    events: list[Event] = []
    made = Lanes(events.append)
    yield made, events
    made.clear()


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_through_the_engine(lanes: tuple[Lanes, list[Event]], runtime: str) -> None:
    """The word goes into the prompt, the tail belongs to the last span, and what is unknown is one sentence."""
    running, events = lanes
    model = thinker("closed", runtime)

    def ask(**more: Any) -> list[Event]:
        events.clear()
        running.start(model, Generate(1, messages=HI, **more))
        while running.rest is not None:
            running.run_pass()
        return list(events)

    def told(came: Sequence[Event]) -> tuple[str, str]:
        (finished,) = (event for event in came if isinstance(event, Finished))
        return parted([step for event in came if isinstance(event, Steps) for step in event.steps], finished.tail)

    assert told(ask()) == ("", ANSWER)
    assert told(ask(think="on")) == (THOUGHT, ANSWER)
    started = [event for event in ask(think="max") if isinstance(event, Started)]
    assert started[0].prompt_tokens > len(encode_prompt(model, HI, variables={"thinking": True}))
    cut = ask(template_vars={"thinking": True}, max_tokens=1)
    assert told(cut) == ("Hm,", "")
    assert [(event.reason, event.thinking) for event in cut if isinstance(event, Finished)] == [("length", True)]
    for more, sentence in (({"think": "low"}, "off, on, max"), ({"template_vars": {"x": 1}}, "reasoning_effort, thinking")):
        (failed,) = ask(**more)
        assert isinstance(failed, Failed)
        assert sentence in failed.sentence


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_mark_that_a_user_types_is_text(runtime: str) -> None:
    """No token that is a mark gets into the prompt, though the tags are no control tokens."""
    model = thinker("opens", runtime)
    assert model.thoughts is not None
    typed = [{"role": "user", "content": "a</think>b<think>"}]
    plain = encode_prompt(model, HI)
    prompt = encode_prompt(model, typed)
    atoms = model.thoughts.splitter(prompt).atoms
    assert atoms & set(plain) == atoms & set(prompt)
    assert spelled(model, prompt) == spelled(model, plain).replace("Hi", "a</think>b<think>")
