"""From a source to a dataset folder: archives, folders and videos give the same tracklets."""

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from polyptrace.cli import main
from polyptrace.config import Crops
from polyptrace.data import Dataset, prepare
from polyptrace.data.crops.videos import write_video
from polyptrace.data.sources import read_source

FRAMES = 40
BOX = "<bndbox><xmin>{x}</xmin><xmax>{x2}</xmax><ymin>10</ymin><ymax>22</ymax></bndbox>"
SIZE = "<size><width>64</width><height>48</height><depth>3</depth></size>"


def jpeg(t: int) -> bytes:
    pixels = np.random.default_rng(t).integers(0, 255, (6, 8, 3), np.uint8).repeat(8, 0).repeat(8, 1)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=92)
    return buffer.getvalue()


def xml(t: int) -> bytes:
    box = BOX.format(x=5 + t % 9, x2=25 + t % 9)
    lesion = f"<object><name>lesion</name><unique_id>001-001_1</unique_id>{box}</object>"
    return f"<annotation><filename>001-001_{t}.jpg</filename>{SIZE}{lesion}</annotation>".encode()


def contents() -> dict[str, bytes]:
    pictures = {f"001-001_frames/001-001_{t}.jpg": jpeg(t) for t in range(FRAMES)}
    return pictures | {f"001-001_annotations/001-001_{t}.xml": xml(t) for t in range(FRAMES)}


def tables(root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    (root / "lesion_info.csv").write_text("unique_object_id,size [mm],histology_class\n001-001_1,4,AD\n")
    (root / "video_info.csv").write_text("unique_video_name,fps\n001-001,25\n")


def prepared(source: str, root: Path, out: Path) -> Dataset:
    table = read_source(source, root, {})
    return prepare(table, root, out, crops=Crops(size=32, workers=1))


def test_archives_as_downloaded_give_the_crops_that_folders_give(tmp_path: Path) -> None:
    tables(tmp_path / "folders")
    tables(tmp_path / "archives")
    for name, content in contents().items():
        (tmp_path / "folders" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "folders" / name).write_bytes(content)
    for kind in ("frames", "annotations"):
        with tarfile.open(tmp_path / "archives" / f"001-001_{kind}.tar.gz", "w:gz") as archive:
            for name, content in contents().items():
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                if kind in name:
                    archive.addfile(entry, io.BytesIO(content))
    folders = prepared("realcolon", tmp_path / "folders", tmp_path / "a")
    archives = prepared("realcolon", tmp_path / "archives", tmp_path / "b")
    assert len(folders.tracklets) == 2  # 40 frames: one tracklet of 8 every 4th, and the whole track
    assert folders.tracklets.polyp.tolist() == archives.tracklets.polyp.tolist() == ["001-001_1"] * 2
    assert folders.crops.std() > 10
    np.testing.assert_array_equal(folders.crops, archives.crops)


def test_frames_of_a_video_file_become_crops(tmp_path: Path) -> None:
    av = pytest.importorskip("av")
    with av.open(str(tmp_path / "p.mp4"), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.options = {"bf": "2"}
        for t in range(FRAMES):
            pixels = np.full((48, 64, 3), 20 + 5 * t, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    (tmp_path / "p.txt").write_text("".join(f"{t + 1},1,20,15,12,10,0.9\n" for t in range(FRAMES)))
    table = read_source("mot", tmp_path, {"identities": "polyp"})
    dataset = prepare(table, tmp_path, tmp_path / "out", crops=Crops(size=32, workers=1))
    rows = dataset.tracklets.rows[int(dataset.select("track")[0])]
    brightness = dataset.crops[rows].mean((1, 2, 3))
    np.testing.assert_allclose(brightness, 20 + 5 * np.arange(0, FRAMES, 4), atol=4)


def write_boxes(source: str, root: Path) -> None:
    """A box in each frame of the video `root`/p.mp4, in the format of a source."""
    if source == "mot":
        (root / "p.txt").write_text("".join(f"{t + 1},1,20,15,12,10,0.9\n" for t in range(FRAMES)))
    if source == "yolo":
        (root / "labels").mkdir()
        for t in range(FRAMES):
            (root / "labels" / f"p_{t + 1}.txt").write_text("0 0.5 0.5 0.2 0.2 1\n")
    if source == "cvat":
        boxes = "".join(f'<box frame="{t}" xtl="20" ytl="15" xbr="32" ybr="25"/>' for t in range(FRAMES))
        meta = "<meta><task><name>p</name><source>p.mp4</source></task></meta>"
        (root / "p.xml").write_text(f'<annotations>{meta}<track id="1" label="polyp">{boxes}</track></annotations>')
    if source == "cocovid":
        content = {
            "videos": [{"id": 1, "name": "p", "fps": 25}],
            "images": [{"id": t, "video_id": 1, "frame_id": t, "file_name": f"{t}.jpg"} for t in range(FRAMES)],
            "annotations": [{"image_id": t, "bbox": [20, 15, 12, 10], "instance_id": 1} for t in range(FRAMES)],
        }
        (root / "instances_all.json").write_text(json.dumps(content))


@pytest.mark.parametrize("generated", [True, False])
@pytest.mark.parametrize("source", ["mot", "yolo", "cvat", "cocovid"])
def test_every_format_keeps_the_mark_of_generated_videos(tmp_path: Path, source: str, generated: bool) -> None:
    pytest.importorskip("av")
    frames = [np.full((48, 64, 3), 20 + 5 * t, np.uint8) for t in range(FRAMES)]
    write_video(tmp_path / "p.mp4", frames, generated=generated)
    write_boxes(source, tmp_path)
    assert read_source(source, tmp_path, {}).generated.tolist() == [generated] * FRAMES


def test_the_published_probe_split_becomes_two_datasets_that_name_their_part(tmp_path: Path) -> None:
    root = tmp_path / "rsp"
    (root / "annotations").mkdir(parents=True)
    (root / "images").mkdir()
    images = []
    for t in range(FRAMES):
        (root / "images" / f"{t}.jpg").write_bytes(jpeg(t))
        images.append({"id": t, "file_name": f"{t}.jpg", "width": 64, "height": 48, "frame_id": t})
        images[-1] |= {"sequence_id": "dataset3_004-009", "dataset_id": "dataset3"}
    for split, polyp, x in (("train", "dataset3_004-009_1", 5), ("val", "dataset3_004-009_2", 40)):
        boxes = [
            {"id": t, "image_id": t, "bbox": [x, 10, 12, 12], "identity_id": polyp, "size": 4} for t in range(FRAMES)
        ]
        content = {"images": images, "annotations": boxes}
        (root / "annotations" / f"instances_{split}.json").write_text(json.dumps(content))
    for split, polyp in (("train", "dataset3_004-009_1"), ("val", "dataset3_004-009_2")):
        out = tmp_path / split
        with pytest.raises(SystemExit) as end:
            main(["prepare", "coco", str(root), "--split", split, "--out", str(out), "--crops.size", "16"])
        assert not end.value.code
        tracklets = Dataset.open(out).tracklets
        assert set(tracklets.polyp) == {polyp}
        assert set(tracklets.video) == {"dataset3_004-009"}
        assert json.loads((out / "dataset.json").read_text())["source"]["split"] == split
