"""Ours (the paper): bags of tracklets close in time, a temperature curriculum, a noise-aware loss at two levels.

A batch has M bags of 1 + K tracklets: the anchor first, then its bag. Polyp labels are never read. Unlike in
Equation 1 and in the authors' release, a tracklet that occurs twice in a batch is not its own negative (`ignore`).
"""

from dataclasses import asdict

import numpy as np
from torch import Tensor

from polyptrace import losses
from polyptrace.config import Config, Loss, Supervision
from polyptrace.core.arrays import Floats, Ints
from polyptrace.core.console import counted
from polyptrace.core.errors import UserError
from polyptrace.data.identity import video_keys
from polyptrace.data.tracklets import pad_rows
from polyptrace.encoders import TrackletEncoder
from polyptrace.encoders.encoder import OwnEncoder
from polyptrace.methods.method import (
    Batch,
    Data,
    Epoch,
    Targets,
    TrainingMethod,
    TrainingPlan,
    fixed_length,
    run_length,
    tracklet_batch,
)
from polyptrace.supervision.batches import anchor_count, epoch_batches, fewest_tracklets
from polyptrace.supervision.curriculum import (
    anchor_temperatures,
    epoch_progress,
    fitted_temperature,
    step_progress,
)


def encoder(config: Config, size: int) -> OwnEncoder:
    """The tracklet encoder of the [encoder] section."""
    return TrackletEncoder(**asdict(config.encoder), size=size, name=config.train.method)


def plan(data: Data, config: Config) -> TrainingPlan:
    """Every tracklet is an anchor once per epoch, with a bag drawn at the temperature of the curriculum."""
    if config.loss.name == "multi-positive" and config.loss.form == "paper":
        raise UserError("--loss.name multi-positive: has the symmetric form only -> add --loss.form symmetric")
    chosen, settings = fixed_length(data), config.supervision
    rows = pad_rows([data.tracklets.rows[i] for i in chosen])
    video, position = video_keys(data.tracklets)[chosen], data.tracklets.position[chosen]
    sizes = np.unique(video, return_counts=True)[1]  # tracklets of each video
    anchors = anchor_count(sizes, settings)
    tau_max = fitted_temperature(video, position, settings)  # (N,)
    frames_per_step = round(settings.bags_per_batch * _mean_bag(sizes, settings) * (rows >= 0).sum(1).mean())

    def steps(epochs: int) -> int:
        return epochs * anchors // settings.bags_per_batch

    length = run_length(config.train, steps, frames_per_step)

    def batch(members: Ints) -> Batch:  # (M, 1 + K)
        bag, together = np.arange(len(members)).repeat(members.shape[1]), members.shape[1]
        return tracklet_batch(members.flatten(), rows, chosen, bag, np.zeros(members.size), together)

    def epoch(number: int, epochs: int) -> Epoch:
        numbers = range(steps(number), steps(number + 1))  # of the steps of this epoch, in the run
        if settings.progress == "step":
            c = step_progress(numbers, length.steps)
        else:
            c = [epoch_progress(number, epochs, settings.progress)] * len(numbers)

        def tau(anchors: Ints, batch: Ints) -> Floats:
            return anchor_temperatures(c, batch, tau_max[anchors], settings)

        drawn = epoch_batches(video, position, settings, seed=config.train.seed, epoch=number, temperature=tau)
        members = np.concatenate([drawn.anchors[..., None], drawn.bags], axis=2)  # (S, M, 1 + K)
        mean_tau = anchor_temperatures(c, np.arange(len(c)), tau_max.mean(), settings)  # (S,)
        metrics = {"collisions": float(drawn.collisions)} if settings.composition != "any" else {}
        return Epoch(
            len(members), lambda step: batch(members[step]), lambda step: {"tau": float(mean_tau[step]), **metrics}
        )

    notes = _notes(sizes, anchors, settings)
    grows = (settings.sampling, settings.curriculum) == ("exponential", "cosine")
    if grows and settings.progress != "step" and length.epochs == 1:
        notes.append(
            f"curriculum: in a single epoch τ stays at tau_min = {settings.tau_min}"
            " -> train for several epochs or use --supervision.progress step"
        )
    batch_size = settings.bags_per_batch * (1 + settings.bag_size)
    return TrainingPlan(epoch, steps, batch_size, frames_per_step, notes)


