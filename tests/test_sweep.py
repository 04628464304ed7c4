"""Sweeps: what their jobs are, that all of them end well or are listed, and what the table says of them."""

import csv
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from experiments import sweep
from experiments.sweeps import grid, pool
from experiments.sweeps.attempts import state

ROOT = Path(__file__).parents[1]

# Stands in for a run. Its scores follow from its seeds, so that it can be told which ones were pooled; variables say
# which jobs fail or take their time. As a run, it saves and ends when it gets a SIGTERM.
FAKE = """
import json, os, signal, sys, time
from pathlib import Path

options = dict(zip(sys.argv[2::2], sys.argv[3::2]))
out, seed, seeds = Path(options["--out"]), int(options["--seed"]), int(options["--seeds"])

def save(*_):
    (out / "saved").touch()
    sys.exit(143)

signal.signal(signal.SIGTERM, save)
cores = sorted(getattr(os, "sched_getaffinity", lambda _: [])(0))
(out / "told").write_text(json.dumps({"pid": os.getpid(), "cores": cores, "environment": dict(os.environ)}))
if os.environ.get("SLOW") in out.name and not (out / "saved").exists():
    time.sleep(30)
if os.environ.get("FAILS") in out.name and not (out / "failed").exists():
    if os.environ.get("ONCE"):
        (out / "failed").touch()
    print("Traceback:\\nMemoryError: too small")
    sys.exit(1)
values = [float(i) for i in range(seed, seed + seeds)]
subset = {"accuracy": {"values": values}, "attention_auc": [{"values": [value / 2 for value in values]}]}
subsets = {name: subset for name in ("orig", "large", "all")}
(out / "results.json").write_text(json.dumps({"subsets": subsets, "seconds": {"attention": 2, "test": 1}}))
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Puts the fake in the place of runs; the sweep's folder."""
    program = tmp_path / "fake.py"
    program.write_text(FAKE)
    monkeypatch.setattr(
        sweep,
        "command",
        lambda job, out: [sys.executable, "-IS", str(program), *job.arguments, "--out", str(out / job.name)],
    )
    monkeypatch.setattr(pool, "POLL", 0.01)
    for name in ("SLOW", "FAILS"):
        monkeypatch.setenv(name, "none of them")
    return tmp_path / "out"


def run(out, *arguments):
    sweep.main(["--jobs", "2", "--retries", "0", "--out", str(out), "colors", *arguments])


def summary(out):
    with (out / "summary.csv").open() as file:
        return list(csv.DictReader(file))


def attempts(out):
    return {log.parent.name: log.read_text().count("fake.py") for log in out.glob("*/log.txt")}


def jobs(experiment="colors", presets=("weak",), seeds=2, a_job=2, first=0, data_seeds=(), vary=None, arguments=()):
    return grid.jobs_of(grid.Grid(experiment, presets, first, seeds, a_job, data_seeds, vary or {}, arguments))


def test_a_grid_has_a_job_for_every_combination():
    found = jobs(
        presets=("weak", "supervised"), first=5, seeds=3, data_seeds=(0, 7), vary={"threshold": ("0.01", "0.1")}
    )
    assert len({job.name for job in found}) == len(found) == 2 * 2 * 2 * 2
    assert found[0].name == "weak_threshold=0.01_data=0_seeds=5-6"
    assert found[-1].name == "supervised_threshold=0.1_data=7_seed=7"
    for job in found:
        assert job.settings.attention == job.preset
        assert str(job.settings.threshold) == job.values["threshold"]
        assert job.settings.seeds == (2 if job.settings.seed == 5 else 1)
    assert {job.settings.data_seed for job in found} == {0, 7}


def test_one_seed_of_one_preset_is_a_job():
    (job,) = jobs(seeds=1)
    assert list(job.arguments) == ["weak", "--seed", "0", "--seeds", "1"]


