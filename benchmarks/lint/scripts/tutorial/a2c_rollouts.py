import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical

seed = 7
torch.manual_seed(seed)
env = gym.make("Acrobot-v1")
n_obs, n_act = env.observation_space.shape[0], env.action_space.n
actor = nn.Sequential(nn.Linear(n_obs, 64), nn.Tanh(), nn.Linear(64, n_act), nn.Softmax(dim=-1))
critic = nn.Sequential(nn.Linear(n_obs, 64), nn.Tanh(), nn.Linear(64, 1))
actor_opt = torch.optim.Adam(actor.parameters(), lr=7e-4)
critic_opt = torch.optim.Adam(critic.parameters(), lr=1e-3)


def discounted_returns(rewards, ended, bootstrap, gamma=0.99):
    R = bootstrap
    out = np.zeros(len(rewards), dtype=np.float32)
    for i in range(len(rewards) - 1, -1, -1):
        R = rewards[i] + gamma * R * (1 - ended[i])
        out[i] = R
    return torch.from_numpy(out)


state, _ = env.reset(seed=seed)
for update in range(3000):
    states, actions, rewards, ended = [], [], [], []
    for _ in range(32):
        with torch.no_grad():
            probs = actor(torch.as_tensor(state, dtype=torch.float32))
        action = Categorical(probs).sample().item()
        next_state, reward, terminated, truncated, _ = env.step(action)
        if truncated and not terminated:
            with torch.no_grad():
                reward += 0.99 * critic(torch.as_tensor(next_state, dtype=torch.float32)).item()
        states.append(state)
        actions.append(action)
        rewards.append(reward)
        ended.append(terminated or truncated)
        state = next_state
        if terminated or truncated:
            state, _ = env.reset()

    with torch.no_grad():
        bootstrap = critic(torch.as_tensor(state, dtype=torch.float32)).item()
    returns = discounted_returns(rewards, ended, bootstrap)
    S = torch.as_tensor(np.array(states), dtype=torch.float32)
    A = torch.as_tensor(actions)
    values = critic(S).squeeze(1)
    advantages = (returns - values).detach()
    dist = Categorical(actor(S))
    actor_loss = -(dist.log_prob(A) * advantages).mean() - 0.01 * dist.entropy().mean()
    critic_loss = F.mse_loss(values, returns)
    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()
    critic_opt.zero_grad()
    critic_loss.backward()
    critic_opt.step()
