"""What is in a dataset, as an answer."""

from dataclasses import asdict, replace
from pathlib import Path

from rlclinic.datasets import Dataset, advice, quality
from rlclinic.datasets.advice import Situation
from rlclinic.datasets.formats import find, read
from rlclinic.errors import UsageError
from rlclinic.ops.data.requests import CheckRequest
from rlclinic.report.models import DataFinding, DataReport, DataSuit


def check(request: CheckRequest) -> DataReport:
    """Look at all of it once, and closely at samples."""
    given = (request.random_return, request.good_return)
    if (given[0] is None) != (given[1] is None):
        raise UsageError("one of the random and the good return alone measures nothing.\n  Give both, or neither")
    reference = quality.Reference(given[0], given[1]) if given[0] is not None and given[1] is not None else None
    path = find(request.data)
    data = read(path)
    other = None if request.beside is None else _read_beside(data, request.beside)
    found = quality.examine(data, reference, request.seed, other)
    coverage = None if other is None else quality.compare_coverage(data, other, request.seed)
    return describe(path, data, found, _situation(data, found, reference), coverage)


def _read_beside(data: Dataset, path: str) -> Dataset:
    """Other data of the same task."""
    other = read(find(path))
    spaces = [(each.observations.shape[1:], each.action_space.kind, each.action_space.n, each.actions.shape[1:]) for each in (data, other)]
    if spaces[0] != spaces[1]:
        raise UsageError(
            f"{path} has {other.observation_space} and {other.action_space}, the data {data.observation_space} and "
            f"{data.action_space}.\n  Data of two tasks have no coverage to compare"
        )
    return other


def _situation(data: Dataset, found: quality.Quality, reference: quality.Reference | None) -> Situation:
    """What the data alone says; no simulator, nobody to ask."""
    damaged = any(finding.level == "error" for finding in found.findings)
    mixture, start = (None, None) if damaged else advice.measure_returns(data)
    situation = Situation(found, mixture=mixture, start_explains=start)
    if reference is None:
        return situation
    share = float((data.returns >= reference.good).mean())
    return replace(situation, good_return=reference.good, good_share=share, random_return=reference.random)


def describe(
    path: Path, data: Dataset, found: quality.Quality, situation: Situation | None = None, coverage: float | None = None
) -> DataReport:
    """What was found, with where the data comes from; situation: also which algorithms it suits."""
    vectors = data.action_space.kind != "discrete"
    judged = [] if situation is None else advice.judge_algorithms(situation, vectors=vectors)
    lacks = advice.find_lacks(situation) if situation is not None and judged and not any(each.suits for each in judged) else []
    return DataReport(
        data=str(path),
        source=data.source,
        env=data.env_id,
        observations=str(data.observation_space),
        actions=str(data.action_space),
        coverage_ratio=coverage,
        findings=[DataFinding(**asdict(finding)) for finding in found.findings],
        suits=[DataSuit(**asdict(each)) for each in judged],
        collect=[f"{lack.collect}: {lack.what}" for lack in lacks],
        **{name: value for name, value in asdict(found).items() if name != "findings"},
    )
