"""PPO with Lightning Fabric: the loop is ours, Fabric puts things on the device and does the backward."""
import argparse

import gymnasium as gym
import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical
from torch.utils.data import BatchSampler, RandomSampler


class PPOAgent(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(n_obs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, n_act))
        self.critic = nn.Sequential(nn.Linear(n_obs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, obs, action=None):
        dist = Categorical(logits=self.actor(obs))
        if action is None:
            action = dist.sample()
        return action, dist.log_prob(action), dist.entropy(), self.critic(obs).squeeze(-1)


@torch.no_grad()
def estimate_returns_and_advantages(rewards, values, dones, next_value, next_done, gamma, gae_lambda):
    """dones[t] says that the observation of step t is the first of a new episode."""
    advantages = torch.zeros_like(rewards)
    last = torch.zeros_like(next_value)
    steps = rewards.shape[0]
    not_done = torch.logical_not(torch.cat([dones[1:], next_done.unsqueeze(0)])).float()
    following = torch.cat([values[1:], next_value.unsqueeze(0)])
    for t in reversed(range(steps)):
        delta = rewards[t] + gamma * following[t] * not_done[t] - values[t]
        last = delta + gamma * gae_lambda * not_done[t] * last
        advantages[t] = last
    return advantages + values, advantages


def policy_loss(advantages, ratio, clip):
    unclipped = advantages * ratio
    clipped = advantages * ratio.clamp(1 - clip, 1 + clip)
    return -torch.minimum(unclipped, clipped).mean()


def update(fabric, agent, optimizer, data, args):
    for _ in range(args.epochs):
        for idx in BatchSampler(RandomSampler(range(len(data["obs"]))), batch_size=args.minibatch, drop_last=False):
            _, log_prob, entropy, value = agent(data["obs"][idx], data["actions"][idx])
            advantages = data["advantages"][idx]
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
            pg = policy_loss(advantages, torch.exp(log_prob - data["log_probs"][idx]), args.clip)
            vf = F.mse_loss(value, data["returns"][idx])
            loss = pg + args.vf * vf - args.ent * entropy.mean()
            optimizer.zero_grad(set_to_none=True)
            fabric.backward(loss)
            fabric.clip_gradients(agent, optimizer, max_norm=args.max_norm)
            optimizer.step()
    return pg.item(), vf.item()


def main(args):
    fabric = L.Fabric(accelerator="auto", devices=1)
    fabric.launch()
    fabric.seed_everything(args.seed)
    envs = gym.vector.SyncVectorEnv(
        [lambda: gym.make(args.env_id) for _ in range(args.num_envs)], autoreset_mode=gym.vector.AutoresetMode.SAME_STEP
    )
    agent = PPOAgent(envs.single_observation_space.shape[0], int(envs.single_action_space.n))
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.lr, eps=1e-4)
    agent, optimizer = fabric.setup(agent, optimizer)
    device = fabric.device

    T, N = args.num_steps, args.num_envs
    next_obs = torch.tensor(envs.reset(seed=args.seed)[0], device=device)
    next_done = torch.zeros(N, device=device)
    for iteration in range(args.iterations):
        rows = {name: [] for name in ("obs", "actions", "log_probs", "values", "dones", "rewards")}
        for _ in range(T):
            with torch.no_grad():
                action, log_prob, _, value = agent(next_obs)
            rows["obs"].append(next_obs)
            rows["dones"].append(next_done)
            rows["actions"].append(action)
            rows["log_probs"].append(log_prob)
            rows["values"].append(value)
            obs, reward, terminated, truncated, info = envs.step(action.cpu().numpy())
            reward = torch.tensor(reward, device=device, dtype=torch.float32)
            cut = truncated & ~terminated
            if cut.any():
                # the time was up: what would have come after is added to the last reward
                final = torch.stack([torch.tensor(info["final_obs"][i], device=device) for i in cut.nonzero()[0]])
                with torch.no_grad():
                    reward[torch.tensor(cut, device=device)] += args.gamma * agent(final)[3]
            rows["rewards"].append(reward)
            next_obs = torch.tensor(obs, device=device)
            next_done = torch.tensor(terminated | truncated, device=device).float()

        stacked = {name: torch.stack(column) for name, column in rows.items()}
        with torch.no_grad():
            next_value = agent(next_obs)[3]
        returns, advantages = estimate_returns_and_advantages(
            stacked["rewards"], stacked["values"], stacked["dones"], next_value, next_done, args.gamma, args.gae_lambda
        )
        stacked["returns"], stacked["advantages"] = returns, advantages
        losses = update(fabric, agent, optimizer, {name: x.flatten(0, 1) for name, x in stacked.items()}, args)
        fabric.print(iteration, losses, "episodes ended:", int(stacked["dones"].sum()))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--env-id", default="CartPole-v1")
    p.add_argument("--seed", type=int, default=42)
    p.add_argument("--num-envs", type=int, default=4)
    p.add_argument("--num-steps", type=int, default=128)
    p.add_argument("--iterations", type=int, default=200)
    p.add_argument("--minibatch", type=int, default=128)
    p.add_argument("--epochs", type=int, default=8)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--gamma", type=float, default=0.99)
    p.add_argument("--gae-lambda", type=float, default=0.95)
    p.add_argument("--clip", type=float, default=0.2)
    p.add_argument("--ent", type=float, default=0.01)
    p.add_argument("--vf", type=float, default=0.5)
    p.add_argument("--max-norm", type=float, default=0.5)
    main(p.parse_args())
