"""When a member breaks: the others go on, its last good state stays, and its folder says what broke first."""

from dataclasses import replace

import torch
from torch import Tensor

from rlclinic.training.assembly import Cohort
from rlclinic.training.data.rollout import Batch, Rollout
from rlclinic.training.loops.on_policy import Learner
from rlclinic.training.optim import OptimizerState


def keep_finite(cohort: Cohort, before: Learner, after: Learner, rollout: Rollout, whole: Batch, readings: dict[str, Tensor]) -> Learner:
    """An update that left numbers which are not finite is taken back, and its member ends."""
    # One NaN gradient makes all weights of that member NaN for good, so looking once per iteration misses nothing.
    # Losses too: target_kl refuses a step whose KL is NaN, so that the weights stay finite and nothing is learned ever after.
    good = torch.isfinite(after.flat).all(1, keepdim=True) & torch.isfinite(readings["total"][:1]).T
    if bool(good.all()):
        return after
    for index in (~good).squeeze(1).nonzero().flatten().tolist():
        member = cohort.members[index]
        if member.active:
            where = first_bad(index, rollout, whole, readings)
            what = f"the update after env step {cohort.env_steps} is not finite: {where}"
            member.end("failed", f"{what}.\n{_advice(cohort, index)}", cohort.env_steps)
    kept = (torch.where(good, new, old) for new, old in zip(after.optimizer, before.optimizer, strict=True))
    return replace(after, flat=torch.where(good, after.flat, before.flat), optimizer=OptimizerState(*kept))


def first_bad(index: int, rollout: Rollout, whole: Batch, readings: dict[str, Tensor]) -> str:
    """The first tensor on the way from the environment to the weights that is not finite."""
    on_the_way = {
        "observations": rollout.obs,
        "normalized observations": rollout.net_obs,
        "rewards": rollout.reward,
        "action distribution": rollout.dist,
        "values": whole.value,
        "advantages": whole.advantage,
        "value targets": whole.returns,
    }
    for name, tensor in on_the_way.items():
        if not bool(torch.isfinite(tensor[index]).all()):
            return f"{name} came first"
    for step in range(readings["policy"].shape[0]):
        for name, values in readings.items():
            if not bool(torch.isfinite(values[step, index])):
                return f"{name} in gradient step {step + 1} came first (data, values and advantages were finite)"
    return "the optimizer step came first (losses and gradients were finite)"


def environments(cohort: Cohort) -> None:
    """Members whose environment raised, or gave something that is not finite."""
    for env in (cohort.env, cohort.eval_env):
        for index, error in dict(env.failures if env is not None else {}).items():
            if cohort.members[index].active:
                cohort.members[index].end("failed", f"{error}\n{_advice(cohort, index)}", cohort.env_steps)


def _advice(cohort: Cohort, index: int) -> str:
    run = cohort.members[index].run
    return f"  Everything up to its last checkpoint is intact: rlclinic runs show {run.id}"
