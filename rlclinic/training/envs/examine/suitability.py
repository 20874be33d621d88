"""`python -m rlclinic.training.envs.examine.suitability < configs.json`: what stands in the way of training each config, as JSON.

Each environment is made once, each config's networks are planned for it and its recorded data is opened, as the first moment of a training
would. Nothing is written.
"""

import json
import sys

import torch

from rlclinic.config import from_record
from rlclinic.errors import RlclinicError
from rlclinic.training import assembly, envs
from rlclinic.training.data import recorded


def main() -> None:
    """One JSON object a line, for each config that cannot be trained: its place and why."""
    for place, record in enumerate(json.load(sys.stdin)):
        config = from_record(record)
        try:
            env = envs.make(config.env, [0], 1)
            try:
                assembly.plan_for(config, env)
                if config.data is not None and config.data.path:
                    recorded.load(config, env, torch.device("cpu"))
            finally:
                env.close()
        except RlclinicError as error:
            print(json.dumps({place: str(error)}))
        except Exception as error:  # noqa: BLE001 — whatever an environment of somebody's own raises
            said = str(error).splitlines()
            print(
                json.dumps({place: f"{config.env.id} was not made: {type(error).__name__}: {said[0] if said else 'no reason was given'}"})
            )


if __name__ == "__main__":
    main()
