"""A whole evaluation: what is in the results, what is skipped and why, and how rows compare."""

import json
from dataclasses import replace

import numpy as np
import pytest

from polyptrace.config import Evaluate
from polyptrace.core.errors import UserError
from polyptrace.embed import Embeddings
from polyptrace.evaluate import (
    Method,
    Metric,
    Results,
    Task,
    combine,
    compare,
    count,
    evaluate,
    method_of,
    probe,
    reid,
    retrieval,
)
from polyptrace.evaluate.significance import draw_counts

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


def test_every_figure_is_that_of_its_function_on_the_right_unit(embeddings, results):
    tracks, tracklets = embeddings.select("track"), embeddings.select("tracklet")
    found = retrieval(tracks.vectors, tracks.polyp)
    value = {name: figure.value for name, figure in results.tasks["retrieval"].metrics.items()}
    assert value == pytest.approx({"map": found.map, "hr1": found.hr1, "hr5": found.hr5})
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


def test_intervals_contain_their_values_and_every_figure_has_its_draws(results):
    for name, task in results.tasks.items():
        for figure, told in task.metrics.items():
            assert told.low <= told.value + 1e-9, (name, figure)
            assert results.draws(name, figure).shape == (50,)
            if figure not in ("f1", "f1_plain", "fragmentation_sd"):  # not means: a draw is biased
                assert told.value <= told.high + 1e-9, (name, figure)


def test_counts_say_what_there_was(embeddings, results):
    tracks = embeddings.select("track")
    counts = results.tasks["retrieval"].counts
    assert counts["tracklets"] == counts["queries"] == len(tracks)
    assert counts["videos"] == 8
    assert counts["polyps"] == len(set(tracks.polyp))
    pairs = results.tasks["reid"].counts
    assert pairs["same_pairs"] + pairs["different_pairs"] == len(tracks) * (len(tracks) - 1) // 2


def test_results_go_through_the_disk_unchanged(results, tmp_path):
    results.save(tmp_path / "R")
    loaded = Results.load(tmp_path / "R")
    assert loaded.method == results.method
    assert loaded.tasks == results.tasks
    assert loaded.arrays.keys() == results.arrays.keys()
    for name, values in results.arrays.items():
        np.testing.assert_array_equal(values, loaded.arrays[name])
    content = json.loads((tmp_path / "R" / "results.json").read_text())
    assert content["format"] == "polyptrace-results"
    assert content["tasks"]["retrieval"]["metrics"]["map"]["n"] == content["tasks"]["retrieval"]["counts"]["queries"]


def test_an_undefined_figure_is_null_in_json_and_nan_again_when_loaded(results, tmp_path):
    task = results.tasks["reid"]
    undefined = replace(task, metrics={"auroc": replace(task.metrics["auroc"], low=float("nan"))})
    replace(results, tasks={"reid": undefined}).save(tmp_path / "R")
    assert json.loads((tmp_path / "R" / "results.json").read_text())["tasks"]["reid"]["metrics"]["auroc"]["low"] is None
    assert np.isnan(Results.load(tmp_path / "R").tasks["reid"].metrics["auroc"].low)


def test_what_is_no_results_folder_is_told(tmp_path, results):
    with pytest.raises(UserError, match="Q: no such folder -> "):
        Results.load(tmp_path / "Q")
    with pytest.raises(UserError, match="no results in it"):
        Results.load(tmp_path)
    results.save(tmp_path / "R")
    (tmp_path / "R" / "arrays.npz").write_bytes(b"broken")
    with pytest.raises(UserError, match="evaluate again"):
        Results.load(tmp_path / "R")
    (tmp_path / "R" / "results.json").write_text('{"format": "other"}')
    with pytest.raises(UserError, match="not a results folder"):
        Results.load(tmp_path / "R")


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


def test_without_labels_each_task_says_what_it_needs_and_counting_counts():
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


def test_data_that_leave_nothing_to_judge_are_skipped_with_a_reason():
    one = procedures(videos=1)
    results = run(one)
    assert results.tasks["reid"].reason == "there is no pair of tracklets of different polyps"
    assert results.tasks["retrieval.between"].reason == "needs two procedures"
    assert "one" in results.tasks["size"].reason
    assert np.isnan(results.tasks["retrieval"].metrics["map"].low)  # one polyp: no interval
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


def test_tasks_may_have_embeddings_of_their_own(embeddings):
    other = procedures(videos=5)
    results = evaluate({"retrieval": embeddings, "reid": other, "counting": embeddings}, ["retrieval", "reid"], QUICK)
    assert results.tasks["retrieval"].table == "tracks"
    assert results.tasks["reid"].table == "tracks-2"
    assert len(results.arrays["tracks-2/polyp"]) == results.tasks["reid"].counts["tracklets"]


def test_the_bootstrap_can_draw_videos(embeddings, results):
    by_video = run(embeddings, "retrieval", "reid", settings=replace(QUICK, cluster="video"))
    assert by_video.tasks["retrieval"].drawn == 8
    assert results.tasks["retrieval"].drawn == results.tasks["retrieval"].counts["polyps"]
    assert by_video.tasks["reid"].metrics["auroc"].value == results.tasks["reid"].metrics["auroc"].value
    assert by_video.tasks["reid"].metrics["auroc"].low != results.tasks["reid"].metrics["auroc"].low


