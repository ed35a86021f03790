"""The pages for people: their links lead somewhere, and the files, commands and options they name exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from specchat.app.cli.main import _complete_resume, app
from specchat.app.settings.keymap import ALL, every_way
from specchat.app.tui.actions.dispatch import COMMANDS
from specchat.benchmarks import gpu
from specchat.builtin.recipe import train_eagle

from .pages import pages

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md")), ROOT / "benchmarks" / "RESULTS.md"]

ELSEWHERE = set(
    """
    pip: --force-reinstall --no-deps --no-cache-dir --dry-run --ignore-installed --report --index-url
    benchmarks: --pairs --prompts --compare --gguf --only --rows --vllm --kind --runtime --units --draft-units --cores --runs
      --answers --table --quality
    training and GGUF: --out --special-token-by-id --target-model-dir --rpc
    mypy, jq, pytest: --strict --unbuffered --sw --snapshot-update
    llama-server: --metrics --no-slots --spec-type --spec-draft-n-max --spec-draft-p-min --spec-ngram-simple-size-n
      --spec-ngram-simple-size-m --spec-ngram-mod-n-match --spec-ngram-mod-n-min --spec-ngram-mod-n-max --models-preset
      --models-max --no-repack --reasoning-format
    vLLM: --per-request-spec-decode-metrics --speculative-config --stream-interval --tensor-parallel-size --reasoning-parser
      --structured-outputs-config --pipeline-parallel-size --distributed-executor-backend
    SGLang: --model-path --speculative-algorithm --speculative-draft-model-path
    Ray: --head --address
    """.split()
).union(option for own in (train_eagle, gpu) for action in own.command_line()._actions for option in action.option_strings)
"""Options of other programs."""

OTHER_KEYS = {"alt+n", "F12", "ctrl+b", "shift+tab", "alt+b", "alt+f"}
"""Keys of examples, of tmux, of every text field, and those that terminals send instead of others."""

ONCE = "c4f12999"
"""The commit with the benchmarks that were run once; pages that name such ones name it."""

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def anchors(page: Path) -> set[str]:
    """Return GitHub's anchors of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def options(command: Any) -> set[str]:
    """Every option of a command and of those below it."""
    named = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
    return named.union(*(options(sub) for sub in getattr(command, "commands", {}).values()))


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if link.startswith("http"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@each_page
def test_files_exist(page: Path) -> None:
    named = re.findall(
        r"(?<![\w/])(?:app|backends|benchmarks|builtin|decoders|engine|tests)/[\w/.]*\w", page.read_text(encoding="utf-8")
    )
    assert [name for name in named if not (ROOT / name).exists()] == []


@each_page
def test_options_exist(page: Path) -> None:
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page.read_text(encoding="utf-8")))
    assert named - options(typer.main.get_command(app)) - {"--help"} - ELSEWHERE == set()


@each_page
def test_slash_commands_exist(page: Path) -> None:
    named = set(re.findall(r"`/([a-z]+)", page.read_text(encoding="utf-8")))
    assert named <= {command.command for command in COMMANDS}


def shell_lines(page: Path) -> Iterator[str]:
    """The `specchat …` lines of a page's code blocks, without their comments. Not those with optional parts or a text of
    several lines."""
    for block in re.findall(r"^```\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            for command in re.findall(r"^(?:\$ )?(specchat\b.*)|\| (specchat\b[^|]*)", line):
                text = re.split(r" \| |\s# |\s{2,}", "".join(command))[0].replace("…", "x")
                if "[" not in text and text.count('"') % 2 == 0:
                    yield text


def parses(command: Any, words: list[str]) -> None:
    """Read a command line, and that of the command in it.

    Raises:
        click.UsageError: it cannot be read.
    """
    context = command.make_context(command.name, words)
    if rest := [*getattr(context, "_protected_args", ()), *context.args]:
        name, below, words = command.resolve_command(context, rest)
        assert below is not None, name
        parses(below, words)


@each_page
def test_shell_commands_are_understood(page: Path) -> None:
    for line in shell_lines(page):
        parses(typer.main.get_command(app), _complete_resume(shlex.split(line)[1:]))


@each_page
def test_keys_exist(page: Path) -> None:
    named = set(re.findall(r"(?<![\w+-])(?:(?:ctrl|alt|shift)\+(?:[a-z]+|[^\w\s`])|F\d+)", page.read_text(encoding="utf-8")))
    known = {part for key in ALL for way in every_way(key, {}).split(" · ") for part in way.split()}
    assert named - known - OTHER_KEYS == set()


@each_page
def test_modules_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    modules = re.findall(r"python -m\s+(?:specchat\.)?([a-z_]+(?:\.[a-z_]+)*)", text)
    others = {"build", "pytest"}
    ours = [name for name in modules if name not in others and not (ONCE in text and name.startswith("benchmarks."))]
    files = {name: ROOT.joinpath(*name.split(".")) for name in ours}
    assert [
        name for name, at in files.items() if not (at / "__main__.py").exists() and not at.with_suffix(".py").exists()
    ] == []


def test_generated_tables_are_written() -> None:
    for page, text in pages():
        assert page.read_text(encoding="utf-8") == text, "write it again: python -m specchat.tests.pages"
