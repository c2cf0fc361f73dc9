"""Reads, checks, overrides and writes the config tree.

config = read_config(Path("polyptrace.toml"))
config = override(config, ["--optimiser.lr", "1e-4", "--train.epochs=3"])
"""

import inspect
import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field, fields, is_dataclass, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from polyptrace.config.tree import Config
from polyptrace.core.errors import UserError
from polyptrace.core.reuse import differences


def read_config(path: Path | None, base: Config | None = None) -> Config:
    """`base` (the defaults, if none), with what a TOML file says on top."""
    if path is None:
        return base or Config()
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file -> check --config") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not valid TOML ({error}) -> mend that line") from None
    return from_dict(content, base, where=str(path))


def from_dict(content: Mapping[str, Any], base: Config | None = None, where: str = "config") -> Config:
    """`base` (the defaults, if none) with the sections and keys of a nested mapping on top."""
    config = base or Config()
    for section, values in content.items():
        _known(section, [f.name for f in fields(Config)], where, "section")
        if not isinstance(values, Mapping):
            raise UserError(f"{where}: [{section}] is a section -> write its keys below it")
        for key, value in values.items():
            config = _with(config, section, key, value, f"{where}: {section}.{key}")
    return config


def override(config: Config, arguments: Sequence[str], sections: Sequence[str] | None = None) -> Config:
    """`config` with `--section.key value` (or `--section.key=value`) arguments on top."""
    known = [f"{s}.{k.name}" for s, k in _keys(sections)]
    remaining = iter(arguments)
    for argument in remaining:
        name, equals, text = argument.removeprefix("--").partition("=")
        if not argument.startswith("--"):
            raise UserError(f"{argument}: not expected here -> settings are written --section.key value")
        if name not in known and name in (f"{s}.{k.name}" for s, k in _keys(None)):
            raise UserError(f"--{name}: is a setting of another command -> this one has {', '.join(sections or ())}")
        _known(name, known, "command line", "setting")
        if not equals:
            try:
                text = next(remaining)
            except StopIteration:
                raise UserError(f"--{name}: has no value -> write --{name} VALUE") from None
        section, key = name.split(".")
        config = _with(config, section, key, _parsed(text, _type(section, key)), f"--{name}")
    return config


def as_dict(config: Config, sections: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
    """The tree (or some of its sections) as plain nested dictionaries, ready for JSON."""
    tree: dict[str, dict[str, Any]] = {}
    for section, key in _keys(sections):
        value = getattr(getattr(config, section), key.name)
        tree.setdefault(section, {})[key.name] = list(value) if isinstance(value, tuple) else value
    return tree


def as_toml(config: Config, sections: Sequence[str] | None = None) -> str:
    """The tree (or some of its sections) as TOML that `read_config` reads back to the same tree."""
    lines: list[str] = []
    for section, values in as_dict(config, sections).items():
        lines += [f"[{section}]"]
        lines += [f"{key} = {_toml(value)}" for key, value in values.items() if value is not None]
        lines += [""]
    return "\n".join(lines)


def difference(old: Config, new: Config, sections: Sequence[str] | None = None) -> list[str]:
    """One line `section.key: old -> new` for each setting that differs and can change a result."""
    return differences(as_dict(old, sections), as_dict(new, sections))


def describe(sections: Sequence[str] | None = None) -> list[tuple[str, str, str, str]]:
    """(name, type, default, help) of every setting in the sections, for `--help`."""
    rows = []
    for section, key in _keys(sections):
        default = key.default
        shown = ",".join(default) if isinstance(default, tuple) else str(default)
        help_texts = _comments(section)
        rows.append((f"--{section}.{key.name}", _type_name(_type(section, key.name)), shown, help_texts[key.name]))
    return rows


def _keys(sections: Sequence[str] | None) -> Iterator[tuple[str, Field[Any]]]:
    for section in fields(Config):
        if sections is None or section.name in sections:
            for key in fields(getattr(Config(), section.name)):
                yield section.name, key


def _with(config: Config, section: str, key: str, value: object, where: str) -> Config:
    values = getattr(config, section)
    _known(key, [f.name for f in fields(values)], where.rpartition(":")[0] or where, f"key of [{section}]")
    checked = _checked(value, _type(section, key), where)
    return replace(config, **{section: replace(values, **{key: checked})})


def _known(name: str, known: Sequence[str], where: str, what: str) -> None:
    if name not in known:
        near = get_close_matches(name, known, 1, 0.0)
        raise UserError(f"{where}: no {what} is called {name!r} -> did you mean {near[0]!r}?")


@cache
def _type(section: str, key: str) -> Any:
    section_type = type(getattr(Config(), section))
    assert is_dataclass(section_type)
    return get_type_hints(section_type)[key]


def _checked(value: object, kind: Any, where: str) -> object:
    """`value` as `kind`, or an error that says what would be right."""
    if get_origin(kind) in (Union, UnionType):
        if value is None:
            return None
        return _checked(value, next(k for k in get_args(kind) if k is not NoneType), where)
    if get_origin(kind) is Literal:
        if value in get_args(kind):
            return value
    elif get_origin(kind) is tuple:
        if isinstance(value, list | tuple) and all(isinstance(v, str) for v in value):
            return tuple(value)
    elif kind is float:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    elif isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    raise UserError(f"{where}: {value!r} does not fit -> give {_type_name(kind)}")


def _parsed(text: str, kind: Any) -> object:
    """A command-line word as the value that TOML would have given."""
    if get_origin(kind) in (Union, UnionType):
        return None if text == "none" else _parsed(text, next(k for k in get_args(kind) if k is not NoneType))
    if get_origin(kind) is tuple:
        return tuple(t for t in text.split(",") if t)
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            return text
    return text


def _type_name(kind: Any) -> str:
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(_type_name(k) for k in get_args(kind))
    if get_origin(kind) is Literal:
        return "|".join(str(choice) for choice in get_args(kind))
    if get_origin(kind) is tuple:
        return "comma-separated words"
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true|false", NoneType: "none"}
    return names[kind]


def _toml(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():  # JSON's escapes are TOML's, except that TOML refuses DEL as well
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case list():
            return "[" + ", ".join(_toml(v) for v in value) + "]"
        case _:
            return repr(value)


@cache
def _comments(section: str) -> dict[str, str]:
    """The `#:` comment of each field of a section."""
    section_type = type(getattr(Config(), section))
    found = dict.fromkeys((f.name for f in fields(section_type)), "")
    for name, text in re.findall(r"^    (\w+):[^#\n]*#: (.*)$", inspect.getsource(section_type), re.MULTILINE):
        found[name] = text
    return found
