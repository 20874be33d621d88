"""Tabular Q-learning: it reaches the fixed point that value iteration computes, and only tables are taken for tables."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import rlclinic
from rlclinic.config import Config, files
from rlclinic.errors import ConfigError
from rlclinic.training import assembly, envs, replay_assembly
from rlclinic.training import members as cohort
from rlclinic.training.algos import q_learning
from rlclinic.training.data.replay import Batch
from rlclinic.training.nets.q_nets import HEAD
from tests.training.cohorts import assert_same_run, train


def config(env_id: str = "FrozenLake-v1", steps: int = 4000, n_envs: int = 4, **algo: Any) -> Config:
    kwargs = {"is_slippery": False} if env_id.startswith("FrozenLake") else {}
    return Config.model_validate(
        {
            "env": {"id": env_id, "n_envs": n_envs, "kwargs": kwargs, "max_episode_steps": 60},
            "algo": {"name": "q_learning", **algo},
            "run": {"max_env_steps": steps, "eval_every_env_steps": steps // 2, "eval_episodes": 4},
        }
    )


def value_iteration(env_id: str, gamma: float, **kwargs: Any) -> np.ndarray:
    """Q* [S, A] from Gymnasium's own table."""
    env = gymnasium.make(env_id, **kwargs).unwrapped
    states, actions = env.observation_space.n, env.action_space.n
    q = np.zeros((states, actions))
    for _ in range(2000):
        best = q.max(1)
        q = np.array(
            [
                [sum(p * (r + gamma * best[s] * (not end)) for p, s, r, end in env.P[state][a]) for a in range(actions)]
                for state in range(states)
            ]
        )
    return q


