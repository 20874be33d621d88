# REINFORCE with a learned baseline, step by step
# ------------------------------------------------
# We play whole episodes with the current policy, work out how much reward came after every step, and make the
# actions that turned out better than expected more likely. "Expected" is what a second little network says.

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

SEED = 42
GAMMA = 0.99
LR_POLICY = 1e-3
LR_VALUE = 3e-3
EPISODES_PER_UPDATE = 4
NUM_UPDATES = 250
EVAL_EVERY = 25
ENTROPY_BONUS = 0.003

torch.manual_seed(SEED)
np.random.seed(SEED)

env = gym.make("CartPole-v1")
eval_env = gym.make("CartPole-v1")
n_inputs = env.observation_space.shape[0]
n_actions = env.action_space.n


# --- 1. the two networks ---
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(n_inputs, 64)
        self.fc2 = nn.Linear(64, n_actions)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        return F.softmax(self.fc2(x), dim=-1)


class Baseline(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(n_inputs, 64)
        self.fc2 = nn.Linear(64, 1)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x))).squeeze(-1)


policy = Policy()
baseline = Baseline()
policy_opt = optim.Adam(policy.parameters(), lr=LR_POLICY)
baseline_opt = optim.Adam(baseline.parameters(), lr=LR_VALUE)


# --- 2. playing ---
def pick(state):
    """Draw an action; also return its log-probability and the entropy, both with their gradient."""
    probs = policy(torch.from_numpy(state))
    dist = torch.distributions.Categorical(probs)
    action = dist.sample()
    return action.item(), dist.log_prob(action), dist.entropy()


def play_episode(seed=None):
    states, log_probs, entropies, rewards = [], [], [], []
    state, _ = env.reset(seed=seed)
    while True:
        action, log_prob, entropy = pick(state)
        states.append(state)
        log_probs.append(log_prob)
        entropies.append(entropy)

        state, reward, terminated, truncated, _ = env.step(action)
        rewards.append(reward)
        if terminated:
            tail = 0.0
            break
        if truncated:
            # The pole still stood. What the baseline expects from here on is the best guess we have.
            with torch.no_grad():
                tail = baseline(torch.from_numpy(state)).item()
            break
    return states, log_probs, entropies, rewards, tail


# --- 3. rewards to go ---
def rewards_to_go(rewards, tail):
    G = tail
    out = []
    for r in reversed(rewards):
        G = r + GAMMA * G
        out.append(G)
    out.reverse()
    return out


# --- 4. how good is it without the dice? ---
def evaluate(n=5):
    scores = []
    for k in range(n):
        state, _ = eval_env.reset(seed=1000 + k)
        score = 0
        finished = False
        while not finished:
            with torch.no_grad():
                best = policy(torch.from_numpy(state)).argmax().item()
            state, reward, terminated, truncated, _ = eval_env.step(best)
            score += reward
            finished = terminated or truncated
        scores.append(score)
    return sum(scores) / len(scores)


# --- 5. learning ---
first = True
for update in range(1, NUM_UPDATES + 1):
    all_states, all_log_probs, all_entropies, all_returns, lengths = [], [], [], [], []
    for _ in range(EPISODES_PER_UPDATE):
        states, log_probs, entropies, rewards, tail = play_episode(seed=SEED if first else None)
        first = False
        all_states += states
        all_log_probs += log_probs
        all_entropies += entropies
        all_returns += rewards_to_go(rewards, tail)
        lengths.append(len(rewards))

    batch_states = torch.from_numpy(np.stack(all_states))
    batch_returns = torch.tensor(all_returns, dtype=torch.float32)
    batch_log_probs = torch.stack(all_log_probs)
    batch_entropies = torch.stack(all_entropies)

    # the baseline learns to predict the return...
    predicted = baseline(batch_states)
    baseline_loss = F.mse_loss(predicted, batch_returns)
    baseline_opt.zero_grad()
    baseline_loss.backward()
    baseline_opt.step()

    # ...and the policy learns from the difference, which is a plain number here
    advantage = batch_returns - predicted.detach()
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    policy_loss = -(batch_log_probs * advantage).mean() - ENTROPY_BONUS * batch_entropies.mean()
    policy_opt.zero_grad()
    policy_loss.backward()
    policy_opt.step()

    if update % EVAL_EVERY == 0:
        print(f"update {update:4d}  train length {np.mean(lengths):6.1f}  greedy {evaluate():6.1f}  v-loss {baseline_loss.item():.1f}")

env.close()
eval_env.close()
