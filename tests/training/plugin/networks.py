"""The settings of networks; no torch here."""

from typing import ClassVar

from pydantic import Field

from rlclinic.config import EncoderSettings, Shape


class ResidualSettings(EncoderSettings):
    """Residual blocks."""

    implementation: ClassVar[str] = "tests.training.plugin.residual"
    width: Shape = Field(8, ge=2)
    """Units of each block."""
    blocks: Shape = Field(2, ge=1)
    """How many blocks follow each other."""


class MixingSettings(ResidualSettings):
    """Computes a member's features from all members."""

    implementation: ClassVar[str] = "tests.training.plugin.mixing"


class MissizedSettings(ResidualSettings):
    """Puts out another width than it says."""

    implementation: ClassVar[str] = "tests.training.plugin.missized"


class MissingSettings(ResidualSettings):
    """Names a module that is not there."""

    implementation: ClassVar[str] = "tests.training.plugin.nowhere"
