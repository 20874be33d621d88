"""The budget of a search is never exceeded, whatever its runs do; and what the machine killed is not held against a config."""

import random
from types import SimpleNamespace

import pytest

from rlclinic.config import Config, files, to_record
from rlclinic.errors import RunError
from rlclinic.launch import batch, local
from rlclinic.launch.batch import Interrupted
from rlclinic.report.optimize import describe
from rlclinic.runs import trials
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.runs.writer import RunWriter
from rlclinic.treatment.optimize import budget, candidates, confirm, search
from rlclinic.treatment.optimize.ledger import Best, Entry, Ledger, Round
from rlclinic.treatment.optimize.search import Request
from tests.treatment.optimize.killed_worker import learns_below_a_hundredth
from tests.treatment.pretended_training import COLUMNS, Pretended, pretend

LENGTH = 20_000


def config(*changes: str) -> Config:
    return files.load("CartPole-v1:ppo_zoo", ["algo.learning_rate=0.1", f"run.max_env_steps={LENGTH}", *changes]).config


BASE = config()
SHAPES = [config(f"algo.n_steps={steps}", f"algo.learning_rate={rate}") for steps in (32, 96, 480, 2400) for rate in (1e-3, 3e-3, 0.2)]
CONFIGS = {f"c{place}": to_record(search.prepare(made, LENGTH, "steps")) for place, made in enumerate(SHAPES)}


class World:
    """Runs and trials that come to whatever they may come to: early, late, failed, killed, interrupted, at any cost that is possible."""

    def __init__(self, seed: int, patch: pytest.MonkeyPatch) -> None:
        self.random = random.Random(seed)
        self.greed = self.random.choice([0.0, 0.5, 1.0])
        """How often a run takes all that it may take."""
        self.planned: list[int] = []
        self.left: list[int] = []
        patch.setattr(batch, "train", self.train)
        patch.setattr(search, "measure_entry", self.measure)
        patch.setattr(search, "_histories", lambda *_: [])
        patch.setattr(candidates, "candidates", lambda ledger, *rest: (self.propose(ledger, rest[-1]), "something"))
        patch.setattr(candidates, "neighbours", lambda ledger, *rest: self.propose(ledger, rest[-1]))
        patch.setattr(confirm.conduct, "run", self.confirm)
        patch.setattr(confirm, "_find_begun", lambda *_: None)
        patch.setattr(confirm, "conclude", lambda current, used: current.model_copy(update={**used, "done": True, "trial": "t1"}))
        patch.setattr(trials, "fresh_seeds", lambda *_: 1_000)
        patch.setattr(search, "write", lambda *_: None)

    def train(self, work, cells, seeds, pruner=None):
        if self.random.random() < 0.1:
            raise Interrupted("stopped")
        return dict.fromkeys(cells, SimpleNamespace(runs=[SimpleNamespace(status=SimpleNamespace(reason="killed by SIGKILL"))]))

    def cost(self, longest: int) -> int:
        return longest if self.random.random() < self.greed else self.random.randrange(longest)

    def measure(self, ledger: Ledger, entry: Entry, group, pruned) -> Entry:
        seeds = ledger.rounds[-1].seeds
        lost = sum(self.random.random() < 0.1 for _ in seeds)
        n = len(seeds) - lost
        reached = self.random.randint(0, n)
        longest = budget.run_cost(entry.load_config())
        steps = sum(self.cost(longest) for _ in seeds)
        score = self.random.uniform(0.1, 1.0) * LENGTH if n else None
        return entry.model_copy(update={"n": n, "reached": reached, "score": score, "final": 1.0, "env_steps": steps, "lost": lost})

    def propose(self, ledger: Ledger, count: int) -> list[Entry]:
        known = {entry.name for entry in ledger.tried}
        fresh = [name for name in CONFIGS if name not in known]
        picked = self.random.sample(fresh, min(count, len(fresh)))
        return [Entry(name=name, source="search", why="", changes=("algo.gamma=0.9",), config=CONFIGS[name]) for name in picked]

    def confirm(self, store, plan, **_):
        if self.random.random() < 0.1:
            raise Interrupted("stopped")
        longest = [budget.run_cost(arm.config) for arm in plan.arms]
        seeds = self.random.randint(1, plan.looks) * plan.per_look
        self.planned.append(plan.looks * plan.per_look * sum(longest))
        verdict = self.random.choice(["adopt", "reject", "undecided"])
        return {"used_env_steps": sum(self.cost(one) for one in longest for _ in range(seeds)), "verdict": verdict}


@pytest.mark.parametrize("block", range(2))
def test_a_search_never_takes_more_than_its_budget(tmp_path, monkeypatch, block):
    confirmed = skipped = interrupted = 0
    for seed in range(50 * block, 50 * block + 50):
        world = World(seed, monkeypatch)
        asked = world.random.randint(8, 90) * 20_224 + world.random.randint(0, 20_000)
        outcome = world.random.choice(["steps", "steps", "return", "stability"])
        store = Store(tmp_path)
        ledger = search.begin(store, Request("x", BASE, asked, outcome, run_env_steps=LENGTH))
        for _ in range(60):
            try:
                ledger = search.carry_out(store, ledger, cores=1, say=lambda _: None)
                break
            except RunError:
                interrupted += 1
        assert 0 <= ledger.spent <= asked
        assert all(cost <= asked for cost in world.planned)
        confirmed += len(ledger.confirmations)
        skipped += bool(ledger.not_afforded)
    # The property would hold of a search that never does anything.
    assert confirmed > 10
    assert skipped > 5
    assert interrupted > 5


