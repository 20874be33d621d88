"""Prescriptions: values by hand, the schema's word on all of them, and what is said where no setting helps."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlclinic.config import Config, files, from_record, set_values, to_record
from rlclinic.diagnosis import causes, engine
from rlclinic.diagnosis.findings import Cause, Diagnosis, Remedy, Severity
from rlclinic.diagnosis.rules import cases as rule_cases
from rlclinic.errors import ConfigError, NotFound, UsageError
from rlclinic.runs.history import History, dotted, make_series
from rlclinic.treatment.prescription import doses, recorded_effects
from rlclinic.treatment.prescription.group_numbers import Chart
from rlclinic.treatment.prescription.prescribe import accepted, make_prescriptions, stand_in, title
from rlclinic.treatment.prescription.prescription import MOST_SETTINGS, Prescription, apply
from rlclinic.treatment.prescription.recorded_effects import Effects, RecordedOutcome
from tests.diagnosis import builders, recorded

KL = "train/metrics/kl_divergence"
ZOO = "CartPole-v1:ppo_zoo"


def config(*changes: str) -> Config:
    return files.load(ZOO, ["run.max_env_steps=50000", *changes]).config


def history(changes: dict[str, Any] | None = None, **series: float) -> History:
    """An unsolved CartPole run with other settings and constant series."""
    known = builders.setting(builders.unsolved(), **{key.replace(".", "__"): value for key, value in (changes or {}).items()})
    return builders.series(known, {name.replace("__", "/"): value for name, value in series.items()})


def dose(name: str, *changes: str, **series: float) -> doses.Dose | None:
    made = config(*changes)
    return doses.compute(name, Chart([history(**series)], made))


def diagnosis_of(cause: str, probability: float = 0.9, verdict: str = "NOT SOLVED") -> Diagnosis:
    found = engine.diagnose([builders.healthy()])
    row = Cause(id=cause, title=cause, probability=probability, severity=Severity.HIGH, rules=("POL101",), agree=1, of=1)
    return found.model_copy(update={"causes": (row,), "verdict": verdict, "answer": cause})


# ── values by hand ──


def test_a_kl_nine_times_too_large_divides_the_learning_rate_by_three():
    # A usual update has KL 0.2² / 2 = 0.02; half of it is aimed at, and 0.09 is nine times that. KL grows with the rate's square.
    found = dose("shorter-steps", "algo.learning_rate=0.003", train__metrics__kl_divergence=0.09)
    assert found is not None
    assert found.changes == {"algo.learning_rate": {"start": 0.001, "end": 0.0, "schedule": "linear"}}
    assert "4.5x a usual step" in found.text


def test_a_kl_a_hundredth_of_the_aim_multiplies_the_learning_rate_by_ten():
    found = dose("longer-steps", "algo.learning_rate=1e-4", train__metrics__kl_divergence=1e-4)
    assert found is not None
    assert found.changes["algo.learning_rate"]["start"] == pytest.approx(1e-3)


def test_a_wide_clip_range_allows_longer_steps():
    # KL 0.09 at a clip range of 0.3: a usual update is 0.045, so the same KL is only twice that.
    narrow = dose("shorter-steps", "algo.learning_rate=0.003", train__metrics__kl_divergence=0.09)
    made = config("algo.learning_rate=0.003", "algo.clip_range=0.3")
    wide = doses.compute("shorter-steps", Chart([history({"algo.clip_range": 0.3}, train__metrics__kl_divergence=0.09)], made))
    assert narrow is not None
    assert wide is not None
    assert wide.changes["algo.learning_rate"]["start"] > narrow.changes["algo.learning_rate"]["start"]


def test_a_certain_policy_whose_kl_says_nothing_is_held_by_its_gradient_steps():
    # Hardly any KL is left where the policy is deterministic: 160 gradient steps at 0.06 are still too far.
    found = dose("shorter-steps", "algo.learning_rate=0.06", "algo.n_epochs=80", "algo.batch_size=128", train__metrics__kl_divergence=0.011)
    assert found is not None
    assert found.changes["algo.learning_rate"]["start"] == pytest.approx(0.15 / 160, rel=0.1)


def test_a_rollout_that_eats_the_budget_is_cut_to_a_hundred_and_more():
    found = dose("more-updates", "algo.n_steps=1024", "algo.batch_size=8192", "algo.n_epochs=1")
    # 50,000 / 128 = 391, so 256 transitions of 8 envs: 196 rollouts. One pass over each must be 16 minibatches for 3,000 steps.
    assert found is not None
    assert found.changes == {"algo.n_steps": 32, "algo.batch_size": 16}


@pytest.mark.parametrize(("n_steps", "copies", "rows"), [(1024, 8, 16), (16, 512, 512), (5, 1024, 512), (256, 8, 64)])
def test_more_updates_never_offer_the_value_that_is_set_or_longer_rollouts(n_steps: int, copies: int, rows: int) -> None:
    found = dose("more-updates", f"algo.n_steps={n_steps}", f"env.n_envs={copies}", f"algo.batch_size={rows}", "algo.n_epochs=1")
    changes = {} if found is None else found.changes
    assert changes.get("algo.n_steps", 1) <= n_steps
    assert changes.get("algo.n_steps") != n_steps
    assert changes.get("algo.batch_size") != rows


def test_the_discount_follows_from_the_length_of_an_episode_and_from_when_rewards_come():
    late = dose("discount-for-the-episode", "algo.gamma=0.5", train__sentinel__reward_std=0.0, train__sentinel__reward_mean=1.0)
    dense = dose("discount-for-the-episode", "algo.gamma=0.5", train__sentinel__reward_std=1.0, train__sentinel__reward_mean=-1.0)
    assert late is not None
    assert dense is not None
    assert late.changes["algo.gamma"] == pytest.approx(1 - 1 / 125)  # a quarter of 500 steps
    assert dense.changes["algo.gamma"] == pytest.approx(0.99)  # a fifth of them


def test_the_entropy_bonus_is_cut_to_a_tenth_of_the_pull_of_the_advantages():
    shares = {"train__sentinel__grad_entropy_share": 0.5, "train__sentinel__grad_value_share": 0.0}
    # It pulls as hard as the advantages: a tenth of 0.02.
    found = dose("less-entropy", "algo.ent_coef=0.02", **shares)
    assert found is not None
    assert found.changes == {"algo.ent_coef": 0.002}


def test_the_value_weight_is_set_so_that_both_terms_pull_equally():
    found = dose("equal-shares", "algo.vf_coef=9", "net.shared=true", train__sentinel__grad_value_share=0.9)
    assert found is not None
    assert found.changes == {"algo.vf_coef": 1.0}


def test_twice_the_budget_where_no_slope_says_how_much():
    found = dose("more-steps", train__roll__ep_rew_mean=20.0)
    assert found is not None
    assert found.changes == {"run.max_env_steps": 100_000}


@pytest.mark.parametrize(("paid", "setting"), [(-80.0, "env.reward_scale"), (80.0, "env.train_reward_scale")])
def test_the_sign_is_turned_in_training_alone_where_evaluation_pays_the_opposite(paid: float, setting: str) -> None:
    run = history(train__roll__ep_rew_mean=paid, val__roll__ep_rew_mean=-80.0)
    found = doses.compute("turn-rewards-around", Chart([run], config()))
    assert found is not None
    assert found.changes == {setting: -1.0}


def test_a_budget_of_a_few_rollouts_becomes_one_of_many():
    # 6,000 env steps are 23 rollouts of 256; 128 are wanted.
    found = doses.compute("more-steps", Chart([history(train__roll__ep_rew_mean=20.0)], config("run.max_env_steps=6000")))
    assert found is not None
    assert found.changes == {"run.max_env_steps": 33_000}


def test_a_few_rewards_that_dwarf_the_others_lie_far_ahead():
    rare = {"train__sentinel__reward_max": 100.0, "train__sentinel__reward_std": 2.0, "train__sentinel__reward_mean": -0.05}
    found = dose("discount-for-the-episode", "algo.gamma=0.5", **rare)
    assert found is not None
    assert found.changes["algo.gamma"] == pytest.approx(1 - 1 / 250)  # half of 500 steps


def test_a_kl_that_is_only_rounding_leaves_the_rate_to_its_gradient_steps():
    found = dose("longer-steps", "algo.learning_rate=1e-9", train__metrics__kl_divergence=1e-12)
    # 20 gradient steps per rollout: a third of 0.08 / 20.
    assert found is not None
    assert found.changes["algo.learning_rate"]["start"] == pytest.approx(1e-3)


# ── recorded cases ──

FIRST = {
    "cp-lr-x30": {"algo.learning_rate"},
    "cp-lr-x100": {"algo.learning_rate"},
    "cp-lr-d100": {"algo.learning_rate"},
    "cp-lr-early0": {"algo.learning_rate"},
    "cp-sgd": {"algo.optimizer"},
    "cp-gamma-50": {"algo.gamma"},
    "ac-gamma-3": {"algo.gamma"},
    "cp-lambda-0": {"algo.gae_lambda"},
    "cp-vf-0": {"algo.vf_coef"},
    "cp-clipvf-tiny": {"algo.clip_range_vf"},
    "pd-clip-005": {"algo.clip_range"},
    "cp-tkl-1e5": {"algo.target_kl"},
    "cp-mgn-1e5": {"algo.max_grad_norm"},
    "cp-giant": {"algo.n_steps", "algo.batch_size"},
    "cp-budget": {"run.max_env_steps"},
    "cp-sigmoid": {"net.activation"},
    "cp-tiny-net": {"net.hidden"},
    "pd-std-low": {"net.log_std_init"},
    "cp-rew-1e4": {"env.normalize_reward"},
    "cp-obs-hidden": {"env.frame_stack"},
    "pd-act-large": {"env.wrappers"},
    "pd-obs-scale": {"env.normalize_obs"},
}


@pytest.mark.parametrize("name", FIRST)
def test_the_first_prescription_changes_what_was_wrong(name):
    histories = recorded.histories(name)
    first = make_prescriptions(engine.diagnose(histories), histories, None, recorded_effects.load(None))[0]
    assert set(first.changes) == FIRST[name]
    assert first.priority in ("critical", "high")
    assert first.held_back is None
    assert first.evidence


COMPENSATED = {"bug-surrogate-max", "bug-action-not-scaled"}
"""Bugs that a setting makes up for: a KL limit, a wrapper that scales actions."""


@pytest.mark.parametrize("name", [name for name in recorded.names() if name.startswith("bug-") and name not in COMPENSATED])
def test_a_planted_bug_gets_advice_that_no_trial_can_try(name):
    histories = recorded.histories(name)
    first = make_prescriptions(engine.diagnose(histories), histories)[0]
    assert not first.trialable
    assert first.overrides == []
    with pytest.raises(UsageError, match="is advice"):
        apply(config(), first)


def test_a_reward_of_the_wrong_sign_is_treated_by_nothing_but_its_sign():
    histories = recorded.histories("cp-rew-flip")
    given = [rx.changes for rx in make_prescriptions(engine.diagnose(histories), histories) if rx.changes]
    assert given
    assert all(dict(changes) == {"env.reward_scale": -1.0} for changes in given)


def test_what_works_gets_nothing_urgent():
    for name in ("cp-healthy", "pd-healthy", "mcc-healthy", "cpa2c-healthy"):
        histories = recorded.histories(name)
        assert {rx.priority for rx in make_prescriptions(engine.diagnose(histories), histories)} <= {"low"}


def test_prescriptions_are_numbered_and_at_most_three():
    for name in recorded.names()[::4]:
        histories = recorded.histories(name)
        found = make_prescriptions(engine.diagnose(histories), histories)
        assert [rx.number for rx in found] == list(range(1, len(found) + 1))
        assert len(found) <= 3
        assert len({rx.title for rx in found}) == len(found)


def test_no_shipped_variant_is_looked_at(monkeypatch):
    before = {name: _told(name) for name in ("cp-lr-x30", "ac-gamma-3", "pd-obs-scale")}

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a prescription must follow from the run's own numbers")

    monkeypatch.setattr(files, "load", refuse)
    monkeypatch.setattr(files, "available", refuse)
    monkeypatch.setattr(files.yaml_lines, "parse", refuse)
    assert {name: _told(name) for name in before} == before


def _told(name: str) -> list[dict[str, Any]]:
    histories = recorded.histories(name)
    return [rx.model_dump() for rx in make_prescriptions(engine.diagnose(histories), histories)]


def test_every_cause_has_a_dose_or_advice_and_every_dose_exists():
    known = causes.known()
    assert {part for row in known.values() for name in row.doses for part in name.split("+")} == set(doses.names())
    silent = {id for id, row in known.items() if not row.doses and not row.advice} - {"no-reference", "too-early", "no-return"}
    assert silent == {"environment-not-finite", "run-failed"}, "there the error itself says what to try"


def test_a_dose_that_does_not_exist_is_refused_with_the_nearest():
    with pytest.raises(NotFound, match="shorter-steps"):
        doses.compute("shorter-step", Chart([history()], config()))


def test_the_tasks_own_time_limit_is_never_exceeded():
    remedy = Remedy(setting="env.max_episode_steps", current=None, value=2000, text="longer")
    found = diagnosis_of("reward-never-seen")
    cause = found.causes[0].model_copy(update={"remedies": (remedy,)})
    treated = make_prescriptions(found.model_copy(update={"causes": (cause,)}), [history()], config(), most=9)
    assert not any("env.max_episode_steps" in rx.changes for rx in treated)
    short = make_prescriptions(diagnosis_of("episode-too-short"), [history()], config("env.max_episode_steps=40"))
    assert short[0].changes == {"env.max_episode_steps": 500}


# ── second and third choices ──


def test_a_cure_of_two_formulas_is_both_at_once_and_nothing_if_one_has_nothing_to_say():
    tight = Chart([history()], config("algo.max_grad_norm=1e-6", "algo.learning_rate=1e-3"))
    alone, both = doses.compute_for("gradient-clip-too-tight", tight)
    assert dict(alone.changes) == {"algo.max_grad_norm": 0.5}
    assert dict(both.changes) == {"algo.max_grad_norm": 0.5, "algo.learning_rate": {"start": 5e-4, "end": 0.0, "schedule": "linear"}}
    assert alone.text in both.text
    plain = Chart([history()], config("algo.max_grad_norm=1e-6", "algo.optimizer=sgd"))
    assert [dict(each.changes) for each in doses.compute_for("gradient-clip-too-tight", plain)] == [{"algo.max_grad_norm": 0.5}]


def test_a_careful_rate_is_half_of_a_plausible_one_and_computed_where_it_is_not():
    # 20 gradient steps per rollout: 0.08 / 20 = 0.004 is usual, and a quarter to four times it plausible.
    odd = dose("careful-rate", "algo.learning_rate=0.003")
    assert odd is not None
    assert odd.changes["algo.learning_rate"]["start"] == 0.0015
    half, anew = dose("careful-rate", "algo.learning_rate=0.002"), dose("careful-rate", "algo.learning_rate=0.1")
    assert half is not None
    assert anew is not None
    assert half.changes["algo.learning_rate"]["start"] == 0.001
    assert anew.changes["algo.learning_rate"]["start"] == 0.004


@pytest.mark.parametrize(
    ("name", "changes", "wanted"),
    [
        ("no-entropy", ("algo.ent_coef=1.0",), {"algo.ent_coef": 0.0}),
        ("longest-advantages", ("algo.gae_lambda=0", "algo.gamma=0.98"), {"algo.gae_lambda": 0.98}),
        ("two-layers", ("net.hidden=[32,32,32,32]",), {"net.hidden": [64, 64]}),
        ("more-copies", ("env.n_envs=1", "algo.n_steps=16", "algo.batch_size=16"), {"env.n_envs": 16, "algo.batch_size": 64}),
        ("minibatches", ("algo.n_steps=1024", "algo.batch_size=8192", "algo.n_epochs=1"), {"algo.batch_size": 64, "algo.n_epochs": 10}),
        ("other-kl-stop", ("algo.target_kl=1e-6",), {"algo.target_kl": 0.02}),
    ],
)
def test_second_choices_by_hand(name: str, changes: tuple[str, ...], wanted: dict[str, Any]):
    found = dose(name, *changes)
    assert found is not None
    assert dict(found.changes) == wanted
    assert dose(name, "algo.gae_lambda=0.95") is None


def test_the_three_choices_are_three_questions():
    treated = make_prescriptions(diagnosis_of("discount-too-low"), [history()], config("algo.gamma=0.2", "algo.gae_lambda=0.5"))
    assert len({json.dumps(rx.changes, sort_keys=True) for rx in treated}) == 3
    assert all("algo.gamma" in rx.changes for rx in treated)
    horizons = [1 / (1 - rx.changes["algo.gamma"]) for rx in treated[:2]]
    assert max(horizons) > 2 * min(horizons)


# ── the shape of a schedule ──


def test_a_warm_up_is_prescribed_where_only_the_first_updates_are_too_long():
    steps = np.arange(1, 101) * 500.0
    spike = np.where(steps <= 5_000, 0.3, 0.01)
    early = builders.unsolved()
    early = replace(early, series={**early.series, KL: make_series(steps, spike, KL)})
    found = doses.compute("warm-up", Chart([early], config("algo.learning_rate=0.003")))
    assert found is not None
    assert found.changes == {"algo.learning_rate": {"start": 0.003, "end": 0.0, "schedule": "linear", "warmup": 0.1}}
    assert "0.3 in the first tenth" in found.text
    assert dose("warm-up", train__metrics__kl_divergence=0.3) is None


def test_a_cosine_keeps_a_tenth_of_the_rate_to_the_end():
    found = dose("cosine-to-a-tenth", "algo.learning_rate=0.002")
    assert found is not None
    # From the rate that the log says was applied.
    assert found.changes == {"algo.learning_rate": {"start": 1e-3, "end": 1e-4, "schedule": "cosine"}}
    treated = make_prescriptions(diagnosis_of("learning-rate-schedule-too-short"), [history()], config("algo.learning_rate=0.002"))
    assert found.changes in [rx.changes for rx in treated]


# ── the noise of the gradient ──


def noisy(name: str, signal: float, noise: float, *changes: str) -> doses.Dose | None:
    return dose(name, "algo.batch_size=64", *changes, train__sentinel__grad_signal=signal, train__sentinel__grad_noise=noise)


def test_minibatches_are_as_large_as_the_noise_of_the_gradient_asks_for():
    # Half noise at 0.3 / 0.002 = 150 rows; of the divisors of 256 the nearest is 128.
    found = noisy("larger-minibatches", 0.002, 0.3)
    assert found is not None
    assert found.changes == {"algo.batch_size": 128}
    assert "half noise at 150 rows" in found.text
    assert noisy("larger-minibatches", 0.1, 0.3) is None
    assert dose("larger-minibatches", "algo.batch_size=64") is None


def test_rollouts_grow_with_the_noise_and_at_most_eightfold():
    wanted = {64.0: None, 100.0: 2, 200.0: 4, 1e5: 8}
    for rows, factor in wanted.items():
        found = noisy("more-data", 0.001, 0.001 * rows, "run.max_env_steps=1000000")
        changes = None if found is None else dict(found.changes)
        assert changes == (None if factor is None else {"algo.n_steps": 32 * factor, "algo.batch_size": 64 * factor}), rows
    hidden = noisy("more-data", -0.001, 1.0, "run.max_env_steps=1000000")
    assert hidden is not None
    assert hidden.changes["algo.n_steps"] == 8 * 32
    assert "no gradient is seen" in hidden.text
    # Where nothing was measured, four times as much.
    plain = dose("more-data", "algo.batch_size=64", "run.max_env_steps=1000000")
    assert plain is not None
    assert plain.changes == {"algo.n_steps": 128, "algo.batch_size": 256}


# ── learners with a replay ──


def replay_dose(name: str, algo: str, *changes: str) -> doses.Dose | None:
    base = ["env.n_envs=1", "run.max_env_steps=20000", "algo.learning_starts=100", "algo.train_freq=1"]
    made = config(f"algo.name={algo}", *base, *changes)
    bare = replace(history(), settings=dotted(to_record(made)), algo=algo, max_env_steps=made.run.max_env_steps, series={})
    return doses.compute(name, Chart([bare], made))


def test_the_rate_of_a_learner_with_a_replay_follows_from_its_gradient_steps():
    # 19,900 env steps with two gradient steps each: 0.15 / sqrt(39,800) is 7.5e-4.
    found = replay_dose("shorter-steps", "dqn", "algo.learning_rate=0.1", "algo.gradient_steps=2")
    assert found is not None
    assert found.changes == {"algo.learning_rate": {"start": 8e-4, "end": 0.0, "schedule": "linear"}}
    assert "39,800 gradient steps" in found.text
    low = replay_dose("longer-steps", "dqn", "algo.learning_rate=1e-7", "algo.gradient_steps=2")
    assert low is not None
    assert low.changes == found.changes
    other = replay_dose("longer-still", "dqn", "algo.learning_rate=1e-7", "algo.gradient_steps=2")
    assert other is not None
    assert other.changes["algo.learning_rate"]["start"] == 3e-4
    assert replay_dose("shorter-steps", "dqn", "algo.learning_rate=8e-4", "algo.gradient_steps=2") is None
    assert replay_dose("longer-steps", "dqn", "algo.learning_rate=8e-4", "algo.gradient_steps=2") is None


def test_ten_times_fewer_gradient_steps_allow_a_rate_three_times_as_high():
    many, few = (replay_dose("shorter-steps", "sac", "algo.learning_rate=0.1", f"run.max_env_steps={budget}") for budget in (10**6, 10**5))
    assert many is not None
    assert few is not None
    ratio = few.changes["algo.learning_rate"]["start"] / many.changes["algo.learning_rate"]["start"]
    assert 2 <= ratio <= 4


@pytest.mark.parametrize("name", ["less-entropy", "no-entropy", "more-entropy", "entropy-that-falls", "start-wide", "start-with-noise"])
def test_what_belongs_to_a_policy_gradient_is_never_set_in_sac(name: str):
    assert replay_dose(name, "sac", "algo.ent_coef=0.05") is None


def test_noise_is_doubled_and_never_lowered_where_more_exploration_is_wanted():
    wanted = {0.05: 0.2, 0.15: 0.3, 0.4: 0.5}
    for std, more in wanted.items():
        found = replay_dose("explore-longer", "td3", f"algo.action_noise_std={std}")
        assert found is not None
        assert found.changes == {"algo.action_noise_std": more}
    assert replay_dose("explore-longer", "td3", "algo.action_noise_std=0.9") is None
    drifting = replay_dose("explore-longer", "sac")
    assert drifting is not None
    assert drifting.changes == {"algo.action_noise": "ou", "algo.action_noise_std": 0.5}


def test_another_algorithm_is_prescribed_where_that_is_the_answer():
    found = replay_dose("td3-instead", "ddpg")
    assert found is not None
    assert found.changes == {"algo.name": "td3"}
    assert replay_dose("td3-instead", "td3") is None
    made = config("algo.name=ddpg", "run.max_env_steps=20000", "algo.n_critics=2")
    given = make_prescriptions(diagnosis_of("values-run-away"), [replace(history(), algo="ddpg")], made)
    assert {"algo.name": "td3"} in [rx.changes for rx in given]
    assert all(apply(made, rx).algo.name in ("td3", "ddpg") for rx in given if rx.trialable)


def test_ppo_stands_in_for_an_algorithm_that_is_known_and_for_no_other():
    for cause in ("unknown", "progress-without-effect"):
        for algo, offered in (("a2c", True), ("dqn", True), ("ars", False), (None, False)):
            known = replace(builders.unsolved(), source="csv", algo=algo, settings={"algo.learning_rate": 1e-3})
            given = make_prescriptions(diagnosis_of(cause), [known])
            assert any("algo.name" in rx.changes or "ppo" in rx.title for rx in given) <= offered
            assert (doses.compute("ppo-instead", Chart([known])) is not None) == offered


# ── fitting to the schema ──


def test_a_minibatch_that_no_longer_divides_its_rollout_is_repaired_by_a_second_setting():
    changes = accepted(config("algo.batch_size=256"), {"algo.n_steps": 20})
    assert changes == {"algo.n_steps": 20, "algo.batch_size": 160}
    assert set_values(config(), ["algo.n_steps=20", "algo.batch_size=160"]).batch_rows == 160


def test_a_shared_network_gives_up_the_critics_own_rate():
    changes = accepted(config("algo.value_lr=1e-3"), {"net.shared": True})
    assert changes == {"net.shared": True, "algo.value_lr": None}


def test_what_changes_nothing_is_not_prescribed():
    assert accepted(config(), {"algo.clip_range": {"start": 0.2, "end": 0.0, "schedule": "linear"}}) is None


def test_three_settings_at_once_are_too_many():
    assert accepted(config(), {"algo.gamma": 0.9, "algo.gae_lambda": 0.9, "algo.ent_coef": 0.1}) is None


CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "algo.learning_rate": st.one_of(
            st.floats(1e-6, 1.0), st.builds(lambda start: {"start": start, "end": 0.0, "schedule": "linear"}, st.floats(1e-5, 0.1))
        ),
        "algo.gamma": st.floats(0, 1),
        "algo.gae_lambda": st.floats(0, 1),
        "algo.clip_range": st.floats(1e-4, 0.99),
        "algo.clip_range_vf": st.one_of(st.none(), st.floats(1e-3, 10)),
        "algo.target_kl": st.one_of(st.none(), st.floats(1e-6, 1)),
        "algo.value_lr": st.one_of(st.none(), st.floats(1e-5, 1e-1)),
        "algo.ent_coef": st.floats(0, 1),
        "algo.vf_coef": st.floats(0, 100),
        "algo.max_grad_norm": st.floats(1e-6, 100),
        "algo.n_steps": st.integers(1, 500),
        "algo.batch_size": st.one_of(st.integers(2, 600), st.sampled_from([1.0, 0.5, 0.25, 0.125])),
        "algo.n_epochs": st.integers(1, 60),
        "algo.optimizer": st.sampled_from(["adam", "sgd", "rmsprop"]),
        "algo.normalize_advantage": st.sampled_from(["batch", "rollout", "off"]),
        "env.n_envs": st.integers(1, 33),
        "env.normalize_obs": st.booleans(),
        "env.normalize_reward": st.booleans(),
        "env.max_episode_steps": st.one_of(st.none(), st.integers(5, 1000)),
        "net.shared": st.booleans(),
        "net.activation": st.sampled_from(["tanh", "relu", "sigmoid"]),
        "net.hidden": st.lists(st.integers(1, 128), min_size=1, max_size=3),
        "net.log_std_init": st.floats(-5, 2),
        "run.max_env_steps": st.integers(1_000, 10**6),
        "algo.buffer_size": st.integers(1, 10**6),
        "algo.learning_starts": st.integers(0, 10**6),
        "algo.train_freq": st.integers(1, 5_000),
        "algo.gradient_steps": st.one_of(st.just(-1), st.integers(1, 64)),
        "algo.tau": st.floats(1e-6, 1.0),
        "algo.target_update_interval": st.integers(1, 10**6),
        "algo.n_step": st.integers(1, 64),
        "algo.exploration_fraction": st.floats(0, 1),
        "algo.exploration_initial_eps": st.floats(0, 1),
        "algo.exploration_final_eps": st.floats(0, 1),
        "algo.n_critics": st.integers(1, 8),
        "algo.action_noise": st.sampled_from(["none", "gaussian", "ou"]),
        "algo.action_noise_std": st.floats(0, 3),
        "algo.target_entropy": st.floats(-10, 3),
        "algo.double": st.booleans(),
    },
)
NAMES = sorted(set(causes.known()) - {"healthy"})


HEALTHY = engine.diagnose([builders.healthy()])


@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(
    algo=st.sampled_from(["ppo", "ppo", "a2c", "reinforce", "dqn", "sac", "td3", "ddpg", "q_learning"]),
    changes=CHANGES,
    chosen=st.lists(st.tuples(st.sampled_from(NAMES), st.floats(0.1, 1.0)), min_size=1, max_size=3),
    case=st.integers(0, 56),
)
def test_no_prescription_breaks_the_schema(algo, changes, chosen, case):
    made = _valid(algo, changes)
    name = recorded.names()[case % len(recorded.names())]
    histories = [replace(each, settings={}) for each in recorded.histories(name)[:1]]
    found = HEALTHY.model_copy(
        update={
            "causes": tuple(
                Cause(id=id, title=id, probability=chance, severity=Severity.HIGH, rules=(), agree=1, of=1) for id, chance in chosen
            )
        }
    )
    for rx in make_prescriptions(found, histories, made):
        assert len(rx.changes) <= MOST_SETTINGS
        if rx.trialable:
            treated = apply(made, rx)
            assert treated != made
            assert from_record(to_record(treated)) == treated


def _valid(algo: str, changes: dict[str, Any]) -> Config:
    """The config with as many of the changes as fit together."""
    made = config(f"algo.name={algo}")
    for setting, value in changes.items():
        text = value if isinstance(value, str) else "none" if value is None else json.dumps(value)
        try:
            made = set_values(made, [f"{setting}={text}"])
        except ConfigError:
            continue
    return made


# ── runs of other frameworks ──


def test_a_foreign_run_is_treated_by_the_settings_that_it_logged():
    logged = {"algo.n_steps": 2048, "algo.batch_size": 64, "algo.learning_rate": 0.05, "env.n_envs": 1, "algo.n_epochs": 10}
    known = replace(builders.unsolved(), source="sb3", settings=logged)
    made = stand_in([known])
    assert made is not None
    assert (made.algo.n_steps, made.batch_rows, made.env.n_envs) == (2048, 64, 1)
    first = make_prescriptions(diagnosis_of("learning-rate-too-high"), [known])[0]
    assert first.foreign is not None
    assert "PPO(..., learning_rate=linear_schedule(" in first.foreign


def test_a_short_foreign_run_keeps_its_rollout_whatever_our_own_copies_would_make_of_it():
    """512 steps of 8 copies do not fit into a budget of 3,000, 512 of the run's single one do."""
    logged = {"algo.n_steps": 512, "algo.batch_size": 64, "env.n_envs": 1}
    made = stand_in([replace(builders.unsolved(), source="sb3", settings=logged, env_steps=3_072, max_env_steps=3_000)])
    assert made is not None
    assert (made.run.max_env_steps, made.env.n_envs, made.algo.n_steps, made.batch_rows) == (3_000, 1, 512, 64)


