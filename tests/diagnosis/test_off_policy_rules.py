"""Learners with a replay: what looks like one fault and is another."""

from dataclasses import replace

import numpy as np

from rlclinic.diagnosis import engine, registry
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.rules import cases
from rlclinic.diagnosis.signals import off_policy
from rlclinic.runs.history import History
from tests.diagnosis.builders import made, q_learner, series, setting, soft_actor

S = "train/sentinel/"
RETURNS = ("train/roll/ep_rew_mean", "val/roll/ep_rew_mean")


def strength(id: str, run: History) -> float:
    """How clearly a rule speaks about one run; 0: it is silent."""
    return max((finding.strength for finding in engine.examine(registry.find(id), [Case(run)]).findings), default=0.0)


def first_cause(run: History) -> str:
    return engine.diagnose([run]).causes[0].id


def test_sixteen_envs_with_one_gradient_step_are_too_few_updates_and_no_target_that_follows_at_once() -> None:
    run = series(setting(q_learner(), env__n_envs=16, algo__train_freq=1, algo__gradient_steps=1), {S + "updates_per_step": 1 / 16})
    assert strength("RPL106", run) >= 0.5
    assert strength("RPL102", run) == 0
    assert first_cause(run) == "too-few-updates"


def test_minibatches_of_two_transitions_are_named_and_those_of_thirty_two_are_not() -> None:
    assert first_cause(setting(q_learner(), algo__batch_size=2)) == "batch-too-small"
    assert strength("RPL114", setting(q_learner(), algo__batch_size=32)) == 0


def test_values_that_stay_at_their_start_do_not_make_a_usual_learning_rate_too_low() -> None:
    still = series(q_learner(), {S + "q_bias": -40.0, S + "value_mean": 0.5})
    usual, low = (setting(still, algo__learning_rate=rate) for rate in (1e-3, 4e-5))
    assert strength("QVL108", usual) >= 0.5
    assert strength("QVL107", usual) == 0
    assert first_cause(usual) != "learning-rate-too-low"
    assert strength("QVL107", low) >= 0.5
    assert strength("QVL107", setting(q_learner(), algo__learning_rate=4e-5)) == 0


def test_costs_that_are_rarely_large_are_no_noise() -> None:
    noise = {S + "reward_std": 20.0, S + "reward_mean": 0.0, S + "td_error": 18.0}
    assert strength("QVL112", series(q_learner(), noise | {S + "reward_min": -60.0, S + "reward_max": 60.0})) >= 0.5
    assert strength("QVL112", series(q_learner(), noise | {S + "reward_min": -100.0, S + "reward_max": 22.0})) == 0


def test_a_learned_temperature_on_its_way_down_is_not_called_too_high() -> None:
    entropy = {"train/metrics/entropy": 0.65}
    risen = series(soft_actor(), entropy | {"train/hp/alpha": lambda share: 50 * 2**share})
    falling = series(soft_actor(), entropy | {"train/hp/alpha": lambda share: 50 * 0.2**share})
    assert strength("ACT104", risen) >= 0.5
    assert strength("ACT104", falling) < 0.5
    assert strength("ACT104", setting(falling, algo__ent_coef=50.0)) >= 0.5


def test_beside_rewards_of_next_to_nothing_their_scale_is_the_cause_and_not_the_temperature() -> None:
    tiny = {S + "reward_std": 1e-6, S + "reward_min": -2e-6, S + "reward_max": 2e-6}
    run = setting(series(soft_actor(), tiny | {"train/hp/alpha": 0.05, "train/metrics/entropy": 0.65}), algo__ent_coef=0.05)
    assert first_cause(run) == "reward-scale-too-small"


def test_a_policy_that_is_deterministic_from_the_first_row_on_is_not_accused_of_a_wrong_action_scale() -> None:
    narrow = series(soft_actor(), {S + "action_reach": 0.1, "train/metrics/entropy": -5.0})
    assert strength("ACT101", setting(narrow, algo__learning_starts=0)) == 0
    assert strength("ACT101", setting(narrow, algo__learning_starts=100_000)) >= 0.5
    assert strength("ACT101", setting(series(soft_actor(), {S + "action_reach": 0.5}), algo__learning_starts=0)) >= 0.5


