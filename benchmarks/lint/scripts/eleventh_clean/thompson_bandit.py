# Thompson sampling on Bernoulli arms. The beliefs explore by themselves: taking the argmax of a sample is the exploration.
import numpy as np

rng = np.random.default_rng(7)
p = rng.uniform(0.1, 0.7, size=10)
wins, losses = np.ones(10), np.ones(10)
regret = 0.0
for t in range(5000):
    arm = np.argmax(rng.beta(wins, losses))
    reward = rng.random() < p[arm]
    wins[arm] += reward
    losses[arm] += not reward
    regret += p.max() - p[arm]
    if t % 1000 == 0:
        print(t, "regret", round(regret, 1))
print("best arm", p.argmax(), "pulled", int((wins + losses - 2)[p.argmax()]), "of 5000")
