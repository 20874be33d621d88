import gymnasium as gym
import numpy as np
import torch as T
import torch.nn as nn
import torch.optim as optim
from torch.distributions.categorical import Categorical


class PPOMemory:
    def __init__(self, batch_size):
        self.batch_size = batch_size
        self.clear_memory()

    def generate_batches(self):
        n_states = len(self.states)
        indices = np.arange(n_states, dtype=np.int64)
        np.random.shuffle(indices)
        return [indices[i : i + self.batch_size] for i in range(0, n_states, self.batch_size)]

    def store_memory(self, state, action, probs, vals, reward, terminated, done, final_val):
        self.states.append(state)
        self.actions.append(action)
        self.probs.append(probs)
        self.vals.append(vals)
        self.rewards.append(reward)
        self.terminated.append(terminated)
        self.dones.append(done)
        self.final_vals.append(final_val)

    def clear_memory(self):
        self.states, self.probs, self.vals, self.actions = [], [], [], []
        self.rewards, self.terminated, self.dones, self.final_vals = [], [], [], []


class ActorNetwork(nn.Module):
    def __init__(self, n_actions, input_dims, alpha, fc=256):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(input_dims, fc), nn.ReLU(), nn.Linear(fc, fc), nn.ReLU(), nn.Linear(fc, n_actions), nn.Softmax(dim=-1))
        self.optimizer = optim.Adam(self.parameters(), lr=alpha)

    def forward(self, state):
        return Categorical(self.actor(state))


class CriticNetwork(nn.Module):
    def __init__(self, input_dims, alpha, fc=256):
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(input_dims, fc), nn.ReLU(), nn.Linear(fc, fc), nn.ReLU(), nn.Linear(fc, 1))
        self.optimizer = optim.Adam(self.parameters(), lr=alpha)

    def forward(self, state):
        return self.critic(state)


class Agent:
    def __init__(self, n_actions, input_dims, gamma=0.99, alpha=3e-4, gae_lambda=0.95, policy_clip=0.2, batch_size=64, n_epochs=10):
        self.gamma = gamma
        self.policy_clip = policy_clip
        self.n_epochs = n_epochs
        self.gae_lambda = gae_lambda
        self.actor = ActorNetwork(n_actions, input_dims, alpha)
        self.critic = CriticNetwork(input_dims, alpha)
        self.memory = PPOMemory(batch_size)

    def remember(self, *transition):
        self.memory.store_memory(*transition)

    def choose_action(self, observation):
        state = T.tensor(observation, dtype=T.float).unsqueeze(0)
        with T.no_grad():
            dist = self.actor(state)
            value = self.critic(state)
            action = dist.sample()
        return action.item(), dist.log_prob(action).item(), value.item()

    def value_of(self, observation):
        with T.no_grad():
            return self.critic(T.tensor(observation, dtype=T.float).unsqueeze(0)).item()

    def compute_advantages(self, last_value):
        m = self.memory
        n = len(m.rewards)
        advantage = np.zeros(n, dtype=np.float32)
        gae = 0.0
        for t in range(n - 1, -1, -1):
            if m.dones[t]:
                # final_val: what the last state of a path is worth, if its time was up; nothing after a real end
                next_value = 0.0 if m.terminated[t] else m.final_vals[t]
                gae = 0.0
            else:
                next_value = m.vals[t + 1] if t + 1 < n else last_value
            delta = m.rewards[t] + self.gamma * next_value - m.vals[t]
            gae = delta + self.gamma * self.gae_lambda * gae
            advantage[t] = gae
        return advantage

    def learn(self, last_observation):
        advantage = T.tensor(self.compute_advantages(self.value_of(last_observation)))
        values = T.tensor(self.memory.vals, dtype=T.float)
        returns = advantage + values
        states = T.tensor(np.array(self.memory.states), dtype=T.float)
        old_probs = T.tensor(self.memory.probs, dtype=T.float)
        actions = T.tensor(self.memory.actions)

        for _ in range(self.n_epochs):
            for batch in self.memory.generate_batches():
                dist = self.actor(states[batch])
                critic_value = self.critic(states[batch]).squeeze(1)
                new_probs = dist.log_prob(actions[batch])
                prob_ratio = (new_probs - old_probs[batch]).exp()
                weighted_probs = advantage[batch] * prob_ratio
                weighted_clipped_probs = T.clamp(prob_ratio, 1 - self.policy_clip, 1 + self.policy_clip) * advantage[batch]
                actor_loss = -T.min(weighted_probs, weighted_clipped_probs).mean()
                critic_loss = ((returns[batch] - critic_value) ** 2).mean()
                total_loss = actor_loss + 0.5 * critic_loss
                self.actor.optimizer.zero_grad()
                self.critic.optimizer.zero_grad()
                total_loss.backward()
                self.actor.optimizer.step()
                self.critic.optimizer.step()
        self.memory.clear_memory()


if __name__ == "__main__":
    env = gym.make("CartPole-v1")
    N = 1024
    agent = Agent(n_actions=env.action_space.n, input_dims=env.observation_space.shape[0])
    n_steps, scores = 0, []
    observation, _ = env.reset(seed=0)
    score = 0
    while n_steps < 200_000:
        action, prob, val = agent.choose_action(observation)
        observation_, reward, terminated, truncated, info = env.step(action)
        n_steps += 1
        score += reward
        done = terminated or truncated
        final_val = agent.value_of(observation_) if truncated and not terminated else 0.0
        agent.remember(observation, action, prob, val, reward, terminated, done, final_val)
        observation = observation_
        if done:
            scores.append(score)
            score = 0
            observation, _ = env.reset()
        if n_steps % N == 0:
            agent.learn(observation)
            print(f"{n_steps} average of the last 50: {np.mean(scores[-50:]):.1f}")
