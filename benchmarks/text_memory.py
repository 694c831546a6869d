"""Memory of a corpus that is read by line: the books again and again, a word more and other documents each time.

    VERGENCE_DATA=DATA python benchmarks/text_memory.py FILE.tsv --times 9    # 272 MB, 2.1 million lines
    VERGENCE_DATA=DATA python benchmarks/text_memory.py FILE.tsv --times 36   # 1.1 GB, 8.5 million lines

Prints the resident memory and its peak after each thing that a run does with all lines.
"""

import argparse
import os
import resource
import time
from pathlib import Path

from vergence.data import load
from vergence.data.lines import lines_of
from vergence.learning.loop import epoch_order
from vergence.runs.sentences import counts_of

BOOKS = Path(os.environ.get("VERGENCE_DATA", "data")) / "text" / "books_sentences.tsv.gz"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="written where it is not there yet")
    parser.add_argument("--times", type=int, default=9)
    parser.add_argument("--batches", type=int, default=40)
    arguments = parser.parse_args()
    if not arguments.file.exists():
        repeated(arguments.file, arguments.times)
    said(f"{arguments.file.stat().st_size / 1e6:.0f} MB; libraries")
    source = f"text:{arguments.file},pairs=next,by_line=true,vocabulary=4096,tokens=wordpiece"
    samples = load(source, split="train")
    said(f"{len(samples):,} pairs to train on")
    said(f"{len(load(source, split='test')):,} pairs to judge it")
    counts_of(samples)
    said("words and tokens counted")
    for places in epoch_order(len(samples), 0, 0).split(256)[: arguments.batches]:
        samples.x[places]
    said(f"order of an epoch, {arguments.batches} batches")


def repeated(file, times):
    books = [line.split("\t") for _, _, line in lines_of(BOOKS)]
    with file.open("w", encoding="utf-8") as stream:
        for number in range(times):
            stream.writelines(f"{book}-{number}\t{text} w{number}\n" for book, text in books)


def said(what):
    status = Path("/proc/self/status").read_text()
    now, peak = int(status.split("VmRSS:")[1].split()[0]), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{what}: {now // 1024} MiB, peak {peak // 1024} MiB, {time.process_time():.0f} CPU-s", flush=True)


if __name__ == "__main__":
    main()
