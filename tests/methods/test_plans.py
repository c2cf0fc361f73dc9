"""How each method samples: a pure function of seed and epoch, from the right tracks and polyps."""

from collections.abc import Callable
from dataclasses import replace
from math import erf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyptrace.config import Config, Loss, Supervision, Train, Views
from polyptrace.core.errors import UserError
from polyptrace.data import Dataset
from polyptrace.methods import METHODS, Batch
from polyptrace.methods.method import Data
from polyptrace.methods.views import TrackFrames, track_frames

CONFIG = Config(
    supervision=Supervision(bags_per_batch=5, bag_size=3),
    views=Views(batch=6, polyps_per_batch=3, tracklets_per_polyp=4),
    train=Train(epochs=6),
)


def view(name: str, data: Dataset, config: Config) -> Data:
    return data if METHODS[name].sees_labels(config) else data.label_free()


def drawn(name: str, data: Dataset, config: Config = CONFIG, epoch: int = 0) -> list[Batch]:
    actual = METHODS[name].plan(view(name, data, config), config).epoch(epoch, config.train.epochs)
    return [actual.batch(step) for step in range(actual.steps)]


@pytest.mark.parametrize("name", METHODS)
def test_batches_depend_on_seed_and_epoch_alone(name: str, coloured: Dataset) -> None:
    first, again = (np.concatenate([b.rows for b in drawn(name, coloured, epoch=2)]) for _ in range(2))
    assert np.array_equal(first, again)
    other_epoch = np.concatenate([b.rows for b in drawn(name, coloured, epoch=3)])
    other_seed = np.concatenate(
        [b.rows for b in drawn(name, coloured, replace(CONFIG, train=Train(epochs=6, seed=1)), epoch=2)]
    )
    for other in (other_epoch, other_seed):
        assert first.shape != other.shape or not np.array_equal(first, other)


@pytest.mark.parametrize("name", METHODS)
def test_the_number_of_steps_is_known_before(name: str, coloured: Dataset) -> None:
    plan = METHODS[name].plan(view(name, coloured, CONFIG), CONFIG)
    assert plan.steps(6) == sum(plan.epoch(number, 6).steps for number in range(6))


@pytest.mark.parametrize("name", METHODS)
def test_the_size_of_batches_is_known_before(name: str, coloured: Dataset) -> None:
    plan = METHODS[name].plan(view(name, coloured, CONFIG), CONFIG)
    batches = drawn(name, coloured)
    assert {len(batch.rows) for batch in batches} == {plan.batch_size}
    assert np.mean([(batch.rows >= 0).sum() for batch in batches]) == pytest.approx(plan.frames_per_step, abs=0.5)


def test_the_frames_of_smaller_bags_are_known_before(make_dataset: Callable[..., Path], tmp_path: Path) -> None:
    data = Dataset.open(make_dataset(tmp_path / "d", [[4, 4], [2], [1], [3]], frames=8)).label_free()
    plan = METHODS["ours"].plan(data, replace(CONFIG, supervision=Supervision(bags_per_batch=1, bag_size=4)))
    epoch = plan.epoch(0, 1)
    assert np.mean([(epoch.batch(n).rows >= 0).sum() for n in range(epoch.steps)]) == pytest.approx(
        plan.frames_per_step, abs=0.5
    )


def test_a_number_of_frames_gives_the_fewest_steps_that_reach_it(coloured: Dataset) -> None:
    for name in METHODS:
        plan = METHODS[name].plan(view(name, coloured, CONFIG), CONFIG)
        epochs, steps = plan.length(Train(frames=10_000))
        assert (steps - 1) * plan.frames_per_step < 10_000 <= steps * plan.frames_per_step
        assert plan.steps(epochs - 1) < steps <= plan.steps(epochs)
        assert plan.length(Train(epochs=3)) == (3, plan.steps(3))


@pytest.mark.parametrize("name", METHODS)
def test_rows_belong_to_the_tracklet_that_the_batch_names(name: str, coloured: Dataset) -> None:
    for batch in drawn(name, coloured):
        for rows, tracklet in zip(batch.rows, batch.tracklet, strict=True):
            real = rows[rows >= 0]
            assert len(real) > 0
            assert np.isin(real, coloured.tracklets.rows[tracklet]).all()
            assert (np.diff(real) >= 0).all()


