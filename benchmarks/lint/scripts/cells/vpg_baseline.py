# %% REINFORCE with a learned baseline, one batch of episodes per update
import gymnasium as gym
import torch
from torch import nn
from torch.distributions import Categorical

env = gym.make("CartPole-v1")
torch.manual_seed(0)
gamma = 0.99
pi = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
vf = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
opt_pi = torch.optim.Adam(pi.parameters(), lr=1e-2)
opt_vf = torch.optim.Adam(vf.parameters(), lr=1e-2)

# %%
for update in range(100):
    b_obs, b_act, b_ret = [], [], []
    lengths = []
    while len(b_obs) < 1000:
        o, _ = env.reset()
        ep_rew = []
        finished = False
        while not finished:
            with torch.no_grad():
                act = Categorical(logits=pi(torch.as_tensor(o))).sample().item()
            b_obs.append(torch.as_tensor(o))
            b_act.append(act)
            o, rew, term, trunc, _ = env.step(act)
            ep_rew.append(rew)
            finished = term or trunc
        lengths.append(len(ep_rew))
        ret, rets = 0.0, []
        for rew in ep_rew[::-1]:
            ret = rew + gamma * ret
            rets.append(ret)
        b_ret += rets[::-1]

    # %% learn
    O, A, R = torch.stack(b_obs), torch.tensor(b_act), torch.tensor(b_ret, dtype=torch.float32)
    baseline = vf(O).squeeze(1)
    weight = R - baseline.detach()
    weight = (weight - weight.mean()) / (weight.std() + 1e-6)
    logp = Categorical(logits=pi(O)).log_prob(A)
    loss_pi = -(logp * weight).mean()
    opt_pi.zero_grad()
    loss_pi.backward()
    opt_pi.step()
    loss_vf = ((baseline - R) ** 2).mean()
    opt_vf.zero_grad()
    loss_vf.backward()
    opt_vf.step()
    print(update, sum(lengths) / len(lengths))
