"""The model card of an encoder: how it was trained, as README.md with the metadata that the hub reads."""

import json
from collections.abc import Iterable, Iterator

from huggingface_hub import ModelCardData

from polyptrace.core.console import counted
from polyptrace.encoders.encoder import OwnEncoder, TrainingRecord

NOT_STATED = "not stated"

#: Added to the intended use of an encoder that was trained on generated images.
GENERATED = """

**Trained on rendered images only.** It has seen no recorded procedure. Its quality on recorded procedures is unknown
unless the results above include them."""


def model_card(encoder: OwnEncoder, record: TrainingRecord, fingerprint: str) -> str:
    """The text of README.md."""
    metadata = ModelCardData(
        library_name="polyptrace",
        pipeline_tag="feature-extraction",
        license=record.licence,
        tags=["colonoscopy", "polyp", "re-identification", "contrastive-learning"],
    )
    millions = sum(p.numel() for p in encoder.parameters()) / 1e6
    return f"""---
{metadata.to_yaml()}
---
# {encoder.settings["name"]}: vectors of polyp tracklets

One vector of {encoder.width} numbers per tracklet. A high cosine similarity means that two tracklets probably show the
same polyp.

```python
import polyptrace

encoder = polyptrace.from_pretrained("PATH")  # this folder, or its id on the hub
vectors = encoder(tracklets)  # list of (frames, height, width, 3) uint8 -> (n, {encoder.width}) float32
```

A frame is an RGB crop of a polyp: the detection box, enlarged 5 times about its centre. Frames are resized to
{encoder.preprocess.size} x {encoder.preprocess.size} pixels and normalised inside.

## Training
{_lines(_training(record))}

## Results
{_lines(record.results.items()) if record.results else "Not stated."}

## Intended use
Research on the re-identification of polyps in colonoscopy videos. This is not a medical device: do not use it for
decisions about patients.{GENERATED if record.generated else ""}

## Model
- Backbone: {encoder.settings["backbone"]}
- Parameters: {millions:.1f} M
- Fingerprint: `{fingerprint}`

```json
{json.dumps(encoder.settings, indent=2)}
```
"""


def _training(record: TrainingRecord) -> Iterator[tuple[str, str]]:
    """Names and values of the section on training."""
    picture = {True: "generated images", False: "recorded images", None: "origin of the images not stated"}
    counts = ", ".join(counted(record.counts[key], key[:-1]) for key in ("videos", "tracklets") if key in record.counts)
    yield "Data", "; ".join(filter(None, (record.data or NOT_STATED, picture[record.generated], counts)))
    yield "Licence of the weights", NOT_STATED if record.licence == "unknown" else record.licence
    yield "Method", record.method or NOT_STATED
    yield "Polyp labels used", record.labels or NOT_STATED
    if record.method:
        yield "Length", f"{counted(record.steps, 'step')}, {counted(record.frames, 'frame')}"
    if record.seed is not None:
        yield "Seed", str(record.seed)
    if record.init_from:
        yield "Initial weights", f"{record.init_from} ({counted(record.init_frames, 'frame')})"
    if record.settings:
        yield "Settings", "all of them are in `config.json`, under `training.settings`"


def _lines(pairs: Iterable[tuple[str, object]]) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in pairs)
