"""Every setting of every stage, with the paper's values as defaults.

A field's comment after `#:` is its help text on the command line.
"""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Tracks:
    """From boxes to tracks and tracklets."""

    link: Literal["polyp", "track", "video"] = "polyp"  #: what linking may use; video: boxes alone, label-free
    iou: float = 0.1  #: least overlap of two boxes that follow each other in a track
    max_gap: int = 0  #: frames that a detector may miss inside a track
    min_track: int = 30  #: shorter tracks (frames, first to last) are dropped
    stride: int = 4  #: every n-th frame of a track is kept
    length: int = 8  #: frames in a training tracklet (L)
    min_track_seconds: float | None = None  #: instead of min_track, for other frame rates
    stride_seconds: float | None = None  #: instead of stride, for other frame rates
    sampled_iou: float = 0.1  #: instead of iou, where neighbouring frames are not neighbouring times (PolypsSet)
    sampled_min_track: int = 8  #: instead of min_track, there
    sampled_stride: int = 1  #: instead of stride, there


@dataclass(frozen=True)
class Crops:
    """From pictures to the crop store."""

    scale: float = 5.0  #: the crop is the box times this, about its centre
    size: int = 232  #: side of a stored crop, pixels
    decoding: Literal["full", "scaled", "nvjpeg"] = "full"  #: scaled: smaller if crops allow; nvjpeg: JPEGs on a GPU
    workers: int = 0  #: threads that decode; 0: one per core


@dataclass(frozen=True)
class Supervision:
    """From time to associations (bags)."""

    bag_size: int = 4  #: tracklets in a bag beside its anchor (K)
    sampling: Literal["exponential", "nearest", "uniform"] = "exponential"  #: how ranks are drawn
    curriculum: Literal["cosine", "fixed"] = "cosine"  #: cosine: τ grows from tau_min to tau_max; fixed: tau_max
    tau_min: float = 0.3  #: temperature of the ranks at the start
    tau_max: float = 12.0  #: temperature of the ranks at the end
    tau_fit: Literal["none", "share", "gaps"] = "none"  #: τ_max from the data: share of the video, or its time gaps
    tau_share: float = 0.06  #: τ_max as a share of the video's tracklets, with tau_fit = share; 12 of REAL-Colon's 190
    progress: Literal["paper", "release"] = "paper"  #: c = epoch/(epochs-1), or the release's epoch/epochs
    small_videos: Literal["keep", "leave-out"] = "keep"  #: videos with fewer than K + 1 tracklets
    composition: Literal["any", "no-overlap", "one-per-video"] = "any"  #: which bags may meet in a batch
    bags_per_batch: int = 12  #: bags of 1 + K in a batch; 12 x 5 = the paper's 60


@dataclass(frozen=True)
class Views:
    """How the comparison methods draw their views."""

    source: Literal["label-free", "polyp"] = "label-free"  #: SFE, TPC: second view from the track/video, or the polyp
    batch: int = 64  #: pairs in a batch (SFE, MVE, TPC)
    polyps_per_batch: int = 4  #: Sup, TA: polyps in a batch
    tracklets_per_polyp: int = 14  #: Sup, TA: tracklets of each of them
    decay: float = 1.0  #: λ of TA's target
    alpha_start: float = 0.8  #: TPC: share of pairs from one track, in the first epoch
    alpha_end: float = 0.4  #: TPC: the same, from epoch alpha_epochs on
    alpha_epochs: int = 5  #: TPC: epochs in which that share falls
    deviation: float = 30.0  #: SFE: standard deviation of the second view's distance, frames
    augment: bool = False  #: SFE: flips, small affine maps, colour jitter


@dataclass(frozen=True)
class Loss:
    """What is optimised."""

    name: Literal["noise-aware", "multi-positive"] = "noise-aware"  #: of bags; multi-positive ignores noise (ablation)
    form: Literal["paper", "symmetric"] = "paper"  #: Equation 1, or every member an anchor in turn
    temperature: float = 0.07  #: of the cosine similarities
    tracklet_weight: float = 1.0  #: weight of the tracklet-level term
    frame_weight: float = 1.0  #: weight of the frame-level term
    within_tracklet: bool = True  #: symmetric frame term: count pairs of frames inside one tracklet


