"""A complete evaluation: metrics, skipped tasks with reasons, comparisons of rows, and inputs."""

from dataclasses import replace

import numpy as np
import pytest

from polyptrace.config import Evaluate
from polyptrace.core.errors import PolyptraceWarning, UserError
from polyptrace.embed import Embeddings
from polyptrace.evaluate import count, evaluate, probe, reid, retrieval
from polyptrace.evaluate.inputs import join_inputs
from polyptrace.evaluate.results import Method, combine, compare, method_of

QUICK = Evaluate(bootstrap=50, repeats=2, device="cpu")


def procedures(videos=8, seed=0, noise=1.0, centres=0, width=12, without=()):
    """Embeddings of tracks and tracklets; `centres` seeds the polyps, `seed` the views of them."""
    rng, views = np.random.default_rng(centres), np.random.default_rng([seed, 1])
    rows = []
    for v in range(videos):
        for p in range(1 + v % 3):
            centre, size, histology = rng.standard_normal(width), rng.uniform(2, 9), ["AD", "HP"][int(rng.integers(2))]
            for t in range(rng.integers(3, 6)):
                first = 3000 * p + 200 * t
                rows.append(("track", f"v{v}", f"v{v}_{p}", first, first + 80, size, histology, centre))
                rows += [
                    ("tracklet", f"v{v}", f"v{v}_{p}", first + 32 * k, first + 32 * k + 28, size, histology, centre)
                    for k in range(2)
                ]
    unit, video, polyp, first, last, size, histology, centre = zip(*rows, strict=True)
    columns = {
        "vectors": np.array(centre) + noise * views.standard_normal((len(rows), width)),
        "unit": np.array(unit),
        "dataset": np.array(["generated"] * len(rows)),
        "video": np.array(video),
        "track": np.arange(len(rows)),
        "position": np.array(first),
        "last": np.array(last),
        "fps": np.full(len(rows), 25.0),
        "polyp": np.array(polyp),
        "size_mm": np.array(size),
        "histology": np.array(histology),
    }
    return Embeddings.from_columns({name: values for name, values in columns.items() if name not in without})


def run(embeddings, *tasks, settings=QUICK, name="Ours"):
    chosen = tasks or ("retrieval", "reid", "size", "histology", "counting")
    return evaluate(dict.fromkeys(chosen, embeddings), chosen, settings, method=Method(name))


@pytest.fixture(scope="module")
def embeddings():
    return procedures()


@pytest.fixture(scope="module")
def results(embeddings):
    return run(embeddings)


def test_every_metric_is_that_of_its_function_on_the_right_unit(embeddings, results):
    tracks, tracklets = embeddings.select("track"), embeddings.select("tracklet")
    actual = retrieval(tracks.vectors, tracks.polyp)
    value = {name: figure.value for name, figure in results.tasks["retrieval"].metrics.items()}
    assert value == pytest.approx({"map": actual.map, "hr1": actual.hr1, "hr5": actual.hr5})
    judged = reid(tracks.vectors, tracks.polyp)
    assert results.tasks["reid"].metrics["auroc"].value == pytest.approx(judged.auroc)
    assert results.tasks["reid"].metrics["aupr"].value == pytest.approx(judged.aupr)
    read = probe(
        tracklets.vectors, tracklets.size_mm > 5, tracklets.polyp, dataset=tracklets.dataset, lr=1e-4, repeats=2
    )
    assert results.tasks["size"].metrics["f1"].value == pytest.approx(read.f1)
    counted = count(tracks.vectors, tracks.video, tracks.polyp, method="affinity")
    assert results.tasks["counting.affinity"].metrics["fragmentation"].value == pytest.approx(counted.fragmentation)
    spread = results.tasks["counting.affinity"].metrics["fragmentation_sd"].value
    assert spread == pytest.approx(counted.fragmentations.std())
    assert results.tasks["counting.affinity"].metrics["false_positive_rate"].value == pytest.approx(
        counted.false_positive_rate
    )


