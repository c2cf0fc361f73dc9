"""Options that several commands have, and how commands parse their settings."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Option

from polyptrace.config import Config, override, read_config

ConfigFile = Annotated[Path | None, Option("--config", help="TOML file with settings; see 'polyptrace settings'.")]
Out = Annotated[Path, Option("--out", help="Folder to write.")]
Overwrite = Annotated[bool, Option("--overwrite", help="Replace the folder if it exists.")]
DatasetFolder = Annotated[Path, Option("--data", help="Dataset folder, made by 'polyptrace prepare'.")]
PictureFolders = Annotated[list[Path] | None, Option("--data", help="Dataset folder, for the images. Can be repeated.")]
VectorsFile = Annotated[Path, Argument(help="Folder of 'polyptrace embed', or a .npz or .parquet file made elsewhere.")]
Weights = Annotated[
    str | None, Option("--weights", help="Weights of a foundation model or frozen backbone: file, folder or hub id.")
]
SameFile = Annotated[
    Path | None, Option("--same", help="Use this same.json, fitted on other vectors of the same encoder.")
]
Cluster = Annotated[
    str | None, Option("--cluster", metavar="ADDRESS", help="Compute on a Ray cluster: auto, or HOST:PORT.")
]


def read_settings(
    ctx: Context,
    config_file: Path | None,
    sections: Sequence[str],
    base: Config | None = None,
    arguments: Sequence[str] | None = None,
) -> Config:
    """`base` (the defaults if None), updated from the TOML file and then from `--section.key value` arguments.

    `arguments` are those that typer did not parse, if they are not in `ctx.args`.
    """
    arguments = ctx.args if arguments is None else arguments
    return override(read_config(config_file, base), arguments, sections, option_names(ctx))


def option_names(ctx: Context) -> list[str]:
    """The options of a command, without the settings."""
    return [option for parameter in ctx.command.params for option in parameter.opts if option.startswith("--")]


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
            options += islice(remaining, 1)  # its value
    return positional, options
