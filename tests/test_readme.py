"""The README is true: its commands and code run, its tables are those of the code, its links lead somewhere."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working directory with the files that the examples name."""
    path = tmp_path_factory.mktemp("readme")
    generator = np.random.default_rng(0)
    np.save(path / "embeddings.npy", generator.normal(size=(300, 16)).astype(np.float32))
    np.save(path / "labels.npy", np.arange(300) % 3)
    return path


def commands() -> list[str]:
    lines = [line.split("#")[0].strip() for block in blocks("bash") for line in block.splitlines()]
    return [line for line in lines if line.startswith("vergence")]


def test_the_commands_run_in_order(folder):
    assert len(commands()) >= 4
    for command in commands():
        arguments = [sys.executable, "-m", "vergence", *shlex.split(command)[1:]]
        result = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, env=single_thread())
        assert result.returncode == 0, f"{command}\n{result.stderr}"


@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_the_python_runs(number, folder):
    program = blocks("python")[number]
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, env=single_thread()
    )
    assert result.returncode == 0, result.stderr


def test_the_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`?make ([a-z-]+)`?", TEXT):
        assert f"\n{target}:" in makefile, target


def test_the_generated_parts_are_up_to_date():
    result = subprocess.run([sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


def test_every_link_to_a_file_leads_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        if not target.startswith("http"):
            assert (ROOT / target).exists(), target


def single_thread() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}
