"""The settings; no torch here."""

from typing import ClassVar, Literal

from pydantic import Field

from rlclinic.config import Number, OffPolicySettings, OnPolicySettings


class PolicyGradientConfig(OnPolicySettings):
    """Policy gradient with an advantage that is squashed."""

    implementation: ClassVar[str] = "tests.training.plugin.policy_gradient"
    name: Literal["policy_gradient"] = "policy_gradient"
    """The algorithm: policy_gradient."""
    squash: Number = Field(2.0, gt=0)
    """The largest advantage that counts."""


class ConservativeConfig(OffPolicySettings):
    """Q-learning that stays below what it has not seen (arXiv:2006.04779)."""

    implementation: ClassVar[str] = "tests.training.plugin.conservative"
    name: Literal["conservative"] = "conservative"
    """The algorithm: conservative."""
    caution: Number = Field(0.1, ge=0)
    """Weight of the term that pulls down actions which were not taken."""
    epsilon: Number = Field(0.2, ge=0, le=1)
    """The share of random actions."""
