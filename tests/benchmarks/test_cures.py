"""The treatment benchmark: which cells, which arms, what counts as cured, harmful or as forecast."""

from typing import Any

import pytest

from benchmarks.diagnosis.faulty import EnvFault
from benchmarks.treatment import cells, cured, cures
from benchmarks.treatment import effects as effects_table
from benchmarks.treatment.cells import Arm
from rlclinic.config import Config, set_values
from rlclinic.config.schedule import Schedule
from rlclinic.treatment.prescription import recorded_effects
from rlclinic.treatment.prescription.prescription import Prescription

SEEDS = 10


@pytest.fixture(scope="module")
def plan() -> dict[str, Any]:
    return cures.read_plan(cures.PLAN)


def rx(number: int = 1, **changes: Any) -> Prescription:
    named = {name.replace("__", "."): value for name, value in changes.items()}
    return Prescription(
        number=number, cause="c", title="t", changes=named, current={}, rationale="", evidence=(), expected=None, effect="no data",
        risk="", priority="high",
    )  # fmt: skip


# ── cells and arms ──


def test_the_sixty_are_those_that_were_planned_and_development_saw_none_of_them(plan: dict[str, Any]) -> None:
    chosen = [group.id for group in cells.chosen()]
    assert chosen == [cell["id"] for cell in plan["cells"]]
    assert len(chosen) == cells.COUNT
    assert not set(chosen) & {cell["id"] for cell in cures.read_plan(effects_table.PLAN)["cells"]}


def test_a_cell_that_no_setting_undoes_is_only_asked_for_advice() -> None:
    causes = {group.causes[0] for group in cells.incurable()}
    assert "reward-sign" in causes
    assert not causes & cells.UNDONE


def test_arms_are_planted_with_the_cells_fault_and_only_the_clean_one_is_not() -> None:
    group = next(group for group in cells.treatable("test") if group.causes[0] == "observation-scale")
    made = cells.arms(group, [rx(env__normalize_obs=True), rx(2)])
    assert set(made) == {"clean", "control", "rx1", "lower", "defaults"}
    assert made["clean"].env == EnvFault()
    assert all(made[name].env == cells.sick(group).env for name in ("control", "rx1", "lower", "defaults"))
    assert made["rx1"].config.env.normalize_obs is True
    assert {made[name].key for name in made} == {Arm.of(arm.record()).key for arm in made.values()}


def test_a_wrapper_around_the_users_environment_undoes_its_bounds() -> None:
    group = next(group for group in cells.treatable("test") if group.causes[0] == "action-bounds")
    wrapper = {"id": "RescaleAction", "min_action": -1.0, "max_action": 1.0}
    arm = cells.arms(group, [rx(env__wrappers=[wrapper])])["rx1"]
    assert arm.env.bound == 1.0
    assert not arm.config.env.wrappers


def test_an_arm_that_costs_too_much_is_not_trained() -> None:
    group = cells.treatable("test")[0]
    most = int(cells.MOST_BUDGETS * cells.sick(group).task.config.run.max_env_steps)
    made = cells.arms(group, [rx(run__max_env_steps=most), rx(2, run__max_env_steps=most + 1)])
    assert "rx1" in made
    assert "rx2" not in made


def test_the_baselines_change_what_they_say() -> None:
    config = set_values(Config(env={"id": "CartPole-v1", "n_envs": 4}), ["algo.learning_rate=3e-3", "net.activation=relu"])
    assert cells.lower(config).algo.learning_rate == pytest.approx(1e-3)
    falling = cells.lower(set_values(config, ['algo.learning_rate={"start": 3e-3, "end": 0}'])).algo.learning_rate
    assert isinstance(falling, Schedule)
    assert falling.start == pytest.approx(1e-3)
    assert falling.end == 0
    reset = cells.defaults(config)
    assert reset is not None
    assert (reset.net, reset.env.n_envs) == (Config(env={"id": "CartPole-v1"}).net, 4)


# ── what counts ──


def rows(arm: str, returns: list[float], state: str = "finished") -> list[dict[str, Any]]:
    return [{"arm": arm, "seed": seed, "state": state, "steps": [1, 2, 3, 4], "returns": returns, "random": 0.0} for seed in range(SEEDS)]


def judged(treated: list[dict[str, Any]], control: list[float], scores: float = 1.0) -> cured.Judged:
    arms = {name: {"config": {"spec": {"threshold": 90.0 * (scores if name != "clean" else 1.0)}}} for name in ("clean", "control", "rx1")}
    cell = {"id": "x", "scores": scores, "rx": [], "arms": {name: name for name in arms}}
    plan = {"seeds": list(range(SEEDS)), "cells": [cell], "arms": arms}
    runs = [*rows("clean", [0, 50, 95, 100]), *rows("control", control), *treated]
    return cured.judged(plan, runs)[0]


