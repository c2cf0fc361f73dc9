"""One tree of frozen settings: TOML in, `--section.key value` on top, unknown keys refused."""

from polyptrace.config.reading import (
    as_dict,
    as_toml,
    describe,
    difference,
    from_dict,
    override,
    read_config,
)
from polyptrace.config.tree import (
    Config,
    Crops,
    Embed,
    Encoder,
    Evaluate,
    Loss,
    Optimiser,
    Supervision,
    Tracks,
    Train,
    Views,
)

__all__ = [
    "Config",
    "Crops",
    "Embed",
    "Encoder",
    "Evaluate",
    "Loss",
    "Optimiser",
    "Supervision",
    "Tracks",
    "Train",
    "Views",
    "as_dict",
    "as_toml",
    "describe",
    "difference",
    "from_dict",
    "override",
    "read_config",
]