def table(made: Config, seeds: tuple[int, ...] = (0, 1)) -> tuple[np.ndarray, np.ndarray]:
    """Values and visits [M, S, A] after training, without folders."""
    from rlclinic.training.loops import off_policy
    from rlclinic.training.loops.on_policy import Position

    env = envs.make(made.env, list(seeds), made.env.n_envs)
    plan: Any = assembly.plan_for(made, env)
    state = replay_assembly.fresh_learner(plan, list(seeds), made.env.n_envs)
    memory = replay_assembly.memory_for(plan, len(seeds), torch.device("cpu"))
    position, seed = Position(env.reset(), env.action_mask), torch.tensor(seeds).view(-1, 1, 1)
    members: Any = [SimpleNamespace(config=made, adapted={}, active=True)] * len(seeds)
    env_steps = 0
    while env_steps < made.run.max_env_steps:
        hp = cohort.replay_numbers(members, env_steps, 1, torch.device("cpu"))
        collector = off_policy.Collector(plan, env, seed, env_steps, {"env": 0.0, "act": 0.0})
        for _ in range(plan.cycles):
            state = collector.collect(state, position, memory, hp)
            state, _ = off_policy.learn(plan, state, memory, hp, None, seed)
        env_steps = collector.env_steps
    cells = plan.nets["q"].params(state.nets["q"])[f"{HEAD}.weight"].transpose(1, 2).numpy()
    return cells[..., : cells.shape[2] // 2], cells[..., cells.shape[2] // 2 :]


def test_q_reaches_the_fixed_point_that_value_iteration_computes() -> None:
    found, visits = table(config(gamma=0.9, learning_rate=1.0, exploration_final_eps=1.0, steps=6000))
    exact = value_iteration("FrozenLake-v1", 0.9, is_slippery=False)
    for member in range(2):
        # Where chance has led to at least a few times everything is known exactly: no step is left to chance.
        seen = visits[member].min(1) >= 8
        assert seen.sum() >= 6
        np.testing.assert_allclose(found[member][seen], exact[seen], atol=2e-2)
    assert visits.sum() == 2 * 6000


def test_ucb_finds_the_best_way_and_keeps_to_it() -> None:
    found, visits = table(config(gamma=0.9, learning_rate=1.0, exploration="ucb", steps=6000))
    exact = value_iteration("FrozenLake-v1", 0.9, is_slippery=False)
    # It stops asking about what cannot be best, so only the best way itself is exact.
    np.testing.assert_allclose(found[:, 0].max(1), exact[0].max(), atol=1e-3)
    assert (visits[:, 0].min(1) >= 3).all()
    assert (visits[:, 0].max(1) > 2 * visits[:, 0].min(1)).all()


def test_with_chance_in_it_a_falling_rate_averages_it_out() -> None:
    made = config(gamma=0.9, steps=24_000, n_envs=8, exploration_final_eps=1.0, learning_rate={"start": 0.5, "end": 0.005})
    made = made.model_copy(update={"env": made.env.model_copy(update={"kwargs": {"is_slippery": True}})})
    found, visits = table(made, (3,))
    exact = value_iteration("FrozenLake-v1", 0.9, is_slippery=True)
    often = visits[0].min(1) >= 200
    assert often.sum() >= 5
    assert np.abs(found[0][often] - exact[often]).max() < 0.09
    assert np.abs(found[0][often] - exact[often]).mean() < 0.04


def test_an_update_by_hand() -> None:
    made = config(gamma=0.5, learning_rate=0.25, n_envs=3)
    env = envs.make(made.env, [0], 3)
    plan: Any = assembly.plan_for(made, env)
    state = replay_assembly.fresh_learner(plan, [0], 3)
    values = plan.nets["q"].params(state.nets["q"])[f"{HEAD}.weight"]
    values[0, 2, 1] = 4.0  # action 2 in state 1
    hot = torch.eye(16)
    # Twice state 0, action 3: once to state 1 for 1, once to an end for 5. Once state 1, action 2, to state 0 for 0.
    batch = Batch(
        obs=hot[[0, 0, 1]].unsqueeze(0),
        action=torch.tensor([[[3], [3], [2]]]),
        reward=torch.tensor([[1.0, 5.0, 0.0]]),
        discount=torch.tensor([[0.5, 0.0, 0.5]]),
        next_obs=hot[[1, 2, 0]].unsqueeze(0),
    )
    hp = SimpleNamespace(learning_rate=torch.tensor([[0.25]]), gamma=torch.tensor([[0.5]]))
    q_learning.update(plan, state, batch, hp, None, None)
    assert values[0, 3, 0] == pytest.approx(0.25 * (3.0 + 5.0) / 2)  # the mean of 1 + 4/2 and 5
    assert values[0, 2, 1] == pytest.approx(4.0 - 0.25 * 4.0)
    assert values[0, 4 + 3, 0] == 2
    assert values[0, 4 + 2, 1] == 1
    assert int((values != 0).sum()) == 4


def test_several_steps_are_learned_from_backwards() -> None:
    """A reward at the end of three steps is known at the first of them after one update; forwards it would take three."""
    made = config(gamma=0.5, learning_rate=1.0, n_envs=1, train_freq=3)
    plan: Any = assembly.plan_for(made, env := envs.make(made.env, [0], 1))
    assert (plan.memory.rows, plan.batch_rows, made.cycle_size) == (3, 3, 3)
    assert env.n_envs == 1
    state = replay_assembly.fresh_learner(plan, [0], 1)
    hot = torch.eye(16)
    batch = Batch(
        obs=hot[[0, 1, 2]].unsqueeze(0),
        action=torch.tensor([[[1], [1], [1]]]),
        reward=torch.tensor([[0.0, 0.0, 8.0]]),
        discount=torch.tensor([[0.5, 0.5, 0.0]]),
        next_obs=hot[[1, 2, 3]].unsqueeze(0),
    )
    hp = SimpleNamespace(learning_rate=torch.tensor([[1.0]]), gamma=torch.tensor([[0.5]]))
    found = q_learning.update(plan, state, batch, hp, None, None)
    values = plan.nets["q"].params(state.nets["q"])[f"{HEAD}.weight"]
    assert values[0, 1, :3].tolist() == [2.0, 4.0, 8.0]
    assert values[0, 4 + 1, :3].tolist() == [1.0, 1.0, 1.0]
    assert found["target"].tolist() == [[2.0, 4.0, 8.0]]  # in the order of time


def test_optimism_with_episodes_learned_backwards_finds_a_deep_treasure_and_one_step_at_a_time_does_not_yet() -> None:
    def treasure(train_freq: int) -> float:
        made = files.load(
            "DeepSea-v0:q_learning",
            [f"algo.train_freq={train_freq}", "run.max_env_steps=800", "env.kwargs.mapping_seed=5"],
        ).config
        return float(table(made, (0,))[0][0, 99].max())  # the last cell before it

    assert treasure(10) > 0.9
    assert treasure(1) < 0.5


def test_a_member_beside_others_learns_as_it_does_alone(tmp_path: Path) -> None:
    members = [config(steps=600, learning_rate=rate) for rate in (0.1, 0.9)]
    together = train(tmp_path / "both", members)
    alone = train(tmp_path / "one", members[1:])
    assert_same_run(together[1], alone[0])


def test_values_begin_as_the_config_says() -> None:
    found, visits = table(config(steps=100, initial_value=2.5, learning_rate=1e-6))
    assert np.abs(found - 2.5).max() < 1e-3
    assert visits.sum() == 2 * 100


def test_an_environment_without_states_is_refused() -> None:
    made = config("CartPole-v1")
    with pytest.raises(ConfigError, match="no row to look up"):
        replay_assembly.plan_for(made, envs.make(made.env, [0], 4))


class DeepSea(gymnasium.Env):
    """n steps down; each to the right costs a little, and only who always goes right finds the one reward."""

    def __init__(self, n: int = 6) -> None:
        self.n = n
        self.observation_space, self.action_space = gymnasium.spaces.Discrete(n * n), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[int, dict]:
        super().reset(seed=seed)
        self.row = self.column = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict]:
        found = action == 1 and self.column == self.row == self.n - 1
        self.column = min(self.column + 1, self.n - 1) if action == 1 else max(self.column - 1, 0)
        self.row += 1
        ended = self.row == self.n
        return 0 if ended else self.row * self.n + self.column, float(found) - 0.01 / self.n * (action == 1), ended, False, {}


