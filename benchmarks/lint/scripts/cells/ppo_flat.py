# %%
import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn

env_name = "Acrobot-v1"
env = gym.make(env_name)
obs_size = env.observation_space.shape[0]
act_size = env.action_space.n
actor = nn.Sequential(nn.Linear(obs_size, 64), nn.Tanh(), nn.Linear(64, act_size), nn.Softmax(dim=-1))
critic = nn.Sequential(nn.Linear(obs_size, 64), nn.Tanh(), nn.Linear(64, 1))
opt = torch.optim.Adam(list(actor.parameters()) + list(critic.parameters()), lr=1e-3)
gamma, lmbda, eps_clip, K = 0.99, 0.95, 0.2, 4

# %%
obs, _ = env.reset(seed=0)
for it in range(200):
    S, A, PA, R, S2, D, E = [], [], [], [], [], [], []
    for _ in range(1024):
        with torch.no_grad():
            probs = actor(torch.from_numpy(obs).float())
        a = torch.multinomial(probs, 1).item()
        obs2, r, done, timeout, _ = env.step(a)
        S.append(obs); A.append([a]); PA.append([probs[a].item()]); R.append([r]); S2.append(obs2)
        D.append([0.0 if done else 1.0]); E.append([0.0 if done or timeout else 1.0])
        obs = obs2
        if done or timeout:
            obs, _ = env.reset()
    s = torch.tensor(np.array(S), dtype=torch.float)
    a = torch.tensor(A)
    pa = torch.tensor(PA)
    r = torch.tensor(R, dtype=torch.float)
    s2 = torch.tensor(np.array(S2), dtype=torch.float)
    not_done, not_end = torch.tensor(D), torch.tensor(E)

    with torch.no_grad():
        td_target = r + gamma * critic(s2) * not_done
        delta = (td_target - critic(s)).numpy()
        adv_list, adv = [], 0.0
        for d, m in zip(delta[::-1], not_end.numpy()[::-1]):
            adv = d[0] + gamma * lmbda * adv * m[0]
            adv_list.append([adv])
        adv_list.reverse()
        advantage = torch.tensor(adv_list, dtype=torch.float)
        lambda_return = advantage + critic(s)

    for _ in range(K):
        perm = torch.randperm(len(s))
        for start in range(0, len(s), 128):
            idx = perm[start:start + 128]
            p_all = actor(s[idx])
            p = p_all.gather(1, a[idx])
            ratio = torch.exp(torch.log(p) - torch.log(pa[idx]))
            surr1 = ratio * advantage[idx]
            surr2 = torch.clamp(ratio, 1 - eps_clip, 1 + eps_clip) * advantage[idx]
            entropy = -(p_all * torch.log(p_all + 1e-8)).sum(-1).mean()
            v_loss = nn.functional.smooth_l1_loss(critic(s[idx]), lambda_return[idx])
            loss = -torch.min(surr1, surr2).mean() + 0.5 * v_loss - 0.01 * entropy
            opt.zero_grad()
            loss.backward()
            opt.step()