def test_the_paper_s_protocols_can_be_had_alone(embeddings):
    alone = run(embeddings, "retrieval", "size", settings=replace(QUICK, variants=False))
    assert list(alone.tasks) == ["retrieval", "size"]


def test_an_unknown_task_is_told(embeddings):
    with pytest.raises(UserError, match="retrieval, reid, size"):
        evaluate({"paris": embeddings}, ["paris"])


def test_better_vectors_are_better_on_the_same_draws(results):
    worse = run(procedures(noise=2.5, seed=3), "retrieval", "reid", name="Worse")
    found = compare(results, worse, "retrieval", "map")
    assert found.difference == pytest.approx(
        results.tasks["retrieval"].metrics["map"].value - worse.tasks["retrieval"].metrics["map"].value
    )
    assert found.low > 0
    assert found.p < 0.001
    assert compare(worse, results, "retrieval", "map").difference == -found.difference
    same = compare(results, results, "retrieval", "map")
    assert (same.difference, same.p) == (0.0, 1.0)


def test_rows_of_other_tracklets_or_draws_are_not_compared(embeddings, results):
    others = [
        run(procedures(videos=7), "retrieval"),
        run(embeddings, "retrieval", settings=replace(QUICK, seed=1)),
        run(embeddings, "retrieval", settings=replace(QUICK, bootstrap=60)),
        run(embeddings, "retrieval", settings=replace(QUICK, cluster="video")),
    ]
    for other in others:
        with pytest.raises(UserError, match="not the same tracklets"):
            compare(results, other, "retrieval", "map")
    with pytest.raises(UserError, match="not done"):
        compare(results, others[0], "reid", "auroc")
    with pytest.raises(UserError, match="no figure 'f1'"):
        compare(results, results, "reid", "f1")


def test_the_order_of_the_rows_does_not_change_the_draws(embeddings, results):
    order = np.random.default_rng(0).permutation(len(embeddings))
    shuffled = run(embeddings.rows(order), "retrieval")
    assert shuffled.tasks["retrieval"].draws_key == results.tasks["retrieval"].draws_key
    np.testing.assert_allclose(shuffled.draws("retrieval", "map"), results.draws("retrieval", "map"))


def test_training_seeds_become_one_row_with_a_wider_interval():
    seeds = [run(procedures(seed=s, noise=noise), "retrieval") for s, noise in enumerate((0.8, 1.2, 1.6))]
    joined = combine(seeds)
    values = [row.tasks["retrieval"].metrics["map"].value for row in seeds]
    told = joined.tasks["retrieval"].metrics["map"]
    assert told.value == pytest.approx(np.mean(values))
    assert joined.method.seeds == 3
    np.testing.assert_allclose(joined.arrays["retrieval/seeds/map"], values)
    widths = [f.high - f.low for f in (row.tasks["retrieval"].metrics["map"] for row in seeds)]
    assert told.high - told.low > max(widths)


@pytest.mark.parametrize("number", [0, 1])
def test_as_many_seeds_as_videos_are_not_drawn_alike(number):
    counts, effect = draw_counts(3, 2000, seed=number), np.array([0.0, 0.1, 0.2])

    settings = {"evaluate": {"seed": number}}

    def seed(own: float) -> Results:  # effects of seed and video add up, and would cancel if both were drawn alike
        draws = own + counts @ effect[::-1] / 3
        task = Task("track", "tracks", metrics={"map": Metric(own + 0.1, 0, 1, 9, "queries")}, drawn=3, draws_key="a")
        return Results(Method("Ours"), {"retrieval": task}, {"retrieval/draws/map": draws}, settings)

    joined = combine([seed(own) for own in effect])
    assert joined.draws("retrieval", "map").var() == pytest.approx((effect.var() + effect.var(ddof=1)) / 3, rel=0.15)


def test_seeds_of_different_data_or_methods_are_not_combined(results):
    with pytest.raises(UserError, match="one method"):
        combine([results, replace(results, method=Method("Other"))])
    with pytest.raises(UserError, match="not evaluated alike"):
        combine([results, run(procedures(videos=7))])
    with pytest.raises(UserError, match="no results"):
        combine([])


def test_a_method_takes_over_what_the_embeddings_say():
    info = {
        "encoder": "tracklet",
        "method": {"name": "TA", "group": "Fully supervised", "labels": "labels", "params": 26_400_000},
    }
    method = method_of(replace(procedures(), info=info))
    assert method == Method("TA", "Fully supervised", "labels", "tracklet", 26_400_000)
    assert method_of(procedures()).name == "unnamed"


def test_a_group_or_label_use_that_is_none_is_told():
    with pytest.raises(UserError, match="Endoscopy FM"):
        Method("x", group="Endoscopy")
    with pytest.raises(UserError, match="label-free given tracks"):
        Method("x", labels="none")
