"""Hopper-v5 from the replay of a SAC run: ours beside d3rlpy's on the same data, and then in the environment.

python -m benchmarks.recorded_data.hopper --data FOLDER [--seeds 5] [--steps 100000] [--peer-python PYTHON] [--procs 2] [--device cuda]

The data is what `rlclinic data collect --replay` wrote of a SAC run; where the folder is not there yet, it is made of seed 0 of SAC from
scratch. Each algorithm learns in a process of its own, --procs at a time: BC, TD3+BC, IQL and CQL as one cohort of seeds; d3rlpy's IQL and
CQL, one process a seed, where a Python that has it is named; RLPD and Cal-QL, which go on in the environment, beside SAC from scratch, as
cohorts on processor cores. Both sides: two layers of --width, batches of as many, observations scaled by the data, ten episodes every fifth
of the budget; what counts is the last evaluation that both sides have reached within the time, never the best. d3rlpy's batches are drawn
from arrays (the same rows with the same chances), its Adam is PyTorch's fused one, and it does not walk through its modules before every
step to say that they learn, which they do: both save time and change nothing, and speed is measured elsewhere. On a GPU its losses and
gradients are its own CUDA graphs, without torch.compile, which takes minutes a process; where that fails, nothing is captured.

--work keeps the runs and the notes, and several processes may share it; --most 1 ends after one job. --within 0 --lines FILE notes what
there is by now, also while another process goes on, and --collect FILE makes the results of it, on a machine where everything is installed.
"""

