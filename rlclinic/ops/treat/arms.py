"""What `trial` and `race` compare: groups, prescriptions, changes, config files, variants, revisions, or the user's own command."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from rlclinic import trust
from rlclinic.actions import Action, Argument, Change
from rlclinic.comparison.sides import Side
from rlclinic.config import Config, describe, files, from_record, load, set_values, to_record
from rlclinic.errors import ConfigError, NotFound, RlclinicError, UsageError
from rlclinic.ops.diagnose import prescribe
from rlclinic.ops.request import fields_of
from rlclinic.ops.runs import targets
from rlclinic.ops.train import suitability
from rlclinic.ops.treat.requests import RaceRequest, TrialRequest
from rlclinic.runs import env_code, trials
from rlclinic.runs.history import History
from rlclinic.runs.outcome import choose_source, measure_log
from rlclinic.runs.store import Store
from rlclinic.treatment.prescription.prescribe import stand_in
from rlclinic.treatment.trial import arms
from rlclinic.treatment.trial.arms import Arm
from rlclinic.treatment.trial.models import Source

NOT_YOUR_SCRIPT: Final = (
    "NOT YOUR SCRIPT: this trains rlclinic's own trainer with settings translated from your log; what it did not log is ours. "
    "To try it in your own code: "
    + Action("trial", run="python train.py --seed {seed} --lr {learning_rate}", arm=["learning_rate=OLD", "learning_rate=NEW"])
)
_ASKED_AGAIN: Final = {
    "ablate",
    "outcome",
    "looks",
    "per_look",
    "alpha",
    "margin",
    "arrival_margin",
    "rule",
    "max_env_steps",
    "threshold",
    "device",
    "timeout_seconds",
    "seeds",
    "whole_budget",
}


@dataclass
class Resolved:
    """The arms, and what is known about where they come from."""

    control: Arm
    treatments: list[Arm]
    source: Source = "own"
    context: dict[str, Any] = field(default_factory=dict)
    above_seed: int = -1
    used_seeds: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    target: str | None = None
    """The group that was treated, where none was named."""
    described: str = ""
    """What the control is, for people: "g7k2's config"."""
    steps_per_second: float | None = None
    """Of this machine on this task, where a group has measured it."""
    environments: list[tuple[Arm, list[Arm]]] = field(default_factory=list)
    """Control and treatments of each, where there are several; `control` and `treatments` are then those of the first."""
    loses: bool = False
    """Most of the runs that reached the threshold fell below it again: how soon they reach it is not what ails them."""


def resolve(request: TrialRequest) -> Resolved:
    """The arms of a request; errors say what to type."""
    _check(request)
    if request.command is not None:
        found = arms.commands(request.command, request.arms)
        trust.approve(trust.COMMAND + request.command)
        return Resolved(found[0], found[1:], source="command", described=f"your command with {found[0].title}")
    resolved = _over_environments(request) if request.envs else _of_one_environment(request)
    return resolved if request.ablate is not None else _add_uniform(resolved)


def _add_uniform(resolved: Resolved) -> Resolved:
    """With an arm that draws the same tasks all alike, for each that chooses among them: what it finds out about them has to beat that."""
    added = False
    for control, treatments in resolved.environments or [(resolved.control, resolved.treatments)]:
        arms_of_both = [(arm, arm.config) for arm in (control, *treatments) if arm.config is not None]
        kept = control.config.curriculum.kind if control.config is not None and control.config.curriculum is not None else None
        for arm, config in arms_of_both:
            if config.curriculum is None or config.curriculum.kind in ("stages", "uniform", kept):
                continue
            alike = set_values(config, ["curriculum.kind=uniform"])
            if all(arms.differences(other, alike) for _, other in arms_of_both):
                name = "uniform" if all(other.name != "uniform" for other, _ in arms_of_both) else f"{arm.name}-uniform"
                treatments.append(arms.against(arms_of_both[0][1], alike, name))
                arms_of_both.append((treatments[-1], alike))
                added = True
    if added:
        resolved.notes.append("uniform: the same tasks drawn all alike, the control of any curriculum that chooses among them")
    return resolved


def _of_one_environment(request: TrialRequest) -> Resolved:
    if request.ablate is not None:
        return _ablation(request)
    if len(request.targets) > 1:
        return _configs(request)
    return _treated(request)


def typed(request: TrialRequest, resolved: Resolved) -> Action:
    """The command that asks the same again, but for the seeds."""
    usual = TrialRequest()
    options: dict[str, Any] = {
        "rx": ",".join(map(str, request.rx)) or None,
        "set": request.changes or None,
        "envs": ",".join(request.envs) or None,
        "run": request.command,
        "arm": request.arms or None,
    }
    for field_ in fields_of(TrialRequest):
        if field_.name in _ASKED_AGAIN and (value := getattr(request, field_.name)) != getattr(usual, field_.name):
            options[field_.option] = value
    options |= {"no_futility": not request.futility, "runs_dir": request.runs_dir if request.runs_dir != usual.runs_dir else None}
    return Action("trial", *([resolved.target] if resolved.target else request.targets), **options)


def _check(request: TrialRequest) -> None:
    ways = {
        Argument("run"): request.command is not None,
        Argument("ablate"): request.ablate is not None,
        "several configs": len(request.targets) > 1,
        Argument("rx"): bool(request.rx),
        Argument("set"): bool(request.changes),
    }
    _check_one_way(ways)
    if request.arms and request.command is None:
        raise UsageError(
            Argument("arm"),
            " fills the placeholders of a command.\n  There is none.\n  Type: ",
            Argument("run", "python train.py …"),
            ", or ",
            Argument("set"),
        )
    if request.envs:
        _check_environments(request)
    elif own := [target for target in request.targets if target.startswith(":")]:
        raise UsageError(
            f"{own[0]} is a variant of each environment, and none is named.\n  It cannot be told whose variant is meant.\n"
            f"  Type: CartPole-v1{own[0]}, or ",
            Argument("envs", ["CartPole-v1", "Acrobot-v1"]),
        )
    if request.command is not None and request.targets:
        raise UsageError(Argument("run"), f" says what is trained; {request.targets[0]} would be left out.\n  Type one of the two")


def _check_one_way(ways: Mapping[str, bool]) -> None:
    first, *others = [name for name, used in ways.items() if used] or [""]
    if others:
        named = (part for name in others for part in (" and ", name))
        raise UsageError(first, *named, " each say what the arms are.\n  It cannot be told which is meant.\n  Type one of them")


# ── several environments ──


def _check_environments(request: TrialRequest) -> None:
    if request.command is not None:
        raise UsageError(
            Argument("run"),
            " says what is trained, and so where: a command cannot be moved to each environment of ",
            Argument("envs"),
            ", whose thresholds and budgets it does not tell.\n  The runs of one environment would count as those of several.\n"
            "  Ask once for each environment, with a command of its own, or give configs",
        )
    if request.threshold is not None:
        raise UsageError(
            Argument("threshold", request.threshold),
            ": each environment of ",
            Argument("envs"),
            " has its own.\n"
            "  One number would be too easy for some, and out of reach for others.\n"
            "  Write `spec: {threshold: VALUE}` into config/environments/ENV.yaml, or take ",
            Argument("outcome", "return"),
        )
    own = [target.startswith(":") for target in request.targets]
    if any(own) and (not all(own) or request.rx):
        raise UsageError(
            f"{request.targets[own.index(True)]} is each environment's own variant, the other arms are not.\n"
            "  They would differ in more than what is tried.\n"
            "  Give variants alone (:ppo :ppo_fast), configs alone, or one of them with ",
            Argument("set"),
        )
    if len(own) == 1 and own[0] and not request.changes:
        raise UsageError(
            f"there is nothing to try against {request.targets[0]}.\n  Type: ", Change("KEY", "VALUE"), ", or a second variant"
        )
    if twice := [env for place, env in enumerate(request.envs) if _same(env) in map(_same, request.envs[:place])]:
        raise UsageError(
            f"{twice[0]} is named twice.\n  Its runs would count as those of two environments.\n  Type: ",
            Argument("envs", list({_same(env): env for env in reversed(request.envs)}.values())),
        )
    for env in request.envs:
        files.check_environment(env)


def _same(env: str) -> str:
    """The environment, however its file is spelled: ./my.py:Env is my.py:Env."""
    file, separator, name = env.rpartition(":")
    return f"{Path(file).resolve()}:{name}" if file.endswith(".py") else f"{file}{separator}{name}"


def _over_environments(request: TrialRequest) -> Resolved:
    """The arms in each environment.

    A config keeps its algorithm, its network and how it sees observations and rewards. The task, its threshold, budget and evaluations are
    the environment's own, as `train ENV` finds them, unless the control was made for that environment.
    """
    if request.targets and request.targets[0].startswith(":"):
        resolved = _variants(request)
    else:
        resolved = _of_one_environment(request)
        base = resolved.control.config
        assert base is not None
        for env in request.envs:
            config = base if base.env.id == env else _move(base, _load(f"{env}:{base.algo.name}"))
            if len(request.targets) > 1:
                others = [
                    arms.against(config, _move(arm.config, config), arm.name) for arm in resolved.treatments if arm.config is not None
                ]
            else:
                others = [arms.changed(config, arm.changes, arm.name) for arm in resolved.treatments]
            resolved.environments.append((arms.control(config, resolved.control.name), others))
        if moved := [env for env in request.envs if env != base.env.id]:
            resolved.notes.append(f"moved to {', '.join(moved)}: task, threshold, budget and evaluations are each environment's own")
    resolved.control, resolved.treatments = resolved.environments[0]
    trained = [arm.config for control, others in resolved.environments for arm in (control, *others) if arm.config is not None]
    trust.check_envs(config.env for config in trained)
    suitability.check(trained)
    return resolved


def _load(ref: str) -> Config:
    """The config of an environment that somebody has named; whoever names it has approved its code."""
    config = load(ref).config
    trust.approve(*trust.names_in(config.env))
    return config


def _variants(request: TrialRequest) -> Resolved:
    """Each environment's own variants of these names; or one of them with a change."""
    names = _names([target.removeprefix(":") for target in request.targets])
    made = []
    for env in request.envs:
        configs = [_load(f"{env}{target}") for target in request.targets]
        configs[1:] = [_train_as_long(config, configs[0]) for config in configs[1:]]
        others = [arms.against(configs[0], config, name) for config, name in zip(configs[1:], names[1:], strict=True)]
        if request.changes:
            others.append(arms.changed(configs[0], request.changes, "change"))
            trust.approve_new(configs[0].env, set_values(configs[0], request.changes).env)
        made.append((arms.control(configs[0]), arms.unique(others)))
    resolved = Resolved(*made[0], described=f"each environment's {names[0]}", environments=made)
    resolved.context["derived"] = describe(made[0][0].config) if made[0][0].config is not None else {}
    return resolved


