"""PPO as a LightningModule: a dataset that plays, automatic optimization of one loss."""
from collections.abc import Iterator

import gymnasium as gym
import lightning.pytorch as pl
import torch
from torch import nn
from torch.distributions import Normal
from torch.utils.data import DataLoader, IterableDataset


class ExperienceStream(IterableDataset):
    def __init__(self, generate):
        self.generate = generate

    def __iter__(self) -> Iterator:
        yield from self.generate()


class PPOModule(pl.LightningModule):
    def __init__(self, env_id="Pendulum-v1", gamma=0.99, lam=0.95, lr_actor=3e-4, lr_critic=1e-3, max_len=200, batch_size=512,
                 rollout=2048, reps=10, clip=0.2, ent_coef=0.003):
        super().__init__()
        self.save_hyperparameters()
        self.env = gym.make(env_id)
        n_in, n_out = self.env.observation_space.shape[0], self.env.action_space.shape[0]
        self.mean = nn.Sequential(nn.Linear(n_in, 64), nn.Tanh(), nn.Linear(64, n_out))
        self.log_std = nn.Parameter(torch.zeros(n_out))
        self.critic = nn.Sequential(nn.Linear(n_in, 64), nn.Tanh(), nn.Linear(64, 1))
        self.state, _ = self.env.reset(seed=1)

    def policy(self, state):
        return Normal(self.mean(state), self.log_std.exp())

    def value(self, state):
        return self.critic(state).squeeze(-1)

    def discounted(self, rewards, values, ends, last):
        advantages = []
        running, upcoming = 0.0, last
        for reward, value, end in zip(reversed(rewards), reversed(values), reversed(ends)):
            mask = 1.0 - end
            delta = reward + self.hparams.gamma * upcoming * mask - value
            running = delta + self.hparams.gamma * self.hparams.lam * mask * running
            advantages.append(running)
            upcoming = value
        return advantages[::-1]

    def generate(self):
        states, actions, logps, rewards, values, ends = [], [], [], [], [], []
        for _ in range(self.hparams.rollout):
            state = torch.as_tensor(self.state, dtype=torch.float32)
            with torch.no_grad():
                pi = self.policy(state)
                action = pi.sample()
                logp = pi.log_prob(action).sum(-1)
                value = self.value(state)
            following, reward, terminated, truncated, _ = self.env.step(action.numpy())
            states.append(state)
            actions.append(action)
            logps.append(logp)
            rewards.append(float(reward))
            values.append(value.item())
            ends.append(float(terminated or truncated))
            self.state = following
            if terminated or truncated:
                self.state, _ = self.env.reset()
        with torch.no_grad():
            last = self.value(torch.as_tensor(self.state, dtype=torch.float32)).item()
        advantages = self.discounted(rewards, values, ends, last)
        for _ in range(self.hparams.reps):
            for k in torch.randperm(len(states)).tolist():
                yield states[k], actions[k], logps[k], torch.tensor(advantages[k]), torch.tensor(advantages[k] + values[k])

    def training_step(self, batch, _):
        state, action, old_logp, adv, goal = batch
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        pi = self.policy(state)
        logp = pi.log_prob(action).sum(-1)
        ratio = torch.exp(logp - old_logp)
        bounded = torch.clamp(ratio, 1 - self.hparams.clip, 1 + self.hparams.clip) * adv
        loss_actor = -torch.min(ratio * adv, bounded).mean()
        loss_critic = nn.functional.mse_loss(self.value(state), goal)
        loss = loss_actor + 0.5 * loss_critic - self.hparams.ent_coef * pi.entropy().sum(-1).mean()
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(
            [
                {"params": [*self.mean.parameters(), self.log_std], "lr": self.hparams.lr_actor},
                {"params": self.critic.parameters(), "lr": self.hparams.lr_critic},
            ]
        )

    def train_dataloader(self):
        return DataLoader(ExperienceStream(self.generate), batch_size=self.hparams.batch_size)


if __name__ == "__main__":
    pl.seed_everything(3)
    pl.Trainer(max_epochs=100, gradient_clip_val=0.5).fit(PPOModule())
