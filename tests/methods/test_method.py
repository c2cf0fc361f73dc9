"""Batches and their division among processes; labels that training may see."""

from dataclasses import replace

import numpy as np
import pytest

from polyptrace.config import Config, Views
from polyptrace.core.errors import UserError
from polyptrace.data import Dataset
from polyptrace.methods import METHODS, Batch
from polyptrace.methods.method import polyp_codes


def batch(size: int, together: int) -> Batch:
    return Batch(np.zeros((size, 2), np.int64), np.arange(size), np.zeros(size, np.int64), np.zeros(size), together)


def test_processes_get_neighbouring_groups_that_make_up_the_batch() -> None:
    parts = [np.arange(60)[batch(60, 5).part(i, 4)] for i in range(4)]
    assert np.concatenate(parts).tolist() == list(range(60))
    assert all(len(part) == 15 for part in parts)


def test_a_number_of_groups_that_the_processes_do_not_divide_is_refused_with_those_that_work() -> None:
    with pytest.raises(UserError, match=r"12 groups of 5 .* 8 processes -> start 1 or 2 or 3 or 4 or 6 or 12"):
        batch(60, 5).part(0, 8)


def test_polyps_are_the_same_number_only_when_they_are_the_same_polyp(coloured: Dataset) -> None:
    chosen = coloured.select("tracklet")
    code, name = polyp_codes(coloured, chosen), coloured.tracklets.polyp[chosen]
    assert ((code[:, None] == code) == (name[:, None] == name)).all()
    assert set(code) == set(range(6))


def test_a_label_free_view_has_no_polyps(coloured: Dataset) -> None:
    with pytest.raises(TypeError, match="label-free"):
        polyp_codes(coloured.label_free(), coloured.select("tracklet"))


def test_the_labels_that_training_saw_are_described_in_words(coloured: Dataset) -> None:
    texts = {
        link: METHODS["ours"].labels_seen(replace(coloured, info={"settings": {"tracks": {"link": link}}}), Config())
        for link in ("polyp", "track", "video")
    }
    assert texts["polyp"] == "none, given tracks linked inside polyp identities"
    assert texts["track"] == "none, given tracks"
    assert texts["video"] == "none"


def test_label_use_is_that_of_the_method_and_of_its_tracks(coloured: Dataset) -> None:
    linked = {
        link: replace(coloured, info={"settings": {"tracks": {"link": link}}}) for link in ("polyp", "track", "video")
    }
    assert {link: METHODS["ours"].label_use(data, Config()) for link, data in linked.items()} == {
        "polyp": "label-free given tracks",
        "track": "label-free given tracks",
        "video": "label-free",
    }
    assert {METHODS["sup"].label_use(data, Config()) for data in linked.values()} == {"labels"}


def test_the_labels_that_a_method_reads_depend_on_the_method_and_its_second_views(coloured: Dataset) -> None:
    polyp = Config(views=Views(source="polyp"))
    assert METHODS["sup"].labels_seen(coloured, Config()) == "polyp identities"
    assert METHODS["tpc"].labels_seen(coloured, Config()) == "none"
    assert METHODS["tpc"].labels_seen(coloured, polyp) == "polyp identities, for second views"
    assert METHODS["mve"].labels_seen(coloured, polyp) == "none"


def test_every_method_of_the_table_is_there() -> None:
    assert set(METHODS) == {"ours", "sfe", "mve", "tpc", "sup", "ta"}
    polyp = Config(views=Views(source="polyp"))
    assert {name for name, method in METHODS.items() if method.sees_labels(Config())} == {"sup", "ta"}
    assert {name for name, method in METHODS.items() if method.sees_labels(polyp)} == {"sup", "ta", "sfe", "tpc"}
