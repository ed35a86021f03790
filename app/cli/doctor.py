"""`specchat doctor`: the state of the installation, with the command that fixes each problem; and a report on one model."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from ... import __version__
from ...engine.logfile import log_path
from ...engine.options import builtin_path, rebuild_command
from ...errors import UserError, counted, shell_line
from ...plain_file import cache_folder
from ..settings import locations
from ..settings.fields import Settings
from ..settings.precedence import load_settings
from ..terminal.ansi import colour_depth
from ..terminal.output import Notes, stdout
from ..text.amounts import count_of, size_of
from ..text.cells import one_line
from .bench.lab import Lab
from .bench.servers import is_server
from .exit_codes import ANSWERED, BROKEN, CANCELLED
from .options import print_json

REQUIRED = ("torch", "transformers", "textual", "safetensors", "huggingface-hub", "accelerate", "numpy", "tomlkit", "typer")
OPTIONAL = ("llama-cpp-python",)
"""Listed, but no problem if missing."""

PROBE_SECONDS = 60
"""Time limit of a probe: importing torch from a cold disk takes many seconds."""

_ERROR = "specchat.errors.UserError: "

# Runs in another process: this one never imports torch.
_PROBE = """
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

GPU_BUILDS = (("CUDA", "nvidia-smi", "an NVIDIA driver"), ("Vulkan", "vulkaninfo", "Vulkan"))
"""Builds of llama.cpp for a GPU: the name, a command whose presence shows that it would help here, and the owner of that
command."""


Facts = dict[str, object]
"""A section of the report: name → text, number or list."""


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
    devices: Facts
    """Devices that torch computes on; empty if it cannot be imported."""
    llama_cpp: Facts
    """The installed build: its backends, devices and folder; empty without one."""
    terminal: Facts
    paths: dict[str, str]
    settings: str
    """ok, no file (the defaults apply), or an error message."""
    builtin_model: bool
    problems: list[Problem]


def examine() -> Report:
    """Examine everything. Takes as long as a process needs to import torch."""
    problems: list[Problem] = []
    packages = versions(problems)
    report = Report(
        versions=packages,
        machine=machine(),
        devices=_devices(problems) if packages["torch"] else {},
        llama_cpp=_llama_cpp(problems) if packages["llama-cpp-python"] else {},
        terminal=_terminal(),
        paths={name: str(path) for name, path in locations.all_locations().items()},
        settings=_settings(problems),
        builtin_model=_builtin(problems),
        problems=problems,
    )
    _writable(problems)
    return report


def page(report: Report) -> Iterator[str]:
    """Write the report for people, line by line."""
    machine = report.machine
    missing = {name: "not installed (optional)" if name in OPTIONAL else "missing" for name in report.versions}
    cores = f"{counted(machine.cores, 'core')}, {counted(machine.threads, 'thread')}"
    yield from _section("Versions", {name: version or missing[name] for name, version in report.versions.items()})
    yield from _section(
        "Machine",
        {
            "system": machine.system,
            "processor": f"{machine.processor}, {cores}",
            "memory": f"{size_of(machine.memory)}, {size_of(machine.memory_available)} free",
            **dict(_device_lines(report.devices)),
        },
    )
    if report.llama_cpp:
        yield from _section("llama.cpp (GGUF models)", dict(_llama_lines(report.llama_cpp)))
    yield from _section("Terminal", report.terminal)
    yield from _section(
        "Paths",
        {name: path if Path(path).exists() else f"{path}  (does not exist yet)" for name, path in report.paths.items()},
    )
    model = "present" if report.builtin_model else "missing"
    yield from _section("State", {"settings file": report.settings, "built-in model": model})
    yield ""
    if not report.problems:
        yield "Everything is in order."
    for problem in report.problems:
        yield f"{'Problem' if problem.serious else 'Note'}: {problem.what}"
        yield f"  {problem.fix}"


def _section(title: str, facts: Mapping[str, object]) -> Iterator[str]:
    yield title
    yield from (f"  {name.replace('_', ' '):18} {text}" for name, text in facts.items() if text != "")


