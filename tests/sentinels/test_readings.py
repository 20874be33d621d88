"""The free sentinels by hand, and against the trainer's own."""

from typing import Any

import numpy as np
import pytest
import torch

from rlclinic import metrics
from rlclinic.sentinels import readings
from rlclinic.training.sentinels import on_policy_sentinels

RANDOM = np.random.default_rng(0)
STEPS, ENVS = 40, 3


def table() -> np.ndarray[Any, Any]:
    return RANDOM.normal(size=(STEPS, ENVS)).astype(np.float32)


def test_targets_are_measured_before_anything_is_scaled() -> None:
    returns = np.array([[-20.0, 1.0], [2.0, 3.0]])
    found = readings.measure_targets(advantages=np.array([[1.0, 3.0], [5.0, 7.0]]), returns=returns, values=np.zeros((2, 2)))
    assert (found["adv_mean"], found["value_mean"], found["value_std"]) == (4.0, 0.0, 0.0)
    assert found["adv_std"] == pytest.approx(float(torch.tensor([1.0, 3.0, 5.0, 7.0]).std()))
    assert (found["return_mean"], found["return_abs_p95"]) == (-3.5, 3.0)


def test_rewards_are_told_raw_and_as_they_are_learned_from() -> None:
    found = readings.measure_rewards(np.array([0.0, 0.0, 8.0, 0.0]), trained=np.array([0.0, 0.0, 1.0, 1.0]))
    assert (found["reward_mean"], found["reward_min"], found["reward_max"], found["reward_nonzero"]) == (2.0, 0.0, 8.0, 0.25)
    assert (found["reward_std"], found["reward_trained_std"]) == (4.0, pytest.approx(np.sqrt(1 / 3)))


def test_correlation_effective_samples_and_explained_variance_are_the_trainers_own() -> None:
    advantages, change = table().reshape(-1), 0.3 * table().reshape(-1)
    x, y = torch.as_tensor(advantages).unsqueeze(0), torch.as_tensor(change).unsqueeze(0)
    found = readings.measure_change(advantages, change)
    assert found["adv_logp_corr"] == pytest.approx(float(on_policy_sentinels.correlation(x, y)), rel=1e-4)
    assert found["ess"] == pytest.approx(float(on_policy_sentinels.effective_sample_size(y)), rel=1e-5)
    assert readings.compute_explained_variance(change, advantages) == pytest.approx(
        float(on_policy_sentinels.explained_variance(y, x)), rel=1e-2
    )


def test_a_target_that_does_not_vary_has_no_explained_variance() -> None:
    assert readings.compute_explained_variance(np.arange(5.0), np.full(5, 3.0)) is None


def test_actions_that_did_not_move_have_no_correlation_and_all_count() -> None:
    assert readings.measure_change(np.arange(4.0), np.zeros(4)) == {"adv_logp_corr": 0.0, "ess": 1.0}


def test_observations_name_the_worst_components() -> None:
    shown = np.array([[0.0, 5.0, -100.0], [0.0, 7.0, 2.0]])
    found = readings.measure_observations(shown, low=np.array([-1.0, -1.0, -1.0]), high=np.array([1.0, 9.0, 9.0]))
    assert (found["obs_abs_max"], found["obs_abs_worst"]) == (100.0, 2.0)
    assert (found["obs_std_min"], found["obs_std_worst"]) == (0.0, 0.0)
    assert (found["obs_mean_abs_max"], found["obs_out_of_bounds"]) == (49.0, pytest.approx(1 / 3))


def test_an_observation_that_is_no_number_breaks_its_column() -> None:
    assert np.isnan(readings.measure_observations(np.array([[1.0], [np.nan]]))["obs_abs_max"])


def test_unbounded_observations_cannot_leave_their_bounds() -> None:
    assert "obs_out_of_bounds" not in readings.measure_observations(np.ones((2, 1)), np.array([-np.inf]), np.array([np.inf]))


def test_repeats_are_counted_within_episodes_only() -> None:
    obs = np.array([[[1.0]], [[1.0]], [[1.0]], [[2.0]]])
    assert readings.measure_repeated_observations(obs, np.array([[1], [0], [1], [0]])) == {"obs_repeat": 0.5}


def test_ages_go_on_over_rollouts_and_begin_again_at_starts() -> None:
    assert readings.count_ages(np.array([[0, 1], [0, 0], [1, 0]]), np.array([4, 9])).tolist() == [[5, 0], [6, 1], [0, 2]]


def test_actions_beyond_a_bound_count_as_on_it() -> None:
    found = readings.measure_box_actions(np.array([[0.0, 3.0], [-1.0, 0.5]]), np.array([-1.0, -1.0]), np.array([1.0, 1.0]))
    assert found == {"action_at_bound": 0.5}
    assert readings.measure_discrete_actions(np.array([[0.0], [2.0], [2.0], [2.0]]), 3) == {"action_top_share": 0.75}


def test_only_time_limits_bootstrap() -> None:
    terminated, truncated = np.array([[True], [False], [True]]), np.array([[False], [True], [True]])
    found = readings.measure_ends(terminated, truncated, returns=np.array([[1.0], [4.0], [1.0]]), raw=np.array([[1.0], [1.0], [1.0]]))
    assert found == {"terminated": 2.0, "truncated": 1.0, "bootstrap_mass": pytest.approx(3.0 / 6.0)}


def test_errors_early_and_late_in_episodes_are_told_apart() -> None:
    age, returns = np.arange(8), np.array([0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0])
    values = np.array([0.0, 1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 0.0])
    assert readings.measure_critic_by_time(age, returns, values) == {"ev_early": 1.0, "ev_late": 0.0}


def test_gradient_norms_are_put_together_and_counted_where_they_are_cut() -> None:
    found = readings.measure_gradients({"trunk": np.array([3.0, 0.0]), "critic_head": np.array([4.0, 1.0])}, limit=2.0)
    prefix = "train/metrics/grad_norm/"
    assert (found[prefix + "all"], found[prefix + "max"], found[prefix + "clipped"], found[prefix + "trunk"]) == (3.0, 5.0, 0.5, 1.5)
    assert readings.measure_gradients({}, limit=2.0) == {}


def test_fingerprints_differ_by_a_bit_and_fit_into_a_float() -> None:
    one = readings.hash_arrays([np.zeros(3), np.ones(2)])
    assert one == readings.hash_arrays([np.zeros(3), np.ones(2)])
    assert one != readings.hash_arrays([np.zeros(3), np.array([1.0, np.nextafter(1, 2)])])
    assert one == int(one) < 2**48


def test_every_reading_has_a_place_in_the_metric_dictionary() -> None:
    some = table()
    names = [
        *readings.measure_targets(some, some, some),
        *readings.measure_rewards(some),
        *readings.measure_observations(some),
        *readings.measure_change(some, some),
    ]
    names += [
        *readings.measure_ends(some > 0, some > 1, some, some),
        *readings.measure_critic_by_time(np.arange(some.size).reshape(some.shape), some, some),
    ]
    assert [name for name in names if metrics.find(readings.PREFIX + name) is None] == []


def test_large_observations_are_thinned() -> None:
    assert readings.choose_stride(64 * 40_000) == 3
    assert readings.choose_stride(readings.LARGEST_TABLE) == readings.choose_stride(0) == 1
