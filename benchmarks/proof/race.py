"""`race`: how often equal arms are told apart, how often the best is named or lost, what that costs, and whether ranks and intervals hold.

Beside it, on the same seeds: all arms trained to the end and compared by Welch's tests with Holm's correction, as papers do; and AdaStop
0.1.3 where ADASTOP_PYTHON names a Python that has it (`pip install adastop==0.1.3` into an environment of its own; see peers.py).
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.proof import parallel, scenarios
from benchmarks.proof.scenarios import Draws
from benchmarks.proof.shares import describe_share
from rlclinic import stats
from rlclinic.config import files, set_values
from rlclinic.treatment.race import analysis, conduct
from rlclinic.treatment.race.models import RacePlan
from rlclinic.treatment.race.power import chance_of_naming
from rlclinic.treatment.race.rule import PER_ROUND, ROUNDS, Leaderboard, Rule
from rlclinic.treatment.trial.arms import Arm
from rlclinic.treatment.trial.models import Observation
from rlclinic.treatment.trial.sequential import Arrivals

Draw = Callable[[int], Draws]
"""The next batch of an arm."""
SEEDS: Final = ROUNDS * PER_ROUND
SCALE: Final = 10_000.0
"""Env steps that a time of 1 stands for."""
SPACING: Final = 250
FEW: Final = 200
"""Cases of what takes seconds each."""


def run(rule: Rule, draw: Draw) -> Leaderboard:
    """A race on drawn scores, to its end; runs with a finite score have arrived."""
    board = Leaderboard(rule)

    def arrivals(first: int, second: int) -> Arrivals:
        ours, theirs = (np.isfinite(board.scores[arm]) for arm in (first, second))
        return Arrivals(theirs.sum(), len(theirs), ours.sum(), len(ours))

    board.arrivals = arrivals
    board.add({arm: draw(arm) for arm in range(rule.arms)})
    while chosen := board.choose():
        board.add({arm: draw(arm) for arm in chosen})
    return board


# ── equal arms ──


def _times(rng: np.random.Generator, **options: Any) -> Draw:
    return lambda arm: scenarios.draw_times(rng, (PER_ROUND,), **options)


def _spread_by(spreads: Sequence[float]) -> Callable[[np.random.Generator], Draw]:
    """Logs of times that are centred alike and scatter like this, arm by arm."""
    return lambda rng: lambda arm: np.exp(0.4 * spreads[arm] * rng.standard_normal(PER_ROUND))


NULLS: Final[dict[str, tuple[int, Callable[[np.random.Generator], Draw]]]] = {
    "5 arms": (5, _times),
    "5 arms, a quarter of the runs collapses": (5, lambda rng: lambda arm: 1e3 - scenarios.draw_returns(rng, (8,), collapsing=0.25)),
    "5 arms, evaluations at a quarter of the median": (5, lambda rng: lambda arm: scenarios.round_up(_times(rng)(arm), 0.25)),
    "5 arms, three of four runs never arrive": (5, lambda rng: _times(rng, arriving=0.25)),
    "5 arms, spreads of 1 to 5": (5, _spread_by([1, 2, 3, 4, 5])),
    "10 arms, one of a fifth of the others' spread": (10, _spread_by([1, *[5] * 9])),
    "10 arms, one of a third of the others' spread": (10, _spread_by([1, *[3] * 9])),
    "10 arms, half of them of a fifth of the others' spread": (10, _spread_by([1, 5] * 5)),
    "30 arms, one of a fifth of the others' spread": (30, _spread_by([1, *[5] * 29])),
    "2 arms": (2, _times),
    "10 arms": (10, _times),
    "30 arms": (30, _times),
}


def count_false(arms: int, world: Callable[[np.random.Generator], Draw], rng: np.random.Generator, races: int) -> int:
    """Races of equal arms in which any two are told apart."""
    return sum(bool(run(Rule(arms, ratios=True), world(rng)).better) for _ in range(races))


def count_false_extended(arms: int, rng: np.random.Generator, races: int, *, extensions: int = 10) -> int:
    """The same where each race is extended again and again; whoever does it looks first, and takes few seeds where arms are nearly told
    apart."""
    wrong = 0
    for _ in range(races):
        board = run(Rule(arms, ratios=True), _times(rng))
        for _ in range(extensions):
            if len(board.alive) > 1:
                seeds = 4 if float(np.abs(board.z).max()) > 2.0 else 16
                board.extend({arm: scenarios.draw_times(rng, (seeds,)) for arm in board.alive})
        wrong += bool(board.better)
    return wrong


# ── a best arm ──

FIELDS: Final[dict[str, Draws]] = {
    "5 arms, the best takes 30 % fewer steps than each": np.array([0.7, 1, 1, 1, 1]),
    "5 arms, each takes 1.4 times the steps of the one before": np.array([1.4**place for place in range(5)]),
    "10 arms, the best takes 40 % fewer steps than each": np.array([0.6] + 9 * [1.0]),
    "10 arms, each takes 1.35 times the steps of the one before": np.array([1.35**place for place in range(10)]),
    "30 arms over a factor of 12": np.array([0.6, *np.exp(np.linspace(0, 2, 29))]),
}


def race_table(times: Draws) -> Leaderboard:
    """A race over a table of runs [arms, seeds], of which it takes as many as it needs."""
    used = [0] * len(times)

    def draw(arm: int) -> Draws:
        used[arm] += PER_ROUND
        return times[arm, used[arm] - PER_ROUND : used[arm]]

    return run(Rule(len(times), ratios=True), draw)


def name_by_welch(times: Draws, alpha: float = 0.05) -> list[int]:
    """Arms that no other beats by Welch's test of log steps, with Holm's correction over all pairs."""
    logs, arms = np.log(times), len(times)
    pairs = [(i, j) for i in range(arms) for j in range(i + 1, arms)]
    adjusted = stats.holm([stats.welch(logs[i], logs[j]).p for i, j in pairs])
    means = logs.mean(axis=1)
    beaten = {i if means[i] > means[j] else j for (i, j), p in zip(pairs, adjusted, strict=True) if p < alpha}
    return [arm for arm in range(arms) if arm not in beaten]


def ask_adastop(tables: Sequence[Draws], permutations: int = 1_000, python: str | Path | None = None) -> list[tuple[list[int], int]] | None:
    """Arms that AdaStop leaves unbeaten, and the runs that it took; None where it is not there."""
    python = python or os.environ.get("ADASTOP_PYTHON")
    if not python:
        return None
    asked = {"tables": [table.tolist() for table in tables], "per_round": PER_ROUND, "rounds": ROUNDS, "permutations": permutations}
    done = subprocess.run(
        [python, Path(__file__).parent / "peer_race.py"], input=json.dumps(asked), capture_output=True, text=True, check=True
    )
    return [(alive, runs) for alive, runs in json.loads(done.stdout)]


def describe_runs(what: str, total: float, squares: float, races: int, of: int) -> dict[str, Any]:
    """Mean runs of a race, as a share of those that all arms would train to the end."""
    mean = total / races
    error = float(np.sqrt(max(squares / races - mean**2, 0.0) / races))
    row = {"what": what, "unit": f"runs of {of}", "value": mean, "interval": [mean - 1.96 * error, mean + 1.96 * error]}
    return {**row, "better": "lower", "bar": None, "stretch": None, "simulations": races}


def count_named(medians: Draws, rng: np.random.Generator, races: int) -> Draws:
    """Races of arms with these medians: best arm named, best arm dropped, any pair wrong, runs, runs squared; best arm named by Welch."""
    found = np.zeros(6)
    for _ in range(races):
        table = scenarios.draw_times(rng, (len(medians), SEEDS)) * medians[:, None]
        board = race_table(table)
        runs = sum(map(len, board.scores))
        wrong = any(medians[i] >= medians[j] for i, j in board.better)
        found += [board.alive == [0], 0 not in board.alive, wrong, runs, runs**2, name_by_welch(table) == [0]]
    return found


def compare_ways(simulations: int) -> Iterator[dict[str, Any]]:
    """How often each way names the best arm, and the runs that it takes, on the same tables of runs."""
    for place, (name, medians) in enumerate(FIELDS.items()):
        arms = len(medians)
        races = simulations if arms <= 10 else max(20, simulations // 4)
        named, lost, wrong, runs, squares, welch = parallel.add_up(partial(count_named, medians), races, 100 + place, 10)
        yield describe_share(f"race: best arm named, {name}", int(named), races, None, better="higher")
        yield describe_share(f"race: best arm dropped, {name}", int(lost), races, 0.05, 0.01)
        yield describe_share(f"race: any pair the wrong way, or equal and told apart, {name}", int(wrong), races, 0.055, 0.05)
        yield describe_runs(f"race: mean runs, {name}", runs, squares, races, arms * SEEDS)
        what = f"Welch with Holm, all {arms * SEEDS} runs: best arm named, {name}"
        yield describe_share(what, int(welch), races, None, better="higher")
        few = max(20, min(FEW, races) // (1 if arms <= 5 else 4))
        rng = np.random.default_rng([20_261_116, place])
        tables = [scenarios.draw_times(rng, (arms, SEEDS)) * medians[:, None] for _ in range(few)]
        judged = ask_adastop(tables) if arms <= 10 else None
        if judged is not None:
            hits, taken = sum(alive == [0] for alive, _ in judged), np.array([runs for _, runs in judged], dtype=np.float64)
            yield describe_share(f"AdaStop 0.1.3: best arm named, {name}", hits, few, None, better="higher")
            yield describe_runs(f"AdaStop 0.1.3: mean runs, {name}", taken.sum(), (taken**2).sum(), few, arms * SEEDS)


# ── a faster arm that arrives less often ──


def count_unreliable(arriving: float, rng: np.random.Generator, races: int, *, median: float = 1 / 3) -> int:
    """Races of four arms in which the fastest is called best, although it arrives in fewer seeds than the others."""

    def draw(arm: int) -> Draws:
        options = {} if arm else {"median": median, "arriving": arriving}
        return scenarios.draw_times(rng, (PER_ROUND,), **options)

    return sum(run(Rule(4, ratios=True), draw).alive == [0] for _ in range(races))


# ── ranks and intervals ──


def plan_of(arms: int) -> RacePlan:
    """A plan of so many arms, evaluated every SPACING steps, with a budget that nobody reaches."""
    base = set_values(files.load("CartPole-v1:ppo_zoo").config, ["run.max_env_steps=10000000", f"run.eval_every_env_steps={SPACING}"])
    return conduct.plan([Arm(name=f"a{arm}", config=set_values(base, [f"gamma={0.9 + 0.001 * arm}"])) for arm in range(arms)])


def rank_arms(rng: np.random.Generator, plan: RacePlan, medians: Draws, spread: float = scenarios.USUAL_SPREAD) -> Any:
    """A race of arms with these medians, by the product's own analysis of observed runs."""
    standing = analysis.Standing(plan)
    while chosen := standing.choose():
        observed = {}
        for name in chosen:
            times = scenarios.draw_times(rng, (plan.per_round,), median=float(medians[int(name[1:])]), spread=spread)
            steps = scenarios.round_up(SCALE * times, SPACING)
            observed[name] = [_observe(int(step)) for step in steps]
        standing.add(observed)
    return analysis.rank(standing, {})


