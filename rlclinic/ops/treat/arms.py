"""What `trial` is asked to compare: groups, prescriptions, changes, config files, variants, revisions, or the user's own command."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rlclinic import trust
from rlclinic.actions import Action
from rlclinic.comparison.sides import Side
from rlclinic.config import Config, describe, from_record, load
from rlclinic.errors import ConfigError, NotFound, RlclinicError, UsageError
from rlclinic.ops.diagnose import prescribe
from rlclinic.ops.runs import targets
from rlclinic.ops.treat.requests import TrialRequest
from rlclinic.runs import trials
from rlclinic.runs.history import History
from rlclinic.runs.outcome import choose_source, measure_log
from rlclinic.runs.store import Store
from rlclinic.treatment.prescription.prescribe import stand_in
from rlclinic.treatment.trial import arms
from rlclinic.treatment.trial.arms import Arm
from rlclinic.treatment.trial.models import Source

NOT_YOUR_SCRIPT: Final = (
    "NOT YOUR SCRIPT: this trains rlclinic's own trainer with settings translated from your log; what it did not log is ours. "
    "To try it in your own code: rlclinic trial --run 'python train.py --seed {seed} --lr {learning_rate}' "
    "--arm learning_rate=OLD --arm learning_rate=NEW"
)


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
    loses: bool = False
    """Most of the runs that reached the threshold fell below it again: how soon they reach it is not what ails them."""


def resolve(request: TrialRequest) -> Resolved:
    """The arms of a request; errors say what to type."""
    _check(request)
    if request.command is not None:
        found = arms.commands(request.command, request.arms)
        trust.approve(trust.COMMAND + request.command)
        return Resolved(found[0], found[1:], source="command", described=f"your command with {found[0].title}")
    if request.ablate is not None:
        return _ablation(request)
    if len(request.targets) > 1:
        return _configs(request)
    return _treated(request)


def typed(request: TrialRequest, resolved: Resolved) -> str:
    """The command that asks the same again, but for the seeds."""
    words = ["rlclinic", "trial", *([resolved.target] if resolved.target else request.targets)]
    words += ["--rx", ",".join(map(str, request.rx))] if request.rx else []
    words += [word for change in request.changes for word in ("--set", change)]
    words += ["--run", request.command] if request.command is not None else []
    words += [word for arm in request.arms for word in ("--arm", arm)]
    usual = TrialRequest()
    for flag in (
        "ablate",
        "outcome",
        "looks",
        "per_look",
        "alpha",
        "margin",
        "rule",
        "max_env_steps",
        "threshold",
        "device",
        "timeout_seconds",
    ):
        if (value := getattr(request, flag)) != getattr(usual, flag):
            words += [f"--{flag.removesuffix('_seconds').replace('_', '-')}", str(value)]
    words += ["--whole-budget"] if request.whole_budget else []
    words += ["--runs-dir", str(request.runs_dir)] if request.runs_dir != usual.runs_dir else []
    return shlex.join(words)


def _check(request: TrialRequest) -> None:
    ways = {
        "--run": request.command is not None,
        "--ablate": request.ablate is not None,
        "several configs": len(request.targets) > 1,
        "--rx": bool(request.rx),
        "--set": bool(request.changes),
    }
    given = [name for name, used in ways.items() if used]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} each say what the arms are.\n  It cannot be told which is meant.\n  Type one of them")
    if request.arms and request.command is None:
        raise UsageError("--arm fills the placeholders of a command.\n  There is none.\n  Type: --run 'python train.py …', or --set")
    if request.command is not None and request.targets:
        raise UsageError(f"--run says what is trained; {request.targets[0]} would be left out.\n  Type one of the two")


# ── configs ──


def _configs(request: TrialRequest) -> Resolved:
    sides = [_side(target, request) for target in request.targets]
    configs = [_config(side) for side in sides]
    names = _names(request.targets)
    treatments = [arms.against(configs[0], config, name) for config, name in zip(configs[1:], names[1:], strict=True)]
    same = [arm.name for arm in treatments if not arm.changes]
    notes = [f"{', '.join(same)}: the same settings as the control; only chance can tell them apart (an A/A trial)"] if same else []
    notes += [note for side in sides for note in side.notes]
    resolved = Resolved(arms.control(configs[0]), arms.unique(treatments), described=request.targets[0], notes=notes)
    _add_history(resolved, sides[0].histories)
    resolved.above_seed = max([resolved.above_seed, *(each.seed or -1 for side in sides for each in side.histories)])
    return resolved


def _names(targets: Sequence[str]) -> list[str]:
    """Short names of config files and variants: what tells them apart."""
    tails = [target.rpartition(":")[2] for target in targets]
    stems = [Path(tail).stem if tail.endswith((".yaml", ".yml")) else tail for tail in tails]
    shown = stems if len(set(stems)) == len(stems) else targets
    return [arms.short_name(text) for text in shown]


def _side(target: str, request: TrialRequest) -> Side:
    found = targets.read(target, targets.Reading(request.runs_dir, request.threshold, request.max_env_steps))
    if len(found) > 1:
        raise UsageError(
            f"{target} holds runs of {len(found)} configs.\n  It cannot be told which one is meant.\n  Give one of them: {found[0].name}"
        )
    if found[0].config is not None:
        trust.approve(*trust.names_in(found[0].config.env))
    return found[0]


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
    resolved = Resolved(arms.control(base), [], described=_described(side, target), target=target)
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
    seeds = [each.seed for each in histories if each.seed is not None]
    resolved.above_seed, resolved.used_seeds = max(seeds, default=-1), seeds
    if histories:
        outcomes = [measure_log(each, each.goal, choose_source([each])) for each in histories]
        resolved.context["steps"] = [each.reached_at for each in outcomes]
        resolved.context["steps_within"] = max((float(each.steps[-1]) for each in outcomes if len(each.steps)), default=None)
        resolved.steps_per_second = _speed(histories)
        reached = [each for each in outcomes if each.reached_at is not None]
        lost = [each for each in reached if each.source == "evaluation" and each.lost]
        resolved.loses = 2 * len(lost) > len(reached) and 2 * len(reached) > len(histories)


def _speed(histories: Sequence[History]) -> float | None:
    """Env steps per second of all runs together, as their own clocks had it: they trained side by side."""
    clocks = [each.series["time"] for each in histories if "time" in each.series and len(each.series["time"]) > 1]
    if not clocks:
        return None
    seconds = max(float(clock.values.max()) for clock in clocks) - min(float(clock.values.min()) for clock in clocks)
    steps = sum(each.env_steps or 0 for each in histories)
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
