"""Runs that nobody tuned to: environments, faults and scripts written without a look at the rules, trained with Stable-Baselines3."""
