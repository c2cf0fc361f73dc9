"""The probability that two tracks of a procedure show the same lesion; `fitting.py` estimates its parameters.

    log-odds(same) = logit π(pause) + log p₁(y | gap) / p₀(y)

- y is the cosine of the two tracks after Fisher's transformation, y = artanh(cosine). The mean vector of all procedures
  is subtracted first, because encoders give all vectors a common part.
- gap: seconds between the two tracks. Tracks of one lesion look less alike after a longer gap, because the view
  changes: p₁ = N(far + (near - far) / (1 + gap / half_s), sd²).
- pause: the longest time without any track between the two. Within one visit to a lesion the pauses are short, even if
  the gap is long. π falls with the pause from `ceiling` to `floor`, the share of lesions that are seen again.
- p₀ = N(different, sd²): two lesions of one procedure. They look more alike than lesions of two procedures (same scope,
  colours and mucosa), so the mean of pairs across procedures is its lower bound.
- Tracks that are visible at the same time show two lesions: probability 0.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from polyptrace.core.arrays import Bools, Floats, Ints
from polyptrace.core.console import counted
from polyptrace.core.errors import UserError
from polyptrace.core.files import read_json, write_json
from polyptrace.core.schema import from_json
from polyptrace.data.identity import codes, group_rows, video_keys
from polyptrace.embed import Embeddings

FORMAT = 3
#: The file beside the vectors.
SAME_FILE = "same.json"
#: Frames per second where the frame rate is unknown.
ASSUMED_FPS = 25.0
#: A longer pause ends a visit to a lesion, for the weights of pairs.
VISIT_PAUSE_S = 5.0
#: Cosines are limited to this before Fisher's transformation.
MAX_COSINE = 0.999


@dataclass(frozen=True)
class Looks:
    """The densities p₁ and p₀ of Fisher's y: normal, with one standard deviation."""

    different: float  # mean of pairs of two lesions
    near: float  # mean of pairs of one lesion at gap 0
    far: float  # and after a long gap
    half_s: float  # gap at which the mean is halfway between near and far
    sd: float

    def __post_init__(self) -> None:
        _check_numbers(self.different, self.near, self.far)
        _check_numbers(self.half_s, self.sd, positive=True)

    def log_ratio(self, y: ArrayLike, gap_s: ArrayLike) -> Floats:
        """log p₁ / p₀ of pairs; linear in y, never falls."""
        mean = self.far + (self.near - self.far) * recent(gap_s, self.half_s)
        return np.asarray((mean - self.different) * (np.asarray(y) - 0.5 * (mean + self.different)) / self.sd**2)


@dataclass(frozen=True)
class TimePrior:
    """π as a function of the pause: a logistic fall in log(1 + pause) from `ceiling` to `floor`."""

    floor: float
    ceiling: float
    pause_s: float  # where π is halfway
    steepness: float

    def __post_init__(self) -> None:
        _check_numbers(self.floor, self.ceiling, self.pause_s, self.steepness, positive=True)
        if not self.floor <= self.ceiling < 1:
            raise ValueError(f"floor {self.floor} and ceiling {self.ceiling} are not probabilities in order")

    def log_odds(self, pause_s: ArrayLike) -> Floats:
        """logit π of pauses."""
        fall = expit((np.log1p(self.pause_s) - np.log1p(np.asarray(pause_s, np.float64))) * self.steepness)
        return np.asarray(logit(self.floor + (self.ceiling - self.floor) * fall))


