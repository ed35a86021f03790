"""The energy that the machine takes, where it tells: the processor's counters (RAPL) and the GPUs' (NVML).

The counters are the whole machine's: what other programs take counts as well. Linux shows RAPL to root alone unless somebody
has allowed more; NVML needs the package nvidia-ml-py. What cannot be read is left out without a word.
https://docs.kernel.org/power/powercap/powercap.html
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

POWERCAP = Path("/sys/class/powercap")

COUNTED = ("package", "dram")
"""Names of zones that are counted. Cores are a part of their package, and psys has it in it too."""

EVERY = 0.05
"""Seconds between two readings while one answer is being written: GPUs update theirs no more often."""

PAUSE = 0.02
"""A turn that comes this much later than the last one ended does not begin where that ended: the machine was idle meanwhile."""


class Zone:
    """One RAPL counter, in microjoules; it begins again at 0 after `max_energy_range_uj` of them.

    Args:
        folder: the zone's.

    Raises:
        OSError, ValueError: it cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self._file = -1
        self._range = int((folder / "max_energy_range_uj").read_text())
        self._file = os.open(folder / "energy_uj", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._last = self._read()
        except (OSError, ValueError):
            self.close()
            raise
        self._total = 0

    def _read(self) -> int:
        return int(os.pread(self._file, 32, 0))

    def joules(self) -> float:
        """Since it was opened; right as long as it is read before the counter has gone round once more, which takes minutes."""
        try:
            now = self._read()
        except (OSError, ValueError):  # taken away meanwhile
            return self._total / 1e6
        moved = now - self._last
        self._total += moved if moved >= 0 else moved + self._range
        self._last = now
        return self._total / 1e6

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def __del__(self) -> None:
        self.close()


def zones(powercap: Path = POWERCAP) -> list[Zone]:
    """The counters of the processors and their memory that can be read."""
    found = []
    for folder in sorted(powercap.glob("intel-rapl:*")):  # AMD's are called so as well
        try:
            if (folder / "name").read_text().strip().startswith(COUNTED):
                found.append(Zone(folder))
        except (OSError, ValueError):
            continue
    return found


def gpus() -> list[Callable[[], float]]:
    """For each GPU of NVIDIA's what tells its joules since the driver was loaded; none without nvidia-ml-py."""
    try:
        nvml: Any = import_module("pynvml")
        nvml.nvmlInit()
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        counters = [partial(_gpu_joules, nvml, handle) for handle in handles]
        return [counter for counter in counters if counter() >= 0]
    except Exception:  # no package, no driver, a GPU older than Volta: nobody asked for it
        return []


def _gpu_joules(nvml: Any, handle: Any) -> float:
    return float(nvml.nvmlDeviceGetTotalEnergyConsumption(handle)) / 1e3


class Energy:
    """What the machine has taken since this was made.

    Args:
        gpu: count the GPUs too.
        powercap: where the kernel has its counters.
    """

    def __init__(self, *, gpu: bool, powercap: Path = POWERCAP) -> None:
        self._counters: list[Callable[[], float]] = [zone.joules for zone in zones(powercap)]
        if gpu:
            self._counters += gpus()

    @property
    def known(self) -> bool:
        """Whether anything tells."""
        return bool(self._counters)

    def joules(self) -> float:
        """Of all counters together; only differences mean something."""
        return sum(counter() for counter in self._counters)


@cache
def energy(gpu: bool) -> Energy:
    """This machine's counters, opened once."""
    return Energy(gpu=gpu)


class Meter:
    """Adds up what an answer takes in its turns on the device.

    Args:
        counters: the machine's.
        clock: seconds.
    """

    def __init__(self, counters: Energy, clock: Callable[[], float] = time.perf_counter) -> None:
        self._counters, self._clock = counters, clock
        self._base = self._read_at = self._ended = 0.0
        self._running = False
        self.joules = 0.0
        """So far."""

    def begin(self) -> None:
        """A turn begins."""
        now = self._clock()
        if not self._running or now - self._ended > PAUSE:
            self._base, self._read_at, self._running = self._counters.joules(), now, True

    def end(self, *, counts: bool = True, alone: bool = False) -> None:
        """The turn is over.

        Args:
            counts: it wrote the answer, rather than read its prompt.
            alone: the answer takes the next turn too, so that the next reading can wait.
        """
        if not counts:
            self._running = False
            return
        self._ended = now = self._clock()
        if not alone or now - self._read_at >= EVERY:
            total = self._counters.joules()
            self.joules += total - self._base
            self._base, self._read_at = total, now
        self._running = alone
