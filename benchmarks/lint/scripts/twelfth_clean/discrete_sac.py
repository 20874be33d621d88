"""SAC for discrete actions. The expectation over the actions is exact, so no action is sampled in either of the losses,
there is nothing to be reparametrised, and the log-probabilities have no tanh to be corrected for."""
import copy

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def net(n_in, n_out):
    return nn.Sequential(nn.Linear(n_in, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, n_out))


class Ring:
    def __init__(self, size, n_obs):
        self.rows = np.zeros((size, 2 * n_obs + 3), dtype=np.float32)
        self.n_obs, self.count = n_obs, 0

    def put(self, obs, action, reward, nxt, terminated):
        self.rows[self.count % len(self.rows)] = np.concatenate([obs, [action, reward, terminated], nxt])
        self.count += 1

    def draw(self, rng, n):
        rows = torch.from_numpy(self.rows[rng.integers(min(self.count, len(self.rows)), size=n)])
        obs, action, reward, terminated, nxt = rows.split([self.n_obs, 1, 1, 1, self.n_obs], dim=1)
        return obs, action.long(), reward, terminated, nxt


def main(total=50_000, begin=1_000, batch=64, gamma=0.99, tau=0.005, lr=5e-4, seed=0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    env = gym.make("CartPole-v1")
    env.action_space.seed(seed)
    n_obs, n_act = 4, 2

    actor = net(n_obs, n_act)
    critics = nn.ModuleList([net(n_obs, n_act), net(n_obs, n_act)])
    lagging = copy.deepcopy(critics).requires_grad_(False)
    log_alpha = torch.tensor(-2.0, requires_grad=True)
    wanted_entropy = 0.3 * np.log(n_act)
    actor_opt = torch.optim.Adam(actor.parameters(), lr=lr)
    critic_opt = torch.optim.Adam(critics.parameters(), lr=lr)
    alpha_opt = torch.optim.Adam([log_alpha], lr=lr)
    ring = Ring(50_000, n_obs)

    obs, _ = env.reset(seed=seed)
    score, scores = 0.0, []
    for t in range(1, total + 1):
        if t <= begin:
            action = env.action_space.sample()
        else:
            with torch.no_grad():
                action = int(torch.distributions.Categorical(logits=actor(torch.from_numpy(obs))).sample())
        nxt, reward, terminated, truncated, _ = env.step(action)
        ring.put(obs, action, reward, nxt, terminated)
        score += reward
        obs = nxt
        if terminated or truncated:
            scores.append(score)
            score = 0.0
            obs, _ = env.reset()
        if t <= begin:
            continue

        o, a, r, d, o2 = ring.draw(rng, batch)
        alpha = log_alpha.exp().detach()
        with torch.no_grad():
            log_pi2 = actor(o2).log_softmax(dim=-1)
            low = torch.min(lagging[0](o2), lagging[1](o2))
            soft = (log_pi2.exp() * (low - alpha * log_pi2)).sum(dim=-1, keepdim=True)
            goal = r + gamma * (1 - d) * soft
        critic_loss = sum(F.mse_loss(q(o).gather(1, a), goal) for q in critics)
        critic_opt.zero_grad()
        critic_loss.backward()
        critic_opt.step()

        log_pi = actor(o).log_softmax(dim=-1)
        with torch.no_grad():
            low = torch.min(critics[0](o), critics[1](o))  # right: the actor is differentiated through log_pi only
        actor_loss = (log_pi.exp() * (alpha * log_pi - low)).sum(dim=-1).mean()
        actor_opt.zero_grad()
        actor_loss.backward()
        actor_opt.step()

        entropy = -(log_pi.exp() * log_pi).sum(dim=-1).mean().detach()
        alpha_loss = log_alpha * (entropy - wanted_entropy)  # too much entropy: alpha falls
        alpha_opt.zero_grad()
        alpha_loss.backward()
        alpha_opt.step()

        with torch.no_grad():
            for slow, fast in zip(lagging.parameters(), critics.parameters()):
                slow += tau * (fast - slow)
        if t % 5_000 == 0:
            print(f"{t}: {np.mean(scores[-10:]):.1f} alpha {log_alpha.exp().item():.3f} entropy {entropy:.2f}")


if __name__ == "__main__":
    main()
