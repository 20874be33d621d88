"""How much each number matters: every one times and divided by 2 and 4, in one study, against the config as it is.

Numbers are per-member hyperparameters, so all arms train as one program; all arms share the study's seeds, so that an
effect is a mean of differences seed by seed (`effects`).
"""

import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from rlclinic.actions import Argument
from rlclinic.config import Config, from_record, numbers, to_record
from rlclinic.config.schedule import Schedule
from rlclinic.errors import ConfigError, UsageError
from rlclinic.launch import batch
from rlclinic.launch.batch import Study
from rlclinic.runs import history, questions, studies, trials
from rlclinic.runs.record import Group, Run
from rlclinic.runs.store import Store
from rlclinic.runs.summary import GroupSummary
from rlclinic.treatment.prescription.prescription import changed, spelled, worded
from rlclinic.treatment.sensitivity import effects

BASE: Final = "base"
FACTORS: Final = (2.0, 4.0)
SEEDS: Final = 8
"""With fewer than six nothing could be shown of so many values at once; eight show a factor of 4 in nine of ten studies."""
VTRACE: Final = ("rho_clip", "c_clip")
"""Numbers without a meaning under other advantages."""
PRIORITIES: Final = ("priority_alpha", "priority_beta")
"""Numbers without a meaning where nothing is drawn by priority."""
HORIZONS: Final = frozenset({"algo.gamma", "algo.gae_lambda"})
"""Settings whose distance from 1 is what counts: 1 / (1 - value) steps ahead."""
SHAPES: Final = ("env.n_envs", "algo.n_steps", "algo.batch_size", "algo.n_epochs")
"""Whole numbers that decide the program's shape: each needs a cohort of its own."""

_MODEL = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, defer_build=True)


class Arm(BaseModel):
    """One number at another value."""

    model_config = _MODEL

    name: str
    """"algo.learning_rate x2"."""
    setting: str
    factor: float
    """Below 1: divided. For gamma and gae_lambda it multiplies how far they look ahead."""
    value: Any


class Row(BaseModel):
    """What one arm came to, against the base."""

    model_config = _MODEL

    arm: Arm
    group: str | None
    n: int
    reached: int | None
    effect: float | None
    """steps: the ratio of steps to the threshold (geometric mean over seeds), less is better; return: the difference, more is better."""
    low: float | None
    high: float | None
    """Its interval: those of all values of a study hold together in 1 - alpha of studies. None where so few seeds give none."""
    verdict: Literal["better", "worse", "no difference seen"]
    """Of all values asked together: equal ones are called better or worse in at most 5 % of studies."""
    lost: int = 0
    """Runs whose process was killed every time that it was started: they are left out."""


class Sensitivity(BaseModel):
    """A study of all numbers of a config."""

    model_config = _MODEL

    schema_version: int = 1
    id: str
    created: float
    target: str
    env_id: str
    algo: str
    config: dict[str, Any]
    factors: tuple[float, ...]
    seeds: tuple[int, ...]
    measure: Literal["steps", "return", "success", "truth"]
    truth: str | None = Field(None, exclude_if=lambda column: column is None)
    """The column that says how well the task is done, where that is not success."""
    arms: tuple[Arm, ...]
    skipped: tuple[str, ...] = ()
    """Numbers that were left out, and why."""
    state: Literal["planned", "running", "finished"] = "planned"
    base: dict[str, float | None] = Field(default_factory=dict)
    """reached, n, steps, score of the config as it is."""
    rows: tuple[Row, ...] = ()
    used_env_steps: int = 0
    simultaneous: bool = False
    """Verdicts and intervals hold for all values together; those of studies before this was so hold one by one."""
    fewest_seeds: int | None = None
    """Seeds below which no difference could be shown, however large."""
    alpha: float = effects.ALPHA
    """Share of studies of equal values that may show one to matter; less where the same study was made before."""
    asked_before: int = 0
    """How often the same study was begun in this store before."""

    @property
    def question(self) -> questions.Question:
        """Whether any of these values of this config matters."""
        title = f"does any of {len(self.arms)} values matter: {self.measure}"
        judged = self.measure if self.truth is None else f"{self.measure} {self.truth}"
        return questions.identify(self.env_id, from_record(self.config), [arm.name for arm in self.arms], judged, title)

    @property
    def max_env_steps(self) -> int:
        """What it costs if no run ends early."""
        budget = int(self.config["run"]["max_env_steps"])
        return (len(self.arms) + 1) * len(self.seeds) * budget

    @property
    def ranking(self) -> list[tuple[str, float]]:
        """Settings by how much they matter: the largest effect of any of their arms, on a scale where 0 is none."""
        found: dict[str, float] = {}
        for row in self.rows:
            if row.effect is not None:
                found[row.arm.setting] = max(found.get(row.arm.setting, 0.0), self.size(row))
        return sorted(found.items(), key=lambda item: -item[1])

    def size(self, row: Row) -> float:
        """How large an effect is, in either direction: the factor of steps (at least 1), or the difference of returns."""
        if row.effect is None:
            return 0.0
        return max(row.effect, 1 / max(row.effect, 1e-9)) - 1 if self.measure == "steps" else abs(row.effect)


