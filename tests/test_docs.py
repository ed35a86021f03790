"""The pages for people: their links lead somewhere, and the files, commands and options they name exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from specchat.app.cli.main import app
from specchat.app.tui.actions.table import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md")), ROOT / "benchmarks" / "RESULTS.md"]

ELSEWHERE = {
    *("--force-reinstall", "--no-deps", "--no-cache-dir"),  # pip
    *("--pairs", "--prompts", "--compare", "--gguf"),  # benchmarks
    *("--strict", "--unbuffered"),  # mypy, jq
    *("--out", "--special-token-by-id"),  # the recipe, gguf-new-metadata
}
"""Options of other programs."""

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def anchors(page: Path) -> set[str]:
    """What GitHub makes of a page's headings."""
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
