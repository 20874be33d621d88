# Homework 3 - Deep Q-Learning
# Course: Introduction to Reinforcement Learning
# In this assignment I implement the DQN algorithm (Mnih et al. 2015) for CartPole.

import random
import sys

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim

# ---------------------------------------------------------------
# Hyperparameters
# ---------------------------------------------------------------
NUM_STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 40000  # total number of environment steps
GAMMA = 0.99               # the discount factor
LEARNING_RATE = 0.001      # step size for Adam
BATCH_SIZE = 64            # how many transitions we sample
MEMORY_SIZE = 20000        # size of the replay memory
LEARNING_STARTS = min(500, NUM_STEPS // 3)  # fill the memory a bit before learning
TARGET_UPDATE = 250        # copy the weights every 250 steps
EPSILON_START = 1.0
EPSILON_MIN = 0.05
EPSILON_DECAY = 0.9995     # multiplied after every step

SEED = 42
random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)


# ---------------------------------------------------------------
# Part a) The network
# ---------------------------------------------------------------
class QNetwork(nn.Module):
    """A network with two hidden layers. Input: state. Output: one Q-value for each action."""

    def __init__(self, state_size, action_size):
        super(QNetwork, self).__init__()
        self.layer1 = nn.Linear(state_size, 64)
        self.layer2 = nn.Linear(64, 64)
        self.layer3 = nn.Linear(64, action_size)

    def forward(self, state):
        x = torch.relu(self.layer1(state))
        x = torch.relu(self.layer2(x))
        # no activation at the end because Q-values can be any number
        return self.layer3(x)


# ---------------------------------------------------------------
# Part b) The replay memory
# ---------------------------------------------------------------
class ReplayMemory:
    def __init__(self, max_size):
        self.max_size = max_size
        self.memory = []
        self.index = 0

    def store(self, state, action, reward, next_state, done):
        transition = (state, action, reward, next_state, done)
        if len(self.memory) < self.max_size:
            self.memory.append(transition)
        else:
            # memory is full, so we overwrite the oldest one
            self.memory[self.index] = transition
        self.index = (self.index + 1) % self.max_size

    def sample(self, batch_size):
        batch = random.sample(self.memory, batch_size)
        states, actions, rewards, next_states, dones = zip(*batch)
        # convert everything to numpy first, then to torch (faster)
        states = torch.FloatTensor(np.array(states))
        actions = torch.LongTensor(np.array(actions)).unsqueeze(1)          # shape [B, 1]
        rewards = torch.FloatTensor(np.array(rewards)).unsqueeze(1)         # shape [B, 1]
        next_states = torch.FloatTensor(np.array(next_states))
        dones = torch.FloatTensor(np.array(dones, dtype=np.float32)).unsqueeze(1)  # shape [B, 1]
        return states, actions, rewards, next_states, dones

    def __len__(self):
        return len(self.memory)


# ---------------------------------------------------------------
# Part c) Epsilon-greedy action selection
# ---------------------------------------------------------------
def choose_action(state, epsilon, network, number_of_actions):
    random_number = np.random.rand()
    if random_number < epsilon:
        # explore
        return np.random.randint(number_of_actions)
    else:
        # exploit: best action according to the network
        state_tensor = torch.FloatTensor(state).unsqueeze(0)
        with torch.no_grad():
            q_values = network(state_tensor)
        return q_values.argmax(dim=1).item()


# ---------------------------------------------------------------
# Part d) One learning step
# ---------------------------------------------------------------
def learn(memory, q_network, target_network, optimizer, loss_function):
    states, actions, rewards, next_states, dones = memory.sample(BATCH_SIZE)

    # Q(s, a) for the actions that we have taken
    q_values = q_network(states).gather(1, actions)      # shape [B, 1]

    # max_a' Q_target(s', a')
    with torch.no_grad():
        max_next_q = target_network(next_states).max(dim=1, keepdim=True)[0]   # shape [B, 1]
        # if the episode has terminated then there is no next state, so the target is only the reward
        targets = rewards + GAMMA * max_next_q * (1 - dones)

    loss = loss_function(q_values, targets)

    optimizer.zero_grad()
    loss.backward()
    # gradient clipping for stability
    torch.nn.utils.clip_grad_norm_(q_network.parameters(), 10)
    optimizer.step()

    return loss.item()


# ---------------------------------------------------------------
# Part e) Evaluation without exploration
# ---------------------------------------------------------------
def evaluate(network, number_of_episodes):
    eval_env = gym.make("CartPole-v1")
    all_returns = []
    for episode in range(number_of_episodes):
        state, info = eval_env.reset(seed=2000 + episode)
        episode_return = 0
        finished = False
        while not finished:
            action = choose_action(state, 0.0, network, eval_env.action_space.n)
            state, reward, terminated, truncated, info = eval_env.step(action)
            episode_return = episode_return + reward
            finished = terminated or truncated
        all_returns.append(episode_return)
    eval_env.close()
    return np.mean(all_returns)


# ---------------------------------------------------------------
# Part f) The training loop
# ---------------------------------------------------------------
env = gym.make("CartPole-v1")
state_size = env.observation_space.shape[0]
action_size = env.action_space.n

q_network = QNetwork(state_size, action_size)
target_network = QNetwork(state_size, action_size)
target_network.load_state_dict(q_network.state_dict())   # both start with the same weights
target_network.eval()

optimizer = optim.Adam(q_network.parameters(), lr=LEARNING_RATE)
loss_function = nn.MSELoss()
memory = ReplayMemory(MEMORY_SIZE)

epsilon = EPSILON_START
episode_return = 0
returns = []
losses = []

state, info = env.reset(seed=SEED)
for step in range(1, NUM_STEPS + 1):
    action = choose_action(state, epsilon, q_network, action_size)
    next_state, reward, terminated, truncated, info = env.step(action)

    # only a real termination counts as done for the target, a time limit does not
    memory.store(state, action, reward, next_state, terminated)
    episode_return = episode_return + reward

    # go to the next state
    state = next_state

    # make epsilon smaller
    epsilon = max(EPSILON_MIN, epsilon * EPSILON_DECAY)

    if terminated or truncated:
        returns.append(episode_return)
        episode_return = 0
        state, info = env.reset()

    if step > LEARNING_STARTS and len(memory) >= BATCH_SIZE:
        loss = learn(memory, q_network, target_network, optimizer, loss_function)
        losses.append(loss)

    # every TARGET_UPDATE steps copy the weights to the target network
    if step % TARGET_UPDATE == 0:
        target_network.load_state_dict(q_network.state_dict())

    if step % 2000 == 0:
        print("Step:", step, "Mean return (last 20):", np.mean(returns[-20:]), "Epsilon:", round(epsilon, 3))

print("Evaluation return:", evaluate(q_network, 10))
env.close()
