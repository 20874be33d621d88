"""The whole loop, as somebody types it: from a sick config to an adopted one, on LunarLander-v3 and on an environment of one's own.

    python -m benchmarks.treatment.loop [lander|thermostat ...] [--write]     --write puts what was said into benchmarks/results/loop.md

About six minutes on two quiet cores. `pytest -m loop` does the same and checks that both end with a YAML that trains.
"""

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import provenance

PAGE: Final = provenance.RESULTS / "loop.md"
EXAMPLES: Final = provenance.ROOT / "examples"


@dataclass(frozen=True)
class Case:
    """A sick config, and what is typed from there."""

    title: str
    about: str
    env: str
    sick: str
    """The user's YAML."""
    trial: str
    """How its cure is tried."""


CASES: Final = {
    "lander": Case(
        title="LunarLander-v3",
        about="A learning rate of 0.05. The cure is judged by the return after 60,000 env steps.",
        env="LunarLander-v3",
        sick="""spec: {threshold: 200, max_episode_steps: 1000}
mine:
  env: {id: LunarLander-v3, n_envs: 16, normalize_obs: true, normalize_reward: true}
  algo: {name: ppo, n_steps: 128, batch_size: 256, n_epochs: 10, gamma: 0.999, gae_lambda: 0.98, ent_coef: 0.01, learning_rate: 0.05}
  run: {max_env_steps: 60_000, eval_every_env_steps: 12_000, eval_episodes: 8}
""",
        trial="trial @last --rx 1 --outcome return --yes",
    ),
    "thermostat": Case(
        title="The thermostat of examples/own_environment.py",
        about="Nobody knows it (PYTHONPATH=examples); a learning rate of 0.00001. The cure is judged by the steps to -8.",
        env="own_environment:Thermostat-v0",
        sick="""spec: {threshold: -8, max_episode_steps: 96}
mine:
  env: {id: "own_environment:Thermostat-v0", n_envs: 8, normalize_obs: true}
  algo: {name: ppo, n_steps: 96, batch_size: 192, n_epochs: 10, gamma: 0.9, gae_lambda: 0.9, learning_rate: 1e-5}
  run: {max_env_steps: 40_000, eval_every_env_steps: 4_000, eval_episodes: 10}
""",
        trial="trial @last --rx 1 --yes",
    ),
}


@dataclass(frozen=True)
class Said:
    """One command and its answer."""

    line: str
    out: str
    code: int
    seconds: float


def commands(case: Case) -> list[str]:
    """What is typed, in order."""
    return [
        "train sick.yaml --seeds 3 --quiet",
        "diagnose @last",
        "prescribe @last",
        case.trial + " --quiet",
        f"adopt @last --as {case.env}:cured",
        f"compare sick.yaml {case.env}:cured",
    ]


def run(case: Case, folder: Path) -> list[Said]:
    """Type everything in an empty folder; ends with the first command that fails."""
    (folder / "sick.yaml").write_text(case.sick)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "120", "PYTHONPATH": str(EXAMPLES)}
    rlclinic, said = Path(sys.executable).with_name("rlclinic"), []
    for line in commands(case):
        began = time.monotonic()
        words = [str(rlclinic), *shlex.split(line)]
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        seconds = time.monotonic() - began
        said.append(Said(line, done.stdout if done.returncode == 0 else done.stdout + done.stderr, done.returncode, seconds))
        print(f"$ rlclinic {line}   # {seconds:.0f} s\n{said[-1].out}", file=sys.stderr, flush=True)
        if done.returncode:
            break
    return said


def page(logs: Mapping[str, Sequence[Said]], adopted: Mapping[str, str]) -> str:
    """The log as a page."""
    total = sum(each.seconds for said in logs.values() for each in said)
    lines = [
        "# The whole loop, twice",
        "",
        "What was typed and what was answered, from a sick config to an adopted one.",
        "Written by `python -m benchmarks.treatment.loop --write`; `pytest -m loop` repeats it (`make test` does not: it takes minutes).",
        "",
        f"All of it took {total / 60:.1f} minutes on {provenance.cpu_model()}.",
        "",
    ]
    for name, said in logs.items():
        case = CASES[name]
        lines += [f"## {case.title}", "", case.about, "", "`sick.yaml`:", "", "```yaml", case.sick.rstrip(), "```", ""]
        for each in said:
            lines += [f"### `rlclinic {each.line}`", "", f"{each.seconds:.0f} s", "", "```text", each.out.rstrip(), "```", ""]
        lines += ["What was adopted:", "", "```yaml", adopted[name].rstrip(), "```", ""]
    return "\n".join(lines)


def adopted_yaml(folder: Path) -> str:
    """The file that `adopt` wrote."""
    found = sorted((folder / "config" / "environments").glob("*.yaml"))
    return found[0].read_text() if found else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES) + " (both)")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(provenance.ROOT)}")
    args = parser.parse_args()
    logs, adopted = {}, {}
    for name in args.cases or CASES:
        with tempfile.TemporaryDirectory(prefix="rlclinic-loop-") as folder:
            logs[name] = run(CASES[name], Path(folder))
            adopted[name] = adopted_yaml(Path(folder))
        if logs[name][-1].code or not adopted[name]:
            raise SystemExit(f"the loop ended at: rlclinic {logs[name][-1].line}")
    if args.write:
        PAGE.write_text(page(logs, adopted))


if __name__ == "__main__":
    main()
