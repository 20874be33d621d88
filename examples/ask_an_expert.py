"""Copy an expert from recorded episodes, then ask it about the states that the copy gets into: the same labels, another return.

python examples/ask_an_expert.py
"""

import math
import sys
from typing import Any

import rlclinic

LABELS = 1_600 if len(sys.argv) < 2 else int(sys.argv[1]) // 16
ROUNDS = 8
SHORT = [] if len(sys.argv) < 2 else ["algo.n_epochs=2", "algo.gradient_steps=10", "run.eval_episodes=2"]


def swing_up(obs: Any) -> list[float]:
    """Pump energy until the pendulum is nearly up, then hold it there."""
    cosine, sine, speed = map(float, obs)
    angle = math.atan2(sine, cosine)
    if abs(angle) < 0.6 and abs(speed) < 4:
        return [-(12 * angle + 3 * speed)]
    return [2 * (5 - speed**2 / 6 - 5 * cosine) * math.copysign(1.0, speed)]


def main() -> None:
    """Cloning is DAgger whose expert acts all the time (beta 1)."""
    settings = [f"algo.expert={__file__}:swing_up", f"algo.train_freq={LABELS // ROUNDS}", f"run.max_env_steps={LABELS}", *SHORT]
    for name, beta in (("cloning", 1), ("DAgger", 0)):
        group = rlclinic.train("Pendulum-v1:dagger", overrides=[*settings, f"algo.beta={beta}", f"run.eval_every_env_steps={LABELS}"])
        returned = group.runs[0].evaluations[1][-1]
        print(f"{name}: {LABELS} labels, the policy alone returns {returned:.0f}; the expert -125")


if __name__ == "__main__":
    main()
