"""A race from plan to ranking: a ledger that survives a kill, a budget that holds, and arms that fail, tie or lose what they reached."""

import json
import random

import numpy as np
import pytest

from rlclinic.config import Config, load, set_values
from rlclinic.errors import NotFound, RunError, UsageError
from rlclinic.launch import batch
from rlclinic.launch.batch import Interrupted
from rlclinic.runs import questions
from rlclinic.runs.store import Store
from rlclinic.runs.writer import RunWriter
from rlclinic.treatment.race import conduct
from rlclinic.treatment.trial import arms
from tests.treatment.pretended_training import COLUMNS, pretend

BASE = set_values(load("CartPole-v1:ppo_zoo").config, ["run.max_env_steps=20000", "run.eval_every_env_steps=1000"])
RATES = (1e-4, 3e-4, 1e-3, 3e-3)


def raced(rates=RATES, **options) -> conduct.RacePlan:
    return conduct.plan([arms.Arm(name=f"lr{rate:g}", config=set_values(BASE, [f"learning_rate={rate}"])) for rate in rates], **options)


def noise(config: Config) -> float:
    return float(np.random.default_rng(config.seed).random())


def one_best(config: Config) -> float | None:
    """1e-3 is fast, 3e-4 half as fast, the others hardly get there."""
    rate = config.algo.learning_rate
    if rate == 1e-3:
        return 0.1 + 0.1 * noise(config)
    if rate == 3e-4:
        return 0.3 + 0.2 * noise(config)
    return 0.6 + 0.5 * noise(config)


def close_call(config: Config) -> float | None:
    """Little between the arms: several rounds are needed."""
    return {1e-4: 0.62, 3e-4: 0.6, 1e-3: 0.4, 3e-3: 0.9}[config.algo.learning_rate] * (0.4 + 0.6 * noise(config))


def equal(config: Config) -> float | None:
    return 0.3 + 0.6 * noise(config)


def outcome(race: conduct.Race):
    """What must not depend on when a race was killed."""
    return (
        race.verdict,
        race.winner,
        race.best,
        race.used_env_steps,
        [made.model_copy(update={"seconds": 0.0}) for made in race.rounds],
        [(arm.model_dump(exclude={"arm"}), arm.arm.name, arm.arm.n, arm.arm.steps) for arm in race.arms],
    )


def test_the_best_is_shown_and_everything_is_in_the_store(tmp_path, monkeypatch):
    pretend(monkeypatch, one_best)
    store, events = Store(tmp_path), []
    race = conduct.run(store, raced(), progress=events.append, cores=2)
    assert (race.verdict, race.winner, race.best) == ("best", "lr0.001", ("lr0.001",))
    assert race.arms[0].shown == "best"
    assert race.arms[0].ranks == (1, 1)
    assert all(arm.ranks[0] >= 2 for arm in race.arms[1:])
    assert race.arms[1].ratio.low >= 1.0
    assert race.arms[1].behind.low >= 0.5
    assert {run.record["trial"] for run in store.runs()} == {race.id}
    assert json.loads((tmp_path / "@race" / race.id / "race.json").read_text())["winner"] == "lr0.001"
    assert conduct.load_race(store, race.id) == race
    assert [event.kind for event in events if event.kind != "progress"] == ["started", *["round"] * len(race.rounds)]
    assert race.rounds[-1].left == 1
    assert {name for made in race.rounds for name in made.dropped} == {"lr0.0001", "lr0.0003", "lr0.003"}


def test_seeds_go_where_they_matter(tmp_path, monkeypatch):
    pretend(monkeypatch, close_call)
    race = conduct.run(Store(tmp_path), raced(), cores=2)
    seeds = {arm.arm.name: arm.arm.n for arm in race.arms}
    assert seeds["lr0.003"] < seeds["lr0.001"]
    runs = [run for arm in race.arms for run in arm.arm.runs]
    assert len(set(runs)) == len(runs) == sum(seeds.values())


