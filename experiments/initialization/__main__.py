"""Initialization of attention on COLORS: how the initial p decides what is learnt.

    python -m experiments.initialization --out runs/initialization                 all; repeat it to resume
    python -m experiments.initialization --dimensions 3 --models gcn --seeds 10    a part of it

The projection p of linear attention is drawn from N(0, sigma) or U(-sigma, sigma). The folder gets:

    points.csv      a row per network: cosine of initial and final p with the optimum [0, 1, 0, ...], AUC, accuracies
    summary.csv     means of these over networks whose initial cosine is above 0.5, and over the others
    good_share.csv  percentage of draws whose cosine is above 0.5, by the number of colors n
    dynamics.csv    cosine, AUC and training accuracy by epoch, from p's of given cosines
    *.png           pictures of these, like Figures 3, 4, 5, 6, 8 and 9 of the paper

All are percentages apart from cosines, which leave out the last column of p: COLORS has n + 1 input columns, of which
the last is 0 in training. The AUC is that of attention on all test graphs together.

All of it took 2 h 20 min, half of that time on one CPU core and the rest on two; GIN takes most of it. For n = 3 and
GIN it found, first for p's with a cosine above 0.5, then for the others: unsupervised, 97 and 79 % on Orig, AUC 87 and
65 %; supervised, 100 and 84 %, AUC 99 and 87 %; weakly supervised, 99 and 83 %, AUC 99 and 85 %.

Knyazev et al. 2019, section 4.2 and appendix.
"""

import sys
from collections.abc import Sequence

from ..run.command_line import parse_settings
from ..run.devices import configure_jax
from ..run.program import as_typed, program
from .settings import Initialization


def main(arguments: Sequence[str]) -> None:
    """Runs the study that a command line asks for."""
    settings = parse_settings(Initialization, arguments, program("initialization"), as_typed(__doc__ or ""))
    configure_jax(settings.run)
    from .study import run_study  # a command line is read without what the study needs
    from .summary import table

    folder, summary = run_study(settings)
    print(table(summary))
    print(f"the study is in {folder}")


if __name__ == "__main__":
    main(sys.argv[1:])
