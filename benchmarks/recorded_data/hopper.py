"""Hopper-v5 from the replay of a SAC run: ours beside d3rlpy's on the same data, and then in the environment.

python -m benchmarks.recorded_data.hopper --data FOLDER [--seeds 3] [--steps 100000] [--peer-python PYTHON] [--procs 2] [--device cuda]

The data is what `rlclinic data collect --replay` wrote of a SAC run. Each algorithm learns in a process of its own, --procs at a time: BC,
TD3+BC, IQL and CQL as one cohort of seeds; d3rlpy's IQL and CQL, one process a seed, where a Python that has it is named; RLPD and Cal-QL,
which go on in the environment. Both sides: two layers of --width, batches of as many, observations scaled by the data, ten episodes every
quarter of the budget; what counts is the last evaluation that both sides have reached within the time, never the best.
--work keeps the runs and the notes; --collect makes the results of them.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import provenance
from rlclinic.datasets import folder
from rlclinic.runs.store import Store

ENV_ID = "Hopper-v5"
EPISODES = 10
OURS = {
    "bc": [],
    "td3_bc": [],
    "td3_bc by spread": ["algo.value_scale=spread"],
    "iql": [],
    "cql": [],
}
"""What learns from the data alone, with settings beside the shipped ones."""
SMALL = ["net.hidden=[128,128]", "algo.batch_size=128", "run.eval_episodes=5"]
ONLINE = {
    "rlpd": [*SMALL, "data.then_online=true", "data.updates_per_step=2", "algo.n_critics=4", "algo.policy_delay=2"],
    "cal_ql": [*SMALL, "data.then_online=true", "data.offline_steps=20000", "algo.cql_actions=4"],
}
"""What goes on in the environment, on processor cores: smaller networks, as the SAC run had them."""
ONLINE_STEPS = {"rlpd": 40_000, "cal_ql": 45_000}
PEERS = ("iql", "cql")
PEER = """
import importlib.machinery, importlib.util, json, logging, sys, time, types
import numpy as np, structlog, torch
torch.set_num_threads(1)
class Absent(types.ModuleType):  # what it imports for other algorithms and for files, where that is not installed
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__init__": lambda self, *given, **named: None})
for name in ("sklearn", "h5py"):
    if importlib.util.find_spec(name) is None:
        for each in (name, f"{name}.neighbors"):
            sys.modules[each] = Absent(each)
            sys.modules[each].__spec__ = importlib.machinery.ModuleSpec(each, None)
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
import d3rlpy, gymnasium
from d3rlpy.models.encoders import VectorEncoderFactory
from d3rlpy.optimizers import AdamFactory, CosineAnnealingLRFactory
from d3rlpy.preprocessing import ReturnBasedRewardScaler, StandardObservationScaler
name, path, device, env_id = sys.argv[1:5]
steps, seed, episodes, width, actions = (int(each) for each in sys.argv[5:10])
d3rlpy.seed(seed)
load = lambda part: np.load(f"{path}/{part}.npy")
lengths, ends = load("lengths"), np.cumsum(load("lengths")) - 1
places = np.concatenate([np.arange(end - length + 1, end + 1) + index for index, (end, length) in enumerate(zip(ends, lengths))])
terminals, timeouts = np.zeros(len(load("rewards"))), np.zeros(len(load("rewards")))
terminals[ends], timeouts[ends] = load("terminated"), ~load("terminated")
data = d3rlpy.dataset.MDPDataset(load("observations")[places], load("actions"), load("rewards"), terminals, timeouts)
wide = VectorEncoderFactory([width, width])
shared = dict(actor_encoder_factory=wide, critic_encoder_factory=wide, batch_size=width, observation_scaler=StandardObservationScaler())
def make(compiled):
    if name == "iql":  # as its own reproduction script has them
        config = d3rlpy.algos.IQLConfig(
            value_encoder_factory=wide, actor_learning_rate=3e-4, critic_learning_rate=3e-4,
            weight_temp=3.0, max_weight=100.0, expectile=0.7,
            actor_optim_factory=AdamFactory(lr_scheduler_factory=CosineAnnealingLRFactory(T_max=steps)),
            reward_scaler=ReturnBasedRewardScaler(multiplier=1000.0), compile_graph=compiled, **shared)
    else:
        config = d3rlpy.algos.CQLConfig(
            actor_learning_rate=1e-4, critic_learning_rate=3e-4, temp_learning_rate=1e-4, n_action_samples=actions, alpha_learning_rate=0.0,
            conservative_weight=5.0, compile_graph=compiled, **shared)
    for scaler in (config.observation_scaler, config.reward_scaler):
        if scaler is not None:
            scaler.fit_with_transition_picker(data.episodes, data.transition_picker)
    algo = config.create(device=device)
    algo.build_with_dataset(data)
    for _ in range(20):
        algo.update(data.sample_transition_batch(width))
    return config.create(device=device)
