"""Sound code that looks like a mistake from one side: each piece is left alone, and a mistake of its kind beside it is still named."""

import pytest

from rlclinic.diagnosis.lint import checks
from rlclinic.diagnosis.lint.code import linter
from rlclinic.diagnosis.lint.code.reading.sources import Source

HEAD = """
import copy
import random
from collections import defaultdict, deque, namedtuple

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

"""
IMPLICIT_VALUES = """
q1, q2, v = (nn.Sequential(nn.Linear(n, 64), nn.ReLU(), nn.Linear(64, 1)) for n in (4, 4, 3))
slow1, slow2, slow_v = copy.deepcopy(q1), copy.deepcopy(q2), copy.deepcopy(v)
opt = torch.optim.Adam([*q1.parameters(), *q2.parameters(), *v.parameters()], lr=3e-4)
env = gym.make("Pendulum-v1")
memory = deque(maxlen=100_000)
obs, _ = env.reset(seed=0)
for t in range(50_000):
    a = env.action_space.sample()
    obs2, r, term, trunc, _ = env.step(a)
    memory.append((obs, a, r, obs2, term))
    obs = env.reset()[0] if term or trunc else obs2
    s, u, g, s2, end = (torch.as_tensor(np.array(c), dtype=torch.float32) for c in zip(*random.choices(memory, k=64)))
    su = torch.cat([s, u], 1)
    with torch.no_grad():
        y = g + 0.99 * (1 - end) * slow_v(s2).squeeze(1)
        best = torch.min(slow1(su), slow2(su)).squeeze(1)
    loss = F.mse_loss(q1(su).squeeze(1), y) + F.mse_loss(q2(su).squeeze(1), y) + F.mse_loss(v(s).squeeze(1), best)
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for fast, slow in ((q1, slow1), (q2, slow2), (v, slow_v)):
            for w, old in zip(fast.parameters(), slow.parameters()):
                old += 0.005 * (w - old)
"""
COUNTED_TABLE = """
def play(env, q, eps):
    steps = []
    s, _ = env.reset()
    while True:
        a = int(np.random.randint(2)) if random.random() < eps else int(np.argmax(q[s]))
        s2, r, term, trunc, _ = env.step(a)
        steps.append((s, a, float(r)))
        if term or trunc:
            return steps
        s = s2


env = gym.make("Blackjack-v1")
q = defaultdict(lambda: np.zeros(2))
visits = defaultdict(lambda: np.zeros(2))
for k in range(10_000):
    g = 0.0
    for s, a, r in reversed(play(env, q, max(0.05, 1 - k / 5_000))):
        g = r + 0.99 * g
        visits[s][a] += 1
        q[s][a] += (g - q[s][a]) / visits[s][a]
test = gym.make("Blackjack-v1")
print(np.mean([sum(r for _, _, r in play(test, q, 0.0)) for _ in range(100)]))
"""
SLOW_COPIES = """
nets = nn.ModuleList([nn.Linear(4, 2), nn.Linear(4, 2)])
nets_target = copy.deepcopy(nets)
opt = torch.optim.Adam(nets.parameters(), lr=1e-3)
env = gym.make("CartPole-v1")
memory = deque(maxlen=100_000)
obs, _ = env.reset(seed=0)
for t in range(50_000):
    a = env.action_space.sample()
    obs2, r, term, trunc, _ = env.step(a)
    memory.append((obs, a, r, obs2, term))
    obs = env.reset()[0] if term or trunc else obs2
    s, u, g, s2, end = (torch.as_tensor(np.array(c)) for c in zip(*random.choices(memory, k=64)))
    with torch.no_grad():
        y = g + 0.99 * (1 - end.float()) * torch.min(nets_target[0](s2), nets_target[1](s2)).max(1).values
    loss = sum(F.mse_loss(net(s).gather(1, u[:, None]).squeeze(1), y) for net in nets)
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for w, slow in zip(nets.parameters(), nets_target.parameters()):
            slow += 0.005 * (w - slow)
"""
FALLING_BALL = """
class Catch(gym.Env):
    def __init__(self):
        self.action_space = gym.spaces.Discrete(3)
        self.observation_space = gym.spaces.Box(0, 10, (3,))

    def _look(self):
        return np.array([self.y, self.x, self.paddle], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.y, self.x, self.paddle = 0, int(self.np_random.integers(10)), 5
        return self._look(), {}

    def step(self, action):
        self.paddle = int(np.clip(self.paddle + int(action) - 1, 0, 9))
        self.y += 1
        down = self.y == 9
        return self._look(), float(down and self.x == self.paddle), down, False, {}
"""
ROWS_OF_THE_CLASS = """
class Memory:
    Row = namedtuple("Row", ["s", "a", "r", "s2", "end"])

    def __init__(self):
        self.rows = deque(maxlen=100_000)

    def add(self, s, a, r, s2, end):
        self.rows.append(self.Row(s, a, r, s2, end))

    def sample(self):
        picked = random.sample(self.rows, 64)
        s = torch.from_numpy(np.vstack([e.s for e in picked])).float()
        a = torch.from_numpy(np.vstack([e.a for e in picked])).float()
        r = torch.from_numpy(np.vstack([e.r for e in picked])).float()
        s2 = torch.from_numpy(np.vstack([e.s2 for e in picked])).float()
        end = torch.from_numpy(np.vstack([e.end for e in picked]).astype(np.uint8)).float()
        return s, a, r, s2, end


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(3, 64), nn.Linear(64, 1)

    def forward(self, s):
        return torch.tanh(self.head(F.relu(self.body(s))))


actor, critic = Actor(), nn.Linear(4, 1)
actor_target, critic_target = copy.deepcopy(actor), copy.deepcopy(critic)
opt = torch.optim.Adam(critic.parameters(), lr=1e-3)
actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-4)
env = gym.make("Pendulum-v1")
memory = Memory()
obs, _ = env.reset(seed=0)
for t in range(50_000):
    with torch.no_grad():
        action = actor(torch.from_numpy(obs).float().unsqueeze(0)).squeeze(0).numpy()
    action = np.clip(action + 0.2 * np.random.randn(1), -2, 2)
    obs2, r, term, trunc, _ = env.step(action)
    memory.add(obs, action, r, obs2, term)
    obs = env.reset()[0] if term or trunc else obs2
    if t < 1_000:
        continue
    s, u, g, s2, end = memory.sample()
    with torch.no_grad():
        y = g + 0.99 * critic_target(torch.cat([s2, actor_target(s2)], 1)) * (1 - end)
    loss = F.mse_loss(critic(torch.cat([s, u], 1)), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    actor_loss = -critic(torch.cat([s, actor(s)], 1)).mean()
    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()
    for fast, slow in ((actor, actor_target), (critic, critic_target)):
        for w, old in zip(fast.parameters(), slow.parameters()):
            old.data.copy_(0.99 * old.data + 0.01 * w.data)
"""


