"""The exported encoder gives the same vector in a browser, with onnxruntime-web."""

import functools
import http.server
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from polyptrace.embed import OnnxEncoder

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright, which is in the extra `test`")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt install chromium")

#: The part of the package that the page needs.
PARTS = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
PAGE = """<!doctype html><script type="module">
import * as ort from "./ort.wasm.min.mjs";
ort.env.wasm.numThreads = 1;
window.embed = async (pixels, shape) => {
  const session = await ort.InferenceSession.create("./encoder.onnx");
  const frames = shape[0] * shape[1];
  const result = await session.run({
    crops: new ort.Tensor("uint8", Uint8Array.from(pixels), shape),
    mask: new ort.Tensor("bool", new Uint8Array(frames).fill(1), shape.slice(0, 2)),
  });
  return { vectors: Array.from(result.vectors.data), dims: result.vectors.dims };
};
document.title = "ready";
</script>"""


@pytest.fixture(scope="module")
def site(exported: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a page with onnxruntime-web, fetched from the npm registry, and the exported encoder."""
    folder = tmp_path_factory.mktemp("site")
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("needs npm, to fetch onnxruntime-web")
    words = [npm, "pack", "onnxruntime-web@1", "--silent", "--fetch-retries=0", "--fetch-timeout=60000"]
    fetched = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120)
    if fetched.returncode:
        pytest.skip(f"the npm registry cannot be reached: {fetched.stderr.strip()[-200:]}")
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        for part in PARTS:
            member = archive.extractfile(f"package/dist/{part}")
            assert member is not None
            (folder / part).write_bytes(member.read())
    (folder / "index.html").write_text(PAGE)
    shutil.copy(exported / "encoder.onnx", folder)
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/index.html"
        server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    extensions_map = http.server.SimpleHTTPRequestHandler.extensions_map | {".mjs": "text/javascript"}

    def log_message(self, *_: object) -> None: ...


def test_a_page_gives_the_same_vector(site: str, exported: Path) -> None:
    crops = np.random.default_rng(0).integers(0, 256, (2, 3, 40, 31, 3), np.uint8)
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(site)
        page.wait_for_function("document.title == 'ready'")
        result = page.evaluate("([p, s]) => window.embed(p, s)", [crops.ravel().tolist(), list(crops.shape)])
        browser.close()
    vectors = np.array(result["vectors"], np.float32).reshape(result["dims"])
    np.testing.assert_allclose(vectors, OnnxEncoder(exported)(crops), atol=1e-4, rtol=0)
