"""Environments of a guest: sound, solvable, and wrong where it is said."""

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from benchmarks.diagnosis import witnessed
from benchmarks.diagnosis.environments import visitors
from benchmarks.diagnosis.worlds import planted

SOUND = [*((name, "") for name in visitors.NAMES), *visitors.VARIANTS]
KNOWN = {cause for fault in planted.ENVIRONMENTS for cause in (fault.cause, *fault.also)} | planted.ENVIRONMENT_CAUSES
MORE = {"never-reset", "time-limit-missing", "evaluation-environment-differs"}


def numbers(obs):
    parts = [obs[key] for key in sorted(obs)] if isinstance(obs, dict) else [obs]
    return np.concatenate([np.ravel(np.asarray(part, float)) for part in parts])


def trace(visitor, label, steps=300):
    """What random actions meet, episode after episode, from one seed."""
    env = visitors.maker(visitor, label)()
    env.action_space.seed(1)
    met = [numbers(env.reset(seed=3)[0])]
    for _ in range(steps):
        obs, *paid, _ = env.step(env.action_space.sample())
        met += [numbers(obs), np.array(paid, float)]
        if any(paid[1:]):
            met.append(numbers(env.reset()[0]))
    return np.concatenate(met)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("visitor", "label"), SOUND)
def test_a_sound_visitor_keeps_the_contract_and_is_solved_from_what_it_shows(visitor, label):
    check_env(visitors.maker(visitor, label)().unwrapped, skip_render_check=True)
    env = visitors.maker(visitor, label)()
    env.action_space.seed(0)
    chance = visitors.play(env, lambda _: env.action_space.sample(), 40)
    expert = visitors.play(env, visitors.module(visitor).expert, 40)
    assert np.mean(expert) - np.mean(chance) > 3.0 * np.sqrt((np.var(expert) + np.var(chance)) / 40)
    assert np.array_equal(trace(visitor, label), trace(visitor, label))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("visitor", "label"), visitors.SLIPS)
def test_a_slip_changes_what_is_met_and_has_causes_of_the_catalogue(visitor, label):
    sound, wrong = trace(visitor, ""), trace(visitor, label)
    assert sound.shape != wrong.shape or not np.array_equal(sound, wrong)
    assert set(visitors.SLIPS[visitor, label].accepted) <= KNOWN | MORE


def test_every_visitor_is_looked_at_as_it_is_and_with_each_of_its_slips():
    cells = list(witnessed.list_cells("visitors", 2))
    assert len(set(cells)) == len(cells) == len(visitors.SLIPS) + len(SOUND)
    assert {cell.fault for cell in cells if (cell.world, cell.name) in SOUND} == {None}
    assert all(cell.fault == cell.name and cell.accepted for cell in cells if (cell.world, cell.name) in visitors.SLIPS)


def test_a_slip_whose_text_is_gone_is_not_planted_silently(monkeypatch):
    monkeypatch.setitem(visitors.SLIPS, ("arm", "gone"), visitors.Slip((("no such text", ""),), ("reward-sign",)))
    with pytest.raises(ValueError, match="not once"):
        visitors.module("arm", "gone")
