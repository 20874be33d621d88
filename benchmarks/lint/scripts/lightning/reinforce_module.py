import gymnasium as gym
import lightning as L
import torch
from torch import nn
from torch.distributions import Categorical
from torch.utils.data import DataLoader


class Reinforce(L.LightningModule):
    def __init__(self, env_id="CartPole-v1", lr=1e-3, gamma=0.99):
        super().__init__()
        self.save_hyperparameters()
        self.env = gym.make(env_id)
        self.net = nn.Sequential(nn.Linear(self.env.observation_space.shape[0], 64), nn.ReLU(), nn.Linear(64, self.env.action_space.n))

    def run_episode(self):
        obs, _ = self.env.reset()
        log_probs, rewards, entropies = [], [], []
        over = False
        while not over:
            dist = Categorical(logits=self.net(torch.as_tensor(obs)))
            action = dist.sample()
            obs, reward, terminated, truncated, _ = self.env.step(action.item())
            log_probs.append(dist.log_prob(action))
            entropies.append(dist.entropy())
            rewards.append(reward)
            over = terminated or truncated
        return torch.stack(log_probs), rewards, torch.stack(entropies)

    def discount(self, rewards):
        total, returns = 0.0, []
        for reward in reversed(rewards):
            total = reward + self.hparams.gamma * total
            returns.append(total)
        return torch.tensor(returns[::-1])

    def training_step(self, batch, batch_idx):
        log_probs, rewards, entropies = self.run_episode()
        returns = self.discount(rewards)
        returns = (returns - returns.mean()) / (returns.std() + 1e-8)
        loss = -(log_probs * returns).mean() - 0.01 * entropies.mean()
        self.log("return", sum(rewards))
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.net.parameters(), lr=self.hparams.lr)

    def train_dataloader(self):
        return DataLoader(range(1))


if __name__ == "__main__":
    L.seed_everything(0)
    L.Trainer(max_epochs=1000).fit(Reinforce())
