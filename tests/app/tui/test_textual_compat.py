"""Private names of Textual: those in use exist, and all of them are listed."""

from __future__ import annotations

import ast
from pathlib import Path

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

from specchat.app.tui import app as the_app
from specchat.app.tui.textual_compat import PRIVATE, XTermParser

LISTED = {name for names in PRIVATE.values() for name in names}


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


async def test_private_names_of_textual_exist() -> None:
    async with App[None]().run_test() as pilot:
        arguments = {LinuxDriver: (pilot.app,), XTermParser: (False,)}
        for kind, names in PRIVATE.items():
            instance = pilot.app if kind is App else kind(*arguments.get(kind, ()))
            assert [name for name in names if not hasattr(instance, name)] == [], kind


def test_private_names_of_textual_are_used_by_the_list_alone() -> None:
    files = [file for file in Path(the_app.__file__).parent.rglob("*.py") if file.name != "textual_compat.py"]
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))]
    modules = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    assert [module for module in modules if module.startswith("textual") and "._" in module] == []
    attributes = [node for node in nodes if isinstance(node, ast.Attribute) and private(node.attr)]
    ours = {node.attr for node in attributes if isinstance(node.ctx, ast.Store)}
    ours |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    ours |= {node.target.id for node in nodes if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
    used = {node.attr for node in attributes if ast.unparse(node.value) != "os"}
    print(f"{len(used)} private names, {len(LISTED)} of Textual")
    assert used - ours - LISTED == set()
