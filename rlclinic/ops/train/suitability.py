"""Whether configs can be trained on their environments at all: found out in a process of its own, before anything is spent.

An environment of somebody's own is code. It is made where it can do no harm, and where an import that hangs has an end.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from rlclinic.actions import Action, Argument
from rlclinic.config import Config, to_record
from rlclinic.errors import ConfigError

SECONDS: Final = 120.0
"""So long may all environments together take to be made."""


def check(configs: Sequence[Config]) -> None:
    """ConfigError for the first environment of a trial that cannot be made, or whose actions or observations a config cannot deal with."""
    if (problem := find_problem(configs)) is None:
        return
    place, text = problem
    refused = configs[place]
    others = [env_id for env_id in dict.fromkeys(config.env.id for config in configs) if env_id != refused.env.id]
    what = "\n".join(text.splitlines()[:2])
    raise ConfigError(
        f"{what}\n  So {refused.env.id} cannot be part of this trial; nothing was trained.\n  Leave it out: ",
        Argument("envs", others or ["ENV", "ENV"]),
        ", or try configs that suit it",
    )


def find_problem(configs: Sequence[Config]) -> tuple[int, str] | None:
    """The place of the first config that cannot be trained and why; None where all can. Their data has to fit their environment, too."""
    command = [sys.executable, "-m", "rlclinic.training.envs.examine.suitability"]
    records = json.dumps([to_record(config) for config in configs])
    try:
        done = subprocess.run(command, input=records, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        names = ", ".join(dict.fromkeys(config.env.id for config in configs))
        raise ConfigError(
            f"one of {names} was not made within {SECONDS:g} s.\n  Training would hang as long.\n  Look at them one by one: ",
            Action("lint", "ENV"),
        ) from None
    problems = {int(place): text for line in done.stdout.splitlines() if line.startswith("{") for place, text in json.loads(line).items()}
    if not problems and done.returncode == 0:
        return None
    return next(iter(problems.items()), (0, done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "the process died"))
