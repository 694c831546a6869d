"""The plan for 10^9 images on 64 GPUs: what is read, held and sent, computed from figures measured here.

    python benchmarks/scale_plan.py
    python benchmarks/scale_plan.py --samples 1e8 --gpus 16 --kilobytes 60

Measured on this machine, in processor time of one thread: decoding a JPEG, listing a tar file, making the order of an
epoch, merging embeddings. Given as options, because they belong to the machines: images a second of one GPU, the
bandwidth of its network card, the cores beside it. The last line names what is asked for most, as a share of what is
there.
"""

import argparse
import io
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from vergence.data.images import pixels
from vergence.data.shards import tars
from vergence.data.shards.order import Order
from vergence.data.shards.writing import Record, _tar
from vergence.diagnostics import merging


def seconds(work, times: int) -> float:
    """Processor seconds of one call."""
    work()
    start = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - start) / times


def photo(kilobytes: float) -> bytes:
    """A JPEG of 500 x 375 pixels of about this size."""
    noise = np.random.default_rng(0).normal(0, 1, (375, 500, 3))
    smooth = Image.fromarray(np.random.default_rng(1).integers(0, 256, (6, 8, 3), np.uint8)).resize((500, 375))
    for strength in range(2, 80, 2):
        buffer = io.BytesIO()
        pixels_of = np.clip(np.asarray(smooth) + strength * noise, 0, 255).astype(np.uint8)
        Image.fromarray(pixels_of).save(buffer, "JPEG", quality=90)
        if buffer.tell() > 1000 * kilobytes:
            break
    return buffer.getvalue()


def measured(kilobytes: float, size: int) -> dict[str, float]:
    content = photo(kilobytes)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.tar"
        _tar(path, (Record(f"{number:06d}", b"x" * 100, "jpg", 1) for number in range(2000)))
        listing = seconds(lambda: tars.opened(path), 5) / 2000
    counts, shards = np.full(100_000, 10_000), np.arange(100_000)
    order = Order(counts, shards, 0, 0, 16_384, 64, 4)
    rows, keys = torch.randn(32_768, 128), torch.arange(32_768)
    state = merging.of(rows, keys)
    return {
        "decode": seconds(lambda: pixels(Image.open(io.BytesIO(content)), size=size), 30),
        "bytes": len(content),
        "listing": listing,
        "epoch": seconds(lambda: Order(counts, shards, 0, 0, 16_384, 64, 4), 2),
        "batch": seconds(lambda: order.indices(7, rank=3, world=64), 5),
        "merge": seconds(lambda: merging.merged(state, merging.of(rows, keys + 10**6, within=state)), 2) / 32_768,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in {
        "samples": 1e9, "gpus": 64, "batch": 16_384, "kilobytes": 60.0, "shard": 10_000, "size": 224, "width": 256,
        "parameters": 86e6, "rate": 1000.0, "network": 12.5e9, "cores": 12, "store": 2.5e9,
    }.items():  # fmt: skip
        parser.add_argument(f"--{name}", type=float, default=value)
    given = parser.parse_args()
    found = measured(given.kilobytes, int(given.size))
    each = given.batch / given.gpus
    step = each / given.rate
    shards = given.samples / given.shard
    gathered = 2 * 2 * 2 * given.batch * given.width * 4  # two views, there and back, a sum sends everything twice
    averaged = 2 * given.parameters * 4
    sharded = (2 * 2 + 4) * given.parameters  # gathered twice in bfloat16, summed once in float32
    decode = found["decode"] * given.rate
    read, size = found["bytes"] * given.rate, found["bytes"]
    headers = given.samples * found["listing"] / 3600
    merging_hours = given.samples * 6 * found["merge"] / 3600  # 768 columns are six times 128
    lines = {
        "a photo": f"{size / 1e3:.0f} kB, decoded to {given.size:.0f} pixels in {1e3 * found['decode']:.2f} ms",
        "bytes read in an epoch": f"{given.samples * size / 1e12:.1f} TB; {read / 1e6:.0f} MB/s a GPU, "
        f"{read * given.gpus / 1e9:.1f} GB/s in all",
        "shards": f"{shards:,.0f} of {given.shard * size / 1e9:.2f} GB; {shards / given.gpus:,.0f} a process and epoch",
        "index.json": f"{shards * 180 / 1e6:.0f} MB (180 bytes a shard); without it {headers:,.1f} core-hours to look "
        "through headers, once",
        "order of an epoch": f"{found['epoch']:.2f} s and {4 * 8 * shards / 1e6:.0f} MB; "
        f"{1e3 * found['batch']:.1f} ms a batch",
        "window": f"{4 * given.shard * size / 1e9:.1f} GB a process, mapped from the copies on disk, not held",
        "a step": f"{each:.0f} images a GPU, {1e3 * step:.0f} ms at {given.rate:,.0f} images a second",
        "embeddings sent in a step": f"{gathered / 1e6:.0f} MB a GPU",
        "gradients sent in a step": f"{averaged / 1e6:.0f} MB a GPU; with --sharding.weights in bfloat16 "
        f"{sharded / 1e6:.0f} MB",
        "embeddings of all": f"{given.samples * 768 * 4 / 1e12:.1f} TB of 768 float32; the doctor's pass "
        f"{merging_hours:,.0f} core-hours",
    }
    for name, line in lines.items():
        print(f"| {name} | {line} |")
    shares = {
        "decoding on the cores beside a GPU": decode / given.cores,
        "the network card": (gathered + averaged) / step / given.network + found["bytes"] * given.rate / given.network,
        "the object store": found["bytes"] * given.rate * given.gpus / (given.store * given.gpus / 8),
        "making batches": found["batch"] / step,
    }
    for name, share in sorted(shares.items(), key=lambda pair: -pair[1]):
        print(f"| share of {name} | {100 * share:.0f} % |")
    print(f"The bottleneck: {max(shares, key=lambda name: shares[name])}.")


if __name__ == "__main__":
    main()
