"""What a small question loads: the doctor of a file without labels starts without the large libraries it may need."""

import json
import os
import re
import subprocess
import sys

import numpy as np

LARGE = ("sklearn", "scipy.stats", "scipy.optimize", "matplotlib", "pandas", "jinja2", "torch._dynamo", "rich")
SCRIPT = """
import json, sys
from vergence.cli import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print(json.dumps([name for name in {names!r} if name in sys.modules]))
"""


def started(*arguments, **environment):
    """Which large libraries a verb loads, and what its process says of itself."""
    script, inherited = SCRIPT.format(names=LARGE), {**os.environ, **environment}
    inherited.pop("OMP_WAIT_POLICY", None)
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=inherited)
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def test_the_doctor_of_a_small_file_loads_none_of_the_large_libraries_and_its_threads_do_not_spin(tmp_path):
    rows = np.random.default_rng(0).normal(size=(200, 16)).astype("float32")
    np.save(tmp_path / "tiny.npy", rows)
    loaded, said = started("doctor", str(tmp_path / "tiny.npy"), OMP_DISPLAY_ENV="verbose")
    assert loaded == []
    spins = re.findall(r"GOMP_SPINCOUNT = '(\w+)'", said)  # of GNU's OpenMP, which torch has on Linux
    assert set(spins) <= {"0"}
    assert spins or sys.platform != "linux"


def test_the_command_line_gives_numpy_and_scipy_one_thread_unless_another_number_is_asked_for():
    lines = (
        "from vergence.cli import main",
        "main(['version'])",
        "import scipy.linalg, threadpoolctl",
        "found = threadpoolctl.threadpool_info()",
        "print([each['num_threads'] for each in found if each['internal_api'] == 'openblas'])",
    )
    for asked, threads in ((None, 1), ("2", min(2, os.cpu_count() or 1))):
        inherited = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
        inherited |= {} if asked is None else {"OPENBLAS_NUM_THREADS": asked}
        command = [sys.executable, "-c", "; ".join(lines)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=inherited)
        assert set(json.loads(done.stdout.splitlines()[-1])) <= {threads}


def test_the_room_of_pages_gives_functions_where_modules_have_the_same_name():
    lines = ("from vergence.report.page import page", "from vergence import report", "assert report.page is page")
    subprocess.run([sys.executable, "-c", "; ".join((*lines, "assert callable(report.summary)"))], check=True)
