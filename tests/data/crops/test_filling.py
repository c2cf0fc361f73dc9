"""The crop store on its own: what it tells on the way, and what it makes of what an earlier run left."""

import os
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from polyptrace.config import Crops
from polyptrace.core import codec
from polyptrace.core.errors import UserError
from polyptrace.data import Boxes
from polyptrace.data.crops.filling import fill_store

Source = Callable[..., tuple[Boxes, Path]]


def test_progress_moves_within_a_video_and_counts_every_image_once(make_source: Source, tmp_path: Path) -> None:
    boxes, root = make_source(videos=1)
    advances: list[int] = []
    fill_store(tmp_path / "a.npy", boxes, root, Crops(size=16), advance=advances.append)
    assert advances == [1] * 72
    again: list[int] = []
    skipped: list[int] = []
    fill_store(tmp_path / "a.npy", boxes, root, Crops(size=16), again.append, skipped.append)
    assert (again, skipped) == ([], [72]), "finished images do not enter the rate"


def test_an_image_of_an_archive_that_is_several_frames_is_cut_for_each(make_source: Source, tmp_path: Path) -> None:
    boxes, root = make_source(videos=1, frames=2)
    with tarfile.open(root / "a.tar", "w") as archive:
        archive.add(root / boxes.file[0], "x.jpg")
    packed = replace(boxes, file=np.array(["a.tar::x.jpg"] * 2, object))
    loose = replace(boxes, file=boxes.file[[0, 0]])
    for name, one in (("packed", packed), ("loose", loose)):
        assert not fill_store(tmp_path / f"{name}.npy", one, root, Crops(size=16))
    assert (tmp_path / "packed.npy").read_bytes() == (tmp_path / "loose.npy").read_bytes()


def test_boxes_of_one_image_may_know_its_size_or_not_but_not_disagree(make_source: Source, tmp_path: Path) -> None:
    boxes, root = make_source(videos=1, frames=1)
    boxes = replace(boxes.take(np.array([0, 0])), xywh=np.array([(20, 30, 12, 10), (40, 10, 12, 10)], float))

    def cut(name: str, width: list[int], height: list[int]) -> list[int]:
        stated = replace(boxes, image_width=np.array(width), image_height=np.array(height))
        return list(fill_store(tmp_path / f"{name}.npy", stated, root, Crops(size=16)))

    assert cut("both", [96, 96], [72, 72]) == []
    assert cut("one", [96, 0], [72, 0]) == []
    assert (tmp_path / "one.npy").read_bytes() == (tmp_path / "both.npy").read_bytes()
    assert cut("other", [96, 192], [72, 144]) == [0, 1]


@pytest.mark.parametrize(
    ("name", "size", "fits"),
    [
        ("a.jpg", (800, 600), True),
        ("a.png", (800, 600), True),
        ("twice.jpg", (1600, 1200), False),
        ("half.jpg", (400, 300), False),
        ("half.png", (400, 300), False),
        ("nearly.jpg", (799, 600), False),
    ],
)
def test_an_image_of_another_size_is_no_smaller_image_of_the_size_that_is_stated(
    tmp_path: Path, name: str, size: tuple[int, int], fits: bool
) -> None:
    Image.new("RGB", size, "red").save(tmp_path / name)
    boxes = Boxes.of(
        video="v", frame_index=[0], file=name, xywh=[[300, 200, 200, 150]], image_width=800, image_height=600
    )
    bad = fill_store(tmp_path / "a.npy", boxes, tmp_path, Crops(size=100))
    assert [f"image is {size[0]} x {size[1]}, its boxes say 800 x 600" in reason for reason in bad.values()] == [
        True
    ] * (not fits)


def test_an_image_of_several_images_is_a_bad_image_where_sizes_are_unknown(make_source: Source, tmp_path: Path) -> None:
    boxes, root = make_source(videos=1, frames=2)
    frames = [Image.new("RGB", (96, 72), colour) for colour in ("red", "blue")]
    frames[0].save(root / boxes.file[1], "GIF", save_all=True, append_images=frames[1:])
    unknown = replace(boxes, image_width=np.zeros(2, int), image_height=np.zeros(2, int))
    bad = fill_store(tmp_path / "a.npy", unknown, root, Crops(size=16))
    assert list(bad) == [1]


def test_an_image_that_says_it_is_larger_than_the_memory_is_a_bad_image(
    make_source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boxes, root = make_source(videos=1, frames=2)

    def too_large(*_: object) -> torch.Tensor:
        raise MemoryError("Unable to allocate 12.0 GiB")

    monkeypatch.setattr(codec, "decode_image", too_large)
    bad = fill_store(tmp_path / "a.npy", boxes, root, Crops(size=16))
    assert [(row, "12.0 GiB" in reason) for row, reason in bad.items()] == [(0, True), (1, True)]


def test_a_broken_nvjpeg_is_reported_before_any_crop_is_cut(
    make_source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decode_jpegs(_: list[bytes], device: torch.device) -> list[torch.Tensor]:
        raise RuntimeError(f"{device}: not compiled with nvJPEG support\nmore of it")

    boxes, root = make_source()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(codec, "decode_jpegs", decode_jpegs)
    with pytest.raises(UserError, match=r"\(cuda:0: not compiled with nvJPEG support\) -> use full"):
        fill_store(tmp_path / "a.npy", boxes, root, Crops(size=16, decoding="nvjpeg"))
    assert not (tmp_path / "a.npy").exists()


def test_only_crops_without_a_mark_are_cut_again(make_source: Source, tmp_path: Path) -> None:
    boxes, root = make_source()
    fill_store(tmp_path / "a.npy", boxes, root, Crops(size=16))
    store, marks = tmp_path / "a.npy", tmp_path / "a.done"
    whole, marked = store.read_bytes(), np.fromfile(marks, np.uint64)
    for row in (0, len(boxes) - 1):  # one is not marked, as if the run had been killed
        with store.open("r+b") as file:
            file.seek((row - len(boxes)) * 16 * 16 * 3, os.SEEK_END)
            file.write(bytes(16 * 16 * 3))
    changed = marked.copy()
    changed[0] = 0
    changed.tofile(marks)
    advances: list[int] = []
    fill_store(store, boxes, root, Crops(size=16), advance=advances.append)
    assert advances == [1]
    assert np.array_equal(np.fromfile(marks, np.uint64), marked)
    assert store.read_bytes() == whole[: -16 * 16 * 3] + bytes(16 * 16 * 3)


def test_a_truncated_store_is_created_again(make_source: Source, tmp_path: Path) -> None:
    boxes, root = make_source(videos=1)
    fill_store(tmp_path / "a.npy", boxes, root, Crops(size=16))
    (tmp_path / "b.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:64])
    fill_store(tmp_path / "b.npy", boxes, root, Crops(size=16))
    assert (tmp_path / "b.npy").read_bytes() == (tmp_path / "a.npy").read_bytes()
