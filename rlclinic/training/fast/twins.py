"""Which algorithms have their gradients written out, and where."""

from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, cast

from torch import Tensor

from rlclinic.training.algos.hyperparameters import Hyperparameters

if TYPE_CHECKING:
    from rlclinic.training.data import replay, rollouts
    from rlclinic.training.fast.gradients import Slopes
    from rlclinic.training.loops.off_policy import Learner, Plan

_FAST: Final = __name__.rpartition(".")[0]
MODULES: Final = {
    **{name: f"{_FAST}.{name}" for name in ("ppo", "dqn", "td3", "sac")},
    **{name: f"{_FAST}.offline.{name}" for name in ("iql", "td3_bc")},
    "a2c": f"{_FAST}.policy_gradient",
    "reinforce": f"{_FAST}.policy_gradient",
    "a3c": f"{_FAST}.policy_gradient",
    "impala": f"{_FAST}.policy_gradient",
    "appo": f"{_FAST}.ppo",
    "gail": f"{_FAST}.ppo",
    "airl": f"{_FAST}.ppo",
    "ddpg": f"{_FAST}.td3",
    # A table's update is no gradient: the definition is all there is.
    "q_learning": "rlclinic.training.algos.q_learning",
}


class OnPolicyTwin(Protocol):
    """The derivatives of an on-policy algorithm's loss."""

    def slopes(
        self, log_prob: Tensor, entropy: Tensor, value: Tensor, batch: "rollouts.Batch", hp: Hyperparameters, /
    ) -> "tuple[Slopes, dict[str, Tensor]]":
        """By each row's log-probability, value and entropy; and the loss's readings."""
        ...


class OffPolicyTwin(Protocol):
    """The update of an algorithm with a replay, with gradients by hand. What else a module may offer is looked up where it is used."""

    def update(
        self, plan: "Plan", learner: "Learner", batch: "replay.Batch", hp: Hyperparameters, active: Tensor | None, noise: Tensor | None, /
    ) -> dict[str, Tensor]:
        """One gradient step, in place."""
        ...


def find_on_policy(algorithm: str) -> OnPolicyTwin | None:
    """The module with an on-policy algorithm's gradients by hand; None: it has none, and its loss is differentiated."""
    return cast(OnPolicyTwin, import_module(MODULES[algorithm])) if algorithm in MODULES else None


def find_off_policy(algorithm: str) -> OffPolicyTwin | None:
    """The same of an algorithm with a replay."""
    return cast(OffPolicyTwin, import_module(MODULES[algorithm])) if algorithm in MODULES else None
