"""Photograph pages for the gallery, in a real browser, at three widths, light and dark.

python docs/photograph.py NAME=PAGE.html [NAME=ADDRESS ...]     writes docs/images/NAME-WIDTH-SCHEME.webp
"""

import base64
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from browser import Browser  # noqa: E402

SIZES = {420: 900, 1280: 1250, 1920: 1250}
QUALITY = 45  # of WebP: text stays readable, and all pictures together under 3 MB


def photograph(browser: Browser, name: str, page: str) -> None:
    for width, height in SIZES.items():
        for scheme in ("light", "dark"):
            place = page if page.startswith("http") else Path(page)
            browser.open(place, width=width, height=height, scheme=scheme)
            wait = 4000 if page.startswith("http") else 400  # milliseconds: a live table asks for its rows first
            browser.run(f"new Promise(done => setTimeout(done, {wait}))")
            data = browser.send("Page.captureScreenshot", format="webp", quality=QUALITY)["data"]
            path = ROOT / "docs" / "images" / f"{name}-{width}-{scheme}.webp"
            path.write_bytes(base64.b64decode(data))
            wide = browser.run("document.documentElement.scrollWidth")
            print(path.name, f"{path.stat().st_size / 1024:.0f} KB", "" if wide <= width else f"too wide: {wide}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as profile, Browser(Path(profile)) as opened:
        for given in sys.argv[1:]:
            photograph(opened, *given.split("=", 1))
