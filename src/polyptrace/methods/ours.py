"""Ours (the paper): bags of tracklets close in time, a temperature curriculum, a noise-aware loss at two levels.

A batch is M bags of 1 + K tracklets: the anchor first, then its bag. Labels are never seen.
"""

import numpy as np
import torch
from torch import Tensor

from polyptrace.config import Config
from polyptrace.core.console import counted
from polyptrace.data import LabelFree, video_keys
from polyptrace.encoders import OwnEncoder, TrackletEncoder
from polyptrace.losses import (
    condition_satisfied,
    multi_positive,
    noise_aware,
    noise_aware_frames,
    noise_aware_symmetric,
    noise_aware_symmetric_frames,
    repeated_members,
    repeated_tracklets,
)
from polyptrace.methods.batch import Batch, Data, Epoch, Method, Plan, Targets, labels_seen, padded
from polyptrace.supervision import anchor_count, epoch_batches, fitted_temperature, steps_before, temperature_at


def encoder(config: Config, size: int) -> OwnEncoder:
    """The tracklet encoder of the [encoder] section."""
    return TrackletEncoder.from_settings(config.encoder, size, config.train.method)


def plan(data: Data, config: Config) -> Plan:
    """Every tracklet an anchor once an epoch, with a bag drawn at the epoch's temperature."""
    tracklets = data.tracklets
    chosen = data.select("tracklet")
    rows = padded([tracklets.rows[i] for i in chosen])
    video, position = video_keys(tracklets)[chosen], tracklets.position[chosen]
    settings = config.supervision

    highest = fitted_temperature(
        video, position, settings.tau_fit, settings.tau_max, settings.tau_share, settings.tau_min
    )

    def epoch(number: int, epochs: int) -> Epoch:
        tau = temperature_at(
            number, epochs, settings.tau_min, highest, settings.curriculum, settings.progress
        )  # one for all, or one for each tracklet
        dealt = epoch_batches(
            video,
            position,
            seed=config.train.seed,
            epoch=number,
            temperature=tau,
            bag_size=settings.bag_size,
            bags_per_batch=settings.bags_per_batch,
            sampling=settings.sampling,
            composition=settings.composition,
            small_videos=settings.small_videos,
        )
        members = torch.cat([dealt.anchors[..., None], dealt.bags], dim=2).numpy()  # (S, M, 1 + K)
        notes = {"tau": float(torch.as_tensor(tau, dtype=torch.float64).mean())}
        if settings.composition != "any":
            notes["collisions"] = float(dealt.collisions)
        return Epoch(len(members), lambda step: _batch(members[step], rows, chosen), notes)

    anchors = anchor_count(video, settings.bag_size, settings.small_videos)
    return Plan(
        epoch,
        lambda epochs: steps_before(epochs, anchors, settings.bags_per_batch),
        remarks(data, config),
        labels_seen(data, "none"),
    )


def remarks(data: LabelFree, config: Config) -> list[str]:
    """What the log says about the data: tracklets, videos, small videos and what happens to them."""
    settings = config.supervision
    chosen = data.select("tracklet")
    video, count = np.unique(video_keys(data.tracklets)[chosen], return_counts=True)
    anchors = anchor_count(video_keys(data.tracklets)[chosen], settings.bag_size, settings.small_videos)
    small = int((count <= settings.bag_size).sum())
    lines = [f"data: {counted(len(chosen), 'tracklet')} of {counted(len(video), 'video')}, {anchors:,} of them anchors"]
    if small:
        done = "bagged with what there is" if settings.small_videos == "keep" else "left out"
        lines.append(f"data: {counted(small, 'video')} with fewer than {settings.bag_size + 1} tracklets, {done}")
    fewest = 2 if settings.small_videos == "keep" else settings.bag_size + 1  # tracklets of a video that has anchors
    return lines + (_one_procedure(settings.composition) if (count >= fewest).sum() == 1 else [])


def _one_procedure(composition: str) -> list[str]:
    """What the log says where all bags are of the same video."""
    apart = ", or have fewer bags meet that overlap in time: --supervision.composition no-overlap"
    return [
        "data: all bags are of one video: each is told apart only from others of the same procedure, which may show the"
        " same polyp, and never from another procedure's -> prepare several procedures together"
        f"{apart if composition != 'no-overlap' else ''}"
    ]


