"""python -m benchmarks explore."""

from pathlib import Path

from benchmarks.explore import FRAMES, write_procedures
from polyptrace.data import Dataset
from polyptrace.embed import Embeddings
from polyptrace.explore.strips import ProcedureCrops


def test_every_generated_track_has_a_film_strip(tmp_path: Path) -> None:
    write_procedures(tmp_path, 1, 30, crops=True)
    tracks, data = Embeddings.load(tmp_path / "vectors"), Dataset.open(tmp_path / "data")
    crops = ProcedureCrops([data], str(tracks.dataset[0]), str(tracks.video[0]))
    for track, first, last in zip(tracks.track.tolist(), tracks.position.tolist(), tracks.last.tolist(), strict=True):
        assert len(crops.frames((track, first, last))) == FRAMES
        assert crops.strip((track, first, last), 6, 48)
