"""``vergence watch``: a real process, asked over HTTP and looked at in a real browser."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from browser import CHROMIUM, Browser, barriers
from vergence.report import live

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")


def make_run(folder, name, *, loss=5.0, lines=3, finished=False):
    path = folder / name
    path.mkdir(parents=True)
    (path / "config.yaml").write_text(f"data: digits\nmethod: {name}\nepochs: 10\nbatch: 64\n")
    rows = [{"step": step, "epoch": step / 2, "loss": loss - 0.1 * step} for step in range(1, lines + 1)]
    (path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if finished:
        (path / "results.json").write_text(json.dumps({"verdict": {"label": "learning", "sentence": "It learns."}}))
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    make_run(folder, "simclr", finished=True)
    make_run(folder / "sweep", "moco", loss=7.0)
    return folder


def serve(folder, port=0, token="secret"):
    command = [sys.executable, "-m", "vergence", "watch", str(folder), "--port", str(port), "--token", token]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    line = process.stderr.readline()
    address = re.search(r"http://127\.0\.0\.1:\d+/", line)
    assert address, line
    return process, address[0]


def stop(process):
    process.terminate()
    process.communicate(timeout=30)


@pytest.fixture(scope="module")
def served(runs):
    process, address = serve(runs)
    yield address
    stop(process)


def ask(address, *, cookie="vergence=secret", method="GET", host=None):
    headers = {"Cookie": cookie} | ({"Host": host} if host else {})
    request = urllib.request.Request(address, headers=headers, method=method)
    for _ in range(100):
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except urllib.error.URLError:
            time.sleep(0.1)
    raise TimeoutError(address)


def test_every_run_below_the_folder_is_a_row(served):
    status, text = ask(served + "rows")
    rows = {row["run"]: row for row in json.loads(text)}
    assert status == 200
    assert rows.keys() == {"simclr", "sweep/moco"}
    assert rows["simclr"]["state"] == "finished"
    assert rows["sweep/moco"] | {"changed": 0} == {
        "run": "sweep/moco", "state": "training", "data": "digits", "method": "moco", "encoder": None, "batch": 64,
        "epoch": 1.5, "epochs": 10, "loss": 6.7, "thermometer": None, "probe": None, "verdict": None, "changed": 0,
    }  # fmt: skip


@pytest.mark.parametrize("path", ["", "rows", "page/simclr", "run/simclr", "stamp/simclr", "live.js"])
def test_nothing_is_told_without_the_token(served, path):
    assert ask(served + path, cookie="vergence=guess")[0] == 401
    assert ask(f"{served}{path}?token=guess", cookie="")[0] == 401


def test_nothing_can_be_changed_and_no_other_name_leads_here(served):
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert ask(served + "rows", method=method)[0] == 405
    assert ask(served + "rows", host="evil.example")[0] == 403


@pytest.mark.parametrize("path", ["page/../simclr/config.yaml", "page/%2e%2e/%2e%2e/etc", "page/absent", "page//etc"])
def test_only_runs_are_served(served, path):
    assert ask(served + path)[0] == 404


def test_a_log_torn_in_the_middle_of_a_line_is_read_to_the_last_whole_one(tmp_path):
    path = make_run(tmp_path, "torn")
    with (path / "log.jsonl").open("a") as log:
        log.write('{"step": 4, "epo')
    assert live.row("torn", path)["epoch"] == 1.5


def test_a_run_without_new_lines_is_called_stopped(tmp_path):
    path = make_run(tmp_path, "old")
    for file in path.iterdir():
        os.utime(file, (1, 1))
    assert live.row("old", path)["state"] == "stopped"


def test_a_server_that_was_killed_starts_again_where_it_was(runs):
    first, address = serve(runs)
    before = ask(address + "rows")
    first.kill()
    first.communicate(timeout=30)
    second, address = serve(runs, port=int(address.split(":")[2].strip("/")))
    assert ask(address + "rows") == before
    stop(second)


def test_a_folder_that_is_not_there_is_named():
    command = [sys.executable, "-m", "vergence", "watch", "no-such-folder"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 2
    assert "No folder no-such-folder" in ended.stderr


@pytest.mark.browser
def test_the_table_sorts_filters_and_updates_in_place(served, runs, tmp_path):
    if CHROMIUM is None:
        pytest.skip("No Chromium: on Debian, apt-get install chromium")
    names = "[...document.querySelectorAll('tbody th')].map(cell => cell.textContent)"

    def until(expression, wanted):
        for _ in range(100):
            if browser.run(expression) == wanted:
                return
            time.sleep(0.1)
        assert browser.run(expression) == wanted

    with Browser(tmp_path / "profile") as browser:
        browser.open(served + "?token=secret")
        until(f"{names}.sort()", ["simclr", "sweep/moco"])
        assert barriers(browser) == []
        for wanted in (["simclr", "sweep/moco"], ["sweep/moco", "simclr"]):
            browser.run("document.querySelector('th[data-key=method] button').click()")
            until(names, wanted[::-1])
        browser.run("(() => { const box = document.querySelector('input'); box.value = 'moco';"
                    "box.dispatchEvent(new Event('input')); })()")  # fmt: skip
        until(names, ["sweep/moco"])
        with (runs / "sweep" / "moco" / "log.jsonl").open("a") as log:
            log.write(json.dumps({"step": 8, "epoch": 4.0, "loss": 1.25}) + "\n")
        until("document.querySelector('tbody').textContent.includes('1.25')", True)
        browser.open(served + "run/sweep/moco")
        inner = "(document.querySelector('iframe').contentDocument?.body?.textContent || '')"
        until(f"{inner}.includes('Run moco')", True)
        browser.run("document.querySelector('iframe').contentWindow.scrollTo({top: 60, behavior: 'instant'})")
        with (runs / "sweep" / "moco" / "log.jsonl").open("a") as log:
            log.write(json.dumps({"step": 9, "epoch": 4.5, "loss": 0.125}) + "\n")
        until(f"{inner}.includes('9') && document.querySelector('iframe').contentWindow.scrollY", 60)
        assert browser.complaints() == []
