"""python -m benchmarks linking_detections

Linking of a detector's boxes: ours, ByteTrack and OC-SORT (package `trackers`) on the same boxes, by HOTA, IDF1 and
fragmentations (package `trackeval`); the extra `benchmarks` installs both packages. The boxes are those of generated
procedures with shaking edges, misses that come in runs, weak scores, false positives and jumps of the camera. The truth
are the tracks of each polyp. As in `prepare`, tracks that span less than 30 frames are dropped, in the truth and in all
results.

With real clips in the MOT layout in the folder `ldpolyp` (one polyp per clip, as for `benchmarks clips`), the same on
their boxes, with the real movement of the camera instead of jumps.
"""

import io
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import supervision as sv
from trackers import ByteTrackTracker, OCSORTTracker
from trackeval.metrics import CLEAR, HOTA, Identity

from benchmarks.result import Cells, Result, Row
from polyptrace.cli.detect import LINKING
from polyptrace.config import Tracks
from polyptrace.core.arrays import Floats, Ints
from polyptrace.data import Boxes, link_tracks, read_mot
from polyptrace.data.tracks import link_with_settings
from polyptrace.synthetic import find_preset
from polyptrace.synthetic.procedure import draw_procedures

MIN_TRACK = 30
FORGET = 40  # frames; the trackers keep a lost track for 30
PLAIN = Tracks(link="video", max_gap=3)
CLIPS = Path("ldpolyp")
Linker = Callable[[Boxes], Ints]


