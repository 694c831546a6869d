"""The exported ONNX graph in a real browser: onnxruntime-web gives the embeddings that torch gives.

`make test-integrations` fetches onnxruntime-web from npm into its environment; without it or Chromium they are skipped.
"""

import functools
import http.server
import json
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import vergence as vg
from browser import CHROMIUM, Browser
from vergence.config import Config
from vergence.integrations.exports import EXPORTS
from vergence.integrations.exports.source import Source
from vergence.runs import assembly

PACKAGE = Path(sys.prefix) / "node_modules" / "onnxruntime-web" / "dist"
DOCS = Path(__file__).parents[2] / "docs" / "loops.md"
SIDE = 32
PAGE = """<!doctype html><link rel="icon" href="data:,">
<script type="importmap">{"imports": {"onnxruntime-web": "./ort/ort.wasm.min.mjs"}}</script>
<script type="module">
import * as ort from "onnxruntime-web";
ort.env.wasm.numThreads = 1;  // more need headers of isolation
window.embed = async (file, type, shape) => {
  // Two files of one name within a second are one to a cache, which goes by the time.
  const bytes = await (await fetch("x.bin", { cache: "no-store" })).arrayBuffer();
  const x = type === "uint8" ? new Uint8Array(bytes) : new Float32Array(bytes);
  const { h } = await (await ort.InferenceSession.create(file)).run({ x: new ort.Tensor(type, x, shape) });
  return { dims: h.dims, values: Array.from(h.data) };
};
</script>
"""
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the page and the runtime, and the address at which it is served."""
    if not PACKAGE.is_dir():
        pytest.skip("No onnxruntime-web: make test-integrations fetches it")
    if CHROMIUM is None:
        pytest.skip("No Chromium: on Debian, apt-get install chromium")
    folder = tmp_path_factory.mktemp("site")
    (folder / "ort").symlink_to(PACKAGE)
    (folder / "index.html").write_text(PAGE)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def guess_type(self, path):
        return "text/javascript" if str(path).endswith(".mjs") else super().guess_type(path)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def browser(place, tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def source(name):
    """An untrained encoder whose batch norms are not the identity."""
    torch.manual_seed(0)
    config, recipe = Config(encoder=name, views="simclr"), vg.views.build("simclr")
    encoder = assembly.build_encoder(config, vg.data.from_arrays(np.zeros((2, SIDE, SIDE, 3), np.uint8)), recipe).eval()
    for value in encoder.state_dict().values():
        if value.is_floating_point() and value.ndim == 1:
            value.uniform_(0.5, 1.0)
    return Source(encoder, recipe, config, "image", (3, SIDE, SIDE))


@pytest.mark.parametrize("preprocess", [False, True], ids=["numbers", "bytes"])
@pytest.mark.parametrize("name", ["convnet", "resnet18", "vit"])
def test_a_browser_gives_the_embeddings_that_torch_gives(browser, place, name, preprocess):
    folder, address = place
    made = source(name)
    EXPORTS["onnx"](made, folder / "e.onnx", preprocess=preprocess)
    pixels = np.random.default_rng(0).integers(0, 256, (3, 3, SIDE, SIDE), dtype=np.uint8)
    given = pixels if preprocess else (pixels / 255).astype(np.float32)
    (folder / "x.bin").write_bytes(given.tobytes())
    browser.open(f"{address}/index.html")
    found = browser.run(f"embed('e.onnx', '{given.dtype}', {json.dumps(given.shape)})")
    with torch.no_grad():
        h = made.encoder(torch.from_numpy(pixels).float() / 255).numpy()
    assert found["dims"] == list(h.shape)
    np.testing.assert_allclose(np.reshape(found["values"], h.shape), h, rtol=1e-5, atol=1e-5 * np.abs(h).max())
    other = "float32" if preprocess else "uint8"
    (folder / "x.bin").write_bytes(np.zeros(given.shape, other).tobytes())
    with pytest.raises(RuntimeError, match="Unexpected input data type"):
        browser.run(f"embed('e.onnx', '{other}', {json.dumps(given.shape)})")


def test_the_snippet_of_the_page_embeds_an_image_file_as_python_does(browser, place, tmp_path):
    """A picture of the encoder's own size, so that no resizing comes in: the same file, the same embedding."""
    folder, address = place
    x = np.random.default_rng(1).integers(0, 256, (40, SIDE, SIDE, 3), dtype=np.uint8)
    np.save(tmp_path / "x.npy", x)
    options = {"encoder": "convnet", "backbone": {"channels": (4, 8)}, "track": (), "quiet": True, "batch": 20}
    vg.train(data=f"array:{tmp_path}/x.npy", epochs=1, run=tmp_path / "run", **options)
    vg.export(tmp_path / "run", form="onnx", output=folder / "encoder.onnx", preprocess=True)
    Image.fromarray(x[0]).save(folder / "photo.png")
    snippet = DOCS.read_text().split("```javascript\n")[1].split("```")[0]
    lines = f"{snippet}\nwindow.found = Array.from(await embed('photo.png', {SIDE}));"
    (folder / "snippet.html").write_text(PAGE + f'<script type="module">{lines}</script>')
    browser.open(f"{address}/snippet.html")
    wait = "new Promise(done => { const look = () => window.found ? done(found) : setTimeout(look, 50); look(); })"
    h = vg.load(tmp_path / "run").encode(folder / "photo.png")[0]
    np.testing.assert_allclose(browser.run(wait), h, rtol=1e-5, atol=1e-5)
