"""TD3+BC (Fujimoto & Gu 2021) on a recorded data set, with manual optimisation.

The .npz holds observations, actions, rewards, next_observations, terminals. Without one, a small data set of random
actions in Pendulum is recorded first, which is enough to see that everything runs.
"""

import argparse
import copy

import gymnasium as gym
import lightning as L
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def record(env_id, steps, seed=0):
    env = gym.make(env_id)
    env.action_space.seed(seed)
    rows = {key: [] for key in ("observations", "actions", "rewards", "next_observations", "terminals")}
    obs, _ = env.reset(seed=seed)
    for _ in range(steps):
        action = env.action_space.sample()
        next_obs, reward, terminated, truncated, _ = env.step(action)
        for key, value in zip(rows, (obs, action, reward, next_obs, terminated)):
            rows[key].append(value)
        obs = next_obs
        if terminated or truncated:
            obs, _ = env.reset()
    return {key: np.asarray(value, dtype=np.float32) for key, value in rows.items()}


def mlp(n_in, n_out):
    return nn.Sequential(nn.Linear(n_in, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, n_out))


class Twin(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.q1, self.q2 = mlp(n_obs + n_act, 1), mlp(n_obs + n_act, 1)

    def forward(self, obs, act):
        x = torch.cat([obs, act], dim=-1)
        return self.q1(x), self.q2(x)


class TD3BC(L.LightningModule):
    def __init__(self, n_obs, n_act, max_action, obs_mean, obs_std, gamma=0.99, tau=0.005, alpha=2.5,
                 policy_noise=0.2, noise_clip=0.5, policy_delay=2, lr=3e-4):
        super().__init__()
        self.save_hyperparameters(ignore=["obs_mean", "obs_std"])
        self.automatic_optimization = False
        self.actor = nn.Sequential(mlp(n_obs, n_act), nn.Tanh())
        self.critic = Twin(n_obs, n_act)
        self.actor_target = copy.deepcopy(self.actor).requires_grad_(False)
        self.critic_target = copy.deepcopy(self.critic).requires_grad_(False)
        self.register_buffer("obs_mean", torch.as_tensor(obs_mean))
        self.register_buffer("obs_std", torch.as_tensor(obs_std))

    def configure_optimizers(self):
        actor_opt = torch.optim.Adam(self.actor.parameters(), lr=self.hparams.lr)
        critic_opt = torch.optim.Adam(self.critic.parameters(), lr=self.hparams.lr)
        return actor_opt, critic_opt

    def normalise(self, obs):
        return (obs - self.obs_mean) / self.obs_std

    def act(self, obs):
        obs = torch.as_tensor(obs, dtype=torch.float32, device=self.device)
        with torch.no_grad():
            return (self.hparams.max_action * self.actor(self.normalise(obs))).cpu().numpy()

    def training_step(self, batch, batch_idx):
        hp = self.hparams
        actor_opt, critic_opt = self.optimizers()
        obs, act, reward, next_obs, terminal = batch
        obs, next_obs = self.normalise(obs), self.normalise(next_obs)

        with torch.no_grad():
            noise = (torch.randn_like(act) * hp.policy_noise).clamp(-hp.noise_clip, hp.noise_clip) * hp.max_action
            next_act = hp.max_action * self.actor_target(next_obs) + noise
            next_act = next_act.clamp(-hp.max_action, hp.max_action)
            next_q = torch.min(*self.critic_target(next_obs, next_act))
            target = reward.unsqueeze(-1) + hp.gamma * (1 - terminal.unsqueeze(-1)) * next_q
        q1, q2 = self.critic(obs, act)
        critic_loss = F.mse_loss(q1, target) + F.mse_loss(q2, target)
        critic_opt.zero_grad()
        self.manual_backward(critic_loss)
        critic_opt.step()
        self.log("critic_loss", critic_loss)

        if batch_idx % hp.policy_delay == 0:
            pi = hp.max_action * self.actor(obs)
            q = self.critic(obs, pi)[0]
            # the scale of Q is divided out, so that alpha means the same in every task
            lam = hp.alpha / q.abs().mean().detach()
            actor_loss = -lam * q.mean() + F.mse_loss(pi, act)
            actor_opt.zero_grad()
            self.manual_backward(actor_loss)
            actor_opt.step()
            self.log("actor_loss", actor_loss)
            self.soft_update(self.critic, self.critic_target)
            self.soft_update(self.actor, self.actor_target)

    @torch.no_grad()
    def soft_update(self, online, target):
        for p, q in zip(online.parameters(), target.parameters()):
            q.mul_(1 - self.hparams.tau).add_(self.hparams.tau * p)


def evaluate(module, env_id, episodes=5):
    env = gym.make(env_id)
    scores = []
    for episode in range(episodes):
        obs, _ = env.reset(seed=1_000 + episode)
        score, over = 0.0, False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(module.act(obs))
            score += float(reward)
            over = terminated or truncated
        scores.append(score)
    return np.mean(scores)


if __name__ == "__main__":
    cli = argparse.ArgumentParser()
    cli.add_argument("--data", help="an .npz file")
    cli.add_argument("--env-id", default="Pendulum-v1")
    cli.add_argument("--epochs", type=int, default=20)
    cli.add_argument("--record", type=int, default=20_000)
    args = cli.parse_args()
    data = dict(np.load(args.data)) if args.data else record(args.env_id, args.record)
    columns = [torch.from_numpy(data[key]) for key in ("observations", "actions", "rewards", "next_observations", "terminals")]
    obs_mean, obs_std = data["observations"].mean(0), data["observations"].std(0) + 1e-3
    limit = float(gym.make(args.env_id).action_space.high[0])
    module = TD3BC(columns[0].shape[1], columns[1].shape[1], limit, obs_mean, obs_std)
    loader = DataLoader(TensorDataset(*columns), batch_size=256, shuffle=True, drop_last=True)
    trainer = L.Trainer(max_epochs=args.epochs, accelerator="auto", logger=False, enable_checkpointing=False)
    trainer.fit(module, loader)
    print(f"return after training: {evaluate(module, args.env_id):.1f}")
