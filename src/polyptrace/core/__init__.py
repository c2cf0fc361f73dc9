"""What every stage uses: errors, atomic files, locks, console output, random generators, devices, image codecs.

Import them from their modules: `polyptrace.core.errors` must stay free of torch, so that `--help` is fast.
"""

import importlib
import sys
from collections.abc import Callable
from typing import Any


def lazy_names(package: str, *modules: str) -> Callable[[str], Any]:
    """The `__getattr__` of a package: a name of its `__all__` is imported from one of the modules on first use.

    This is for public names that need torch, which takes seconds to import.
    """

    def get(name: str) -> Any:
        if name in sys.modules[package].__all__:
            for module in modules:
                value = getattr(importlib.import_module(f"{package}.{module}"), name, None)
                if value is not None:
                    setattr(sys.modules[package], name, value)
                    return value
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get
