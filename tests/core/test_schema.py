"""JSON content as dataclasses, or an error that names the file and the field."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from polyptrace.core.errors import UserError
from polyptrace.core.schema import from_json


@dataclass(frozen=True)
class Inner:
    value: float
    kind: Literal["a", "b"] = "a"

    def __post_init__(self) -> None:
        if self.value < 0:
            raise ValueError("value is negative")


@dataclass(frozen=True)
class Outer:
    name: str
    count: int
    inner: dict[str, Inner]
    tags: tuple[str, ...] = ()
    size: float | None = None
    more: dict[str, Any] = field(default_factory=dict)
    flag: bool = False
    format: Literal[1] = 1


GOOD = {"name": "x", "count": 3, "inner": {"p": {"value": 1}}, "tags": ["u"], "size": None, "more": {"z": [1]}}


def test_content_becomes_dataclasses_with_their_types() -> None:
    made = from_json(Outer, GOOD, "file.json", "write it again")
    assert made == Outer("x", 3, {"p": Inner(1.0)}, ("u",), None, {"z": [1]})
    assert isinstance(made.inner["p"].value, float)


def test_null_is_nan_in_a_float_field() -> None:
    made = from_json(Outer, {**GOOD, "inner": {"p": {"value": None}}}, "file.json", "")
    assert math.isnan(made.inner["p"].value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"count": 3.5}, "count: 3.5 is not a whole number"),
        ({"count": True}, "count: True is not a whole number"),
        ({"name": None}, "name: None is not text"),
        ({"flag": 1}, "flag: 1 is not true or false"),
        ({"tags": "u"}, "tags: 'u' is not a list"),
        ({"tags": ["u", 1]}, r"tags\[1\]: 1 is not text"),
        ({"inner": []}, r"inner: \[\] is not an object"),
        ({"inner": {"p": {}}}, "inner.p.value: is missing"),
        ({"inner": {"p": {"value": "1"}}}, "inner.p.value: '1' is not a number"),
        ({"inner": {"p": {"value": 1, "kind": "c"}}}, "inner.p.kind: 'c' is not one of 'a', 'b'"),
        ({"inner": {"p": {"value": -1}}}, "inner.p: value is negative"),
        ({"inner": {"p": {"value": 10**400}}}, r"inner.p.value: 10+\.\.\. is too large"),
        ({"format": True}, "format: True is not one of 1"),
        ({"size": "large"}, "size: 'large' is not a number"),
        ({"colour": 1}, "colour: is not a known field"),
    ],
)
def test_an_error_names_the_file_and_the_field(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=f"^file.json: {message} -> write it again$"):
        from_json(Outer, {**GOOD, **change}, "file.json", "write it again")


def test_content_that_is_not_an_object_is_an_error() -> None:
    with pytest.raises(UserError, match="content: 3 is not an object"):
        from_json(Outer, 3, "file.json", "write it again")
