"""Rewards made of named terms, for environments of your own, and whether shaping changes what is best. Free of torch.

    from rlclinic.rewards import Rewards

    self.rewards = Rewards(gamma=0.99, weights={"goal": 1.0, "energy": -0.01}, potentials={"progress": lambda obs: -abs(obs[0])})
    self.rewards.reset(obs)                                                            # in reset()
    reward, info = self.rewards.step({"goal": 1.0, "energy": 0.3}, obs, terminated)     # in step(); info["reward_terms"] sums to the reward

A potential pays gamma x Phi(next) - Phi(now), with Phi = 0 where the episode terminates and kept where a limit cuts it: the one kind of
shaping that leaves the best policy as it is (Ng, Harada & Russell 1999). Costs are reported beside the reward and never added to it.
"""

from rlclinic.rewards.finite import Process, Solution, shaping_loss, solve
from rlclinic.rewards.potentials import PotentialFit, Shaped, fit_potential, fit_table
from rlclinic.rewards.terms import Ramp, Rewards

__all__ = ["PotentialFit", "Process", "Ramp", "Rewards", "Shaped", "Solution", "fit_potential", "fit_table", "shaping_loss", "solve"]