def test_what_a_foreign_log_leaves_open_is_that_frameworks_default_and_the_rollout_that_its_iterations_show():
    steps = [256.0 * place for place in range(1, 17)]
    counted = {"epoch": make_series(steps, range(1, 17), "epoch")}
    run = replace(builders.unsolved(), source="sb3", algo="ppo", settings={"algo.learning_rate": 1e-3}, series=counted, max_env_steps=None)
    made = stand_in([run])
    assert made is not None
    assert (made.algo.learning_rate, made.algo.n_steps, made.env.n_envs, made.batch_rows) == (1e-3, 256, 1, 64)
    assert (made.algo.n_epochs, made.algo.gae_lambda) == (10, 0.95)
    replay = stand_in([replace(run, algo="dqn", settings={}, series={})])
    assert replay is not None
    assert (replay.algo.learning_rate, replay.algo.target_update_interval) == (1e-4, 10_000)


def test_what_a_foreign_log_does_not_say_is_led_back_from_what_it_counts():
    steps = [20_000.0 + 500 * place for place in range(8)]
    counted = {
        "train/sentinel/optimizer_steps": make_series(steps, [100.0 * (place + 1) for place in range(8)], "train/sentinel/optimizer_steps")
    }
    run = replace(builders.unsolved(), source="sb3", algo="dqn", settings={}, series=counted, max_env_steps=None, env_steps=23_500)
    made = stand_in([run])
    assert made is not None
    assert (made.run.max_env_steps, made.algo.learning_starts) == (23_500, 19_500)
    for alphas, kept in (([5.0] * 8, 5.0), (range(8, 0, -1), None)):
        logged = {"train/hp/alpha": make_series(steps, alphas, "train/hp/alpha")}
        soft = stand_in([replace(run, algo="sac", series=logged)])
        assert getattr(soft and soft.algo, "ent_coef", "?") == kept


