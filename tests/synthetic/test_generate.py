import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from polyptrace.config import Crops, Tracks
from polyptrace.core.errors import UserError
from polyptrace.data import cut_tracklets, link_tracks, prepare, read_coco
from polyptrace.synthetic import PRESETS, Preset, find_preset, generate, with_difficulty
from polyptrace.synthetic import generate as generate_function
from polyptrace.synthetic.generate import RenderJob, write_images
from polyptrace.synthetic.procedure import Procedure

LEAST = replace(
    PRESETS["tiny"],
    name="least",
    train_videos=1,
    test_videos=1,
    train_polyps=1,
    test_polyps=1,
    fewest_tracklets=1,
    tracklets=1,
)

SCRIPT = """
import importlib
import sys
from dataclasses import replace
from pathlib import Path
from polyptrace.synthetic import PRESETS, generate
least = replace(PRESETS["tiny"], name="least", train_videos=1, test_videos=1, train_polyps=1, test_polyps=1,
                fewest_tracklets=1, tracklets=1)
importlib.import_module("polyptrace.synthetic.procedure").MIN_PARALLEL = 2  # procedures are drawn in processes
generate(Path(sys.argv[1]), least, 0, workers=2)
"""


def fingerprints(folder: Path) -> dict[str, str]:
    files = [
        path for path in sorted(folder.rglob("*")) if path.suffix in (".jpg", ".json") and path.stem != "synthetic"
    ]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_same_seed_gives_the_same_bytes_in_another_process_with_other_workers(tmp_path: Path) -> None:
    generate(tmp_path / "first", LEAST, 0, workers=1)
    subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path / "second")], check=True, capture_output=True)
    first = fingerprints(tmp_path / "first")
    assert len(first) > 10
    assert first == fingerprints(tmp_path / "second")
    generate(tmp_path / "other", LEAST, 1, workers=1)
    assert first != fingerprints(tmp_path / "other")


def test_scenes_are_loaded_to_the_device_only_shortly_before_they_are_rendered(
    procedure: Procedure, tmp_path: Path
) -> None:
    finished = [0]
    waiting = []

    def jobs() -> Iterator[RenderJob]:
        for number in range(12):
            waiting.append(number - sum(finished))
            yield procedure, np.array([0])

    write_images(jobs(), tmp_path, torch.device("cpu"), 2, finished.append)
    assert sum(finished) == 12
    assert max(waiting) <= 4


def test_a_split_generated_alone_equals_that_of_the_whole_dataset(tmp_path: Path) -> None:
    generate(tmp_path / "all", LEAST, 0)
    generate(tmp_path / "test", LEAST, 0, split="test")
    alone = fingerprints(tmp_path / "test")
    assert "annotations/instances_test.json" in alone
    assert "annotations/instances_train.json" not in alone
    assert alone.items() < fingerprints(tmp_path / "all").items()


def test_tiny_has_what_every_other_test_needs(tiny: Path) -> None:
    train, test = read_coco(tiny, split="train"), read_coco(tiny, split="test")
    assert not set(train.video) & set(test.video)
    for boxes in (train, test):
        short = cut_tracklets(boxes, link_tracks(boxes, "polyp"))
        for video in set(boxes.video):
            assert len(set(boxes.polyp[boxes.video == video])) >= 3
        for polyp in set(boxes.polyp):
            assert (short.polyp == polyp).sum() >= 6
        assert (boxes.size_mm <= 5).any()
        assert (boxes.size_mm > 5).any()
        assert {"AD"} < set(boxes.histology)


@pytest.mark.parametrize("link", ["polyp", "video"])
def test_prepare_finds_every_picture_it_needs(tiny: Path, tmp_path: Path, link: str) -> None:
    boxes = read_coco(tiny, split="train")
    settings = Tracks(link="polyp" if link == "polyp" else "video")
    dataset = prepare(boxes, tiny, tmp_path / "dataset", settings, Crops(size=16, workers=1))
    assert len(dataset.crops) > 200


def test_pictures_are_there_for_detectors_that_miss_boxes(tmp_path: Path) -> None:
    generate(tmp_path / "out", with_difficulty(LEAST, box_dropout=0.1), 0, workers=1)
    boxes = read_coco(tmp_path / "out", split="train")
    for max_gap in (0, 1, 3):
        track = link_tracks(boxes, "polyp", max_gap=max_gap)
        files = boxes.file[cut_tracklets(boxes, track, length=None).row_index]
        assert all((tmp_path / "out" / file).exists() for file in files)
    gap = np.diff(np.unique(boxes.frame_index))
    assert 0.05 < (gap == 2).mean() < 0.2


def test_only_frames_that_tracklets_use_are_rendered_unless_all_are_wanted(tmp_path: Path) -> None:
    leaving = replace(LEAST, leaving=1.0)  # in some frames of a look the polyp is out of view
    generate(tmp_path / "some", leaving, 0, workers=1)
    generate(tmp_path / "all", leaving, 0, workers=1, every_frame=True)
    frames = {image["file_name"] for image in _images(tmp_path / "all")}
    rendered = {path.name for path in (tmp_path / "all" / "images").iterdir()}
    assert frames < rendered
    assert len(rendered) < 1.3 * len(frames)
    some = {path.name for path in (tmp_path / "some" / "images").iterdir()}
    assert some < frames
    assert len(some) < 0.4 * len(frames)
    name = sorted(some)[0]
    one, other = (np.asarray(Image.open(tmp_path / each / "images" / name), dtype=int) for each in ("some", "all"))
    assert np.abs(one - other).mean() < 0.1


