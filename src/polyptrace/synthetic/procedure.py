"""One procedure: its colon and polyps, the camera's path, the imaging conditions, and the boxes of every frame."""

from dataclasses import dataclass

import numpy as np
import torch
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor
from torch import Tensor

from polyptrace.core.arrays import Floats, Ints
from polyptrace.core.console import progress
from polyptrace.core.device import torch_threads, usable_cores
from polyptrace.core.randomness import numpy_generator
from polyptrace.data import Boxes, cut_tracklets, link_tracks
from polyptrace.synthetic.camera import draw_camera
from polyptrace.synthetic.colon import draw_colon, inflate
from polyptrace.synthetic.conditions import Conditions, draw_conditions
from polyptrace.synthetic.paths import Paths, draw_lumen, draw_paths
from polyptrace.synthetic.polyps import draw_polyps
from polyptrace.synthetic.presets import Preset
from polyptrace.synthetic.render import Scene, draw_grain, on_device, render
from polyptrace.synthetic.tracing import polyp_boxes, simulated_boxes
from polyptrace.synthetic.workflow import FPS, Look, plan_looks

MIN_PARALLEL = 4  # cores and procedures from which drawing in processes pays for their start
MAX_LINK_GAP = 3  # with missed boxes, images exist for tracks.max_gap up to this


@dataclass(frozen=True)
class Procedure:
    """Everything about a procedure except its images."""

    dataset: str
    video: str
    split: str
    fps: float
    scene: Scene
    looks: list[Look]
    paths: Paths
    conditions: Conditions
    boxes: Floats  # (F, number of polyps, 4) corners; NaN: no box

    def box_table(self) -> Boxes:
        """All boxes in time order."""
        row, polyp, xywh = _visible_boxes(self.boxes)
        frame_index, lesions = self.paths.frame_index[row], self.scene.polyps
        return Boxes.of(
            dataset=self.dataset,
            video=self.video,
            frame_index=frame_index,
            file=[f"images/{self.file_name(int(each))}" for each in frame_index],
            xywh=np.round(xywh, 2),
            image_width=self.scene.camera.width,
            image_height=self.scene.camera.height,
            polyp=[lesions[each].name for each in polyp],
            size_mm=[lesions[each].size_mm for each in polyp],
            histology=[lesions[each].histology for each in polyp],
            fps=self.fps,
        )

    def file_name(self, frame_index: int) -> str:
        """The file name of a frame."""
        return f"{self.video}_{frame_index:06d}.jpg"

    def render(self, rows: Ints, scene: Scene | None = None) -> Tensor:
        """Images (B, 3, H, W) uint8 of the frames in `rows`; `scene`: the scene on the device to render on."""
        scene = scene or self.scene
        device, index = scene.grain.device, torch.from_numpy(rows)
        views = on_device(self.paths.views.take(index), device)
        conditions = on_device(self.conditions.take(index), device)
        with torch.inference_mode():
            return render(scene, views, conditions, torch.from_numpy(self.paths.frame_index[rows]))[0]

    def frames_to_render(self, boxes: Boxes, every_frame: bool = False, missed_boxes: bool = False) -> Ints:
        """Rows of the frames that need an image: those of whole tracks with default settings, or all.

        Tracks are linked within polyps and within videos; with `missed_boxes` also with gaps of up to MAX_LINK_GAP.
        """
        if every_frame:
            return np.arange(len(self.paths.frame_index))
        gaps = range(1 + (MAX_LINK_GAP if missed_boxes else 0))
        tracks = [link_tracks(boxes, within, max_gap=gap) for gap in gaps for within in ("polyp", "video")]
        used = [boxes.frame_index[cut_tracklets(boxes, track, length=None).row_index] for track in tracks]
        return np.flatnonzero(np.isin(self.paths.frame_index, np.concatenate(used)))


