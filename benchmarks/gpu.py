"""How fast a GPU trains: env steps per second summed over members, in the training loop as it is used, with its metrics written.

The loop is timed from the first logged row to the last but one, so that starting, compiling and the last evaluation and checkpoint stay
out; those two are reported beside it, in seconds. --alone times the engine's iterations by themselves: no rows, no sentinels, no files.
Programs are compiled beforehand, each in a process of its own, as a second run of the
same shape finds them. The peer's figures are PureJaxRL's on an H200, with the same settings.

    python -m benchmarks.gpu [--only NAME ...] [--alone] [--warmed] [--seconds 600] [--out FOLDER] [--quick]
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks import provenance

ZOO = "CartPole-v1:ppo_zoo"
ALONE = 60
"""Iterations that are timed of an engine by itself."""
TRIAL = ("trial", ZOO, "--set", "learning_rate=2e-3", "--seeds", "256", "--device", "cuda", "--whole-budget", "--yes")


@dataclass(frozen=True)
class Contest:
    """A shape of training, and what it must reach in millions of env steps per second."""

    what: str
    members: int
    changes: tuple[str, ...] = ()
    steps: int = 100_000
    bar: float | None = None
    stretch: float | None = None


WIDE = ("env.n_envs=8192", "algo.batch_size=65536", "algo.n_epochs=4")
CONTESTS = {
    "1024": Contest("PPO CartPole-v1, rl-zoo3's settings, 1,024 members", 1024, (), 100_000, 8.0, 14.8),
    "1": Contest("PPO CartPole-v1, rl-zoo3's settings, 1 member", 1, (), 100_000, 0.04, 0.097),
    "128": Contest("PPO CartPole-v1, rl-zoo3's settings, 128 members", 128, (), 100_000, 4.0, 6.8),
    "8192-envs": Contest("PPO CartPole-v1, 1 member, 8,192 envs x 32 steps, 4 epochs x 4 minibatches", 1, WIDE, 400 * 262_144, 25.0, 38.7),
    "trial": Contest("2 arms x 256 seeds", 512),
    "1024-tf32": Contest("PPO CartPole-v1, 1,024 members, gradients in TF32 (as JAX by default)", 1024, ("run.precision=tf32",), 100_000, 8.0, 14.8),  # noqa: E501
    "8192-envs-tf32": Contest(
        "PPO CartPole-v1, 1 member, 8,192 envs, gradients in TF32", 1, (*WIDE, "run.precision=tf32"), 400 * 262_144, 25.0, 38.7
    ),
    "acrobot": Contest("the same settings in Acrobot-v1, 1,024 members", 1024, ("env.id=Acrobot-v1",), 30_000),
    "pendulum": Contest("the same settings in Pendulum-v1, 1,024 members", 1024, ("env.id=Pendulum-v1",), 30_000),
    "mountain-car": Contest("the same settings in MountainCar-v0, 1,024 members", 1024, ("env.id=MountainCar-v0",), 30_000),
}  # fmt: skip


def cohort_of(contest: Contest, steps: int, folder: Path) -> Any:
    """A session ready to train, in new folders."""
    from rlclinic.config import load
    from rlclinic.runs.store import Store
    from rlclinic.training import assembly
    from rlclinic.training.trainer import Session

    run = ("run.device=cuda", "run.engine=auto", f"run.max_env_steps={steps}", "run.eval_every_env_steps=none")
    config = load(ZOO, [*contest.changes, *run, f"run.checkpoint_every_env_steps={steps}"]).config
    configs = [config.model_copy(update={"seed": seed}) for seed in range(contest.members)]
    (together,), _ = assembly.group_by_step(Store(folder / "runs").create_group(configs).runs, resume=False)
    return Session(assembly.assemble(together))


def warm(contest: Contest) -> None:
    """Compile what a contest needs."""
    from rlclinic.training import trainer

    with tempfile.TemporaryDirectory() as folder:
        session = cohort_of(contest, contest.steps, Path(folder))
        trainer.iterate(session, row_due=True, costly=False)
        trainer.close(session)


def measure(contest: Contest, steps: int) -> dict[str, Any]:
    """One contest's line."""
    import numpy as np
    import torch

    from rlclinic.runs.record import Run
    from rlclinic.training import rows, trainer

    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        session = cohort_of(contest, steps, Path(folder))
        torch.cuda.reset_peak_memory_stats()
        trainer.train(session)
        ended = time.time()
        trainer.close(session)
        metrics = Run(session.cohort.members[0].path).metrics
        engine = session.cohort.plan.engine
        whole = time.perf_counter() - began
    clock, env_steps = metrics["time"], metrics["total_timesteps"]
    speed = contest.members * float((env_steps[-2] - env_steps[0]) / (clock[-2] - clock[0])) / 1e6
    return {
        "what": f"{contest.what}, millions of env steps per second", "unit": "M/s", "value": speed, "better": "higher",
        "bar": contest.bar, "stretch": contest.stretch, "engine": engine, "rows": len(clock), "whole_seconds": whole,
        "evaluation_seconds": float(metrics["time/eval"][-1]), "checkpoint_seconds": float(ended - clock[-1]),
        "memory_gib": torch.cuda.max_memory_allocated() / 2**30,
        "host_seconds": {phase: float(np.nansum(metrics[f"time/{phase}"])) for phase in rows.PHASES},
    }  # fmt: skip