@dataclass(frozen=True)
class Scope:
    """What a study varies, and how often it looks."""

    factors: Sequence[float] = FACTORS
    seeds: int = SEEDS
    only: Sequence[str] = ()
    """Dotted settings, or their short names; empty: all numbers."""
    shapes: bool = False
    """Also whole numbers that change the program's shape, which train in cohorts of their own."""
    terms: bool = False
    """In place of the algorithm's numbers, the weights of the reward's terms; judged by success, which no weight changes the meaning of."""
    truth: str | None = None
    """With `terms`, the logged column to judge by where nobody reports success: `train/info/distance/last`."""


def plan(store: Store, target: str, config: Config, scope: Scope | None = None) -> Sensitivity:
    """What the study would train; nothing is written. UsageError if there is nothing to vary."""
    scope = scope or Scope()
    _check(scope)
    config = _weigh_terms(_prepare(config), scope.truth) if scope.terms else _prepare(config)
    arms, skipped = _arms(config, scope)
    if not arms:
        named = ", ".join(_settings(config, True))
        raise UsageError(f"there is no number to vary{' in ' + ', '.join(scope.only) if scope.only else ''}.\n  There is: {named}")
    planned = Sensitivity(
        id="",
        created=time.time(),
        target=target,
        env_id=config.env.id,
        algo=config.algo.name,
        config=to_record(config),
        factors=tuple(scope.factors),
        seeds=tuple(range(scope.seeds)),
        measure="truth" if scope.truth else "success" if scope.terms else "steps" if config.spec.threshold is not None else "return",
        truth=scope.truth,
        arms=tuple(arms),
        skipped=tuple(skipped),
    )
    known = questions.look_up(store, planned.question)
    before = len(known.asked) if known is not None else 0
    return planned.model_copy(update={"asked_before": before, "alpha": questions.next_alpha(effects.ALPHA, before)})


def _check(scope: Scope) -> None:
    if not scope.factors or any(not 1 < factor <= 100 for factor in scope.factors):
        raise UsageError(
            Argument("factors", [float(f"{factor:g}") for factor in scope.factors]),
            ": each must lie between 1 and 100.\n  Type: ",
            Argument("factors", [2, 4]),
        )
    if scope.truth is not None and not scope.terms:
        raise UsageError(
            Argument("truth", scope.truth),
            " says what weights of terms are judged by, and none are varied.\n  All else is judged by the return.\n  Type: ",
            Argument("terms"),
            " ",
            Argument("truth", scope.truth),
        )
    if scope.seeds < 2:
        raise UsageError(
            Argument("seeds", scope.seeds), ": with one seed nothing can be told from chance.\n  Type: ", Argument("seeds", SEEDS)
        )