_OF_THE_AGENT: Final = ("n_envs", "normalize_obs", "normalize_reward", "clip_obs", "clip_reward")
"""Settings of `env` that go with a config to another environment; all others are the task's."""
_OF_THE_TASK: Final = ("max_env_steps", "eval_every_env_steps", "eval_episodes", "eval_deterministic")
"""Settings of `run` that stay with an environment."""


def _train_as_long(config: Config, control: Config) -> Config:
    """A variant within the budget and by the evaluations of the control's."""
    return config.model_copy(update={"run": config.run.model_copy(update={name: getattr(control.run, name) for name in _OF_THE_TASK})})


def _move(config: Config, task: Config) -> Config:
    """The config as it would be trained on the task of another one."""
    record, there = to_record(config), to_record(task)
    record["env"] = {**there["env"], **{name: record["env"][name] for name in _OF_THE_AGENT}}
    record["run"] = {**record["run"], **{name: there["run"][name] for name in _OF_THE_TASK}}
    return from_record({**record, "spec": there["spec"], "name": there["name"]})


# ── configs ──


def _configs(request: TrialRequest) -> Resolved:
    sides = [_side(target, request) for target in request.targets]
    configs = [_config(side) for side in sides]
    names = _names(request.targets)
    # With --envs they are moved to the same environments, wherever they come from.
    moved = [_move(config, configs[0]) for config in configs[1:]] if request.envs else configs[1:]
    treatments = [arms.against(configs[0], config, name) for config, name in zip(moved, names[1:], strict=True)]
    same = [arm.name for arm in treatments if not arm.changes]
    notes = [f"{', '.join(same)}: the same settings as the control; only chance can tell them apart (an A/A trial)"] if same else []
    notes += [note for side in sides for note in side.notes]
    resolved = Resolved(arms.control(configs[0]), arms.unique(treatments), described=request.targets[0], notes=notes)
    _add_history(resolved, sides[0].histories)
    resolved.above_seed = max([resolved.above_seed, *(history.seed or -1 for side in sides for history in side.histories)])
    return resolved