def test_a_foreign_run_that_never_learned_is_to_begin_sooner_whatever_else_is_unknown():
    """Its budget was left out of the config that stands for it, so that everything was computed for a million steps."""
    known = replace(builders.q_learner(), source="sb3", series={}, env_steps=20_000, max_env_steps=20_000)
    late = replace(known, settings={"algo.learning_starts": 20_000, "algo.buffer_size": 200})
    made = stand_in([late])
    assert made is not None
    assert (made.run.max_env_steps, made.algo.learning_starts) == (20_000, 19_999)
    found = make_prescriptions(diagnosis_of("learning-starts-too-late"), [late])
    assert [(rx.title, rx.held_back) for rx in found] == [("learning_starts 20000 → 400", None)]


def test_an_algorithm_that_is_not_ours_gets_words_and_no_patch():
    known = replace(builders.unsolved(), source="sb3", algo="trpo", settings={"algo.learning_rate": 0.05})
    assert stand_in([known]) is None
    found = make_prescriptions(diagnosis_of("learning-rate-too-high"), [known])
    assert found
    assert not any(rx.trialable for rx in found)
    assert "learning_rate to" in found[0].title


def test_settings_that_do_not_fit_ours_are_left_out():
    known = replace(builders.unsolved(), source="sb3", settings={"algo.gamma": 7, "algo.clip_range": 0.1, "net.activation": "swish"})
    made = stand_in([known])
    assert made is not None
    assert made.algo.gamma == 0.99
    assert getattr(made.algo, "clip_range", None) == 0.1


