"""Warnings for the user."""

import warnings
from pathlib import Path

from polyptrace.core.errors import PolyptraceWarning
from polyptrace.data.sources.voc import warn_of_unlabelled


def test_a_warning_names_the_line_that_called_the_package() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_unlabelled(Path("images"), 2)
    assert [(each.category, each.filename) for each in caught] == [(PolyptraceWarning, __file__)]
    assert str(caught[0].message) == "images: 2 images without an XML file, read as frames without a box"
