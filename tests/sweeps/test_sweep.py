"""Sweeps: what their jobs are, that all of them end well or are listed, and what the table says of them."""

import json
import os
import re
import shlex
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
from fake_runs import attempts, program, run, summary
from filelock import FileLock
from waiting import wait_until

from experiments import sweep
from experiments.sweeps import pool
from experiments.sweeps.attempts import reason, state

ROOT = Path(__file__).parents[2]


def test_seeds_of_all_jobs_are_pooled(fake, capsys):
    run(fake, "weak", "unsupervised", "--seeds", "5", "--seeds-per-job", "2")
    shown = capsys.readouterr()
    values = np.arange(5)
    weak, other = summary(fake)
    assert (weak["preset"], weak["seeds"], weak["seeds_asked"], weak["jobs_done"], weak["seconds"]) == (
        "weak", "5", "5", "3", "9",
    )  # fmt: skip
    for name, factor in (("orig_accuracy", 1), ("large_auc", 0.5), ("all_auc", 0.5)):
        assert np.isclose(float(weak[name]), factor * values.mean())
        assert np.isclose(float(weak[f"{name}_std"]), factor * values.std())
    assert (weak["large_accuracy_paper"], other["orig_accuracy_paper"]) == ("90 ± 6", "80 ± 30")
    heading, first, second = shown.out.splitlines()
    assert heading.split() == ["%", "seeds", "Orig", "Large", "AUC", "seconds", "jobs"]
    assert " ".join(first.split()) == ("weak 5 of 5 2.0 ± 1.4 (100) 2.0 ± 1.4 (90 ± 6) 1.0 ± 0.7 (99.9) 9 3 done")
    assert second.startswith("unsupervised")
    assert "(6 of 6 jobs, 0 failed)" in shown.err
    assert "weak_seed=4: finished after 0 s" in shown.err


def test_the_papers_figures_stand_beside_its_own_settings_alone(fake, capsys):
    run(fake, "weak", "--vary", "threshold=0.05,0.1", "--quiet")
    first, second = capsys.readouterr().out.splitlines()[1:]
    assert first.startswith("weak threshold=0.05") and "(90 ± 6)" in first
    assert second.startswith("weak threshold=0.1") and "(" not in second


def test_a_network_without_a_score_leaves_none_for_the_row(fake, capsys):
    run(fake, "weak", "--seeds", "2", "--seeds-per-job", "1")
    file = fake / "weak_seed=1/results.json"
    results = json.loads(file.read_text())
    results["subsets"]["large"]["accuracy"]["values"] = [None]
    file.write_text(json.dumps(results))
    sweep.main(["--summary", "--out", str(fake)])
    (row,) = summary(fake)
    assert (row["orig_accuracy"], row["large_accuracy"]) == ("0.5", "nan")


def test_a_job_that_fails_stops_no_others_and_is_tried_again(fake, monkeypatch, capsys):
    monkeypatch.setenv("FAILS", "seeds=2-3")
    arguments = ["weak", "--seeds", "6", "--seeds-per-job", "2"]
    with pytest.raises(SystemExit) as stop:
        run(fake, *arguments, "--retries", "2")
    assert stop.value.code == 1
    shown = capsys.readouterr()
    assert f"{fake}/weak_seeds=2-3: status 1: MemoryError: too small" in shown.err.splitlines()
    assert shown.err.count("it is tried again") == 2
    assert "2 done, 1 failed" in shown.out
    assert attempts(fake) == {"weak_seeds=0-1": 1, "weak_seeds=2-3": 3, "weak_seeds=4-5": 1}

    monkeypatch.setenv("ONCE", "1")
    run(fake, *arguments, "--retries", "1")  # fails once more
    shown = capsys.readouterr()
    assert "2 jobs are finished, 0 run already" in shown.err
    assert "3 done" in shown.out
    assert attempts(fake) == {"weak_seeds=0-1": 1, "weak_seeds=2-3": 5, "weak_seeds=4-5": 1}

    run(fake, *arguments)
    assert "6 of 6" in capsys.readouterr().out
    assert attempts(fake)["weak_seeds=2-3"] == 5


def test_a_job_that_cant_be_started_stops_no_others(fake, capsys):
    fake.mkdir()
    (fake / "weak_seed=0").touch()  # where its folder should be
    with pytest.raises(SystemExit) as stop:
        run(fake, "weak", "--seeds", "2", "--seeds-per-job", "1")
    assert stop.value.code == 1
    shown = capsys.readouterr()
    assert "1 done, 1 waiting" in shown.out
    assert "File exists" in shown.err


