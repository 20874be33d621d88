from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import VecFrameStack


def linear(initial):
    def schedule(progress_remaining):
        return progress_remaining * initial

    return schedule


if __name__ == "__main__":
    venv = VecFrameStack(make_atari_env("PongNoFrameskip-v4", n_envs=8, seed=0), n_stack=4)
    model = PPO("CnnPolicy", venv, n_steps=128, n_epochs=4, batch_size=256, learning_rate=linear(2.5e-4), clip_range=linear(0.1), vf_coef=0.5, ent_coef=0.01, seed=0)
    model.learn(10_000_000)
    model.save("pong")
