"""The text of a new environment: a small task that learns as it is, its reward term by term, its settings and its tests.

Something is moved to a goal. With vectors it is a point between walls, in up to three dimensions, with images one that is seen from above;
with a discrete observation a walker on a line of cells. Only what these spaces need is written, so that nobody reads about others.
"""

import re
from dataclasses import dataclass
from string import Template
from typing import Final, Literal

from rlclinic.actions import Action

GAMMA: Final = 0.99
MOST_AXES: Final = 3
SEEN_AXES: Final = 2
"""Dimensions of a picture; and those in which a point that cannot stand still comes near enough to any place."""


@dataclass(frozen=True)
class Space:
    """What is seen or done: numbers, blocks of numbers by name, a picture, one of several things, or several such choices at once."""

    kind: Literal["box", "dict", "image", "discrete", "multidiscrete"]
    size: int
    """Of numbers, pixels along a side, things, or choices."""
    choices: tuple[int, ...] = ()
    """How many things each of several choices has."""


@dataclass(frozen=True)
class Term:
    """A term of the reward: what it measures in the environment, its weight (None: it is a potential), and a sentence about it."""

    name: str
    measure: str
    weight: float | None
    says: str


@dataclass(frozen=True)
class Design:
    """What an environment shall be like."""

    name: str
    obs: Space
    action: Space
    difficulty: tuple[float, float] | None
    terms: tuple[str, ...]

    @property
    def module(self) -> str:
        """The file that it is written to: PointReacher is in point_reacher.py."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", self.name).lower()

    @property
    def line(self) -> bool:
        """Whether it is played on a line of cells."""
        return self.obs.kind == "discrete"

    @property
    def axes(self) -> int:
        """Dimensions that the point moves in."""
        if self.action.kind == "discrete":
            return 2 if self.action.size >= 4 and self.obs.size >= 2 else 1
        most = SEEN_AXES if self.obs.kind == "image" or 2 in self.action.choices else MOST_AXES
        return min(self.action.size, self.obs.size, most)


USUAL: Final = {
    "progress": Term(
        "progress", "-env.distance", None, "A potential: gamma x Phi(next) - Phi(now) is paid, and the best policy stays the best."
    ),
    "safety": Term("safety", "float(env.bumped)", -0.1, "1 for running into a wall."),
    "effort": Term("effort", "env.effort", -0.01, "How hard it pushes, from 0 to 1."),
    "time": Term("time", "1.0", -0.01, "1 in every step: an episode ends early only where the task is done, so it pays for nothing else."),
}
"""What terms of these names are in most tasks."""
ALSO: Final = {
    "shaping": "progress",
    "collision": "safety",
    "crash": "safety",
    "energy": "effort",
    "control": "effort",
    "efficiency": "time",
}


def find_terms(design: Design) -> list[Term]:
    """The first is the task; a name that says nothing to us pays nothing, until somebody writes what."""
    terms = [Term(design.terms[0], "float(env.reached)", 1.0, "The task itself: 1 where the goal is reached.")]
    for name in design.terms[1:]:
        known = USUAL.get(ALSO.get(name, name))
        terms.append(
            Term(name, known.measure, known.weight, known.says) if known else Term(name, "0.0", 1.0, "Pays nothing yet: say what for.")
        )
    return terms


def write(design: Design, folder: str) -> dict[str, str]:
    """Every file of it by name. `folder` is where they go, as seen from where commands are typed."""
    slots = _fill(design, folder)
    module = design.module
    return {
        f"{module}.py": _put(LINE if design.line else POINT, slots),
        f"{module}_terms.py": _write_terms(design),
        f"{module}.yaml": _put(SETTINGS, slots),
        f"test_{module}.py": _put(TESTS, slots),
    }


def _put(template: str, slots: dict[str, str]) -> str:
    """Fill the slots in; a line of nothing but empty slots goes."""
    lines = []
    for line in template.splitlines():
        filled = Template(line).substitute(slots)
        if filled.strip() or not line.strip():
            lines.append(filled.rstrip())
    return "\n".join(lines) + "\n"


def _fill(design: Design, folder: str) -> dict[str, str]:
    terms = find_terms(design)
    effort = any(term.measure == "env.effort" for term in terms)
    size, axes = design.action.size, design.axes
    slots = {
        "name": design.name,
        "module": design.module,
        "folder": folder,
        "lint": Action("lint", env=f"{folder}/{design.module}.py:{design.name}"),
        "train": Action("train", f"{folder}/{design.module}.yaml", seeds=4),
        "gamma": str(GAMMA),
        "task": design.terms[0],
        "terms": ", ".join(design.terms),
        "cells": str(design.obs.size),
        "axes": str(axes),
        "limit": str(4 * design.obs.size if design.line else 60),
        "actions": {
            "discrete": f"spaces.Discrete({size})",
            "multidiscrete": "spaces.MultiDiscrete([len(levels) for levels in LEVELS])",
            "box": f"spaces.Box(-1.0, 1.0, ({size},), np.float32)",
        }[design.action.kind],
        "net": "{hidden: [64], activation: relu, image_features: 64}"
        if design.obs.kind == "image"
        else "{hidden: [64, 64], activation: tanh}",
        "no_effort": "        self.effort = 0.0" if effort else "",
        **_fill_difficulty(design),
        **(_fill_line(design, effort) if design.line else _fill_point(design, effort)),
    }
    potential = next((term for term in terms if term.weight is None), None)
    slots["potential_test"] = "" if potential is None else Template(POTENTIAL_TEST).substitute(slots, potential=potential.name)
    slots["difficulty_test"] = Template(DIFFICULTY_TEST).substitute(slots) if design.difficulty else ""
    return slots


def _fill_difficulty(design: Design) -> dict[str, str]:
    if design.difficulty is None:
        return {"argument": "", "check": "", "about": "", "share": "1.0", "easiest": "", "hardest": "", "kwarg": "", "low": "", "high": ""}
    low, high = (f"{value:g}" for value in design.difficulty)
    width = f"{design.difficulty[1] - design.difficulty[0]:g}"
    shifted = "self.difficulty" if low == "0" else f"(self.difficulty - {low})"
    return {
        "argument": f"difficulty: float = {float(high)}, ",
        "check": (
            f"        if not {low} <= difficulty <= {high}:\n"
            f'            raise ValueError(f"difficulty={{difficulty}} lies outside {low}..{high}")\n'
            "        self.difficulty = difficulty"
        ),
        "about": ", the farther away the higher `difficulty`",
        "share": shifted if width == "1" else f"{shifted} / {width}",
        "easiest": f"difficulty={low}",
        "hardest": f"difficulty={high}",
        "kwarg": f"difficulty: {high}, ",
        "low": low,
        "high": high,
    }


def _fill_line(design: Design, effort: bool) -> dict[str, str]:
    if design.action.kind == "discrete":
        half = design.action.size // 2
        moves = (*range(-half, 0), *((0,) if design.action.size % 2 else ()), *range(1, half + 1))
        return {
            "constants": f"MOVES = {moves}  # by action",
            "move": "        move = MOVES[int(action)]",
            "effort": f"        self.effort = abs(move) / {half}" if effort else "",
            "imports": "CELLS, MAX_STEPS, MOVES",
            "script": "    return int(np.argmin([sign * abs(CELLS - 1 - env.position - move) for move in MOVES]))",
            "farthest": _farthest(design),
        }
    chosen, script, imports = "action", "np.full(env.action_space.shape, sign, np.float32)", "MAX_STEPS"
    if design.action.kind == "multidiscrete":
        chosen = CHOSEN
        script, imports = "np.array([len(levels) - 1 if sign > 0 else 0 for levels in LEVELS])", "LEVELS, MAX_STEPS"
    return {
        "constants": _write_levels(design.action),
        "move": f"        push = float(np.mean({chosen}))\n        move = 0 if abs(push) < 0.1 else int(np.sign(push))",
        "effort": "        self.effort = abs(push)" if effort else "",
        "imports": imports,
        "script": f"    return {script}",
        "farthest": _farthest(design),
    }


CHOSEN: Final = "[levels[index] for levels, index in zip(LEVELS, action, strict=True)]"
"""Several choices as numbers from -1 to 1."""


def _write_levels(action: Space) -> str:
    if action.kind != "multidiscrete":
        return ""
    return f"LEVELS = [np.linspace(-1, 1, choices) for choices in {action.choices}]  # by choice: how hard to push"


def _farthest(design: Design) -> str:
    return "1 + round($share * (CELLS - 2))".replace("$share", _fill_difficulty(design)["share"]) if design.difficulty else "CELLS - 1"


def _fill_point(design: Design, effort: bool) -> dict[str, str]:
    size, axes = design.action.size, design.axes
    blocks = {"to_goal": ("self.goal - self.position", axes)}
    left = 0 if design.obs.kind == "image" else design.obs.size - axes
    if left >= axes:
        blocks["position"], left = ("self.position", axes), left - axes
    if left:
        blocks["ranges"] = ("np.linalg.norm(self.position - BEACONS, axis=1)", left)
    constants = []
    if left:
        constants.append(f"BEACONS = np.random.default_rng(0).uniform(-1, 1, ({left}, AXES))  # fixed places; it sees how far each is")
    if design.action.kind == "discrete":
        if axes == 2:
            constants.append(f"ANGLES = 2 * np.pi * np.arange({size}) / {size}")
            constants.append("DIRECTIONS = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)  # by action")
        else:
            constants.append(f"DIRECTIONS = np.linspace(-1, 1, {size})[:, None]  # by action")
        push = "DIRECTIONS[int(action)]"
        script = "    return int(np.argmin(sign * np.linalg.norm(env.position + SPEED * DIRECTIONS - env.goal, axis=1)))"
    else:
        chosen, clipped = "action", "np.clip(action, -1, 1)"
        wanted = "np.resize(sign * np.clip((env.goal - env.position) / SPEED, -1, 1), env.action_space.shape)"
        script = f"    return {wanted}.astype(np.float32)"
        if design.action.kind == "multidiscrete":
            constants.append(_write_levels(design.action))
            chosen = clipped = f"np.array({CHOSEN})"
            script = (
                f"    wanted = {wanted}\n"
                "    return np.array([int(np.argmin(np.abs(levels - push))) for levels, push in zip(LEVELS, wanted, strict=True)])"
            )
        push = clipped if size == axes else f"np.array([np.clip({chosen}[axis::AXES].sum(), -1, 1) for axis in range(AXES)])"
        if size != axes and chosen != "action":
            push = f"{chosen}\n        push = np.array([np.clip(push[axis::AXES].sum(), -1, 1) for axis in range(AXES)])"
    if design.obs.kind == "dict":
        space = (
            "spaces.Dict({" + ", ".join(f'"{name}": spaces.Box(-4.0, 4.0, ({n},), np.float32)' for name, (_, n) in blocks.items()) + "})"
        )
        seen = ", ".join(f'"{name}": np.asarray({code}, np.float32)' for name, (code, _) in blocks.items())
        observe = f"        return {{{seen}}}"
    elif design.obs.kind == "image":
        pixels = design.obs.size
        constants.append(
            f"PIXELS = np.stack(np.meshgrid(*[np.linspace(-1, 1, {pixels})] * 2, indexing='ij'), axis=-1)[..., :AXES]  # where each lies"
        )
        space = f"spaces.Box(0, 255, ({pixels}, {pixels}, 2), np.uint8)"
        observe = (
            "        # A channel each: where it is and where it shall be, bright there and darker around it.\n"
            "        spots = [np.exp(-np.square(PIXELS - place).sum(axis=-1) / 0.02) for place in (self.position, self.goal)]\n"
            "        return (255 * np.stack(spots, axis=-1)).astype(np.uint8)"
        )
    else:
        space = f"spaces.Box(-4.0, 4.0, ({design.obs.size},), np.float32)"
        codes = [code for code, _ in blocks.values()]
        observe = f"        return np.concatenate([{', '.join(codes)}]).astype(np.float32)"
        if len(codes) == 1:
            observe = f"        return ({codes[0]}).astype(np.float32)"
    return {
        "constants": "\n".join(constants),
        "space": space,
        "distance": f"0.2 + 0.8 * {_fill_difficulty(design)['share']}" if design.difficulty else "1.0",
        "push": push,
        "effort": "        self.effort = float(np.mean(np.square(push)))" if effort else "",
        "observe": observe,
        "imports": {"box": "", "discrete": "DIRECTIONS, ", "multidiscrete": "LEVELS, "}[design.action.kind] + "MAX_STEPS, SPEED",
        "script": script,
    }


def _write_terms(design: Design) -> str:
    terms = find_terms(design)
    functions = [f'def {term.name}(env: Any) -> float:\n    """{term.says}"""\n    return {term.measure}' for term in terms]
    weights = ", ".join(f'"{term.name}": {term.weight}' for term in terms if term.weight is not None)
    potentials = ", ".join(f'"{term.name}": {term.name}' for term in terms if term.weight is None)
    measured = ", ".join(f'"{term.name}": {term.name}(env)' for term in terms if term.weight is not None)
    return _put(
        TERMS,
        {
            "name": design.name,
            "functions": "\n\n\n".join(functions),
            "weights": weights,
            "potentials": f", potentials={{{potentials}}}" if potentials else "",
            "measured": measured,
        },
    )


POINT: Final = '''\
"""$name: move a point to a goal. The task, the terms of its reward and the numbers are yours to change.

    pytest $folder
    $lint
    $train
