"""The whole config of a run, and what its parts must agree on."""

from collections.abc import Iterator
from math import ceil, gcd
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import Field, WrapSerializer, WrapValidator, model_validator

from rlclinic.actions import Change, join_lines
from rlclinic.config.algorithms import (
    ADVERSARIAL,
    ALGORITHMS,
    DATA_PARALLEL,
    AlgoConfig,
    OffPolicyConfig,
    OwnAlgoConfig,
    PPOConfig,
    dump_algorithm,
    numbers,
    read_algorithm,
)
from rlclinic.config.data import DataConfig
from rlclinic.config.environment import CurriculumConfig, EnvConfig, Spec
from rlclinic.config.network import NetConfig
from rlclinic.config.off_policy import STRETCH_ENV_STEPS
from rlclinic.config.offline import DTConfig, OfflineSettings, RLPDConfig
from rlclinic.config.reward_settings import BonusConfig, CostConfig
from rlclinic.config.run import RunConfig
from rlclinic.config.schedule import Schedule, to_env_steps
from rlclinic.config.schema import Count, Refusal, Strict

__all__ = ["Config", "StepUnit", "describe"]

# The learning rate is the one number whose effect the KL divergence measures.
StepUnit = Literal["env steps", "gradient steps", "gradient and env steps"]
Problem = tuple[str, ...]
"""What is wrong, what it would cause and what to do, as parts of an error."""
MOST_TRIED: Final = 1_000_000
"""Numbers that are tried for one that fits better."""
_KL_STEERED: Final = ("learning_rate", "value_lr")

if TYPE_CHECKING:
    Algorithm = AlgoConfig
else:
    # The schema lists our own algorithms; those of other packages are read by name (see algorithms).
    Algorithm = Annotated[
        Annotated[OwnAlgoConfig, Field(discriminator="name")],
        WrapValidator(read_algorithm),
        WrapSerializer(lambda value, dump, info: dump_algorithm(value, dump, info.mode)),
    ]