@pytest.fixture
def python_handles_interrupts():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's jobs in the background ignore them
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("python_handles_interrupts")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_jobs_save_when_the_sweep_is_asked_to_end_and_go_on_later(number, fake, monkeypatch, capsys):
    monkeypatch.setenv("SLOW", "seeds=2-3")
    arguments = ["weak", "--seeds", "6", "--seeds-per-job", "2", "--jobs", "1"]
    slow = fake / "weak_seeds=2-3"

    def ask():
        wait_until((slow / "told").exists)
        os.kill(os.getpid(), number)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    with pytest.raises(SystemExit) as stop:
        run(fake, *arguments)
    asking.join(timeout=60)
    assert stop.value.code == 128 + number
    assert (slow / "saved").exists()
    assert (slow / "status").read_text() == "143\n"
    assert "stopped; 1 of 3 jobs are finished; to resume, repeat the command" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    sweep.main(["--summary", "--out", str(fake)])
    assert "1 done, 2 waiting" in capsys.readouterr().out
    run(fake, *arguments)
    assert attempts(fake) == {"weak_seeds=0-1": 1, "weak_seeds=2-3": 2, "weak_seeds=4-5": 1}
    assert "6 of 6" in capsys.readouterr().out


def test_a_sweep_can_be_made_larger_and_not_otherwise_changed(fake, capsys):
    run(fake, "weak", "--seeds", "4", "--seeds-per-job", "2", "--vary", "threshold=0.1", "--", "--epochs", "9")

    def refused(*arguments):
        before = (fake / "sweep.json").read_text()
        with pytest.raises(SystemExit) as stop:
            run(fake, *arguments)
        assert stop.value.code == 2
        assert (fake / "sweep.json").read_text() == before
        return capsys.readouterr().err

    same = ["weak", "--seeds", "4", "--seeds-per-job", "2", "--vary", "threshold=0.1"]
    assert "weak threshold=0.1: epochs: 9 there, 300 now" in refused(*same)
    assert "weak threshold=0.1: batch_size: 32 there, 8 now" in refused(
        *same, "--", "--epochs", "9", "--batch-size", "8"
    )
    assert "seeds: 4 there, 2 now" in refused(*same, "--seeds", "2", "--", "--epochs", "9")
    assert "seeds_per_job: 2 there, 1 now" in refused(*same, "--seeds-per-job", "1", "--", "--epochs", "9")
    assert "presets: ['weak'] there, ['supervised'] now" in refused("supervised", *same[1:], "--", "--epochs", "9")
    assert "vary: {'threshold': ['0.1']} there, {'threshold': ['0.2']} now" in refused(
        *same[:-1], "threshold=0.2", "--", "--epochs", "9"
    )
    assert "data_seeds: [] there, [0] now" in refused(*same, "--data-seeds", "0", "--", "--epochs", "9")
    larger = ["supervised", "weak", "--seeds", "6", "--seeds-per-job", "2", "--vary", "threshold=0.1,0.2"]
    run(fake, *larger, "--", "--epochs", "9", "--checkpoint-every", "3")  # which changes no results
    assert attempts(fake)["weak_threshold=0.1_seeds=0-1"] == 1
    assert sum(attempts(fake).values()) == 2 * 3 * 2


def test_a_sweep_goes_on_with_published_data_that_lie_elsewhere_but_not_with_drawn_ones(fake, capsys):
    run(fake, "weak", "--", "--data-dir", "here")
    run(fake, "weak", "--", "--data-dir", "there")
    with pytest.raises(SystemExit):
        run(fake, "weak")
    assert "weak: data_dir: 'there' there, None now" in capsys.readouterr().err


@pytest.mark.parametrize(("number", "why"), [(None, "it has no format number"), (3, "its format is 3, of a newer")])
def test_a_sweep_of_another_format_is_refused_and_stays(number, why, fake, capsys):
    run(fake, "weak")
    file = fake / "sweep.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format": number}))
    before = file.read_bytes()
    for command in (lambda: run(fake, "weak"), lambda: sweep.main(["--summary", "--out", str(fake)])):
        with pytest.raises(SystemExit) as stop:
            command()
        assert stop.value.code == 2
        assert f"{file}: {why}" in capsys.readouterr().err
    assert file.read_bytes() == before


def test_a_setting_that_an_older_version_did_not_have_has_its_default(fake, capsys):
    run(fake, "weak")
    file = fake / "sweep.json"
    kept = json.loads(file.read_text())
    del kept["settings"]["weak"]["threshold"]
    file.write_text(json.dumps(kept))
    with pytest.raises(SystemExit):
        run(fake, "weak", "--", "--threshold", "0.1")
    assert "weak: threshold: 0.05 there, 0.1 now" in capsys.readouterr().err
    run(fake, "weak")


def test_a_sweep_does_not_go_into_the_folder_of_a_run(tmp_path, capsys):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(SystemExit):
        sweep.main(["colors", "weak", "--out", str(tmp_path)])
    assert f"{tmp_path} holds a run; choose another folder" in capsys.readouterr().err
    assert not (tmp_path / "sweep.json").exists()


def test_one_process_runs_a_sweep_at_a_time(fake, capsys):
    fake.mkdir()
    with FileLock(fake / "sweep.lock"), pytest.raises(SystemExit) as stop:
        run(fake, "weak")
    assert stop.value.code == 2
    assert "another process runs this sweep" in capsys.readouterr().err


