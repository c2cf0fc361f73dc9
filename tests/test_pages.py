"""Files and functions that the documentation names exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/polyptrace"
ARCHITECTURE = ROOT / "docs/architecture.md"
STEPS = [
    "box",
    "track",
    "tracklet",
    "region",
    "crop",
    "store",
    "plan",
    "bag",
    "batch",
    "feed",
    "network",
    "encoder",
    "loss",
    "formula",
    "step",
    "vector",
    "evaluation",
    "task",
    "metric",
]


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_every_path_on_a_page_exists(page: str) -> None:
    paths = re.findall(r"`([\w./-]+(?:\.py|\.md|/))`", (ROOT / page).read_text(encoding="utf-8"))
    assert paths
    assert [path for path in paths if not (PACKAGE / path).exists() and not (ROOT / path).exists()] == []


def test_every_module_of_the_package_is_on_the_page_of_the_architecture() -> None:
    text = ARCHITECTURE.read_text(encoding="utf-8")
    names = [path.name if path.suffix else f"{path.name}/" for path in PACKAGE.iterdir()]
    public = [name for name in names if name.endswith((".py", "/")) and not name.startswith("__")]
    assert len(public) > 10
    assert [name for name in public if f"`{name}" not in text] == []


def test_every_step_of_a_batch_names_a_function_of_its_file() -> None:
    rows = re.findall(r"^\| (\w+) \| `(\S+\.py)` \| `(\w+)` \|", ARCHITECTURE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [step for step, _, _ in rows] == STEPS
    for _, path, name in rows:
        assert re.search(rf"^(?:def|class) {name}\b", (PACKAGE / path).read_text(encoding="utf-8"), re.MULTILINE), name
