"""Damaged copies of files."""

import json
import random
from collections.abc import Iterator
from typing import Any

TOKENS = (
    b"<!DOCTYPE a [<!ENTITY x 'y'>]>", b"&x;", b"<object>", b"</object>", b"<bndbox>", b"<![CDATA[", b"<!--", b"-->",
    b"<?xml version='1.0' encoding='utf-16'?>", b"encoding='cp037'", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\0",
    b"nan", b"inf", b"-1", b"1e999", b"99999999999999999999999", b"-0", b"1_0", b"0x1", b"null", b"true", b"[]", b"{}",
    b'"', b"'", b",", b";", b"\t", b"\r", b"\r\n", b"\n\n", b"../", b"..\\", b"/etc/passwd", b"C:", b"::", b"\\u0000",
    b"\\ud800", b"\xed\xa0\x80", b"frame", b"outside", b"15mm-", b"4 mm", b"banana", b"image_id", b"bbox",
    b"identity_id", b"%s",
)  # fmt: skip
VALUES: tuple[Any, ...] = (None, True, -1, 0, 10**30, 0.5, float("nan"), "", "x", [], [1], {}, {"a": {}})


def damaged(name: str, content: bytes, rng: random.Random) -> bytes:
    """A damaged copy of a file. In JSON, every second time one value has another type or is missing."""
    if name.endswith(".json") and rng.random() < 0.5:
        return change_json(content, rng)
    return change_bytes(content, rng)


def change_bytes(content: bytes, rng: random.Random) -> bytes:
    """A copy with bytes flipped, cut, repeated, or replaced at random or by a difficult token."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        begin = rng.randrange(len(data) + 1)
        end = min(len(data), begin + rng.choice((0, 1, 2, 8, 64)))
        match rng.randrange(6):
            case 0:
                data[begin:end] = rng.choice(TOKENS)
            case 1:
                data[begin:end] = rng.randbytes(rng.choice((1, 2, 8)))
            case 2:
                del data[begin:end]
            case 3:
                data[begin:begin] = data[begin:end] * rng.choice((1, 2, 50))
            case 4:
                del data[begin:]
            case _:
                if begin < len(data):
                    data[begin] ^= 1 << rng.randrange(8)
    return bytes(data)


def change_json(content: bytes, rng: random.Random) -> bytes:
    """The JSON with one value, at any depth, replaced by one of another type, or removed."""
    tree = json.loads(content)
    path = rng.choice(list(_paths(tree)))
    if not path:
        return json.dumps(rng.choice(VALUES)).encode()
    parent = tree
    for key in path[:-1]:
        parent = parent[key]
    if rng.random() < 0.25:
        del parent[path[-1]]
    else:
        parent[path[-1]] = rng.choice(VALUES)
    return json.dumps(tree).encode()


def _paths(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield from _paths(value, (*path, key))
