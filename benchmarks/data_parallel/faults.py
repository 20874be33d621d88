"""Faults of synchronization, each planted by replacing a function on all ranks, and what the diagnosis should name.

    python -m benchmarks.data_parallel.faults FAULT FOLDER SEEDS RANKS [TASK ...]      one JSON line for each run

The weights of the ranking were set with TASKS, two ranks and the faults without a mark. FRESH_TASKS, with three ranks, and the faults
marked as fresh were written down later, before anything was trained on them, and looked at once.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from rlclinic.config import Config
from rlclinic.errors import RunError
from rlclinic.ops.diagnose.diagnose import examine_group
from rlclinic.runs.store import Store
from rlclinic.training.__main__ import train_runs
from rlclinic.training.loops import on_policy
from rlclinic.training.parallel import calibration, follower, ranks, shares, watch
from rlclinic.training.parallel.calibration import Speed
from rlclinic.training.parallel.part import RankPart
from rlclinic.training.parallel.ranks import Ranks

# What is replaced: of any type, as a fault need not fit.
PART: Any = RankPart
GROUP: Any = Ranks
LOOP: Any = on_policy
SHARES: Any = shares
FOLLOWERS: Any = follower
STARTING: Any = ranks
WATCH: Any = watch
CALIBRATION: Any = calibration
VARIABLE, WORLD = "RLCLINIC_PLANTED_FAULT", "RLCLINIC_PLANTED_RANKS"
PLANTED = "benchmarks.data_parallel.rank"
BROKEN_AT = 6
"""The iteration in which a rank is killed, paused or leaves something out."""
TASKS: dict[str, dict[str, Any]] = {
    "CartPole ppo": {
        "env": {"id": "CartPole-v1", "n_envs": 8, "normalize_obs": True, "normalize_reward": True},
        "algo": {"name": "ppo", "n_steps": 32, "batch_size": 64, "n_epochs": 4},
    },
    "Pendulum ppo": {
        "env": {"id": "Pendulum-v1", "n_envs": 4, "normalize_obs": True, "normalize_reward": True},
        "algo": {"name": "ppo", "n_steps": 64, "batch_size": 128, "n_epochs": 4, "normalize_advantage": "batch"},
    },
    "FrozenLake a2c": {
        "env": {"id": "FrozenLake-v1", "n_envs": 8, "kwargs": {"is_slippery": False}, "normalize_reward": True, "normalize_obs": True},
        "algo": {"name": "a2c", "n_steps": 32, "normalize_advantage": "rollout"},
    },
    "Acrobot a2c": {
        "env": {"id": "Acrobot-v1", "n_envs": 8, "native": "never", "normalize_obs": True, "normalize_reward": True},
        "algo": {"name": "a2c", "n_steps": 32},
    },
}
FRESH_TASKS: dict[str, dict[str, Any]] = {
    "MountainCarContinuous ppo": {
        "env": {"id": "MountainCarContinuous-v0", "n_envs": 12, "normalize_obs": True, "normalize_reward": True},
        "algo": {"name": "ppo", "n_steps": 24, "batch_size": 96, "n_epochs": 3},
        "net": {"hidden": [48]},
    },
    "Taxi ppo": {
        "env": {"id": "Taxi-v3", "n_envs": 6, "normalize_obs": True, "normalize_reward": True},
        "algo": {"name": "ppo", "n_steps": 48, "batch_size": 144, "n_epochs": 2, "normalize_advantage": "rollout"},
        "net": {"hidden": [24, 24], "activation": "relu"},
    },
    "MountainCar a2c": {
        "env": {"id": "MountainCar-v0", "n_envs": 9, "native": "never", "normalize_obs": True, "normalize_reward": True},
        "algo": {"name": "a2c", "n_steps": 32, "normalize_advantage": "rollout"},
        "net": {"hidden": [40, 20], "shared": True},
    },
}
FIRST_FRESH_SEED = 700


def config_of(task: str, seed: int, world: int = 2) -> Config:
    """A short run of a task."""
    run = {"max_env_steps": 6144, "eval_every_env_steps": 2048, "eval_episodes": 4, "data_parallel": world, "allow_slower": True}
    return Config.model_validate({"net": {"hidden": [32, 32]}, **(TASKS | FRESH_TASKS)[task], "run": run, "seed": seed})


def rank() -> int:
    """Which rank this process is."""
    return int(os.environ.get("RANK", "0"))


def plan_world() -> int:
    """How many there are."""
    return int(os.environ[WORLD])


# ── the faults ──


def plant_local_gradients() -> None:
    """No rank hears of the others' gradients."""
    exchange = Ranks.sum

    def alone(self: Ranks, name: str, buffer: torch.Tensor) -> torch.Tensor:
        return buffer * self.world if name == "gradient" else exchange(self, name, buffer)

    GROUP.sum = alone


