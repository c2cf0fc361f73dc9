"""The journal survives a kill at any byte."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from polyptrace.core.errors import UserError
from polyptrace.explore import Journal, active_events, read_journal
from polyptrace.explore.journal import MAX_NOTE, undoable

A, B = (0, 0, 40), (1, 50, 90)


def filled(path: Path, answers: int = 3) -> Journal:
    journal = Journal.open(path)
    for _ in range(answers):
        journal.append("answer", "Ada", video="d/v", items=(A, B), answer="same")
    return journal


def test_reads_back_what_was_appended(tmp_path: Path) -> None:
    journal = filled(tmp_path / "answers.jsonl")
    journal.append("note", "Zoë <b>", video="d/v", items=(A,), text="ein\nSchatten \u202e")
    assert Journal.open(journal.path).events == journal.events


def test_an_event_whose_folder_cannot_be_synced_is_not_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_folder: Path) -> None:
        raise OSError(22, "Invalid argument")

    with monkeypatch.context() as patch:
        patch.setattr("polyptrace.explore.journal.sync", failing)
        with pytest.raises(OSError, match="Invalid argument"):
            filled(tmp_path / "answers.jsonl", 1)
    assert (tmp_path / "answers.jsonl").read_bytes() == b""
    assert len(read_journal(filled(tmp_path / "answers.jsonl", 2).path)[0]) == 2


def test_a_cut_at_any_byte_keeps_every_complete_line(tmp_path: Path) -> None:
    content = filled(tmp_path / "answers.jsonl").path.read_bytes()
    lines = content.count(b"\n")
    for size in range(len(content)):
        path = tmp_path / "cut.jsonl"
        path.write_bytes(content[:size])
        journal = Journal.open(path)
        assert len(journal.events) == max(content[:size].count(b"\n") - 1, 0)
        assert bool(journal.dropped) == (size > 0 and content[size - 1 : size] != b"\n")
        journal.append("answer", "Ada", video="d/v", items=(A, B), answer="different")
        assert len(read_journal(path)[0]) == len(journal.events) <= lines


def test_a_file_of_another_kind_is_called_that(tmp_path: Path) -> None:
    path = tmp_path / "export.xml"
    path.write_text("<annotations>\n</annotations>\n")
    with pytest.raises(UserError, match=r"export\.xml: line 1: not a journal of answers .* also reads its CSV"):
        Journal.open(path)
    assert path.read_text() == "<annotations>\n</annotations>\n"


@pytest.mark.parametrize("line", [1, 2, 3])
def test_damage_in_the_middle_names_the_line_and_stops(tmp_path: Path, line: int) -> None:
    path = filled(tmp_path / "answers.jsonl").path
    lines = path.read_bytes().split(b"\n")
    lines[line - 1] = lines[line - 1][: len(lines[line - 1]) // 2]
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(UserError, match=rf"answers.jsonl: line {line}: .* ->"):
        Journal.open(path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            '{"id": 1, "time": "", "who": "A", "kind": "answer", "items": [[1, 2, 3]], "answer": "same"}',
            "two different",
        ),
        ('{"id": 1, "time": "", "who": "A", "kind": "answer", "items": [[1, 2], [1, 2, 3]]}', r"\[track, first"),
        ('{"id": 1, "time": "", "who": "A", "kind": "vote", "items": []}', "kind"),
        ('{"id": 1, "time": "", "who": "", "kind": "undo", "event": 1}', "who"),
        ('{"id": 1, "time": "", "who": "A", "kind": "undo", "event": 1, "more": 1}', "more"),
        ("[]", "object"),
    ],
)
def test_an_invalid_event_names_the_line_and_the_field(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(f'{{"format": 1}}\n{text}\n')
    with pytest.raises(UserError, match=rf"line 2: .*{problem}"):
        read_journal(path)


@pytest.mark.parametrize(
    "content", ['{"images": []}\n', '[{"data": {}}]', '{"format": 1, "vectors": "v"}\n', '{"format": 12}', "a,b"]
)
def test_another_file_is_not_taken_for_a_journal_and_not_changed(tmp_path: Path, content: str) -> None:
    path = tmp_path / "boxes.json"
    path.write_text(content)
    with pytest.raises(UserError, match="line 1: not a journal"):
        Journal.open(path)
    assert path.read_text() == content


def test_a_note_that_is_too_long_changes_nothing(tmp_path: Path) -> None:
    journal = filled(tmp_path / "answers.jsonl")
    before = journal.path.read_bytes()
    with pytest.raises(ValueError, match="longer"):
        journal.append("note", "Ada", video="d/v", items=(A,), text="x" * (MAX_NOTE + 1))
    assert journal.path.read_bytes() == before


def test_undo_and_redo_are_unlimited_and_per_annotator(tmp_path: Path) -> None:
    journal = filled(tmp_path / "answers.jsonl")
    journal.append("answer", "Bob", video="d/v", items=(A, B), answer="different")
    for _ in range(3):
        journal.append("undo", "Ada", event=undoable(journal.events, "Ada", "d/v")[0])
    assert undoable(journal.events, "Ada", "d/v") == (0, 1)
    assert [event.who for event in active_events(journal.events)] == ["Bob"]
    for _ in range(3):
        journal.append("redo", "Ada", event=undoable(journal.events, "Ada", "d/v")[1])
    assert [event.id for event in active_events(journal.events)] == [1, 2, 3, 4]
    journal.append("undo", "Ada", event=3)
    journal.append("answer", "Ada", video="d/v", items=(A, B), answer="unsure")
    assert undoable(journal.events, "Ada", "d/v")[1] == 0, "a new edit ends redo"
    assert undoable(journal.events, "Ada", "d/other") == (0, 0), "undo stays in the procedure on the screen"


def test_undo_passes_over_what_another_annotator_withdrew(tmp_path: Path) -> None:
    journal = filled(tmp_path / "answers.jsonl", 2)
    journal.append("undo", "Bob", event=2)
    assert undoable(journal.events, "Ada", "d/v") == (1, 0)
    assert undoable(journal.events, "Bob", "d/v") == (0, 0)
    journal.append("redo", "Bob", event=2)
    assert undoable(journal.events, "Ada", "d/v") == (2, 0)
    journal.append("undo", "Ada", event=2)
    journal.append("redo", "Bob", event=2)
    assert undoable(journal.events, "Ada", "d/v") == (2, 0)


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    program = (
        "import sys; from pathlib import Path; from polyptrace.explore.journal import Journal\n"
        "journal = Journal.open(Path(sys.argv[1]))\n"
        "while True:\n"
        "    event = journal.append('answer', 'Ada', video='v', items=((0, 0, 4), (1, 6, 9)), answer='same')\n"
        "    print(event.id, flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        acknowledged = [int(next(process.stdout)) for _ in range(20)]
        os.kill(process.pid, signal.SIGKILL)
    assert len(Journal.open(path).events) >= acknowledged[-1]
