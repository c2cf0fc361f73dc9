"""The server over HTTP: who may talk to it, what it refuses, and what it answers."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
from PIL import Image

from polyptrace.embed import Embeddings
from tests.explore.conftest import Server, command_words, simulate, start_server

Serve = Callable[..., Server]


def get(server: Server, path: str) -> dict:  # type: ignore[type-arg]
    status, content, _ = server.request(f"/api/{path}")
    assert status == 200, content
    return json.loads(content)  # type: ignore[no-any-return]


def post(server: Server, number: int = 0, status: int = 200, **fields: object) -> str:
    actual, content, _ = server.request(f"/api/procedures/{number}/events", {"who": "Ada", **fields})
    assert actual == status, content
    return content.decode()


def items(server: Server, number: int = 0) -> list[list[int]]:
    actual = get(server, f"procedures/{number}")["items"]
    return [list(each) for each in zip(actual["track"], actual["first"], actual["last"], strict=True)]


def test_the_server_does_not_import_torch(explored: tuple[Path, Path]) -> None:
    vectors, data = explored
    program = """
import sys
from pathlib import Path
from polyptrace.cli import explore
from polyptrace.data import Dataset
from polyptrace.embed import Embeddings
from polyptrace.explore import Journal, Workspace, server
from polyptrace.explore.page_content import FORMATS, PageContent
vectors, data, answers = sys.argv[1:]
workspace = Workspace(Path(vectors), Embeddings.load(vectors).select("track"), Journal.open(Path(answers)))
content = PageContent(workspace, [Dataset.open(data)])
assert content.state(0, None, ""), content.question(0, None)
for kind in (*FORMATS, "html"):
    assert content.export(kind, 0, None)[1]
