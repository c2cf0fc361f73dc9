"""`polyptrace settings`, and how every command reads its settings.

polyptrace settings tracks crops
"""

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from polyptrace.config import Config, describe, override, read_config
from polyptrace.core.errors import UserError

ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="TOML file with settings; see 'polyptrace settings'.")
]


def resolve(
    ctx: typer.Context, config_file: Path | None, sections: Sequence[str], base: Config | None = None
) -> Config:
    """Defaults (or `base`), then the TOML file, then `--section.key value` from the command line."""
    options = [option for parameter in ctx.command.params for option in parameter.opts]
    for argument in ctx.args:
        name = argument.partition("=")[0]
        if name.startswith("--") and "." not in name:  # no setting: an option of this command was meant
            near = difflib.get_close_matches(name, options, 1, 0.5)
            settings = [row[0] for row in describe(sections) if row[0].rpartition(".")[2] == name.removeprefix("--")]
            meant = settings or near or ["one that --help or 'polyptrace settings' lists"]
            raise UserError(f"{name}: no such option -> did you mean {' or '.join(meant)}?")
    return override(read_config(config_file, base), ctx.args, sections)


def command(
    sections: Annotated[list[str] | None, typer.Argument(help="Sections to list; all if none is given.")] = None,
) -> None:
    """List every setting, its default and what it means.

    Each can stand in a TOML file (--config FILE: \\[section], key = value) or on the command line of the commands that
    use its section (--section.key value). The command line wins.
    """
    rows = describe(sections)
    if not rows:
        names = dict.fromkeys(row[0].removeprefix("--").partition(".")[0] for row in describe())
        raise UserError(f"no section is called {', '.join(sections or [])} -> any of {', '.join(names)}")
    table = Table("setting", "values", "default", "meaning", box=None, header_style="bold")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
