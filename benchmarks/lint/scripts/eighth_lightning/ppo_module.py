import sys
from typing import Any

import gymnasium as gym
import lightning.pytorch as pl
import torch
from torch import nn
from torch.distributions import Categorical
from torch.utils.data import DataLoader, Dataset, IterableDataset


def mlp(n_in, n_out):
    return nn.Sequential(nn.Linear(n_in, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, n_out))


class Rollouts(IterableDataset):
    """Every pass plays ``horizon`` steps with the present policy and then gives out its steps in random order, ``passes`` times."""

    def __init__(self, module: "PPO", env_id: str, horizon: int, passes: int):
        self.module = module
        self.env = gym.make(env_id)
        self.horizon, self.passes = horizon, passes
        self.obs, _ = self.env.reset(seed=5)
        self.score, self.scores = 0.0, []

    @torch.no_grad()
    def play(self):
        m = self.module
        obs_list, act_list, logp_list, rew_list, val_list, next_val_list, ended_list = [], [], [], [], [], [], []
        for _ in range(self.horizon):
            obs = torch.as_tensor(self.obs, dtype=torch.float32)
            dist = Categorical(logits=m.actor(obs))
            action = dist.sample()
            following, reward, terminated, truncated, _ = self.env.step(action.item())

            obs_list.append(obs)
            act_list.append(action)
            logp_list.append(dist.log_prob(action))
            rew_list.append(float(reward))
            val_list.append(m.critic(obs).squeeze(-1))
            ahead = m.critic(torch.as_tensor(following, dtype=torch.float32)).squeeze(-1)
            next_val_list.append(torch.zeros(()) if terminated else ahead)
            ended_list.append(terminated or truncated)

            self.score += float(reward)
            self.obs = following
            if terminated or truncated:
                self.scores.append(self.score)
                self.score = 0.0
                self.obs, _ = self.env.reset()

        values, next_values = torch.stack(val_list), torch.stack(next_val_list)
        rewards = torch.tensor(rew_list)
        advantages = torch.zeros(self.horizon)
        gae = 0.0
        for t in range(self.horizon - 1, -1, -1):
            delta = rewards[t] + m.hparams.gamma * next_values[t] - values[t]
            gae = delta + m.hparams.gamma * m.hparams.lam * (0.0 if ended_list[t] else gae)
            advantages[t] = gae
        returns = advantages + values
        return torch.stack(obs_list), torch.stack(act_list), torch.stack(logp_list), advantages, returns

    def __iter__(self):
        columns = self.play()
        for _ in range(self.passes):
            for i in torch.randperm(self.horizon):
                yield tuple(column[i] for column in columns)


class PPO(pl.LightningModule):
    def __init__(self, env_id="CartPole-v1", horizon=1024, batch_size=64, passes=6, gamma=0.99, lam=0.95, clip=0.2, beta=0.01,
                 lr_actor=3e-4, lr_critic=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        probe = gym.make(env_id)
        self.actor = mlp(probe.observation_space.shape[0], int(probe.action_space.n))
        self.critic = mlp(probe.observation_space.shape[0], 1)

    def actor_loss(self, obs, act, logp_old, adv):
        dist = Categorical(logits=self.actor(obs))
        ratio = torch.exp(dist.log_prob(act) - logp_old)
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        surrogate = torch.minimum(ratio * adv, ratio.clamp(1 - self.hparams.clip, 1 + self.hparams.clip) * adv)
        return -surrogate.mean() - self.hparams.beta * dist.entropy().mean()

    def critic_loss(self, obs, returns):
        return (self.critic(obs).squeeze(-1) - returns).square().mean()

    def training_step(self, batch: Any, batch_idx: int):
        obs, act, logp_old, adv, returns = batch
        actor_opt, critic_opt = self.optimizers()

        loss_pi = self.actor_loss(obs, act, logp_old, adv)
        actor_opt.zero_grad()
        self.manual_backward(loss_pi)
        self.clip_gradients(actor_opt, gradient_clip_val=0.5, gradient_clip_algorithm="norm")
        actor_opt.step()

        loss_v = self.critic_loss(obs, returns)
        critic_opt.zero_grad()
        self.manual_backward(loss_v)
        critic_opt.step()
        self.log_dict({"loss/pi": loss_pi, "loss/v": loss_v})

    def on_train_epoch_end(self):
        scores = self.rollouts.scores[-20:]
        if scores:
            print(f"epoch {self.current_epoch}: {sum(scores) / len(scores):.1f}")

    def configure_optimizers(self):
        actor_opt = torch.optim.Adam(self.actor.parameters(), lr=self.hparams.lr_actor)
        critic_opt = torch.optim.Adam(self.critic.parameters(), lr=self.hparams.lr_critic)
        return actor_opt, critic_opt

    def train_dataloader(self):
        h = self.hparams
        self.rollouts = Rollouts(self, h.env_id, h.horizon, h.passes)
        return DataLoader(self.rollouts, batch_size=h.batch_size)

    def val_dataloader(self):
        return DataLoader(Starts(5), batch_size=None)

    def validation_step(self, seed, batch_idx: int):
        env = gym.make(self.hparams.env_id)
        obs, _ = env.reset(seed=int(seed))
        total, over = 0.0, False
        while not over:
            logits = self.actor(torch.as_tensor(obs, dtype=torch.float32))
            obs, reward, terminated, truncated, _ = env.step(int(logits.argmax()))
            total += float(reward)
            over = terminated or truncated
        self.log("val/return", total, batch_size=1)


class Starts(Dataset):
    """Seeds of the validation episodes."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return 10_000 + i


if __name__ == "__main__":
    pl.seed_everything(5)
    trainer = pl.Trainer(
        max_epochs=int(sys.argv[1]) if len(sys.argv) > 1 else 60,
        accelerator="cpu", devices=1, logger=False, check_val_every_n_epoch=5,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )
    module = PPO()
    trainer.fit(module)
    print({name: float(value) for name, value in trainer.callback_metrics.items()})
