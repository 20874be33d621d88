"""What is in data, and what is wrong with it: each finding has data that has it and data that does not."""

from dataclasses import replace

import numpy as np
import pytest

from rlclinic.datasets import Dataset, Episode, Space, quality
from rlclinic.datasets.episodes import join
from rlclinic.datasets.quality import Reference
from tests.datasets.made import BOX, TORQUE, dataset, episode


def names(data: Dataset) -> set[str]:
    return {finding.name for finding in quality.examine(data).findings}


def sound() -> Dataset:
    return dataset(tuple(range(40, 60)))


def test_sound_data_has_no_findings() -> None:
    assert quality.examine(sound()).findings == ()


def test_numbers_are_those_of_the_data() -> None:
    data = sound()
    found = quality.examine(data, Reference(random=-10.0, good=10.0))
    assert (found.transitions, found.episodes) == (len(data), 20)
    assert found.return_mean == pytest.approx(data.returns.mean())
    assert found.return_top_tenth == pytest.approx(np.sort(data.returns)[-2:].mean())
    assert found.trajectory_quality == pytest.approx((data.returns.mean() + 10) / 20)
    assert found.terminated == 0.5


def test_statistics_do_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    data = replace(sound(), observations=sound().observations + np.float64(1e4))
    whole = quality.examine(data)
    monkeypatch.setattr(quality, "BLOCK", 7)
    assert quality.examine(data) == whole


def test_time_limits_said_to_be_ends_are_found() -> None:
    cut = join([episode(50, seed, terminated=True) for seed in range(10)], BOX, TORQUE)
    assert "limit-as-end" in names(cut)
    falls = join([episode(20 + 3 * seed, seed, terminated=True) for seed in range(10)], BOX, TORQUE)
    assert "limit-as-end" not in names(falls)


def test_two_episodes_written_as_one_are_found() -> None:
    data = sound()
    observations = data.observations.copy()
    observations[20:40] += 500
    assert "episodes-joined" in names(replace(data, observations=observations))


def test_one_action_a_state_is_told_from_noise() -> None:
    def act(noise: float) -> float:
        made = []
        for seed in range(20):
            walk, draw = episode(100, seed), np.random.default_rng(seed)
            own = np.tanh(walk.observations[:-1, :1] * 3) * 2
            made.append(
                replace(walk, actions=np.where(draw.random((100, 1)) < noise, draw.uniform(-2, 2, (100, 1)), own).astype(np.float32))
            )
        spread = quality.examine(join(made, BOX, TORQUE)).action_spread
        assert spread is not None
        return spread

    assert act(0.0) < quality.DETERMINISTIC < act(0.5) < act(1.0)
    assert act(1.0) == pytest.approx(1.0, abs=0.1)


def test_values_outside_of_their_space_are_found() -> None:
    data = sound()
    assert "action-out-of-bounds" in names(replace(data, actions=data.actions * 10))
    assert "observation-out-of-bounds" in names(replace(data, observations=data.observations * 100))


def test_choices_that_never_occur_are_found() -> None:
    data = dataset(tuple(range(40, 60)), discrete=True)
    assert "action-never-tried" not in names(data)
    assert "action-never-tried" in names(replace(data, action_space=Space("discrete", n=5)))


def test_choices_that_there_are_not_and_choices_that_look_like_numbers_are_found() -> None:
    data = dataset(tuple(range(40, 60)), discrete=True)
    assert "action-out-of-bounds" not in names(data)
    assert "action-out-of-bounds" in names(replace(data, actions=data.actions + 1))
    as_numbers = replace(data, actions=data.actions[:, None].astype(np.float32), action_space=Space("box", (1,)))
    assert "choices-as-numbers" in names(as_numbers)
    assert "choices-as-numbers" not in names(replace(as_numbers, actions=as_numbers.actions + 0.5))


def test_an_episode_that_is_there_twice_is_found() -> None:
    data = sound()
    assert quality.examine(data.select([*range(20), 3])).duplicates == 1


def test_numbers_that_are_not_finite_are_an_error() -> None:
    data = sound()
    rewards = data.rewards.copy()
    rewards[3] = np.nan
    found = quality.examine(replace(data, rewards=rewards)).findings
    assert (found[0].level, found[0].name) == ("error", "not-finite")


def test_a_reward_that_never_changes_is_said() -> None:
    data = sound()
    assert "constant-reward" in names(replace(data, rewards=np.zeros_like(data.rewards)))


@pytest.mark.parametrize("steps", [1, 2])
def test_tiny_data_does_not_break_it(steps: int) -> None:
    one = join([Episode(np.zeros((steps + 1, 2)), np.zeros((steps, 1)), np.zeros(steps), True, False)], BOX, TORQUE)
    assert "few-episodes" in names(one)


def test_coverage_beside_other_data_is_counted_in_the_same_bins() -> None:
    """Half of the other's range in one dimension: about half of its state-actions; the same data again: as many."""

    def walk(width: float, seed: int) -> Dataset:
        wide = np.random.default_rng(seed)
        made = [
            Episode(wide.uniform([-width, -1], [width, 1], (401, 2)), wide.choice([-1.0, 1.0], (400, 1)), np.zeros(400), False, True)
            for _ in range(50)
        ]
        return join(made, BOX, TORQUE)

    whole, half = walk(1.0, 1), walk(0.5, 2)
    assert quality.compare_coverage(whole, whole) == pytest.approx(1.0, abs=0.02)
    assert 0.5 < quality.compare_coverage(half, whole) < 0.8
    assert quality.compare_coverage(whole, half) > 1.2


def test_rows_that_are_not_finite_are_found_and_left_out_of_the_counts() -> None:
    """Without a warning, which is an error here; and where no row is finite, too."""
    data, damaged = sound(), np.array(sound().observations)
    damaged[5] = np.nan
    found = quality.examine(replace(data, observations=damaged))
    assert "not-finite" in {finding.name for finding in found.findings}
    assert found.state_coverage > 1
    assert quality.examine(replace(data, observations=np.full_like(damaged, np.nan))).state_coverage == 0
