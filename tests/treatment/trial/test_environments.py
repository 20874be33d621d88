"""Several environments in one trial: one verdict over them, none hidden by the others, and the same end after a kill."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from rlclinic.config import Config, load, set_values
from rlclinic.errors import UsageError
from rlclinic.report import profile
from rlclinic.report.trial import decision_text, document, headline, write
from rlclinic.runs import questions as asked_questions
from rlclinic.runs import trials
from rlclinic.runs.store import Store
from rlclinic.treatment.prescription import recorded_effects
from rlclinic.treatment.trial import analysis, arms, conduct, environments, power, questions, sequential
from rlclinic.treatment.trial.environments import SeveralStanding
from rlclinic.treatment.trial.models import Observation, Trial, TrialPlan
from rlclinic.treatment.trial.sequential import Arrivals, Bounds, Rule
from tests.treatment.pretended_training import pretend

SHORT = ["learning_rate=1e-2", "run.max_env_steps=20000", "run.eval_every_env_steps=1000", "spec.return_range=null", "spec.threshold=475"]
NAMES = ("CartPole-v1", "Acrobot-v1", "MountainCar-v0")


def part_of(env_id: str, changes: tuple[str, ...] = ("learning_rate=1e-3",), base: list[str] = SHORT) -> tuple[arms.Arm, list[arms.Arm]]:
    config = set_values(load(f"{env_id}:ppo").config, base)
    return arms.control(config), [arms.changed(config, [change], f"rx{place + 1}") for place, change in enumerate(changes)]


def plan_of(*names: str, changes: tuple[str, ...] = ("learning_rate=1e-3",), **options: object) -> TrialPlan:
    return conduct.plan_environments([part_of(name, changes) for name in names or NAMES], **options)


def behave(helps: dict[str, float], usual: float = 0.6):
    """Runs arrive about a share of their budget; the treated ones sooner or later by a factor that depends on the environment."""

    def behaviour(config: Config) -> float | None:
        noise = np.random.default_rng(config.seed).standard_normal()
        factor = helps.get(config.env.id, 1.0) if config.algo.learning_rate == 1e-3 else 1.0
        share = usual * factor * float(np.exp(0.15 * noise))
        return share if share <= 1 else None

    return behaviour


def outcome(found: Trial):
    """What must not depend on when a trial was killed."""
    looks = [look.model_copy(update={"seconds": 0.0}) for look in found.looks]
    return found.verdict, found.winner, looks, found.effects, found.environments, [arm.runs for arm in found.arms]


# ── from plan to verdict ──


def test_a_change_that_helps_everywhere_is_adopted_over_all_environments(tmp_path, monkeypatch):
    pretend(monkeypatch, behave(dict.fromkeys(NAMES, 0.5)))
    store = Store(tmp_path)
    found = conduct.run(store, plan_of(), cores=2)
    assert (found.verdict, found.winner) == ("adopt", "rx1")
    assert [each.env_id for each in found.environments] == list(NAMES)
    for each in found.environments:
        assert [arm.n for arm in each.arms] == [8, 8]
        assert each.effects[0].ratio.high < 1
    assert [arm.n for arm in found.arms] == [24, 24]
    assert found.effects[0].seeds == found.looks[0].seeds == 8
    assert found.effects[0].ratio.value == pytest.approx(0.5, rel=0.3)
    seeds = [run.seed for run in store.runs()]
    assert len(set(seeds)) == len(seeds) == 48
    assert headline(found) == "ADOPT rx1 in all 3 environments"


def test_what_helps_here_and_hurts_there_is_a_verdict_of_its_own(tmp_path, monkeypatch):
    pretend(monkeypatch, behave({"CartPole-v1": 0.4, "Acrobot-v1": 1.6, "MountainCar-v0": 0.5}))
    found = conduct.run(Store(tmp_path), plan_of(), cores=2)
    assert (found.verdict, found.winner) == ("mixed", None)
    shown = {each.env_id: each.effects[0].verdict for each in found.environments}
    assert shown == {"CartPole-v1": "adopt", "Acrobot-v1": "reject", "MountainCar-v0": "adopt"}
    text = headline(found)
    assert text.startswith("HELPS HERE, HURTS THERE: rx1 helps in CartPole-v1") or "MountainCar-v0" in text.split("hurts")[0]
    assert "hurts in Acrobot-v1" in text
    with pytest.raises(UsageError, match="decided"):
        conduct.extend(Store(tmp_path), found.id, 8)


def test_a_trial_that_was_killed_ends_as_it_would_have(tmp_path, monkeypatch):
    behaviour = behave({"CartPole-v1": 0.85, "Acrobot-v1": 0.9})
    plan = plan_of("CartPole-v1", "Acrobot-v1", looks=3, per_look=4, seed0=70)
    pretend(monkeypatch, behaviour)
    whole = conduct.run(Store(tmp_path / "whole"), plan, cores=2)
    for killed in (3, 33):
        store = Store(tmp_path / f"killed{killed}")
        pretend(monkeypatch, behaviour, kill_after=killed)
        with pytest.raises(KeyboardInterrupt):
            conduct.run(store, plan, cores=2)
        pretend(monkeypatch, behaviour)
        resumed = conduct.resume(store, "@last", cores=2)
        assert resumed.looks
        assert outcome(resumed)[:2] == outcome(whole)[:2]
        strip = [look.model_copy(update={"seconds": 0.0}) for look in whole.looks]
        assert [look.model_copy(update={"seconds": 0.0}) for look in resumed.looks] == strip
        assert resumed.effects == whole.effects
        assert [each.effects for each in resumed.environments] == [each.effects for each in whole.environments]


def test_an_undecided_trial_takes_more_seeds_in_every_environment(tmp_path, monkeypatch):
    pretend(monkeypatch, behave({"CartPole-v1": 0.92, "Acrobot-v1": 0.92}))
    store = Store(tmp_path)
    found = conduct.run(store, plan_of("CartPole-v1", "Acrobot-v1", looks=1, per_look=4), cores=2)
    assert found.verdict == "undecided"
    longer = conduct.extend(store, found.id, 16)
    assert longer.max_env_steps == 2 * 2 * 20 * 20_000
    ended = conduct.resume(store, found.id, cores=2)
    assert [len(arm.runs) for arm in ended.arms] == [40, 40]
    assert ended.looks[-1].pooled is not None
    assert len(ended.looks[-1].environments) == 2
    assert ended.effects[0].seeds == 20
    seeds = [run.seed for run in store.runs()]
    assert len(set(seeds)) == len(seeds)


def test_several_arms_and_several_environments_go_together(tmp_path, monkeypatch):
    def behaviour(config: Config) -> float | None:
        noise = np.random.default_rng(config.seed).standard_normal()
        factor = {1e-3: 0.5, 1e-4: 1.4}.get(config.algo.learning_rate, 1.0)
        return min(0.6 * factor * float(np.exp(0.1 * noise)), 1.0)

    pretend(monkeypatch, behaviour)
    found = conduct.run(
        Store(tmp_path), plan_of("CartPole-v1", "Acrobot-v1", changes=("learning_rate=1e-3", "learning_rate=1e-4")), cores=2
    )
    assert (found.verdict, found.winner) == ("adopt", "rx1")
    assert found.effect("rx2").verdict == "reject"
    assert all(len(each.effects) == 2 for each in found.environments)


@pytest.mark.parametrize("kind", ["steps", "return", "wall", "stability"])
def test_every_outcome_can_be_asked_over_several_environments(tmp_path, monkeypatch, kind):
    pretend(monkeypatch, behave(dict.fromkeys(NAMES, 0.6)))
    found = conduct.run(Store(tmp_path), plan_of("CartPole-v1", "Acrobot-v1", looks=2, outcome=kind), cores=2)
    assert found.verdict is not None
    assert len(found.environments) == 2
    assert found.effects[0].gain is None
    write(Store(tmp_path), found)


# ── broken environments, ties, silence ──


def test_an_environment_in_which_every_run_fails_ends_the_trial_and_is_named(tmp_path, monkeypatch):
    pretend(monkeypatch, behave(dict.fromkeys(NAMES, 0.5)))
    original = environments.SeveralStanding.add_environments

    def break_one(self, data, seconds=0.0):
        failed = {
            name: [seen.model_copy(update={"state": "failed", "reached_at": None, "final": None, "reason": "no display"}) for seen in own]
            for name, own in data[1].items()
        }
        return original(self, [data[0], failed, *data[2:]], seconds)

    monkeypatch.setattr(environments.SeveralStanding, "add_environments", break_one)
    found = conduct.run(Store(tmp_path), plan_of(), cores=2)
    assert found.verdict == "undecided"
    assert len(found.looks) == 1
    assert found.reason == "Acrobot-v1: every run of every arm failed: no display"


def test_an_environment_that_nobody_solves_neither_helps_nor_hides(tmp_path, monkeypatch):
    def behaviour(config: Config) -> float | None:
        return None if config.env.id == "MountainCar-v0" else behave({"CartPole-v1": 0.5, "Acrobot-v1": 0.5})(config)

    pretend(monkeypatch, behaviour)
    found = conduct.run(Store(tmp_path), plan_of(), cores=2)
    assert found.verdict == "adopt"
    empty = found.environments[2].effects[0]
    assert (empty.verdict, empty.ratio.value, empty.z) == ("undecided", None, 0.0)


def test_ties_everywhere_decide_nothing(tmp_path, monkeypatch):
    pretend(monkeypatch, lambda config: 0.5)
    found = conduct.run(Store(tmp_path), plan_of(), cores=2)
    assert (found.verdict, found.reason) == ("undecided", analysis.ALL_TIED)


def test_runs_without_evaluations_are_compared_by_their_training_returns_in_that_environment_alone(tmp_path, monkeypatch):
    from tests.treatment import pretended_training

    original = pretended_training._row

    def without(row, steps, value, rate):
        made = original(row, steps, value, rate)
        return {name: number for name, number in made.items() if not (without.silent and name.startswith("val/"))}

    without.silent = False
    monkeypatch.setattr(pretended_training, "_row", without)
    behaviour = behave(dict.fromkeys(NAMES, 0.5))

    def behave_and_tell(config: Config) -> float | None:
        without.silent = config.env.id == "Acrobot-v1"
        return behaviour(config)

    pretend(monkeypatch, behave_and_tell)
    found = conduct.run(Store(tmp_path), plan_of("CartPole-v1", "Acrobot-v1"), cores=2)
    assert [each.arms[0].evaluated for each in found.environments] == [True, False]
    assert found.verdict == "adopt"


# ── plans ──


def test_an_environment_that_is_named_twice_is_refused():
    with pytest.raises(UsageError, match="named twice"):
        plan_of("CartPole-v1", "CartPole-v1")


def test_a_change_of_the_budget_is_no_change_over_several_environments():
    with pytest.raises(UsageError, match="budget of its own"):
        plan_of("CartPole-v1", "Acrobot-v1", changes=("run.max_env_steps=40000",))


def test_costs_seeds_and_power_count_every_environment():
    one, three = plan_of("CartPole-v1"), plan_of()
    assert not one.environments
    assert one.env_id == "CartPole-v1"
    assert three.max_env_steps == 3 * one.max_env_steps
    assert three.n_seeds == 3 * one.n_seeds
    taken = [
        seed for environment in range(3) for look in range(1, 5) for arm in range(2) for seed in three.seeds(0, look, arm, environment)
    ]
    assert sorted(taken) == list(range(three.n_seeds))
    assert power.of_plan(three).by_effect["0.1"] > power.of_plan(one).by_effect["0.1"] + 0.1


def test_another_set_of_environments_is_another_question_and_their_order_is_none(tmp_path):
    ids = {
        names: questions.of_plan(plan_of(*names))[0].id
        for names in [("CartPole-v1", "Acrobot-v1"), ("CartPole-v1", "MountainCar-v0"), NAMES]
    }
    assert len(set(ids.values())) == 3
    assert questions.of_plan(plan_of("Acrobot-v1", "CartPole-v1"))[0].id == ids["CartPole-v1", "Acrobot-v1"]
    assert questions.of_plan(plan_of("CartPole-v1"))[0].id not in ids.values()
    store = Store(tmp_path)
    conduct.begin(store, plan_of("CartPole-v1", "Acrobot-v1"))
    again = questions.charge(store, plan_of("Acrobot-v1", "CartPole-v1"))
    assert again.alpha == pytest.approx(asked_questions.next_alpha(0.05, 1))


def test_a_trial_of_one_environment_writes_nothing_about_several(tmp_path, monkeypatch):
    pretend(monkeypatch, behave({"CartPole-v1": 0.5}))
    found = conduct.run(Store(tmp_path), plan_of("CartPole-v1"), cores=2)
    ledger = json.loads((tmp_path / "@trials" / found.id / "trial.json").read_text())
    assert "environments" not in ledger
    assert "environments" not in ledger["plan"]
    assert "environments" not in ledger["looks"][0]
    assert conduct.load(Store(tmp_path)).environments == ()


def test_what_was_learned_of_a_change_is_recorded_for_each_environment(tmp_path, monkeypatch):
    pretend(monkeypatch, behave(dict.fromkeys(NAMES, 0.5)))
    found = conduct.run(Store(tmp_path), plan_of(), cores=2)
    outcomes = recorded_effects.of_trial(trials.find(Store(tmp_path), found.id))
    assert [each.env_id for each in outcomes] == list(NAMES)
    assert {each.measure for each in outcomes} == {"steps"}


def test_the_report_shows_each_environment_and_a_profile_over_all(tmp_path, monkeypatch):
    pretend(monkeypatch, behave({"CartPole-v1": 0.5, "Acrobot-v1": 0.8}))
    store = Store(tmp_path)
    found = conduct.run(store, plan_of("CartPole-v1", "Acrobot-v1"), cores=2)
    page, text = (path.read_text() for path in reversed(write(store, found)))
    assert "Performance profile" in text
    assert "| all of them |" in text
    assert page.count("<svg") >= 4
    bands = {band.label: band for band in profile.profile(store, found)}
    assert bands["control"].center[0] == 0
    assert bands["rx1"].center[-1] == 1.0
    assert sum(bands["rx1"].center) > sum(bands["control"].center)
    assert document(store, found)


def test_the_example_of_the_page_about_trials_works(tmp_path, monkeypatch, capsys):
    pretend(monkeypatch, lambda config: 0.2 + 0.5 * float(np.random.default_rng(config.seed).random()))
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).resolve().parents[3] / "docs" / "trials.md").read_text()
    code = re.search(r"## Several environments.*?```python\n(.*?)```", page, flags=re.DOTALL)[1]
    exec(compile(code, "docs/trials.md", "exec"), {})
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["CartPole-v1", "Acrobot-v1"]


# ── the statistic ──


def test_ranks_never_leave_their_environment():
    rng = np.random.default_rng(0)
    control = [rng.random(8), 1e6 * rng.random(8)]
    treatment = [0.5 * rng.random(8), 1e6 * rng.random(8)]
    scaled = [[values * 10.0**place for place, values in enumerate(side)] for side in (control, treatment)]
    assert sequential.statistic(control, treatment) == pytest.approx(sequential.statistic(*scaled))


def test_the_combined_statistic_is_van_elterens():
    rng = np.random.default_rng(1)
    control, treatment = ([rng.random(8) for _ in range(3)] for _ in range(2))
    sums = [sum((ours[:, None] < theirs).sum() for ours in [own]) - 32 for theirs, own in zip(control, treatment, strict=True)]
    by_hand = sum(sums) / np.sqrt(3 * 8 * 8 * 17 / 12)
    assert abs(sequential.statistic(control, treatment)) <= abs(by_hand) + 1e-9
    assert np.sign(sequential.statistic(control, treatment)) == np.sign(by_hand)


def test_arrivals_over_environments_are_mantel_and_haenszels():
    arrivals = [Arrivals(np.asarray(8), 8, np.asarray(6), 8), Arrivals(np.asarray(4), 8, np.asarray(4), 8)]
    variance = (14 / 16) * (2 / 16) * (2 / 8) + 0.25 * (2 / 8)
    assert float(environments.drop_z(arrivals)) == pytest.approx(0.25 / np.sqrt(variance))
    assert environments.pool(arrivals).n == 16
    assert int(environments.pool(arrivals).treatment) == 10


@pytest.mark.parametrize(
    ("z", "each", "called"),
    [
        (3.0, [2.0, 2.0], environments.BETTER),
        (3.0, [4.5, -0.1], environments.OPEN),
        (3.0, [4.5, -3.5], environments.MIXED),
        (-3.0, [-4.5, -1.0], environments.WORSE),
        (-3.0, [3.5, -6.0], environments.MIXED),
        (0.0, [3.5, -3.5], environments.MIXED),
        (0.0, [3.5, -1.0], environments.OPEN),
    ],
)
def test_a_look_is_decided_by_the_average_and_by_every_environment(z, each, called):
    all_arrived = [Arrivals(np.asarray(8), 8, np.asarray(8), 8)] * 2
    seen = environments.Each([np.asarray(one) for one in each], [Bounds(3.0, 3.0)] * 2, [np.asarray(one) for one in each], all_arrived)
    assert int(environments.decide(np.asarray(z), Bounds(2.78, 2.6), seen, 0.10, last=False)) == called


def _look(z, each, **options):
    """A look at two environments in which all runs of 8 seeds an arm arrived."""
    all_arrived = [Arrivals(np.asarray(8), 8, np.asarray(8), 8)] * 2
    seen = environments.Each([np.asarray(one) for one in each], [Bounds(3.0, 3.0)] * 2, [np.asarray(one) for one in each], all_arrived)
    return int(environments.decide(np.asarray(z), Bounds(2.78, 2.6), seen, 0.10, last=False, **options))


def test_a_bound_that_was_passed_while_one_environment_held_it_is_remembered_until_nothing_holds_it():
    assert _look(3.0, (4.2, 0.0)) == environments.OPEN  # passed, and held: one environment does not point the right way
    assert _look(2.5, (2.5, 1.0)) == environments.OPEN  # not held, but below the bound of this look
    assert _look(2.5, (2.5, 1.0), passed=True) == environments.BETTER
    assert _look(2.5, (4.2, 0.0), passed=True) == environments.OPEN  # still held
    assert _look(-0.1, (0.6, 0.6), passed=True) == environments.OPEN  # what was seen since speaks against it
    assert _look(2.5, (4.2, -3.1), passed=True) == environments.MIXED


def test_an_arm_that_was_held_is_adopted_later_and_its_interval_ends_at_no_effect():
    def runs(first: int, step: int) -> list[Observation]:
        steps = [first + step * place for place in range(8)]
        return [
            Observation(
                run="r",
                seed=0,
                state="finished",
                env_steps=20_000,
                reached_at=at,
                final=500.0,
                success=None,
                seconds=1.0,
                seconds_per_100k=1.0,
            )
            for at in steps
        ]

    low, high, even, odd = (lambda: runs(4_000, 10)), (lambda: runs(9_000, 10)), (lambda: runs(6_000, 20)), (lambda: runs(6_010, 20))
    standing = SeveralStanding(plan_of())
    apart = {"control": high(), "rx1": low()}
    first = standing.add_environments([apart, apart, {"control": even(), "rx1": odd()}])
    assert first.z["rx1"] > first.bound
    assert not first.calls  # the third environment does not point the right way
    back = {"control": runs(3_500, 10), "rx1": runs(8_000, 10)}  # of all runs together, half of the comparisons are won
    second = standing.add_environments([back, back, {"control": odd(), "rx1": runs(5_900, 20)}])
    assert 0 < second.z["rx1"] < second.bound
    assert second.calls == {"rx1": "better"}
    assert analysis.verdict(standing) == ("adopt", "rx1")
    (effect,) = environments.effects(standing)
    assert effect.ratio.high == 1.0
    assert effect.improvement.low == 0.5
    assert "passed at an earlier look" in decision_text(second, 4)


def test_a_collapse_in_one_environment_is_not_hidden_by_the_others():
    arrived = Arrivals(np.asarray(32), 32, np.asarray(32), 32)
    collapsed = Arrivals(np.asarray(32), 32, np.asarray(24), 32)
    seen = environments.Each([np.asarray(5.0)] * 3, [Bounds(3.0, 3.0)] * 3, [np.asarray(5.0)] * 3, [arrived, arrived, collapsed])
    assert int(environments.decide(np.asarray(8.0), Bounds(2.0, 2.6), seen, 0.10, last=True)) == environments.LESS_RELIABLE


def test_bounds_of_few_seeds_are_raised_for_one_environment_and_for_all():
    rng, rule = np.random.default_rng(2), Rule(per_look=3, environments=3)
    control, treatment = (rng.random((3, 4_000, 12)) for _ in range(2))
    wrong, somewhere = np.zeros(4_000, dtype=bool), np.zeros(4_000, dtype=bool)
    for look, (bounds, own) in enumerate(zip(rule.bounds, rule.environment_bounds(), strict=True), start=1):
        sides = [list(side[..., : 3 * look]) for side in (control, treatment)]
        z = sequential.statistics(*sides)
        wrong |= (z > bounds.better) | (z < -bounds.worse)
        for one in environments.measure_each(*sides, own).tested:
            somewhere |= (one > own.better) | (one < -own.worse)
    assert wrong.mean() < 0.05
    assert somewhere.mean() < 0.05
    later = [bound.better for bound in Rule(environments=3).bounds]
    # Early looks are mostly held, so that more is kept for the last.
    assert later[0] > Rule().bounds[0].better
    assert later[-1] < Rule().bounds[-1].better


def test_equal_in_one_environment_and_opposite_in_two_others_is_not_equivalent():
    plan = plan_of(outcome="return", looks=1, per_look=32, futility=False)
    rng = np.random.default_rng(3)

    def ends(count: int, level: float) -> list[Observation]:
        return [
            Observation(
                run="r",
                seed=0,
                state="finished",
                env_steps=1,
                reached_at=1,
                final=level + rng.normal(0, 5),
                success=None,
                seconds=1.0,
                seconds_per_100k=1.0,
            )
            for _ in range(count)
        ]

    standing = SeveralStanding(plan)
    standing.add_environments([{"control": ends(32, 480), "rx1": ends(32, 480 + move)} for move in (0.0, 120.0, -120.0)])
    assert standing.calls["rx1"] == "mixed"
    equal = SeveralStanding(plan)
    equal.add_environments([{"control": ends(32, 480), "rx1": ends(32, 480)} for _ in range(3)])
    assert equal.calls["rx1"] == "equivalent"