def test_ours_takes_every_tracklet_as_an_anchor_once_an_epoch_and_bags_of_its_video(coloured: Dataset) -> None:
    config = replace(CONFIG, supervision=Supervision(bags_per_batch=6, bag_size=3))
    batches = drawn("ours", coloured, config)
    members = np.concatenate([b.tracklet.reshape(-1, 4) for b in batches])
    assert sorted(members[:, 0]) == coloured.select("tracklet").tolist()
    videos = coloured.tracklets.video[members]
    assert (videos == videos[:, :1]).all()
    assert all(len(set(bag)) == 4 for bag in members)


def test_ours_marks_what_a_small_video_does_not_have(coloured: Dataset) -> None:
    config = replace(CONFIG, supervision=Supervision(bags_per_batch=2, bag_size=20))
    batches = drawn("ours", coloured, config)
    gone = np.concatenate([b.tracklet for b in batches]) < 0
    assert gone.any()
    assert (np.concatenate([b.rows for b in batches])[gone] == -1).all()
    notes = METHODS["ours"].plan(coloured.label_free(), config).notes
    assert "data: 3 videos with fewer than 21 tracklets: their bags are smaller" in notes


def test_a_single_epoch_is_said_to_stay_at_the_start_of_the_curriculum(coloured: Dataset) -> None:
    def texts(epochs: int, **settings: Any) -> bool:
        config = Config(supervision=Supervision(bags_per_batch=2, **settings), train=Train(epochs=epochs))
        notes = METHODS["ours"].plan(coloured.label_free(), config).notes
        return any(note.startswith("curriculum: in a single epoch τ stays at tau_min = 0.3") for note in notes)

    assert texts(1)
    assert not texts(2)
    assert not texts(1, curriculum="fixed")
    assert not texts(1, sampling="nearest")
    assert not texts(1, progress="step")


@pytest.mark.parametrize("tau_fit", ["none", "share", "gaps"])
def test_the_log_of_ours_has_the_mean_temperature_of_each_step(tau_fit: str, coloured: Dataset) -> None:
    config = Config(supervision=Supervision(bags_per_batch=2, tau_fit=tau_fit), train=Train(epochs=3))
    plan = METHODS["ours"].plan(coloured.label_free(), config)
    tau = [{plan.epoch(number, 3).metrics(step)["tau"] for step in range(3)} for number in range(3)]
    assert [len(each) for each in tau] == [1, 1, 1]
    first, middle, last = (each.pop() for each in tau)
    assert first == pytest.approx(0.3)
    assert middle == pytest.approx((first + last) / 2)
    assert last == 12 if tau_fit == "none" else 0.3 < last < 12


