"""The report folder."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from polyptrace.core.errors import UserError
from polyptrace.core.lock import owner_tag
from polyptrace.evaluate import Results
from polyptrace.report import load_rows, write_report


@pytest.fixture(scope="module")
def bare(unlabelled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on procedures without labels, with neither pictures nor runs."""
    return write_report(load_rows([unlabelled]), tmp_path_factory.mktemp("bare") / "report").parent


def test_tables_are_there_three_times_and_figures_twice(report: Path) -> None:
    for name in ("table1", "differences", "table_counting", "table_additional"):
        assert all((report / f"{name}.{ending}").stat().st_size > 300 for ending in ("md", "tex", "html"))
    figures = {path.stem for path in (report / "figures").iterdir()}
    expected = {"intervals", "roc", "precision_recall", "map_2", "similarities_2", "timeline_0"}
    expected |= {"training_loss", "curriculum_rank", "curriculum_pure", "bag"}
    assert expected <= figures
    for name in figures:
        assert (report / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (report / "figures" / f"{name}.svg").read_text(encoding="utf-8")


def test_machines_read_every_row_and_who_is_best(report: Path, rows: list[Results]) -> None:
    content = json.loads((report / "results.json").read_text(encoding="utf-8"))
    assert [row["method"]["name"] for row in content["rows"]][1:] == ["TA", "Ours"]
    assert content["focus"] == "Ours"
    ta = content["rows"][1]["tasks"]["retrieval"]["metrics"]["map"]["value"]
    assert ta == rows[2].tasks["retrieval"].metrics["map"].value
    by_figure = {(c["task"], c["metric"]): c for c in content["comparisons"]}
    assert "Ours" in by_figure["retrieval", "map"]["best"]
    assert "TA" not in by_figure["size", "f1"]["p_adjusted"]  # it saw the test data of size
    assert set(by_figure["retrieval", "map"]["p_adjusted"]) | set(by_figure["retrieval", "map"]["best"]) == {
        row["method"]["name"] for row in content["rows"]
    }


def test_real_data_have_no_warning_and_generated_ones_have(report: Path, bare: Path) -> None:
    assert "Generated procedures." not in (report / "report.html").read_text(encoding="utf-8")
    text = (bare / "report.html").read_text(encoding="utf-8")
    assert "Generated procedures." in text
    assert "<h1>Mine on synthetic</h1>" in text


def test_a_name_does_not_make_data_generated(unlabelled: Path, tmp_path: Path) -> None:
    row = Results.load(unlabelled)
    assert row.tasks["counting.temporal"].datasets == ("synthetic",)
    page = write_report([replace(row, generated=False)], tmp_path / "report")
    assert "Generated procedures" not in page.read_text(encoding="utf-8")


def test_without_labels_there_are_timelines_and_a_count_and_the_reasons_for_the_rest(bare: Path) -> None:
    text = (bare / "report.html").read_text(encoding="utf-8")
    assert "Found per procedure" in text
    assert "needs polyp labels" in text
    assert (bare / "figures" / "timeline_0.svg").exists()
    assert not (bare / "table1.md").exists()
    assert "nothing here shows whether the count is right" in text
    assert "For comparison, add the colour-grid baseline" in text
    assert not any(words in text for words in ("Count error", "a true polyp", "of 0 polyps"))


def test_an_existing_folder_is_kept_unless_it_may_go(unlabelled: Path, tmp_path: Path) -> None:
    mine = tmp_path / "out" / "mine.txt"
    mine.parent.mkdir()
    mine.write_text("mine", encoding="utf-8")
    with pytest.raises(UserError, match="already exists"):
        write_report(load_rows([unlabelled]), tmp_path / "out")
    with pytest.raises(UserError, match="this command did not write it"):
        write_report(load_rows([unlabelled]), tmp_path / "out", overwrite=True)
    assert mine.exists()
    (tmp_path / "out" / "report.html").touch()
    write_report(load_rows([unlabelled]), tmp_path / "out", overwrite=True)
    assert not mine.exists()


def test_methods_of_other_data_are_marked_and_a_page_without_pictures_says_what_to_pass(
    make_row: Callable[..., Results], tmp_path: Path
) -> None:
    rows = [make_row("Here", 0.5), make_row("Too", 0.4), make_row("Elsewhere", 0.9, key="other")]
    with pytest.warns(UserWarning, match="Elsewhere: other tracklets"):
        page = write_report(rows, tmp_path / "out")
    text = (tmp_path / "out" / "table1.md").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if "Elsewhere" in line)
    assert "†" in line
    assert "**" not in line
    assert "Film strips need the dataset: polyptrace report RESULTS --data DATASET" in page.read_text(encoding="utf-8")


def test_a_hit_rate_over_few_queries_is_shown_with_its_count(make_row: Callable[..., Results], tmp_path: Path) -> None:
    page = write_report([make_row("Ours", 1.0, figure="hr1")], tmp_path / "out")
    assert "; 50 of 50<" in page.read_text(encoding="utf-8")


def test_filled_points_are_explained_where_methods_are_compared(
    make_row: Callable[..., Results], tmp_path: Path
) -> None:
    rows = [make_row("Ours", 0.8), make_row("Other", 0.4)]
    pages = [write_report(rows[:count], tmp_path / str(count)).read_text(encoding="utf-8") for count in (1, 2)]
    assert ["Filled points" in page for page in pages] == [False, True]


def test_a_report_removes_what_a_killed_one_left_beside_it(make_row: Callable[..., Results], tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    host = owner_tag().partition("-")[0]
    (tmp_path / f"compared/.report.{host}-{ended.pid}-1.x.partial").mkdir(parents=True)
    write_report([make_row("Ours", 0.5)], tmp_path / "compared/report", overwrite=True)  # as compare does
    assert [path.name for path in (tmp_path / "compared").iterdir()] == ["report"]
