"""Makes page.jpg, the picture of `polyptrace explore` in the documentation; needs the extra `test` and Chromium.

polyptrace synth generated --preset small --split test
polyptrace prepare coco generated --split test --crops.size 112 --out data
polyptrace embed default --data data --out vectors
python docs/pictures/explore/make.py vectors data
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

ANSWERS = 8
#: The third procedure has the most polyps.
PROCEDURE = 2
SETTLED = "() => page.state && page.lesions && !page.busy && !page.waiting"
SAME = "() => page.state.polyp[page.question.first] === page.state.polyp[page.question.second]"


def main(vectors: str, data: str) -> None:
    """Answers a few questions from the labels, and takes a picture of the next one."""
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "polyptrace", "explore", vectors, "--data", data, "--no-browser"]
        command += ["--answers", f"{folder}/answers.jsonl"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
        try:
            assert server.stdout is not None
            address = next(found[0] for line in server.stdout if (found := re.search(r"http://\S+", line)))
            _take(address)
        finally:
            server.terminate()
            server.wait()


def _take(address: str) -> None:
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1300, "height": 860})
        page.add_init_script("localStorage.setItem('polyptrace-who', 'Ada')")
        page.goto(f"{address}#{PROCEDURE}")
        page.wait_for_selector("#ask")
        page.wait_for_function(SETTLED)
        for _ in range(ANSWERS):
            before = page.evaluate("page.state.revision")
            page.keyboard.press("y" if page.evaluate(SAME) else "n")
            page.wait_for_function("before => page.state.revision > before", arg=before)
            page.wait_for_function(SETTLED)
        page.click("#questions figure >> nth=1")
        page.wait_for_selector("#frame")
        page.wait_for_load_state("networkidle")
        page.screenshot(path=Path(__file__).with_name("page.jpg"), type="jpeg", quality=85)
        browser.close()


main(*sys.argv[1:])
