import itertools
from copy import deepcopy

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from torch.optim import Adam


def mlp(sizes, activation=nn.ReLU, output_activation=nn.Identity):
    layers = []
    for j in range(len(sizes) - 1):
        act = activation if j < len(sizes) - 2 else output_activation
        layers += [nn.Linear(sizes[j], sizes[j + 1]), act()]
    return nn.Sequential(*layers)


class MLPActor(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden_sizes, act_limit):
        super().__init__()
        self.pi = mlp([obs_dim, *hidden_sizes, act_dim], output_activation=nn.Tanh)
        self.act_limit = act_limit

    def forward(self, obs):
        return self.act_limit * self.pi(obs)


class MLPQFunction(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden_sizes):
        super().__init__()
        self.q = mlp([obs_dim + act_dim, *hidden_sizes, 1])

    def forward(self, obs, act):
        q = self.q(torch.cat([obs, act], dim=-1))
        return torch.squeeze(q, -1)  # without this the loss would broadcast


class MLPActorCritic(nn.Module):
    def __init__(self, observation_space, action_space, hidden_sizes=(256, 256)):
        super().__init__()
        obs_dim = observation_space.shape[0]
        act_dim = action_space.shape[0]
        act_limit = float(action_space.high[0])
        self.pi = MLPActor(obs_dim, act_dim, hidden_sizes, act_limit)
        self.q1 = MLPQFunction(obs_dim, act_dim, hidden_sizes)
        self.q2 = MLPQFunction(obs_dim, act_dim, hidden_sizes)

    def act(self, obs):
        with torch.no_grad():
            return self.pi(obs).numpy()


class ReplayBuffer:
    """FIFO memory of off-policy experience."""

    def __init__(self, obs_dim, act_dim, size):
        self.obs = np.zeros((size, obs_dim), dtype=np.float32)
        self.obs2 = np.zeros((size, obs_dim), dtype=np.float32)
        self.act = np.zeros((size, act_dim), dtype=np.float32)
        self.rew = np.zeros(size, dtype=np.float32)
        self.done = np.zeros(size, dtype=np.float32)
        self.ptr, self.size, self.max_size = 0, 0, size

    def store(self, obs, act, rew, next_obs, done):
        self.obs[self.ptr] = obs
        self.obs2[self.ptr] = next_obs
        self.act[self.ptr] = act
        self.rew[self.ptr] = rew
        self.done[self.ptr] = done
        self.ptr = (self.ptr + 1) % self.max_size
        self.size = min(self.size + 1, self.max_size)

    def sample_batch(self, batch_size=100):
        idxs = np.random.randint(0, self.size, size=batch_size)
        batch = dict(obs=self.obs[idxs], obs2=self.obs2[idxs], act=self.act[idxs], rew=self.rew[idxs], done=self.done[idxs])
        return {k: torch.as_tensor(v) for k, v in batch.items()}


