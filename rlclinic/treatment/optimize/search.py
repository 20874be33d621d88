"""A search that diagnoses: what is wrong with the best config so far decides what is tried next.

    baseline ─▶ screen (prescriptions, all at once, computed, blind points) ─▶ settle ─▶ improve ─▶ confirm
                  two seeds each, hopeless ones stopped                  more seeds           fresh seeds, one error budget

Everything is in the ledger, and every round is a function of it: a search that is killed goes on where it was.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rlclinic.actions import Action, Argument, Change
from rlclinic.config import Config, from_record, to_record
from rlclinic.errors import RunError, UsageError
from rlclinic.launch import batch, places
from rlclinic.launch.batch import Study
from rlclinic.runs import studies, trials
from rlclinic.runs.history import History, of_run
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from rlclinic.treatment.optimize import blind_search, budget, candidates, confirm
from rlclinic.treatment.optimize.ledger import Best, Entry, Kind, Ledger, Round, SearchOutcome
from rlclinic.treatment.optimize.pruning import Pruner
from rlclinic.treatment.optimize.scores import better, measure_entry, pool, rank
from rlclinic.treatment.prescription import recorded_effects

RUNS: Final = 30
"""A budget should pay for so many whole runs: longer ones are searched at this length."""
FEWEST_ENV_STEPS: Final = 2_000
SCREEN_SEEDS: Final = 2
SETTLE_SEEDS: Final = 4
SETTLED: Final = 2
"""Configs that get more seeds: of several that did well on two, the fastest is often the luckiest."""
LATEST: Final = 2.0
"""A run of a config that is settled may take this many times its mean, times the pruner's patience."""
SCREENED: Final = 4
"""Configs in the first screening; later ones have more."""
MOST_SCREENED: Final = 6
IMPROVEMENTS: Final = 2
IMPROVED_SHARE: Final = 0.5
"""Once this share of the budget is spent, a config that works is not improved any more."""
MOST_ROUNDS: Final = 40
EVALUATIONS: Final = 20

Say = Callable[[str], None]


@dataclass(frozen=True)
class Request:
    """What a search is asked to do."""

    target: str
    config: Config
    budget: int
    outcome: SearchOutcome = "steps"
    alpha: float = 0.05
    run_env_steps: int | None = None
    own_group: Group | None = None
    use_optuna: bool | None = None
    """None: where it is installed."""
    recorded: bool = True


def check(request: Request) -> None:
    """UsageError for what cannot be searched for: no threshold to reach, or a budget that compares nothing."""
    if request.outcome in ("steps", "wall") and request.config.spec.threshold is None:
        raise UsageError(
            Argument("for", request.outcome),
            f": no threshold is known for {request.config.env.id}.\n  There would be nothing to reach.\n  Type: ",
            Change("spec.threshold", "VALUE"),
            ", or ",
            Argument("for", "return"),
        )
    length, start = _start(request)
    if request.budget < 4 * SCREEN_SEEDS * budget.run_cost(start):
        raise UsageError(
            Argument("budget", request.budget),
            f" pays for {request.budget / length:.1f} runs of {length} env steps.\n  Nothing could be compared.\n  Type: ",
            Argument("budget", RUNS * length),
            ", or a smaller ",
            Argument("run_env_steps"),
        )


