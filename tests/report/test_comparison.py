"""Comparisons in words."""

import pytest

from rlclinic.comparison.models import Interval, SideOutcome
from rlclinic.report import comparison
from rlclinic.report.format import short


@pytest.mark.parametrize(
    ("reached", "said"),
    [(4, "20k (5k – 50k)"), (3, "≥ 20k (5k – 50k)"), (0, "> 20k"), (None, "20k (5k – 50k)")],
    ids=["all", "some", "none", "no threshold"],
)
def test_a_mean_over_runs_that_never_got_there_is_no_more_than_a_bound(reached: int | None, said: str) -> None:
    side = SideOutcome.model_construct(reached=reached, runs=4)
    assert comparison._censored(side, Interval(value=20_000.0, low=5_000.0, high=50_000.0), short) == said
