"""python -m campaigns kill|fuzz|faults|load ... [--quick] [--seconds 900] [--seed 0] [--out campaigns/results]

Tries to break polyptrace, and writes the counts to NAME.json. `make test` runs all of them with --quick.
"""

import argparse
import importlib
import random
import sys
import tempfile
import time
from pathlib import Path

from campaigns.commands import load_commands, make_inputs
from campaigns.findings import Findings
from polyptrace.core.files import provenance, write_json

CAMPAIGNS = ("kill", "fuzz", "faults", "load")
#: With --quick: cases of each command or reader, and the commands.
QUICK = {"kill": 2, "fuzz": 3, "faults": 2, "load": 1}
QUICK_COMMANDS = {"kill": ["embed", "prepare"], "faults": ["embed"], "load": ["evaluate"]}


def main(words: list[str] | None = None) -> int:
    """Runs some campaigns; returns 1 if one of them found a failure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("campaigns", nargs="+", choices=CAMPAIGNS)
    parser.add_argument("--quick", action="store_true", help="a few cases of each command")
    parser.add_argument("--seconds", type=float, default=900, help="for each campaign")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="only these commands or readers")
    parser.add_argument("--out", type=Path, default=Path("campaigns/results"))
    options = parser.parse_args(words)
    load_commands()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="campaigns-") as temporary:
        folder = Path(temporary).resolve()
        make_inputs(folder / "inputs")
        for name in options.campaigns:
            began, rng = time.monotonic(), random.Random(options.seed)
            cases = QUICK[name] if options.quick else sys.maxsize
            only = options.only or (QUICK_COMMANDS.get(name, []) if options.quick else [])
            campaign = importlib.import_module(f"campaigns.{name}").campaign
            (folder / name).mkdir()
            findings: Findings = campaign(folder / name, folder / "inputs", options.seconds, cases, rng, only)
            spent = {"seconds": round(time.monotonic() - began), "seed": options.seed, "made_by": provenance()}
            write_json(options.out / f"{name}.json", {"campaign": name, **findings.as_json(), **spent})
            failed += len(findings.failures)
            for title, count in findings.counts.items():
                print(f"{name}: {title}: " + ", ".join(f"{key} {value:,}" for key, value in count.items()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
