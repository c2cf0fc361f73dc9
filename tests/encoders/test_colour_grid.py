"""The colour grid against means taken cell by cell."""

import torch

from polyptrace.encoders import ColourGrid, load_encoder


def test_each_number_is_the_mean_colour_of_its_cell_over_the_real_frames():
    frames = torch.rand(2, 3, 3, 32, 32)
    mask = torch.tensor([[True, True, True], [True, True, False]])
    found = ColourGrid()(frames, mask).view(2, 3, 8, 8)
    for number, real in ((0, 3), (1, 2)):
        for colour, row, column in ((0, 0, 0), (1, 3, 7), (2, 7, 4)):
            cell = frames[number, :real, colour, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4]
            torch.testing.assert_close(found[number, colour, row, column], cell.mean())


def test_padding_that_is_not_a_number_does_not_reach_the_vector():
    frames = torch.rand(1, 2, 3, 32, 32)
    frames[0, 1] = float("nan")
    assert torch.isfinite(ColourGrid()(frames, torch.tensor([[True, False]]))).all()


def test_without_a_mask_every_frame_is_real():
    frames = torch.rand(2, 3, 3, 40, 40)
    torch.testing.assert_close(ColourGrid()(frames), ColourGrid()(frames, torch.ones(2, 3, dtype=torch.bool)))


def test_it_is_loaded_by_name_and_describes_its_input():
    encoder = load_encoder("colour-grid")
    assert isinstance(encoder, ColourGrid)
    assert encoder.width == 192
    assert encoder.preprocess.size == 32
