"""A race from plan to ranking: rounds of seeds for those arms that need them, until one is shown to be best or nothing is left to give.

    planned = conduct.plan([arms.control(first, "a"), arms.against(first, second, "b"), arms.against(first, third, "c")])
    result = conduct.run(Store("runs"), planned)
    result.verdict, result.winner, [(arm.arm.name, arm.ranks) for arm in result.arms]

The ledger is runs/@race/<id>/race.json; the data are ordinary runs that carry the race's id. A race that is killed at any moment is resumed
by reading both: the same seeds give the same runs, and the same runs the same ranking.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from rlclinic.actions import Action, Argument, Change
from rlclinic.errors import UsageError
from rlclinic.launch import batch, places
from rlclinic.launch.batch import Interrupted, StopRequests
from rlclinic.runs import questions, studies, trials
from rlclinic.runs.outcome import was_evaluated
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from rlclinic.treatment.race import analysis
from rlclinic.treatment.race.analysis import Standing
from rlclinic.treatment.race.models import Race, RaceEvent, RaceOutcome, RacePlan
from rlclinic.treatment.race.rule import MOST_ARMS, PER_ROUND, ROUNDS
from rlclinic.treatment.trial import command, conduct, outcomes, running
from rlclinic.treatment.trial.analysis import arm_progress
from rlclinic.treatment.trial.arms import Arm, differences
from rlclinic.treatment.trial.models import Event, Extension, Observation
from rlclinic.treatment.trial.questions import describe
from rlclinic.treatment.trial.running import Job
from rlclinic.treatment.trial.sequential import EXTENSION_SHARE

MOST_ROUNDS: Final = 10
FEWEST_SEEDS: Final = 3
"""Of a batch: with two an arm has hardly a spread of its own."""
Progress = Callable[[RaceEvent], None]


def plan(
    arms: Sequence[Arm],
    *,
    outcome: RaceOutcome = "steps",
    rounds: int = ROUNDS,
    per_round: int = PER_ROUND,
    alpha: float = 0.05,
    margin: float | None = None,
    arrival_margin: float = 0.10,
    budget: int | None = None,
    **settings: Any,
) -> RacePlan:
    """Check the arms and settle what they share; nothing is written. `settings` are those of a trial's plan."""
    _check(arms, rounds, per_round)
    trial = conduct.plan(
        arms[0],
        arms[1:],
        outcome=outcome,
        looks=1,
        per_look=per_round,
        alpha=alpha,
        margin=margin,
        arrival_margin=arrival_margin,
        futility=False,
        **settings,
    )
    _check_different(trial.arms)
    # An arm trains in `rounds` of the race's rounds at most; the race itself may take more, since arms wait for each other.
    planned = RacePlan(trial=trial.model_copy(update={"looks": 3 * rounds}), rounds=rounds, budget=budget, reserve=EXTENSION_SHARE)
    _check_budget(planned)
    return planned


def _check(arms: Sequence[Arm], rounds: int, per_round: int) -> None:
    if not 2 <= len(arms) <= MOST_ARMS:
        raise UsageError(
            f"a race takes 2 to {MOST_ARMS} arms; here: {len(arms)}.\n  There would be "
            f"{'nothing to compare' if len(arms) < 2 else 'so many pairs that hardly any could be told apart'}.\n"
            "  Give configs, or values: ",
            Change("algo.learning_rate", "1e-4,3e-4,1e-3"),
        )
    if not 1 <= rounds <= MOST_ROUNDS or per_round < FEWEST_SEEDS:
        raise UsageError(
            Argument("rounds", rounds),
            " ",
            Argument("per_round", per_round),
            f": a race takes 1 to {MOST_ROUNDS} rounds of {FEWEST_SEEDS} seeds or more.\n"
            "  With fewer nothing could be told apart.\n  Type: ",
            Argument("rounds", ROUNDS),
            " ",
            Argument("per_round", PER_ROUND),
        )


def _check_different(arms: Sequence[Arm]) -> None:
    for place, arm in enumerate(arms):
        for other in arms[:place]:
            same_config = arm.config is not None and other.config is not None and not differences(other.config, arm.config)
            if same_config or (arm.config is None and arm.changes == other.changes):
                raise UsageError(
                    f"{other.name} and {arm.name} are the same.\n  Nothing but chance could tell them apart, and both would be paid for.\n"
                    "  Leave one of them out"
                )


def _check_budget(planned: RacePlan) -> None:
    first, budget = planned.cost(), planned.budget
    if budget is None:
        return
    if first is None:
        raise UsageError(
            Argument("budget"),
            " with your own command: what its runs cost is not known before.\n  It could not be kept.\n  Leave it out; ",
            Argument("rounds", 2),
            " takes less",
        )
    if budget < first:
        raise UsageError(
            Argument("budget", budget),
            f": the first round, {planned.per_round} seeds of {len(planned.arms)} arms, may take {first:,} env steps.\n"
            "  Some arms would never be trained.\n  Type: ",
            Argument("budget", first),
            ", fewer seeds (",
            Argument("per_round", 5),
            "), or fewer arms",
        )


