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


def board(places: np.ndarray) -> Episode:
    """A way over a board, one-hot; the task itself ends it."""
    steps = len(places) - 1
    return Episode(np.eye(16, dtype=np.float32)[places], np.zeros((steps, 1), np.float32), np.zeros(steps, np.float32), True, False)


@pytest.mark.parametrize("final_known", [True, False])
def test_ends_that_the_observations_show_are_no_limits(final_known: bool) -> None:
    """The same number of steps to the goal on every way; but not a limit that lets nobody arrive. Without next observations the state
    before the goal says it as well."""
    draw = np.random.default_rng(1)
    ways = [np.array([0, *draw.permutation([1, 4, 5])[:2], *draw.permutation([6, 9, 10])[:3], 14, 15]) for _ in range(20)]

    def recorded(stop: int) -> Dataset:
        made = [board(np.array([*way[:stop], way[stop if final_known else stop - 1]])) for way in ways]
        return join([replace(each, final_known=final_known) for each in made], Space("box", (16,)), TORQUE)

    assert "limit-as-end" not in names(recorded(7))
    assert "limit-as-end" in names(recorded(4 if final_known else 5))


def test_steps_that_are_counted_down_are_no_limit() -> None:
    walks = [episode(50, seed, terminated=True) for seed in range(10)]
    left = np.linspace(1, 0, 51, dtype=np.float32)[:, None]
    counted = [replace(walk, observations=np.concatenate([walk.observations, left], 1)) for walk in walks]
    assert "limit-as-end" not in names(join(counted, Space("box", (3,)), TORQUE))


def test_two_episodes_written_as_one_are_found() -> None:
    data = sound()
    observations = data.observations.copy()
    observations[20:40] += 500
    assert "episodes-joined" in names(replace(data, observations=observations))


def swing(seed: int, steps: int, *, start: float = 1.0, damped: float = 0.0, wall: float | None = None) -> Episode:
    """Something on a spring that is pushed at random: its place and its speed."""
    draw = np.random.default_rng(seed)
    place, speed = draw.uniform(0.9, 1.1) * start, 0.0
    seen, pushes = [(place, speed)], draw.uniform(-0.2, 0.2, (steps, 1)).astype(np.float32)
    for push in pushes[:, 0]:
        speed += 0.1 * (-place - damped * speed + push)
        place += 0.1 * speed
        if wall is not None and place < wall:
            place, speed = wall, 0.0
        seen.append((place, speed))
    return Episode(np.array(seen, np.float32), pushes, np.ones(steps, np.float32), terminated=False, truncated=True)


def glue(one: Episode, other: Episode) -> Episode:
    parts = (np.concatenate([getattr(one, name), getattr(other, name)]) for name in ("actions", "rewards"))
    return Episode(np.concatenate([one.observations[:-1], other.observations]), *parts, terminated=False, truncated=True)


@pytest.mark.parametrize("task", [{}, {"damped": 3.0}, {"damped": 3.0, "start": 300.0}, {"wall": -0.8}])
def test_a_joint_is_told_from_what_comes_to_rest_and_from_a_wall(task: dict[str, float]) -> None:
    """No jump is as large as a joint of two must be on paper: it is what the others' steps do not explain that counts."""
    walks = [swing(seed, 100 + seed, **task) for seed in range(40)]
    assert "episodes-joined" not in names(join(walks, BOX, TORQUE))
    glued = [glue(one, other) for one, other in zip(walks[:10:2], walks[1:10:2], strict=True)]
    found = quality.find_joints(join([*walks[10:], *glued], BOX, TORQUE))
    assert found is not None
    assert found.to_starts
    assert found.episodes == tuple(range(30, 35))


def test_flags_and_places_on_a_board_jump_as_they_please() -> None:
    """A light that goes on once in a thousand steps is as far from its mean as nothing else ever is."""
    walks = [swing(seed, 100) for seed in range(40)]
    light = [np.zeros((101, 1), np.float32) for _ in walks]
    light[7][50:52] = light[20][9:12] = 1.0
    lit = [replace(walk, observations=np.concatenate([walk.observations, own], 1)) for walk, own in zip(walks, light, strict=True)]
    assert "episodes-joined" not in names(join(lit, Space("box", (3,)), TORQUE))


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


def test_on_a_board_the_same_way_twice_is_no_copy() -> None:
    """A note: there are not many ways to go. Elsewhere the very same episode is a copy."""

    def levels(data: Dataset) -> list[str]:
        return [finding.level for finding in quality.examine(data).findings if finding.name == "episodes-twice"]

    draw = np.random.default_rng(0)
    ways = [board(np.array([0, *draw.choice([1, 4], 2), 15])) for _ in range(20)]
    assert levels(join(ways, Space("box", (16,)), TORQUE)) == ["note"]
    data = sound()
    assert levels(data.select([*range(20), *range(20)])) == ["warning"]


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


def test_what_two_parts_of_a_split_have_in_common_is_found() -> None:
    """Whole episodes, or steps of the same ones; two recordings of one policy have neither."""

    def shared(data: Dataset, other: Dataset) -> set[str]:
        return {finding.name for finding in quality.examine(data, beside=other).findings if finding.name.endswith("-in-both")}

    walks = [episode(60, seed, terminated=seed % 2 == 0) for seed in range(20)]
    whole, first, rest = (join(made, BOX, TORQUE) for made in (walks, walks[:10], walks[10:]))
    assert shared(rest, first) == set()
    assert shared(rest, whole) == {"episodes-in-both"}
    # Every second stretch of three steps to the other side: each begins where one of the other side ended.
    halves: list[list[Episode]] = [[], []]
    for walk in walks:
        for start in range(0, 60, 3):
            part = walk.observations[start : start + 4], walk.actions[start : start + 3], walk.rewards[start : start + 3]
            halves[start // 3 % 2].append(Episode(*part, terminated=False, truncated=True))
    assert shared(*(join(made, BOX, TORQUE) for made in halves)) == {"steps-in-both"}


def test_states_that_recur_anyway_are_no_sign_of_a_leak() -> None:
    """On a board of 5 x 5 any two recordings meet in the same places."""

    def board(seeds: range) -> Dataset:
        made = []
        for seed in seeds:
            draw = np.random.default_rng(seed)
            places = draw.integers(0, 5, (41, 2)).astype(np.float32)
            made.append(Episode(places, draw.uniform(-1, 1, (40, 1)).astype(np.float32), np.zeros(40, np.float32), True, False))
        return join(made, BOX, TORQUE)

    assert not [each for each in quality.examine(board(range(9)), beside=board(range(9, 20))).findings if "in-both" in each.name]