def _names(targets: Sequence[str]) -> list[str]:
    """Short names of config files and variants: what tells them apart."""
    tails = [target.rpartition(":")[2] for target in targets]
    stems = [Path(tail).stem if tail.endswith((".yaml", ".yml")) else tail for tail in tails]
    shown = stems if len(set(stems)) == len(stems) else targets
    return [arms.short_name(text) for text in shown]


def _side(target: str, request: TrialRequest | RaceRequest) -> Side:
    found = targets.read(target, targets.Reading(request.runs_dir, request.threshold, request.max_env_steps))
    if len(found) > 1:
        raise UsageError(
            f"{target} holds runs of {len(found)} configs.\n  It cannot be told which one is meant.\n  Give one of them: {found[0].name}"
        )
    if found[0].config is not None:
        trust.approve(*trust.names_in(found[0].config.env))
    owner = found[0].owner
    if owner is None or any(change.startswith("env.id=") for change in request.changes):
        return found[0]
    env_code.check_found(owner)
    changed = env_code.describe_changes(owner, "all arms train in the environment as it is today; what its runs did is no measure of it")
    return replace(found[0], notes=(*found[0].notes, changed)) if changed else found[0]


def _config(side: Side) -> Config:
    """A side's config; one of another framework's is put together from what its log says."""
    if side.complete:
        record: dict[str, Any] = {}
        for key, value in side.settings.items():
            section, dot, name = key.partition(".")
            record.setdefault(section, {})[name] = value if dot else None
            if not dot:
                record[key] = value
        return from_record(record)
    translated = stand_in(side.histories)
    if translated is None or translated.env.id == "unknown":
        raise ConfigError(
            f"{side.name}: its log does not say enough to train it here (algorithm {side.algo or '?'}, environment {side.env or '?'}).\n"
            "  A trial would compare something else.\n  Try your own code: ",
            Action("trial", run="python train.py --seed {seed} …", arm="…"),
        )
    return _with_known_task(translated)


