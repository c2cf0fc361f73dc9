"""Every setting of every stage. The defaults are the paper's values.

The comment after `#:` is the help text of the setting on the command line.
"""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Tracks:
    """From boxes to tracks and tracklets."""

    link: Literal["polyp", "track", "video"] = "polyp"  #: ids used to link boxes; video: none (label-free)
    iou: float = 0.1  #: minimum IoU of consecutive boxes of a track
    max_gap: int = 0  #: number of consecutive missed frames that a track may contain
    min_track: int = 30  #: minimum length of a track in frames; shorter tracks are dropped
    stride: int = 4  #: keep every n-th frame of a track
    length: int = 8  #: frames per training tracklet (L)
    min_track_seconds: float | None = None  #: replaces min_track, for other frame rates
    stride_seconds: float | None = None  #: replaces stride, for other frame rates
    sampled_iou: float | None = None  #: iou for PolypsSet, whose frames are sparse; none: the same
    sampled_min_track: int | None = None  #: min_track for PolypsSet; none: the same
    sampled_stride: int | None = None  #: stride for PolypsSet; none: the same


@dataclass(frozen=True)
class Crops:
    """From images to the crop store."""

    scale: float = 5.0  #: the crop is the box enlarged by this factor about its centre
    size: int = 232  #: side of a stored crop in pixels
    decoding: Literal["full", "scaled", "nvjpeg"] = "full"  #: scaled: at reduced size; nvjpeg: on a GPU
    border: Literal["blank", "keep"] = "blank"  #: of videos, outside of the endoscope's field: black or unchanged
    workers: int = 0  #: decoding threads; 0: one per core


@dataclass(frozen=True)
class Supervision:
    """From time to associations (bags)."""

    bag_size: int = 4  #: tracklets per bag, not counting the anchor (K)
    sampling: Literal["exponential", "nearest", "uniform"] = "exponential"  #: how temporal ranks are sampled
    curriculum: Literal["cosine", "fixed"] = "cosine"  #: cosine: τ grows from tau_min to tau_max; fixed: tau_max
    tau_min: float = 0.3  #: rank temperature at the start of training
    tau_max: float = 12.0  #: rank temperature at the end of training
    tau_fit: Literal["none", "share", "gaps"] = "none"  #: estimate tau_max: share of a video, or time gaps
    tau_share: float = 0.06  #: tau_max as a fraction of the video's tracklets (tau_fit = share); REAL-Colon: 12 of 190
    progress: Literal["paper", "release"] = "paper"  #: paper: c = epoch/(epochs-1); release: epoch/epochs
    small_videos: Literal["keep", "leave-out"] = "keep"  #: videos with fewer than K + 1 tracklets
    composition: Literal["any", "no-overlap", "one-per-video"] = "any"  #: which bags may share a batch
    bags_per_batch: int = 12  #: bags per batch; 12 bags of 1 + K = 5 give the paper's 60 tracklets


@dataclass(frozen=True)
class Views:
    """How the comparison methods sample their views."""

    source: Literal["label-free", "polyp"] = "label-free"  #: SFE, TPC: second view without or with labels
    batch: int = 64  #: SFE, MVE, TPC: pairs per batch
    polyps_per_batch: int = 4  #: Sup, TA: polyps per batch
    tracklets_per_polyp: int = 14  #: Sup, TA: tracklets per polyp in a batch
    small_polyps: Literal["keep", "leave-out"] = "keep"  #: Sup, TA: polyps with fewer; leave-out: as in the release
    stride: Literal["random", "stored"] = "random"  #: MVE, TPC: random: 1 to 4 frames; stored: that of the crop store
    decay: float = 1.0  #: TA: decay rate λ of the target
    alpha_start: float = 0.8  #: TPC: fraction of pairs from a single track in the first epoch
    alpha_end: float = 0.4  #: TPC: the same from epoch alpha_epochs on
    alpha_epochs: int = 5  #: TPC: epochs over which that fraction decreases
    deviation: float = 30.0  #: SFE: standard deviation of the distance to the second view, in frames
    augment: bool = False  #: SFE: augment with flips, small affine transforms and colour jitter


@dataclass(frozen=True)
class Loss:
    """The training objective."""

    name: Literal["noise-aware", "multi-positive"] = "noise-aware"  #: multi-positive: ablation that ignores noise
    form: Literal["paper", "symmetric"] = "symmetric"  #: symmetric: as in the authors' code; paper: Equation 1
    temperature: float = 0.07  #: temperature of the cosine similarities
    tracklet_weight: float = 1.0  #: weight of the tracklet-level term
    frame_weight: float = 1.0  #: weight of the frame-level term
    within_tracklet: bool = True  #: symmetric frame term: include pairs of frames of the same tracklet


