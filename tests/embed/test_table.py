"""The table of vectors: through the disk and back, from elsewhere, and what is refused."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from polyptrace.core.errors import UserError
from polyptrace.embed import Embeddings, concatenate
from polyptrace.embed.table import COLUMNS


def columns(count=6, width=4, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "vectors": rng.standard_normal((count, width)).astype(np.float32),
        "unit": np.array(["tracklet", "track"] * (count // 2), dtype=object),
        "dataset": np.array(["generated"] * count, dtype=object),
        "video": np.array([f"v{i // 2}" for i in range(count)], dtype=object),
        "track": np.arange(count),
        "position": np.arange(count) * 40,
        "last": np.arange(count) * 40 + 31,
        "fps": np.full(count, 25.0),
        "polyp": np.array(["v0_1", ""] * (count // 2), dtype=object),
        "size_mm": np.array([3.5, np.nan] * (count // 2)),
        "histology": np.array(["AD", ""] * (count // 2), dtype=object),
    }


def assert_equal(one, other):
    np.testing.assert_array_equal(one.vectors, other.vectors)
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def test_what_is_saved_is_loaded_bit_for_bit(tmp_path):
    table = Embeddings.from_columns(columns(), info={"encoder": "ours", "model_hash": "abc"})
    table.save(str(tmp_path / "E"))
    loaded = Embeddings.load(tmp_path / "E")
    assert_equal(table, loaded)
    assert loaded.info == {"encoder": "ours", "model_hash": "abc"}
    assert json.loads((tmp_path / "E" / "embeddings.json").read_text())["encoder"] == "ours"
    assert [getattr(loaded, c).dtype.kind for c in COLUMNS] == ["O", "O", "O", "i", "i", "i", "f", "O", "f", "O"]


@pytest.mark.parametrize("unit", [None, "track"])
def test_a_flipped_bit_never_changes_a_vector(tmp_path, unit):
    Embeddings.from_columns(columns(count=40, width=16)).save(tmp_path / "E")
    file = tmp_path / "E" / "embeddings.parquet"
    good, expected = file.read_bytes(), Embeddings.load(tmp_path / "E", unit).vectors
    refused = 0
    for index in np.random.default_rng(0).integers(len(good), size=40).tolist():
        file.write_bytes(good[:index] + bytes([good[index] ^ 1]) + good[index + 1 :])
        try:
            np.testing.assert_array_equal(Embeddings.load(tmp_path / "E", unit).vectors, expected)
        except UserError:
            refused += 1
    assert refused


@pytest.mark.parametrize("unit", [None, "track"])
def test_text_that_is_not_utf8_is_refused(tmp_path, unit):
    video = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())
    pq.write_table(pa.table({"vector": [[1.0]], "video": video}), tmp_path / "theirs.parquet")
    with pytest.raises(UserError, match="not a readable Parquet file"):
        Embeddings.load(tmp_path / "theirs.parquet", unit)


def test_an_existing_folder_is_replaced_only_with_overwrite(tmp_path):
    table = Embeddings.from_columns(columns())
    table.save(tmp_path / "E")
    with pytest.raises(UserError, match="already exists"):
        table.save(tmp_path / "E")
    table.save(tmp_path / "E", overwrite=True)


def test_the_answers_of_explore_survive_new_vectors(tmp_path):
    table = Embeddings.from_columns(columns())
    table.save(tmp_path / "E")
    (tmp_path / "E/answers.jsonl").write_text("answers")
    (tmp_path / "E/same.json").write_text("fitted to the old vectors")
    table.save(tmp_path / "E", overwrite=True)
    assert (tmp_path / "E/answers.jsonl").read_text() == "answers"
    assert not (tmp_path / "E/same.json").exists()


def test_an_npz_with_vectors_alone_is_enough(tmp_path):
    np.savez(tmp_path / "theirs.npz", vectors=np.eye(3))
    loaded = Embeddings.load(tmp_path / "theirs.npz")
    assert loaded.vectors.dtype == np.float32
    assert loaded.polyp.tolist() == ["", "", ""]
    assert loaded.track.tolist() == [0, 1, 2]
    assert loaded.position.tolist() == [-1, -1, -1]
    assert np.isnan(loaded.fps).all()
    assert len(loaded.select("track")) == len(loaded.select("tracklet")) == 3


def test_an_npz_takes_columns_of_any_sensible_type(tmp_path):
    np.savez(
        tmp_path / "theirs.npz",
        vectors=np.eye(3, dtype=np.float16),
        polyp=np.array([4, 4, 7]),
        video=np.array(["a", "a", "b"]),
        position=np.array([0.0, 40.0, 80.0]),
        size_mm=np.array([3, 4, 5]),
    )
    loaded = Embeddings.load(tmp_path / "theirs.npz")
    assert loaded.polyp.tolist() == ["4", "4", "7"]
    assert loaded.position.tolist() == loaded.last.tolist() == [0, 40, 80]
    assert loaded.size_mm.tolist() == [3.0, 4.0, 5.0]


@pytest.mark.parametrize("kind", [pa.list_(pa.float64()), pa.list_(pa.float32(), 2), pa.large_list(pa.float32())])
def test_a_parquet_may_hold_lists_of_any_kind_and_nulls(tmp_path, kind):
    table = pa.table(
        {
            "vector": pa.array([[1.0, 2.0], [3.0, 4.0]], type=kind),
            "polyp": ["a", None],
            "size_mm": [2.5, None],
            "video": ["v", "v"],
        }
    )
    pq.write_table(table, tmp_path / "theirs.parquet")
    loaded = Embeddings.load(tmp_path / "theirs.parquet")
    assert loaded.vectors.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert loaded.polyp.tolist() == ["a", ""]
    assert np.isnan(loaded.size_mm[1])


def test_a_unit_selects_its_rows_and_those_that_serve_as_any():
    given = columns()
    given["unit"][0] = "any"
    table = Embeddings.from_columns(given)
    assert table.select("track").track.tolist() == [0, 1, 3, 5]
    assert table.select("tracklet").track.tolist() == [0, 2, 4]
    np.testing.assert_array_equal(table.select("track").vectors, given["vectors"][[0, 1, 3, 5]])


def test_tables_of_one_encoder_are_put_together():
    one, other = columns(seed=0), columns(seed=1)
    other["dataset"][:] = "sun"
    joined = concatenate([Embeddings.from_columns(one, info={"a": 1}), Embeddings.from_columns(other)])
    assert joined.dataset.tolist() == ["generated"] * 6 + ["sun"] * 6
    np.testing.assert_array_equal(joined.vectors, np.concatenate([one["vectors"], other["vectors"]]))
    assert joined.info == {"a": 1}


def test_tables_of_different_encoders_are_not():
    one = Embeddings.from_columns(columns(), info={"model_hash": "a"})
    with pytest.raises(UserError, match="widths"):
        concatenate([one, Embeddings.from_columns(columns(width=5))])
    with pytest.raises(UserError, match="several models"):
        concatenate([one, Embeddings.from_columns(columns(), info={"model_hash": "b"})])
    with pytest.raises(UserError, match="no embeddings"):
        concatenate([])


def test_the_same_dataset_given_twice_is_noticed():
    table = Embeddings.from_columns(columns())
    with pytest.raises(UserError, match=r"row 6 .*same tracklet as row 0"):
        concatenate([table, table])


def changed(name, row, value):
    given = columns()
    given[name] = given[name].astype(object) if isinstance(value, str) else given[name].copy()
    given[name][row] = value
    return given


@pytest.mark.parametrize(
    ("name", "row", "value", "message"),
    [
        ("vectors", 4, np.nan, r"row 4 .*video 'v2'.*NaN"),
        ("vectors", 2, np.inf, r"row 2 .*infinity"),
        ("unit", 1, "clip", r"row 1 .*unit 'clip' -> tracklet, track, any"),
        ("last", 3, 5, r"row 3 .*last frame 5 is before the first, 120"),
        ("fps", 0, "fast", "column 'fps'"),
        ("size_mm", 2, -3.0, r"row 2 .*size_mm is -3 -> give millimetres above 0"),
        ("size_mm", 2, np.inf, r"row 2 .*size_mm is inf"),
    ],
)
def test_a_bad_row_is_named(name, row, value, message):
    with pytest.raises(UserError, match=message):
        Embeddings.from_columns(changed(name, row, value), where="E")


def test_broken_files_and_columns_are_errors(tmp_path):
    cases = {
        "absent.npz": (None, "no such file"),
        "text.npz": (b"not a zip", "not an .npz file, or a damaged one -> write it with numpy.savez"),
        "empty.npz": (b"", "not an .npz file, or a damaged one"),
        "vectors.csv": (b"vector,polyp\n1,a\n", "neither an .npz nor a .parquet file -> write an .npz"),
        "vectors.npy": (b"\x93NUMPY", "neither an .npz nor a .parquet file"),
        "text.parquet": (b"not parquet", "not a readable Parquet file"),
    }
    for name, (content, message) in cases.items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=message):
            Embeddings.load(tmp_path / name)
    np.savez(tmp_path / "other.npz", features=np.eye(2))
    with pytest.raises(UserError, match="no array called 'vectors'"):
        Embeddings.load(tmp_path / "other.npz")
    np.savez(tmp_path / "pickled.npz", vectors=np.array([None, {}], dtype=object))
    with pytest.raises(UserError, match="plain arrays"):
        Embeddings.load(tmp_path / "pickled.npz")
    pq.write_table(pa.table({"vector": [[1.0], [1.0, 2.0]]}), tmp_path / "uneven.parquet")
    with pytest.raises(UserError, match="row 1: width 2"):
        Embeddings.load(tmp_path / "uneven.parquet")
    pq.write_table(pa.table({"embedding": [[1.0]]}), tmp_path / "named.parquet")
    with pytest.raises(UserError, match="no column 'vector'"):
        Embeddings.load(tmp_path / "named.parquet")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"vectors": np.ones(3)}, "shape"),
        ({"vectors": np.ones((0, 3))}, "no vectors"),
        ({"vectors": np.ones((2, 3)), "polyp": np.array(["a"])}, "polyp has length 1, vectors 2"),
        (
            {"vectors": np.ones((2, 3)), "polyp_id": np.array(["a", "b"])},
            "unknown column 'polyp_id' -> .*'polyp'",
        ),
        ({"vectors": np.ones((2, 3)), "track": np.array([0.5, 1.0])}, "column .track.: Float value 0.5"),
    ],
)
def test_invalid_columns_are_refused(given, message):
    with pytest.raises(UserError, match=message):
        Embeddings.from_columns(given)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "contains list, not an object"),
        ('{"version": 2}', "'version' is 2, this release reads 1"),
        ('{"version": 1, "fingerprint": 3}', "'fingerprint' is 3, not str"),
        ('{"version": 1, "generated": "no"}', "'generated' is 'no', not bool"),
        ('{"version": 1, "dataset": []}', "'dataset' is .*, not dict"),
    ],
)
def test_a_damaged_description_is_refused_with_its_field(tmp_path, content, message):
    Embeddings.from_columns(columns()).save(tmp_path / "E")
    (tmp_path / "E" / "embeddings.json").write_text(content)
    with pytest.raises(UserError, match=rf"embeddings\.json: {message}"):
        Embeddings.load(tmp_path / "E")


def test_tables_of_one_model_with_other_preprocessing_are_not_put_together():
    one, other = (Embeddings.from_columns(columns(seed=i), info={"fingerprint": f"{i}" * 64}) for i in (0, 1))
    with pytest.raises(UserError, match=r"several models \(fingerprint 000000000000, 111111111111\)"):
        concatenate([one, other])


def test_one_generated_dataset_marks_the_joined_table_as_generated():
    one, other = columns(seed=0), columns(seed=1)
    other["dataset"][:] = "sun"
    tables = [Embeddings.from_columns(c, info={"generated": g}) for c, g in ((one, False), (other, True))]
    assert concatenate(tables).info["generated"] is True
    assert concatenate(tables[:1]).info["generated"] is False


def test_object_arrays_get_the_advice_to_write_text(tmp_path):
    table = Embeddings.from_columns(columns())
    np.savez(tmp_path / "objects.npz", vectors=table.vectors, polyp=table.polyp)
    with pytest.raises(UserError, match="arrays of type str"):
        Embeddings.load(tmp_path / "objects.npz")
    np.savez(tmp_path / "text.npz", vectors=table.vectors, **table.columns())
    assert_equal(Embeddings.load(tmp_path / "text.npz"), table)


def test_a_vector_column_that_is_no_list_is_refused(tmp_path):
    for number, values in enumerate(([1.0, 2.0], [[1.0], None], ["a", "b"])):
        pq.write_table(pa.table({"vector": values}), tmp_path / f"{number}.parquet")
        with pytest.raises(UserError, match="give a list of floats per row"):
            Embeddings.load(tmp_path / f"{number}.parquet")


def test_a_column_with_more_than_one_value_per_vector_is_refused():
    with pytest.raises(UserError, match=r"polyp has shape \(2, 2\) -> give one value per vector"):
        Embeddings.from_columns({"vectors": np.ones((2, 3)), "polyp": np.array([["a", "b"]] * 2)})