def draw_procedures(preset: Preset, seed: int, workers: int = 0, split: str = "all") -> list[Procedure]:
    """The procedures of a preset or of one split, training procedures first, not yet rendered.

    A procedure is the same whether its split is drawn alone or not. 0 workers: one per core.
    """
    parts = (("train", preset.train_polyps, preset.train_videos), ("test", preset.test_polyps, preset.test_videos))
    drawn = [
        (name, count)
        for stream, (name, polyps, videos) in enumerate(parts)
        for count in _polyps_per_video(polyps, videos, seed, stream)
    ]
    jobs = [(number, *each) for number, each in enumerate(drawn, 1) if split in (each[0], "all")]
    workers = workers or usable_cores()
    processes = min(workers, len(jobs)) >= MIN_PARALLEL
    parallel = Parallel(workers, backend="loky" if processes else "threading", return_as="generator")
    procedures: list[Procedure] = []
    with progress("drawing", len(jobs), "procedures") as bar:
        for procedure in parallel(delayed(draw_procedure)(seed, *job, preset) for job in jobs):
            procedures.append(procedure)
            bar.advance()
    if processes:
        get_reusable_executor().shutdown()
    return procedures


@torch_threads(1)
def draw_procedure(seed: int, number: int, split: str, polyps: int, preset: Preset) -> Procedure:
    """Procedure `number` of a seed; it does not depend on the other procedures."""
    rng = numpy_generator(seed, number)
    video = f"synth-{seed}-{number:03d}"
    colon = draw_colon(rng, preset.texel_mm)
    camera = draw_camera(rng, preset.width, preset.height)
    at_rest = inflate(colon.shape, colon.slope, torch.ones(1), torch.ones(1))
    lesions, sites = draw_polyps(rng, at_rest, video, polyps, preset, seed, number)
    difficulty = preset.difficulty
    for extra in (1, 3, 6, 10):  # some looks lose the polyp: plan more until every polyp has its minimum
        looks = plan_looks(rng, preset, sites, extra)
        lumen, states = draw_lumen(rng, colon, looks, difficulty.view_change)
        paths = draw_paths(rng, lumen, lesions, sites, camera, looks, states, preset)
        true_boxes = np.stack([polyp_boxes(lumen, each, paths.views, camera) for each in lesions], axis=1)
        if _fewest_tracklets(paths.frame_index, true_boxes) >= preset.fewest_tracklets:
            break
    target = true_boxes[np.arange(len(true_boxes)), np.array([each.polyp for each in looks])[paths.look]]
    conditions = draw_conditions(rng, looks, paths.look, target, preset.width, difficulty)
    detected = [
        simulated_boxes(rng, each, camera, difficulty.box_jitter, difficulty.box_dropout)
        for each in true_boxes.swapaxes(0, 1)
    ]
    scene = Scene(colon, lumen, tuple(lesions), camera, draw_grain(rng, camera))
    fps = float(rng.choice(FPS))
    boxes = np.stack(detected, axis=1)
    return Procedure(f"synthetic-{seed}", video, split, fps, scene, looks, paths, conditions, boxes)


def _polyps_per_video(polyps: int, videos: int, seed: int, stream: int) -> list[int]:
    """A random partition of the polyps among the videos: at least three each where possible."""
    rng = numpy_generator(seed, 1_000_000, stream)
    fewest = min(3, polyps // videos)
    weight = rng.dirichlet(np.full(videos, 2.0))
    extra = rng.multinomial(polyps - fewest * videos, weight)
    return [int(fewest + each) for each in extra]


def _fewest_tracklets(frame_index: Ints, corners: Floats) -> int:
    """The smallest number of tracklets of any polyp, from boxes (F, number of polyps, 4)."""
    row, polyp, xywh = _visible_boxes(corners)
    boxes = Boxes.of(video="", frame_index=frame_index[row], xywh=xywh, polyp=polyp.astype(str))
    tracklets = cut_tracklets(boxes, link_tracks(boxes, "polyp"))
    return min(int((tracklets.polyp == str(index)).sum()) for index in range(corners.shape[1]))


def _visible_boxes(corners: Floats) -> tuple[Ints, Ints, Floats]:
    """Row, polyp and x, y, w, h (n, 4) of each box, from corners (F, number of polyps, 4); NaN: no box."""
    row, polyp = np.nonzero(~np.isnan(corners[:, :, 0]))
    box = corners[row, polyp]
    return row, polyp, np.concatenate([box[:, :2], box[:, 2:] - box[:, :2]], axis=1)