def test_by_step_ours_reaches_the_highest_temperature_in_the_last_step_of_a_single_epoch(coloured: Dataset) -> None:
    supervision = Supervision(bags_per_batch=2, bag_size=1, progress="step", tau_max=1e6)
    config = Config(supervision=supervision, train=Train(epochs=1))
    plan = METHODS["ours"].plan(coloured.label_free(), config)
    epoch = plan.epoch(0, 1)
    tau = [epoch.metrics(step)["tau"] for step in range(epoch.steps)]
    assert tau[0] == 0.3
    assert tau[-1] == 1e6
    assert tau == sorted(tau)
    first, last = (
        [abs(np.diff(coloured.tracklets.position[epoch.batch(step).tracklet.reshape(2, 2)])).mean() for step in steps]
        for steps in (range(epoch.steps // 4), range(3 * epoch.steps // 4, epoch.steps))
    )
    assert np.mean(last) > np.mean(first)


def test_sfe_pairs_frames_of_one_track_that_are_near_and_never_the_same(coloured: Dataset) -> None:
    pairs = np.concatenate([b.rows.reshape(-1, 2) for b in drawn("sfe", coloured)])
    track_of_row = {r: i for i in coloured.select("track") for r in coloured.tracklets.rows[i]}
    assert all(track_of_row[a] == track_of_row[b] and a != b for a, b in pairs.tolist())
    assert len(set(pairs[:, 0])) == len(pairs)  # an item once an epoch


def test_the_distance_of_sfes_second_view_follows_the_normal_distribution(coloured: Dataset) -> None:
    near = replace(CONFIG, views=replace(CONFIG.views, deviation=4.0))  # one stored frame
    pairs = np.concatenate([b.rows.reshape(-1, 2) for e in range(10) for b in drawn("sfe", coloured, near, e)])
    inside = pairs[(pairs[:, 0] % 16 > 4) & (pairs[:, 0] % 16 < 11)]
    distance = np.abs(np.diff(inside)).ravel()
    share = np.array([np.mean(distance == d) for d in (1, 2, 3)])
    mass = np.diff([erf(e / 2**0.5) for e in (0.5, 1.5, 2.5, 3.5)])
    assert np.abs(share - mass / (1 - erf(0.5 / 2**0.5))).max() < 0.05


@pytest.mark.parametrize("deviation", [0.3, 1e-300])
def test_sfe_takes_a_neighbour_where_stored_frames_are_farther_apart_than_the_deviation(
    deviation: float, coloured: Dataset
) -> None:
    close = replace(CONFIG, views=replace(CONFIG.views, deviation=deviation))
    pairs = np.concatenate([b.rows.reshape(-1, 2) for b in drawn("sfe", coloured, close)])
    assert (np.abs(np.diff(pairs)) == 1).all()
    inside = pairs[(pairs[:, 0] % 16 > 0) & (pairs[:, 0] % 16 < 15)]
    assert np.mean(np.diff(inside) > 0) == pytest.approx(0.5, abs=0.1)


def test_with_labels_sfe_s_second_view_may_come_from_another_track_of_the_polyp(coloured: Dataset) -> None:
    config = replace(CONFIG, views=Views(batch=6, source="polyp", deviation=100.0))
    batches = drawn("sfe", coloured, config)
    owners = np.concatenate([b.tracklet.reshape(-1, 2) for b in batches])
    polyp = coloured.tracklets.polyp[owners]
    assert (polyp[:, 0] == polyp[:, 1]).all()
    assert (owners[:, 0] != owners[:, 1]).any()


def test_mve_s_views_are_of_one_track_and_the_second_begins_after_the_first(coloured: Dataset) -> None:
    for batch in drawn("mve", coloured):
        first, second = batch.rows[0::2], batch.rows[1::2]
        assert (batch.tracklet[0::2] == batch.tracklet[1::2]).all()
        assert (first.max(1) < second[:, 0]).all()
        assert len(set(batch.tracklet)) == len(batch.tracklet) // 2
        assert first.shape[1] == 8


@pytest.fixture
def tracks() -> TrackFrames:
    """Tracks of 2 to 60 stored frames, every 4th frame of the video; rows are numbers of stored frames."""
    count = np.array([2, 3, 8, 20, 60])
    return TrackFrames(np.arange(5), [np.arange(n) for n in count], count, 4 * (count - 1) + 1, 8)


def test_a_view_has_8_frames_at_a_stride_of_1_to_4_drawn_with_that_weight(tracks: TrackFrames) -> None:
    random = np.random.default_rng(0)
    spans = [np.ptp(tracks.one_view(4, random)) for _ in range(2000)]  # in stored frames, of 8 frames at stride d: 7d/4
    share = [np.mean([(span in stored) for span in spans]) for stored in ((1, 2), (3, 4), (5, 6), (7,))]
    assert share == pytest.approx([0.1, 0.2, 0.3, 0.4], abs=0.04)
    stored = replace(tracks, strides=None)
    for _ in range(20):
        assert np.diff(stored.one_view(4, random)).tolist() == [1] * 7


@pytest.mark.parametrize("stored", [False, True])
def test_two_views_of_a_track_have_no_common_frame_and_follow_each_other(tracks: TrackFrames, stored: bool) -> None:
    tracks = replace(tracks, strides=None) if stored else tracks
    random = np.random.default_rng(0)
    for track in range(5):
        drawn_views = [tracks.two_views(track, random) for _ in range(200)]
        for first, second in drawn_views:
            assert len(first) == len(second) == 8
            assert first.max() < second.min()
            assert (np.diff(first) >= 0).all()
            assert (np.diff(second) >= 0).all()
            assert second.max() < tracks.count[track]
        if track > 2:
            assert len({first.tobytes() for first, _ in drawn_views}) > 1


@pytest.mark.parametrize("length", range(1, 13))
def test_a_track_of_any_length_has_views_of_any_length(length: int) -> None:
    random, count = np.random.default_rng(0), np.arange(2, 40)
    for span in (count, 4 * (count - 1) + 1, 7 * count + 1):
        rows = [np.arange(n) for n in count]
        tracks = TrackFrames(np.arange(len(count)), rows, count, span, length, strides=None)
        for track in range(len(tracks)):
            assert len(tracks.one_view(track, random)) == length
            first, second = tracks.two_views(track, random)
            assert max(first) < min(second)


def test_tracks_know_how_many_frames_they_span(coloured: Dataset) -> None:
    table = track_frames(coloured.label_free(), CONFIG)
    assert (table.span == coloured.tracklets.last[table.index] - coloured.tracklets.position[table.index] + 1).all()
    assert table.length == 8


@pytest.mark.parametrize(("frames", "length", "expected"), [(16, 4, 4), (16, 12, 12), (6, 8, 8)])
def test_a_view_has_as_many_frames_as_a_tracklet_or_8_if_there_are_none(
    make_dataset: Callable[..., Path], tmp_path: Path, frames: int, length: int, expected: int
) -> None:
    data = Dataset.open(make_dataset(tmp_path / "d", [[4, 4]], frames=frames, length=length))
    assert {batch.rows.shape[1] for batch in drawn("mve", data)} == {expected}


def test_multi_positive_in_the_form_of_equation_1_is_refused(coloured: Dataset) -> None:
    config = replace(CONFIG, loss=Loss(name="multi-positive", form="paper"))
    with pytest.raises(UserError, match=r"add --loss\.form symmetric"):
        METHODS["ours"].plan(coloured.label_free(), config)
    for temperature in (0.07, 0.25):
        symmetric = Loss(name="multi-positive", form="symmetric", temperature=temperature)
        assert METHODS["ours"].plan(coloured.label_free(), replace(CONFIG, loss=symmetric)).steps(1) > 0


def test_a_batch_that_cannot_be_filled_is_refused_before_training(coloured: Dataset) -> None:
    config = replace(CONFIG, supervision=Supervision(bags_per_batch=49))
    with pytest.raises(UserError, match="48 tracklets can be anchors, but a batch has 49 bags -> use at most 48 bags"):
        METHODS["ours"].plan(coloured.label_free(), config)


def test_tpc_takes_two_tracks_of_one_video_more_often_as_alpha_falls(coloured: Dataset) -> None:
    shares = []
    for epochs in (range(1), range(5, 40)):
        config = replace(CONFIG, views=replace(CONFIG.views, alpha_start=0.8, alpha_end=0.4))
        pairs = np.concatenate([b.tracklet.reshape(-1, 2) for e in epochs for b in _tpc(coloured, config, e)])
        video = coloured.tracklets.video[pairs]
        assert (video[:, 0] == video[:, 1]).all()
        shares.append(np.mean(pairs[:, 0] == pairs[:, 1]))
    assert shares[0] > shares[1]
    assert abs(shares[1] - 0.4) < 0.08


def _tpc(data: Dataset, config: Config, epoch: int) -> list[Batch]:
    return drawn("tpc", data, replace(config, train=Train(epochs=40)), epoch)


def test_tpc_s_other_track_is_the_nearest_in_time_or_with_labels_of_the_same_polyp(coloured: Dataset) -> None:
    position, tracks = coloured.tracklets.position, coloured.select("track")
    video, polyp = coloured.tracklets.video, coloured.tracklets.polyp
    always = replace(CONFIG, views=Views(batch=6, alpha_start=0.0, alpha_end=0.0))
    for a, b in np.concatenate([x.tracklet.reshape(-1, 2) for x in _tpc(coloured, always, 0)]).tolist():
        others = [abs(position[t] - position[a]) for t in tracks if video[t] == video[a] and t != a]
        assert a != b
        assert abs(position[b] - position[a]) == min(others)
    labelled = replace(always, views=replace(always.views, source="polyp"))
    for a, b in np.concatenate([x.tracklet.reshape(-1, 2) for x in _tpc(coloured, labelled, 0)]).tolist():
        assert polyp[a] == polyp[b]
        assert a != b


def test_ours_says_what_it_means_that_all_bags_are_of_one_video(
    make_dataset: Callable[..., Path], tmp_path: Path
) -> None:
    def texts(folder: str, videos: list[list[int]], config: Config = CONFIG) -> str:
        data = Dataset.open(make_dataset(tmp_path / folder, videos))
        return "\n".join(METHODS["ours"].plan(data.label_free(), config).notes)

    alone = texts("one", [[2, 3]])
    assert "all bags come from one video" in alone
    assert "-> prepare several procedures, or use --supervision.composition no-overlap" in alone
    assert "all bags" not in texts("two", [[2, 3], [2, 2]])
    larger = replace(CONFIG, supervision=Supervision(bags_per_batch=5, bag_size=3, small_videos="leave-out"))
    assert "all bags come from one video" in texts("hardly-two", [[2, 3], [1]], larger)
    kept_apart = replace(CONFIG, supervision=Supervision(bags_per_batch=5, bag_size=3, composition="no-overlap"))
    assert texts("apart", [[2, 3]], kept_apart).endswith("-> prepare several procedures")


STRICT = replace(CONFIG, views=replace(CONFIG.views, small_polyps="leave-out"))


@pytest.mark.parametrize("config", [CONFIG, STRICT])
def test_sup_draws_polyps_with_equal_numbers_and_uses_no_tracklet_twice(config: Config, coloured: Dataset) -> None:
    batches = drawn("sup", coloured, config)
    used = np.concatenate([b.tracklet for b in batches])
    assert len(set(used)) == len(used)
    for batch in batches:
        _, count = np.unique(coloured.tracklets.polyp[batch.tracklet], return_counts=True)
        assert count.tolist() == [4, 4, 4]
    left = np.unique(np.delete(coloured.tracklets.polyp[:48], used), return_counts=True)[1]
    assert (left >= 4).sum() < 3


def test_sup_draws_small_polyps_with_all_they_have_and_the_release_never_does(
    make_dataset: Callable[..., Path], tmp_path: Path
) -> None:
    data = Dataset.open(make_dataset(tmp_path / "d", [[6, 5, 2], [6, 1]], frames=8))
    polyp = data.tracklets.polyp
    views = Views(polyps_per_batch=2, tracklets_per_polyp=5)
    for small, drawn_sizes, use in (
        ("keep", {1, 2, 5}, "drawn with all they have"),
        ("leave-out", {5}, "never drawn"),
    ):
        config = replace(CONFIG, views=replace(views, small_polyps=small))
        assert METHODS["sup"].plan(data, config).notes == [f"data: 2 of 5 polyps have fewer than 5 tracklets: {use}"]
        sizes = set()
        for epoch in range(20):
            batches = drawn("sup", data, config, epoch)
            used = np.concatenate([b.tracklet[b.tracklet >= 0] for b in batches])
            assert len(set(used)) == len(used)
            for batch in batches:
                assert len(batch.rows) == 10
                assert ((batch.rows >= 0).any(1) == (batch.tracklet >= 0)).all()
                sizes |= set(np.unique(polyp[batch.tracklet[batch.tracklet >= 0]], return_counts=True)[1].tolist())
        assert sizes == drawn_sizes


def test_sup_reduces_batches_where_polyps_are_small_and_logs_it(coloured: Dataset) -> None:
    config = replace(CONFIG, views=Views(polyps_per_batch=4, tracklets_per_polyp=14))
    plan = METHODS["sup"].plan(coloured, config)
    assert plan.notes == ["data: 6 of 6 polyps have fewer than 14 tracklets: drawn with all they have"]
    assert len(plan.epoch(0, 1).batch(0).rows) == 4 * 10
    strict = replace(config, views=replace(config.views, small_polyps="leave-out"))
    plan = METHODS["sup"].plan(coloured, strict)
    assert plan.notes[-1] == "data: batches of 4 polyps x 8 tracklets instead of 4 x 14: polyps are too small"
    assert len(plan.epoch(0, 1).batch(0).rows) == 4 * 8


def test_ta_s_time_runs_from_the_polyp_s_first_frame_to_its_last(coloured: Dataset) -> None:
    table = coloured.tracklets
    for batch in drawn("ta", coloured):
        for tracklet, time in zip(batch.tracklet, batch.position, strict=True):
            same = (table.polyp == table.polyp[tracklet]) & (table.unit == "tracklet")
            first, last = table.position[same].min(), table.last[same].max()
            assert time == pytest.approx((table.position[tracklet] - first) / (last - first))


def test_supervised_methods_refuse_data_without_labels(coloured: Dataset) -> None:
    table = replace(coloured.tracklets, polyp=np.full(len(coloured.tracklets), "", object))
    with pytest.raises(UserError, match="48 of 48 tracklets have no polyp label"):
        METHODS["sup"].plan(replace(coloured, tracklets=table), CONFIG)


def test_batches_shrink_where_there_are_too_few_tracks(coloured: Dataset) -> None:
    plan = METHODS["mve"].plan(coloured.label_free(), replace(CONFIG, views=Views(batch=30)))
    assert plan.notes == ["data: batches of 24 pairs instead of 30, because there are no more tracks"]
    assert len(plan.epoch(0, 1).batch(0).rows) == 48


@pytest.mark.parametrize("name", ["ours", "sup", "ta"])
def test_data_without_tracklets_of_a_fixed_length_are_refused(
    name: str, make_dataset: Callable[..., Path], tmp_path: Path
) -> None:
    short = Dataset.open(make_dataset(tmp_path / "short", [[4, 3], [5, 4]], frames=6))
    with pytest.raises(UserError, match="short: has whole tracks only"):
        drawn(name, short)
