"""Clusterings and the figures of counting against definitions written out pair by pair."""

import warnings
from itertools import combinations

import numpy as np
import pytest
from sklearn.cluster import AffinityPropagation
from sklearn.metrics import adjusted_rand_score

from polyptrace.core.errors import UserError
from polyptrace.data.identity import by_appearance
from polyptrace.embed import Embeddings
from polyptrace.evaluate import count
from polyptrace.evaluate.counting import (
    DEFAULT_SETTING,
    SETTINGS,
    affinity_propagation,
    closeness,
    count_lesions,
    minmax,
)


def cluster(vectors, method, setting=None, **frames):
    """The clusters of the tracks of one procedure."""
    return count(vectors, ["v"] * len(vectors), method=method, setting=setting, **frames).cluster


def procedures(videos=5, seed=0, noise=0.6):
    """(vectors, video, polyp, first frame): one to three polyps a video, a few tracks of each."""
    rng = np.random.default_rng(seed)
    rows = []
    for v in range(videos):
        for p in range(1 + v % 3):
            centre = rng.standard_normal(16)
            rows += [
                (centre + noise * rng.standard_normal(16), f"v{v}", f"v{v}_{p}", 2000 * p + 60 * t)
                for t in range(rng.integers(2, 6))
            ]
    vectors, video, polyp, first = zip(*rows, strict=True)
    return np.array(vectors), np.array(video), np.array(polyp), np.array(first)


