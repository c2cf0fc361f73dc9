"""Every setting of every stage, and how settings are read, checked and written.

The defaults are the paper's, except for the loss, which has the symmetric form of the authors' code
(`--loss.form paper`: Equation 1).

    config = read_config(Path("polyptrace.toml"))
    config = override(config, ["--optimiser.lr", "1e-4", "--train.epochs=3"])

The comment after `#:` is the help text of a setting. On the command line a setting is written with hyphens
(`--tracks.max-gap`); underscores are accepted as well. In TOML and JSON, keys have the names of the Python fields
(`max_gap`). Unknown keys are errors.
"""

import inspect
import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field, asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, get_args, get_type_hints

from polyptrace.core.errors import UserError
from polyptrace.core.files import differences
from polyptrace.core.schema import MismatchError, as_text, as_type, from_text, type_name


class Limits(NamedTuple):
    """The range of a setting, with its ends; if `above`, without the lower one."""

    low: float
    high: float = math.inf
    above: bool = False


Count: TypeAlias = Annotated[int, Limits(1)]
CountOrZero: TypeAlias = Annotated[int, Limits(0)]
TwoOrMore: TypeAlias = Annotated[int, Limits(2)]  # with one, there is no negative or no positive: the loss is always 0
Positive: TypeAlias = Annotated[float, Limits(0, above=True)]
NonNegative: TypeAlias = Annotated[float, Limits(0)]
Share: TypeAlias = Annotated[float, Limits(0, 1)]
Cosine: TypeAlias = Annotated[float, Limits(-1, 1)]
Seed: TypeAlias = Annotated[int, Limits(0, 1e9)]
FrameCount: TypeAlias = Annotated[int, Limits(0, 1e12)]


@dataclass(frozen=True)
class Tracks:
    """From boxes to tracks and tracklets."""

    link: Literal["polyp", "track", "video"] = "polyp"  #: ids used to link boxes; video: none (label-free)
    iou: Share = 0.1  #: minimum IoU of consecutive boxes of a track
    max_gap: CountOrZero = 0  #: number of consecutive missed frames that a track may contain
    start_score: Share = 0.0  #: weaker boxes continue a track, but never start one
    min_score: Share = 0.0  #: minimum mean score of the boxes of a track; weaker tracks are dropped
    margin: NonNegative = 0.0  #: enlarge boxes by this share per frame before they are compared, for moving cameras
    min_track: Count = 30  #: minimum length of a track in frames; shorter tracks are dropped
    stride: Count = 4  #: keep every n-th frame of a track
    length: Count = 8  #: frames per training tracklet (L)
    min_track_seconds: Positive | None = None  #: replaces min_track, for other frame rates
    stride_seconds: Positive | None = None  #: replaces stride, for other frame rates
    sampled_iou: Share | None = None  #: iou for PolypsSet, whose frames are sparse; none: the same
    sampled_min_track: Count | None = None  #: min_track for PolypsSet; none: the same
    sampled_stride: Count | None = None  #: stride for PolypsSet; none: the same


@dataclass(frozen=True)
class Crops:
    """From images to the crop store."""

    scale: Positive = 5.0  #: the crop is the box enlarged by this factor about its centre
    size: Annotated[int, Limits(8)] = 232  #: side of a stored crop in pixels
    decoding: Literal["full", "nvjpeg"] = "full"  #: full: on the CPU; nvjpeg: JPEG files on a GPU
    border: Literal["blank", "keep"] = "blank"  #: videos, outside the endoscope's field: black or unchanged
    workers: CountOrZero = 0  #: decoding threads; 0: one per core


@dataclass(frozen=True)
class Supervision:
    """From time to associations (bags)."""

    bag_size: Count = 4  #: tracklets per bag, not counting the anchor (K)
    sampling: Literal["exponential", "nearest", "uniform"] = "exponential"  #: how temporal ranks are sampled
    curriculum: Literal["cosine", "fixed"] = "cosine"  #: cosine: τ grows from tau_min to tau_max; fixed: tau_max
    tau_min: Positive = 0.3  #: rank temperature at the start of training
    tau_max: Positive = 12.0  #: rank temperature at the end of training
    tau_fit: Literal["none", "share", "gaps"] = "none"  #: estimate tau_max: share of a video, or time gaps
    tau_share: Share = 0.06  #: tau_max as a fraction of the video's tracklets (tau_fit = share); REAL-Colon: 12 of 190
    progress: Literal["paper", "release", "step"] = "paper"  #: c: epoch/(epochs-1), epoch/epochs or step/(steps-1)
    small_videos: Literal["keep", "leave-out"] = "keep"  #: videos with fewer than K + 1 tracklets
    composition: Literal["any", "no-overlap", "one-per-video"] = "any"  #: which bags may share a batch
    bags_per_batch: TwoOrMore = 12  #: bags per batch; 12 bags of 1 + K = 5 give the paper's 60 tracklets


