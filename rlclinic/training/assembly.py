"""Putting a cohort together: members, environments, networks, and where they go on from."""

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rlclinic.config import Config
from rlclinic.errors import ConfigError
from rlclinic.runs.record import Run
from rlclinic.runs.writer import RunWriter
from rlclinic.training import envs, optim, rows, snapshot
from rlclinic.training.algos import ALGORITHMS
from rlclinic.training.checkpoint import Checkpoint
from rlclinic.training.cohort import Member
from rlclinic.training.data.episodes import Episodes
from rlclinic.training.loops.on_policy import Learner, Plan, Position
from rlclinic.training.maths import distributions, normalize
from rlclinic.training.nets import mlp

Factory = Callable[..., Any]


@dataclass
class Cohort:
    """M runs in training: everything that the loop reads and replaces."""

    members: list[Member]
    plan: Plan
    learner: Learner
    env: Any
    position: Position
    episodes: Episodes
    seed: Tensor
    """[M, 1, 1]"""
    device: torch.device
    iteration: int = 0
    env_steps: int = 0
    eval_env: Any = None

    @property
    def config(self) -> Config:
        """The first member's: for what is equal in a cohort."""
        return self.members[0].config


def device_of(config: Config) -> torch.device:
    """Where to compute; asking for a GPU that is not there is an error, not a slow run."""
    wanted = config.run.device
    if wanted == "cuda" and not torch.cuda.is_available():
        raise ConfigError("run.device=cuda, but PyTorch finds no CUDA device.\n  Nothing could be computed.\n  Try: --device cpu, or: rlclinic doctor")
    return torch.device("cuda" if wanted == "cuda" or (wanted == "auto" and torch.cuda.is_available()) else "cpu")


def load(run: Run, *, resume: bool) -> tuple[Checkpoint | None, str, list[str]]:
    """Where a run goes on from: (checkpoint, how, messages); how is new, resume, fork, extend or init."""
    if resume:
        found, passed = snapshot.of_run(run.path, None)
        return found, "resume", passed
    if run.parent is None:
        return None, "new", []
    parent, _, step = run.parent.rpartition("@")
    found, passed = snapshot.of_run(run.path.parent / parent, int(step))
    return found, str(run.record.get("start", "fork")), passed


def assemble(runs: Sequence[Run], starts: list[tuple[Checkpoint | None, str, list[str]]], factory: Factory | None = None) -> Cohort:
    """A cohort ready to train. All runs have one shape and start from the same step."""
    config = runs[0].config
    device = device_of(config)
    seeds = [run.seed for run in runs]
    env = envs.make(config.env, seeds, config.env.n_envs, device=str(device), factory=factory)
    plan = _plan(config, env)
    learner = _learner(plan, runs, env, device)
    cohort = Cohort(
        members=[_member(run, start) for run, start in zip(runs, starts, strict=True)],
        plan=plan,
        learner=learner,
        env=env,
        position=Position(torch.empty(0)),
        episodes=Episodes(len(runs), config.env.n_envs),
        seed=torch.tensor(seeds, dtype=torch.int64, device=device).view(-1, 1, 1),
        device=device,
    )
    _go_on(cohort, starts)
    if config.run.eval_episodes:
        cohort.eval_env = envs.make(config.env, seeds, config.run.eval_episodes, device=str(device), evaluation=True, factory=factory)
    return cohort


def _plan(config: Config, env: Any) -> Plan:
    if len(env.obs_shape) != 1:
        raise ConfigError(
            f"{config.env.id} gives observations of shape {tuple(env.obs_shape)}; net.hidden builds layers for vectors.\n"
            f"  The first layer could not be applied.\n"
            f"  Flatten them: --set 'env.wrappers=[{{\"id\": \"FlattenObservation\"}}]'"
        )
    distribution = distributions.of(env.action)
    policy = mlp.build(config.net, env.obs_shape[0], distribution)
    algo = config.algo
    rule = optim.Optimizer(algo.optimizer, algo.adam_eps, algo.weight_decay, algo.momentum, algo.rms_decay, policy.layout)
    return Plan(ALGORITHMS[algo.name], algo, config.env, policy, rule, getattr(algo, "n_epochs", 1), config.batch_rows, config.rollout_size)