def test_arms_share_no_seed(tmp_path, monkeypatch):
    pretend(monkeypatch, close_call)
    store = Store(tmp_path)
    conduct.run(store, raced(), cores=2)
    seeds = [run.seed for run in store.runs()]
    assert len(set(seeds)) == len(seeds)


def test_equal_arms_stay_together_and_it_says_how_many_seeds_it_would_take(tmp_path, monkeypatch):
    pretend(monkeypatch, equal)
    race = conduct.run(Store(tmp_path), raced(rounds=2), cores=2)
    assert (race.verdict, race.winner) == ("several", None)
    assert set(race.best) == {f"lr{rate:g}" for rate in RATES}
    assert all(arm.ranks == (1, 4) and arm.shown == "not told apart" for arm in race.arms)
    assert all(arm.seeds_needed is not None and arm.seeds_needed > 16 for arm in race.arms[1:])


@pytest.mark.parametrize("seed", range(6))
def test_a_race_that_is_killed_at_any_moment_ends_as_one_that_was_not(tmp_path, monkeypatch, seed):
    pretend(monkeypatch, close_call)
    whole = conduct.run(Store(tmp_path / "whole"), raced(seed0=5_000), cores=2)
    total = sum(arm.arm.n for arm in whole.arms)
    store, planned = Store(tmp_path / "killed"), raced(seed0=5_000)
    begun = conduct.begin_race(store, planned)
    rng = random.Random(seed)
    for _ in range(3):
        pretend(monkeypatch, close_call, kill_after=rng.randrange(total))
        try:
            conduct.resume(store, begun.id, cores=2)
        except KeyboardInterrupt:
            continue
    pretended = pretend(monkeypatch, close_call)
    again = conduct.resume(store, begun.id, cores=2)
    assert outcome(again) == outcome(whole)
    assert len(pretended.trained) < total
    assert len(store.runs()) == total
    assert outcome(conduct.resume(store, begun.id, cores=2)) == outcome(whole)


def test_a_race_that_told_nothing_apart_is_extended_with_seeds_of_the_best_arms(tmp_path, monkeypatch):
    pretend(monkeypatch, equal)
    store = Store(tmp_path)
    ended = conduct.run(store, raced((1e-4, 3e-4, 1e-3), rounds=2, per_round=4), cores=2)
    pretend(monkeypatch, lambda config: (0.1 if config.algo.learning_rate == 1e-3 else 0.5) * (1 + 0.2 * noise(config)))
    begun = conduct.extend_race(store, ended.id, 24)
    assert (begun.state, begun.verdict, begun.rounds) == ("running", None, ended.rounds)
    longer = conduct.resume(store, ended.id, cores=2)
    assert (longer.verdict, longer.winner) == ("best", "lr0.001")
    assert [made.seeds for made in longer.rounds[:-1]] == [made.seeds for made in ended.rounds]
    assert longer.rounds[-1].seeds == {name: ended.find(name).arm.n + 24 for name in ended.best}
    assert longer.find("lr0.0001").worse_than[0] == "lr0.001"
    seeds = [run.seed for run in store.runs()]
    assert len(set(seeds)) == len(seeds)
    with pytest.raises(UsageError, match=r"is decided \(lr0.001 is best\)"):
        conduct.extend_race(store, ended.id, 16)