def test_values_may_have_several_parts_or_be_switches():
    found = jobs(vary={"filters": ("8 8", "16 8 8"), "compact": ("true", "False")})
    assert [(job.settings.filters, job.settings.compact) for job in found] == [
        ((8, 8), True), ((8, 8), False), ((16, 8, 8), True), ((16, 8, 8), False),
    ]  # fmt: skip
    assert found[0].name == "weak_filters=8-8_compact=true_seeds=0-1"


def test_a_data_set_brings_its_own_settings_and_figures():
    proteins, other = jobs("tu", vary={"dataset": ("PROTEINS", "DD-200")})
    assert (proteins.settings.threshold, other.settings.threshold) == (0.1, 0.005)
    figures = [job.experiment.paper_figures(job.preset, job.settings)["test"] for job in (proteins, other)]
    assert figures == ["76.2 ± 0.7", "54.3 ± 5.0"]
    (job,) = jobs("tu", arguments=("--dataset", "COLLAB", "--data-seeds", "3"))
    assert (job.settings.largest, job.networks) == (35, 6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "experiment: name one of colors, triangles, mnist75sp, tu"),
        (["colours", "weak"], "experiment 'colours' is not known; expected one of: colors"),
        (["colors"], "presets: name at least one of: weak, weak-d,"),
        (["colors", "weak", "wek"], "preset 'wek' is not known; expected one of: weak, weak-d,"),
        (["colors", "weak", "weak"], "presets: weak is given more than once"),
        (["colors", "weak", "--seeds", "0"], "seeds: 0 is not allowed, expected at least 1"),
        (["colors", "weak", "--jobs", "0"], "jobs: 0 is not allowed"),
        (["colors", "weak", "--vary", "threshold"], "vary: 'threshold' is not allowed, expected NAME=VALUE,VALUE,..."),
        (["colors", "weak", "--vary", "threshold=0.1,0.1"], "threshold: 0.1 is given more than once"),
        (["colors", "weak", "--vary", "threshold=0.1,2"], "threshold: 2.0 is not allowed"),
        (["colors", "weak", "--vary", "treshold=0.1"], "treshold"),
        (["colors", "weak", "--vary", "seed=1,2"], "vary: seed can't be varied"),
        (["colors", "weak", "--vary", "compact=yes"], "vary: compact=yes is not allowed, expected true or false"),
        (["colors", "weak", "--vary", "data-dir=a/b,a:b"], "would share the folder weak_data-dir=a-b_seeds=0-9"),
        (["mnist75sp", "weak", "--data-seeds", "1"], "--data-seed"),
        (["colors", "weak", "--hours", "0"], "hours: 0.0 is not allowed"),
        (["colors", "weak", "--", "--epochz", "3"], "epochz"),
        (["colors", "weak", "--", "--seeds", "3"], "--seeds: the sweep gives this to its jobs"),
        (["colors", "weak", "--summary"], "holds no sweep"),
    ],
)
def test_a_typo_is_one_error_before_anything_starts(arguments, message, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        sweep.main(["--out", str(tmp_path / "out"), *arguments])
    assert stop.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()


def test_seeds_of_all_jobs_are_pooled(fake, capsys):
    run(fake, "weak", "unsupervised", "--seeds", "5", "--seeds-a-job", "2")
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
    run(fake, "weak", "--seeds", "2", "--seeds-a-job", "1")
    file = fake / "weak_seed=1/results.json"
    results = json.loads(file.read_text())
    results["subsets"]["large"]["accuracy"]["values"] = [None]
    file.write_text(json.dumps(results))
    sweep.main(["--summary", "--out", str(fake)])
    (row,) = summary(fake)
    assert (row["orig_accuracy"], row["large_accuracy"]) == ("0.5", "nan")


def test_a_job_that_fails_stops_no_others_and_is_tried_again(fake, monkeypatch, capsys):
    monkeypatch.setenv("FAILS", "seeds=2-3")
    arguments = ["weak", "--seeds", "6", "--seeds-a-job", "2"]
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
        run(fake, "weak", "--seeds", "2", "--seeds-a-job", "1")
    assert stop.value.code == 1
    shown = capsys.readouterr()
    assert "1 done, 1 waiting" in shown.out
    assert "File exists" in shown.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_jobs_save_when_the_sweep_is_asked_to_end_and_go_on_later(number, fake, monkeypatch, capsys):
    monkeypatch.setenv("SLOW", "seeds=2-3")
    arguments = ["weak", "--seeds", "6", "--seeds-a-job", "2", "--jobs", "1"]
    slow = fake / "weak_seeds=2-3"

    def ask():
        while not (slow / "told").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    with pytest.raises(SystemExit) as stop:
        run(fake, *arguments)
    asking.join()
    assert stop.value.code == 128 + number
    assert (slow / "saved").exists()
    assert (slow / "status").read_text() == "143\n"
    assert "stopped; 1 of 3 jobs are finished, and the same command goes on" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    sweep.main(["--summary", "--out", str(fake)])
    assert "1 done, 2 waiting" in capsys.readouterr().out
    run(fake, *arguments)
    assert attempts(fake) == {"weak_seeds=0-1": 1, "weak_seeds=2-3": 2, "weak_seeds=4-5": 1}
    assert "6 of 6" in capsys.readouterr().out


def test_a_sweep_can_be_made_larger_and_not_otherwise_changed(fake, capsys):
    run(fake, "weak", "--seeds", "4", "--seeds-a-job", "2", "--vary", "threshold=0.1", "--", "--epochs", "9")

    def refused(*arguments):
        before = (fake / "sweep.json").read_text()
        with pytest.raises(SystemExit) as stop:
            run(fake, *arguments)
        assert stop.value.code == 2
        assert (fake / "sweep.json").read_text() == before
        return capsys.readouterr().err

    same = ["weak", "--seeds", "4", "--seeds-a-job", "2", "--vary", "threshold=0.1"]
    assert "weak threshold=0.1: epochs: 9 there, 300 now" in refused(*same)
    assert "weak threshold=0.1: batch_size: 32 there, 8 now" in refused(
        *same, "--", "--epochs", "9", "--batch-size", "8"
    )
    assert "seeds: 4 there, 2 now" in refused(*same, "--seeds", "2", "--", "--epochs", "9")
    assert "seeds_a_job: 2 there, 1 now" in refused(*same, "--seeds-a-job", "1", "--", "--epochs", "9")
    assert "presets: ['weak'] there, ['global'] now" in refused("global", *same[1:], "--", "--epochs", "9")
    assert "vary: {'threshold': ['0.1']} there, {'threshold': ['0.2']} now" in refused(
        *same[:-1], "threshold=0.2", "--", "--epochs", "9"
    )
    assert "data_seeds: [] there, [0] now" in refused(*same, "--data-seeds", "0", "--", "--epochs", "9")
    larger = ["global", "weak", "--seeds", "6", "--seeds-a-job", "2", "--vary", "threshold=0.1,0.2"]
    run(fake, *larger, "--", "--epochs", "9", "--checkpoint-every", "3")  # which changes no results
    assert attempts(fake)["weak_threshold=0.1_seeds=0-1"] == 1
    assert sum(attempts(fake).values()) == 2 * 3 * 2


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
    run(fake, "weak", "--seeds", "5", "--seeds-a-job", "1")
    for i, status in enumerate(["2", "143", "-15", None], 1):
        folder = fake / f"weak_seed={i}"
        (folder / "results.json").unlink()
        (folder / "status").unlink() if status is None else (folder / "status").write_text(status)
    with FileLock(fake / "weak_seed=4/job.lock"):
        assert state(fake / "weak_seed=4") == "running"
        sweep.main(["--summary", "--out", str(fake)])
    with FileLock(fake / "weak_seed=4/.lock"):  # a run whose sweep is gone
        assert state(fake / "weak_seed=4") == "running"
        run(fake, "weak", "--seeds", "5", "--seeds-a-job", "1")
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
    run(fake, "weak", "--seeds", "2", "--seeds-a-job", "1")
    cores = sorted(os.sched_getaffinity(0))
    shares = pool.shares(2)
    assert sorted(core for share in shares for core in share.cores) == (cores if len(cores) > 1 else cores * 2)
    for seed, share in enumerate(shares):
        told = json.loads((fake / f"weak_seed={seed}/told").read_text())
        assert tuple(told["cores"]) == share.cores
        assert told["environment"]["JAX_NUM_CPU_DEVICES"] == str(len(share.cores))
    assert len(pool.shares(None)) == len(cores)
    assert all(len(share.cores) == 1 for share in pool.shares(3 * len(cores)))


def test_jobs_have_gpus_of_their_own(monkeypatch, tmp_path):
    for name in ("JAX_PLATFORMS", *pool.FRACTIONS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, 5")
    assert [share.environment for share in pool.shares(None)] == [
        {"CUDA_VISIBLE_DEVICES": "3"}, {"CUDA_VISIBLE_DEVICES": "5"},
    ]  # fmt: skip
    assert [share.environment["CUDA_VISIBLE_DEVICES"] for share in pool.shares(3)] == ["3", "5", "3"]
    assert {share.environment["XLA_PYTHON_CLIENT_MEM_FRACTION"] for share in pool.shares(3)} == {"0.450"}
    monkeypatch.setenv("XLA_CLIENT_MEM_FRACTION", "0.2")
    assert all(share.environment.keys() == {"CUDA_VISIBLE_DEVICES"} for share in pool.shares(3))
    for visible in ("", "-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert pool._gpus() == []
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    program(tmp_path / "nvidia-smi", "echo 'GPU 0: A (UUID: x)'; echo '  MIG 1g'; echo 'GPU 1: A (UUID: y)'")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert pool._gpus() == ["0", "1"]
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert pool._gpus() == []


def program(file, text):
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """SLURM's commands: sbatch keeps the script, srun leaves its own options out, scontrol writes down what it gets."""
    pytest.importorskip("submitit")
    commands = tmp_path / "commands"
    program(commands / "sbatch", f'cp "$1" {tmp_path}/script.sh; echo "Submitted batch job 321"')
    options = 'while [ "${1#--}" != "$1" ]; do case $1 in --output) shift;; esac; shift; done'
    program(commands / "srun", f'{options}; echo $$ > {tmp_path}/pid; exec "$@"')
    program(commands / "scontrol", f'echo "$@" >> {tmp_path}/scontrol.txt')
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    return tmp_path


def start_task(folder, task):
    """Starts a task of the array as SLURM would."""
    environment = {"SLURM_JOB_ID": "322", "SLURM_ARRAY_JOB_ID": "321", "SLURM_ARRAY_TASK_ID": str(task)}
    return subprocess.Popen(
        ["sh", "-c", f"exec sh {folder / 'script.sh'}"],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_an_array_is_submitted_and_runs_the_jobs(fake, cluster, monkeypatch, capsys):
    monkeypatch.setenv("FAILS", "seeds=2-3")
    slurm = ["--on", "slurm", "--partition", "long", "--hours", "1.5", "--slurm", "account=me", "--slurm", "exclusive"]
    run(fake, "weak", "--seeds", "4", "--seeds-a-job", "2", *slurm, "--jobs", "1")
    assert "submitted 2 jobs: squeue -j 321 lists them" in capsys.readouterr().out
    script = (cluster / "script.sh").read_text()
    lines = "array=0-1%1 partition=long time=90 account=me gpus-per-node=1 mem=16384M signal=USR2@120 requeue exclusive"
    assert {f"#SBATCH --{line}" for line in lines.split()} <= set(script.splitlines())
    tasks = [start_task(cluster, task) for task in (0, 1)]
    shown = [task.communicate(timeout=60)[0] for task in tasks]
    assert [task.returncode for task in tasks] == [0, 1], shown
    assert "status 1: MemoryError: too small" in shown[1]
    sweep.main(["--summary", "--out", str(fake)])
    assert "1 done, 1 failed" in capsys.readouterr().out
    monkeypatch.setenv("FAILS", "none of them")
    run(fake, "weak", "--seeds", "4", "--seeds-a-job", "2", *slurm)  # what is left is no array
    assert "submitted 1 jobs" in capsys.readouterr().out
    assert "--array" not in (cluster / "script.sh").read_text()


def test_a_job_whose_time_ends_saves_and_is_queued_again(fake, cluster, monkeypatch):
    monkeypatch.setenv("SLOW", "seeds=0-1")
    run(fake, "weak", "global", "--seeds", "2", "--on", "slurm", "--gpus", "0")
    assert "gpus" not in (cluster / "script.sh").read_text()
    folder = fake / "weak_seeds=0-1"
    task = start_task(cluster, 0)
    while not (folder / "told").exists():
        assert task.poll() is None, task.communicate()
        time.sleep(0.01)
    told = json.loads((folder / "told").read_text())
    for pid in (int((cluster / "pid").read_text()), told["pid"]):  # SLURM sends it to every process of a job
        os.kill(pid, signal.SIGUSR2)
    shown, _ = task.communicate(timeout=60)
    assert (folder / "saved").exists(), shown
    assert (cluster / "scontrol.txt").read_text() == "requeue 321_0\n"
    task = start_task(cluster, 0)
    shown, _ = task.communicate(timeout=60)
    assert task.returncode == 0, shown
    assert state(folder) == "done"


@pytest.mark.parametrize(
    ("missing", "message"), [("sbatch", "sbatch is not found"), ("submitit", "pip install 'jattn[slurm]'")]
)
def test_what_submitting_needs_is_said_where_it_is_missing(missing, message, fake, cluster, monkeypatch, capsys):
    if missing == "sbatch":
        (cluster / "commands/sbatch").unlink()
        monkeypatch.setenv("PATH", str(cluster / "commands"))
    else:
        monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(SystemExit) as stop:
        run(fake, "weak", "--on", "slurm")
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_what_slurm_refuses_is_an_error_that_says_why(fake, cluster, capsys):
    program(cluster / "commands/sbatch", "echo 'sbatch: error: invalid partition specified: lng' >&2; exit 1")
    with pytest.raises(SystemExit) as stop:
        run(fake, "weak", "--seeds", "20", "--on", "slurm", "--partition", "lng")
    assert stop.value.code == 2
    assert "SLURM did not take the jobs: sbatch: error: invalid partition specified: lng" in capsys.readouterr().err


def test_the_sample_job_saves_before_its_time_ends_and_is_queued_again(tmp_path):
    commands = tmp_path / "bin"
    program(commands / "python", f"trap 'exit 143' TERM; echo \"$@\" > {tmp_path}/ran; while :; do sleep 0.05; done")
    program(commands / "scontrol", f'echo "$@" >> {tmp_path}/scontrol')
    environment = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}", "SLURM_JOB_ID": "7"}

    def ended_by(number):
        (tmp_path / "ran").unlink(missing_ok=True)
        job = subprocess.Popen(
            ["bash", ROOT / "docs/slurm.sbatch", "OUT", "tu", "weak", "--tune", "3"], env=environment
        )
        while not (tmp_path / "ran").exists():
            time.sleep(0.01)
        job.send_signal(number)
        return job.wait(timeout=60)

    assert ended_by(signal.SIGTERM) == 143
    assert not (tmp_path / "scontrol").exists()
    assert ended_by(signal.SIGUSR1) == 143
    assert (tmp_path / "scontrol").read_text() == "requeue 7\n"
    assert (tmp_path / "ran").read_text() == "-m experiments.tu weak --tune 3 --out OUT\n"


def test_sweeps_of_the_documentation_are_understood(monkeypatch):
    found = []
    monkeypatch.setattr(sweep, "run", lambda asked, of, jobs: found.append(len(jobs)))
    for text in ((ROOT / "docs/clusters.md").read_text(), sweep.__doc__):
        for command in re.findall(r"^ *python -m experiments\.sweep (.*)$", text, re.MULTILINE):
            if "--summary" not in command:
                sweep.main(shlex.split(command))
    assert found == [20, 100, 20, 4, 10, 12, 100]


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
