"""Settings of a curriculum: easier versions of the task that are trained on first, or among others."""

import json
from typing import Annotated, Any, Final, Literal, NamedTuple, Self

from pydantic import AliasChoices, Field, model_validator

from rlclinic.actions import Change
from rlclinic.config.schema import Count, Real, Shape, Strict, refusal

__all__ = ["CurriculumConfig", "StageConfig", "Task"]

MOST_EVALUATED: Final = 16
"""Tasks up to which each is evaluated by itself, in columns of its own."""


class Task(NamedTuple):
    """One version of the environment."""

    name: str
    kwargs: dict[str, Any]
    """Arguments of the environment, over those of env.kwargs."""
    level: int | None = None
    """Where levels are the tasks: which one. A level is a fixed start: its number takes the place of the seed."""


class StageConfig(Strict):
    """One stage of a curriculum, e.g. `{name: small, env: {size: 5}, success_threshold: 0.8, min_episodes: 100}`."""

    name: str = Field(min_length=1, max_length=60)
    """What the stage is called."""
    env: dict[str, Any] = Field(validation_alias=AliasChoices("env", "env_config"))
    """Arguments of the environment in this stage, over those of env.kwargs. The last stage is the task itself."""
    success_threshold: Annotated[Real, Field(gt=0, lt=1)] = 0.8
    """The success rate that the stage is left at: when it is certainly reached (`confidence`), not seen once. Usual: 0.6-0.9."""
    min_episodes: Annotated[Count, Field(ge=1)] = 100
    """Episodes before the first decision. Usual: 50-1000."""


class CurriculumConfig(Strict):
    """Which versions of the task are trained on, and when. Evaluations are on the task itself (`env`), by its own reward."""

    kind: Literal["stages", "uniform", "learnability", "plr", "alp_gmm"] = "stages"
    """`stages`: one after the other, each until it is mastered. Among all tasks at once: `uniform`: each as often as the others (domain
    randomization, the control of any curriculum). `learnability`: those that succeed sometimes, by p(1 - p) (arXiv:2408.15099). `plr`:
    those whose values are most wrong (arXiv:2010.03934), on-policy only. `alp_gmm`: where success changes most (arXiv:1910.07224)."""
    stages: tuple[StageConfig, ...] = ()
    """The tasks as stages, the easiest first and the task itself last."""
    parameter: str | None = Field(None, min_length=1, max_length=60)
    """The tasks as values of one argument of the environment."""
    values: tuple[bool | int | float | str, ...] = ()
    """The values of `parameter`, the easiest first."""
    range: tuple[Real, Real] | None = None
    """The values of `parameter` as a range from easy to hard, cut into `bins`."""
    bins: Shape = Field(8, ge=2, le=32)
    """How many values of a `range` there are. Usual: 5-10."""
    levels: Annotated[Shape, Field(ge=2, le=10_000)] | None = None
    """The tasks as so many fixed starts (seeds) of the environment."""
    window: Shape = Field(100, ge=20, le=1000)
    """Episodes that a success rate is taken over. Usual: 50-200."""
    confidence: Real = Field(0.95, ge=0.5, lt=1)
    """How certain it must be that a stage is mastered: the chance that one below its threshold is never left, however many the looks."""
    rehearsal: Real = Field(0.15, ge=0, le=0.9)
    """Share of episodes in earlier stages, so that they are not forgotten. Usual: 0.1-0.2."""
    demote_below: Real = Field(0.5, ge=0, lt=1)
    """An earlier stage is forgotten when its success is certainly below this share of its threshold: the run goes back to it. 0: never.
    Needs rehearsal."""
    escape_after: Annotated[Real, Field(gt=0)] | None = None
    """Env steps after which a stage is left although it is not mastered; up to 1: a share of the budget. none: the budget divided by the
    number of stages, so that the task itself is trained on."""
    uniform_share: Real = Field(0.2, ge=0, le=1)
    """Kinds that choose among all tasks: the share of episodes that are drawn from all alike, so that no task is lost sight of."""
    success_return: Real | None = None
    """An episode with at least this return is a success, for environments that report none (`info["is_success"]`)."""
    eval_episodes: Shape = Field(20, ge=0, le=1000)
    """Episodes of each task at every evaluation (`val/stage/*`); 0: none. More than 16 tasks, or levels, are not evaluated one by one."""

    @property
    def tasks(self) -> tuple[Task, ...]:
        """All versions of the task, the easiest first."""
        if self.stages:
            return tuple(Task(stage.name, stage.env) for stage in self.stages)
        if self.parameter is not None:
            return tuple(Task(f"{self.parameter}={value}", {self.parameter: value}) for value in self._values())
        return tuple(Task(f"level {level}", {}, level) for level in range(self.levels or 0))

    @property
    def evaluates_tasks(self) -> bool:
        """Whether each task is evaluated by itself."""
        return self.levels is None and self.eval_episodes > 0 and len(self.tasks) <= MOST_EVALUATED

    def _values(self) -> tuple[Any, ...]:
        if self.range is None:
            return self.values
        low, high = self.range
        points = [low + (high - low) * place / (self.bins - 1) for place in range(self.bins)]
        # From 5 to 9 in three: 5, 7 and 9, as an argument that is a whole number takes them.
        return tuple(int(point) for point in points) if all(point.is_integer() for point in points) else tuple(points)

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = [name for name in ("stages", "parameter", "levels") if getattr(self, name) not in ((), None)]
        if len(given) != 1:
            both = " and ".join(f"curriculum.{name}" for name in given)
            raise refusal(
                f"curriculum has {both or 'no tasks'}: one of stages, parameter and levels says what they are.",
                "It would not be known what to train on.",
                "curriculum: {stages: [{name: easy, env: {difficulty: 0.1}}, {name: task, env: {difficulty: 1}}]}",
            )
        if self.kind == "stages" and not self.stages:
            raise refusal(
                f"curriculum.kind=stages, but curriculum.{given[0]} is no list of stages.",
                "There is no threshold at which one would go on to the next.",
                Change("curriculum.kind", "learnability"),
                ", or curriculum.stages",
            )
        if self.kind == "alp_gmm" and self.levels is not None:
            raise refusal(
                "curriculum.kind=alp_gmm, but levels are in no order.",
                "Neighbouring levels have nothing in common that a Gaussian could cover.",
                Change("curriculum.kind", "learnability"),
            )
        if self.parameter is not None and bool(self.values) == (self.range is not None):
            what = "values and range" if self.values else "neither values nor a range"
            raise refusal(
                f"curriculum.parameter={self.parameter} has {what}.",
                "It would not be known which versions of the task there are.",
                f"curriculum: {{parameter: {self.parameter}, values: [...]}}, or a range: [easy, hard]",
            )
        tasks = self.tasks
        versions = {json.dumps([task.kwargs, task.level], sort_keys=True, default=str) for task in tasks}
        if len(versions) < len(tasks) or len({task.name for task in tasks}) < len(tasks) or len(tasks) < 2:
            raise refusal(
                f"the tasks of the curriculum are {', '.join(task.name for task in tasks[:8])}: there must be two or more, all different.",
                "A stage could not be told from another one, in columns and reports.",
                "another name and other arguments (env) for each stage",
            )
        return self
