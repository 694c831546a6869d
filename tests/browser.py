"""A real Chromium, driven through its DevTools pipe: nothing to install but the browser."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
PATIENCE = 60.0  # seconds for one answer: a shared machine can be slow to start a browser


class Browser:
    """One tab. ``events`` keeps what the browser reported: console messages, exceptions, requests."""

    def __init__(self, profile: Path):
        self.events: list[dict[str, Any]] = []
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self._rest = b""
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        # Chromium reads commands from descriptor 3 and answers on 4. The shell puts the pipes there: no code runs
        # between fork and exec.
        script = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", *command], pass_fds=(to_read, to_write), stderr=subprocess.DEVNULL
        )
        os.close(to_read)
        os.close(to_write)
        target = next(t for t in self.send("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self._session = self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self._session = None
        try:
            self.send("Browser.close")
            self._process.wait(PATIENCE)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a DevTools method and return its result; events that arrive meanwhile are kept."""
        message = {"id": next(self._numbers), "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != message["id"]:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(
        self, path: Path | str, *, width: int = 1280, height: int = 900, scheme: str = "light", medium: str = "screen"
    ) -> None:
        """Open a file or address at a window size, color scheme and medium, and wait until it is drawn."""
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.send(
            "Emulation.setEmulatedMedia", media=medium, features=[{"name": "prefers-color-scheme", "value": scheme}]
        )
        self.events.clear()
        self.send("Page.navigate", url=path if isinstance(path, str) else path.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._receive())
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression on the page."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def mouse(self, x: float, y: float) -> None:
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def touch(self, x: float, y: float) -> None:
        self.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key)

    def screenshot(self, path: Path) -> None:
        """The whole page as a PNG, however long."""
        data = self.send("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def complaints(self) -> list[str]:
        """Console errors and warnings, uncaught exceptions, and anything the content security policy stopped."""
        kinds = {"Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"}
        return [json.dumps(event["params"]) for event in self.events if event.get("method") in kinds]

    def requests(self) -> list[str]:
        """Addresses asked for, other than the page itself and data inside it."""
        sent = [event["params"] for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        urls = [params["request"]["url"] for params in sent if params.get("type") != "Document"]
        return [url for url in urls if not url.startswith("data:")]

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            if not select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"The browser did not answer within {PATIENCE:.0f} s")
            chunk = os.read(self._read, 1 << 20)
            if not chunk:
                raise ConnectionError("The browser has gone")
            self._rest += chunk
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)


def barriers(browser: Browser) -> list[str]:
    """What axe-core finds wrong with the open page for readers with other senses or devices; skips without it."""
    axe = pytest.importorskip("axe_core_python")
    browser.run((Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8") + ";0")
    found = browser.run("axe.run({ resultTypes: ['violations'] }).then(answer => answer.violations)")
    return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]
