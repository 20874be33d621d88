"""The other side of the comparisons: Stable-Baselines3 with rl-zoo3's settings. It runs in an environment of its own, without rlclinic."""
