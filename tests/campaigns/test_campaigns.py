"""Every campaign for a short while: nothing fails, and something was tried."""

import json
import subprocess
import sys
from pathlib import Path

from campaigns.commands import COMMANDS, NOT_TESTED
from polyptrace.cli import COMMANDS as ALL

ROOT = Path(__file__).parents[2]
CAMPAIGNS = ("kill", "fuzz", "faults", "load")


def test_no_short_campaign_finds_a_failure(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "campaigns", *CAMPAIGNS, "--quick", "--out", tmp_path]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    counts = {name: json.loads((tmp_path / f"{name}.json").read_text())["counts"] for name in CAMPAIGNS}
    assert all(count["aimed"] for count in counts["kill"].values())
    assert all(count["cases"] == 3 for count in counts["fuzz"].values())
    assert len(counts["fuzz"]) > 25
    assert any(key.endswith(": error") for count in counts["faults"].values() for key in count)
    assert all(count["MiB"] > 0 for count in counts["load"].values())


def test_every_command_is_in_the_campaigns() -> None:
    assert {*COMMANDS, *NOT_TESTED} == set(ALL)