def ask(planned: RacePlan) -> questions.Question:
    """What a race asks, for the list of questions: the same arms in another order ask the same."""
    trial = planned.trial
    told = sorted(questions.digest_config(arm.config) if arm.config is not None else f"{arm.command} {arm.changes}" for arm in trial.arms)
    title = f"which of {len(told)} arms is best ({', '.join(arm.name for arm in trial.arms)[:80]}): {trial.outcome}"
    return questions.identify(trial.env_id, "race", told, trial.outcome, title)


def charge(store: Store, planned: RacePlan, *, independent: bool = False) -> RacePlan:
    """The plan with the error that is left for its question; as it is where it is asked for the first time, or with the same seeds."""
    trial = planned.trial
    known = questions.look_up(store, ask(planned))
    if known is None or not known.asked or any(trial.seed0 is not None and asked.seed0 == trial.seed0 for asked in known.asked):
        return planned
    alpha = trial.alpha if independent else questions.next_alpha(trial.alpha, len(known.asked))
    note = describe(known, alpha, trial.alpha, independent=independent).partition(". To add seeds")[0]
    context = {**trial.context, "asked_before": len(known.asked), **({"independent": True} if independent else {})}
    charged = trial.model_copy(update={"alpha": alpha, "context": context, "notes": (*trial.notes, note)})
    return planned.model_copy(update={"trial": charged})


def question(planned: RacePlan) -> str:
    """What the race asks, as a sentence."""
    trial = planned.trial
    goal = {"steps": f"reaches {trial.threshold:g} in the fewest {trial.step_unit}" if trial.threshold is not None else ""}.get(
        trial.outcome, "ends with the highest return" if trial.outcome == "return" else "succeeds most often"
    )
    return f"{'' if trial.env_id == '?' else f'{trial.env_id}: '}which of {len(trial.arms)} arms {goal}?"


# ── running ──


def run(
    store: Store, planned: RacePlan, *, progress: Progress | None = None, cores: int | None = None, stop: StopRequests | None = None
) -> Race:
    """Carry out a plan; blocks until the ranking. Interrupted if `stop` says so, Killed if the machine does: `resume` goes on later."""
    begun = begin_race(store, planned)
    if progress is not None:
        progress(RaceEvent(kind="started", race=begun.id, number=1))
    return _carry_out(store, begun, progress, cores, stop)


def begin_race(store: Store, planned: RacePlan, id: str | None = None) -> Race:
    """Write down a race with its seeds, without training anything: `resume` carries it out. `id`: one that was reserved for it."""
    trial = planned.trial
    id = id or studies.reserve(store, "race")
    begun = Race(
        id=id,
        question=question(planned),
        alpha=trial.alpha,
        plan=planned,
        max_env_steps=planned.max_env_steps,
        **conduct.starting_fields(store, trial),
    )
    independent = trial.context.get("independent") is True
    asked = questions.Attempt("race", id, time.time(), trial.alpha, independent=independent, seed0=begun.seed0)
    questions.register(store, ask(planned), asked)
    _write(store, begun)
    return begun


def resume(store: Store, id: str, *, progress: Progress | None = None, cores: int | None = None, stop: StopRequests | None = None) -> Race:
    """Go on with a race that was interrupted or killed; one that has ended is returned as it is."""
    known = load_race(store, id)
    if known.state == "finished":
        return known
    batch.forget_half_made(store, known.id)
    return _carry_out(store, known, progress, cores, stop)


def extend_race(store: Store, id: str, seeds: int) -> Race:
    """Write down more seeds for the arms of a race that nobody was shown to be better than; `resume` carries them out."""
    ended = load_race(store, id)
    plan = ended.plan
    if ended.state != "finished":
        raise UsageError(
            f"race {ended.id} has not ended: there is nothing to extend yet.\n  Go on with it first: ", Action("race", resume=ended.id)
        )
    if ended.verdict == "best":
        raise UsageError(
            f"race {ended.id} is decided ({ended.winner} is best): more seeds could only unmake what was shown.\n  Start another: ",
            Action("race"),
        )
    if plan.reserve <= 0:
        raise UsageError(
            f"race {ended.id} is from before races kept a part of their error for extensions: all of it is spent.\n"
            "  More seeds would tell equal arms apart more often than was promised.\n  Ask again, on fresh seeds: ",
            Action("race"),
        )
    if seeds < FEWEST_SEEDS:
        raise UsageError(
            Argument("seeds", seeds), f": an extension takes {FEWEST_SEEDS} seeds an arm or more.\n  Type: ", Argument("seeds", 16)
        )
    cost = plan.cost(ended.best, seeds)
    if plan.budget is not None and cost is not None and ended.used_env_steps + cost > plan.budget:
        raise UsageError(
            f"{seeds} seeds of {', '.join(ended.best)} may take {cost:,} env steps; {plan.budget - ended.used_env_steps:,} of "
            f"{plan.budget:,} are left.\n  The budget of the race would not be kept.\n  Take fewer seeds, or race the best again"
        )
    first = trials.fresh_seeds(store, len(plan.arms) * seeds, plan.trial.above_seed)
    longer = plan.trial.model_copy(update={"extensions": (*plan.trial.extensions, Extension(seeds=seeds, seed0=first))})
    most = None if ended.max_env_steps is None or cost is None else ended.max_env_steps + cost
    cleared = {"state": "running", "verdict": None, "winner": None, "reason": "", "not_afforded": "", "max_env_steps": most}
    begun = ended.model_copy(update={"plan": plan.model_copy(update={"trial": longer}), **cleared})
    _write(store, begun)
    return begun


