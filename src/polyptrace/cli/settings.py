"""`polyptrace settings tracks crops`."""

from dataclasses import fields
from typing import Annotated

from rich.table import Table
from typer import Argument

from polyptrace.config import Config, describe
from polyptrace.core.console import echo, output
from polyptrace.core.errors import UserError


def command(sections: Annotated[list[str] | None, Argument(help="Sections to list; all by default.")] = None) -> None:
    """List every setting with its values, its default and its meaning.

    A setting can be given in a TOML file (--config FILE: \\[section], key = value) or on the command line of the
    commands that use its section (--section.key value). The command line takes precedence.

    Examples:

      polyptrace settings

      polyptrace settings tracks crops
    """
    known = [section.name for section in fields(Config)]
    if unknown := [name for name in sections or [] if name not in known]:
        raise UserError(f"{', '.join(unknown)}: no such section -> use {', '.join(known)}")
    rows = describe(sections)
    if output.is_terminal and output.width >= max(len(row[0]) for row in rows) + 60:
        table = Table("setting", "values", "default", "meaning", box=None, header_style="bold")
        table.columns[0].no_wrap = True
        for row in rows:
            table.add_row(*row)
        output.print(table)
        return
    for name, values, default, meaning in rows:
        echo(f"{name}  {values}, default {default or 'empty'}: {meaning}")
