"""Q(lambda) on parallel environments, with neither a memory nor a target network.

Layer normalisation keeps the values in bounds, and sixteen environments at once take the place of the replay memory. The
returns are worked out from the very network that is being trained, before its update, and without gradient.
"""
import gymnasium as gym
import numpy as np
import torch
from torch import nn

ENVS, STEPS, UPDATES = 16, 32, 600
GAMMA, LAMBDA = 0.99, 0.65


def normed_net(n_in, n_out, width=128):
    return nn.Sequential(
        nn.Linear(n_in, width),
        nn.LayerNorm(width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.LayerNorm(width),
        nn.ReLU(),
        nn.Linear(width, n_out),
    )


def main():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    envs = gym.make_vec("CartPole-v1", num_envs=ENVS, vectorization_mode="sync", vector_kwargs={"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP})
    q = normed_net(4, 2)
    optimizer = torch.optim.RAdam(q.parameters(), lr=5e-4)
    obs, _ = envs.reset(seed=0)
    running, scores = np.zeros(ENVS), []

    for update in range(1, UPDATES + 1):
        epsilon = max(0.05, 1.0 - update / (0.5 * UPDATES))
        seen, taken, paid, best_next, ended, dead = [], [], [], [], [], []
        for _ in range(STEPS):
            with torch.no_grad():
                greedy = q(torch.from_numpy(obs)).argmax(dim=1).numpy()
            actions = np.where(rng.random(ENVS) < epsilon, rng.integers(2, size=ENVS), greedy)
            nxt, rewards, terminated, truncated, infos = envs.step(actions)
            real = nxt.copy()
            over = terminated | truncated
            for k in np.flatnonzero(over):
                real[k] = infos["final_obs"][k]
            with torch.no_grad():
                best_next.append(q(torch.from_numpy(real)).amax(dim=1))
            seen.append(torch.from_numpy(obs))
            taken.append(torch.from_numpy(actions))
            paid.append(torch.as_tensor(rewards, dtype=torch.float32))
            ended.append(torch.as_tensor(over, dtype=torch.float32))
            dead.append(torch.as_tensor(terminated, dtype=torch.float32))
            running += rewards
            scores.extend(running[over].tolist())
            running[over] = 0.0
            obs = nxt

        goals, carry = [], best_next[-1]
        for t in reversed(range(STEPS)):
            mix = (1 - ended[t]) * (LAMBDA * carry + (1 - LAMBDA) * best_next[t]) + ended[t] * best_next[t]
            carry = paid[t] + GAMMA * (1 - dead[t]) * mix
            goals.append(carry)
        goals.reverse()

        obs_all, act_all, goal_all = torch.cat(seen), torch.cat(taken), torch.cat(goals)
        for _ in range(2):
            for rows in torch.randperm(ENVS * STEPS).chunk(4):
                values = q(obs_all[rows]).gather(1, act_all[rows, None]).squeeze(1)
                loss = 0.5 * (values - goal_all[rows]).square().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(q.parameters(), 10.0)
                optimizer.step()
        if update % 50 == 0:
            print(f"{update}: {np.mean(scores[-50:]):.1f}")


if __name__ == "__main__":
    main()