# ── order and forms ──


def outcome(cause: str, changes: dict[str, str], value: float, adopted: bool, number: int = 0) -> RecordedOutcome:
    about = {"env_id": "CartPole-v1", "algo": "ppo", "measure": "steps", "low": None, "high": None, "seeds": 8}
    return RecordedOutcome(trial=f"t{number}", cause=cause, changes=changes, value=value, adopted=adopted, **about)


def two(first: str, second: str, chances: tuple[float, float]) -> Diagnosis:
    rows = [diagnosis_of(id, chance).causes[0] for id, chance in zip((first, second), chances, strict=True)]
    return diagnosis_of(first).model_copy(update={"causes": tuple(rows)})


def test_two_likely_causes_are_treated_together_first_and_then_each_alone():
    made = config("algo.learning_rate=0.1", "algo.gamma=0.5")
    known = [history(train__metrics__kl_divergence=0.5)]
    found = make_prescriptions(two("learning-rate-too-high", "discount-too-low", (0.5, 0.4)), known, made)
    assert set(found[0].changes) == {"algo.learning_rate", "algo.gamma"}
    assert [set(rx.changes) for rx in found[1:]] == [{"algo.learning_rate"}, {"algo.gamma"}]
    alone = make_prescriptions(two("learning-rate-too-high", "discount-too-low", (0.85, 0.12)), known, made)
    assert set(alone[0].changes) == {"algo.learning_rate"}


