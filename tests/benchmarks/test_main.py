"""python -m benchmarks."""

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import main, page_table
from benchmarks.result import markdown_table
from polyptrace.core.errors import UserError

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


def test_it_measures_writes_json_and_the_table_of_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- table -->\nold\n<!-- end -->\nafter\n")
    main(["linking", "--quick", "--out", str(tmp_path), "--write", "--page", str(page)])
    (file,) = tmp_path.glob("linking*.json")
    content = json.loads(file.read_text())
    assert content["rows"][0]["ours"] < content["rows"][0]["plain"]
    assert content["hardware"]
    assert content["command"] == "python -m benchmarks linking --quick"
    text = page.read_text()
    assert text.startswith("before\n<!-- table -->\n\n| stage | figure |")
    assert text.endswith("<!-- end -->\nafter\n")
    assert "| linking by polyp, 10,000 boxes | " in text
    assert "cutting tracklets" not in text, "a row without target or comparison is not on the page"
    assert "old" not in text


def test_a_page_without_a_place_for_the_table_is_an_error(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("no table\n")
    with pytest.raises(UserError, match="no place for the table -> add"):
        main(["--write", "--out", str(tmp_path), "--page", str(page)])


def test_the_page_has_the_table_of_the_stored_results() -> None:
    contents = [json.loads(path.read_text()) for path in (ROOT / "benchmarks/results").glob("*.json")]
    table, _ = page_table(contents)
    shown = set((ROOT / "docs/performance.md").read_text().splitlines())
    assert len(table) > 10
    assert set(markdown_table(table).splitlines()) <= shown