def detections(
    truth: Boxes, rng: np.random.Generator, jump: float = 0.02, extent: float = 200.0
) -> tuple[Boxes, Boxes]:
    """The truth after jumps of the camera in a share of the frames, and what a detector finds in it.

    False positives are in the first `extent` pixels of a frame's rows and columns.
    """
    frames, index = np.unique(truth.frame_index, return_inverse=True)
    size = float(np.median(truth.xywh[:, 2]))
    jumps = (rng.random(len(frames)) < jump)[:, None] * rng.normal(0, 0.7 * size, (len(frames), 2))
    moved = truth.xywh + np.pad(np.cumsum(jumps - jumps.mean(0), 0)[index], ((0, 0), (0, 2)))
    truth = replace(truth, xywh=moved)
    miss = rng.random(len(frames)) < 0.03
    missed = (miss | np.roll(miss, 1) | (np.roll(miss, 2) & (rng.random(len(frames)) < 0.5)))[index]
    score = np.clip(rng.normal(0.7, 0.2, len(truth)), 0.11, 0.99)
    shaken = moved + rng.normal(0, 0.05, moved.shape) * moved[:, 2:].repeat(2, 1)
    detected = replace(truth, xywh=shaken, score=score).take(~missed)
    false = rng.choice(frames, len(truth) // 5)
    wide = rng.uniform(0.5, 1.5, (len(false), 1)) * size
    xywh = np.concatenate([rng.uniform(0, extent, (len(false), 2)), wide, wide], 1)
    alarms = Boxes.of(video=truth.video[0], frame_index=false, xywh=xywh, score=rng.beta(2, 5, len(false)))
    alarms = replace(alarms, dataset=detected.dataset[:1].repeat(len(false)))
    return truth, Boxes.concatenate([detected, alarms]).in_order()


def tracker(make: Callable[[], object]) -> Linker:
    """A tracker of the package as a function of boxes; -1 where it gives no id."""

    def link(boxes: Boxes) -> Ints:
        model, track = make(), np.full(len(boxes), -1)
        near = np.unique(boxes.frame_index[:, None] + np.arange(FORGET))  # later, a tracker has forgotten every track
        for frame in near.tolist():
            rows = np.arange(*np.searchsorted(boxes.frame_index, (frame, frame + 1)))
            corners = np.concatenate([boxes.xywh[rows, :2], boxes.xywh[rows, :2] + boxes.xywh[rows, 2:]], 1)
            given = sv.Detections(xyxy=corners.astype(np.float32), confidence=boxes.score[rows].astype(np.float32))
            given.data["row"] = rows
            tracked = model.update(given)
            if len(tracked):
                track[tracked.data["row"]] = tracked.tracker_id
        return track

    return link


LINKERS: dict[str, Linker] = {
    "one threshold (score 0.5, 3 missed frames)": lambda boxes: np.where(
        boxes.score >= 0.5, _subset(boxes, boxes.score >= 0.5, PLAIN), -1
    ),
    "polyptrace run": lambda boxes: link_with_settings(boxes, LINKING),
    "ByteTrack": tracker(lambda: ByteTrackTracker(track_activation_threshold=0.5, high_conf_det_threshold=0.5)),
    "OC-SORT": tracker(lambda: OCSORTTracker(minimum_iou_threshold=0.1, high_conf_det_threshold=0.5)),
}


def _subset(boxes: Boxes, rows: np.ndarray, settings: Tracks) -> Ints:
    track = np.full(len(boxes), -1)
    track[rows] = link_with_settings(boxes.take(rows), settings)
    return track


def long_tracks(boxes: Boxes, track: Ints) -> tuple[Boxes, Ints]:
    """The boxes of tracks that span enough frames."""
    first, last = np.full(track.max(initial=0) + 1, np.inf), np.full(track.max(initial=0) + 1, -np.inf)
    linked = track >= 0
    np.minimum.at(first, track[linked], boxes.frame_index[linked])
    np.maximum.at(last, track[linked], boxes.frame_index[linked])
    keep = linked & ((last - first)[track] + 1 >= MIN_TRACK)
    return boxes.take(keep), np.unique(track[keep], return_inverse=True)[1]


def iou_table(a: Floats, b: Floats) -> Floats:
    """IoU (n, m) of boxes."""
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum((a[:, :2] + a[:, 2:])[:, None], (b[:, :2] + b[:, 2:])[None])
    inter = np.prod(np.clip(high - low, 0, None), 2)
    return inter / (np.prod(a[:, 2:], 1)[:, None] + np.prod(b[:, 2:], 1)[None] - inter)


def sequence(truth: Boxes, truth_track: Ints, boxes: Boxes, track: Ints) -> dict[str, object]:
    """One procedure in the form that TrackEval takes."""
    frames = np.unique(np.concatenate([truth.frame_index, boxes.frame_index]))
    given, detected = (
        [np.arange(*np.searchsorted(table.frame_index, (frame, frame + 1))) for frame in frames]
        for table in (truth, boxes)
    )
    return {
        "num_timesteps": len(frames),
        "gt_ids": [truth_track[rows] for rows in given],
        "tracker_ids": [track[rows] for rows in detected],
        "similarity_scores": [iou_table(truth.xywh[a], boxes.xywh[b]) for a, b in zip(given, detected, strict=True)],
        "num_gt_dets": len(truth),
        "num_tracker_dets": len(boxes),
        "num_gt_ids": len(np.unique(truth_track)),
        "num_tracker_ids": len(np.unique(track)),
    }


def scores(sequences: list[dict[str, Any]]) -> tuple[float, float, float]:
    """HOTA, IDF1 and fragmentations per true track, of all sequences together."""
    with redirect_stdout(io.StringIO()):  # TrackEval prints its configuration
        metrics = [HOTA(), Identity({"PRINT_CONFIG": False}), CLEAR({"PRINT_CONFIG": False})]
        hota, identity, clear = (
            metric.combine_sequences({str(n): metric.eval_sequence(each) for n, each in enumerate(sequences)})
            for metric in metrics
        )
    tracks = sum(int(each["num_gt_ids"]) for each in sequences)
    return float(np.mean(hota["HOTA"])), float(identity["IDF1"]), float(clear["Frag"]) / tracks


def generated_pairs(quick: bool) -> list[tuple[Boxes, Boxes]]:
    """Truth and detections of generated procedures."""
    procedures = draw_procedures(find_preset("tiny" if quick else "small"), 0)
    return [detections(each.box_table().in_order(), np.random.default_rng(n)) for n, each in enumerate(procedures)]


def clip_pairs(folder: Path) -> list[tuple[Boxes, Boxes]]:
    """Truth and detections of real clips, each of which shows one polyp."""
    boxes = read_mot(folder).in_order()
    clips = [boxes.take(boxes.video == video) for video in sorted(set(boxes.video.tolist()))]
    clips = [replace(clip, polyp=clip.video) for clip in clips]
    return [detections(clip, np.random.default_rng(n), jump=0.0, extent=400.0) for n, clip in enumerate(clips)]


def measure(quick: bool = False) -> Result:
    """Scores of each linker on the same boxes."""
    sources = {"generated procedures": generated_pairs(quick)}
    if CLIPS.is_dir():
        sources["real clips"] = clip_pairs(CLIPS)
    table: list[Cells] = [("linking", "HOTA", "IDF1", "fragmentations per track")]
    rows = []
    for source, pairs in sources.items():
        truths = [long_tracks(truth, link_tracks(truth, "polyp", iou=0.0, max_gap=3)) for truth, _ in pairs]
        for name, link in LINKERS.items():
            results = [long_tracks(detected, link(detected)) for _, detected in pairs]
            judged = [sequence(*truth, *made) for truth, made in zip(truths, results, strict=True)]
            hota, idf1, fragments = scores(judged)
            table.append((f"{source}: {name}", f"{100 * hota:.1f}", f"{100 * idf1:.1f}", f"{fragments:.2f}"))
            rows.append(Row(f"linking detections, {source}, {name}: IDF1", "%", 100 * idf1, more_is_better=True))
    counts = (f"{len(each)} {name}, {sum(len(boxes) for _, boxes in each):,} boxes" for name, each in sources.items())
    return Result("linking_detections", tuple(rows), "; ".join(counts) + ".", tuple(table))