NAMES_OF_A_FUNCTION = """
def target_of(q1, q2, actor, batch):
    s, u, g, s2, end = batch
    with torch.no_grad():
        u2 = actor(s2)
        smaller = torch.min(q1(torch.cat([s2, u2], 1)), q2(torch.cat([s2, u2], 1)))
        return g + gamma * (1 - end) * smaller


gamma = 0.99
q1, q2, q1_target, q2_target = nn.Linear(4, 1), nn.Linear(4, 1), nn.Linear(4, 1), nn.Linear(4, 1)
q1_target.load_state_dict(q1.state_dict())
q2_target.load_state_dict(q2.state_dict())
y = target_of(q1_target, q2_target, actor, batch)
"""
RETRACE = """
def learn(model, optimizer, memory):
    s, a, r, mu, mask = memory.sample()
    q, pi = model(s)
    q_a, pi_a = q.gather(1, a), pi.gather(1, a)
    v = (q * pi).sum(1).unsqueeze(1).detach()
    rho = pi.detach() / mu
    rho_bar = rho.gather(1, a).clamp(max=1.0)
    ret, rets = v[-1] * mask[-1], []
    for i in reversed(range(len(r))):
        ret = r[i] + 0.99 * ret * mask[i]
        rets.insert(0, ret.item())
        ret = rho_bar[i] * (ret - q_a[i]) + v[i]
    rets = torch.tensor(rets).unsqueeze(1)
    loss = -rho_bar * torch.log(pi_a) * (rets - v) + F.smooth_l1_loss(q_a, rets)
    optimizer.zero_grad()
    loss.mean().backward()
    optimizer.step()
"""
MEAN_OF_A_SUM = """
net = nn.Linear(4, 2)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
env = gym.make("CartPole-v1")
memory = deque(maxlen=100_000)
obs, _ = env.reset(seed=0)
for t in range(50_000):
    action = env.action_space.sample()
    obs2, reward, terminated, truncated, _ = env.step(action)
    memory.append((obs, action))
    obs = env.reset()[0] if terminated or truncated else obs2
    if t < 1_000:
        continue
    s, u = (torch.as_tensor(np.array(c)) for c in zip(*random.sample(memory, 32)))
    log_prob = F.log_softmax(net(s), dim=1)
    chosen = log_prob.gather(1, u[:, None])
    loss = -0.5 * chosen + 0.01 * net(s).max(1).values
    opt.zero_grad()
    loss.mean().backward()
    opt.step()
"""
FISHER = """
def update(self, rollouts):
    values, log_probs = self.model.evaluate(rollouts.obs, rollouts.actions)
    sampled = values + torch.randn(values.size())
    vf_fisher_loss = -(values - sampled.detach()).pow(2).mean()
    fisher_loss = -log_probs.mean() + vf_fisher_loss
    fisher_loss.backward(retain_graph=True)
    self.optimizer.zero_grad()
    value_loss = (rollouts.returns - values).pow(2).mean()
    (value_loss - (rollouts.advantages * log_probs).mean()).backward()
    self.optimizer.step()
"""
PENALTY = """
class Discriminator(nn.Module):
    def __init__(self, gamma):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 1))
        self.optimizer = torch.optim.Adam(self.parameters())

    def penalty(self, expert, policy, gamma=0.5):
        share = torch.rand(expert.size(0), 1)
        mixed = gamma * share * expert + (1 - share) * policy
        mixed.requires_grad = True
        slope = torch.autograd.grad(self.trunk(mixed).sum(), mixed, create_graph=True)[0]
        return 10 * (slope.norm(2, dim=1) - 1).pow(2).mean()

    def update(self, rows):
        total = 0
        for expert, policy in rows:
            answer = self.trunk(torch.cat([expert, policy]))
            loss = F.binary_cross_entropy_with_logits(answer, torch.ones(answer.size())) + self.penalty(expert, policy)
            total += loss.item()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return total
"""
OWN_LOG_PROB = """
class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.log_std = nn.Linear(3, 2), nn.Parameter(torch.zeros(2))

    def log_prob(self, obs, action):
        return torch.distributions.Normal(self.mean(obs), self.log_std.exp()).log_prob(action).sum(-1)


actor = Actor()
opt = torch.optim.Adam(actor.parameters(), lr=1e-3)



def loss_of(obs, action, weights):
    log_prob = actor.log_prob(obs, action)
    return -(log_prob * weights).mean()


for obs, action, weights in loader:
    loss = loss_of(obs, action, weights)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
ONE_SCALE = """
def scaled(obs, mean, std):
    return (obs - mean) / std


