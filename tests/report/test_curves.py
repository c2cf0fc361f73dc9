"""ROC, precision and recall, similarities."""

from polyptrace.drawing import LineStyle
from polyptrace.evaluate import Results
from polyptrace.report.curves import base_rate, precision_recall, roc, similarities


def test_the_legend_lists_each_method_with_its_interval_best_first(rows: list[Results]) -> None:
    weak, ours = rows[-1], rows[0]
    for drawing, figure in ((roc([weak, ours], [LineStyle("red"), LineStyle("blue")]), "auroc"),):
        metric = ours.tasks["reid"].metrics[figure]
        assert f"Ours  {100 * metric.value:.1f}  [{100 * metric.low:.1f}–{100 * metric.high:.1f}]" in drawing.svg
        assert drawing.svg.index("Ours  ") < drawing.svg.index("&lt;script&gt;")


def test_precision_of_chance_is_the_share_of_same_pairs(rows: list[Results]) -> None:
    counts = rows[0].tasks["reid"].counts
    expected = counts["same_pairs"] / (counts["same_pairs"] + counts["different_pairs"])
    assert abs(base_rate(rows[0]) - expected) < 1e-12
    assert "Ours" in precision_recall([rows[0]], [LineStyle("blue")]).description


def test_similarities_are_drawn_for_any_method(rows: list[Results]) -> None:
    drawing = similarities(rows[-1], 7)
    assert drawing.name == "similarities_7"
    assert "AUROC" in drawing.description