"""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from ${module}_terms import make_rewards, measure

AXES = $axes
SPEED = 0.1  # along each axis, in one step
REACH = 0.15  # so near is there
MAX_STEPS = $limit  # of an episode
$constants


class $name(gym.Env[Any, Any]):
    """A point between walls; start and goal are others in every episode$about."""

    def __init__(self, ${argument}gamma: float = $gamma) -> None:
$check
        self.observation_space = $space
        self.action_space = $actions
        self.rewards = make_rewards(gamma)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.goal = self.np_random.uniform(-1, 1, AXES)
        direction = np.abs(self.np_random.normal(size=AXES))
        direction *= self.np_random.uniform(0.2, $distance) / np.linalg.norm(direction)
        self.position = self.goal - np.sign(self.goal) * direction  # towards the middle: the start lies between the walls
        self.steps, self.reached, self.bumped = 0, False, False
$no_effort
        self.rewards.reset(self)
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        push = $push
        wanted = self.position + SPEED * push
        self.position = np.clip(wanted, -1, 1)
        self.bumped = bool(np.any(wanted != self.position))
$effort
        self.steps += 1
        self.reached = self.distance <= REACH
        terminated = self.reached  # the task is done: nothing comes after
        truncated = self.steps >= MAX_STEPS and not terminated  # the clock ran out: the task would go on
        reward, info = self.rewards.step(measure(self), self, terminated)
        return self._observe(), reward, terminated, truncated, {**info, "is_success": self.reached}

    @property
    def distance(self) -> float:
        """How far the goal is."""
        return float(np.linalg.norm(self.goal - self.position))

    def _observe(self) -> Any:
$observe
'''

LINE: Final = '''\
"""$name: walk along a line to its last cell. The task, the terms of its reward and the numbers are yours to change.

    pytest $folder
    $lint
    $train
