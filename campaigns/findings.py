"""What a campaign counted, and what failed."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Findings:
    """Counts by command or reader, and a line for each failure, which is printed at once."""

    counts: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    failures: list[str] = field(default_factory=list)

    def fail(self, title: str, problem: str) -> None:
        """Adds a failure."""
        self.counts[title]["failed"] += 1
        self.failures.append(f"{title}, {problem}")
        print(f"FAILED: {title}, {problem}", flush=True)

    def as_json(self) -> dict[str, Any]:
        """For the file of the campaign."""
        return {"counts": {title: dict(count) for title, count in self.counts.items()}, "failures": self.failures}
