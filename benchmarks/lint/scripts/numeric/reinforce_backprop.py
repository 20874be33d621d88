"""Homework: REINFORCE with a two-layer network and its backpropagation by hand."""
import gymnasium as gym
import numpy as np


class Policy:
    def __init__(self, n_in, n_hid, n_out, seed):
        g = np.random.default_rng(seed)
        self.W1 = g.normal(0, 1 / np.sqrt(n_in), (n_hid, n_in))
        self.W2 = g.normal(0, 1 / np.sqrt(n_hid), (n_out, n_hid))
        self.m = [np.zeros_like(self.W1), np.zeros_like(self.W2)]
        self.rng = g

    def forward(self, s):
        h = np.maximum(0, self.W1 @ s)
        z = self.W2 @ h
        e = np.exp(z - z.max())
        return e / e.sum(), h

    def act(self, s):
        p, h = self.forward(s)
        a = self.rng.choice(p.size, p=p)
        return a, p, h

    def backward(self, states, hiddens, probs, actions, weights):
        dz = -np.array(probs)
        dz[np.arange(len(actions)), actions] += 1
        dz *= weights[:, None]
        H = np.array(hiddens)
        dW2 = dz.T @ H
        dh = dz @ self.W2
        dh[H <= 0] = 0
        dW1 = dh.T @ np.array(states)
        return [dW1 / len(actions), dW2 / len(actions)]

    def ascend(self, grads, lr, beta=0.9):
        for i, (W, g) in enumerate(zip((self.W1, self.W2), grads)):
            self.m[i] = beta * self.m[i] + (1 - beta) * g
            W += lr * self.m[i]


def discounted(rewards, gamma):
    out = np.zeros(len(rewards))
    running = 0.0
    for t in reversed(range(len(rewards))):
        running = rewards[t] + gamma * running
        out[t] = running
    return out


def play(env, policy):
    states, hiddens, probs, actions, rewards = [], [], [], [], []
    s, _ = env.reset()
    while True:
        a, p, h = policy.act(s)
        s2, r, term, trunc, _ = env.step(int(a))
        states.append(s)
        hiddens.append(h)
        probs.append(p)
        actions.append(a)
        rewards.append(r)
        s = s2
        if term or trunc:
            return states, hiddens, probs, actions, rewards


def main(iterations=200, gamma=0.99, lr=0.02):
    env = gym.make("CartPole-v1")
    policy = Policy(4, 32, 2, seed=0)
    baseline = 0.0
    for it in range(iterations):
        states, hiddens, probs, actions, rewards = play(env, policy)
        G = discounted(rewards, gamma)
        weights = G - baseline
        baseline = 0.9 * baseline + 0.1 * G.mean()
        weights = weights / (weights.std() + 1e-8)
        policy.ascend(policy.backward(states, hiddens, probs, actions, weights), lr)
        if it % 20 == 0:
            print(it, sum(rewards))


if __name__ == "__main__":
    main()
