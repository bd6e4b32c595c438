"""A page in a real browser: Debian's chromium, headless, with nothing but the page; what is in it, and a picture."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest

NEEDED = "chromium is not there: apt-get install chromium"
LIMIT_S = 180
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--hide-scrollbars",
)

# Errors from the first line on; then the page is used as a person would.
BEFORE = """<script>
window.said = [];
window.addEventListener("error", (event) => window.said.push(String(event.message)));
console.error = console.warn = (...words) => window.said.push(words.join(" "));
</script>"""
AFTER = """<script>
const tip = document.getElementById("tip"), plot = document.querySelector(".plot");
const press = (key) => {
  plot.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  return tip.hidden ? null : tip.textContent;
};
const found = { errors: window.said, width: window.innerWidth, wide: document.documentElement.scrollWidth };
found.figures = document.querySelectorAll("figure svg").length;
found.points = document.querySelectorAll(".pt").length;
found.ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
found.drawn = [...document.querySelectorAll("figure svg")].map((svg) => svg.getBoundingClientRect().width);
found.outside = [...document.querySelectorAll("figure svg text")].filter((text) => {
  const own = text.getBoundingClientRect(), svg = text.ownerSVGElement.getBoundingClientRect();
  return own.width && (own.left < svg.left - 1 || own.right > svg.right + 1);
}).map((text) => text.textContent.trim());
if (plot) {
  plot.focus();
  found.keys = [press("ArrowRight"), press("ArrowRight"), press("ArrowDown"), press("Escape")];
  const point = plot.querySelector(".pt");
  point.dispatchEvent(new PointerEvent("pointerenter"));
  found.hover = tip.hidden ? null : tip.textContent;
  const box = tip.getBoundingClientRect();
  found.tip = [box.left, box.right];
  plot.dispatchEvent(new PointerEvent("pointerleave"));
  found.gone = tip.hidden;
}
const sections = [...document.querySelectorAll("details.section")];
for (const section of sections) section.open = false;
window.dispatchEvent(new Event("beforeprint"));
found.printed = sections.map((section) => section.open);
const out = document.createElement("pre");
out.id = "found";
out.textContent = JSON.stringify(found);
parent.document.body.append(out);
</script>"""


def browser() -> str:
    """Its command; without one the test is skipped, and fails where MPICOLL_NO_SKIPS is set."""
    found = shutil.which("chromium")
    if found is None:
        if os.environ.get("MPICOLL_NO_SKIPS", "0") != "0":
            pytest.fail(NEEDED)
        pytest.skip(NEEDED)
    return found


def use(page: Path, folder: Path, width: int) -> dict[str, Any]:
    """Open a page so many pixels wide, point and press keys; what was found."""
    text = page.read_text(encoding="utf-8")
    text = text.replace("<head>", "<head>" + BEFORE).replace("</body>", AFTER + "</body>")
    # In a frame: a window of its own is at least 500 pixels wide.
    watched = folder / "watched.html"
    frame = f'<iframe style="width: {width}px; height: 1000px; border: 0" srcdoc="{escape(text)}"></iframe>'
    watched.write_text(f'<!DOCTYPE html><meta charset="utf-8">{frame}', encoding="utf-8")
    out = _run(folder, width, "--dump-dom", watched.as_uri())
    match = re.search(r'<pre id="found">(.*?)</pre>', out, re.DOTALL)
    assert match, out[-2000:]
    return json.loads(unescape(match[1]))


def picture(page: Path, folder: Path, width: int) -> Path:
    """A screenshot."""
    file = folder / f"{width}.png"
    _run(folder, width, f"--screenshot={file}", page.as_uri())
    return file


def _run(folder: Path, width: int, *argv: str) -> str:
    own = ("--virtual-time-budget=3000", f"--user-data-dir={folder / 'profile'}", f"--window-size={width},1000")
    done = subprocess.run(
        [browser(), *FLAGS, *own, *argv], capture_output=True, text=True, errors="replace", check=False, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
