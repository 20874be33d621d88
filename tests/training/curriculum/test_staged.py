"""Environments under a curriculum: who plays what, whose sampler hears of it, and that a killed run goes on as if nothing had been."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from rlclinic.config import Config
from rlclinic.errors import ConfigError
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.training import assembly
from rlclinic.training.__main__ import train_runs
from rlclinic.training.curriculum import staged
from rlclinic.training.curriculum.assignment import Assignment
from rlclinic.training.curriculum.staged import Staged
from rlclinic.training.envs import making
from tests.config.test_curriculum import BRIEF
from tests.training import cohorts
from tests.training.tasks import Resetting

MAZE: dict[str, Any] = {"id": "Maze-v0", "n_envs": 4, "kwargs": {"levels": 20}, "max_episode_steps": 14}
STAGES = [
    {"name": "small", "env": {"size": 5, "difficulty": 0}, "success_threshold": 0.1, "min_episodes": 8},
    {"name": "medium", "env": {"size": 7}, "success_threshold": 0.01, "min_episodes": 8},
    {"name": "large", "env": {"size": 9}},
]
QUICK: dict[str, Any] = {"stages": STAGES, "window": 20, "eval_episodes": 2, "escape_after": 1}


def make_config(algo: str = "ppo", env: dict[str, Any] = MAZE, steps: int = 960, seed: int = 0, **curriculum: Any) -> Config:
    """Promotions within a few hundred steps, a checkpoint in every other iteration."""
    run = {"max_env_steps": steps, "checkpoint_every_env_steps": 96, "eval_every_env_steps": 480}
    return cohorts.make_config(algo, env=env, seed=seed, curriculum={**QUICK, **curriculum}, run=run)


def find_runs(folder: Path) -> list[Run]:
    """The runs that an interrupted training has left, by seed."""
    folders = [path for path in (folder / "runs").iterdir() if not path.name.startswith("@") and (path / "config.json").is_file()]
    return sorted(map(Run, folders), key=lambda run: run.seed)


class Walk(gym.Env[Any, Any]):
    """Walk `length` steps to the right; `wide` shows more, and nobody else is asked for it."""

    def __init__(self, length: int = 4, wide: bool = False, says: bool = True) -> None:
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (3 if wide else 2,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self.length, self._says = length, says

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.start = float(self.np_random.random())
        self._place, self._age = 0, 0
        return self._see(), {}

    def step(self, action: Any) -> Any:
        self._place, self._age = max(0, self._place + (1 if action else -1)), self._age + 1
        there = self._place >= self.length
        return self._see(), float(there), there, self._age >= 12, {"is_success": there} if self._says else {}

    def _see(self) -> Any:
        return np.full(self.observation_space.shape, self._place / self.length, np.float32)


WALK: dict[str, Any] = {"id": "tests.training.curriculum.test_staged:Walk", "n_envs": 2}
WALKS = [{"name": f"{n} steps", "env": {"length": n}, "success_threshold": 0.2, "min_episodes": 6} for n in (1, 2, 3)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Two members that were never interrupted."""
    return cohorts.train(tmp_path_factory.mktemp("whole"), [make_config(seed=seed) for seed in (0, 1)])


def test_every_stage_is_a_column_and_every_evaluation_is_on_the_last_one(whole: list[Any]):
    rows = cohorts.table(whole[0])
    assert {f"{part}/stage/{k}/success_rate" for part in ("train", "val") for k in (1, 2, 3)} <= set(rows[0])
    judged = [row for row in rows if row["val/roll/success_rate"]]
    assert judged
    assert all(row["val/stage/3/success_rate"] for row in judged)
    assert whole[0].config.env.kwargs == {"levels": 20, "size": 9}


def test_a_stage_that_is_mastered_is_said_in_the_log_and_in_the_row(whole: list[Any]):
    rows = cohorts.table(whole[0])
    stages = [float(row["train/curriculum/stage"]) for row in rows]
    assert stages[0] == 1
    assert max(stages) > 1
    assert "stage 1 (small) is mastered" in whole[0].log