"""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from ${module}_terms import make_rewards, measure

CELLS = $cells
MAX_STEPS = $limit  # of an episode
$constants


class $name(gym.Env[Any, Any]):
    """A walker on a line of cells; the last one is the goal$about."""

    def __init__(self, ${argument}gamma: float = $gamma) -> None:
$check
        self.observation_space = spaces.Discrete(CELLS)
        self.action_space = $actions
        self.rewards = make_rewards(gamma)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        farthest = $farthest
        self.position = CELLS - 1 - int(self.np_random.integers(1, farthest + 1))
        self.steps, self.reached, self.bumped = 0, False, False
$no_effort
        self.rewards.reset(self)
        return self.position, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
$move
        wanted = self.position + move
        self.position = int(np.clip(wanted, 0, CELLS - 1))
        self.bumped = wanted < 0
$effort
        self.steps += 1
        self.reached = self.position == CELLS - 1
        terminated = self.reached  # the task is done: nothing comes after
        truncated = self.steps >= MAX_STEPS and not terminated  # the clock ran out: the task would go on
        reward, info = self.rewards.step(measure(self), self, terminated)
        return self.position, reward, terminated, truncated, {**info, "is_success": self.reached}

    @property
    def distance(self) -> float:
        """How far the goal is, as a share of the line."""
        return (CELLS - 1 - self.position) / (CELLS - 1)
'''

TERMS: Final = '''\
"""What $name pays for, term by term. Logged by name in training, and weighed by `rlclinic reward balance`."""

from typing import Any

from rlclinic.rewards import Rewards


$functions


def make_rewards(gamma: float) -> Rewards:
    """The weights. `gamma` is the learner's own: with another one a potential changes what is best."""
    return Rewards(gamma, weights={$weights}$potentials)


