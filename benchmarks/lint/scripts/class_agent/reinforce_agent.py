import gymnasium as gym
import torch
from torch import nn


class ReinforceAgent:
    def __init__(self, n_obs, n_act, gamma=0.99, lr=2e-3):
        self.gamma = gamma
        self.policy = nn.Sequential(nn.Linear(n_obs, 64), nn.ReLU(), nn.Linear(64, n_act))
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=lr)
        self.log_probs, self.rewards = [], []

    def act(self, obs):
        dist = torch.distributions.Categorical(logits=self.policy(torch.as_tensor(obs, dtype=torch.float32)))
        action = dist.sample()
        self.log_probs.append(dist.log_prob(action))
        return action.item()

    def finish_episode(self):
        running, returns = 0.0, []
        for reward in reversed(self.rewards):
            running = reward + self.gamma * running
            returns.insert(0, running)
        returns = torch.tensor(returns)
        returns = (returns - returns.mean()) / (returns.std() + 1e-8)
        loss = -(torch.stack(self.log_probs) * returns).sum()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.log_probs.clear()
        self.rewards.clear()


def main():
    torch.manual_seed(0)
    env = gym.make("CartPole-v1")
    agent = ReinforceAgent(env.observation_space.shape[0], env.action_space.n)
    for episode in range(800):
        obs, _ = env.reset()
        over = False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(agent.act(obs))
            agent.rewards.append(reward)
            over = terminated or truncated
        agent.finish_episode()


if __name__ == "__main__":
    main()
