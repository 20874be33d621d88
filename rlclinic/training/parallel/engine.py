"""Rank 0's engine: announces an iteration, does it with all ranks, and has them testify about each other."""

from itertools import combinations

import torch
from torch import Tensor

from rlclinic.training.data.rollouts import Rollout
from rlclinic.training.loops.on_policy import Iteration, IterationInputs, Learner
from rlclinic.training.parallel.part import RankPart, name_learner
from rlclinic.training.parallel.spread_env import SpreadEnv


class DataParallel:
    """Eager arithmetic, shared out over ranks."""

    def __init__(self) -> None:
        self._sent = False

    def iterate(self, inputs: IterationInputs) -> Iteration:
        """One iteration of every member, with all ranks."""
        env, iteration = inputs.env, inputs.iteration
        assert isinstance(env, SpreadEnv)
        assert isinstance(iteration, int)
        learner = inputs.learner
        if not self._sent:
            # Everybody starts from the same weights, moments and normalizers, wherever rank 0 has them from.
            named = name_learner(learner)
            large = [] if env.part.layers is None else [name for name, each in named.items() if each.shape == learner.flat.shape]
            env.announce("learner", {name: each for name, each in named.items() if name not in large}, large=large)
            env.part.scatter(named, large)
            learner, self._sent = env.part.take_optimizer(learner), True
        members = len(learner.flat)
        active = [True] * members if inputs.active is None else inputs.active.flatten().tolist()
        env.announce("iterate", iteration=iteration, active=active, numbers=inputs.hp.per_member)
        found = env.part.iterate(learner, inputs.hp, inputs.active, iteration, inputs.clock)
        inputs.position.obs, inputs.position.action_mask = env.part.here
        env.action_mask = inputs.position.action_mask
        env.take_failures()
        return found


def whole_learner(env: SpreadEnv, learner: Learner) -> Learner:
    """The learner with all of the optimizer's state, as one process has it."""
    if learner.optimizer.mean.shape == learner.flat.shape:
        return learner
    env.announce("optimizer")
    return env.part.join_optimizer(learner)


def testify(env: SpreadEnv, learner: Learner, rollout: Rollout, *, costly: bool) -> dict[str, Tensor]:
    """What ranks say of each other, [M] by name, without the prefix of sentinels; names with `time/` are columns as they are."""
    env.announce("testify", costly=costly)
    said = env.part.testify(learner, costly=costly)
    members = len(learner.flat)

    def every(number: float) -> Tensor:
        return torch.full((members,), number, dtype=torch.float64)

    busy, waited, rows = ([float(one[name]) for one in said] for name in ("busy", "waited", "rows"))
    slowest = max(range(len(busy)), key=busy.__getitem__)
    others = [seconds for rank, seconds in enumerate(busy) if rank != slowest]
    transfer = min(waited)  # who comes last waits for nobody: what is left is the message itself
    found = {
        "ranks_rows_min": every(min(rows)),
        "ranks_rows_max": every(max(rows)),
        "time/ranks_communicate": every(transfer),
        "time/ranks_idle": every(sum(waited) / len(waited) - transfer),
        "time/ranks_slowest": every(float(slowest)),
        "time/ranks_slowest_ratio": every(busy[slowest] / max(sum(others) / len(others), 1e-9)),
    }
    if costly:
        for name, of in (("ranks_differ", "weights"), ("ranks_normalizers_differ", "normalizers")):
            found[name] = torch.stack([one[of] != said[0][of] for one in said]).sum(0).double()
        found["ranks_gradient_error"] = said[0]["gradient_error"]
        found["ranks_copies"] = find_copies(rollout, env.part)
        found["ranks_foreign_actions"] = env.part.find_foreign_actions().cpu()
    return found


def find_copies(rollout: Rollout, part: RankPart) -> Tensor:
    """How many more environments of different ranks had the same steps than environments of one rank, as a share of pairs, [M].

    Where an environment has no chance and the policy is certain, all of them are alike; ranks that draw the same random numbers are
    alike among each other, but not within.
    """
    world = part.ranks.world
    size = rollout.reward.shape[2] // world
    parts = [slice(rank * size, (rank + 1) * size) for rank in range(world)]  # as they lie in the rollout
    action = rollout.action.float().reshape(*rollout.reward.shape, -1).transpose(1, 2).flatten(2)
    columns = torch.cat([rollout.obs.float().flatten(3).transpose(1, 2).flatten(2), action], 2)  # [M, N, T * (D + K)]
    across = [(columns[:, parts[one]] == columns[:, parts[other]]).all(-1).double().mean(1) for one, other in combinations(range(world), 2)]
    within = [(columns[:, :1] == columns[:, 1:size]).all(-1).double().mean(1)] if size > 1 else [columns.new_zeros(len(columns)).double()]
    return (torch.stack(across).amax(0) - within[0]).clamp(min=0.0).cpu()