algo, compiled = None, False
if device != "cpu:0":
    try:
        algo, compiled = make(True), True
    except Exception as error:
        print(json.dumps({"compiling failed": str(error)[:300]}), flush=True)
algo = algo or make(False)
d3rlpy.seed(seed)
algo.build_with_dataset(data)
env = gymnasium.make(env_id)
started = time.perf_counter()
for step in range(1, steps + 1):
    algo.update(data.sample_transition_batch(width))
    if step % max(steps // 4, 1) == 0:
        spent, found = time.perf_counter() - started, []
        for episode in range(episodes):
            obs, total, over = env.reset(seed=1000 * seed + episode)[0], 0.0, False
            while not over:
                obs, reward, ended, cut, _ = env.step(algo.predict(obs[None].astype(np.float32))[0])
                total, over = total + float(reward), ended or cut
            found.append(total)
        row = {"peer": name, "seed": seed, "step": step, "return": float(np.mean(found)), "compiled": compiled}
        row["steps_per_second"] = step / spent
        print(json.dumps(row), flush=True)
"""


def command(algorithm: str, seeds: int, args: argparse.Namespace, changes: list[str], steps: int, device: str) -> list[str]:
    """What a user types to train one of ours."""
    every = [f"run.max_env_steps={steps}", f"run.eval_every_env_steps={max(steps // (4 if steps == args.steps else 20), 1)}"]
    sizes = [f"net.hidden=[{args.width},{args.width}]", f"algo.batch_size={args.width}"]
    sizes += [f"algo.cql_actions={args.cql_actions}"] if algorithm == "cql" else []
    wanted = [*every, f"run.eval_episodes={EPISODES}", f"run.device={device}", *sizes, *changes]
    return [
        *(sys.executable, "-m", "rlclinic", "train", f"{ENV_ID}:{algorithm.split()[0]}", "--data", str(args.data.resolve())),
        *("--seeds", str(seeds), "--seed", "0"),
        *(text for setting in wanted for text in ("--set", setting)),
    ]


def plan(args: argparse.Namespace) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Every job: its command and environment. Ours and the peer's take turns."""
    jobs: dict[str, tuple[list[str], dict[str, str]]] = {}
    own = provenance.child_environment(OMP_NUM_THREADS="1")
    for name in args.only:
        jobs[name] = command(name, args.seeds, args, OURS[name], args.steps, args.device), own
    if args.peer is not None or args.peer_python is not None:
        theirs = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": args.peer or ""}
        device = "cuda:0" if args.device == "cuda" else "cpu:0"
        for name in args.peers:
            for seed in range(args.seeds):
                numbers = (args.steps, seed, EPISODES, args.width, args.cql_actions)
                settings = (name, str(args.data.resolve()), device, ENV_ID, *map(str, numbers))
                jobs[f"d3rlpy {name} {seed}"] = [args.peer_python or sys.executable, "-c", PEER, *settings], theirs
    for name in args.online:
        for seed in range(args.seeds):
            typed = command(name, 1, args, ONLINE[name], args.online_steps or ONLINE_STEPS[name], "cpu")
            typed[typed.index("--seed") + 1] = str(seed)
            jobs[f"online {name} {seed}"] = typed, own | {"CUDA_VISIBLE_DEVICES": ""}
    return jobs


def run(args: argparse.Namespace) -> None:
    """All jobs until they end, or until the time is over; what has ended before is not made again."""
    waiting, jobs, began = plan(args), dict[str, subprocess.Popen[bytes]](), time.monotonic()
    while time.monotonic() - began < args.within:
        going = [job for job in jobs.values() if job.poll() is None]
        if waiting and len(going) < args.procs:
            name = next(iter(waiting))
            typed, environment = waiting.pop(name)
            home = args.work / name.replace(" ", "-")
            if (home / "ended").exists() or is_claimed(home):
                continue
            home.mkdir(parents=True, exist_ok=True)
            (home / "claim").write_text(str(os.getpid()))
            jobs[name] = subprocess.Popen(typed, cwd=home, env=environment, stdout=(home / "log").open("wb"), stderr=subprocess.STDOUT)
        elif not going:
            break
        else:
            time.sleep(0.5)
        for name, job in jobs.items():
            if job.poll() == 0:
                (args.work / name.replace(" ", "-") / "ended").touch()
    for name, job in jobs.items():
        late = job.poll() is None
        print(f"{name}: {'stopped' if late else job.returncode} after {time.monotonic() - began:.0f} s", flush=True)
        if late:
            job.terminate()
    for job in jobs.values():
        try:
            job.wait(10)
        except subprocess.TimeoutExpired:
            job.kill()


def is_claimed(home: Path) -> bool:
    """Whether another process that still lives works at a job: several may share the work."""
    try:
        return Path(f"/proc/{(home / 'claim').read_text()}").exists()
    except OSError:
        return False


def curves(work: Path) -> dict[str, Any]:
    """Everything that the jobs have noted: evaluations by algorithm and seed, [(step, return)], and d3rlpy's rows."""
    found: dict[str, Any] = {}
    for home in sorted(each for each in work.iterdir() if each.is_dir()):
        name = home.name.replace("-", " ") if not home.name.startswith("d3rlpy") else home.name
        if home.name.startswith("d3rlpy"):
            lines = [line for line in (home / "log").read_text(errors="replace").splitlines() if line.startswith("{")]
            found[name] = [json.loads(line) for line in lines]
            continue
        seeds = []
        for each in Store(home / "runs").runs() if (home / "runs").exists() else []:
            steps, means, _ = each.evaluations
            curve = [[int(step), float(mean)] for step, mean in zip(steps, means, strict=True)]
            seeds.append({"seed": each.seed, "curve": curve, "dip": _dip(each.path)})
        found[name] = seeds
    return found


def _dip(path: Path) -> float | None:
    """What going online cost, as the run's table says it last."""
    lines = (path / "metrics.csv").read_text().splitlines()
    header = lines[0].split(",")
    column = "train/sentinel/switch_dip"
    if column not in header:
        return None
    place = header.index(column)
    values = [cells[place] for cells in (line.split(",") for line in lines[1:]) if len(cells) > place and cells[place]]
    return float(values[-1]) if values else None


def at_step(curve: list[list[float]], step: int) -> float | None:
    """The evaluation at a step."""
    return next((value for when, value in curve if when == step), None)


def rows_of(found: dict[str, Any], data: dict[str, Any], sizes: str, sac: float | None, sac_steps: int | None) -> list[dict[str, Any]]:
    """Returns of ours, of the peer's and their ratio at the last step that all seeds of both have reached; then online."""
    rows: list[dict[str, Any]] = []
    about = f"SAC's replay of {data['transitions']:,} steps, mean return {data['mean']:.0f}; {sizes}"
    for name in OURS:
        seeds = found.get(name) or []
        steps = sorted(set.intersection(*({int(s) for s, _ in each["curve"]} for each in seeds))) if seeds else []
        if not steps:
            continue
        last = [at_step(each["curve"], steps[-1]) for each in seeds]
        what = f"{ENV_ID} ({about}): {name} after {steps[-1]:,} gradient steps"
        rows.append({"what": what, "unit": "return", "value": float(np.mean(last)), "better": "higher", "seeds": last})  # type: ignore[arg-type]
        theirs = [rows_ for key, rows_ in found.items() if key.startswith(f"d3rlpy-{name}-") and rows_]
        theirs = [[row for row in each if "step" in row] for each in theirs]
        common = [step for step in steps if theirs and all(any(row["step"] == step for row in each) for each in theirs)]
        if not common:
            continue
        step = common[-1]
        peer = [next(row["return"] for row in each if row["step"] == step) for each in theirs]
        ours = [at_step(each["curve"], step) for each in seeds]
        speed = float(np.mean([each[-1]["steps_per_second"] for each in theirs]))
        shared = {"ours": ours, "peer": peer, "peer_steps_per_second": speed, "peer_compiled": theirs[0][-1]["compiled"]}
        ratio = float(np.mean(ours) / np.mean(peer))  # type: ignore[arg-type]
        what = f"{ENV_ID} ({about}): {name} after {step:,} gradient steps, against d3rlpy's on the same data"
        rows.append({"what": what, "unit": "x", "value": ratio, "better": "higher", "bar": 0.95, "stretch": 1.1, **shared})
    for name in ONLINE:
        seeds = [each for key, each_seeds in found.items() if key.startswith(f"online {name} ") for each in each_seeds]
        if not seeds:
            continue
        first = 20_000 if name == "cal_ql" else 0
        dips = [each["dip"] for each in seeds if each["dip"] is not None]
        if dips:
            what = f"{ENV_ID} ({about}): {name}, dip at the switch, of what was learned above random"
            rows.append(
                {
                    "what": what,
                    "unit": "share",
                    "value": float(np.mean(dips)),
                    "better": "lower",
                    "bar": 0.15,
                    "stretch": 0.05,
                    "seeds": dips,
                }
            )
        if sac is not None and sac_steps:
            reached = [
                next((max(step - first, 0) for step, value in each["curve"] if value >= sac and step >= first), None) for each in seeds
            ]
            known = [each for each in reached if each is not None]
            value = float(np.mean(known)) / sac_steps if len(known) == len(reached) else None
            what = f"{ENV_ID} ({about}): {name}, env steps to SAC's final return ({sac:.0f}) against SAC's {sac_steps:,}"
            rows.append({"what": what, "unit": "x", "value": value, "better": "lower", "bar": 0.6, "stretch": 0.4, "seeds": reached})
    return rows


def main() -> None:
    parser = provenance.parser(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the replay, as a dataset's folder")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=256, help="units a layer, and rows a batch")
    parser.add_argument("--cql-actions", type=int, default=10, help="actions of each kind that CQL's penalty samples, on both sides")
    parser.add_argument("--only", nargs="*", default=list(OURS), choices=list(OURS))
    parser.add_argument("--online", nargs="*", default=list(ONLINE), choices=list(ONLINE))
    parser.add_argument("--online-steps", type=int, help="another budget of those, to try the script")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--peer", help="where d3rlpy and what it needs lie, as PYTHONPATH")
    parser.add_argument("--peer-python", help="another Python for it")
    parser.add_argument("--procs", type=int, default=2, help="jobs at a time")
    parser.add_argument("--within", type=float, default=3_600.0, help="seconds after which everything is stopped")
    parser.add_argument("--sac", type=float, help="the final return of the SAC run that the data is of")
    parser.add_argument("--sac-steps", type=int, help="and its env steps")
    parser.add_argument("--work", type=Path, default=provenance.SCRATCH / "hopper-recorded")
    parser.add_argument("--lines", type=Path, help="only note the curves and rows in this file")
    parser.add_argument("--collect", type=Path, help="make the results of such a file")
    args = parser.parse_args()
    if args.collect:
        noted = json.loads(args.collect.read_text())
    else:
        run(args)
        data = folder.read(args.data)
        about = {"transitions": len(data), "mean": float(data.returns.mean())}
        found = curves(args.work)
        sizes = f"2 x {args.width} units, batches of {args.width}"
        noted = {"data": about, "curves": found, "rows": rows_of(found, about, sizes, args.sac, args.sac_steps)}
    for row in noted["rows"]:
        print(json.dumps(row), flush=True)
    if args.lines:
        args.lines.write_text(json.dumps(noted, indent=1))
        return
    origin = provenance.provenance("python -m benchmarks.recorded_data.hopper --data FOLDER --peer-python PYTHON", {"d3rlpy": "2.8.1"})
    print(provenance.write("hopper_recorded", noted["rows"], origin, args.quick))


if __name__ == "__main__":
    main()
