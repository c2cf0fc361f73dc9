"""Reads, checks, overrides and writes the settings tree.

config = read_config(Path("polyptrace.toml"))
config = override(config, ["--optimiser.lr", "1e-4", "--train.epochs=3"])

On the command line a setting is written with hyphens (`--tracks.max-gap`); underscores are accepted as well. In TOML
and JSON, keys have the names of the Python fields (`max_gap`).
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
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from polyptrace.config.tree import Config
from polyptrace.core.errors import UserError
from polyptrace.core.reuse import differences

#: Some settings by section and key, with typed values: `{"optimiser": {"lr": 1e-4}}`.
Settings: TypeAlias = Mapping[str, Mapping[str, Any]]


def read_config(path: Path | None, base: Config | None = None) -> Config:
    """`base` (the defaults if None), updated from a TOML file."""
    return from_dict(read_toml(path), base, where=str(path))


def read_toml(path: Path | None) -> dict[str, Any]:
    """The content of a TOML file, unchecked; empty without a file."""
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file -> check --config") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not valid TOML ({error}) -> correct that line") from None


def from_dict(content: Mapping[str, Any], base: Config | None = None, where: str = "config") -> Config:
    """`base` (the defaults if None), updated from a nested mapping of sections and keys; `where` is named in errors."""
    config = base or Config()
    for section, values in content.items():
        _check_known(section, [f.name for f in fields(Config)], where, "section")
        if not isinstance(values, Mapping):
            raise UserError(f"{where}: [{section}] is a section -> write its keys below it")
        for key, value in values.items():
            config = _with(config, section, key, value, f"{where}: {section}.{key}")
    return config


def override(config: Config, arguments: Sequence[str], sections: Sequence[str] | None = None) -> Config:
    """`config`, updated from command line arguments `--section.key value` or `--section.key=value`."""
    return from_dict(parse_options(arguments, sections), config, "command line")


def parse_options(arguments: Sequence[str], sections: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
    """Command line arguments as a nested mapping of typed values; only the given sections are accepted.

    >>> parse_options(["--optimiser.weight-decay", "0.1", "--train.epochs=3"])
    {'optimiser': {'weight_decay': 0.1}, 'train': {'epochs': 3}}
    """
    known = {_option(s, k.name): (s, k.name) for s, k in _keys(sections)}
    settings: dict[str, dict[str, Any]] = {}
    remaining = iter(arguments)
    for argument in remaining:
        name, equals, text = argument.partition("=")
        name = name.replace("_", "-")
        if not name.startswith("--"):
            raise UserError(f"{argument}: unexpected argument -> settings are written --section.key value")
        if name not in known and name in (_option(s, k.name) for s, k in _keys(None)):
            raise UserError(
                f"{name}: is a setting of another command -> this one has the sections {', '.join(sections or ())}"
            )
        _check_known(name, list(known), "command line", "setting")
        if not equals:
            try:
                text = next(remaining)
            except StopIteration:
                raise UserError(f"{name}: has no value -> write {name} VALUE") from None
        section, key = known[name]
        kind = _type(section, key)
        settings.setdefault(section, {})[key] = _checked(_parsed(text, kind), kind, name)
    return settings


def as_options(config: Config, base: Config, sections: Sequence[str] | None = None) -> list[str]:
    """The command line arguments that change `base` into `config`."""
    words: list[str] = []
    for section, key in _keys(sections):
        value = getattr(getattr(config, section), key.name)
        if value != getattr(getattr(base, section), key.name):
            words += [_option(section, key.name), _as_text(value)]
    return words


def as_dict(config: Config, sections: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
    """The tree, or some of its sections, as nested dictionaries that can be written as JSON."""
    tree: dict[str, dict[str, Any]] = {}
    for section, key in _keys(sections):
        value = getattr(getattr(config, section), key.name)
        tree.setdefault(section, {})[key.name] = list(value) if isinstance(value, tuple) else value
    return tree


def as_toml(config: Config, sections: Sequence[str] | None = None) -> str:
    """The tree, or some of its sections, as TOML, from which `read_config` restores the same tree."""
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
    """(option, type, default, help text) of every setting in the sections."""
    return [
        (
            _option(section, key.name),
            _type_name(_type(section, key.name)),
            _as_text(key.default),
            _help_texts(section)[key.name],
        )
        for section, key in _keys(sections)
    ]


def _keys(sections: Sequence[str] | None) -> Iterator[tuple[str, Field[Any]]]:
    for section in fields(Config):
        if sections is None or section.name in sections:
            for key in fields(getattr(Config(), section.name)):
                yield section.name, key


def _option(section: str, key: str) -> str:
    return f"--{section}.{key}".replace("_", "-")


def _with(config: Config, section: str, key: str, value: object, where: str) -> Config:
    values = getattr(config, section)
    _check_known(key, [f.name for f in fields(values)], where.rpartition(":")[0] or where, f"key of [{section}]")
    checked = _checked(value, _type(section, key), where)
    return replace(config, **{section: replace(values, **{key: checked})})


def _check_known(name: str, known: Sequence[str], where: str, what: str) -> None:
    if name not in known:
        near = get_close_matches(name, known, 1, 0.0)
        raise UserError(f"{where}: there is no {what} {name!r} -> did you mean {near[0]!r}?")


@cache
def _type(section: str, key: str) -> Any:
    section_type = type(getattr(Config(), section))
    assert is_dataclass(section_type)
    return get_type_hints(section_type)[key]


def _checked(value: object, kind: Any, where: str) -> object:
    """`value` converted to `kind`, or an error that names the accepted values."""
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
    raise UserError(f"{where}: {value!r} is not valid -> give {_type_name(kind)}")


def _parsed(text: str, kind: Any) -> object:
    """A command line argument as the value that TOML would give."""
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


def _as_text(value: object) -> str:
    """A value as it is written on the command line; the inverse of `_parsed`."""
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(map(str, value))
        case _:
            return str(value)


def _type_name(kind: Any) -> str:
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(_type_name(k) for k in get_args(kind))
    if get_origin(kind) is Literal:
        return "|".join(str(choice) for choice in get_args(kind))
    if get_origin(kind) is tuple:
        return "comma-separated names"
    names = {int: "integer", float: "number", str: "text", bool: "true|false", NoneType: "none"}
    return names[kind]


def _toml(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():  # JSON and TOML have the same escapes, except that TOML also forbids DEL
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case list():
            return "[" + ", ".join(_toml(v) for v in value) + "]"
        case _:
            return repr(value)


@cache
def _help_texts(section: str) -> dict[str, str]:
    """The `#:` comment of each field of a section."""
    section_type = type(getattr(Config(), section))
    texts = dict.fromkeys((f.name for f in fields(section_type)), "")
    for name, text in re.findall(r"^    (\w+):[^#\n]*#: (.*)$", inspect.getsource(section_type), re.MULTILINE):
        texts[name] = text
    return texts
