"""Frames a second of the map in a real browser without a graphics card: 100,000 samples, zoomed and dragged.

python benchmarks/map_frames.py [SAMPLES]
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from browser import Browser
from vergence import report

# Every frame moves the map a little and draws it; what counts is the time from one frame to the next.
FRAMES = """(async () => {
  const canvas = document.querySelector("canvas"), times = [];
  const next = () => new Promise((done) => requestAnimationFrame(done));
  const point = (type, x, y) => canvas.dispatchEvent(new PointerEvent(type, { pointerId: 1, pointerType: "mouse",
    clientX: canvas.getBoundingClientRect().x + x, clientY: canvas.getBoundingClientRect().y + y, bubbles: true }));
  document.querySelector(".closer").click();
  canvas.setPointerCapture = () => {};
  point("pointerdown", 300, 200);
  await next();
  let before = performance.now();
  for (let frame = 0; frame < 60; frame++) {
    point("pointermove", 300 + 3 * frame, 200 + frame);
    await next();
    times.push(performance.now() - before);
    before = performance.now();
  }
  point("pointerup", 400, 250);
  return times.sort((a, b) => a - b);
})()"""


def frames(samples: int) -> dict[str, float]:
    """Median and worst frames a second while a map of so many samples is dragged."""
    random = np.random.default_rng(0)
    groups = random.integers(0, 10, samples)
    points = random.normal(size=(samples, 2)) + 4 * random.normal(size=(10, 2))[groups]
    drawing = report.scatter(
        points, labels=groups, classes=[f"class {number}" for number in range(10)], description="", caption=""
    )
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "map.html"
        page.write_text(report.document("Map", "A map.", [report.section("The map", drawing)]), encoding="utf-8")
        with Browser(Path(folder) / "profile") as browser:
            browser.open(page, width=1280, height=900)
            times = browser.run(FRAMES)
    return {"samples": samples, "median": 1000 / times[len(times) // 2], "worst tenth": 1000 / times[-len(times) // 10]}


if __name__ == "__main__":
    print(json.dumps(frames(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)))