def _observe(step: int) -> Observation:
    return Observation(
        run="r", seed=0, state="finished", env_steps=step, reached_at=step, final=500.0, success=None, seconds=None, seconds_per_100k=None
    )


def cover(medians: Draws, rng: np.random.Generator, races: int) -> tuple[int, int, int]:
    """Races in which all sets of ranks, and all intervals, hold together; and in which a shown difference has an interval with none."""
    ranks = intervals = contradicted = 0
    plan, arms = plan_of(len(medians)), len(medians)
    true_ranks = [(1 + int((medians < own).sum()), arms - int((medians > own).sum())) for own in medians]
    for _ in range(races):
        ranked = rank_arms(rng, plan, medians)
        first = medians[int(ranked[0].arm.name[1:])]
        held, inside = True, True
        for arm in ranked:
            own = int(arm.arm.name[1:])
            held &= arm.ranks[0] <= true_ranks[own][0] and true_ranks[own][1] <= arm.ranks[1]
            if arm.ratio is not None:
                low, high = arm.ratio.low or 0.0, np.inf if arm.ratio.high is None else arm.ratio.high
                inside &= low - 1e-9 <= medians[own] / first <= high + 1e-9
                contradicted += ranked[0].arm.name in arm.worse_than and low < 1.0
        ranks, intervals = ranks + held, intervals + inside
    return ranks, intervals, contradicted


