"""One-step actor-critic with linear features and hand-written gradients. numpy only."""
import gymnasium as gym
import numpy as np

rng = np.random.default_rng(7)
GAMMA = 0.99
ALPHA_W = 0.01
ALPHA_THETA = 0.002


class Fourier:
    def __init__(self, low, high, order=3):
        grids = np.meshgrid(*[np.arange(order + 1)] * len(low))
        self.c = np.stack([g.ravel() for g in grids], axis=1)
        self.low, self.high = low, high

    def __call__(self, s):
        z = (np.clip(s, self.low, self.high) - self.low) / (self.high - self.low)
        return np.cos(np.pi * self.c @ z)


def softmax(z):
    e = np.exp(z - z.max())
    return e / e.sum()


def train(episodes=300):
    env = gym.make("CartPole-v1")
    phi = Fourier(np.array([-2.4, -3.0, -0.21, -3.0]), np.array([2.4, 3.0, 0.21, 3.0]))
    k = phi.c.shape[0]
    w = np.zeros(k)
    theta = np.zeros((env.action_space.n, k))
    history = []
    for ep in range(episodes):
        s, _ = env.reset(seed=int(rng.integers(1 << 30)))
        x = phi(s)
        total, scale = 0.0, 1.0
        while True:
            p = softmax(theta @ x)
            a = rng.choice(len(p), p=p)
            s2, r, terminated, truncated, _ = env.step(a)
            x2 = phi(s2)
            v_next = 0.0 if terminated else w @ x2
            delta = r + GAMMA * v_next - w @ x
            w += ALPHA_W * delta * x
            score = -np.outer(p, x)
            score[a] += x
            theta += ALPHA_THETA * scale * delta * score
            scale *= GAMMA
            total += r
            x = x2
            if terminated or truncated:
                break
        history.append(total)
    return history


if __name__ == "__main__":
    print(np.mean(train()[-20:]))
