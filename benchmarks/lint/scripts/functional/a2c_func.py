# advantage actor-critic in plain functions. state goes in, state comes out.
import os
import collections

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F

Rollout = collections.namedtuple("Rollout", "obs actions rewards ends terms next_values")

HP = dict(
    gamma=0.99,
    lam=0.95,
    horizon=64,
    lr=7e-4,
    value_coef=0.5,
    entropy_coef=0.01,
    max_grad=0.5,
    steps=int(os.environ.get("STEPS", 60_000)),
    seed=21,
)


def init_linear(n_in, n_out, gain):
    w = torch.empty(n_out, n_in)
    torch.nn.init.orthogonal_(w, gain)
    return w.requires_grad_(), torch.zeros(n_out, requires_grad=True)


def init_weights(obs_dim, n_actions, hidden=64):
    w = {}
    w["h1.w"], w["h1.b"] = init_linear(obs_dim, hidden, 2**0.5)
    w["h2.w"], w["h2.b"] = init_linear(hidden, hidden, 2**0.5)
    w["pi.w"], w["pi.b"] = init_linear(hidden, n_actions, 0.01)
    w["v.w"], w["v.b"] = init_linear(hidden, 1, 1.0)
    return w


def forward(w, obs):
    """-> logits [T, n], values [T]"""
    h = torch.tanh(F.linear(obs, w["h1.w"], w["h1.b"]))
    h = torch.tanh(F.linear(h, w["h2.w"], w["h2.b"]))
    logits = F.linear(h, w["pi.w"], w["pi.b"])
    value = F.linear(h, w["v.w"], w["v.b"])
    return logits, value.squeeze(-1)


def value_of(w, obs):
    with torch.no_grad():
        return forward(w, torch.as_tensor(obs, dtype=torch.float32))[1].item()


def choose(w, obs):
    with torch.no_grad():
        logits, _ = forward(w, torch.as_tensor(obs, dtype=torch.float32))
        return int(torch.multinomial(F.softmax(logits, dim=-1), 1))


def collect(env, w, obs, horizon):
    """Roll the policy for `horizon` steps; also returns V(s') for every step, before any reset."""
    o, a, r, e, te, nv, finished = [], [], [], [], [], [], []
    for _ in range(horizon):
        action = choose(w, obs)
        nxt, reward, term, trunc, info = env.step(action)
        o.append(obs)
        a.append(action)
        r.append(reward)
        e.append(float(term or trunc))
        te.append(float(term))
        nv.append(value_of(w, nxt))
        if "episode" in info:
            finished.append(float(info["episode"]["r"]))
        if term or trunc:
            nxt, _ = env.reset()
        obs = nxt
    as_float = lambda x: torch.as_tensor(np.asarray(x), dtype=torch.float32)
    batch = Rollout(as_float(o), torch.as_tensor(a), as_float(r), as_float(e), as_float(te), as_float(nv))
    return batch, obs, finished


def gae(rollout, values, gamma, lam):
    T = rollout.rewards.shape[0]
    out = torch.zeros(T)
    carry = 0.0
    for t in range(T - 1, -1, -1):
        delta = rollout.rewards[t] + gamma * (1 - rollout.terms[t]) * rollout.next_values[t] - values[t]
        carry = delta + gamma * lam * (1 - rollout.ends[t]) * carry
        out[t] = carry
    return out


def loss_fn(w, rollout, hp):
    logits, values = forward(w, rollout.obs)
    logp_all = F.log_softmax(logits, dim=-1)
    logp = logp_all.gather(1, rollout.actions.unsqueeze(1)).squeeze(1)
    entropy = -(logp_all.exp() * logp_all).sum(-1).mean()

    adv = gae(rollout, values.detach(), hp["gamma"], hp["lam"])
    target = adv + values.detach()
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)

    policy_loss = -(logp * adv).mean()
    value_loss = F.mse_loss(values, target)
    total = policy_loss + hp["value_coef"] * value_loss - hp["entropy_coef"] * entropy
    return total, dict(policy=policy_loss.item(), value=value_loss.item(), entropy=entropy.item())


def apply_update(w, opt, rollout, hp):
    total, stats = loss_fn(w, rollout, hp)
    opt.zero_grad()
    total.backward()
    torch.nn.utils.clip_grad_norm_(list(w.values()), hp["max_grad"])
    opt.step()
    return stats


def greedy_score(w, env_id, episodes=10):
    env = gym.make(env_id)
    scores = []
    for i in range(episodes):
        obs, _ = env.reset(seed=7000 + i)
        score = 0.0
        while True:
            with torch.no_grad():
                logits, _ = forward(w, torch.as_tensor(obs, dtype=torch.float32))
            obs, reward, term, trunc, _ = env.step(int(logits.argmax(-1)))
            score += reward
            if term or trunc:
                break
        scores.append(score)
    return np.mean(scores)


def train(env_id="CartPole-v1", hp=HP):
    torch.manual_seed(hp["seed"])
    np.random.seed(hp["seed"])
    env = gym.wrappers.RecordEpisodeStatistics(gym.make(env_id))
    w = init_weights(env.observation_space.shape[0], env.action_space.n)
    opt = torch.optim.RMSprop(list(w.values()), lr=hp["lr"], alpha=0.99, eps=1e-5)
    obs, _ = env.reset(seed=hp["seed"])
    recent = collections.deque(maxlen=20)
    for it in range(hp["steps"] // hp["horizon"]):
        rollout, obs, finished = collect(env, w, obs, hp["horizon"])
        recent.extend(finished)
        stats = apply_update(w, opt, rollout, hp)
        if it % 50 == 0:
            mean = np.mean(recent) if recent else float("nan")
            print(f"{(it + 1) * hp['horizon']:6d} return {mean:6.1f} " + " ".join(f"{k}={v:.3f}" for k, v in stats.items()))
    return w


if __name__ == "__main__":
    weights = train()
    print("greedy", greedy_score(weights, "CartPole-v1"))
