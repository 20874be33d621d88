"""Shape a reward without changing what is best, and see what four usual ways of shaping cost.

python examples/shaped_reward.py
"""

from typing import Any

import gymnasium
import numpy as np

from rlclinic.rewards import Process, Rewards, Shaped, fit_table, shaping_loss

GAMMA = 0.99


def near(place: Any) -> Any:
    """How far along a lake of 8 x 8 places one is, from 0 to 1."""
    return (place // 8 + place % 8) / 14.0


def main() -> None:
    """First the right way, in an environment's step(); then what every way costs, exactly."""
    rewards = Rewards(GAMMA, weights={"goal": 1.0}, potentials={"near": near})
    rewards.reset(0)
    reward, info = rewards.step({"goal": 0.0}, 1, terminated=False)
    print(f"a step to the right pays {reward:.4f}: {info['reward_terms']}")

    lake: Any = gymnasium.make("FrozenLake-v1", map_name="8x8").unwrapped
    process, task = Process.of_table(lake.P, lake.initial_state_distrib)
    before, after, alive = near(process.state), near(process.next_state), ~process.terminated
    shapings = {
        "a potential": GAMMA * after * alive - before,
        "the same without gamma": after * alive - before,
        "the same, kept at the end": GAMMA * after - before,
        "pay progress only": np.maximum(after - before, 0.0),
        "-0.01 per step": np.full(len(task), -0.01),
    }
    for name, paid in shapings.items():
        fit = fit_table(Shaped(process.state, process.next_state, paid, process.terminated), GAMMA)
        best, kept = shaping_loss(process, task, paid, GAMMA)
        print(f"{name}: potential-based: {fit.answer}; {kept / best:.1%} of the task's return is kept; {fit.why}")


if __name__ == "__main__":
    main()