def test_recorded_failures_move_a_cure_down():
    histories = recorded.histories("cp-lr-x30")
    found = engine.diagnose(histories)
    plain = make_prescriptions(found, histories)
    assert next(iter(plain[0].changes)) == "algo.learning_rate"
    failed = Effects([outcome("learning-rate-too-high", {"algo.learning_rate": "down"}, 1.5, False, n) for n in range(12)])
    assert next(iter(make_prescriptions(found, histories, None, failed)[0].changes)) != "algo.learning_rate"


def test_a_second_dose_follows_a_first_that_may_not_be_enough():
    histories = recorded.histories("cp-lr-x100")
    first, second, *_ = make_prescriptions(engine.diagnose(histories), histories)
    rates = [rx.changes["algo.learning_rate"]["start"] for rx in (first, second)]
    assert rates[1] == pytest.approx(rates[0] / 4, rel=0.3)


def test_a_run_that_was_stopped_is_to_go_on_and_not_to_be_longer():
    stopped = replace(builders.unsolved(), state="stopped", env_steps=10_000, max_env_steps=50_000)
    assert doses.compute("more-steps", Chart([stopped], config())) is None


def test_the_effect_class_comes_from_recorded_trials_only():
    histories = recorded.histories("cp-lr-x30")
    found = engine.diagnose(histories)
    assert {rx.effect for rx in make_prescriptions(found, histories)} == {"no data"}
    helped = Effects([outcome("learning-rate-too-high", {"algo.learning_rate": "down"}, 0.4, True, n) for n in range(6)])
    first = make_prescriptions(found, histories, None, helped)[0]
    assert first.effect == "> 30 %"
    assert first.expected is not None
    assert first.expected.trials == 6


