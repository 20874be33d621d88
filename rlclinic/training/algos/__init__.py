"""Algorithms, one file each: losses as plain functions, and what drives them. `find` looks an algorithm up by name.

A module of one's own is declared through its settings' class (see rlclinic.config.algorithms), which names it in `implementation`. Nothing
else is needed: the `reference` engine differentiates its losses, for all members at once, with resumes, masks and sentinels as for ours.

Tensors have a leading axis M (members), B are rows of a batch; numbers `hp.<name>` are [M, 1], and every reduction keeps that axis.

**On-policy** (see `OnPolicyAlgorithm`; a2c.py is the shortest example):

- `advantages(config, rollout, reward, value, next_value, hp)`: advantage, value target and which rows count (None: all), [M, T, N] each;
- `loss(config, policy, params, batch, hp)`: the loss [M, 1] and readings by name. `policy`, `entropy` (minus the mean entropy) and `total`
  must be among them, [M, 1]; `value` and `log_ratio` (rows [M, B]) where there are such things.

**Off-policy** (see `OffPolicyAlgorithm`; td3.py and dqn.py are examples):

- `ACTIONS`, "discrete" or "box"; `ACTOR`, the network that acts; `TARGETS`, the networks that have a slow copy; `COLUMNS`, what `summarize`
  adds to a row of metrics.csv, under `train/`;
- `build_networks(config, obs_size, env)`: the networks by name: "q", or "actor" and "critic", and others;
- `act(plan, params, obs, action_mask, noise)`: what a trained policy does; `explore(…)`: what to do while training;
- `targets(…)` and `q_values(…)`: what Q-values should be, and what they are, [M, B]: for losses, and for sentinels;
- `update(plan, learner, batch, hp, active, noise)`: one gradient step of each network, by `off_policy.minimize` on its loss. Readings: `q`,
  `error` and `target` [M, B], `norm` [M, 1], and its own;
- `summarize(readings)`: the columns, [U, M], of readings over U gradient steps, [U, M, …].

**From recorded data** (`offline/`): as off-policy; `explore` only where it can go on in the environment (`data.then_online`).

Optional: `exploration_noise`, `acting_noise` and `update_noise` (see loops.off_policy for what is drawn without them), `follow_targets`
(targets that follow env steps), `scalars` (learned numbers beside the networks), `initialize` (first weights of one's own), `DRIFTS` (an
episode has a state of its own for `explore`, 0 at its start), `learning_copies` (of a network whose other copies stand still).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from torch import Tensor

from rlclinic.config import ALGORITHMS, Config
from rlclinic.training.algos.hyperparameters import Hyperparameters

if TYPE_CHECKING:
    from rlclinic.training.data import replay, rollouts
    from rlclinic.training.envs.base import VecEnv
    from rlclinic.training.loops.off_policy import Learner, Plan
    from rlclinic.training.nets.layout import Params
    from rlclinic.training.nets.mlp import ActorCritic
    from rlclinic.training.nets.q_nets import Net, Networks

Readings = dict[str, Tensor]
"""What a loss or an update says of itself by name, [M, 1] or rows [M, B]."""

SAME: Final = {
    "ddpg": "td3",
    "cal_ql": "cql",
    "safe_dagger": "dagger",
    "ensemble_dagger": "dagger",
    "thrifty_dagger": "dagger",
    "gail": "ppo",
    "airl": "ppo",
}
"""Algorithms that are another one with other settings, with a floor below its values, with another rule of when to ask, or with another
reward (training.imitation.adversarial)."""
MODULES: Final = {
    name: f"{__name__}.{'offline.' if model.loop == 'offline' else ''}{SAME.get(name, name)}" for name, model in ALGORITHMS.own.items()
}
"""Our own, each with its module."""


class OnPolicyAlgorithm(Protocol):
    """A module that learns from rollouts of the present policy."""

    def advantages(
        self, config: Any, rollout: "rollouts.Rollout", reward: Tensor, value: Tensor, next_value: Tensor, hp: Hyperparameters, /
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Advantage, value target and which rows count (None: all), [M, T, N] each."""
        ...

    def loss(
        self, config: Any, policy: "ActorCritic", params: "Params", batch: "rollouts.Batch", hp: Hyperparameters, /
    ) -> tuple[Tensor, Readings]:
        """The loss [M, 1] of every member and readings."""
        ...


class OffPolicyAlgorithm(Protocol):
    """A module that learns from a replay."""

    ACTIONS: str
    ACTOR: str
    TARGETS: tuple[str, ...]
    COLUMNS: tuple[str, ...]

    def build_networks(self, config: Config, obs_size: int, env: "VecEnv", /) -> "dict[str, Net]":
        """The networks by name."""
        ...

    def act(self, plan: "Plan", params: "Networks", obs: Tensor, action_mask: Tensor | None, noise: Tensor | None, /) -> Tensor:
        """What a trained policy does, [M, N] or [M, N, K] between -1 and 1; with noise, a sample."""
        ...

    def explore(
        self,
        plan: "Plan",
        params: "Networks",
        obs: Tensor,
        action_mask: Tensor | None,
        noise: Tensor,
        hp: Hyperparameters,
        drift: Tensor | None,
        /,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """What to do while training; which choices are not the best one (None: unknown); where drifting noise stands."""
        ...

    def targets(
        self,
        config: Any,
        params: "Networks",
        target_params: "Networks",
        batch: "replay.Batch",
        hp: Hyperparameters,
        noise: Tensor | None,
        /,
    ) -> Tensor:
        """What Q-values should be, [M, B]."""
        ...

    def q_values(self, config: Any, params: "Networks", batch: "replay.Batch", /) -> Tensor:
        """The Q-values of the batch's actions, [M, B]."""
        ...

    def update(
        self, plan: "Plan", learner: "Learner", batch: "replay.Batch", hp: Hyperparameters, active: Tensor | None, noise: Tensor | None, /
    ) -> Readings:
        """One gradient step, in place."""
        ...

    def summarize(self, readings: Readings, /) -> Readings:
        """Columns from readings over gradient steps."""
        ...


def find_on_policy(name: str) -> OnPolicyAlgorithm:
    """The module of an on-policy algorithm."""
    return cast(OnPolicyAlgorithm, _find(name))


def find_off_policy(name: str) -> OffPolicyAlgorithm:
    """The module of an algorithm with a replay."""
    return cast(OffPolicyAlgorithm, _find(name))


def _find(name: str) -> object:
    return import_module(MODULES[name] if name in MODULES else ALGORITHMS[name].implementation)  # type: ignore[union-attr]
