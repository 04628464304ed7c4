"""Jobs of a sweep on a SLURM cluster, of which there are no more than its commands' names here."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fake_runs import program, run
from waiting import wait_until

from experiments import sweep
from experiments.sweeps.attempts import state

ROOT = Path(__file__).parents[2]


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
    slurm = ["--executor", "slurm", "--partition", "long", "--hours", "1.5", "--slurm", "account=me"]
    slurm += ["--slurm", "exclusive"]
    run(fake, "weak", "--seeds", "4", "--seeds-per-job", "2", *slurm, "--jobs", "1")
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
    run(fake, "weak", "--seeds", "4", "--seeds-per-job", "2", *slurm)  # what is left is no array
    assert "submitted 1 jobs" in capsys.readouterr().out
    assert "--array" not in (cluster / "script.sh").read_text()


def test_a_job_whose_time_ends_saves_and_is_queued_again(fake, cluster, monkeypatch):
    monkeypatch.setenv("SLOW", "seeds=0-1")
    run(fake, "weak", "global", "--seeds", "2", "--executor", "slurm", "--gpus", "0")
    assert "gpus" not in (cluster / "script.sh").read_text()
    folder = fake / "weak_seeds=0-1"
    task = start_task(cluster, 0)
    wait_until(lambda: (folder / "told").exists() or task.poll() is not None)
    assert task.poll() is None, task.communicate(timeout=60)
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
        run(fake, "weak", "--executor", "slurm")
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_what_slurm_refuses_is_an_error_that_says_why(fake, cluster, capsys):
    program(cluster / "commands/sbatch", "echo 'sbatch: error: invalid partition specified: lng' >&2; exit 1")
    with pytest.raises(SystemExit) as stop:
        run(fake, "weak", "--seeds", "20", "--executor", "slurm", "--partition", "lng")
    assert stop.value.code == 2
    assert "SLURM did not take the jobs: sbatch: error: invalid partition specified: lng" in capsys.readouterr().err


def test_the_sample_job_saves_before_its_time_ends_and_is_queued_again(tmp_path):
    commands = tmp_path / "bin"
    program(commands / "jattn", f"trap 'exit 143' TERM; echo \"$@\" > {tmp_path}/ran; while :; do sleep 0.05; done")
    program(commands / "scontrol", f'echo "$@" >> {tmp_path}/scontrol')
    environment = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}", "SLURM_JOB_ID": "7"}

    def ended_by(number):
        (tmp_path / "ran").unlink(missing_ok=True)
        job = subprocess.Popen(
            ["bash", ROOT / "docs/slurm.sbatch", "OUT", "tu", "weak", "--tune", "3"], env=environment
        )
        wait_until((tmp_path / "ran").exists)
        job.send_signal(number)
        return job.wait(timeout=60)

    assert ended_by(signal.SIGTERM) == 143
    assert not (tmp_path / "scontrol").exists()
    assert ended_by(signal.SIGUSR1) == 143
    assert (tmp_path / "scontrol").read_text() == "requeue 7\n"
    assert (tmp_path / "ran").read_text() == "tu weak --tune 3 --out OUT\n"


def test_who_waits_for_a_job_does_without_jax():
    check = "import sys, experiments.sweeps.resumable; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], timeout=120).returncode == 0
