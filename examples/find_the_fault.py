"""A group that does not learn: why, and what would help?

Run it: python examples/find_the_fault.py
"""

import sys

import rlclinic


def main(runs_dir: str = "runs", max_env_steps: int = 20_000) -> str:
    changes = ["algo.learning_rate=0.1", f"run.max_env_steps={max_env_steps}", "run.eval_every_env_steps=2000"]
    group = rlclinic.train("CartPole-v1:ppo_zoo", seeds=3, overrides=changes, runs_dir=runs_dir)
    found = rlclinic.diagnose(group)
    for cause in found.causes[:2]:
        print(f"{cause.title}: p = {cause.probability:.2f}, {cause.agree} of {cause.of} seeds; {cause.because}")
    for rx in rlclinic.prescribe(group).prescriptions:
        print(f"RX {rx.number}: {', '.join(rx.overrides)}")
    return found.causes[0].id


if __name__ == "__main__":
    main(*sys.argv[1:2])
