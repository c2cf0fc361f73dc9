"""Errors for a folder of another command."""

from pathlib import Path

import pytest

from polyptrace.core.folders import CONTENTS, wrong_folder


def test_a_missing_folder_an_empty_one_and_one_of_another_command_are_told_apart(tmp_path: Path) -> None:
    assert "x: no such folder -> give a folder that 'polyptrace prepare' wrote" in str(
        wrong_folder(tmp_path / "x", "prepare")
    )
    assert "contains no dataset -> give" in str(wrong_folder(tmp_path, "prepare"))
    (tmp_path / "embeddings.json").touch()
    expected = "contains vectors, written by 'polyptrace embed', not a dataset -> give a folder"
    assert expected in str(wrong_folder(tmp_path, "prepare"))
    assert str(wrong_folder(tmp_path, "prepare", ", or a file")).endswith("wrote, or a file")


@pytest.mark.parametrize("command", CONTENTS)
def test_a_folder_of_the_wanted_command_is_not_named_as_another_one(command: str, tmp_path: Path) -> None:
    (tmp_path / CONTENTS[command][0]).touch()
    assert "written by" not in str(wrong_folder(tmp_path, command))