loaded = {name.partition(".")[0] for name in sys.modules}
print(loaded & {"torch", "torchvision", "timm", "transformers", "sklearn", "matplotlib"})
"""
    words = [sys.executable, "-c", program, str(vectors), str(data), str(vectors.parent / "torch.jsonl")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout == "set()\n", done.stdout + done.stderr


def test_foreign_host_origin_and_token_are_refused(server: Server) -> None:
    host = server.origin.removeprefix("http://")
    assert server.request()[0] == 200
    assert server.request(Host=f"localhost:{host.partition(':')[2]}")[0] == 200
    for headers in (
        {"Host": "example.com"},
        {"Host": "127.0.0.1"},
        {"Origin": "http://example.com"},
        {"Origin": "null"},
    ):
        status, content, actual = server.request(**headers)
        assert status == 403, headers
        assert b"->" in content
        assert "content-security-policy" in actual
    for path in ("/", "/page.js", "/api/session", "/api/procedures/0/strip?track=0&first=0&last=9"):
        assert server.request(path, token=False)[0] == 403
        assert server.request(f"{path}{'&' if '?' in path else '?'}token=guess", token=False)[0] == 403
    cookie = server.request()[2]["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert server.request("/api/session", token=False, Cookie=cookie.partition(";")[0])[0] == 200
    assert post(server, 0, kind="note", items=items(server)[:1], text="x")
    body = {"who": "Eve", "kind": "note", "items": items(server)[:1], "text": "x"}
    assert server.request("/api/procedures/0/events", body, Origin="https://example.com")[0] == 403


def test_an_exported_file_keeps_the_letters_of_its_procedure(tmp_path: Path) -> None:
    table = simulate(videos=1)
    replace(table, video=np.array(["Übung 1 [ß]"] * len(table), object)).save(tmp_path / "vectors")
    server = start_server(str(tmp_path / "vectors"))
    try:
        status, _, headers = server.request("/api/procedures/0/export/csv")
    finally:
        server.kill()
    name = unquote(headers["content-disposition"].partition("filename*=UTF-8''")[2])
    assert (status, name) == (200, "Übung_1_ß-unsettled.csv")


def test_the_policy_allows_nothing_from_elsewhere(server: Server) -> None:
    _, page, headers = server.request()
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["referrer-policy"] == "no-referrer"
    assert b"http://" not in page
    assert b"https://" not in page


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"kind": "answer", "items": [[0, 0, 1]], "answer": "same"}, 400),
        ({"kind": "answer", "items": [[0, 0, 1], [1, 2, 3]], "answer": "same"}, 409),
        ({"kind": "answer", "items": "x", "answer": "same"}, 400),
        ({"kind": "vote"}, 400),
        ({"kind": "note", "text": 3}, 400),
        ({"kind": "note", "extra": 3}, 400),
        ({"kind": "undo", "who": "Nobody"}, 409),
        ({"kind": "answer", "items": [[0, 0, 1], [1, 2, 3]], "answer": "maybe"}, 400),
        ({"kind": "redo", "event": 7}, 409),
        ({"kind": "undo", "event": True}, 400),
        ({"kind": "undo", "event": "1"}, 400),
        ({"kind": "merge", "items": []}, 400),
    ],
)
def test_an_invalid_edit_is_refused_and_nothing_is_written(
    server: Server, fields: dict[str, object], status: int
) -> None:
    journal = Path(get(server, "session")["answers"])
    post(server, 0, kind="note", items=items(server)[:1], text="the first event creates the file")
    before = journal.read_bytes()
    post(server, 0, status, **fields)
    post(server, 99, 404, kind="undo")
    assert server.request("/api/procedures/0/events", {"who": "", "kind": "undo"})[0] in (400, 409)
    assert journal.read_bytes() == before


def test_the_question_and_the_candidates_show_one_probability_of_a_pair(server: Server) -> None:
    question = get(server, "procedures/0/question")["question"]
    first, second = question["first"], question["second"]
    actual = get(server, f"procedures/0/candidates?item={first}&top=100")["candidates"]
    assert question["probability"] == next(each[3] for each in actual if each[0] == second)
    assert question["probability"] != round(question["probability"], 4), "rounded, it could be shown as 100 %"


def test_tracks_visible_at_the_same_time_cannot_be_merged(tmp_path: Path) -> None:
    tracks = simulate(videos=2)
    tracks.position[1] = tracks.position[0] + 5
    tracks.save(tmp_path / "vectors")
    server = start_server(str(tmp_path / "vectors"))
    try:
        pair = items(server)[:2]
        for fields in ({"kind": "merge"}, {"kind": "answer", "answer": "same"}, {"kind": "move", "to": pair[1]}):
            named = pair[:1] if fields["kind"] == "move" else pair
            assert "same time" in post(server, 0, 409, items=named, **fields)
        post(server, 0, 200, kind="answer", items=pair, answer="different")
    finally:
        server.kill()


def test_an_acknowledged_answer_is_in_the_journal_before_the_reply(server: Server) -> None:
    journal = Path(get(server, "session")["answers"])
    for number in range(5):
        reply = json.loads(
            post(server, 0, kind="answer", items=[items(server)[number], items(server)[-1]], answer="unsure")
        )
        last = journal.read_text().splitlines()[-1]
        assert json.loads(last) == json.loads(json.dumps(reply["event"]))


def test_strips_show_the_crops(server: Server) -> None:
    track, first, last = items(server)[0]
    path = f"/api/procedures/0/strip?track={track}&first={first}&last={last}&side=48&frames=5"
    status, content, headers = server.request(path)
    assert (status, headers["content-type"]) == (200, "image/jpeg")
    picture = Image.open(BytesIO(content))
    assert picture.size == (240, 48)
    assert np.asarray(picture).std() > 10, "not an empty picture"
    assert server.request(path.replace(f"track={track}", "track=9999"))[0] == 404
    assert server.request(path.replace("side=48", "side=x"))[0] == 400


def test_without_crops_strips_are_missing_and_the_page_is_told(serve: Serve) -> None:
    server = serve(data=False)
    assert get(server, "session")["pictures"] is False
    assert get(server, "procedures/0")["pictures"] == []
    assert server.request("/api/procedures/0/export/csv")[0] == 200
    status, content, _ = server.request("/api/procedures/0/export/mot")
    assert status == 409
    assert b"--data" in content


def test_damaged_boxes_are_reported_to_the_page(explored: tuple[Path, Path], tmp_path: Path) -> None:
    vectors, data = explored[0], tmp_path / "data"
    shutil.copytree(explored[1], data)
    (data / "boxes.parquet").write_bytes(b"PAR1")
    server = start_server(*command_words((vectors, data)), "--answers", str(tmp_path / "answers.jsonl"))
    track, first, last = items(server)[0]
    status, content, _ = server.request(f"/api/procedures/0/strip?track={track}&first={first}&last={last}")
    server.kill()
    assert status == 409
    assert b"boxes.parquet: not a readable Parquet file" in content


def test_lesions_are_compared_with_labels(server: Server, explored: tuple[Path, Path]) -> None:
    actual = get(server, "procedures/1/lesions")
    tracks = Embeddings.load(explored[0])
    polyp = tracks.polyp[tracks.video == sorted(set(tracks.video))[1]]
    lesion = np.array(actual["lesion"])
    i, j = np.triu_indices(len(lesion), 1)
    agreeing = int(((lesion[i] == lesion[j]) == (polyp[i] == polyp[j])).sum())
    assert actual["labels"] == {"agreeing": agreeing, "pairs": len(i)}


def run(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "polyptrace", "explore", *words, "--no-browser"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.startswith("error: ")
    assert "->" in done.stderr
    return done.stderr


def test_bad_input_is_one_line_that_says_what_to_do(
    explored: tuple[Path, Path], tmp_path: Path, make_dataset: Callable[..., Path]
) -> None:
    vectors, data = map(str, explored)
    other = make_dataset(tmp_path / "other", [[2, 2]])
    assert "not the dataset of the vectors" in run(vectors, "--data", str(other))
    (tmp_path / "file").write_text("x")
    assert "--answers" in run(vectors, "--data", data, "--answers", str(tmp_path / "file/answers.jsonl"))
    if os.geteuid():  # root may write anywhere
        (tmp_path / "locked").mkdir(mode=0o500)
        assert "--answers" in run(vectors, "--answers", str(tmp_path / "locked/answers.jsonl"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert f"--port {port}" in run(vectors, "--answers", str(tmp_path / "a.jsonl"), "--port", port)
    torn = tmp_path / "torn.jsonl"
    torn.write_text('{"format": 1}\n{"id": 1, "ti\n{"format": 1}\n')
    assert "torn.jsonl: line 2" in run(vectors, "--answers", str(torn))
    assert "no such file" in run(str(tmp_path / "missing"))


def test_a_failed_start_leaves_nothing_behind(explored: tuple[Path, Path], tmp_path: Path) -> None:
    vectors = tmp_path / "vectors"
    shutil.copytree(explored[0], vectors, ignore=shutil.ignore_patterns("same.json"))
    before = sorted(vectors.iterdir())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        run(str(vectors), "--port", str(taken.getsockname()[1]))
    run(str(vectors), "--data", str(tmp_path / "missing"))
    assert sorted(vectors.iterdir()) == before
    (vectors / "same.json").write_text("{")
    run(str(vectors))
    assert sorted(vectors.iterdir()) == sorted([*before, vectors / "same.json"])


def test_a_second_server_on_one_journal_is_refused_and_a_torn_last_line_is_reported(
    serve: Serve, explored: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "answers.jsonl").write_text('{"format": 1}\n{"id": 1, "ti')
    server = serve()
    assert any("incomplete" in line for line in server.printed)
    assert "incomplete" in get(server, "session")["notices"][0]
    assert "in use" in run(str(explored[0]), "--answers", str(tmp_path / "answers.jsonl"))


def test_ctrl_c_ends_the_server_without_an_error(serve: Callable[..., Server]) -> None:
    server = serve()
    assert server.request()[0] == 200  # it is running
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(timeout=20) == 0
    assert server.process.stdout is not None
    assert server.process.stdout.read() == "stopped\n"
