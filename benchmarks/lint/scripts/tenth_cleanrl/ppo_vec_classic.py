# PPO with discrete actions. Written against gym 0.23: step returns four values, envs reset themselves on done.
import argparse
import random

import gym
import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
from torch.distributions.categorical import Categorical

parser = argparse.ArgumentParser()
parser.add_argument("--gym-id", default="Acrobot-v1")
parser.add_argument("--lr", type=float, default=3e-4)
parser.add_argument("--seed", type=int, default=7)
parser.add_argument("--total-steps", type=int, default=400_000)
parser.add_argument("--n-envs", type=int, default=8)
parser.add_argument("--n-steps", type=int, default=128)
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--lam", type=float, default=0.95)
parser.add_argument("--n-minibatches", type=int, default=4)
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--clip", type=float, default=0.2)
parser.add_argument("--ent", type=float, default=0.01)
parser.add_argument("--vf", type=float, default=0.5)
parser.add_argument("--max-grad-norm", type=float, default=0.5)


def make(gym_id, seed, rank):
    def _init():
        env = gym.make(gym_id)
        env = gym.wrappers.RecordEpisodeStatistics(env)
        env.seed(seed + rank)
        env.action_space.seed(seed + rank)
        return env

    return _init


def ortho(layer, gain=np.sqrt(2)):
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class ActorCritic(nn.Module):
    def __init__(self, obs_dim, n_actions):
        super().__init__()
        self.pi = nn.Sequential(ortho(nn.Linear(obs_dim, 64)), nn.Tanh(), ortho(nn.Linear(64, 64)), nn.Tanh(), ortho(nn.Linear(64, n_actions), 0.01))
        self.v = nn.Sequential(ortho(nn.Linear(obs_dim, 64)), nn.Tanh(), ortho(nn.Linear(64, 64)), nn.Tanh(), ortho(nn.Linear(64, 1), 1.0))

    def value(self, x):
        return self.v(x).squeeze(-1)

    def act(self, x, action=None):
        dist = Categorical(logits=self.pi(x))
        if action is None:
            action = dist.sample()
        return action, dist.log_prob(action), dist.entropy(), self.value(x)


def main():
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    envs = gym.vector.SyncVectorEnv([make(args.gym_id, args.seed, i) for i in range(args.n_envs)])
    ac = ActorCritic(envs.single_observation_space.shape[0], envs.single_action_space.n)
    opt = optim.Adam(ac.parameters(), lr=args.lr, eps=1e-5)
    T, N = args.n_steps, args.n_envs
    batch = T * N
    mb_size = batch // args.n_minibatches

    obs_buf = torch.zeros((T, N) + envs.single_observation_space.shape)
    act_buf = torch.zeros((T, N), dtype=torch.long)
    logp_buf = torch.zeros((T, N))
    rew_buf = torch.zeros((T, N))
    done_buf = torch.zeros((T, N))
    val_buf = torch.zeros((T, N))

    next_obs = torch.as_tensor(envs.reset(), dtype=torch.float32)
    next_done = torch.zeros(N)
    n_updates = args.total_steps // batch

    for update in range(n_updates):
        frac = 1.0 - update / n_updates
        opt.param_groups[0]["lr"] = frac * args.lr

        for t in range(T):
            obs_buf[t] = next_obs
            done_buf[t] = next_done  # whether obs_buf[t] is the first observation of an episode
            with torch.no_grad():
                action, logp, _, value = ac.act(next_obs)
            act_buf[t] = action
            logp_buf[t] = logp
            val_buf[t] = value
            o, r, d, info = envs.step(action.numpy())
            rew_buf[t] = torch.as_tensor(r, dtype=torch.float32)
            next_obs = torch.as_tensor(o, dtype=torch.float32)
            next_done = torch.as_tensor(d, dtype=torch.float32)

        with torch.no_grad():
            last_value = ac.value(next_obs)
            adv = torch.zeros_like(rew_buf)
            running = torch.zeros(N)
            for t in reversed(range(T)):
                if t == T - 1:
                    alive, v_next = 1.0 - next_done, last_value
                else:
                    alive, v_next = 1.0 - done_buf[t + 1], val_buf[t + 1]
                td = rew_buf[t] + args.gamma * v_next * alive - val_buf[t]
                running = td + args.gamma * args.lam * alive * running
                adv[t] = running
            ret = adv + val_buf

        flat_obs = obs_buf.reshape((batch,) + envs.single_observation_space.shape)
        flat_act, flat_logp = act_buf.reshape(-1), logp_buf.reshape(-1)
        flat_adv, flat_ret = adv.reshape(-1), ret.reshape(-1)

        for epoch in range(args.epochs):
            perm = np.random.permutation(batch)
            for lo in range(0, batch, mb_size):
                mb = perm[lo : lo + mb_size]
                _, new_logp, entropy, new_v = ac.act(flat_obs[mb], flat_act[mb])
                ratio = torch.exp(new_logp - flat_logp[mb])
                a = flat_adv[mb]
                a = (a - a.mean()) / (a.std() + 1e-8)
                surr = a * ratio
                surr_clipped = a * torch.clamp(ratio, 1 - args.clip, 1 + args.clip)
                pi_loss = -torch.min(surr, surr_clipped).mean()
                v_loss = 0.5 * (new_v - flat_ret[mb]).pow(2).mean()
                loss = pi_loss + args.vf * v_loss - args.ent * entropy.mean()

                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(ac.parameters(), args.max_grad_norm)
                opt.step()

        print(update, "value loss", v_loss.item(), "entropy", entropy.mean().item())


if __name__ == "__main__":
    main()
