import random
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch as T
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim


class DuelingDeepQNetwork(nn.Module):
    def __init__(self, lr, input_dims, n_actions):
        super().__init__()
        self.fc1 = nn.Linear(input_dims, 512)
        self.V = nn.Linear(512, 1)
        self.A = nn.Linear(512, n_actions)
        self.optimizer = optim.Adam(self.parameters(), lr=lr)
        self.loss = nn.MSELoss()

    def forward(self, state):
        flat = F.relu(self.fc1(state))
        return self.V(flat), self.A(flat)

    def q(self, state):
        V, A = self.forward(state)
        return V + (A - A.mean(dim=1, keepdim=True))


@dataclass
class Config:
    gamma: float = 0.99
    lr: float = 5e-4
    batch_size: int = 64
    mem_size: int = 100_000
    eps_start: float = 1.0
    eps_min: float = 0.01
    eps_dec: float = 1e-4
    replace: int = 1000
    grad_clip: float = 10.0


class Agent:
    def __init__(self, input_dims, n_actions, cfg=Config()):
        self.cfg = cfg
        self.action_space = list(range(n_actions))
        self.epsilon = cfg.eps_start
        self.learn_step_counter = 0
        self.mem_cntr = 0
        self.state_memory = np.zeros((cfg.mem_size, input_dims), dtype=np.float32)
        self.new_state_memory = np.zeros((cfg.mem_size, input_dims), dtype=np.float32)
        self.action_memory = np.zeros(cfg.mem_size, dtype=np.int64)
        self.reward_memory = np.zeros(cfg.mem_size, dtype=np.float32)
        self.terminal_memory = np.zeros(cfg.mem_size, dtype=bool)
        self.q_eval = DuelingDeepQNetwork(cfg.lr, input_dims, n_actions)
        self.q_next = DuelingDeepQNetwork(cfg.lr, input_dims, n_actions)
        self.q_next.load_state_dict(self.q_eval.state_dict())
        self.q_next.eval()

    def store_transition(self, state, action, reward, state_, terminal):
        index = self.mem_cntr % self.cfg.mem_size
        self.state_memory[index] = state
        self.new_state_memory[index] = state_
        self.action_memory[index] = action
        self.reward_memory[index] = reward
        self.terminal_memory[index] = terminal
        self.mem_cntr += 1

    def choose_action(self, observation, greedy=False):
        if greedy or np.random.random() > self.epsilon:
            state = T.tensor(observation, dtype=T.float32).unsqueeze(0)
            with T.no_grad():
                _, advantage = self.q_eval(state)
            return T.argmax(advantage).item()
        return np.random.choice(self.action_space)

    def decrement_epsilon(self):
        self.epsilon = max(self.epsilon - self.cfg.eps_dec, self.cfg.eps_min)

    def sample_memory(self):
        max_mem = min(self.mem_cntr, self.cfg.mem_size)
        batch = np.random.choice(max_mem, self.cfg.batch_size, replace=False)
        return (
            T.tensor(self.state_memory[batch]),
            T.tensor(self.action_memory[batch]),
            T.tensor(self.reward_memory[batch]),
            T.tensor(self.new_state_memory[batch]),
            T.tensor(self.terminal_memory[batch]),
        )

    def replace_target_network(self):
        if self.learn_step_counter % self.cfg.replace == 0:
            self.q_next.load_state_dict(self.q_eval.state_dict())

    def learn(self):
        if self.mem_cntr < self.cfg.batch_size:
            return
        self.replace_target_network()
        states, actions, rewards, states_, terminals = self.sample_memory()
        indices = T.arange(self.cfg.batch_size)

        q_pred = self.q_eval.q(states)[indices, actions]
        with T.no_grad():
            max_actions = T.argmax(self.q_eval.q(states_), dim=1)
            q_next = self.q_next.q(states_)[indices, max_actions]
            q_next[terminals] = 0.0
            q_target = rewards + self.cfg.gamma * q_next

        self.q_eval.optimizer.zero_grad()
        loss = self.q_eval.loss(q_pred, q_target)
        loss.backward()
        nn.utils.clip_grad_norm_(self.q_eval.parameters(), self.cfg.grad_clip)
        self.q_eval.optimizer.step()
        self.learn_step_counter += 1
        self.decrement_epsilon()


if __name__ == "__main__":
    env = gym.make("LunarLander-v3")
    random.seed(3), np.random.seed(3), T.manual_seed(3)
    agent = Agent(env.observation_space.shape[0], int(env.action_space.n))
    scores = []
    observation, _ = env.reset(seed=3)
    for i in range(600):
        if i > 0:
            observation, _ = env.reset()
        score, done = 0.0, False
        while not done:
            action = agent.choose_action(observation)
            observation_, reward, terminated, truncated, info = env.step(action)
            done = terminated or truncated
            agent.store_transition(observation, action, reward, observation_, terminated)
            agent.learn()
            observation = observation_
            score += reward
        scores.append(score)
        print("episode", i, "score %.1f" % score, "average %.1f" % np.mean(scores[-100:]), "epsilon %.2f" % agent.epsilon)
