"""GAE on arrays that are flipped first: the recursion then runs forwards through time that runs backwards."""

import numpy as np


def gae(rewards, values, next_values, terminated, truncated, gamma=0.99, lam=0.95):
    """All arrays are [T]; next_values[t] is V of the observation that step t led to, also at an episode's end."""
    flip = slice(None, None, -1)
    flow = zip(rewards[flip], values[flip], next_values[flip], terminated[flip], truncated[flip])
    advantages, carry = [], 0.0
    for reward, value, next_value, dead, cut in flow:
        surprise = reward - value if dead else reward + gamma * next_value - value
        carry = surprise if dead or cut else surprise + gamma * lam * carry
        advantages.append(carry)
    return np.array(advantages)[flip]


def slow(rewards, values, next_values, terminated, truncated, gamma=0.99, lam=0.95):
    """The definition: a sum over what follows, up to the end of the episode."""
    result = np.zeros(len(rewards))
    for t in range(len(rewards)):
        weight = 1.0
        for k in range(t, len(rewards)):
            result[t] += weight * (rewards[k] + gamma * next_values[k] * (1 - terminated[k]) - values[k])
            weight *= gamma * lam
            if terminated[k] or truncated[k]:
                break
    return result


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    T = 200
    ends = rng.random(T)
    data = rng.normal(size=T), rng.normal(size=T), rng.normal(size=T), ends < 0.05, (ends > 0.05) & (ends < 0.1)
    assert np.allclose(gae(*data), slow(*data))
    print("the same")