def test_a_prescription_reads_as_yaml_and_as_overrides():
    changes = {"algo.learning_rate": {"start": 1e-3, "end": 0.0, "schedule": "linear"}, "algo.clip_range_vf": None}
    about = {"title": "t", "rationale": "r", "evidence": (), "expected": None, "effect": "no data", "risk": "", "priority": "high"}
    rx = Prescription(number=1, cause="c", changes=changes, current={}, **about)
    assert rx.yaml == "algo: {learning_rate: {start: 0.001, end: 0, schedule: linear}, clip_range_vf: null}"
    treated = set_values(config("algo.clip_range_vf=0.2", "algo.learning_rate=0.5"), rx.overrides)
    assert treated == apply(config("algo.clip_range_vf=0.2", "algo.learning_rate=0.5"), rx)
    assert getattr(treated.algo, "clip_range_vf", 1) is None


def test_the_yaml_of_a_prescription_loads_as_what_apply_gives(tmp_path: Path):
    histories = recorded.histories("cp-giant")
    made = config("algo.n_steps=1024", "algo.batch_size=8192", "algo.n_epochs=1")
    first = make_prescriptions(engine.diagnose(histories), histories, made)[0]
    file = tmp_path / "treated.yaml"
    file.write_text(f"ppo:\n  env: {{id: CartPole-v1}}\n  run: {{max_env_steps: 50000}}\n  {first.yaml}\n")
    loaded = files.load(f"{file}:ppo").config
    assert loaded.algo.n_steps == apply(made, first).algo.n_steps
    assert loaded.batch_rows == apply(made, first).batch_rows


