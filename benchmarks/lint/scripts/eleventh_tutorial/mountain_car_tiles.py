# Q-learning on MountainCar with a grid over position and speed. Part 3 of my notes: "from tables to tiles".
import gym                      # 0.25 with the new step API
import numpy as np

BINS = (18, 14)
ALPHA_START, ALPHA_END = 0.5, 0.05
DISCOUNT = 0.99
EPISODES = 5000
SHOW_EVERY = 500
epsilon = 1.0
EPSILON_FLOOR = 0.01
EPSILON_STEP = 1 / 2500

env = gym.make("MountainCar-v0", new_step_api=True)
low, high = env.observation_space.low, env.observation_space.high
width = (high - low) / np.array(BINS)
q_table = np.random.uniform(low=-2, high=0, size=(*BINS, env.action_space.n))


def cell(observation):
    """The grid cell of an observation, as a tuple that indexes the table."""
    index = ((observation - low) / width).astype(int)
    return tuple(np.clip(index, 0, np.array(BINS) - 1))


def alpha_at(episode):
    return max(ALPHA_END, ALPHA_START * (1 - episode / EPISODES))


log = []
for episode in range(EPISODES):
    here = cell(env.reset())
    alpha = alpha_at(episode)
    episode_reward = 0
    finished = False
    while not finished:
        if np.random.random() > epsilon:
            action = int(np.argmax(q_table[here]))
        else:
            action = np.random.randint(0, env.action_space.n)
        observation, reward, terminated, truncated, _ = env.step(action)
        there = cell(observation)
        episode_reward += reward

        if terminated:
            q_table[here + (action,)] += alpha * (reward - q_table[here + (action,)])
        else:
            best = np.max(q_table[there])
            old = q_table[here + (action,)]
            q_table[here + (action,)] = (1 - alpha) * old + alpha * (reward + DISCOUNT * best)

        here = there
        finished = terminated or truncated

    epsilon = max(EPSILON_FLOOR, epsilon - EPSILON_STEP)
    log.append(episode_reward)
    if episode % SHOW_EVERY == 0:
        recent = log[-SHOW_EVERY:]
        print(f"{episode:5d}  mean {np.mean(recent):7.1f}  best {max(recent):7.1f}  epsilon {epsilon:.2f}")

env.close()