class Config(Strict):
    """What a run is asked to do, complete: two runs with equal configs are the same run."""

    name: str = Field("", max_length=200)
    """What the config is called: `<environment>:<variant>` for one that was loaded from a file."""
    spec: Spec = Spec()
    """What is known about the task: threshold, range of returns."""
    env: EnvConfig
    """The environment as the agent meets it."""
    algo: Algorithm = PPOConfig()
    """The algorithm and its settings."""
    net: NetConfig = NetConfig()
    """The networks."""
    data: DataConfig | None = Field(None, exclude_if=lambda data: data is None)
    """Recorded transitions to learn from, by algorithms that do (bc); left out otherwise."""
    # Left out where there is none: settings from before it stay the same, letter by letter, and so do their fingerprints.
    bonus: BonusConfig | None = Field(None, exclude_if=lambda bonus: bonus is None)
    """A bonus for what is new, paid while training; none: the task's reward alone."""
    cost: CostConfig | None = Field(None, exclude_if=lambda cost: cost is None)
    """A limit on what an episode may cost, kept beside the reward; none: costs are not looked at."""
    curriculum: CurriculumConfig | None = Field(None, exclude_if=lambda curriculum: curriculum is None)
    """Easier versions of the task, trained on first or among others; none: the task itself alone."""
    run: RunConfig = RunConfig()
    """Budget, evaluation, checkpoints, machine."""
    seed: Count = Field(0, ge=0, lt=2**63)
    """Decides every random number of the run. `--seeds N` trains seed ... seed + N - 1. Any whole number from 0."""

    @property
    def offline(self) -> bool:
        """Whether it learns from recorded data: what is called env steps elsewhere is then gradient steps, up to `online_from`."""
        return self.algo.loop == "offline"

    @property
    def online_from(self) -> int | None:
        """The step at which an algorithm that learns from recorded data begins to act, at the end of an iteration; None: it never does."""
        if not isinstance(self.algo, OfflineSettings) or self.data is None or not self.data.then_online:
            return None
        wanted = self.algo.offline_steps if self.data.offline_steps is None else self.data.offline_steps
        return ceil(wanted / self.rollout_size) * self.rollout_size

    @property
    def step_unit(self) -> StepUnit:
        """What run.max_env_steps and every curve of it count, in words."""
        if not self.offline or self.online_from == 0:
            return "env steps"
        return "gradient steps" if self.online_from is None else "gradient and env steps"

    @property
    def rollout_size(self) -> int:
        """Env steps of an iteration: n_envs x n_steps; with a replay, as many cycles (n_envs x train_freq) as fit into 100.

        Offline: 100 gradient steps.
        """
        return self.cycles * self.cycle_size

    @property
    def cycle_size(self) -> int:
        """Transitions collected between two updates; offline, where none are, 1."""
        if self.offline and not (self.data is not None and self.data.then_online):
            return 1
        steps = self.algo.train_freq if isinstance(self.algo, OffPolicyConfig) else self.algo.n_steps
        return self.env.n_envs * steps

    @property
    def cycles(self) -> int:
        """Cycles of collecting and learning in an iteration."""
        together = isinstance(self.algo, OffPolicyConfig) and self.algo.loop != "imitation"  # a round of imitation is an iteration
        return max(1, STRETCH_ENV_STEPS // self.cycle_size) if together else 1

    @property
    def updates_per_cycle(self) -> int:
        """Gradient steps that follow each turn of an algorithm with a replay."""
        if not isinstance(self.algo, OffPolicyConfig):
            raise TypeError(f"{self.algo.name} has no replay")
        if isinstance(self.algo, OfflineSettings) and self.data is not None and self.data.then_online:
            return self.cycle_size * (self.data.updates_per_step or self.algo.updates_per_step)
        return self.cycle_size if self.algo.gradient_steps == -1 else self.algo.gradient_steps

    @property
    def replay_rows(self) -> int:
        """Transitions that the replay of one run holds: whole rows of n_envs, and no more than the budget can fill."""
        if not isinstance(self.algo, OffPolicyConfig):
            raise TypeError(f"{self.algo.name} has no replay")
        if not self.algo.batch_size:  # a table, which learns from a cycle's steps once
            return self.cycle_size
        wanted = min(self.algo.buffer_size, self.iterations * self.rollout_size)
        if self.online_from is not None:
            wanted = max(self.iterations * self.rollout_size - self.online_from, 1)  # beside recorded data nothing new is forgotten
        return max(1, wanted // self.env.n_envs) * self.env.n_envs

    @property
    def batch_rows(self) -> int:
        """Rows of a minibatch, with a fractional batch_size resolved; A2C and REINFORCE take the whole rollout."""
        if isinstance(self.algo, OffPolicyConfig):
            return self.algo.batch_size or self.cycle_size
        size = getattr(self.algo, "batch_size", 1)
        return max(1, round(size * self.rollout_size)) if size <= 1 else int(size)

    @property
    def cores(self) -> int:
        """CPU cores that a training process keeps busy, with the ranks or the workers of environments that it starts."""
        return max(self.run.cores, self.env.workers)

    @property
    def iterations(self) -> int:
        """Rollouts in the budget; the last one is finished, so a run may take a few env steps more than its budget."""
        return ceil(self.run.max_env_steps / self.rollout_size)

    @model_validator(mode="before")
    @classmethod
    def _aim_at_the_last_stage(cls, given: Any) -> Any:
        """The last stage is the task: what it says of the environment is what evaluations, films and training without stages meet."""
        if not isinstance(given, dict) or not given.get("curriculum") or not given.get("env"):
            return given
        section, env = given["curriculum"], given["env"]
        stages = section.stages if isinstance(section, CurriculumConfig) else section.get("stages") if isinstance(section, dict) else ()
        last = stages[-1] if isinstance(stages, list | tuple) and stages else None
        wanted = (last.get("env", last.get("env_config")) if isinstance(last, dict) else getattr(last, "env", None)) or {}
        if not isinstance(wanted, dict):
            return given  # said where stages are checked
        if isinstance(env, EnvConfig):
            return {**given, "env": env.model_copy(update={"kwargs": {**wanted, **env.kwargs}})}
        if isinstance(env, dict) and isinstance(env.get("kwargs", {}), dict):
            return {**given, "env": {**env, "kwargs": {**wanted, **env.get("kwargs", {})}}}
        return given

    @model_validator(mode="after")
    def _check(self) -> Self:
        problems = [
            *_batch_problems(self),
            *_budget_problems(self),
            *_replay_problems(self),
            *_schedule_problems(self),
            *_combination_problems(self),
            *_bonus_problems(self),
            *_cost_problems(self),
            *_online_problems(self),
            *_curriculum_problems(self),
            *_actor_problems(self),
            *_parallel_problems(self),
        ]
        if problems:
            raise Refusal(*join_lines(problems))
        return self


def _actor_problems(config: Config) -> Iterator[Problem]:
    actors = getattr(config.algo, "n_actors", 0)
    if actors and config.curriculum is not None:
        yield (
            f"curriculum with algo.n_actors={actors}.\n"
            "  Who chooses the next task would have to sit with the environments, which are with the actors.\n  Try: ",
            Change("algo.n_actors", 0),
            ", or ",
            Change("algo.name", "ppo"),
        )
    if actors and config.env.term_weights:
        yield (
            f"env.term_weights with algo.n_actors={actors}.\n  Actors send rewards as their environments pay them.\n  Try: ",
            Change("env.term_weights", None),
        )


def _parallel_problems(config: Config) -> Iterator[Problem]:
    ranks, alone = config.run.data_parallel, Change("run.data_parallel", 1)
    if ranks == 1:
        return
    if config.algo.name not in DATA_PARALLEL:
        yield (
            f"run.data_parallel={ranks} with {config.algo.name}.\n"
            f"  Its gradients are not averaged over processes: only those of {' and '.join(DATA_PARALLEL)} are.\n  Try: ",
            alone,
            ", or ",
            Change("algo.name", "ppo"),
        )
        return
    for section, what in (("bonus", "counts what is new"), ("curriculum", "chooses the next task"), ("cost", "weighs costs")):
        if getattr(config, section) is not None:
            yield (
                f"{section} with run.data_parallel={ranks}.\n  Who {what} would have to see all environments at every step.\n  Try: ",
                alone,
            )
    if config.env.n_envs % ranks:
        yield (
            f"run.data_parallel={ranks} does not divide env.n_envs={config.env.n_envs}.\n"
            "  Some ranks would step more environments than others, which would wait for them at every step.\n  Try: ",
            Change("env.n_envs", max(1, round(config.env.n_envs / ranks)) * ranks),
            ", or ",
            alone,
        )
    elif config.batch_rows % ranks:
        yield (
            f"run.data_parallel={ranks} does not divide minibatches of {config.batch_rows} rows.\n"
            "  Ranks would have uneven shares of every gradient.\n  Try: ",
            Change("algo.batch_size", _nearest_divisor(config.rollout_size // ranks, max(1, config.batch_rows // ranks)) * ranks),
            ", or ",
            alone,
        )
    if config.run.engine in ("compiled", "captured"):
        yield (
            f"run.engine={config.run.engine} with run.data_parallel={ranks}.\n"
            "  A compiled step takes gradient and optimizer in one; ranks average in between.\n  Try: ",
            Change("run.engine", "eager"),
        )
    for shared in ("shard_optimizer", "shard_weights") if config.algo.optimizer == "lamb" else ():
        if not getattr(config.run, shared):
            continue
        yield (
            f"run.{shared} with algo.optimizer=lamb.\n"
            "  LAMB scales every layer by its own norm, and a share of the weights cuts layers in two.\n  Try: ",
            Change(f"run.{shared}", False),
            ", or ",
            Change("algo.optimizer", "adamw"),
        )


def _batch_problems(config: Config) -> Iterator[Problem]:
    if isinstance(config.algo, OffPolicyConfig) or not hasattr(config.algo, "batch_size"):
        return
    batch, rollout = config.batch_rows, config.rollout_size
    size = f"the rollout of {rollout} transitions (n_envs={config.env.n_envs} x n_steps={config.algo.n_steps})"
    if batch > rollout:
        yield (
            f"algo.batch_size={batch} is more than {size}.\n  No minibatch could be filled.\n  Try: ",
            Change("algo.batch_size", rollout),
            ", or ",
            Change("algo.n_steps", ceil(batch / config.env.n_envs)),
        )
    elif rollout % batch:
        given = f"{config.algo.batch_size}" + (f" ({batch} rows)" if config.algo.batch_size <= 1 else "")
        yield (
            f"algo.batch_size={given} does not divide {size}.\n"
            f"  Each epoch would end on a minibatch of {rollout % batch} that takes a full-size step.\n  Try: ",
            Change("algo.batch_size", _nearest_divisor(rollout, batch)),
        )
    elif batch == 1 and config.algo.normalize_advantage == "batch":
        yield (
            "algo.batch_size gives minibatches of one row, with algo.normalize_advantage=batch.\n"
            "  One advantage has no deviation to divide by: every update would be zero or not a number.\n  Try: ",
            Change("algo.normalize_advantage", "rollout"),
            ", or a larger batch_size",
        )
    if isinstance(config.algo, PPOConfig):
        yield from _segment_problems(config.algo, batch)


def _segment_problems(algo: PPOConfig, batch: int) -> Iterator[Problem]:
    length = algo.segment_length
    if length and (algo.n_steps % length or batch % length):
        fits = gcd(algo.n_steps, batch)
        yield (
            f"algo.segment_length={length} does not divide algo.n_steps={algo.n_steps} and minibatches of {batch} rows.\n"
            "  Segments would run over a rollout's end, or be cut in two by a minibatch.\n  Try: ",
            Change("algo.segment_length", max(size for size in range(1, min(fits, max(length, 1), MOST_TRIED) + 1) if fits % size == 0)),
        )


def _nearest_divisor(rollout: int, batch: int) -> int:
    """The divisor of the rollout that is nearest to the wanted batch; of two as near, the larger one.

    Found from the batch outwards, and not looked for without end: a rollout may have a hundred digits. 1 always divides it.
    """
    for apart in range(min(max(batch, rollout - batch), MOST_TRIED) + 1):
        for wanted in (batch + apart, batch - apart):
            if 1 <= wanted <= rollout and rollout % wanted == 0:
                return wanted
    return 1


def _budget_problems(config: Config) -> Iterator[Problem]:
    rollout, budget = config.rollout_size, config.run.max_env_steps
    if rollout > budget and not isinstance(config.algo, OffPolicyConfig):
        product = f"n_envs={config.env.n_envs} x n_steps={config.algo.n_steps}"
        yield (
            f"run.max_env_steps={budget} is less than one rollout of {rollout} env steps ({product}).\n"
            f"  The run would take {rollout} steps, and make its only update at the very end.\n  Try: ",
            Change("run.max_env_steps", rollout * 10),
            ", or a smaller algo.n_steps",
        )
    if config.run.stop_at_threshold and config.spec.threshold is None and not config.spec.success:
        yield (
            "run.stop_at_threshold=true, but spec.threshold is not known.\n  There would be nothing to stop at.\n  Try: ",
            Change("spec.threshold", "VALUE"),
            ", or ",
            Change("run.stop_at_threshold", False),
        )


def _replay_problems(config: Config) -> Iterator[Problem]:
    algo, budget = config.algo, config.run.max_env_steps
    if not isinstance(algo, OffPolicyConfig) or algo.loop == "imitation":
        return
    first = max(algo.learning_starts, config.cycle_size - 1)
    if first >= budget and not config.offline:
        what = f"algo.learning_starts={algo.learning_starts}" if first == algo.learning_starts else f"algo.train_freq={algo.train_freq}"
        yield (
            f"{what} leaves no gradient step in a budget of {budget} env steps (run.max_env_steps).\n"
            "  The run would take random actions to its end and learn nothing.\n  Try: ",
            Change(what.split("=")[0], max(budget // (10 * config.env.n_envs), 1)),
            ", or ",
            Change("run.max_env_steps", 10 * (first + 1)),
        )
    needed = algo.n_step * config.env.n_envs
    if algo.buffer_size < needed and algo.batch_size and not config.offline:
        yield (
            f"algo.buffer_size={algo.buffer_size} does not hold {algo.n_step} steps of {config.env.n_envs} envs.\n"
            "  No transition would be remembered long enough to learn from.\n  Try: ",
            Change("algo.buffer_size", max(1000, 10 * needed)),
        )


def _schedule_problems(config: Config) -> Iterator[Problem]:
    steered = () if isinstance(config.algo, OffPolicyConfig) else _KL_STEERED
    for name, number in numbers(config.algo).items():
        if isinstance(number, Schedule):
            key = f"algo.{name}"
            if number.schedule == "kl_adaptive" and name not in steered:
                yield (
                    f"{key} cannot be kl_adaptive.\n"
                    "  The KL divergence says how long a learning step was; it would steer this number by something else's effect.\n"
                    "  Try: ",
                    Change(key, float(number.start)),
                    ", or another schedule",
                )
            yield from _window_problems(key, number, config.run.max_env_steps)


def _window_problems(key: str, schedule: Schedule, budget: int) -> Iterator[Problem]:
    last_point = max((at for at, _ in schedule.points), default=0.0)
    places = {"points": last_point, "from": schedule.from_, "to": schedule.to, "warmup": schedule.warmup}
    late = {place: at for place, at in places.items() if to_env_steps(at, budget) > budget}
    for place, at in late.items():
        inside = "[[0, VALUE], [1, VALUE]]" if place == "points" else {"from": 0, "to": 1, "warmup": 0}[place]
        yield (
            f"{key}.{place}={at:g} lies past the budget of {budget} env steps (run.max_env_steps).\n"
            "  The run would end before the schedule does, at a value that nobody wrote down.\n  Try: ",
            Change(f"{key}.{place}", inside),
            ", or ",
            Change("run.max_env_steps", ceil(at)),
        )
    changes = schedule.schedule not in ("piecewise", "constant", "kl_adaptive")
    top = to_env_steps(schedule.from_, budget) + to_env_steps(schedule.warmup, budget)
    if changes and not late and top >= to_env_steps(schedule.to, budget):
        yield (
            f"{key} leaves no time for the change: from={schedule.from_:g} and warmup={schedule.warmup:g} reach to={schedule.to:g}.\n"
            f"  It would jump from {schedule.start:g} to {schedule.end:g}.\n  Try: ",
            Change(f"{key}.warmup", 0).also(f"{key}.from", 0).also(f"{key}.to", 1),
        )


def _combination_problems(config: Config) -> Iterator[Problem]:
    if config.env.term_advantages and (config.algo.loop != "on_policy" or config.algo.name in ADVERSARIAL):
        lacks = "is paid for what passes for the recorded steps" if config.algo.name in ADVERSARIAL else "estimates no advantages"
        yield (
            f"env.term_advantages, but {config.algo.name} {lacks}.\n  No term of the reward would have any.\n  Try: ",
            Change("env.term_advantages", False),
        )
    if config.net.shared and getattr(config.algo, "value_lr", None) is not None:
        yield (
            "algo.value_lr is set, but net.shared=true.\n"
            "  A shared trunk has one optimizer and one learning rate, so value_lr would be ignored.\n  Try: ",
            Change("algo.value_lr", None),
            ", or ",
            Change("net.shared", False),
        )

    if config.data is not None and config.algo.name in ADVERSARIAL and config.data.then_online:
        yield (
            f"data.then_online=true, but {config.algo.name} acts from the start: the data are what it is held to.\n"
            "  There is nothing to switch from.\n  Try: ",
            Change("data.then_online", False),
        )
    if config.algo.loop == "imitation" and config.env.normalize_reward:
        yield (
            f"env.normalize_reward=true, but {config.algo.name} learns from what an expert answers, and from no reward.\n"
            "  Nothing that is learned would be scaled.\n  Try: ",
            Change("env.normalize_reward", False),
        )
    if config.algo.name in ADVERSARIAL:
        yield from _adversarial_problems(config)
    elif config.data is not None and not config.offline:
        yield (
            f"data.path={config.data.path}, but {config.algo.name} learns from what it does itself.\n"
            "  The recorded data would be ignored.\n  Try: ",
            Change("algo.name", "bc"),
        )
    if isinstance(config.algo, DTConfig) and (config.algo.width % config.algo.heads or config.algo.width % 2):
        yield (
            f"algo.width={config.algo.width} is no even number that {config.algo.heads} heads can share (algo.heads).\n"
            "  Each head sees as many of a token's numbers as the next.\n  Try: ",
            Change("algo.width", 2 * config.algo.heads * max(config.algo.width // (2 * config.algo.heads), 1)),
        )
    if config.algo.name == "q_learning" and config.net.encoder != "auto":
        yield (
            f"net.encoder={config.net.encoder}, but q_learning keeps a table.\n"
            "  There are no layers that anything could go through first.\n  Try: ",
            Change("net.encoder", "auto"),
            ", or ",
            Change("algo.name", "dqn"),
        )


def _adversarial_problems(config: Config) -> Iterator[Problem]:
    """What a reward that is learned leaves no room for."""
    name = config.algo.name
    if config.env.normalize_reward:
        yield (
            f"env.normalize_reward=true, but {name} learns a reward of its own and does not see the environment's.\n"
            "  What it is paid would be scaled by something else.\n  Try: ",
            Change("env.normalize_reward", False),
        )
    if config.bonus is not None:
        yield (
            f"bonus.kind={config.bonus.kind}, but {name} is paid for what passes for the recorded steps.\n"
            "  A new state is by definition not one of them.\n  Try: ",
            Change("bonus", None),
        )
    if config.run.engine in ("compiled", "captured"):
        yield (
            f"run.engine={config.run.engine}, but the reward of {name} is learned operation by operation.\n"
            "  Nothing would be paid.\n  Try: ",
            Change("run.engine", "eager"),
        )


def _online_problems(config: Config) -> Iterator[Problem]:
    algo, data = config.algo, config.data
    if not isinstance(algo, OfflineSettings):
        return
    if data is None or not data.then_online:
        if algo.online == "must" and data is not None:
            yield (
                f"{algo.name} learns in the environment, with recorded data beside it; data.then_online=false.\n"
                "  On the data alone nothing would hold its values down.\n  Try: ",
                Change("data.then_online", True),
                ", or ",
                Change("algo.name", "iql"),
            )
        return
    if algo.online == "never":
        able = [name for name, model in ALGORITHMS.own.items() if issubclass(model, OfflineSettings) and model.online != "never"]
        yield (
            f"data.then_online=true, but {algo.name} learns from recorded data alone.\n"
            "  It has no way of trying anything in an environment.\n  Try: ",
            Change("algo.name", "cal_ql"),
            f", or another that goes on ({', '.join(name for name in able if name != 'cal_ql')})",
        )
    first = config.online_from or 0
    if first >= config.run.max_env_steps:
        yield (
            f"data.then_online=true, but the first {first:,} steps are on recorded data alone (data.offline_steps), and there are "
            f"{config.run.max_env_steps:,} (run.max_env_steps).\n  It would never come to act.\n  Try: ",
            Change("run.max_env_steps", 2 * first),
            ", or ",
            Change("data.offline_steps", config.run.max_env_steps // 2),
        )
    if isinstance(algo, RLPDConfig) and algo.critic_subset > algo.n_critics:
        yield (
            f"algo.critic_subset={algo.critic_subset} of algo.n_critics={algo.n_critics} critics.\n  So many cannot be drawn.\n  Try: ",
            Change("algo.critic_subset", algo.n_critics),
        )
    if isinstance(algo, RLPDConfig) and algo.batch_size < algo.n_critics:
        yield (
            f"algo.batch_size={algo.batch_size} is less than algo.n_critics={algo.n_critics}.\n"
            "  Which critics are asked is drawn with the batch's noise, one number for each.\n  Try: ",
            Change("algo.batch_size", algo.n_critics),
        )


def _bonus_problems(config: Config) -> Iterator[Problem]:
    bonus, algo = config.bonus, config.algo
    if bonus is None:
        return
    if algo.loop != "on_policy" and algo.name != "dqn":
        yield (
            f"bonus.kind={bonus.kind}, but {algo.name} pays no bonus.\n  It would be ignored.\n  Try: ",
            Change("bonus", None),
            ", or ",
            Change("algo.name", "dqn" if algo.name == "q_learning" else "ppo"),
        )
    elif algo.loop != "on_policy" and bonus.value_head == "own":
        yield (
            f"bonus.value_head=own, but {algo.name} has no critic beside its Q-values.\n"
            "  There is no advantage that a second one could be added to.\n  Try: ",
            Change("bonus.value_head", "shared"),
        )
    if bonus.until == "first_success" and config.curriculum is not None and config.curriculum.levels is None:
        yield (
            "bonus.until=first_success with a curriculum: the first success is one in an easier version of the task.\n"
            "  Nothing would be paid any more when the task itself is met.\n  Try: ",
            Change("bonus.until", None),
        )
    if config.run.engine in ("compiled", "captured"):
        yield (
            f"bonus.kind={bonus.kind} with run.engine={config.run.engine}: a bonus is computed operation by operation.\n"
            "  Nothing would be paid.\n  Try: ",
            Change("run.engine", "eager"),
        )


def _cost_problems(config: Config) -> Iterator[Problem]:
    cost, algo = config.cost, config.algo
    if cost is None:
        return
    if algo.loop != "on_policy":
        yield (
            f"cost.limit={cost.limit:g}, but {algo.name} keeps no limit.\n  Costs would be ignored.\n  Try: ",
            Change("algo.name", "ppo"),
            ", or ",
            Change("cost", None),
        )
    if cost.multiplier > cost.multiplier_max:
        yield (
            f"cost.multiplier={cost.multiplier:g} is above cost.multiplier_max={cost.multiplier_max:g}.\n"
            "  It would fall to it at once.\n  Try: ",
            Change("cost.multiplier_max", cost.multiplier),
        )
    if config.run.engine in ("compiled", "captured"):
        yield (
            f"cost.limit={cost.limit:g} with run.engine={config.run.engine}: a limit is kept operation by operation.\n"
            "  Costs would be ignored.\n  Try: ",
            Change("run.engine", "eager"),
        )


def _curriculum_problems(config: Config) -> Iterator[Problem]:
    curriculum, algo = config.curriculum, config.algo
    if curriculum is None:
        return
    if algo.loop in ("offline", "imitation"):
        yield (
            f"curriculum.kind={curriculum.kind}, but {algo.name} does not choose what it is trained on.\n  It would be ignored.\n  Try: ",
            Change("curriculum", None),
            ", or ",
            Change("algo.name", "ppo"),
        )
    if curriculum.kind == "plr" and algo.loop == "off_policy":
        yield (
            f"curriculum.kind=plr, but {algo.name} estimates no advantages.\n  No task would have a score.\n  Try: ",
            Change("curriculum.kind", "learnability"),
        )
    if config.env.workers:
        yield (
            f"curriculum.kind={curriculum.kind} with env.workers={config.env.workers}: tasks are handed out in the training process.\n"
            "  Workers would go on with the task that they were started with.\n  Try: ",
            Change("env.workers", 0),
        )
    if config.run.engine == "captured":
        yield (
            f"curriculum.kind={curriculum.kind} with run.engine=captured: a graph repeats one environment.\n"
            "  Tasks could not change.\n  Try: ",
            Change("run.engine", "auto"),
        )
    target = curriculum.stages[-1].env if curriculum.stages else {}
    for key, value in target.items():
        if config.env.kwargs.get(key) != value:
            yield (
                f"the last stage says {key}={value!r}, but env.kwargs.{key}={config.env.kwargs.get(key)!r}.\n"
                "  The last stage is the task itself: evaluations would be on another one.\n  Try: ",
                Change(f"env.kwargs.{key}", value),
            )


def describe(config: Config) -> dict[str, int | float]:
    """Numbers that follow from the config and that people compute by hand before they trust it."""
    algo, run = config.algo, config.run
    gamma = algo.gamma.start if isinstance(algo.gamma, Schedule) else algo.gamma
    evaluations = ceil(run.max_env_steps / run.eval_every_env_steps) if run.eval_every_env_steps else 1
    if config.offline:
        steps = config.iterations * config.rollout_size
        alone = steps if config.online_from is None else config.online_from
        acted = steps - alone
        updates = alone + (acted // config.cycle_size * config.updates_per_cycle if acted else 0)
        derived: dict[str, int | float] = {"batch_rows": config.batch_rows, "gradient_steps": updates}
        derived |= {"env_steps": acted, "online_from": alone} if acted else {}
    else:
        derived = _describe_replay(config) if isinstance(algo, OffPolicyConfig) else _describe_rollouts(config)
        derived["env_steps"] = config.iterations * config.rollout_size
    derived["evaluations"] = evaluations if run.eval_episodes else 0
    if config.env.frames_per_step is not None and "env_steps" in derived:
        derived["frames"] = derived["env_steps"] * config.env.frames_per_step
    # Without discount the agent looks ahead for ever, which is no number.
    return derived | ({"horizon_steps": 1 / (1 - gamma)} if gamma < 1 else {})


def _describe_rollouts(config: Config) -> dict[str, int | float]:
    epochs = getattr(config.algo, "n_epochs", 1)
    minibatches = config.rollout_size // config.batch_rows
    return {
        "rollout_size": config.rollout_size,
        "batch_rows": config.batch_rows,
        "minibatches_per_epoch": minibatches,
        "gradient_steps_per_rollout": minibatches * epochs,
        "iterations": config.iterations,
        "gradient_steps": config.iterations * minibatches * epochs,
    }


def _describe_replay(config: Config) -> dict[str, int | float]:
    assert isinstance(config.algo, OffPolicyConfig)
    cycles = config.iterations * config.cycles - config.algo.learning_starts // config.cycle_size
    updates = max(cycles, 0) * config.updates_per_cycle
    return {
        "turn_size": config.cycle_size,
        "batch_rows": config.batch_rows,
        "updates_per_env_step": config.updates_per_cycle / config.cycle_size,
        "times_each_transition_is_drawn": config.updates_per_cycle / config.cycle_size * config.batch_rows,
        "replay_rows": config.replay_rows,
        "iterations": config.iterations,
        "gradient_steps": updates,
    }
