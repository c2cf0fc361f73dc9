import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from polyptrace.synthetic.colon import LENGTH_MM, Lumen, draw_colon, inflate

COLON = draw_colon(np.random.default_rng(5), texel_mm=2.0)
INFLATION, GAIN = (0.9, 1.1), (1.0, 0.5)
LUMEN = inflate(COLON.shape, COLON.slope, torch.tensor(INFLATION), torch.tensor(GAIN))


def slow_radius(theta: float, z: float, state: int) -> float:
    """Bilinear interpolation in both maps, written out."""
    base, fold = COLON.shape.numpy().astype(np.float64)
    rows, columns = base.shape[0] - 1, base.shape[1] - 1
    row, column = (z % LENGTH_MM) / LENGTH_MM * rows, (theta + np.pi) / (2 * np.pi) * columns
    i, j = min(int(row), rows - 1), min(int(column), columns - 1)
    a, b = row - i, column - j
    total = 0.0
    for di, dj, weight in ((0, 0, (1 - a) * (1 - b)), (0, 1, (1 - a) * b), (1, 0, a * (1 - b)), (1, 1, a * b)):
        total += weight * (INFLATION[state] * base[i + di, j + dj] - GAIN[state] * fold[i + di, j + dj])
    return total


@given(st.floats(-3.14, 3.14), st.floats(-400, 800), st.integers(0, 1))
def test_the_radius_is_interpolated_in_the_map_of_its_state(theta: float, z: float, state: int) -> None:
    radius = LUMEN.radius(torch.tensor([[theta]]), torch.tensor([[z]]), torch.tensor([[float(state)]]))
    assert float(radius) == pytest.approx(slow_radius(theta, z, state), abs=0.02)


def test_a_point_on_the_axis_is_a_radius_away_from_the_wall() -> None:
    z, state = torch.linspace(0, 300, 20), torch.zeros(20)
    radius = LUMEN.radius(torch.zeros(20), z, state)
    assert torch.allclose(LUMEN.clearance(torch.zeros(20) + 1e-6, torch.zeros(20), z, state), radius, atol=1e-4)


def smooth_lumen() -> Lumen:
    """A tube whose radius is known as a formula: 20 + 2 cos(theta) + 3 sin(2 pi z / L)."""
    rows, columns = 384, 256
    z = torch.linspace(0, LENGTH_MM, rows + 1, dtype=torch.float64)[:, None]
    theta = torch.linspace(-np.pi, np.pi, columns + 1, dtype=torch.float64)[None, :]
    base = 20 + 2 * torch.cos(theta) + 3 * torch.sin(2 * np.pi * z / LENGTH_MM)
    along_z = 3 * 2 * np.pi / LENGTH_MM * torch.cos(2 * np.pi * z / LENGTH_MM) + 0 * theta
    along_a = -2 * torch.sin(theta) + 0 * z
    nothing = torch.zeros_like(base)
    shape = torch.stack([base, nothing]).float()
    slope = torch.stack([along_z, nothing, along_a, nothing]).float()
    return inflate(shape, slope, torch.ones(1), torch.ones(1))


@given(st.floats(-3, 3), st.floats(0, 380))
def test_the_normal_is_at_right_angles_to_the_wall_and_points_inwards(theta: float, z: float) -> None:
    lumen = smooth_lumen()

    def point(a: float, depth: float) -> np.ndarray:
        radius = 20 + 2 * np.cos(a) + 3 * np.sin(2 * np.pi * depth / LENGTH_MM)
        return np.array([radius * np.cos(a), radius * np.sin(a), depth])

    wall_point = point(theta, z)
    x, y, depth, state = (torch.tensor([[float(each)]]) for each in (*wall_point, 0.0))
    normal = np.array([float(each) for each in lumen.inward_normal(x, y, depth, state)])
    assert np.linalg.norm(normal) == pytest.approx(1, abs=1e-5)
    for a, b in ((1e-4, 0.0), (0.0, 1e-3)):
        along = point(theta + a, z + b) - point(theta - a, z - b)
        assert abs(normal @ along) / np.linalg.norm(along) < 5e-3
    assert normal[:2] @ wall_point[:2] < 0


def test_less_air_and_higher_folds_leave_less_room() -> None:
    states = inflate(COLON.shape, COLON.slope, torch.tensor([1.0, 0.8, 1.0]), torch.tensor([1.0, 1.0, 1.3]))
    theta, z = torch.linspace(-3, 3, 500), torch.linspace(0, 380, 500)
    normal, less, higher = (states.radius(theta, z, torch.full((500,), float(each))) for each in range(3))
    assert (less < normal).all()
    assert (higher <= normal + 1e-4).all()
    assert (higher < normal - 0.5).any()
