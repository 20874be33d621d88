"""What is trained to see what bonuses find and cost, and the rows that come of it. (Processes are spawned: they import this, not `__main__`.)"""

# ruff: noqa: E501 — rows of a table

import shutil
import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from benchmarks import provenance
from rlclinic.config import load
from rlclinic.runs.store import Store

FOLDER: Final = provenance.SCRATCH / "exploration"


@dataclass(frozen=True)
class Job:
    """Seeds of one config."""

    row: str
    arm: str
    ref: str
    budget: int
    seeds: tuple[int, ...]
    settings: tuple[str, ...] = ()


def _seeds(count: int, each: int = 1) -> list[tuple[int, ...]]:
    return [tuple(range(start, min(start + each, count))) for start in range(0, count, each)]


def list_jobs() -> list[Job]:
    """The most important first."""
    jobs = []
    sea = ("env.kwargs={size: 20}", "run.eval_every_env_steps=2000")
    jobs += [Job("DeepSea-20", "PPO with counts", "DeepSea-v0:ppo_count", 200_000, seeds, sea) for seeds in _seeds(5, 5)]
    # Nothing is left to chance in a table's run: other seeds are other seas. None of these was looked at before.
    for mapping in range(200, 205):
        table = (f"env.kwargs={{size: 30, mapping_seed: {mapping}}}", "algo.train_freq=30", "run.eval_every_env_steps=300")
        jobs += [Job("DeepSea-30", "table", "DeepSea-v0:q_learning", 45_000, (0,), table)]
    arms: dict[str, tuple[str, ...]] = {
        "plain": (),
        "episodic_count 0.1": ("bonus.kind=episodic_count", "bonus.coef=0.1"),
        "rnd 0.05": ("bonus.kind=rnd", "bonus.coef=0.05"),
        "noveld 0.1": ("bonus.kind=noveld", "bonus.coef=0.1"),
    }
    worlds: tuple[tuple[str, str, int, tuple[str, ...]], ...] = (
        ("DoorKey-v0:ppo", "DoorKey-8", 300_000, ()),
        ("MultiRoom-v0:ppo", "MultiRoom, four rooms", 200_000, ()),
    )
    for ref, name, budget, extra in worlds:
        for arm, settings in arms.items():
            jobs += [Job(name, arm, ref, budget, seeds, (*extra, *settings)) for seeds in _seeds(5, 5)]
    # Written down before any of them was trained with a bonus. CliffWalking stood among them: plain PPO solves it with 3 of 8 seeds.
    harm: dict[str, tuple[int, tuple[str, ...]]] = {
        "CartPole-v1:ppo": (60_000, ()),
        "Acrobot-v1:ppo": (100_000, ()),
        "FrozenLake-v1:ppo_deterministic": (60_000, ()),
        "Pendulum-v1:ppo": (120_000, ()),
        "Delivery-v0:ppo_mended": (150_000, ()),
        "DeepSea-v0:ppo": (30_000, ("env.kwargs={size: 5}",)),
        "Maze-v0:ppo": (120_000, ("env.kwargs={size: 5, difficulty: 0}",)),
        "DoorKey-v0:ppo": (150_000, ("env.kwargs={size: 5}",)),
        "MountainCarContinuous-v0:ppo": (60_000, ()),
        "FrozenLake-v1:ppo": (100_000, ()),
    }
    forced: dict[str, tuple[str, ...]] = {"plain": (), "count": ("bonus.kind=count",), "rnd": ("bonus.kind=rnd",)}
    for ref, (budget, extra) in harm.items():
        for arm, settings in forced.items():
            often = f"run.eval_every_env_steps={budget // 60}"  # a difference of ten percent has to show
            jobs.append(Job(f"harm {ref}", arm, ref, budget, tuple(range(16)), (*extra, often, *settings)))
    jobs += [Job("DeepSea-20", "bootstrapped DQN", "DeepSea-v0:bootstrapped_dqn", 200_000, seeds, sea) for seeds in _seeds(5, 5)]
    return jobs


def work(numbered: tuple[int, Job]) -> list[dict[str, Any]]:
    """Train the seeds of a job; by seed, when it was solved."""
    from rlclinic.training.__main__ import train_runs

    number, job = numbered
    folder = FOLDER / str(number)
    shutil.rmtree(folder, ignore_errors=True)
    config = load(job.ref, [*job.settings, f"run.max_env_steps={job.budget}", "run.stop_at_threshold=true"]).config
    runs = list(Store(folder).create_group([config.model_copy(update={"seed": seed}) for seed in job.seeds]).runs)
    started = time.process_time()
    train_runs(runs)
    seconds = time.process_time() - started
    solved = [run.status.threshold_reached_at for run in runs]
    shutil.rmtree(folder, ignore_errors=True)
    return [{**asdict(job), "seed": seed, "solved_at": at, "seconds": seconds} for seed, at in zip(job.seeds, solved, strict=True)]


