"""The numbers of a cohort's algorithm as tensors: what losses and updates call `hp`."""

from types import SimpleNamespace

from torch import Tensor


class Hyperparameters(SimpleNamespace):
    """Every number of the algorithm's settings by its name, [M, 1]: each member has its own. None where no member sets it.

    Below are those that training itself reads; an algorithm's own (`clip_range`, `tau`, …) are there under their names as well.
    """

    per_member: list[dict[str, float | None]]
    """The same numbers as the config has them, member by member."""
    learning_rate: Tensor
    value_lr: Tensor | None
    gamma: Tensor
    max_grad_norm: Tensor | None
    target_kl: Tensor | None
    clip_range_vf: Tensor | None
    step_size: Tensor
    """On-policy: the learning rate; [M, P] where the critic has its own."""
    pays_entropy: bool
    """On-policy: whether any member has an entropy bonus."""
    shortens_traces: bool
    """On-policy: whether any member's gae_lambda is not 1."""
    learns_temperature: bool
    """Off-policy: whether any member's ent_coef is learned."""
    going: list[bool] | None
    """Off-policy: who still trains; None: everybody."""
