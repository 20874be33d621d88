import os

import gymnasium as gym
import numpy as np
import torch as T
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim


class PrioritizedMemory:
    """Proportional prioritised replay in plain arrays; small enough to do without a sum tree."""

    def __init__(self, max_size, input_shape, alpha=0.6, beta=0.4, beta_steps=20_000):
        self.mem_size = max_size
        self.mem_cntr = 0
        self.alpha = alpha
        self.beta = beta
        self.beta_increment = (1.0 - beta) / beta_steps
        self.max_priority = 1.0

        self.state_memory = np.zeros((max_size, *input_shape), dtype=np.float32)
        self.new_state_memory = np.zeros((max_size, *input_shape), dtype=np.float32)
        self.action_memory = np.zeros(max_size, dtype=np.int64)
        self.reward_memory = np.zeros(max_size, dtype=np.float32)
        self.terminal_memory = np.zeros(max_size, dtype=bool)
        self.priorities = np.zeros(max_size, dtype=np.float64)

    def store_transition(self, state, action, reward, state_, terminal):
        index = self.mem_cntr % self.mem_size
        self.state_memory[index] = state
        self.new_state_memory[index] = state_
        self.action_memory[index] = action
        self.reward_memory[index] = reward
        self.terminal_memory[index] = terminal
        self.priorities[index] = self.max_priority  # at least once everything is to be seen
        self.mem_cntr += 1

    def sample_buffer(self, batch_size):
        filled = min(self.mem_cntr, self.mem_size)
        scaled = self.priorities[:filled] ** self.alpha
        probabilities = scaled / scaled.sum()
        batch = np.random.choice(filled, batch_size, p=probabilities)

        weights = (filled * probabilities[batch]) ** -self.beta
        weights /= weights.max()
        self.beta = min(1.0, self.beta + self.beta_increment)

        return (
            batch,
            self.state_memory[batch],
            self.action_memory[batch],
            self.reward_memory[batch],
            self.new_state_memory[batch],
            self.terminal_memory[batch],
            weights.astype(np.float32),
        )

    def update_priorities(self, batch, errors):
        new = np.abs(errors) + 1e-5
        self.priorities[batch] = new
        self.max_priority = max(self.max_priority, new.max())


class DuelingDeepQNetwork(nn.Module):
    def __init__(self, lr, n_actions, input_dims, chkpt_file):
        super().__init__()
        self.chkpt_file = chkpt_file
        self.fc1 = nn.Linear(*input_dims, 256)
        self.V = nn.Linear(256, 1)
        self.A = nn.Linear(256, n_actions)
        self.optimizer = optim.Adam(self.parameters(), lr=lr)
        self.loss = nn.MSELoss(reduction="none")

    def forward(self, state):
        flat = F.relu(self.fc1(state))
        V = self.V(flat)
        A = self.A(flat)
        return V + (A - A.mean(dim=1, keepdim=True))

    def save_checkpoint(self):
        T.save(self.state_dict(), self.chkpt_file)


class Agent:
    def __init__(
        self,
        gamma,
        epsilon,
        lr,
        n_actions,
        input_dims,
        mem_size,
        batch_size,
        eps_min=0.01,
        eps_dec=1e-4,
        replace=500,
        chkpt_dir=".",
    ):
        self.gamma = gamma
        self.epsilon = epsilon
        self.eps_min = eps_min
        self.eps_dec = eps_dec
        self.action_space = list(range(n_actions))
        self.batch_size = batch_size
        self.replace_target_cnt = replace
        self.learn_step_counter = 0
        self.memory = PrioritizedMemory(mem_size, input_dims)
        self.q_eval = DuelingDeepQNetwork(lr, n_actions, input_dims, os.path.join(chkpt_dir, "q_eval.pt"))
        self.q_next = DuelingDeepQNetwork(lr, n_actions, input_dims, os.path.join(chkpt_dir, "q_next.pt"))
        self.q_next.load_state_dict(self.q_eval.state_dict())

    def choose_action(self, observation, greedy=False):
        if not greedy and np.random.random() < self.epsilon:
            return np.random.choice(self.action_space)
        state = T.tensor(np.array([observation]), dtype=T.float32)
        with T.no_grad():
            advantage = self.q_eval(state)
        return T.argmax(advantage).item()

    def store_transition(self, state, action, reward, state_, terminal):
        self.memory.store_transition(state, action, reward, state_, terminal)

    def replace_target_network(self):
        if self.learn_step_counter % self.replace_target_cnt == 0:
            self.q_next.load_state_dict(self.q_eval.state_dict())

    def decrement_epsilon(self):
        self.epsilon = self.epsilon - self.eps_dec if self.epsilon > self.eps_min else self.eps_min

    def learn(self):
        if self.memory.mem_cntr < self.batch_size:
            return

        self.q_eval.optimizer.zero_grad()
        self.replace_target_network()

        batch, state, action, reward, new_state, terminal, weights = self.memory.sample_buffer(self.batch_size)
        states = T.tensor(state)
        actions = T.tensor(action)
        rewards = T.tensor(reward)
        states_ = T.tensor(new_state)
        terminals = T.tensor(terminal)
        weights = T.tensor(weights)
        indices = T.arange(self.batch_size)

        q_pred = self.q_eval(states)[indices, actions]

        with T.no_grad():
            max_actions = self.q_eval(states_).argmax(dim=1)
            q_next = self.q_next(states_)[indices, max_actions]
            q_next[terminals] = 0.0
            q_target = rewards + self.gamma * q_next

        loss = (weights * self.q_eval.loss(q_pred, q_target)).mean()
        loss.backward()
        self.q_eval.optimizer.step()

        errors = (q_target - q_pred).detach().numpy()
        self.memory.update_priorities(batch, errors)

        self.learn_step_counter += 1
        self.decrement_epsilon()


def play_greedily(agent, env, seed):
    observation, _ = env.reset(seed=seed)
    done, score = False, 0
    while not done:
        observation, reward, terminated, truncated, _ = env.step(agent.choose_action(observation, greedy=True))
        score += reward
        done = terminated or truncated
    return score


if __name__ == "__main__":
    np.random.seed(0)
    T.manual_seed(0)
    env = gym.make("CartPole-v1")
    test_env = gym.make("CartPole-v1")
    n_games = 300
    best_score = -np.inf
    agent = Agent(gamma=0.99, epsilon=1.0, lr=5e-4, n_actions=2, input_dims=(4,), mem_size=20_000, batch_size=64)

    scores = []
    for i in range(n_games):
        observation, _ = env.reset(seed=i)
        done, score = False, 0
        while not done:
            action = agent.choose_action(observation)
            observation_, reward, terminated, truncated, _ = env.step(action)
            score += reward
            agent.store_transition(observation, action, reward, observation_, terminated)
            agent.learn()
            observation = observation_
            done = terminated or truncated
        scores.append(score)

        if (i + 1) % 20 == 0:
            test_score = np.mean([play_greedily(agent, test_env, seed=10_000 + k) for k in range(3)])
            if test_score > best_score:
                best_score = test_score
                agent.q_eval.save_checkpoint()
            print(f"episode {i + 1} avg {np.mean(scores[-20:]):.1f} test {test_score:.1f} epsilon {agent.epsilon:.2f}")