def test_a_run_that_failed_is_given_what_its_error_says_should_be_tried():
    failed = replace(builders.unsolved(), state="failed", reason="env.map is missing.\n  No start. Try: --set env.kwargs.map=a\n")
    first = make_prescriptions(engine.diagnose([failed]), [failed])[0]
    assert first.title == "--set env.kwargs.map=a"


def test_a_table_is_given_a_tables_learning_rate_and_random_actions():
    table = builders.setting(replace(builders.q_learner(), algo="q_learning"), algo__name="q_learning")
    assert doses.compute("longer-steps", Chart([builders.setting(table, algo__learning_rate=1e-5)], None)).changes == {
        "algo.learning_rate": {"start": 0.5, "end": 0.05, "schedule": "linear"}
    }
    greedy = builders.setting(table, algo__exploration_fraction=0.6, algo__exploration_initial_eps=0.0)
    assert doses.compute("explore-longer", Chart([greedy], None)).changes == {"algo.exploration_initial_eps": 1.0}


def test_where_neither_the_fault_nor_the_algorithm_is_known_no_setting_is_guessed():
    steps = np.arange(1.0, 41.0) * 500
    flat = make_series(steps, 20.0 + np.random.default_rng(0).normal(0.0, 1.0, 40), "reward")
    stuck = History("log", "console", series={"train/roll/ep_rew_mean": flat}, threshold=475.0, env_steps=20_000)
    found = engine.diagnose([stuck])
    assert found.causes[0].id == "unknown"
    assert make_prescriptions(found, [stuck]) == []
    assert make_prescriptions(found, [replace(stuck, algo="ppo")]) != []


def test_a_run_that_was_stopped_is_to_go_on_with_its_settings_as_they_are():
    run = builders.unsolved()
    # Its rate fell to nothing over the steps that it took, which would be a fault of a budget ten times as long.
    series = {name: rows for name, rows in run.series.items() if name != "train/hp/learning_rate"}
    stopped = replace(run, series=series, state="stopped", max_env_steps=10 * int(run.env_steps))
    found = make_prescriptions(engine.diagnose([stopped]), [stopped])
    assert found[0].title.startswith("let it go on from its last checkpoint to its budget")
    assert "nothing is known to be wrong with its settings" in found[0].rationale
    assert not any(rx.changes for rx in found)


def test_a_reward_that_is_gamed_is_not_treated_with_more_steps() -> None:
    """More training makes the agent better at what it is paid for."""
    assert [causes.known()[id].doses for id in ("reward-gamed", "success-not-paid")] == [(), ()]


