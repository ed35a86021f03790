"""The keys that change how much a method drafts."""

from __future__ import annotations

import pytest

from specchat.app.catalog import known_methods
from specchat.app.dialogue import Method
from specchat.app.draft_length import BUDGETS, LENGTHS, NONE, SETTINGS, UNDER, Length, length_of, why_none
from specchat.engine.catalog import get, parse_params

METHODS = known_methods()


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_length_or_a_reason(name: str) -> None:
    assert (name in SETTINGS) != (name in NONE)
    if name in NONE:
        assert length_of(METHODS[name], {}) is None
        assert why_none(METHODS[name]) == NONE[name]
        return
    params = {param["name"]: param for param in METHODS[name].params}
    names = [SETTINGS[name]]
    if name in UNDER:
        condition, value, instead = UNDER[name]
        assert value in params[condition]["choices"]
        names.append(instead)
    for setting in names:
        assert params[setting]["type"] == "int"
        assert params[setting]["low"] is not None
        assert params[setting]["high"] is not None


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("direction", [1, -1])
def test_the_keys_reach_the_limits_and_stay_there(name: str, direction: int) -> None:
    method = METHODS[name]
    settings: dict[str, int] = {}
    seen: list[int] = []
    for _ in range(40):
        length = length_of(method, settings)
        assert length is not None
        settings = {length.setting: length.beside(direction)}
        parse_params(get(name), settings)  # the method takes it
        if settings[length.setting] == length.value:
            break
        seen.append(settings[length.setting])
    assert length is not None
    assert seen == sorted(seen, reverse=direction < 0)
    assert length.value == (length.high if direction > 0 else length.low)


def test_a_schedule_decides_which_setting_counts() -> None:
    draft = METHODS["draft"]
    confident, constant = length_of(draft, {}), length_of(draft, {"schedule": "constant"})
    assert confident is not None
    assert constant is not None
    assert (confident.setting, constant.setting) == ("most", "tokens")
    reference = length_of(METHODS["lookup"], {"variant": "reference", "tokens": 7})
    assert reference == Length("tokens", 7, 1, 256)


def test_sizes_that_are_on_no_scale_find_their_way_back() -> None:
    assert Length("nodes", 20, 1, 256).beside(1) == 32
    assert Length("nodes", 20, 1, 256).beside(-1) == 16
    assert Length("tokens", 9, 0, 64).beside(-1) == 8
    assert Length("tokens", 300, 0, 64).beside(1) == 64
    assert list(LENGTHS) == sorted(set(LENGTHS))
    assert list(BUDGETS) == sorted(set(BUDGETS))


def test_methods_of_other_packages() -> None:
    param = {"name": "tokens", "type": "int", "default": 5}
    assert length_of(Method("mine", params=(param,)), {}) == Length("tokens", 5, 1, 256)
    assert length_of(Method("mine"), {}) is None
    assert why_none(Method("mine")) == "mine has no setting for the length of its drafts."
