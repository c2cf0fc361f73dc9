"""The command line of a module that `python -m benchmarks` calls with options of its own."""

import argparse


def parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """A parser for `python -m benchmarks NAME`, which shows the module's docstring as it is written."""
    return argparse.ArgumentParser(
        prog=f"python -m benchmarks {name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