def _images(folder: Path) -> list[dict[str, object]]:
    files = sorted((folder / "annotations").glob("*.json"))
    return [image for file in files for image in json.loads(file.read_text())["images"]]


def test_the_coco_file_is_in_the_authors_layout(tiny: Path) -> None:
    content = json.loads((tiny / "annotations/instances_test.json").read_text())
    image, annotation = content["images"][0], content["annotations"][0]
    assert {"id", "file_name", "width", "height", "frame_id", "sequence_id", "dataset_id"} <= set(image)
    assert {"id", "image_id", "category_id", "bbox", "identity_id", "size", "histology", "area", "iscrowd"} <= set(
        annotation
    )
    assert annotation["identity_id"].startswith(image["sequence_id"] + "_")
    with Image.open(next((tiny / "images").iterdir())) as picture:
        assert picture.size == (image["width"], image["height"])


def test_a_folder_made_with_the_same_settings_is_left_alone_and_any_other_is_refused(tmp_path: Path) -> None:
    assert generate(tmp_path / "out", LEAST, 0, workers=1)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")}
    assert not generate(tmp_path / "out", LEAST, 0, workers=1)
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")}
    with pytest.raises(
        UserError,
        match=r"already exists, made with .* requested:\n  seed: 0 -> 1\n-> .* --overwrite",
    ):
        generate(tmp_path / "out", LEAST, 1, workers=1)


@pytest.mark.parametrize(
    ("content", "problem"), [("{", "not valid JSON"), ("[]", "is not an object"), ("{}", "settings: is missing")]
)
def test_a_damaged_note_is_refused(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / "synthetic.json").write_text(content)
    with pytest.raises(UserError, match=rf"synthetic\.json: .*{problem}"):
        generate(tmp_path, LEAST, 0, workers=1)


def test_a_run_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(sys.modules[generate_function.__module__], "write_coco", fail)
    with pytest.raises(OSError, match="disk full"):
        generate(tmp_path / "out", LEAST, 0, workers=1)
    assert list(tmp_path.iterdir()) == []


def test_contact_sheets_show_every_polyp_of_every_procedure(tmp_path: Path) -> None:
    generate(tmp_path / "out", LEAST, 0, workers=1, contact_sheets=True)
    sheets = sorted((tmp_path / "out/sheets").glob("*.png"))
    assert [sheet.stem for sheet in sheets] == ["synth-0-001", "synth-0-002"]
    with Image.open(sheets[0]) as sheet:
        assert sheet.size == (8 * LEAST.width, LEAST.height + 16)
        colours = np.asarray(sheet).reshape(-1, 3)
    assert colours.std(axis=0).min() > 20


@pytest.mark.parametrize(("name", "value"), [("alike", 1.5), ("box_dropout", -0.1)])
def test_a_difficulty_outside_0_to_1_is_an_error_that_names_it(name: str, value: float) -> None:
    with pytest.raises(UserError, match=name.replace("_", "-")):
        with_difficulty(PRESETS["tiny"], **{name: value})


def test_an_unknown_preset_is_an_error_that_lists_the_known(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="tiny, small, full"):
        generate(tmp_path / "out", "huge")


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("view_memory", -1.0, "0 or more"),
        ("polyps_per_site", 0.5, "a number from 1 to 4"),
        ("tracklets", 0, "1 or more"),
        ("tracklets", float("inf"), "1 or more"),
        ("view_memory", float("nan"), "0 or more"),
    ],
)
def test_a_number_outside_its_range_is_an_error_that_names_it(name: str, value: float, wanted: str) -> None:
    with pytest.raises(UserError, match=f"{name.replace('_', '-')} .* -> give {wanted}$"):
        with_difficulty(PRESETS["tiny"], **{name: value})


def test_each_seed_is_a_dataset_with_its_own_names(tmp_path: Path) -> None:
    tables = []
    for seed in (3, 4):
        generate(tmp_path / str(seed), LEAST, seed, workers=1)
        tables.append(read_coco(tmp_path / str(seed), split="test"))
    assert [set(boxes.dataset) for boxes in tables] == [{"synthetic-3"}, {"synthetic-4"}]
    assert [set(boxes.video) for boxes in tables] == [{"synth-3-002"}, {"synth-4-002"}]
    assert not set(tables[0].polyp) & set(tables[1].polyp)


def test_the_coco_file_says_that_it_was_generated(tiny: Path) -> None:
    info = json.loads((tiny / "annotations/instances_train.json").read_text())["info"]
    assert info == {"generated": True, "preset": "tiny", "regime": "real-colon", "seed": 0}


def test_the_hard_regime_has_fewer_tracklets_and_a_new_view_for_every_track() -> None:
    hard, default = find_preset("full", "hard"), find_preset("full")
    assert hard.tracklets < default.tracklets
    assert hard.difficulty.view_memory == 0 < default.difficulty.view_memory


def test_full_has_the_papers_counts() -> None:
    full: Preset = PRESETS["full"]
    assert (full.train_videos, full.test_videos, full.train_polyps, full.test_polyps) == (27, 19, 85, 47)
