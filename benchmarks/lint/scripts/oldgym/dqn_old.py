import gym
import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(4, 64)
        self.l2 = nn.Linear(64, 2)

    def forward(self, x):
        return self.l2(F.relu(self.l1(x)))


class Agent():
    def __init__(self, gamma=0.98, lr=5e-4):
        self.q = QNet()
        self.q_target = QNet()
        self.q_target.load_state_dict(self.q.state_dict())
        self.opt = torch.optim.Adam(self.q.parameters(), lr=lr)
        self.gamma = gamma
        self.mem = []
        self.pos = 0

    def put(self, s, a, r, s2, done_mask):
        if len(self.mem) < 50000:
            self.mem.append(None)
        self.mem[self.pos] = (s, a, r, s2, done_mask)
        self.pos = (self.pos + 1) % 50000

    def act(self, s, eps):
        out = self.q(torch.from_numpy(s).float())
        if random.random() < eps:
            return random.randint(0, 1)
        return out.argmax().item()

    def train(self):
        for _ in range(10):
            mini = random.sample(self.mem, 32)
            s_lst, a_lst, r_lst, s2_lst, m_lst = [], [], [], [], []
            for s, a, r, s2, m in mini:
                s_lst.append(s)
                a_lst.append([a])
                r_lst.append([r])
                s2_lst.append(s2)
                m_lst.append([m])
            s = torch.tensor(np.array(s_lst), dtype=torch.float)
            a = torch.tensor(a_lst)
            r = torch.tensor(r_lst, dtype=torch.float)
            s2 = torch.tensor(np.array(s2_lst), dtype=torch.float)
            m = torch.tensor(m_lst, dtype=torch.float)
            q_a = self.q(s).gather(1, a)
            max_q = self.q_target(s2).max(1)[0].unsqueeze(1)
            target = r + self.gamma * max_q * m
            loss = F.smooth_l1_loss(q_a, target.detach())
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()


def main():
    env = gym.make("CartPole-v1")
    agent = Agent()
    score = 0.0
    for n_epi in range(2000):
        eps = max(0.01, 0.08 - 0.01 * (n_epi / 200))
        s = env.reset()
        done = False
        while not done:
            a = agent.act(s, eps)
            s2, r, done, info = env.step(a)
            limit = info.get("TimeLimit.truncated", False)
            m = 0.0 if done and not limit else 1.0
            agent.put(s, a, r / 100.0, s2, m)
            s = s2
            score += r
        if len(agent.mem) > 2000:
            agent.train()
        if n_epi % 20 == 0 and n_epi != 0:
            agent.q_target.load_state_dict(agent.q.state_dict())
            print(n_epi, score / 20, eps)
            score = 0.0
    env.close()


if __name__ == "__main__":
    main()
