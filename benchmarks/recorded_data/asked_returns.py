"""A Decision Transformer is asked for more and more: does it earn more and more?

python -m benchmarks.recorded_data.asked_returns [--seeds 5]

Pendulum, 50 episodes with 70 % of the actions at random and 50 of the scripted expert. The shipped variant learns from all of them; then
each seed's last checkpoint is asked for eight returns, evenly from the lowest episode of the data to the highest, 20 episodes each. What
counts is the rank correlation of what was asked for with what was earned, of each seed.
"""

from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import numpy as np
import torch

from benchmarks import provenance
from benchmarks.offline import record
from rlclinic import stats
from rlclinic.config import load
from rlclinic.datasets import folder
from rlclinic.runs.store import Store
from rlclinic.training import envs
from rlclinic.training.__main__ import train_runs
from rlclinic.training.data import collection
from rlclinic.training.policy import Policy

COMMAND = "python -m benchmarks.recorded_data.asked_returns"
EPISODES, ASKED = 100, 8


def main() -> None:
    parser = provenance.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    home = Path(mkdtemp())
    env = envs.make(load("Pendulum-v1").config.env, [0], 1)
    spaces = collection.observation_space(env), collection.action_space(env)
    count = 4 if args.quick else EPISODES // 2
    made = [*record(0.7, count), *record(0.0, count, seed=1)]
    returns = [float(episode.rewards.sum()) for episode in made]
    folder.write(home / "data", iter(made), *spaces, env_id="Pendulum-v1", source="medium and expert")
    short = ["run.max_env_steps=100", "run.eval_every_env_steps=100"] if args.quick else []
    config = load("Pendulum-v1:dt", [f"data.path={home / 'data'}", *short]).config
    seeds = 1 if args.quick else args.seeds
    group = Store(home / "runs").create_group([config.model_copy(update={"seed": seed}) for seed in range(seeds)])
    train_runs(group.runs)
    wanted = np.linspace(min(returns), max(returns), ASKED)
    follows, lines = [], []
    for run in group.runs:
        policy = Policy(run.config, run.checkpoint("@last").path)
        earned = np.array([float(policy.evaluate(20, target_return=float(each)).returns.mean()) for each in wanted])
        follows.append(stats.rank_correlation(wanted, earned) or 0.0)
        lines.append(" ".join(f"{each:.0f}" for each in earned))
        print(run.seed, f"{follows[-1]:.2f}", lines[-1], flush=True)
    what = f"Decision Transformer on Pendulum's medium-expert data: rank correlation of {ASKED} returns asked for with those earned"
    note = f"asked {' '.join(f'{each:.0f}' for each in wanted)}; earned, seed by seed: {'; '.join(lines)}"
    row = {"what": what, "unit": "", "value": float(np.mean(follows)), "better": "higher", "bar": 0.8, "seeds": follows, "note": note}
    rmtree(home)
    provenance.write("offline_asked_returns", [row | {"command": COMMAND}], provenance.provenance(COMMAND), args.quick)


if __name__ == "__main__":
    main()