@dataclass(frozen=True)
class Encoder:
    """The tracklet encoder."""

    backbone: str = "resnet50"  #: any timm model
    weights: str = "imagenet"  #: imagenet (from the hub), none, or a safetensors/torch file
    width: int = 256  #: numbers in a vector, and of the transformer's tokens (D)
    layers: int = 3  #: of the transformer over the frames
    heads: int = 8  #: of its attention
    feed_forward: int = 1024  #: width between the two linear layers of a transformer layer
    dropout: float = 0.1  #: in the transformer
    projector_hidden: int = 256  #: width between the vector and what the loss sees
    projection: int = 128  #: width of what the loss sees
    feature_norm: bool = False  #: LayerNorm after the linear layer
    output_norm: bool = False  #: LayerNorm after the last transformer layer


@dataclass(frozen=True)
class Optimiser:
    """How the weights move."""

    name: Literal["adamw", "adam"] = "adamw"  #: AdamW decays weights apart from the gradient
    lr: float = 1e-5  #: learning rate; with one-cycle the highest
    weight_decay: float = 1e-4  #: pull of the weights towards 0
    schedule: Literal["constant", "one-cycle"] = "constant"  #: of the learning rate over training


@dataclass(frozen=True)
class Train:
    """The training loop."""

    method: str = "ours"  #: a row of the table: ours, sfe, mve, tpc, sup, ta
    epochs: int = 50  #: 0: the encoder as it starts, untrained
    frames: int = 0  #: end after so many frames seen instead, the same for all methods of a comparison; 0: epochs
    seed: int = 0  #: of the first weights, the batches and dropout
    crop_size: int = 0  #: side the network sees; 0: the stored one
    precision: Literal["auto", "float32", "bf16"] = "auto"  #: auto: bf16 on a GPU, float32 elsewhere
    compile: Literal["auto", "on", "off"] = "auto"  #: auto: on a GPU
    device: Literal["auto", "cpu", "cuda"] = "auto"  #: auto: the GPU where there is one
    devices: int = 1  #: processes, one GPU each; torchrun and Slurm say it themselves
    threads: int = 0  #: CPU threads; 0: as torch chooses. Recorded: bit-identical resumption needs the same number
    crops: Literal["auto", "device", "host"] = "auto"  #: where the crop store lives; auto: on the GPU when it fits
    checkpoint_every: int = 200  #: steps between checkpoints
    log_every: int = 1  #: steps between lines of metrics.jsonl
    loggers: tuple[str, ...] = ("tensorboard",)  #: beside metrics.jsonl: tensorboard, wandb, mlflow


@dataclass(frozen=True)
class Embed:
    """From an encoder and a dataset to vectors."""

    batch_frames: int = 512  #: frames in a batch
    precision: Literal["auto", "float32", "bf16"] = "auto"  #: auto: bf16 on a GPU, float32 elsewhere
    device: Literal["auto", "cpu", "cuda"] = "auto"  #: auto: the GPU where there is one
    compile: Literal["auto", "on", "off"] = "auto"  #: auto: on a GPU, where the frames are enough to win the time back
    block_frames: int = 32_768  #: frames whose features are held at a time; what a worker of a cluster gets at a time
    pooling: str = "default"  #: foundation models: see `polyptrace encoders`
    preprocess: Literal["own", "imagenet", "release"] = "own"  #: normalisation: the model's, ImageNet's, the paper's
    enlarge: bool = False  #: allow stored crops that are smaller than the encoder's input to be enlarged


@dataclass(frozen=True)
class Evaluate:
    """Metrics, intervals and tests."""

    bootstrap: int = 1000  #: draws behind every interval
    cluster: Literal["polyp", "video"] = "polyp"  #: what the bootstrap draws
    convention: Literal["standard", "release"] = "standard"  #: release: positives with a score <= 0 do not count
    exclude_seconds: float = 10.0  #: neighbours closer than this are left out of the hard retrieval
    variants: bool = True  #: beside the paper's protocols: other galleries for retrieval, probes split by video
    repeats: int = 5  #: probe splits and seeds
    seed: int = 0  #: of the bootstrap's draws, the splits and the probes
    device: Literal["auto", "cpu", "cuda"] = "auto"  #: auto: the GPU where there is one
    count_threshold: float | None = None  #: counting: tracks this alike are one polyp; none: tuned on labels, else 0.5
    count_preference: float | None = None  #: counting, affinity: higher finds more polyps; none: tuned, else 0
    count_alpha: float | None = None  #: counting, temporal: weight of likeness, the rest is time; none: tuned, else 0.5


@dataclass(frozen=True)
class Config:
    """All sections; each command uses the ones it names in its help."""

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
