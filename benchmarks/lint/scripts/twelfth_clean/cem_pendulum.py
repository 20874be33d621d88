"""Cross-entropy method for a linear policy with a few features; no gradient is involved anywhere."""
import gymnasium as gym
import numpy as np

N_FEATURES = 9
POPULATION, ELITES, ROUNDS, EPISODES = 60, 12, 40, 3
MIN_STD = 0.05


def features(obs):
    c, s, w = obs
    return np.array([1.0, c, s, w, c * s, c * w, s * w, s * abs(s), w * abs(w)])


def play(env, theta, seed):
    obs, _ = env.reset(seed=seed)
    total = 0.0
    while True:
        action = 2.0 * np.tanh(theta @ features(obs))
        obs, reward, terminated, truncated, _ = env.step(np.array([action], dtype=np.float32))
        total += reward
        if terminated or truncated:
            return total


def main():
    env = gym.make("Pendulum-v1")
    rng = np.random.default_rng(0)
    mean, std = np.zeros(N_FEATURES), 2.0 * np.ones(N_FEATURES)
    for round_ in range(ROUNDS):
        thetas = mean + std * rng.standard_normal((POPULATION, N_FEATURES))
        # all candidates of a round play from the same starts: they are to be compared, not the starts
        seeds = rng.integers(1_000_000, size=EPISODES)
        scores = np.array([np.mean([play(env, theta, int(seed)) for seed in seeds]) for theta in thetas])
        elite = thetas[np.argsort(scores)[-ELITES:]]
        mean, std = elite.mean(axis=0), np.maximum(elite.std(axis=0), MIN_STD)
        print(f"round {round_}: mean {scores.mean():.0f} best {scores.max():.0f} centre {play(env, mean, 12345):.0f}")


if __name__ == "__main__":
    main()
