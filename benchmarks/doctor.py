"""What the doctor costs: the label-free examination, a million rows streamed, the probe and kNN against peers.

    python benchmarks/doctor.py              the examination, the probe and kNN
    python benchmarks/doctor.py --million    also a million x 768 from a memory-mapped file of 3 GB

Processor time of one thread; memory is the growth of the peak resident size in a fresh process. Peers are measured in
the same process, interleaved; one that is not installed is left out.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from vergence.evaluation import knn, linear_probe
from vergence.runs.assessment import of_arrays

CLASSES = 10
HARD, EASY = 0.13, 0.18  # distances of centers at which a probe is right in about 82 % and 96 %


def embeddings(n: int, d: int, *, separation: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Non-negative rows with a decaying spectrum around ten centers, like the output of a network."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, CLASSES, n)
    scale = np.arange(1, d + 1, dtype=np.float32) ** -0.5
    centers = np.random.default_rng(1).standard_normal((CLASSES, d), dtype=np.float32) * scale
    rows = generator.standard_normal((n, d), dtype=np.float32) * scale
    return np.maximum(rows + separation * centers[labels] + 0.2, 0), labels


def processor_time(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def examination(path: Path) -> Iterator[str]:
    """Time and memory of the label-free examination of a file, in this process."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rows = np.load(path, mmap_mode="r")
    wall = time.perf_counter()
    seconds = processor_time(lambda: of_arrays(rows))
    wall = time.perf_counter() - wall
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    what = f"examination of {rows.shape[0]:,} x {rows.shape[1]}"
    yield f"{what}: {seconds:.1f} s of processor time ({wall:.0f} s by the clock), +{grown:.0f} MiB"


def in_a_fresh_process(n: int, d: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "h.npy"
        file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, d))
        for start in range(0, n, 50_000):
            size = min(50_000, n - start)
            file[start : start + size] = embeddings(size, d, separation=1.0, seed=start)[0]
        file.flush()
        command = [sys.executable, __file__, "--examine", str(path)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def probe(*, separation: float, n: int = 20_000, d: int = 512, penalty: float = 1e-4) -> str:
    """The probe against scikit-learn's L-BFGS on the same centered features, and on raw ones, at one penalty."""
    (h, labels), (test_h, test_labels) = (embeddings(n, d, separation=separation, seed=seed) for seed in (0, 9))
    centered = h - h.mean(axis=0)
    scale = float(np.sqrt(np.mean(centered**2)))
    model = LogisticRegression(C=1 / (penalty * n), max_iter=1000)
    accuracy = []
    contenders: dict[str, Callable[[], object]] = {
        "vergence": lambda: accuracy.append(linear_probe(h, labels, test_h, test_labels, regularization=penalty)),
        "scikit-learn, centered": lambda: model.fit(centered / scale, labels),
        "scikit-learn, raw": lambda: model.fit(h / scale, labels),
    }
    times = ", ".join(f"{name} {processor_time(work):.2f} s" for name, work in contenders.items())
    return f"probe {n:,} x {d} at {100 * accuracy[0].accuracy:.0f} %: {times}"


def neighbors(bank: int = 50_000, queries: int = 1000, d: int = 512) -> Iterator[str]:
    """kNN of 1000 queries in 50,000 rows against faiss's exact index, median of three interleaved rounds."""
    (h, labels), (test_h, test_labels) = (
        embeddings(bank, d, separation=1.0),
        embeddings(queries, d, separation=1.0, seed=9),
    )
    contenders: dict[str, Callable[[], object]] = {"vergence": lambda: knn(h, labels, test_h, test_labels)}
    try:
        import faiss
    except ImportError:
        yield "faiss is not installed"
    else:
        faiss.omp_set_num_threads(1)

        def theirs() -> None:
            index = faiss.IndexFlatIP(d)
            rows, asked = h.copy(), test_h.copy()
            faiss.normalize_L2(rows)
            faiss.normalize_L2(asked)
            index.add(rows)
            index.search(asked, 20)

        contenders["faiss"] = theirs
    rounds = [{name: processor_time(work) for name, work in contenders.items()} for _ in range(3)]
    medians = {name: float(np.median([row[name] for row in rounds])) for name in contenders}
    ratio = f", ratio {medians['vergence'] / medians['faiss']:.2f}" if "faiss" in medians else ""
    yield "kNN: " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in medians.items()) + ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--examine", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.examine:
        print(*examination(options.examine), sep="\n")
        return
    print(in_a_fresh_process(50_000, 512), flush=True)
    for separation in (EASY, HARD):
        print(probe(separation=separation), flush=True)
    print(*neighbors(), sep="\n", flush=True)
    if options.million:
        print(in_a_fresh_process(1_000_000, 768), flush=True)


if __name__ == "__main__":
    main()