def td3(
    env_fn,
    seed=0,
    steps_per_epoch=2000,
    epochs=20,
    replay_size=int(1e6),
    gamma=0.99,
    polyak=0.995,
    pi_lr=1e-3,
    q_lr=1e-3,
    batch_size=100,
    start_steps=2000,
    update_after=1000,
    update_every=50,
    act_noise=0.1,
    target_noise=0.2,
    noise_clip=0.5,
    policy_delay=2,
    num_test_episodes=5,
    max_ep_len=1000,
):
    torch.manual_seed(seed)
    np.random.seed(seed)

    env, test_env = env_fn(), env_fn()
    env.action_space.seed(seed)
    obs_dim = env.observation_space.shape[0]
    act_dim = env.action_space.shape[0]
    act_limit = float(env.action_space.high[0])

    ac = MLPActorCritic(env.observation_space, env.action_space)
    ac_targ = deepcopy(ac)
    for p in ac_targ.parameters():
        p.requires_grad = False

    q_params = itertools.chain(ac.q1.parameters(), ac.q2.parameters())
    pi_optimizer = Adam(ac.pi.parameters(), lr=pi_lr)
    q_optimizer = Adam(q_params, lr=q_lr)

    replay_buffer = ReplayBuffer(obs_dim, act_dim, replay_size)

    def compute_loss_q(data):
        o, a, r, o2, d = data["obs"], data["act"], data["rew"], data["obs2"], data["done"]
        q1 = ac.q1(o, a)
        q2 = ac.q2(o, a)

        with torch.no_grad():
            pi_targ = ac_targ.pi(o2)

            # target policy smoothing
            epsilon = torch.randn_like(pi_targ) * target_noise * act_limit
            epsilon = torch.clamp(epsilon, -noise_clip * act_limit, noise_clip * act_limit)
            a2 = torch.clamp(pi_targ + epsilon, -act_limit, act_limit)

            q1_pi_targ = ac_targ.q1(o2, a2)
            q2_pi_targ = ac_targ.q2(o2, a2)
            q_pi_targ = torch.min(q1_pi_targ, q2_pi_targ)
            backup = r + gamma * (1 - d) * q_pi_targ

        loss_q1 = ((q1 - backup) ** 2).mean()
        loss_q2 = ((q2 - backup) ** 2).mean()
        return loss_q1 + loss_q2

    def compute_loss_pi(data):
        o = data["obs"]
        return -ac.q1(o, ac.pi(o)).mean()

    def update(data, timer):
        q_optimizer.zero_grad()
        loss_q = compute_loss_q(data)
        loss_q.backward()
        q_optimizer.step()

        if timer % policy_delay == 0:
            pi_optimizer.zero_grad()
            loss_pi = compute_loss_pi(data)
            loss_pi.backward()
            pi_optimizer.step()

            with torch.no_grad():
                for p, p_targ in zip(ac.parameters(), ac_targ.parameters()):
                    p_targ.data.mul_(polyak)
                    p_targ.data.add_((1 - polyak) * p.data)

    def get_action(o, noise_scale):
        a = ac.act(torch.as_tensor(o, dtype=torch.float32))
        a += noise_scale * act_limit * np.random.randn(act_dim)
        return np.clip(a, -act_limit, act_limit)

    def test_agent():
        scores = []
        for j in range(num_test_episodes):
            (o, _), ended, ep_ret, ep_len = test_env.reset(seed=seed + 10_000 + j), False, 0, 0
            while not (ended or ep_len == max_ep_len):
                o, r, terminated, truncated, _ = test_env.step(get_action(o, 0))
                ended = terminated or truncated
                ep_ret += r
                ep_len += 1
            scores.append(ep_ret)
        return np.mean(scores)

    total_steps = steps_per_epoch * epochs
    (o, _), ep_ret, ep_len = env.reset(seed=seed), 0, 0
    train_scores = []

    for t in range(total_steps):
        # uniform actions first, the policy with its noise afterwards
        if t > start_steps:
            a = get_action(o, act_noise)
        else:
            a = env.action_space.sample()

        o2, r, terminated, truncated, _ = env.step(a)
        ep_ret += r
        ep_len += 1

        # the time limit is no property of the state: done means terminated
        replay_buffer.store(o, a, r, o2, terminated)
        o = o2

        if terminated or truncated or ep_len == max_ep_len:
            train_scores.append(ep_ret)
            (o, _), ep_ret, ep_len = env.reset(), 0, 0

        if t >= update_after and t % update_every == 0:
            for j in range(update_every):
                batch = replay_buffer.sample_batch(batch_size)
                update(data=batch, timer=j)

        if (t + 1) % steps_per_epoch == 0:
            print(f"epoch {(t + 1) // steps_per_epoch}: train {np.mean(train_scores[-10:]):.1f} test {test_agent():.1f}")


if __name__ == "__main__":
    td3(lambda: gym.make("Pendulum-v1"))