def test_variants_restrict_the_gallery(embeddings, results):
    tracks = embeddings.select("track")
    within = retrieval(tracks.vectors, tracks.polyp, scope="within", video=tracks.video)
    assert results.tasks["retrieval.within"].metrics["map"].value == pytest.approx(within.map)
    apart = retrieval(
        tracks.vectors,
        tracks.polyp,
        video=tracks.video,
        start=tracks.position / 25,
        end=tracks.last / 25,
        apart=10.0,
    )
    assert results.tasks["retrieval.apart"].metrics["map"].value == pytest.approx(apart.map)
    assert results.tasks["retrieval.apart"].counts["queries"] == apart.queries
    assert results.tasks["retrieval.across"].reason == "no polyp is seen in two procedures"


def test_intervals_contain_their_values_and_every_metric_has_draws(results):
    for name, task in results.tasks.items():
        for key, metric in task.metrics.items():
            assert metric.low <= metric.value + 1e-9, (name, key)
            assert results.arrays[f"{name}/draws/{key}"].shape == (50,)
            if key not in ("f1", "f1_plain", "fragmentation_sd"):  # not means: the draws are biased
                assert metric.value <= metric.high + 1e-9, (name, key)


def test_counts_describe_the_data(embeddings, results):
    tracks = embeddings.select("track")
    counts = results.tasks["retrieval"].counts
    assert counts["tracklets"] == counts["queries"] == len(tracks)
    assert counts["videos"] == 8
    assert counts["polyps"] == len(set(tracks.polyp))
    pairs = results.tasks["reid"].counts
    assert pairs["same_pairs"] + pairs["different_pairs"] == len(tracks) * (len(tracks) - 1) // 2