@dataclass(frozen=True)
class Views:
    """How the comparison methods sample their views."""

    source: Literal["label-free", "polyp"] = "label-free"  #: SFE, TPC: second view without or with labels
    batch: TwoOrMore = 64  #: SFE, MVE, TPC: pairs per batch
    polyps_per_batch: TwoOrMore = 4  #: Sup, TA: polyps per batch
    tracklets_per_polyp: TwoOrMore = 14  #: Sup, TA: tracklets per polyp in a batch
    small_polyps: Literal["keep", "leave-out"] = "keep"  #: Sup, TA: polyps with fewer; leave-out: as in the release
    stride: Literal["random", "stored"] = "random"  #: MVE, TPC: random: 1 to 4 frames; stored: that of the crop store
    decay: NonNegative = 1.0  #: TA: decay rate λ of the target
    alpha_start: Share = 0.8  #: TPC: fraction of pairs from a single track in the first epoch
    alpha_end: Share = 0.4  #: TPC: the same from epoch alpha_epochs on
    alpha_epochs: CountOrZero = 5  #: TPC: epochs over which that fraction decreases
    deviation: Positive = 30.0  #: SFE: standard deviation of the distance to the second view, in frames
    augment: bool = False  #: SFE: augment with flips, small affine transforms and colour jitter


@dataclass(frozen=True)
class Loss:
    """The training objective."""

    name: Literal["noise-aware", "multi-positive"] = "noise-aware"  #: multi-positive: ablation that ignores noise
    form: Literal["paper", "symmetric"] = "symmetric"  #: symmetric: as in the authors' code; paper: Equation 1
    temperature: Positive = 0.07  #: temperature of the cosine similarities
    tracklet_weight: NonNegative = 1.0  #: weight of the tracklet-level term
    frame_weight: NonNegative = 1.0  #: weight of the frame-level term
    within_tracklet: bool = True  #: symmetric frame term: include pairs of frames of the same tracklet


@dataclass(frozen=True)
class Encoder:
    """The tracklet encoder."""

    backbone: str = "resnet50"  #: name of a timm model
    weights: str = "imagenet"  #: imagenet (downloaded), default (ours), none (random), or a safetensors/torch file
    width: Count = 256  #: width of the vectors and of the transformer's tokens (D)
    layers: Count = 3  #: transformer layers
    heads: Count = 8  #: attention heads per layer
    feed_forward: Count = 1024  #: hidden width of the transformer's feed-forward blocks
    dropout: Share = 0.1  #: dropout probability in the transformer
    projector_hidden: Count = 256  #: hidden width of the projector
    projection: Count = 128  #: output width of the projector, which the loss uses
    feature_norm: bool = False  #: apply LayerNorm to the projected frame features
    output_norm: bool = False  #: apply LayerNorm after the last transformer layer


@dataclass(frozen=True)
class Optimiser:
    """The optimiser and its schedule."""

    name: Literal["adamw", "adam"] = "adamw"  #: adamw: decoupled weight decay
    lr: NonNegative = 1e-5  #: learning rate (the maximum with one-cycle)
    weight_decay: NonNegative = 1e-4  #: weight decay
    schedule: Literal["constant", "one-cycle"] = "constant"  #: learning rate schedule


@dataclass(frozen=True)
class Train:
    """The training loop."""

    method: str = "ours"  #: method to train: ours, sfe, mve, tpc, sup, ta
    epochs: CountOrZero = 50  #: number of epochs; 0: save the untrained encoder
    frames: FrameCount = 0  #: stop after this many frames, which makes methods comparable; 0: use epochs
    seed: Seed = 0  #: random seed of the initial weights, the batches and dropout
    crop_size: CountOrZero = 0  #: input size of the network in pixels; 0: the stored size
    precision: Literal["auto", "float32", "bf16"] = "auto"  #: auto: bf16 on a GPU, float32 elsewhere
    compile: Literal["auto", "on", "off"] = "auto"  #: auto: on a GPU
    device: Literal["auto", "cpu", "cuda"] = "auto"  #: auto: a GPU if available
    devices: Count = 1  #: processes, one GPU each; torchrun and Slurm set it themselves
    threads: CountOrZero = 0  #: CPU threads; 0: torch's default. Bit-identical resumption needs the same number
    crops: Literal["auto", "device", "host"] = "auto"  #: where crops are kept; auto: on the GPU if they fit
    checkpoint_minutes: NonNegative = 2.0  #: minutes between checkpoints
    checkpoint_every: CountOrZero = 0  #: also write a checkpoint after every n steps; 0: by time only
    log_every: Count = 1  #: steps between lines of metrics.jsonl
    loggers: tuple[str, ...] = ("tensorboard",)  #: loggers besides metrics.jsonl: tensorboard, wandb, mlflow


