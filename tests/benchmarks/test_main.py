"""python -m benchmarks."""

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import main

ROOT = Path(__file__).parents[2]


def test_without_a_name_it_lists_every_module_that_measures(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines()[2:]}
    modules = {path.stem for path in (ROOT / "benchmarks").glob("*.py") if "\ndef measure(" in path.read_text()}
    assert listed == modules


def test_an_unknown_name_is_an_error_that_names_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["linkin"])
    assert "no benchmark linkin -> one of linking, bags" in capsys.readouterr().err


def test_it_measures_writes_json_and_fills_its_place_on_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- linking -->\nold\n<!-- end -->\nafter\n<!-- linking-gpu -->\nold too\n<!-- end -->\n")
    main(["linking", "--quick", "--out", str(tmp_path), "--write", "--page", str(page)])
    (file,) = tmp_path.glob("linking*.json")
    content = json.loads(file.read_text())
    assert content["rows"][0]["ours"] < content["rows"][0]["plain"]
    assert content["hardware"]
    assert content["command"] == "python -m benchmarks linking --quick"
    text = page.read_text()
    assert text.startswith(
        f"before\n<!-- {file.stem} -->" if file.stem == "linking" else "before\n<!-- linking -->\nold"
    )
    assert "| linking by polyp, 10,000 boxes | ms |" in text
    assert text.count("old") == 1, "the place of the other machine stays as it is"