def test_where_every_step_pays_the_same_a_threshold_beyond_the_time_limit_cannot_be_reached() -> None:
    paid = {S + "reward_min": 1.0, S + "reward_max": 1.0, "val/roll/ep_rew_mean": lambda share: 20 + 180 * np.sqrt(share)}
    run = setting(series(q_learner(), paid), env__max_episode_steps=250)
    assert strength("EVA804", run) >= 0.5
    sometimes = series(run, {S + "reward_min": 0.0})
    assert strength("EVA804", sometimes) == 0


def test_units_that_were_silent_from_the_start_have_not_died() -> None:
    assert strength("GRD404", series(q_learner(), {S + "dormant_critic": 0.55, S + "dormant_actor": None})) == 0
    dying = series(q_learner(), {S + "dormant_critic": lambda share: 0.1 + 0.7 * share, S + "dormant_actor": None})
    assert strength("GRD404", dying) >= 0.5


def test_small_rewards_beside_a_threshold_that_they_can_never_add_up_to_are_not_sure_to_be_a_matter_of_scale() -> None:
    tiny = {S + "reward_min": -1e-4, S + "reward_max": 1e-4}
    run = setting(series(soft_actor(), tiny), env__max_episode_steps=100)
    assert strength("QVL111", run) > strength("QVL111", replace(run, threshold=80.0)) > 0


def test_a_critic_is_right_beside_the_spread_of_returns_that_straddle_zero() -> None:
    chance = {S + "random_return": -1.0, S + "random_return_std": 16.0, "train/roll/ep_rew_mean": lambda share: -1 + np.sin(99 * share)}
    seen = {"val/roll/ep_rew_mean": -1.0, S + "q_bias": 4.0, S + "value_mean": 1.0, "train/roll/ep_len_mean": 20.0}
    assert strength("ACT106", series(q_learner(), chance | seen)) >= 0.5
    assert strength("ACT106", series(q_learner(), chance | seen | {S + "q_bias": 40.0})) == 0


def test_a_limit_far_below_the_tasks_own_is_named_though_a_few_episodes_get_there() -> None:
    ends = {S + "truncated": 4.0, S + "terminated": 1.0, "train/roll/ep_rew_mean": lambda share: 5 + 20 * np.sin(50 * share)}
    run = series(q_learner(), ends | {"val/roll/ep_rew_mean": 10.0, "train/roll/ep_len_mean": 90.0})
    assert strength("ENV612", setting(run, env__max_episode_steps=100, spec__max_episode_steps=1000)) >= 0.5
    assert strength("ENV612", setting(run, env__max_episode_steps=100, spec__max_episode_steps=150)) == 0


def test_gradient_steps_are_known_from_the_optimizers_count_where_no_settings_and_no_budget_are() -> None:
    foreign = setting(replace(q_learner(), max_env_steps=None), algo__train_freq=None, algo__gradient_steps=None)
    end = foreign.series["train/roll/ep_rew_mean"].steps[-1]
    few, many = (
        series(foreign, {S + "updates_per_step": None, S + "optimizer_steps": lambda share, total=total: share * total})
        for total in (end / 250, end / 2)
    )
    assert strength("RPL106", few) >= 0.5
    assert strength("RPL106", many) == 0


def test_what_is_not_logged_is_nothing_to_watch() -> None:
    found = engine.diagnose([series(setting(q_learner(), algo__learning_rate=1e-7), {"train/hp/learning_rate": 1e-7})])
    assert found.causes[0].id == "learning-rate-too-low"
    assert not [watch.text for watch in found.watch if "KL" in watch.text]


def test_a_count_of_the_optimizers_steps_that_begins_late_tells_when_learning_began() -> None:
    foreign = setting(replace(q_learner(), max_env_steps=None), algo__learning_starts=None)
    returns = foreign.series["train/roll/ep_rew_mean"]
    late = returns.steps[returns.steps > 0.8 * returns.steps[-1]]
    told = {**foreign.series, S + "optimizer_steps": made(late, late - late[0] + 10, S + "optimizer_steps")}
    found = replace(foreign, series=told)
    assert off_policy.learning_starts(Case(found)) == late[0] - 10
    assert strength("RPL105", found) >= 0.5
    early = series(foreign, {S + "optimizer_steps": lambda share: 5.0 + 1000.0 * share})
    assert strength("RPL105", early) == 0


