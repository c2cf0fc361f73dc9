"""The command line: one command per stage, each in the file of its name.

Only the module of the called command is imported, so that `polyptrace --help` does not load torch.
"""

import errno
import importlib
import inspect
import os
import re
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperOption

import polyptrace
from polyptrace.core.console import echo, notify
from polyptrace.core.errors import PolyptraceWarning, UserError

# Idle OpenMP threads sleep soon instead of spinning (read when torch is loaded). On a shared machine, spinning takes
# cores from the threads that are waited for: training with two threads was measured ten times slower.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")

COMMANDS = {
    "synth": "Generate synthetic procedures with images, boxes and labels.",
    "run": "From recordings to their lesions: detect, prepare, embed, lesions.",
    "detect": "Run a detector over videos.",
    "prepare": "Convert images and boxes of any supported format into a dataset folder.",
    "check": "Summarise a dataset folder and report problems.",
    "train": "Train a tracklet encoder on a dataset.",
    "embed": "Compute the vectors of a dataset with a frozen encoder.",
    "export": "Write an encoder as ONNX or PT2 graphs, or as a folder for the hub.",
    "find": "Find the tracks that are most similar to one track.",
    "lesions": "List the lesions of each procedure, with confidence, images and a page.",
    "explore": "Open procedures in the browser and answer which tracks show the same lesion.",
    "evaluate": "Evaluate vectors: retrieval, re-identification, size, histology, counting.",
    "compare": "Train, embed and evaluate every row of a table, and write the table.",
    "ablate": "Train, embed and evaluate variants of our method, and write their tables.",
    "report": "Write tables, figures and one HTML page from results.",
    "figures": "Draw the paper's figures for your own data.",
    "encoders": "List the encoders with parameters, cost, licence and weights.",
    "settings": "List every setting with its values, its default and its meaning.",
}
#: Commands that resume when they are run again.
RESUMABLE = ("run", "detect", "prepare", "train", "embed", "compare", "ablate")
#: What to do about an error of the file system.
DISK_ADVICE = {
    errno.ENOSPC: "the disk is full: free some space and run the same command again",
    errno.EDQUOT: "the quota is used up: free some space and run the same command again",
    errno.EFBIG: "the file is too large for this file system or limit: write to another one",
    errno.EIO: "the disk reports an error: check it, then run the same command again, or write to another one",
    errno.EROFS: "the file system is read-only: write to another one",
    errno.EACCES: "permission denied: check the folder's permissions, or use another folder",
    errno.EPERM: "permission denied: check the folder's permissions, or use another folder",
    errno.EISDIR: "this is a folder: give a file",
    errno.ENOTDIR: "a file exists where a folder is needed: use another path",
}
INTERRUPTED = 130  # exit code after Ctrl-C


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line. Errors that the user can fix are printed as one line, with exit code 2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    warnings.showwarning = _show_warning
    called = next((word for word in arguments if word in COMMANDS), None)
    try:
        build(called)(list(arguments))
    except SystemExit as end:
        if end.code == INTERRUPTED:
            _print_interrupted(called)
        raise
    except KeyboardInterrupt:  # while the command is being loaded
        _print_interrupted(called)
        raise SystemExit(INTERRUPTED) from None
    except UserError as error:
        _fail(str(error))
    except UnicodeEncodeError as error:
        if not any("\ud800" <= character <= "\udfff" for character in error.object):
            raise
        _fail(f"{error.object}: this name is not valid UTF-8 -> rename the file or folder")
    except OSError as error:
        if error.errno not in DISK_ADVICE:
            raise
        resumes = "; it resumes" if error.errno in (errno.ENOSPC, errno.EDQUOT) and called in RESUMABLE else ""
        _fail(f"{error.filename or 'writing'}: {error.strerror} -> {DISK_ADVICE[error.errno]}{resumes}")


def _print_interrupted(called: str | None) -> None:
    end = "it resumes" if called in RESUMABLE else "no partial output was left"
    notify(f"interrupted -> run the same command again; {end}")


def _fail(message: str) -> NoReturn:
    notify("error:", style="bold red", end=" ")
    notify(message)
    raise SystemExit(2) from None


def build(called: str | None) -> typer.Typer:
    """The application, with the module of the `called` command loaded and only the names of the others."""
    app = typer.Typer(
        name="polyptrace",
        help="Polyp re-identification learned from unlabelled colonoscopy procedures.",
        epilog="Your own recordings: run, then explore. Research: synth or prepare -> train -> embed -> evaluate -> "
        "report. Each command reads a folder and writes a folder.",
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name, summary in COMMANDS.items():
        if name != called:
            app.command(name, help=summary)(lambda: None)  # never called
            continue
        module = importlib.import_module(f"polyptrace.cli.{name}")
        group = getattr(module, "COMMANDS", None)  # a command with commands of its own, by name
        parent = app if group is None else typer.Typer(no_args_is_help=True)
        extra = {"allow_extra_args": True, "ignore_unknown_options": True} if hasattr(module, "SECTIONS") else None
        for each, function in (group or {name: module.command}).items():
            # lines of a paragraph are joined, so that they are wrapped at the width of the terminal
            text = re.sub(r"(?<=\S)\n(?=\S)", " ", inspect.getdoc(function) or "")
            parent.command(each, cls=_Command, help=text, context_settings=extra)(function)
        if group is not None:
            app.add_typer(parent, name=name, help=summary, epilog=module.EXAMPLES)
    return app


class _Command(TyperCommand):
    """A command that refuses a second value of an option that takes one; click would use the last."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = self.make_parser(ctx).parse_args(args=list(args))[2]
        for option in (each for each in self.params if isinstance(each, TyperOption)):
            if given.count(option) > 1 and not (option.multiple or option.is_flag):
                raise UserError(
                    f"{option.opts[0]}: takes one value, but was given {given.count(option)} -> give it once"
                )
        return super().parse_args(ctx, args)


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """Prints our own warnings as one line. Other libraries' warnings are for developers and are not shown."""
    if issubclass(category, PolyptraceWarning):
        notify("warning:", style="bold yellow", end=" ")
        notify(str(message))


def _print_version(wanted: bool) -> None:
    if wanted:
        echo(f"polyptrace {polyptrace.__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Options before the command."""