def _with_known_task(config: Config) -> Config:
    """With the threshold that we know of the environment, where a log did not say it."""
    if config.spec.threshold is not None:
        return config
    try:
        spec = load(config.env.id).config.spec
    except RlclinicError:
        return config
    return config.model_copy(update={"spec": spec})


# ── one group and what is changed ──


def _treated(request: TrialRequest) -> Resolved:
    target = request.targets[0] if request.targets else default_target(Store(request.runs_dir))
    side = _side(target, request)
    # What @last means changes with the next run; evidence and the command to repeat it must not.
    target = side.name if side.kind in ("group", "run") else target
    base = _config(side)
    resolved = Resolved(arms.control(base), [], described=_described(side, target), target=target, notes=list(side.notes))
    if side.kind == "group" and request.targets:
        resolved.context["group"] = target
    if not side.complete:
        resolved.source = "translated"
        resolved.notes.append(NOT_YOUR_SCRIPT)
    _add_history(resolved, side.histories)
    if request.changes:
        resolved.treatments = [arms.changed(base, request.changes, "change")]
        for arm in resolved.treatments:
            trust.approve_new(base.env, arm.config.env if arm.config is not None else base.env)
        return resolved
    _prescribe(resolved, base, target, request)
    return resolved


def default_target(store: Store) -> str:
    """The newest group that is not part of a trial."""
    groups = [group for group in store.groups() if trials.trial_of(group) is None]
    if not groups:
        raise NotFound(f"there is no group in {store.root} to treat.\n  Train one: ", Action("train", "CartPole-v1:ppo", seeds=8))
    return groups[-1].id