env = gym.make("Pendulum-v1")
rows = []
obs, _ = env.reset(seed=0)
for t in range(1_000):
    next_obs, reward, terminated, truncated, _ = env.step(env.action_space.sample())
    rows.append((obs, reward, next_obs, terminated))
    obs = env.reset()[0] if terminated or truncated else next_obs
obs, reward, next_obs, terminated = (np.array(column) for column in zip(*rows))
mean, std = obs.mean(0), obs.std(0) + 1e-3
obs, next_obs = scaled(obs, mean, std), scaled(next_obs, mean, std)
loss = F.mse_loss(critic(obs), reward + 0.99 * (1 - terminated) * critic_target(next_obs).detach())
loss.backward()
"""
FROM_THE_END = """
def returns_of(rewards, terminals, gamma):
    returns, later = [0] * len(rewards), 0
    for i in range(len(rewards)):
        returns[-i - 1] = rewards[-i - 1] + gamma * later * (1 - terminals[-i - 1])
        later = returns[-i - 1]
    return returns


rewards, terminals = [], []
env = gym.make("CartPole-v1")
obs, _ = env.reset(seed=0)
for t in range(1_000):
    obs, reward, terminated, truncated, _ = env.step(env.action_space.sample())
    rewards.append(reward)
    terminals.append(terminated)
    if terminated or truncated:
        obs, _ = env.reset()
returns = torch.tensor(returns_of(rewards, terminals, 0.99))
loss = F.mse_loss(critic(observations), returns)
loss.backward()
"""
UNDISCOUNTED = """
def learn(env, episodes, alpha=0.1, gamma=1.0):
    q = defaultdict(lambda: np.zeros(2))
    for k in range(episodes):
        s, _ = env.reset()
        over = False
        while not over:
            a = env.action_space.sample() if random.random() < 1 / (k + 1) else int(np.argmax(q[s]))
            s2, r, terminated, truncated, _ = env.step(a)
            q[s][a] += alpha * (r + gamma * np.max(q[s2]) * (1 - terminated) - q[s][a])
            s, over = s2, terminated or truncated
    return q


learn(gym.make("CliffWalking-v1"), 500)
"""
CONSERVATIVE = """
actor = nn.Sequential(nn.Linear(3, 1), nn.Tanh())
critic, critic_target = nn.Linear(4, 1), nn.Linear(4, 1)
critic_target.load_state_dict(critic.state_dict())
log_multiplier = nn.Parameter(torch.tensor(1.0))
opt = torch.optim.Adam(critic.parameters(), lr=1e-3)
actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-3)
multiplier_opt = torch.optim.Adam([log_multiplier], lr=1e-3)
for t, (s, u, g, s2, end) in enumerate(loader):
    with torch.no_grad():
        y = g + 0.99 * (1 - end) * critic_target(torch.cat([s2, actor(s2)], 1))
    gap = critic(torch.cat([s, actor(s).detach()], 1)).mean() - critic(torch.cat([s, u], 1)).mean()
    multiplier_loss = -log_multiplier.exp() * (gap - 5.0)
    multiplier_opt.zero_grad()
    multiplier_loss.backward(retain_graph=True)
    multiplier_opt.step()
    loss = F.mse_loss(critic(torch.cat([s, u], 1)), y) - 0.1 * -gap
    opt.zero_grad()
    loss.backward()
    opt.step()
    if t < 1_000:
        actor_loss = F.mse_loss(actor(s), u)
    else:
        actor_loss = -critic(torch.cat([s, actor(s)], 1)).mean()
    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()
    for w, old in zip(critic.parameters(), critic_target.parameters()):
        old.data.copy_(0.995 * old.data + 0.005 * w.data)
