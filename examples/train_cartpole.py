"""Train four seeds of CartPole in this process, look at how they did, and act with the best policy.

python examples/train_cartpole.py [ENV_STEPS]
"""

import sys

import gymnasium

import rlclinic

env_steps = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
group = rlclinic.train("CartPole-v1:ppo", seeds=4, overrides=[f"run.max_env_steps={env_steps}"])
summary = group.summary
print(f"{group.id}: {summary.verdict}, {summary.n_reached} of {len(group.runs)} seeds reached {group.threshold:g}")

policy = group.runs[0].policy("@best")
env = gymnasium.make("CartPole-v1")
obs, _ = env.reset(seed=1)
total, over = 0.0, False
while not over:
    obs, reward, terminated, truncated, _ = env.step(policy.act(obs))
    total += float(reward)
    over = terminated or truncated
print(f"one episode with the policy of env step {policy.env_steps}: {total:g}")