def test_a_hopeful_table_finds_the_one_reward_of_a_deep_sea_with_general_settings(tmp_path: Path) -> None:
    """Rewards that are scaled before the first success turn tiny costs into large ones, and hope is lost before it is found."""
    hopeful = ["algo.name=q_learning", "algo.initial_value=1", "algo.exploration_initial_eps=0", "algo.exploration_final_eps=0"]
    budget = ["run.max_env_steps=3000", "run.eval_every_env_steps=3000", "run.eval_episodes=1"]
    config = files.load("Blackjack-v1", [*hopeful, *budget]).config
    group = rlclinic.train(config, env=DeepSea, runs_dir=tmp_path)
    assert group.runs[0].status.best_eval == pytest.approx(0.99)


@pytest.mark.parametrize(("exploration", "finds"), [("optimistic", True), ("ucb", False)])
def test_hope_that_is_learned_towards_finds_what_hope_in_acting_alone_does_not(exploration: str, finds: bool, tmp_path: Path) -> None:
    """Of 1,024 dives one finds the treasure; 120 are made, two at a time."""
    settings = [f"algo.exploration={exploration}", "algo.learning_rate=1", "algo.gamma=1", "env.n_envs=2"]
    budget = ["run.max_env_steps=2400", "run.eval_every_env_steps=2400", "run.eval_episodes=1"]
    group = rlclinic.train(files.load("DeepSea-v0:q_learning", [*settings, *budget]).config, runs_dir=tmp_path)
    assert (group.runs[0].status.best_eval == pytest.approx(0.99)) is finds
