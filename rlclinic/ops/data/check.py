"""What is in a dataset, as an answer."""

from dataclasses import asdict
from pathlib import Path

from rlclinic.datasets import Dataset, quality
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
    return describe(path, data, quality.examine(data, reference, request.seed))


def describe(path: Path, data: Dataset, found: quality.Quality) -> DataReport:
    """What was found, with where the data comes from."""
    return DataReport(
        data=str(path),
        source=data.source,
        env=data.env_id,
        observations=str(data.observation_space),
        actions=str(data.action_space),
        findings=[DataFinding(**asdict(finding)) for finding in found.findings],
        **{name: value for name, value in asdict(found).items() if name != "findings"},
    )