def loss(z: Tensor, targets: Targets, part: slice, config: Config) -> tuple[Tensor, dict[str, Tensor]]:
    """Both levels of the loss over projected tokens z (B, T, P), and the share of anchors that meet the condition."""
    size = 1 + config.supervision.bag_size
    rows = slice(part.start // size, part.stop // size)  # bags that this process answers for
    z = z.unflatten(0, (-1, size))  # (M, 1 + K, T, P)
    tracklet = targets.tracklet.reshape(-1, size)
    real = tracklet[:, 1:] >= 0  # (M, K)
    ignore = repeated_members(tracklet[:, 0], tracklet[:, 1:])
    anchors, bags = z[:, 0, 0], z[:, 1:, 0]
    with torch.no_grad():
        satisfied = condition_satisfied(anchors, bags, real, ignore=ignore, rows=rows)
    if config.loss.form == "paper" and config.loss.name == "noise-aware":
        of_tracklets, of_frames = _paper_form(z, targets, real, ignore, rows, config)
    else:
        of_tracklets, of_frames = _symmetric_form(z.flatten(0, 1), targets, part, config)
    total = config.loss.tracklet_weight * of_tracklets + config.loss.frame_weight * of_frames
    return total, {
        "loss_tracklet": of_tracklets.detach(),
        "loss_frame": of_frames.detach(),
        "condition": satisfied,
    }


def _paper_form(
    z: Tensor, targets: Targets, real: Tensor, ignore: Tensor, rows: slice, config: Config
) -> tuple[Tensor, Tensor]:
    """Equation 1 over tracklets and over frames."""
    frames = targets.real.unflatten(0, z.shape[:2])  # (M, 1 + K, L)
    sharp = config.loss.temperature
    of_tracklets = noise_aware(z[:, 0, 0], z[:, 1:, 0], sharp, real, ignore=ignore, rows=rows)
    of_frames = noise_aware_frames(
        z[:, 0, 1:],
        z[:, 1:, 1:],
        sharp,
        real,
        anchor_frames=frames[:, 0],
        bag_frames=frames[:, 1:],
        ignore=ignore,
        rows=rows,
    )
    return of_tracklets, of_frames


def _symmetric_form(z: Tensor, targets: Targets, part: slice, config: Config) -> tuple[Tensor, Tensor]:
    """Every member an anchor in turn, over tracklets and over frames; noise-aware, or with every member a positive."""
    real = targets.tracklet >= 0
    same = repeated_tracklets(targets.tracklet)
    sharp, length = config.loss.temperature, z.shape[1] - 1
    if config.loss.name == "noise-aware":
        of_tracklets = noise_aware_symmetric(z[:, 0], targets.group, sharp, same, mask=real, rows=part)
        of_frames = noise_aware_symmetric_frames(
            z[:, 1:],
            targets.group,
            sharp,
            same,
            frames=targets.real,
            within_tracklet=config.loss.within_tracklet,
            rows=part,
        )
        return of_tracklets, of_frames
    of_tracklets = multi_positive(z[:, 0], targets.group, sharp, ignore=same, mask=real, rows=part)
    of_frames = multi_positive(
        z[:, 1:].flatten(0, 1),
        targets.group.repeat_interleave(length),
        sharp,
        ignore=same.repeat_interleave(length, 0).repeat_interleave(length, 1),
        mask=targets.real.flatten(),
        rows=slice(part.start * length, part.stop * length),
    )
    return of_tracklets, of_frames


def _batch(members: np.ndarray, rows: np.ndarray, chosen: np.ndarray) -> Batch:
    """The batch of bags (M, 1 + K) of places in `chosen`, -1 where a small video has no more."""
    flat = members.flatten()
    there = flat >= 0
    return Batch(
        rows=np.where(there[:, None], rows[flat], -1),
        tracklet=np.where(there, chosen[flat], -1),
        group=np.repeat(np.arange(len(members)), members.shape[1]),
        position=np.zeros(len(flat)),
        together=members.shape[1],
    )


METHOD = Method("ours", labels="never", defaults={}, encoder=encoder, plan=plan, loss=loss)
