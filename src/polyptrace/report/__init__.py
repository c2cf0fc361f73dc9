"""Tables, figures and one self-contained HTML page from results folders."""

from polyptrace.report.write import ReportOptions, write_report

__all__ = ["ReportOptions", "write_report"]
