"""What an experiment between two causes is made of, before and after."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Kind = Literal["cures", "fork", "task", "noise", "critic", "baselines"]

_MODEL = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, defer_build=True)


class Arm(BaseModel):
    """One change, and the cause that predicts that it helps."""

    model_config = _MODEL

    name: str
    cause: str
    """Empty for the control."""
    changes: dict[str, Any]


class Experiment(BaseModel):
    """What would be trained, and what it would show."""

    model_config = _MODEL

    kind: Kind
    causes: tuple[str, str]
    """Ids of the two that are close."""
    titles: tuple[str, str]
    before: tuple[float, float]
    """Their probabilities."""
    question: str
    group: str
    arms: tuple[Arm, ...]
    seeds: tuple[int, ...]
    parents: tuple[str, ...] = ()
    """RUN@STEP for each seed, of a fork."""
    until_env_steps: int
    run_env_steps: int
    """Env steps that one of its runs takes."""
    config: dict[str, Any]

    @property
    def max_env_steps(self) -> int:
        """What it costs."""
        return len(self.arms) * len(self.seeds) * self.run_env_steps


class Reading(BaseModel):
    """What one arm showed."""

    model_config = _MODEL

    arm: str
    cause: str
    value: float | None
    control: float | None
    gain: float | None
    """In shares of the way from the first return to the threshold; of a task, the share that was mastered; of a critic alone, the
    share of the returns that it explains."""


class Probed(BaseModel):
    """An experiment that was made."""

    model_config = _MODEL

    id: str
    created: float
    experiment: Experiment
    readings: tuple[Reading, ...]
    after: tuple[float, float]
    gained: str
    """Id of the cause that gained; empty where nothing was shown."""
    text: str
    control_repeated: bool | None
    """Whether the control fork has the original's numbers; None without one."""
    used_env_steps: int
