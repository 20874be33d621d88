"""How fast we train from a screen next to Stable-Baselines3: PPO on Pong with rl-zoo3's settings, eight games, one thread.

Measured as benchmarks.speed does: pairs one after the other, training loop only, evaluation off; a piece of a run of full length. Env
steps are agent steps, four frames each. Both sides step the games in the training process; ours are ALE's own vector environment, SB3's
are Gymnasium's with its wrappers. The second line lets our convolutions compute in bfloat16 (net.image_precision), for which SB3 has no
setting: other arithmetic, then.
"""

from benchmarks import speed
from benchmarks.speed import LOOP, Contest, Row

CONTESTS = {
    "pong": Contest(
        "ALE/Pong-v5", "ppo", 1, 10_240, 4_096,
        (Row(LOOP, "PPO Pong, 8 envs, 1 thread, agent steps a second, training loop", 1.3, 2.0, True),),
        peer="benchmarks.sb3.wide", piece=True,
    ),
    "pong_bfloat16": Contest(
        "ALE/Pong-v5", "ppo_bfloat16", 1, 10_240, 4_096,
        (Row(LOOP, "PPO Pong, 8 envs, 1 thread, our convolutions in bfloat16, training loop", 1.3, 2.0, True),),
        peer="benchmarks.sb3.wide", piece=True,
    ),
}  # fmt: skip


if __name__ == "__main__":
    speed.main(CONTESTS, "images", __doc__)
