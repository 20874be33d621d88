"""Which shaping is potential-based: exactly in tables, with an undecided answer in between for vectors, and never a false yes."""

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rlclinic.rewards import Process, Shaped, fit_potential, fit_table, shaping_loss, solve

GAMMA = 0.99


@pytest.fixture(scope="module")
def lake() -> tuple[Process, np.ndarray]:
    env: Any = gym.make("FrozenLake-v1", map_name="8x8").unwrapped
    return Process.of_table(env.P, env.initial_state_distrib)


def near(state: np.ndarray) -> np.ndarray:
    return (state // 8 + state % 8) / 14.0


def shapings(process: Process) -> dict[str, np.ndarray]:
    now, then, ended = near(process.state), near(process.next_state), process.terminated
    return {
        "potential": GAMMA * then * ~ended - now,
        "kept at the end": GAMMA * then - now,
        "without gamma": then * ~ended - now,
        "progress only": np.maximum(then - now, 0.0),
        "closeness in every step": then,
        "a cost per step": np.full(len(now), -0.01),
    }


@pytest.mark.parametrize(
    "name", ["potential", "kept at the end", "without gamma", "progress only", "closeness in every step", "a cost per step"]
)
def test_a_table_tells_a_potential_from_everything_else(lake: tuple[Process, np.ndarray], name: str) -> None:
    process, task = lake
    paid = shapings(process)[name]
    fit = fit_table(Shaped(process.state, process.next_state, paid, process.terminated), GAMMA)
    assert fit.answer == ("yes" if name == "potential" else "no")
    best, kept = shaping_loss(process, task, paid, GAMMA)
    # What is a potential costs nothing, and everything else costs something here.
    assert (kept < best - 1e-6) == (name != "potential")


def test_a_potential_moves_every_value_by_itself(lake: tuple[Process, np.ndarray]) -> None:
    process, task = lake
    random = np.random.default_rng(0)
    potential = random.normal(size=process.states)
    shaping = GAMMA * potential[process.next_state] * ~process.terminated - potential[process.state]
    plain, shaped = solve(process, task, GAMMA).q, solve(process, task + shaping, GAMMA).q
    lasting = np.unique(process.state[~process.terminated])
    assert np.abs(shaped - (plain - potential[:, None]))[lasting].max() < 1e-8


def test_each_mistake_is_named(lake: tuple[Process, np.ndarray]) -> None:
    process, _ = lake
    why = {
        name: fit_table(Shaped(process.state, process.next_state, paid, process.terminated), GAMMA).why
        for name, paid in shapings(process).items()
    }
    assert "learner's gamma" in why["without gamma"]
    assert "not 0 where episodes terminate" in why["kept at the end"]
    assert "ends early" in why["a cost per step"]


@pytest.fixture(scope="module")
def cartpole() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    env = gym.make("CartPole-v1")
    env.action_space.seed(0)
    rows: list[tuple[Any, Any, bool]] = []
    obs, _ = env.reset(seed=0)
    while len(rows) < 6_000:
        following, _, terminated, truncated, _ = env.step(env.action_space.sample())
        rows.append((obs, following, terminated))
        obs = env.reset()[0] if terminated or truncated else following
    now, then, ended = zip(*rows, strict=True)
    return np.array(now), np.array(then), np.array(ended)


POTENTIALS: dict[str, Any] = {
    "angle": lambda x: -(x[:, 2] ** 2) * 20,
    "place and speed": lambda x: -(x[:, 0] ** 2) - 0.1 * x[:, 1] ** 2,
    "a wave": lambda x: np.cos(x[:, 2] * 5) + 0.3 * x[:, 3],
}


@pytest.mark.parametrize("name", POTENTIALS)
def test_vectors_smooth_potentials_are_found_and_their_mistakes_are_not_called_safe(cartpole: Any, name: str) -> None:
    now, then, ended = cartpole
    before, after = POTENTIALS[name](now), POTENTIALS[name](then)
    alive = ~ended
    assert fit_potential(Shaped(now, then, GAMMA * after * alive - before, ended), GAMMA).answer == "yes"
    for wrong in (after * alive - before, GAMMA * after - before, np.maximum(after - before, 0), after, -0.01 * np.ones(len(now))):
        assert fit_potential(Shaped(now, then, wrong, ended), GAMMA).answer != "yes"


@pytest.mark.parametrize("often", [0, 3, 14])
def test_what_hardly_ever_paid_is_neither_safe_nor_harmful(cartpole: Any, often: int) -> None:
    """A penalty for a crash that random play does not meet looked like a potential of nothing, one that it met thrice like no potential."""
    obs, next_obs, terminated = cartpole
    paid = np.zeros(len(obs))
    paid[:often] = -1.0
    fit = fit_potential(Shaped(obs, next_obs, paid, terminated), GAMMA)
    assert (fit.answer, np.isnan(fit.residual)) == ("undecided", True)
    assert ("never paid" in fit.why) == (often == 0)
    states = np.arange(len(obs)) % 7
    assert often or fit_table(Shaped(states, (states + 1) % 7, paid, terminated), GAMMA).answer == "undecided"


def test_too_few_steps_or_ends_decide_nothing(cartpole: Any) -> None:
    now, then, ended = (each[:300] for each in cartpole)
    assert fit_potential(Shaped(now, then, np.zeros(300), ended), GAMMA).answer == "undecided"
    now, then, ended = cartpole
    before, after = POTENTIALS["angle"](now), POTENTIALS["angle"](then)
    never = np.zeros_like(ended)
    fit = fit_potential(Shaped(now[~ended], then[~ended], (GAMMA * after - before)[~ended], never[~ended]), GAMMA)
    assert (fit.answer, fit.ends) == ("undecided", 0)


def rooms(steps: int = 3_000) -> tuple[Shaped, np.ndarray]:
    """A walk through three rooms, one-hot beside a place [B, 3 + 1], that ends when it falls off; and the actions."""
    random = np.random.default_rng(3)
    rows: list[tuple[list[float], list[float], bool, int]] = []
    actions: list[float] = []
    episode = 0
    while len(rows) < steps:
        room, place = int(random.integers(3)), float(random.uniform(-0.5, 0.5))
        for _ in range(50):
            action = float(random.uniform(-1, 1))
            to_room, to_place = (int(random.integers(3)) if random.random() < 0.2 else room), place + 0.3 * action
            ended = abs(to_place) > 1
            rows.append(([*np.eye(3)[room], place], [*np.eye(3)[to_room], to_place], ended, episode))
            actions.append(action)
            room, place = to_room, to_place
            if ended:
                break
        episode += 1
    now, then, over, number = (np.array(column) for column in zip(*rows, strict=True))
    return Shaped(now, then, np.zeros(len(now)), over, number), np.array(actions)


def waves_by_room(obs: np.ndarray) -> np.ndarray:
    return (obs[:, :3] * np.sin(obs[:, 3:] * [2.0, -4.0, 7.0] + [0.0, 1.0, 2.0])).sum(1)


@pytest.mark.parametrize("factor", [GAMMA, 1.0])
def test_a_potential_may_be_another_one_in_every_room(factor: float) -> None:
    steps, _ = rooms()
    paid = factor * waves_by_room(steps.next_obs) * ~steps.terminated - waves_by_room(steps.obs)
    fit = fit_potential(replace(steps, paid=paid), GAMMA)
    assert fit.answer == ("yes" if factor == GAMMA else "no"), fit
    if factor != GAMMA:
        assert "without gamma" in fit.why or "gamma" in fit.why


def test_what_observations_do_not_tell_is_not_called_harmful_where_it_is_paid_back() -> None:
    steps, actions = rooms()
    assert steps.episode is not None
    begins = np.diff(steps.episode, prepend=-1) != 0
    before = np.where(begins, 0.0, np.concatenate([[0.0], actions[:-1]]))
    hidden = fit_potential(replace(steps, paid=GAMMA * actions * ~steps.terminated - before), GAMMA)
    assert hidden.answer == "undecided", hidden
    assert "paid back" in hidden.why
    # The same numbers without episodes, or with a price that adds up over time: nothing takes that back.
    assert fit_potential(replace(steps, paid=GAMMA * actions * ~steps.terminated - before, episode=None), GAMMA).answer == "no"
    assert fit_potential(replace(steps, paid=-(actions**2)), GAMMA).answer == "no"
    assert fit_potential(replace(steps, paid=np.maximum(steps.next_obs[:, 3] - steps.obs[:, 3], 0.0)), GAMMA).answer == "no"
