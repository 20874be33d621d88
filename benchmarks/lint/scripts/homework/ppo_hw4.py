"""
Assignment 4: Proximal Policy Optimization
Environment: Acrobot-v1 (discrete actions)

I follow the pseudo code from the lecture slides. Comments explain every step.
"""
import os

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn

# ----- settings -----
total_steps = int(os.environ.get("STEPS", 100000))
steps_per_rollout = min(2048, total_steps)
num_epochs = 10
minibatch_size = 64
gamma = 0.99
gae_lambda = 0.95
clip_eps = 0.2
learning_rate = 0.0003
entropy_coefficient = 0.01
value_coefficient = 0.5
max_grad_norm = 0.5
seed = 1

np.random.seed(seed)
torch.manual_seed(seed)


# ----- the actor (policy) -----
class Actor(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.fc1 = nn.Linear(n_obs, 64)
        self.fc2 = nn.Linear(64, 64)
        self.fc3 = nn.Linear(64, n_act)

    def forward(self, x):
        x = torch.tanh(self.fc1(x))
        x = torch.tanh(self.fc2(x))
        return self.fc3(x)  # these are logits, not probabilities

    def distribution(self, x):
        logits = self.forward(x)
        return torch.distributions.Categorical(logits=logits)


# ----- the critic (value function) -----
class Critic(nn.Module):
    def __init__(self, n_obs):
        super().__init__()
        self.fc1 = nn.Linear(n_obs, 64)
        self.fc2 = nn.Linear(64, 64)
        self.fc3 = nn.Linear(64, 1)

    def forward(self, x):
        x = torch.tanh(self.fc1(x))
        x = torch.tanh(self.fc2(x))
        return self.fc3(x).squeeze(-1)  # shape [N]


def compute_advantages(rewards, values, next_values, terminateds, dones):
    """Generalized advantage estimation, computed backwards in time with numpy.

    terminateds: 1 if the state after this step is terminal (no bootstrap)
    dones:       1 if the episode ended for any reason (the sum must not cross it)
    """
    n = len(rewards)
    advantages = np.zeros(n, dtype=np.float32)
    last_advantage = 0.0
    for t in reversed(range(n)):
        # TD error
        delta = rewards[t] + gamma * next_values[t] * (1.0 - terminateds[t]) - values[t]
        # recursion
        last_advantage = delta + gamma * gae_lambda * (1.0 - dones[t]) * last_advantage
        advantages[t] = last_advantage
    # the value targets
    returns = advantages + values
    return advantages, returns


env = gym.make("Acrobot-v1")
n_obs = env.observation_space.shape[0]
n_act = int(env.action_space.n)

actor = Actor(n_obs, n_act)
critic = Critic(n_obs)
# one optimizer for both networks
all_parameters = list(actor.parameters()) + list(critic.parameters())
optimizer = torch.optim.Adam(all_parameters, lr=learning_rate, eps=1e-5)

obs, _ = env.reset(seed=seed)
episode_reward = 0.0
episode_rewards = []
global_step = 0

while global_step < total_steps:
    # ---------- 1. collect data with the current policy ----------
    obs_list = []
    action_list = []
    logprob_list = []
    reward_list = []
    value_list = []
    next_value_list = []
    terminated_list = []
    done_list = []

    for _ in range(steps_per_rollout):
        obs_tensor = torch.tensor(obs, dtype=torch.float32)
        with torch.no_grad():
            dist = actor.distribution(obs_tensor)
            action = dist.sample()
            logprob = dist.log_prob(action)
            value = critic(obs_tensor)

        next_obs, reward, terminated, truncated, _ = env.step(action.item())
        done = terminated or truncated

        with torch.no_grad():
            next_value = critic(torch.tensor(next_obs, dtype=torch.float32))

        # save everything
        obs_list.append(obs)
        action_list.append(action.item())
        logprob_list.append(logprob.item())
        reward_list.append(reward)
        value_list.append(value.item())
        next_value_list.append(next_value.item())
        terminated_list.append(float(terminated))
        done_list.append(float(done))

        episode_reward += reward
        global_step += 1
        obs = next_obs
        if done:
            episode_rewards.append(episode_reward)
            episode_reward = 0.0
            obs, _ = env.reset()

    # ---------- 2. advantages ----------
    advantages, returns = compute_advantages(
        np.array(reward_list), np.array(value_list), np.array(next_value_list),
        np.array(terminated_list), np.array(done_list))

    b_obs = torch.tensor(np.array(obs_list), dtype=torch.float32)
    b_actions = torch.tensor(action_list, dtype=torch.int64)
    b_logprobs = torch.tensor(logprob_list, dtype=torch.float32)
    b_advantages = torch.tensor(advantages, dtype=torch.float32)
    b_returns = torch.tensor(returns, dtype=torch.float32)

    # ---------- 3. update ----------
    for epoch in range(num_epochs):
        permutation = np.random.permutation(steps_per_rollout)
        for start in range(0, steps_per_rollout, minibatch_size):
            mb = permutation[start:start + minibatch_size]
            if len(mb) < 2:
                continue

            mb_adv = b_advantages[mb]
            mb_adv = (mb_adv - mb_adv.mean()) / (mb_adv.std() + 1e-8)

            dist = actor.distribution(b_obs[mb])
            new_logprob = dist.log_prob(b_actions[mb])
            entropy = dist.entropy().mean()

            # probability ratio pi_new / pi_old
            ratio = torch.exp(new_logprob - b_logprobs[mb])
            surrogate1 = ratio * mb_adv
            surrogate2 = torch.clamp(ratio, 1 - clip_eps, 1 + clip_eps) * mb_adv
            # minus because we do gradient ASCENT on the objective
            policy_loss = -torch.min(surrogate1, surrogate2).mean()

            value_prediction = critic(b_obs[mb])
            value_loss = ((value_prediction - b_returns[mb]) ** 2).mean()

            loss = policy_loss + value_coefficient * value_loss - entropy_coefficient * entropy

            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(all_parameters, max_grad_norm)
            optimizer.step()

    if len(episode_rewards) > 0:
        print("steps", global_step, "mean reward", np.mean(episode_rewards[-10:]), "entropy", entropy.item())

# ---------- final test ----------
test_env = gym.make("Acrobot-v1")
test_rewards = []
for i in range(3):
    obs, _ = test_env.reset(seed=500 + i)
    total = 0.0
    done = False
    while not done:
        with torch.no_grad():
            action = actor(torch.tensor(obs, dtype=torch.float32)).argmax().item()
        obs, reward, terminated, truncated, _ = test_env.step(action)
        total += reward
        done = terminated or truncated
    test_rewards.append(total)
print("test reward:", np.mean(test_rewards))
