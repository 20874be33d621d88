import copy

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Normal


def mlp(n_in, n_out):
    return nn.Sequential(nn.Linear(n_in, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, n_out))


class SACModule(pl.LightningModule):
    def __init__(self, n_obs, n_act, lr=3e-4, gamma=0.99, tau=0.005):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.actor = mlp(n_obs, 2 * n_act)
        self.critic1, self.critic2 = mlp(n_obs + n_act, 1), mlp(n_obs + n_act, 1)
        self.target1, self.target2 = copy.deepcopy(self.critic1), copy.deepcopy(self.critic2)
        self.log_alpha = nn.Parameter(torch.zeros(1))
        self.target_entropy = -n_act

    def sample_action(self, obs):
        mean, log_std = self.actor(obs).chunk(2, dim=-1)
        dist = Normal(mean, log_std.clamp(-5, 2).exp())
        raw = dist.rsample()
        action = torch.tanh(raw)
        logp = dist.log_prob(raw).sum(-1) - torch.log(1 - action**2 + 1e-6).sum(-1)
        return action, logp

    def q_value(self, net, obs, action):
        return net(torch.cat([obs, action], dim=-1)).squeeze(-1)

    def training_step(self, batch, batch_idx):
        obs, actions, rewards, next_obs, terminals = batch
        critic_opt, actor_opt, alpha_opt = self.optimizers()
        alpha = self.log_alpha.exp().detach()

        with torch.no_grad():
            next_actions, next_logp = self.sample_action(next_obs)
            next_q = torch.min(self.q_value(self.target1, next_obs, next_actions), self.q_value(self.target2, next_obs, next_actions))
            targets = rewards + self.hparams.gamma * (1 - terminals) * (next_q - alpha * next_logp)
        critic_loss = F.mse_loss(self.q_value(self.critic1, obs, actions), targets) + F.mse_loss(
            self.q_value(self.critic2, obs, actions), targets
        )
        critic_opt.zero_grad()
        self.manual_backward(critic_loss)
        critic_opt.step()

        pi, logp = self.sample_action(obs)
        q_pi = torch.min(self.q_value(self.critic1, obs, pi), self.q_value(self.critic2, obs, pi))
        actor_loss = (alpha * logp - q_pi).mean()
        actor_opt.zero_grad()
        self.manual_backward(actor_loss)
        actor_opt.step()

        alpha_loss = -(self.log_alpha * (logp.detach() + self.target_entropy)).mean()
        alpha_opt.zero_grad()
        self.manual_backward(alpha_loss)
        alpha_opt.step()

        self.polyak(self.critic1, self.target1)
        self.polyak(self.critic2, self.target2)
        self.log_dict({"critic_loss": critic_loss, "actor_loss": actor_loss, "alpha": alpha})

    @torch.no_grad()
    def polyak(self, source, target):
        for s, t in zip(source.parameters(), target.parameters()):
            t.mul_(1 - self.hparams.tau)
            t.add_(self.hparams.tau * s)

    def configure_optimizers(self):
        critics = [*self.critic1.parameters(), *self.critic2.parameters()]
        return (
            torch.optim.Adam(critics, lr=self.hparams.lr),
            torch.optim.Adam(self.actor.parameters(), lr=self.hparams.lr),
            torch.optim.Adam([self.log_alpha], lr=self.hparams.lr),
        )
