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
    if page.is_relative_to(ROOT / "docs"):  # the site has these pages only
        missing += [link for link in links if not (page.parent / link).resolve().is_relative_to(ROOT / "docs")]
    assert not missing


def test_every_command_that_is_shown_exists() -> None:
    shown = set(re.findall(r"polyptrace ([a-z]+)", " ".join(re.findall(r"```sh\n(.*?)```", README, re.DOTALL))))
    assert shown <= set(COMMANDS)
    assert "train" in shown
