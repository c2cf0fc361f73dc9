"""Crops on their way to the device."""

import numpy as np
import torch

from polyptrace.embed.reading import read_ahead, to_device

CPU = torch.device("cpu")


def test_parts_come_in_order_with_their_own_rows() -> None:
    crops = np.random.default_rng(0).integers(0, 256, (40, 4, 4, 3), np.uint8)
    parts = [np.array([3, 4, 5]), np.array([39]), np.array([0, 20, 7, 7])]
    for rows, found in zip(parts, read_ahead(crops, parts, CPU), strict=True):
        assert np.array_equal(found.numpy(), crops[rows])


def test_padding_is_zeros_behind_the_rows() -> None:
    crops = np.full((6, 2, 2, 3), 9, np.uint8)
    whole, last = read_ahead(crops, [np.arange(4), np.arange(4, 6)], CPU, pad=4)
    assert whole.shape == last.shape == (4, 2, 2, 3)
    assert (last[:2] == 9).all()
    assert (last[2:] == 0).all()


def test_only_some_parts_are_read_ahead() -> None:
    asked: list[int] = []

    class Parts(list[np.ndarray]):
        def __iter__(self):
            for number, part in enumerate(super().__iter__()):
                asked.append(number)
                yield part

    stream = read_ahead(np.zeros((9, 2, 2, 3), np.uint8), Parts([np.arange(9)] * 50), CPU)
    next(stream)
    assert len(asked) <= 3
    stream.close()


def test_an_array_on_the_cpu_is_not_copied() -> None:
    array = np.arange(3)
    assert to_device(array, CPU).data_ptr() == array.ctypes.data