def _prepare(config: Config) -> Config:
    """The config as the study trains it: evaluated often enough, and ended at the threshold where there is one."""
    record = to_record(config)
    every = config.run.eval_every_env_steps or max(1, config.run.max_env_steps // 20)
    record["run"] |= {"eval_every_env_steps": every, "eval_episodes": config.run.eval_episodes or 20}
    record["run"]["stop_at_threshold"] = config.spec.threshold is not None
    return from_record({**record, "seed": 0})


def _weigh_terms(config: Config, truth: str | None) -> Config:
    """The config with a weight of 1 for each term that its runs have logged: the same reward, and all arms of one shape.

    What it is judged by is logged: a number of `info` (`train/info/NAME/last`) that was not, too.
    """
    names = config.env.log_terms or ()
    if len(names) < 2:
        raise UsageError(
            f"{config.env.id} logged {'one term' if names else 'no terms'} of its reward.\n  There is no balance to vary.\n"
            '  Try: an environment of your own that returns info["reward_terms"], once trained'
        )
    record = to_record(config)
    record["env"]["term_weights"] = dict.fromkeys(names, 1.0) | dict(config.env.term_weights)
    record["run"]["stop_at_threshold"] = False
    told = re.fullmatch(r"train/info/(.+)/(mean|last)", truth or "")
    if told and told[1] not in config.env.log_info:
        record["env"]["log_info"] = [*config.env.log_info, told[1]]
    return from_record(record)


def _settings(config: Config, shapes: bool, terms: bool = False) -> dict[str, Any]:
    if terms:
        return {f"env.term_weights.{name}": weight for name, weight in config.env.term_weights.items()}
    idle: tuple[str, ...] = VTRACE if getattr(config.algo, "advantage", "vtrace") != "vtrace" else ()
    if not (getattr(config.algo, "segment_length", 0) or getattr(config.algo, "prioritized", False)):
        idle += PRIORITIES
    found: dict[str, Any] = {f"algo.{name}": value for name, value in numbers(config.algo).items() if name not in idle}
    algo = to_record(config)["algo"]
    if shapes:
        found |= {"env.n_envs": config.env.n_envs, **{key: algo[key[5:]] for key in SHAPES if key.startswith("algo.") and key[5:] in algo}}
    return found


def _arms(config: Config, scope: Scope) -> tuple[list[Arm], list[str]]:
    arms: list[Arm] = []
    skipped: list[str] = []
    for setting, value in _settings(config, scope.shapes, scope.terms).items():
        if scope.only and not any(name in (setting, setting.partition(".")[2], setting.rpartition(".")[2]) for name in scope.only):
            continue
        if value is None or _still(value):
            skipped.append(f"{setting.partition('.')[2]} is {worded(value)}: there is nothing to multiply")
            continue
        for factor in (part for each in sorted(scope.factors) for part in (1 / each, each)):
            try:
                arms.append(_arm(config, setting, value, factor))
            except ConfigError as error:
                skipped.append(f"{setting.partition('.')[2]} {_times(factor)}: {str(error).splitlines()[0]}")
    return arms, skipped


def _still(value: Any) -> bool:
    return all(each == 0 for each in value.values()) if isinstance(value, Schedule) else value == 0


def _arm(config: Config, setting: str, value: Any, factor: float) -> Arm:
    new = scaled(setting, value, factor)
    made = changed(config, {setting: new})
    if made == config:
        raise ConfigError(f"{spelled(new)} is what it is already")
    return Arm(name=f"{setting} {_times(factor)}", setting=setting, factor=factor, value=new)


def _times(factor: float) -> str:
    return f"x{factor:g}" if factor >= 1 else f"/{1 / factor:g}"


def scaled(setting: str, value: Any, factor: float) -> Any:
    """A setting's value times a factor: a schedule as a whole, a horizon by how far it looks ahead, whole numbers rounded."""
    if isinstance(value, Schedule):
        record = value.model_dump(mode="json")
        parts: dict[str, Any] = {key: scaled(setting, record[key], factor) for key in ("start", "end", "min", "max") if key in record}
        parts |= {"points": [[at, scaled(setting, each, factor)] for at, each in record["points"]]} if "points" in record else {}
        return {**record, **parts}
    if setting in HORIZONS:
        return float(f"{max(1 - (1 - value) / factor, 0.0):.6g}")
    if isinstance(value, int) and setting in SHAPES and setting != "algo.batch_size":
        return max(1, round(value * factor))
    if setting == "algo.batch_size" and value > 1:
        return max(2, round(value * factor))
    return float(f"{value * factor:.6g}")


# ── running ──


def start(store: Store, planned: Sensitivity, id: str | None = None) -> Sensitivity:
    """Give a plan fresh seeds and an id, if none was reserved for it, and write it down."""
    first = trials.fresh_seeds(store, len(planned.seeds))
    begun = planned.model_copy(
        update={
            "id": id or studies.reserve(store, "sensitivity"),
            "seeds": tuple(range(first, first + len(planned.seeds))),
            "state": "running",
        }
    )
    questions.register(store, begun.question, questions.Attempt("sensitivity", begun.id, time.time(), begun.alpha))
    _write(store, begun)
    return begun


def load(store: Store, text: str = "@last") -> Sensitivity:
    """A stored study by its id or the beginning of it."""
    return studies.load(store, "sensitivity", text, Sensitivity)


def carry_out(
    store: Store,
    begun: Sensitivity,
    *,
    watch: Callable[[batch.Progress], None] | None = None,
    cores: int | None = None,
    stop: Callable[[], bool] | None = None,
) -> Sensitivity:
    """Train all arms and say how much each number matters. A study that was interrupted goes on; a finished one is as it is."""
    if begun.state == "finished":
        return begun
    work = Study(store, "sensitivity", begun.id, **({"cores": cores} if cores else {}), watch=watch, stop=stop)
    batch.forget_half_made(store, begun.id)
    finished = analyse(begun, batch.train(work, cells(begun), begun.seeds))
    _write(store, finished)
    return finished


def cells(study: Sensitivity) -> dict[str, Config]:
    """Every config that a study trains, by the name of its arm."""
    config = from_record(study.config)
    return {BASE: config} | {arm.name: changed(config, {arm.setting: arm.value}) for arm in study.arms}


def _write(store: Store, found: Sensitivity) -> None:
    studies.write(store, "sensitivity", found.id, found.model_dump(mode="json"))


# ── what came of it ──


def analyse(begun: Sensitivity, groups: Mapping[str, Group]) -> Sensitivity:
    """The study with every arm's effect against the base."""
    summaries = {name: group.summary for name, group in groups.items()}
    base = summaries[BASE]
    horizon = _horizon(begun, summaries.values())
    lowest = min((seed.last for summary in summaries.values() for seed in summary.seeds if seed.last is not None), default=0.0)
    scores = {name: _scores(begun, groups[name], summary, horizon, lowest) for name, summary in summaries.items()}
    found = effects.compare(scores[BASE], [scores[arm.name] for arm in begun.arms], _resolution(begun, scores[BASE]), begun.alpha)
    rows = [
        _row(begun, arm, effect, summaries[arm.name], groups[arm.name], len(scores[arm.name]))
        for arm, effect in zip(begun.arms, found, strict=True)
    ]
    score = base.score.value if base.score is not None else None
    steps = base.steps_to_threshold.value if base.steps_to_threshold is not None else None
    return begun.model_copy(
        update={
            "state": "finished",
            "base": {"n": float(base.n_seeds), "reached": float(base.n_reached), "steps": steps, "score": score},
            "rows": tuple(rows),
            "used_env_steps": sum(summary.env_steps for summary in summaries.values()),
            "simultaneous": True,
            "fewest_seeds": effects.fewest_seeds(begun.alpha),
        }
    )


def _row(begun: Sensitivity, arm: Arm, effect: effects.Effect | None, tried: GroupSummary, group: Group, scored: int) -> Row:
    steps = begun.measure == "steps"
    ends: list[float | None] = [None, None, None] if effect is None else [effect.value, effect.low, effect.high]
    if steps:
        ends = [None if end is None else math.exp(end) for end in ends]
    verdict: Literal["better", "worse", "no difference seen"] = "no difference seen"
    if effect is not None and effect.shown:
        verdict = "better" if (effect.value < 0) == steps else "worse"
    return Row(
        arm=arm,
        group=group.id,
        n=tried.n_seeds,
        reached=None if tried.threshold is None else tried.n_reached,
        effect=ends[0],
        low=ends[1],
        high=ends[2],
        verdict=verdict,
        lost=tried.n_seeds - scored,
    )


def _scores(begun: Sensitivity, group: Group, summary: GroupSummary, horizon: float, lowest: float) -> dict[int, float]:
    """By seed: the log of steps to the threshold, or the final return; a run that failed before it had one counts as the lowest.

    What the machine killed says nothing, and is left out.
    """
    killed = {run.id for run in group.runs if batch.is_open(run)}
    kept = [seed for seed in summary.seeds if seed.run not in killed]
    if begun.truth is not None:
        ends = {run.seed: _end_of(run, begun.truth) for run in group.runs if run.id not in killed}
        worst = min((end for end in ends.values() if end is not None), default=0.0)
        return {seed: worst if end is None else end for seed, end in ends.items()}
    if begun.measure == "success":
        return {seed.seed: 0.0 if seed.success is None else seed.success.rate for seed in kept}
    if begun.measure == "steps":
        logs = effects.as_scores([seed.reached_at for seed in kept], horizon)
        return {seed.seed: score for seed, score in zip(kept, logs, strict=True)}
    return {seed.seed: lowest if seed.last is None else seed.last for seed in kept}


def _end_of(run: Run, column: str) -> float | None:
    """The mean of a column over the last fifth of a run; None if it was never logged."""
    series = history.of_run(run).series.get(column)
    if series is None or not len(series):
        return None
    return fmean(series.values[-max(1, len(series) // 5) :].tolist())


def _horizon(begun: Sensitivity, summaries: Iterable[GroupSummary]) -> float:
    """The budget; the last rollout may end a little after it."""
    ends = [float(step) for side in summaries for seed in side.seeds for step in [*seed.steps[-1:]]]
    return max([float(begun.config["run"]["max_env_steps"]), *ends])


def _resolution(begun: Sensitivity, base: Mapping[int, float]) -> float:
    """Half of the spacing of evaluations beside the base's steps: two runs that arrive between the same evaluations look alike."""
    every = begun.config["run"].get("eval_every_env_steps")
    if begun.measure != "steps" or not every or not base:
        return 0.0
    return math.log1p(0.5 * every / math.exp(fmean(base.values())))