def test_a_race_is_extended_again_and_again_and_says_what_it_cannot_do(tmp_path, monkeypatch):
    pretend(monkeypatch, equal)
    store, planned = Store(tmp_path), raced((3e-4, 1e-3), rounds=1, per_round=4)
    begun = conduct.begin_race(store, planned)
    with pytest.raises(UsageError, match="has not ended"):
        conduct.extend_race(store, begun.id, 16)
    conduct.resume(store, begun.id, cores=2)
    for number in (1, 2):
        conduct.extend_race(store, begun.id, 3)
        pretend(monkeypatch, equal, kill_after=2)
        with pytest.raises(KeyboardInterrupt):
            conduct.resume(store, begun.id, cores=2)
        pretend(monkeypatch, equal)
        again = conduct.resume(store, begun.id, cores=2)
        assert (again.verdict, len(again.rounds), again.arms[0].arm.n) == ("several", 1 + number, 4 + 3 * number)
        assert (again.arms[1].ratio.low or 0.0) < 1.0  # equal arms
    with pytest.raises(UsageError, match="3 seeds an arm or more"):
        conduct.extend_race(store, begun.id, 2)
    old = raced((1e-4, 1e-3), rounds=1, per_round=3, seed0=9_000).model_copy(update={"reserve": 0.0})
    with pytest.raises(UsageError, match="all of it is spent"):
        conduct.extend_race(store, conduct.run(store, old, cores=2).id, 16)
    paid = raced((1e-4, 3e-3), rounds=1, per_round=3, seed0=12_000, budget=250_000)
    with pytest.raises(UsageError, match=r"may take .* env steps; .* of 250,000 are left"):
        conduct.extend_race(store, conduct.run(store, paid, cores=2).id, 16)


def test_a_request_to_stop_leaves_a_race_that_goes_on(tmp_path, monkeypatch):
    pretended = pretend(monkeypatch, close_call)
    store = Store(tmp_path)
    with pytest.raises(Interrupted, match="was interrupted in round 1") as error:
        conduct.run(store, raced(), cores=2, stop=lambda: int(len(pretended.trained) >= 3))
    assert "race" in str(error.value)
    assert conduct.load_race(store).state == "interrupted"
    pretended.stopping = False
    assert conduct.resume(store, "@last", cores=2).state == "finished"


