"""What can be had without learning: by a policy that knows nothing, and by one written by hand where the task has one."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlclinic.config import Config
from rlclinic.errors import RlclinicError
from rlclinic.training import envs, evaluation, rng
from rlclinic.training.envs.base import EVALUATION_SEED, VecEnv
from rlclinic.training.envs.examine import scripts
from rlclinic.training.maths import distributions

NAMES: Final = ("random_return", "random_return_std", "random_length", "scripted_return")
EPISODES: Final = 20
LONGEST: Final = 2_000
"""Steps after which an episode counts as it stands: at random, a task without a time limit may go on for ever."""


MOST_CONSTANTS: Final = 6
"""Policies that always do the same: of more discrete actions, some spread over all."""


@dataclass(frozen=True)
class Played:
    """Returns of several policies, by name, and the env steps that it took."""

    returns: dict[str, NDArray[np.float64]]
    env_steps: int


@torch.no_grad()
def policies(config: Config) -> Played:
    """Play an environment at random, with policies that always do the same, and by hand where the task has a script.

    RlclinicError if the environment cannot be made; policies under which it breaks are left out.
    """
    env = envs.make(config.env.model_copy(update={"workers": 0}), [EVALUATION_SEED], EPISODES, evaluation=True)
    try:
        actors: dict[str, evaluation.Actor] = {"random": lambda obs, mask, t: uniform(env, mask, t, obs.device)}
        actors |= {name: _always(action) for name, action in _constants(env).items()}
        returns, taken = {}, 0
        for name, act in actors.items():
            found = evaluation.play(env, act, [True], LONGEST)
            if env.failures:
                break
            returns[name], taken = found.returns[0].copy(), taken + int(found.lengths.sum())
        if not env.failures and (by_hand := scripted(config, env)):
            returns["by hand"] = np.full(1, by_hand["scripted_return"])
        return Played(returns, taken)
    finally:
        env.close()


def _always(action: Tensor) -> evaluation.Actor:
    return lambda obs, mask, t: action.to(obs.device)


def _constants(env: VecEnv) -> dict[str, Tensor]:
    """Actions [1, N] that never change: every discrete one, or the lower end, the middle and the upper end of a bounded box."""
    if env.action.kind == "discrete":
        count = env.action.sizes[0]
        chosen = range(count) if count <= MOST_CONSTANTS else np.unique(np.linspace(0, count - 1, MOST_CONSTANTS).round().astype(int))
        return {f"always {action}": torch.full((1, env.n_envs), int(action)) for action in chosen}
    if env.action.low is None or env.action.high is None or not np.isfinite([env.action.low, env.action.high]).all():
        return {}
    low, high = (torch.as_tensor(bound, dtype=torch.float32) for bound in (env.action.low, env.action.high))
    ends = {"always lowest": low, "always middle": (low + high) / 2, "always highest": high}
    return {name: value.expand(1, env.n_envs, *value.shape).clone() for name, value in ends.items()}


@torch.no_grad()
def measure(config: Config, *, native: bool, factory: Any = None) -> dict[str, float]:
    """Return and length of a uniformly random policy from the evaluation starts; empty where the environment fails.

    On environments of its own, with randomness of its own: nothing that training or evaluation does can change by it. The same
    for every seed and device, so that a cohort measures it once, on the CPU. Gymnasium's environments are played only where the run
    evaluates at all.
    """
    episodes = EPISODES if native else config.run.eval_episodes
    if not episodes:
        return {}
    settings = config.env.model_copy(update={"workers": 0})
    try:
        env = envs.make(settings, [EVALUATION_SEED], episodes, evaluation=True, factory=factory)
    except RlclinicError:
        return {}  # training's own environments say what is wrong, where it matters
    try:
        found = evaluation.play(env, lambda obs, mask, t: uniform(env, mask, t, obs.device), [True], LONGEST)
        by_hand = scripted(config, env) if factory is None else {}
        if env.failures:
            return {}
        return {
            "random_return": float(found.returns.mean()),
            "random_return_std": float(found.returns.std()),
            "random_length": float(found.lengths.mean()),
            **by_hand,
        }
    finally:
        env.close()


def scripted(config: Config, env: VecEnv) -> dict[str, float]:
    """Return of the hand-written policy, where the task has one and is shown as it is: no wrapper, no stack, no other settings."""
    script, task = scripts.script_for(config.env.id), config.env
    if script is None or task.wrappers or task.kwargs or task.frame_stack > 1 or task.time_in_obs or len(env.obs_shape) != 1:
        return {}
    one_hot = bool((np.asarray(env.obs_low) == 0).all() and (np.asarray(env.obs_high) == 1).all())

    def act(obs: Tensor, mask: Tensor | None, t: int) -> Tensor:
        # A state of a table is shown as a one-hot vector; the script counts states.
        rows = obs[0].cpu().numpy()
        chosen = np.stack([script(row, t) for row in (rows.argmax(-1) if one_hot else rows)])
        return torch.as_tensor(chosen, device=obs.device).unsqueeze(0)

    return {"scripted_return": float(evaluation.play(env, act, [True], LONGEST).returns.mean())}


def uniform(env: VecEnv, mask: Tensor | None, t: int, device: torch.device) -> Tensor:
    """Actions [1, N] of which every allowed one is as likely; on a side without a bound, a normal one."""
    distribution = distributions.of(env.action)
    seed = torch.full((1, 1), EVALUATION_SEED, device=device)
    index = torch.arange(env.n_envs, device=device).view(1, -1)
    noise = distribution.noise(seed, t, index)
    if env.action.kind != "box":
        dist = torch.zeros(1, env.n_envs, distribution.outputs(False), device=device)
        return distribution.sample(dist if mask is None else distributions.forbid(distribution, dist, mask), noise)
    low, high = (torch.as_tensor(bound, dtype=torch.float32, device=device) for bound in (env.action.low, env.action.high))
    share = rng.uniform(seed.unsqueeze(-1), rng.EXPLORATION, t, index.unsqueeze(-1), torch.arange(distribution.size, device=device))
    return torch.where(torch.isfinite(low) & torch.isfinite(high), low + share * (high - low), noise)
