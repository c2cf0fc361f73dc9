"""A page with some frames of a video and the boxes of a detector, to look at before a long run."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from polyptrace.core.arrays import Ints
from polyptrace.core.console import counted
from polyptrace.core.errors import UserError
from polyptrace.core.timecode import timecode
from polyptrace.data.crops.field import field_mask
from polyptrace.data.crops.videos import blank, read_frames, sample_frames, video_info
from polyptrace.detect.detector import START_SCORE, Detector, Frame
from polyptrace.detect.frame_judge import FrameJudge
from polyptrace.detect.stored_boxes import StoredBoxes
from polyptrace.detect.usable_boxes import UsableBoxes, usable_boxes
from polyptrace.report.page import Card, Page, Picture, Section, render_page

FRAMES, WIDTH = 20, 460
STRONG, WEAK, LABEL = (80, 255, 80), (255, 200, 60, 120), (0, 60, 0)  # weak boxes are transparent
LABEL_HEIGHT = 22


def preview_page(videos: Sequence[Path], detectors: Sequence[Detector], min_score: float, border: str) -> str:
    """The page: 20 frames of each video, with the boxes that `detect` would keep."""
    sections = []
    for number, (video, detector) in enumerate(zip(videos, detectors, strict=True)):
        field = field_mask(video) if border == "blank" else None
        pictures, dropped = [], Counter[str]()
        for index, seconds, frame in _frames(video, detector, field):
            time = timecode(seconds, 1.0)
            (usable,) = usable_boxes(detector, [frame], [index], f"{video}: the frame at {time}", min_score)
            pictures.append(_picture(frame, time, usable))
            dropped.update(usable.dropped)
        reasons = [f" {counted(n, 'box', 'boxes')} dropped: {reason}." for reason, n in dropped.items()]
        card = Card("", "".join([_border_text(field), *reasons]), tuple(pictures), ())
        sections.append(Section(f"video-{number}", video.name, (card,)))
    lead = (
        f"Up to {FRAMES} frames of each video, about evenly spaced, without black and repeated ones; of stored"
        " boxes, frames that have one. Strong boxes"
        f" (thick, green, with their score) have a score of {START_SCORE} or more: 'polyptrace run' starts a track with"
        " them. Weak boxes (thin, yellow) only continue a track; many of them are normal."
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


def _frames(video: Path, detector: Detector, field: Frame | None) -> list[tuple[int, float, Frame]]:
    """Number (only for stored boxes), seconds and image of frames across the video, blanked.

    Of stored boxes, frames that have one; else black and repeated frames only if there are no others.
    """
    if isinstance(detector, StoredBoxes) and len(with_box := detector.frames()):
        decoded = read_frames(video, _spread(with_box))  # from the first frame on, because numbers must be exact
        return [(at.frame, at.seconds, blank(image.permute(1, 2, 0).numpy(), field)) for at, image in decoded]
    shown: list[tuple[float, Frame]] = []
    for count in (2 * FRAMES, 8 * FRAMES):  # the second only if most frames are black or repeated
        if len(shown) < FRAMES:
            judge = FrameJudge(field)
            sampled = sample_frames(video, count)
            shown = [each for each in sampled if judge(each[1])[0] != "black" and not judge.repeated]
    shown = shown or list(sample_frames(video, FRAMES))
    if not shown:
        raise UserError(f"{video}: no frame can be sampled; it is damaged near its start -> copy or export it again")
    return [(0, seconds, blank(frame, field)) for seconds, frame in (shown[i] for i in _spread(np.arange(len(shown))))]


def _spread(indices: Ints) -> list[int]:
    """Up to 20 of them, evenly spaced."""
    return indices[np.unique(np.linspace(0, len(indices) - 1, FRAMES).astype(int))].tolist()


def _border_text(field: Frame | None) -> str:
    if field is None:
        return "The whole picture is used."
    return f"The border is blanked: {100 * (field[..., 0] > 0).mean():.0f} % of the picture is used."


def _picture(frame: Frame, time: str, usable: UsableBoxes) -> Picture:
    """The frame with its boxes: strong ones on top, with their scores."""
    image = Image.fromarray(frame)
    scale = WIDTH / image.width
    image = image.resize((WIDTH, max(1, round(image.height * scale))), Image.Resampling.BILINEAR)
    draw = ImageDraw.Draw(image, "RGBA")
    font = ImageFont.load_default(LABEL_HEIGHT)
    for x, y, w, h, score in usable.boxes[::-1].tolist():
        left, top, right, bottom = (scale * edge for edge in (x, y, x + w, y + h))
        if score < START_SCORE:
            draw.rectangle((left, top, right, bottom), outline=WEAK)
            continue
        draw.rectangle((left, top, right, bottom), outline=STRONG, width=4)
        label, text = (left, max(0, top - LABEL_HEIGHT)), f"{score:.2f}"
        draw.rectangle(draw.textbbox(label, text, font), fill=STRONG)
        draw.text(label, text, LABEL, font)
    strong = int((usable.boxes[:, 4] >= START_SCORE).sum())
    caption = f"{time}: {strong} strong, {len(usable.boxes) - strong} weak"
    caption += f", {sum(usable.dropped.values())} dropped" if usable.dropped else ""
    return Picture(np.array(image), caption, caption)
