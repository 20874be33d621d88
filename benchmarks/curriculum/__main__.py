"""Curricula: how often is somebody promoted who should not be, and do growing mazes teach faster than the largest one alone?

python -m benchmarks.curriculum

Promotion: simulated agents of a fixed chance of success, 8 environments, success after 5 steps and failure after 50, looked at for 2,000
episodes; the rule of thumb ("8 of the last 10") beside it on the same outcomes. Mazes: 5, 7 and 9 cells to a side, PPO, every arm with the
same budget to the end; success is that of the policy as it is trained (actions drawn) in mazes of 9, and an arm's steps are those of the
first evaluation at 90 %, the budget where there is none. Settings were chosen on levels from 5,000 on and seeds from 100 on; measured are
levels 0 to 499 and seeds 0 to 4.
"""

import shutil
from typing import Any

import numpy as np

from benchmarks import provenance
from rlclinic.config import Config, CurriculumConfig, from_record, load, to_record
from rlclinic.curriculum import Ended, make_sampler
from rlclinic.curriculum.stages import Staircase
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.training.__main__ import train_runs

COMMAND = "python -m benchmarks.curriculum"
FOLDER = provenance.SCRATCH / "curriculum"
STAGES = [{"name": f"size {size}", "env": {"size": size}, "success_threshold": 0.7, "min_episodes": 100} for size in (5, 7, 9)]
ARMS: dict[str, dict[str, Any] | None] = {
    "stages": {"stages": STAGES},
    "uniform": {"stages": STAGES, "kind": "uniform"},
    "direct": None,
}


def climb(chance: float, seed: int, episodes: int, n_envs: int = 8) -> tuple[int | None, int | None]:
    """After how many episodes an agent is promoted at 0.8, by the bound and by 8 of the last 10; None: never."""
    stages = [{"name": str(number), "env": {"size": number}} for number in (5, 7)]
    sampler = make_sampler(CurriculumConfig.model_validate({"stages": stages, "escape_after": 1e12}), n_envs, 1)
    assert isinstance(sampler, Staircase)
    random = np.random.default_rng(seed)
    success = random.random(n_envs) < chance
    left = np.where(success, 5, 50)
    last: list[bool] = []
    bound, brief = None, None
    for number in range(1, episodes + 1):
        env = int(left.argmin())  # the next one to end
        left -= left[env]
        sampler.add(Ended(np.array([env]), np.array([0]), success[env : env + 1].copy()), number)
        last = [*last[-9:], bool(success[env])]
        brief = number if brief is None and len(last) == 10 and sum(last) >= 8 else brief
        if sampler.stage:
            bound = number
            break
        success[env] = random.random() < chance
        left[env] = 5 if success[env] else 50
    return bound, brief


def make_config(arm: str, budget: int) -> Config:
    """PPO in mazes of 9, evaluated with the policy as it is trained."""
    record = to_record(load("Maze-v0:ppo", ["net.hidden=[128, 128]"]).config)
    record["run"] |= {"max_env_steps": budget, "eval_every_env_steps": budget // 40, "eval_episodes": 100, "eval_deterministic": False}
    record["run"] |= {"engine": "eager"}
    if (curriculum := ARMS[arm]) is not None:
        record["curriculum"] = {**curriculum, "eval_episodes": 0}
    return from_record(record)


def train(arm: str, budget: int, seeds: int) -> list[Run]:
    """Runs of one arm."""
    shutil.rmtree(FOLDER / arm, ignore_errors=True)
    config = make_config(arm, budget)
    runs = list(Store(FOLDER / arm).create_group([config.model_copy(update={"seed": seed}) for seed in range(seeds)]).runs)
    train_runs(runs)
    return runs


def trained(arm: str, budget: int, seeds: int) -> list[Run]:
    """Runs of one arm: those that --arm has trained with these settings, or new ones."""
    wanted = to_record(make_config(arm, budget))
    runs = [run for run in Store(FOLDER / arm).runs() if run.status.state == "finished"] if (FOLDER / arm).exists() else []
    same = [run for run in runs if to_record(run.config) == {**wanted, "seed": run.config.seed}]
    return same if sorted(run.config.seed for run in same) == list(range(seeds)) else train(arm, budget, seeds)


def main() -> None:
    """Measure everything, or with --quick a little of each."""
    parser = provenance.parser(__doc__)
    parser.add_argument("--arm", choices=ARMS, help="train the mazes of this arm alone, and keep its runs for the others' turn")
    args = parser.parse_args()
    quick = args.quick
    rows: list[dict[str, Any]] = []

    def add(what: str, unit: str, value: float, better: str, bar: float | None = None, stretch: float | None = None, **more: Any) -> None:
        limits = {"better": better, "bar": bar, "stretch": stretch}
        rows.append({"what": what, "unit": unit, "value": value, **limits, "command": COMMAND, **more})
        provenance.write("curriculum", rows, provenance.provenance(COMMAND), quick)

    budget, seeds = (20_000, 1) if quick else (300_000, 5)
    if args.arm:
        train(args.arm, budget, seeds)
        return
    agents, episodes = (20, 500) if quick else (200, 2_000)
    for chance, bar, stretch in ((0.6, 5.0, 1.0), (0.8, 5.0, None)):
        found = [climb(chance, seed, episodes) for seed in range(agents)]
        promoted, brief = (100 * np.mean([pair[place] is not None for pair in found]) for place in (0, 1))
        what = f"promotion at 0.8 of {agents} agents that succeed in {100 * chance:.0f} %, {episodes} episodes"
        add(what, "%", float(promoted), "lower", bar, stretch, note=f"by 8 of the last 10: {brief:.0f} %")
    good = [climb(0.95, seed, episodes)[0] for seed in range(agents)]
    add(
        "episodes until an agent that succeeds in 95 % is promoted at 0.8, median",
        "",
        float(np.median([at or episodes for at in good])),
        "lower",
    )

    steps, final = {}, {}
    for arm in ARMS:
        runs = trained(arm, budget, seeds)
        steps[arm] = [run.status.threshold_reached_at or budget for run in runs]
        final[arm] = float(np.mean([run.status.success_rate or 0.0 for run in runs]))
        reached = sum(run.status.threshold_reached_at is not None for run in runs)
        least = 0.9 if arm == "stages" else None
        add(f"mazes 5 to 9, {arm}: success at the end, {seeds} seeds, {budget:,} env steps", "", final[arm], "higher", least)
        add(
            f"mazes 5 to 9, {arm}: env steps to 90 %, median", "", float(np.median(steps[arm])), "lower", note=f"{reached} of {seeds} seeds"
        )
    for arm, bar, stretch in (("direct", 0.7, 0.4), ("uniform", 0.9, 0.7)):
        ratio = float(np.median(steps["stages"]) / np.median(steps[arm]))
        add(f"mazes 5 to 9: env steps of stages against {arm}", "x", ratio, "lower", bar, stretch)


if __name__ == "__main__":
    main()
