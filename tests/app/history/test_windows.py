"""Several windows in processes of their own: whatever one of them has shown as kept is there afterwards, for all of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from multiprocessing import forkserver, get_context
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from specchat import plain_file
from specchat.app.history.store import Store

from ...cases import FULL
from .windows import run

ROUNDS = 300 if FULL else 4
STEPS = 12
"""Things that happen in a round."""

PATIENCE_SECONDS = 120.0
"""For an answer, on a machine that does something else."""

_processes = get_context("forkserver")
_processes.set_forkserver_preload([run.__module__])


class Window:
    def __init__(self, file: Path) -> None:
        self._pipe, theirs = _processes.Pipe()
        self._process = _processes.Process(target=run, args=(theirs, file), daemon=True)
        self._process.start()
        theirs.close()

    def tell(self, *what: Any) -> None:
        self._pipe.send(what)

    def answer(self) -> Any:
        assert self._pipe.poll(PATIENCE_SECONDS)
        result = self._pipe.recv()
        if isinstance(result, Exception):
            raise result
        return result

    def do(self, *what: Any) -> Any:
        self.tell(*what)
        return self.answer()

    def quit(self) -> None:
        self.do("quit")
        self._process.join()

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()


@contextmanager
def windows(file: Path) -> Iterator[Callable[[], Window]]:
    forkserver.ensure_running()  # now: in an app's test there is no standard error that it could take over
    started: list[Window] = []

    def make() -> Window:
        started.append(Window(file))
        return started[-1]

    yield make
    for window in started:
        window.kill()


@dataclass
class KeptChat:
    """The part of a chat that some window has shown."""

    prompts: list[str]
    titles: set[str] = field(default_factory=set)
    """Those that it was given; several where a window was killed in the middle. Empty: the automatic one."""
    deleted: set[bool] = field(default_factory=lambda: {False})

    def check(self, title: str, deleted: bool) -> None:
        assert not self.titles or title in self.titles
        assert deleted in self.deleted


class World:
    """The chats that were shown as kept, by number."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)
        self.kept: dict[int, KeptChat] = {}
        self.names = (f"{seed}-{number}" for number in count())
        self.killed = 0

    def check(self, listed: dict[int, tuple[str, bool, list[str], list[str]]]) -> None:
        """Compare the chat in the file with those shown."""
        for id, chat in self.kept.items():
            title, deleted, prompts, answers = listed[id]
            assert prompts[: len(chat.prompts)] == chat.prompts
            assert answers == [f"An answer to {prompt}" for prompt in prompts]
            chat.check(title, deleted)

    def die(self, window: Window) -> None:
        """Kill a window in the middle of something."""
        if self.pick.random() < 0.5:
            self.change(window, die=True)
        else:
            window.tell("new", next(self.names))
        sleep(self.pick.uniform(0, 0.01))
        window.kill()
        self.killed += 1

    def look(self, window: Window) -> None:
        """A live window sees all of it too."""
        listed = window.do("chats")
        for id, chat in self.kept.items():
            chat.check(*listed[id])
        id = self.pick.choice([*self.kept])
        if self.kept[id].deleted == {False}:
            assert id in window.do("search", f'"{self.kept[id].prompts[-1]}"')

    def asking(self) -> tuple[Any, ...]:
        open_chats = [id for id, chat in self.kept.items() if chat.deleted == {False}]
        match self.pick.randrange(4):
            case 0 | 1:
                return "ask", next(self.names)
            case 2 if open_chats:
                return "go_on", self.pick.choice(open_chats), next(self.names)
        return "new", next(self.names)

    def took(self, exchange: tuple[int, list[str]]) -> None:
        id, prompts = exchange
        chat = self.kept.setdefault(id, KeptChat(prompts))
        assert prompts[: len(chat.prompts)] == chat.prompts, "one window wrote over what another had kept"
        chat.prompts = prompts
        chat.deleted = {False}

    def change(self, window: Window, die: bool) -> None:
        """Rename or delete a chat in a window's list; if the window is killed, either result may be in the file."""
        id = self.pick.choice([*self.kept])
        chat = self.kept[id]
        if self.pick.random() < 0.7:
            title = f"title {next(self.names)}"
            window.tell("rename", id, title)
            chat.titles = (chat.titles or {chat.prompts[0]}) | {title} if die else {title}
        else:
            window.tell("delete", id)
            chat.deleted = chat.deleted | {True} if die else {True}
        if not die:
            window.answer()


def play(world: World, file: Path, most: int) -> None:
    """A round: windows come, do something, alone and at once, quit or are killed; then everything is looked at."""
    pick = world.pick
    with windows(file) as opened:
        alive = [opened() for _ in range(most)]
        for window in alive:
            world.took(window.do("new", next(world.names)))
        for _ in range(STEPS):
            window = pick.choice(alive)
            match pick.randrange(6):
                case 0:
                    for one in alive:
                        one.tell(*world.asking())
                    for one in alive:
                        world.took(one.answer())
                case 1:
                    world.look(window)
                case 2:
                    world.took(window.do(*world.asking()))
                case 3:
                    world.change(window, die=False)
                case 4:
                    window.quit()
                    alive.remove(window)
                case 5:
                    world.die(window)
                    alive.remove(window)
            while len(alive) < 2:
                alive.append(opened())
        for window in alive:
            if pick.random() < 0.5:
                window.quit()
    with windows(file) as opened:
        world.check(opened().do("everything"))


def test_what_was_kept_is_there(file: Path) -> None:
    world = World(16)
    for number in range(ROUNDS):
        play(world, file, 2 + number % 2)
    assert len(world.kept) >= 2 * ROUNDS
    assert world.killed >= ROUNDS
    print(
        f"{ROUNDS} rounds, {len(world.kept)} chats, {sum(len(chat.prompts) for chat in world.kept.values())} prompts, "
        f"{world.killed} windows killed in the middle of something"
    )


def test_nothing_else_opens_the_database_beside_sqlite(file: Path) -> None:
    """Closing a descriptor of a file drops the locks that SQLite has on it."""
    with Store(file) as store, windows(file) as opened:
        with store.transaction():  # so that there is a log
            store.db.execute("UPDATE chats SET title = title")
        for path in (file, Path(f"{file}-wal"), Path(f"{file}-shm")):
            with pytest.raises(OSError, match="keeps its chats in it"):
                plain_file.read_bytes(path)
        window = opened()
        window.do("new", "Hello")
        window.quit()
        assert Path(f"{file}-wal").exists()  # the window was not the last one
