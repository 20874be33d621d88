"""Runs that are training now, ours and other frameworks': how they stand, stopping them, changing their numbers."""

import json
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlclinic import readers
from rlclinic.actions import Action
from rlclinic.diagnosis import columns
from rlclinic.errors import ConfigError, NotFound, UsageError
from rlclinic.ops.status import forecast
from rlclinic.readers import live
from rlclinic.report.models import Estimate, LiveGroup, LiveMember, Requested, State, StatusReport, state_of
from rlclinic.runs.history import History
from rlclinic.runs.listed import describe_run
from rlclinic.runs.metrics_file import rows
from rlclinic.runs.outcome import Outcome, measure_group
from rlclinic.runs.record import METRICS, Checkpoint, Group, Run
from rlclinic.runs.store import Store

if TYPE_CHECKING:
    from rlclinic.ops.status.forecast import Charts

KL, ENTROPY, EV = "train/metrics/kl_divergence", "train/metrics/entropy", "train/metrics/explained_variance"


def get_training_status(
    selector: str | None = None,
    runs_dir: Path = Path("runs"),
    *,
    threshold: float | None = None,
    budget: int | None = None,
    charts: "Charts | None" = None,
) -> StatusReport:
    """How a group stands and what to expect of it; without a selector, every group with a run that is training (or the last one).

    A path that is not ours is read as another framework's log; threshold and budget say what it does not know. Whoever asks
    again and again passes the same `charts`.
    """
    # Imported here: stopping a run must not wait for what forecasts need.
    from rlclinic.ops.status import forecast

    charts = charts or forecast.Charts(runs_dir)
    if selector is not None and is_foreign(selector, runs_dir):
        return StatusReport(groups=observe_folder(selector, charts, threshold=threshold, budget=budget))
    store = Store(runs_dir)
    known = {"threshold": threshold, "max_env_steps": budget}
    changes = {name: value for name, value in known.items() if value is not None}
    return StatusReport(groups=[_with_outlook(group, charts, changes) for group in _find_groups(store, selector)])


def _find_groups(store: Store, selector: str | None) -> list[Group]:
    if selector is not None and selector != "@running":
        return [store.group(selector)]
    running = [group for group in reversed(store.groups()) if any(run.status.state == "running" for run in group.runs)]
    if not running and selector == "@running":
        store.resolve(selector)  # says that nothing runs, and what to type
    return running or [store.group()]


def _with_outlook(group: Group, charts: "Charts", changes: Mapping[str, float | int]) -> LiveGroup:
    from rlclinic.ops.status import forecast
    from rlclinic.runs import history

    histories = [replace(history.of_run(run), **changes) for run in group.runs]  # type: ignore[arg-type]
    chart = charts.chart(group.env_id, group.algo, forecast.kwargs_of(group), group.id)
    return observe(group).model_copy(update={"outlook": forecast.assess(histories, group.id, chart)} if histories else {})


def observe(group: Group) -> LiveGroup:
    """A group's newest readings. Cheap enough for several times a second: no file is read as a whole."""
    members = [observe_run(run) for run in group.runs]
    rates = [member.steps_per_second for member in members if member.state == "running" and member.steps_per_second]
    rate = sum(rates) if rates else None
    returns = [member.return_mean for member in members if member.return_mean is not None]
    return LiveGroup(
        id=group.id,
        name=group.name,
        threshold=group.threshold,
        required_success=group.goal.require_success(reported=any(member.success_rate is not None for member in members)),
        state=_joint([member.state for member in members]),
        members=members,
        env_steps=sum(member.env_steps for member in members) // max(len(members), 1),
        max_env_steps=members[0].max_env_steps if members else None,
        steps_per_second=rate,
        eta_seconds=steps_left(members) / rate if rate else None,
        return_mean=estimate(returns),
    )


def observe_run(run: Run) -> LiveMember:
    """A run's newest readings."""
    listed = describe_run(run)
    latest = rows.latest(run.path / METRICS)
    return LiveMember(
        **listed.pick(LiveMember.model_fields.keys() - {"state", "success_rate"}),
        success_rate=latest.get(columns.SUCCESS) if listed.success_rate is None else listed.success_rate,
        run=listed.id,
        state=state_of(listed.state),
        kl=latest.get(KL),
        entropy=latest.get(ENTROPY),
        explained_variance=latest.get(EV),
        online=None if (acts := latest.get(columns.ONLINE)) is None else acts > 0,
        switch_dip=latest.get(columns.SWITCH_DIP),
    )


