"""What a search tries next: prescriptions, several of them at once, everything computed anew, neighbours, and blind points."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rlclinic.config import Config, numbers, to_record
from rlclinic.config.schedule import Schedule
from rlclinic.diagnosis import columns, engine
from rlclinic.diagnosis.findings import Diagnosis
from rlclinic.errors import ConfigError
from rlclinic.runs.history import History
from rlclinic.treatment.optimize import blind_search
from rlclinic.treatment.optimize.ledger import Entry, Ledger, Source
from rlclinic.treatment.prescription.formulas import data, learning_rate
from rlclinic.treatment.prescription.formulas.terms import discount_for_the_episode, trace_for
from rlclinic.treatment.prescription.group_numbers import Chart
from rlclinic.treatment.prescription.prescribe import make_prescriptions
from rlclinic.treatment.prescription.prescription import changed
from rlclinic.treatment.prescription.recorded_effects import Effects
from rlclinic.treatment.sensitivity import study
from rlclinic.treatment.trial.arms import differences

MANY: Final = 6
"""Prescriptions that a search may look at; a person gets three."""
_MINIBATCHES: Final = 4
_EPOCHS: Final = 10
_LATE_CAUSES: Final = frozenset({"reward-never-seen", "deceptive-reward", "episode-too-short"})


def candidates(ledger: Ledger, histories: Sequence[History], config: Config, effects: Effects, count: int) -> tuple[list[Entry], str]:
    """At most `count` configs that were not tried yet, the most promising first, and what is wrong with the present one."""
    diagnosis = engine.diagnose(histories)
    seen = {_key(entry.config) for entry in ledger.tried}
    kept: list[Entry] = []
    for entry in _proposed(ledger, diagnosis, histories, config, effects):
        if _key(entry.config) not in seen and len(kept) < count:
            seen.add(_key(entry.config))
            kept.append(entry.model_copy(update={"name": f"{entry.name}.{len(ledger.rounds)}"}))
    first = diagnosis.causes[0]
    return kept, f"{first.title} (p {first.probability:.2f})"


def _proposed(ledger: Ledger, diagnosis: Diagnosis, histories: Sequence[History], config: Config, effects: Effects) -> Iterator[Entry]:
    given = [
        rx for rx in make_prescriptions(diagnosis, histories, config, effects, MANY) if rx.trialable and not _about_running(rx.changes)
    ]
    chart = Chart(histories, config)
    if given:
        first = given[0]
        yield from _entry(ledger, config, first.changes, "rx1", "prescription", first.rationale, first.cause)
    whole = everything(chart, diagnosis)
    yield from _entry(ledger, config, whole, "computed", "computed", "every setting computed anew from the run's own numbers")
    if len(given) > 1:
        merged: dict[str, Any] = {}
        for rx in reversed(given):
            merged |= rx.changes
        why = "all prescriptions at once: " + "; ".join(rx.title for rx in given)
        yield from _entry(ledger, config, merged, "merged", "merged", why, given[0].cause)
    for rx in given[1:]:
        yield from _entry(ledger, config, rx.changes, f"rx{rx.number}", "prescription", rx.rationale, rx.cause)
    # Whoever began with a replay may have reasons for it: points are drawn around what there is, not around another algorithm.
    yield from searched(ledger, config if config.algo.loop != "on_policy" else changed_or_none(config, whole) or config)


def _about_running(changes: Mapping[str, Any]) -> bool:
    """Whether a change is about how long a run lasts, how it is judged, or what the task is: a search leaves these alone."""
    return any(setting.startswith(("run.", "spec.", "env.max_episode_steps", "env.kwargs", "env.id")) for setting in changes)


def searched(ledger: Ledger, config: Config) -> Iterator[Entry]:
    """Points of a blind search around a config, those of TPE where it is wanted."""
    told = [(entry.params, entry.score) for entry in ledger.tried if entry.params and entry.score is not None]
    if ledger.use_optuna:
        points = blind_search.tpe_points(config, told, 8, ledger.rounds[0].seeds[0] if ledger.rounds else 0)
    else:
        points = [blind_search.point(config, len(told) + place, _seed(ledger)) for place in range(8)]
    for place, at in enumerate(points):
        changes = blind_search.settings(config, at)
        for entry in _entry(
            ledger, config, changes, f"search{len(told) + place}", "search", "drawn from the ranges that tuned settings span"
        ):
            yield entry.model_copy(update={"params": at})


def _seed(ledger: Ledger) -> int:
    return ledger.rounds[0].seeds[0] if ledger.rounds and ledger.rounds[0].seeds else 0


def neighbours(ledger: Ledger, histories: Sequence[History], config: Config, effects: Effects, count: int) -> list[Entry]:
    """What may be faster than a config that works: what its numbers say, then each number that matters times and divided by 2."""
    diagnosis = engine.diagnose(histories)
    proposed = [
        entry
        for rx in make_prescriptions(diagnosis, histories, config, effects, MANY)
        if rx.trialable and not _about_running(rx.changes)
        for entry in _entry(ledger, config, rx.changes, f"rx{rx.number}", "prescription", rx.rationale, rx.cause)
    ]
    values = numbers(config.algo)
    for name, factor in (
        ("learning_rate", 2.0),
        ("learning_rate", 0.5),
        ("gamma", 2.0),
        ("gamma", 0.5),
        ("gae_lambda", 2.0),
        ("gae_lambda", 0.5),
        ("tau", 2.0),
        ("tau", 0.5),
        ("exploration_fraction", 0.5),
    ):
        setting, value = f"algo.{name}", values.get(name)
        if isinstance(value, float | int | Schedule):
            change = {setting: study.scaled(setting, value, factor)}
            proposed += _entry(ledger, config, change, f"{name}x{factor:g}", "neighbour", f"{name} times {factor:g}")
    for setting, factor in (("algo.n_epochs", 2.0), ("algo.n_steps", 0.5)):
        known = to_record(config)["algo"].get(setting[5:])
        change = {setting: study.scaled(setting, known, factor)} if isinstance(known, int) else {}
        proposed += _entry(ledger, config, change, f"{setting[5:]}x{factor:g}", "neighbour", f"{setting[5:]} times {factor:g}")
    seen = {_key(entry.config) for entry in ledger.tried}
    fresh = [entry for entry in proposed if _key(entry.config) not in seen]
    return [entry.model_copy(update={"name": f"{entry.name}.{len(ledger.rounds)}"}) for entry in fresh[:count]]


def _entry(
    ledger: Ledger, config: Config, changes: Mapping[str, Any], name: str, source: Source, why: str, cause: str = ""
) -> Iterator[Entry]:
    """An entry for a config with changes; nothing where the schema refuses them or nothing would change."""
    made = changed_or_none(config, changes)
    if made is not None and made != config:
        against = differences(ledger.load_start(), made)
        yield Entry(name=name, source=source, why=why, changes=against, config=to_record(made), cause=cause)


def changed_or_none(config: Config, changes: Mapping[str, Any]) -> Config | None:
    """The config with changes; a minibatch that no longer divides its rollout becomes a quarter of it. None if still refused."""
    for attempt in (dict(changes), {**changes, "algo.batch_size": 0.25}):
        try:
            return changed(config, attempt)
        except ConfigError:
            continue
    return None


def _key(config: Mapping[str, Any]) -> str:
    return json.dumps({key: value for key, value in config.items() if key not in ("seed", "name")}, sort_keys=True)


# ── everything at once ──


def everything(chart: Chart, diagnosis: Diagnosis) -> dict[str, Any]:
    """Every setting that learning depends on, computed from the budget, the episodes and the scales that the runs showed."""
    late = chart.late_reward or chart.rare_reward or any(cause.id in _LATE_CAUSES and cause.probability > 0.3 for cause in diagnosis.causes)
    found: dict[str, Any] = {} if chart.algo == "ppo" else {"algo.name": "ppo"}
    found |= _data(chart)
    found["algo.learning_rate"] = learning_rate.falling(learning_rate.rounded(learning_rate.RATE_STEPS / (_MINIBATCHES * _EPOCHS)))
    found |= {"algo.clip_range": 0.2, "algo.clip_range_vf": None, "algo.target_kl": None, "algo.value_lr": None, "algo.vf_coef": 0.5}
    found |= {"algo.max_grad_norm": 0.5, "algo.optimizer": "adam", "algo.normalize_advantage": "batch", "algo.adam_eps": 1e-5}
    found |= {"algo.weight_decay": 0.0, "net.hidden": [64, 64], "net.activation": "tanh", "net.shared": False, "net.policy_gain": 0.01}
    found["algo.ent_coef"] = _bonus(chart.continuous, late)
    seen = discount_for_the_episode(chart)
    gamma = seen.changes["algo.gamma"] if seen is not None else 0.99
    found |= {"algo.gamma": gamma, "algo.gae_lambda": trace_for(gamma)}
    found |= _scales(chart)
    if chart.continuous:
        found["net.log_std_init"] = 0.5 if late else 0.0
    return found


def _bonus(continuous: bool, late: bool) -> Any:
    if not late:
        return 0.0
    return 3e-3 if continuous else {"start": 0.01, "end": 0.0, "schedule": "linear"}


def _data(chart: Chart) -> dict[str, Any]:
    """About 128 rollouts in the budget, each from at least four copies, in four minibatches."""
    envs = 1 << int(math.log2(min(max(chart.n_envs, 4), 32)))
    budget = chart.budget or 100_000
    rollout = 1 << int(math.log2(min(max(budget / data.ROLLOUTS, 256), 2048)))
    steps = max(rollout // envs, 16)
    return {"env.n_envs": envs, "algo.n_steps": steps, "algo.batch_size": 1 / _MINIBATCHES, "algo.n_epochs": _EPOCHS}


def _scales(chart: Chart) -> dict[str, Any]:
    """Observations are scaled unless they are one-hot, rewards unless targets are about 1 already."""
    shown = columns.sentinel("obs_abs_max")
    one_hot = any(case.has(shown) and case.signal(shown).bottom == 1.0 == case.signal(shown).top for case in chart.cases)
    near = 0.3 < chart.targets < 10 and chart.setting("env.normalize_reward") is not True
    return {"env.normalize_obs": not one_hot, "env.normalize_reward": not near, "env.clip_reward": 10.0, "env.clip_obs": 10.0}