def plant_summed_gradients() -> None:
    """The sum is not divided by the number of ranks."""
    own = RankPart.own_gradient

    def summed(self: RankPart, *given: Any) -> Any:
        grad, readings = own(self, *given)
        return grad * self.ranks.world, readings

    PART.own_gradient = summed


def plant_other_first_weights() -> None:
    """Rank 1 begins with weights of its own."""
    read = FOLLOWERS.read_learner
    FOLLOWERS.read_learner = lambda found: replace(read(found), flat=read(found).flat * 1.01)


def plant_skipped_update() -> None:
    """Rank 1 leaves out one optimizer step in ten."""
    step, count = RankPart.update_step, [0]

    def skipping(self: RankPart, plan: Any, flat: Any, state: Any, *given: Any) -> Any:
        found = step(self, plan, flat, state, *given)
        count[0] += 1
        return (flat, state, *found[2:]) if rank() and count[0] % 10 == 0 else found

    PART.update_step = skipping


def plant_equal_seeds() -> None:
    """Every rank plays the environments of rank 0."""
    envs = shares.envs
    SHARES.envs = lambda n_envs, rank, world: envs(n_envs, 0, world)


def plant_equal_actions() -> None:
    """Environments have seeds of their own, actions have not."""
    collect = on_policy.collect
    LOOP.collect = lambda *given, **more: collect(*given, **{**more, "first_env": 0})


def plant_own_normalizers() -> None:
    """Every rank's statistics cover its own environments alone."""
    update: Any = on_policy.update_normalizers

    def own(plan: Any, learner: Any, rollout: Any, hp: Any, active: Any, first_env: int = 0) -> Any:
        part = shares.envs(rollout.reward.shape[2], rank(), world := plan_world())
        cut = {name: value[:, :, part] for name, value in vars(rollout).items() if isinstance(value, torch.Tensor) and value.dim() >= 3}
        carry = learner.reward_carry
        found = update(plan, replace(learner, reward_carry=carry[:, part]), replace(rollout, **cut), hp, active)
        return replace(found, reward_carry=torch.cat([found.reward_carry] * world, 1))

    LOOP.update_normalizers = own


def plant_own_reward_statistics() -> None:
    """Only the scale of rewards is a rank's own."""
    update: Any = on_policy.update_normalizers

    def own(plan: Any, learner: Any, rollout: Any, *given: Any) -> Any:
        found = update(plan, learner, rollout, *given)
        stats = found.reward_stats
        return replace(found, reward_stats=stats._replace(var=stats.var * (1.0 + 0.05 * rank())))

    LOOP.update_normalizers = own


def plant_own_advantage_scale() -> None:
    """Advantages are standardized by each rank's own rows."""
    from rlclinic.training.fast import gradients
    from rlclinic.training.maths import normalize

    gradient, own_gradient = gradients.gradient, RankPart.own_gradient
    inside: list[bool] = []

    def scaled(plan: Any, flat: Any, batch: Any, hp: Any) -> Any:
        if inside:
            batch = batch._replace(advantage=normalize.standardize(batch.advantage, batch.weight))
        return gradient(plan, flat, batch, hp)

    def own(self: RankPart, *given: Any) -> Any:
        inside.append(True)
        try:
            return own_gradient(self, *given)
        finally:
            inside.pop()

    PART.own_gradient = own
    setattr(gradients, "gradient", scaled)  # noqa: B010 - of another type


def plant_uneven_shares() -> None:
    """Rank 0 has three quarters of every minibatch; the others share the rest."""
    rows = shares.rows

    def uneven(batch: int, rank: int, world: int) -> slice:
        first = 3 * batch // 4
        if rank == 0:
            return slice(0, first)
        rest = rows(batch - first, rank - 1, world - 1)
        return slice(first + rest.start, first + rest.stop)

    SHARES.rows = uneven


