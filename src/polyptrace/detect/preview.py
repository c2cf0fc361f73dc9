"""A page with some frames of a video and the boxes of a detector, to look at before a long run."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from polyptrace.core.console import counted
from polyptrace.core.errors import UserError
from polyptrace.core.timecode import timecode
from polyptrace.data.crops.field import field_mask
from polyptrace.data.crops.videos import blank, read_frames, sample_frames, video_info
from polyptrace.detect.detector import Detector, Found, Frame
from polyptrace.detect.frame_judge import is_black
from polyptrace.detect.stored_boxes import StoredBoxes
from polyptrace.report.page import Card, Page, Picture, Section, render_page

FRAMES, WIDTH = 20, 460
STRONG, WEAK = (80, 255, 80), (255, 200, 60)


def preview_page(videos: Sequence[Path], detectors: Sequence[Detector], min_score: float, border: str) -> str:
    """The page: 20 frames of each video, with the boxes of its detector; weak boxes are yellow."""
    sections = []
    for number, (video, detector) in enumerate(zip(videos, detectors, strict=True)):
        field = field_mask(video) if border == "blank" else None
        sampled = _frames_with_boxes(video, detector) or [(0, *each) for each in sample_frames(video, 2 * FRAMES)]
        if not sampled:
            raise UserError(f"{video}: cannot be searched by time -> run detect without --preview")
        shown = [each for each in sampled if not is_black(each[2])] or sampled
        chosen = np.unique(np.linspace(0, len(shown) - 1, FRAMES).astype(int)).tolist()
        pictures = [
            _picture(blank(frame, field), index, seconds, detector, min_score)
            for index, seconds, frame in (shown[i] for i in chosen)
        ]
        cards = Card("", _border_text(field), tuple(pictures), ())
        sections.append(Section(f"video-{number}", video.name, (cards,)))
    lead = (
        f"Up to {FRAMES} frames of each video, about evenly spaced, without black ones; of stored boxes, frames that"
        " have one. Green boxes have a score of 0.5 or more, yellow ones less."
    )
    return render_page(
        Page(
            "Preview of detections",
            lead,
            tuple(sections),
            any(video_info(video).generated for video in videos),
            brand="polyptrace detect",
        )
    )


def _frames_with_boxes(video: Path, detector: Detector) -> list[tuple[int, float, Frame]]:
    """Number, seconds and image of some frames with stored boxes, decoded from the first one on to be exact."""
    frames = detector.frames() if isinstance(detector, StoredBoxes) else np.empty(0, np.int64)
    if not len(frames):
        return []
    chosen = frames[np.unique(np.linspace(0, len(frames) - 1, 2 * FRAMES).astype(int))].tolist()
    decoded = read_frames(video, chosen)
    return [(place.frame, place.seconds, picture.permute(1, 2, 0).numpy()) for place, picture in decoded]


def _border_text(field: Frame | None) -> str:
    if field is None:
        return "The whole picture is used."
    return f"The border is blanked: {100 * (field[..., 0] > 0).mean():.0f} % of the picture is used."


def _picture(frame: Frame, index: int, seconds: float, detector: Detector, min_score: float) -> Picture:
    found: Found = np.asarray(detector([frame], [index])[0]).reshape(-1, 5)
    found = found[np.isfinite(found).all(axis=1) & (found[:, 4] >= min_score)]
    image = Image.fromarray(frame)
    scale = WIDTH / image.width
    image = image.resize((WIDTH, max(1, round(image.height * scale))), Image.Resampling.BILINEAR)
    draw = ImageDraw.Draw(image)
    for x, y, w, h, score in found.tolist():
        corners = tuple(scale * edge for edge in (x, y, x + max(w, 0), y + max(h, 0)))
        draw.rectangle(corners, outline=STRONG if score >= 0.5 else WEAK, width=2)
    scores = ", ".join(f"{score:.2f}" for score in sorted(found[:, 4], reverse=True)[:4])
    caption = f"{timecode(seconds, 1.0)}: {counted(len(found), 'box', 'boxes')}" + (f" ({scores})" if scores else "")
    return Picture(np.array(image), caption, caption)