def measure(env: Any) -> dict[str, float]:
    """What each weighted term measures after a step."""
    return {$measured}
'''

SETTINGS: Final = """\
# Settings of $name: $train
spec:
  description: $name
  success: 0.9             # solved when so many evaluation episodes succeed
  max_episode_steps: $limit

ppo:
  env: {id: "$folder/$module.py:$name", n_envs: 8, kwargs: {${kwarg}gamma: $gamma}}   # the path is seen from where you type
  algo:
    name: ppo
    n_steps: 128           # 1,024 transitions: at least 17 episodes
    batch_size: 256
    n_epochs: 10
    gamma: $gamma            # the same as the environment's, or its potential changes what is best
    gae_lambda: 0.95
    learning_rate: 1e-3
    ent_coef: 0.01         # keeps trying until the first success
  net: $net
  run: {max_env_steps: 60_000, eval_every_env_steps: 5_000, eval_episodes: 50}
"""

TESTS: Final = '''\
"""Is $name what training takes it for? Keep these tests true when the task changes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from $module import $imports, $name


def go_to_goal(env: $name) -> Any:
    """The scripted policy: straight to the goal."""
    return steer(env, 1)


def go_away(env: $name) -> Any:
    return steer(env, -1)


def steer(env: $name, sign: int) -> Any:
$script


def go_at_random(env: $name) -> Any:
    return env.action_space.sample()


def play(env: $name, seed: int, policy: Any = go_to_goal) -> list[tuple[Any, float, bool, bool, dict[str, Any]]]:
    """The steps of one episode."""
    obs, _ = env.reset(seed=seed)
    assert env.observation_space.contains(obs), obs
    env.action_space.seed(seed)
    steps = []
    while not steps or not (steps[-1][2] or steps[-1][3]):
        steps.append(env.step(policy(env)))
        assert len(steps) <= 10 * MAX_STEPS, "an episode must end"
    return steps


def flat(obs: Any) -> list[float]:
    parts = obs.values() if isinstance(obs, dict) else [obs]
    return np.concatenate([np.ravel(part) for part in parts]).tolist()


def trace(steps: Any) -> list[Any]:
    return [(flat(obs), reward, terminated, truncated) for obs, reward, terminated, truncated, _ in steps]


def test_a_seed_decides_the_whole_episode() -> None:
    assert trace(play($name(), 3, go_at_random)) == trace(play($name(), 3, go_at_random))
    assert len({tuple(flat($name().reset(seed=seed)[0])) for seed in range(20)}) > 1, "every seed starts the same episode"


def test_a_reset_forgets_the_episode_before() -> None:
    env = $name()
    for seed in range(3):
        play(env, seed, go_at_random)
        assert trace(play(env, seed + 3)) == trace(play($name(), seed + 3))


def test_copies_share_nothing() -> None:
    alone, one, other = $name(), $name(), $name()
    alone.reset(seed=3), one.reset(seed=3), other.reset(seed=4)
    for _ in range(5):
        action = go_to_goal(alone)
        expected = alone.step(action)
        assert trace([one.step(action)]) == trace([expected])
        if expected[2] or expected[3]:
            break
        _, _, *ended, _ = other.step(go_to_goal(other))
        if any(ended):
            other.reset()


@pytest.mark.parametrize("policy", [go_to_goal, go_away, go_at_random])
def test_observations_and_rewards_are_what_the_spaces_say(policy: Any) -> None:
    env = $name()
    for seed in range(10):
        for obs, reward, *_ in play(env, seed, policy):
            assert env.observation_space.contains(obs), obs
            assert isinstance(reward, float) and np.isfinite(reward)


def test_observations_are_not_changed_by_later_steps() -> None:
    env = $name()
    obs, _ = env.reset(seed=0)
    before = flat(obs)
    env.step(go_to_goal(env))
    assert flat(obs) == before


def test_reaching_the_goal_terminates_and_succeeds() -> None:
    for seed in range(10):
        steps = play($name(), seed)
        *_, terminated, truncated, info = steps[-1]
        assert terminated and not truncated and info["is_success"] is True
        assert not any(info["is_success"] for *_, info in steps[:-1]), "success before the end"


def test_time_up_truncates_and_is_no_success() -> None:
    for seed in range(10):
        steps = play($name(), seed, go_away)
        *_, terminated, truncated, info = steps[-1]
        assert truncated and not terminated and info["is_success"] is False
        assert len(steps) == MAX_STEPS


@pytest.mark.parametrize("policy", [go_to_goal, go_at_random])
def test_terms_sum_to_the_reward(policy: Any) -> None:
    for seed in range(10):
        for _, reward, *_, info in play($name(), seed, policy):
            assert reward == pytest.approx(sum(info["reward_terms"].values()), abs=1e-9)


def test_the_task_is_paid_once_and_only_for_success() -> None:
    for seed in range(10):
        for policy in (go_to_goal, go_at_random):
            steps = play($name(), seed, policy)
            assert sum(info["reward_terms"]["$task"] for *_, info in steps) == pytest.approx(float(steps[-1][-1]["is_success"]))


def test_doing_the_task_pays_more_than_acting_at_random() -> None:
    def mean_return(policy: Any) -> float:
        """Discounted, as the learner does: on a short line chance gets there, too, and later."""
        episodes = [play($name(), seed, policy) for seed in range(20)]
        return float(np.mean([sum($gamma**t * reward for t, (_, reward, *_) in enumerate(steps)) for steps in episodes]))

    assert mean_return(go_to_goal) > mean_return(go_at_random)
    assert mean_return(go_to_goal) > mean_return(go_away)
$difficulty_test
$potential_test


def test_the_learner_discounts_as_the_potential_does() -> None:
    settings = yaml.safe_load(Path(__file__).with_name("$module.yaml").read_text())
    for variant in [value for key, value in settings.items() if key != "spec"]:
        assert variant["algo"]["gamma"] == variant["env"]["kwargs"]["gamma"]
'''

DIFFICULTY_TEST: Final = """

