"""PPO with Lightning and manual optimisation: one epoch of the trainer is one rollout, each batch of it a minibatch."""
from __future__ import annotations

import gymnasium as gym
import lightning as L
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical
from torch.utils.data import DataLoader, IterableDataset


def build_mlp(n_in: int, n_out: int, hidden: int = 64) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(n_in, hidden),
        nn.Tanh(),
        nn.Linear(hidden, hidden),
        nn.Tanh(),
        nn.Linear(hidden, n_out),
    )


class RolloutData(IterableDataset):
    """Asks the module for a rollout, then hands it out in shuffled minibatches, several times over."""

    def __init__(self, collect, passes: int, minibatch: int):
        self.collect = collect
        self.passes = passes
        self.minibatch = minibatch

    def __iter__(self):
        rollout = self.collect()
        total = rollout["obs"].shape[0]
        for _ in range(self.passes):
            order = torch.randperm(total)
            for chunk in order.split(self.minibatch):
                yield {name: column[chunk] for name, column in rollout.items()}


class PPO(L.LightningModule):
    def __init__(
        self,
        env_id: str = "Acrobot-v1",
        horizon: int = 1024,
        passes: int = 6,
        minibatch: int = 128,
        gamma: float = 0.99,
        lam: float = 0.95,
        clip: float = 0.2,
        lr_actor: float = 3e-4,
        lr_critic: float = 1e-3,
        entropy_weight: float = 0.01,
        seed: int = 2,
    ):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False

        self.env = gym.make(env_id)
        n_obs, n_act = self.env.observation_space.shape[0], int(self.env.action_space.n)
        self.actor = build_mlp(n_obs, n_act)
        self.critic = build_mlp(n_obs, 1)

        first, _ = self.env.reset(seed=seed)
        self.obs = torch.as_tensor(first, dtype=torch.float32)
        self.running_return = 0.0
        self.returns: list[float] = []

    def policy(self, obs: torch.Tensor) -> Categorical:
        return Categorical(logits=self.actor(obs))

    def value(self, obs: torch.Tensor) -> torch.Tensor:
        return self.critic(obs).squeeze(-1)

    @torch.no_grad()
    def collect(self) -> dict[str, torch.Tensor]:
        """Play `horizon` steps on from where the last rollout has stopped."""
        h = self.hparams
        obs = torch.zeros(h.horizon, self.obs.shape[0])
        nxt = torch.zeros(h.horizon, self.obs.shape[0])
        actions = torch.zeros(h.horizon, dtype=torch.long)
        log_probs = torch.zeros(h.horizon)
        rewards = torch.zeros(h.horizon)
        terminal = torch.zeros(h.horizon)
        ended = torch.zeros(h.horizon)

        for t in range(h.horizon):
            dist = self.policy(self.obs)
            action = dist.sample()
            new_obs, reward, terminated, truncated, _ = self.env.step(action.item())
            self.running_return += float(reward)

            obs[t] = self.obs
            actions[t] = action
            log_probs[t] = dist.log_prob(action)
            rewards[t] = float(reward)
            nxt[t] = torch.as_tensor(new_obs)
            terminal[t] = float(terminated)
            ended[t] = float(terminated or truncated)

            if terminated or truncated:
                self.returns.append(self.running_return)
                self.running_return = 0.0
                new_obs, _ = self.env.reset()
            self.obs = torch.as_tensor(new_obs, dtype=torch.float32)

        # Two masks: a terminal state is worth nothing, and the trace is cut at every end, also where the clock ran out.
        values, next_values = self.value(obs), self.value(nxt)
        deltas = rewards + h.gamma * next_values * (1 - terminal) - values
        advantages = torch.zeros(h.horizon)
        trace = 0.0
        for t in range(h.horizon - 1, -1, -1):
            trace = deltas[t] + h.gamma * h.lam * (1 - ended[t]) * trace
            advantages[t] = trace

        return {
            "obs": obs,
            "actions": actions,
            "log_probs": log_probs,
            "advantages": advantages,
            "targets": advantages + values,
        }

    def actor_loss(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        dist = self.policy(batch["obs"])
        ratio = torch.exp(dist.log_prob(batch["actions"]) - batch["log_probs"])
        adv = batch["advantages"]
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        clipped = torch.clamp(ratio, 1 - self.hparams.clip, 1 + self.hparams.clip) * adv
        surrogate = torch.min(ratio * adv, clipped).mean()
        return -surrogate - self.hparams.entropy_weight * dist.entropy().mean()

    def critic_loss(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return nn.functional.mse_loss(self.value(batch["obs"]), batch["targets"])

    def training_step(self, batch: dict[str, torch.Tensor], batch_idx: int) -> None:
        opt_actor, opt_critic = self.optimizers()

        loss_a = self.actor_loss(batch)
        opt_actor.zero_grad()
        self.manual_backward(loss_a)
        self.clip_gradients(opt_actor, gradient_clip_val=0.5, gradient_clip_algorithm="norm")
        opt_actor.step()

        loss_c = self.critic_loss(batch)
        opt_critic.zero_grad()
        self.manual_backward(loss_c)
        self.clip_gradients(opt_critic, gradient_clip_val=0.5, gradient_clip_algorithm="norm")
        opt_critic.step()

        self.log_dict({"loss/actor": loss_a.detach(), "loss/critic": loss_c.detach()})

    def configure_optimizers(self):
        return (
            torch.optim.Adam(self.actor.parameters(), lr=self.hparams.lr_actor),
            torch.optim.Adam(self.critic.parameters(), lr=self.hparams.lr_critic),
        )

    def train_dataloader(self) -> DataLoader:
        # batch_size=None: the dataset makes its own batches
        return DataLoader(RolloutData(self.collect, self.hparams.passes, self.hparams.minibatch), batch_size=None)

    def on_train_epoch_end(self) -> None:
        if self.returns:
            self.print(f"rollout {self.current_epoch}: mean return {np.mean(self.returns[-10:]):.1f} of {len(self.returns)} episodes")


class TestPolicy(L.Callback):
    """Greedy episodes every so often, in an environment of their own."""

    def __init__(self, env_id: str, every: int = 20, episodes: int = 3):
        self.env = gym.make(env_id)
        self.every = every
        self.episodes = episodes

    @torch.no_grad()
    def on_train_epoch_end(self, trainer, module):
        if (module.current_epoch + 1) % self.every:
            return
        totals = []
        for k in range(self.episodes):
            obs, _ = self.env.reset(seed=900 + k)
            total, over = 0.0, False
            while not over:
                logits = module.actor(torch.as_tensor(obs, dtype=torch.float32))
                obs, reward, terminated, truncated, _ = self.env.step(int(logits.argmax()))
                total += float(reward)
                over = terminated or truncated
            totals.append(total)
        module.print(f"    greedy: {np.mean(totals):.1f}")


def main():
    L.seed_everything(2)
    env_id = "Acrobot-v1"
    model = PPO(env_id)
    trainer = L.Trainer(max_epochs=150, accelerator="cpu", logger=False, enable_checkpointing=False, callbacks=[TestPolicy(env_id)])
    trainer.fit(model)


if __name__ == "__main__":
    main()
