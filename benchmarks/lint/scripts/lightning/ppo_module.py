import gymnasium as gym
import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical
from torch.utils.data import DataLoader, TensorDataset


class PPOLightning(L.LightningModule):
    """PPO with manual optimization: an epoch of the trainer is one rollout and its passes over the data."""

    def __init__(self, env_id="CartPole-v1", lr=3e-4, gamma=0.99, lam=0.95, clip_range=0.2, horizon=2048, epochs=8, batch_size=64, ent_coef=0.01):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.env = gym.make(env_id)
        n_obs, n_act = self.env.observation_space.shape[0], self.env.action_space.n
        self.actor = nn.Sequential(nn.Linear(n_obs, 64), nn.Tanh(), nn.Linear(64, n_act))
        self.critic = nn.Sequential(nn.Linear(n_obs, 64), nn.Tanh(), nn.Linear(64, 1))
        self.last_obs, _ = self.env.reset(seed=0)

    def policy(self, obs):
        return Categorical(logits=self.actor(obs))

    def values(self, obs):
        return self.critic(obs).squeeze(-1)

    @torch.no_grad()
    def collect(self):
        T = self.hparams.horizon
        obs = torch.zeros(T, self.env.observation_space.shape[0])
        next_obs = torch.zeros_like(obs)
        actions = torch.zeros(T, dtype=torch.long)
        logps, rewards, terminated, ended = torch.zeros(T), torch.zeros(T), torch.zeros(T), torch.zeros(T)
        for t in range(T):
            obs[t] = torch.as_tensor(self.last_obs)
            dist = self.policy(obs[t])
            actions[t] = dist.sample()
            logps[t] = dist.log_prob(actions[t])
            new_obs, reward, term, trunc, _ = self.env.step(actions[t].item())
            rewards[t], terminated[t], ended[t] = reward, float(term), float(term or trunc)
            next_obs[t] = torch.as_tensor(new_obs)
            self.last_obs = new_obs
            if term or trunc:
                self.last_obs, _ = self.env.reset()
        values, next_values = self.values(obs), self.values(next_obs)
        advantages = self.gae(rewards, values, next_values, terminated, ended)
        return TensorDataset(obs, actions, logps, advantages, advantages + values)

    def gae(self, rewards, values, next_values, terminated, ended):
        advantages, last = torch.zeros_like(rewards), 0.0
        for t in reversed(range(len(rewards))):
            delta = rewards[t] + self.hparams.gamma * (1 - terminated[t]) * next_values[t] - values[t]
            last = delta + self.hparams.gamma * self.hparams.lam * (1 - ended[t]) * last
            advantages[t] = last
        return advantages

    def actor_loss(self, obs, actions, logp_old, adv):
        logp = self.policy(obs).log_prob(actions)
        ratio = torch.exp(logp - logp_old)
        clipped = torch.clamp(ratio, 1 - self.hparams.clip_range, 1 + self.hparams.clip_range)
        return -torch.min(ratio * adv, clipped * adv).mean()

    def critic_loss(self, obs, returns):
        return F.mse_loss(self.values(obs), returns)

    def training_step(self, batch, batch_idx):
        opt = self.optimizers()
        for obs, actions, logp_old, adv, returns in self.minibatches():
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)
            entropy = self.policy(obs).entropy().mean()
            loss = self.actor_loss(obs, actions, logp_old, adv) + 0.5 * self.critic_loss(obs, returns) - self.hparams.ent_coef * entropy
            opt.zero_grad()
            self.manual_backward(loss)
            self.clip_gradients(opt, gradient_clip_val=0.5, gradient_clip_algorithm="norm")
            opt.step()

    def minibatches(self):
        data = self.collect()
        for _ in range(self.hparams.epochs):
            yield from DataLoader(data, batch_size=self.hparams.batch_size, shuffle=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr, eps=1e-5)

    def train_dataloader(self):
        return DataLoader(TensorDataset(torch.zeros(1)))


if __name__ == "__main__":
    L.seed_everything(1)
    L.Trainer(max_epochs=100).fit(PPOLightning())
