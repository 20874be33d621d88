"""Parallelised Q-learning with layer norm and Q(lambda) returns: no replay memory and no target network, by design (the normalisation makes that stable)."""
import os

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn

N_ENVS, N_STEPS, GAMMA, LAMBDA = 8, 32, 0.99, 0.65
ITERATIONS = int(os.environ.get("ITERATIONS", 200))


class QNet(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(n_in, 120), nn.LayerNorm(120), nn.ReLU(), nn.Linear(120, 84), nn.LayerNorm(84), nn.ReLU(), nn.Linear(84, n_out)
        )

    def forward(self, x):
        return self.layers(x)


def main():
    torch.manual_seed(2)
    envs = gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")] * N_ENVS, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP)
    net = QNet(4, 2)
    opt = torch.optim.RAdam(net.parameters(), lr=5e-4)
    obs, _ = envs.reset(seed=2)
    lengths, recent = np.zeros(N_ENVS), []
    for it in range(ITERATIONS):
        eps = max(0.05, 1.0 - it / (0.4 * ITERATIONS))
        O, A, R, V2, TERM, END = [], [], [], [], [], []
        for _ in range(N_STEPS):
            with torch.no_grad():
                greedy = net(torch.as_tensor(obs)).argmax(1).numpy()
            explore = np.random.rand(N_ENVS) < eps
            act = np.where(explore, np.random.randint(0, 2, N_ENVS), greedy)
            nxt, rew, term, trunc, infos = envs.step(act)
            reached = nxt.copy()
            if "final_obs" in infos:
                for i in np.flatnonzero(infos["_final_obs"]):
                    reached[i] = infos["final_obs"][i]
            with torch.no_grad():
                v2 = net(torch.as_tensor(reached)).max(1).values
            O.append(torch.as_tensor(obs.copy()))
            A.append(torch.as_tensor(act))
            R.append(torch.as_tensor(rew, dtype=torch.float32))
            V2.append(v2)
            TERM.append(torch.as_tensor(term))
            END.append(torch.as_tensor(term | trunc))
            lengths += 1
            for i in np.flatnonzero(term | trunc):
                recent.append(lengths[i])
                lengths[i] = 0
            obs = nxt
        # Peng's Q(lambda), backwards
        targets = [None] * N_STEPS
        following = V2[-1]
        for t in reversed(range(N_STEPS)):
            blend = LAMBDA * following + (1 - LAMBDA) * V2[t]
            blend = torch.where(END[t], V2[t], blend)
            targets[t] = R[t] + GAMMA * torch.where(TERM[t], torch.zeros(()), blend)
            following = targets[t]
        O, A, Y = torch.cat(O), torch.cat(A), torch.cat(targets)
        for _ in range(2):
            for rows in torch.randperm(len(Y)).chunk(4):
                q = net(O[rows])[torch.arange(len(rows)), A[rows]]
                loss = 0.5 * (q - Y[rows]).pow(2).mean()
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 10.0)
                opt.step()
        if it % 20 == 0 and recent:
            print(it, np.mean(recent[-50:]))


if __name__ == "__main__":
    np.random.seed(2)
    main()