@dataclass(frozen=True)
class Embed:
    """From an encoder and a dataset to vectors."""

    batch_frames: Count = 512  #: frames per batch; on a CPU at most 16, and fewer for large encoders
    precision: Literal["auto", "float32", "bf16"] = "auto"  #: auto: bf16 on a GPU, float32 elsewhere
    device: Literal["auto", "cpu", "cuda"] = "auto"  #: auto: a GPU if available
    compile: Literal["auto", "on", "off"] = "auto"  #: auto: on a GPU, if there are enough frames
    block_frames: Count = 32_768  #: frames whose features are held in memory at once; also the work unit of a cluster
    pooling: str = "default"  #: pooling of foundation models; see `polyptrace encoders`
    preprocess: Literal["own", "imagenet", "release"] = "own"  #: normalisation; release: as in the published comparison
    enlarge: bool = False  #: upscale stored crops that are smaller than the encoder's input


@dataclass(frozen=True)
class Evaluate:
    """Metrics, confidence intervals and tests."""

    bootstrap: CountOrZero = 1000  #: bootstrap samples per confidence interval
    cluster: Literal["video", "polyp"] = "video"  #: unit that the bootstrap resamples; polyps of a video are correlated
    convention: Literal["standard", "release"] = "standard"  #: release: ignore positives with a score <= 0
    exclude_seconds: NonNegative = 10.0  #: exclude neighbours closer than this from the hard retrieval variant
    variants: bool = True  #: also evaluate other galleries for retrieval, and probes split by video
    repeats: Count = 5  #: number of probe splits and seeds
    seed: Seed = 0  #: random seed of the bootstrap, the splits and the probes
    device: Literal["auto", "cpu", "cuda"] = "auto"  #: auto: a GPU if available
    count_threshold: Cosine | None = None  #: counting: similarity that merges tracks; none: tuned on labels, else 0.5
    count_preference: float | None = None  #: counting, affinity: higher values give more polyps; none: tuned, else 0
    count_alpha: Share | None = None  #: counting, temporal: weight of similarity against time; none: tuned, else 0.5


@dataclass(frozen=True)
class Config:
    """All sections. Each command uses the sections that its help names."""

    tracks: Tracks = field(default_factory=Tracks)
    crops: Crops = field(default_factory=Crops)
    supervision: Supervision = field(default_factory=Supervision)
    views: Views = field(default_factory=Views)
    loss: Loss = field(default_factory=Loss)
    encoder: Encoder = field(default_factory=Encoder)
    optimiser: Optimiser = field(default_factory=Optimiser)
    train: Train = field(default_factory=Train)
    embed: Embed = field(default_factory=Embed)
    evaluate: Evaluate = field(default_factory=Evaluate)


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
        current, checked = getattr(config, section), {}
        for key, value in values.items():
            _check_known(key, [f.name for f in fields(current)], where, f"key of [{section}]")
            checked[key] = _checked(value, _type(section, key), f"{where}: {section}.{key}")
        config = replace(config, **{section: replace(current, **checked)})
        check_limits(getattr(config, section), section)
    return config


def check_limits(values: object, section: str = "") -> None:
    """Raises an error if a field of a dataclass, for example a setting of a section, is out of its range."""
    for key, hint in get_type_hints(type(values), include_extras=True).items():
        value, kinds = getattr(values, key), (hint, *get_args(hint))
        for low, high, above in (each for kind in kinds for each in getattr(kind, "__metadata__", ())):
            if value is not None and (not low <= value <= high or value == math.inf or (above and value == low)):
                at_least = f"a number above {low:g}" if above else f"{low:g} or more"
                wanted = at_least if high == math.inf else f"a number from {low:g} to {high:.15g}"
                raise UserError(f"{_option(section, key)} {value}: out of range -> give {wanted}")


def override(
    config: Config, arguments: Sequence[str], sections: Sequence[str] | None = None, options: Sequence[str] = ()
) -> Config:
    """`config`, updated from command line arguments `--section.key value` or `--section.key=value`."""
    return from_dict(parse_options(arguments, sections, options), config, "command line")


