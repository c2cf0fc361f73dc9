"""The noise-aware loss in your own training loop: bags from time alone, no labels.

python examples/loss_in_your_own_loop.py

Replace `features` and `network` with your own frames and encoder. Prints the retrieval mAP before and after training.
"""

import torch
from torch import nn

from polyptrace.evaluate import retrieval
from polyptrace.losses import noise_aware
from polyptrace.supervision import sample_bags, temperature

STEPS, ANCHORS, BAG_SIZE = 150, 16, 4


def main() -> tuple[float, float]:
    """Trains a small network; returns the retrieval mAP before and after."""
    generator = torch.Generator().manual_seed(0)
    video = torch.arange(6).repeat_interleave(20)  # (N,) procedure of each tracklet
    position = torch.arange(20).repeat(6) * 32  # (N,) first frame of each tracklet
    polyp = video * 4 + position // 160  # (N,) hidden: for features and evaluation, never for training
    signal = torch.randn(24, 8, generator=generator)[polyp]
    features = torch.cat([signal, 2 * torch.randn(120, 24, generator=generator)], dim=1)  # (N, 32), mostly noise

    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 16))
    optimiser = torch.optim.AdamW(network.parameters(), lr=3e-3)
    before = retrieval(network(features).detach(), polyp).map
    for step in range(STEPS):
        tau = temperature(step / (STEPS - 1), high=4.0)  # the curriculum: bags reach further in time
        bags = sample_bags(video, position, BAG_SIZE, tau, generator)  # (N, K) indices of tracklets
        anchors = torch.randperm(len(video), generator=generator)[:ANCHORS]
        vectors = network(features)  # (N, D)
        loss = noise_aware(vectors[anchors], vectors[bags[anchors]])  # (M, D), (M, K, D)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    after = retrieval(network(features).detach(), polyp).map
    print(f"retrieval mAP {100 * before:.1f} -> {100 * after:.1f}")
    return before, after


if __name__ == "__main__":
    main()