"""
BEGUN_ALIKE = """
def follow(net, slow, tau=0.005):
    for w, old in zip(net.parameters(), slow.parameters()):
        old.data.copy_(old.data * (1 - tau) + w.data * tau)


net, slow = nn.Linear(4, 2), nn.Linear(4, 2)
follow(net, slow, tau=1.0)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for s, u, g, s2, end in loader:
    with torch.no_grad():
        y = g + 0.99 * (1 - end) * slow(s2).max(1).values
    loss = F.mse_loss(net(s).gather(1, u).squeeze(1), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    follow(net, slow)
"""
ENTROPY_OF_ITS_OWN = """
def loss_of(policies, q_values, values, actions, entropy_weight=1e-4):
    total = 0
    for step in reversed(range(len(policies))):
        chosen = policies[step].gather(1, actions[step]).log()
        actor_loss = -(chosen * (q_values[step] - values[step]).detach()).mean(0)
        entropy = entropy_weight * -(policies[step].log() * policies[step]).sum(1).mean(0)
        total_loss = actor_loss - entropy
        total += total_loss
    return total


loss_of(policies, q_values, values, actions).backward()
"""
DISCRIMINATOR = """
env = gym.make("Pendulum-v1")
actor, judge = nn.Sequential(nn.Linear(3, 1), nn.Tanh()), nn.Linear(4, 1)
opt = torch.optim.Adam(judge.parameters(), lr=1e-3)
actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-3)
wrong_by = nn.BCEWithLogitsLoss()
obs, _ = env.reset(seed=0)
for t in range(10_000):
    s = torch.as_tensor(obs).unsqueeze(0)
    u = actor(s)
    fake, real = judge(torch.cat([s, u], 1)), judge(next(expert))
    loss = wrong_by(fake, torch.ones(1, 1)) + F.binary_cross_entropy_with_logits(real, torch.zeros(1, 1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    actor_loss = F.mse_loss(actor(s), teacher(s).detach())
    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()
    obs, _, terminated, truncated, _ = env.step(2 * u.detach().numpy()[0])
    if terminated or truncated:
        obs, _ = env.reset()
"""
WINDOW = """
class Memory:
    def __init__(self, size, n_step=3, gamma=0.99):
        self.memory = deque(maxlen=size)
        self.n_step_buffer = deque(maxlen=n_step)

    def sample(self):
        return random.sample(self.memory, 32)


memory = Memory(100_000)
loss = loss_of(memory.sample())
loss.backward()
"""
TURNED_TWICE = """
scores = nn.Linear(8, 5)
opt = torch.optim.SGD(scores.parameters(), lr=0.05)
usual = torch.zeros(())
for round in range(3000):
    context = torch.randn(32, 8)
    dist = torch.distributions.Categorical(logits=scores(context))
    arm = dist.sample()
    reward = torch.randn(32) + (arm == 2).float()
    loss = ((usual - reward) * dist.log_prob(arm)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    usual += 0.1 * (reward.mean() - usual)
"""
CLIMBS = """
policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
ascent = torch.optim.Adam(policy.parameters(), lr=1e-3, maximize=True)
env = gym.make("CartPole-v1")
for episode in range(400):
    obs, _ = env.reset(seed=7 if episode == 0 else None)
    logs, entropies, rewards = [], [], []
    over = False
    while not over:
        dist = torch.distributions.Categorical(logits=policy(torch.as_tensor(obs)))
        action = dist.sample()
        logs.append(dist.log_prob(action))
        entropies.append(dist.entropy())
        obs, r, terminated, truncated, _ = env.step(action.item())
        rewards.append(r)
        over = terminated or truncated
    to_go = torch.as_tensor(np.cumsum(rewards[::-1])[::-1].copy(), dtype=torch.float32)
    gain = (torch.stack(logs) * (to_go - to_go.mean())).sum() + 0.01 * torch.stack(entropies).sum()
    ascent.zero_grad()
    gain.backward()
    ascent.step()
"""
ROWS_OF_WHAT_THERE_IS = """
net = nn.Sequential(nn.Linear(4, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 2))
opt = torch.optim.Adam(net.parameters(), lr=5e-4)
env = gym.make("CartPole-v1")
now, _ = env.reset(seed=2)
for iteration in range(300):
    seen, taken, goals = [], [], []
    for _ in range(64):
        with torch.no_grad():
            best = int(net(torch.as_tensor(now)).argmax())
        action = random.randrange(2) if random.random() < 0.1 else best
        then, r, terminated, truncated, _ = env.step(action)
        with torch.no_grad():
            future = net(torch.as_tensor(then)).max()
        seen.append(torch.as_tensor(now))
        taken.append(action)
        goals.append(r + 0.99 * future * (1 - terminated))
        now = env.reset()[0] if terminated or truncated else then
    S, A, Y = torch.stack(seen), torch.tensor(taken), torch.stack(goals)
    for rows in torch.randperm(len(Y)).chunk(4):
        q = net(S[rows])[torch.arange(len(rows)), A[rows]]
        loss = F.mse_loss(q, Y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
"""
KEPT_UNDER_ANOTHER_NAME = """
def collect(env, actor, obs, n):
    states, actions, rewards, states_reached = [], [], [], []
    for _ in range(n):
        x = torch.as_tensor(obs)
        with torch.no_grad():
            action = torch.distributions.Categorical(logits=actor(x)).sample()
        obs, reward, terminated, truncated, _ = env.step(action.item())
        states.append(x)
        actions.append(action)
        rewards.append(reward)
        states_reached.append(torch.as_tensor(obs))
        if terminated or truncated:
            obs, _ = env.reset()
    return states, actions, rewards, states_reached, obs
"""
ONE_TRACE_AN_EPISODE = """
rng = np.random.default_rng(3)
weights = np.zeros(21)
gamma, lam = 0.99, 0.8
for episode in range(1500):
    s, done = 10, False
    z = np.zeros_like(weights)
    while not done:
        s2 = s + int(rng.choice([-1, 1]))
        done = s2 in (0, 20)
        z = gamma * lam * z + np.eye(21)[s]
        delta = float(s2 == 20) + (0.0 if done else gamma * weights[s2]) - weights[s]
        weights += 0.05 * delta * z
        s = s2
"""
LOSSES_BY_NAME = """
class Reinforce(nn.Module):
    def __init__(self, seed=0):
        super().__init__()
        self.env = gym.make("CartPole-v1")
        self.policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
        self.baseline = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1), nn.Flatten(0))
        self.seed = seed

    def optimizers(self):
        return {
            "policy": torch.optim.Adam(self.policy.parameters(), lr=1e-3),
            "baseline": torch.optim.Adam(self.baseline.parameters(), lr=1e-3),
        }

    @torch.no_grad()
    def collect(self):
        seen, taken, returns = [], [], []
        for _ in range(5):
            obs, _ = self.env.reset(seed=self.seed)
            self.seed = None
            rewards, over = [], False
            while not over:
                x = torch.as_tensor(obs, dtype=torch.float32)
                action = torch.distributions.Categorical(logits=self.policy(x)).sample()
                seen.append(x)
                taken.append(action)
                obs, reward, terminated, truncated, _ = self.env.step(int(action))
                rewards.append(float(reward))
                over = terminated or truncated
            future, own = 0.0, []
            for reward in reversed(rewards):
                future = reward + 0.99 * future
                own.append(future)
            returns += own[::-1]
        return {"obs": torch.stack(seen), "action": torch.stack(taken), "returns": torch.tensor(returns)}

    def losses(self, batch):
        dist = torch.distributions.Categorical(logits=self.policy(batch["obs"]))
        value = self.baseline(batch["obs"])
        advantage = batch["returns"] - value.detach()
        policy_loss = -(dist.log_prob(batch["action"]) * advantage).mean()
        return {"policy": policy_loss, "baseline": F.mse_loss(value, batch["returns"])}


def fit(module, steps):
    optimizers = module.optimizers()
    for _ in range(steps):
        losses = module.losses(module.collect())
        for name, optimizer in optimizers.items():
            optimizer.zero_grad()
            losses[name].backward()
            optimizer.step()


fit(Reinforce(), 1000)
"""
DOUBLE = """
net = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))
slow = copy.deepcopy(net)
opt = torch.optim.Adam(net.parameters(), lr=5e-4)
env = gym.make("CartPole-v1")
memory = deque(maxlen=50_000)
obs, _ = env.reset(seed=2)
for t in range(50_000):
    chance = max(0.05, 1 - t / 10_000)
    action = random.randrange(2) if random.random() < chance else int(net(torch.as_tensor(obs)).argmax())
    obs2, r, term, trunc, _ = env.step(action)
    memory.append((obs, action, r, obs2, term))
    obs = env.reset()[0] if term or trunc else obs2
    if len(memory) < 1000:
        continue
    s, a, g, s2, end = map(np.array, zip(*random.choices(memory, k=64)))
    s, a, g = torch.as_tensor(s), torch.as_tensor(a), torch.as_tensor(g, dtype=torch.float32)
    s2, end = torch.as_tensor(s2), torch.as_tensor(end, dtype=torch.float32)
    with torch.no_grad():
        best = net(s2).argmax(1)
        y = g + 0.99 * (1 - end) * slow(s2).gather(1, best[:, None]).squeeze(1)
    loss = F.smooth_l1_loss(net(s).gather(1, a[:, None]).squeeze(1), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if t % 500 == 0:
        slow.load_state_dict(net.state_dict())
"""
EVERY_STATE = """
def fit(rewards, ended, states=20, gamma=0.95):
    critic = nn.Sequential(nn.Linear(states, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(critic.parameters(), lr=0.01)
    every = F.one_hot(torch.arange(states), states).float()
    next_states = torch.cat([every[1:], every[:1]])
    for _ in range(10_000):
        target = rewards + gamma * (1 - ended) * critic(next_states).squeeze(1)
        loss = F.mse_loss(critic(every).squeeze(1), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return critic
"""
BY_THE_CLOCK = """
from stable_baselines3 import A2C


class Harvest(gym.Env):
    observation_space = gym.spaces.Box(0.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.week, self.ripe = 0, 0.1
        return np.array([self.week / 12, self.ripe], np.float32), {}

    def step(self, action):
        self.week += 1
        earned = self.ripe if action == 1 else 0.0
        self.ripe = 0.0 if action == 1 else min(1.0, self.ripe + 0.2 * self.np_random.random())
        return np.array([self.week / 12, self.ripe], np.float32), earned, bool(self.week >= 12), False, {}


field = Harvest()
model = A2C("MlpPolicy", field, gamma=1.0, seed=0)
model.learn(100_000)
"""
NOISY_WEIGHTS = """
def play(env, weights, bias, seed):
    obs, _ = env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        obs, r, term, trunc, _ = env.step(np.clip(weights @ obs + bias, -2.0, 2.0) if bias.size > 1 else weights @ obs + bias)
        total += r
        over = term or trunc
    return total


env = gym.make("Pendulum-v1")
rng = np.random.default_rng(1)
theta = np.zeros(4)
for k in range(200):
    noise = rng.standard_normal((8, 4))
    gains = np.array([play(env, (theta + 0.1 * e)[None, :3], (theta + 0.1 * e)[3:], k) for e in noise])
    theta = theta + 0.02 * (gains - gains.mean()) / (gains.std() + 1e-8) @ noise
"""
WEIGHTS_BY_KEY = """
fast, slow = nn.Linear(4, 2), nn.Linear(4, 2)
slow.load_state_dict(fast.state_dict())
opt = torch.optim.Adam(fast.parameters(), lr=1e-3)
env = gym.make("CartPole-v1")
memory = deque(maxlen=50_000)
obs, _ = env.reset(seed=0)
for t in range(100_000):
    action = env.action_space.sample() if random.random() < max(0.05, 1 - t / 10_000) else int(fast(torch.as_tensor(obs)).argmax())
    obs2, r, term, trunc, _ = env.step(action)
    memory.append((obs, action, r, obs2, term))
    obs = env.reset()[0] if term or trunc else obs2
    if len(memory) < 1000:
        continue
    s, a, g, s2, end = map(np.array, zip(*random.sample(memory, 64)))
    s, g, s2, end = (torch.as_tensor(each, dtype=torch.float32) for each in (s, g, s2, end))
    with torch.no_grad():
        y = g + 0.99 * (1 - end) * slow(s2).max(1).values
    loss = F.smooth_l1_loss(fast(s).gather(1, torch.as_tensor(a)[:, None]).squeeze(1), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    for name, weight in fast.state_dict().items():
        old = slow.state_dict()[name]
        old.copy_(0.01 * weight + 0.99 * old)
"""
HANDED_OUT_LATER = """
class Window:
    def __init__(self, n, gamma):
        self.n, self.gamma, self.kept = n, gamma, deque()

    def first(self, later, ended):
        total = 0.0
        for k, (_, _, r) in enumerate(self.kept):
            total += self.gamma**k * r
        factor = 0.0 if ended else self.gamma ** len(self.kept)
        obs, action, _ = self.kept.popleft()
        return obs, action, total, later, factor

    def follow(self, obs, action, reward, later, term, trunc):
        self.kept.append((obs, action, reward))
        if term or trunc:
            while self.kept:
                yield self.first(later, term)
        elif len(self.kept) == self.n:
            yield self.first(later, False)


fast, slow = nn.Linear(4, 2), nn.Linear(4, 2)
slow.load_state_dict(fast.state_dict())
opt = torch.optim.Adam(fast.parameters(), lr=1e-3)
env = gym.make("CartPole-v1")
memory, window = deque(maxlen=50_000), Window(3, 0.99)
obs, _ = env.reset(seed=0)
for t in range(100_000):
    action = env.action_space.sample() if random.random() < max(0.05, 1 - t / 10_000) else int(fast(torch.as_tensor(obs)).argmax())
    obs2, r, term, trunc, _ = env.step(action)
    for row in window.follow(obs, action, r, obs2, term, trunc):
        memory.append(row)
    obs = env.reset()[0] if term or trunc else obs2
    if len(memory) < 1000:
        continue
    s, a, g, s2, factor = map(np.array, zip(*random.sample(memory, 64)))
    s, g, s2, factor = (torch.as_tensor(each, dtype=torch.float32) for each in (s, g, s2, factor))
    with torch.no_grad():
        y = g + factor * slow(s2).max(1).values
    loss = F.smooth_l1_loss(fast(s).gather(1, torch.as_tensor(a)[:, None]).squeeze(1), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if t % 500 == 0:
        slow.load_state_dict(fast.state_dict())
"""
SOUND = {name.lower(): text for name, text in list(globals().items()) if name.isupper() and name != "HEAD" and isinstance(text, str)}


def said(text: str) -> set[str]:
    script = linter.parse(Source("script.py", HEAD + text))
    return {finding.rule for check in checks.checks("COD") for finding in linter.examine(check, script) if finding.severity.value != "low"}


@pytest.mark.parametrize("name", SOUND)
def test_sound_code_is_left_alone(name: str) -> None:
    assert said(SOUND[name]) == set()


@pytest.mark.parametrize(
    ("sound", "right", "wrong", "check"),
    [
        (IMPLICIT_VALUES, "slow_v(s2)", "slow1(torch.cat([s2, u], 1))", "COD522"),
        (COUNTED_TABLE, "        if term or trunc:\n            return steps\n", "", "COD105"),
        (COUNTED_TABLE, "/ visits[s][a]", "* 1.5", "COD518"),
        (SLOW_COPIES, "            slow += 0.005 * (w - slow)", "            slow.requires_grad = False", "COD506"),
        (FALLING_BALL, "[self.y, self.x, self.paddle]", "[self.x, self.x, self.paddle]", "COD110"),
        (ROWS_OF_THE_CLASS, "critic_target(torch.cat([s2", "critic(torch.cat([s2", "COD536"),
        (NAMES_OF_A_FUNCTION, "target_of(q1_target, q2_target", "target_of(q1, q2", "COD536"),
        (RETRACE, "(rets - v)", "(rets - q_a)", "COD306"),
        (MEAN_OF_A_SUM, "-0.5 * chosen + 0.01 * net(s).max(1).values", "(chosen - net(s).max(1).values) ** 2", "COD601"),
        (FISHER, "value_loss - (rollouts", "-value_loss - (rollouts", "COD305"),
        (OWN_LOG_PROB, "return -(log_prob",
         "log_prob = torch.distributions.Normal(obs, 1.0).log_prob(action)\n    return -(log_prob", "COD211"),
        (ONE_SCALE, "scaled(obs, mean, std), scaled(next_obs, mean, std)", "obs, scaled(next_obs, mean, std)", "COD309"),
        (FROM_THE_END, "returns[-i - 1] = rewards[-i - 1] + gamma * later * (1 - terminals[-i - 1])\n        later = returns[-i - 1]",
         "returns[i] = rewards[i] + gamma * later * (1 - terminals[i])\n        later = returns[i]", "COD504"),
        (UNDISCOUNTED, "r + gamma * np", "r + 1.2 * np", "COD512"),
        (CONSERVATIVE, "-critic(torch.cat([s, actor(s)], 1))", "-critic(torch.cat([s, actor(s).detach()], 1))", "COD528"),
        (CONSERVATIVE, "actor_loss = -critic", "actor_loss = critic", "COD524"),
        (ENTROPY_OF_ITS_OWN, "entropy_weight * -(policies[step].log() * policies[step]).sum(1).mean(0)\n        total_loss = actor_loss -",
         "Categorical(policies[step]).entropy().mean()\n        total_loss = actor_loss +", "COD304"),
        (WINDOW, "self.memory = deque(maxlen=size)", "self.memory = deque(maxlen=3)", "COD535"),
        (BEGUN_ALIKE, "    follow(net, slow)", "    follow(net, slow, 0.995)", "COD527"),
        (DOUBLE, "best = net(s2).argmax(1)", "best = net(s).argmax(1)", "COD536"),
        (DOUBLE, "slow(s2).gather(1, best[:, None])", "slow(s2).gather(1, a[:, None])", "COD536"),
        (TURNED_TWICE, "(usual - reward)", "(reward - usual)", "COD303"),
        (CLIMBS, "+ 0.01 * torch", "- 0.01 * torch", "COD304"),
        (CLIMBS, "gain = (torch.stack(logs) * (", "gain = -(torch.stack(logs) * (", "COD303"),
        (ROWS_OF_WHAT_THERE_IS, "seen.append(torch.as_tensor(now))", "seen.append(torch.as_tensor(then))", "COD122"),
        (KEPT_UNDER_ANOTHER_NAME, "        states.append(x)\n", "        states.append(torch.as_tensor(obs))\n", "COD122"),
        (ONE_TRACE_AN_EPISODE, "for episode in range(1500):\n    s, done = 10, False\n    z = np.zeros_like(weights)\n",
         "z = np.zeros_like(weights)\nfor episode in range(1500):\n    s, done = 10, False\n", "COD503"),
        (LOSSES_BY_NAME, ", nn.Flatten(0))", ")", "COD601"),
        (LOSSES_BY_NAME, "            self.seed = None\n", "", "COD903"),
        (EVERY_STATE, "every = F.one_hot(torch.arange(states), states).float()", "every = torch.rand(64, states)", "COD307"),
        (BY_THE_CLOCK, "bool(self.week >= 12), False, {}", "bool(self.ripe >= 1), self.week >= 12, {}", "COD809"),
        (WEIGHTS_BY_KEY, "        old = slow.state_dict()[name]\n        old.copy_(0.01 * weight + 0.99 * old)",
         "        weight.copy_(slow.state_dict()[name])", "COD534"),
        (HANDED_OUT_LATER, "yield self.first(later, term)", "yield self.first(later, False)", "COD501"),
    ],
)  # fmt: skip
def test_a_mistake_of_the_same_kind_is_still_named(sound: str, right: str, wrong: str, check: str) -> None:
    assert sound.count(right) == 1
    assert check in said(sound.replace(right, wrong))


def test_gradients_that_pile_up_are_named_once_where_they_are_taken() -> None:
    script = linter.parse(Source("script.py", (HEAD + DOUBLE).replace("    opt.zero_grad()\n", "")))
    found = [finding for check in checks.checks("COD") for finding in linter.examine(check, script) if finding.rule == "COD401"]
    assert [[place.text.strip() for place in finding.evidence] for finding in found] == [["loss.backward()"]]


MEMORY = """
class Memory:
    def __init__(self, size):
        self.s, self.s2 = np.zeros((size, 4), np.float32), np.zeros((size, 4), np.float32)
        self.a, self.g, self.end = np.zeros(size, np.int64), np.zeros(size, np.float32), np.zeros(size, np.float32)
        self.size, self.at, self.held = size, 0, 0

    def keep(self, obs, action, reward, later, end):
        self.s2[self.at] = later
        self.s[self.at], self.a[self.at], self.g[self.at], self.end[self.at] = obs, action, reward, end
        self.at, self.held = (self.at + 1) % self.size, min(self.held + 1, self.size)

    def draw(self, n):
        rows = np.random.randint(0, self.held, n)
        return [torch.as_tensor(part[rows]) for part in (self.s, self.a, self.g, self.s2, self.end)]


"""


def test_a_memory_that_mixes_up_what_it_is_given_is_named_inside_it() -> None:
    made = DOUBLE.replace("deque(maxlen=50_000)", "Memory(50_000)").replace(
        "memory.append((obs, action, r, obs2, term))", "memory.keep(obs, action, r, obs2, term)"
    )
    before, _, after = made.partition("    s, a, g, s2, end = map")
    text = (
        MEMORY
        + before.replace("len(memory)", "memory.held")
        + "    s, a, g, s2, end = memory.draw(64)\n    with"
        + after.partition("    with")[2]
    )
    assert said(text) == set()
    script = linter.parse(Source("script.py", HEAD + text.replace("self.s2[self.at] = later", "self.s2[self.at] = obs")))
    found = [finding for check in checks.checks("COD") for finding in linter.examine(check, script) if finding.rule == "COD536"]
    assert "self.s2[self.at] = obs" in {place.text.strip() for finding in found for place in finding.evidence}


ON_POLICY_TABLE = """
def pick(table, state, chance):
    if random.random() < chance:
        return random.randrange(2)
    return int(np.argmax(table[state]))


env = gym.make("Taxi-v3")
table = defaultdict(lambda: np.zeros(2))
for episode in range(5_000):
    chance = max(0.05, 1 - episode / 2_500)
    now, _ = env.reset()
    move, over = pick(table, now, chance), False
    while not over:
        then, gain, term, trunc, _ = env.step(move)
        after = pick(table, then, chance)
        goal = gain if term else gain + 0.95 * table[then][after]
        table[now][move] += 0.1 * (goal - table[now][move])
        now, move = then, after
        over = term or trunc
"""


def noted(text: str) -> set[str]:
    script = linter.parse(Source("script.py", HEAD + text))
    return {finding.rule for check in checks.checks("COD") for finding in linter.examine(check, script)}


@pytest.mark.parametrize(
    ("sound", "right", "wrong", "check"),
    [
        (HANDED_OUT_LATER, "yield self.first(later, term)", "yield self.first(later, term or trunc)", "COD101"),
        (ON_POLICY_TABLE, "gain if term else", "gain if term or trunc else", "COD101"),
        (ON_POLICY_TABLE, "now, move = then, after", "now = then", "COD517"),
        (ON_POLICY_TABLE, "now, move = then, after", "now, move = then, pick(table, then, chance)", "COD517"),
        (ON_POLICY_TABLE, "table = defaultdict(lambda: np.zeros(2))", "row = np.zeros(2)\ntable = defaultdict(lambda: row)", "COD518"),
    ],
)
def test_a_mistake_is_noted_beside_its_sound_form(sound: str, right: str, wrong: str, check: str) -> None:
    assert sound.count(right) == 1
    assert check not in noted(sound)
    assert check in noted(sound.replace(right, wrong))
