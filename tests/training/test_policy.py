"""A trained policy outside of training: it does what training did, in the environment's own observations and actions."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from rlclinic.errors import NotFound, UsageError
from rlclinic.runs.record import Run
from rlclinic.training import policy as policies
from rlclinic.training.nets import mlp
from tests.training import tasks
from tests.training.cohorts import make_config, train

KINDS = ("discrete", "box", "multi_discrete", "multi_binary")


def trained(folder: Path, env: dict[str, Any], factory: Any = None, **changes: Any) -> Run:
    return train(folder, [make_config(env=env, run={"max_env_steps": 64, "eval_episodes": 3}, **changes)], factory=factory)[0]


class Mixture(gym.Env[Any, Any]):
    """Observations and actions of the less usual kinds: a Dict to look at, and choices that begin at 3."""

    observation_space = gym.spaces.Dict({"where": gym.spaces.Discrete(4, start=1), "speed": gym.spaces.Box(-1, 1, (2, 2), np.float32)})
    action_space = gym.spaces.Discrete(2, start=3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.observation_space.seed(int(self.np_random.integers(1_000)))
        self.taken = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        self.taken += 1
        return self.observation_space.sample(), 1.0, self.taken >= 5, False, {}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("deterministic", [True, False])
def test_actions_are_ones_that_the_env_accepts_in_every_kind_of_space(tmp_path: Path, kind: str, deterministic: bool) -> None:
    run = trained(tmp_path, {"id": "Signs", "kwargs": {"kind": kind}}, tasks.Signs)
    policy, env = policies.load(run, "@last", tasks.Signs), tasks.Signs(kind)
    obs, _ = env.reset(seed=1)
    for _ in range(4):
        action = policy.act(obs, deterministic=deterministic)
        assert env.action_space.contains(action)
        obs, *_ = env.step(action)


@pytest.mark.parametrize("deterministic", [True, False])
def test_observations_and_actions_of_unusual_spaces_are_translated(tmp_path: Path, deterministic: bool) -> None:
    run = trained(tmp_path, {"id": "Mixture"}, Mixture)
    assert run.status.state == "finished"
    policy, env = policies.load(run, "@last", Mixture), Mixture()
    obs, _ = env.reset(seed=1)
    assert {int(policy.act(obs, deterministic=deterministic)) for _ in range(20)} <= {3, 4}


def by_hand(run: Run, obs: np.ndarray) -> torch.Tensor:
    """The distribution's parameters, from the saved files alone."""
    from safetensors.torch import load_file

    saved = load_file(run.checkpoint("@last").path / "policy.safetensors")
    x = torch.as_tensor(obs, dtype=torch.float32)
    if "obs_stats.mean" in saved:
        x = ((x - saved["obs_stats.mean"]) / (saved["obs_stats.var"] + 1e-8).sqrt()).float().clamp(-10, 10)
    hidden = torch.tanh(x @ saved["actor.0.weight"] + saved["actor.0.bias"][0])
    return hidden @ saved["policy.weight"].T + saved["policy.bias"][0]


@pytest.mark.parametrize("normalize", [False, True])
def test_the_greedy_action_is_that_of_the_saved_weights_and_normalizers(tmp_path: Path, normalize: bool) -> None:
    run = trained(tmp_path, {"id": "Pendulum-v1", "normalize_obs": normalize}, net={"policy_gain": 1.0})
    policy = policies.load(run, "@last")
    for seed in range(5):
        obs = gym.make("Pendulum-v1").reset(seed=seed)[0]
        action = policy.act(obs)
        assert action.shape == (1,)
        torch.testing.assert_close(torch.from_numpy(action), by_hand(run, obs).clamp(-2, 2), rtol=1e-4, atol=1e-5)


def test_actions_of_a_box_are_clipped_to_its_bounds(tmp_path: Path) -> None:
    run = trained(tmp_path, {"id": "Pendulum-v1"}, net={"log_std_init": 1.9})
    policy = policies.load(run, "@last")
    actions = np.array([policy.act(np.zeros(3, np.float32), deterministic=False) for _ in range(50)])
    assert actions.min() == -2.0
    assert actions.max() == 2.0
    assert len(np.unique(actions)) > 5


