"""Values of annotated types: from JSON, from the command line, and as text.

Our own files are checked on load, so that a damaged one gives one error that names the file and the field: JSON against
a dataclass, a Parquet table against a schema, an .npz file without pickles.
"""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints
from zipfile import is_zipfile

import numpy as np
from numpy.typing import NDArray

from polyptrace.core.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


class MismatchError(Exception):
    """A value that does not have the type of its field."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field.lstrip('.') or 'content'}: {problem}")


def from_json(kind: type[T], content: Any, where: str, advice: str) -> T:
    """`content` as an instance of the dataclass `kind`; otherwise an error `where: field: problem -> advice`.

    Fields may be bool, int, float, str, Path, None, Any, Literal, list[X], tuple[X, ...], dict[str, X], dataclasses and
    unions of these. A missing field takes its default; an unknown one is an error. `null` in a float field is NaN,
    because JSON has no NaN. A `ValueError` or `UserError` of `__post_init__` is reported with the field.
    """
    try:
        value: T = as_type(kind, content, "")
    except MismatchError as error:
        raise UserError(f"{where}: {error} -> {advice}") from None
    return value


def read_parquet(path: Path, advice: str, schema: "pa.Schema | None" = None, filters: Any = None) -> "pa.Table":
    """A Parquet table, fully validated; with a schema, it must have these columns, of these types and without nulls.

    `filters` select rows, as those of pyarrow.
    """
    import pyarrow.parquet as pq  # here, because exported encoders run without pyarrow

    try:
        table = pq.read_table(path, page_checksum_verification=True, filters=filters)
        table.validate(full=True)
    except Exception as error:  # a damaged file can raise almost anything
        raise UserError(f"{path}: not a readable Parquet file ({error}) -> {advice}") from None
    for column in schema or ():
        if table.column_names.count(column.name) != 1:
            raise UserError(f"{path}: has no column {column.name} -> {advice}")
        values = table[column.name]
        if values.type != column.type:
            raise UserError(f"{path}: {column.name}: has type {values.type}, not {column.type} -> {advice}")
        if values.null_count:
            raise UserError(f"{path}: {column.name}: has missing values -> {advice}")
    return table


def write_parquet(table: "pa.Table", path: Path) -> None:
    """Writes a table with checksums of its pages, which `read_parquet` verifies."""
    import pyarrow.parquet as pq

    pq.write_table(table, path, compression="zstd", write_page_checksum=True)


def read_npz(path: Path, advice: str) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file without pickled objects."""
    if not is_zipfile(path):  # numpy would advise to unpickle the file
        raise UserError(f"{path}: not an .npz file, or a damaged one -> {advice}")
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except Exception as error:  # a damaged archive can raise anything, from zlib's errors to a header that is too large
        raise UserError(f"{path}: not an .npz of plain arrays ({error}) -> {advice}") from None


def as_type(kind: Any, content: Any, field: str = "") -> Any:
    """`content` as a value of an annotated type, see `from_json`; a `MismatchError` names the `field`."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return content
    if is_dataclass(kind):
        return _dataclass(kind, content, field)
    if kind is Path:
        return Path(_scalar(str, content, field))
    if origin in (Union, UnionType):
        return _union(arguments, content, field)
    if origin is Literal:
        if not any(content == each and type(content) is type(each) for each in arguments):  # True == 1
            raise MismatchError(field, f"{_short(content)} is not one of {', '.join(map(repr, arguments))}")
        return content
    if origin in (list, tuple):
        if not isinstance(content, list):
            raise MismatchError(field, f"{_short(content)} is not a list")
        return origin(as_type(arguments[0], each, f"{field}[{index}]") for index, each in enumerate(content))
    if origin in (dict, Mapping):
        if not isinstance(content, Mapping):
            raise MismatchError(field, f"{_short(content)} is not an object")
        return {key: as_type(arguments[1], each, f"{field}.{key}") for key, each in content.items()}
    return _scalar(kind, content, field)


def from_text(kind: Any, text: str) -> object:
    """A command line argument as the value that TOML would give; unchanged if it is not of the type."""
    if get_origin(kind) in (Union, UnionType):
        return None if text == "none" else from_text(next(k for k in get_args(kind) if k is not NoneType), text)
    if get_origin(kind) is tuple:
        return tuple(part for part in text.split(",") if part)
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    with suppress(ValueError):
        return kind(text) if kind in (int, float) else text
    return text


def as_text(value: object) -> str:
    """A value as it is written on the command line; the inverse of `from_text`."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def type_name(kind: Any) -> str:
    """The values of a type, in words."""
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(type_name(k) for k in get_args(kind))
    if get_origin(kind) is Literal:
        return "|".join(str(choice) for choice in get_args(kind))
    if get_origin(kind) is tuple:
        return "comma-separated names"
    return {int: "integer", float: "number", str: "text", bool: "true|false", NoneType: "none"}[kind]


def _dataclass(kind: Any, content: Any, field: str) -> Any:
    if not isinstance(content, Mapping):
        raise MismatchError(field, f"{_short(content)} is not an object")
    hints = get_type_hints(kind)
    values = {}
    for each in fields(kind):
        if each.name in content:
            values[each.name] = as_type(hints[each.name], content[each.name], f"{field}.{each.name}")
        elif each.default is MISSING and each.default_factory is MISSING:
            raise MismatchError(f"{field}.{each.name}", "is missing")
    if unknown := sorted(set(content) - {each.name for each in fields(kind)}):
        raise MismatchError(f"{field}.{unknown[0]}", "is not a known field")
    try:
        return kind(**values)
    except (ValueError, UserError) as error:
        raise MismatchError(field, str(error)) from None


def _union(kinds: tuple[Any, ...], content: Any, field: str) -> Any:
    if content is None and NoneType in kinds:
        return None
    problems = []
    for kind in kinds:
        if kind is not NoneType:
            try:
                return as_type(kind, content, field)
            except MismatchError as error:
                problems.append(error)
    raise problems[0]


def _scalar(kind: Any, content: Any, field: str) -> Any:
    if kind is float and content is None:
        return math.nan
    accepted = int | float if kind is float else kind
    if not isinstance(content, accepted) or (isinstance(content, bool) and kind is not bool):
        raise MismatchError(field, f"{_short(content)} is not {_NAMES.get(kind, kind)}")
    try:
        return float(content) if kind is float else content
    except OverflowError:
        raise MismatchError(field, f"{_short(content)} is too large") from None


def _short(content: Any) -> str:
    text = repr(content)
    return text if len(text) <= 60 else f"{text[:57]}..."
