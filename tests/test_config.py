"""Config: strict YAML in and out, errors that name their place."""

import itertools

import pytest

from vergence import config as configs
from vergence.config import Config, Optim, differences, from_mapping, method_options, read, with_own_rate
from vergence.methods import METHODS


def test_a_config_round_trips_through_yaml(tmp_path):
    config = Config(method="moco", epochs=3, objective={"temperature": 0.2}, heads={"queue": 512, "projector": (8, 4)})
    path = tmp_path / "config.yaml"
    path.write_text(config.to_yaml())
    assert read(path) == config


def test_an_unknown_key_is_refused_with_its_place_and_the_nearest(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("optim:\n  learning_rat: 0.1\n")
    with pytest.raises(ValueError, match=r"config.yaml: optim.*learning_rat'.*Did you mean 'learning_rate'"):
        read(path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epochs": "ten"}, "epochs must be int, got 'ten'"),
        ({"epochs": True}, "epochs must be int"),
        ({"optim": {"name": "rmsprop"}}, "must be one of adamw"),
        ({"optim": 3}, "expected settings"),
        ({"batch": 1}, "batch must be at least 2"),
        ({"method": "simclrv2"}, "Unknown method"),
        ({"encoder": "resnet"}, "Unknown encoder"),
        ({"views": "simclrr"}, "Did you mean 'simclr'"),
        ({"objective": {"margin": 0.1}}, "hyperparameter of nt_xent"),
        ({"encoder": "convnet", "backbone": {"chanels": [8]}}, "Did you mean 'channels'"),
        ({"optim": {"learning_rate": -1.0}}, "optim.learning_rate"),
        ({"optim": {"learning_rate": float("nan")}}, "optim.learning_rate"),
    ],
)
def test_a_bad_value_is_refused_with_what_came_and_what_is_allowed(values, message):
    with pytest.raises(ValueError, match=message):
        from_mapping(values)


def test_the_exponent_that_yaml_reads_as_text_is_a_number(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("optim: {learning_rate: 1e-3}")
    assert read(path).optim.learning_rate == 1e-3


def test_a_rate_that_is_not_given_is_the_methods_own_and_one_that_is_given_stays(tmp_path):
    own = {name: with_own_rate(Config(method=name)).optim.learning_rate for name in METHODS}
    assert own == {name: row.learning_rate for name, row in METHODS.items()}
    assert own["vicreg"] < own["simclr"] == Optim().rate
    assert with_own_rate(Config(method="vicreg", optim=Optim(learning_rate=0.1))).optim.rate == 0.1
    path = tmp_path / "config.yaml"
    Config(method="vicreg").write(path)
    assert read(path).optim.learning_rate is None
    with pytest.raises(ValueError, match=r"learning_rate must be float \| None, got 'fast'"):
        from_mapping({"optim": {"learning_rate": "fast"}})


def test_what_is_not_yaml_is_said_to_be_so(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("a: [")
    with pytest.raises(ValueError, match="is not YAML"):
        read(path)


def test_differences_are_named_by_their_dotted_place():
    changed = Config(optim=Optim(learning_rate=0.5), seed=3)
    assert differences(Config(), changed) == {"optim.learning_rate": (Optim().learning_rate, 0.5), "seed": (0, 3)}


def test_the_options_of_a_method_are_its_objectives_signature_with_the_rows_values():
    options = method_options("simclr")
    assert options["objective"] == {"temperature": 0.5}
    assert options["heads"]["queue"] == 0


def test_an_external_encoder_takes_any_option():
    assert configs.row_options("encoders", "timm:vit_tiny") == {}
    Config(encoder="timm:vit_tiny", backbone={"img_size": 32})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"objective": {"temperature": 0.0}}, "temperature must be more than 0"),
        ({"objective": {"temperature": -1}}, "temperature must be more than 0"),
        ({"objective": {"temperature": float("inf")}}, "temperature must be a finite number"),
        ({"objective": {"temperature": float("nan")}}, "temperature must be a finite number"),
        ({"objective": {"temperature": "hot"}}, "temperature must be a number, got 'hot'"),
        ({"objective": {"temperature": [1]}}, "temperature must be a number"),
        ({"objective": {"name": 3}}, "objective.name must be a word"),
        ({"heads": {"projector": 8}}, "heads.projector must be a list of numbers"),
        ({"heads": {"queue": "long"}}, "heads.queue must be a whole number"),
        ({"encoder": "mlp", "backbone": {"hidden": [0]}}, "backbone.hidden must be at least 1"),
        ({"views": "simclr", "view": {"crop": 1}}, "view.crop must be true or false"),
        ({"saving": {"every": -1}}, "saving.every must be at least 0"),
        ({"watching": {"samples": 0}}, "watching.samples must be at least 2"),
        ({"optim": {"momentum": 1.0}}, "optim.momentum"),
        ({"batch": 10**20}, "batch must be at most"),
        ({"optim": {"name": ["adam"]}}, "must be one of"),
        ({3: 4}, "name of a setting must be a word"),
    ],
)
def test_a_value_of_the_wrong_type_or_out_of_range_is_refused(values, message):
    with pytest.raises(ValueError, match=message):
        from_mapping(values)


def test_an_option_that_yaml_reads_as_text_or_a_list_becomes_what_the_row_declares():
    found = from_mapping({"objective": {"temperature": "1e-1"}, "encoder": "mlp", "backbone": {"hidden": [8, 4]}})
    assert found.objective["temperature"] == 0.1
    assert found.backbone["hidden"] == (8, 4)


# Nine lists, each of nine times the one before: 9^9 values in 500 bytes.
LETTERS = "abcdefghij"
BOMB = "a: &a [1]\n" + "".join(
    f"{now}: &{now} [{', '.join([f'*{before}'] * 9)}]\n" for before, now in itertools.pairwise(LETTERS)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "more than 10,000 values"),
        ("a: &a [*a]\n", "stands inside what it stands for"),
        ("batch: 8\nbatch: 16\n", "'batch' is set twice"),
        ("method: !!python/object/apply:os.system [echo]\n", "is not YAML"),
        ("[" * 5000, "is not YAML"),
        ("a: \x00", "is not YAML"),
        ("- 1\n- 2\n", "expected settings"),
    ],
)
def test_yaml_that_multiplies_repeats_or_runs_is_refused_in_few_words(tmp_path, text, message):
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(ValueError, match=message) as refused:
        read(tmp_path / "config.yaml")
    assert len(str(refused.value)) < 1500
