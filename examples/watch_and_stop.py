"""Watch a run from a callback, stop it when it is good enough, then go on from a checkpoint with another learning rate.

python examples/watch_and_stop.py [ENV_STEPS]
"""

import sys
from typing import Any

import rlclinic

env_steps = int(sys.argv[1]) if len(sys.argv) > 1 else 60_000


def good_enough(row: dict[str, Any]) -> bool:
    """Called with every row of metrics.csv; False stops the run at a checkpoint."""
    evaluated = row.get("val/roll/ep_rew_mean")
    if evaluated is not None:
        print(f"{row['total_timesteps']:>7} env steps: evaluation {evaluated:.0f}, KL {row['train/metrics/kl_divergence']:.3f}")
    return (evaluated or 0) < 450


group = rlclinic.train("CartPole-v1:ppo", callback=good_enough, overrides=[f"run.max_env_steps={env_steps}"])
run = group.runs[0]
print(f"{run.id} {run.status.state} at env step {run.status.env_steps}; checkpoints at {[each.step for each in run.checkpoints]}")

# The folder is all there is: load it again, from here or from another program.
again = rlclinic.load_run(run.path)
print("greedy return over 20 episodes:", again.policy("@best").evaluate(20).returns.mean())
