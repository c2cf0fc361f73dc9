"""Splits: which videos of a source are used, and test splits by polyp or video, stratified and seeded.

Independent clips that show one polyp each can be concatenated: four in a row serve as a procedure with four polyps.
These are not real procedures: the clips come from different patients, and no polyp is seen again later. Dataset and
video names therefore start with "artificial".
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from polyptrace.core.arrays import Bools
from polyptrace.core.errors import UserError, warn
from polyptrace.core.randomness import numpy_generator
from polyptrace.data.boxes import Boxes
from polyptrace.data.crops.videos import is_video
from polyptrace.data.identity import group_rows, video_codes

#: Frames without boxes between two clips: ten seconds at 25 frames per second.
GAP = 250


@dataclass(frozen=True)
class Selection:
    """Which boxes of a source are prepared, and as which procedures."""

    min_score: float | None = None  # exclude boxes with a lower detector score
    fps: float | None = None  # frame rate of videos whose source states none
    videos: tuple[str, ...] | None = None  # only these videos
    share: float | None = None  # only a random share of the videos
    rest: bool = False  # the complement of `videos` or `share`
    join_clips: int | None = None  # concatenate this many clips to an artificial procedure
    seed: int = 0  # of `share` and `join_clips`

    def apply(self, boxes: Boxes) -> Boxes:
        """The selected boxes."""
        if self.min_score is not None:
            boxes = _above_score(boxes, self.min_score)
        if self.fps is not None:
            boxes = _with_rate(boxes, self.fps)
        if self.videos is not None and self.share is not None:
            raise UserError(f"--share {self.share}: --videos names the videos already -> give one of them")
        if self.videos is not None or self.share is not None:
            boxes = self._take_videos(boxes)
        elif self.rest:
            raise UserError("--rest: is the complement of --videos or --share, and neither is given -> add one of them")
        return boxes if self.join_clips is None else join_clips(boxes, self.join_clips, self.seed)

    def _take_videos(self, boxes: Boxes) -> Boxes:
        """The boxes of the named videos, or of a random share of all videos; with `rest`, of the other videos."""
        if self.videos is not None:
            known = sorted(set(boxes.video.tolist()))
            unknown = sorted(set(self.videos) - set(known))
            if unknown:
                some = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
                raise UserError(f"--videos: there is no {', '.join(unknown)} -> one of {some}")
            chosen: Bools = np.isin(boxes.video, self.videos)
        else:
            if self.share is None or not 0 < self.share < 1:
                raise UserError(f"--share {self.share}: not a share -> give a number between 0 and 1")
            chosen = ~split_by(video_codes(boxes), test_share=1 - self.share, seed=self.seed)
        taken = boxes.take(chosen != self.rest)
        if not len(taken):
            raise UserError("no video is left -> give another share, or name other videos")
        return taken

    def as_dict(self) -> dict[str, Any]:
        """As recorded in `dataset.json`; only what was selected."""
        record: dict[str, Any] = {} if self.min_score is None else {"min_score": self.min_score}
        if self.videos is not None or self.share is not None:
            names = None if self.videos is None else ",".join(self.videos)
            record |= {"videos": names, "share": self.share, "rest": self.rest, "seed": self.seed}
        if self.join_clips is not None:
            record |= {"artificial": f"up to {self.join_clips} clips in a row", "seed": self.seed}
        return record


def join_clips(boxes: Boxes, clips_per_procedure: int, seed: int = 0) -> Boxes:
    """The clips (videos) in random order, concatenated to procedures of at most `clips_per_procedure` clips.

    Procedures are named artificial-00, ...; each has the same number of clips, or one less. Tracks are qualified by the
    name of their clip, and polyps keep their names.
    """
    if clips_per_procedure < 1:
        raise UserError(f"--join-clips {clips_per_procedure}: not a number of clips -> give 1 or more")
    in_videos = np.flatnonzero([is_video(file) for file in boxes.file])
    if len(in_videos):
        raise UserError(f"{boxes.file[in_videos[0]]}: clips in video files cannot be joined -> extract them to images")
    clips = group_rows(video_codes(boxes))
    order = numpy_generator(seed).permutation(len(clips))
    videos, frames = boxes.video.copy(), boxes.frame_index.copy()
    procedures = max(1, math.ceil(len(clips) / clips_per_procedure))
    for number, members in enumerate(np.array_split(order, procedures)):
        start = 0
        for rows in (clips[member] for member in members):
            videos[rows] = f"artificial-{number:02d}"
            valid = rows[frames[rows] >= 0]  # invalid frames are kept for `check_boxes` to report
            if len(valid):
                frames[valid] += start - frames[valid].min()
                start = frames[valid].max() + 1
            start += GAP
    datasets = np.array([f"artificial {name}".strip() for name in boxes.dataset], object)
    tracks = np.array([f"{v}/{t}" if t else "" for v, t in zip(boxes.video, boxes.track, strict=True)], object)
    return replace(boxes, dataset=datasets, video=videos, frame_index=frames, track=tracks)


def split_by(group: ArrayLike, *, test_share: float = 0.3, strata: Sequence[ArrayLike] = (), seed: int = 0) -> Bools:
    """True for the rows of the test split: whole groups (polyps or videos), drawn within each stratum.

    A group's stratum is the combination of `strata` in its first row. Every stratum gives round(share x groups) groups
    to the test split; the groups still missing after rounding come from the strata with the largest remainders.
    """
    names, first, member = np.unique(np.asarray(group), return_index=True, return_inverse=True)
    keys = [tuple(np.asarray(stratum)[row] for stratum in strata) for row in first]
    by_stratum: dict[tuple[object, ...], list[int]] = {}
    for index in numpy_generator(seed).permutation(len(names)):
        by_stratum.setdefault(keys[index], []).append(int(index))
    exact = {key: test_share * len(members) for key, members in by_stratum.items()}
    quota = {key: int(share) for key, share in exact.items()}
    missing = round(test_share * len(names)) - sum(quota.values())
    for key in sorted(exact, key=lambda k: (quota[k] - exact[k], str(k)))[:missing]:
        quota[key] += 1
    test = np.zeros(len(names), bool)
    for key, members in by_stratum.items():
        test[members[: quota[key]]] = True
    return test[member]


def _above_score(boxes: Boxes, min_score: float) -> Boxes:
    """The boxes with at least this score; boxes without a score are kept."""
    if len(boxes) and np.isnan(boxes.score).all():
        warn(f"--min-score {min_score}: no box has a score; all boxes are kept")
    kept = boxes.take(~(boxes.score < min_score))
    if len(boxes) and not len(kept):
        raise UserError(f"--min-score {min_score}: no box is left -> the highest score is {np.nanmax(boxes.score):g}")
    return kept


def _with_rate(boxes: Boxes, fps: float) -> Boxes:
    """The boxes with this frame rate where their source states none; a warning names a video that states another."""
    if not 0 < fps < np.inf:
        raise UserError(f"--fps {fps:g}: not a frame rate -> give the frames per second, such as 25")
    other = np.flatnonzero(np.isfinite(boxes.fps) & (boxes.fps != fps))
    if len(other):
        video, stated = boxes.video[other[0]], boxes.fps[other[0]]
        warn(f"--fps {fps:g}: not used for videos that state their own rate, such as {video} ({stated:g})")
    return replace(boxes, fps=np.where(np.isfinite(boxes.fps), boxes.fps, fps))
