"""The box table of a procedure, and the frames that default tracklets use: only those need a picture."""

import numpy as np
from numpy.typing import NDArray

from polyptrace.data import Boxes, cut_tracklets, link_tracks
from polyptrace.synthetic.procedure import Procedure


def frame_name(video: str, frame_index: int) -> str:
    """File name of a frame."""
    return f"{video}_{frame_index:06d}.jpg"


def box_table(procedure: Procedure) -> Boxes:
    """Every box of a procedure, in time order."""
    row, polyp = np.nonzero(~np.isnan(procedure.boxes[:, :, 0]))
    corners = procedure.boxes[row, polyp]
    frame_index = procedure.paths.frame_index[row]
    lesions = procedure.scene.polyps
    return Boxes.of(
        dataset=procedure.dataset,
        video=procedure.video,
        frame_index=frame_index,
        file=[f"images/{frame_name(procedure.video, int(each))}" for each in frame_index],
        xywh=np.round(np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], axis=1), 2),
        image_width=procedure.scene.camera.width,
        image_height=procedure.scene.camera.height,
        polyp=[lesions[each].name for each in polyp],
        size_mm=[lesions[each].size_mm for each in polyp],
        histology=[lesions[each].histology for each in polyp],
        fps=procedure.fps,
    )


def frames_used(boxes: Boxes, largest_gap: int = 0) -> NDArray[np.int64]:
    """Frame indices of one video (sorted) that whole tracks use, linked with identities and without.

    With a `largest_gap` also those of tracks that may miss so many frames, or fewer.
    """
    tracks = [link_tracks(boxes, "polyp", max_gap=gap) for gap in range(largest_gap + 1)]
    tracks += [link_tracks(boxes, "video", max_gap=gap) for gap in range(largest_gap + 1)]
    used = [boxes.frame_index[cut_tracklets(boxes, track, length=None).box_index] for track in tracks]
    return np.unique(np.concatenate(used))