def test_arrays_point_into_the_table_of_their_task(embeddings, results):
    tracks = embeddings.select("track")
    arrays = results.arrays
    np.testing.assert_array_equal(arrays["tracks/polyp"], tracks.polyp.astype(str))
    assert arrays["retrieval/top"].shape == (len(tracks), 5)
    hit = arrays["tracks/polyp"][arrays["retrieval/top"][:, 0]] == arrays["tracks/polyp"][arrays["retrieval/query"]]
    np.testing.assert_array_equal(hit, arrays["retrieval/hit1"])
    sizes = arrays["tracklets/size_mm"][arrays["size/index"]]
    np.testing.assert_array_equal(arrays["size/label"], sizes > 5)
    assert arrays["reid/same"].sum() == results.tasks["reid"].counts["same_pairs"]
    assert arrays["counting.threshold/cluster"].shape == (len(tracks),)
    unit = tracks.vectors / np.linalg.norm(tracks.vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(arrays["tracks/plane_vectors"], unit[arrays["tracks/plane_index"]], atol=1e-3)


def test_without_labels_each_task_gives_its_reason_and_counting_counts():
    bare = procedures(without=("polyp", "size_mm", "histology"))
    results = run(bare)
    for name in ("retrieval", "retrieval.within", "reid"):
        assert results.tasks[name].status == "skipped"
        assert "needs polyp labels" in results.tasks[name].reason
    assert "size_mm" in results.tasks["size"].reason
    assert "histology" in results.tasks["histology"].reason
    counted = results.tasks["counting.threshold"]
    assert counted.status == "done"
    assert "the default, 0.5" in counted.reason
    assert list(counted.metrics) == ["clusters"]


def test_a_task_without_its_columns_is_skipped_with_a_reason():
    results = run(procedures(without=("video", "position", "last", "fps")))
    assert results.tasks["retrieval"].status == "done"
    for name in ("retrieval.within", "retrieval.apart", "counting.threshold", "size.video"):
        assert results.tasks[name].status == "skipped", name
        assert "video" in results.tasks[name].reason
    timeless = run(procedures(without=("position", "last", "fps")), "retrieval", "counting")
    assert "frame rate" in timeless.tasks["retrieval.apart"].reason
    assert "first and last frame" in timeless.tasks["counting.temporal"].reason
    assert timeless.tasks["counting.threshold"].status == "done"


def test_data_without_queries_or_pairs_are_skipped_with_a_reason():
    one = procedures(videos=1)
    results = run(one)
    assert results.tasks["reid"].reason == "there is no pair of tracklets of different polyps"
    assert results.tasks["retrieval.between"].reason == "needs two procedures"
    assert "one" in results.tasks["size"].reason
    assert np.isnan(results.tasks["retrieval"].metrics["map"].low)
    assert "one video" in results.tasks["retrieval"].reason
    alone = one.rows(np.flatnonzero(one.unit == "track")[:1])
    results = run(alone)
    assert "no query" in results.tasks["retrieval"].reason
    assert "no pair" in results.tasks["reid"].reason
    assert "no tracklets" in results.tasks["size"].reason


def test_polyps_of_two_datasets_may_share_a_name():
    one, other = procedures(), procedures(centres=5)
    joined = Embeddings(
        **{
            name: np.concatenate([getattr(one, name), getattr(other, name)])
            for name in (
                *("vectors", "unit", "video", "track", "position", "last"),
                *("fps", "polyp", "size_mm", "histology"),
            )
        },
        dataset=np.array(["a"] * len(one) + ["b"] * len(other), dtype=object),
    )
    results = run(joined, "retrieval")
    assert results.tasks["retrieval"].counts["polyps"] == 2 * len(set(one.polyp))
    assert results.tasks["retrieval"].datasets == ("a", "b")


def test_tasks_may_have_different_embeddings(embeddings):
    other = procedures(videos=5)
    results = evaluate({"retrieval": embeddings, "reid": other, "counting": embeddings}, ["retrieval", "reid"], QUICK)
    assert results.tasks["retrieval"].table == "tracks"
    assert results.tasks["reid"].table == "tracks-2"
    assert len(results.arrays["tracks-2/polyp"]) == results.tasks["reid"].counts["tracklets"]


def test_the_bootstrap_draws_videos_or_polyps(embeddings, results):
    by_polyp = run(embeddings, "retrieval", "reid", settings=replace(QUICK, cluster="polyp"))
    assert results.tasks["retrieval"].drawn == 8
    assert by_polyp.tasks["retrieval"].drawn == results.tasks["retrieval"].counts["polyps"]
    assert by_polyp.tasks["reid"].metrics["auroc"].value == results.tasks["reid"].metrics["auroc"].value
    assert by_polyp.tasks["reid"].metrics["auroc"].low != results.tasks["reid"].metrics["auroc"].low


def test_polyps_are_drawn_where_videos_are_unknown_and_a_remark_says_so():
    task = run(procedures(without=("video",)), "retrieval").tasks["retrieval"]
    assert task.protocol["cluster"] == "polyp"
    assert "videos are unknown" in task.reason
    assert not np.isnan(task.metrics["map"].low)


def test_variants_can_be_switched_off(embeddings):
    alone = run(embeddings, "retrieval", "size", settings=replace(QUICK, variants=False))
    assert list(alone.tasks) == ["retrieval", "size"]


def test_an_unknown_task_is_an_error(embeddings):
    with pytest.raises(UserError, match="retrieval, reid, size"):
        evaluate({"paris": embeddings}, ["paris"])


def test_better_vectors_are_better_on_the_same_draws(results):
    worse = run(procedures(noise=2.5, seed=3), "retrieval", "reid", name="Worse")
    actual = compare(results, worse, "retrieval", "map")
    assert actual.difference == pytest.approx(
        results.tasks["retrieval"].metrics["map"].value - worse.tasks["retrieval"].metrics["map"].value
    )
    assert actual.low > 0
    assert actual.p < 0.001
    assert compare(worse, results, "retrieval", "map").difference == -actual.difference
    same = compare(results, results, "retrieval", "map")
    assert (same.difference, same.p) == (0.0, 1.0)


def test_rows_of_other_tracklets_or_draws_are_not_compared(embeddings, results):
    others = [
        run(procedures(videos=7), "retrieval"),
        run(embeddings, "retrieval", settings=replace(QUICK, seed=1)),
        run(embeddings, "retrieval", settings=replace(QUICK, bootstrap=60)),
        run(embeddings, "retrieval", settings=replace(QUICK, cluster="polyp")),
    ]
    for other in others:
        with pytest.raises(UserError, match="not the same tracklets"):
            compare(results, other, "retrieval", "map")
    with pytest.raises(UserError, match="not done"):
        compare(results, others[0], "reid", "auroc")
    with pytest.raises(UserError, match="no metric 'f1'"):
        compare(results, results, "reid", "f1")


def test_the_order_of_the_rows_does_not_change_the_draws(embeddings, results):
    order = np.random.default_rng(0).permutation(len(embeddings))
    shuffled = run(embeddings.rows(order), "retrieval")
    assert shuffled.tasks["retrieval"].draws_key == results.tasks["retrieval"].draws_key
    np.testing.assert_allclose(shuffled.arrays["retrieval/draws/map"], results.arrays["retrieval/draws/map"])


def test_training_seeds_become_one_row_with_a_wider_interval():
    seeds = [run(procedures(seed=s, noise=noise), "retrieval") for s, noise in enumerate((0.8, 1.2, 1.6))]
    joined = combine(seeds)
    values = [row.tasks["retrieval"].metrics["map"].value for row in seeds]
    metric = joined.tasks["retrieval"].metrics["map"]
    assert metric.value == pytest.approx(np.mean(values))
    assert joined.method.seeds == 3
    np.testing.assert_allclose(joined.arrays["retrieval/seeds/map"], values)
    widths = [f.high - f.low for f in (row.tasks["retrieval"].metrics["map"] for row in seeds)]
    assert metric.high - metric.low > max(widths)


def test_seeds_of_different_data_or_methods_are_not_combined(results):
    with pytest.raises(UserError, match="one method"):
        combine([results, replace(results, method=Method("Other"))])
    with pytest.raises(UserError, match="evaluated differently"):
        combine([results, run(procedures(videos=7))])
    with pytest.raises(UserError, match="no results"):
        combine([])


def test_the_method_is_read_from_the_embeddings():
    info = {
        "encoder": "tracklet",
        "method": {"name": "TA", "group": "Fully supervised", "labels": "labels", "params": 26_400_000},
    }
    method = method_of(replace(procedures(), info=info))
    assert method == Method("TA", "Fully supervised", "labels", "tracklet", 26_400_000)
    assert method_of(procedures()).name == "unnamed"


def four_tracks(polyp: str = "") -> Embeddings:
    """Two videos of two tracks each whose cosine is 0.8."""
    vectors = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]])
    columns = {"vectors": vectors, "video": np.array(["a", "a", "b", "b"]), "track": np.arange(4) % 2}
    return Embeddings.from_columns({**columns, "position": np.arange(4) * 100, "polyp": np.full(4, polyp)})


