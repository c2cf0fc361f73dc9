"""`polyptrace explore` as a person meets it: start, first paint, candidates, answers, scrolling, memory.

The server runs in its own process, and the page in Chromium (with Playwright), on this machine.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self
from urllib.parse import urlencode

import numpy as np

from benchmarks.random_dataset import write_tracklets
from benchmarks.result import Result, Row
from benchmarks.timing import ONE_CORE, mebibytes
from polyptrace.core.randomness import numpy_generator
from polyptrace.data import Boxes
from polyptrace.embed import Embeddings
from polyptrace.lesions import fit_same

WIDTH, FRAMES, SIDE = 256, 8, 112
#: Draws while the timeline is moved, for at least two seconds; the frames per second.
SCROLL = """() => new Promise(resolve => {
  timeline.zoom(0.05, 0);
  let frames = 0; const begin = performance.now();
  const step = now => {
    frames++; timeline.pan(timeline.span / 40, 3);
    if (timeline.end >= timeline.full) timeline.pan(-timeline.full, -1e6);
    if (now - begin < 2000) requestAnimationFrame(step); else resolve(1000 * frames / (now - begin));
  };
  requestAnimationFrame(step);
})"""


def measure(quick: bool) -> Result:
    """All figures; `quick` uses a tenth of the tracks."""
    small, large, all_tracks = (100, 500, 10_000) if quick else (1_000, 5_000, 100_000)
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_procedures(folder / "small", 1, small, crops=True)
        write_procedures(folder / "large", 1, large)
        write_procedures(folder / "all", all_tracks // 500, 500)
        rows = [
            *_measure_small(folder / "small", small),
            *_measure_large(folder / "large", large),
            _measure_memory(folder / "all", all_tracks),
        ]
    note = f"Vectors of {WIDTH} numbers, crops of {SIDE} pixels; Chromium without a GPU, on the cores of the server."
    return Result("explore", tuple(rows), note)


def _measure_small(folder: Path, tracks: int) -> list[Row]:
    with _Server(folder, "--data", str(folder / "data")) as server:
        paint, _ = _browse(server)
        items = server.get("procedures/0")["items"]
        server.get("procedures/0/lesions")
        random = numpy_generator(0)
        candidates, answers = [], []
        for item in random.choice(tracks, 40, replace=False).tolist():
            begin = time.perf_counter()
            for other, *_ in server.get("procedures/0/candidates", item=item, top=10)["candidates"]:
                words = {name: items[name][other] for name in ("track", "first", "last")}
                server.get("procedures/0/strip", frames=6, side=48, **words)
            candidates.append(1000 * (time.perf_counter() - begin))
        for first, second in random.permutation(tracks)[: 2 * min(40, tracks // 2)].reshape(-1, 2).tolist():
            pair = [[items[name][each] for name in ("track", "first", "last")] for each in (first, second)]
            begin = time.perf_counter()
            server.post({"who": "benchmark", "kind": "answer", "items": pair, "answer": "different"})
            answers.append(1000 * (time.perf_counter() - begin))
    count = f"{tracks:,} tracks"
    return [
        Row("explore: start", "s", server.seconds, most=1),
        Row(f"explore: first paint, {count}", "s", paint, most=1),
        Row(f"explore: ten candidates with strips, {count}, 95th percentile", "ms", _p95(candidates), most=150),
        Row(f"explore: an acknowledged answer, {count}, 95th percentile", "ms", _p95(answers), most=50),
    ]


def _measure_large(folder: Path, tracks: int) -> list[Row]:
    with _Server(folder) as server:
        paint, rate = _browse(server)
    return [
        Row(f"explore: first paint, {tracks:,} tracks", "s", paint, most=2),
        Row(f"explore: time of a frame while scrolling, {tracks:,} tracks", "ms", 1000 / rate, most=20),
    ]


def _measure_memory(folder: Path, tracks: int) -> Row:
    with _Server(folder) as server:
        for number in (0, 1, 2):
            server.get(f"procedures/{number}/lesions")
        used = mebibytes("VmRSS", server.process.pid)
    return Row(f"explore: memory of the server, {tracks:,} tracks", "MiB", used, most=300)


def _p95(values: list[float]) -> float:
    return float(np.quantile(values, 0.95))


class _Server:
    """The command in its own process; `seconds` until it printed its address."""

    def __init__(self, folder: Path, *words: str) -> None:
        command = [sys.executable, "-m", "polyptrace", "explore", str(folder / "vectors"), *words, "--no-browser"]
        begin = time.perf_counter()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **ONE_CORE})
        assert self.process.stdout is not None
        self.url = next(line.strip() for line in self.process.stdout if line.startswith("http://"))
        self.seconds = time.perf_counter() - begin
        self.connection = HTTPConnection(self.url.split("/")[2], timeout=300)
        self.token = self.url.partition("token=")[2]

    def get(self, path: str, **words: object) -> Any:
        self.connection.request("GET", f"/api/{path}?{urlencode({'token': self.token, **words})}")
        return self._reply()

    def post(self, body: object) -> Any:
        address = f"/api/procedures/0/events?{urlencode({'token': self.token})}"
        self.connection.request("POST", address, json.dumps(body))
        return self._reply()

    def _reply(self) -> Any:
        reply = self.connection.getresponse()
        content = reply.read()
        if reply.status != 200:
            raise RuntimeError(content.decode())
        return json.loads(content) if reply.getheader("content-type") == "application/json" else content

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()


def _browse(server: _Server) -> tuple[float, float]:
    """Seconds from the navigation until the timeline is drawn with its tracks, and frames per second."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.set_default_timeout(300_000)
        page.goto("about:blank")
        page.goto(server.url, wait_until="commit")
        page.wait_for_function("() => performance.getEntriesByName('timeline').length > 0")
        paint = page.evaluate("performance.getEntriesByName('timeline')[0].startTime") / 1000
        page.wait_for_function("() => page.lesions && !page.waiting")
        rate = page.evaluate(SCROLL)
        browser.close()
    return float(paint), float(rate)


