"""`specchat doctor`: the state of the installation, with the command that fixes each problem; and a report on one model."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from ... import __version__
from ...engine.logfile import log_path
from ...engine.options import ModelInfo, builtin_path, rebuild_command
from ...errors import UserError, counted, shell_line
from ...plain_file import cache_folder
from ..settings import locations
from ..settings.fields import Settings
from ..settings.precedence import load_settings
from ..terminal.output import Notes, stdout
from ..text.amounts import count_of, size_of
from ..text.cells import one_line
from .bench.lab import Lab, is_server
from .exit_codes import ANSWERED, BROKEN, CANCELLED
from .options import print_json

REQUIRED = ("torch", "transformers", "textual", "safetensors", "huggingface-hub", "accelerate", "numpy", "tomlkit", "typer")
LLAMA = "llama-cpp-python"
"""The package of llama.cpp, which may be missing."""

PROBE_SECONDS = 60
"""Time limit of a probe: importing torch from a cold disk takes many seconds."""

_ERROR = "specchat.errors.UserError: "

# Runs in another process: this one never imports torch.
_TORCH_PROBE = """
import json, torch
cuda = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
memory = [torch.cuda.mem_get_info(i)[1] for i in range(len(cuda))]
print(json.dumps({"cuda": [{"name": n, "memory": m} for n, m in zip(cuda, memory)],
                  "built_for_cuda": torch.version.cuda or "", "mps": torch.backends.mps.is_available(),
                  "threads": torch.get_num_threads()}))
"""

_LLAMA_PROBE = """
import json
from specchat.backends.llama.library import build_report
print(json.dumps(build_report()))
"""


@dataclass(slots=True)
class Problem:
    """Something missing or broken, and the command that fixes it."""

    what: str
    fix: str
    serious: bool = True
    """False if specchat works in spite of it."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine."""

    system: str
    processor: str
    cores: int
    threads: int
    memory: int
    """Bytes."""
    memory_available: int


@dataclass(slots=True)
class Report:
    """The object of `doctor --json`."""

    versions: dict[str, str | None]
    machine: Machine
    devices: Any
    """Devices that torch computes on; empty if it cannot be imported."""
    llama_cpp: Any
    """The installed build: its backends, devices and folder; empty without one."""
    log: str
    problems: list[Problem]


def examine() -> Report:
    """Examine everything. Takes as long as a process needs to import torch."""
    packages = versions()
    problems = [
        Problem(f"The package {name} is missing.", _pip("install", name)) for name in REQUIRED if packages[name] is None
    ]
    report = Report(packages, machine(), {}, {}, str(log_path()), problems)
    if packages["torch"]:
        report.devices = _devices(problems)
    if packages[LLAMA]:
        report.llama_cpp = _llama_cpp(problems)
    _, sentence = load_settings()
    if sentence is not None:
        fix = f"{os.environ.get('EDITOR', 'nano')} {shell_line(str(locations.settings_file()))}"
        problems.append(Problem(sentence, fix))
    if not (builtin_path() / "config.json").is_file():
        fix = _pip("install", "--force-reinstall", "specchat")
        problems.append(Problem(f"The built-in model is missing from {builtin_path()}.", fix))
    for folder in (locations.config_folder(), locations.data_folder(), cache_folder(), log_path().parent):
        above = next(parent for parent in (folder, *folder.parents) if parent.exists())
        if not os.access(above, os.W_OK):
            problems.append(Problem(f"The folder {above} is not writable.", shell_line("chmod", "u+w", str(above))))
    return report


def page(report: Report) -> Iterator[str]:
    """Write the report for people, line by line."""
    machine = report.machine
    for name, version in report.versions.items():
        yield f"{name:18} {version or ('not installed (optional)' if name == LLAMA else 'missing')}"
    yield f"{'system':18} {machine.system}"
    yield f"{'processor':18} {machine.processor}, {counted(machine.cores, 'core')}, {counted(machine.threads, 'thread')}"
    yield f"{'memory':18} {size_of(machine.memory)}, {size_of(machine.memory_available)} free"
    if report.devices:
        devices = [f"cuda:{i} {gpu['name']}, {size_of(gpu['memory'])}" for i, gpu in enumerate(report.devices["cuda"])]
        devices += ["mps"] if report.devices["mps"] else []
        yield f"{'torch computes on':18} {'; '.join(devices) or 'cpu only'}"
    if report.llama_cpp:
        # The CPU's memory is the machine's, listed above; llama.cpp reports all of it as free.
        devices = [
            device["description"] + (f", {size_of(device['total'])}" if device["total"] and device["name"] != "CPU" else "")
            for device in report.llama_cpp["devices"]
        ]
        yield f"{'llama.cpp':18} built for {', '.join(report.llama_cpp['backends'])}: {'; '.join(devices)}"
    yield f"{'log':18} {report.log}"
    yield ""
    if not report.problems:
        yield "Everything is in order."
    for problem in report.problems:
        yield f"{'Problem' if problem.serious else 'Note'}: {problem.what}"
        yield f"  {problem.fix}"


def versions() -> dict[str, str | None]:
    """Read the versions without importing the packages, which would take seconds; None for those that are missing."""
    versions: dict[str, str | None] = {"specchat": __version__, "python": platform.python_version()}
    for name in (*REQUIRED, LLAMA):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return versions


def _pip(*words: str) -> str:
    return shell_line(sys.executable, "-m", "pip", *words)


