"""A trial from plan to verdict: arms on fresh seeds, a look after every batch, and a stop as soon as the rule allows.

    plan = trial.plan(arms.control(config), [arms.changed(config, ["algo.learning_rate=1e-3"], "rx1")])
    result = trial.run(Store("runs"), plan)
    result.verdict, result.winner, result.effects[0].ratio

The ledger is runs/@trials/<tid>/trial.json; the data are ordinary runs that carry the trial's id. A trial that is killed at any
moment is resumed by reading both: the same seeds give the same runs, and the same runs the same verdict.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from rlclinic.actions import Action, Argument, Change
from rlclinic.config import Config
from rlclinic.errors import RunError, UsageError
from rlclinic.launch import batch, places
from rlclinic.launch.batch import Interrupted, StopRequests
from rlclinic.runs import trials
from rlclinic.runs.outcome import usual_margin, was_evaluated
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from rlclinic.treatment.trial import analysis, command, environments, outcomes, power, questions, running
from rlclinic.treatment.trial.analysis import LookData, Standing
from rlclinic.treatment.trial.arms import Arm, differences
from rlclinic.treatment.trial.environments import SeveralStanding
from rlclinic.treatment.trial.models import (
    CENSORED_OUTCOMES,
    Environment,
    EnvironmentResult,
    Event,
    Extension,
    Source,
    Trial,
    TrialOutcome,
    TrialPlan,
)
from rlclinic.treatment.trial.running import Job, Progress
from rlclinic.treatment.trial.sequential import NORMAL_FROM, RuleName

__all__ = ["Interrupted", "Progress", "begin", "extend", "load", "plan", "plan_environments", "question", "resume", "run"]

MOST_LOOKS = 20
FEWEST_SEEDS = 2
MOST_NAMED = 3
"""Changes that a question can still name."""
_EVALUATIONS = 20


def plan(
    control: Arm,
    treatments: Sequence[Arm],
    *,
    outcome: TrialOutcome = "steps",
    per_look: int = 8,
    looks: int = 4,
    alpha: float = 0.05,
    margin: float | None = None,
    seed0: int | None = None,
    rule: RuleName = "wang-tsiatis",
    arrival_margin: float = 0.10,
    futility: bool = True,
    whole_budget: bool = False,
    max_env_steps: int | None = None,
    device: str | None = None,
    above_seed: int = -1,
    threshold: float | None = None,
    source: Source = "own",
    context: dict[str, Any] | None = None,
    timeout_seconds: float | None = None,
    notes: Sequence[str] = (),
) -> TrialPlan:
    """Check the arms and settle what they share: budget, evaluations, where runs end. Nothing is written; UsageError says what is wrong."""
    margin = usual_margin(outcome) if margin is None else margin
    _check(control, treatments, per_look, looks, alpha, margin, arrival_margin)
    _check_outcome(outcome, per_look)
    base = control.config
    if base is not None:
        threshold = base.spec.threshold if threshold is None else threshold
    if outcome in CENSORED_OUTCOMES and threshold is None:
        raise UsageError(
            f"outcome {outcome}: no threshold is known for {base.env.id if base is not None else 'this command'}.\n"
            "  There would be nothing to reach.\n  Type: ",
            Argument("threshold", "VALUE"),
            ", or ",
            Argument("outcome", "return"),
        )
    ready = [_prepared(arm, base, outcome, whole_budget, max_env_steps, device, threshold) for arm in (control, *treatments)]
    first = ready[0].config
    if first is not None:
        _check_changes(first, ready[1:])
    return TrialPlan(
        control=ready[0],
        treatments=tuple(ready[1:]),
        outcome=outcome,
        looks=looks,
        per_look=per_look,
        alpha=alpha,
        margin=margin,
        rule=rule,
        arrival_margin=arrival_margin,
        futility=futility,
        seed0=seed0,
        above_seed=above_seed,
        whole_budget=whole_budget or outcome not in CENSORED_OUTCOMES,
        own_budgets=max_env_steps is None and any(_tries_budget(arm) for arm in ready[1:]),
        threshold=threshold,
        budget=_shared_budget(ready) if first is not None else None,
        env_id=first.env.id if first is not None else "?",
        algo=first.algo.name if first is not None else "?",
        source="command" if first is None else source,
        # What the trial changes for itself is put back when its winner is adopted.
        context={**(context or {}), **({"run": base.run.model_dump(mode="json")} if base is not None else {})},
        timeout_seconds=timeout_seconds,
        notes=tuple(notes),
    )


def plan_environments(parts: Sequence[tuple[Arm, Sequence[Arm]]], **options: Any) -> TrialPlan:
    """The plan of a trial over several environments: the control and the treatments of each, by the same names in the same order.

    `options` are those of `plan`, which checks each environment by itself; thresholds and budgets are each environment's own.
    """
    made = [plan(control, treatments, **options) for control, treatments in parts]
    ids = [each.env_id for each in made]
    if twice := [env_id for place, env_id in enumerate(ids) if env_id in ids[:place]]:
        raise UsageError(
            f"{twice[0]} is named twice.\n  Its runs would count as those of two environments.\n  Type: ",
            Argument("envs", list(dict.fromkeys(ids))),
        )
    if tries := [arm.name for each in made if each.own_budgets for arm in each.treatments if _tries_budget(arm)]:
        raise UsageError(
            f"arm {tries[0]} changes run.max_env_steps, and each environment has a budget of its own.\n"
            "  It cannot be told what the change would be there.\n  Try it on one environment at a time, without ",
            Argument("envs"),
        )
    if any([arm.name for arm in each.arms] != [arm.name for arm in made[0].arms] for each in made):
        raise UsageError("the arms of the environments are not called the same; their runs could not be put together")
    environments = tuple(
        Environment(
            env_id=each.env_id,
            control=each.control,
            treatments=each.treatments,
            threshold=each.threshold,
            budget=each.budget,
            run=each.context["run"],
        )
        for each in made
    )
    algos = dict.fromkeys(each.algo for each in made)
    update = {"environments": environments, "env_id": ", ".join(ids), "algo": ", ".join(algos), "threshold": None, "budget": None}
    return made[0] if len(made) == 1 else made[0].model_copy(update=update)


def _check(control: Arm, treatments: Sequence[Arm], per_look: int, looks: int, alpha: float, margin: float, arrival_margin: float) -> None:
    names = [arm.name for arm in (control, *treatments)]
    if not treatments:
        raise UsageError(
            "a trial needs something to try.\n  There is nothing to compare.\n  Type: ",
            Argument("rx", 1),
            ", ",
            Change("KEY", "VALUE"),
            ", or a second config",
        )
    if len(set(names)) != len(names):
        raise UsageError(f"two arms are called the same ({', '.join(names)}); their runs could not be told apart")
    if len({arm.config is None for arm in (control, *treatments)}) > 1:
        raise UsageError(
            "some arms are configs and some are commands.\n  They would not be trained alike.\n  Give all arms as one or the other"
        )
    if not 1 <= looks <= MOST_LOOKS or per_look < FEWEST_SEEDS:
        raise UsageError(
            Argument("looks", looks),
            " ",
            Argument("per_look", per_look),
            f": a trial takes 1 to {MOST_LOOKS} looks of {FEWEST_SEEDS} seeds or more.\n"
            "  With fewer seeds nothing could ever be decided.\n  Type: ",
            Argument("looks", 4),
            " ",
            Argument("per_look", 8),
        )
    if not 0 < alpha < 0.5 or not 0 < margin < 1:
        raise UsageError(
            Argument("alpha", alpha),
            " ",
            Argument("margin", margin),
            ": between 0 and 0.5, and between 0 and 1.\n  Type: ",
            Argument("alpha", 0.05),
            " ",
            Argument("margin", 0.1),
        )
    if not 0 < arrival_margin < 1:
        raise UsageError(
            Argument("arrival_margin", arrival_margin),
            ": a share between 0 and 1.\n  Type: ",
            Argument("arrival_margin", 0.1),
            " for 10 points",
        )


def _check_outcome(outcome: TrialOutcome, per_look: int) -> None:
    if outcome == "stability" and per_look < NORMAL_FROM:
        raise UsageError(
            "outcome stability with ",
            Argument("per_look", per_look),
            ": so few seeds say little about their own spread.\n  Equal arms would be called different too often.\n  Type: ",
            Argument("per_look", NORMAL_FROM),
        )


def _prepared(
    arm: Arm, base: Config | None, outcome: TrialOutcome, whole: bool, budget: int | None, device: str | None, threshold: float | None
) -> Arm:
    """The arm as it is trained: budgets as asked, the control's task and evaluations, and an end where the outcome is known."""
    if arm.config is None or base is None:
        return arm
    config = arm.config
    steps = budget or config.run.max_env_steps
    every = base.run.eval_every_env_steps or max(1, (budget or base.run.max_env_steps) // _EVALUATIONS)
    run = {
        "max_env_steps": steps,
        "eval_every_env_steps": min(every, max(1, steps // _EVALUATIONS)) if budget else every,
        "eval_episodes": base.run.eval_episodes or 20,
        "eval_deterministic": base.run.eval_deterministic,
        "stop_at_threshold": outcome in CENSORED_OUTCOMES and not whole,
        "device": device or config.run.device,
        "engine": "auto" if device in ("cuda", "auto") else config.run.engine,
    }
    record = config.model_dump(mode="json")
    record["run"] |= run
    record["spec"] = {**base.spec.model_dump(mode="json"), "threshold": threshold}
    return arm.model_copy(update={"config": Config(**record)})


def _check_changes(control: Config, treatments: Sequence[Arm]) -> None:
    """What a trial settles for all arms alike cannot be what it tries."""
    for arm in treatments:
        left = {change.partition("=")[0] for change in differences(control, arm.config or control)}
        lost = [change for change in arm.changes if change.startswith(("run.", "spec.")) and change.partition("=")[0] not in left]
        if lost and (not left or len(arm.changes) <= MOST_NAMED):
            raise UsageError(
                f"arm {arm.name} changes {' and '.join(lost)}, which a trial sets alike for all arms (budget by ",
                Argument("max_env_steps"),
                ", evaluations, threshold).\n  It would compare equal arms.\n  Leave out ",
                Argument("max_env_steps"),
                ", or try another change",
            )


def _tries_budget(arm: Arm) -> bool:
    return len(arm.changes) <= 2 and any(change.startswith("run.max_env_steps=") for change in arm.changes)


def _shared_budget(arms: Sequence[Arm]) -> int:
    return min(arm.config.run.max_env_steps for arm in arms if arm.config is not None)


def question(plan: TrialPlan) -> str:
    """What the trial asks, as a sentence."""
    threshold = "the threshold" if plan.environments else f"{plan.threshold:g}" if plan.threshold is not None else ""
    goal = {
        "steps": f"reach {threshold} in fewer env steps",
        "wall": f"reach {threshold} in less time",
        "return": "end with a higher return",
        "success": "succeed more often",
        "stability": "end with less spread over seeds",
    }[plan.outcome]
    if plan.own_budgets and plan.outcome in CENSORED_OUTCOMES:
        goal = f"reach {threshold} within its own budget"
    place = "" if plan.env_id == "?" else f"{plan.env_id}: "
    if plan.environments:
        goal += f", over {len(plan.environments)} environments"
    if len(plan.treatments) > 1:
        return f"{place}does any of {len(plan.treatments)} changes {goal}?"
    arm = plan.treatments[0]
    if not arm.changes:
        return f"{place}does the same config {goal} by chance?"
    if len({part.treatments[0].changes for part in plan.parts}) > 1:
        return f"{place}does {arm.name}, in the settings of each environment, {goal}?"
    return f"{place}does {arm.title if len(arm.changes) <= MOST_NAMED else f'{arm.name} ({len(arm.changes)} changes)'} {goal}?"


# ── running ──


def run(
    store: Store, plan: TrialPlan, *, progress: Progress | None = None, cores: int | None = None, stop: StopRequests | None = None
) -> Trial:
    """Carry out a plan; blocks until the verdict. Interrupted if `stop` says so, Killed if the machine does: `resume` goes on later."""
    begun = begin(store, plan)
    job = Job(store, begun.id, plan, begun.seed0, cores or places.count_cores(), progress, stop)
    if progress is not None:
        progress(Event(kind="started", trial=begun.id, look=1))
    return _carry_out(job, begun)


def begin(store: Store, plan: TrialPlan, tid: str | None = None) -> Trial:
    """Write down a trial with its seeds, without training anything: `resume` carries it out. `tid`: an id that was reserved for it."""
    tid = tid or trials.reserve(store)
    begun = Trial(
        id=tid,
        question=question(plan),
        source=plan.source,
        plan=plan,
        context=plan.context,
        power=power.of_plan(plan),
        max_env_steps=plan.max_env_steps,
        **starting_fields(store, plan),
    )
    questions.register_plan(store, plan, tid, begun.seed0)
    _write(store, begun)
    return begun


def starting_fields(store: Store, plan: TrialPlan) -> dict[str, Any]:
    """What a trial and a race write down alike when they begin. The seeds are taken: no other trial of the store gets them."""
    seed0 = trials.fresh_seeds(store, plan.n_seeds, plan.above_seed) if plan.seed0 is None else plan.seed0
    shared = {name: getattr(plan, name) for name in ("env_id", "algo", "outcome", "threshold", "notes")}
    return {"state": "running", "created": time.time(), "seed0": seed0, **shared}


def resume(
    store: Store, tid: str, *, progress: Progress | None = None, cores: int | None = None, stop: StopRequests | None = None
) -> Trial:
    """Go on with a trial that was interrupted or killed; one that has ended is returned as it is."""
    found = load(store, tid)
    if found.state == "finished":
        return found
    job = Job(store, found.id, found.plan, found.seed0, cores or places.count_cores(), progress, stop)
    batch.forget_half_made(store, found.id)
    return _carry_out(job, found)


def extend(store: Store, tid: str, seeds: int) -> Trial:
    """Write down more seeds for a trial that ended undecided; `resume` carries them out, and the error stays what was promised."""
    ended = load(store, tid)
    if ended.state != "finished":
        raise UsageError(
            f"trial {ended.id} has not ended: there is nothing to extend yet.\n  Go on with it first: ", Action("trial", resume=ended.id)
        )
    if ended.verdict not in ("undecided", "less reliable"):
        raise UsageError(
            f"trial {ended.id} is decided ({ended.verdict}): more seeds could only unmake what was shown.\n  Start another: ",
            Action("trial"),
        )
    if seeds < FEWEST_SEEDS:
        raise UsageError(
            Argument("seeds", seeds), f": an extension takes {FEWEST_SEEDS} seeds an arm or more.\n  Type: ", Argument("seeds", 16)
        )
    plan = ended.plan
    first = trials.fresh_seeds(store, len(plan.parts) * len(plan.arms) * seeds, plan.above_seed)
    longer = plan.model_copy(update={"extensions": (*plan.extensions, Extension(seeds=seeds, seed0=first)), "futility": False})
    begun = ended.model_copy(
        update={"plan": longer, "state": "running", "verdict": None, "winner": None, "reason": "", "max_env_steps": longer.max_env_steps}
    )
    _write(store, begun)
    return begun


def load(store: Store, tid: str = "@last") -> Trial:
    """A stored trial by its id or the beginning of it; RunError if its file is not what a trial writes."""
    found = trials.find(store, tid)
    try:
        return Trial.model_validate(found.record)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise RunError(
            f"{found.path / trials.TRIAL} is damaged, or from another version: {where or 'it'} is not as it should be.\n"
            "  Nothing can be said about this trial.\n"
            "  Start it anew: ",
            Action("trial"),
        ) from None


def _carry_out(job: Job, begun: Trial) -> Trial:
    """Looks until it is decided. Those that were made before are made again from the same runs: nothing is trained twice."""
    standing = SeveralStanding(job.plan) if job.plan.environments else Standing(job.plan)
    groups: list[dict[str, list[str]]] = [{} for _ in job.plan.parts]
    began = time.monotonic()
    while not standing.decided:
        number, started = len(standing.data) + 1, time.monotonic()
        arms = [arm for arm in job.plan.arms if arm.name == job.plan.control.name or arm.name in standing.active]
        try:
            if job.plan.source == "command":
                trained = [command.run_look(job, number, arms)]
            else:
                trained = running.train_look(job, number, [arm.name for arm in arms])
        except (Interrupted, batch.Killed):
            _write(job.store, _result(begun, standing, groups, "interrupted", began))
            raise
        for known, own in zip(groups, trained, strict=True):
            for name, group in own.items():
                known.setdefault(name, []).append(group.id)
        data = [_observed(part, own) for part, own in zip(job.plan.parts, trained, strict=True)]
        earlier = begun.looks[number - 1].seconds if number <= len(begun.looks) else 0.0
        seconds = max(earlier, time.monotonic() - started)
        look = standing.add_environments(data, seconds) if isinstance(standing, SeveralStanding) else standing.add(data[0], seconds)
        _write(job.store, _result(begun, standing, groups, "running", began))
        if job.progress is not None:
            shown = [
                analysis.arm_progress(name, seen, part.env_id if job.plan.environments else None)
                for part, own in zip(job.plan.parts, data, strict=True)
                for name, seen in own.items()
            ]
            job.progress(Event(kind="look", trial=job.tid, look=number, result=look, seconds=look.seconds, arms=tuple(shown)))
    finished = _result(begun, standing, groups, "finished", began)
    _write(job.store, finished)
    return finished


def _observed(plan: TrialPlan, trained: dict[str, Group]) -> LookData:
    """What the runs of a look in one environment came to, all judged by the same thing up to the same step."""
    runs = [run for group in trained.values() for run in group.runs]
    by_evaluation = all(was_evaluated(run.metrics) for run in runs if run.status.state != "failed")
    horizon = float("inf")
    if not plan.own_budgets and plan.budget is not None:
        horizon = _cut(plan)
    elif plan.source == "command":
        horizon = float(min(max((run.status.env_steps for run in group.runs), default=0) for group in trained.values())) or horizon
    return {
        name: [outcomes.observe(run, plan.threshold, horizon, by_evaluation=by_evaluation) for run in group.runs]
        for name, group in trained.items()
    }


def _cut(plan: TrialPlan) -> float:
    """The common budget, where arms have different ones; the last rollout may end a little after an equal one."""
    budgets = {arm.config.run.max_env_steps for arm in plan.arms if arm.config is not None}
    return float(min(budgets)) if len(budgets) > 1 else float("inf")


def _result(begun: Trial, standing: Standing, groups: Sequence[Mapping[str, Sequence[str]]], state: str, began: float) -> Trial:
    ended = state == "finished"
    verdict, winner = analysis.verdict(standing) if ended else (None, None)
    trained = {arm.name: [group for own in groups for group in own.get(arm.name, ())] for arm in standing.plan.arms}
    each: tuple[EnvironmentResult, ...] = ()
    if isinstance(standing, SeveralStanding):
        results = tuple(environments.arm_result(standing, name, own) for name, own in trained.items())
        effects = environments.effects(standing) if standing.looks else ()
        each = environments.results(standing, groups) if standing.looks else ()
    else:
        results = tuple(analysis.arm_result(standing, name, own) for name, own in trained.items())
        effects = analysis.effects(standing) if standing.looks else ()
    return begun.model_copy(
        update={
            "state": state,
            "seconds": sum(look.seconds for look in standing.looks) or time.monotonic() - began,
            "horizon": standing.plan.budget,
            "arms": results,
            "looks": tuple(standing.looks),
            "effects": effects,
            "verdict": verdict,
            "winner": winner,
            "reason": standing.reason if verdict == "undecided" else "",
            "used_env_steps": sum(result.env_steps for result in results),
            "environments": each,
        }
    )


def _write(store: Store, trial: Trial) -> None:
    trials.write(store, trial.id, trial.model_dump(mode="json"))
