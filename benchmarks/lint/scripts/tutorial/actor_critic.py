"""One-step actor-critic, updated after every step."""
import gymnasium as gym
import torch
import torch.nn as nn

torch.manual_seed(2)
env = gym.make("CartPole-v1")


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 128), nn.ReLU())
        self.pi = nn.Linear(128, 2)
        self.v = nn.Linear(128, 1)

    def forward(self, x):
        h = self.body(x)
        return torch.distributions.Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


model = ActorCritic()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
gamma = 0.98
beta = 0.01

for episode in range(2000):
    obs, _ = env.reset()
    total = 0.0
    while True:
        dist, value = model(torch.from_numpy(obs).float())
        action = dist.sample()
        next_obs, reward, terminated, truncated, _ = env.step(action.item())
        with torch.no_grad():
            _, next_value = model(torch.from_numpy(next_obs).float())
            target = reward + gamma * next_value * (0.0 if terminated else 1.0)
        td_error = target - value
        actor_loss = -dist.log_prob(action) * td_error.detach()
        critic_loss = td_error.pow(2)
        loss = actor_loss + 0.5 * critic_loss - beta * dist.entropy()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += reward
        obs = next_obs
        if terminated or truncated:
            break
    if episode % 100 == 0:
        print(f"episode {episode} return {total}")