import argparse
import json
import os
import platform
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
EPISODES, EVALUATIONS = 10, 5
OURS = {
    "bc": [],
    "td3_bc": [],
    "td3_bc by spread": ["algo.value_scale=spread"],
    "iql": [],
    "iql by deviation": ["data.reward_scale=deviation", "algo.beta=30"],
    "cql": [],
    "cql at 5": ["algo.cql_alpha=5"],
}
"""What learns from the data alone, with settings beside the shipped ones. Rewards by their deviation, and a penalty of 5 beside half of the
squared error, are what was shipped at first; d3rlpy has 5 beside all of it."""
OFTEN = ["run.eval_episodes=5", "run.eval_every_env_steps=2000"]
SMALL = ["net.hidden=[128,128]", "algo.batch_size=128", *OFTEN]
ONLINE = {
    "rlpd": [*SMALL, "data.then_online=true", "data.updates_per_step=2", "algo.n_critics=4", "algo.policy_delay=2"],
    "cal_ql": [*OFTEN, "data.then_online=true", "data.offline_steps=20000", "algo.cql_actions=4"],
    "iql": [*OFTEN, "data.then_online=true", "data.offline_steps=60000", "data.recorded_share=0.9"],
    "sac": [*SMALL, "algo.learning_starts=5000"],
}
"""What goes on in the environment, on processor cores: smaller networks, as the SAC run of the data had them; the last one is that run.
Cal-QL has those of the algorithms that learn from the data alone: its step costs as much as three of SAC's."""
ONLINE_STEPS = {"rlpd": 40_000, "cal_ql": 50_000, "iql": 90_000, "sac": 60_000}
SWITCH = {"cal_ql": 20_000, "iql": 60_000}
"""After how many gradient steps on the data env steps begin."""
ADVISED = "iql"
"""What users are told to type for such data; named before it was measured."""
PEERS = ("iql", "cql")
BAR = 0.6
"""Env steps to SAC's final return, at most, of those that SAC takes."""
CORL = {"bc": 29.8, "td3_bc": 64.4, "iql": 97.4, "cql": 95.1}
"""Last scores on D4RL's hopper-medium-replay, of 100, as CORL's documentation has them: for the order, as the data is another."""
PEER = """
import importlib.machinery, importlib.util, json, logging, os, sys, time, types
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
adam, mode = torch.optim.Adam.__init__, torch.nn.Module.train
torch.optim.Adam.__init__ = lambda self, *given, **named: adam(self, *given, **{**named, "foreach": None, "fused": True})
torch.nn.Module.train = lambda self, on=True: self if self.training == on else mode(self, on)
import d3rlpy, gymnasium
from d3rlpy.models.encoders import VectorEncoderFactory
from d3rlpy.optimizers import AdamFactory, CosineAnnealingLRFactory
from d3rlpy.preprocessing import ReturnBasedRewardScaler, StandardObservationScaler
name, path, device, env_id = sys.argv[1:5]
steps, seed, episodes, width, actions, evaluations = (int(each) for each in sys.argv[5:11])
WAYS = ("captured", "not captured", "cpu")
way = os.environ.get("PEER_WAY", WAYS[0] if device != "cpu:0" else "cpu")
device = "cpu:0" if way == "cpu" else device
graph = d3rlpy.torch_utility.CudaGraphWrapper
begin, launch = graph.__init__, graph.__call__
def launched(self, batch):  # the step that captures leaves gradients that nothing has computed yet: one launch does
    known = self._graph
    found = launch(self, batch)
    if known is None and self._graph is not None:
        self._graph.replay()
        found = self._out
    return found
graph.__call__ = launched
graph.__init__ = lambda self, function, warmup_steps=3, compile_func=True: begin(self, function, warmup_steps, False)
d3rlpy.seed(seed)
load = lambda part: np.load(f"{path}/{part}.npy")
lengths, ends = load("lengths"), np.cumsum(load("lengths")) - 1
places = np.concatenate([np.arange(end - length + 1, end + 1) + index for index, (end, length) in enumerate(zip(ends, lengths))])
terminals, timeouts = np.zeros(len(load("rewards"))), np.zeros(len(load("rewards")))
terminals[ends], timeouts[ends] = load("terminated"), ~load("terminated")
data = d3rlpy.dataset.MDPDataset(load("observations")[places], load("actions"), load("rewards"), terminals, timeouts)
# The rows that its own sampler draws from, taken from arrays: that one makes a batch of Python objects, which costs as much as the step.
seen, done, paid = (np.asarray(load(part), np.float32) for part in ("observations", "actions", "rewards"))
last = np.isin(np.arange(len(paid)), ends)
rows, dice = np.flatnonzero(~last | (terminals > 0)), np.random.default_rng(seed)
assert len(rows) == data.transition_count
column = lambda values: np.ascontiguousarray(values, np.float32).reshape(-1, 1)
def sample():
    at = rows[dice.integers(len(rows), size=width)]
    after = np.zeros_like(seen[places[at]])
    after[terminals[at] == 0] = seen[places[at] + 1][terminals[at] == 0]
    following = done[np.minimum(at + 1, len(paid) - 1)]
    return d3rlpy.dataset.TransitionMiniBatch(
        observations=seen[places[at]], actions=done[at], rewards=column(paid[at]), next_observations=after, next_actions=following,
        terminals=column(terminals[at]), intervals=column(np.ones(width)), transitions=[])
wide = VectorEncoderFactory([width, width])
shared = dict(actor_encoder_factory=wide, critic_encoder_factory=wide, batch_size=width, observation_scaler=StandardObservationScaler())
def make():
    compiled = way == "captured"
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
    losses = [algo.update(sample()) for _ in range(20)]
    assert all(np.isfinite(list(each.values())).all() for each in losses), losses[-1]
    return config.create(device=device)
try:
    algo = make()
except Exception as error:  # the next way, in a process that knows nothing of this one's failure
    print(json.dumps({"failed": way, "why": str(error)[:300]}), flush=True)
    if way == "cpu":
        raise
    os.environ["PEER_WAY"] = WAYS[WAYS.index(way) + 1]
    os.execv(sys.executable, sys.orig_argv)
d3rlpy.seed(seed)
algo.build_with_dataset(data)
env = gymnasium.make(env_id)
started = time.perf_counter()
for step in range(1, steps + 1):
    algo.update(sample())
    if step % 1000 == 0:
        print(json.dumps({"at": step, "seconds": round(time.perf_counter() - started, 1)}), flush=True)
    if step % max(steps // evaluations, 1) == 0:
        began, found = time.perf_counter(), []
        for episode in range(episodes):
            obs, total, over = env.reset(seed=1000 * seed + episode)[0], 0.0, False
            while not over:
                obs, reward, ended, cut, _ = env.step(algo.predict(obs[None].astype(np.float32))[0])
                total, over = total + float(reward), ended or cut
            found.append(total)
        row = {"peer": name, "seed": seed, "step": step, "return": float(np.mean(found)), "way": way}
        print(json.dumps(row), flush=True)
        started += time.perf_counter() - began  # playing is not learning
"""


