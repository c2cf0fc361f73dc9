"""`polyptrace explore VECTORS --data DATASET`."""

import os
import secrets
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import pyarrow as pa
from typer import Option

from polyptrace.cli.options import PictureFolders, VectorsFile
from polyptrace.core.console import counted, echo
from polyptrace.core.errors import UserError, warn
from polyptrace.core.lock import lock
from polyptrace.embed import Embeddings, open_datasets
from polyptrace.explore import Journal, Workspace, default_answers, on_disk
from polyptrace.explore.page_content import PageContent
from polyptrace.lesions import SAME_FILE


def command(
    vectors: VectorsFile,
    data: PictureFolders = None,
    answers: Annotated[
        Path | None, Option(help="Journal of the answers; default: answers.jsonl in the folder of the vectors.")
    ] = None,
    port: Annotated[int, Option(min=0, max=65535, help="Port of the server; 0: any free port.")] = 0,
    no_browser: Annotated[bool, Option("--no-browser", help="Only print the address.")] = False,
) -> None:
    """Open procedures in the browser: look at tracks, and answer which of them show the same lesion.

    The page is served to this computer only, at the printed address. Every answer is written to disk before it is
    acknowledged, and the next start continues with all answers. Without --data, film strips are grey.
    Suggestions use the probability of the same lesion that 'lesions' stored beside the vectors (same.json); without
    that file, it is fitted. Stop with Ctrl-C.

    Example:

      polyptrace explore vectors/mine --data data/mine
    """
    try:
        import uvicorn

        from polyptrace.explore.server import application, bind
    except ImportError as error:
        raise UserError(f"explore: {error.name} is not installed -> pip install 'polyptrace[explore]'") from None
    tracks = on_disk(Embeddings.load(vectors, "track").whole_tracks(str(vectors)))
    pa.default_memory_pool().release_unused()  # what reading has freed
    datasets = open_datasets(data or (), tracks)
    path = answers or default_answers(vectors)
    if not path.parent.is_dir():
        raise UserError(f"{path.parent}: no such folder -> create it, or give a file in another folder with --answers")
    if not os.access(path.parent, os.W_OK):
        raise UserError(f"{path.parent}: cannot be written -> give a file in another folder with --answers FILE")
    with lock(path):
        journal = Journal.open(path)
        workspace = Workspace(vectors, tracks, journal)
        stored = vectors / SAME_FILE
        model = workspace.model if stored.is_file() else None  # a damaged file is an error now, not on the page
        notices = [journal.dropped] if journal.dropped else []
        if journal.dropped:
            warn(journal.dropped)
        listening = bind(port)
        number = listening.getsockname()[1]
        token = secrets.token_urlsafe(24)
        url = f"http://127.0.0.1:{number}/?token={token}"
        echo(f"{counted(len(workspace.keys), 'procedure')}, {counted(len(tracks), 'track')}, answers in {path}")
        echo(model.described(stored) if model else "probability of the same lesion: will be fitted to these vectors")
        echo(url)
        if not no_browser:
            webbrowser.open(url)
        app = application(PageContent(workspace, datasets, notices), number, token)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=2))
        with suppress(KeyboardInterrupt):  # Ctrl-C is how it is stopped
            server.run(sockets=[listening])
        echo("stopped")