@dataclass(frozen=True)
class SameModel:
    """P(same lesion | cosine, gap, pause, simultaneous) of one encoder, with what it was fitted on."""

    encoder: str  # fingerprint of the encoder, "" if unknown
    dataset: str
    width: int  # of the vectors
    centre: tuple[float, ...]  # subtracted from vectors of length 1 before cosines are computed; () for none
    looks: Looks
    prior: TimePrior  # of two tracks
    visits: TimePrior  # of two visits
    procedures: int
    pairs: int
    labelled_pairs: int = 0
    assumptions: tuple[str, ...] = ()
    format: int = FORMAT

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise ValueError(f"format {self.format}, expected {FORMAT}")

    def log_ratio(self, cosine: ArrayLike, gap_s: ArrayLike) -> Floats:
        """log p₁ / p₀ of pairs; never falls with the cosine."""
        return self.looks.log_ratio(fisher(cosine), gap_s)

    def probability(
        self, cosine: ArrayLike, gap_s: ArrayLike, pause_s: ArrayLike, simultaneous: ArrayLike = False
    ) -> Floats:
        """P(same lesion) of pairs of tracks of one procedure."""
        log_odds = self.prior.log_odds(pause_s) + self.log_ratio(cosine, gap_s)
        return np.where(np.asarray(simultaneous, bool), 0.0, expit(log_odds))

    def described(self, source: Path | None) -> str:
        """A line for the user: the file that the model was read from, if any, and what it was fitted on."""
        labels = "with labels" if self.labelled_pairs else "without labels"
        fitted = f"fitted on {counted(self.pairs, 'pair')} of tracks, {labels}"
        return "probability of the same lesion: " + (f"{source}, {fitted}" if source else fitted)

    def check(self, tracks: Embeddings, where: str) -> None:
        """Raises an error if the vectors are of another encoder than the one that the model was fitted on."""
        self.check_encoder(encoder_of(tracks), tracks.vectors.shape[1], where)

    def check_encoder(self, encoder: str, width: int, where: str) -> None:
        """Raises an error if an encoder, by its fingerprint, and the width of its vectors are others."""
        if (self.encoder and encoder and self.encoder != encoder) or self.width != width:
            raise UserError(
                f"{where}: fitted on vectors of another encoder ({self.encoder[:12] or 'unknown'}, width {self.width};"
                f" these: {encoder[:12] or 'unknown'}, width {width})"
                " -> fit it again with 'polyptrace lesions --refit', or give a file of this encoder with --same"
            )

    def save(self, path: Path) -> None:
        """Writes the model as JSON, atomically."""
        write_json(path, asdict(self))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads a model; a damaged file is an error that names the field."""
        return from_json(
            cls, read_json(path), str(path), "delete it, or fit it again with 'polyptrace lesions --refit'"
        )


@dataclass(frozen=True)
class ProcedureTracks:
    """The tracks of one procedure in temporal order: rows of the table, and their times."""

    rows: Ints
    unit: Floats  # (n, D) vectors of length 1
    start_s: Floats
    end_s: Floats
    pause_s: Floats = field(init=False)  # (n - 1,) seconds without any track before each track but the first

    def __post_init__(self) -> None:
        pause = self.start_s[1:] - np.maximum.accumulate(self.end_s)[:-1]
        object.__setattr__(self, "pause_s", np.maximum(pause, 0.0))

    def __len__(self) -> int:
        return len(self.rows)

    def visits(self) -> Ints:
        """Tracks (n,) in the visit of each track."""
        visit = np.concatenate([[0], np.cumsum(self.pause_s > VISIT_PAUSE_S)])
        return np.asarray(np.bincount(visit)[visit])

    def pairs(self, i: Ints, j: Ints) -> tuple[Floats, Floats, Floats, Bools]:
        """Cosine, gap, pause and whether simultaneous of the pairs i < j."""
        cosine = np.einsum("nd,nd->n", self.unit[i], self.unit[j])
        simultaneous = self.start_s[j] <= self.end_s[i]
        gap = np.maximum(self.start_s[j] - self.end_s[i], 0.0)
        return cosine, gap, self.longest_pause(i, j), simultaneous

    def longest_pause(self, i: Ints, j: Ints) -> Floats:
        """The longest pause between tracks i < j."""
        pauses = np.append(self.pause_s, 0.0)  # j may be its length
        return np.asarray(np.maximum.reduceat(pauses, np.stack([i, j], axis=1).reshape(-1))[::2])


def check_frames(tracks: Embeddings, where: str) -> None:
    """Raises an error that names the row of a track whose procedure or frames are unknown."""
    for column, unknown in (("video", tracks.video == ""), ("position", tracks.position < 0)):
        if unknown.any():
            raise UserError(
                f"{where}: row {int(np.argmax(unknown))} has no {column}"
                " -> give the procedure and the first and last frame of each track"
            )


def procedures(tracks: Embeddings, centre: Sequence[float] = ()) -> Iterator[ProcedureTracks]:
    """The tracks of each procedure, procedures sorted by key, with vectors relative to the centre of a model."""
    check_frames(tracks, "lesions")
    fps = np.where(tracks.fps > 0, tracks.fps, ASSUMED_FPS)
    start, end = tracks.position / fps, (tracks.last + 1) / fps
    for members in group_rows(codes(video_keys(tracks))):
        rows = members[np.lexsort((tracks.track[members], tracks.last[members], tracks.position[members]))]
        unit = _unit(tracks.vectors[rows].astype(np.float64))
        if len(centre):
            unit = _unit(unit - np.where(unit.any(axis=1, keepdims=True), centre, 0.0))
        # `end` is exclusive: the end of a track that ends in the frame before another one starts is not simultaneous
        yield ProcedureTracks(rows, unit, start[rows], end[rows] - 1e-9)


def _unit(vectors: Floats) -> Floats:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(length == 0, 1.0, length)


def fisher(cosine: ArrayLike) -> Floats:
    """Fisher's transformation of cosines; it makes the spread of high cosines comparable with that of low ones."""
    return np.asarray(np.arctanh(np.clip(np.asarray(cosine, np.float64), -MAX_COSINE, MAX_COSINE)))


def recent(gap_s: ArrayLike, half_s: float) -> Floats:
    """Share of a view that is left after a gap."""
    return np.asarray(1 / (1 + np.asarray(gap_s, np.float64) / half_s))


def encoder_of(tracks: Embeddings) -> str:
    """Fingerprint of the encoder, "" if unknown."""
    return str(tracks.info.get("fingerprint") or "")


def _check_numbers(*numbers: float, positive: bool = False) -> None:
    if not all(map(math.isfinite, numbers)) or (positive and min(numbers) <= 0):
        raise ValueError("a parameter is not finite or not positive")