def linked(vectors, threshold):
    """Connected components by walking the links."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    labels, number = [-1] * len(unit), 0
    for start in range(len(unit)):
        if labels[start] >= 0:
            continue
        frontier = [start]
        while frontier:
            here = frontier.pop()
            labels[here] = number
            frontier += [j for j in range(len(unit)) if labels[j] < 0 and unit[here] @ unit[j] >= threshold]
        number += 1
    return labels


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.6, 0.95])
def test_a_threshold_gives_connected_components_in_order_of_appearance(threshold):
    vectors = np.random.default_rng(1).standard_normal((25, 3))
    assert cluster(vectors, "threshold", threshold).tolist() == linked(vectors, threshold)


def test_copies_are_one_cluster_at_threshold_one():
    assert cluster(np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 6.0]]), "threshold", 1.0).tolist() == [0, 1, 0]


def test_without_a_setting_the_default_is_used():
    vectors, *_, first = procedures(1)
    for method, setting in DEFAULT_SETTING.items():
        kept = {"first": first, "last": first + 30}
        np.testing.assert_array_equal(cluster(vectors, method, **kept), cluster(vectors, method, setting, **kept))


def test_temporal_similarity_mixes_scaled_cosines_and_closeness_in_time():
    vectors = np.random.default_rng(2).standard_normal((4, 5))
    first, last = np.array([0, 50, 40, 900]), np.array([45, 60, 80, 999])
    close = closeness(first, last)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    plain = unit @ unit.T
    alike = (plain - plain.min()) / (plain.max() - plain.min())
    np.testing.assert_allclose(minmax(plain), alike)
    for setting in (0.3, 0.7):
        expected = by_appearance(affinity_propagation(setting * alike + (1 - setting) * close, 0.0))
        actual = cluster(vectors, "temporal", setting, first=first, last=last)
        np.testing.assert_array_equal(actual, expected)
    gap = np.array([[0, 5, 0, 855], [5, 0, 0, 840], [0, 0, 0, 820], [855, 840, 820, 0]])
    decayed = np.exp(-gap / 1000)
    np.testing.assert_allclose(close, (decayed - decayed.min()) / (1 - decayed.min()))


def test_temporal_clustering_joins_what_is_close_in_time():
    vectors = np.random.default_rng(3).standard_normal((6, 50))
    first = np.array([0, 40, 80, 5000, 5040, 5080])
    actual = cluster(vectors, "temporal", 0.3, first=first, last=first + 30)
    assert actual.tolist() == [0, 0, 0, 1, 1, 1]


def test_one_track_is_one_cluster():
    for method in SETTINGS:
        assert cluster(np.ones((1, 4)), method, first=[0], last=[9]).tolist() == [0]


def expected_counts(labels, polyp):
    """FP, TN, TP, FN pair by pair."""
    actual = [0, 0, 0, 0]
    for i, j in combinations(range(len(polyp)), 2):
        together, same = labels[i] == labels[j], polyp[i] == polyp[j]
        actual[{(True, False): 0, (False, False): 1, (True, True): 2, (False, True): 3}[together, same]] += 1
    return actual


def test_a_fixed_setting_gives_pairs_clusters_and_fragmentation():
    vectors, video, polyp, _ = procedures(noise=1.0)
    actual = count(vectors, video, polyp, setting=0.4)
    names = np.unique(video)
    fragments, errors = [], []
    for number, name in enumerate(names):
        own = video == name
        labels = linked(vectors[own], 0.4)
        assert actual.cluster[own].tolist() == labels
        assert actual.pairs[number].tolist() == expected_counts(labels, polyp[own])
        fragments.append(len(set(labels)) / len(set(polyp[own])))
        errors.append(len(set(labels)) - len(set(polyp[own])))
    assert actual.fragmentation == pytest.approx(np.mean(fragments))
    assert actual.errors.tolist() == errors
    several = np.array([len(set(polyp[video == name])) > 1 for name in names])
    false, true = actual.pairs[several, 0].sum(), actual.pairs[several, 1].sum()
    assert actual.false_positive_rate == pytest.approx(false / (false + true))
    assert actual.recall == pytest.approx(actual.pairs[:, 2].sum() / actual.pairs[:, 2:].sum())
    assert not actual.tuned.any()


def test_each_video_is_clustered_with_the_setting_tuned_on_the_other_videos():
    vectors, video, polyp, _ = procedures(noise=1.0)
    actual = count(vectors, video, polyp)
    names = np.unique(video)
    for left_out, name in enumerate(names):
        distance = []
        for setting in SETTINGS["threshold"]:
            false = true = clusters = 0
            for other in names[names != name]:
                own = video == other
                if len(set(polyp[own])) < 2:
                    continue
                labels = linked(vectors[own], setting)
                fp, tn, _, _ = expected_counts(labels, polyp[own])
                false, true, clusters = false + fp, true + tn, clusters + len(set(labels))
            distance.append((round(abs(false / (false + true) - 0.05), 12), clusters))
        best = SETTINGS["threshold"][distance.index(min(distance))]
        assert actual.setting[left_out] == best
    assert actual.tuned.all()


def test_a_video_does_not_tune_its_own_setting():
    vectors, video, polyp, _ = procedures()
    before = count(vectors, video, polyp).setting[1]
    changed = vectors.copy()
    changed[video == "v1"] = np.random.default_rng(9).standard_normal(changed[video == "v1"].shape)
    assert count(changed, video, polyp).setting[1] == before


def test_well_separated_polyps_are_counted_right_by_every_clustering():
    vectors, video, polyp, first = procedures(noise=0.05)
    for method in ("threshold", "affinity"):
        actual = count(vectors, video, polyp, method=method, first=first, last=first + 30)
        assert actual.fragmentation == pytest.approx(1.0, abs=0.35)
        assert actual.recall > 0.95


def test_without_labels_the_default_is_used_and_there_are_no_metrics():
    vectors, video, *_ = procedures()
    actual = count(vectors, video)
    assert (actual.setting == DEFAULT_SETTING["threshold"]).all()
    assert (actual.polyps == -1).all()
    assert not actual.tuned.any()
    assert np.isnan([actual.fragmentation, actual.false_positive_rate, actual.recall]).all()
    assert (actual.clusters >= 1).all()


def test_where_no_other_video_has_two_polyps_the_default_is_used():
    vectors, video, polyp, _ = procedures(videos=2)  # one polyp, two polyps
    actual = count(vectors, video, polyp)
    assert actual.tuned.tolist() == [True, False]
    assert actual.setting[1] == DEFAULT_SETTING["threshold"]


def test_a_video_with_a_track_of_unknown_polyp_has_clusters_and_no_fragmentation():
    vectors, video, polyp, _ = procedures()
    polyp[np.flatnonzero(video == "v2")[0]] = ""
    actual = count(vectors, video, polyp)
    assert actual.labelled.tolist() == [True, True, False, True, True]
    assert len(actual.fragmentations) == 4


def test_wrong_arguments_are_errors():
    with pytest.raises(UserError, match="threshold, affinity, temporal"):
        count(np.eye(2), ["v", "v"], method="kmeans")
    with pytest.raises(UserError, match="row 1 has no video"):
        count(np.eye(2), ["v", ""])
    with pytest.raises(UserError, match="row 2 contains NaN"):
        count(np.array([[1.0], [1.0], [np.nan]]), ["v", "w", "w"])
    with pytest.raises(UserError, match="first and last frame"):
        count(np.eye(2), ["v", "v"], method="temporal")


def exemplar_clusters(similarity, preference):
    """scikit-learn's labels for a matrix without ties."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labels = AffinityPropagation(
            affinity="precomputed",
            damping=0.9,
            max_iter=500,
            convergence_iter=50,
            preference=preference,
            random_state=0,
        )
        labels = labels.fit(similarity).labels_
    return np.arange(len(labels)) if (labels < 0).all() else labels