def test_the_budget_is_never_exceeded_and_what_it_did_not_pay_for_is_said(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    planned = raced()
    for place in range(4):
        pretend(monkeypatch, close_call)
        budget = int(planned.cost() * (1 + 2 * rng.random()))
        race = conduct.run(Store(tmp_path / str(place)), raced(budget=budget), cores=2)
        assert race.used_env_steps <= budget
        assert race.max_env_steps <= budget
        if race.verdict == "undecided":
            assert f"of {budget:,} are left" in race.not_afforded


def test_a_budget_below_one_round_is_refused(tmp_path):
    with pytest.raises(UsageError, match="the first round, 8 seeds of 4 arms, may take"):
        raced(budget=1_000)


def test_a_faster_arm_that_fails_in_a_fifth_of_its_seeds_is_not_silently_first(tmp_path, monkeypatch):
    def behaviour(config):
        if config.algo.learning_rate == 1e-3:
            return 0.05 if config.seed % 5 else None
        return 0.7 + 0.2 * noise(config)

    pretend(monkeypatch, behaviour)
    race = conduct.run(Store(tmp_path), raced((1e-3, 3e-4)), cores=2)
    assert (race.verdict, race.winner) == ("less reliable", None)
    fast = race.find("lr0.001")
    assert (fast.shown, fast.less_reliable_than) == ("faster but less reliable", ("lr0.0003",))
    assert fast.arrived < fast.arm.n


def test_an_arm_of_which_every_run_fails_is_dropped_and_says_why(tmp_path, monkeypatch):
    pretended = pretend(monkeypatch, lambda config: 0.2 + 0.1 * noise(config))
    train_well = pretended._train

    def train(run):
        if run.config.algo.learning_rate != 3e-3:
            train_well(run)
            return
        with RunWriter(run.path, COLUMNS) as writer:
            writer.status("failed", 100, reason="the loss is not finite")

    monkeypatch.setattr(pretended, "_train", train)
    race = conduct.run(Store(tmp_path), raced((1e-3, 3e-4, 3e-3)), cores=2)
    failed = race.find("lr0.003")
    assert (failed.shown, failed.arm.failed, failed.arm.reason) == ("worse", failed.arm.n, "the loss is not finite")
    assert failed.ranks == (3, 3)


def test_where_nobody_arrives_it_ends_after_one_round(tmp_path, monkeypatch):
    pretend(monkeypatch, lambda config: None)
    race = conduct.run(Store(tmp_path), raced(), cores=2)
    assert (race.verdict, len(race.rounds)) == ("undecided", 1)
    assert "no run of any arm reached the threshold" in race.reason


def test_where_all_runs_tie_it_ends(tmp_path, monkeypatch):
    pretend(monkeypatch, lambda config: 0.2)
    race = conduct.run(Store(tmp_path), raced(), cores=2)
    assert race.verdict == "undecided"
    assert "all runs came out the same" in race.reason


def test_runs_whose_worker_was_killed_are_taken_up_again(tmp_path, monkeypatch):
    pretended = pretend(monkeypatch, one_best)
    wait, lost = pretended.wait, []

    def kill_some(timeout=None, tick=None):
        paths, pretended._paths = pretended._paths, pretended._paths[::2] if not lost else pretended._paths
        lost.append(len(paths))
        return wait(timeout, tick)

    monkeypatch.setattr(pretended, "wait", kill_some)
    race = conduct.run(Store(tmp_path), raced(), cores=2)
    assert race.winner == "lr0.001"
    assert all(arm.arm.failed == 0 for arm in race.arms)
    assert batch.RESTARTS == 2


def test_the_same_race_again_is_charged_in_any_order_of_its_arms(tmp_path, monkeypatch):
    pretend(monkeypatch, one_best)
    store = Store(tmp_path)
    first = conduct.run(store, conduct.charge(store, raced()), cores=2)
    assert first.alpha == 0.05
    again = conduct.charge(store, raced(RATES[::-1]))
    assert again.trial.alpha == pytest.approx(questions.next_alpha(0.05, 1))
    assert "asked 2 times" in again.trial.notes[-1]
    assert conduct.charge(store, raced(RATES[:3])).trial.alpha == 0.05
    assert conduct.charge(store, raced(), independent=True).trial.alpha == 0.05
    assert conduct.charge(store, raced(seed0=first.seed0)).trial.alpha == 0.05


def test_arms_that_are_the_same_are_refused():
    with pytest.raises(UsageError, match="are the same"):
        conduct.plan([arms.Arm(name="a", config=BASE), arms.Arm(name="b", config=BASE)])
    with pytest.raises(UsageError, match="called the same"):
        conduct.plan([arms.Arm(name="a", config=BASE), arms.Arm(name="a", config=set_values(BASE, ["gamma=0.9"]))])


@pytest.mark.parametrize(
    ("rates", "options", "said"),
    [
        (RATES[:1], {}, "2 to 32 arms; here: 1"),
        (tuple(np.linspace(1e-4, 1e-2, 33)), {}, "2 to 32 arms; here: 33"),
        (RATES, {"rounds": 0}, "1 to 10 rounds"),
        (RATES, {"per_round": 2}, "3 seeds or more"),
        (RATES, {"alpha": 0.7}, "--alpha 0.7"),
    ],
)
def test_what_a_race_cannot_be_is_said_before_anything_is_spent(rates, options, said):
    with pytest.raises(UsageError, match=said):
        raced(rates, **options)


def test_a_race_that_is_not_there_or_damaged_is_said(tmp_path, monkeypatch):
    store = Store(tmp_path)
    with pytest.raises(NotFound, match="no race study"):
        conduct.load_race(store, "c123")
    pretend(monkeypatch, one_best)
    race = conduct.run(store, raced(rounds=1), cores=2)
    path = tmp_path / "@race" / race.id / "race.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "arms": "none"}))
    with pytest.raises(RunError, match="damaged"):
        conduct.load_race(store, race.id)


def test_by_the_final_return_effects_are_differences(tmp_path, monkeypatch):
    pretend(monkeypatch, lambda config: 0.2 if config.algo.learning_rate == 1e-3 else 2.0 + noise(config))
    race = conduct.run(Store(tmp_path), raced((1e-3, 3e-4), outcome="return"), cores=2)
    assert race.winner == "lr0.001"
    assert race.arms[1].gain.high <= 0.0
    assert race.arms[1].ratio is None