def ledger(left: int, length: int = LENGTH, *, best: str = "c0", outcome: str = "steps") -> Ledger:
    """A search that has so much left, with a winner that looks very fast."""
    entry = Entry(name=best, source="search", why="", changes=("algo.gamma=0.9",), config=CONFIGS[best], n=6, reached=6, score=1_000.0)
    spent = Round(number=1, kind="screen", seeds=(), entries=(entry,), done=True, used_env_steps=10**6)
    return Ledger(
        id="o1",
        created=0.0,
        target="x",
        env_id="CartPole-v1",
        algo="ppo",
        outcome=outcome,
        budget=10**6 + left,
        alpha=0.05,
        threshold=475,
        start=to_record(search.prepare(BASE, LENGTH, "steps")),
        run_env_steps=length,
        rounds=(spent,),
        best=Best(entry=entry, n=6, reached=6, score=1_000.0, settled=True),
    )


@pytest.mark.parametrize("left", [150_000, 205_000, 260_000, 400_000, 800_000, 10**7])
@pytest.mark.parametrize("best", ["c0", "c9"])
def test_a_confirmation_is_paid_for_even_if_no_run_ends_early(left, best):
    made = ledger(left, best=best)
    assert made.best is not None
    planned = confirm.plan_round(made, made.best)
    if planned is None:
        smallest = budget.smallest_confirmation(made)
        assert budget.confirmation_cost(made, made.best.entry, smallest) > left
        return
    plan = confirm.plan_trial(made, planned)
    longest = sum(budget.run_cost(arm.config) for arm in plan.arms)
    assert plan.looks * plan.per_look * longest <= left
    # And not much less than it could be.
    assert plan.looks == budget.LOOKS or (plan.looks * plan.per_look + 3) * longest > left or plan.per_look == budget.MOST_PER_LOOK


def test_a_search_says_what_it_could_not_afford_and_what_it_would_have_cost(tmp_path, monkeypatch):
    pretend(monkeypatch, lambda made: 0.9 if made.algo.learning_rate != BASE.algo.learning_rate else None)
    store = Store(tmp_path)
    begun = search.begin(store, Request("CartPole-v1:ppo_zoo", BASE, 9 * 20_224, run_env_steps=LENGTH))
    ended = search.carry_out(store, begun, cores=1)
    assert ended.verdict == "not proven"
    assert ended.spent <= ended.budget
    smallest = ended.best is not None and budget.confirmation_cost(ended, ended.best.entry, budget.smallest_confirmation(ended))
    assert any("a confirmation of" in text and f"may take {smallest:,} env steps" in text for text in ended.not_afforded)


# ── killed workers ──


def screened(tmp_path, cores: int) -> tuple[Ledger, Entry]:
    """A search up to the end of its first screening, and its first prescription, which cures."""
    store = Store(tmp_path)
    begun = search.begin(store, Request("CartPole-v1:ppo_zoo", BASE, 60 * LENGTH, run_env_steps=LENGTH))
    ended = search.carry_out(store, begun, cores=cores, enough=lambda known: len(known.rounds) > 1 and known.rounds[1].done)
    assert ended.rounds[1].entries[0].name.startswith("rx1")
    return ended, ended.rounds[1].entries[0]


def test_a_config_whose_workers_are_killed_once_is_trained_again_and_wins_as_it_would_have(tmp_path, monkeypatch):
    monkeypatch.setenv("KILLED", "2 rx1")
    start, module = local.start, "tests.treatment.optimize.killed_worker"
    monkeypatch.setattr(local, "start", lambda cohorts, **how: start(cohorts, **{**how, "module": module}))
    ended, first = screened(tmp_path, 2)
    assert all((run.path / "killed").exists() for run in Store(tmp_path).group(first.group).runs), "the workers were to be killed"
    assert (first.n, first.reached, first.lost) == (2, 2, 0)
    assert ended.rounds[1].winner == first.name


class Killing(Pretended):
    """Every worker of an arm is killed, each time."""

    arm = ""

    def _train(self, run: Run) -> None:
        if self.arm not in str(run.record.get("label")):
            super()._train(run)
            return
        with RunWriter(run.path, COLUMNS) as writer:
            writer.status("failed", 40, reason="killed by SIGKILL: by a person")


def test_a_config_whose_workers_are_always_killed_is_not_scored_and_that_is_said(tmp_path, monkeypatch):
    killing = Killing(learns_below_a_hundredth)
    killing.arm = "2 rx1"
    monkeypatch.setattr(local, "start", killing.start)
    ended, first = screened(tmp_path, 1)
    assert (first.n, first.score, first.lost) == (0, None, 2)
    assert ended.rounds[1].winner not in ("", first.name)
    assert "2 killed by the machine and not scored" in str(describe(ended, [], spent=ended.spent))


def test_a_search_whose_start_is_killed_every_time_ends_with_the_reason_and_can_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "start", Killing(lambda _: None).start)
    store = Store(tmp_path)
    begun = search.begin(store, Request("CartPole-v1:ppo_zoo", BASE, 60 * LENGTH, run_env_steps=LENGTH))
    with pytest.raises(RunError, match="killed each time") as told:
        search.carry_out(store, begun, cores=1)
    assert "SIGKILL" in str(told.value)
    assert search.load(store).state == "interrupted"
    pretend(monkeypatch, lambda _: None)
    again = search.carry_out(store, search.load(store), cores=1, enough=lambda known: known.best is not None)
    assert again.best is not None
    assert again.best.n == 2
