"""What logs without sentinels may and may not be taken for: cases that other people's runs brought up."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rlclinic.diagnosis import engine, registry
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.findings import Finding
from rlclinic.runs.history import History
from tests.diagnosis.builders import continuous, series, setting, unsolved

RETURN, EVAL, LENGTH = "train/roll/ep_rew_mean", "val/roll/ep_rew_mean", "train/roll/ep_len_mean"
KL, EV, ENTROPY, RATE = (
    "train/metrics/kl_divergence", "train/metrics/explained_variance", "train/metrics/entropy", "train/hp/learning_rate",
)  # fmt: skip


def plain(history: History) -> History:
    """Without what only our trainer and our callback write."""
    kept = {name: found for name, found in history.series.items() if not name.startswith("train/sentinel/")}
    return replace(history, source="sb3", series=kept)


def said(id: str, history: History) -> list[Finding]:
    return engine.examine(registry.find(id), [Case(history)]).findings


def stepped(share: np.ndarray) -> Any:
    return np.where(share < 0.05, 60.0, 20.0)


def test_a_mean_reward_below_zero_is_no_proof_that_no_reward_is_positive() -> None:
    mixed = series(plain(unsolved()), {RETURN: lambda share: -200 + 150 * share, LENGTH: lambda share: 90 + 60 * share})
    assert said("REW510", mixed) == []
    constant = series(plain(unsolved()), {RETURN: lambda share: -(90 + 60 * share), LENGTH: lambda share: 90 + 60 * share})
    assert said("REW510", constant)


def test_the_first_means_of_a_few_episodes_are_nothing_that_can_break_off() -> None:
    assert said("ENV611", series(plain(unsolved()), {RETURN: stepped, EVAL: None, KL: 0.005, EV: 0.9})) == []


def test_a_return_that_is_led_downwards_is_not_called_one_that_does_not_follow() -> None:
    sound = {KL: 0.01, EV: 0.7, EVAL: None}
    flat = series(plain(unsolved()), {**sound, RETURN: lambda share: 22 + 0.5 * np.sin(300 * share)})
    falling = series(plain(unsolved()), {**sound, RETURN: lambda share: 22 - 200 * share})
    assert said("FAM103", flat)
    assert said("FAM103", falling) == []
    assert said("REW504", falling)


def test_a_policy_that_was_sure_before_the_first_row_does_not_stay_random() -> None:
    surely = series(plain(unsolved()), {ENTROPY: 0.01})
    assert said("ENT301", surely) == []
    assert said("ENT301", series(plain(unsolved()), {ENTROPY: 0.69}))


@pytest.mark.parametrize(
    ("state", "share", "told"), [("unknown", 0.2, True), ("unknown", 0.9, False), ("stopped", 0.2, True), ("finished", 0.2, False)]
)
def test_a_log_that_ends_long_before_its_budget_is_told(state: str, share: float, told: bool) -> None:
    base = plain(unsolved())
    short = replace(base, state=state, max_env_steps=int((base.env_steps or 0) / share))
    assert bool(said("BUD102", short)) is told


def test_too_few_steps_are_not_ruled_out_by_a_handful_of_rows() -> None:
    def ruled_out(rows: int) -> set[str]:
        base = plain(unsolved())
        steps = np.linspace(1000, 9000, rows)
        flat = {name: replace(found, steps=steps, values=np.full(rows, 20.0)) for name, found in base.series.items() if name == RETURN}
        return {each.title for each in engine.diagnose([replace(base, series=flat)]).ruled_out}

    assert "too few steps" in ruled_out(60)
    assert "too few steps" not in ruled_out(6)


def test_a_rate_that_falls_from_the_one_number_that_was_written_down_is_its_schedule() -> None:
    falling = setting(series(plain(unsolved()), {RATE: lambda share: 1e-3 * (1 - share)}), algo__learning_rate=1e-3)
    assert said("LRN105", replace(falling, source="cleanrl")) == []
    assert said("LRN105", falling)
    jumping = series(falling, {RATE: lambda share: np.where(share < 0.3, 1e-3, 1e-2)})
    assert said("LRN105", replace(jumping, source="cleanrl"))


def test_a_sliver_of_a_box_that_is_known_is_told_however_far_the_return_came() -> None:
    base = series(continuous(), {"train/sentinel/action_at_bound": 0.0, "train/sentinel/action_std_max": 1.0})
    wide = setting(base, about__action_low=-1000.0, about__action_high=1000.0)
    assert any("in a box of -1000 to 1000" in finding.text for finding in said("ENV610", wide))
    usual = setting(base, about__action_low=-1.0, about__action_high=1.0)
    assert said("ENV610", usual) == said("ENV610", base) == []


def test_a_deviation_that_suits_a_known_box_is_not_to_blame_for_a_flat_return() -> None:
    flat = series(continuous(), {RETURN: -1200.0, "train/sentinel/action_at_bound": 0.0, "train/sentinel/action_std_max": 0.14})
    assert said("ENV610", flat)
    assert said("ENV610", setting(flat, about__action_low=-1.0, about__action_high=1.0)) == []


def test_a_total_of_one_minibatch_is_not_held_against_means_over_all_of_them() -> None:
    total = "train/loss/total"
    doubled = series(unsolved(), {total: 500.0})
    assert said("CFG101", doubled)
    last = replace(doubled, series={**doubled.series, total: replace(doubled.series[total], estimator="last minibatch")})
    assert [finding.text for id in ("CFG101", "CFG108", "CFG109") for finding in said(id, last)] == []


def test_runs_with_the_same_name_and_other_columns_are_judged_each_by_its_own() -> None:
    full, bare = unsolved(), plain(unsolved())
    same = [replace(bare, id="0", source="rlclinic"), replace(full, id="0")]
    assert engine.examine(registry.find("POL110"), [Case(history) for history in same]).judged == 1
    engine.diagnose(same)


def test_small_steps_of_a_policy_that_became_certain_are_no_updates_that_hardly_move_it() -> None:
    still = {KL: 1e-5, EVAL: None, RETURN: lambda share: 20 + 0.5 * np.sin(300 * share)}
    assert said("FAM101", series(plain(unsolved()), {**still, ENTROPY: 0.69}))
    assert said("FAM101", series(plain(unsolved()), {**still, ENTROPY: lambda share: np.where(share < 0.1, 0.69, 0.01)})) == []


def test_a_log_that_ends_half_way_may_have_been_about_to_rise() -> None:
    flat = series(plain(unsolved()), {KL: 0.01, EV: 0.7, EVAL: None, RETURN: lambda share: 22 + 0.5 * np.sin(300 * share)})
    assert said("FAM103", flat)
    cut = replace(flat, state="unknown", max_env_steps=4 * int(flat.env_steps or 0))
    assert said("FAM103", cut) == []
    assert said("BUD102", cut)


def test_few_gradient_steps_are_counted_over_what_was_trained_where_nobody_knows_the_budget() -> None:
    few = setting(unsolved(), algo__n_steps=512, algo__batch_size=8 * 512, algo__n_epochs=1, run__max_env_steps=None)
    assert said("BAT101", replace(few, max_env_steps=None))
    assert said("BAT101", replace(few, max_env_steps=None, threshold=None)) == []


def test_without_a_threshold_a_setting_beyond_all_reason_is_told_first_and_with_doubt() -> None:
    rising = setting(plain(unsolved()), algo__gamma=0.1, spec__threshold=None)
    applied = {name: None for name in rising.series if name.startswith("train/hp/")}
    found = engine.diagnose([series(replace(rising, threshold=None), applied)])
    assert found.verdict == "NO THRESHOLD"
    assert [cause.id for cause in found.causes] == ["discount-too-low", "no-reference"]
    assert found.causes[0].severity.value == "medium"
    assert 0.4 < found.causes[0].probability < 0.6
    assert sum(cause.probability for cause in found.causes) == pytest.approx(1.0)


def test_too_few_steps_are_not_ruled_out_by_a_smooth_curve_that_goes_up() -> None:
    base = plain(unsolved())
    returns = np.cumsum(np.arange(11.0, 71.0)) / np.arange(1, 61)
    rising = {
        name: replace(found, steps=np.linspace(1000, 9000, 60), values=returns) for name, found in base.series.items() if name == RETURN
    }
    assert "too few steps" not in {each.title for each in engine.diagnose([replace(base, series=rising)]).ruled_out}