class Pace:
    """The speed over the last seconds of somebody who watches: one row's own rate jumps about, and leaves out evaluations."""

    def __init__(self, window_seconds: float = 15.0) -> None:
        self._window = window_seconds
        self._seen: deque[tuple[float, int]] = deque()

    def __call__(self, group: LiveGroup) -> LiveGroup:
        """The group with steps per second and time left as watched; without the time left until enough has been seen."""
        now, total = time.monotonic(), sum(member.env_steps for member in group.members)
        if not self._seen or total > self._seen[-1][1]:
            self._seen.append((now, total))
        while len(self._seen) > 2 and now - self._seen[1][0] > self._window:
            self._seen.popleft()
        (then, before), (last, after) = self._seen[0], self._seen[-1]
        if group.state != "running":
            return group
        if last - then < 1.0:
            # The first rows took as long as the start did: what they say of the rest frightens people.
            return group.model_copy(update={"eta_seconds": None})
        rate = (after - before) / (last - then)
        return group.model_copy(update={"steps_per_second": rate, "eta_seconds": steps_left(group.members) / rate})


def steps_left(members: Sequence[LiveMember]) -> int:
    """Env steps that live runs still have to make."""
    open_runs = [member for member in members if member.state in ("queued", "running")]
    return sum(max(0, (member.max_env_steps or 0) - member.env_steps) for member in open_runs)


def estimate(values: Sequence[float]) -> Estimate:
    """IQM over seeds with its 95 % interval, below 8 seeds with their range; one seed has neither."""
    from rlclinic import stats

    if not values:
        return Estimate(value=None, low=None, high=None)
    # A thousand resamples: a live view needs no more digits, and asks several times a second.
    return Estimate(**stats.estimate(values, resamples=1_000)._asdict())


def stop(selector: str = "@running", runs_dir: Path = Path("runs")) -> Requested:
    """Ask runs to checkpoint and stop, between two iterations."""
    return _request(_members(Store(runs_dir), selector), {}, stop=True)


def adjust(selector: str, changes: Sequence[str], runs_dir: Path = Path("runs"), *, live: Collection[str] = ()) -> Requested:
    """Ask live runs to change numbers (learning_rate, clip_range, ent_coef, ...); recorded, and replayed by a resume.

    `live` names those of which the caller knows that they are, whatever their last word says by this machine's clock.
    """
    from rlclinic.config import numbers, to_record
    from rlclinic.config.overrides import set_values
    from rlclinic.config.setting_names import find_setting

    if not changes:
        raise UsageError("adjust needs something to change.\n  Type: ", Action("adjust", "@running", set=["algo.ent_coef=0.01"]))
    runs = _members(Store(runs_dir), selector)
    run = next((run for run in runs if run.status.live), runs[0])
    before = run.config
    for change in changes:
        path = find_setting(change.partition("=")[0], before.algo.name)
        if path[0] != "algo" or path[1] not in numbers(before.algo):
            raise ConfigError(
                f"{'.'.join(path)} cannot change while a run is running: only numbers of the algorithm can.\n"
                f"  Numbers here: {', '.join(numbers(before.algo))}.\n"
                "  For the rest, fork the run: ",
                Action("train", f"{run.id}@STEP", set=[change]),
            )
    old, new = to_record(before)["algo"], to_record(set_values(before, list(changes)))["algo"]
    changed = {f"algo.{key}": value for key, value in new.items() if value != old[key]}
    if not changed:
        raise UsageError(f"nothing would change: {', '.join(changes)} is what {run.id} was started with")
    return _request(runs, changed, live=live)


def _members(store: Store, selector: str) -> list[Run]:
    if selector == "@running":
        return store.select(selector)
    selected = store.resolve(selector)
    if isinstance(selected, Checkpoint):
        raise UsageError(f"{selector!r} is a checkpoint; a run or a group is meant here.\n  Type: {selected.run.id}")
    return selected.runs if isinstance(selected, Group) else [selected]


