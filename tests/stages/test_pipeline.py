"""The stages from Python, where they take arrays and modules instead of files."""

import numpy as np
import pytest
import torch
from torch import nn

import vergence as vg
from vergence.runs import results
from vergence.runs.run import Run
from vergence.stages import doctor
from vergence.stages.information import information
from vergence.tables import Table
from vergence.theory import Certificate, certified


def rows(n: int = 200, d: int = 16) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)


def test_the_doctor_reads_arrays():
    labels = np.arange(200) % 4
    answer = vg.doctor(rows() + 3 * np.eye(16, dtype=np.float32)[labels], labels=labels)
    assert answer.to_dict()["verdict"]["label"] == "healthy"
    assert str(answer).startswith("HEALTHY")
    assert "labels at chance" in vg.doctor(rows(), labels=labels).to_dict()["faults"]


@pytest.mark.parametrize("kept", [0, 60])
def test_rows_of_zeros_are_examined(kept):
    h = rows()
    h[kept:] = 0
    found = vg.doctor(h).to_dict()
    assert found["verdict"]["label"] != "healthy"
    assert found["diagnostics"]["effective_rank"]["value"] == pytest.approx(1.0) or kept


def test_noise_with_labels_is_not_called_healthy():
    found = vg.doctor(rows(), labels=np.arange(200) % 4).to_dict()
    assert found["faults"] == ["labels at chance"]


def test_the_doctor_reads_an_encoder_with_data_and_leaves_it_as_it_was():
    encoder = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8)).train()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    assert "effective_rank" in vg.doctor(encoder, data=rows()).to_dict()["diagnostics"]
    assert encoder.training
    for name, value in encoder.state_dict().items():
        torch.testing.assert_close(value, before[name])


def test_an_encoder_without_data_is_refused():
    with pytest.raises(ValueError, match="data=x"):
        vg.doctor(nn.Identity())


def test_a_page_of_foreign_embeddings_has_a_map_and_formulas(tmp_path):
    vg.doctor(rows(), labels=np.arange(200) % 4, output=tmp_path / "page")
    html = (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    assert "projected to two dimensions by" in html
    assert "RankMe, the effective number of directions" in html
    for figure in ("linear_probe", "kNN", "nearest_center"):
        assert f'href="#formula-{figure}"' in html
        assert f'id="formula-{figure}"' in html


@pytest.mark.parametrize(
    ("loss", "options", "constant"),
    [
        (4.852, {"objective": "info_nce", "batch": 128}, "ln 128"),
        (5.545, {"objective": "nt_xent", "batch": 128, "temperature": 0.5}, "ln 256"),
        (8.909, {"objective": "nt_xent", "batch": 256, "temperature": 0.7}, "ln 511"),
        (11.09, {"objective": "info_nce", "batch": 256, "temperature": 0.07, "negatives": 65536}, "ln 65537"),
    ],
)
def test_the_constants_of_the_issue_trackers_are_recognized(loss, options, constant):
    found = vg.doctor(loss=loss, **options).to_dict()
    said = " ".join([*found["verdict"]["evidence"], *found["thermometer"]["coincidences"]])
    number = constant.removeprefix("ln ")
    assert number in said, said


@pytest.mark.parametrize("name", vg.__all__)
def test_every_public_name_is_there(name):
    assert getattr(vg, name) is not None


def test_the_doctor_holds_two_views_with_labels_against_the_theorems():
    z, labels = rows(60), np.arange(60) % 3
    found = vg.doctor(z, z1=z, z2=z + 0.1, labels=labels)
    proofs = {row["statement"]: row["verdict"] for row in found.to_dict()["certificates"]}
    assert len(proofs) == 5  # the rows of RESULTS whose arguments are features, labels and two views
    assert "violated" not in proofs.values()
    assert "certificate, vacuous: nearest-center error" in str(found)
    assert not vg.doctor(z).to_dict()["certificates"]
    alone = vg.doctor(z, z1=z, z2=z, labels=np.array([0] * 59 + [1]))
    assert len(alone.to_dict()["certificates"]) == 1  # a class of one sample has no main part


def test_a_violated_certificate_is_evidence(monkeypatch):
    broken = Table("result", {"broken": lambda z1, z2: Certificate("two <= one", "nobody", 2.0, 1.0)})
    monkeypatch.setattr(certified, "RESULTS", broken)
    found = doctor.of_arrays(rows(60), z1=rows(60), z2=rows(60) + 0.1)
    assert found.verdict.evidence[-1] == "Violated: two <= one: 2 > 1."
    assert found.certificates[0].verdict == "violated"


def test_a_new_row_of_the_table_is_measured_shown_and_explained(monkeypatch, tmp_path):
    def largest(h):
        """The largest number in all rows."""
        return float(h.max())

    monkeypatch.setitem(vg.diagnostics.DIAGNOSTICS, "largest", largest)
    answer = vg.doctor(rows(), output=tmp_path / "page")
    assert answer.to_dict()["diagnostics"]["largest"]["value"] == pytest.approx(float(rows().max()))
    assert "largest" in str(answer)
    assert "The largest number in all rows." in (tmp_path / "page" / "report.html").read_text(encoding="utf-8")


def test_information_reads_a_plain_column_and_drops_pairs_and_not_rows(tmp_path):
    x = np.random.default_rng(0).normal(size=400)
    y = x + np.random.default_rng(1).normal(size=400)
    whole = information(x[2:, None], y[2:, None]).values["nats"]
    x[0], y[1] = np.nan, np.inf
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    with pytest.raises(ValueError, match="x has 1 rows with NaN or infinity, the first at row 0"):
        information(tmp_path / "x.npy", tmp_path / "y.npy")
    assert information(tmp_path / "x.npy", tmp_path / "y.npy", drop_nan=True).values["nats"] == whole


def test_information_hands_the_batch_to_a_trained_bound():
    x = np.random.default_rng(0).normal(size=(400, 1))
    with pytest.raises(ValueError, match="A batch of 300 does not fit"):
        information(x, x, bound="info_nce", batch=300)


def test_the_loss_of_a_run_is_read_by_the_temperature_that_it_learned(tmp_path):
    vg.train(data="digits", method="siglip", encoder="mlp", limit=300, epochs=3, run=tmp_path, quiet=True, track=())
    learned = Run(tmp_path).load().tensors["model.objective.logarithms.temperature"].exp().item()
    read = results.read(tmp_path).thermometer.hyperparameters["temperature"]
    assert learned != 10.0
    assert read == pytest.approx(learned, rel=1e-6)