def parse_options(
    arguments: Sequence[str], sections: Sequence[str] | None = None, options: Sequence[str] = ()
) -> dict[str, dict[str, Any]]:
    """Command line arguments as a nested mapping of typed values; only the given sections are accepted.

    `options` are further options of the command, one of which an unknown argument may be meant to be.

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
        if name not in known:
            if name in (row[0] for row in describe()):
                taken = ", ".join(sections or ())
                raise UserError(f"{name}: is a setting of another command -> this one has the sections {taken}")
            same_key = [option for option in known if option.endswith(f".{name.removeprefix('--')}")]
            others = {option.removeprefix("--"): option for option in (*known, *options)}
            near = [others[each] for each in get_close_matches(name.removeprefix("--"), others, 1, 0.6)]
            meant = same_key or near or ["an option that --help lists"]
            raise UserError(f"{name}: no such option or setting -> did you mean {' or '.join(meant)}?")
        if not equals:
            try:
                text = next(remaining)
            except StopIteration:
                raise UserError(f"{name}: has no value -> write {name} VALUE") from None
        section, key = known[name]
        if key in settings.get(section, {}):
            raise UserError(f"{name}: takes one value, but was given more -> give it once")
        kind = _type(section, key)
        settings.setdefault(section, {})[key] = _checked(from_text(kind, text), kind, name)
    return settings


def as_options(config: Config, base: Config, sections: Sequence[str] | None = None) -> list[str]:
    """The command line arguments that change `base` into `config`."""
    words: list[str] = []
    for section, key in _keys(sections):
        value = getattr(getattr(config, section), key.name)
        if value != getattr(getattr(base, section), key.name):
            words += [_option(section, key.name), as_text(value)]
    return words


def as_dict(config: Config, sections: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
    """The tree, or some of its sections, as nested dictionaries that can be written as JSON."""
    tree: dict[str, dict[str, Any]] = json.loads(json.dumps(asdict(config)))  # JSON has lists instead of tuples
    return {section: values for section, values in tree.items() if sections is None or section in sections}


def as_toml(config: Config, sections: Sequence[str] | None = None) -> str:
    """The tree, or some of its sections, as TOML, from which `read_config` restores the same tree."""
    lines: list[str] = []
    for section, values in as_dict(config, sections).items():
        lines += [f"[{section}]"]
        # JSON and TOML write texts, lists, numbers and booleans alike, except that TOML forbids DEL in a text
        texts = {key: json.dumps(value, ensure_ascii=False) for key, value in values.items() if value is not None}
        lines += [f"{key} = {text}".replace("\x7f", "\\u007f") for key, text in texts.items()]
        lines += [""]
    return "\n".join(lines)


def difference(old: Config, new: Config, sections: Sequence[str] | None = None) -> list[str]:
    """One line `section.key: old -> new` for each setting that differs and can change a result."""
    return differences(as_dict(old, sections), as_dict(new, sections))


def describe(sections: Sequence[str] | None = None) -> list[tuple[str, str, str, str]]:
    """(option, type, default, help text) of every setting in the sections."""
    return [
        (_option(s, k.name), type_name(_type(s, k.name)), as_text(k.default), _help_texts(s)[k.name])
        for s, k in _keys(sections)
    ]


def _keys(sections: Sequence[str] | None) -> Iterator[tuple[str, Field[Any]]]:
    for section in fields(Config):
        if sections is None or section.name in sections:
            for key in fields(getattr(Config(), section.name)):
                yield section.name, key


def _option(section: str, key: str) -> str:
    return "--" + f"{section}.{key}".removeprefix(".").replace("_", "-")


def _check_known(name: str, known: Sequence[str], where: str, what: str) -> None:
    if name not in known:
        near = get_close_matches(name, known, 1, 0.0)
        raise UserError(f"{where}: there is no {what} {name!r} -> did you mean {near[0]!r}?")


@cache
def _type(section: str, key: str) -> Any:
    return get_type_hints(type(getattr(Config(), section)))[key]


def _checked(value: object, kind: Any, where: str) -> object:
    """`value` converted to `kind`, or an error that names the accepted values."""
    try:
        checked: object = as_type(kind, list(value) if isinstance(value, tuple) else value)
        if isinstance(checked, float) and not math.isfinite(checked):
            raise MismatchError("", "is not finite")
    except MismatchError:
        article = {int: "an ", float: "a "}.get(kind, "")
        raise UserError(f"{where}: {value!r} is not valid -> give {article}{type_name(kind)}") from None
    return checked


@cache
def _help_texts(section: str) -> dict[str, str]:
    """The `#:` comment of each field of a section."""
    source = inspect.getsource(type(getattr(Config(), section)))
    return dict(re.findall(r"^    (\w+):[^#\n]*#: (.*)$", source, re.MULTILINE))
