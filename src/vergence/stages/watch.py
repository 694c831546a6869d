"""``vergence watch``: the pages of all runs in a folder, on this machine only, updating while runs go on."""

import secrets
import socket
import sys
from pathlib import Path

from vergence.report import live
from vergence.runs.results import Answer

HOST = "127.0.0.1"


def watch(folder: Path = Path("runs"), *, port: int = 8321, token: str = "", quiet: bool = False) -> Answer:
    """Serve a table of all runs in a folder and their pages to a browser on this machine, updating in place.

    It only reads files, so it can be stopped and started at any time; nothing can be changed through it. Without a
    ``token`` a new one is made at every start. A port of 0 takes any that is free.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"No folder {folder}. Runs are made by `vergence train --run {folder}/NAME`.")
    try:
        import uvicorn
    except ImportError as error:
        raise ImportError(f"vergence watch needs an extra ({error}). Try: pip install 'vergence[watch]'") from error
    if not 0 <= port <= 65535:
        raise ValueError(f"--port must be from 0 to 65535, got {port}.")
    token = token or secrets.token_urlsafe(16)
    door = _listening(port)
    address = f"http://{HOST}:{door.getsockname()[1]}/?token={token}"
    if not quiet:
        found = len(live.runs_in(folder))
        runs = f"{found} run{'s' * (found != 1)}"
        print(f"Watching {runs} in {folder}. Open {address}\nCtrl-C ends it.", file=sys.stderr, flush=True)
    options = {"log_level": "critical", "access_log": False, "lifespan": "off", "server_header": False}
    server = uvicorn.Server(uvicorn.Config(live.application(folder, token), **options))  # type: ignore[arg-type]
    server.run(sockets=[door])
    return Answer(("Stopped watching.",), {"folder": str(folder), "address": address})


def _listening(port: int) -> socket.socket:
    """A socket on this machine's own address, which no other machine can reach."""
    door = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        door.bind((HOST, port))
    except OSError as error:
        door.close()
        raise OSError(
            f"Port {port} cannot be had ({error.strerror}): choose another with --port, or --port 0 for any."
        ) from error
    return door
