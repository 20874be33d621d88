"""A group that does not learn: why, and what would help?

Run it: python examples/find_the_fault.py
"""

import sys

import rlclinic


def main(max_env_steps: int = 20_000) -> None:
    changes = ["algo.learning_rate=0.1", f"run.max_env_steps={max_env_steps}", "run.eval_every_env_steps=1000"]
    group = rlclinic.train("CartPole-v1:ppo_zoo", seeds=3, overrides=changes)
    found = rlclinic.diagnose(group)
    for cause in found.causes[:2]:
        print(f"{cause.title}: p = {cause.probability:.2f}, {cause.agree} of {cause.of} seeds; {cause.because}")
    for rx in rlclinic.prescribe(group).prescriptions:
        print(f"RX {rx.number}: {', '.join(rx.overrides)}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