def test_a_higher_difficulty_is_harder() -> None:
    def mean_length(difficulty: float) -> float:
        return float(np.mean([len(play($name(difficulty=difficulty), seed)) for seed in range(30)]))

    lengths = [mean_length(difficulty) for difficulty in np.linspace($low, $high, 5)]
    assert lengths == sorted(lengths), lengths
    assert lengths[-1] > lengths[0], lengths


@pytest.mark.parametrize("difficulty", [$low - 1, $high + 1])
def test_a_difficulty_that_does_not_exist_is_refused(difficulty: float) -> None:
    with pytest.raises(ValueError, match="difficulty"):
        $name(difficulty=difficulty)"""

POTENTIAL_TEST: Final = '''

@pytest.mark.parametrize("policy", [go_to_goal, go_at_random])
def test_${potential}_is_a_potential(policy: Any) -> None:
    """Whatever is done, its discounted sum depends on the start and, where time ran out, on the last state."""
    for seed in range(10):
        env = $name(gamma=0.9)
        env.reset(seed=seed)
        start, steps = env.distance, play(env, seed, policy)
        total = sum(0.9**t * info["reward_terms"]["$potential"] for t, (*_, info) in enumerate(steps))
        left = 0.0 if steps[-1][2] else 0.9 ** len(steps) * env.distance
        assert total == pytest.approx(start - left, abs=1e-6)'''
