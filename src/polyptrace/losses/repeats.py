"""Pairs of one and the same tracklet: it may occur twice in a batch, and is then never its own negative."""

import torch
from torch import Tensor


def repeated_members(anchor: Tensor, bag: Tensor) -> Tensor:
    """`ignore` (M, K, M) of `noise_aware`, from the tracklets' indices anchor (M,) and bag (M, K).

    True at (i, k, j) where anchor j is the tracklet of member k of bag i, or that of anchor i.
    """
    same_member = bag[:, :, None] == anchor  # (M, K, M)
    same_anchor = anchor[:, None] == anchor  # (M, M)
    return same_member | same_anchor[:, None, :]


def repeated_tracklets(tracklet: Tensor) -> Tensor:
    """`ignore` (B, B) of the symmetric losses, from the tracklets' indices (B,): two places of one tracklet."""
    same = tracklet[:, None] == tracklet
    return same & ~torch.eye(len(tracklet), dtype=torch.bool, device=tracklet.device)