def _prescribe(resolved: Resolved, base: Config, target: str, request: TrialRequest) -> None:
    found = prescribe.prescribe(target, request.runs_dir, threshold=request.threshold)
    if not found.prescriptions:
        raise NotFound(
            f"nothing is prescribed for {target}: {found.why_none or 'no cause was found'}.\n"
            "  There is nothing to try.\n"
            "  Try a change of your own: ",
            Action("trial", target, set=["KEY=VALUE"]),
        )
    usable = [rx.number for rx in found.prescriptions if rx.trialable]
    chosen = [found.find(number) for number in request.rx or usable[:1]]
    for rx in chosen:
        if not rx.trialable:
            raise UsageError(
                f"prescription {rx.number} ({rx.title}) changes no setting.\n  A trial cannot try it.\n  See the others: ",
                Action("prescribe", target),
            )
    if not chosen:
        raise UsageError(
            f"no prescription for {target} changes a setting.\n  There is nothing to try.\n  See them: ", Action("prescribe", target)
        )
    resolved.treatments = [arms.changed(base, rx.overrides, f"rx{rx.number}") for rx in chosen]
    resolved.context |= {
        "cause": chosen[0].cause,
        "causes": {f"rx{rx.number}": rx.cause for rx in chosen},
        "prescriptions": {f"rx{rx.number}": rx.title for rx in chosen},
        "forecasts": {f"rx{rx.number}": rx.expected.model_dump() for rx in chosen if rx.expected is not None},
    }


def _described(side: Side, target: str) -> str:
    return f"{target}'s config" if side.kind in ("group", "run") else f"{target}, translated" if side.kind == "foreign" else target


def _add_history(resolved: Resolved, histories: Sequence[History]) -> None:
    """What runs of the control have shown: steps for the power, seeds to stay away from, speed for the cost, derived numbers."""
    config = resolved.control.config
    if config is not None:
        resolved.context["derived"] = describe(config)
    seeds = [history.seed for history in histories if history.seed is not None]
    resolved.above_seed, resolved.used_seeds = max(seeds, default=-1), seeds
    if histories:
        outcomes = [measure_log(history, history.goal, choose_source([history])) for history in histories]
        resolved.context["steps"] = [outcome.reached_at for outcome in outcomes]
        resolved.context["steps_within"] = max((float(outcome.steps[-1]) for outcome in outcomes if len(outcome.steps)), default=None)
        resolved.steps_per_second = _speed(histories)
        reached = [outcome for outcome in outcomes if outcome.reached_at is not None]
        lost = [each for each in reached if each.source == "evaluation" and each.lost]
        resolved.loses = 2 * len(lost) > len(reached) and 2 * len(reached) > len(histories)


def _speed(histories: Sequence[History]) -> float | None:
    """Env steps per second of all runs together, as their own clocks had it: they trained side by side."""
    clocks = [history.series["time"] for history in histories if "time" in history.series and len(history.series["time"]) > 1]
    if not clocks:
        return None
    seconds = max(float(clock.values.max()) for clock in clocks) - min(float(clock.values.min()) for clock in clocks)
    steps = sum(history.env_steps or 0 for history in histories)
    return steps / seconds if seconds > 0 else None


# ── ablation ──


def _ablation(request: TrialRequest) -> Resolved:
    """A treated config without each of its changes: which of them did it?"""
    record = _adopted(request)
    winner = record.record.get("winner") or next((effect["arm"] for effect in record.effects), None)
    by_name = {arm["name"]: arm for arm in record.record.get("arms") or []}
    treated, control = by_name.get(str(winner)), next(iter(by_name.values()), None)
    if treated is None or control is None or not treated.get("config"):
        raise UsageError(
            f"trial {record.id} has no treated config to take apart.\n  There is nothing to ablate.\n  Give a trial of configs"
        )
    full, base = from_record(treated["config"]), from_record(control["config"])
    pairs = dict(change.split("=", 1) for change in arms.differences(full, base))
    if len(pairs) < 2:
        raise UsageError(
            f"trial {record.id} changed {', '.join(pairs) or 'nothing'} alone.\n"
            "  Without it, the variant is the control that was already tried.\n"
            "  An ablation needs two changes or more"
        )
    treatments = [
        arms.changed(full, [f"{key}={value}"], arms.short_name(f"without-{key.rpartition('.')[2]}")) for key, value in pairs.items()
    ]
    resolved = Resolved(arms.control(full, "full"), arms.unique(treatments), described=f"{winner} of trial {record.id}")
    resolved.context = {"ablates": record.id}
    return resolved


