import lightning as L
import torch
import torch.nn.functional as F
from torch import nn


class ActorCritic(L.LightningModule):
    """Batches come from a data module that steps the environments: obs, actions, rewards, terminated, next_obs of [B]."""

    def __init__(self, n_obs, n_act, lr=7e-4, gamma=0.99, value_coef=0.5, entropy_coef=0.01):
        super().__init__()
        self.save_hyperparameters()
        self.body = nn.Sequential(nn.Linear(n_obs, 64), nn.Tanh())
        self.policy_head = nn.Linear(64, n_act)
        self.value_head = nn.Linear(64, 1)

    def forward(self, obs):
        hidden = self.body(obs)
        return self.policy_head(hidden), self.value_head(hidden).squeeze(-1)

    def training_step(self, batch, batch_idx):
        obs, actions, rewards, terminated, next_obs = batch
        logits, values = self(obs)
        with torch.no_grad():
            _, next_values = self(next_obs)
            targets = rewards + self.hparams.gamma * next_values * (1 - terminated)
        advantages = targets - values.detach()
        dist = torch.distributions.Categorical(logits=logits)
        policy_loss = -(dist.log_prob(actions) * advantages).mean()
        value_loss = F.mse_loss(values, targets)
        loss = policy_loss + self.hparams.value_coef * value_loss - self.hparams.entropy_coef * dist.entropy().mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.RMSprop(self.parameters(), lr=self.hparams.lr)