@dataclass(frozen=True)
class Encoder:
    """The tracklet encoder."""

    backbone: str = "resnet50"  #: name of a timm model
    weights: str = "imagenet"  #: imagenet (downloaded), default (ours), none (random), or a safetensors/torch file
    width: int = 256  #: width of the vectors and of the transformer's tokens (D)
    layers: int = 3  #: transformer layers
    heads: int = 8  #: attention heads per layer
    feed_forward: int = 1024  #: hidden width of the transformer's feed-forward blocks
    dropout: float = 0.1  #: dropout probability in the transformer
    projector_hidden: int = 256  #: hidden width of the projector
    projection: int = 128  #: output width of the projector, which the loss uses
    feature_norm: bool = False  #: apply LayerNorm to the projected frame features
    output_norm: bool = False  #: apply LayerNorm after the last transformer layer


@dataclass(frozen=True)
class Optimiser:
    """The optimiser and its schedule."""

    name: Literal["adamw", "adam"] = "adamw"  #: adamw: decoupled weight decay
    lr: float = 1e-5  #: learning rate (the maximum with one-cycle)
    weight_decay: float = 1e-4  #: weight decay
    schedule: Literal["constant", "one-cycle"] = "constant"  #: learning rate schedule


@dataclass(frozen=True)
class Train:
    """The training loop."""

    method: str = "ours"  #: method to train: ours, sfe, mve, tpc, sup, ta
    epochs: int = 50  #: number of epochs; 0: save the untrained encoder
    frames: int = 0  #: stop after this many frames, which makes methods comparable; 0: use epochs
    seed: int = 0  #: random seed of the initial weights, the batches and dropout
    crop_size: int = 0  #: input size of the network in pixels; 0: the stored size
    precision: Literal["auto", "float32", "bf16"] = "auto"  #: auto: bf16 on a GPU, float32 elsewhere
    compile: Literal["auto", "on", "off"] = "auto"  #: auto: on a GPU
    device: Literal["auto", "cpu", "cuda"] = "auto"  #: auto: a GPU if available
    devices: int = 1  #: processes, one GPU each; torchrun and Slurm set it themselves
    threads: int = 0  #: CPU threads; 0: torch's default. Bit-identical resumption needs the same number
    crops: Literal["auto", "device", "host"] = "auto"  #: where crops are kept; auto: on the GPU if they fit
    checkpoint_every: int = 200  #: steps between checkpoints
    checkpoint_minutes: float = 5.0  #: also write a checkpoint when the last one is this old
    log_every: int = 1  #: steps between lines of metrics.jsonl
    loggers: tuple[str, ...] = ("tensorboard",)  #: loggers besides metrics.jsonl: tensorboard, wandb, mlflow


@dataclass(frozen=True)
class Embed:
    """From an encoder and a dataset to vectors."""

    batch_frames: int = 512  #: frames per batch
    precision: Literal["auto", "float32", "bf16"] = "auto"  #: auto: bf16 on a GPU, float32 elsewhere
    device: Literal["auto", "cpu", "cuda"] = "auto"  #: auto: a GPU if available
    compile: Literal["auto", "on", "off"] = "auto"  #: auto: on a GPU, if there are enough frames
    block_frames: int = 32_768  #: frames whose features are held in memory at once; also the work unit of a cluster
    pooling: str = "default"  #: pooling of foundation models; see `polyptrace encoders`
    preprocess: Literal["own", "imagenet", "release"] = "own"  #: normalisation; release: as in the published comparison
    enlarge: bool = False  #: upscale stored crops that are smaller than the encoder's input


@dataclass(frozen=True)
class Evaluate:
    """Metrics, confidence intervals and tests."""

    bootstrap: int = 1000  #: bootstrap samples per confidence interval
    cluster: Literal["video", "polyp"] = "video"  #: unit that the bootstrap resamples; polyps of a video are correlated
    convention: Literal["standard", "release"] = "standard"  #: release: ignore positives with a score <= 0
    exclude_seconds: float = 10.0  #: exclude neighbours closer than this from the hard retrieval variant
    variants: bool = True  #: also evaluate other galleries for retrieval, and probes split by video
    repeats: int = 5  #: number of probe splits and seeds
    seed: int = 0  #: random seed of the bootstrap, the splits and the probes
    device: Literal["auto", "cpu", "cuda"] = "auto"  #: auto: a GPU if available
    count_threshold: float | None = None  #: counting: similarity that merges tracks; none: tuned on labels, else 0.5
    count_preference: float | None = None  #: counting, affinity: higher values give more polyps; none: tuned, else 0
    count_alpha: float | None = None  #: counting, temporal: weight of similarity against time; none: tuned, else 0.5


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
