"""llama.cpp's RPC servers: devices of other machines that hold layers of a model (https://github.com/ggml-org/llama.cpp/tree/
master/tools/rpc). Only the calls that find them are here; llama.cpp does the rest.

    python -m specchat.backends.llama.rpc HOST:PORT     # tries a server; ends with an error if it cannot be used
"""

from __future__ import annotations

import ctypes
import socket
import subprocess
import sys
from typing import Any

from ...errors import UserError
from ..options import rebuild_command
from .library import Device, describe_device, library

CONNECT_SECONDS = 5.0
"""How long a server may take to accept a connection."""

TRIAL_SECONDS = 30.0
"""How long it may take to name its devices; the importing of the library is part of it."""


_known: dict[str, list[Device]] = {}
"""What this process is connected to: a server serves one client at a time, so a second trial would wait for ever."""


def rpc_devices(servers: str) -> list[Device]:
    """The devices of RPC servers; their handles stay valid as long as the process.

    Args:
        servers: `host:port`, several with commas between them.

    Raises:
        UserError: the installed build has no RPC, or a server cannot be reached or used; says what to do.
    """
    lib = library()
    if not lib.llama_supports_rpc():
        raise UserError(
            f"The installed llama.cpp was built without RPC. Leave out --rpc, or rebuild it: {rebuild_command('-DGGML_RPC=on')}"
        )
    found = []
    for server in map(str.strip, servers.split(",")):
        _reach(server)
        if server not in _known:
            _try(server)
            _known[server] = _add(lib._lib, server)
        found += _known[server]
    return found


def _reach(server: str) -> None:
    """Refuse a server that does not answer."""
    host, _, port = server.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise UserError(f"An RPC server is given as host:port, such as 192.168.1.20:50052, not {server!r}.")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except OSError as error:
        raise UserError(
            f"Cannot reach the RPC server {server} ({error.strerror or error}). Start `rpc-server --host 0.0.0.0 --port "
            f"{port}` there, or leave it out of --rpc."
        ) from None


def _try(server: str) -> None:
    """Refuse a server that does not speak this version's protocol. ggml ends the process over it, so another one tries."""
    command = [sys.executable, "-P", "-m", __spec__.name if __spec__ else __name__, server]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TRIAL_SECONDS, check=False)
        reason = "" if done.returncode == 0 else _said(done.stderr) or f"exit code {done.returncode}"
    except subprocess.TimeoutExpired:
        reason = f"no answer within {TRIAL_SECONDS:.0f} s"
    if reason:
        raise UserError(
            f"{server} cannot be used as an RPC server ({reason}). Run the rpc-server of the same llama.cpp version there, for "
            "one client at a time."
        )


def _said(output: str) -> str:
    """The line of ggml's last words that says why: its abort message, without the place in the source."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if "RPC" in line or "rpc" in line]
    return (telling or lines or [""])[0].rpartition(".cpp:")[2].partition(": ")[2] or (telling or [""])[0]


def _add(raw: Any, server: str) -> list[Device]:
    """The devices of one server, through ggml."""
    raw.ggml_backend_reg_by_name.restype = ctypes.c_void_p
    raw.ggml_backend_reg_get_proc_address.restype = ctypes.c_void_p
    raw.ggml_backend_reg_dev_count.restype = ctypes.c_size_t
    raw.ggml_backend_reg_dev_get.restype = ctypes.c_void_p
    registry = ctypes.c_void_p(raw.ggml_backend_reg_by_name(b"RPC"))
    address = raw.ggml_backend_reg_get_proc_address(registry, b"ggml_backend_rpc_add_server")
    added = address and ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)(address)(server.encode())
    if not added:
        raise UserError(f"The RPC server {server} offers no device. Start it with one.")
    theirs = ctypes.c_void_p(added)
    count = raw.ggml_backend_reg_dev_count(theirs)
    handles = [int(raw.ggml_backend_reg_dev_get(theirs, ctypes.c_size_t(index))) for index in range(count)]
    return [describe_device(raw, handle) for handle in handles]


if __name__ == "__main__":
    _add(library()._lib, sys.argv[1])
