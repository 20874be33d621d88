"""Good halves of different episodes: who puts them together?

python -m benchmarks.recorded_data.stitching [--seeds 5]

No recorded episode that begins where the policy begins (A) ends well: it leaves early for a small reward, or goes on and turns into the
dead end. Episodes from B show the way from the middle to the goal. Putting both together is what values are for: IQL and CQL must get
there with every seed. Imitation does what was done most often; of the best fifth, all from B, nothing is known at A; and a Decision
Transformer that is asked for the goal's return at A does what the best episodes from there did, which is to leave.
"""

import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import gymnasium
import numpy as np
import torch

from benchmarks import provenance
from rlclinic.config import load
from rlclinic.datasets import Episode, Space, folder
from rlclinic.runs.store import Store
from rlclinic.training.__main__ import train_runs

COMMAND = "python -m benchmarks.recorded_data.stitching"
CORRIDOR = 3
"""Steps from A or B to the middle, and from there to either end."""
STATES = 4 * CORRIDOR + 1
A, B, DEAD, GOAL = 0, CORRIDOR, 2 * CORRIDOR + 1, 3 * CORRIDOR + 1
MIDDLE = 2 * CORRIDOR
LEAVES = 0.3


class Crossing(gymnasium.Env[Any, Any]):
    """Two corridors to a middle and two from it. Choice 1 goes on (from the middle: to the goal), choice 0 leaves (to the dead end)."""

    observation_space = gymnasium.spaces.Discrete(STATES)
    action_space = gymnasium.spaces.Discrete(2)
    start = A

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.state, self.steps = self.start, 0
        return self.state, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        reward, terminated = 0.0, False
        if self.state == MIDDLE:
            self.state = GOAL if action else DEAD
        elif self.state < MIDDLE and not action:
            reward, terminated = LEAVES, True
        elif self.state < MIDDLE:
            self.state = MIDDLE if self.state % CORRIDOR == CORRIDOR - 1 else self.state + 1
        elif self.state in (GOAL - 1, STATES - 1):
            reward, terminated = float(self.state == STATES - 1), True
        else:
            self.state += 1
        return self.state, reward, terminated, not terminated and self.steps >= 4 * CORRIDOR, {}


def play(start: int, choices: list[int]) -> Episode:
    """An episode of these choices; behind the last of them choice 1."""
    env = Crossing()
    env.start = start
    seen: list[int] = [env.reset(seed=0)[0]]
    done: list[int] = []
    paid: list[float] = []
    while True:
        choice = choices[len(done)] if len(done) < len(choices) else 1
        state, reward, terminated, truncated, _ = env.step(choice)
        seen, done, paid = [*seen, state], [*done, choice], [*paid, reward]
        if terminated or truncated:
            return Episode(np.array(seen), np.array(done), np.array(paid, np.float32), terminated, truncated)


def make_data(place: Path) -> None:
    """80 episodes leave A at once, 60 go on into the dead end, 40 go from B to the goal."""
    kinds = [(80, A, [0]), (60, A, [1] * CORRIDOR + [0]), (40, B, [1] * CORRIDOR + [1])]
    made = [play(start, choices) for count, start, choices in kinds for _ in range(count)]
    folder.write(place, iter(made), Space("discrete", n=STATES), Space("discrete", n=2), env_id=f"{Path(__file__).resolve()}:Crossing")


USUAL = ("spec.threshold=1", "net.hidden=[64]", "algo.batch_size=64", "algo.gamma=0.95", "algo.learning_rate=3e-3", "data.holdout=0")
CELLS: dict[str, tuple[str, tuple[str, ...], float | None]] = {
    "IQL": ("iql", ("algo.expectile=0.9", "algo.beta=10", "algo.tau=0.05"), 1.0),
    "CQL": ("cql", ("algo.cql_alpha=0.1", "algo.value_lr=3e-3", "algo.tau=0.05"), 1.0),
    "BC": ("bc", (), 0.5),
    "BC of the best fifth": ("bc", ("data.best=0.2",), None),
    "Decision Transformer": ("dt", ("net.hidden=[]", "algo.width=32", "algo.layers=2", "algo.context=4", "algo.target_return=1"), 0.5),
}
"""Algorithm, settings, and the bar: at least 1 where values put parts together, at most one half where not; None: not defined."""


def reach(name: str, data: Path, seeds: int, steps: int) -> list[float]:
    """The share of evaluations' episodes that reach the goal, of every seed."""
    algorithm, settings, _ = CELLS[name]
    budget = (f"run.max_env_steps={steps}", f"run.eval_every_env_steps={steps}", "run.eval_episodes=4", f"data.path={data}")
    usual = [each for each in USUAL if algorithm != "dt" or not each.startswith("net.")]
    config = load(f"{Path(__file__).resolve()}:Crossing:{algorithm}", [*usual, *settings, *budget]).config
    place = Path(mkdtemp())
    group = Store(place / "runs").create_group([config.model_copy(update={"seed": seed}) for seed in range(seeds)])
    train_runs(group.runs)
    ends = [float(run.evaluations[1][-1]) for run in group.runs]
    shutil.rmtree(place)
    return [float(end >= 0.99) for end in ends]


def main() -> None:
    parser = provenance.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    home, rows = Path(mkdtemp()), []
    make_data(home / "data")
    for name, (_, settings, bar) in CELLS.items():
        shares = reach(name, home / "data", 1 if args.quick else args.seeds, 100 if args.quick else 2_000)
        lower = bar is not None and bar < 1.0
        what = f"stitching chain: share of seeds that reach the goal with {name}"
        row = {"what": what, "unit": "share", "value": float(np.mean(shares)), "better": "lower" if lower else "higher", "bar": bar}
        rows.append(row | {"seeds": shares, "command": COMMAND, "note": " ".join(settings)})
        print(name, shares, flush=True)
    shutil.rmtree(home)
    provenance.write("offline_stitching", rows, provenance.provenance(COMMAND), args.quick)


if __name__ == "__main__":
    main()
