"""The command line: one command per stage, each in the file of its name.

Only the module of the command that is called is imported, so that `polyptrace --help` does not wait for torch.
"""

import errno
import importlib
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, NoReturn, TextIO

import typer
from rich.markup import escape

import polyptrace
from polyptrace.core.console import console
from polyptrace.core.errors import UserError

# Threads that wait for each other spin for a moment only, then sleep (read when torch is loaded). On a machine that
# others use too, spinning takes cores from those who are waited for: two threads were seen to train ten times slower.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")

COMMANDS = {
    "synth": "Generate procedures: pictures, boxes and labels, rendered from nothing.",
    "prepare": "Turn pictures and boxes, in any published format, into a dataset folder.",
    "check": "Look a dataset folder over: what is in it, and what is wrong with it.",
    "train": "Train a tracklet encoder on a dataset, without labels.",
    "embed": "Turn a dataset into vectors with a frozen encoder.",
    "find": "Find where a lesion comes back: the tracks most like one track.",
    "evaluate": "Measure vectors: retrieval, re-identification, size, histology, counting.",
    "compare": "Train, embed and evaluate every row of a table, and write the table.",
    "ablate": "Train, embed and evaluate variants of our method, and write their tables.",
    "report": "Tables, figures and one HTML page from results.",
    "figures": "Draw the paper's figures for your own data.",
    "encoders": "List the encoders, with parameters, cost, licence and weights.",
    "settings": "List every setting, its default and what it means.",
}
#: commands that keep what was done when they are stopped
GOES_ON = ("prepare", "train", "compare", "ablate")
#: what a disk may refuse, and what to do about it
DISK = {
    errno.ENOSPC: "the disk is full: make room and start the same command again, it goes on",
    errno.EDQUOT: "your quota is used up: make room and start the same command again, it goes on",
    errno.EFBIG: "the file grew too large for this disk or limit: write to another one",
    errno.EROFS: "this disk is read-only: write to another one",
    errno.EACCES: "you may not do that there: check the folder's permissions, or choose another one",
    errno.EPERM: "you may not do that there: check the folder's permissions, or choose another one",
    errno.ENOTDIR: "a file stands where a folder is wanted: choose another one",
}
INTERRUPTED = 130  # exit code after Ctrl-C


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line; what a user can put right ends in one line and exit code 2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    warnings.showwarning = _show_warning
    called = next((word for word in arguments if word in COMMANDS), None)
    try:
        build(called)(list(arguments))
    except SystemExit as end:
        if end.code == INTERRUPTED:
            _say_stopped(called)
        raise
    except KeyboardInterrupt:  # while the command is still being loaded
        _say_stopped(called)
        raise SystemExit(INTERRUPTED) from None
    except UserError as error:
        _fail(str(error))
    except OSError as error:
        if error.errno not in DISK:
            raise
        _fail(f"{error.filename or 'writing'}: {error.strerror} -> {DISK[error.errno]}")


def _say_stopped(called: str | None) -> None:
    end = ", and it goes on" if called in GOES_ON else "; nothing was written by halves"
    console.print(f"stopped -> start the same command again{end}", soft_wrap=True)


def _fail(message: str) -> NoReturn:
    console.print(f"[bold red]error:[/] {escape(message)}", soft_wrap=True)
    raise SystemExit(2) from None


def build(called: str | None) -> typer.Typer:
    """The application, with the module of the `called` command loaded and only names for the others."""
    app = typer.Typer(
        name="polyptrace",
        help="Recognise a polyp when it comes back: learn from colonoscopy procedures alone, embed, find, count.",
        epilog="synth -> prepare -> train -> embed -> evaluate -> report: each reads a folder and writes a folder.",
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name, summary in COMMANDS.items():
        if name != called:
            app.command(name, help=summary)(_not_loaded)
            continue
        module = importlib.import_module(f"polyptrace.cli.{name}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name, help=summary)
        else:
            takes_settings = bool(getattr(module, "SECTIONS", ()))
            app.command(
                name,
                context_settings={"allow_extra_args": True, "ignore_unknown_options": True} if takes_settings else None,
            )(module.command)
    return app


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,  # noqa: ARG001
    lineno: int,  # noqa: ARG001
    file: TextIO | None = None,  # noqa: ARG001
    line: str | None = None,  # noqa: ARG001
) -> None:
    """What our readers warn of, as a line; what libraries tell programmers is none of a user's business."""
    if issubclass(category, UserWarning):
        console.print(f"[bold yellow]warning:[/] {escape(str(message))}", soft_wrap=True)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"polyptrace {polyptrace.__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """What stands before a command."""


def _not_loaded() -> None:
    raise AssertionError("a command that is called is loaded first")
