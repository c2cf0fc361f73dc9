"""Names of histologies and sizes in millimetres as classes."""

import numpy as np
import pytest

from polyptrace.core.errors import UserError
from polyptrace.evaluate import adenoma, larger

#: The table of the public datasets.
TABLE = {
    1: [
        "Low-grade adenoma",
        "High-grade adenoma",
        "AD",
        "Tubular Adenoma",
        "Tubular Adenoma With High-Grade Dysplasia (HGD)",
        "Tubulovillous Adenoma",
        "adenomatous",
    ],
    0: [
        "Traditional serrated adenoma",
        "Sessile serrated lesion",
        "Hyperplastic polyp",
        "SSL",
        "TSA",
        "HP",
        "Sessile Serrated Lesion (SSL)",
        "Hyperplastic Polyp",
        "Inflammatory Polyp",
        "hyperplastic",
    ],
    -1: ["Invasive cancer (T1b)", "NO POLYP", "OTHER", "Pathology Not Available", ""],
}


def test_every_name_of_the_four_datasets_has_its_class():
    for label, names in TABLE.items():
        assert adenoma(names).tolist() == [label] * len(names)


def test_case_and_spaces_do_not_matter():
    assert adenoma([" tubular  ADENOMA", "hp "]).tolist() == [1, 0]


def test_an_unknown_name_is_an_error_that_lists_the_known_ones_and_how_to_map_it():
    with pytest.raises(UserError, match=r"'villous'.*Low-grade adenoma.*--histology NAME=1"):
        adenoma(["AD", "villous"])


def test_more_names_can_be_mapped():
    assert adenoma(["AD", "Villous", "cancer"], {"villous": 1, "Cancer": -1}).tolist() == [1, 1, -1]


def test_above_five_millimetres_is_one():
    sizes = np.array([2.0, 5.0, 5.01, 11.74, np.nan])
    assert larger(sizes).tolist() == [0, 0, 1, 1, -1]