def measure_alone(contest: Contest) -> dict[str, Any]:
    """The engine's iterations, one after the other, with nothing around them."""
    import torch

    from rlclinic.training import members
    from rlclinic.training.loops.on_policy import IterationInputs

    with tempfile.TemporaryDirectory() as folder:
        session = cohort_of(contest, contest.steps, Path(folder))
        cohort, clock = session.cohort, dict.fromkeys(("env", "act", "learn"), 0.0)
        hp = members.hyperparameters(cohort.members, 0, cohort.plan.policy, cohort.device)
        learner = cohort.learner
        for iteration in range(3 + ALONE):
            if iteration == 3:  # compiled and captured by then
                torch.cuda.synchronize()
                began = time.perf_counter()
            inputs = IterationInputs(cohort.plan, learner, cohort.env, cohort.position, hp, None, cohort.seed, iteration, clock)
            learner = cohort.engine.iterate(inputs).after
        torch.cuda.synchronize()
        speed = ALONE * contest.members * cohort.plan.rollout_size / (time.perf_counter() - began) / 1e6
    return {
        "what": f"{contest.what}, the engine alone, millions of env steps per second", "unit": "M/s", "value": speed, "better": "higher",
        "bar": None, "stretch": None, "engine": cohort.plan.engine,  # bars are for the loop with its rows
    }  # fmt: skip


def time_trial(steps: int) -> dict[str, Any]:
    """A trial of two arms, from typing it to the prompt."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        words = [sys.executable, "-m", "rlclinic", *TRIAL, "--max-env-steps", str(steps), "--quiet", "--json"]
        done = subprocess.run(words, cwd=folder, env=os.environ | _importable(), capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"the trial failed:\n{done.stderr[-2000:]}")
    return {
        "what": "trial of 2 arms x 256 seeds, CartPole-v1, 100k env steps each, whole command, warm cache", "unit": "s", "value": seconds,
        "better": "lower", "bar": 40.0, "stretch": 20.0, "verdict": json.loads(done.stdout)["trial"].get("verdict"),
    }  # fmt: skip


def _importable() -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join(str(Path(part).resolve()) for part in sys.path if part)}


def origin(command: str) -> dict[str, Any]:
    """Where the figures come from; the card in place of the processor."""
    import torch

    versions = {"torch": torch.__version__} | {name: metadata.version(name) for name in ("gymnasium", "numpy", "pydantic")}
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"), "commit": provenance.commit(), "command": command,
        "python": platform.python_version(),
        "versions": versions, "peer_versions": {}, "cpu": torch.cuda.get_device_name(),
        "system": f"{platform.system()} {platform.machine()}",
    }  # fmt: skip


def compile_all(names: list[str]) -> None:
    """Every contest's programs at the same time, each in a process of its own."""
    words = [sys.executable, "-m", "benchmarks.gpu", "--warm"]
    environment = os.environ | _importable() | {"TORCHINDUCTOR_COMPILE_THREADS": "2", "OMP_NUM_THREADS": "1"}
    children = [subprocess.Popen([*words, name], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for name in names]
    for child in children:
        child.wait()


def _one(name: str, args: Any) -> dict[str, Any]:
    if name == "trial":
        return time_trial(100_000)
    contest = CONTESTS[name]
    return measure_alone(contest) if args.alone else measure(contest, contest.steps // (5 if args.quick else 1))


def main() -> None:
    parser = provenance.parser(__doc__)
    parser.add_argument("--only", nargs="*", choices=list(CONTESTS), default=list(CONTESTS))
    parser.add_argument("--seconds", type=float, default=600.0, help="start no further measurement after so long")
    parser.add_argument("--out", type=Path, help="where to write gpu.json, instead of benchmarks/results")
    parser.add_argument("--alone", action="store_true", help="the engine's iterations by themselves")
    parser.add_argument("--warm", help="compile one contest and end")
    parser.add_argument("--warmed", action="store_true", help="everything is compiled already")
    args = parser.parse_args()
    if args.warm:
        warm(CONTESTS[args.warm])
        return
    began, rows = time.perf_counter(), []
    if not args.warmed:
        compile_all(args.only)
    print(f"compiled in {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    source = origin("python -m benchmarks.gpu")
    if args.out:
        provenance.RESULTS = args.out
    for name in args.only:
        if time.perf_counter() - began > args.seconds:
            print(f"no time left for {name}", file=sys.stderr, flush=True)
            continue
        rows.append(_one(name, args))
        rows[-1]["command"] = f"python -m benchmarks.gpu --only {name}" + (" --alone" if args.alone else "")
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
        print(provenance.write("gpu", rows, source, args.quick and not args.out), flush=True)


if __name__ == "__main__":
    main()
