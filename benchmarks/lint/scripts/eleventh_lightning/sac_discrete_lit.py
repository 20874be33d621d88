"""SAC for discrete actions with manual optimization. Expectations over the actions are exact, nothing is resampled."""
import random
from collections import deque
from copy import deepcopy

import gymnasium as gym
import lightning as L
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class FromMemory(IterableDataset):
    def __init__(self, memory, batch_size, batches):
        self.memory, self.batch_size, self.batches = memory, batch_size, batches

    def __iter__(self):
        for _ in range(self.batches):
            yield from random.sample(self.memory, self.batch_size)


class DiscreteSAC(L.LightningModule):
    def __init__(self, env_id="LunarLander-v3", gamma=0.99, tau=0.005, lr=3e-4, batch_size=128, memory_size=100_000, warmup=2_000,
                 target_share=0.3, batches_per_epoch=1_000):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.env = gym.make(env_id)
        n_obs, self.n_actions = self.env.observation_space.shape[0], int(self.env.action_space.n)
        self.actor = self.network(n_obs)
        self.q1 = self.network(n_obs)
        self.q2 = self.network(n_obs)
        self.q1_target = deepcopy(self.q1).requires_grad_(False)
        self.q2_target = deepcopy(self.q2).requires_grad_(False)
        self.log_alpha = nn.Parameter(torch.tensor(-1.0))
        self.target_entropy = target_share * float(np.log(self.n_actions))
        self.memory = deque(maxlen=memory_size)
        self.observation, _ = self.env.reset(seed=0)
        self.score, self.last_score = 0.0, 0.0
        while len(self.memory) < warmup:
            self.interact(self.env.action_space.sample())

    def network(self, n_obs):
        return nn.Sequential(nn.Linear(n_obs, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, self.n_actions))

    def interact(self, action):
        following, reward, terminated, truncated, _ = self.env.step(action)
        self.memory.append((self.observation, action, np.float32(reward), following, np.float32(terminated)))
        self.observation = following
        self.score += float(reward)
        if terminated or truncated:
            self.last_score, self.score = self.score, 0.0
            self.observation, _ = self.env.reset()

    @torch.no_grad()
    def sample_action(self):
        logits = self.actor(torch.as_tensor(self.observation, device=self.device))
        return int(torch.distributions.Categorical(logits=logits).sample())

    def distribution(self, observations):
        log_p = F.log_softmax(self.actor(observations), dim=1)
        return log_p.exp(), log_p

    def training_step(self, batch, batch_idx):
        self.interact(self.sample_action())
        obs, actions, rewards, next_obs, terminated = batch
        optim_q, optim_actor, optim_alpha = self.optimizers()
        alpha = self.log_alpha.exp().detach()

        with torch.no_grad():
            p_next, log_p_next = self.distribution(next_obs)
            q_next = torch.min(self.q1_target(next_obs), self.q2_target(next_obs))
            v_next = (p_next * (q_next - alpha * log_p_next)).sum(dim=1)
            y = rewards + self.hparams.gamma * (1.0 - terminated) * v_next
        taken = actions.long().unsqueeze(1)
        q1 = self.q1(obs).gather(1, taken).squeeze(1)
        q2 = self.q2(obs).gather(1, taken).squeeze(1)
        q_loss = F.mse_loss(q1, y) + F.mse_loss(q2, y)
        optim_q.zero_grad()
        self.manual_backward(q_loss)
        optim_q.step()

        p, log_p = self.distribution(obs)
        with torch.no_grad():
            q = torch.min(self.q1(obs), self.q2(obs))
        actor_loss = (p * (alpha * log_p - q)).sum(dim=1).mean()
        optim_actor.zero_grad()
        self.manual_backward(actor_loss)
        optim_actor.step()

        entropy = -(p * log_p).sum(dim=1).detach()
        alpha_loss = (self.log_alpha.exp() * (entropy - self.target_entropy)).mean()
        optim_alpha.zero_grad()
        self.manual_backward(alpha_loss)
        optim_alpha.step()

        with torch.no_grad():
            for net, target in ((self.q1, self.q1_target), (self.q2, self.q2_target)):
                for w, w_target in zip(net.parameters(), target.parameters()):
                    w_target.lerp_(w, self.hparams.tau)
        self.log_dict({"score": self.last_score, "alpha": alpha, "entropy": entropy.mean()}, prog_bar=True)

    def configure_optimizers(self):
        lr = self.hparams.lr
        return (
            torch.optim.Adam([*self.q1.parameters(), *self.q2.parameters()], lr=lr),
            torch.optim.Adam(self.actor.parameters(), lr=lr),
            torch.optim.Adam([self.log_alpha], lr=lr),
        )

    def train_dataloader(self):
        hp = self.hparams
        return DataLoader(FromMemory(self.memory, hp.batch_size, hp.batches_per_epoch), batch_size=hp.batch_size)


if __name__ == "__main__":
    L.seed_everything(0)
    L.Trainer(max_epochs=150, accelerator="auto", devices=1, logger=False).fit(DiscreteSAC())
