"""What is in a dataset, as an answer."""

from rlclinic.datasets import quality
from rlclinic.datasets.formats import find, read
from rlclinic.errors import UsageError
from rlclinic.ops.data.requests import CheckRequest
from rlclinic.report.models import DataFinding, DataReport


def check(request: CheckRequest) -> DataReport:
    """Look at all of it once, and closely at samples."""
    given = (request.random_return, request.good_return)
    if (given[0] is None) != (given[1] is None):
        raise UsageError("one of the random and the good return alone measures nothing.\n  Give both, or neither")
    reference = quality.Reference(given[0], given[1]) if given[0] is not None and given[1] is not None else None
    path = find(request.data)
    data = read(path)
    found = quality.examine(data, reference, request.seed)
    return DataReport(
        data=str(path),
        source=data.source,
        env=data.env_id,
        observations=str(data.observation_space),
        actions=str(data.action_space),
        transitions=found.transitions,
        episodes=found.episodes,
        return_mean=found.return_mean,
        return_std=found.return_std,
        return_min=found.return_min,
        return_max=found.return_max,
        return_top_tenth=found.return_top_tenth,
        length_mean=found.length_mean,
        length_min=found.length_min,
        length_max=found.length_max,
        terminated=found.terminated,
        zero_rewards=found.zero_rewards,
        unique=found.unique,
        state_coverage=found.state_coverage,
        action_spread=found.action_spread,
        at_bounds=found.at_bounds,
        trajectory_quality=found.trajectory_quality,
        duplicates=found.duplicates,
        findings=[DataFinding(level=finding.level, name=finding.name, what=finding.what, do=finding.do) for finding in found.findings],
    )