def _device_lines(devices: Any) -> Iterator[tuple[str, str]]:
    for i, gpu in enumerate(devices.get("cuda", ())):
        yield f"cuda:{i}", f"{gpu['name']}, {size_of(gpu['memory'])}"
    if devices.get("mps"):
        yield "mps", "available"
    if devices and not devices.get("cuda") and not devices.get("mps"):
        yield "devices", "cpu only"


def _llama_lines(build: Any) -> Iterator[tuple[str, str]]:
    offered = ("Metal",) if platform.system() == "Darwin" else ("CUDA", "Vulkan")
    missing = [name for name in offered if not _has(build["backends"], name)]
    yield "built for", ", ".join(build["backends"]) or "unknown (llama.cpp does not say)"
    yield "built without", ", ".join(missing) or "-"
    for device in build["devices"]:
        # The CPU's memory is the machine's, listed above; llama.cpp reports all of it as free.
        has_memory = device["total"] and device["name"] != "CPU"
        memory = f", {size_of(device['total'])}, {size_of(device['free'])} free" if has_memory else ""
        yield device["name"], device["description"] + memory
    for name in missing:
        yield f"to add {name}", rebuild_command(f"-DGGML_{name.upper()}=on")


def _has(backends: Sequence[str], name: str) -> bool:
    """Whether a build has a backend; Metal calls itself MTL in newer versions."""
    return name in backends or (name == "Metal" and "MTL" in backends)


def versions(problems: list[Problem]) -> dict[str, str | None]:
    """Read the versions without importing the packages, which would take seconds."""
    versions: dict[str, str | None] = {"specchat": __version__, "python": platform.python_version()}
    for name in REQUIRED:
        versions[name] = _version(name)
        if versions[name] is None:
            problems.append(Problem(f"The package {name} is missing.", _pip("install", name)))
    versions.update((name, _version(name)) for name in OPTIONAL)
    return versions


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


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


def _devices(problems: list[Problem]) -> Facts:
    devices: Facts = _probe("torch", _PROBE, problems, "torch", serious=True)
    if devices and not devices["cuda"] and not devices["built_for_cuda"] and shutil.which("nvidia-smi"):
        what = "There is an NVIDIA driver, but this torch was built for the CPU only."
        problems.append(Problem(what, _pip("install", "--force-reinstall", "torch"), serious=False))
    return devices


def _llama_cpp(problems: list[Problem]) -> Facts:
    build = _probe("llama.cpp", _LLAMA_PROBE, problems, "llama-cpp-python", serious=False)
    useful = [(name, owner) for name, command, owner in GPU_BUILDS if shutil.which(command)]
    if platform.system() == "Darwin" and platform.machine() == "arm64":
        useful = [("Metal", "an Apple GPU")]
    if build and useful and not any(_has(build["backends"], name) for name, _ in useful):
        name, owner = useful[0]
        sentence = f"There is {owner}, but this llama.cpp was built without {name}."
        problems.append(Problem(sentence, rebuild_command(f"-DGGML_{name.upper()}=on"), serious=False))
    facts: Facts = build
    return facts


def _terminal() -> Facts:
    size = shutil.get_terminal_size()
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return {
        "is_terminal": is_terminal,
        "term": os.environ.get("TERM", ""),
        "columns": size.columns,
        "rows": size.lines,
        "colours": colour_depth("auto", is_terminal=True),
        "no_color": bool(os.environ.get("NO_COLOR")),
        "encoding": sys.stdout.encoding if sys.stdout is not None else "",
    }


def _settings(problems: list[Problem]) -> str:
    if not locations.settings_file().exists():
        return "no file, so the defaults apply"
    _, sentence = load_settings()
    if sentence is None:
        return "ok"
    problems.append(Problem(sentence, f"{os.environ.get('EDITOR', 'nano')} {shell_line(str(locations.settings_file()))}"))
    return sentence


def _builtin(problems: list[Problem]) -> bool:
    folder = builtin_path()
    complete = any(folder.glob("*.safetensors")) and (folder / "config.json").is_file()
    if not complete:
        clone = locations.package_folder()
        fix = _pip("install", "--force-reinstall", "specchat")
        if (clone / ".git").exists():
            fix = shell_line("git", "-C", str(clone), "checkout", "--", "builtin")
        problems.append(Problem(f"The built-in model is missing from {folder}.", fix))
    return complete


