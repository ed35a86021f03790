"""`specchat doctor`: what is installed, what is missing, and the command that fixes it."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
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
"""Told, but not missed."""

PROBE_SECONDS = 60
"""How long the devices are waited for: importing torch from a cold disk takes many seconds."""

_OURS = "specchat.errors.UserError: "

# In a process of its own: this one never imports torch.
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
"""Builds of llama.cpp for a GPU: their name, the command that tells that they would be of use here, and what that command
belongs to."""


@dataclass(slots=True)
class Problem:
    """Something missing or broken, and the command that fixes it."""

    what: str
    fix: str
    serious: bool = True
    """False for what specchat does without."""


@dataclass(slots=True)
class Report:
    """Everything that doctor tells, as plain data."""

    versions: dict[str, str | None] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    devices: dict[str, Any] = field(default_factory=dict)
    llama_cpp: dict[str, Any] = field(default_factory=dict)
    """The installed build: its backends (CPU, CUDA …), devices, library (its folder); empty where it is not installed."""
    terminal: dict[str, Any] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    settings: str = ""
    """ok, no file (the defaults hold), or the sentence that says what is wrong."""
    builtin_model: bool = False
    problems: list[Problem] = field(default_factory=list)


def examine() -> Report:
    """Look at everything. Takes as long as a process needs to import torch."""
    report = Report()
    report.versions = versions(report.problems)
    report.machine = machine()
    report.devices = _devices(report.problems) if report.versions["torch"] else {}
    report.llama_cpp = _llama_cpp(report.problems) if report.versions["llama-cpp-python"] else {}
    report.terminal = _terminal()
    report.paths = {name: str(path) for name, path in locations.everything().items()}
    report.settings = _settings(report.problems)
    report.builtin_model = _builtin(report.problems)
    _writable(report.problems)
    return report


def page(report: Report) -> Iterator[str]:
    """The report for people, line by line."""
    yield "Versions"
    for name, version in report.versions.items():
        yield f"  {name:18} {version or ('not installed (optional)' if name in OPTIONAL else 'missing')}"
    machine = report.machine
    yield "Machine"
    yield f"  {'system':18} {machine['system']}"
    yield (
        f"  {'processor':18} {machine['processor']}, {counted(machine['cores'], 'core')}, "
        f"{counted(machine['threads'], 'thread')}"
    )
    yield f"  {'memory':18} {size_of(machine['memory'])}, {size_of(machine['memory_available'])} free"
    for name, value in _device_lines(report.devices):
        yield f"  {name:18} {value}"
    if report.versions.get("llama-cpp-python"):
        yield "llama.cpp (GGUF models)"
        yield from (f"  {name:18} {value}" for name, value in _llama_lines(report.llama_cpp))
    terminal = report.terminal
    yield "Terminal"
    colours = {0: "none", 16_777_216: "16.7 million"}.get(terminal["colours"], terminal["colours"])
    yield f"  {'type':18} {terminal['term'] or 'not set'}{'' if terminal['is_terminal'] else ' (the output is not a terminal)'}"
    yield f"  {'size':18} {terminal['columns']} × {terminal['rows']}"
    yield f"  {'colours':18} {colours}{' (NO_COLOR is set)' if terminal['no_color'] else ''}"
    yield f"  {'encoding':18} {terminal['encoding']}"
    yield "Paths"
    for name, path in report.paths.items():
        yield f"  {name:18} {path}{'' if Path(path).exists() else '  (does not exist yet)'}"
    yield "State"
    yield f"  {'settings file':18} {report.settings}"
    yield f"  {'built-in model':18} {'present' if report.builtin_model else 'missing'}"
    yield ""
    if not report.problems:
        yield "Everything is in order."
    for problem in report.problems:
        yield f"{'Problem' if problem.serious else 'Note'}: {problem.what}"
        yield f"  {problem.fix}"


def _device_lines(devices: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for i, gpu in enumerate(devices.get("cuda", ())):
        yield f"cuda:{i}", f"{gpu['name']}, {size_of(gpu['memory'])}"
    if devices.get("mps"):
        yield "mps", "available"
    if devices and not devices.get("cuda") and not devices.get("mps"):
        yield "devices", "cpu only"


def _llama_lines(build: dict[str, Any]) -> Iterator[tuple[str, str]]:
    here = build.get("backends", [])
    offered = ("Metal",) if platform.system() == "Darwin" else ("CUDA", "Vulkan")
    missing = [name for name in offered if not _has(here, name)]
    yield "built for", ", ".join(here) or "unknown (llama.cpp does not say)"
    yield "built without", ", ".join(missing) or "-"
    for device in build.get("devices", ()):
        # The CPU's memory is the machine's, told above; llama.cpp takes all of it for free.
        own = device["total"] and device["name"] != "CPU"
        memory = f", {size_of(device['total'])}, {size_of(device['free'])} free" if own else ""
        yield device["name"], device["description"] + memory
    for name in missing:
        yield f"to add {name}", rebuild_command(f"-DGGML_{name.upper()}=on")


def _has(backends: list[str], name: str) -> bool:
    """Whether a build has a backend; Metal calls itself MTL in newer versions."""
    return name in backends or (name == "Metal" and "MTL" in backends)


def versions(problems: list[Problem]) -> dict[str, str | None]:
    """Versions without an import: importing them all would take seconds."""
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


def machine() -> dict[str, Any]:
    import psutil

    memory = psutil.virtual_memory()
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "cores": psutil.cpu_count(logical=False) or os.cpu_count(),
        "threads": _usable_threads(),
        "memory": memory.total,
        "memory_available": memory.available,
    }


def _processor() -> str:
    """The CPU's own name; platform.processor() is empty or only the architecture on most systems."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _usable_threads() -> int:
    """Hardware threads that this process may use: containers and taskset allow fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _probed(name: str, code: str, problems: list[Problem], package: str, *, serious: bool) -> dict[str, Any]:
    """What some code prints, run in a process of its own; empty where it cannot run."""
    command = [sys.executable, "-P", "-c", code]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        problems.append(Problem(f"{name} took more than {PROBE_SECONDS} s to load.", "specchat doctor  (again)", serious))
        return {}
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1].removeprefix(_OURS)
        fix = _pip("install", "--force-reinstall", "--no-cache-dir", package)
        problems.append(Problem(f"{name} is installed but cannot be used: {reason}", fix, serious))
        return {}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _devices(problems: list[Problem]) -> dict[str, Any]:
    devices = _probed("torch", _PROBE, problems, "torch", serious=True)
    if devices and not devices["cuda"] and not devices["built_for_cuda"] and shutil.which("nvidia-smi"):
        what = "There is an NVIDIA driver, but this torch was built for the CPU only."
        problems.append(Problem(what, _pip("install", "--force-reinstall", "torch"), serious=False))
    return devices


def _llama_cpp(problems: list[Problem]) -> dict[str, Any]:
    build = _probed("llama.cpp", _LLAMA_PROBE, problems, "llama-cpp-python", serious=False)
    here = build.get("backends", [])
    wanted = [(name, what) for name, command, what in GPU_BUILDS if shutil.which(command)]
    if platform.system() == "Darwin" and platform.machine() == "arm64":
        wanted = [("Metal", "an Apple GPU")]
    if build and wanted and not any(_has(here, name) for name, _ in wanted):
        name, what = wanted[0]
        told = f"There is {what}, but this llama.cpp was built without {name}."
        problems.append(Problem(told, rebuild_command(f"-DGGML_{name.upper()}=on"), serious=False))
    return build


def _terminal() -> dict[str, Any]:
    size = shutil.get_terminal_size()
    out = sys.stdout
    is_terminal = out is not None and out.isatty()
    return {
        "is_terminal": is_terminal,
        "term": os.environ.get("TERM", ""),
        "columns": size.columns,
        "rows": size.lines,
        "colours": colour_depth("auto", is_terminal=True),
        "no_color": bool(os.environ.get("NO_COLOR")),
        "encoding": out.encoding if out is not None else "",
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
    here = any(folder.glob("*.safetensors")) and (folder / "config.json").is_file()
    if not here:
        clone = locations.package_folder()
        fix = _pip("install", "--force-reinstall", "specchat")
        if (clone / ".git").exists():
            fix = shell_line("git", "-C", str(clone), "checkout", "--", "builtin")
        problems.append(Problem(f"The built-in model is missing from {folder}.", fix))
    return here


def _writable(problems: list[Problem]) -> None:
    """The folders that specchat writes to: the nearest existing one above each must let it."""
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
        found = lab.work("prove", lambda part: notes.progress(f"{counted(part['passes'], 'pass', 'passes')}"))
    if lab.code == CANCELLED:
        notes.sentence("Stopped.")
    if lab.code != ANSWERED:
        return lab.code
    keys = "name backend device dtype architecture parameters context capabilities pass_seconds timed".split()
    facts = {key: getattr(info, key) for key in keys} | {"capabilities": asdict(info.capabilities)}
    target = Library().named(settings.model, settings.model_folders)
    report = {"model": facts.pop("name"), **facts, **found}
    report["thinking"] = info.thinking.sentence if info.thinking else ""
    report["look_for"] = look_for(target) if target is not None else ""
    if as_json:
        print_json(report)
    else:
        stdout().write("\n".join(model_page(report)) + "\n")
    return BROKEN if found["broken"] else ANSWERED


def model_page(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the report's lines."""
    able, reasons = report["capabilities"], report["capabilities"]["reasons"]
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
