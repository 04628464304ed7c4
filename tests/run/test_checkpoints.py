"""Checkpoints: what was saved comes back, and nothing that goes wrong with them costs the ones before."""

import resource
import shutil

import jax
import numpy as np
import optax
import pytest

from experiments.run.checkpoints import Best, Checkpoints
from experiments.run.folder import RunError
from experiments.run.identity import training_identity
from jattn import AttentionPoolingConfig, Network, Threshold, TrainConfig
from jattn.training import TrainState

OPTIMIZER = optax.chain(optax.identity(), optax.scale_by_adam(), optax.scale_by_learning_rate(0.1))


def state(value, size=3):
    params = {"conv_0": {"kernel": np.random.default_rng(value).random((2, size), np.float32)}}
    optimizer = jax.vmap(OPTIMIZER.init)(params)
    return TrainState(params, optimizer, jax.random.split(jax.random.key(int(value)), 2))


def same(actual, expected):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        if jax.numpy.issubdtype(b.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        np.testing.assert_array_equal(a, b)


NETWORK, CONFIG = Network((4, 4), poolings=(None, AttentionPoolingConfig(Threshold(0.1)))), TrainConfig()
OTHERS = {"epochs": 5, "data": {"graphs": "1f"}}
THIS = training_identity(NETWORK, CONFIG, **OTHERS)
OWN = ("network", "training")


def saved_after(folder, of=THIS):
    with Checkpoints(folder, of) as checkpoints:
        return checkpoints.restore_latest(state(0)).epoch


def test_what_was_saved_comes_back(tmp_path):
    with Checkpoints(tmp_path / "teacher", THIS) as checkpoints:
        for epoch in (5, 10):
            checkpoints.save(epoch, state(epoch), seconds=1.5 * epoch)
    with Checkpoints(tmp_path / "teacher", THIS) as checkpoints:
        found = checkpoints.restore_latest(state(0))
    assert (found.epoch, found.seconds) == (10, 15.0)
    same(found.state, state(10))


def test_without_checkpoints_training_starts_where_it_starts(tmp_path):
    with Checkpoints(tmp_path, THIS) as checkpoints:
        found = checkpoints.restore_latest(state(0))
    assert (found.epoch, found.seconds) == (0, 0.0)
    same(found.state, state(0))


def test_the_last_ones_are_kept(tmp_path):
    with Checkpoints(tmp_path, THIS) as checkpoints:
        for epoch in range(1, 7):
            checkpoints.save(epoch, state(epoch), seconds=0.0)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["5", "6"]


def test_each_seed_has_the_best_of_its_own_weights_also_after_a_new_start(tmp_path):
    scores = {1: [50.0, 70.0], 2: [60.0, 20.0], 3: [60.0, np.nan], 4: [10.0, 30.0]}
    whole = best = Best.none(state(0).params)
    for epoch, score in scores.items():
        whole = whole.or_better(epoch, state(epoch).params, score)
        with Checkpoints(tmp_path, THIS) as checkpoints:
            best = checkpoints.restore_latest(state(0), Best.none(state(0).params)).best
            best = best.or_better(epoch, state(epoch).params, score)
            checkpoints.save(epoch, state(epoch), seconds=0.0, best=best)
    np.testing.assert_array_equal(best.epoch, [3, 1])  # of equal ones the later
    np.testing.assert_array_equal(best.score, np.float32([60, 70]))
    for seed, epoch in enumerate(best.epoch):
        kernel = best.params["conv_0"]["kernel"][seed]
        np.testing.assert_array_equal(kernel, state(int(epoch)).params["conv_0"]["kernel"][seed])
    same(best, whole)


def test_weights_whose_score_is_not_a_number_are_taken_where_there_are_no_others():
    best = Best.none(state(0).params).or_better(1, state(1).params, [np.nan, np.nan])
    np.testing.assert_array_equal(best.epoch, [1, 1])


def test_a_checkpoint_that_cannot_be_read_gives_way_to_the_one_before(tmp_path):
    with Checkpoints(tmp_path, THIS) as checkpoints:
        for epoch in (1, 2):
            checkpoints.save(epoch, state(epoch), seconds=0.0)
    shutil.rmtree(tmp_path / "2" / "state")
    with Checkpoints(tmp_path, THIS) as checkpoints:
        with pytest.warns(UserWarning, match=r"/2: can't be read .*; it is now 2\.unreadable"):
            found = checkpoints.restore_latest(state(0))
        same(found.state, state(1))
        checkpoints.save(2, state(2), seconds=0.0)
    assert saved_after(tmp_path) == 2
    shutil.rmtree(tmp_path / "2" / "state")
    with pytest.warns(UserWarning, match=r"it is now 2\.unreadable1"):
        assert saved_after(tmp_path) == 1
    assert {path.name for path in tmp_path.iterdir()} >= {"1", "2.unreadable", "2.unreadable1"}


def test_damaged_files_are_noticed(tmp_path):
    with Checkpoints(tmp_path, THIS) as checkpoints:
        checkpoints.save(1, state(1), seconds=0.0)
    for path in (tmp_path / "1").rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.warns(UserWarning, match="can't be read"):
        assert saved_after(tmp_path) == 0


def test_an_interrupted_save_leaves_nothing(tmp_path):
    with Checkpoints(tmp_path, THIS) as checkpoints:
        checkpoints.save(1, state(1), seconds=0.0)
    shutil.copytree(tmp_path / "1", tmp_path / "2.orbax-checkpoint-tmp")
    with Checkpoints(tmp_path, THIS) as checkpoints:
        assert checkpoints.restore_latest(state(0)).epoch == 1
        checkpoints.save(2, state(2), seconds=0.0)  # which waits until that is gone
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["1", "2"]


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("there", "difference"),
    [
        (training_identity(NETWORK.clone(order=3), CONFIG, epochs=5), "network.order: 3 there, 2 now"),
        (training_identity(NETWORK, TrainConfig(learning_rate=0.1), epochs=5), "learning_rate: 0.1 there, 0.001 now"),
        (training_identity(NETWORK, CONFIG, epochs=4), "epochs: 4 there, 5 now"),
        (THIS | {"data": {"graphs": "2e"}}, "data.graphs: the digest differs"),
        (THIS | {"network": THIS["network"] | {"later": 1}}, "network.later: 1 there, not set now"),
    ],
)
def test_checkpoints_of_something_else_are_refused_and_stay(there, difference, tmp_path):
    with Checkpoints(tmp_path, there) as checkpoints:
        checkpoints.save(1, state(1), seconds=0.0)
    before = contents(tmp_path)
    with pytest.raises(RunError, match=r"/1 is a checkpoint of other data or settings; .*another folder\n") as refused:
        saved_after(tmp_path)
    assert difference in str(refused.value)
    assert contents(tmp_path) == before


