"""The paper's tables and figures: runs what is missing, then writes tables, pictures and a report of all runs.

    python -m experiments.paper table1 --data-dir DIR          COLORS, TRIANGLES, MNIST-75sp: about six hours on 2 cores
    python -m experiments.paper table1 --tasks colors          COLORS alone: about two hours
    python -m experiments.paper table3 --tasks colors triangles --seeds colors=20 triangles=1
    python -m experiments.paper table2                         COLLAB, PROTEINS, D&D: 3 draws of graphs x 5 seeds
    python -m experiments.paper figures --data-dir DIR         the paper's figures, see below
    python -m experiments.paper figures --no-run               all that can be drawn without training
    python -m experiments.paper all                            everything
    python -m experiments.paper status                         what is finished, and how long the rest will take
    python -m experiments.paper all --no-run                   tables, pictures and report of what is finished

Finished runs are kept, interrupted ones are resumed, and as many run at once as there are GPUs, or CPU cores without
GPUs. The requested tables are printed. All finished runs in --out, up to --seeds, are written to tables as text,
Markdown and CSV, and to report.html, one file with tables, pictures and settings. The paper's figures stand in
brackets; * marks scores that differ from them by more than three standard errors. networks-TASK.csv has a row of scores
for each network, and networks.png shows accuracy against attention AUC.

figures needs all networks of COLORS and TRIANGLES with learned attention, the study of initial attention, and one run
of DiffPool (GIN), of global pooling and of weak supervision on each of COLORS, TRIANGLES and MNIST-75sp. It makes:

    figure3.png         accuracy against attention AUC and against the cosine of the initial projection, panels a to f
    initialization/     the study: accuracy and AUC by scale and cosine of the initial projection, training dynamics
    qualitative.png     test graphs: DiffPool's clusters, leave-one-out attention, weakly supervised attention

What is missing is left out with a note. figure3.png, networks.png and the pictures of the study are drawn from the CSV
files in --out alone, so that they can be drawn again without any run.
"""

import sys
from collections.abc import Sequence

from ..run.command_line import parse_settings
from ..run.errors import expect_known, expect_no_empty, fail
from ..run.folder import RunError
from ..run.groups import name_flag
from ..run.program import as_typed, job_command, program
from ..sweep import command
from .plan import (
    STUDY,
    TARGETS,
    Paper,
    all_runs,
    runs_of,
)


def main(arguments: Sequence[str]) -> None:
    """Makes the tables and figures of a command line."""
    expect_no_empty(arguments)
    if arguments and not arguments[0].startswith("-"):
        expect_known("target", arguments[0], TARGETS)
    paper = parse_settings(Paper, arguments, program("paper"), as_typed(__doc__ or ""))
    try:
        parts = {part: runs_of(paper, part) for part in paper.parts}
    except ValueError as error:
        fail(name_flag(str(error), paper))
    commands = dict[str, list[str]]()
    for runs in all_runs(parts):
        commands |= {f"{runs.task}/{job.name}": command(job, paper.out / runs.task) for job in runs.jobs}
    if paper.study:
        study = ["--quiet", "--out", str((paper.out / STUDY).absolute())]
        commands[STUDY] = [*job_command(STUDY), *study]
    if not commands:
        fail(
            f"{paper.target} has no such rows of {', '.join(paper.tasks)}; "
            "leave out --presets or --tasks, or name others"
        )
    from .making import make, status  # a command line is read without what these need

    try:
        if paper.target == "status":
            print(status(paper, parts))
        else:
            make(paper, parts, commands)
    except RunError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error}; finished runs are kept: to resume, repeat the command")


if __name__ == "__main__":
    main(sys.argv[1:])