def summarize(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows for the table."""
    by_arm: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for run in runs:
        by_arm[run["row"], run["arm"]].append(run)
    rows: list[dict[str, Any]] = []

    def solved(arm: list[dict[str, Any]]) -> list[int]:
        return sorted(run["solved_at"] for run in arm if run["solved_at"] is not None)

    for (row, arm), of in by_arm.items():
        at = solved(of)
        if row == "DeepSea-20":
            rows.append(
                {
                    "what": f"DeepSea-20, {arm}: seeds of {len(of)} that find it in 10,000 dives",
                    "unit": "",
                    "value": len(at),
                    "better": "higher",
                    "bar": 4,
                    "stretch": 5,
                    "note": f"at dives {[step // 20 for step in at]}",
                }
            )
        elif row == "DeepSea-30":
            slowest = max((run["solved_at"] or 10**9) / 30 for run in of)
            rows.append(
                {
                    "what": f"DeepSea-30, optimistic table, learned backwards: dives of the slowest of {len(of)} seas",
                    "unit": "",
                    "value": round(slowest),
                    "better": "lower",
                    "bar": 700,
                    "stretch": 360,
                }
            )
        elif not row.startswith("harm"):
            rows.append(
                {
                    "what": f"{row}, {arm}: seeds of {len(of)} at 90 % success in {of[0]['budget']:,} env steps",
                    "unit": "",
                    "value": len(at),
                    "better": "higher",
                    "note": f"at {at}",
                }
            )
    for kind in ("count", "rnd"):
        ratios: dict[str, np.ndarray] = {}
        for (row, arm), of in by_arm.items():
            plain = by_arm.get((row, "plain"), [])
            if row.startswith("harm") and arm == kind and len(solved(plain)) > len(plain) / 2:
                ratios[row.removeprefix("harm ")] = _ratios_of_steps(of, plain)
        if ratios:
            geometric = np.exp(np.mean([np.log(values) for values in ratios.values()], 0))
            low, high = np.percentile(geometric[1:], [2.5, 97.5])
            shown = {
                task: " to ".join(f"{value:.2f}" for value in np.percentile(values[1:], [2.5, 97.5])) for task, values in ratios.items()
            }
            seeds = min(len(by_arm[f"harm {task}", kind]) for task in ratios)
            worst = max(ratios, key=lambda task: ratios[task][0])
            rows.append(
                {
                    "what": f"harm: {kind} at its default coefficient, forced, on {len(ratios)} tasks that plain PPO solves: more env steps",
                    "unit": "%",
                    "value": round(100 * (float(geometric[0]) - 1), 1),
                    "interval": [round(100 * (float(each) - 1), 1) for each in (low, high)],
                    "better": "lower",
                    "bar": 10,
                    "stretch": 3,
                    "note": f"geometric mean over the tasks of the ratio of mean steps, {seeds} seeds; "
                    + ", ".join(f"{task} {values[0]:.2f} ({shown[task]})" for task, values in ratios.items()),
                }
            )
            rows.append(
                {
                    "what": f"harm: {kind} at its default coefficient, the worst of {len(ratios)} tasks ({worst}): more env steps",
                    "unit": "%",
                    "value": round(100 * (float(ratios[worst][0]) - 1), 1),
                    "interval": [round(100 * (float(each) - 1), 1) for each in np.percentile(ratios[worst][1:], [2.5, 97.5])],
                    "better": "lower",
                }
            )
    return rows


def _ratios_of_steps(of: list[dict[str, Any]], plain: list[dict[str, Any]], draws: int = 2_000) -> np.ndarray:
    """By how much longer seeds took than those of the plain arm, on average, and the same of draws of seeds: [1 + draws].

    Means, not medians: solved is seen at an evaluation, and medians of such few numbers are often equal where runs are not. A seed that
    did not solve the task counts with the whole budget. Both arms have the same seeds, which are drawn together.
    """
    steps = [{run["seed"]: run["solved_at"] or run["budget"] for run in each} for each in (of, plain)]
    both = np.array([[arm[seed] for arm in steps] for seed in sorted(steps[0].keys() & steps[1].keys())], float)
    drawn = np.random.default_rng(0).integers(len(both), size=(draws, len(both)))
    means = np.concatenate([both.mean(0, keepdims=True), both[drawn].mean(1)])
    return np.asarray(means[:, 0] / means[:, 1])
