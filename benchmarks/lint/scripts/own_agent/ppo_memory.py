"""PPO with a memory class and an agent class that owns its networks."""
import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn


class RolloutMemory:
    def __init__(self):
        self.states, self.actions, self.logps, self.rewards, self.values, self.terminals = [], [], [], [], [], []

    def remember(self, state, action, logp, reward, value, terminal):
        self.states.append(state)
        self.actions.append(action)
        self.logps.append(logp)
        self.rewards.append(reward)
        self.values.append(value)
        self.terminals.append(terminal)

    def wipe(self):
        for kept in (self.states, self.actions, self.logps, self.rewards, self.values, self.terminals):
            del kept[:]

    def __len__(self):
        return len(self.rewards)


class Net(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(n_in, 64), nn.Tanh(), nn.Linear(64, n_out))
        self.critic = nn.Sequential(nn.Linear(n_in, 64), nn.Tanh(), nn.Linear(64, 1))

    def evaluate(self, states, actions):
        dist = torch.distributions.Categorical(logits=self.actor(states))
        return dist.log_prob(actions), self.critic(states).squeeze(-1), dist.entropy()


class PPOAgent:
    def __init__(self, n_in, n_out, lr=3e-4, gamma=0.99, lam=0.95, clip=0.2, epochs=10, batch=64):
        self.net = Net(n_in, n_out)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=lr)
        self.gamma, self.lam, self.clip, self.epochs, self.batch = gamma, lam, clip, epochs, batch
        self.memory = RolloutMemory()

    @torch.no_grad()
    def choose_action(self, state):
        x = torch.as_tensor(state, dtype=torch.float32)
        dist = torch.distributions.Categorical(logits=self.net.actor(x))
        action = dist.sample()
        return action.item(), dist.log_prob(action).item(), self.net.critic(x).item()

    def advantages(self, last_value):
        m = self.memory
        values = m.values + [last_value]
        adv, gae = [0.0] * len(m), 0.0
        for k in reversed(range(len(m))):
            going = 1.0 - m.terminals[k]
            delta = m.rewards[k] + self.gamma * values[k + 1] * going - values[k]
            gae = delta + self.gamma * self.lam * going * gae
            adv[k] = gae
        adv = torch.tensor(adv, dtype=torch.float32)
        return adv, adv + torch.tensor(m.values, dtype=torch.float32)

    def learn(self, last_value):
        adv, returns = self.advantages(last_value)
        states = torch.as_tensor(np.array(self.memory.states), dtype=torch.float32)
        actions = torch.tensor(self.memory.actions)
        old_logps = torch.tensor(self.memory.logps)
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        for _ in range(self.epochs):
            for rows in torch.randperm(len(adv)).split(self.batch):
                logps, values, entropy = self.net.evaluate(states[rows], actions[rows])
                ratios = torch.exp(logps - old_logps[rows])
                surr1 = ratios * adv[rows]
                surr2 = torch.clamp(ratios, 1 - self.clip, 1 + self.clip) * adv[rows]
                actor_loss = -torch.min(surr1, surr2).mean()
                critic_loss = (returns[rows] - values).pow(2).mean()
                total = actor_loss + 0.5 * critic_loss - 0.01 * entropy.mean()
                self.opt.zero_grad()
                total.backward()
                torch.nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
                self.opt.step()
        self.memory.wipe()


def run(env_name="Acrobot-v1", horizon=2048, iterations=200, seed=5):
    torch.manual_seed(seed)
    env = gym.make(env_name)
    agent = PPOAgent(env.observation_space.shape[0], env.action_space.n)
    state, _ = env.reset(seed=seed)
    score, scores = 0.0, []
    for _ in range(iterations):
        for _ in range(horizon):
            action, logp, value = agent.choose_action(state)
            state_, reward, terminated, truncated, _ = env.step(action)
            terminal = terminated or truncated
            agent.memory.remember(state, action, logp, reward, value, float(terminal))
            score += reward
            state = state_
            if terminal:
                scores.append(score)
                score = 0.0
                state, _ = env.reset()
        agent.learn(agent.choose_action(state)[2])
        print(np.mean(scores[-20:]))


if __name__ == "__main__":
    run()
