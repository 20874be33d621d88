"""The settings of ppo_penalty and of the residual network. No torch here: configs are read where nothing is trained."""

from typing import ClassVar, Literal

from pydantic import Field

from rlclinic.config import EncoderSettings, Number, OnPolicySettings, Shape


class PPOPenaltyConfig(OnPolicySettings):
    """Policy gradient with a price on the change of the policy (Schulman et al. 2017, arXiv:1707.06347, eq. 8)."""

    implementation: ClassVar[str] = "rlclinic_ppo_penalty.ppo_penalty"
    name: Literal["ppo_penalty"] = "ppo_penalty"
    """The algorithm: ppo_penalty."""
    kl_coef: Number = Field(1.0, ge=0)
    """What a change of the policy costs, per unit of KL. Higher: smaller, safer steps. Usual: 0.5-10."""
    n_epochs: Shape = Field(10, ge=1)
    """Passes over each rollout. Usual: 3-20."""
    batch_size: Shape = Field(64, gt=0)
    """Rows of a minibatch. Usual: 32-512."""


class ResidualSettings(EncoderSettings):
    """Layer-normalized residual blocks before the fully connected layers (arXiv:1603.05027, with layer norm in place of batch norm)."""

    implementation: ClassVar[str] = "rlclinic_ppo_penalty.residual"
    width: Shape = Field(64, ge=2)
    """Units of each block. Usual: 64-256."""
    blocks: Shape = Field(2, ge=1)
    """How many blocks follow each other. Usual: 1-4."""
