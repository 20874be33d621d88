# %% [markdown]
# # DQN, cell by cell
# %%
import random
from collections import deque
import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim

# %%
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
env = gym.make("LunarLander-v3")
n_states = env.observation_space.shape[0]
n_actions = env.action_space.n

BATCH = 64
GAMMA = 0.99
EPS_START, EPS_END, EPS_DECAY = 1.0, 0.02, 0.996
TAU = 1e-3
LR = 5e-4
MEMORY = 100000

# %%
policy_net = nn.Sequential(nn.Linear(n_states, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, n_actions)).to(device)
target_net = nn.Sequential(nn.Linear(n_states, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, n_actions)).to(device)
target_net.load_state_dict(policy_net.state_dict())
target_net.eval()
optimizer = optim.AdamW(policy_net.parameters(), lr=LR)
memory = deque(maxlen=MEMORY)

# %%
scores = []
eps = EPS_START
step = 0
for i_episode in range(600):
    state, info = env.reset()
    score = 0
    for t in range(1000):
        if random.random() > eps:
            with torch.no_grad():
                state_t = torch.from_numpy(state).float().unsqueeze(0).to(device)
                action = policy_net(state_t).argmax(dim=1).item()
        else:
            action = env.action_space.sample()
        next_state, reward, terminated, truncated, _ = env.step(action)
        memory.append((state, action, reward, next_state, terminated))
        state = next_state
        score += reward
        step += 1
        if len(memory) >= BATCH * 10 and step % 4 == 0:
            batch = random.sample(memory, BATCH)
            states = torch.from_numpy(np.vstack([e[0] for e in batch])).float().to(device)
            actions = torch.from_numpy(np.vstack([e[1] for e in batch])).long().to(device)
            rewards = torch.from_numpy(np.vstack([e[2] for e in batch])).float().to(device)
            next_states = torch.from_numpy(np.vstack([e[3] for e in batch])).float().to(device)
            dones = torch.from_numpy(np.vstack([e[4] for e in batch]).astype(np.uint8)).float().to(device)
            q_next = target_net(next_states).detach().max(1)[0].unsqueeze(1)
            q_target = rewards + GAMMA * q_next * (1 - dones)
            q_pred = policy_net(states).gather(1, actions)
            loss = nn.functional.mse_loss(q_pred, q_target)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
            optimizer.step()
            for tp, p in zip(target_net.parameters(), policy_net.parameters()):
                tp.data.copy_(TAU * p.data + (1.0 - TAU) * tp.data)
        if terminated or truncated:
            break
    eps = max(EPS_END, EPS_DECAY * eps)
    scores.append(score)
    print(f"episode {i_episode} score {np.mean(scores[-100:]):.1f}", end="\r")

# %%
torch.save(policy_net.state_dict(), "lunar.pt")
