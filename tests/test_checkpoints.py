"""Checkpoints: what was saved comes back, and nothing that goes wrong with them costs the ones before."""

import resource
import shutil

import jax
import numpy as np
import optax
import pytest

from jattn.checkpoints import Checkpoints
from jattn.runs import RunError
from jattn.training import State

OPTIMIZER = optax.flatten(optax.chain(optax.identity(), optax.scale_by_adam(), optax.scale_by_learning_rate(0.1)))


def state(value, size=3):
    params = {"conv_0": {"kernel": np.random.default_rng(value).random((2, size), np.float32)}}
    optimizer = jax.vmap(OPTIMIZER.init)(params)
    return State(params, optimizer, jax.random.split(jax.random.key(int(value)), 2))


def same(actual, expected):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        if jax.numpy.issubdtype(b.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        np.testing.assert_array_equal(a, b)


def saved_after(folder, of="this"):
    with Checkpoints(folder, of) as checkpoints:
        return checkpoints.last(state(0)).epoch


def test_what_was_saved_comes_back(tmp_path):
    with Checkpoints(tmp_path / "twin", "this") as checkpoints:
        for epoch in (5, 10):
            checkpoints.save(epoch, state(epoch), seconds=1.5 * epoch)
    with Checkpoints(tmp_path / "twin", "this") as checkpoints:
        found = checkpoints.last(state(0))
    assert (found.epoch, found.seconds) == (10, 15.0)
    same(found.state, state(10))


def test_without_checkpoints_training_starts_where_it_starts(tmp_path):
    with Checkpoints(tmp_path, "this") as checkpoints:
        found = checkpoints.last(state(0))
    assert (found.epoch, found.seconds) == (0, 0.0)
    same(found.state, state(0))


def test_the_last_ones_and_the_best_are_kept(tmp_path):
    with Checkpoints(tmp_path, "this") as checkpoints:
        for epoch, score in enumerate([50.0, 70.0, 70.0, 60.0, 55.0, 65.0], 1):
            checkpoints.save(epoch, state(epoch), seconds=0.0, score=score)
        best = checkpoints.best(state(0))
    assert best.epoch == 3
    same(best.state, state(3))
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["3", "5", "6"]


def test_only_checkpoints_with_a_score_can_be_the_best(tmp_path):
    with Checkpoints(tmp_path, "this") as checkpoints:
        checkpoints.save(1, state(1), seconds=0.0, score=50.0)
        checkpoints.save(2, state(2), seconds=0.0)  # where a run was asked to end
        checkpoints.save(3, state(3), seconds=0.0, score=40.0)
        assert checkpoints.best(state(0)).epoch == 1
        shutil.rmtree(tmp_path / "1" / "state")
        with (
            pytest.warns(UserWarning, match="can't be read"),
            pytest.raises(RunError, match="the best checkpoint can't"),
        ):
            checkpoints.best(state(0))


def test_a_checkpoint_that_cannot_be_read_gives_way_to_the_one_before(tmp_path):
    with Checkpoints(tmp_path, "this") as checkpoints:
        for epoch in (1, 2):
            checkpoints.save(epoch, state(epoch), seconds=0.0)
    shutil.rmtree(tmp_path / "2" / "state")
    with Checkpoints(tmp_path, "this") as checkpoints:
        with pytest.warns(UserWarning, match=r"/2: can't be read .*; it is removed"):
            found = checkpoints.last(state(0))
        same(found.state, state(1))
        checkpoints.save(2, state(2), seconds=0.0)
    assert saved_after(tmp_path) == 2


def test_damaged_files_are_noticed(tmp_path):
    with Checkpoints(tmp_path, "this") as checkpoints:
        checkpoints.save(1, state(1), seconds=0.0)
    for path in (tmp_path / "1").rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.warns(UserWarning, match="can't be read"):
        assert saved_after(tmp_path) == 0


def test_an_interrupted_save_leaves_nothing(tmp_path):
    with Checkpoints(tmp_path, "this") as checkpoints:
        checkpoints.save(1, state(1), seconds=0.0)
    shutil.copytree(tmp_path / "1", tmp_path / "2.orbax-checkpoint-tmp")
    assert saved_after(tmp_path) == 1
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["1"]


def test_checkpoints_of_something_else_are_not_gone_on_with(tmp_path):
    with Checkpoints(tmp_path, "other") as checkpoints:
        checkpoints.save(1, state(1), seconds=0.0)
    with pytest.warns(UserWarning, match="is of other data or settings"):
        assert saved_after(tmp_path) == 0


# Threads that write checkpoints leave theirs to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_full_disk_is_an_error_that_keeps_what_was_saved(tmp_path):
    checkpoints = Checkpoints(tmp_path, "this")
    checkpoints.save(1, state(1), seconds=0.0)
    checkpoints.last(state(0))
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
    with pytest.raises(RunError, match="file/twin: checkpoints can't be opened"):
        Checkpoints(tmp_path / "file" / "twin", "this")
