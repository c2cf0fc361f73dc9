"""python -m benchmarks head_only --data TRAIN [...] --test TEST [...] --weights FILE --features FOLDER [--method ours]

Trains everything behind a frozen ResNet-50 on its stored features, with the batches and the loss of `polyptrace train`:
minutes on a CPU instead of hours. It shows how sampling, bags and batches affect what can be learned from the same
features. It does not show what training the backbone as well would give.

The features of each dataset are stored in FOLDER under its name and used again, so datasets must have different names,
and other weights need another folder. --section.key value changes the settings of training.
Prints retrieval and re-identification of the whole test tracks as JSON.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import AdamW

from benchmarks import command_line
from polyptrace.config import Config, Embed, override
from polyptrace.core.files import atomic_file
from polyptrace.data import Dataset, join_datasets
from polyptrace.data.identity import polyp_keys
from polyptrace.embed import Embedder
from polyptrace.encoders import TrackletEncoder
from polyptrace.evaluate import reid, retrieval
from polyptrace.methods import METHODS, Targets
from polyptrace.train import SECTIONS

BATCH = 64


def main(words: list[str] | None = None) -> None:
    """Computes the features, trains once, and prints the metrics."""
    options, settings = parse(words)
    method = METHODS[options.method]
    config = override(method.published(), settings, SECTIONS)
    train, test = ([Dataset.open(path) for path in paths] for paths in (options.data, options.test))
    stored = {each.path: features(each, options.weights, options.features) for each in (*train, *test)}
    encoder = train_head(join_datasets(train), torch.cat([stored[each.path] for each in train]), options.method, config)
    vectors = np.concatenate([track_vectors(encoder, each, stored[each.path]) for each in test])
    polyp = np.concatenate([polyp_keys(each.tracklets)[each.select("track")] for each in test])
    retrieved, pairs = retrieval(vectors, polyp), reid(vectors, polyp)
    metrics = {"mAP": retrieved.map, "HR@1": retrieved.hr1, "AUROC": pairs.auroc, "AUPR": pairs.aupr}
    chosen = {"method": options.method, "settings": " ".join(settings), "tracks": len(polyp)}
    print(json.dumps(chosen | {name: round(100 * value, 2) for name, value in metrics.items()}))


def parse(words: list[str] | None) -> tuple[argparse.Namespace, list[str]]:
    """The command line, and the settings of training in it."""
    parser = command_line.parser("head_only", __doc__)
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="prepared datasets to train on")
    parser.add_argument("--test", type=Path, nargs="+", required=True, help="prepared datasets with labels")
    parser.add_argument("--weights", default="imagenet", help="of the ResNet-50, as in encoder.weights")
    parser.add_argument("--features", type=Path, required=True, help="folder of the stored features")
    parser.add_argument("--method", choices=[name for name in METHODS if name != "sfe"], default="ours")
    return parser.parse_known_args(words)


def features(data: Dataset, weights: str, folder: Path) -> Tensor:
    """Features (n, F) of all crops of a dataset, as float16."""
    file = folder / f"{data.path.name}.npy"
    if not file.exists():
        embedder = Embedder(TrackletEncoder(weights=weights, size=data.crops.shape[1]), Embed(device="cpu"))
        parts = [np.array(data.crops[start : start + BATCH]) for start in range(0, len(data.crops), BATCH)]
        folder.mkdir(parents=True, exist_ok=True)
        computed = torch.cat([embedder.features(torch.from_numpy(part)).half() for part in parts])
        with atomic_file(file) as temporary, temporary.open("wb") as out:
            np.save(out, computed.numpy())
    return torch.from_numpy(np.load(file))


def train_head(data: Dataset, stored: Tensor, name: str, config: Config) -> TrackletEncoder:
    """A tracklet encoder whose layers behind the backbone were trained on features (n, F) at a constant rate."""
    method = METHODS[name]
    plan = method.plan(data if method.sees_labels(config) else data.label_free(), config)
    epochs, steps = plan.length(config.train)
    torch.manual_seed(config.train.seed)
    encoder = TrackletEncoder(weights="none")
    encoder.backbone = nn.Identity()
    optimiser = AdamW(encoder.parameters(), config.optimiser.lr, weight_decay=config.optimiser.weight_decay)
    encoder.train()
    for number in range(epochs):
        epoch = plan.epoch(number, epochs)
        for step in range(min(epoch.steps, steps - plan.steps(number))):
            batch = epoch.batch(step)
            rows = torch.from_numpy(batch.rows)
            mask = rows >= 0
            of_batch = (batch.tracklet, batch.group, batch.position)
            targets = Targets(mask, *(torch.from_numpy(values) for values in of_batch))
            frames = stored[rows.clamp(min=0)].float() * mask[..., None]  # (B, L, F)
            z = encoder.projector(encoder.tokens_of_features(frames, mask))
            method.loss(z, targets, config)[0].backward()
            optimiser.step()
            optimiser.zero_grad()
    return encoder.eval()


@torch.inference_mode()
def track_vectors(encoder: TrackletEncoder, data: Dataset, stored: Tensor) -> np.ndarray:
    """Vectors (n, D) of the whole tracks of a dataset."""
    rows = [data.tracklets.rows[track] for track in data.select("track")]
    return torch.cat([encoder.aggregate(stored[np.array(each)][None].float()) for each in rows]).numpy()


if __name__ == "__main__":
    main()
