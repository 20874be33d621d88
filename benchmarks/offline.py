"""What is learned from recorded data, how fast, and what going online costs.

python -m benchmarks.offline [--seeds 5] [--only cql iql] [--data mixed] [--set algo.bc_alpha=20] [--procs 4]
python -m benchmarks.offline --online [--only iql]   the same data, then the environment, beside SAC from scratch
python -m benchmarks.offline --only --peer   gradient steps against d3rlpy

Data of Pendulum by a scripted expert with fixed seeds: *noisy expert* (30 % of the actions at random), *medium* (70 %), *mixed* (80 random
episodes and 20 of the expert). Every algorithm learns from each as one cohort; what counts is the last evaluation, never the best.
Rows are written as they are measured. On a machine without an installed package, --lines FILE only notes them, and --collect FILE makes
the results of them elsewhere.
`--peer` times gradient steps against d3rlpy, interleaved, where that is installed (two layers of 256, batches of 256, one thread).
"""

import csv
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks import provenance
from rlclinic.config import load
from rlclinic.datasets import Episode, folder
from rlclinic.runs.store import Store
from rlclinic.training import envs
from rlclinic.training.__main__ import train_runs
from rlclinic.training.data import collection

ALGORITHMS = ("bc", "td3_bc", "iql", "awac", "cql", "dt")
SLOWEST_FIRST = ("cql", "dt", "awac", "iql", "td3_bc")
ONLINE = {
    "sac": ["run.max_env_steps=5000", "run.eval_every_env_steps=250"],
    "rlpd": ["run.max_env_steps=3000"],
    "cal_ql": ["data.then_online=true", "data.offline_steps=3000", "run.max_env_steps=6000"],
    "iql": ["data.then_online=true", "data.offline_steps=6666", "data.recorded_share=0.9", "run.eval_every_env_steps=250"],
}
"""From scratch; with recorded data beside; and after gradient steps on it alone. The last is what `rlclinic advise data` names."""
SWITCH = {"cal_ql": 3_000, "iql": 6_666}
GOOD = -150.0
"""The return that SAC ends at on the average, and that the others are timed to."""
EPISODES = 100
PEER = """
import logging, sys, time
import numpy as np, structlog, torch
torch.set_num_threads(1)
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
import d3rlpy
from d3rlpy.models.encoders import VectorEncoderFactory
name, path, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
load = lambda part: np.load(f"{path}/{part}.npy")
lengths, ends = load("lengths"), np.cumsum(load("lengths")) - 1
places = np.concatenate([np.arange(end - length + 1, end + 1) + index for index, (end, length) in enumerate(zip(ends, lengths))])
terminals, timeouts = np.zeros(len(load("rewards"))), np.zeros(len(load("rewards")))
terminals[ends], timeouts[ends] = load("terminated"), ~load("terminated")
data = d3rlpy.dataset.MDPDataset(load("observations")[places], load("actions"), load("rewards"), terminals, timeouts)
wide = VectorEncoderFactory([256, 256])
nets = dict(actor_encoder_factory=wide, critic_encoder_factory=wide, batch_size=256)
iql = name == "iql"
config = d3rlpy.algos.IQLConfig(value_encoder_factory=wide, **nets) if iql else d3rlpy.algos.TD3PlusBCConfig(**nets)
algo = config.create(device="cpu:0")
algo.build_with_dataset(data)
for step in range(steps + 20):
    if step == 20:
        started = time.process_time()
    algo.update(data.sample_transition_batch(256))
print(steps / (time.process_time() - started))
"""


class Curve(NamedTuple):
    """A seed's evaluations by step, and what going online cost it."""

    evaluations: list[tuple[int, float]]
    dip: float | None


def act(obs: np.ndarray) -> np.ndarray:
    """Pump energy until the pendulum is nearly upright, then hold it there."""
    cosine, sine, speed = obs
    angle = np.arctan2(sine, cosine)
    if abs(angle) < 0.6 and abs(speed) < 4.0:
        return np.clip([-(12.0 * angle + 3.0 * speed)], -2.0, 2.0)
    energy = speed * speed / 6.0 + 5.0 * cosine
    return np.clip([2.0 * (5.0 - energy) * np.sign(speed or 1.0)], -2.0, 2.0)


