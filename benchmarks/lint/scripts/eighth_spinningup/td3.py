from copy import deepcopy
import itertools

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from torch.optim import Adam


def mlp(sizes, activation, output_activation=nn.Identity):
    layers = []
    for j in range(len(sizes) - 1):
        act = activation if j < len(sizes) - 2 else output_activation
        layers += [nn.Linear(sizes[j], sizes[j + 1]), act()]
    return nn.Sequential(*layers)


class Pi(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden, activation, act_limit):
        super().__init__()
        self.net = mlp([obs_dim, *hidden, act_dim], activation, nn.Tanh)
        self.act_limit = act_limit

    def forward(self, obs):
        return self.act_limit * self.net(obs)


class Q(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden, activation):
        super().__init__()
        self.net = mlp([obs_dim + act_dim, *hidden, 1], activation)

    def forward(self, obs, act):
        return self.net(torch.cat([obs, act], dim=-1)).squeeze(-1)


class ActorCritic(nn.Module):
    def __init__(self, observation_space, action_space, hidden_sizes=(256, 256), activation=nn.ReLU):
        super().__init__()
        obs_dim, act_dim = observation_space.shape[0], action_space.shape[0]
        self.pi = Pi(obs_dim, act_dim, hidden_sizes, activation, float(action_space.high[0]))
        self.q1 = Q(obs_dim, act_dim, hidden_sizes, activation)
        self.q2 = Q(obs_dim, act_dim, hidden_sizes, activation)

    def act(self, obs):
        with torch.no_grad():
            return self.pi(obs).numpy()


class ReplayBuffer:
    def __init__(self, obs_dim, act_dim, size):
        self.obs_buf = np.zeros((size, obs_dim), dtype=np.float32)
        self.obs2_buf = np.zeros((size, obs_dim), dtype=np.float32)
        self.act_buf = np.zeros((size, act_dim), dtype=np.float32)
        self.rew_buf = np.zeros(size, dtype=np.float32)
        self.done_buf = np.zeros(size, dtype=np.float32)
        self.ptr, self.size, self.max_size = 0, 0, size

    def store(self, obs, act, rew, next_obs, done):
        self.obs_buf[self.ptr] = obs
        self.obs2_buf[self.ptr] = next_obs
        self.act_buf[self.ptr] = act
        self.rew_buf[self.ptr] = rew
        self.done_buf[self.ptr] = done
        self.ptr = (self.ptr + 1) % self.max_size
        self.size = min(self.size + 1, self.max_size)

    def sample_batch(self, batch_size=32):
        idxs = np.random.randint(0, self.size, size=batch_size)
        batch = dict(obs=self.obs_buf[idxs], obs2=self.obs2_buf[idxs], act=self.act_buf[idxs],
                     rew=self.rew_buf[idxs], done=self.done_buf[idxs])
        return {k: torch.as_tensor(v) for k, v in batch.items()}


def td3(env_fn, seed=0, steps_per_epoch=2000, epochs=20, replay_size=int(1e5), gamma=0.99, polyak=0.995, pi_lr=1e-3,
        q_lr=1e-3, batch_size=100, start_steps=2000, update_after=1000, update_every=50, act_noise=0.1, target_noise=0.2,
        noise_clip=0.5, policy_delay=2, num_test_episodes=5):
    """Twin delayed DDPG. ``polyak`` is how much of the old target stays at each update."""
    torch.manual_seed(seed)
    np.random.seed(seed)
    env, test_env = env_fn(), env_fn()
    env.action_space.seed(seed)
    act_dim, act_limit = env.action_space.shape[0], float(env.action_space.high[0])

    ac = ActorCritic(env.observation_space, env.action_space)
    ac_targ = deepcopy(ac)
    for p in ac_targ.parameters():
        p.requires_grad = False
    q_params = list(itertools.chain(ac.q1.parameters(), ac.q2.parameters()))
    pi_optimizer = Adam(ac.pi.parameters(), lr=pi_lr)
    q_optimizer = Adam(q_params, lr=q_lr)
    replay_buffer = ReplayBuffer(env.observation_space.shape[0], act_dim, replay_size)

    def compute_loss_q(data):
        o, a, r, o2, d = data["obs"], data["act"], data["rew"], data["obs2"], data["done"]
        q1 = ac.q1(o, a)
        q2 = ac.q2(o, a)
        with torch.no_grad():
            pi_targ = ac_targ.pi(o2)
            epsilon = torch.randn_like(pi_targ) * target_noise * act_limit
            epsilon = torch.clamp(epsilon, -noise_clip * act_limit, noise_clip * act_limit)
            a2 = torch.clamp(pi_targ + epsilon, -act_limit, act_limit)
            q_pi_targ = torch.min(ac_targ.q1(o2, a2), ac_targ.q2(o2, a2))
            backup = r + gamma * (1 - d) * q_pi_targ
        return ((q1 - backup) ** 2).mean() + ((q2 - backup) ** 2).mean()

    def compute_loss_pi(data):
        o = data["obs"]
        return -ac.q1(o, ac.pi(o)).mean()

    def update(data, timer):
        q_optimizer.zero_grad()
        loss_q = compute_loss_q(data)
        loss_q.backward()
        q_optimizer.step()
        if timer % policy_delay == 0:
            for p in q_params:
                p.requires_grad = False
            pi_optimizer.zero_grad()
            loss_pi = compute_loss_pi(data)
            loss_pi.backward()
            pi_optimizer.step()
            for p in q_params:
                p.requires_grad = True
            with torch.no_grad():
                for p, p_targ in zip(ac.parameters(), ac_targ.parameters()):
                    p_targ.mul_(polyak)
                    p_targ.add_((1 - polyak) * p)

    def get_action(o, noise_scale):
        a = ac.act(torch.as_tensor(o, dtype=torch.float32))
        a += noise_scale * act_limit * np.random.randn(act_dim).astype(np.float32)
        return np.clip(a, -act_limit, act_limit)

    def test_agent():
        returns = []
        for j in range(num_test_episodes):
            o, _ = test_env.reset(seed=seed + 1000 + j)
            ended, ep_ret = False, 0.0
            while not ended:
                o, r, term, trunc, _ = test_env.step(get_action(o, 0))
                ep_ret += float(r)
                ended = term or trunc
            returns.append(ep_ret)
        return np.mean(returns)

    o, _ = env.reset(seed=seed)
    for t in range(steps_per_epoch * epochs):
        a = get_action(o, act_noise) if t > start_steps else env.action_space.sample()
        o2, r, term, trunc, _ = env.step(a)
        replay_buffer.store(o, a, r, o2, term)
        o = o2
        if term or trunc:
            o, _ = env.reset()

        if t >= update_after and t % update_every == 0:
            for j in range(update_every):
                update(replay_buffer.sample_batch(batch_size), timer=j)

        if (t + 1) % steps_per_epoch == 0:
            print(f"epoch {(t + 1) // steps_per_epoch}: test return {test_agent():.1f}")
    return ac


if __name__ == "__main__":
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--env", default="Pendulum-v1")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=2000)
    cli = parser.parse_args()
    td3(lambda: gym.make(cli.env), seed=cli.seed, epochs=cli.epochs, steps_per_epoch=cli.steps)
