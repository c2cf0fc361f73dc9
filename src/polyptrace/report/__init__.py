"""Tables, figures and one self-contained HTML page from results folders."""

from polyptrace.report.ranking import load_rows
from polyptrace.report.write import write_report

__all__ = ["load_rows", "write_report"]