def _request(runs: Sequence[Run], numbers: dict[str, object], *, stop: bool = False, live: Collection[str] = ()) -> Requested:
    asked, skipped = [], {}
    for run in runs:
        status = run.status
        if status.live or (status.state == "crashed" and run.id in live):
            run.ask(stop=stop, numbers=numbers or None)
            asked.append(run.id)
        else:
            skipped[run.id] = status.state
    if not asked:
        states = ", ".join(sorted(set(skipped.values())))
        raise NotFound(
            f"none of these runs is training now ({', '.join(list(skipped)[:4])}: {states}).\n  See what is: ",
            Action("runs list", state="running"),
        )
    return Requested(runs=asked, skipped=skipped, changes=numbers)


def _joint(states: Sequence[State]) -> State:
    """One word for a group: running while anything may change, else the worst that happened."""
    order: tuple[State, ...] = ("running", "queued", "failed", "crashed", "stopped")
    return next((state for state in order if state in states), "finished")


def is_foreign(selector: str, runs_dir: Path) -> bool:
    """Whether a selector is a path to something that no store of ours holds."""
    path = Path(selector)
    if selector.startswith("@") or not path.exists() or (runs_dir / path.name / "config.json").is_file():
        return False
    return not any((path / name).is_file() for name in ("status.json", "group.json"))


def observe_folder(target: str, charts: forecast.Charts, *, threshold: float | None = None, budget: int | None = None) -> list[LiveGroup]:
    """One group for each config among the runs of a folder."""
    running = live.is_written(Path(target))
    histories = [_placed(each, running) for each in readers.read(target, threshold=threshold, budget=budget)]
    groups: dict[str, list[History]] = {}
    for each in histories:
        settings = {key: value for key, value in each.settings.items() if key not in ("seed", "name")}
        key = json.dumps([each.source, each.env_id, each.algo, settings], sort_keys=True, default=str)
        groups.setdefault(key, []).append(each)
    return [_group(target, group, charts) for group in groups.values()]


def _placed(history: History, running: bool) -> History:
    """With a state, where the log has none: running while its files change."""
    if history.state != "unknown":
        return history
    done = history.max_env_steps is not None and (history.env_steps or 0) >= live.DONE * history.max_env_steps
    return replace(history, state="finished" if done else "running" if running else "stopped")


def _group(target: str, histories: Sequence[History], charts: forecast.Charts) -> LiveGroup:
    first = histories[0]
    outcomes = measure_group(histories, first.goal, first.source)
    members = [_member(place, each, came) for place, (each, came) in enumerate(zip(histories, outcomes, strict=True))]
    rates = [member.steps_per_second for member in members if member.steps_per_second and member.state == "running"]
    left = sum(max(0, (member.max_env_steps or 0) - member.env_steps) for member in members if member.state == "running")
    chart = charts.chart(first.env_id, first.algo) if first.env_id and first.algo else None
    running = any(member.state == "running" for member in members)
    return LiveGroup(
        id=first.id if len(histories) == 1 else target,
        name=f"{first.env_id or '?'}:{first.algo or '?'}",
        threshold=first.threshold,
        required_success=outcomes[0].required_success,
        state="running" if running else members[0].state,
        members=members,
        env_steps=sum(member.env_steps for member in members) // len(members),
        max_env_steps=first.max_env_steps,
        steps_per_second=sum(rates) if rates else None,
        eta_seconds=left / sum(rates) if rates and left else None,
        return_mean=estimate([member.return_mean for member in members if member.return_mean is not None]),
        outlook=forecast.assess(histories, target, chart),
    )


def _member(place: int, history: History, came: Outcome) -> LiveMember:
    def last(name: str) -> float | None:
        series = history.series.get(name)
        return None if series is None else series.last

    state: State = history.state if history.state in ("finished", "running", "stopped", "failed") else "stopped"  # type: ignore[assignment]
    episodes = last(columns.EPISODES)
    return LiveMember(
        run=history.id,
        seed=place if history.seed is None else history.seed,
        state=state,
        reason=history.reason,
        env_steps=history.env_steps or 0,
        max_env_steps=history.max_env_steps,
        episodes=None if episodes is None else int(episodes),
        return_mean=last(columns.RETURN),
        eval_mean=last(columns.EVAL_RETURN),
        best_eval=came.best if came.source == "evaluation" else None,
        kl=last(columns.KL),
        entropy=last(columns.ENTROPY),
        explained_variance=last(columns.EXPLAINED_VARIANCE),
        steps_per_second=last(columns.FPS),
        threshold_reached_at=None if came.reached_at is None else int(came.reached_at),
        lost=came.lost,
        success_rate=None if came.last_success is None else came.last_success.rate,
    )
