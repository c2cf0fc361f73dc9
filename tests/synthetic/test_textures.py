import numpy as np
import pytest
import torch

from polyptrace.synthetic.colon import band_noise, blur_periodic, spot_map, vessel_map


def test_noise_keeps_to_its_band_and_to_its_seed() -> None:
    noise = band_noise(np.random.default_rng(1), 128, 128, longest=16, shortest=4, slope=0.0)
    assert torch.equal(noise, band_noise(np.random.default_rng(1), 128, 128, 16, 4, 0.0))
    assert float(noise.std()) == pytest.approx(1)
    assert float(noise.mean()) == pytest.approx(0, abs=1e-5)
    power = torch.fft.fft2(noise).abs() ** 2
    frequency = torch.sqrt(torch.fft.fftfreq(128)[:, None] ** 2 + torch.fft.fftfreq(128)[None, :] ** 2)
    band = (frequency > 1 / 32) & (frequency < 1 / 3)
    assert float(power[band].sum() / power.sum()) > 0.95


def test_blurring_keeps_the_sum_and_joins_the_edges() -> None:
    dot = torch.zeros(32, 48)
    dot[0, 0] = 1.0
    blurred = blur_periodic([(dot, 2.0)])
    assert float(blurred.sum()) == pytest.approx(1, abs=1e-4)
    assert float(blurred[0, 0]) == pytest.approx(1 / (2 * np.pi * 4), rel=0.02)
    assert float(blurred[31, 47]) == pytest.approx(float(blurred[1, 1]), abs=1e-6)


def test_vessels_are_thin_connected_lines() -> None:
    vessels = vessel_map(np.random.default_rng(2), 200, 200, texel_mm=0.2, roots=6, widest_mm=0.8)
    assert float(vessels.min()) >= 0
    assert float(vessels.max()) <= 1
    share = float((vessels > 0.3).float().mean())
    assert 0.01 < share < 0.4
    line = vessels > 0.3
    neighbours = torch.nn.functional.max_pool2d(line.float()[None, None], 3, 1, 1)[0, 0]
    alone = line & (torch.nn.functional.avg_pool2d(line.float()[None, None], 3, 1, 1)[0, 0] * 9 < 1.5)
    assert float(neighbours.sum()) > float(line.sum())
    assert float(alone.sum()) < 0.01 * float(line.sum())


def test_a_ring_is_brighter_at_its_edge_than_in_its_middle() -> None:
    full = spot_map(np.random.default_rng(0), 64, 64, 1, (10.0, 10.0), ring=0.0)
    ring = spot_map(np.random.default_rng(0), 64, 64, 1, (10.0, 10.0), ring=0.9)
    assert float(full.sum()) == pytest.approx(np.pi * 100, rel=0.05)
    assert float(ring.sum()) < 0.6 * float(full.sum())
    assert float(ring.max()) > 0.3
