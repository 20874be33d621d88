"""PPO where experience and minibatches come from generators."""
import gymnasium as gym
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
        self.vf = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))

    def policy(self, x):
        return Categorical(logits=self.pi(x))

    def value(self, x):
        return self.vf(x).flatten()


def experience(env, net):
    """Endless transitions."""
    obs, _ = env.reset()
    while True:
        x = torch.as_tensor(obs).unsqueeze(0)
        with torch.no_grad():
            dist = net.policy(x)
            act = dist.sample()
            logp = dist.log_prob(act)
        nxt, rew, term, trunc, _ = env.step(act.item())
        yield obs, act.item(), logp.item(), rew, nxt, term, term or trunc
        obs = nxt
        if term or trunc:
            obs, _ = env.reset()


def take(stream, n):
    rows = [next(stream) for _ in range(n)]
    obs, act, logp, rew, nxt, term, over = map(torch.as_tensor, map(list, zip(*rows)))
    return obs.float(), act, logp.float(), rew.float(), nxt.float(), term.float(), over.float()


def gae(rew, val, nval, term, over, gamma=0.99, lam=0.95):
    adv, last = [], 0.0
    for r, v, nv, d, o in reversed(list(zip(rew, val, nval, term, over))):
        delta = r + gamma * (1 - d) * nv - v
        last = delta + gamma * lam * (1 - o) * last
        adv.append(last)
    return torch.stack(adv[::-1])


def minibatches(n_epochs, size, *tensors):
    n = len(tensors[0])
    for _ in range(n_epochs):
        order = torch.randperm(n)
        for i in range(0, n, size):
            pick = order[i : i + size]
            yield tuple(t[pick] for t in tensors)


def main(iterations=60):
    env = gym.make("CartPole-v1")
    net = Net()
    opt = torch.optim.Adam(net.parameters(), lr=3e-4)
    stream = experience(env, net)
    for _ in range(iterations):
        obs, act, logp, rew, nxt, term, over = take(stream, 512)
        with torch.no_grad():
            val, nval = net.value(obs), net.value(nxt)
            adv = gae(rew, val, nval, term, over)
            ret = adv + val
        for o, a, lp, ad, rt in minibatches(5, 64, obs, act, logp, adv, ret):
            dist = net.policy(o)
            ratio = (dist.log_prob(a) - lp).exp()
            ad = (ad - ad.mean()) / (ad.std() + 1e-8)
            surrogate = torch.min(ratio * ad, ratio.clip(0.8, 1.2) * ad)
            loss = -surrogate.mean() + 0.5 * F.mse_loss(net.value(o), rt) - 0.01 * dist.entropy().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()


if __name__ == "__main__":
    main()