@pytest.mark.parametrize("tracks", [2, 3, 5, 12, 30])
def test_affinity_propagation_gives_scikit_learns_clusters_where_there_are_no_ties(tracks):
    for seed in range(3):
        rng = np.random.default_rng([seed, tracks])
        vectors = rng.standard_normal((4, 16))[rng.integers(0, 4, tracks)] + 0.5 * rng.standard_normal((tracks, 16))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        similarity = vectors @ vectors.T + 1e-3 * rng.standard_normal((tracks, tracks))
        for preference in np.linspace(-5, 5, 11):
            labels = affinity_propagation(similarity, preference)
            assert adjusted_rand_score(labels, exemplar_clusters(similarity, preference)) == 1.0


def test_the_published_preferences_leave_every_track_alone_where_cosines_are_high():
    vectors, video, polyp, _ = procedures(videos=6, noise=1.2)
    vectors = vectors + 12 * np.ones(16)  # a common part, as encoders give all vectors
    tuned = count(vectors, video, polyp, method="affinity")
    assert set(tuned.setting) == {1.0}  # the next lower candidate, 0.5, is below all cosines: one cluster
    assert tuned.false_positive_rate == 0
    assert tuned.clusters.sum() == len(vectors)
    assert count(vectors, video, polyp, method="affinity", setting=0.5).clusters.tolist() == [1] * 6
    assert 6 < count(vectors, video, polyp, method="affinity", setting=0.98).clusters.sum() < len(vectors)


def test_equal_similarities_are_one_cluster_unless_the_preference_is_higher():
    equal = np.full((3, 3), 0.4)
    assert affinity_propagation(equal, 0.4).tolist() == [0, 0, 0]
    assert affinity_propagation(equal, 0.5).tolist() == [0, 1, 2]


def test_affinity_propagation_settles_on_two_symmetric_pairs():
    similarity = np.array([[1, 0.9, 0, 0], [0.9, 1, 0, 0], [0, 0, 1, 0.9], [0, 0, 0.9, 1]])
    assert affinity_propagation(similarity, 0.5).tolist() == [0, 0, 1, 1]


def test_lesions_are_counted_without_labels_and_judged_with_them() -> None:
    random = np.random.default_rng(0)
    polyp = np.repeat([0, 1, 0, 2, 3, 3], 4)
    video = np.repeat(["a", "a", "a", "b", "b", "b"], 4)
    first = np.concatenate([np.arange(4) * 60 + visit * 3000 for visit in (0, 1, 2, 0, 1, 2)])
    columns = {
        "vectors": random.normal(size=(4, 16))[polyp] + 0.2 * random.normal(size=(24, 16)),
        "video": video.astype(object),
        "position": first,
        "last": first + 40,
        "fps": np.full(24, 25.0),
    }
    tracks = Embeddings.from_columns(columns)
    counted = count_lesions(tracks, video, polyp)
    assert counted.clusters.tolist() == counted.polyps.tolist() == [2, 2]
    assert counted.pairs[:, [0, 3]].sum() == 0
    assert counted.rand.tolist() == [1.0, 1.0]
    assert counted.interval is not None
    assert (counted.interval[:, 0] <= 2).all()
    assert (counted.interval[:, 1] >= 2).all()
    np.testing.assert_array_equal(count_lesions(tracks, video).cluster, counted.cluster)


@pytest.mark.parametrize("seed", range(5))
def test_the_adjusted_rand_index_is_that_of_scikit_learn(seed: int) -> None:
    random = np.random.default_rng(seed)
    vectors, polyp = random.normal(size=(20, 3)), random.integers(4, size=20)
    counted = count(vectors, ["v"] * 20, polyp, setting=0.6)
    assert counted.rand[0] == pytest.approx(adjusted_rand_score(polyp, counted.cluster))
