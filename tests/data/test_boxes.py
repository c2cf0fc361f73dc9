"""The box table."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from polyptrace.core.errors import UserError
from polyptrace.data import Boxes
from polyptrace.data.boxes import NO_FRAME, crop_regions


def table(n: int) -> Boxes:
    rng = np.random.default_rng(n)
    return Boxes.of(
        video=[f"v{i % 3}" for i in range(n)],
        frame_index=rng.integers(0, 50, n),
        xywh=rng.uniform(1, 99, (n, 4)),
        file=[f"{i}.jpg" for i in range(n)],
        polyp=[f"p{i % 5}" for i in range(n)],
        size_mm=rng.uniform(1, 20, n),
    )


def test_a_column_that_is_left_out_is_unknown() -> None:
    boxes = Boxes.of(video=["v"], frame_index=[3], xywh=[[1, 2, 3, 4]])
    assert boxes.polyp.tolist() == [""]
    assert np.isnan(boxes.size_mm).all()


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="the same length"):
        Boxes.of(video=["v", "v"], frame_index=[3], xywh=[[1, 2, 3, 4]])


def test_a_misspelt_column_is_refused() -> None:
    with pytest.raises(ValueError, match="no column poylp"):
        Boxes.of(video=["v"], frame_index=[3], xywh=[[1, 2, 3, 4]], poylp=["a"])


def test_a_frame_index_that_is_not_whole_is_kept_as_none_for_a_check_to_find() -> None:
    frames = [1.0, 2.5, np.nan, -np.inf, 1e20, -3.0]
    actual = Boxes.of(video="v", frame_index=frames, xywh=np.ones((6, 4)))
    assert actual.frame_index.tolist() == [1, NO_FRAME, NO_FRAME, NO_FRAME, NO_FRAME, -3]


def test_an_image_width_that_is_not_whole_is_named_by_its_row() -> None:
    with pytest.raises(UserError, match=r"row 1: image_width 2\.5"):
        Boxes.of(video="v", frame_index=[1, 2], xywh=np.ones((2, 4)), image_width=[1.0, 2.5])


@pytest.mark.parametrize("polyp", [["a", None], ["a", np.nan], np.array(["a", 7], object)])
def test_a_polyp_that_is_not_text_is_named_by_its_row(polyp: object) -> None:
    with pytest.raises(UserError, match=r'row 1: polyp .* is not text -> give text, or "" if it is unknown'):
        Boxes.of(video="v", frame_index=[1, 2], xywh=np.ones((2, 4)), polyp=polyp)


def test_a_saved_table_is_loaded_unchanged(tmp_path: Path) -> None:
    boxes = table(20)
    boxes.save(tmp_path / "boxes.parquet")
    back = Boxes.load(tmp_path / "boxes.parquet")
    for name in ("video", "frame_index", "xywh", "file", "polyp", "size_mm", "fps", "line"):
        np.testing.assert_array_equal(getattr(back, name), getattr(boxes, name))


def test_a_parquet_file_without_a_needed_column_says_which(tmp_path: Path) -> None:
    pq.write_table(pa.table({"video": ["v"], "x": [1.0], "y": [1.0], "w": [1.0]}), tmp_path / "b.parquet")
    with pytest.raises(UserError, match="no column frame_index, h"):
        Boxes.load(tmp_path / "b.parquet")


def test_a_file_that_is_no_parquet_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "b.parquet").write_bytes(b"hello")
    with pytest.raises(UserError, match="not a readable Parquet file"):
        Boxes.load(tmp_path / "b.parquet")


def test_the_order_depends_neither_on_labels_nor_on_the_rows_order() -> None:
    boxes = table(60)
    shuffle = np.random.default_rng(0).permutation(60)
    np.testing.assert_array_equal(boxes.in_order().xywh, boxes.take(shuffle).in_order().xywh)


def test_to_pandas_has_one_column_per_coordinate() -> None:
    frame = table(4).to_pandas()
    assert {"x", "y", "w", "h", "video"} <= set(frame.columns)
    assert len(frame) == 4


def test_a_row_says_where_it_was_read() -> None:
    boxes = Boxes.of(
        video="v", frame_index=[0, 1, 2], xywh=np.ones((3, 4)), source=["a/gt.txt", "b.json", ""], line=[7, 8, 0]
    )
    assert [boxes.where(row) for row in range(3)] == ["a/gt.txt:7", "b.json: annotations[8]", "boxes:2"]


def region(box: tuple[float, ...], scale: float = 5.0, size: tuple[int, int] = (320, 256)) -> list[int]:
    return crop_regions(np.array([box]), np.array([size[0]]), np.array([size[1]]), scale)[0].tolist()


def test_a_crop_is_the_box_scaled_about_its_centre() -> None:
    assert region((150, 110, 30, 24)) == [90, 62, 150, 120]


def test_a_crop_stops_at_the_edges_of_its_image() -> None:
    assert region((3, 5, 40, 33)) == [0, 0, 123, 104]
    assert region((290, 230, 28, 25)) == [234, 180, 86, 76]


def test_numbers_are_truncated_not_rounded() -> None:
    assert region((100.9, 100.9, 10.9, 10.9), scale=1.0) == [100, 100, 10, 10]


def test_a_tiny_box_in_the_last_corner_has_one_pixel() -> None:
    assert region((319.9, 255.9, 0.05, 0.05), scale=1.0) == [319, 255, 1, 1]
