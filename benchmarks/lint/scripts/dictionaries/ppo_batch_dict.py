"""PPO with a dict of arrays per rollout and a dict of losses per minibatch."""
import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_obs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.heads = nn.ModuleDict({"policy": nn.Linear(64, n_act), "value": nn.Linear(64, 1)})

    def forward(self, obs):
        h = self.net(obs)
        return {"logits": self.heads["policy"](h), "value": self.heads["value"](h).squeeze(-1)}


def rollout(env, model, obs, horizon):
    data = {k: [] for k in ("obs", "actions", "logp", "rewards", "values", "next_values", "terminals", "resets")}
    for _ in range(horizon):
        x = torch.as_tensor(obs, dtype=torch.float32)
        with torch.no_grad():
            out = model(x)
            dist = torch.distributions.Categorical(logits=out["logits"])
            action = dist.sample()
        next_obs, reward, terminated, truncated, _ = env.step(int(action))
        with torch.no_grad():
            next_value = model(torch.as_tensor(next_obs, dtype=torch.float32))["value"]
        data["obs"].append(x.numpy())
        data["actions"].append(action.item())
        data["logp"].append(dist.log_prob(action).item())
        data["rewards"].append(reward)
        data["values"].append(out["value"].item())
        data["next_values"].append(next_value.item())
        data["terminals"].append(terminated)
        data["resets"].append(terminated or truncated)
        obs = env.reset()[0] if terminated or truncated else next_obs
    return obs, {k: np.asarray(v, dtype=np.float32) for k, v in data.items()}


def add_advantages(data, gamma=0.99, lam=0.95):
    adv = np.zeros_like(data["rewards"])
    gae = 0.0
    deltas = data["rewards"] + gamma * data["next_values"] * (1 - data["terminals"]) - data["values"]
    for t in range(len(adv))[::-1]:
        gae = deltas[t] + gamma * lam * (1 - data["resets"][t]) * gae
        adv[t] = gae
    data["adv"] = adv
    data["ret"] = adv + data["values"]
    return data


def losses(model, batch, clip=0.2):
    out = model(batch["obs"])
    dist = torch.distributions.Categorical(logits=out["logits"])
    logp = dist.log_prob(batch["actions"].long())
    ratio = torch.exp(logp - batch["logp"])
    adv = (batch["adv"] - batch["adv"].mean()) / (batch["adv"].std() + 1e-8)
    return {
        "policy": -torch.min(adv * ratio, adv * torch.clamp(ratio, 1 - clip, 1 + clip)).mean(),
        "value": F.mse_loss(out["value"], batch["ret"]),
        "entropy": -dist.entropy().mean(),
    }


WEIGHTS = {"policy": 1.0, "value": 0.5, "entropy": 0.01}


def main(iterations=80):
    env = gym.make("CartPole-v1")
    model = Model(4, 2)
    optim = torch.optim.Adam(model.parameters(), lr=2.5e-4)
    obs, _ = env.reset(seed=9)
    for _ in range(iterations):
        obs, data = rollout(env, model, obs, 512)
        data = add_advantages(data)
        tensors = {k: torch.from_numpy(v) for k, v in data.items()}
        for _ in range(4):
            perm = np.random.permutation(512)
            for part in np.array_split(perm, 8):
                batch = {k: v[part] for k, v in tensors.items()}
                parts = losses(model, batch)
                loss = sum(WEIGHTS[k] * v for k, v in parts.items())
                optim.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optim.step()


if __name__ == "__main__":
    main()
