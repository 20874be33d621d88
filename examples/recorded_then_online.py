"""Recorded episodes of somebody who tries anything, a policy learned from them alone, and then the environment.

Run it: python examples/recorded_then_online.py
"""

import sys
from pathlib import Path

import rlclinic
from rlclinic.ops.data.collect import collect
from rlclinic.ops.data.requests import CollectRequest
from rlclinic.ops.status.status import get_training_status


def main(transitions: int = 80_000) -> None:
    data, steps = Path("random"), transitions // 20
    collect(CollectRequest(selector="Pendulum-v1", policy="random", episodes=transitions // 200, out=data))
    changes = [f"data.path={data.resolve()}", "data.then_online=true", f"data.offline_steps={steps // 2}"]
    changes += [f"run.max_env_steps={steps}", f"run.eval_every_env_steps={max(steps // 10, 100)}"]
    group = rlclinic.train("Pendulum-v1:cal_ql", seeds=2, overrides=changes)
    for run in get_training_status(group.id).groups[0].members:
        print(f"{run.run}: {run.eval_mean:.0f} at the end; going online cost {run.switch_dip:.0%} of what was learned above random")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
