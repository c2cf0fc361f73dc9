"""A session on simulated procedures whose lesions are known."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest

from polyptrace.config import Crops, Tracks
from polyptrace.data import prepare
from polyptrace.embed import Embeddings
from polyptrace.explore import Journal, Workspace
from tests.lesions.conftest import track_table

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
#: Answers the question on the screen from the labels, with `y` and `n`.
TRUTH = (
    "() => { const q = page.question || page.check, polyp = page.state.polyp;"
    " return q && polyp[q.first] === polyp[q.second]; }"
)


def simulate(videos: int = 2, lesions: int = 3, tracks: int = 5, seed: int = 0, width: int = 16) -> Embeddings:
    """Each lesion is visited in turn, and again at the end; its tracks look alike."""
    random = np.random.default_rng(seed)
    columns: dict[str, list[object]] = {name: [] for name in ("video", "track", "position", "last", "polyp")}
    vectors = []
    for video in range(videos):
        looks = random.normal(size=(lesions, width))
        frame = track = 0
        for lesion in [*range(lesions), 0]:
            for _ in range(tracks if frame or lesion else tracks - 1):
                length = int(random.integers(30, 90))
                row = (f"v{video}", track, frame, frame + length - 1, f"v{video}-{lesion}")
                for name, value in zip(columns, row, strict=True):
                    columns[name].append(value)
                vectors.append(looks[lesion] + 0.3 * random.normal(size=width))
                frame, track = frame + length + int(random.integers(1, 40)), track + 1
            frame += 2000
    return track_table(columns, vectors)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """An empty journal on two simulated procedures."""
    return Workspace(tmp_path / "vectors", simulate(), Journal.open(tmp_path / "answers.jsonl"))


@pytest.fixture
def answer(workspace: Workspace) -> Callable[..., None]:
    """Answers about two items of the first procedure, by their numbers."""

    def give(first: int, second: int, answer: str = "same", who: str = "Ada") -> None:
        procedure = workspace.procedure(0)
        items = tuple(procedure.state().items[each] for each in (first, second))
        workspace.journal.append("answer", who, video=procedure.key, items=items, answer=answer)

    return give


@pytest.fixture(scope="session")
def explored(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Vectors and dataset of generated procedures: the mean colours of the crops of each track."""
    folder = tmp_path_factory.mktemp("explored")
    dataset = prepare("coco", tiny, folder / "data", Tracks(link="video"), Crops(size=48))
    table, rows = dataset.tracklets, dataset.select("track")
    vectors = []
    for row in rows:
        crops = np.asarray(dataset.crops[table.rows[row]], np.float32)
        centre = crops[:, 12:36, 12:36].reshape(len(crops), 4, 6, 4, 6, 3).mean(axis=(0, 2, 4))
        vectors.append(centre.reshape(-1) - 110)
    columns = {name: getattr(table, name)[rows] for name in ("unit", "dataset", "video", "track", "position", "last")}
    columns |= {name: getattr(table, name)[rows] for name in ("fps", "polyp")}
    info = {"fingerprint": "c" * 64, "generated": True, "dataset": {"hashes": dataset.info["hashes"]}}
    Embeddings.from_columns({"vectors": np.array(vectors, np.float32), **columns}, info=info).save(folder / "vectors")
    return folder / "vectors", folder / "data"


@dataclass
class Server:
    """`polyptrace explore` in its own process."""

    process: subprocess.Popen[str]
    url: str
    printed: list[str]

    @property
    def origin(self) -> str:
        return self.url.partition("/?")[0]

    def request(
        self, path: str = "/", body: object = None, token: bool = True, **headers: str
    ) -> tuple[int, bytes, dict[str, str]]:
        """Status, content and headers of a response."""
        connection = HTTPConnection(self.origin.removeprefix("http://"), timeout=30)
        words = {"token": self.url.partition("token=")[2]} if token else {}
        address = f"{path}{'&' if '?' in path else '?'}{urlencode(words)}"
        content = None if body is None else json.dumps(body)
        connection.request("GET" if body is None else "POST", address, content, headers)
        reply = connection.getresponse()
        actual = reply.status, reply.read(), {name.lower(): value for name, value in reply.getheaders()}
        connection.close()
        return actual

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def start_server(*words: str) -> Server:
    """Starts the command and waits for the address that it prints."""
    command = [sys.executable, "-m", "polyptrace", "explore", *words, "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    printed: list[str] = []
    for line in process.stdout:
        printed.append(line.rstrip("\n"))
        if line.startswith("http://"):
            return Server(process, line.strip(), printed)
    process.wait()
    raise AssertionError("\n".join(printed))


@pytest.fixture
def serve(explored: tuple[Path, Path], tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts servers on the generated procedures with one journal, and ends them."""
    started: list[Server] = []

    def start(*words: str, data: bool = True) -> Server:
        started.append(
            start_server(*command_words(explored, data=data), "--answers", str(tmp_path / "answers.jsonl"), *words)
        )
        return started[-1]

    yield start
    for server in started:
        server.kill()


@pytest.fixture(scope="module")
def server(explored: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests of a file that do not depend on the journal."""
    answers = tmp_path_factory.mktemp("shared") / "answers.jsonl"
    started = start_server(*command_words(explored), "--answers", str(answers))
    yield started
    started.kill()


def command_words(explored: tuple[Path, Path], *, data: bool = True) -> list[str]:
    vectors, dataset = map(str, explored)
    return [vectors, "--data", dataset] if data else [vectors]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright, which is in the extra `test`")
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens pages; afterwards none has written to its console or asked another host."""
    problems: list[str] = []
    contexts = []

    def go(server: Server, who: str = "Ada", number: int = 0, *, expect: str = "#ask", **settings: object) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1300, "height": 950}, **settings})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda message: problems.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on(
            "request", lambda request: request.url.startswith((server.origin, "data:")) or problems.append(request.url)
        )
        page.add_init_script(f"localStorage.setItem('polyptrace-who', {json.dumps(who)})")
        page.goto(f"{server.url}#{number}")
        page.wait_for_selector(expect)
        return page

    yield go
    for context in contexts:
        context.close()
    refused = "console: Failed to load resource: net::ERR_CONNECTION_REFUSED"  # after a test has killed the server
    assert [each for each in problems if each != refused] == []


def settled(page: Any) -> None:
    page.wait_for_function("() => page.state && page.lesions && !page.busy && !page.waiting")


def act(page: Any, run: Callable[[], object]) -> None:
    """Does something that is written to the journal, and waits until the page shows it."""
    before = page.evaluate("page.state.revision")
    run()
    page.wait_for_function("before => page.state.revision > before", arg=before)
    settled(page)
