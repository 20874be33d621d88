"""Runs of real Stable-Baselines3 with planted faults, each seen twice: as a usual user has it, and with our callback.

    python -m benchmarks.diagnosis.sb3_corpus record --shard 1/2     # in an interpreter with stable-baselines3; resumable
    python -m benchmarks.diagnosis.sb3_corpus pack                   # folders -> sb3_corpus.npz
    python -m benchmarks.diagnosis.sb3_corpus measure                # what the diagnosis answers today

One training run gives both views: the plain one is the same folder without sentinels.json and without our columns. A cell is
admitted as a fault only if it hurts: no seed reaches the threshold, or every seed ends below the worst healthy one of its task.
Faults that do not hurt must not be alarmed about, and controls count only if all their seeds solve the task.
"""

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from benchmarks.diagnosis import packing
from benchmarks.diagnosis.sb3_cells import CELLS, SEEDS, TASKS, CellSpec
from rlclinic import readers
from rlclinic.runs.history import History

FILE: Final = Path(__file__).with_name("sb3_corpus.npz")
WORK: Final = Path("build/sb3_corpus")
ROWS: Final = 96
OURS: Final = ("train/sentinel/", "train/metrics/grad_norm/", "train/hp/")
EVAL: Final = "val/roll/ep_rew_mean"

Role = Literal["fault", "healthy", "must-not-alarm", "dropped"]


@dataclass(frozen=True)
class Cell:
    """One config with the histories of its seeds, in both views."""

    fault: str
    """A cause id; "healthy" for controls."""
    role: Role
    """What it counts as: an admitted fault, a healthy control, a harmless fault, or neither."""
    env: str
    task: str
    severity: str
    threshold: float
    name: str
    histories_plain: tuple[History, ...]
    """As read from progress.csv, the monitors and evaluations.npz. No threshold: no such file knows one."""
    histories_sentinels: tuple[History, ...]

    def plain(self, *, threshold: bool = True) -> tuple[History, ...]:
        """The plain histories; with the threshold, as `rlclinic diagnose FOLDER --threshold X` gives them."""
        return tuple(replace(each, threshold=self.threshold) for each in self.histories_plain) if threshold else self.histories_plain


# ── recording ──