def _adopted(request: TrialRequest) -> trials.TrialRecord:
    """The trial itself, or the one whose id stands above an adopted variant."""
    from rlclinic.ops.treat import adopt

    store = Store(request.runs_dir)
    assert request.ablate is not None
    return trials.find(store, adopt.trial_of(request.ablate) or request.ablate)


# ── races ──


def resolve_race(request: RaceRequest) -> Resolved:
    """The arms of a race: the first is the control's place, though no arm is measured against it more than against others."""
    ways = {
        Argument("run"): request.command is not None,
        "several configs": len(request.targets) > 1,
        Argument("set"): bool(request.changes),
    }
    _check_one_way(ways)
    if not any(ways.values()):
        raise UsageError(
            "a race needs two arms or more.\n  There is nothing to compare.\n  Give configs (a.yaml b.yaml c.yaml), or values: ",
            Change("algo.learning_rate", "1e-4,3e-4,1e-3"),
        )
    if request.arms and request.command is None:
        raise UsageError(
            Argument("arm"),
            " fills the placeholders of a command.\n  There is none.\n  Type: ",
            Argument("run", "python train.py …"),
            ", or ",
            Argument("set"),
        )
    if request.command is not None:
        trust.approve(trust.COMMAND + request.command)
        return _raced_commands(request.command, request.arms)
    return _raced_values(request) if request.changes else _raced_configs(request)


def _raced_commands(command: str, values: Sequence[str]) -> Resolved:
    made = arms.commands(command, values)
    first = made[0].model_copy(update={"name": arms.short_name(made[0].changes[0].replace("=", "-") if made[0].changes else "first")})
    named = arms.unique([first, *made[1:]])
    return Resolved(named[0], named[1:], source="command", described="your command")


def _raced_configs(request: RaceRequest) -> Resolved:
    sides = [_side(target, request) for target in request.targets]
    configs, names = [_config(side) for side in sides], _names(request.targets)
    made = arms.unique([arms.against(configs[0], config, name) for config, name in zip(configs, names, strict=True)])
    resolved = Resolved(made[0], made[1:], described=f"{len(made)} configs", notes=[note for side in sides for note in side.notes])
    _add_history(resolved, sides[0].histories)
    resolved.used_seeds = [run.seed for side in sides for run in side.histories if run.seed is not None]
    resolved.above_seed = max(resolved.used_seeds, default=-1)
    return resolved


def _raced_values(request: RaceRequest) -> Resolved:
    target = request.targets[0] if request.targets else default_target(Store(request.runs_dir))
    side = _side(target, request)
    target = side.name if side.kind in ("group", "run") else target
    base = _config(side)
    made = []
    for changes in request.patches:
        config = set_values(base, changes)
        trust.approve_new(base.env, config.env)
        pairs = (change.partition("=") for change in changes)
        name = arms.short_name("_".join(f"{key.rpartition('.')[2]}-{value}" for key, _, value in pairs))
        made.append(Arm(name=name, config=config, changes=tuple(changes)))
    if len(made) < 2:
        raise UsageError(
            Change.typed(request.changes),
            " is one arm alone.\n  There is nothing to compare.\n  Give several values: ",
            Change(request.changes[0].partition("=")[0], "V1,V2,V3"),
            f"; or try it against {target}: ",
            Action("trial", target, set=list(request.changes)),
        )
    made = arms.unique(made)
    resolved = Resolved(made[0], made[1:], described=_described(side, target), target=target, notes=list(side.notes))
    if not side.complete:
        resolved.source = "translated"
        resolved.notes.append(NOT_YOUR_SCRIPT)
    _add_history(resolved, side.histories)
    return resolved
