"""TD3, functional: networks in a dict, parameters updated in closures. Old gym API (gym<0.26): four values from step."""
from copy import deepcopy
import itertools
import numpy as np
import torch
import torch.nn as nn
import gym


def mlp(sizes, act=nn.ReLU, out=nn.Identity):
    mods = []
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
        mods += [nn.Linear(a, b), act() if i < len(sizes) - 2 else out()]
    return nn.Sequential(*mods)


class Policy(nn.Module):
    def __init__(self, obs_dim, act_dim, act_limit):
        super().__init__()
        self.net = mlp([obs_dim, 256, 256, act_dim], out=nn.Tanh)
        self.act_limit = act_limit

    def forward(self, obs):
        return self.act_limit * self.net(obs)


class QFunction(nn.Module):
    def __init__(self, obs_dim, act_dim):
        super().__init__()
        self.q = mlp([obs_dim + act_dim, 256, 256, 1])

    def forward(self, obs, act):
        return self.q(torch.cat([obs, act], dim=-1)).squeeze(-1)


class Nets(nn.Module):
    def __init__(self, obs_dim, act_dim, act_limit):
        super().__init__()
        self.pi = Policy(obs_dim, act_dim, act_limit)
        self.q1 = QFunction(obs_dim, act_dim)
        self.q2 = QFunction(obs_dim, act_dim)


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


def td3(env_fn, seed=0, total_steps=400000, replay_size=int(1e6), gamma=0.99, polyak=0.995, pi_lr=1e-3, q_lr=1e-3,
        batch_size=100, start_steps=10000, update_after=1000, update_every=50, act_noise=0.1, target_noise=0.2,
        noise_clip=0.5, policy_delay=2, num_test_episodes=10, max_ep_len=1000, log_every=4000):
    torch.manual_seed(seed)
    np.random.seed(seed)
    env, test_env = env_fn(), env_fn()
    env.seed(seed)
    test_env.seed(seed + 1000)
    obs_dim, act_dim = env.observation_space.shape[0], env.action_space.shape[0]
    act_limit = float(env.action_space.high[0])

    ac = Nets(obs_dim, act_dim, act_limit)
    ac_targ = deepcopy(ac)
    for p in ac_targ.parameters():
        p.requires_grad = False
    q_params = list(itertools.chain(ac.q1.parameters(), ac.q2.parameters()))
    replay_buffer = ReplayBuffer(obs_dim, act_dim, replay_size)

    pi_optimizer = torch.optim.Adam(ac.pi.parameters(), lr=pi_lr)
    q_optimizer = torch.optim.Adam(q_params, lr=q_lr)

    def compute_loss_q(data):
        o, a, r, o2, d = data['obs'], data['act'], data['rew'], data['obs2'], data['done']
        q1 = ac.q1(o, a)
        q2 = ac.q2(o, a)
        with torch.no_grad():
            pi_targ = ac_targ.pi(o2)
            # target policy smoothing
            epsilon = torch.randn_like(pi_targ) * target_noise
            epsilon = torch.clamp(epsilon, -noise_clip, noise_clip)
            a2 = torch.clamp(pi_targ + epsilon, -act_limit, act_limit)
            q_pi_targ = torch.min(ac_targ.q1(o2, a2), ac_targ.q2(o2, a2))
            backup = r + gamma * (1 - d) * q_pi_targ
        return ((q1 - backup) ** 2).mean() + ((q2 - backup) ** 2).mean()

    def compute_loss_pi(data):
        o = data['obs']
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
                    p_targ.data.mul_(polyak)
                    p_targ.data.add_((1 - polyak) * p.data)

    def get_action(o, noise_scale):
        with torch.no_grad():
            a = ac.pi(torch.as_tensor(o, dtype=torch.float32)).numpy()
        a += noise_scale * np.random.randn(act_dim)
        return np.clip(a, -act_limit, act_limit)

    def test_agent():
        total = 0.0
        for _ in range(num_test_episodes):
            o, d, ep_len = test_env.reset(), False, 0
            while not (d or ep_len == max_ep_len):
                o, r, d, _ = test_env.step(get_action(o, 0))
                total += r
                ep_len += 1
        return total / num_test_episodes

    o, ep_len = env.reset(), 0
    for t in range(total_steps):
        a = get_action(o, act_noise) if t > start_steps else env.action_space.sample()
        o2, r, d, info = env.step(a)
        ep_len += 1
        # the time limit is not an end: only d that comes from the agent's state is stored
        done = d and not info.get('TimeLimit.truncated', False) and ep_len < max_ep_len
        replay_buffer.store(o, a, r, o2, done)
        o = o2
        if d or ep_len == max_ep_len:
            o, ep_len = env.reset(), 0
        if t >= update_after and t % update_every == 0:
            for j in range(update_every):
                update(replay_buffer.sample_batch(batch_size), j)
        if (t + 1) % log_every == 0:
            print(t + 1, 'test return', test_agent())


if __name__ == '__main__':
    td3(lambda: gym.make('HalfCheetah-v3'))
