"""The tutorial, typed line by line: videos and a detector's boxes in, a count out, no label anywhere."""

import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from polyptrace.cli import main
from polyptrace.core.codec import decode_image
from polyptrace.data import Boxes, read_coco

av = pytest.importorskip("av")

TUTORIAL = Path(__file__).parents[1] / "docs/tutorial.md"


def lines_of(page: Path) -> list[list[str]]:
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.strip().splitlines()]


def write_video(path: Path, images: Path, boxes: Boxes) -> None:
    """Writes all frames of a procedure; a frame that was not rendered repeats the previous one."""
    names = dict(zip(boxes.frame_index.tolist(), boxes.file.tolist(), strict=True))
    picture = torch.zeros(3, boxes.image_height[0], boxes.image_width[0], dtype=torch.uint8)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = int(boxes.image_width[0]), int(boxes.image_height[0]), "yuv420p"
        stream.options = {"preset": "ultrafast"}
        for index in range(int(boxes.frame_index.max()) + 1):
            file = images / names.get(index, "none")
            picture = decode_image(file.read_bytes()) if file.is_file() else picture
            frame = av.VideoFrame.from_ndarray(picture.permute(1, 2, 0).contiguous().numpy(), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def write_detections(path: Path, boxes: Boxes, rng: np.random.Generator) -> None:
    """What a detector would say: boxes that shake, one frame in twenty missed, and false alarms."""
    actual = boxes.take(rng.random(len(boxes)) > 0.05)
    xywh = actual.xywh + rng.normal(0, 0.02, actual.xywh.shape) * actual.xywh[:, 2:].repeat(2, 1)
    rows = [(f + 1, *(b[:2] + 1), *b[2:], 0.9) for f, b in zip(actual.frame_index, xywh, strict=True)]
    alarms = rng.integers(0, boxes.frame_index.max(), len(boxes) // 20)
    rows += [(f + 1, *rng.uniform(5, 60, 2), 12.0, 12.0, rng.choice([0.3, 0.7])) for f in alarms]
    text = [f"{int(f)},-1,{x:.2f},{y:.2f},{w:.2f},{h:.2f},{s:.2f},-1,-1,-1\n" for f, x, y, w, h, s in rows]
    path.write_text("".join(sorted(text, key=lambda line: int(line.partition(",")[0]))))


@pytest.fixture
def procedures(tmp_path: Path, tiny: Path, tiny_videos: Path) -> Path:
    """A folder as the tutorial describes it, made of generated procedures; the first command finds its result."""
    shutil.copytree(tiny_videos, tmp_path / "example")
    folder = tmp_path / "procedures"
    folder.mkdir()
    boxes = read_coco(tiny, split="train")
    for day, video in enumerate(sorted(set(boxes.video)), start=11):
        mine = boxes.take(boxes.video == video)
        write_video(folder / f"2024-03-{day}.mp4", tiny, mine)
        write_detections(folder / f"2024-03-{day}.txt", mine, np.random.default_rng(0))
    return tmp_path


def test_every_line_of_the_tutorial_runs_and_ends_in_lesions(procedures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(procedures)
    for line in lines_of(TUTORIAL):
        assert line[0] == "polyptrace"
        with pytest.raises(SystemExit) as end:
            main(line[1:])
        assert not end.value.code, line
    info = json.loads((procedures / "data/dataset.json").read_text())
    assert info["labels"]["polyps"] == 0
    assert info["counts"]["tracklets"] > 20
    for folder in ("lesions", "lesions-run"):
        tracks = (procedures / folder / "tracks.csv").read_text(encoding="utf-8").splitlines()
        assert len(tracks) == 1 + info["counts"]["tracks"]
        actual = json.loads((procedures / folder / "lesions.json").read_text())["procedures"]
        assert all(1 <= each["lesions"] <= 8 for each in actual)
    assert (procedures / "case/lesions/lesions.html").read_text(encoding="utf-8").count("<img ") > 1
    actual = json.loads((procedures / "case/lesions/lesions.json").read_text())["procedures"]
    assert all(2 <= each["lesions"] <= 4 for each in actual)  # three are true
    assert (procedures / "found/found.html").read_text(encoding="utf-8").count("<img ") > 1
