"""Which task is trained on, how it is presented to the agent, what counts as solving it, and easier versions to train on first."""

import json
from typing import Annotated, Any, Final, Literal, NamedTuple, Self

from pydantic import AliasChoices, Field, PrivateAttr, model_serializer, model_validator

from rlclinic.actions import Change
from rlclinic.config.schema import Count, Kind, Real, Shape, Strict, refusal

__all__ = ["CurriculumConfig", "EnvConfig", "Spec", "StageConfig", "Task", "Wrapper"]

ATARI_FRAME_SKIP: Final = 4

InfoName = Annotated[str, Field(pattern=r"^[\w.+-]{1,40}$")]
"""The name of a number in `info`: it becomes a part of a column's name."""


class Spec(Strict):
    """What is known about the task itself; nothing here changes what the agent sees."""

    description: str = ""
    """What the task is, in a sentence."""
    threshold: Real | None = None
    """The mean evaluation return at which the task counts as solved; none: there is no such number, and verdicts say so."""
    # Left out where it is not set: settings from before it was one stay the same, letter by letter, and so do their fingerprints.
    success: Annotated[Real, Field(ge=0, le=1)] | None = Field(None, exclude_if=lambda share: share is None)
    """The share of evaluation episodes that must succeed, by `info["is_success"]` or `info["success"]`, for the task to count as solved;
    with a threshold, both are required. None: 0.9 where the environment reports success. 0: success is not required."""
    return_range: tuple[Real, Real] | None = None
    """The lowest and the highest possible return of an episode, for plots and for telling how far a run got."""
    max_episode_steps: Annotated[Count, Field(ge=1)] | None = None
    """The task's usual time limit in steps, for information; `env.max_episode_steps` sets another one."""
    step_microseconds: Annotated[Real, Field(gt=0)] | None = None
    """What a step of one copy takes a core, about: where it is long and cores are idle, `train` sets `env.workers`."""
    source: str = ""
    """Where the task is documented."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.return_range is not None:
            low, high = self.return_range
            if low >= high:
                raise refusal(
                    f"return_range=[{low:g}, {high:g}] does not rise.",
                    "Gaps to the threshold and plots would be upside down.",
                    f"spec: {{return_range: [{high:g}, {low:g}]}}",
                )
            if self.threshold is not None and not low <= self.threshold <= high:
                raise refusal(
                    f"threshold={self.threshold:g} lies outside return_range=[{low:g}, {high:g}].",
                    "Either no run could reach it, or every run would.",
                    Change("spec.threshold", min(max(self.threshold, low), high)),
                    ", or correct spec.return_range",
                )
        return self


class Wrapper(Strict):
    """One wrapper around the environment, e.g. `{id: RescaleAction, min_action: -1, max_action: 1}`."""

    id: str = Field(min_length=1)
    """`module:Class`, or the name of a class in gymnasium.wrappers."""
    kwargs: dict[str, Any] = Field(default_factory=dict)
    """Its arguments; they may also stand beside `id`."""

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"id": value}
        if isinstance(value, dict):
            beside = {key: item for key, item in value.items() if key not in ("id", "kwargs")}
            named = {key: item for key, item in value.items() if key in ("id", "kwargs")}
            return {**named, "kwargs": {**named.get("kwargs", {}), **beside}} if beside else named
        return value

    @model_serializer
    def _flat(self) -> dict[str, Any]:
        clash = {"id", "kwargs"} & set(self.kwargs)
        return {"id": self.id, "kwargs": self.kwargs} if clash else {"id": self.id, **self.kwargs}


class EnvConfig(Strict):
    """The environment as the agent meets it: how many copies, which wrappers, which normalization."""

    id: str = Field(min_length=1)
    """A Gymnasium id (`CartPole-v1`), `module:Id-v0` for one that a module registers, `module:MyEnv` or `path/to/file.py:MyEnv` for a
    class of your own (or a function that makes one), `ALE/Pong-v5` for Atari games (stepped and preprocessed by ALE's own vector
    environment unless wrappers are given), or `probe:1` to `probe:5`."""
    n_envs: Shape = Field(8, ge=1)
    """Copies stepped side by side. More gives less correlated data and faster steps, but longer between updates
    at the same n_steps. Usual: 4-32."""
    kwargs: dict[str, Any] = Field(default_factory=dict)
    """Arguments for the environment's constructor, e.g. `{is_slippery: false}`."""
    wrappers: tuple[Wrapper, ...] = ()
    """Wrappers from the inside out. Rewards that a wrapper changes are also what the threshold is compared with."""
    max_episode_steps: Annotated[Shape, Field(ge=1)] | None = None
    """Another time limit than the registered one. Shorter gives more restarts and hides what happens later."""
    frame_stack: Shape = Field(1, ge=1)
    """Observations shown together, the newest last. More than 1 lets the agent see velocities. Usual: 1; 4 for images."""
    time_in_obs: Annotated[bool, Kind.SHAPE] = False
    """Append the share of the time limit that has passed. Helps where the best action or the value depends on the
    time left (arXiv:1712.00378); needs a time limit."""
    normalize_obs: Annotated[bool, Kind.SHAPE] = False
    """Subtract the running mean of the observations and divide by their deviation. On when components differ in
    scale by more than about 10; off when they are already near [-1, 1] or one-hot. Images are left as they are: the network divides
    bytes by 255."""
    normalize_reward: Annotated[bool, Kind.SHAPE] = False
    """Divide rewards by the deviation of the discounted return. On when returns are far from 1-100: it keeps the value loss
    from swamping the policy's gradient. Reported returns are always the raw ones."""
    clip_obs: Real = Field(10.0, gt=0)
    """Normalized observations are cut to plus and minus this. Lower guards against outliers. Usual: 5-10."""
    clip_reward: Real = Field(10.0, gt=0)
    """Normalized rewards are cut to plus and minus this. Lower hides rare large rewards. Usual: 5-10."""
    clip_raw_reward: Annotated[Real, Field(gt=0)] | None = None
    """Rewards are cut to plus and minus this before anything is learned from them; none: they are not. 1 makes one setting fit all Atari
    games, and a reward of 7 as good as one of 1. Reported returns are always the raw ones. Usual: none; 1 for Atari."""
    reward_scale: Annotated[Real, Field(allow_inf_nan=False)] = 1.0
    """Factor of every reward, in training and in evaluation: returns and thresholds are in the new unit. -1 turns around a reward whose
    sign is wrong. Usual: 1."""
    train_reward_scale: Annotated[Real, Field(allow_inf_nan=False)] = 1.0
    """Factor of the rewards that are learned from; reported returns stay raw. -1 turns around a sign that is wrong in the training
    environments only. Usual: 1."""
    train_reward_shift: Annotated[Real, Field(allow_inf_nan=False)] = 0.0
    """Added to every reward that is learned from, after the factor; reported returns stay raw. Takes a constant out that makes it pay to
    end episodes early, or never. Usual: 0."""
    frame_skip: Annotated[Shape, Field(ge=1)] | None = None
    """Atari: frames that an action is held for; one env step is so many frames. More plays faster and reacts later. none: 4."""
    sticky_actions: Annotated[Real, Field(ge=0, lt=1)] | None = None
    """Atari: chance that a frame repeats the action before instead (arXiv:1709.06009); above 0 a game cannot be learned by heart.
    none: 0.25, as the v5 environments say; 0 is what older results used."""
    noop_max: Count = Field(30, ge=0)
    """Atari: a game begins with up to so many frames of doing nothing, for different starts. Usual: 30."""
    fire_reset: Annotated[bool, Kind.SHAPE] = True
    """Atari: press FIRE at the start of a game and of every life, where the game knows that button. Without it an agent must find out
    by itself that nothing moves before. Usual: true."""
    episodic_life: Annotated[bool, Kind.SHAPE] = False
    """Atari: a lost life ends the episode for learning, while the game goes on. Faster where lives can be lost; it hides that lives are
    few. Returns and evaluations are always of whole games. Usual: true for training with few frames."""
    action_mask: Annotated[bool, Kind.SHAPE] = False
    """Read `info["action_mask"]` and never choose a masked action. On where the environment reports invalid actions."""
    native: Literal["auto", "never", "always"] = "auto"
    """Whether our batched torch version is stepped: `auto` where there is one for this id, kwargs and wrappers; `never` forces
    Gymnasium's own; `always` refuses to start without one. Native steps all copies at once and resumes bit for bit."""
    workers: Count = Field(0, ge=0)
    """Processes that step Gymnasium environments; 0 steps them in the training process. More pays only where a step is slow and a core
    idle, as each costs a message there and back; `train` sets it there, unless it is given. For Atari: threads of ALE's. At most n_envs.
    Usual: 0."""

    # Left out where it is not set, as spec.success is: fingerprints of settings from before it stay the same.
    step_timeout: Annotated[Real, Field(gt=0)] | None = Field(None, exclude_if=lambda seconds: seconds is None)
    """Seconds after which a call to an environment that has not come back ends: its worker process is killed, or the run ends, with the
    last checkpoint intact. none: status and log say that it hangs after 60 s, and it may go on. Usual: none; far above the slowest step."""

    log_info: Annotated[tuple[InfoName, ...], Kind.SHAPE] = Field((), exclude_if=lambda names: not names)
    """Numbers of the environment's `info` to log, e.g. `[progress, costs.crash]` (`info["costs"]["crash"]`): for each the mean over an
    episode and its last value, as `train/info/NAME/mean` and `train/info/NAME/last`, over the last 100 episodes. Not for natively stepped
    environments."""
    log_terms: Annotated[tuple[InfoName, ...] | None, Kind.SHAPE] = Field(None, exclude_if=lambda names: names is None)
    """Terms of `info["reward_terms"]` to log, as `train/terms/NAME/return` (sum over an episode) and `train/terms/NAME/share` (of the
    sizes of all). none: those that an environment of your own reports in its first
    steps (a function that makes one is not called once more for that); []: none of them."""

    term_advantages: Annotated[bool, Kind.SHAPE] = Field(False, exclude_if=lambda asked: not asked)
    """Log which term of `info["reward_terms"]` decides what is reinforced, as `train/terms/NAME/advantage`: its part of the advantages that
    are learned from. With all else, `train/terms_beyond/advantage`, they sum to 1. On-policy, not stepped natively. Usual: true while a
    reward is made."""
    term_weights: dict[InfoName, Real] = Field(default_factory=dict, exclude_if=lambda weights: not weights)
    """Factors of terms of `info["reward_terms"]` in the reward that is learned from, e.g. `{safety: 2}`: the rest stays, and so do
    evaluations. What each matters: `rlclinic sensitivity --terms`. Not for natively stepped environments. Usual: none."""
    _step_info: tuple[str, ...] = PrivateAttr(())

    @property
    def step_info(self) -> tuple[str, ...]:
        """What training reads of every step's info: the cost, terms of the reward."""
        return self._step_info

    def reading(self, names: tuple[str, ...]) -> "EnvConfig":
        """The same, of whose steps these numbers are read."""
        made = self.model_copy()
        made._step_info = names
        return made

    @property
    def atari(self) -> bool:
        """Whether it is an Atari game of the Arcade Learning Environment."""
        return self.id.startswith("ALE/")

    @property
    def frames_per_step(self) -> int | None:
        """Frames of an Atari game that one env step takes; None where frames are no unit that anybody counts."""
        return (self.frame_skip or ATARI_FRAME_SKIP) if self.atari else None

    @model_validator(mode="after")
    def _check(self) -> Self:
        foreign = [name for name in ("frame_skip", "sticky_actions", "episodic_life") if getattr(self, name)]
        if foreign and not self.atari:
            raise refusal(
                f"{foreign[0]}={getattr(self, foreign[0])} has no meaning for {self.id}.",
                "It is a setting of Atari games (ALE/...), and would be ignored.",
                Change(f"env.{foreign[0]}", False if foreign[0] == "episodic_life" else None),
            )
        if self.workers > self.n_envs:
            raise refusal(
                f"workers={self.workers} is more than n_envs={self.n_envs}.",
                "Some processes would have nothing to step.",
                Change("env.workers", self.n_envs),
            )
        if self.term_weights and self.log_terms is not None and (unknown := sorted(set(self.term_weights) - set(self.log_terms))):
            raise refusal(
                f"term_weights names {unknown[0]}, which is none of the terms {', '.join(self.log_terms) or '(there are none)'}.",
                "It would weigh nothing.",
                Change("env.term_weights", dict.fromkeys(self.log_terms, 1.0)),
            )
        if self.native == "always" and (self.wrappers or self.workers):
            extra = "wrappers" if self.wrappers else "workers"
            raise refusal(
                f"native=always cannot go with {extra}.",
                "Only Gymnasium environments have them, so there would be no native version to step.",
                Change("env.native", "auto"),
            )
        return self


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
    """Arguments of the environment in this stage, over those of env.kwargs. The last stage is the task itself: what it alone names has
    the environment's own default in the others."""
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