def test_a_setting_that_an_older_version_did_not_have_has_its_default(tmp_path):
    there = THIS | {name: {k: v for k, v in THIS[name].items() if k not in ("dropout", "weight_decay")} for name in OWN}
    with Checkpoints(tmp_path, there) as checkpoints:
        checkpoints.save(1, state(1), seconds=0.0)
    assert saved_after(tmp_path) == 1
    with pytest.raises(RunError, match=r"network\.dropout: 0\.0 there, 0\.5 now"):
        saved_after(tmp_path, training_identity(NETWORK.clone(dropout=0.5), CONFIG, **OTHERS))


def test_how_libraries_print_things_does_not_matter(tmp_path, monkeypatch):
    """As where jax or flax get a new version in the middle of a run."""
    with Checkpoints(tmp_path, THIS) as checkpoints:
        checkpoints.save(1, state(1), seconds=0.0)
    monkeypatch.setattr(Network, "__repr__", lambda network: "another way to print it")
    assert saved_after(tmp_path, training_identity(NETWORK, CONFIG, **OTHERS)) == 1


def test_checkpoints_of_another_format_are_refused_and_stay(tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.run.checkpoints.FORMAT", 4)
    with Checkpoints(tmp_path, THIS) as checkpoints:
        checkpoints.save(1, state(1), seconds=0.0)
    monkeypatch.undo()
    before = contents(tmp_path)
    with pytest.raises(
        RunError, match=r"/1: its format is 4, of a newer version .*; go on with what made it, or choose"
    ):
        saved_after(tmp_path)
    assert contents(tmp_path) == before


def test_a_checkpoint_that_is_not_taken_is_an_error(tmp_path):
    with Checkpoints(tmp_path, THIS) as checkpoints:
        checkpoints.save(2, state(2), seconds=0.0)
        with pytest.raises(RunError, match=r"can't be written .*that of epoch 1 was left out"):
            checkpoints.save(1, state(1), seconds=0.0)


# Threads that write checkpoints leave theirs to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_full_disk_is_an_error_that_keeps_what_was_saved(tmp_path):
    checkpoints = Checkpoints(tmp_path, THIS)
    checkpoints.save(1, state(1), seconds=0.0)
    checkpoints.restore_latest(state(0))
    _, hard = before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, hard))  # no file may be larger
    try:
        with pytest.raises(RunError, match=r"checkpoints can't be .*; those before are kept"), checkpoints:
            checkpoints.save(2, state(2, size=10_000), seconds=0.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert saved_after(tmp_path) == 1


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="file/teacher: checkpoints can't be opened"):
        Checkpoints(tmp_path / "file" / "teacher", THIS)
