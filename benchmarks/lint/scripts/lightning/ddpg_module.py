from copy import deepcopy

import pytorch_lightning as pl
import torch
from torch import nn


class DDPG(pl.LightningModule):
    def __init__(self, actor, critic, actor_lr=1e-4, critic_lr=1e-3, gamma=0.99, tau=0.005, noise=0.1, max_action=1.0):
        super().__init__()
        self.save_hyperparameters(ignore=["actor", "critic"])
        self.automatic_optimization = False
        self.actor, self.critic = actor, critic
        self.actor_target, self.critic_target = deepcopy(actor), deepcopy(critic)
        self.criterion = nn.MSELoss()

    @torch.no_grad()
    def explore(self, obs):
        action = self.actor(obs) + self.hparams.noise * torch.randn(self.actor.n_act)
        return action.clamp(-self.hparams.max_action, self.hparams.max_action)

    def training_step(self, batch, batch_idx):
        obs, action, reward, next_obs, terminated = batch
        actor_opt, critic_opt = self.optimizers()
        with torch.no_grad():
            next_q = self.critic_target(next_obs, self.actor_target(next_obs))
            target_q = reward + self.hparams.gamma * (1.0 - terminated) * next_q
        critic_loss = self.criterion(self.critic(obs, action), target_q)
        critic_opt.zero_grad()
        self.manual_backward(critic_loss)
        critic_opt.step()
        actor_loss = -self.critic(obs, self.actor(obs)).mean()
        actor_opt.zero_grad()
        self.manual_backward(actor_loss)
        actor_opt.step()
        for net, target in ((self.actor, self.actor_target), (self.critic, self.critic_target)):
            for p, tp in zip(net.parameters(), target.parameters()):
                tp.data.copy_(self.hparams.tau * p.data + (1 - self.hparams.tau) * tp.data)

    def configure_optimizers(self):
        actor_opt = torch.optim.Adam(self.actor.parameters(), lr=self.hparams.actor_lr)
        critic_opt = torch.optim.Adam(self.critic.parameters(), lr=self.hparams.critic_lr)
        return actor_opt, critic_opt
