"""Ours (the paper): bags of tracklets close in time, a temperature curriculum, a noise-aware loss at two levels.

A batch is M bags of 1 + K tracklets: the anchor first, then its bag. Labels are never seen.
"""

import numpy as np
import torch
from torch import Tensor

from polyptrace.config import Config, Loss
from polyptrace.core.console import counted
from polyptrace.data import LabelFree, pad_rows, video_keys
from polyptrace.encoders import OwnEncoder, TrackletEncoder
from polyptrace.losses import (
    condition_satisfied,
    frame_vectors,
    multi_positive,
    noise_aware,
    noise_aware_frames,
    noise_aware_symmetric,
    repeated_members,
    repeated_tracklets,
)
from polyptrace.methods.batch import Batch, Data, Epoch, Method, Plan, Targets, labels_seen
from polyptrace.supervision import anchor_count, epoch_batches, fitted_temperature, steps_before, temperature_at


def encoder(config: Config, size: int) -> OwnEncoder:
    """The tracklet encoder of the [encoder] section."""
    return TrackletEncoder.from_settings(config.encoder, size, config.train.method)


def plan(data: Data, config: Config) -> Plan:
    """Every tracklet an anchor once an epoch, with a bag drawn at the epoch's temperature."""
    tracklets = data.tracklets
    chosen = data.select("tracklet")
    rows = pad_rows([tracklets.rows[i] for i in chosen])
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


def loss(z: Tensor, targets: Targets, config: Config) -> tuple[Tensor, dict[str, Tensor]]:
    """Both levels of the loss over projected tokens z (B, T, P), and how many anchors meet the condition."""
    z_bags = z.unflatten(0, (-1, 1 + config.supervision.bag_size))  # (M, 1 + K, T, P)
    tracklet = targets.tracklet.reshape(z_bags.shape[:2])
    mask = tracklet[:, 1:] >= 0  # (M, K)
    ignore = repeated_members(tracklet[:, 0], tracklet[:, 1:])  # (M, K, M)
    condition = condition_satisfied(z_bags[:, 0, 0], z_bags[:, 1:, 0], mask, ignore=ignore)
    if config.loss.form == "paper" and config.loss.name == "noise-aware":
        temperature, frames = config.loss.temperature, targets.real.unflatten(0, z_bags.shape[:2])  # (M, 1 + K, L)
        of_tracklets = noise_aware(z_bags[:, 0, 0], z_bags[:, 1:, 0], temperature, mask, ignore=ignore)
        of_frames = noise_aware_frames(
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
    function = noise_aware_symmetric if settings.name == "noise-aware" else multi_positive
    ignore = repeated_tracklets(targets.tracklet)  # (B, B)
    of_tracklets = function(z[:, 0], targets.group, settings.temperature, ignore=ignore, mask=targets.tracklet >= 0)
    frames = frame_vectors(z[:, 1:], targets.group, ignore, settings.within_tracklet)
    of_frames = function(
        frames.z, frames.group, settings.temperature, ignore=frames.ignore, mask=targets.real.flatten()
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