def test_a_change_that_only_a_setting_speaks_for_is_held_back() -> None:
    """SB3's DQN renews its target every 10,000 steps: in a short run that is five times, and nobody has recorded that more often helps.

    Where it was tried it made such runs worse, those too whose returns had not risen yet: a flat curve does not say that it is the target.
    """
    stuck = builders.setting(builders.q_learner(), algo__target_update_interval=6000)  # its threshold is far out of reach
    slow = replace(stuck, threshold=510.0)
    found = engine.diagnose([slow])
    assert found.causes[0].id == "target-not-updated"
    given = make_prescriptions(found, [slow], None, None)
    held = [rx for rx in given if rx.changes]
    assert held
    assert all(rx.held_back and "the runs learn without it" in rx.held_back and rx.priority == "low" for rx in held)
    urgent = [rx for rx in make_prescriptions(engine.diagnose([stuck]), [stuck], None, None) if rx.changes]
    assert all(rx.held_back and "nothing that was measured" in rx.held_back for rx in urgent)
    assert [rx.priority for rx in urgent] == ["medium", *["low"] * (len(urgent) - 1)]  # the likeliest cause stays first


def test_a_change_of_which_a_trial_is_recorded_is_not_held_back() -> None:
    stuck = builders.setting(builders.q_learner(), algo__target_update_interval=6000)
    found = engine.diagnose([stuck])
    first = make_prescriptions(found, [stuck], None, None)[0]
    outcome = RecordedOutcome(
        trial="t1", cause=first.cause, changes=dict.fromkeys(first.changes, "down"), env_id="CartPole-v1", algo="dqn", measure="return",
        value=0.8, low=0.5, high=1.1, adopted=True, seeds=8,
    )  # fmt: skip
    again = make_prescriptions(found, [stuck], None, Effects([outcome]))[0]
    assert (again.changes, again.held_back, again.priority) == (first.changes, None, "critical")


def test_a_log_that_may_still_grow_gets_no_change_that_follows_from_its_length() -> None:
    """The folder of a run in training, whose budget no file holds: its 5,000 steps are not the budget that rollouts have to fit."""
    steps = np.arange(1.0, 21.0) * 256
    rising = make_series(steps, np.linspace(20.0, 60.0, 20), "rollout/ep_rew_mean")
    series = {"train/roll/ep_rew_mean": rising, "epoch": make_series(steps, np.arange(1.0, 21.0), "time/iterations")}
    grows = History("log", "sb3", algo="ppo", series=series, settings={"algo.learning_rate": 3e-4}, env_steps=5_120)
    assert engine.diagnose([grows]).causes[0].kind == "nothing wrong"
    assert make_prescriptions(engine.diagnose([grows]), [grows]) == []
    ended = replace(grows, state="finished")
    assert any(rx.changes for rx in make_prescriptions(engine.diagnose([ended]), [ended]))


def test_a_setting_whose_name_alone_says_nothing_keeps_its_section() -> None:
    assert title({"bonus.kind": "count", "bonus.coef": 0.1}, {}) == "bonus.kind none → count and bonus.coef none → 0.1"
    assert title({"algo.gamma": 0.99}, {"algo.gamma": 0.5}) == "gamma 0.5 → 0.99"


def test_a_change_that_only_a_symptom_or_nothing_at_all_speaks_for_is_held_back() -> None:
    """A short A2C run of SB3: the critic explains nothing yet. Longer rollouts were never tried for that, so nobody is told to use them."""
    steps = np.arange(1.0, 41.0) * 500
    risen = make_series(steps, np.minimum(20.0 + 10 * np.arange(40), 220.0), "rollout/ep_rew_mean")
    series = {"train/roll/ep_rew_mean": risen, "train/metrics/explained_variance": make_series(steps, np.full(40, 0.01), "ev")}
    slow = History("log", "sb3", algo="a2c", env_id="CartPole-v1", series=series, threshold=475.0, env_steps=20_000, state="finished")
    found = engine.diagnose([slow])
    assert found.causes[0].id == "critic-explains-nothing"
    assert found.causes[0].kind == "symptom"
    changes = [rx for rx in make_prescriptions(found, [slow], None, recorded_effects.load(None)) if rx.changes and rx.effect == "no data"]
    assert changes
    assert all(rx.held_back and "only a symptom speaks for it" in rx.held_back and rx.priority == "low" for rx in changes)
    blank = found.model_copy(update={"causes": tuple(cause.model_copy(update={"id": "unknown"}) for cause in found.causes[:1])})
    guessed = [rx for rx in make_prescriptions(blank, [slow]) if rx.changes]
    assert guessed
    assert all(rx.held_back and "what is wrong is not known" in rx.held_back for rx in guessed)


def test_what_only_copes_with_a_fault_of_the_environment_is_held_back_while_the_runs_learn() -> None:
    """Stacked frames where part of the state is hidden: where the past tells little of it, they only make learning slower."""
    for memory, held in ((0.55, True), (0.9, False)):
        hidden = {"train/sentinel/obs_memory": memory, "train/sentinel/obs_explained": 0.05, "train/sentinel/obs_diff_autocorr": 0.9}
        run = rule_cases.unsolved(hidden)
        found = engine.diagnose([run])
        assert found.causes[0].id == "observation-partial"
        stacked = [rx for rx in make_prescriptions(found, [run]) if "env.frame_stack" in rx.changes]
        assert stacked
        assert all((rx.held_back is not None) is held for rx in stacked)


def test_a_stuck_log_without_kl_is_offered_the_rate_that_its_gradient_steps_ask_for_and_no_falling_one():
    """A rate of 1e-5 was to fall to 0 ("keeps what was learned") where nothing was learned, and KL had not been logged."""
    steps = [2_048.0 * place for place in range(1, 60)]
    returns = make_series(steps, [21.0 + place % 2 for place in range(59)], "train/roll/ep_rew_mean")
    low = replace(
        builders.unsolved(),
        source="sb3",
        series={"train/roll/ep_rew_mean": returns},
        settings={"algo.learning_rate": 1e-5},
        env_steps=120_832,
        max_env_steps=120_832,
    )
    first = make_prescriptions(diagnosis_of("unknown"), [low])[0]
    assert first.title == "learning_rate 1e-5 → 0.0003, linear to 0"
    assert "no KL is known; rate x gradient steps per rollout is 0.0032" in first.rationale
    usual = replace(low, settings={"algo.learning_rate": 3e-4})
    assert not any("learning_rate" in rx.title for rx in make_prescriptions(diagnosis_of("unknown"), [usual]))
