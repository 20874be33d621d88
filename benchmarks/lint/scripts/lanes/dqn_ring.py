"""DQN that steps a vector of environments and keeps transitions in ring tensors."""
import gymnasium as gym
import torch
import torch.nn as nn
import torch.nn.functional as F

LANES, CAP = 4, 40_000


class Ring:
    def __init__(self, cap, dim):
        self.s = torch.empty(cap, dim)
        self.a = torch.empty(cap, dtype=torch.long)
        self.r = torch.empty(cap)
        self.n = torch.empty(cap, dim)
        self.d = torch.empty(cap)
        self.cap, self.head, self.full = cap, 0, False

    def extend(self, s, a, r, n, d):
        k = len(a)
        at = (self.head + torch.arange(k)) % self.cap
        self.s[at], self.a[at], self.r[at], self.n[at], self.d[at] = s, a, r, n, d
        self.full = self.full or self.head + k >= self.cap
        self.head = (self.head + k) % self.cap

    def __len__(self):
        return self.cap if self.full else self.head

    def batch(self, k):
        i = torch.randint(len(self), (k,))
        return self.s[i], self.a[i], self.r[i], self.n[i], self.d[i]


def build(i, o):
    return nn.Sequential(nn.Linear(i, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, o))


def learn(online, target, opt, ring, gamma):
    s, a, r, n, d = ring.batch(128)
    with torch.no_grad():
        nxt = target(n).amax(1)
        y = r + gamma * nxt * (1 - d)
    q = online(s)[torch.arange(len(a)), a]
    loss = F.smooth_l1_loss(q, y)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    return loss.item()


def main(iters=10_000, gamma=0.99):
    mode = gym.vector.AutoresetMode.SAME_STEP
    envs = gym.make_vec("CartPole-v1", LANES, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode})
    online, target = build(4, 2), build(4, 2)
    target.load_state_dict(online.state_dict())
    opt = torch.optim.Adam(online.parameters(), 2.5e-4)
    ring = Ring(CAP, 4)
    s = torch.from_numpy(envs.reset(seed=1)[0])
    for it in range(iters):
        eps = 0.05 + 0.95 * max(0, 1 - it / 3000)
        greedy = online(s).argmax(1)
        roll = torch.rand(LANES) < eps
        a = torch.where(roll, torch.randint(2, (LANES,)), greedy)
        raw, r, term, trunc, info = envs.step(a.numpy())
        nxt = torch.from_numpy(raw.copy())
        for j in (term | trunc).nonzero()[0]:
            nxt[j] = torch.from_numpy(info["final_obs"][j])
        ring.extend(s, a, torch.from_numpy(r).float(), nxt, torch.from_numpy(term).float())
        s = torch.from_numpy(raw)
        if len(ring) > 1000:
            learn(online, target, opt, ring, gamma)
        if it % 250 == 0:
            target.load_state_dict(online.state_dict())


if __name__ == "__main__":
    main()
