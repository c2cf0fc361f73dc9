"""Part of the videos, and artificial procedures: clips put one after another in time.

    train = join_clips(take_videos(boxes, share=0.5, seed=0), clips_per_procedure=4, seed=0)
    test = join_clips(take_videos(boxes, share=0.5, seed=0, rest=True), clips_per_procedure=4, seed=0)

Clips are independent recordings of one polyp each; four in a row stand in for a procedure with four polyps. They are no
procedure: the clips are of different patients, and nobody looked back. Whatever is measured on them says "artificial".
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from polyptrace.core.errors import UserError
from polyptrace.data.boxes import Boxes
from polyptrace.data.crops import is_video
from polyptrace.data.identity import video_codes
from polyptrace.data.splits import split_by

#: Frames without a box between two clips: ten seconds at 25 frames a second.
GAP = 250


def take_videos(
    boxes: Boxes,
    *,
    names: Sequence[str] | None = None,
    share: float | None = None,
    rest: bool = False,
    seed: int = 0,
) -> Boxes:
    """The boxes of the named videos, or of a random share of all videos; with `rest`, of the others."""
    if names is not None:
        unknown = sorted(set(names) - set(boxes.video.tolist()))
        if unknown:
            known = ", ".join(sorted(set(boxes.video.tolist()))[:8])
            raise UserError(f"--videos: there is no {', '.join(unknown)} -> the source has {known}, ...")
        chosen: NDArray[np.bool_] = np.isin(boxes.video, list(names))
    elif share is not None:
        if not 0 < share < 1:
            raise UserError(f"--share {share}: not a share -> give a number between 0 and 1")
        chosen = ~split_by(video_codes(boxes), test_share=1 - share, seed=seed)
    else:
        chosen = np.ones(len(boxes), bool)
    taken = boxes.take(~chosen if rest else chosen)
    if not len(taken):
        raise UserError("no video is left -> take another share, or name other videos")
    return taken


def join_clips(boxes: Boxes, clips_per_procedure: int, seed: int = 0, gap: int = GAP) -> Boxes:
    """The clips (videos) in random order, so many at most to a procedure, one after another with a gap between them.

    Procedures are called artificial-00, ... and their dataset artificial; each has the same number of clips, or one
    less. A track is still named after its clip, and polyps keep their names.
    """
    if clips_per_procedure < 1:
        raise UserError(f"--join-clips {clips_per_procedure}: not a number of clips -> give 3 or 4")
    movies = np.flatnonzero([is_video(file) for file in boxes.file])
    if len(movies):
        raise UserError(
            f"{boxes.file[movies[0]]}: a frame of a video file is found by its number, which joining changes"
            " -> unpack the clips into folders of pictures first"
        )
    clips, clip = np.unique(video_codes(boxes), return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(clips))
    first, last = np.full(len(clips), np.iinfo(np.int64).max), np.full(len(clips), -1)
    there = boxes.frame_index >= 0  # the others stay as they are, for a check to find
    np.minimum.at(first, clip[there], boxes.frame_index[there])
    np.maximum.at(last, clip[there], boxes.frame_index[there])
    first = np.minimum(first, last + 1)
    procedure, shift = np.empty(len(clips), np.int64), np.empty(len(clips), np.int64)
    for number, members in enumerate(np.array_split(order, math.ceil(len(clips) / clips_per_procedure))):
        length = last[members] - first[members] + 1 + gap
        procedure[members] = number
        shift[members] = np.cumsum(length) - length - first[members]
    names = np.array([f"artificial-{number:02d}" for number in range(procedure.max(initial=-1) + 1)], object)
    datasets = np.array([f"artificial {name}".strip() for name in boxes.dataset], object)
    tracks = np.array([f"{v}/{t}" if t else "" for v, t in zip(boxes.video, boxes.track, strict=True)], object)
    frames = np.where(there, boxes.frame_index + shift[clip], boxes.frame_index)
    return replace(boxes, dataset=datasets, video=names[procedure[clip]], frame_index=frames, track=tracks)
