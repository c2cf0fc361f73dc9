"""The model card: metadata that the hub reads, and how the encoder was trained."""

from pathlib import Path

from huggingface_hub import ModelCard

from polyptrace.encoders import TrackletEncoder, save_encoder
from polyptrace.encoders.encoder import TrainingRecord

RECORD = TrainingRecord(
    method="ours",
    data="train: 'a'",
    generated=True,
    counts={"videos": 1, "tracklets": 1200, "crops": 9},
    labels="none, given tracks",
    steps=7,
    frames=3000,
    seed=5,
    init_from="runs/sfe",
    init_frames=20,
    settings={"loss": {"form": "paper"}},
    licence="apache-2.0",
    results={"retrieval mAP": "25.6 [21.1–31.0]"},
)


def card_of(record: TrainingRecord, folder: Path) -> ModelCard:
    save_encoder(
        TrackletEncoder("test_resnet", width=16, heads=2, layers=1, size=32, name="a: b"), folder, record=record
    )
    return ModelCard.load(folder / "README.md")


def test_the_card_has_the_metadata_of_the_hub(tmp_path: Path) -> None:
    data = card_of(RECORD, tmp_path / "e").data
    assert (data.license, data.library_name, data.pipeline_tag) == ("apache-2.0", "polyptrace", "feature-extraction")
    assert "colonoscopy" in data.tags


def test_the_card_says_how_the_encoder_was_trained_and_what_it_is_for(tmp_path: Path) -> None:
    text = card_of(RECORD, tmp_path / "e").text
    for line in (
        "- Data: train: 'a'; generated images; 1 video, 1,200 tracklets",
        "- Licence of the weights: apache-2.0",
        "- Method: ours",
        "- Polyp labels used: none, given tracks",
        "- Length: 7 steps, 3,000 frames",
        "- Seed: 5",
        "- Initial weights: runs/sfe (20 frames)",
        "- retrieval mAP: 25.6 [21.1–31.0]",
        "not a medical device",
        "Trained on rendered images only",
        "32 x 32 pixels",
    ):
        assert line in text


def test_what_is_not_known_is_not_claimed(tmp_path: Path) -> None:
    card = card_of(TrainingRecord(), tmp_path / "e")
    assert card.data.license == "unknown"
    assert "- Data: not stated; origin of the images not stated" in card.text
    assert "- Polyp labels used: not stated" in card.text
    assert "Length" not in card.text
    assert "generated" not in card.text
