"""The second guest's environments: sound where they should be, changed where they say so, and solvable."""

import warnings
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from benchmarks.diagnosis import witnessed
from benchmarks.diagnosis.environments import second_guest, visitors

SOUND = [*((name, "") for name in second_guest.NAMES), *second_guest.VARIANTS]


def _walk(env: Any, steps: int, seed: int | None) -> list[Any]:
    """Observations, rewards and ends of random actions, episode after episode."""
    env.action_space.seed(5)
    seen = [env.reset(seed=seed)[0]]
    for _ in range(steps):
        obs, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        seen += [obs, reward, terminated, truncated]
        if terminated or truncated:
            seen.append(env.reset()[0])
    return seen


def _flat(seen: list[Any]) -> Any:
    parts = [part for item in seen for part in (item.values() if isinstance(item, dict) else [item])]
    return np.concatenate([np.asarray(part, np.float64).ravel() for part in parts])


@cache
def _sound_walk(world: str) -> Any:
    return _flat(_walk(second_guest.maker(world)(), 3_000, seed=3))


@pytest.mark.parametrize("cell", SOUND, ids=" ".join)
def test_what_is_sound_keeps_the_contract_of_gymnasium(cell: tuple[str, str]) -> None:
    with warnings.catch_warnings():
        # Open bounds are what its author wrote.
        warnings.filterwarnings("ignore", message=".*infinity")
        check_env(second_guest.maker(*cell)().unwrapped, skip_render_check=True)


@pytest.mark.parametrize("cell", SOUND, ids=" ".join)
def test_what_is_sound_stays_in_its_space_follows_its_seed_and_ends(cell: tuple[str, str]) -> None:
    env, twin = second_guest.maker(*cell)(), second_guest.maker(*cell)()
    seen = _walk(env, 1_000, seed=3)
    np.testing.assert_array_equal(_flat(seen), _flat(_walk(twin, 1_000, seed=3)))
    assert np.isfinite(_flat(seen)).all()
    assert not np.array_equal(_flat(seen), _flat(_walk(twin, 1_000, seed=4)))
    observations = [item for item in seen if isinstance(item, (dict, np.ndarray))]
    assert all(env.observation_space.contains(obs) for obs in observations)
    assert any(item is True for item in seen)


@pytest.mark.parametrize("cell", SOUND, ids=" ".join)
def test_the_expert_of_what_is_sound_is_far_better_than_chance(cell: tuple[str, str]) -> None:
    env = second_guest.maker(*cell)()
    env.action_space.seed(0)
    chance = visitors.play(env, lambda _: env.action_space.sample(), 40)
    best = visitors.play(env, second_guest.module(*cell).expert, 40)
    error = np.hypot(np.std(chance), np.std(best)) / np.sqrt(40)
    assert np.mean(best) - np.mean(chance) > 4 * error


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("cell", second_guest.SLIPS, ids=" ".join)
def test_a_mistake_runs_and_shows(cell: tuple[str, str]) -> None:
    changed = _flat(_walk(second_guest.maker(*cell)(), 3_000, seed=3))
    if np.array_equal(_sound_walk(cell[0]), changed):
        # Random actions may never come to where it shows; the expert of what is sound does.
        expert = second_guest.module(cell[0]).expert
        sound_returns, returns = (visitors.play(second_guest.maker(cell[0], label)(), expert, 5) for label in ("", cell[1]))
        assert returns != sound_returns


def test_text_that_does_not_stand_once_is_refused() -> None:
    with pytest.raises(ValueError, match="stands 0 times"):
        visitors.changed(f"{second_guest.__name__}.crane", "nothing", (("no such text", ""),))


def test_each_environment_has_four_to_six_mistakes_and_two_sound_variants() -> None:
    assert {4 <= count <= 6 for count in Counter(world for world, _ in second_guest.SLIPS).values()} == {True}
    assert Counter(world for world, _ in second_guest.VARIANTS) == dict.fromkeys(second_guest.NAMES, 2)
    known = {cause for each in visitors.SLIPS.values() for cause in each.accepted} | {"threshold-out-of-reach"}
    for mistake in second_guest.SLIPS.values():
        assert 1 <= len(mistake.accepted) <= 3
        assert set(mistake.accepted) <= known
        assert mistake.tells


def test_the_halves_share_nothing_and_the_sealed_one_prints_no_misses() -> None:
    opened, sealed, both = (list(witnessed.list_cells(f"second_guest{half}", 1)) for half in ("_open", "_sealed", ""))
    assert {cell.world for cell in opened} == set(second_guest.OPEN)
    assert {cell.world for cell in sealed} == set(second_guest.SEALED)
    assert set(both) == {*opened, *sealed}
    assert not any(witnessed.is_sealed(cell) for cell in opened)
    assert all(witnessed.is_sealed(cell) for cell in sealed)
