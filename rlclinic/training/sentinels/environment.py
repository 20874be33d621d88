"""What the transitions of a rollout, or the newest ones of a replay, say about the environment: see rlclinic.stats.variance_shares.

About twenty times in a run, for each member on its own, on the host: a member's numbers are the same in every cohort and on every
device. Nothing is kept between two of them, so that a resume says the same.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from rlclinic.stats import variance_shares
from rlclinic.training.data import replay
from rlclinic.training.data.replay import Replay
from rlclinic.training.data.rollouts import Rollout
from rlclinic.training.envs.base import ActionSpec, VecEnv
from rlclinic.training.loops import off_policy

NAMES: Final = variance_shares.NAMES
PREFIX: Final = "train/sentinel/"
MARK: Final = f"{PREFIX}reward_common"
"""A column that every row with them has."""
LONGEST: Final = 1024
"""Steps of one env, the newest ones."""
MOST: Final = 2048
"""Transitions of a member; fewer envs, where they have more."""
Array = np.ndarray[Any, np.dtype[Any]]


@torch.no_grad()
def of_rollout(rollout: Rollout, elapsed: Tensor, env: VecEnv) -> dict[str, Tensor]:
    """One number per member, [M], by the full names of columns."""
    steps, envs = _choose_window(*rollout.reward.shape[1:])

    def take(part: Tensor | None) -> Array | None:
        return None if part is None else part[:, -steps:, :envs].cpu().numpy()

    looks = env.picture is not None or rollout.obs.dtype == torch.uint8
    return _measure_members(
        rollout.reward.device,
        env,
        obs=None if looks else take(rollout.obs),
        shown=None if looks else take(rollout.net_obs),
        action=take(_limit(rollout.action, env.action)),
        reward=take(rollout.reward),
        ended=take(rollout.over),
        terminated=take(rollout.terminated),
        valid=take(rollout.valid),
        age=take(elapsed),
    )


@torch.no_grad()
def of_replay(plan: off_policy.Plan, learner: off_policy.Learner, memory: Replay, env: VecEnv) -> dict[str, Tensor]:
    """The same for the newest transitions that are remembered."""
    steps, envs = _choose_window(memory.size // memory.shape.n_envs, memory.shape.n_envs)
    order = torch.stack([replay.newest(memory, number, steps) for number in range(envs)], 1)  # [T, N]
    table = memory.table[:, order.flatten().to(memory.table.device)].unflatten(1, order.shape)  # [M, T, N, W]

    def take(name: str) -> Tensor:
        return table[..., memory.cells[name]]

    def flag(name: str) -> Array:
        return take(name).squeeze(-1).cpu().numpy() > 0

    obs, action = take("obs") if "obs" in memory.cells else None, take("action")
    terminated, truncated = flag("terminated"), flag("truncated")
    return _measure_members(
        memory.table.device,
        env,
        obs=None if obs is None else obs.cpu().numpy(),
        shown=None if obs is None else off_policy.normalize_obs(plan, learner, obs).cpu().numpy(),
        action=(action.squeeze(-1) if env.action.kind == "discrete" else action).cpu().numpy(),
        reward=take("reward").squeeze(-1).cpu().numpy(),
        ended=terminated | truncated,
        terminated=terminated,
        valid=flag("valid") if "valid" in memory.cells else None,
    )


def of_episodes(recent: Sequence[Array]) -> dict[str, list[Any]]:
    """Cells of all members, from each one's last episodes, [episodes, (return, length, success)]."""
    found = [variance_shares.measure_episodes(episodes[:, 0], episodes[:, 1]) for episodes in recent]
    return {PREFIX + name: [numbers.get(name) for numbers in found] for name in variance_shares.OF_EPISODES}


def _choose_window(steps: int, envs: int) -> tuple[int, int]:
    steps = min(steps, LONGEST)
    return steps, min(envs, max(1, MOST // max(steps, 1)))


def _limit(action: Tensor, spec: ActionSpec) -> Tensor:
    """Actions as the environment takes them."""
    if spec.kind != "box" or spec.low is None or spec.high is None:
        return action
    low, high = (torch.as_tensor(bound, dtype=action.dtype, device=action.device) for bound in (spec.low, spec.high))
    return torch.minimum(torch.maximum(action, low), high)


def _measure_members(device: torch.device, env: VecEnv, **given: Array | None) -> dict[str, Tensor]:
    """Arrays [M, T, N, ...] by name -> one number per member; NaN where a member has none."""
    choices = env.action.sizes[0] if env.action.kind == "discrete" else None
    found = []
    for member in range(len(given["reward"])):  # type: ignore[arg-type]
        own: dict[str, Any] = {name: None if part is None else part[member] for name, part in given.items()}
        numbers = variance_shares.measure(
            own["obs"],
            own["action"],
            own["reward"],
            own["ended"],
            choices=choices,
            terminated=own["terminated"],
            valid=own["valid"],
            age=own.get("age"),
        )
        if own["shown"] is not None:
            width = own["obs"].shape[2:]
            shown, raw = (own[name].reshape(-1, *width) for name in ("shown", "obs"))
            numbers |= variance_shares.measure_scales(shown, raw, env.obs_low, env.obs_high)
        found.append(numbers)
    names = [name for name in NAMES if any(name in numbers for numbers in found)]
    return {
        PREFIX + name: torch.tensor([numbers.get(name, float("nan")) for numbers in found], dtype=torch.float64, device=device)
        for name in names
    }
