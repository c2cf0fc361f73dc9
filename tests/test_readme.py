"""What the README shows works as shown."""

import re
from pathlib import Path

import pytest

from polyptrace.cli import COMMANDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")]), ids=lambda p: p.name)
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing


def test_the_architecture_page_names_files_and_functions_that_exist() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    source = ROOT / "src/polyptrace"
    paths = re.findall(r"`([\w/]+(?:\.py|/))`", page)
    assert not [path for path in paths if not (source / path).exists() and "/" in path]
    steps = re.findall(r"^\| ([\w ]+) \| `([\w/]+\.py)` \| `(\w+)` \|", page, re.MULTILINE)
    needed = ["box", "track", "tracklet", "crop", "bag", "batch", "encoder", "loss", "step", "vector", "metric"]
    assert [step for step, _, _ in steps if step in needed] == needed
    for _, path, name in steps:
        assert re.search(rf"^(def|class) {name}\b", (source / path).read_text(encoding="utf-8"), re.MULTILINE), path


def test_every_command_that_is_shown_exists() -> None:
    shown = set(re.findall(r"polyptrace ([a-z]+)", " ".join(re.findall(r"```sh\n(.*?)```", README, re.DOTALL))))
    assert shown <= set(COMMANDS)
    assert "train" in shown