def record(noise: float, episodes: int, seed: int = 0) -> Iterator[Episode]:
    env = envs.make(load("Pendulum-v1").config.env, [seed], min(episodes, 16))

    def choose(obs: torch.Tensor, mask: torch.Tensor | None, t: int) -> torch.Tensor:
        return torch.from_numpy(np.stack([act(row) for row in obs[0].numpy()]).astype(np.float32))[None]

    yield from collection.record(env, choose, episodes, noise, seed)


def make_data(home: Path) -> dict[str, Path]:
    env = envs.make(load("Pendulum-v1").config.env, [0], 1)
    spaces = collection.observation_space(env), collection.action_space(env)
    made = {
        "noisy expert": list(record(0.3, EPISODES)),
        "medium": list(record(0.7, EPISODES)),
        "mixed": [*record(1.0, 4 * EPISODES // 5), *record(0.0, EPISODES // 5, seed=1)],
    }
    for name, episodes in made.items():
        folder.write(home / name.replace(" ", "-"), iter(episodes), *spaces, env_id="Pendulum-v1", source=name)
    return {name: home / name.replace(" ", "-") for name in made}


def learn(algorithm: str, data: Path | None, seeds: int, quick: bool, changes: Sequence[str] = ()) -> tuple[list[Curve], float]:
    """The evaluations of every seed, the dip where it went online, and how long all took."""
    short = ["run.max_env_steps=200", "run.eval_every_env_steps=100"] if quick else []
    short += ["data.offline_steps=100"] if quick and any("offline_steps" in each for each in changes) else []
    torch.set_num_threads(1)
    named = [] if data is None else [f"data.path={data}"]
    config = load(f"Pendulum-v1:{algorithm}", [*named, *changes, *short]).config
    store, started = Store(Path(mkdtemp())), time.perf_counter()
    runs = [store.create_group([config.model_copy(update={"seed": seed})]).runs[0] for seed in range(seeds)]
    train_runs(runs)
    curves = []
    for run in runs:
        with (run.path / "metrics.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        judged = [(int(row["total_timesteps"]), float(row["val/roll/ep_rew_mean"])) for row in rows if row["val/roll/ep_rew_mean"]]
        dip = rows[-1].get("train/sentinel/switch_dip")
        curves.append(Curve(judged, float(dip) if dip else None))
    return curves, time.perf_counter() - started


def steps_to(curve: Curve, first: int) -> int | None:
    """Env steps to the first evaluation that is good, where the environment is played from step `first` on; None: never."""
    return next((max(step - first, 0) for step, value in curve.evaluations if value >= GOOD), None)


def measure_online(data: Path, seeds: int, quick: bool, only: Sequence[str]) -> Iterator[dict[str, object]]:
    """SAC from scratch, then the same task with recorded data: env steps to a good return, and the dip at the switch."""
    from_scratch = known_row("SAC from scratch: env steps to") if "sac" not in only else None
    for algorithm in only:
        changes = ONLINE[algorithm]
        curves, seconds = learn(algorithm, None if algorithm == "sac" else data, seeds, quick, changes)
        first = SWITCH.get(algorithm, 0)
        steps = [steps_to(curve, first) for curve in curves]
        known = [each for each in steps if each is not None]
        mean = float(np.mean(known)) if len(known) == len(steps) else None
        print(f"{algorithm:7} env steps to {GOOD:.0f}: {steps}  dips {[curve.dip for curve in curves]}  {seconds:.0f} s", flush=True)
        yield from online_rows(algorithm, steps, mean, from_scratch, [curve.dip for curve in curves])
        from_scratch = mean if algorithm == "sac" else from_scratch


def online_rows(
    algorithm: str, steps: list[int | None], mean: float | None, from_scratch: float | None, dips: list[float | None]
) -> Iterator[dict[str, object]]:
    """The rows of one algorithm: a seed that never gets there leaves no mean."""
    what = {"sac": "SAC from scratch", "rlpd": "RLPD on medium data"}
    what |= {each: f"{name} after {SWITCH[each]:,} gradient steps on medium data" for each, name in (("cal_ql", "Cal-QL"), ("iql", "IQL"))}
    yield {"what": f"{what[algorithm]}: env steps to {GOOD:.0f}", "unit": "env steps", "value": mean, "better": "lower", "seeds": steps}
    if algorithm != "sac" and mean is not None and from_scratch:
        shared = {"unit": "x", "value": mean / from_scratch, "better": "lower", "bar": 0.6, "stretch": 0.4}
        yield {"what": f"{what[algorithm]}: env steps against SAC from scratch", **shared}
    known = [dip for dip in dips if dip is not None]
    if known:
        shared = {"unit": "share", "value": float(np.mean(known)), "better": "lower", "bar": 0.15, "stretch": 0.05, "seeds": known}
        yield {"what": f"{what[algorithm]}: dip at the switch, of what was learned above random", **shared}


def return_row(
    name: str, algorithm: str, mean: float, imitation: float | None, last: list[float], changes: Sequence[str] = ()
) -> dict[str, object]:
    """The row of an algorithm on some data, by the last evaluation of every seed; imitation and tries of other settings have no bar.

    The bar is a tenth below the data's own mean or imitation, whichever is better (returns are negative); of mixed data, a fixed one.
    """
    barred = algorithm in ("td3_bc", "iql", "cql") and not changes
    best = mean if imitation is None else max(mean, imitation)
    bar = None if not barred else -600.0 if name == "mixed" else 1.1 * best
    settings = f", {' '.join(changes)}" if changes else ""
    return {
        "what": f"{algorithm} on {name} (mean {mean:.0f}){settings}",
        "unit": "return",
        "value": float(np.mean(last)),
        "better": "higher",
        "bar": bar,
        "stretch": None if not barred else -300.0 if name == "mixed" else 0.9 * best,
        "seeds": last,
    }


def measure_returns(
    name: str, algorithm: str, data: Path, imitation: float | None, seeds: int, quick: bool, changes: Sequence[str]
) -> dict[str, Any]:
    """The row of one algorithm on one set of data, with the command that measures it; imitation: what that earns on the same data."""
    mean = float(folder.read(data).returns.mean())
    curves, seconds = learn(algorithm, data, seeds, quick, changes)
    last = [curve.evaluations[-1][1] for curve in curves]
    ends = [round(each) for each in last]
    print(f"{name:14} {mean:8.0f}  {algorithm:7} {np.mean(last):8.0f}  {ends}  {seconds:.0f} s", *changes, flush=True)
    command = f'python -m benchmarks.offline --data "{name}" --only {algorithm} {changes_of(changes)}'.rstrip()
    return return_row(name, algorithm, mean, imitation, last, changes) | {"command": command}


def known_row(start: str) -> float | None:
    """What was measured last of a row that begins like this."""
    path = provenance.RESULTS / "offline.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    return next((float(row["value"]) for row in rows if row["what"].startswith(start)), None)


def changes_of(changes: Sequence[str]) -> str:
    """Settings as they are typed."""
    return " ".join(f"--set {change}" for change in changes)


def measure_speed(algorithm: str, data: Path, steps: int, seeds: int = 1) -> float:
    """Gradient steps per processor second of ours on one thread, summed over the seeds of one cohort."""
    from rlclinic.training import assembly, members
    from rlclinic.training.data import recorded
    from rlclinic.training.loops import off_policy, offline
    from rlclinic.training.members import Member

    settings = ["net.hidden=[256,256]", "algo.batch_size=256", f"data.path={data}"]
    config = load(f"Pendulum-v1:{algorithm}", settings).config
    torch.set_num_threads(1)
    env = envs.make(config.env, list(range(seeds)), 1)
    plan = assembly.with_engine(assembly.plan_for(config, env), "eager")
    learner = assembly.fresh_learner(plan, list(range(seeds)), 1)
    assert isinstance(plan, off_policy.Plan)
    assert isinstance(learner, off_policy.Learner)
    known = recorded.load(config, env, torch.device("cpu"))
    cohort = [Member(run=None, config=config, writer=None) for _ in range(seeds)]  # type: ignore[arg-type]
    hp = members.replay_numbers(cohort, 0, 1, torch.device("cpu"))
    seed = torch.arange(seeds).view(-1, 1, 1)
    learner, _ = offline.learn(plan, learner, known, hp, None, seed)
    started, taken = time.process_time(), 0
    while taken < steps:
        learner, _ = offline.learn(plan, learner, known, hp, None, seed)
        taken += plan.cycles
    return seeds * taken / (time.process_time() - started)


def run_peer(python: str, algorithm: str, data: Path, steps: int) -> float:
    """Gradient steps per processor second of d3rlpy's, one seed, one thread."""
    command = [python, "-c", PEER, algorithm, str(data), str(steps)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def compare_on_two_cores(algorithm: str, data: Path, python: str, steps: int) -> float:
    """Eight seeds on two cores, ours as two cohorts of four at a time, d3rlpy's as two processes at a time: the ratio of their sums."""
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        theirs = sum(each.result() for each in [pool.submit(run_peer, python, algorithm, data, steps) for _ in range(2)])
        ours = sum(each.result() for each in [pool.submit(measure_speed, algorithm, data, steps, 4) for _ in range(2)])
    return ours / theirs


def main() -> None:
    """All algorithms on all data, then the speed."""
    parser = provenance.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--only", choices=(*ALGORITHMS, *(each for each in ONLINE if each not in ALGORITHMS)), nargs="*", default=ALGORITHMS
    )
    parser.add_argument("--data", choices=("noisy expert", "medium", "mixed"), nargs="*", default=("noisy expert", "medium", "mixed"))
    parser.add_argument("--set", action="append", default=[], dest="changes", help="settings other than the shipped ones, KEY=VALUE")
    parser.add_argument("--online", action="store_true", help="instead: the data, then the environment, beside SAC from scratch")
    parser.add_argument("--peer", action="store_true", help="time gradient steps against d3rlpy, too")
    parser.add_argument("--peer-python", default=sys.executable, help="a Python that has it")
    parser.add_argument("--procs", type=int, default=1, help="how many algorithms learn at a time, each on a thread of its own")
    parser.add_argument("--lines", type=Path, help="only note the rows in this file, one line each")
    parser.add_argument("--collect", type=Path, help="make the results of a file of lines")
    args = parser.parse_args()
    torch.set_num_threads(1)
    home = Path(mkdtemp())
    data = make_data(home)
    seeds = 1 if args.quick else args.seeds

    def write(row: dict[str, object], command: str = "") -> None:
        if args.lines:
            with args.lines.open("a") as file:
                file.write(json.dumps(row) + "\n")
            return
        provenance.write("offline", [row], provenance.provenance(f"python -m benchmarks.offline {command}".rstrip()), args.quick)

    if args.collect:
        for line in args.collect.read_text().splitlines():
            write(json.loads(line))
        return

    if args.online:
        only = [each for each in ONLINE if args.only == ALGORITHMS or each in args.only]
        for row in measure_online(data["medium"], seeds, args.quick, only):
            write(row, "--online")
        shutil.rmtree(home)
        return
    with ProcessPoolExecutor(args.procs, get_context("spawn")) as pool:
        imitation = {name: known_row(f"bc on {name} ") for name in args.data}
        # Imitation first, as the others are held to it; then the slowest, so that no process is left with one of them in the end.
        for group in (("bc",), SLOWEST_FIRST):
            waiting = [
                pool.submit(measure_returns, name, each, data[name], imitation[name], seeds, args.quick, args.changes)
                for each in group
                for name in args.data
                if each in args.only
            ]
            for done in as_completed(waiting):
                found: dict[str, Any] = done.result()
                write(found)
                if group == ("bc",) and not args.changes:
                    imitation[next(name for name in args.data if f"on {name} " in found["what"])] = found["value"]
    for algorithm in ("iql", "td3_bc") if args.peer else ():
        ratios = []
        both = []
        for _ in range(1 if args.quick else 3):
            peer = run_peer(args.peer_python, algorithm, data["medium"], 200)
            ratios.append(measure_speed(algorithm, data["medium"], 200) / peer)
            both.append(compare_on_two_cores(algorithm, data["medium"], args.peer_python, 200))
        for what, times, bar, stretch in (
            (f"{algorithm}: gradient steps per processor second against d3rlpy", ratios, 1.3, 2.0),
            (f"{algorithm}: gradient steps of 8 seeds on 2 cores against d3rlpy", both, 1.5, 3.0),
        ):
            row = {"what": what, "unit": "x", "value": float(np.median(times)), "better": "higher", "bar": bar, "stretch": stretch}
            write(row | {"pairs": times}, "--only --peer --peer-python PYTHON")
            print(what, [round(each, 2) for each in times], flush=True)
    shutil.rmtree(home)


if __name__ == "__main__":
    main()