@pytest.mark.parametrize(("threshold", "polyps", "remark"), [(None, 1, "default, 0.5"), (0.9, 2, "yours, 0.9")])
def test_without_labels_the_users_setting_or_else_the_default_is_used(
    threshold: float | None, polyps: int, remark: str
) -> None:
    settings = Evaluate(bootstrap=20, count_threshold=threshold)
    task = evaluate({"counting": four_tracks()}, ["counting"], settings).tasks["counting.threshold"]
    assert task.metrics["clusters"].value == polyps
    assert remark in task.reason
    assert task.protocol["given"] == threshold


def test_a_given_setting_is_not_tuned_even_where_labels_are_known() -> None:
    settings = Evaluate(bootstrap=20, count_threshold=0.9)
    results = evaluate({"counting": four_tracks("p")}, ["counting"], settings)
    assert results.tasks["counting.threshold"].protocol["tuning"] == "none"
    assert (results.arrays["counting.threshold/setting"] == 0.9).all()


def test_generated_data_are_marked():
    embeddings = procedures()
    assert not run(embeddings, "retrieval").generated
    assert run(replace(embeddings, info={"generated": True}), "retrieval").generated


def given_split(share=0.5):
    """Tracklets of 16 videos, as the training and the test part of a split by polyp."""
    whole = procedures(videos=16)
    whole = whole.rows(whole.unit == "tracklet")
    polyps = np.unique(whole.polyp)
    test = np.isin(whole.polyp, polyps[: round(share * len(polyps))])
    return whole.rows(~test), whole.rows(test)