def test_sampled_actions_differ_from_call_to_call_and_follow_the_policys_probabilities(tmp_path: Path) -> None:
    run = trained(tmp_path, {"id": "CartPole-v1"})
    policy, obs = policies.load(run, "@last"), np.zeros(4, np.float32)
    drawn = [int(policy.act(obs, deterministic=False)) for _ in range(400)]
    share = torch.softmax(by_hand(run, obs), -1)[1].item()
    assert np.mean(drawn) == pytest.approx(share, abs=0.1)
    again = policies.load(run, "@last")
    assert [int(again.act(obs, deterministic=False)) for _ in range(20)] == drawn[:20]


def test_a_discrete_observation_is_given_as_the_env_gives_it(tmp_path: Path) -> None:
    run = trained(tmp_path, {"id": "FrozenLake-v1"})
    policy = policies.load(run, "@last")
    params = policy._plan.policy.layout.views(policy._learner.flat)
    for state in (0, 7, 15):
        one_hot = torch.nn.functional.one_hot(torch.tensor([[state]]), 16).float()
        assert int(policy.act(state)) == mlp.actor(policy._plan.policy, params, one_hot).argmax().item()


@pytest.mark.parametrize("probe", ["probe:5", "probe:continuous"])
def test_a_policy_of_a_probe_acts_too(tmp_path: Path, probe: str) -> None:
    policy = policies.load(trained(tmp_path, {"id": probe}), "@last")
    action = policy.act(np.array([1.0], np.float32))
    assert action in (0, 1) if probe == "probe:5" else action.shape == (1,)


def test_a_masked_action_is_never_chosen(tmp_path: Path) -> None:
    policy = policies.load(trained(tmp_path, {"id": "Taxi-v3", "action_mask": True, "max_episode_steps": 20}), "@last")
    for allowed in range(6):
        mask = np.arange(6) == allowed
        assert int(policy.act(17, action_mask=mask)) == allowed
        assert int(policy.act(17, deterministic=False, action_mask=mask.astype(np.int8))) == allowed


def test_evaluating_a_policy_repeats_the_evaluation_of_training(tmp_path: Path) -> None:
    run = trained(tmp_path, {"id": "Pendulum-v1", "normalize_obs": True, "max_episode_steps": 20})
    found = policies.load(run, "@last").evaluate(3)
    _, mean, std = run.evaluations
    assert found.returns.mean() == mean[-1]
    assert found.returns.std() == std[-1]


def test_a_policy_that_needs_the_past_says_so_instead_of_acting_wrongly(tmp_path: Path) -> None:
    for env in ({"frame_stack": 2}, {"time_in_obs": True}):
        policy = policies.load(trained(tmp_path, {"id": "CartPole-v1", "max_episode_steps": 20, **env}), "@last")
        with pytest.raises(UsageError, match=next(iter(env))):
            policy.act(np.zeros(4, np.float32))
        assert policy.evaluate(2).returns.shape == (1, 2)


def test_the_best_the_last_and_a_step_can_be_loaded_and_nothing_else(tmp_path: Path) -> None:
    run = train(tmp_path, [make_config(run={"eval_every_env_steps": 32})])[0]
    assert run.policy("@last").env_steps == 160
    assert run.policy().env_steps == run.checkpoint("@best").step
    assert run.policy("128").env_steps == 128
    with pytest.raises(NotFound, match="there: "):
        run.policy("17")


def test_an_env_that_breaks_raises_what_broke(tmp_path: Path) -> None:
    policy = policies.load(trained(tmp_path, {"id": "Signs"}, tasks.Signs), "@last", lambda: tasks.Fragile(last=2))
    with pytest.raises(Exception, match="the simulator fell over"):
        policy.evaluate(2)


class Two(gym.vector.SyncVectorEnv):
    """A vector of two, always."""

    def __init__(self) -> None:
        super().__init__([tasks.Signs, tasks.Signs], autoreset_mode=gym.vector.AutoresetMode.NEXT_STEP)


@pytest.mark.parametrize("factory", [tasks.Resetting, Two])
def test_a_policy_that_was_trained_in_a_vector_env_acts_on_single_observations(tmp_path: Path, factory: Any) -> None:
    config = make_config(env={"id": "Vector"}, run={"max_env_steps": 64, "eval_episodes": 2})
    run = train(tmp_path, [config], factory=factory)[0]
    assert run.status.state == "finished", run.status.reason
    policy, env = policies.load(run, "@last", factory), tasks.Signs()
    obs, _ = env.reset(seed=1)
    assert env.action_space.contains(policy.act(obs))
    assert policy.evaluate(2).returns.shape == (1, 2)