def test_a_run_killed_at_a_stage_change_goes_on_as_if_nothing_had_been(whole: list[Any], tmp_path: Path):
    rows = cohorts.table(whole[0])
    change = next(int(row["total_timesteps"]) for row in rows if float(row["train/curriculum/stage"]) > 1)
    with pytest.raises(cohorts.Interrupted):
        cohorts.train(tmp_path, [make_config(seed=seed) for seed in (0, 1)], callback=cohorts.interrupt_at(change))
    runs = find_runs(tmp_path)
    assert train_runs(runs, resume=True)
    for run, other in zip(runs, whole, strict=True):
        cohorts.assert_same_run(run, other)


def test_a_member_of_a_cohort_has_its_own_stage_and_learns_as_it_would_alone(whole: list[Any], tmp_path: Path):
    (alone,) = cohorts.train(tmp_path, [make_config(seed=1)])
    cohorts.assert_same_run(alone, whole[1])
    ways = [[row["train/stage/1/episodes"] for row in cohorts.table(run)] for run in whole]
    assert ways[0] != ways[1]


@pytest.mark.parametrize(
    "curriculum",
    [
        {"kind": "alp_gmm"},
        {"kind": "plr", "stages": [], "levels": 12},
        {"kind": "learnability", "stages": [], "parameter": "difficulty", "range": [0, 1], "bins": 3},
    ],
    ids=lambda each: "-".join(str(value) for value in each.values() if value),
)
def test_automatic_kinds_go_on_from_a_checkpoint(curriculum: dict[str, Any], tmp_path: Path):
    config = make_config(steps=192, **curriculum)
    (one,) = cohorts.train(tmp_path / "one", [config])
    with pytest.raises(cohorts.Interrupted):
        cohorts.train(tmp_path / "two", [config], callback=cohorts.interrupt_at(96))
    (other,) = find_runs(tmp_path / "two")
    assert train_runs([other], resume=True)
    cohorts.assert_same_run(one, other)


PICKED: dict[str, Any] = {"kind": "learnability", "stages": [], "parameter": "difficulty", "range": [0, 1], "bins": 3}


@pytest.mark.parametrize(
    ("changes", "env", "anew"),
    [
        ({}, {}, False),
        ({"eval_episodes": 1}, {}, False),
        ({"kind": "uniform"}, {}, True),
        ({"range": [0, 0.5]}, {}, True),
        ({}, {"n_envs": 6}, True),
    ],
    ids=str,
)
def test_a_fork_to_another_curriculum_knows_nothing_yet(changes: dict[str, Any], env: dict[str, Any], anew: bool, tmp_path: Path) -> None:
    (parent,) = cohorts.train(tmp_path, [make_config(steps=192, **PICKED)])
    config = make_config(steps=384, env=MAZE | env, **{**PICKED, **changes})
    step = parent.checkpoints[-1].step
    group = Store(parent.path.parent).create_group([config], parent=f"{parent.id}@{step}", extra={"start": "fork"})
    cohort = assembly.assemble([(group.runs[0], assembly.load(group.runs[0], resume=False))])
    for member in cohort.members:
        member.writer.close()
    known = {name: each for name, each in cohort.env.state().items() if name.startswith(f"{staged.PREFIX}episodes")}
    assert known, "the samplers count episodes"
    assert all(not each.any() for each in known.values()) == anew
    assert ("begins its curriculum anew" in group.runs[0].log) == anew


