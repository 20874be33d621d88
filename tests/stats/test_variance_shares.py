import numpy as np
import pytest

from rlclinic.stats import variance_shares
from rlclinic.stats.variance_shares import Array

STEPS = 400


def push_a_mass(*, choices: int | None = None, late: int = 0, deaf: bool = False, seed: int = 0) -> dict[str, Array]:
    """A mass on a spring that actions push: [T, 1] arrays. late: observations are so many steps old; deaf: actions do nothing."""
    draw = np.random.default_rng(seed)
    actions = draw.integers(choices, size=STEPS) if choices else draw.uniform(-1, 1, STEPS)
    force = actions - (choices - 1) / 2 if choices else actions
    if deaf:
        force = draw.permutation(force)
    states, state = [], np.zeros(2)
    rewards = []
    for push in force:
        states.append(state.copy())
        velocity = 0.9 * state[1] - 0.2 * state[0] + 0.3 * push
        state = np.array([state[0] + 0.3 * velocity, velocity])
        rewards.append(-(state[0] ** 2) - 0.1 * state[1])
    shown = np.array([states[max(0, step - late)] for step in range(STEPS)])
    ended = np.zeros(STEPS, dtype=bool)
    return {"obs": shown[:, None], "actions": actions[:, None], "rewards": np.array(rewards)[:, None], "ended": ended[:, None]}


@pytest.mark.parametrize("choices", [None, 3])
def test_actions_that_push_explain_the_change_and_those_of_other_steps_do_not(choices: int | None) -> None:
    found = variance_shares.measure(**push_a_mass(choices=choices), choices=choices)
    assert found["action_effect"] > 0.95
    assert found["action_effect_shuffled"] < 0.05
    assert found["action_effect_lag1"] < 0.05
    assert found["obs_explained"] > 0.95
    assert found["obs_memory"] < 0.02


@pytest.mark.parametrize("choices", [None, 3])
def test_actions_that_do_nothing_explain_no_more_than_shuffled_ones(choices: int | None) -> None:
    found = variance_shares.measure(**push_a_mass(choices=choices, deaf=True), choices=choices)
    assert found["action_effect"] < 0.06
    assert abs(found["action_effect"] - found["action_effect_shuffled"]) < 0.05


@pytest.mark.parametrize("choices", [None, 3])
def test_a_price_on_acting_is_what_the_action_alone_explains(choices: int | None) -> None:
    given = push_a_mass(choices=choices)
    assert variance_shares.measure(**given, choices=choices)["reward_by_action"] < 0.1
    acted = given["actions"] if choices is None else given["actions"] - 1.0
    given["rewards"] = given["rewards"] - 3 * np.square(acted)
    assert variance_shares.measure(**given, choices=choices)["reward_by_action"] > 0.8


@pytest.mark.parametrize("late", [1, 2])
def test_observations_that_lag_answer_to_an_earlier_action(late: int) -> None:
    found = variance_shares.measure(**push_a_mass(late=late))
    assert found["action_effect"] < 0.1
    assert found[f"action_effect_lag{late}"] > 0.9


@pytest.mark.parametrize(("late", "expected"), [(0, 0), (1, 1), (4, 4), (8, 8)])
def test_the_lag_is_that_of_the_action_that_is_answered(late: int, expected: int) -> None:
    found = variance_shares.measure(**push_a_mass(late=late))
    assert found["action_lag"] == expected
    assert (found["action_effect_past"] > 0.9) == (late > 0)


def test_actions_that_do_nothing_have_no_lag() -> None:
    assert all(variance_shares.measure(**push_a_mass(deaf=True, seed=seed))["action_lag"] == 0 for seed in range(20))


def test_rewards_by_the_clock_are_told_from_rewards_by_chance() -> None:
    ended = np.zeros((600, 2), dtype=bool)
    by_clock = np.where(np.arange(600)[:, None] % 20 == 0, 1.0, 0.0) * np.ones((1, 2))
    by_chance = (np.random.default_rng(0).random((600, 2)) < 0.05).astype(float)
    clock, chance = (variance_shares.measure_reward_timing(rewards, ended) for rewards in (by_clock, by_chance))
    assert clock["reward_gap"] == 20
    assert clock["reward_gap_spread"] == 0
    assert chance["reward_gap_spread"] > 0.6


def test_a_hidden_velocity_is_what_the_observation_before_adds() -> None:
    given = push_a_mass()
    given["obs"] = given["obs"][:, :, :1]
    assert variance_shares.measure(**given)["obs_memory"] > 0.5


