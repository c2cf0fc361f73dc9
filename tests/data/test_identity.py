"""Identity: a video is (dataset, video), a polyp is (dataset, polyp), for every stage."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from polyptrace.config import Config, Evaluate, Views
from polyptrace.data import Boxes, Dataset
from polyptrace.data.identity import by_appearance, codes, group_rows, join_keys, polyp_keys, video_codes, video_keys
from polyptrace.data.preparation import count_labels
from polyptrace.embed import Embeddings
from polyptrace.evaluate.inputs import TaskInput
from polyptrace.methods import METHODS

names = st.text(alphabet="a/%2F", max_size=4)


def table() -> Boxes:
    return Boxes.of(
        dataset=["A", "A", "B", "A"],
        video=["1", "2", "1", "2"],
        polyp=["p", "p", "p", ""],
        frame_index=[0, 0, 0, 1],
        xywh=np.ones((4, 4)),
    )


def test_a_polyp_of_two_videos_is_one_polyp_and_names_of_two_datasets_are_two() -> None:
    first, second, other_dataset, unknown = polyp_keys(table())
    assert first == second
    assert first != other_dataset
    assert unknown == ""
    assert len(set(video_keys(table()))) == 3


@settings(deadline=None)
@given(st.lists(st.tuples(names, names), max_size=8))
def test_keys_are_equal_exactly_when_dataset_and_name_are(pairs: list[tuple[str, str]]) -> None:
    dataset, name = (np.array(column, object) for column in ([p[0] for p in pairs], [p[1] for p in pairs]))
    keys = join_keys(dataset, name)
    for i, first in enumerate(pairs):
        for j, second in enumerate(pairs):
            same = first == second if first[1] and second[1] else first[1] == second[1]
            assert (keys[i] == keys[j]) == same


@settings(deadline=None)
@given(st.lists(st.text(max_size=3)))
def test_codes_number_the_sorted_distinct_keys(keys: list[str]) -> None:
    index = {key: i for i, key in enumerate(sorted(set(keys), key=lambda key: key.encode()))}
    assert codes(np.array(keys, object)).tolist() == [index[key] for key in keys]


def test_video_codes_sort_by_dataset_and_then_by_video() -> None:
    boxes = Boxes.of(dataset=["a b", "a", "a"], video=["1", "2", "1"], frame_index=[0, 0, 0], xywh=np.ones((3, 4)))
    assert np.argsort(video_codes(boxes)).tolist() == [2, 1, 0]


def test_training_evaluation_and_counts_agree_on_a_polyp_of_two_procedures(coloured: Dataset) -> None:
    tracklets = coloured.tracklets
    chosen = coloured.select("tracklet")
    polyp = tracklets.polyp.copy()
    first, second = (tracklets.polyp[tracklets.video == video][0] for video in np.unique(tracklets.video)[:2])
    assert first != second
    polyp[polyp == second] = first  # seen again in another procedure
    dataset = replace(coloured, tracklets=replace(tracklets, polyp=polyp))

    config = Config(views=Views(polyps_per_batch=2, tracklets_per_polyp=3))
    epoch = METHODS["sup"].plan(dataset, config).epoch(0, 1)
    batches = [epoch.batch(step) for step in range(epoch.steps)]
    unlabelled = {name: getattr(tracklets, name) for name in ("unit", "dataset", "video", "track", "position", "last")}
    labels = {"polyp": polyp, "size_mm": tracklets.size_mm, "histology": tracklets.histology}
    vectors = np.ones((len(polyp), 2), np.float32)
    embeddings = Embeddings(vectors, fps=tracklets.fps, **unlabelled, **labels)
    evaluated = TaskInput(embeddings, "tracklet", "tracklets", Evaluate()).polyp
    for batch in batches:
        key = evaluated[batch.tracklet]
        np.testing.assert_array_equal(batch.group[:, None] == batch.group, key[:, None] == key)
    videos = {name: set(tracklets.video[chosen][evaluated[chosen] == name]) for name in np.unique(evaluated[chosen])}
    assert max(map(len, videos.values())) == 2
    assert count_labels(dataset.tracklets)["polyps"] == len(videos) == count_labels(tracklets)["polyps"] - 1


def test_values_are_numbered_in_order_of_first_appearance() -> None:
    assert by_appearance(np.array([7, 3, 7, -1, 3])).tolist() == [0, 1, 0, 2, 1]
    assert by_appearance(np.array(["b", "a", "b"], object)).tolist() == [0, 1, 0]
    assert by_appearance(np.array([], np.int64)).tolist() == []


def test_the_rows_of_each_code_are_in_order() -> None:
    assert [rows.tolist() for rows in group_rows(np.array([2, 0, 2, 5, 0]))] == [[1, 4], [0, 2], [3]]
    assert group_rows(np.array([], np.int64)) == []