def test_a_given_split_is_used_unchanged():
    train, test = given_split()
    results = evaluate({"size": test}, ["size"], QUICK, train={"size": train})
    task = results.tasks["size"]
    assert list(results.tasks) == ["size"]  # no split by video beside a given one
    assert task.protocol["split"] == "given"
    assert task.metrics["f1"].n == len(test)
    assert task.counts["polyps_in_both_parts"] == 0
    assert task.drawn == len(set(test.video))
    tested = ~np.isnan(results.arrays["size/probability"]).any(axis=0)
    polyps = results.arrays["tracklets/polyp"][results.arrays["size/index"]]
    assert set(polyps[tested]) == set(test.polyp)
    assert set(polyps[~tested]) == set(train.polyp)
    expected = probe(
        np.concatenate([test.vectors, train.vectors]),
        np.concatenate([test.size_mm, train.size_mm]) > 5,
        np.concatenate([test.polyp, train.polyp]),
        test=np.arange(len(test) + len(train)) < len(test),
        repeats=2,
    )
    assert task.metrics["f1"].value == pytest.approx(expected.f1)


def test_a_given_split_with_a_polyp_in_both_parts_is_reported():
    train, test = given_split()
    leaked = replace(train, polyp=np.where(np.arange(len(train)) == 0, test.polyp[0], train.polyp))
    with pytest.warns(PolyptraceWarning, match="1 polyp in both parts"):
        results = evaluate({"size": test}, ["size"], QUICK, train={"size": leaked})
    assert results.tasks["size"].counts["polyps_in_both_parts"] == 1


def test_only_probes_have_a_training_part(embeddings):
    with pytest.raises(UserError, match="retrieval trains nothing"):
        evaluate({"retrieval": embeddings}, ["retrieval"], QUICK, train={"retrieval": embeddings})


def test_two_inputs_with_the_same_video_of_the_same_dataset_are_an_error():
    one, other = procedures(), procedures(centres=5)
    with pytest.raises(UserError, match=r"A and B both contain 'v0' of dataset 'generated' -> .*different names"):
        join_inputs([("A", one), ("B", other)], "embeddings")
    renamed = replace(other, dataset=np.full(len(other), "other", dtype=object))
    joined = join_inputs([("A", one), ("B", renamed)], "embeddings")
    polyps = run(joined, "retrieval").tasks["retrieval"].counts["polyps"]
    assert polyps == len(set(one.polyp)) + len(set(other.polyp))


def test_two_inputs_without_videos_must_not_share_polyps():
    one, other = (procedures(centres=seed, without=("video",)) for seed in (0, 5))
    with pytest.raises(UserError, match="both contain 'polyp v0_0' of dataset 'generated'"):
        join_inputs([("A", one), ("B", other)], "embeddings")


def test_tracks_and_tracklets_of_a_video_may_come_from_two_inputs():
    whole = procedures()
    parts = [(unit, whole.rows(whole.unit == unit)) for unit in ("track", "tracklet")]
    assert len(join_inputs(parts, "embeddings")) == len(whole)