def _start(request: Request) -> tuple[int, Config]:
    """The length of its runs, and the config that it begins with."""
    length = request.run_env_steps or min(request.config.run.max_env_steps, max(request.budget // RUNS, FEWEST_ENV_STEPS))
    return length, prepare(request.config, length, request.outcome)


def begin(store: Store, request: Request, id: str | None = None) -> Ledger:
    """Check a request and open its ledger. `id`: one that was reserved for it."""
    check(request)
    length, start = _start(request)
    optuna = blind_search.has_optuna() if request.use_optuna is None else request.use_optuna
    own = request.own_group
    # Runs that exist are of use only if they are what the search trains, and have come to their end.
    usable = own is not None and own.config.run.max_env_steps == length and own.runs and not any(map(batch.is_open, own.runs))
    known = own.id if own is not None and usable else None
    ledger = Ledger(
        id=id or studies.reserve(store, "optimize"),
        created=time.time(),
        target=request.target,
        env_id=start.env.id,
        algo=start.algo.name,
        outcome=request.outcome,
        budget=request.budget,
        alpha=request.alpha,
        threshold=start.spec.threshold,
        start=to_record(start),
        run_env_steps=length,
        own_group=known,
        use_optuna=optuna,
        recorded=request.recorded,
        notes=() if optuna else (blind_search.INSTALL,),
    )
    write(store, ledger)
    return ledger


def prepare(config: Config, length: int, outcome: SearchOutcome) -> Config:
    """The config as the search trains it: that long, evaluated often enough, and ended at the threshold where steps count."""
    record = to_record(config)
    every = min(config.run.eval_every_env_steps or length, max(1, length // EVALUATIONS))
    record["run"] |= {"max_env_steps": length, "eval_every_env_steps": every, "eval_episodes": config.run.eval_episodes or 20}
    record["run"]["stop_at_threshold"] = outcome in ("steps", "wall")
    return from_record({**record, "seed": 0})


def load(store: Store, text: str = "@last") -> Ledger:
    """A stored search by its id or the beginning of it."""
    return studies.load(store, "optimize", text, Ledger)


def write(store: Store, ledger: Ledger) -> None:
    """Put the ledger down."""
    studies.write(store, "optimize", ledger.id, ledger.model_dump(mode="json"))


@dataclass
class Search:
    """A search under way."""

    store: Store
    work: Study
    ledger: Ledger
    say: Say | None = None

    def tell(self, text: str) -> None:
        if self.say is not None:
            self.say(text)

    def put(self, **changes: Any) -> None:
        """Replace parts of the ledger, and write it down."""
        self.ledger = self.ledger.model_copy(update=changes)
        write(self.store, self.ledger)

    def effects(self) -> recorded_effects.Effects:
        return recorded_effects.load(self.store, recorded=self.ledger.recorded)


def carry_out(
    store: Store,
    ledger: Ledger,
    *,
    watch: Callable[[batch.Progress], None] | None = None,
    say: Say | None = None,
    stop: Callable[[], bool] | None = None,
    cores: int | None = None,
    enough: Callable[[Ledger], bool] | None = None,
) -> Ledger:
    """Search until a better config is proven, the budget is used up, or nothing is left to try. Interrupted if `stop` says so.

    `enough` ends it between two rounds; another call goes on.
    """
    work = Study(store, "optimize", ledger.id, cores or places.count_cores(), watch, stop)
    search = Search(store, work, ledger, say)
    batch.forget_half_made(store, ledger.id)
    search.put(state="running" if ledger.state == "interrupted" else ledger.state)
    try:
        while search.ledger.state == "running" and not (enough is not None and enough(search.ledger)):
            _step(search)
    except RunError:
        # Somebody stopped it, or the machine killed what it began with: it goes on later, with the same runs.
        search.put(state="interrupted")
        raise
    return search.ledger


def _step(search: Search) -> None:
    """Carry out the round that is under way, or open the next."""
    ledger = search.ledger
    if ledger.rounds and not ledger.rounds[-1].done:
        current = ledger.rounds[-1]
        done = confirm.confirm(search.store, search.work, ledger, current) if current.kind == "confirm" else _train(search, current)
        search.put(rounds=(*ledger.rounds[:-1], done), best=_choose_best(ledger, done))
        search.tell(_describe_round(search.ledger, done))
        return
    following = _next(search)
    if following is None:
        search.put(state="finished", verdict=_verdict(search.ledger))
    else:
        search.put(rounds=(*search.ledger.rounds, following))


# ── what comes next ──


def _next(search: Search) -> Round | None:
    """The round that follows from the ledger; None at the end."""
    ledger, best = search.ledger, search.ledger.best
    if best is None:
        return _baseline(search)
    if len(ledger.rounds) >= MOST_ROUNDS or (ledger.confirmations and ledger.confirmations[-1].verdict == "adopt"):
        return None
    last = ledger.rounds[-1]
    promising = _promising(ledger, last)
    if promising:
        settling = _settle(search, promising)
        if settling is not None:
            return settling
    if not _works(ledger, best):
        return _screen(search, best) or _confirm(search, best)
    tries = sum(each.kind == "improve" for each in ledger.rounds)
    if tries < IMPROVEMENTS and ledger.spent < IMPROVED_SHARE * ledger.budget:
        improving = _improve(search, best)
        if improving is not None:
            return improving
    return _confirm(search, best)


def _promising(ledger: Ledger, last: Round) -> list[Entry]:
    """Configs of the last round that deserve more seeds."""
    if last.kind not in ("screen", "improve") or not last.winner:
        return []
    if last.kind == "improve" or ledger.outcome in ("return", "stability"):
        return [entry for entry in last.entries if entry.name == last.winner]
    return sorted((entry for entry in last.entries if entry.whole), key=rank)[:SETTLED]


def _works(ledger: Ledger, best: Best) -> bool:
    """Whether the best so far needs no cure: it reaches the threshold reliably, or three rounds found nothing that ends higher."""
    if ledger.outcome in ("steps", "wall"):
        return best.reliable or (best.entry.source == "start" and best.reached == best.n >= SCREEN_SEEDS)
    idle = 0
    for each in reversed(ledger.rounds):
        if each.kind == "screen":
            if each.winner:
                break
            idle += 1
    return best.settled and idle >= 2


def _baseline(search: Search) -> Round:
    ledger = search.ledger
    start = Entry(name="start", source="start", why="the config to begin with", changes=(), config=ledger.start)
    if ledger.own_group is None:
        return _round(search, "baseline", [start], SCREEN_SEEDS)
    group = search.store.group(ledger.own_group)
    known = measure_entry(ledger, start, group, frozenset())
    return Round(number=1, kind="baseline", seeds=tuple(group.seeds), entries=(known.model_copy(update={"env_steps": 0}),))


def _screen(search: Search, best: Best) -> Round | None:
    """What the diagnosis of the best config suggests; None if nothing is left, or affordable."""
    ledger = search.ledger
    screens = sum(each.kind == "screen" for each in ledger.rounds)
    count = min(SCREENED if screens == 0 else MOST_SCREENED, _affordable_configs(ledger))
    if count < 1:
        _say_not_afforded(search, "another screening", 2 * budget.run_cost(best.entry.load_config()))
        return None
    entries, wrong = candidates.candidates(ledger, _histories(search, best), best.entry.load_config(), search.effects(), count)
    entries = _fit(ledger, entries, SCREEN_SEEDS)
    return _round(search, "screen", entries, SCREEN_SEEDS, wrong) if entries else None


def _improve(search: Search, best: Best) -> Round | None:
    ledger = search.ledger
    count = min(MOST_SCREENED, _affordable_configs(ledger))
    if count < 2:
        return None
    entries = candidates.neighbours(ledger, _histories(search, best), best.entry.load_config(), search.effects(), count)
    entries = _fit(ledger, entries, SCREEN_SEEDS)
    return _round(search, "improve", entries, SCREEN_SEEDS) if entries else None


def _settle(search: Search, promising: Sequence[Entry]) -> Round | None:
    """More seeds for what did well: fewer configs, and then fewer seeds, where the budget pays for no more."""
    ledger = search.ledger
    for entries, seeds in ((promising, SETTLE_SEEDS), *((promising[:1], seeds) for seeds in range(SETTLE_SEEDS, SCREEN_SEEDS - 1, -1))):
        if budget.round_cost(entries, seeds) <= ledger.left - budget.reserve(ledger):
            return _round(search, "settle", entries, seeds)
    _say_not_afforded(search, f"more seeds for {promising[0].name}", budget.round_cost(promising[:1], SCREEN_SEEDS))
    return None


def _confirm(search: Search, best: Best) -> Round | None:
    ledger = search.ledger
    planned = confirm.plan_round(ledger, best)
    if planned is None and confirm.is_open(ledger, best):
        smallest = budget.smallest_confirmation(ledger)
        what = f"a confirmation of {best.entry.name} (one look of {smallest.per_look} seeds an arm)"
        _say_not_afforded(search, what, budget.confirmation_cost(ledger, best.entry, smallest))
    return planned


def _affordable_configs(ledger: Ledger) -> int:
    """Configs that can be screened with what the confirmation leaves."""
    return int((ledger.left - budget.reserve(ledger)) // (SCREEN_SEEDS * ledger.run_env_steps))


def _fit(ledger: Ledger, entries: list[Entry], seeds: int) -> list[Entry]:
    """As many of the first configs as are affordable: one with long rollouts may take more than the length of a run."""
    while entries and budget.round_cost(entries, seeds) > ledger.left - budget.reserve(ledger):
        entries = entries[:-1]
    return entries


def _say_not_afforded(search: Search, what: str, cost: int) -> None:
    """Write down what the budget does not pay for."""
    said = f"{what} may take {cost:,} env steps; {max(search.ledger.left, 0):,} of {search.ledger.budget:,} are left"
    if all(not text.startswith(f"{what} may") for text in search.ledger.not_afforded):
        search.put(not_afforded=(*search.ledger.not_afforded, said))


def _round(search: Search, kind: Kind, entries: Sequence[Entry], seeds: int, diagnosis: str = "") -> Round:
    first = trials.fresh_seeds(search.store, seeds)
    number = len(search.ledger.rounds) + 1
    unmeasured = {"n": 0, "reached": 0, "score": None, "group": None, "env_steps": 0, "lost": 0}
    fresh = tuple(entry.model_copy(update=unmeasured) for entry in entries)
    return Round(number=number, kind=kind, seeds=tuple(range(first, first + seeds)), entries=fresh, diagnosis=diagnosis)


def _histories(search: Search, best: Best) -> list[History]:
    """What the runs of the best config logged; those that were stopped say nothing about its end."""
    ids = [entry.group for entry in search.ledger.tried if entry.name == best.entry.name and entry.group]
    runs = [run for id in ids for run in search.store.group(id).runs]
    pruned = search.work.pruned
    return [of_run(run) for run in runs if run.id not in pruned] or [of_run(run) for run in runs]


# ── a round ──


def _train(search: Search, current: Round) -> Round:
    """Train the configs of a round and measure them."""
    began = time.monotonic()
    ledger = search.ledger
    if current.kind == "baseline" and ledger.own_group is not None:
        return current.model_copy(update={"done": True, "winner": "start"})
    cells = {f"{current.number} {entry.name}": entry.load_config() for entry in current.entries}
    pruner = _choose_pruner(ledger, current) if current.kind != "baseline" else None
    groups = batch.train(search.work, cells, current.seeds, pruner)
    pruned = frozenset(search.work.pruned)
    entries = tuple(measure_entry(ledger, entry, groups[f"{current.number} {entry.name}"], pruned) for entry in current.entries)
    if current.kind == "baseline" and not entries[0].n:
        raise RunError(
            f"every run of {ledger.target} was killed each time that it was started: there is nothing to compare with.\n"
            f"  {groups[f'{current.number} start'].runs[0].status.reason or 'no reason was recorded'}\n  Go on later: ",
            Action("optimize", resume=ledger.id),
        )
    finished = current.model_copy(
        update={
            "entries": entries,
            "done": True,
            "used_env_steps": sum(entry.env_steps for entry in entries),
            "seconds": time.monotonic() - began,
        }
    )
    return finished.model_copy(update={"winner": _winner(ledger, finished)})


def _choose_pruner(ledger: Ledger, current: Round) -> Pruner:
    """What stops runs of a round: something better, and when settling, taking far longer than the config's first runs."""
    known = ledger.best.score if ledger.best is not None and ledger.best.reliable and ledger.outcome == "steps" else None
    if current.kind == "settle" and ledger.outcome == "steps":
        names = {entry.name for entry in current.entries}
        scores = [entry.score for entry in ledger.tried if entry.name in names and entry.score is not None]
        known = LATEST * max(scores) if scores else None
    return Pruner(ledger.run_env_steps, known, capped=ledger.outcome in ("steps", "wall"))


def _winner(ledger: Ledger, finished: Round) -> str:
    """The best entry of a round, if it is better than the best before; of the others, the only one."""
    first = min(finished.entries, key=rank)
    if finished.kind in ("baseline", "settle") or ledger.best is None:
        return first.name
    return first.name if better(first, ledger.best, improving=finished.kind == "improve") else ""


def _choose_best(ledger: Ledger, done: Round) -> Best | None:
    """The best config after a round."""
    best = ledger.best
    winner = next((entry for entry in done.entries if entry.name == done.winner), None)
    if winner is None or winner.score is None or done.kind in ("confirm", "improve"):
        return best
    spent = ledger.spent + done.used_env_steps
    if done.kind != "settle":
        return Best(entry=winner, n=winner.n, reached=winner.reached, score=winner.score, since_env_steps=spent)
    made = [*ledger.tried, *done.entries]
    whole = [pool(entry, [each for each in made if each.name == entry.name and each.n]) for entry in done.entries if entry.n]
    first = min(whole, key=lambda each: (not each.reliable, -each.reached / each.n, each.score))
    if best is None or any(each.entry.name == best.entry.name for each in whole) or (first.reliable and first.score < 0.95 * best.score):
        since = best.since_env_steps if best is not None and best.entry.name == first.entry.name else spent
        return first.model_copy(update={"since_env_steps": since})
    return best


def _verdict(ledger: Ledger) -> str:
    if ledger.confirmations and ledger.confirmations[-1].verdict == "adopt":
        return "adopted"
    if ledger.best is None or ledger.best.entry.source == "start":
        return "nothing better found"
    return "not proven"


def _describe_round(ledger: Ledger, done: Round) -> str:
    """A round in a line, for whoever watches."""
    if done.kind == "confirm":
        return f"round {done.number}  confirm: trial {done.trial} says {done.verdict} · {ledger.spent:,} env steps"
    first = min(done.entries, key=rank)
    wrong = f"{done.diagnosis} · " if done.diagnosis else ""
    lost = sum(entry.lost for entry in done.entries)
    killed = f" · {lost} runs were killed by the machine and are not scored" if lost else ""
    won = f"{first.name} {first.reached}/{first.n} reach it" if ledger.outcome in ("steps", "wall") else f"{first.name} {first.final}"
    return f"round {done.number}  {done.kind}: {wrong}{len(done.entries)} configs, best {won} · {ledger.spent:,} env steps{killed}"
