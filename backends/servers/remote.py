"""A model on servers, by the methods that decode it there: one server's own, or those of a pair, plain and speculating."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from .address import Address
from .identify import PLAIN, SPECULATION, TRANSFORMERS, UNTOLD
from .model import ServerModel, connect

GUESSES = 10
"""Tokens that transformers guesses from the text at once, where it is asked to."""

LOOKUP = f"prompt-lookup K={GUESSES}"
"""That method of transformers serve."""


class RemoteModel:
    """A model, and who decodes it how.

    Args:
        methods: by name, as the servers name what they run.
        method: that of an answer that names no other; the last one if none is named.
    """

    def __init__(self, methods: Mapping[str, ServerModel], method: str = "") -> None:
        self.methods = dict(methods)
        self.method = method or list(methods)[-1]
        """The usual one."""
        own = self.methods[self.method].info
        hosts = dict[str, list[str]]()
        for model in self.methods.values():
            served, host = model.served, model.connection.address.host
            hosts[served.engine] = [*dict.fromkeys([*hosts.get(served.engine, []), host])]
        device = ", ".join(f"{engine} at {' and '.join(found)}" for engine, found in hosts.items())
        notes = dict.fromkeys(note for model in self.methods.values() for note in model.info.notes)
        self.info = replace(own, device=device, notes=(*notes, *self._doubts()))

    def named(self, method: str) -> str:
        """The method that an answer is written with: the one of this name, or the usual one. `greedy` is plain decoding."""
        wanted = PLAIN if method == "greedy" else method
        return wanted if wanted in self.methods else self.method

    def reason(self) -> str:
        """Why none of our methods decodes here."""
        if len(self.methods) == 1:
            return self.methods[self.method].reason()
        return f"the server decodes, with {' or '.join(self.methods)}."

    async def close(self) -> None:
        """Close the connections."""
        for connection in dict.fromkeys(model.connection for model in self.methods.values()):
            await connection.close()

    def _doubts(self) -> tuple[str, ...]:
        """Where a pair is none."""
        hosts = {model.connection.address.host for model in self.methods.values()}
        if len(hosts) == 1:
            return ()
        first, *_, last = self.methods.values()
        host, other = first.connection.address.host, last.connection.address.host
        out = []
        if first.served.drafts:
            out.append(f"{host} should decode plainly, but it speculates. Look at `plain` in the settings.")
        if last.served.drafts is False:
            out.append(f"{other} should speculate, but it decodes plainly. Look at `with` in the settings.")
        return tuple(out)


async def connect_all(address: Address) -> RemoteModel:
    """Find out what a server is, or both of a pair.

    Raises:
        UserError: one of them cannot be reached, wants a key, or has no such model.
    """
    if address.other is None:
        model = await connect(address)
        return RemoteModel(_switched(model), model.served.method)
    done = await asyncio.gather(connect(address), connect(address.other), return_exceptions=True)
    models = [model for model in done if isinstance(model, ServerModel)]
    for failed in done:
        if isinstance(failed, BaseException):
            for model in models:
                await model.close()
            raise failed
    plain, other = models
    first, second = (PLAIN if plain.served.method == UNTOLD else plain.served.method), other.served.method
    if second == UNTOLD:
        second = SPECULATION
    return RemoteModel({first: plain, second if second != first else f"{second} (2)": other})


def _switched(model: ServerModel) -> dict[str, ServerModel]:
    """The methods between which each request to a server may choose; its own alone where none may."""
    served = model.served
    if served.engine == TRANSFORMERS:
        lookup = replace(served, method=LOOKUP, drafts=True, asking={"prompt_lookup_num_tokens": GUESSES})
        plain = replace(served, method=PLAIN, drafts=False)
        model.served = plain
        return {PLAIN: model, LOOKUP: ServerModel(model.connection, lookup, model.patience)}
    if len(served.siblings) < 2:
        return {served.method: model}
    out = {}
    for method, name in served.siblings.items():
        own = replace(served, model=name, method=method, drafts=not method.startswith(PLAIN))
        out[method] = model if name == served.model else ServerModel(model.connection, own, model.patience)
    return out