def test_the_summary_says_how_far_jobs_are(fake, capsys):
    run(fake, "weak", "--seeds", "5", "--seeds-per-job", "1")
    for i, status in enumerate(["2", "143", "-15", None], 1):
        folder = fake / f"weak_seed={i}"
        (folder / "results.json").unlink()
        (folder / "status").unlink() if status is None else (folder / "status").write_text(status)
    with FileLock(fake / "weak_seed=4/job.lock"):
        assert state(fake / "weak_seed=4") == "running"
        sweep.main(["--summary", "--out", str(fake)])
    with FileLock(fake / "weak_seed=4/.lock"):  # a run whose sweep is gone
        assert state(fake / "weak_seed=4") == "running"
        run(fake, "weak", "--seeds", "5", "--seeds-per-job", "1")
    shown = capsys.readouterr()
    assert "1 of 5" in shown.out
    assert "1 done, 1 running, 1 failed, 2 waiting" in shown.out
    assert "4 done, 1 running" in shown.out
    assert f"{fake}/weak_seed=1: status 2: " in shown.err
    assert "1 jobs are finished, 1 run already" in shown.err
    assert attempts(fake)["weak_seed=4"] == 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no cores to choose")
def test_jobs_have_cores_of_their_own(fake, monkeypatch):
    monkeypatch.setattr(pool, "_gpus", lambda: [])
    run(fake, "weak", "--seeds", "2", "--seeds-per-job", "1")
    cores = sorted(os.sched_getaffinity(0))
    shares = pool.device_slices(2)
    assert sorted(core for share in shares for core in share.cores) == (cores if len(cores) > 1 else cores * 2)
    for seed, share in enumerate(shares):
        told = json.loads((fake / f"weak_seed={seed}/told").read_text())
        assert tuple(told["cores"]) == share.cores
        assert told["environment"]["JAX_NUM_CPU_DEVICES"] == str(len(share.cores))
    assert len(pool.device_slices(None)) == len(cores)
    assert all(len(share.cores) == 1 for share in pool.device_slices(3 * len(cores)))


def test_jobs_have_gpus_of_their_own(monkeypatch, tmp_path):
    for name in ("JAX_PLATFORMS", *pool.FRACTIONS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, 5")
    assert [share.environment for share in pool.device_slices(None)] == [
        {"CUDA_VISIBLE_DEVICES": "3"}, {"CUDA_VISIBLE_DEVICES": "5"},
    ]  # fmt: skip
    assert [share.environment["CUDA_VISIBLE_DEVICES"] for share in pool.device_slices(3)] == ["3", "5", "3"]
    assert {share.environment["XLA_PYTHON_CLIENT_MEM_FRACTION"] for share in pool.device_slices(3)} == {"0.450"}
    monkeypatch.setenv("XLA_CLIENT_MEM_FRACTION", "0.2")
    assert all(share.environment.keys() == {"CUDA_VISIBLE_DEVICES"} for share in pool.device_slices(3))
    for visible in ("", "-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert pool._gpus() == []
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    program(tmp_path / "nvidia-smi", "echo 'GPU 0: A (UUID: x)'; echo '  MIG 1g'; echo 'GPU 1: A (UUID: y)'")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert pool._gpus() == ["0", "1"]
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert pool._gpus() == []


def test_sweeps_of_the_documentation_are_understood(monkeypatch):
    found = []
    monkeypatch.setattr(sweep, "run", lambda asked, of, jobs: found.append(len(jobs)))
    pages = [(ROOT / f"docs/how_to/{page}.md").read_text("utf-8") for page in ("clusters", "tune")]
    for text in (*pages, sweep.__doc__):
        for command in re.findall(r"^ *(?:python -m experiments\.|jattn )sweep (.*)$", text, re.MULTILINE):
            if "--summary" not in command:
                sweep.main(shlex.split(command))
    assert found == [20, 100, 3, 20, 4, 10, 12, 100]


@pytest.mark.slow
def test_runs_themselves_are_swept(tmp_path, capsys):
    out = tmp_path / "out"
    run(out, "supervised", "--seeds", "2", "--", "--epochs", "2", "--train-graphs", "20", "--test-graphs", "6")
    folder = out / "supervised_seeds=0-1"
    accuracy = json.loads((folder / "results.json").read_text())["subsets"]["largec"]["accuracy"]
    (row,) = summary(out)
    assert len(accuracy["values"]) == 2
    assert np.isclose(float(row["largec_accuracy"]), accuracy["mean"])
    assert np.isclose(float(row["largec_accuracy_std"]), accuracy["std"])
    assert "attention: epoch 2 of 2" in (folder / "log.txt").read_text()
    shown = capsys.readouterr()
    assert "2 of 2" in shown.out and "1 done" in shown.out


def test_a_failed_job_without_a_log_has_a_reason(tmp_path):
    assert reason(tmp_path, 1) == "status 1: its log is missing"