def plant_same_rows() -> None:
    """Every rank learns from the first half of a minibatch."""
    SHARES.rows = lambda batch, rank, world: slice(0, batch // world)


def plant_straggler() -> None:
    """Rank 1 is slow."""
    iterate = RankPart.iterate

    def slow(self: RankPart, *given: Any) -> Any:
        collect = on_policy.collect

        def sleeping(*more: Any, **options: Any) -> Any:
            time.sleep(0.3 if rank() else 0.0)
            return collect(*more, **options)

        LOOP.collect = sleeping
        try:
            return iterate(self, *given)
        finally:
            LOOP.collect = collect

    PART.iterate = slow


def _at_iteration(does: Callable[[], None]) -> None:
    iterate = RankPart.iterate

    def ending(self: RankPart, learner: Any, hp: Any, active: Any, iteration: int, clock: Any) -> Any:
        if rank() and iteration == BROKEN_AT:
            does()
        return iterate(self, learner, hp, active, iteration, clock)

    PART.iterate = ending


def plant_killed_rank() -> None:
    """Rank 1 is killed."""
    _at_iteration(lambda: os.kill(os.getpid(), signal.SIGKILL))


def plant_paused_rank() -> None:
    """Rank 1 is paused, and never goes on."""
    _at_iteration(lambda: os.kill(os.getpid(), signal.SIGSTOP))


def plant_raising_rank() -> None:
    """Something raises on rank 1 alone."""

    def fail() -> None:
        raise MemoryError("no room for a rollout")

    _at_iteration(fail)


def plant_left_out_collective() -> None:
    """Rank 1 leaves out the exchange of one gradient."""
    exchange, count = Ranks.sum, [0]

    def leaving_out(self: Ranks, name: str, buffer: torch.Tensor) -> torch.Tensor:
        count[0] += name == "gradient"
        return buffer if rank() and name == "gradient" and count[0] == 20 else exchange(self, name, buffer)

    GROUP.sum = leaving_out


def plant_extra_collective() -> None:
    """Rank 1 exchanges something that nobody else does."""
    _at_iteration(lambda: _extra(ranks.joined or _here))


_here: list[Ranks] = []


def _extra(of: list[Ranks]) -> None:
    of[-1].sum("a count of its own", torch.zeros(1))


def plant_stale_gradients() -> None:
    """The last rank sends the gradient of the minibatch before."""
    own = RankPart.own_gradient
    before: list[torch.Tensor] = []

    def stale(self: RankPart, *given: Any) -> Any:
        grad, readings = own(self, *given)
        before.append(grad.clone())
        return (before.pop(0), readings) if rank() == plan_world() - 1 and len(before) > 1 else (grad, readings)

    PART.own_gradient = stale


def plant_silent_gradients() -> None:
    """The last rank sends zeros."""
    own = RankPart.own_gradient

    def silent(self: RankPart, *given: Any) -> Any:
        grad, readings = own(self, *given)
        return (torch.zeros_like(grad) if rank() == plan_world() - 1 else grad), readings

    PART.own_gradient = silent


def plant_other_learning_rate() -> None:
    """The last rank takes steps a tenth larger."""
    step = RankPart.update_step

    def larger(self: RankPart, plan: Any, flat: Any, *given: Any) -> Any:
        new, *rest = step(self, plan, flat, *given)
        return (flat + 1.1 * (new - flat) if rank() == plan_world() - 1 else new, *rest)

    PART.update_step = larger


def plant_old_normalizers() -> None:
    """The last rank's statistics of observations stay as they were at the start."""
    update: Any = on_policy.update_normalizers

    def old(plan: Any, learner: Any, *given: Any) -> Any:
        found = update(plan, learner, *given)
        return replace(found, obs_stats=learner.obs_stats) if rank() == plan_world() - 1 else found

    LOOP.update_normalizers = old


def plant_slow_learning() -> None:
    """Every gradient of the last rank takes long."""
    own = RankPart.own_gradient

    def slow(self: RankPart, *given: Any) -> Any:
        time.sleep(0.1 if rank() == plan_world() - 1 else 0.0)
        return own(self, *given)

    PART.own_gradient = slow


def plant_leaving_rank() -> None:
    """Rank 1 ends as if everything were done."""
    _at_iteration(lambda: os._exit(0))


@dataclass(frozen=True)
class Planted:
    """A fault, and what should be named: a cause, or the rule of what only costs time."""

    plant: Callable[[], None]
    cause: str | None
    rule: str
    tasks: tuple[str, ...] = tuple(TASKS)
    fresh: bool = False
    """Whether it was written down after the weights of the ranking."""

    def tasks_of(self, *, fresh: bool) -> tuple[str, ...]:
        """Where it is planted. What ends a run takes long: it is planted in some tasks alone."""
        if not fresh:
            return self.tasks
        return tuple(FRESH_TASKS)[: 2 if self.rule in ("RNK106", "RNK107", "RNK108") else None]


ENDS = ("CartPole ppo", "FrozenLake a2c")
FAULTS: dict[str, Planted] = {
    "local-gradients": Planted(plant_local_gradients, "ranks-drift", "RNK101"),
    "summed-gradients": Planted(plant_summed_gradients, "gradients-not-averaged", "RNK102"),
    "other-first-weights": Planted(plant_other_first_weights, "ranks-drift", "RNK101"),
    "skipped-update": Planted(plant_skipped_update, "ranks-drift", "RNK101"),
    "equal-seeds": Planted(plant_equal_seeds, "ranks-equal-seeds", "RNK103"),
    "equal-actions": Planted(plant_equal_actions, "ranks-equal-seeds", "RNK103"),
    "own-normalizers": Planted(plant_own_normalizers, "normalizers-unsynced", "RNK104"),
    "own-reward-statistics": Planted(plant_own_reward_statistics, "normalizers-unsynced", "RNK104"),
    "own-advantage-scale": Planted(plant_own_advantage_scale, "gradients-not-averaged", "RNK102"),
    "uneven-shares": Planted(plant_uneven_shares, "uneven-minibatch", "RNK105"),
    "same-rows": Planted(plant_same_rows, "gradients-not-averaged", "RNK102"),
    "straggler": Planted(plant_straggler, None, "RNK106", ENDS),
    "killed-rank": Planted(plant_killed_rank, "rank-lost", "RNK107", ENDS),
    "paused-rank": Planted(plant_paused_rank, "rank-lost", "RNK107", ENDS),
    "raising-rank": Planted(plant_raising_rank, "rank-lost", "RNK107", ENDS),
    "left-out-collective": Planted(plant_left_out_collective, "collective-hangs", "RNK108", ENDS),
    "extra-collective": Planted(plant_extra_collective, "collective-hangs", "RNK108", ENDS),
    "stale-gradients": Planted(plant_stale_gradients, "gradients-not-averaged", "RNK102", fresh=True),
    "silent-gradients": Planted(plant_silent_gradients, "gradients-not-averaged", "RNK102", fresh=True),
    "other-learning-rate": Planted(plant_other_learning_rate, "ranks-drift", "RNK101", fresh=True),
    "old-normalizers": Planted(plant_old_normalizers, "normalizers-unsynced", "RNK104", fresh=True),
    "slow-learning": Planted(plant_slow_learning, None, "RNK106", fresh=True),
    "leaving-rank": Planted(plant_leaving_rank, "rank-lost", "RNK107", fresh=True),
}


def plant(name: str) -> None:
    """Plant a fault in this process; "none" plants none."""
    CALIBRATION.measure = lambda part: Speed(1.0, 0.5)  # nobody asks how fast it is
    joined = ranks.join

    def remember(*given: Any) -> Ranks:
        _here.append(joined(*given))
        return _here[-1]

    STARTING.join = remember
    if name != "none":
        FAULTS[name].plant()


def examine(name: str, task: str, seed: int, folder: Path, world: int = 2) -> dict[str, Any]:
    """Train a task with the fault that this process has, and say what is found."""
    store = Store(folder / f"{name}-{task.replace(' ', '-')}-{seed}")
    group = store.create_group([config_of(task, seed, world)])
    started = time.perf_counter()
    try:
        train_runs(group.runs)
    except RunError:
        ranks.joined.clear()
    seconds = time.perf_counter() - started
    report = examine_group(store.group(group.id))
    assert report is not None
    found = report.diagnosis
    rules = sorted({finding.rule for finding in found.findings if finding.rule.startswith("RNK")})
    first = found.causes[0].id if found.causes else None
    reason = (group.runs[0].status.reason or "").splitlines()[:1]
    return {"fault": name, "task": task, "seed": seed, "world": world, "rules": rules, "cause": first, "reason": reason, "seconds": seconds}


def main() -> None:
    """All tasks of one fault."""
    name, folder, seeds, world = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    os.environ[VARIABLE], os.environ[WORLD] = name, str(world)
    STARTING.FOLLOWER = PLANTED
    plant(name)
    WATCH.LOST_SECONDS = 6.0
    ends = name in FAULTS and FAULTS[name].rule in ("RNK107", "RNK108")
    if not ends:  # ranks that stay for all tasks
        ranks.joined.append(ranks.begin(world, torch.device("cpu")))
    for task in sys.argv[5:] or (FAULTS[name].tasks if name in FAULTS else TASKS):
        first = FIRST_FRESH_SEED if task in FRESH_TASKS else 0
        for seed in range(first, first + seeds):
            print(json.dumps(examine(name, task, seed, folder, world)), flush=True)
    if ends:
        sys.stdout.flush()
        os._exit(0)
    ranks.leave()


if __name__ == "__main__":
    main()
