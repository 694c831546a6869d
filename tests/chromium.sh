#!/bin/sh
# The report is tested in a real browser. Debian's package is installed when there is none and we may install it.
for name in chromium chromium-browser google-chrome; do command -v "$name" >/dev/null 2>&1 && exit 0; done
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    echo "Installing chromium for the browser test"
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1 && exit 0
fi
echo "No Chromium found: the browser test will be skipped. On Debian: apt-get install chromium"
