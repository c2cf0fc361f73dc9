"""Records of a JSON file: each field is looked at before it is used, and what is wrong names its place."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from polyptrace.core.console import counted
from polyptrace.core.errors import UserError
from polyptrace.data.boxes import NO_FRAME

Record = dict[str, Any]
_LARGEST = 2**53  # beyond it a number that was written as 1e20 is not exact


def objects(content: object, name: str, path: Path) -> list[Record]:
    """The list of objects under `name` (or `content` itself where `name` is empty)."""
    if name and not isinstance(content, dict):
        raise UserError(f"{path}: is no JSON object with {name!r} -> give a COCO file")
    found = content.get(name) if name and isinstance(content, dict) else content
    if not isinstance(found, list):
        raise UserError(f"{path}: has no list {name!r} -> give a COCO file")
    for k, record in enumerate(found):
        if not isinstance(record, dict):
            raise UserError(f"{path}: {name}[{k}]: is no JSON object -> put it right, or take it out")
    return found


def index_by_id(records: list[Record], path: Path, name: str = "images") -> dict[Any, int]:
    """Place of each record by its `id`; a missing or repeated one is an error."""
    places: dict[Any, int] = {}
    for k, record in enumerate(records):
        key = record.get("id")
        if not isinstance(key, int | str):
            raise UserError(f"{path}: {name}[{k}]: has no id -> give each of {name} a number")
        if key in places:
            raise UserError(f"{path}: {name}[{k}]: id {key!r} is also that of {name}[{places[key]}] -> make ids unique")
        places[key] = k
    return places


def numbers(value: object, where: str) -> list[float]:
    """A list of numbers, however many."""
    if not isinstance(value, list) or not set(map(type, value)) <= {int, float}:
        raise UserError(f"{where}: {str(value)[:60]} is not made of numbers -> put it right, or take it out")
    try:
        return [float(v) for v in value]
    except OverflowError:
        raise UserError(f"{where}: a number is too large -> put it right, or take it out") from None


def integer(value: object, where: str) -> int:
    """A whole number, also one written as 3.0 or "3"."""
    if type(value) is int and -_LARGEST < value < _LARGEST:
        return value
    if isinstance(value, str) and value.strip().lstrip("-").isdecimal() and len(value) < 18:
        value = int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= _LARGEST:
        raise UserError(f"{where} is {str(value)[:40]!r}, not a whole number -> put it right")
    return value


def frame_index(value: object, where: str) -> int:
    """A frame's number; NO_FRAME where it is a number like 4.5, for a check to find."""
    return NO_FRAME if isinstance(value, float) and not value.is_integer() else integer(value, where)


def whole(value: object, where: str) -> int:
    """A picture's width or height; 0 where it is not given."""
    return 0 if value is None else integer(value, where)


def bbox(value: object, where: str) -> list[float]:
    """A box: four numbers, x, y, w, h."""
    box = numbers(value, where)
    if len(box) != 4:
        raise UserError(f"{where}: has {counted(len(box), 'number')} -> a box is x, y, w, h")
    return box


def text(value: object) -> str:
    """A name or an id as text; "" where it is not given."""
    name = "" if value is None else str(value)
    if not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
        raise UserError(f"{name[:60]!r}: a name that holds half a character -> put it right")
    return name


def place_of(key: object, places: Mapping[Any, int], where: str, name: str) -> int:
    """Where the record with this id stands."""
    if isinstance(key, int | str) and key in places:
        return places[key]
    raise UserError(f"{where} {str(key)[:40]!r} is not among the {name} -> add it, or put the id right")
