"""Several prepared datasets as one."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from polyptrace.core.errors import UserError
from polyptrace.core.files import read_json, write_json
from polyptrace.data import Dataset, join_datasets
from polyptrace.data.crops.loader import CropLoader
from polyptrace.data.dataset import save_tracklets
from polyptrace.data.identity import polyp_keys, video_keys
from tests.command import call

SMALL = shlex.split("--encoder.backbone test_resnet --encoder.weights none --encoder.width 16 --encoder.heads 2")
Make = Callable[..., Path]


@pytest.fixture
def parts(make_dataset: Make, tmp_path: Path) -> list[Dataset]:
    return [
        Dataset.open(make_dataset(tmp_path / name, polyps, seed=seed, name=name))
        for seed, (name, polyps) in enumerate({"a": [[2, 3]], "b": [[4], [1, 2]]}.items())
    ]


def of_all(parts: Sequence[Dataset], column: Callable[[Dataset], Sequence[object]]) -> list[object]:
    return [value for part in parts for value in column(part)]


def test_tracklets_follow_each_other_and_keep_their_crops_labels_and_videos(parts: list[Dataset]) -> None:
    joined = join_datasets(parts)
    assert len(joined.crops) == sum(len(part.crops) for part in parts)
    for keys in (video_keys, polyp_keys):
        assert list(keys(joined.tracklets)) == of_all(parts, lambda part, keys=keys: keys(part.tracklets))
    expected = of_all(parts, lambda part: [part.crops[rows] for rows in part.tracklets.rows])
    for rows, crops in zip(joined.tracklets.rows, expected, strict=True):
        assert np.array_equal(joined.crops[rows], crops)
    frames, mask = joined.gather([0, len(joined.tracklets) - 1])
    assert mask.any(1).all()
    assert np.array_equal(frames[1][mask[1]].numpy(), expected[-1])
    assert (joined.name, joined.info["counts"], joined.generated) == ("a, b", {}, False)


@pytest.mark.parametrize("size", [32, 16])
def test_the_loader_reads_rows_of_all_parts_in_any_order(parts: list[Dataset], size: int) -> None:
    joined, copied = join_datasets(parts), np.concatenate([part.crops for part in parts])
    rows = [np.random.default_rng(seed).permutation(len(copied))[:40] for seed in range(3)]
    for actual, expected in zip(
        CropLoader(joined.crops, torch.device("cpu"), size).stream(rows, pad=50),
        CropLoader(copied, torch.device("cpu"), size).stream(rows, pad=50),
        strict=True,
    ):
        assert torch.equal(actual, expected)


def test_without_labels_nothing_of_them_is_left(parts: list[Dataset]) -> None:
    labelled = join_datasets(parts)
    assert labelled.info["labels"] == {"polyps": 5}
    unlabelled = labelled.label_free()
    assert "labels" not in unlabelled.info
    assert not hasattr(unlabelled.tracklets, "polyp")


def test_a_single_dataset_is_itself(parts: list[Dataset]) -> None:
    assert join_datasets(parts[:1]) is parts[0]


def test_it_is_generated_only_if_all_parts_are(parts: list[Dataset]) -> None:
    generated = [replace(part, info={**part.info, "generated": True}) for part in parts]
    assert join_datasets(generated).generated
    assert not join_datasets([generated[0], parts[1]]).generated


def test_a_video_in_two_of_them_is_an_error_that_names_both(parts: list[Dataset], make_dataset: Make) -> None:
    other = make_dataset(parts[0].path.with_name("again"), [[1]], name="a")
    with pytest.raises(UserError, match=rf"again: video a/v0 is in {parts[0].path}, too"):
        join_datasets([*parts, Dataset.open(other)])


def test_other_settings_or_sizes_of_crops_are_an_error(parts: list[Dataset]) -> None:
    path = parts[1].path / "dataset.json"
    write_json(path, {**read_json(path), "settings": {"tracks": {"link": "polyp"}}})
    with pytest.raises(UserError, match=r"tracks: None -> \{'link': 'polyp'\}\n-> prepare it with"):
        join_datasets([parts[0], Dataset.open(parts[1].path)])
    smaller = replace(parts[1], crops=np.asarray(parts[1].crops)[:, ::2, ::2])
    with pytest.raises(UserError, match="crops of 16 pixels, not 32"):
        join_datasets([parts[0], smaller])


def test_a_part_may_have_been_prepared_with_bad_rows_excluded(parts: list[Dataset]) -> None:
    clean, excluded = (
        replace(part, info={**part.info, "settings": {"skip_bad": skip}})
        for part, skip in zip(parts, (False, True), strict=True)
    )
    assert len(join_datasets([clean, excluded]).tracklets) == len(clean.tracklets) + len(excluded.tracklets)


def test_the_hash_depends_on_the_parts_and_their_order(parts: list[Dataset]) -> None:
    hashed = [replace(part, info={**part.info, "hashes": {"tracklets.parquet": part.name}}) for part in parts]
    hashes = [join_datasets(some).info["hashes"]["tracklets.parquet"] for some in (hashed, hashed[::-1], hashed)]
    assert hashes[0] == hashes[2] != hashes[1]


def written(joined: Dataset, folder: Path) -> Path:
    """The same data in one folder."""
    folder.mkdir()
    save_tracklets(joined.tracklets, folder / "tracklets.parquet")
    np.save(folder / "crops.npy", joined.crops[np.arange(len(joined.crops))])
    write_json(folder / "dataset.json", read_json(joined.path / "dataset.json"))
    return folder


def test_training_on_several_gives_the_bytes_of_training_on_the_same_data_in_one_folder(
    parts: list[Dataset], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "ours", "--train.frames", 900, "--train.threads", 1, *SMALL]
    both = [word for part in parts for word in ("--data", part.path)]
    whole = written(join_datasets(parts), tmp_path / "whole")
    assert call(*words, *both, "--out", tmp_path / "several") == 0
    assert call(*words, "--data", whole, "--out", tmp_path / "one") == 0
    several, one = ((tmp_path / run / "encoder/model.safetensors").read_bytes() for run in ("several", "one"))
    assert several == one
    assert read_json(tmp_path / "several/encoder/config.json")["training"]["data"] == "a, b"
    capsys.readouterr()
    assert call(*words, *both[2:], *both[:2], "--out", tmp_path / "several") == 2
    assert f"began with ({parts[0].path}, {parts[1].path})" in capsys.readouterr().err
