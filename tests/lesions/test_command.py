"""`polyptrace lesions`."""

import csv
import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polyptrace.config import Crops
from polyptrace.data import Dataset, prepare, read_coco
from polyptrace.embed import Embeddings
from polyptrace.embed.table import COLUMNS
from polyptrace.explore import Journal, Workspace
from polyptrace.lesions import SameModel
from tests.command import call
from tests.report.browser import CHROMIUM, FLAGS

NAMES = {"v0": "=cmd|' /C calc'!A0", "v1": "<script>alert(1)</script>", "v2": "plain"}


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def vectors_of(dataset: Dataset, seed: int = 0) -> Embeddings:
    """Vectors around a random centre per polyp."""
    table, random = dataset.tracklets, np.random.default_rng(seed)
    names, code = np.unique(table.polyp.astype(str), return_inverse=True)
    vectors = random.normal(size=(len(names), 16))[code] + 0.3 * random.normal(size=(len(table), 16))
    columns = {name: getattr(table, name) for name in COLUMNS}
    return Embeddings(vectors=vectors.astype(np.float32), **columns, info={"fingerprint": "a" * 64})


@pytest.fixture(scope="module")
def vectors(coloured: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vectors") / "mine"
    vectors_of(coloured).save(folder)
    return folder


@pytest.fixture(scope="module")
def written(coloured: Dataset, vectors: Path) -> Path:
    out = vectors.parent / "lesions"
    assert call("lesions", vectors, "--data", coloured.path, "--out", out) == 0
    return out


def test_the_tables_hold_every_lesion_and_every_track(coloured: Dataset, written: Path) -> None:
    tracks, lesions = rows_of(written / "tracks.csv"), rows_of(written / "lesions.csv")
    assert len(tracks) == len(coloured.select("track")) == sum(int(row["tracks"]) for row in lesions)
    assert {(row["video"], row["lesion"]) for row in tracks} == {(row["video"], row["lesion"]) for row in lesions}
    for lesion in lesions:
        own = [row for row in tracks if (row["video"], row["lesion"]) == (lesion["video"], lesion["lesion"])]
        assert int(lesion["first_frame"]) == min(int(row["first_frame"]) for row in own)
        assert int(lesion["last_frame"]) == max(int(row["last_frame"]) for row in own)
        frames = sum(int(row["last_frame"]) - int(row["first_frame"]) + 1 for row in own)
        assert float(lesion["in_view_s"] or "nan") == pytest.approx(frames / 25, abs=0.01) or not lesion["in_view_s"]
        assert 0 < float(lesion["confidence"]) <= 1
        assert lesion["best_track"] in {row["track"] for row in own}


def test_the_detectors_score_is_that_of_the_crops_of_each_track(tiny: Path, tmp_path: Path) -> None:
    """Boxes get scores; the tables and the page have their means."""
    boxes = read_coco(tiny, split="train")
    scored = replace(boxes, score=np.random.default_rng(0).random(len(boxes)))
    dataset = prepare(scored, tiny, tmp_path / "data", crops=Crops(size=16))
    vectors_of(dataset).save(tmp_path / "vectors")
    assert call("lesions", tmp_path / "vectors", "--data", dataset.path, "--out", tmp_path / "out") == 0
    score, tracklets = dataset.boxes().score[dataset.box_of_crop()], dataset.tracklets
    row_of = {(tracklets.video[row], str(tracklets.track[row])): row for row in dataset.select("track")}
    crops: dict[tuple[str, str], list[float]] = {}
    for track in rows_of(tmp_path / "out/tracks.csv"):
        mine = score[tracklets.rows[row_of[track["video"], track["track"]]]].tolist()
        assert float(track["detector_score"]) == pytest.approx(np.mean(mine), abs=5.1e-4)
        crops.setdefault((track["video"], track["lesion"]), []).extend(mine)
    page = (tmp_path / "out/lesions.html").read_text(encoding="utf-8")
    for lesion in rows_of(tmp_path / "out/lesions.csv"):
        mean = np.mean(crops[lesion["video"], lesion["lesion"]])
        assert float(lesion["detector_score"]) == pytest.approx(mean, abs=5.1e-4)
        assert f"Mean score of the detector: {mean:.2f}" in page


def test_boxes_without_a_score_leave_the_detectors_score_empty(written: Path) -> None:
    for name in ("lesions.csv", "tracks.csv"):
        assert {row["detector_score"] for row in rows_of(written / name)} == {""}
    assert "Mean score" not in (written / "lesions.html").read_text(encoding="utf-8")


def test_the_summary_agrees_with_the_tables(written: Path) -> None:
    summary = json.loads((written / "lesions.json").read_text())
    lesions = rows_of(written / "lesions.csv")
    for procedure in summary["procedures"]:
        assert procedure["lesions"] == sum(row["video"] == procedure["video"] for row in lesions)
        assert procedure["low"] <= procedure["lesions"] <= procedure["high"]
        assert sum(procedure["distribution"].values()) == pytest.approx(1.0, abs=1e-4)


def test_the_page_has_a_card_with_pictures_per_lesion(written: Path) -> None:
    page = (written / "lesions.html").read_text(encoding="utf-8")
    assert page.count('<article class="card">') == len(rows_of(written / "lesions.csv"))
    assert page.count("<img ") >= page.count('<article class="card">')
    assert "How to read this page" in page
    assert "so their numbers can differ" in page, "explore and find show the probability of two tracks alone"


def test_the_model_is_stored_beside_the_vectors_and_used_again(vectors: Path, written: Path) -> None:
    stored = SameModel.load(vectors / "same.json")
    assert stored == SameModel.load(written / "same.json")
    replace(stored, dataset="marked").save(vectors / "same.json")
    again = vectors.parent / "again"
    assert call("lesions", vectors, "--out", again) == 0
    assert SameModel.load(again / "same.json").dataset == "marked"
    assert call("lesions", vectors, "--out", again, "--overwrite", "--refit") == 0
    assert SameModel.load(vectors / "same.json") == stored


def test_the_given_model_is_used_also_if_it_is_the_one_beside_the_vectors(
    vectors: Path, written: Path, tmp_path: Path
) -> None:
    with_labels = replace(SameModel.load(written / "same.json"), labelled_pairs=9)
    copied = shutil.copytree(vectors, tmp_path / "vectors")
    with_labels.save(copied / "same.json")
    assert call("lesions", copied, "--same", copied / "same.json", "--out", tmp_path / "out") == 0
    assert SameModel.load(copied / "same.json") == SameModel.load(tmp_path / "out/same.json") == with_labels


def test_a_stored_model_that_was_fitted_with_labels_is_kept_and_said(
    vectors: Path, written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copied = shutil.copytree(vectors, tmp_path / "vectors")
    with_labels = replace(SameModel.load(written / "same.json"), labelled_pairs=9)
    with_labels.save(copied / "same.json")
    assert call("lesions", copied, "--out", tmp_path / "out") == 0
    assert "was fitted with labels -> 'polyptrace lesions --refit'" in " ".join(capsys.readouterr().out.split())
    assert SameModel.load(copied / "same.json") == SameModel.load(tmp_path / "out/same.json") == with_labels
    assert call("lesions", copied, "--refit", "--out", tmp_path / "out", "--overwrite") == 0
    assert SameModel.load(copied / "same.json").labelled_pairs == 0
    assert "was fitted with labels" not in capsys.readouterr().out


def test_labels_that_do_not_exist_are_an_error_and_change_nothing(
    vectors: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = Embeddings.load(vectors)
    replace(table, polyp=np.full(len(table), "", object)).save(tmp_path / "vectors")
    assert call("lesions", tmp_path / "vectors", "--labels", "--out", tmp_path / "out") == 2
    assert "--labels:" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "vectors/same.json").exists()


def test_the_given_model_is_stored_beside_the_vectors_for_explore_and_find(
    vectors: Path, written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = tmp_path / "given.json"
    replace(SameModel.load(written / "same.json"), dataset="others", pairs=77, labelled_pairs=9).save(given)
    copied = shutil.copytree(vectors, tmp_path / "vectors")
    assert call("lesions", copied, "--same", given, "--out", tmp_path / "out") == 0
    assert f"{given}, fitted on 77 pairs of tracks, with labels" in " ".join(capsys.readouterr().out.split())
    assert SameModel.load(copied / "same.json") == SameModel.load(given)
    tracks = Embeddings.load(copied)
    assert call("find", copied, "--video", tracks.video[0], "--track", tracks.track[0]) == 0
    assert f"{copied}/same.json, fitted on 77 pairs" in " ".join(capsys.readouterr().out.split())
    workspace = Workspace(copied, tracks.select("track"), Journal.open(tmp_path / "answers.jsonl"))
    assert workspace.model == SameModel.load(given)
    assert SameModel.load(copied / "same.json") == SameModel.load(given), "explore does not replace it"


def test_a_given_model_that_cannot_be_stored_is_reported(
    vectors: Path, written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "vectors.parquet"
    shutil.copy(vectors / "embeddings.parquet", file)
    assert call("lesions", file, "--same", written / "same.json", "--out", tmp_path / "out") == 0
    assert "'explore' and 'find' fit their own" in " ".join(capsys.readouterr().err.split())


def test_an_existing_folder_is_kept_unless_overwritten(
    vectors: Path, written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (written / "lesions.csv").read_bytes()
    assert call("lesions", vectors, "--out", written) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert (written / "lesions.csv").read_bytes() == before
    other = vectors.parent / "other"
    other.mkdir()
    (other / "letter.txt").write_text("keep")
    assert call("lesions", vectors, "--out", other, "--overwrite") == 2
    assert (other / "letter.txt").exists()


def test_without_pictures_and_frame_rate_the_page_says_so(vectors: Path, tmp_path: Path) -> None:
    table = Embeddings.load(vectors)
    replace(table, fps=np.full(len(table), np.nan)).save(tmp_path / "vectors")
    assert call("lesions", tmp_path / "vectors", "--out", tmp_path / "out") == 0
    page = (tmp_path / "out/lesions.html").read_text(encoding="utf-8")
    assert "there are no pictures" in page
    assert "25 frames per second are assumed" in page
    assert all(row["first_s"] == row["in_view_s"] == "" for row in rows_of(tmp_path / "out/lesions.csv"))


def test_names_are_escaped_in_the_page_and_neutralised_in_the_tables(vectors: Path, tmp_path: Path) -> None:
    table = Embeddings.load(vectors)
    renamed = np.array([NAMES[name] for name in table.video], object)
    replace(table, video=renamed).save(tmp_path / "vectors")
    assert call("lesions", tmp_path / "vectors", "--out", tmp_path / "out") == 0
    assert "<script>" not in (tmp_path / "out/lesions.html").read_text(encoding="utf-8")
    for name in ("lesions.csv", "tracks.csv"):
        assert "'=cmd" in (tmp_path / "out" / name).read_text(encoding="utf-8")
        assert {row["video"] for row in rows_of(tmp_path / "out" / name)} >= {"'" + NAMES["v0"], NAMES["v1"]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vectors": np.nan}, "NaN"),
        ({"position": -1, "last": -1}, "has no position"),
        ({"video": ""}, "has no video"),
        ({"unit": "tracklet"}, "no vectors of whole tracks"),
    ],
)
def test_unusable_vectors_are_refused(
    vectors: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, object], message: str
) -> None:
    table = Embeddings.load(vectors).select("track")
    table = table.rows(np.array([0])) if "video" in change else table  # two rows of one name would be one track
    columns = {
        name: np.full(getattr(table, name).shape, value, getattr(table, name).dtype) for name, value in change.items()
    }
    replace(table, **columns).save(tmp_path / "vectors")
    assert call("lesions", tmp_path / "vectors", "--out", tmp_path / "out") == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()


def test_a_model_of_another_encoder_is_refused(
    vectors: Path, written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = replace(SameModel.load(written / "same.json"), encoder="b" * 64)
    model.save(tmp_path / "same.json")
    assert call("lesions", vectors, "--same", tmp_path / "same.json", "--out", tmp_path / "out") == 2
    assert "another encoder" in capsys.readouterr().err
    assert call("lesions", vectors, "--same", tmp_path / "same.json", "--refit", "--out", tmp_path / "out") == 2


def test_another_dataset_is_refused(
    vectors: Path, tmp_path: Path, make_dataset: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    data = make_dataset(tmp_path / "other", [[2, 2]])
    table = Embeddings.load(vectors)
    replace(table, video=np.array([f"w{name}" for name in table.video], object)).save(tmp_path / "vectors")
    assert call("lesions", tmp_path / "vectors", "--data", data, "--out", tmp_path / "out") == 2
    assert "not the dataset of the vectors" in " ".join(capsys.readouterr().err.split())


def test_generated_procedures_from_pictures_to_the_printed_page(tiny: Path, tmp_path: Path) -> None:
    data, vectors, out = tmp_path / "data", tmp_path / "vectors", tmp_path / "lesions"
    assert call("prepare", "coco", tiny, "--split", "train", "--out", data, "--crops.size", 48) == 0
    assert call("embed", "colour-grid", "--data", data, "--out", vectors) == 0
    assert call("lesions", vectors, "--data", data, "--out", out) == 0
    boxes = Dataset.open(data).boxes()
    for lesion in rows_of(out / "lesions.csv"):
        inside = boxes.video == lesion["video"]
        assert int(lesion["best_frame"]) in boxes.frame_index[inside]
        assert float(lesion["first_s"]) <= float(lesion["best_frame_s"]) <= float(lesion["last_s"])
    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    pdf = tmp_path / "page.pdf"
    page = (out / "lesions.html").resolve().as_uri()
    words = (CHROMIUM, *FLAGS, "--no-pdf-header-footer", f"--print-to-pdf={pdf}", page)
    subprocess.run(words, check=True, capture_output=True, timeout=120)
    content = pdf.read_bytes()
    assert b"/MediaBox [0 0 594.95996 841.91998]" in content or b"/MediaBox [0 0 595" in content
    assert content.count(b"/Type /Page\n") >= len({row["video"] for row in rows_of(out / "lesions.csv")})