def record(spec: CellSpec, seed: int, folder: Path) -> float:
    """Train one seed into a folder, as a user would; the seconds that it took. The folder appears when the run is complete."""
    import torch
    from stable_baselines3 import A2C, PPO
    from stable_baselines3.common.logger import configure

    from rlclinic.sentinels.sb3 import SentinelCallback

    torch.set_num_threads(1)
    task = TASKS[spec.task]
    work = folder.with_name(f".{folder.name}")
    shutil.rmtree(work, ignore_errors=True)
    started = time.monotonic()
    venv = _training_env(spec, seed, work)
    kind = PPO if task.algo == "ppo" else A2C
    settings = {**task.settings, **spec.settings}
    settings["learning_rate"] = _schedule(settings.get("learning_rate", 3e-4))
    settings["policy_kwargs"] = {**settings.get("policy_kwargs", {}), **_network(spec)}
    model = kind("MlpPolicy", venv, seed=seed, device="cpu", **settings)
    model.set_logger(configure(str(work), ["csv"]))
    budget = spec.budget or task.budget
    rollout = model.n_steps * model.n_envs
    interval = max(task.log_interval, budget // rollout // ROWS)
    callbacks = [SentinelCallback(threshold=task.threshold), _evaluation(spec, venv, budget, work)]
    try:
        model.learn(budget, callback=callbacks, log_interval=interval)
    except ValueError as error:
        # What a user sees when weights stop being numbers; SB3 raises it from the distribution's constructor.
        (work / "console.txt").write_text(f"Traceback (most recent call last):\nValueError: {str(error).splitlines()[0]}\n")
    venv.close()
    work.rename(folder)
    return time.monotonic() - started


def _training_env(spec: CellSpec, seed: int, folder: Path) -> Any:
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    task = TASKS[spec.task]
    n_envs = spec.n_envs or task.n_envs
    venv = make_vec_env(
        task.id, n_envs, seed=1_000 * (seed + 1), monitor_dir=str(folder), env_kwargs=_limits(spec), wrapper_class=_wrapped(spec)
    )
    if task.normalize is None or spec.normalize is False:
        return venv
    return VecNormalize(venv, gamma=float({**task.settings, **spec.settings}.get("gamma", 0.99)), **task.normalize)


def _limits(spec: CellSpec) -> dict[str, Any]:
    return {} if spec.max_episode_steps is None else {"max_episode_steps": spec.max_episode_steps}


def _wrapped(spec: CellSpec) -> Any:
    if spec.wrapper is None:
        return None
    from benchmarks.diagnosis import sb3_envs

    name, arguments = spec.wrapper
    return lambda env: getattr(sb3_envs, name)(env, **arguments)


def _schedule(value: Any) -> Any:
    """("lin", x) falls to 0 over the budget, ("cut", x, share) over a share of it."""
    if not isinstance(value, tuple):
        return value
    share = value[2] if len(value) > 2 else 1.0
    return lambda remaining: value[1] * max(0.0, 1 - (1 - remaining) / share)


def _network(spec: CellSpec) -> dict[str, Any]:
    import torch
    from torch import nn

    activations = {"sigmoid": nn.Sigmoid, "relu": nn.ReLU, "tanh": nn.Tanh}
    found: dict[str, Any] = {}
    if "activation" in spec.net:
        found["activation_fn"] = activations[spec.net["activation"]]
    if "net_arch" in spec.net:
        found["net_arch"] = list(spec.net["net_arch"])
    if spec.net.get("optimizer") == "sgd":
        found["optimizer_class"] = torch.optim.SGD
    if spec.net.get("shared"):
        found |= {"features_extractor_class": _shared_trunk(), "net_arch": []}
    return found


def _shared_trunk() -> Any:
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
    from torch import nn

    class Trunk(BaseFeaturesExtractor):
        """Two hidden layers that actor and critic share."""

        def __init__(self, space: Any) -> None:
            super().__init__(space, 64)
            self.layers = nn.Sequential(nn.Linear(space.shape[0], 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())

        def forward(self, obs: Any) -> Any:
            return self.layers(obs)

    return Trunk


def _evaluation(spec: CellSpec, venv: Any, budget: int, folder: Path) -> Any:
    """SB3's EvalCallback on 8 copies, 8 episodes; or a user's own that forgets the normalizer."""
    from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecNormalize

    task = TASKS[spec.task]
    # The task's own reward: a wrapper that spoils it sits in training only, all others belong to the environment.
    wrapper = None if spec.wrapper is not None and spec.wrapper[0].startswith("Reward") else _wrapped(spec)
    judged = make_vec_env(task.id, 8, seed=77_777, env_kwargs=_limits(spec), wrapper_class=wrapper)
    every = max(1, budget // 8 // venv.num_envs)
    if not spec.blind_eval:
        if isinstance(venv, VecNormalize):
            judged = VecNormalize(judged, training=False, norm_reward=False, norm_obs=venv.norm_obs)
        return EvalCallback(judged, n_eval_episodes=8, eval_freq=every, log_path=str(folder), verbose=0)

    class OwnEvaluation(BaseCallback):
        def _on_step(self) -> bool:
            if self.n_calls % every == 0:
                mean, _ = evaluate_policy(self.model, judged, n_eval_episodes=8)
                self.logger.record("eval/mean_reward", float(np.mean(mean)))
            return True

    return OwnEvaluation()


def jobs(shard: str, only: Sequence[str] = ()) -> list[tuple[CellSpec, int]]:
    """The runs of a shard "i/n", all seeds of a cell one after the other."""
    index, count = (int(part) for part in shard.split("/"))
    chosen = [spec for spec in CELLS if not only or any(part in spec.name for part in only)]
    return [(spec, seed) for place, spec in enumerate(chosen) if place % count == index - 1 for seed in SEEDS]


# ── both views ──


def read(folder: Path) -> tuple[History, History]:
    """(plain, with sentinels) of one run's folder, as the readers give them."""
    (full,) = readers.read(folder)
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / folder.name
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("sentinels.json"))
        _strip(copy / "progress.csv")
        (plain,) = readers.read(copy)
    return replace(plain, path=None), replace(full, path=None)


def _strip(path: Path) -> None:
    """Leave only the columns that SB3 itself logs."""
    rows = [line.split(",") for line in path.read_text().splitlines()]
    kept = [place for place, name in enumerate(rows[0]) if not name.startswith(OURS)]
    path.write_text("\n".join(",".join(row[place] for place in kept if place < len(row)) for row in rows) + "\n")


def pack(work: Path = WORK, out: Path = FILE) -> list[Cell]:
    """Read every complete cell and save both views."""
    cells = []
    for spec in CELLS:
        folders = [work / spec.name / str(seed) for seed in SEEDS]
        if all(folder.is_dir() for folder in folders):
            views = [read(folder) for folder in folders]
            cells.append(_cell(spec, tuple(view[0] for view in views), tuple(view[1] for view in views)))
    cells = _admitted(cells)
    entries = []
    for cell in cells:
        about = {key: getattr(cell, key) for key in ("fault", "role", "env", "task", "severity", "threshold", "name")}
        for view, runs in (("plain", cell.histories_plain), ("sentinels", cell.histories_sentinels)):
            origin = {name: [series.name, series.estimator] for run in runs for name, series in run.series.items()}
            entries.append(packing.Entry({**about, "view": view, "origin": origin}, runs))
    packing.save(out, entries, rows=ROWS)
    return cells


def _cell(spec: CellSpec, plain: tuple[History, ...], full: tuple[History, ...]) -> Cell:
    task = TASKS[spec.task]
    return Cell(spec.fault, "dropped", task.id, spec.task, spec.severity, task.threshold, spec.name, plain, full)


def _admitted(cells: Sequence[Cell]) -> list[Cell]:
    """Give every cell its role."""
    worst = {cell.task: min(map(score, cell.histories_sentinels)) for cell in cells if cell.severity == "control"}
    return [replace(cell, role=_role(cell, worst.get(cell.task))) for cell in cells]


def _role(cell: Cell, worst: float | None) -> Role:
    solved = [reached(run, cell.threshold) for run in cell.histories_sentinels]
    if cell.fault == "healthy":
        return "healthy" if all(solved) else "dropped"
    below = worst is not None and all(score(run) < worst for run in cell.histories_sentinels)
    if not any(solved) or below:
        return "fault"
    return "must-not-alarm" if all(solved) else "dropped"


def score(run: History) -> float:
    """Mean evaluation return over the second half of the run."""
    judged = run.series.get(EVAL)
    return float(judged.values[len(judged) // 2 :].mean()) if judged is not None and len(judged) else -np.inf


def reached(run: History, threshold: float) -> bool:
    """Whether an evaluation was at or above the threshold."""
    judged = run.series.get(EVAL)
    return judged is not None and bool((judged.values >= threshold).any())


def load(path: Path = FILE) -> list[Cell]:
    """The cells of the saved corpus."""
    views: dict[str, dict[str, packing.Entry]] = {}
    for entry in packing.load(path):
        views.setdefault(entry.about["name"], {})[entry.about["view"]] = entry
    cells = []
    for found in views.values():
        about = {key: value for key, value in found["plain"].about.items() if key not in ("view", "origin")}
        plain, full = (tuple(_named(run, found[view].about["origin"]) for run in found[view].runs) for view in ("plain", "sentinels"))
        cells.append(Cell(**about, histories_plain=plain, histories_sentinels=full))
    return cells


def _named(run: History, origin: dict[str, list[str]]) -> History:
    series = {name: replace(each, name=origin[name][0], estimator=origin[name][1]) for name, each in run.series.items()}
    return replace(run, series=series)


# ── what the diagnosis says ──


def answers(histories: Sequence[History]) -> list[tuple[str, float]]:
    """The ranked causes of one group."""
    from rlclinic.diagnosis import engine

    return [(cause.id, cause.probability) for cause in engine.diagnose(histories).causes]


def measure(cells: Iterable[Cell]) -> None:
    """Print what is answered for every cell, and the shares."""
    rows = []
    for cell in cells:
        said = [answers(view) for view in (cell.plain(threshold=False), cell.plain(), cell.histories_sentinels)]
        rows.append((cell, [each[0][0] for each in said], [cell.fault in [cause for cause, _ in each[:3]] for each in said]))
        scores = " ".join(f"{score(run):.0f}" for run in cell.histories_sentinels)
        print(f"{cell.role:15} {cell.name[:70]:70} [{scores}]  {' | '.join(rows[-1][1])}")
    faults = [row for row in rows if row[0].role == "fault"]
    well = [row for row in rows if row[0].role in ("healthy", "must-not-alarm")]
    fine = ("healthy", "no-reference", "unknown", "too-early")
    for place, view in enumerate(("plain", "plain with --threshold", "with the callback")):
        first = sum(row[1][place] == row[0].fault for row in faults)
        three = sum(row[2][place] for row in faults)
        alarms = sum(row[1][place] not in fine for row in well)
        print(f"{view:24} top-1 {first}/{len(faults)}, top-3 {three}/{len(faults)}, named a cause on {alarms}/{len(well)} good cells")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["record", "pack", "measure"])
    parser.add_argument("--shard", default="1/1", metavar="I/N")
    parser.add_argument("--only", nargs="*", default=[], help="parts of cells' names")
    parser.add_argument("--work", type=Path, default=WORK, help="folder for the runs")
    parser.add_argument("--minutes", type=float, default=30.0, help="no run is begun after this time")
    args = parser.parse_args()
    if args.what == "record":
        started = time.monotonic()
        for spec, seed in jobs(args.shard, args.only):
            folder = args.work / spec.name / str(seed)
            if not folder.exists() and time.monotonic() - started < 60 * args.minutes:
                folder.parent.mkdir(parents=True, exist_ok=True)
                print(f"{spec.name} {seed}: {record(spec, seed, folder):.1f} s", flush=True)
    elif args.what == "pack":
        cells = pack(args.work)
        print(json.dumps({role: sum(cell.role == role for cell in cells) for role in ("fault", "healthy", "must-not-alarm", "dropped")}))
        print(f"{FILE.stat().st_size / 1e6:.2f} MB")
    else:
        measure(load())


if __name__ == "__main__":
    main()
