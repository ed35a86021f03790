"""Energy counters, against a folder like the kernel's and a library like NVIDIA's."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from specchat.backends.costs.energy import EVERY, PAUSE, Energy, Meter, gpus, zones

RANGE = 262_143_328_850


def zone(powercap: Path, name: str, kind: str, microjoules: int) -> Path:
    folder = powercap / name
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"{kind}\n")
    (folder / "max_energy_range_uj").write_text(f"{RANGE}\n")
    (folder / "energy_uj").write_text(f"{microjoules}\n")
    return folder / "energy_uj"


def test_packages_and_memory_count_once(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl", "intel-rapl", 5)  # the control type itself
    files = [
        zone(tmp_path, "intel-rapl:0", "package-0", 7_000_000),
        zone(tmp_path, "intel-rapl:0:0", "core", 0),
        zone(tmp_path, "intel-rapl:0:1", "dram", 0),
        zone(tmp_path, "intel-rapl:1", "psys", 0),
        zone(tmp_path, "intel-rapl-mmio:0", "package-0", 0),
    ]
    counters = Energy(gpu=False, powercap=tmp_path)
    assert counters.known
    assert counters.joules() == 0
    for file in files:
        file.write_text("9000000\n")
    assert counters.joules() == pytest.approx(2 + 9), "the package's two joules and the memory's nine"


def test_a_counter_that_begins_again_goes_on(tmp_path: Path) -> None:
    file = zone(tmp_path, "intel-rapl:0", "package-0", RANGE - 1_000_000)
    counters = Energy(gpu=False, powercap=tmp_path)
    for now, joules in ((RANGE, 1.0), (2_000_000, 3.0), (500_000, 3.0 + (RANGE - 1_500_000) / 1e6)):
        file.write_text(str(now))
        assert counters.joules() == pytest.approx(joules)


def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    assert not Energy(gpu=False, powercap=tmp_path / "nowhere").known
    zone(tmp_path, "intel-rapl:0", "package-0", 1).write_text("")
    (tmp_path / "intel-rapl:1").mkdir()
    private = zone(tmp_path, "intel-rapl:2", "package-2", 1)
    private.chmod(0)
    if os.geteuid() == 0:  # may read everything, so it has to be gone
        private.unlink()
    assert zones(tmp_path) == []
    assert Energy(gpu=False, powercap=tmp_path).joules() == 0


def test_a_counter_that_goes_away_stays_where_it_was(tmp_path: Path) -> None:
    file = zone(tmp_path, "intel-rapl:0", "package-0", 0)
    counters = Energy(gpu=False, powercap=tmp_path)
    file.write_text("4000000")
    assert counters.joules() == 4
    file.write_text("")
    assert counters.joules() == 4


def nvml(millijoules: list[int], fail: Callable[[int], bool] = lambda _: False) -> SimpleNamespace:
    def energy(handle: int) -> int:
        if fail(handle):
            raise RuntimeError("Not Supported")
        return millijoules[handle]

    return SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: len(millijoules),
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetTotalEnergyConsumption=energy,
    )


def test_gpus_add_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = [5000, 700]
    monkeypatch.setitem(sys.modules, "pynvml", nvml(counts))
    counters = Energy(gpu=True, powercap=tmp_path)
    before = counters.joules()
    counts[:] = 6500, 900
    assert counters.joules() - before == pytest.approx(1.7)
    assert not Energy(gpu=False, powercap=tmp_path).known


def test_without_a_driver_there_are_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml([1], fail=lambda _: True))
    assert gpus() == []
    monkeypatch.setitem(sys.modules, "pynvml", None)  # not installed
    assert gpus() == []


class Machine:
    """A clock, and counters that rise by a watt; they note when they are read."""

    def __init__(self) -> None:
        self.now, self.read = 0.0, 0

    def joules(self) -> float:
        self.read += 1
        return self.now

    def turn(self, meter: Meter, seconds: float, *, counts: bool = True, alone: bool = True) -> None:
        meter.begin()
        self.now += seconds
        meter.end(counts=counts, alone=alone)


def test_an_answer_alone_is_read_now_and_then() -> None:
    machine = Machine()
    meter = Meter(machine, lambda: machine.now)  # type: ignore[arg-type]
    for _ in range(100):
        machine.turn(meter, EVERY / 10)
    machine.turn(meter, EVERY / 10, alone=False)  # its last
    assert meter.joules == pytest.approx(101 * EVERY / 10)
    assert machine.read < 20


def test_answers_that_take_turns_pay_for_their_own() -> None:
    machine = Machine()
    one, other = (Meter(machine, lambda: machine.now) for _ in range(2))  # type: ignore[arg-type]
    for _ in range(10):
        machine.turn(one, 0.03, alone=False)
        machine.turn(other, 0.01, alone=False)
    assert one.joules == pytest.approx(0.3)
    assert other.joules == pytest.approx(0.1)


def test_reading_the_prompt_and_waiting_are_not_counted() -> None:
    machine = Machine()
    meter = Meter(machine, lambda: machine.now)  # type: ignore[arg-type]
    machine.turn(meter, 5.0, counts=False)
    machine.turn(meter, 2 * EVERY)
    machine.now += 10 * PAUSE  # paused
    machine.turn(meter, 2 * EVERY)
    assert meter.joules == pytest.approx(4 * EVERY)
