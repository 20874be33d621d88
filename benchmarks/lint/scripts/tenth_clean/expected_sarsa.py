# Expected SARSA on the cliff: the target is the policy's mean over the next actions, so no next action is drawn for it.
import gymnasium as gym
import numpy as np

rng = np.random.default_rng(1)
env = gym.make("CliffWalking-v1", max_episode_steps=500)
nS, nA = env.observation_space.n, env.action_space.n
q = np.zeros((nS, nA))
alpha, gamma = 0.5, 1.0  # the task is episodic and each step costs one: no discount is needed


def probabilities(state, eps):
    p = np.full(nA, eps / nA)
    best = np.flatnonzero(q[state] == q[state].max())
    p[best] += (1.0 - eps) / len(best)
    return p


state, _ = env.reset(seed=1)
total, totals = 0.0, []
for step in range(20_000):
    eps = max(0.05, 0.3 * 0.9995**step)
    action = rng.choice(nA, p=probabilities(state, eps))
    new, reward, goal, late, _ = env.step(action)
    future = 0.0 if goal else q[new] @ probabilities(new, eps)
    q[state, action] += alpha * (reward + gamma * future - q[state, action])
    total += reward
    state = new
    if goal or late:
        totals.append(total)
        total = 0.0
        state, _ = env.reset()
print("mean of the last 20 episodes:", np.mean(totals[-20:]))
