"""Public names of a package that are imported when they are first used, because torch takes seconds to import."""

import importlib
import sys
from collections.abc import Callable
from typing import Any


def lazy_names(package: str, *modules: str) -> Callable[[str], Any]:
    """The `__getattr__` of a package: a name of its `__all__` comes from the first of the modules that has it."""

    def get(name: str) -> Any:
        if name in sys.modules[package].__all__:
            for module in modules:
                value = getattr(importlib.import_module(f"{package}.{module}"), name, None)
                if value is not None:
                    setattr(sys.modules[package], name, value)
                    return value
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get