def _mean_bag(sizes: Ints, settings: Supervision) -> float:
    """The mean number of tracklets in a bag with its anchor, over all anchors of videos of these sizes."""
    sizes = sizes[sizes >= fewest_tracklets(settings)]
    return float(np.average(np.minimum(sizes, 1 + settings.bag_size), weights=sizes))


def _notes(sizes: Ints, anchors: int, settings: Supervision) -> list[str]:
    """What the log says about the data: tracklets, videos, and how small videos are used."""
    tracklets, videos = counted(int(sizes.sum()), "tracklet"), counted(len(sizes), "video")
    notes = [f"data: {tracklets} of {videos}, {anchors:,} of them anchors"]
    if small := int((sizes <= settings.bag_size).sum()):
        use = "their bags are smaller" if settings.small_videos == "keep" else "left out"
        notes.append(f"data: {counted(small, 'video')} with fewer than {settings.bag_size + 1} tracklets: {use}")
    if (sizes >= fewest_tracklets(settings)).sum() == 1:
        note = "data: all bags come from one video: negatives may show the same polyp -> prepare several procedures"
        apart = ", or use --supervision.composition no-overlap"
        notes.append(note if settings.composition == "no-overlap" else note + apart)
    return notes


def loss(z: Tensor, targets: Targets, config: Config) -> tuple[Tensor, dict[str, Tensor]]:
    """Both levels of the loss over projected tokens z (B, T, P), and the share of anchors that meet the condition."""
    z_bags = z.unflatten(0, (-1, 1 + config.supervision.bag_size))  # (M, 1 + K, T, P)
    tracklet = targets.tracklet.reshape(z_bags.shape[:2])
    mask = tracklet[:, 1:] >= 0  # (M, K)
    ignore = losses.repeated_members(tracklet[:, 0], tracklet[:, 1:])  # (M, K, M)
    condition = losses.condition_satisfied(z_bags[:, 0, 0], z_bags[:, 1:, 0], mask, ignore=ignore)
    if config.loss.form == "paper":
        temperature, frames = config.loss.temperature, targets.mask.unflatten(0, z_bags.shape[:2])  # (M, 1 + K, L)
        of_tracklets = losses.noise_aware(z_bags[:, 0, 0], z_bags[:, 1:, 0], temperature, mask, ignore=ignore)
        of_frames = losses.noise_aware_frames(
            z_bags[:, 0, 1:],
            z_bags[:, 1:, 1:],
            temperature,
            frames[:, 1:],
            anchor_mask=frames[:, 0],
            ignore=ignore,
        )
    else:
        of_tracklets, of_frames = _symmetric_form(z, targets, config.loss)
    total = config.loss.tracklet_weight * of_tracklets + config.loss.frame_weight * of_frames
    return total, {
        "loss_tracklet": of_tracklets.detach(),
        "loss_frame": of_frames.detach(),
        "condition": condition,
    }


def _symmetric_form(z: Tensor, targets: Targets, settings: Loss) -> tuple[Tensor, Tensor]:
    """The losses over tracklets and over frames in which every member of a bag is an anchor."""
    function = losses.noise_aware_symmetric if settings.name == "noise-aware" else losses.multi_positive
    ignore = losses.repeated_tracklets(targets.tracklet)  # (B, B)
    of_tracklets = function(z[:, 0], targets.group, settings.temperature, ignore=ignore, mask=targets.tracklet >= 0)
    frames, group, pairs = losses.frame_vectors(z[:, 1:], targets.group, ignore, settings.within_tracklet)
    of_frames = function(frames, group, settings.temperature, ignore=pairs, mask=targets.mask.flatten())
    return of_tracklets, of_frames


OURS = TrainingMethod("ours", labels="never", defaults={}, encoder=encoder, plan=plan, loss=loss)