def load_race(store: Store, text: str = "@last") -> Race:
    """A stored race by its id or the beginning of it; RunError if its file is not what a race writes."""
    return studies.load(store, "race", text, Race)


def _carry_out(store: Store, begun: Race, progress: Progress | None, cores: int | None, stop: StopRequests | None) -> Race:
    """Rounds until nothing is left to ask. Those that were made before are made again from the same runs: nothing is trained twice."""

    def show(event: Event) -> None:
        if progress is not None:
            progress(RaceEvent(kind="progress", race=begun.id, number=event.look, arms=event.arms, seconds=event.seconds))

    standing, groups, began = Standing(begun.plan), dict[str, list[str]](), time.monotonic()
    job = Job(store, begun.id, begun.plan.trial, begun.seed0, cores or places.count_cores(), show, stop)
    while chosen := standing.choose():
        number, started = len(standing.rounds) + 1, time.monotonic()
        try:
            if begun.plan.trial.source == "command":
                trained = command.run_look(job, standing.look, [arm for arm in begun.plan.arms if arm.name in chosen])
            else:
                trained = running.train_look(job, standing.look, chosen)[0]
        except Interrupted:
            _write(store, _result(begun, standing, groups, began, ended=False, interrupted=True))
            raise Interrupted(
                f"race {begun.id} was interrupted in round {number}; its runs have checkpoints.\n  Go on: ", Action("race", resume=begun.id)
            ) from None
        except batch.Killed as error:
            _write(store, _result(begun, standing, groups, began, ended=False, interrupted=True))
            raise batch.Killed(
                f"race {begun.id}, round {number}: {str(error).splitlines()[0]}\n"
                "  They are not counted as failures of their arms, and without them there is no ranking.\n  Go on: ",
                Action("race", resume=begun.id),
            ) from None
        for name, group in trained.items():
            groups.setdefault(name, []).append(group.id)
        observed = _observe(begun.plan, trained)
        earlier = begun.rounds[number - 1].seconds if number <= len(begun.rounds) else 0.0
        made = standing.add(observed, max(earlier, time.monotonic() - started))
        _write(store, _result(begun, standing, groups, began, ended=False))
        if progress is not None:
            shown = tuple(arm_progress(name, seen) for name, seen in observed.items())
            progress(RaceEvent(kind="round", race=begun.id, number=number, arms=shown, seconds=made.seconds, result=made))
    finished = _result(begun, standing, groups, began, ended=True)
    _write(store, finished)
    return finished


def _observe(planned: RacePlan, trained: Mapping[str, Group]) -> dict[str, list[Observation]]:
    """What the runs of a round came to, all judged by the same thing up to the same step."""
    trial = planned.trial
    runs = [run for group in trained.values() for run in group.runs]
    by_evaluation = all(was_evaluated(run.metrics) for run in runs if run.status.state != "failed")
    budgets = {arm.config.run.max_env_steps for arm in trial.arms if arm.config is not None}
    horizon = float(min(budgets)) if len(budgets) > 1 and not trial.own_budgets else float("inf")
    return {
        name: [outcomes.observe(run, trial.threshold, horizon, by_evaluation=by_evaluation) for run in group.runs]
        for name, group in trained.items()
    }


def _result(
    begun: Race, standing: Standing, groups: Mapping[str, Sequence[str]], began: float, *, ended: bool, interrupted: bool = False
) -> Race:
    verdict, winner, reason = analysis.verdict(standing) if ended else (None, None, "")
    names = standing.names
    return begun.model_copy(
        update={
            "state": "finished" if ended else "interrupted" if interrupted else "running",
            "seconds": sum(each.seconds for each in standing.rounds) or time.monotonic() - began,
            "rounds": tuple(standing.rounds),
            "arms": analysis.rank(standing, groups) if standing.rounds else (),
            "verdict": verdict,
            "winner": winner,
            "best": tuple(names[arm] for arm in standing.board.placed() if arm in standing.board.alive) if standing.rounds else (),
            "reason": reason,
            "not_afforded": standing.not_afforded,
            "used_env_steps": standing.used_env_steps,
        }
    )


def _write(store: Store, race: Race) -> None:
    studies.write(store, "race", race.id, race.model_dump(mode="json"))
