"""How fast we train a MuJoCo robot next to Stable-Baselines3: PPO on HalfCheetah-v5 with rl-zoo3's settings, one thread.

Measured as benchmarks.speed does: pairs one after the other, training loop only, evaluation off; a piece of a run of full length.
"""

from benchmarks import speed
from benchmarks.speed import LOOP, Contest, Row

CONTESTS = {
    "halfcheetah": Contest(
        "HalfCheetah-v5", "ppo", 1, 20_480, 5_120,
        (Row(LOOP, "PPO HalfCheetah-v5, 1 env, 1 thread, training loop", 1.5, 2.5, True),),
        peer="benchmarks.sb3.wide", piece=True,
    ),
}  # fmt: skip


if __name__ == "__main__":
    speed.main(CONTESTS, "mujoco", __doc__)