def write_procedures(folder: Path, videos: int, tracks: int, *, crops: bool = False) -> None:
    """Vectors of procedures whose lesions are visited for about ten tracks each, and `same.json`."""
    random = numpy_generator(0, videos, tracks)
    count = videos * tracks
    lesion = np.sort(random.integers(max(tracks // 10, 1), size=(videos, tracks)), axis=1)
    length, gap = random.integers(30, 120, size=(2, videos, tracks))
    gap += 2000 * (np.diff(lesion, axis=1, prepend=0) > 0)
    last = np.cumsum(length + gap, axis=1) - 1
    looks = random.normal(size=(int(lesion.max()) + 1, WIDTH)).astype(np.float32)
    vectors = looks[lesion.reshape(-1)] + 0.7 * random.normal(size=(count, WIDTH)).astype(np.float32)
    video = np.repeat([f"procedure-{number:04}" for number in range(videos)], tracks).astype(object)
    columns = {
        "unit": np.full(count, "track", object),
        "dataset": np.full(count, "benchmark", object),
        "video": video,
        "track": np.arange(count),
        "position": (last - length + 1).reshape(-1),
        "last": last.reshape(-1),
        "fps": np.full(count, 25.0),
    }
    table = Embeddings.from_columns({"vectors": vectors, **columns}, info={"model_hash": "b" * 64})
    table.save(folder / "vectors")
    fit_same(table.rows(np.arange(min(count, 2_000)))).save(folder / "vectors/same.json")
    if crops:
        (folder / "data").mkdir()
        noise = random.integers(256, size=(FRAMES, SIDE, SIDE, 3), dtype=np.uint8)
        np.save(folder / "data/crops.npy", np.tile(noise, (count, 1, 1, 1)))
        index = np.arange(count * FRAMES)
        write_tracklets(folder / "data", index.reshape(count, FRAMES), **columns)
        shown = np.linspace(columns["position"], columns["last"], FRAMES, axis=1, dtype=np.int64)  # (count, FRAMES)
        boxes = Boxes.of(
            dataset="benchmark",
            video=np.repeat(video, FRAMES),
            frame_index=shown.reshape(-1),
            xywh=np.tile([200.0, 200.0, 60.0, 60.0], (len(index), 1)),
            image_width=640,
            image_height=512,
        )
        boxes.save(folder / "data/boxes.parquet", crop=index)