def command(algorithm: str, seeds: int, args: argparse.Namespace, changes: list[str], steps: int, device: str, first: int = 0) -> list[str]:
    """What a user types to train one of ours. Changes come last: they win."""
    wanted = [f"run.max_env_steps={steps}", f"run.eval_every_env_steps={max(steps // EVALUATIONS, 1)}", f"run.eval_episodes={EPISODES}"]
    wanted += [f"run.device={device}", f"net.hidden=[{args.width},{args.width}]", f"algo.batch_size={args.width}"]
    wanted += [f"algo.cql_actions={args.cql_actions}"] if algorithm == "cql" else []
    return [
        *(sys.executable, "-m", "rlclinic", "train", f"{ENV_ID}:{algorithm.split()[0]}"),
        *([] if algorithm == "sac" else ["--data", str(args.data.resolve())]),
        *("--seeds", str(seeds), "--seed", str(first)),
        *(text for setting in [*wanted, *changes] for text in ("--set", setting)),
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
                numbers = (args.steps, seed, EPISODES, args.width, args.cql_actions, EVALUATIONS)
                settings = (name, str(args.data.resolve()), device, ENV_ID, *map(str, numbers))
                jobs[f"d3rlpy {name} {seed}"] = [args.peer_python or sys.executable, "-c", PEER, *settings], theirs
    for name in args.online:
        changes, budget = ONLINE[name], args.online_steps or ONLINE_STEPS[name]
        if args.online_steps:
            changes = [*changes, f"run.eval_every_env_steps={budget // 4}"]
            changes += [f"data.offline_steps={budget // 2}"] if name in SWITCH else []
            changes += [f"algo.learning_starts={budget // 10}"] if name == "sac" else []
        typed = command(name, args.online_seeds, args, changes, budget, "cpu", args.online_seed if name != "sac" else 0)
        jobs[f"online {name}"] = typed, own | {"CUDA_VISIBLE_DEVICES": ""}
    return jobs


def make_data(args: argparse.Namespace) -> None:
    """The replay of seed 0 of SAC from scratch."""
    run(argparse.Namespace(**vars(args) | {"only": [], "peers": [], "online": ["sac"]}))
    home = args.work / "online-sac"
    first = next(each.path.name for each in Store(home / "runs").runs() if each.seed == 0)
    typed = [sys.executable, "-m", "rlclinic", "data", "collect", first, "--replay", "--out", str(args.data.resolve())]
    subprocess.run(typed, cwd=home, env=provenance.child_environment(OMP_NUM_THREADS="1"), check=True)


def run(args: argparse.Namespace) -> None:
    """All jobs until they end, or until the time is over; what has ended before is not made again, and what fails is tried once more."""
    waiting, jobs, began = plan(args), dict[str, subprocess.Popen[bytes]](), time.monotonic()
    again: set[str] = set()
    while time.monotonic() - began < args.within:
        for name, job in jobs.items():
            home = args.work / name.replace(" ", "-")
            if job.poll() == 0:
                (home / "ended").touch()
            elif job.poll() is not None and name not in again:
                print(f"{name}: {job.returncode} after {time.monotonic() - began:.0f} s, once more", flush=True)
                again.add(name)
                home.rename(args.work / f".failed-{home.name}-{os.getpid()}")
                typed, environment = plan(args)[name]
                # Nor by way of a server of the GPU's that several processes share: it may be what failed.
                waiting[name] = typed, {key: value for key, value in environment.items() if not key.startswith("CUDA_MPS_")}
        going = [job for job in jobs.values() if job.poll() is None]
        if waiting and len(going) < args.procs and len(jobs) < args.most:
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
    for home in sorted(each for each in work.iterdir() if each.is_dir() and not each.name.startswith(".")):
        name = home.name.replace("-", " ") if not home.name.startswith("d3rlpy") else home.name
        if home.name.startswith("d3rlpy"):
            lines = [line for line in (home / "log").read_text(errors="replace").splitlines() if line.startswith("{")]
            found[name] = [json.loads(line) for line in lines]
            continue
        seeds = []
        for each in Store(home / "runs").runs() if (home / "runs").exists() else []:
            if not (each.path / "metrics.csv").exists():
                continue
            steps, means, _ = each.evaluations
            curve = [[int(step), float(mean)] for step, mean in zip(steps, means, strict=True)]
            seeds.append({"seed": each.seed, "curve": curve, "dip": _dip(each.path)})
        found[name] = seeds
    return found


def _dip(path: Path) -> float | None:
    """What going online cost, as the run's table says it last."""
    if not (path / "metrics.csv").exists():
        return None
    lines = (path / "metrics.csv").read_text().splitlines() or [""]
    header = lines[0].split(",")
    column = "train/sentinel/switch_dip"
    if column not in header:
        return None
    place = header.index(column)
    values = [cells[place] for cells in (line.split(",") for line in lines[1:]) if len(cells) > place and cells[place]]
    return float(values[-1]) if values else None


def steps_to(curve: list[list[float]], target: float, first: int) -> int | None:
    """Env steps to the first evaluation that is as good, where the environment is played from step `first` on; None: never."""
    return next((int(step) - first for step, value in curve if value >= target and step >= first), None)


def mean_curve(curves: list[list[list[float]]]) -> list[list[float]]:
    """The mean of all seeds, as far as all of them have come."""
    steps = sorted(set.intersection(*({int(step) for step, _ in each} for each in curves)))
    return [[step, float(np.mean([at_step(each, step) for each in curves]))] for step in steps]


def at_step(curve: list[list[float]], step: int) -> float | None:
    """The evaluation at a step."""
    return next((value for when, value in curve if when == step), None)


def rows_of(found: dict[str, Any], data: dict[str, Any], sizes: str) -> list[dict[str, Any]]:
    """Returns of ours, of the peer's and their ratio at the last step that all seeds of both have reached; then online."""
    rows: list[dict[str, Any]] = []
    about = f"SAC's replay of {data['transitions']:,} steps, mean return {data['mean']:.0f}; {sizes}"
    for name in OURS:
        seeds = [each for each in found.get(name) or [] if each["curve"]]
        steps = sorted(set.intersection(*({int(s) for s, _ in each["curve"]} for each in seeds))) if seeds else []
        if not steps:
            continue
        last = [at_step(each["curve"], steps[-1]) for each in seeds]
        known = f", {len(last)} seeds (CORL's on D4RL's medium-replay: {CORL[name]} of 100)" if name in CORL else f", {len(last)} seeds"
        what = f"{ENV_ID} ({about}): {name} after {steps[-1]:,} gradient steps{known}"
        rows.append({"what": what, "unit": "return", "value": float(np.mean(last)), "better": "higher", "seeds": last})  # type: ignore[arg-type]
        theirs = [rows_ for key, rows_ in found.items() if key.startswith(f"d3rlpy-{name.split()[0]}-") and rows_]
        theirs = [[row for row in each if "step" in row] for each in theirs]
        common = [step for step in steps if theirs and all(any(row["step"] == step for row in each) for each in theirs)]
        if not common:
            continue
        step = common[-1]
        peer = [next(row["return"] for row in each if row["step"] == step) for each in theirs]
        ours = [at_step(each["curve"], step) for each in seeds]
        shared = {"ours": ours, "peer": peer, "peer_way": theirs[0][-1]["way"]}
        ratio = float(np.mean(ours) / np.mean(peer))  # type: ignore[arg-type]
        beside = f"{len(ours)} seeds against {len(peer)} of d3rlpy's on the same data"
        what = f"{ENV_ID} ({about}): {name} after {step:,} gradient steps, {beside}"
        shared |= {"value": ratio, "interval": ratio_interval(ours, peer), "note": f"{np.mean(ours):.0f} against {np.mean(peer):.0f}"}  # type: ignore[arg-type]
        bar = {"bar": 0.95, "stretch": 1.1} if name in PEERS else {}
        rows.append({"what": what, "unit": "x", "better": "higher", **bar, **shared})
    return rows + online_rows(found, about.partition(";")[0])


def ratio_interval(ours: list[float], peer: list[float], draws: int = 10_000) -> list[float]:
    """Of the ratio of two means, from seeds that are drawn again."""
    draw = np.random.default_rng(0)
    means = [np.asarray(each)[draw.integers(len(each), size=(draws, len(each)))].mean(1) for each in (ours, peer)]
    return [float(each) for each in np.quantile(means[0] / means[1], [0.025, 0.975])]


def measured_before() -> list[dict[str, Any]]:
    """The rows of the results as they are: of SAC from scratch, where it was not run again on the same data."""
    path = provenance.RESULTS / "hopper_recorded.json"
    return list(json.loads(path.read_text())["rows"]) if path.exists() else []


def online_rows(found: dict[str, Any], about: str) -> list[dict[str, Any]]:
    """SAC from scratch, and what those that know the data need of its env steps to be as good as it is in the end."""
    rows: list[dict[str, Any]] = []
    by_name = {name: [seed for seed in found.get(f"online {name}") or [] if seed["curve"]] for name in ONLINE}
    target, from_scratch, together = None, 0.0, list[list[float]]()
    if sac := [each["curve"] for each in by_name["sac"]]:
        together = mean_curve(sac)
        if not together:
            return rows
        budget, target = together[-1]
        steps = [steps_to(each, target, 0) for each in sac]
        last = [at_step(each, int(budget)) for each in sac]
        what = f"{ENV_ID}: SAC from scratch after {int(budget):,} env steps, {len(sac)} seeds"
        rows.append({"what": what, "unit": "return", "value": target, "better": "higher", "seeds": last, "steps_to_the_mean": steps})
    elif before := [row for row in measured_before() if row["what"].startswith(f"{ENV_ID}: SAC from scratch")]:
        budget, target, steps = ONLINE_STEPS["sac"], before[0]["value"], before[0]["steps_to_the_mean"]
    if target is not None:
        from_scratch = float(np.mean([budget if each is None else each for each in steps]))
    for name in (each for each in ONLINE if each != "sac"):
        seeds, first = by_name[name], SWITCH.get(name, 0)
        settings: dict[str, Any] = {"settings": ONLINE[name], "of_seeds": [each["seed"] for each in seeds]}
        if name == ADVISED:
            settings["advised"] = "what users are told to type for such data, named before this was measured"
        dips = [each["dip"] for each in seeds if each["dip"] is not None]
        if dips:
            shared = {"value": float(np.mean(dips)), "better": "lower", "bar": 0.15, "stretch": 0.05, "seeds": dips}
            what = f"{ENV_ID} ({about}): {name}, {len(dips)} seeds, dip at the switch, of what was learned above random"
            rows.append({"what": what, "unit": "share", **shared, **settings})
        if seeds and target is not None:
            own = [each["curve"] for each in seeds]
            steps, taken = [steps_to(each, target, first) for each in own], [int(each[-1][0]) - first for each in own]
            step, value = mean_curve(own)[-1]
            beside = next((each for when, each in together if when == step - first), None)
            scratch = {} if beside is None else {"note": f"{beside:.0f} of SAC from scratch after as many"}
            ends = [at_step(each, int(step)) for each in own]
            shared = {"value": value, "better": "higher", "seeds": ends, **scratch, **settings}
            what = f"{ENV_ID} ({about}): {name}, {len(own)} seeds, after {int(step) - first:,} env steps"
            rows.append({"what": what, "unit": "return", **shared})
            if None in steps and min(taken) < BAR * from_scratch:
                continue  # it was stopped before there was anything to judge
            # A seed that never gets there counts as one that took as long as all of SAC's run.
            value = float(np.mean([budget if each is None else each for each in steps])) / from_scratch
            shared = {"value": value, "better": "lower", "bar": BAR, "stretch": 0.4, "seeds": steps, "from_scratch": from_scratch}
            shared |= {"mean_of_seeds_gets_there_at": steps_to(mean_curve(own), target, first), "taken": taken}
            if never := sum(each is None for each in steps):
                shared["note"] = f"{never} of {len(steps)} do not get there in {max(taken):,}, and count as {int(budget):,}"
            goal = f"the final return of SAC from scratch ({target:.0f}), against its own {from_scratch:,.0f}"
            rows.append({"what": f"{ENV_ID} ({about}): {name}, {len(own)} seeds, env steps to {goal}", "unit": "x", **shared, **settings})
    return rows


def machine(device: str) -> dict[str, Any]:
    """Where the figures come from, where nothing is installed that could say it."""
    import torch

    gpu = torch.cuda.get_device_name() if device == "cuda" and torch.cuda.is_available() else None
    return {"cpu": provenance.cpu_model(), "gpu": gpu, "python": platform.python_version(), "torch": torch.__version__}


def peer_versions(args: argparse.Namespace) -> dict[str, str]:
    """What the peer is, as its own Python says."""
    if args.peer is None and args.peer_python is None:
        return {}
    asked = "import importlib.metadata as m, json; print(json.dumps({n: m.version(n) for n in ('d3rlpy', 'torch', 'gymnasium', 'mujoco')}))"
    typed = [args.peer_python or sys.executable, "-c", asked]
    answer = subprocess.run(typed, env=os.environ | {"PYTHONPATH": args.peer or ""}, capture_output=True, text=True, check=True)
    return dict(json.loads(answer.stdout))


def main() -> None:
    parser = provenance.parser(__doc__)
    parser.add_argument("--data", type=Path, help="the replay, as a dataset's folder")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=256, help="units a layer, and rows a batch")
    parser.add_argument("--cql-actions", type=int, default=10, help="actions of each kind that CQL's penalty samples, on both sides")
    parser.add_argument("--only", nargs="*", default=list(OURS), choices=list(OURS))
    parser.add_argument("--online", nargs="*", default=list(ONLINE), choices=list(ONLINE))
    parser.add_argument("--online-seeds", type=int, default=5)
    parser.add_argument(
        "--online-seed", type=int, default=0, help="the first one, but SAC's: others than those that settings were chosen on"
    )
    parser.add_argument("--online-steps", type=int, help="another budget of those, to try the script")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--peer", help="where d3rlpy and what it needs lie, as PYTHONPATH")
    parser.add_argument("--peer-python", help="another Python for it")
    parser.add_argument("--procs", type=int, default=2, help="jobs at a time")
    parser.add_argument("--most", type=int, default=sys.maxsize, help="jobs that this call begins")
    parser.add_argument("--within", type=float, default=3_600.0, help="seconds after which everything is stopped")
    parser.add_argument("--work", type=Path, default=provenance.SCRATCH / "hopper-recorded")
    parser.add_argument("--lines", type=Path, help="only note the curves and rows in this file")
    parser.add_argument("--collect", type=Path, help="make the results of such a file")
    args = parser.parse_args()
    if args.collect:
        noted = json.loads(args.collect.read_text())
    elif args.data is None:
        parser.error("--data names the replay")
    else:
        if not args.data.exists():
            make_data(args)
        run(args)
        data = folder.read(args.data)
        about = {"transitions": len(data), "mean": float(data.returns.mean())}
        found = curves(args.work)
        sizes = f"2 x {args.width} units, batches of {args.width}, {args.cql_actions} actions of a kind for CQL"
        rows = rows_of(found, about, sizes)
        noted = {"data": about, "machine": machine(args.device), "peer": peer_versions(args), "curves": found, "rows": rows}
    for row in noted["rows"]:
        print(json.dumps(row), flush=True)
    if args.lines:
        args.lines.write_text(json.dumps(noted, indent=1))
        return
    sizes = f"--width {args.width} --cql-actions {args.cql_actions}" + (f" --online-seed {args.online_seed}" if args.online_seed else "")
    origin = provenance.provenance(f"python -m benchmarks.recorded_data.hopper --data FOLDER {sizes} --peer-python PYTHON", noted["peer"])
    rows = [row | noted["machine"] for row in noted["rows"]]
    print(provenance.write("hopper_recorded", rows, origin, args.quick))


if __name__ == "__main__":
    main()
