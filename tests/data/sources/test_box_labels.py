"""Sizes and histologies as the datasets write them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyptrace.core.errors import UserError
from polyptrace.data import Boxes
from polyptrace.data.sources.box_labels import HISTOLOGY, histology_name, one_label_per_polyp, size_mm


@pytest.mark.parametrize(
    ("written", "millimetres"),
    [
        ("4 mm", 4), ("4mm", 4), ("4", 4), (4, 4), (4.5, 4.5), ("11.74mm", 11.74), ("11,74 mm", 11.74), ("15-", 15),
        ("15mm-", 15), ("15 mm -", 15), ("15-mm", 15), ("15+", 15), (">=15", 15), ("≥ 15 mm", 15), ("1.2 cm", 12),
        (" 6 MM ", 6),
    ],
)  # fmt: skip
def test_sizes_are_read_in_millimetres(written: object, millimetres: float) -> None:
    assert size_mm(written, "x:1") == pytest.approx(millimetres)


@pytest.mark.parametrize("written", [None, "", "NA", "n/a", "NaN", "unknown", "-", float("nan")])
def test_an_unknown_size_is_nan(written: object) -> None:
    assert math.isnan(size_mm(written, "x:1"))


@pytest.mark.parametrize(
    "written", ["big", "-4", "0", 0, -3, "4 inch", "3-5", "4 mm cm", "1e3", "4.5.6", "5000", True, [], float("inf")]
)
def test_a_size_that_is_not_understood_is_an_error_that_shows_how_to_write_it(written: object) -> None:
    with pytest.raises(UserError, match=r"x:1: size .* is not understood -> write millimetres: 4, 4 mm, 11\.74mm, 15-"):
        size_mm(written, "x:1")


@given(st.text() | st.floats() | st.integers() | st.none() | st.binary())
def test_any_size_is_a_positive_number_nan_or_our_error(written: object) -> None:
    try:
        size = size_mm(written, "x:1")
    except UserError:
        return
    assert math.isnan(size) or 0 < size < 1000


@given(st.floats(0.01, 99).map(lambda size: round(size, 2)))
def test_a_written_size_is_read(size: float) -> None:
    for written in (f"{size}", f"{size} mm", f"{size}mm-", size):
        assert size_mm(written, "x") == size


def test_an_unknown_histology_lists_the_known_ones_and_how_to_map_it() -> None:
    with pytest.raises(UserError) as caught:
        histology_name("banana", "x:1", {})
    message = str(caught.value)
    assert message.startswith("x:1: histology 'banana' is not known")
    assert "--histology 'banana=AD'" in message
    assert all(name in message for name in HISTOLOGY)
    assert histology_name("banana", "x:1", {"banana": "ad"}) == "AD"
    assert histology_name("banana", "x:1", {"banana": ""}) == ""


def test_unknown_polyps_and_sizes_never_conflict() -> None:
    nan = float("nan")
    table = Boxes.of(
        video="v",
        frame_index=range(5),
        xywh=np.ones((5, 4)),
        polyp=["", "", "a", "a", "b"],
        size_mm=[1, 2, 4, nan, 5],
        histology=["AD", "HP", "", "AD", "HP"],
    )
    one_label_per_polyp(table)
    assert len(table) == 5


@given(st.lists(st.tuples(st.sampled_from(["", "a", "b"]), st.sampled_from([math.nan, 3.0, 7.0])), max_size=12))
def test_two_sizes_of_one_polyp_are_an_error_exactly_if_they_exist(rows: list[tuple[str, float]]) -> None:
    table = Boxes.of(
        video="v",
        frame_index=range(len(rows)),
        xywh=np.ones((len(rows), 4)),
        polyp=[polyp for polyp, _ in rows],
        size_mm=[size for _, size in rows],
    )
    sizes = {p: {s for q, s in rows if q == p and not math.isnan(s)} for p in ("a", "b")}
    if any(len(actual) > 1 for actual in sizes.values()):
        with pytest.raises(UserError, match="give each its own id"):
            one_label_per_polyp(table)
    else:
        one_label_per_polyp(table)
