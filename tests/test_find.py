"""Which track is meant, which are like it, and what chance makes of it."""

import numpy as np
import pytest

from polyptrace.core.errors import UserError
from polyptrace.embed import Embeddings
from polyptrace.find import match_table, most_similar, tracks_at
from polyptrace.lesions import fit_same, procedures


def tracks_of(count: int = 60, videos: int = 3, seed: int = 0) -> Embeddings:
    """Random vectors; every procedure has tracks of 10 frames, one every 20 frames."""
    random = np.random.default_rng(seed)
    number = np.arange(count) // videos
    return Embeddings.from_columns(
        {
            "vectors": random.normal(size=(count, 8)),
            "unit": np.full(count, "track"),
            "video": np.array([f"v{row % videos}" for row in range(count)]),
            "track": number,
            "position": number * 20,
            "last": number * 20 + 9,
        }
    )


def test_the_most_alike_come_first_and_chance_is_what_other_procedures_give() -> None:
    tracks = tracks_of()
    actual = most_similar(tracks, 7, "own", top=5)
    unit = tracks.vectors / np.linalg.norm(tracks.vectors, axis=1, keepdims=True)
    expected = []
    for row in range(60):
        if row != 7 and row % 3 == 1:
            cosine = float(unit[row] @ unit[7])
            less = [float(unit[other] @ unit[7]) < cosine for other in range(60) if other % 3 != 1]
            expected.append((cosine, row, sum(less)))
    expected.sort(reverse=True)
    assert (actual.others, actual.searched) == (40, 19)
    assert actual.rows.tolist() == [row for _, row, _ in expected[:5]]
    np.testing.assert_allclose(actual.cosine, [cosine for cosine, _, _ in expected[:5]], atol=1e-6)
    assert actual.beyond.tolist() == [count for _, _, count in expected[:5]]


def test_one_looks_in_the_own_procedure_in_the_others_or_everywhere() -> None:
    tracks = tracks_of()
    own, others, everywhere = (set(most_similar(tracks, 0, a, top=100).rows.tolist()) for a in ("own", "others", "all"))
    assert own == set(range(3, 60, 3))
    assert others == set(range(60)) - set(range(0, 60, 3))
    assert everywhere == own | others
    assert (most_similar(tracks, 0, "others").beyond == -1).all()


def test_what_is_seen_at_the_same_time_cannot_be_it() -> None:
    tracks = tracks_of(6, videos=1)
    tracks.last[2] = 60  # the first frame of track 3
    actual = most_similar(tracks, 2, "own")
    assert sorted(actual.rows.tolist()) == [0, 1, 4, 5]
    assert actual.simultaneous == 1
    assert (actual.beyond == -1).all(), "without other procedures there is nothing to compare with"


def test_tracks_without_frames_are_never_at_the_same_time() -> None:
    columns = {"vectors": np.eye(3), "video": np.array(["v"] * 3), "track": np.arange(3)}
    actual = most_similar(Embeddings.from_columns(columns), 0)
    assert (len(actual.rows), actual.simultaneous) == (2, 0)


@pytest.mark.parametrize(("frame", "track"), [(45, 2), (40, 2), (49, 2), (51, 2), (58, 3), (0, 0), (10**6, 19)])
def test_the_tracks_at_a_frame_or_the_nearest_is_meant(frame: int, track: int) -> None:
    tracks = tracks_of()
    chosen = tracks_at(tracks, "v1", frame=frame)
    assert tracks.track[chosen].tolist() == [track]
    assert tracks.video[chosen].tolist() == ["v1"]


def test_a_track_can_be_named_and_all_tracks_at_a_frame_are_listed() -> None:
    tracks = tracks_of()
    assert tracks_at(tracks, "v2", track=4).tolist() == [14]
    tracks.last[2] = 25
    assert tracks_at(tracks, "v2", frame=22).tolist() == [2, 5]


def test_errors_list_the_valid_choices() -> None:
    tracks = tracks_of()
    with pytest.raises(UserError, match=r"--video v7: .*v0"):
        tracks_at(tracks, "v7", frame=0)
    with pytest.raises(UserError, match=r"--track 99.*0, 1, 2"):
        tracks_at(tracks, "v1", track=99)
    with pytest.raises(UserError, match=r"one of 0, 1, .*29, \.\.\.$"):
        tracks_at(tracks_of(31, videos=1), "v0", track=99)
    tracklets = Embeddings.from_columns({"vectors": np.eye(2), "unit": np.array(["tracklet"] * 2)})
    with pytest.raises(UserError, match="whole tracks"):
        tracklets.whole_tracks("theirs")
    with pytest.raises(UserError, match="'video'"):
        Embeddings.from_columns({"vectors": np.eye(2)}).whole_tracks("theirs")
    tracks.dataset[1::6] = "another"
    with pytest.raises(UserError, match="several datasets"):
        tracks_at(tracks, "v1", frame=0)


def test_the_probability_of_the_same_lesion_is_that_of_the_model() -> None:
    tracks = tracks_of()
    model = fit_same(tracks)
    actual = most_similar(tracks, 7, "all", top=100, model=model)
    group = next(each for each in procedures(tracks) if 7 in each.rows)
    position = {row: index for index, row in enumerate(group.rows.tolist())}
    for row, same in zip(actual.rows.tolist(), actual.same, strict=True):
        if row not in position:
            assert np.isnan(same)
            continue
        i, j = sorted((position[7], position[row]))
        assert same == model.probability(*group.pairs(np.array([i]), np.array([j])))[0]
    lines = match_table(tracks, actual)
    assert [line[1] == "" for line in lines[2:]] == np.isnan(actual.same).tolist()
    assert np.isnan(most_similar(tracks, 7).same).all()
