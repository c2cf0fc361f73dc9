"""The quoted figures against the paper itself."""

import re
from pathlib import Path

from polyptrace.report.paper import PAPER


def test_every_quoted_number_is_the_papers(shared: Path) -> None:
    text = (shared / "paper.tex").read_text(encoding="utf-8")
    body = text[text.index(r"\multirow{3}{*}{Method}") : text.index(r"\label{tab:sota}")]
    printed = {}
    for line in body.split(r"\\"):
        name, *cells = line.split("&")
        numbers = re.findall(r"\d+\.?\d*", " ".join(cells))
        name = re.sub(r"\\(textbf|rowcolor|hline|textit)|~\\cite\{[^}]*\}|orange!20|[{}]", "", name).strip()
        if len(numbers) == 9:
            printed[name.split()[-1]] = [float(n) for n in numbers]
    assert len(printed) == len(PAPER) == 18
    for row in PAPER:
        assert [row.params_millions, row.macs_billions, *row.figures.values()] == printed[row.name], row.name
