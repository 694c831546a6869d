"""Two hosts on one machine: network namespaces with addresses of their own; links are cut and hosts killed.

    sudo python benchmarks/hosts.py           needs the right to make network namespaces (ip netns); says so where not

Every case trains the same run on both hosts. The link is cut for some seconds, or for good; or one host is killed. A
run that ends must end with the weights of the undisturbed one; a run that stops must say so, and end with them when it
is resumed.
"""

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from vergence.runs.run import Run

HOSTS = {"vergence-a": "10.77.0.1", "vergence-b": "10.77.0.2"}
PATIENCE = 60  # seconds without a word from the other host after which a process gives up
LONGEST = 400
CASES = ("undisturbed", "link cut for 5 s", "link cut for good", "host killed")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def built() -> None:
    """The two hosts and the cable between them."""
    torn_down()
    first, second = HOSTS
    for host in HOSTS:
        ip("netns", "add", host)
    ip("link", "add", "vg-a", "netns", first, "type", "veth", "peer", "name", "vg-b", "netns", second)
    for host, address in HOSTS.items():
        ip("-n", host, "addr", "add", f"{address}/24", "dev", f"vg-{host[-1]}")
        for device in ("lo", f"vg-{host[-1]}"):
            ip("-n", host, "link", "set", device, "up")


def torn_down() -> None:
    for host in HOSTS:
        subprocess.run(["ip", "netns", "del", host], check=False, capture_output=True)


def link(state: str) -> None:
    ip("-n", "vergence-b", "link", "set", "vg-b", state)


def started(run: Path, port: int, *, resume: bool) -> dict[str, subprocess.Popen]:
    """torchrun on both hosts."""
    found = {}
    options = ["--data", "digits", "--limit", "800", "--epochs", "30", "--batch", "64", "--saving.every", "1"]
    options += ["--watching.every", "0", "--quiet", "--track"]
    for number, host in enumerate(HOSTS):
        command = ["ip", "netns", "exec", host, sys.executable, "-m", "torch.distributed.run", "--nnodes", "2"]
        command += ["--nproc-per-node", "1", "--node-rank", str(number), "--max-restarts", "0"]
        command += ["--master-addr", "10.77.0.1", "--master-port", str(port)]
        command += ["-m", "--", "vergence", "train", "--run", str(run)]
        command += ["--resume"] if resume else options
        environment = {
            **os.environ, "GLOO_SOCKET_IFNAME": f"vg-{host[-1]}", "OMP_NUM_THREADS": "1", "HOME": str(run.parent),
            "VERGENCE_PATIENCE": str(PATIENCE), "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        }  # fmt: skip
        log = (run.parent / f"{run.name}-{host[-1]}.log").open("a")
        found[host] = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    return found


def step(run: Path) -> int:
    """The newest saved step."""
    saved = Run(run).checkpoints()
    return int(saved[-1].name.rpartition("-")[2]) if saved else 0


def ended(hosts: dict[str, subprocess.Popen], seconds: float = LONGEST) -> list[int | None]:
    """Exit statuses; whoever does not end is killed."""
    until = time.monotonic() + seconds
    for host, process in hosts.items():
        try:
            process.wait(max(1.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            killed(host, process)
    return [process.poll() for process in hosts.values()]


def killed(host: str, process: subprocess.Popen) -> None:
    """End a host: everything in its namespace at once, for the processes of torchrun have sessions of their own."""
    there = subprocess.run(["ip", "netns", "pids", host], check=True, capture_output=True, text=True).stdout
    for number in map(int, there.split()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    process.wait()


def disturbed(case: str, run: Path, hosts: dict[str, subprocess.Popen]) -> None:
    until = time.monotonic() + LONGEST
    while step(run) < 60 and time.monotonic() < until and all(host.poll() is None for host in hosts.values()):
        time.sleep(0.1)
    if case == "link cut for 5 s":
        link("down")
        time.sleep(5)
        link("up")
    elif case == "link cut for good":
        link("down")
    elif case == "host killed":
        killed("vergence-b", hosts["vergence-b"])


def said(run: Path) -> str:
    """What the processes said at the end."""
    lines = [line for log in run.parent.glob(f"{run.name}-*.log") for line in log.read_text().splitlines()]
    found = [line for line in lines if "cannot be reached any more" in line]
    return found[0].partition("vergence: ")[2][:150] if found else ""


def equal(one: Path, other: Path) -> bool:
    first, second = Run(one).load(), Run(other).load()
    if first is None or second is None or first.step != second.step:
        return False
    return all(torch.equal(first.tensors[name], second.tensors[name]) for name in first.tensors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="*", choices=CASES[1:], default=CASES[1:], help="besides the undisturbed run")
    cases = ("undisturbed", *parser.parse_args().cases)
    try:
        built()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"Skipped: network namespaces are not allowed here ({getattr(error, 'stderr', '') or error}).")
        return
    folder = Path(tempfile.mkdtemp(prefix="vergence-hosts-"))
    print(
        "| case | what happened | after --resume | weights equal to the undisturbed run |\n|---|---|---|---|",
        flush=True,
    )
    try:
        for number, case in enumerate(cases):
            run = folder / f"run{number}"
            start = time.monotonic()
            hosts = started(run, 29500 + 2 * number, resume=False)
            disturbed(case, run, hosts)
            statuses = ended(hosts)
            took = time.monotonic() - start
            happened = (
                f"ended in {took:.0f} s" if statuses == [0, 0] else f"stopped after step {step(run)}: {said(run)}"
            )
            again = ""
            if statuses != [0, 0]:
                link("up")
                again = f"statuses {ended(started(run, 29501 + 2 * number, resume=True))}"
            print(f"| {case} | {happened} | {again or 'not needed'} | {equal(folder / 'run0', run)} |", flush=True)
    finally:
        torn_down()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
