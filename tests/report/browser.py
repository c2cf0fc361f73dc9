"""A headless Chromium that opens a page, runs a script in it and says what it saw."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--virtual-time-budget=4000",
)

#: What the page looks like from inside, in a frame of each width.
PROBE = """
<body style="margin:0"><pre id="seen"></pre><script>
const widths = WIDTHS, seen = {};
let left = widths.length;
for (const width of widths) {
  const frame = document.createElement("iframe");
  frame.style.cssText = `width:${width}px;height:900px;border:0`;
  frame.srcdoc = PAGE;
  frame.onload = () => {
    const inside = frame.contentDocument, root = inside.documentElement;
    seen[width] = {
      scroll: root.scrollWidth, client: root.clientWidth,
      images: [...inside.images].map(image => image.naturalWidth),
      requests: frame.contentWindow.performance.getEntriesByType("resource").map(entry => entry.name),
      wide: [...inside.querySelectorAll(".wide")].map(box => getComputedStyle(box).overflowX),
      hidden: [...inside.querySelectorAll("h2, td, figcaption")].filter(one => !one.getClientRects().length).length,
      text: inside.body.innerText,
    };
    if (--left === 0) document.getElementById("seen").textContent = JSON.stringify(seen);
  };
  document.body.append(frame);
}
</script></body>
"""


def browse(page: Path, *extra: str) -> subprocess.CompletedProcess[str]:
    """Opens a page; gives what Chromium printed."""
    assert CHROMIUM is not None
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", *extra, page.as_uri()]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def console(printed: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines that a page wrote to its console, errors and refusals among them."""
    return [line for line in printed.stderr.splitlines() if "CONSOLE" in line]


def look(page: Path, folder: Path, widths: tuple[int, ...]) -> dict[int, dict[str, object]]:
    """The page from inside at some widths; in a frame, since a window cannot be as narrow as a telephone."""
    text = page.read_text(encoding="utf-8")
    free = re.sub(
        r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text
    )  # a frame inherits, scripts would not run
    content = PROBE.replace("WIDTHS", json.dumps(widths)).replace("PAGE", json.dumps(free).replace("</", "<\\/"))
    probe = folder / "probe.html"
    probe.write_text(f"<!doctype html>{content}", encoding="utf-8")
    printed = browse(probe, "--dump-dom", "--window-size=1400,1000")
    actual = re.search(r'<pre id="seen">(.*?)</pre>', printed.stdout, re.DOTALL)
    assert actual is not None, printed.stderr[-2000:]
    assert actual.group(1), printed.stderr[-2000:]
    return {int(width): seen for width, seen in json.loads(unescape(actual.group(1))).items()}
