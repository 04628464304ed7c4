"""Jobs as one SLURM array, submitted with submitit: a job that is preempted or reaches its time limit is resumed."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from jattn._options import expect_at_least

from ..run.errors import fail
from ..run.groups import Checked
from .resumable import Resumable

TIMEOUTS = 100  # time limits that a job may reach before it is given up
SAVE_SECONDS = 120  # before its time limit, a job is asked to save


@dataclass(frozen=True)
class Slurm(Checked):
    """The resources of a job with --executor slurm."""

    partition: str | None = None
    """Partition to submit to; SLURM's default if not given."""
    hours: float = 4.0
    """Time limit of a job. A job that reaches it saves, is queued again and is resumed."""
    gpus: int = 1
    """GPUs of a job; 0 for CPUs alone."""
    cpus: int = 4
    """CPU cores of a job."""
    memory: float = 16.0
    """Memory of a job in GiB."""
    slurm: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """KEY=VALUE or KEY: any other option of sbatch, such as account=NAME or exclusive."""

    def validate(self) -> None:
        """Raises `ValueError` if a value is not allowed."""
        super().validate()
        expect_at_least(0.1, hours=self.hours, memory=self.memory)
        expect_at_least(0, gpus=self.gpus)
        expect_at_least(1, cpus=self.cpus)
        for option in self.slurm:
            if not option.partition("=")[0] or option.startswith("-"):
                raise ValueError(f"slurm: {option!r} is not allowed, expected KEY=VALUE or KEY")


def submit(
    commands: Mapping[str, Sequence[str]], out: Path, resources: Slurm, at_once: int | None, retries: int
) -> str:
    """Submits jobs as one array and returns its id.

    Exits with a message without SLURM or submitit, or if SLURM refuses the array.

    Args:
      commands: the command line of each job, by name.
      out: the folder of the jobs' folders; all nodes need it under the same path.
      resources: the resources of each job.
      at_once: the largest number of jobs at once; None for no limit.
      retries: how often a failed job is tried again.
    """
    try:
        import submitit
    except ImportError:
        fail("executor: --executor slurm needs submitit, which is not installed; pip install 'jattn[slurm]'")
    for program in ("sbatch", "srun"):
        if shutil.which(program) is None:
            fail(f"executor: {program} is not found; slurm works where SLURM's commands do, as on a login node")
    executor = submitit.SlurmExecutor(out.absolute() / "slurm", max_num_timeout=TIMEOUTS)
    options = dict(option.partition("=")[::2] for option in resources.slurm)
    parameters: dict[str, Any] = {
        "job_name": out.name,
        "partition": resources.partition,
        "time": max(round(resources.hours * 60), 1),  # minutes
        "gpus_per_node": resources.gpus or None,
        "cpus_per_task": resources.cpus,
        "mem": f"{round(resources.memory * 1024)}M",
        "array_parallelism": at_once or len(commands),
        "signal_delay_s": SAVE_SECONDS,
        "stderr_to_stdout": True,
        "srun_args": [f"--cpus-per-task={resources.cpus}"],  # srun does not inherit it from sbatch
        "additional_parameters": {"requeue": True, **{key: value or True for key, value in options.items()}},
    }
    executor.update_parameters(**parameters)
    jobs = [Resumable(list(command), out.absolute() / name, retries) for name, command in commands.items()]
    try:
        with submitit.helpers.clean_env():  # without the variables of a job that this may run in
            submitted = executor.submit_array(jobs)
    except (OSError, RuntimeError) as error:  # submitit's errors are RuntimeErrors
        fail(f"executor: SLURM did not take the jobs: {str(error).strip()}")
    return submitted[0].job_id.split("_")[0]
