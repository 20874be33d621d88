"""Train a variant with the budget that it has, without evaluations, and stop after so many env steps: a piece of a long run.

A short budget would not do: what is done so many times in a run (costly sentinels, checkpoints) would fill it.
"""

import argparse

import rlclinic


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ref", help="a variant, such as ALE/Pong-v5:ppo")
    parser.add_argument("--steps", type=int, required=True)
    args = parser.parse_args()
    without = ["run.eval_every_env_steps=none", "run.eval_episodes=0"]
    rlclinic.train(args.ref, callback=lambda row: row["total_timesteps"] < args.steps, overrides=without)


if __name__ == "__main__":
    main()
