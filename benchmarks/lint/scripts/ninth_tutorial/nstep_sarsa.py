# %% [markdown]
# # n-step SARSA on the cliff
#
# One-step SARSA looks one reward ahead, Monte Carlo looks at all of them. n-step methods lie in between:
#
#   G = R[tau+1] + g R[tau+2] + ... + g^(n-1) R[tau+n] + g^n Q(S[tau+n], A[tau+n])
#
# We follow the pseudo-code of Sutton & Barto, chapter 7.2: time t runs ahead, and the update is made for tau = t - n + 1.

# %%
import argparse

import gymnasium as gym
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--episodes", type=int, default=600)
EPISODES = parser.parse_known_args()[0].episodes

N_STEPS = 4
ALPHA = 0.2
GAMMA = 0.98
EPS_START, EPS_END, EPS_DECAY = 0.5, 0.02, 0.99
MAX_STEPS = 300

env = gym.make("CliffWalking-v1", max_episode_steps=MAX_STEPS)
rng = np.random.default_rng(7)
n_states = env.observation_space.n
n_actions = env.action_space.n


# %%
def epsilon_greedy(Q, state, epsilon):
    if rng.random() < epsilon:
        return int(rng.integers(n_actions))
    best = np.flatnonzero(Q[state] == Q[state].max())  # ties are broken at random
    return int(rng.choice(best))


def n_step_return(rewards, tau, end):
    """Discounted rewards R[tau+1] ... R[end]; rewards[0] is a filler, so that indices agree with the book's."""
    total = 0.0
    for i in range(tau + 1, end + 1):
        total += GAMMA ** (i - tau - 1) * rewards[i]
    return total


# %%
def run_episode(Q, epsilon, seed=None):
    state, _ = env.reset(seed=seed)
    action = epsilon_greedy(Q, state, epsilon)
    states, actions, rewards = [state], [action], [0.0]
    T = float("inf")
    dead = False
    t = 0
    while True:
        if t < T:
            next_state, reward, terminated, truncated, _ = env.step(actions[t])
            states.append(next_state)
            rewards.append(float(reward))
            if terminated or truncated:
                T = t + 1
                dead = terminated
            # where a time limit cut the episode off, this action is needed for the bootstrap all the same
            actions.append(epsilon_greedy(Q, next_state, epsilon))

        tau = t - N_STEPS + 1
        if tau >= 0:
            end = min(tau + N_STEPS, T)
            G = n_step_return(rewards, tau, end)
            if end < T or not dead:
                G += GAMMA ** (end - tau) * Q[states[end], actions[end]]
            s, a = states[tau], actions[tau]
            Q[s, a] += ALPHA * (G - Q[s, a])
        if tau == T - 1:
            break
        t += 1
    return sum(rewards)


def evaluate(Q, episodes=5):
    """The greedy policy, without exploration."""
    scores = []
    for _ in range(episodes):
        state, _ = env.reset()
        score, over = 0.0, False
        while not over:
            state, reward, terminated, truncated, _ = env.step(int(Q[state].argmax()))
            score += reward
            over = terminated or truncated
        scores.append(score)
    return float(np.mean(scores))


# %%
Q = np.zeros((n_states, n_actions))
epsilon = EPS_START
history = []
for episode in range(EPISODES):
    history.append(run_episode(Q, epsilon, seed=episode))
    epsilon = max(EPS_END, epsilon * EPS_DECAY)
    if (episode + 1) % 100 == 0:
        print(f"episode {episode + 1:4d}  mean return {np.mean(history[-100:]):8.1f}  epsilon {epsilon:.3f}")

# %%
print("greedy policy:", evaluate(Q))
arrows = np.array(list("^>v<"))
print("\n".join("".join(row) for row in arrows[Q.argmax(axis=1)].reshape(4, 12)))
