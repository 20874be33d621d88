"""When a member breaks: the others go on, its last good state stays, and its folder says what broke first."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from rlclinic.actions import Action
from rlclinic.training.assembly import Cohort
from rlclinic.training.data.rollouts import Batch, Rollout
from rlclinic.training.loops import off_policy, on_policy
from rlclinic.training.loops.off_policy import Transitions
from rlclinic.training.loops.on_policy import Learner
from rlclinic.training.optim import OptimizerState


def keep_finite(cohort: Cohort, before: Learner, after: Learner, rollout: Rollout, whole: Batch, readings: dict[str, Tensor]) -> Learner:
    """An update that left numbers which are not finite is taken back, and its member ends."""
    good = on_policy.find_finite(after, readings)
    if bool(good.all()):
        return after
    for index in (~good).squeeze(1).nonzero().flatten().tolist():
        member = cohort.members[index]
        if member.active:
            where = first_bad(index, rollout, whole, readings)
            what = f"the update after env step {cohort.env_steps} is not finite: {where}"
            member.end("failed", f"{what}.\n{_advice(cohort, index)}", cohort.env_steps)
    return on_policy.take_back(before, after, good)


def keep_finite_replay(
    cohort: Cohort, before: off_policy.Learner, after: off_policy.Learner, transitions: Transitions | None, readings: dict[str, Tensor]
) -> off_policy.Learner:
    """As `keep_finite`, for an iteration of an algorithm with a replay; of recorded data there are no transitions of its own."""
    # The largest by size is not finite where any is, and found ten times as fast as all are asked. Squares of gradients overflow before
    # weights do, and what is divided by them never moves again.
    squares = (state.square for state in after.optimizers.values())
    largest = [flat.abs().amax(1) for flat in (*after.nets.values(), *after.targets.values(), *squares)]
    good = torch.isfinite(torch.stack(largest)).all(0).unsqueeze(1)
    if transitions is not None:
        good = good & torch.isfinite(transitions.reward.flatten(1)).all(1, keepdim=True)
    if bool(good.all()):
        return after
    for index in (~good).squeeze(1).nonzero().flatten().tolist():
        member = cohort.members[index]
        if member.active:
            on_the_way = {}
            if transitions is not None:
                on_the_way = {"observations": transitions.obs, "rewards": transitions.reward, "actions": transitions.action}
            where = next(
                (f"{name} came first" for name, seen in on_the_way.items() if not bool(torch.isfinite(seen[index].float()).all())), None
            )
            what = f"the update after env step {cohort.env_steps} is not finite: {where or _first_reading(index, readings)}"
            member.end("failed", f"{what}.\n{_advice(cohort, index)}", cohort.env_steps)

    def kept(new: Mapping[str, Tensor], old: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: torch.where(good, new[name], old[name]) for name in new}

    states = {
        name: OptimizerState(*(torch.where(good, new, old) for new, old in zip(state, before.optimizers[name], strict=True)))
        for name, state in after.optimizers.items()
    }
    return replace(after, nets=kept(after.nets, before.nets), targets=kept(after.targets, before.targets), optimizers=states)


def _first_reading(index: int, readings: dict[str, Tensor]) -> str:
    names = [name for name in ("target", "q", "error", "norm", "log_prob", "actor", "actor_norm") if name in readings]
    for step in range(readings[names[0]].shape[0] if names else 0):
        for name in names:
            if step < len(readings[name]) and not bool(torch.isfinite(readings[name][step, index]).all()):
                return f"{name} in gradient step {step + 1} came first (data was finite)"
    return "the optimizer step came first (losses and gradients were finite)"


def fallen(cohort: Cohort, alive: Tensor, waiting: list[dict[str, Tensor]], iterations: int, env_steps: int) -> None:
    """End the members whose updates the engine itself has taken back since the last row. alive: [M, 1]."""
    for index in (~alive).squeeze(1).nonzero().flatten().tolist():
        member = cohort.members[index]
        if not member.active:
            continue
        readings = {name: torch.cat([each[name] for each in waiting]) for name in waiting[0]}
        where = _first_step(index, readings) or "the optimizer step came first"
        what = f"an update in the {iterations} iterations before env step {env_steps} is not finite: {where}"
        member.end("failed", f"{what}.\n{_advice(cohort, index)}", env_steps)


def _first_step(index: int, readings: dict[str, Tensor]) -> str | None:
    """The first number of the gradient steps that is not finite."""
    for step in range(readings["policy"].shape[0]):
        for name, values in readings.items():
            if not bool(torch.isfinite(values[step, index])):
                return f"{name} in gradient step {step + 1} came first"
    return None


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
    where = _first_step(index, readings)
    if where is None:
        return "the optimizer step came first (losses and gradients were finite)"
    return f"{where} (data, values and advantages were finite)"


def environments(cohort: Cohort) -> None:
    """Members whose environment raised, or gave something that is not finite."""
    for env in (cohort.env, cohort.eval_env, cohort.tasks_env):
        for index, error in dict(env.failures if env is not None else {}).items():
            if cohort.members[index].active:
                cohort.members[index].end("failed", f"{error}\n{_advice(cohort, index)}", cohort.env_steps)


def _advice(cohort: Cohort, index: int) -> str:
    return f"  Everything up to its last checkpoint is intact: {Action('runs show', cohort.members[index].run.id)}"
