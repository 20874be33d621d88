"""DDPG with Ornstein-Uhlenbeck noise, as a class with choose_action, remember and learn."""
import copy
import random
from collections import deque

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


class OUNoise:
    """Noise with a memory: it drifts back to mu and is pushed about."""

    def __init__(self, size, mu=0.0, theta=0.15, sigma=0.2):
        self.mu = mu * np.ones(size)
        self.theta = theta
        self.sigma = sigma
        self.reset()

    def reset(self):
        self.state = copy.copy(self.mu)

    def sample(self):
        dx = self.theta * (self.mu - self.state) + self.sigma * np.random.standard_normal(self.state.shape)
        self.state = self.state + dx
        return self.state


class RunningNorm:
    """Mean and variance of what has been observed so far (Welford)."""

    def __init__(self, shape):
        self.n = 0
        self.mean = np.zeros(shape)
        self.m2 = np.zeros(shape)

    def update(self, x):
        self.n += 1
        delta = x - self.mean
        self.mean = self.mean + delta / self.n
        self.m2 = self.m2 + delta * (x - self.mean)

    def __call__(self, x):
        if self.n < 2:
            return x - self.mean
        std = np.sqrt(self.m2 / (self.n - 1)) + 1e-6
        return np.clip((x - self.mean) / std, -5.0, 5.0)


class Actor(nn.Module):
    def __init__(self, state_size, action_size, hidden=128):
        super().__init__()
        self.fc1 = nn.Linear(state_size, hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.fc3 = nn.Linear(hidden, action_size)
        nn.init.uniform_(self.fc3.weight, -3e-3, 3e-3)

    def forward(self, state):
        x = F.relu(self.fc1(state))
        x = F.relu(self.fc2(x))
        return torch.tanh(self.fc3(x))


class Critic(nn.Module):
    def __init__(self, state_size, action_size, hidden=128):
        super().__init__()
        self.fcs1 = nn.Linear(state_size, hidden)
        self.fc2 = nn.Linear(hidden + action_size, hidden)
        self.fc3 = nn.Linear(hidden, 1)

    def forward(self, state, action):
        xs = F.relu(self.fcs1(state))
        x = torch.cat((xs, action), dim=1)
        x = F.relu(self.fc2(x))
        return self.fc3(x)


class DDPGAgent:
    GAMMA = 0.98
    TAU = 5e-3
    LR_ACTOR = 3e-4
    LR_CRITIC = 1e-3
    BATCH_SIZE = 64
    BUFFER_SIZE = 100_000
    WARM_UP = 1_000
    NOISE_DECAY = 0.9999

    def __init__(self, state_size, action_size, action_high, seed=0):
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        self.action_high = action_high

        self.actor_local = Actor(state_size, action_size).to(device)
        self.actor_target = copy.deepcopy(self.actor_local)
        self.actor_optimizer = torch.optim.Adam(self.actor_local.parameters(), lr=self.LR_ACTOR)

        self.critic_local = Critic(state_size, action_size).to(device)
        self.critic_target = copy.deepcopy(self.critic_local)
        self.critic_optimizer = torch.optim.Adam(self.critic_local.parameters(), lr=self.LR_CRITIC)

        self.noise = OUNoise(action_size)
        self.noise_scale = 1.0
        self.norm = RunningNorm(state_size)
        self.memory = deque(maxlen=self.BUFFER_SIZE)

    def choose_action(self, state, training=True):
        """An action in [-1, 1]; the environment wants it times action_high."""
        if training:
            self.norm.update(state)
        normed = torch.as_tensor(self.norm(state), dtype=torch.float32, device=device).unsqueeze(0)
        with torch.no_grad():
            action = self.actor_local(normed).squeeze(0).cpu().numpy()
        if training:
            action = action + self.noise_scale * self.noise.sample()
            self.noise_scale *= self.NOISE_DECAY
        return np.clip(action, -1.0, 1.0)

    def remember(self, state, action, reward, next_state, terminated):
        # raw states: they are normalised with the statistics of the day when they are drawn
        self.memory.append((state, action, reward, next_state, terminated))

    def _draw(self):
        batch = random.sample(self.memory, self.BATCH_SIZE)
        states, actions, rewards, next_states, terminated = map(np.array, zip(*batch))
        as_tensor = lambda x: torch.as_tensor(x, dtype=torch.float32, device=device)
        return (
            as_tensor(self.norm(states)),
            as_tensor(actions),
            as_tensor(rewards).unsqueeze(1),
            as_tensor(self.norm(next_states)),
            as_tensor(terminated).unsqueeze(1),
        )

    def learn(self):
        if len(self.memory) < self.WARM_UP:
            return
        states, actions, rewards, next_states, terminated = self._draw()

        # ---- critic ----
        with torch.no_grad():
            actions_next = self.actor_target(next_states)
            q_next = self.critic_target(next_states, actions_next)
            q_targets = rewards + self.GAMMA * q_next * (1 - terminated)
        q_expected = self.critic_local(states, actions)
        critic_loss = F.mse_loss(q_expected, q_targets)
        self.critic_optimizer.zero_grad()
        critic_loss.backward()
        torch.nn.utils.clip_grad_norm_(self.critic_local.parameters(), 1.0)
        self.critic_optimizer.step()

        # ---- actor ----
        actions_pred = self.actor_local(states)
        actor_loss = -self.critic_local(states, actions_pred).mean()
        self.actor_optimizer.zero_grad()
        actor_loss.backward()
        self.actor_optimizer.step()

        # ---- targets ----
        self.soft_update(self.critic_local, self.critic_target)
        self.soft_update(self.actor_local, self.actor_target)

    def soft_update(self, local_model, target_model):
        for target_param, local_param in zip(target_model.parameters(), local_model.parameters()):
            target_param.data.copy_(self.TAU * local_param.data + (1.0 - self.TAU) * target_param.data)


def train(env, agent, n_episodes=150, print_every=10):
    window = deque(maxlen=print_every)
    for i_episode in range(1, n_episodes + 1):
        state, _ = env.reset(seed=i_episode)
        agent.noise.reset()
        score = 0.0
        while True:
            action = agent.choose_action(state)
            next_state, reward, terminated, truncated, _ = env.step(action * agent.action_high)
            agent.remember(state, action, reward, next_state, terminated)
            agent.learn()
            state = next_state
            score += reward
            if terminated or truncated:
                break
        window.append(score)
        if i_episode % print_every == 0:
            print(f"Episode {i_episode}\tmean score {np.mean(window):.1f}\tnoise {agent.noise_scale:.2f}")


def test(env, agent, n_episodes=5):
    scores = []
    for i in range(n_episodes):
        state, _ = env.reset(seed=70_000 + i)
        score, done = 0.0, False
        while not done:
            action = agent.choose_action(state, training=False)
            state, reward, terminated, truncated, _ = env.step(action * agent.action_high)
            score += reward
            done = terminated or truncated
        scores.append(score)
    print(f"test: {np.mean(scores):.1f}")


if __name__ == "__main__":
    env = gym.make("Pendulum-v1")
    agent = DDPGAgent(env.observation_space.shape[0], env.action_space.shape[0], float(env.action_space.high[0]))
    train(env, agent)
    test(env, agent)
    env.close()
