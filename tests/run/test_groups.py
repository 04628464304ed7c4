"""Settings in groups: listed and changed by name, checked when they are made, errors by flag."""

from collections import Counter
from pathlib import Path

import pytest

from experiments import colors, mnist75sp, triangles, tu
from experiments.initialization.settings import Initialization
from experiments.run.folder import RunConfig, open_run, read_config
from experiments.run.groups import SettingError, entries, flat, name_flag, with_changes

WEAK = colors.PRESETS["weak"]
EVERY = {
    "colors": WEAK,
    "triangles": triangles.SUPERVISED,
    "mnist75sp": mnist75sp.SUPERVISED,
    "tu": tu.presets("PROTEINS")["weak"],
    "initialization": Initialization(),
}


@pytest.mark.parametrize("name", EVERY)
def test_no_two_groups_have_a_setting_of_the_same_name(name):
    counts = Counter(field.name for _, field, _ in entries(EVERY[name]))
    assert set(counts.values()) == {1}
    assert counts.keys() == flat(EVERY[name]).keys()


def test_a_change_finds_its_group_and_leaves_the_rest():
    changed = with_changes(WEAK, threshold=0.03, epochs=400, out=Path("here"))
    assert changed.attention.threshold == 0.03
    assert changed.optimizer.epochs == 400
    assert changed.run.out == Path("here")
    assert with_changes(changed, threshold=0.05, epochs=300, out=None) == WEAK
    assert (changed.data, changed.model, changed.evaluation) == (WEAK.data, WEAK.model, WEAK.evaluation)


def test_unknown_and_forbidden_changes_are_refused():
    with pytest.raises(ValueError, match="treshold: no setting of Colors, which has data_dir, "):
        with_changes(WEAK, treshold=0.03)
    with pytest.raises(ValueError, match="validation: no setting of TU"):
        with_changes(EVERY["tu"], validation=True)
    with pytest.raises(SettingError, match="--init-scale: inf is not allowed"):
        with_changes(WEAK, init_scale=float("inf"))
    with pytest.raises(SettingError, match="--pool-before: 7 is not allowed"):  # which groups check together
        with_changes(WEAK, pool_before=(7,))


def test_groups_that_change_together_are_checked_together():
    deeper = with_changes(WEAK, filters=(8, 8, 8), pool_before=(2,))
    assert [pooling is not None for pooling in deeper.network(1).poolings] == [False, False, True]
    with pytest.raises(SettingError, match="--pool-before: 2 is not allowed with --score-from previous, expected 1"):
        with_changes(deeper, filters=(8, 8))


def test_a_run_keeps_its_settings_flat(tmp_path):
    with open_run(tmp_path, RunConfig("colors", "weak", WEAK)):
        kept = read_config(tmp_path).settings
    assert kept == flat(WEAK)
    assert kept["threshold"] == 0.05
    assert kept["filters"] == [64, 64]
    assert kept["quiet"] is False


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ("epochs: 0 is not allowed", "--epochs: 0 is not allowed"),
        ("filters[1]: 0 is not allowed", "--filters[1]: 0 is not allowed"),
        ("max_nodes: lower max_nodes or train_graphs.", "--max-nodes: lower --max-nodes or --train-graphs."),
        ("/data/max_nodes/x.zip: no data_seed.txt, threshold", "/data/max_nodes/x.zip: no data_seed.txt, threshold"),
        ("some other error", "some other error"),
        ("", ""),
    ],
)  # fmt: skip
def test_an_errors_names_become_flags(message, named):
    assert name_flag(message, EVERY["tu"]) == named
