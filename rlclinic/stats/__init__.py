"""Statistics of a few seeds (numpy only). Every interval and test is seeded: the same numbers in, the same bytes out.

Seeds are few and returns are skewed, so the middle is an interquartile mean and spread is resampled, not assumed
(Agarwal et al. 2021, arXiv:2108.13264); a run that never reaches the threshold is censored, not dropped; and several looks
at growing data share one error rate.
"""

from rlclinic.stats.censored import (
    Survival,
    Times,
    compare_times,
    geometric_ratio,
    kaplan_meier,
    log_rank,
    median_time,
    restricted_contrast,
    restricted_estimate,
    restricted_mean,
    restricted_mean_ratio,
    restricted_times,
    shared_horizon,
)
from rlclinic.stats.collapse import find_collapse_bound
from rlclinic.stats.distributions import normal_quantile, normal_tail, normal_tails
from rlclinic.stats.estimates import (
    LEVEL,
    RESAMPLES,
    Estimate,
    bootstrap_band,
    bootstrap_difference,
    bootstrap_interval,
    estimate,
    improvement,
    iqm,
    probability_of_improvement,
    share_difference,
    share_interval,
    share_upper_bound,
)
from rlclinic.stats.group_sequential import crossing_probability, obrien_fleming_bounds, pocock_bound, wang_tsiatis_bounds
from rlclinic.stats.significance import (
    MANY_SEEDS,
    TestResult,
    compare_means,
    compare_means_by_row,
    holm,
    more_hits,
    permutation,
    rank_z,
    welch,
)

__all__ = [
    "LEVEL",
    "MANY_SEEDS",
    "RESAMPLES",
    "Estimate",
    "Survival",
    "TestResult",
    "Times",
    "bootstrap_band",
    "bootstrap_difference",
    "bootstrap_interval",
    "compare_means",
    "compare_means_by_row",
    "compare_times",
    "crossing_probability",
    "estimate",
    "find_collapse_bound",
    "geometric_ratio",
    "holm",
    "improvement",
    "iqm",
    "kaplan_meier",
    "log_rank",
    "median_time",
    "more_hits",
    "normal_quantile",
    "normal_tail",
    "normal_tails",
    "obrien_fleming_bounds",
    "permutation",
    "pocock_bound",
    "probability_of_improvement",
    "rank_z",
    "restricted_contrast",
    "restricted_estimate",
    "restricted_mean",
    "restricted_mean_ratio",
    "restricted_times",
    "share_difference",
    "share_interval",
    "share_upper_bound",
    "shared_horizon",
    "wang_tsiatis_bounds",
    "welch",
]
