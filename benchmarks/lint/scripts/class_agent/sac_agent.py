import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Normal


class GaussianPolicy(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_obs, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())
        self.mean = nn.Linear(256, n_act)
        self.log_std = nn.Linear(256, n_act)

    def sample(self, obs):
        hidden = self.body(obs)
        dist = Normal(self.mean(hidden), self.log_std(hidden).clamp(-20, 2).exp())
        raw = dist.rsample()
        action = torch.tanh(raw)
        log_prob = (dist.log_prob(raw) - torch.log(1 - action.pow(2) + 1e-6)).sum(-1, keepdim=True)
        return action, log_prob


class TwinQ(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.q1 = nn.Sequential(nn.Linear(n_obs + n_act, 256), nn.ReLU(), nn.Linear(256, 1))
        self.q2 = nn.Sequential(nn.Linear(n_obs + n_act, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, obs, action):
        x = torch.cat([obs, action], dim=-1)
        return self.q1(x), self.q2(x)


class SAC:
    def __init__(self, n_obs, n_act, lr=3e-4, gamma=0.99, tau=0.005):
        self.gamma, self.tau = gamma, tau
        self.policy = GaussianPolicy(n_obs, n_act)
        self.critic = TwinQ(n_obs, n_act)
        self.critic_target = TwinQ(n_obs, n_act)
        self.critic_target.load_state_dict(self.critic.state_dict())
        self.policy_optim = torch.optim.Adam(self.policy.parameters(), lr=lr)
        self.critic_optim = torch.optim.Adam(self.critic.parameters(), lr=lr)
        self.target_entropy = -float(n_act)
        self.log_alpha = torch.zeros(1, requires_grad=True)
        self.alpha_optim = torch.optim.Adam([self.log_alpha], lr=lr)

    def update(self, batch):
        obs, action, reward, next_obs, terminated = batch  # reward and terminated: [B, 1]
        alpha = self.log_alpha.exp().detach()
        with torch.no_grad():
            next_action, next_log_prob = self.policy.sample(next_obs)
            next_q1, next_q2 = self.critic_target(next_obs, next_action)
            next_value = torch.min(next_q1, next_q2) - alpha * next_log_prob
            target = reward + self.gamma * (1 - terminated) * next_value
        q1, q2 = self.critic(obs, action)
        critic_loss = F.mse_loss(q1, target) + F.mse_loss(q2, target)
        self.critic_optim.zero_grad()
        critic_loss.backward()
        self.critic_optim.step()

        new_action, log_prob = self.policy.sample(obs)
        q1_new, q2_new = self.critic(obs, new_action)
        policy_loss = (alpha * log_prob - torch.min(q1_new, q2_new)).mean()
        self.policy_optim.zero_grad()
        policy_loss.backward()
        self.policy_optim.step()

        alpha_loss = -(self.log_alpha * (log_prob + self.target_entropy).detach()).mean()
        self.alpha_optim.zero_grad()
        alpha_loss.backward()
        self.alpha_optim.step()

        for p, p_target in zip(self.critic.parameters(), self.critic_target.parameters()):
            p_target.data.mul_(1 - self.tau).add_(self.tau * p.data)
