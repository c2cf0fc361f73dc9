"""Artificial procedures: independent clips concatenated in time.

Clips show one polyp each; four in a row serve as a procedure with four polyps. They are not real procedures: the
clips come from different patients, and no polyp is seen again later. Dataset and video names therefore start with
"artificial".
"""

import math
from dataclasses import replace

import numpy as np

from polyptrace.core.errors import UserError
from polyptrace.core.randomness import numpy_generator
from polyptrace.data.boxes import Boxes
from polyptrace.data.crops import is_video
from polyptrace.data.identity import video_codes

#: Frames without boxes between two clips: ten seconds at 25 frames per second.
GAP = 250


def join_clips(boxes: Boxes, clips_per_procedure: int, seed: int = 0, gap: int = GAP) -> Boxes:
    """The clips (videos) in random order, concatenated to procedures of at most `clips_per_procedure` clips.

    Procedures are named artificial-00, ...; each has the same number of clips, or one less. Tracks are qualified by the
    name of their clip, and polyps keep their names.
    """
    if clips_per_procedure < 1:
        raise UserError(f"--join-clips {clips_per_procedure}: not a number of clips -> give 3 or 4")
    in_videos = np.flatnonzero([is_video(file) for file in boxes.file])
    if len(in_videos):
        raise UserError(
            f"{boxes.file[in_videos[0]]}: frames of video files are found by their index, which joining changes"
            " -> extract the clips to folders of pictures first"
        )
    clips, clip = np.unique(video_codes(boxes), return_inverse=True)
    order = numpy_generator(seed).permutation(len(clips))
    first, last = np.full(len(clips), np.iinfo(np.int64).max), np.full(len(clips), -1)
    valid = boxes.frame_index >= 0  # invalid ones are kept for `check_boxes` to report
    np.minimum.at(first, clip[valid], boxes.frame_index[valid])
    np.maximum.at(last, clip[valid], boxes.frame_index[valid])
    first = np.minimum(first, last + 1)
    procedure, shift = np.empty(len(clips), np.int64), np.empty(len(clips), np.int64)
    for number, members in enumerate(np.array_split(order, math.ceil(len(clips) / clips_per_procedure))):
        length = last[members] - first[members] + 1 + gap
        procedure[members] = number
        shift[members] = np.cumsum(length) - length - first[members]
    names = np.array([f"artificial-{number:02d}" for number in range(procedure.max(initial=-1) + 1)], object)
    datasets = np.array([f"artificial {name}".strip() for name in boxes.dataset], object)
    tracks = np.array([f"{v}/{t}" if t else "" for v, t in zip(boxes.video, boxes.track, strict=True)], object)
    frames = np.where(valid, boxes.frame_index + shift[clip], boxes.frame_index)
    return replace(boxes, dataset=datasets, video=names[procedure[clip]], frame_index=frames, track=tracks)
