"""Does fitted Q evaluation rank policies as playing them does, from recorded data alone?

python -m benchmarks.recorded_data.rank_policies

The policies are the last ones of eight SAC runs on Pendulum, four of 1,000 env steps and four of 3,500; the data is 40 episodes of a
scripted expert with 70 % of the actions at random. The true return is the mean of 100 episodes. Policies that the evaluation refuses have
no rank; how many is said, and for how many weighted importance sampling has enough episodes left.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import provenance
from benchmarks.imitation import ENV, expert
from rlclinic import stats
from rlclinic.config import load
from rlclinic.datasets import folder
from rlclinic.runs.store import Store
from rlclinic.training import envs, policy
from rlclinic.training.__main__ import train_runs
from rlclinic.training.data import collection, off_policy_evaluation

COMMAND = "python -m benchmarks.recorded_data.rank_policies"
LENGTHS, SEEDS, FQE_STEPS, EPISODES = (1_000, 3_500), 4, 1_500, 40


def record(place: Path) -> None:
    """The data: the expert with noise."""
    env = envs.make(load(ENV).config.env, [0], 8)
    act = collection.play_with(f"{Path(__file__).parents[1] / 'imitation.py'}:{expert.__name__}", env)
    spaces = collection.observation_space(env), collection.action_space(env)
    folder.write(place, collection.record(env, act, EPISODES, 0.7, 0), *spaces, env_id=ENV)
    env.close()


def measure(place: Path, steps: int) -> list[dict[str, Any]]:
    """Each checkpoint's true return and what fitted Q evaluation says of it; kept as they come, for the next time."""
    data, kept = place / "data", place / "measured.json"
    if not data.exists():
        record(data)
    store = Store(place / "runs")
    for steps_taken in LENGTHS[len(store.groups()) :]:
        settings = [f"run.max_env_steps={steps_taken}", f"run.eval_every_env_steps={steps_taken}", "run.save_replay=false"]
        config = load(f"{ENV}:sac", settings).config
        train_runs(store.create_group([config.model_copy(update={"seed": seed}) for seed in range(SEEDS)]).runs)
    measured: list[dict[str, Any]] = json.loads(kept.read_text()) if kept.exists() else []
    for run in (run for group in store.groups() for run in group.runs):
        name = f"{run.id}@{run.checkpoints[-1].step}"
        if any(row["policy"] == name for row in measured):
            continue
        actor = policy.load(run, str(run.checkpoints[-1].step))
        played = actor.make_envs(7, 20)
        episodes = collection.record(played, actor.actor(20, deterministic=True, seed=0), 100, 0.0, 0)
        true = float(np.mean([episode.rewards.sum() for episode in episodes]))
        played.close()
        values = off_policy_evaluation.evaluate(actor, str(data), steps)
        estimate = values.estimates.get("fqe")
        row = {"policy": name, "true": true, "fqe": None if estimate is None else estimate.value, "refused": values.refused.get("fqe")}
        weighted = values.estimates.get("wis")
        row |= {"wis_effective": None if weighted is None else weighted.effective, "wis_refused": values.refused.get("wis")}
        print(row, flush=True)
        measured.append(row)
        kept.write_text(json.dumps(measured))
    return measured


def main() -> None:
    """Measure all policies."""
    quick = provenance.parser(__doc__).parse_args().quick
    place = provenance.SCRATCH / f"off_policy_evaluation{'-quick' if quick else ''}"
    place.mkdir(parents=True, exist_ok=True)
    measured = measure(place, 20 if quick else FQE_STEPS)
    judged = [row for row in measured if row["fqe"] is not None]
    value = stats.rank_correlation(np.array([row["true"] for row in judged]), np.array([row["fqe"] for row in judged]))
    lowest, highest = (pick(row["true"] for row in measured) for pick in (min, max))
    what = f"{ENV}: rank correlation of fitted Q evaluation with the true return, {len(judged)} policies of {len(measured)}"
    weighted = [row["wis_effective"] for row in measured if row.get("wis_effective") is not None]
    least = f", {min(weighted):.0f} episodes or more left after weighing" if weighted else ""
    note = f"true returns {lowest:.0f} to {highest:.0f}; {len(measured) - len(judged)} refused; {FQE_STEPS:,} gradient steps each; "
    note += f"weighted importance sampling told of {len(weighted)} and refused {len(measured) - len(weighted)}{least}"
    rows = [{"what": what, "unit": "", "value": value, "better": "higher", "bar": 0.7, "stretch": 0.9, "command": COMMAND, "note": note}]
    print(f"{what}: {value:.2f} ({note})")
    provenance.write("off_policy_evaluation", rows, provenance.provenance(COMMAND), quick)


if __name__ == "__main__":
    main()