def _learner(plan: Plan, runs: Sequence[Run], env: Any, device: torch.device) -> Learner:
    flat = torch.cat([mlp.initialize(plan.policy, run.seed) for run in runs]).to(device)
    members = len(runs)
    obs_stats = normalize.moments(members, env.obs_shape[0], device) if plan.env.normalize_obs else None
    reward_stats = normalize.moments(members, 1, device) if plan.env.normalize_reward else None
    carry = torch.zeros(members, env.n_envs, device=device) if plan.env.normalize_reward else None
    return Learner(flat, optim.start(flat), obs_stats, reward_stats, carry)


def _member(run: Run, start: tuple[Checkpoint | None, str, list[str]]) -> Member:
    found, how, messages = start
    offset = found.state["metrics_offset"] if found is not None and how == "resume" else None
    member = Member(run, run.config, RunWriter(run.path, rows.columns(run.config), offset))
    for message in messages:
        member.writer.log(message)
    if found is None or how == "init":
        return member
    member.adapted = dict(found.state["adapted"])
    member.best_eval, member.eval_mean, member.reached_at = (found.state[name] for name in ("best_eval", "eval_mean", "reached_at"))
    if how == "resume":
        member.interventions = run.interventions
        member.replay(found.env_steps - 1)
    return member


def _go_on(cohort: Cohort, starts: list[tuple[Checkpoint | None, str, list[str]]]) -> None:
    """Continue from checkpoints where there are any; otherwise from the beginning."""
    found, how = [start[0] for start in starts if start[0] is not None], starts[0][1]
    if not found:
        cohort.position = Position(cohort.env.reset(), cohort.env.action_mask)
        return
    cohort.learner = snapshot.weights(cohort.plan.policy, found, cohort.learner, optimizer=how != "init")
    if how == "init":
        cohort.position = Position(cohort.env.reset(), cohort.env.action_mask)
        return
    cohort.iteration, cohort.env_steps = int(found[0].state["iteration"]), found[0].env_steps
    if not all(snapshot.fits(each, cohort.env) for each in found):
        cohort.position, exact = Position(cohort.env.reset(), cohort.env.action_mask), False
    else:
        cohort.learner, cohort.position, exact = snapshot.place(found, cohort.learner, cohort.env, cohort.episodes)
    for member in cohort.members:
        kind = "exactly where it was" if exact else "with environments started anew (they cannot be saved), so not bit for bit"
        member.writer.log(f"{how} from env step {cohort.env_steps}, {kind}")


def provenance(cohort: Cohort) -> dict[str, Any]:
    """What was decided at the start and belongs to the record: engine, versions."""
    import gymnasium
    import numpy

    versions = {"python": platform.python_version(), "torch": torch.__version__, "numpy": numpy.__version__, "gymnasium": gymnasium.__version__}
    engine = {"kind": "eager", "device": str(cohort.device), "dtype": "float32", "threads": torch.get_num_threads()}
    return {"engine": engine, "versions": versions}


def group_by_step(runs: Sequence[Run], *, resume: bool) -> list[list[tuple[Run, tuple[Checkpoint | None, str, list[str]]]]]:
    """Runs that can train together: a kill may have left members with different newest checkpoints."""
    groups: dict[tuple[int, str], list[Any]] = {}
    for run in runs:
        start = load(run, resume=resume)
        groups.setdefault((start[0].env_steps if start[0] else 0, start[1]), []).append((run, start))
    return list(groups.values())


def paths(arguments: Sequence[str]) -> list[Run]:
    """Run folders from the command line of a training process."""
    return [Run(Path(argument)) for argument in arguments]
