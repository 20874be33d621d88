import argparse
from collections import deque

import gymnasium as gym
import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback
from torch import nn
from torch.utils.data import DataLoader, Dataset


class ReplayData(Dataset):
    """The replay memory as a map-style data set. Its length is that of an epoch; an index is drawn anew."""

    def __init__(self, capacity, samples_per_epoch):
        self.memory = deque(maxlen=capacity)
        self.samples_per_epoch = samples_per_epoch

    def append(self, state, action, reward, next_state, terminated):
        self.memory.append((
            np.asarray(state, np.float32), np.int64(action), np.float32(reward),
            np.asarray(next_state, np.float32), np.float32(terminated),
        ))

    def __len__(self):
        return self.samples_per_epoch

    def __getitem__(self, _):
        return self.memory[np.random.randint(len(self.memory))]


class SyncTarget(Callback):
    """Copies the online network into the target network every so many batches."""

    def __init__(self, every):
        self.every = every

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.global_step % self.every == 0:
            pl_module.target.load_state_dict(pl_module.online.state_dict())


class LitDoubleDQN(L.LightningModule):
    def __init__(self, env_id, gamma=0.99, lr=1e-3, batch_size=64, capacity=50_000, warm_start=1_000,
                 steps_per_epoch=500, eps_start=1.0, eps_end=0.02, eps_last_step=10_000):
        super().__init__()
        self.save_hyperparameters()
        self.env = gym.make(env_id)
        n_obs, n_act = self.env.observation_space.shape[0], int(self.env.action_space.n)
        self.online = self.build(n_obs, n_act)
        self.target = self.build(n_obs, n_act)
        self.target.load_state_dict(self.online.state_dict())
        self.replay = ReplayData(capacity, batch_size * steps_per_epoch)
        self.env_steps = 0
        self.episode_return = 0.0
        self.state, _ = self.env.reset(seed=0)
        for _ in range(warm_start):
            self.play_step(epsilon=1.0)
        self.env_steps = 0

    @staticmethod
    def build(n_obs, n_act):
        return nn.Sequential(nn.Linear(n_obs, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, n_act))

    def forward(self, state):
        return self.online(state)

    @property
    def epsilon(self):
        hp = self.hparams
        progress = min(1.0, self.env_steps / hp.eps_last_step)
        return hp.eps_start + progress * (hp.eps_end - hp.eps_start)

    @torch.no_grad()
    def play_step(self, epsilon):
        """One step in the environment. Returns the return of the episode that this step ended, or None."""
        if np.random.random() < epsilon:
            action = int(self.env.action_space.sample())
        else:
            state = torch.as_tensor(self.state, dtype=torch.float32, device=self.device)
            action = int(self.online(state.unsqueeze(0)).argmax(dim=1))
        next_state, reward, terminated, truncated, _ = self.env.step(action)
        self.replay.append(self.state, action, reward, next_state, terminated)
        self.state = next_state
        self.env_steps += 1
        self.episode_return += float(reward)
        if not (terminated or truncated):
            return None
        finished, self.episode_return = self.episode_return, 0.0
        self.state, _ = self.env.reset()
        return finished

    def td_loss(self, batch):
        states, actions, rewards, next_states, terminated = batch
        q = self.online(states).gather(1, actions.unsqueeze(-1)).squeeze(-1)
        with torch.no_grad():
            best = self.online(next_states).argmax(dim=1, keepdim=True)
            next_q = self.target(next_states).gather(1, best).squeeze(-1)
            next_q[terminated.bool()] = 0.0
        expected = rewards + self.hparams.gamma * next_q
        return nn.functional.huber_loss(q, expected)

    def training_step(self, batch, batch_idx):
        finished = self.play_step(self.epsilon)
        loss = self.td_loss(batch)
        self.log("train/loss", loss)
        self.log("train/epsilon", self.epsilon, prog_bar=True)
        if finished is not None:
            self.log("train/return", finished, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.online.parameters(), lr=self.hparams.lr, amsgrad=True)

    def train_dataloader(self):
        # no workers: the memory grows in this process
        return DataLoader(self.replay, batch_size=self.hparams.batch_size, num_workers=0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--env-id", default="CartPole-v1")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--steps-per-epoch", type=int, default=500)
    args = parser.parse_args()
    L.seed_everything(2, workers=True)
    model = LitDoubleDQN(args.env_id, steps_per_epoch=args.steps_per_epoch)
    trainer = L.Trainer(
        max_epochs=args.epochs,
        callbacks=[SyncTarget(every=200)],
        gradient_clip_val=10.0,
        log_every_n_steps=50,
        accelerator="auto",
        logger=False,
    )
    trainer.fit(model)
