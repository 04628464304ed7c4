"""The sampler of a study: tree-structured Parzen estimators, seeded by the number of the trial.

So machines that share a study, and a study that is resumed, propose other settings in each trial.
"""

from collections.abc import Sequence
from typing import Any

from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState


class ByTrial(BaseSampler):
    """Samples each trial with a new sampler, seeded by the number of the trial."""

    def __init__(self) -> None:
        self._sampler: BaseSampler = TPESampler(seed=0)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:  # noqa: D102
        self._sampler = TPESampler(seed=trial.number)
        self._sampler.before_trial(study, trial)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:  # noqa: D102
        return self._sampler.infer_relative_search_space(study, trial)

    def sample_relative(  # noqa: D102
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self._sampler.sample_relative(study, trial, search_space)

    def sample_independent(  # noqa: D102
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self._sampler.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(  # noqa: D102
        self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        self._sampler.after_trial(study, trial, state, values)
