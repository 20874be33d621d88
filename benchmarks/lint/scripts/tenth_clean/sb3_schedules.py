"""PPO with schedules for step size and clip range, frame-stacked observations and normalization that travels with the model."""
import sys

from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecFrameStack, VecNormalize

BUDGET = int(sys.argv[1]) if len(sys.argv) > 1 else 300_000


def falling(first, last=0.0):
    return lambda progress_remaining: last + progress_remaining * (first - last)


def wrapped(n, seed, **normalize):
    return VecNormalize(VecFrameStack(make_vec_env("Pendulum-v1", n, seed=seed), 3), gamma=0.9, **normalize)


if __name__ == "__main__":
    env = wrapped(4, 0)
    watch = wrapped(1, 1234, training=False, norm_reward=False)
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=1024,
        gamma=0.9,  # ten steps see what a torque does
        learning_rate=falling(1e-3, 1e-5),
        clip_range=falling(0.3, 0.1),
        use_sde=True,
        sde_sample_freq=4,
        seed=0,
    )
    model.learn(BUDGET, callback=EvalCallback(watch, eval_freq=2500, verbose=1))
    model.save("pendulum")
    env.save("pendulum.pkl")
    again = VecNormalize.load("pendulum.pkl", VecFrameStack(make_vec_env("Pendulum-v1", 1, seed=7), 3))
    again.training = again.norm_reward = False
    player = PPO.load("pendulum", env=again)
    obs, total, n = again.reset(), 0.0, 0
    while n < 10:
        obs, reward, done, _ = again.step(player.predict(obs, deterministic=True)[0])
        total, n = total + reward[0], n + int(done[0])
    print("mean return", total / n)
