"""What a policy would earn, from recorded data alone. Imports torch when it is asked to."""

import math

from rlclinic.datasets.formats import find
from rlclinic.ops.data.requests import EvaluateRequest
from rlclinic.ops.runs.policy import load_policy, pick_checkpoint
from rlclinic.report.models import PolicyEstimate, PolicyEvaluation, RankedPolicy
from rlclinic.runs.record import Checkpoint, Group
from rlclinic.runs.store import Store


def evaluate(request: EvaluateRequest) -> PolicyEvaluation:
    """Every estimate that the data allows, and why it does not allow the others; several policies are ranked by fitted Q."""
    first, *others = (_evaluate(request, policy) for policy in dict.fromkeys([request.policy, *request.beside]))
    return first.model_copy(update={"ranking": rank([first, *others])}) if others else first


def rank(found: list[PolicyEvaluation]) -> list[RankedPolicy]:
    """The best by fitted Q first; those that the data cannot judge last."""
    fitted = [(each.policy, next(estimate for estimate in each.estimates if estimate.method == "fqe")) for each in found]
    fitted.sort(key=lambda pair: -math.inf if pair[1].value is None else pair[1].value, reverse=True)
    return [
        RankedPolicy(policy=policy, value=estimate.value, low=estimate.low, high=estimate.high, refused=estimate.refused)
        for policy, estimate in fitted
    ]


def _evaluate(request: EvaluateRequest, asked: str) -> PolicyEvaluation:
    path, store = find(request.data), Store(request.runs_dir)
    checkpoint, selected = pick_checkpoint(store, asked), store.resolve(asked)
    if not isinstance(selected, Checkpoint) and checkpoint.run.config.offline and checkpoint.run.config.online_from is None:
        # Its best checkpoint, or best seed, was found by playing: the last one is what the data alone gives.
        run = selected.runs[0] if isinstance(selected, Group) else selected
        checkpoint = run.checkpoints[-1] if run.checkpoints else checkpoint
    policy = load_policy(checkpoint)
    from rlclinic.training.data import off_policy_evaluation

    found = off_policy_evaluation.evaluate(policy, str(path), request.steps, request.seed)
    estimates = []
    for method in ("fqe", "wis", "pdis", "dr"):
        own = found.estimates.get(method)
        numbers = (None,) * 4 if own is None else own
        names = ("value", "low", "high", "effective_episodes")
        estimates.append(PolicyEstimate(method=method, refused=found.refused.get(method), **dict(zip(names, numbers, strict=True))))
    return PolicyEvaluation(
        policy=f"{checkpoint.run.id}@{checkpoint.step}",
        data=str(path),
        gamma=found.gamma,
        behaviour=found.behaviour,
        untried=found.untried,
        estimates=estimates,
    )