def test_a_reward_that_comes_late_is_explained_by_a_step_before_its_own() -> None:
    given = push_a_mass()
    prompt = variance_shares.measure(**given)
    assert prompt["reward_lag"] == 0
    assert prompt["reward_explained"] > 0.9
    given["rewards"] = np.roll(given["rewards"], 3, axis=0)
    late = variance_shares.measure(**given)
    assert late["reward_lag"] in (2, 3)  # the state that was paid for ends one of these steps and begins the other
    assert late["reward_explained_past"] > 0.9


def test_nothing_reaches_across_the_end_of_an_episode() -> None:
    """Episodes of two steps: no step has two before it, and no regression is made."""
    given = push_a_mass()
    given["ended"] = (np.arange(STEPS) % 2 == 1)[:, None]
    found = variance_shares.measure(**given)
    assert "action_effect" not in found
    assert "reward_lag" not in found
    assert found["starts"] == STEPS // 2 - 1


def test_noise_on_observations_makes_changes_turn_back() -> None:
    given = push_a_mass()
    given["obs"] = given["obs"] + np.random.default_rng(1).normal(0, 3, given["obs"].shape)
    found = variance_shares.measure(**given)
    assert found["obs_diff_autocorr"] < -0.3
    assert found["action_effect"] < 0.1


def test_a_reward_at_the_end_only_is_seen_as_one() -> None:
    ended = (np.arange(100) % 20 == 19)[:, None]
    found = variance_shares.measure_reward_timing(np.where(ended, 5.0, 0.0), ended, ended)
    assert found["reward_end_share"] == 1
    assert found["reward_common"] == 0
    assert found["reward_common_share"] == 0.95
    assert found["reward_end_gap"] > 3


def test_rows_that_are_no_transition_count_nowhere() -> None:
    ended = (np.arange(100) % 20 == 19)[:, None]
    valid = ~np.roll(ended, 1, axis=0)
    rewards = np.where(valid, 1.0, 77.0)
    found = variance_shares.measure_reward_timing(rewards, ended, ended, valid=valid)
    assert found["reward_common_share"] == 1
    obs = np.arange(100.0)[:, None, None]
    assert variance_shares.measure_starts(obs, ended, valid) == {"starts": 5.0, "start_distinct": 1.0}


def test_equal_starts_are_counted_once() -> None:
    obs = np.tile([[1.0], [2.0]], (50, 1))[:, None]
    ended = (np.arange(100) % 2 == 1)[:, None]
    assert variance_shares.measure_starts(obs, ended)["start_distinct"] == pytest.approx(1 / 49)


def test_small_and_offset_and_constant_components_are_told_apart() -> None:
    draw = np.random.default_rng(0).normal(size=(300, 3)) * [1e-4, 1.0, 0.0] + [0, 100, 7]
    found = variance_shares.measure_scales(draw)
    assert found["obs_std_max"] == pytest.approx(1, rel=0.2)
    assert found["obs_std_median"] == pytest.approx(1e-4, rel=0.2)
    assert found["obs_constant"] == pytest.approx(1 / 3)
    assert found["obs_offset_max"] == pytest.approx(100, rel=0.2)


def test_a_component_that_is_cut_off_lies_at_its_bound() -> None:
    table = np.clip(np.random.default_rng(0).normal(size=(400, 2)) * [3, 0.1], -1, 1)
    found = variance_shares.measure_scales(table, table, np.full(2, -1.0), np.ones(2))
    assert found["obs_at_bound"] > 0.6


@pytest.mark.parametrize(("sign", "expected"), [(1, 1), (-1, -1)])
def test_a_return_that_is_the_length_has_its_sign(sign: int, expected: int) -> None:
    lengths = np.arange(10.0, 60)
    found = variance_shares.measure_episodes(sign * lengths, lengths)
    assert found["return_length_corr"] == pytest.approx(expected)
    assert found["return_length_share"] == pytest.approx(1)


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_numbers_that_are_none_end_no_run(broken: float) -> None:
    given = push_a_mass()
    given["obs"][7] = broken
    assert "action_effect" not in variance_shares.measure(**given)
    given["rewards"][7] = broken
    assert variance_shares.measure(**given) == {}
    assert variance_shares.measure_episodes(np.full(20, broken), np.arange(20.0)) == {}


@pytest.mark.parametrize("shape", [(1, 1), (2, 5), (600, 1), (3, 700)])
def test_every_shape_of_a_stretch_is_taken(shape: tuple[int, int]) -> None:
    draw = np.random.default_rng(0)
    obs, rewards = draw.normal(size=(*shape, 30)), draw.normal(size=shape)
    found = variance_shares.measure(obs, draw.normal(size=(*shape, 20)), rewards, np.zeros(shape, dtype=bool))
    assert all(np.isfinite(value) for value in found.values())
    assert found.keys() <= set(variance_shares.NAMES)
