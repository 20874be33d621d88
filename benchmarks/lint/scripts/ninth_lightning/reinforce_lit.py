"""REINFORCE with a learned baseline as a LightningModule: each training batch is a handful of whole episodes."""

import argparse
from collections.abc import Iterator

import gymnasium as gym
import lightning as L
import torch
from torch import Tensor, nn
from torch.distributions import Categorical
from torch.utils.data import DataLoader, IterableDataset


class EpisodeStream(IterableDataset):
    """Plays episodes with the current policy, for ever; yields one dictionary of tensors an episode."""

    def __init__(self, env_id: str, policy: nn.Module, gamma: float, per_epoch: int) -> None:
        super().__init__()
        self.env_id = env_id
        self.policy = policy
        self.gamma = gamma
        self.per_epoch = per_epoch

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        env = gym.make(self.env_id)
        for _ in range(self.per_epoch):
            yield self.play(env)

    @torch.no_grad()
    def play(self, env: gym.Env) -> dict[str, Tensor]:
        states, actions, rewards = [], [], []
        state, _ = env.reset()
        over = False
        while not over:
            x = torch.as_tensor(state, dtype=torch.float32)
            action = Categorical(logits=self.policy(x)).sample()
            states.append(x)
            actions.append(action)
            state, reward, terminated, truncated, _ = env.step(action.item())
            rewards.append(float(reward))
            over = terminated or truncated
        return {
            "state": torch.stack(states),
            "action": torch.stack(actions),
            "return": self.reward_to_go(rewards),
            "score": torch.tensor(sum(rewards)),
        }

    def reward_to_go(self, rewards: list[float]) -> Tensor:
        # the tasks here are short, and their time limits count as their end
        result = torch.zeros(len(rewards))
        future = 0.0
        for i in range(len(rewards) - 1, -1, -1):
            future = rewards[i] + self.gamma * future
            result[i] = future
        return result


def collate(episodes: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    batch = {key: torch.cat([episode[key] for episode in episodes]) for key in ("state", "action", "return")}
    batch["score"] = torch.stack([episode["score"] for episode in episodes])
    return batch


class Reinforce(L.LightningModule):
    def __init__(
        self,
        env_id: str = "CartPole-v1",
        gamma: float = 0.99,
        lr: float = 1e-3,
        baseline_lr: float = 3e-3,
        entropy_beta: float = 0.01,
        episodes_per_batch: int = 8,
        batches_per_epoch: int = 10,
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        env = gym.make(env_id)
        n_obs, n_actions = env.observation_space.shape[0], int(env.action_space.n)
        self.policy = nn.Sequential(nn.Linear(n_obs, 128), nn.ReLU(), nn.Linear(128, n_actions))
        self.baseline = nn.Sequential(nn.Linear(n_obs, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, state: Tensor) -> Tensor:
        return self.policy(state)

    def training_step(self, batch: dict[str, Tensor], batch_idx: int) -> Tensor:
        dist = Categorical(logits=self(batch["state"]))
        baseline = self.baseline(batch["state"]).squeeze(-1)
        advantage = batch["return"] - baseline.detach()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)

        policy_loss = -(dist.log_prob(batch["action"]) * advantage).mean()
        baseline_loss = nn.functional.mse_loss(baseline, batch["return"])
        entropy = dist.entropy().mean()
        loss = policy_loss + baseline_loss - self.hparams.entropy_beta * entropy

        self.log("score", batch["score"].mean(), prog_bar=True)
        self.log("entropy", entropy)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(
            [
                {"params": self.policy.parameters(), "lr": self.hparams.lr},
                {"params": self.baseline.parameters(), "lr": self.hparams.baseline_lr},
            ]
        )

    def train_dataloader(self) -> DataLoader:
        hp = self.hparams
        stream = EpisodeStream(hp.env_id, self.policy, hp.gamma, hp.episodes_per_batch * hp.batches_per_epoch)
        return DataLoader(stream, batch_size=hp.episodes_per_batch, collate_fn=collate)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--env-id", default="CartPole-v1")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    L.seed_everything(args.seed)
    trainer = L.Trainer(
        max_epochs=args.epochs,
        accelerator="cpu",
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
    )
    trainer.fit(Reinforce(env_id=args.env_id))


if __name__ == "__main__":
    main()
