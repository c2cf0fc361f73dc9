"""`polyptrace settings`, and how every command parses its settings.

polyptrace settings tracks crops
"""

import difflib
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from polyptrace.config import Config, describe, override, parse_options, read_config
from polyptrace.core.console import echo, output
from polyptrace.core.errors import UserError

ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="TOML file with settings; see 'polyptrace settings'.")
]


def resolve(
    ctx: typer.Context,
    config_file: Path | None,
    sections: Sequence[str],
    base: Config | None = None,
    arguments: Sequence[str] | None = None,
) -> Config:
    """`base` (the defaults if None), updated from the TOML file and then from `--section.key value` arguments.

    `arguments` are those that typer did not parse, if they are not in `ctx.args`.
    """
    arguments = ctx.args if arguments is None else arguments
    check_options(ctx, sections, arguments)
    return override(read_config(config_file, base), arguments, sections)


def check_options(ctx: typer.Context, sections: Sequence[str], arguments: Sequence[str]) -> None:
    """Raises an error for an unknown option or setting among the arguments that typer did not parse."""
    options = [option for parameter in ctx.command.params for option in parameter.opts]
    for argument in arguments:
        name = argument.partition("=")[0].replace("_", "-")
        if name.startswith("--") and "." not in name:  # not a setting, so a misspelt option of this command
            settings = [row[0] for row in describe(sections) if row[0].rpartition(".")[2] == name.removeprefix("--")]
            near = difflib.get_close_matches(name, options, 1, 0.5)
            meant = settings or near or ["an option that --help or 'polyptrace settings' lists"]
            raise UserError(f"{name}: no such option -> did you mean {' or '.join(meant)}?")
    parse_options(arguments, sections)


def split_arguments(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The positional arguments, and the `--section.key value` arguments among them.

    For commands with any number of positional arguments, to which typer adds the options that it does not know.
    """
    positional, options = [], []
    remaining = iter(words)
    for word in remaining:
        if not word.startswith("-"):
            positional.append(word)
            continue
        options.append(word)
        if "=" not in word:
            options += [value for value in [next(remaining, None)] if value is not None]
    return positional, options


def command(
    sections: Annotated[list[str] | None, typer.Argument(help="Sections to list; all by default.")] = None,
) -> None:
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