def test_a_temperature_is_judged_by_returns_where_no_rewards_are_logged() -> None:
    logged = {S + "reward_std": None, "train/roll/ep_rew_mean": -900.0, "train/roll/ep_len_mean": 200.0, "train/roll/ep_rew_std": 100.0}
    foreign = setting(series(soft_actor(), logged), algo__ent_coef=None)
    high, usual = (series(foreign, {"train/hp/alpha": alpha, "train/metrics/entropy": None}) for alpha in (20.0, 0.2))
    assert strength("ACT104", high) >= 0.5
    assert strength("ACT104", usual) == 0


def test_rewards_are_too_large_by_their_returns_where_no_rewards_are_logged() -> None:
    logged = {S + "reward_std": None, S + "reward_mean": None, S + "q_bound": None, "train/roll/ep_len_mean": 20.0}
    huge, usual = (series(q_learner(), {**logged, "train/roll/ep_rew_mean": total}) for total in (2e5, 20.0))
    assert strength("QVL110", huge) >= 0.5
    assert strength("QVL110", usual) == 0


def test_a_return_that_falls_below_chance_says_less_where_q_values_are_not_logged() -> None:
    fallen = series(q_learner(), {"train/roll/ep_rew_mean": lambda share: np.where(share < 0.1, 23.0, 9.5)})
    bare = series(fallen, {S + "value_mean": None})
    assert 0 < strength("REW504", bare) < strength("REW504", fallen)


def test_losses_that_begin_late_say_when_learning_began() -> None:
    known = setting(q_learner(), algo__learning_starts=None)
    steps = known.series["train/roll/ep_rew_mean"].steps
    kept = {name: each for name, each in known.series.items() if not name.startswith("train/sentinel/")}

    def with_losses(begin: float) -> History:
        at = np.linspace(begin * steps[-1], steps[-1], 30)
        return replace(known, source="cleanrl", series={**kept, "train/loss/td": made(at, np.ones(30), "losses/td_loss")})

    assert strength("RPL105", with_losses(0.8)) >= 0.5
    assert strength("RPL105", with_losses(0.05)) == 0


def test_an_unusual_setting_alone_is_no_alarm_while_the_run_gets_better() -> None:
    """SB3's DQN renews its target every 10,000 steps: in a short run that is five times, and it learns all the same."""
    rare = {"algo.target_update_interval": 6000}
    rising = cases.q_learner(dict.fromkeys(RETURNS, lambda share: 20 + 100 * share), settings=rare, threshold=475.0)
    stuck = cases.q_learner(dict.fromkeys(RETURNS, lambda share: 20 + np.sin(200 * share)), settings=rare, threshold=475.0)
    for run, severity in ((rising, Severity.MEDIUM), (stuck, Severity.HIGH)):
        found = engine.diagnose([run])
        assert [finding.severity for finding in found.findings if finding.rule == "RPL101"] == [severity]
        assert [cause.severity for cause in found.causes if cause.id == "target-not-updated"] == [severity]


def test_a_run_that_ended_before_learning_was_due_is_blamed_on_nothing_else() -> None:
    """With learning_starts at the whole budget the target, the replay and the minibatches were named before it."""
    run = q_learner()
    late = setting(run, algo__learning_starts=run.env_steps, algo__buffer_size=200, algo__target_update_interval=10**6, algo__batch_size=2)
    assert first_cause(late) == "learning-starts-too-late"
    assert [strength(rule, late) for rule in ("RPL101", "RPL102", "RPL104", "RPL106", "RPL107", "RPL114")] == [0] * 6
    sooner = setting(late, algo__learning_starts=100)
    assert strength("RPL101", sooner) == strength("RPL104", sooner) == strength("RPL114", sooner) == 1


def test_the_interval_that_stable_baselines_has_by_itself_is_one_possibility_among_others() -> None:
    run = replace(q_learner(), series={name: found for name, found in q_learner().series.items() if name in RETURNS}, max_env_steps=30_000)
    usual = {"algo__train_freq": 4, "algo__gradient_steps": 1, "algo__target_update_interval": 10_000, "algo__tau": 1.0}
    ours, theirs = setting(run, **usual), replace(setting(run, **usual), source="sb3")
    assert strength("RPL101", ours) == 1
    assert 0 < strength("RPL101", theirs) < 0.3
    assert strength("RPL101", setting(theirs, algo__target_update_interval=10**6)) == 1, "somebody chose that"