def machine() -> Machine:
    """Describe the machine."""
    import psutil

    memory = psutil.virtual_memory()
    return Machine(
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        processor=_processor(),
        cores=psutil.cpu_count(logical=False) or os.cpu_count() or 1,
        # Containers and taskset allow fewer threads than there are.
        threads=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory=memory.total,
        memory_available=memory.available,
    )


def _processor() -> str:
    """Return the CPU's name; platform.processor() is empty or only the architecture on most systems."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _probe(name: str, code: str, problems: list[Problem], package: str, *, serious: bool) -> Any:
    """Run code in another process and parse the JSON that it prints; an empty object if it cannot run."""
    command = [sys.executable, "-P", "-c", code]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        problems.append(Problem(f"{name} took more than {PROBE_SECONDS} s to load.", "specchat doctor  (again)", serious))
        return {}
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1].removeprefix(_ERROR)
        fix = _pip("install", "--force-reinstall", "--no-cache-dir", package)
        problems.append(Problem(f"{name} is installed but cannot be used: {reason}", fix, serious))
        return {}
    return json.loads(done.stdout.splitlines()[-1])


def _devices(problems: list[Problem]) -> Any:
    devices = _probe("torch", _TORCH_PROBE, problems, "torch", serious=True)
    if devices and not devices["cuda"] and not devices["built_for_cuda"] and shutil.which("nvidia-smi"):
        what = "There is an NVIDIA driver, but this torch was built for the CPU only."
        problems.append(Problem(what, _pip("install", "--force-reinstall", "torch"), serious=False))
    return devices


def _llama_cpp(problems: list[Problem]) -> Any:
    build = _probe("llama.cpp", _LLAMA_PROBE, problems, LLAMA, serious=False)
    gpu = next((name for name, tool in (("CUDA", "nvidia-smi"), ("Vulkan", "vulkaninfo")) if shutil.which(tool)), "")
    if build and gpu and gpu not in build["backends"]:
        sentence = f"There is a GPU for {gpu}, but this llama.cpp was built without it."
        problems.append(Problem(sentence, rebuild_command(f"-DGGML_{gpu.upper()}=on"), serious=False))
    return build


ABLE = {"tree": "token trees", "chain": "chains", "layers": "early layers", "states": "hidden states"}
"""Capability → its name on the page."""


def examine_model(settings: Settings, *, as_json: bool) -> int:
    """Load the model of the settings, compare its passes on some text, print the results; return the exit code.

    Raises:
        UserError: it cannot be loaded, or is on a server.
    """
    if is_server(settings.model, settings):
        raise UserError("doctor cannot look into a server. Give a model on this machine.")
    notes = Notes()
    with Lab(notes) as lab:
        info = lab.load(replace(settings, draft_model=()), quiet=True).model
        rounding = lab.work("prove", lambda part: notes.progress(f"{counted(part['passes'], 'pass', 'passes')}"))
    if lab.code == CANCELLED:
        notes.sentence("Stopped.")
    if lab.code != ANSWERED:
        return lab.code
    if as_json:
        names = "backend device dtype architecture parameters context pass_seconds timed".split()
        print_json(
            {
                "model": info.name,
                **{name: getattr(info, name) for name in names},
                "capabilities": asdict(info.capabilities),
                **rounding,
                "thinking": info.thinking.sentence if info.thinking else "",
            }
        )
    else:
        stdout().write("\n".join(model_page(info, rounding)) + "\n")
    return BROKEN if rounding["broken"] else ANSWERED


def model_page(info: ModelInfo, rounding: Any) -> Iterator[str]:
    """Write the report for people, line by line."""
    able = info.capabilities
    reasons = able.reasons
    size = f", {count_of(info.parameters)} parameters" if info.parameters else ""
    sizes = ", ".join(map(str, rounding["equal"]))
    compared = counted(rounding["measured"], "token")
    rows = {
        "runtime": f"{info.backend}, {info.device}, {info.dtype}",
        "architecture": f"{one_line(info.architecture)}{size}",
        "context": counted(info.context, "token"),
        "thinking": one_line(info.thinking.sentence) if info.thinking else "",
        **{
            name: "yes" if getattr(able, what) else f"no: {reasons.get(what, 'not on this runtime.')}"
            for what, name in ABLE.items()
        },
        "label": rounding["label"] + (f", in chains of at most {able.most} nodes" if able.most else ""),
    }
    if rounding["measured"]:
        larger = "none: larger passes round otherwise than plain ones"
        rows["equal bits"] = f"chains of {sizes} nodes" if sizes else larger
        rows["choices turned"] = f"{rounding['turned']:,} of {compared} that were compared in passes of several sizes"
    if info.pass_seconds and info.pass_seconds[0][0] == 1:
        plain = info.pass_seconds[0][1]
        costs = ", ".join(f"{nodes} nodes {seconds / plain:.1f}" for nodes, seconds in info.pass_seconds[1:])
        day = f" (measured {datetime.fromtimestamp(info.timed):%Y-%m-%d})" if info.timed else ""
        rows["cost of a pass"] = f"in plain passes: {costs}{day}"
    yield one_line(info.name)
    yield from (f"  {name:18} {text}" for name, text in rows.items() if text)
    yield from (f"  {'note':18} {why}" for what, why in reasons.items() if what not in ABLE)
    if rounding["broken"]:
        yield ""
        yield "This text shows what the load did not: passes that were taken to be equal are not. Load it with --exact off."
