"""DQN on 4 parallel CartPoles with gymnasium >= 1.0 default autoreset (NEXT_STEP).

In that mode the step after an episode end only resets: its action is ignored and the reward is 0,
so that transition has to be thrown away.
"""
import os

import gymnasium as gym
import numpy as np
import torch
from torch import nn, optim

num_envs = 4
total = int(os.environ.get("STEPS", 80_000))
gamma = 0.99
lr = 1e-3
batch_size = 128
capacity = 50_000
start_learning = min(2_000, total // 3)
sync_period = 1_000
explore_until = 0.4 * total
seed = 17

rng = np.random.default_rng(seed)
torch.manual_seed(seed)

envs = gym.make_vec("CartPole-v1", num_envs=num_envs, vectorization_mode="sync")
obs_shape = envs.single_observation_space.shape
n_act = envs.single_action_space.n


def build():
    return nn.Sequential(
        nn.Linear(int(np.prod(obs_shape)), 120), nn.ReLU(),
        nn.Linear(120, 84), nn.ReLU(),
        nn.Linear(84, n_act),
    )


qf = build()
qf_target = build()
qf_target.load_state_dict(qf.state_dict())
optimizer = optim.Adam(qf.parameters(), lr=lr)


class Ring:
    def __init__(self):
        self.o = np.zeros((capacity,) + obs_shape, dtype=np.float32)
        self.o2 = np.zeros((capacity,) + obs_shape, dtype=np.float32)
        self.a = np.zeros(capacity, dtype=np.int64)
        self.r = np.zeros(capacity, dtype=np.float32)
        self.term = np.zeros(capacity, dtype=np.float32)
        self.i = 0
        self.n = 0

    def extend(self, o, a, r, o2, term):
        for row in zip(o, a, r, o2, term):
            self.o[self.i], self.a[self.i], self.r[self.i], self.o2[self.i], self.term[self.i] = row
            self.i = (self.i + 1) % capacity
            self.n = min(self.n + 1, capacity)

    def minibatch(self):
        k = rng.integers(0, self.n, size=batch_size)
        return (torch.from_numpy(x[k]) for x in (self.o, self.a, self.r, self.o2, self.term))


def eps_at(step):
    return max(0.05, 1.0 - 0.95 * step / explore_until)


def act(obs, eps):
    with torch.no_grad():
        greedy = qf(torch.as_tensor(obs)).argmax(dim=1).numpy()
    explore = rng.random(len(greedy)) < eps
    return np.where(explore, rng.integers(0, n_act, size=len(greedy)), greedy)


def td_update(ring):
    o, a, r, o2, term = ring.minibatch()
    with torch.no_grad():
        target_max = qf_target(o2).max(dim=1).values
        td_target = r + gamma * target_max * (1.0 - term)
    q = qf(o).gather(1, a.view(-1, 1)).squeeze(1)
    loss = nn.functional.smooth_l1_loss(q, td_target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item(), q.mean().item()


def evaluate(episodes=5):
    env = gym.make("CartPole-v1")
    out = []
    for ep in range(episodes):
        obs, _ = env.reset(seed=30_000 + ep)
        ret, over = 0.0, False
        while not over:
            obs, r, term, trunc, _ = env.step(int(act(obs[None], 0.0)[0]))
            ret += r
            over = term or trunc
        out.append(ret)
    env.close()
    return np.mean(out)


ring = Ring()
obs, _ = envs.reset(seed=seed)  # an int seed gives env i the seed seed + i
just_ended = np.zeros(num_envs, dtype=bool)
ep_ret = np.zeros(num_envs)
history = []
step = 0
last_sync = 0
while step < total:
    actions = act(obs, eps_at(step))
    next_obs, rewards, terms, truncs, _ = envs.step(actions)

    valid = ~just_ended
    ring.extend(obs[valid], actions[valid], rewards[valid], next_obs[valid], terms[valid])

    ep_ret += rewards
    just_ended = terms | truncs
    for i in np.flatnonzero(just_ended):
        history.append(ep_ret[i])
        ep_ret[i] = 0.0

    obs = next_obs
    step += num_envs

    if step >= start_learning:
        loss, q_mean = td_update(ring)
        if step - last_sync >= sync_period:
            qf_target.load_state_dict(qf.state_dict())
            last_sync = step
        if step % 8_000 < num_envs:
            print(f"{step} return {np.mean(history[-20:]):.1f} loss {loss:.4f} q {q_mean:.2f} eps {eps_at(step):.2f}")

print("greedy return", evaluate())
envs.close()