@pytest.mark.parametrize(
    ("returns", "restored"),
    [([0, 0, 0, 91], True), ([0, 0, 0, 89], False), ([0, 0, 91, 50], True), ([0, 0, 0, 91 * 0.9], False)],
)
def test_restored_is_nine_tenths_of_the_clean_return_or_the_steps_within_a_fifth(returns: list[float], restored: bool) -> None:
    assert judged(rows("rx1", returns), [0, 0, 0, 10]).restored("rx1") is restored


def test_returns_in_another_unit_are_put_back() -> None:
    found = judged(rows("rx1", [0, 0, 0, 95_000]), [0, 0, 0, 10_000], scores=1000.0)
    assert found.arms["rx1"].level == pytest.approx(0.95)
    assert found.arms["control"].level == pytest.approx(0.1)


def test_a_run_that_failed_scores_nothing() -> None:
    assert judged(rows("rx1", [0, 0, 0, 95], "failed"), [0, 0, 0, 10]).arms["rx1"].level == 0


@pytest.mark.parametrize(("after", "harmful"), [(60, False), (45, False), (30, True), (0, True)])
def test_harmful_is_worse_than_no_treatment(after: float, harmful: bool) -> None:
    treated = [row | {"returns": [0, 0, 0, after + seed]} for seed, row in enumerate(rows("rx1", [0]))]
    control = judged(treated, [0, 0, 0, 50])
    spread = tuple((50 + 2 * seed - 9) / 100 for seed in range(SEEDS))
    found = cured.Judged(control.cell, {**control.arms, "control": cured.Trained(spread, control.arms["control"].steps)})
    assert found.harmful("rx1") is harmful


def test_at_the_bottom_a_little_less_is_no_harm() -> None:
    assert not judged(rows("rx1", [0, 0, 0, -5]), [0, 0, 0, 0]).harmful("rx1")


def test_what_was_not_trained_cured_nothing_and_a_cell_without_its_first_arms_is_left_out() -> None:
    found = judged(rows("rx1", [0, 0, 0, 95]), [0, 0, 0, 10])
    assert not found.restored("rx2")
    plan = {"seeds": [0], "cells": [dict(found.cell)], "arms": {}}
    assert cured.judged(plan, rows("clean", [0])) == []


def test_the_share_of_the_gap_is_measured_from_the_sick_return_to_the_threshold() -> None:
    share = cured.closed(rows("rx1", [0, 0, 0, 60]), rows("control", [0, 0, 0, 20]), 100.0)
    assert share is not None
    assert share.value == pytest.approx(0.5)
    assert cured.closed(rows("rx1", [0, 0, 0, 60]), rows("control", [0, 0, 0, 120]), 100.0) is None


# ── what was measured ──


def test_the_shipped_table_is_what_the_development_cells_show() -> None:
    found = effects_table.gathered([], effects_table.of_cells(cures.read_plan(effects_table.PLAN), cures.read_lines(effects_table.RUNS)))
    assert found == recorded_effects.shipped()
    assert effects_table.calibrated(found) == recorded_effects.widths()


def test_every_cell_of_the_sixty_was_trained(plan: dict[str, Any]) -> None:
    found = cured.judged(plan, cures.read_lines(cures.RUNS))
    assert len(found) == cells.COUNT
    assert {len(arm.scores) for each in found for name, arm in each.arms.items() if name in ("clean", "control", "rx1")} == {SEEDS}


def test_an_arm_is_trained_under_its_plans_key_and_the_baselines_on_fewer_seeds() -> None:
    arm = cells.arms(cells.treatable("test")[0], [])["control"]
    small = {
        "seeds": list(range(SEEDS)),
        "cells": [{"arms": {"control": "k1", "lower": "k2"}}],
        "arms": {"k1": arm.record(), "k2": arm.record()},
    }
    (first,), (second,) = cures.cohorts(small, ["control"], set()), cures.cohorts(small, ["lower"], {"k1"})
    assert [cell.about()["labels"] for cell in (*first, *second)] == [["k1"], ["k2"]]
    assert (len(first[0].seeds), len(second[0].seeds)) == (SEEDS, cells.BASELINE_SEEDS)
    assert cures.cohorts(small, ["control", "lower"], {"k1", "k2"}) == []
