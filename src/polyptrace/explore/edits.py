"""Edits in a request: their fields, and why one is refused."""

from typing import Any

from polyptrace.explore.journal import Item
from polyptrace.explore.workspace import ExploredProcedure


def event_fields(content: dict[str, Any]) -> dict[str, Any]:
    """The fields of an event from a request, in their types."""
    fields: dict[str, Any] = {}
    for name in ("items", "others"):
        if name in content:
            fields[name] = tuple(_item(each) for each in content.pop(name))
    if content.get("to") is not None:
        fields["to"] = _item(content.pop("to"))
    content.pop("to", None)
    for name, kind in (("answer", str), ("frame", int), ("text", str)):
        if name in content:
            value = content.pop(name)
            if not isinstance(value, kind):
                raise ValueError(f"{name} is not of type {kind.__name__}")
            fields[name] = value
    if content:
        raise ValueError(f"unknown field {sorted(content)[0]!r}")
    return fields


def _item(value: Any) -> Item:
    if not isinstance(value, list) or len(value) != 3 or not all(type(each) is int for each in value):
        raise ValueError("an item is [track, first frame, last frame]")
    return tuple(value)


def forbidden(procedure: ExploredProcedure, view: str | None, kind: str, fields: dict[str, Any]) -> str:
    """Why an edit is refused: tracks that are visible at the same time cannot be one lesion."""
    state = procedure.state(view)
    place = {item: number for number, item in enumerate(state.items)}
    named = [*fields.get("items", ()), *fields.get("others", ()), *([fields["to"]] if fields.get("to") else [])]
    missing = [item for item in named if item not in place]
    if missing:
        return f"track {missing[0][0]} was changed in the meantime -> reload the page"
    joined = {
        "merge": list(fields.get("items", ())),
        "move": [*fields.get("items", ()), *([fields["to"]] if fields.get("to") else [])],
        "answer": list(fields.get("items", ())) if fields.get("answer") == "same" else [],
    }.get(kind, [])
    whole = sorted(
        {int(member) for item in joined for member in state.members(place[item])}
        if kind == "merge"
        else {place[item] for item in joined}
    )
    items = sorted(state.items[each] for each in whole)
    items.sort(key=lambda item: item[1:])
    latest = None
    for item in items:
        if latest is not None and item[1] <= latest[2]:
            return f"tracks {latest[0]} and {item[0]} are visible at the same time, so they show two lesions"
        latest = item if latest is None or item[2] > latest[2] else latest
    return ""
