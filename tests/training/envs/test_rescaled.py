import torch

from rlclinic.config import Config, EnvConfig, set_values
from rlclinic.training import envs
from rlclinic.training.maths import normalize


def config(*changes: str) -> Config:
    return set_values(Config.model_validate({"env": {"id": "CartPole-v1"}}), list(changes))


def test_a_factor_turns_every_reward_around_in_training_and_in_evaluation() -> None:
    for evaluation in (False, True):
        env = envs.make(config("env.reward_scale=-2").env, [0, 1], 3, evaluation=evaluation)
        env.reset()
        step = env.step(torch.zeros(2, 3, dtype=torch.int64))
        assert step.reward.tolist() == [[-2.0] * 3] * 2
        env.close()


def test_an_environment_behind_a_factor_can_be_saved_and_goes_on_from_there() -> None:
    env = envs.make(config("env.reward_scale=-1").env, [0], 2)
    env.reset()
    action = torch.zeros(1, 2, dtype=torch.int64)
    env.step(action)
    saved = env.state()
    onward = env.step(action)
    other = envs.make(config("env.reward_scale=-1").env, [0], 2)
    other.reset()
    other.load_state(saved)
    assert torch.equal(other.step(action).obs, onward.obs)


def test_what_is_learned_from_is_scaled_then_shifted_then_cut() -> None:
    reward = torch.tensor([[[1.0, -3.0]]])
    assert normalize.learned(reward, EnvConfig(id="CartPole-v1")) is reward
    changed = EnvConfig(id="CartPole-v1", train_reward_scale=-2.0, train_reward_shift=1.0, clip_raw_reward=5.0)
    assert normalize.learned(reward, changed).tolist() == [[[-1.0, 5.0]]]
