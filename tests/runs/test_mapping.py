"""The doctor over shards: two processes and Ray say what one process says."""

import json

import numpy as np
import pytest

from vergence.data.writing import Rows, write_rows
from vergence.runs import assessment, mapping
from vergence.stages.doctor import doctor, target_kind

pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """1,200 rows around three centers in five files."""
    folder = tmp_path_factory.mktemp("embeddings")
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 3, 1200)
    h = (generator.normal(size=(1200, 8)) + 3 * np.eye(3, 8)[labels]).astype(np.float32)
    for number, part in enumerate(np.array_split(np.arange(1200), 5)):
        rows = Rows(h[part], [str(at) for at in part], [str(label) for label in labels[part]])
        write_rows(folder / f"shard-{number:03d}.parquet", [rows])
    np.save(folder / "h.npy", h)
    return folder


def close(one, other):
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            close(one[key], other[key])
    elif isinstance(one, list | tuple):
        for left, right in zip(one, other, strict=True):
            close(left, right)
    elif isinstance(one, float):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-8)  # what is 0 but for rounding depends on threads
    else:
        assert one == other


def test_two_processes_say_what_one_says(shards):
    one, two = (doctor(shards / "*.parquet", processes=processes) for processes in (1, 2))
    close(one.values, two.values)
    assert one.lines[:3] == two.lines[:3]
    assert "1,200 rows of 8 dimensions in 5 shards." in one.lines


def test_the_labels_are_judged_in_a_process_beside(shards, monkeypatch):
    """What judges them in this process must not be needed where there are two."""

    def here(*given, **options):
        raise AssertionError("judged in the process that diagnoses")

    whole = doctor(shards / "*.parquet").values
    with mapping.workers(2) as workers:
        state = mapping.examined(sorted(map(str, shards.glob("*.parquet"))), workers)
        monkeypatch.setattr(assessment, "accuracies", here)  # the workers have begun, with the function as it was
        found = assessment.of_state(state, pool=workers.pool)
    close(found.to_dict()["accuracy"], whole["accuracy"])


def test_shards_say_what_the_whole_array_says(shards):
    whole, merged = doctor(shards / "h.npy").values, doctor(shards).values
    assert whole["verdict"]["label"] in ("healthy", "cannot tell")
    for name, error in {"norm": 1e-6, "participation_ratio": 1e-6, "effective_rank": 1e-3}.items():  # by other groups
        assert merged["diagnostics"][name]["value"] == pytest.approx(whole["diagnostics"][name]["value"], rel=error)
    assert merged["diagnostics"]["duplicates"]["value"] == 0
    accuracy = {row["classifier"]: row["accuracy"] for row in merged["accuracy"]}
    assert accuracy["linear probe"] > 0.9


def test_a_real_ray_with_two_workers_says_what_one_process_says(shards):
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    try:
        close(doctor(shards, engine="ray", processes=2).values, doctor(shards).values)
    finally:
        ray.shutdown()


def test_a_state_survives_the_way_to_another_process(shards):
    with mapping.workers() as workers:
        state = mapping.examined(sorted(map(str, shards.glob("*.parquet"))), workers)
    again = mapping.unpacked(mapping.packed(state))
    assert again.classes == state.classes
    np.testing.assert_array_equal(again.reservoir, state.reservoir)
    np.testing.assert_array_equal(again.product, state.product)
    assert (again.mean, again.square, again.zeros) == (state.mean, state.square, state.zeros)


def test_several_files_are_shards_only_where_their_names_say_so(shards, tmp_path):
    files = sorted(map(str, shards.glob("*.parquet")))
    assert target_kind(files[0], tuple(files[1:])) == "shards"
    assert target_kind(str(shards)) == "shards"
    assert target_kind("x/*.parquet") == "shards"
    assert target_kind("simclr.parquet", ("byol.parquet",)) == "several"
    assert target_kind("a/1.npy", ("a/2.npy",)) == "several"
    assert target_kind(files[0]) == "embeddings"


def test_rows_that_are_not_finite_are_located_or_left_out(shards, tmp_path):
    for number in range(2):
        h = np.random.default_rng(number).normal(size=(100, 4)).astype(np.float32)
        h[30 * number, 2] = np.nan if number else 1.0
        write_rows(tmp_path / f"p-{number}.parquet", [Rows(h)])
    with pytest.raises(ValueError, match=r"1 rows of .*p-1\.parquet hold NaN or infinity, the first is row 30"):
        doctor(tmp_path)
    assert "199 rows of 4 dimensions in 2 shards." in doctor(tmp_path, drop_nan=True).lines


def test_a_file_that_is_cut_off_or_nothing_at_all_is_named(shards, tmp_path):
    with pytest.raises(FileNotFoundError, match="No shard matches"):
        doctor(f"{tmp_path}/*.parquet")
    whole = (shards / "shard-000.parquet").read_bytes()
    (tmp_path / "p-0.parquet").write_bytes(whole)
    (tmp_path / "p-1.parquet").write_bytes(whole[:-50])
    with pytest.raises(ValueError, match=r"p-1\.parquet: not a whole Parquet file"):
        doctor(tmp_path)


def test_the_page_of_shards_is_written(shards, tmp_path):
    doctor(shards, output=tmp_path / "page")
    assert (tmp_path / "page/report.html").stat().st_size > 1000
    assert json.loads((tmp_path / "page/results.json").read_text())["verdict"]


def test_shards_of_other_columns_widths_or_labels_are_refused_by_name(tmp_path):
    import pyarrow
    from pyarrow import parquet

    def written(name, **columns):
        parquet.write_table(pyarrow.table(columns), tmp_path / f"{name}.parquet")

    rows = np.random.default_rng(0).normal(size=(30, 4)).tolist()
    written("a", embedding=rows)
    written("b", embedding=[row[:3] for row in rows])
    for processes in (1, 2):
        with pytest.raises(ValueError, match=r"b\.parquet has rows of 3 dimensions, .*a\.parquet of 4"):
            doctor(tmp_path, processes=processes)
    written("b", z=rows)
    with pytest.raises(ValueError, match=r"b\.parquet has its rows in 'z' .*a\.parquet in 'embedding'"):
        doctor(tmp_path)
    written("b", embedding=rows, label=[0, 1] * 15)
    with pytest.raises(ValueError, match=r"b\.parquet has labels and .*a\.parquet has none"):
        doctor(tmp_path)