def _writable(problems: list[Problem]) -> None:
    """Check the folders that specchat writes to: the nearest existing one above each must be writable."""
    folders = {
        "settings": locations.config_folder(),
        "data": locations.data_folder(),
        "cache": cache_folder(),
        "log": log_path().parent,
    }
    for name, folder in folders.items():
        above = next(parent for parent in (folder, *folder.parents) if parent.exists())
        if not os.access(above, os.W_OK):
            problems.append(Problem(f"The folder {above} ({name}) is not writable.", shell_line("chmod", "u+w", str(above))))


# One model

ABLE = {"tree": "token trees", "chain": "chains", "layers": "early layers", "states": "hidden states"}
"""Capability → its name on the page."""


def examine_model(settings: Settings, *, as_json: bool) -> int:
    """Load the model of the settings, compare its passes on some text, print the results; return the exit code.

    Raises:
        UserError: it cannot be loaded, or is on a server.
    """
    if is_server(settings.model, settings):
        raise UserError("doctor cannot look into a server. Give a model on this machine.")
    from ..models.library import Library
    from ..models.pairing import look_for

    notes = Notes("auto")
    with Lab(notes) as lab:
        info = lab.load(replace(settings, draft_model=()), quiet=True).model
        rounding = lab.work("prove", lambda part: notes.progress(f"{counted(part['passes'], 'pass', 'passes')}"))
    if lab.code == CANCELLED:
        notes.sentence("Stopped.")
    if lab.code != ANSWERED:
        return lab.code
    target = Library().named(settings.model, settings.model_folders)
    names = "backend device dtype architecture parameters context pass_seconds timed".split()
    report = {
        "model": info.name,
        **{name: getattr(info, name) for name in names},
        "capabilities": asdict(info.capabilities),
        **rounding,
        "thinking": info.thinking.sentence if info.thinking else "",
        "look_for": look_for(target) if target is not None else "",
    }
    if as_json:
        print_json(report)
    else:
        stdout().write("\n".join(model_page(report)) + "\n")
    return BROKEN if report["broken"] else ANSWERED


def model_page(report: Mapping[str, Any]) -> Iterator[str]:
    """Write the report for people, line by line."""
    able = report["capabilities"]
    reasons = able["reasons"]
    size = f", {count_of(report['parameters'])} parameters" if report["parameters"] else ""
    yield one_line(report["model"])
    rows = {
        "runtime": f"{report['backend']}, {report['device']}, {report['dtype']}",
        "architecture": f"{one_line(report['architecture'])}{size}",
        "context": counted(report["context"], "token"),
        "thinking": one_line(report["thinking"]),
        "drafters": report["look_for"],
        **{name: "yes" if able[what] else f"no: {reasons.get(what, 'not on this runtime.')}" for what, name in ABLE.items()},
        "label": report["label"] + (f", in chains of at most {able['most']} nodes" if able["most"] else ""),
        "equal bits": _sizes(report["equal"]) if report["measured"] else "",
        "choices turned": _turned(report["turned"], report["measured"]) if report["measured"] else "",
        "cost of a pass": _costs(report["pass_seconds"], report["timed"]),
    }
    yield from (f"  {name:18} {text}" for name, text in rows.items() if text)
    yield from (f"  {'note':18} {why}" for what, why in reasons.items() if what not in ABLE)
    if report["broken"]:
        yield ""
        yield "This text shows what the load did not: passes that were taken to be equal are not. Load it with --exact off."


def _sizes(equal: Sequence[int]) -> str:
    """Say which chains have plain decoding's bits."""
    return f"chains of {', '.join(map(str, equal))} nodes" if equal else "none: larger passes round otherwise than plain ones"


def _turned(turned: int, measured: int) -> str:
    """Say how often another token came out on top in a larger pass."""
    return f"{turned:,} of {counted(measured, 'token')} that were compared in passes of several sizes"


def _costs(curve: Sequence[tuple[int, float]], timed: float) -> str:
    """Say how many plain passes larger ones take."""
    if not curve or curve[0][0] != 1:
        return ""
    costs = ", ".join(f"{nodes} nodes {seconds / curve[0][1]:.1f}" for nodes, seconds in curve[1:])
    day = f" (measured {datetime.fromtimestamp(timed):%Y-%m-%d})" if timed else ""
    return f"in plain passes: {costs}{day}"