def test_levels_are_scored_by_how_wrong_the_tasks_values_are_and_not_by_what_a_bonus_adds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    scores: list[np.ndarray] = []
    score = Staged.score
    monkeypatch.setattr(Staged, "score", lambda self, error: (scores.append(error.numpy().copy()), score(self, error))[1])
    plain = make_config(steps=96, kind="plr", stages=[], levels=12)
    for name, config in (("plain", plain), ("paid", Config.model_validate(plain.model_dump() | {"bonus": {"kind": "count", "coef": 5.0}}))):
        cohorts.train(tmp_path / name, [config])
    first, paid = scores[0], scores[len(scores) // 2]
    np.testing.assert_allclose(paid, first, atol=1e-6)


def test_q_learning_with_a_replay_has_a_curriculum_too(tmp_path: Path):
    (run,) = cohorts.train(tmp_path, [make_config("dqn", steps=480)])
    assert run.status.state == "finished"
    assert float(cohorts.table(run)[-1]["train/stage/1/episodes"]) > 0


def test_gymnasium_environments_change_places_between_episodes():
    config = make_config(env=WALK, stages=WALKS)
    env = staged.make(config, [0], "cpu")
    assert isinstance(env, Staged)
    env.reset()
    ended = []
    for _ in range(200):
        step = env.step(torch.ones(1, 2, dtype=torch.int64))
        ended += step.next_obs[step.terminated].tolist()
        env.learn(0)
    cells = env.cells()
    assert cells["train/curriculum/stage"] == [3.0]
    assert all(cells[f"train/stage/{k}/episodes"][0] > 5 for k in (1, 2, 3))
    assert set(map(tuple, ended)) == {(1.0, 1.0)}


def test_a_curriculum_of_gymnasium_environments_trains_and_goes_on(tmp_path: Path):
    config = make_config(env=WALK, stages=WALKS, steps=288)
    with pytest.raises(cohorts.Interrupted):
        cohorts.train(tmp_path, [config], callback=cohorts.interrupt_at(192))
    (run,) = find_runs(tmp_path)
    before = [row["train/stage/1/episodes"] for row in cohorts.table(run)]
    assert train_runs([run], resume=True)
    rows = cohorts.table(run)
    assert run.status.state == "finished"
    assert float(rows[-1]["train/stage/1/episodes"]) >= float(before[0])


def test_levels_are_fixed_starts():
    config = cohorts.make_config("ppo", env=MAZE, curriculum={"kind": "uniform", "levels": 3})
    env = staged.make(config, [0, 7], "cpu")
    env.reset()
    seen = set()
    for _ in range(200):
        step = env.step(torch.randint(4, (2, 4)))
        fresh = (step.terminated | step.truncated).nonzero().tolist()
        seen |= {tuple(step.obs[member, env_].tolist()) for member, env_ in fresh}
    assert len(seen) == 3


def test_the_levels_of_a_gymnasium_environment_are_seeds():
    config = cohorts.make_config("ppo", env=WALK, curriculum={"kind": "uniform", "levels": 3})
    env: Any = staged.make(config, [0], "cpu")
    env.reset()
    starts = set()
    for _ in range(60):
        env.step(torch.ones(1, 2, dtype=torch.int64))
        starts |= {single._env.unwrapped.start for single in env._tasks._singles}
    assert len(starts) == 3


def test_one_mixture_steps_every_task_by_its_own_rules():
    config = cohorts.make_config("ppo", env=MAZE, curriculum={**QUICK, "kind": "uniform"})
    mixed: Any = staged.make(config, [3], "cpu")
    mixed.reset()
    mixture = mixed._tasks._mixture
    state = mixed._env.here().state
    for _ in range(20):
        action = torch.randint(4, (1, 4))
        after, reward, terminated = mixture.advance(state, action, None)
        for env in range(4):
            version = mixture._versions[int(state[0, env, -1])]
            alone = version.advance(state[0, env, :-1], action[0, env], None)
            assert torch.equal(after[0, env, :-1], alone[0])
            assert (reward[0, env], terminated[0, env]) == (alone[1], alone[2])
            assert torch.equal(mixture.observe(after)[0, env], version.observe(alone[0]))
        state = after


def test_an_environment_without_the_parameter_is_refused_by_name():
    config = cohorts.make_config("ppo", curriculum={"stages": [{"name": "easy", "env": {"gravityy": 1}}, {"name": "task", "env": {}}]})
    with pytest.raises(ConfigError, match="easy sets gravityy, but CartPole-v1 has no such parameter"):
        staged.make(config, [0], "cpu")
    config = cohorts.make_config("ppo", env=MAZE, curriculum={"kind": "uniform", "parameter": "difficult", "values": [0, 1]})
    with pytest.raises(ConfigError, match="did you mean difficulty"):
        staged.make(config, [0], "cpu")


class Robot(Walk):
    """Takes the arguments of the stages of brief 003, and keeps them."""

    def __init__(
        self, difficulty: float = 0.5, sparse_rewards: bool = False, obstacles: bool = False, multi_objective: bool = False, arm: int = 1
    ):
        super().__init__(length=1 + round(2 * difficulty))
        self.given = {
            "difficulty": difficulty,
            "sparse_rewards": sparse_rewards,
            "obstacles": obstacles,
            "multi_objective": multi_objective,
        }
        self.arm = arm


def test_a_stage_has_its_own_arguments_and_not_what_only_the_last_one_names():
    """The last stage of the brief is sparse; the second says nothing of it, so that it is as the environment is by itself."""
    robot = {"id": f"{__name__}:Robot", "n_envs": len(BRIEF), "kwargs": {"arm": 2}}
    config = make_config(env=robot, stages=BRIEF)
    assert config.env.kwargs == {"arm": 2, "difficulty": 1.0, "sparse_rewards": True}
    assigned = Assignment(config.env, config.curriculum.tasks, 1, len(BRIEF), None, fixed=True)  # type: ignore[union-attr]
    made = [making.make_single(version).unwrapped for version in assigned.versions]
    alone = {"difficulty": 0.5, "sparse_rewards": False, "obstacles": False, "multi_objective": False}
    assert [each.given for each in made] == [alone | stage["env_config"] for stage in BRIEF]  # type: ignore[attr-defined]
    assert {each.arm for each in made} == {2}  # what all share
    env = staged.make(make_config(env=robot, stages=BRIEF), [0], "cpu")
    env.reset()


def test_stages_that_show_other_shapes_are_refused():
    stages = [{"name": "narrow", "env": {"wide": False}}, {"name": "wide", "env": {"wide": True}}]
    with pytest.raises(ConfigError, match=r"narrow has observations of the shape \(2,\), but wide has \(3,\)"):
        staged.make(make_config(env=WALK, stages=stages), [0], "cpu")
    lakes = [{"name": "pond", "env": {"map_name": "4x4"}}, {"name": "lake", "env": {"map_name": "8x8"}}]
    with pytest.raises(ConfigError, match="observations of the shape"):
        staged.make(make_config(env={"id": "FrozenLake-v1", "n_envs": 2}, stages=lakes), [0], "cpu")


def test_an_environment_that_reports_no_success_needs_a_return():
    stages = [{"name": "easy", "env": {"sutton_barto_reward": True}}, {"name": "task", "env": {"sutton_barto_reward": False}}]
    cart = {"id": "CartPole-v1", "n_envs": 2}
    with pytest.raises(ConfigError, match="does not say which episodes succeed"):
        staged.make(make_config(env=cart, stages=stages), [0], "cpu")
    env = staged.make(make_config(env=cart, stages=stages, success_return=15), [0], "cpu")
    env.reset()
    silent = [{"name": "short", "env": {"length": 1, "says": False}}, {"name": "task", "env": {"length": 2, "says": False}}]
    walk = staged.make(make_config(env=WALK, stages=silent), [0], "cpu")
    walk.reset()

    def play() -> None:
        for _ in range(500):
            walk.step(torch.ones(1, 2, dtype=torch.int64))

    with pytest.raises(ConfigError, match="does not say which episodes succeed"):
        play()


def test_a_vector_of_the_users_own_has_no_curriculum():
    config = cohorts.make_config("ppo", curriculum={"kind": "uniform", "parameter": "kind", "values": ["discrete", "box"]})
    with pytest.raises(ConfigError, match="is a VectorEnv"):
        staged.make(config, [0], "cpu", Resetting)
