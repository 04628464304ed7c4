"""SIGTERM ends a process at once, or where training can be continued, or all of several processes together."""

import os
import signal

import jax
import pytest

from experiments.run.signals import Terminated, defer_signals, exit_on_signal


def ask_to_end():
    os.kill(os.getpid(), signal.SIGTERM)


def test_a_process_alone_ends_at_once():
    with pytest.raises(Terminated) as stop, exit_on_signal():
        ask_to_end()
        raise AssertionError("it goes on")
    assert stop.value.code == 143


def test_a_stage_is_told_and_ends_later():
    with pytest.raises(Terminated), defer_signals() as requested:
        assert not requested()
        ask_to_end()
        assert requested()


def test_between_stages_one_of_several_processes_waits_for_the_next_stage(monkeypatch):
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    with exit_on_signal():
        ask_to_end()
        with pytest.raises(Terminated), defer_signals() as requested:
            assert requested()
        with pytest.raises(Terminated):  # a second one does not wait
            ask_to_end()
    with exit_on_signal(), defer_signals() as requested:  # another run
        assert not requested()
