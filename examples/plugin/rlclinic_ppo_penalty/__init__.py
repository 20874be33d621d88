"""PPO with a KL penalty in place of its clip range, for rlclinic."""
