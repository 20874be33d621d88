"""PPO in one file: vector environments, discrete actions, everything at module level of a main function."""
import os
import random
import time
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
import tyro
from torch.distributions.categorical import Categorical


@dataclass
class Args:
    env_id: str = "LunarLander-v3"
    seed: int = 3
    total_timesteps: int = 1_000_000
    learning_rate: float = 2.5e-4
    num_envs: int = 8
    num_steps: int = 256
    anneal_lr: bool = True
    gamma: float = 0.99
    gae_lambda: float = 0.95
    num_minibatches: int = 8
    update_epochs: int = 4
    clip_coef: float = 0.2
    ent_coef: float = 0.01
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5


def ortho(layer, gain=np.sqrt(2)):
    torch.nn.init.orthogonal_(layer.weight, gain)
    torch.nn.init.constant_(layer.bias, 0.0)
    return layer


class ActorCritic(nn.Module):
    def __init__(self, envs):
        super().__init__()
        n_in = int(np.prod(envs.single_observation_space.shape))
        self.body = nn.Sequential(ortho(nn.Linear(n_in, 128)), nn.ReLU(), ortho(nn.Linear(128, 128)), nn.ReLU())
        self.pi_head = ortho(nn.Linear(128, envs.single_action_space.n), gain=0.01)
        self.v_head = ortho(nn.Linear(128, 1), gain=1.0)

    def value(self, x):
        return self.v_head(self.body(x)).flatten()

    def act(self, x, action=None):
        h = self.body(x)
        dist = Categorical(logits=self.pi_head(h))
        if action is None:
            action = dist.sample()
        return action, dist.log_prob(action), dist.entropy(), self.v_head(h).flatten()


def make_env(env_id):
    def thunk():
        env = gym.make(env_id)
        return gym.wrappers.RecordEpisodeStatistics(env)

    return thunk


def main():
    args = tyro.cli(Args)
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch_size = args.num_envs * args.num_steps
    minibatch_size = batch_size // args.num_minibatches
    num_updates = args.total_timesteps // batch_size

    envs = gym.vector.SyncVectorEnv([make_env(args.env_id) for _ in range(args.num_envs)])
    agent = ActorCritic(envs).to(device)
    optimizer = optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)

    obs_buf = torch.zeros((args.num_steps, args.num_envs) + envs.single_observation_space.shape, device=device)
    act_buf = torch.zeros((args.num_steps, args.num_envs), dtype=torch.long, device=device)
    logp_buf = torch.zeros((args.num_steps, args.num_envs), device=device)
    rew_buf = torch.zeros((args.num_steps, args.num_envs), device=device)
    done_buf = torch.zeros((args.num_steps, args.num_envs), device=device)
    val_buf = torch.zeros((args.num_steps, args.num_envs), device=device)

    start = time.time()
    cur_obs, _ = envs.reset(seed=args.seed)
    cur_obs = torch.as_tensor(cur_obs, dtype=torch.float32, device=device)
    cur_done = torch.zeros(args.num_envs, device=device)

    for update in range(num_updates):
        if args.anneal_lr:
            optimizer.param_groups[0]["lr"] = args.learning_rate * (1.0 - update / num_updates)
        for step in range(args.num_steps):
            obs_buf[step] = cur_obs
            done_buf[step] = cur_done
            with torch.no_grad():
                action, logp, _, value = agent.act(cur_obs)
            act_buf[step], logp_buf[step], val_buf[step] = action, logp, value
            nxt, reward, term, trunc, infos = envs.step(action.cpu().numpy())
            rew_buf[step] = torch.as_tensor(reward, dtype=torch.float32, device=device)
            cur_obs = torch.as_tensor(nxt, dtype=torch.float32, device=device)
            cur_done = torch.as_tensor(np.logical_or(term, trunc), dtype=torch.float32, device=device)

        with torch.no_grad():
            last_value = agent.value(cur_obs)
            adv_buf = torch.zeros_like(rew_buf)
            gae = torch.zeros(args.num_envs, device=device)
            for t in reversed(range(args.num_steps)):
                if t == args.num_steps - 1:
                    alive = 1.0 - cur_done
                    next_val = last_value
                else:
                    alive = 1.0 - done_buf[t + 1]
                    next_val = val_buf[t + 1]
                td = rew_buf[t] + args.gamma * next_val * alive - val_buf[t]
                gae = td + args.gamma * args.gae_lambda * alive * gae
                adv_buf[t] = gae
            ret_buf = adv_buf + val_buf

        b_obs = obs_buf.reshape((-1,) + envs.single_observation_space.shape)
        b_act, b_logp = act_buf.reshape(-1), logp_buf.reshape(-1)
        b_adv, b_ret, b_val = adv_buf.reshape(-1), ret_buf.reshape(-1), val_buf.reshape(-1)

        indices = np.arange(batch_size)
        for _ in range(args.update_epochs):
            np.random.shuffle(indices)
            for lo in range(0, batch_size, minibatch_size):
                mb = indices[lo : lo + minibatch_size]
                _, new_logp, entropy, new_val = agent.act(b_obs[mb], b_act[mb])
                ratio = (new_logp - b_logp[mb]).exp()
                mb_adv = b_adv[mb]
                mb_adv = (mb_adv - mb_adv.mean()) / (mb_adv.std() + 1e-8)
                pg1 = -mb_adv * ratio
                pg2 = -mb_adv * torch.clamp(ratio, 1 - args.clip_coef, 1 + args.clip_coef)
                pg_loss = torch.max(pg1, pg2).mean()
                v_loss = 0.5 * ((new_val - b_ret[mb]) ** 2).mean()
                ent_loss = entropy.mean()
                loss = pg_loss - args.ent_coef * ent_loss + args.vf_coef * v_loss
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
                optimizer.step()
        print(update, int((update + 1) * batch_size / (time.time() - start)))
    envs.close()


if __name__ == "__main__":
    main()
