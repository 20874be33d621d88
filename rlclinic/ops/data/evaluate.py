"""What a policy would earn, from recorded data alone. Imports torch when it is asked to."""

from rlclinic.datasets.formats import find
from rlclinic.ops.data.requests import EvaluateRequest
from rlclinic.ops.runs.policy import load_policy, pick_checkpoint
from rlclinic.report.models import PolicyEstimate, PolicyEvaluation
from rlclinic.runs.store import Store


def evaluate(request: EvaluateRequest) -> PolicyEvaluation:
    """Every estimate that the data allows, and why it does not allow the others."""
    path = find(request.data)
    checkpoint = pick_checkpoint(Store(request.runs_dir), request.policy)
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