COVERED: Final = {
    "5 equal arms": np.ones(5),
    "5 arms, one best": np.array([0.6, 1, 1, 1, 1]),
    "5 arms, each 1.4 times the one before": np.array([1.4**place for place in range(5)]),
}


def count_best(medians: Draws, rng: np.random.Generator, races: int) -> int:
    """Races that name the first arm, and no other."""
    tables = (scenarios.draw_times(rng, (len(medians), SEEDS)) * medians[:, None] for _ in range(races))
    return sum(race_table(table).alive == [0] for table in tables)


def rows(simulations: int) -> Iterator[dict[str, Any]]:
    """Family-wise error by world, power and runs beside other ways, arrival, and coverage."""
    for arms in (2, 3, 4, 5, 10, 30):
        Rule(arms).bound(2, 1, 1)  # simulated once, not once in every process
    for place, (name, (arms, world)) in enumerate(NULLS.items()):
        races = simulations if arms <= 10 else max(20, simulations // 5)
        count = int(parallel.add_up(partial(count_false, arms, world), races, place, 50 if arms <= 10 else 10))
        yield describe_share(f"race: equal arms told apart, {name}", count, races, 0.055, 0.05)
    races = max(20, simulations // 5)
    for arms in (3, 5):
        what = f"race: equal arms told apart, {arms} arms, each race extended ten times, sizes chosen by what was seen"
        yield describe_share(what, int(parallel.add_up(partial(count_false_extended, arms), races, 30 + arms, 25)), races, 0.05)
    yield from compare_ways(simulations)
    for arriving in (0.75, 0.65):
        what = f"race: an arm that takes a third of the steps called best, though it arrives in {arriving:.0%} of its seeds, others in all"
        count = int(parallel.add_up(partial(count_unreliable, arriving), races, 40, 50))
        yield describe_share(what, count, races, 0.12 if arriving > 0.7 else 0.05)
    races = max(20, simulations // 4)
    for name, medians in COVERED.items():
        ranks, intervals, contradicted = parallel.add_up(partial(cover, medians), races, 50, 10)
        yield describe_share(f"race: sets of ranks hold together, {name}", int(ranks), races, 0.95, better="higher")
        what = f"race: intervals against the first hold together, {name}"
        yield describe_share(what, int(intervals), races, 0.92, 0.95, better="higher")
        yield describe_share(f"race: a shown difference whose interval has none in it, {name}", int(contradicted), races, 0.02, 0.0)
    for arms, effect in ((3, 0.3), (5, 0.3), (10, 0.4)):
        medians = np.array([1 - effect] + (arms - 1) * [1.0])
        hits = int(parallel.add_up(partial(count_best, medians), races, 60 + arms, 50))
        said = chance_of_naming(Rule(arms), round(-float(np.log(1 - effect)) / scenarios.USUAL_SPREAD, 3))
        what = f"race: can see {said:.2f}, comes true, {arms} arms, {effect:.0%} fewer steps"
        yield describe_share(what, hits, races, None, better="higher")
