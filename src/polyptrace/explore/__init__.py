"""Explore: a procedure in the browser, and a person's answers that settle which tracks show the same lesion."""

from polyptrace.explore.identities import Contradiction, Identities, Statement, agreement, identities
from polyptrace.explore.journal import Event, Item, Journal, active_events, default_answers, read_journal
from polyptrace.explore.questions import Check, Question, next_check, next_question
from polyptrace.explore.workspace import Candidate, ExploredProcedure, Grouping, Workspace, on_disk

__all__ = [
    "Candidate",
    "Check",
    "Contradiction",
    "Event",
    "ExploredProcedure",
    "Grouping",
    "Identities",
    "Item",
    "Journal",
    "Question",
    "Statement",
    "Workspace",
    "active_events",
    "agreement",
    "default_answers",
    "identities",
    "next_check",
    "next_question",
    "on_disk",
    "read_journal",
]
