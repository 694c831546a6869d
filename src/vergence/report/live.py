"""Live pages: the runs of a folder as a table and their pages, made of files that are only read."""

import json
import secrets
import time
from pathlib import Path
from typing import Any

import yaml

from vergence.report.document import ROOM
from vergence.report.page import composed
from vergence.report.pieces import TEMPLATES
from vergence.report.record import mapping, read

DEPTH = 3  # folders below the watched one in which runs are looked for
GOING = 120.0  # seconds since the last line of a log after which a run without results counts as stopped
TAIL = 65_536  # bytes at the end of a log that hold its last lines
COOKIE = "vergence"
HOSTS = ("127.0.0.1", "localhost")
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "SAMEORIGIN",
}


def runs_in(folder: Path) -> dict[str, Path]:
    """Run directories below a folder, or the folder itself, by their name relative to it."""
    found: dict[str, Path] = {}
    for depth in range(DEPTH + 1):
        for file in sorted(folder.glob("/".join(["*"] * depth + ["config.yaml"]))):
            name = file.parent.relative_to(folder).as_posix()
            found[folder.resolve().name if name == "." else name] = file.parent
    return found


def row(name: str, path: Path) -> dict[str, Any]:
    """What the table says of a run; what cannot be read is left out."""
    config, results, last = _yaml(path / "config.yaml"), _json(path / "results.json"), _last_line(path / "log.jsonl")
    changed = max((_changed(path / file) for file in ("log.jsonl", "results.json", "config.yaml")), default=0.0)
    finished = _changed(path / "results.json") >= _changed(path / "log.jsonl") > 0
    going = time.time() - changed < GOING
    epochs, epoch = config.get("epochs"), last.get("epoch")
    heat = mapping(results.get("thermometer")) if finished else {}
    best = [mapping(each) for each in results.get("accuracy") or () if finished]
    scores = [each for each in best if each.get("features") == "trained encoder" and each.get("per_class") is None]
    probe = [each["accuracy"] for each in scores if str(each.get("classifier")).startswith("linear probe")]
    return {
        "run": name,
        "state": "finished" if finished else "training" if going else "stopped",
        "data": config.get("data"),
        "method": config.get("method"),
        "encoder": config.get("encoder"),
        "batch": config.get("batch"),
        "epoch": None if epoch is None else round(float(epoch), 2),
        "epochs": epochs,
        "loss": last.get("loss"),
        "thermometer": heat.get("position"),
        "probe": probe[0] if probe else last.get("probe"),
        "verdict": mapping(results.get("verdict")).get("label") if finished else None,
        "changed": round(changed),
    }


def stamp(path: Path) -> str:
    """Changes whenever a file that the page is made of does."""
    names = ("config.yaml", "log.jsonl", "results.json", "features.safetensors", "report.html")
    return "-".join(f"{_changed(path / name):.2f}" for name in names)


def run_page(path: Path) -> str:
    """The page of a run: the one it wrote, if nothing changed since; otherwise one made now, without a new map."""
    written = path / "report.html"
    if written.is_file() and _changed(written) >= max(_changed(path / name) for name in ("log.jsonl", "results.json")):
        return written.read_text(encoding="utf-8")
    return composed(read(path), None)


def application(folder: Path, token: str) -> Any:
    """A Starlette application that answers GET alone, to whoever knows the token, and never writes."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route

    def page(text: str) -> Response:
        return HTMLResponse(text, headers=HEADERS)

    def found(request: Request) -> Path | None:
        return runs_in(folder).get(request.path_params["name"])

    def index(request: Request) -> Response:
        return page(_template("index", title=f"Runs in {folder}", script="live.js"))

    def rows(request: Request) -> Response:
        return JSONResponse([row(name, path) for name, path in runs_in(folder).items()], headers=HEADERS)

    def frame(request: Request) -> Response:
        name = request.path_params["name"]
        return page(_template("frame", title=name, script="live.js")) if found(request) else _absent(name)

    def content(request: Request) -> Response:
        path = found(request)
        return page(run_page(path)) if path else _absent(request.path_params["name"])

    def stamped(request: Request) -> Response:
        path = found(request)
        return JSONResponse({"stamp": stamp(path)}, headers=HEADERS) if path else _absent("")

    def script(request: Request) -> Response:
        text = (ROOM / "live.js").read_text(encoding="utf-8")
        return Response(text, media_type="text/javascript", headers=HEADERS)

    def _absent(name: str) -> Response:
        return PlainTextResponse(f"There is no run {name!r} here any more.", status_code=404, headers=HEADERS)

    routes = [
        Route("/", index), Route("/rows", rows), Route("/live.js", script), Route("/run/{name:path}", frame),
        Route("/page/{name:path}", content), Route("/stamp/{name:path}", stamped),
    ]  # fmt: skip
    return Starlette(routes=routes, middleware=[Middleware(Door, token=token)])


class Door:
    """Lets through whoever knows the token and asks this machine by its own name; others get a plain refusal.

    The token comes once in the address and is kept as a cookie. The name is checked because a page elsewhere could
    have its own name lead here.
    """

    def __init__(self, app: Any, token: str):
        self.app, self.token = app, token

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        from starlette.requests import Request
        from starlette.responses import PlainTextResponse, RedirectResponse, Response

        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        answer: Response | None = None
        given = request.query_params.get("token")
        if request.url.hostname not in HOSTS:
            answer = PlainTextResponse("This server answers under 127.0.0.1 alone.", status_code=403)
        elif request.method not in ("GET", "HEAD"):
            answer = PlainTextResponse("These pages are only read.", status_code=405)
        elif given is not None and secrets.compare_digest(given, self.token):
            answer = RedirectResponse(request.url.path, status_code=303)
            answer.set_cookie(COOKIE, self.token, httponly=True, samesite="strict")
        elif not secrets.compare_digest(request.cookies.get(COOKIE, ""), self.token):
            answer = PlainTextResponse(
                "Open the address that `vergence watch` printed: it has a token.", status_code=401
            )
        await (answer or self.app)(scope, receive, send)


def _template(name: str, **values: Any) -> str:
    from markupsafe import Markup

    from vergence.report.colors import variables

    style = Markup((ROOM / "style.css").read_text(encoding="utf-8"))
    return TEMPLATES.get_template("live.html").render(kind=name, variables=variables(), style=style, **values)


def _changed(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def _yaml(file: Path) -> Any:
    try:
        return mapping(yaml.safe_load(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, yaml.YAMLError):
        return {}


def _json(file: Path) -> Any:
    try:
        return mapping(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _last_line(file: Path) -> Any:
    """The last whole line of a log that may be written at this moment."""
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, file.stat().st_size - TAIL))
            lines = opened.read().decode("utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    merged: dict[str, Any] = {}
    for line in lines:
        try:
            merged |= mapping(json.loads(line))
        except ValueError:
            continue
    return merged
