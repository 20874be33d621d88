"""Planted faults of learning from recorded data and from experts, in environments that no rule was fitted on: is the first cause the fault?

python -m benchmarks.recorded_data.faults [--procs 16] [--seeds 2]
python -m benchmarks.recorded_data.faults --development --lines FILE   tasks on which rules may be written; leaves no result

Two looks. The first one was at Acrobot-v1, MountainCar-v0, MountainCarContinuous-v0 and `Glide`, a small task of its own, when rules had
been written on Pendulum, CartPole and the tasks of `development.py`; its rows stand in the results as they were. Rules have learned from
what it missed, so those four belong to `--development` since. The second look is at four of the five tasks of `second_look.py`.

Each task has a scripted expert, and data that is made of it with fixed seeds. Every fault is planted into one algorithm at a time;
the same algorithms without a fault say how often there is an alarm. As in the other corpora a fault counts where it hurts: no seed's last
evaluation reaches the threshold, and without it some seed's does. Two are wrong however the policy does, and always count: a mixture that
is scored, a horizon that leaks. The share of all that was planted stands beside it. And as there, healthy is a group of which every seed
does well: one without a fault that falls short has a reason, too, and naming it is no false alarm, while a setting that was planted and did
no harm is none to alarm about. The share of alarms among all groups without a fault stands beside that. What was seen is recorded with the
result: one look.
"""

import json
import math
import shutil
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import gymnasium
import numpy as np
import torch

from benchmarks import provenance
from benchmarks.diagnosis.measure import wilson
from benchmarks.imitation import own_actions_stored
from rlclinic.config import load
from rlclinic.datasets import folder
from rlclinic.diagnosis import registry
from rlclinic.diagnosis.findings import Severity
from rlclinic.ops.diagnose.diagnose import examine_group
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from rlclinic.training import envs
from rlclinic.training.__main__ import train_runs
from rlclinic.training.data import collection

_draw = np.random.default_rng(0)
HERE = Path(__file__).resolve()


class Glide(gymnasium.Env[Any, Any]):
    """Push a mass on a plane to a mark and hold it there: 60 steps, always."""

    observation_space = gymnasium.spaces.Box(-10.0, 10.0, (6,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.speed, self.mark = self.np_random.uniform(-1, 1, 2), np.zeros(2), self.np_random.uniform(-1, 1, 2)
        self.left = 60
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.speed = np.clip(0.95 * self.speed + 0.1 * np.clip(action, -1, 1), -2, 2)
        self.place = np.clip(self.place + 0.1 * self.speed, -3, 3)
        self.left -= 1
        cost = float(np.linalg.norm(self.place - self.mark))
        return self._seen(), -cost, False, self.left == 0, {}

    def _seen(self) -> Any:
        return np.concatenate([self.place, self.speed, self.mark]).astype(np.float32)


def glide(obs: Any) -> list[float]:
    """A spring and a damper."""
    place, speed, mark = np.asarray(obs[:2]), np.asarray(obs[2:4]), np.asarray(obs[4:])
    return [float(each) for each in np.clip(6.0 * (mark - place) - 4.0 * speed, -1, 1)]


def mountain_car(obs: Any) -> int:
    """Push to where it rolls."""
    return 2 if float(obs[1]) >= 0 else 0


def mountain_car_continuous(obs: Any) -> list[float]:
    """The same."""
    return [math.copysign(0.9, float(obs[1]))]


def acrobot(obs: Any) -> int:
    """Push the lower link to where it turns."""
    return 2 if float(obs[5]) > 0 else 0


def undecided(obs: Any, expert: Callable[[Any], Any], kinds: int) -> Any:
    """An expert that is thrown off in half of its answers."""
    if _draw.random() < 0.5:
        return expert(obs)
    return int(_draw.integers(kinds)) if kinds else [float(each) for each in _draw.uniform(-1, 1, len(expert(obs)))]


def glide_undecided(obs: Any) -> Any:
    return undecided(obs, glide, 0)


def mountain_car_undecided(obs: Any) -> Any:
    return undecided(obs, mountain_car, 3)


def mountain_car_continuous_undecided(obs: Any) -> Any:
    return undecided(obs, mountain_car_continuous, 0)


def acrobot_undecided(obs: Any) -> Any:
    return undecided(obs, acrobot, 3)


@dataclass(frozen=True)
class Task:
    """An environment, its expert and what counts as done."""

    env: str
    expert: str
    box: bool
    threshold: float
    terminates: bool
    home: Path = HERE
    """The file that has the expert."""
    settings: tuple[str, ...] = ()
    episodes: int = 40
    """Of each of its datasets but `few`: more where they are short."""


FIRST_LOOK = {
    "acrobot": Task("Acrobot-v1", "acrobot", False, -100.0, True),
    "mountain car": Task("MountainCar-v0", "mountain_car", False, -125.0, True),
    "continuous mountain car": Task("MountainCarContinuous-v0", "mountain_car_continuous", True, 85.0, True),
    "glide": Task(f"{HERE}:Glide", "glide", True, -20.0, False),
}
OTHERS = HERE.with_name("development.py")
SECOND = HERE.with_name("second_look.py")
DEVELOPMENT = {
    **FIRST_LOOK,
    "tank": Task(f"{OTHERS}:Tank", "tank", True, 65.0, True, OTHERS),
    "delivery": Task(f"{OTHERS}:Delivery", "delivery", False, 4.0, True, OTHERS),
    "arm": Task(f"{OTHERS}:Arm", "arm", True, -45.0, False, OTHERS),
}
TASKS = {
    "thermostat": Task(f"{SECOND}:Thermostat", "thermostat", True, -35.0, False, SECOND),
    "landing": Task(f"{SECOND}:Landing", "landing", True, 4.5, True, SECOND),
    "pursuit": Task(f"{SECOND}:Pursuit", "pursuit", False, 3.0, True, SECOND, (), 160),
    "cliff": Task("CliffWalking-v1", "cliff", False, -20.0, True, SECOND, ("env.max_episode_steps=60",), 120),
}
"""What is held out. Thresholds lie between what the expert returns and what it returns when half of its answers are at random."""
UNSEEN = {"inventory": Task(f"{SECOND}:Inventory", "inventory", False, 54.0, False, SECOND)}
"""Made for the second look, and left out of it before anything of it was seen: there was no time. Nothing knows it yet."""
EVERY = DEVELOPMENT | TASKS | UNSEEN


@dataclass(frozen=True)
class Cell:
    """Something to train, and the cause that should be named; "": none."""

    task: str
    algorithm: str
    cause: str
    data: str = ""
    settings: tuple[str, ...] = ()
    expert: str = ""
    group: int = 0


OFFLINE = ("run.max_env_steps=2400", "run.eval_every_env_steps=240", "run.eval_episodes=10", "algo.batch_size=128", "net.hidden=[64,64]")
ASKING = ("algo.train_freq=100", "run.max_env_steps=1000", "run.eval_every_env_steps=200", "run.eval_episodes=10", "net.hidden=[64,64]")
PLAYING = ("run.max_env_steps=12288", "run.eval_every_env_steps=2048", "run.eval_episodes=10", "net.hidden=[64,64]")
SMALL = ("net.hidden=[]", "algo.width=32", "algo.layers=2", "algo.context=5", "algo.batch_size=32")
"""A small Decision Transformer."""


SLOW = ("dt", "gail", "cql", "ensemble_dagger")


def list_cells(tasks: dict[str, Task], healthy: int) -> Iterator[Cell]:
    """Every fault wherever it can be planted, then the same algorithms without one."""
    for name, task in tasks.items():
        fast = ("algo.gamma=0.99", "env.normalize_reward=true")
        few = ("algo.cql_actions=4",) if task.box else ()
        yield Cell(name, "iql", "imitation-weights-at-cap", "mixed", (*fast, "algo.beta=3000"))
        yield Cell(name, "iql", "advantages-do-not-count", "mixed", (*fast, "algo.beta=0.001"))
        yield Cell(name, "cql", "too-conservative", "mixed", ("algo.cql_alpha=100", *few))
        bold = ("algo.bc_alpha=100000",) if task.box else ("algo.cql_alpha=0",)
        yield Cell(name, "td3_bc" if task.box else "cql", "offline-values-run-away", "expert", bold)
        yield Cell(name, "bc", "recorded-actions-by-heart", "few", ("net.hidden=[256,256]",))
        yield Cell(name, "dt", "asked-for-more-than-the-data", "mixed", (*SMALL, "algo.target_return=2000"))
        yield Cell(name, "dagger", "expert-drives", settings=("algo.beta=0.95",), expert=task.expert)
        yield Cell(name, "dagger", "labels-are-own-actions", expert=task.expert)
        yield Cell(name, "dagger", "old-rounds-dropped", settings=("algo.keep_rounds=1",), expert=task.expert)
        yield Cell(name, "dagger", "too-few-passes", settings=("algo.n_epochs=0", "algo.gradient_steps=15"), expert=task.expert)
        yield Cell(name, "dagger", "noisy-policy-collects", settings=("algo.policy_noise=1",), expert=task.expert)
        yield Cell(name, "dagger", "expert-inconsistent", settings=("algo.repeat_queries=0.2",), expert=f"{task.expert}_undecided")
        yield Cell(name, "dagger", "mixture-scored", settings=("algo.beta=0.5", "run.eval_episodes=0"), expert=task.expert)
        yield Cell(name, "gail", "discriminator-wins", "expert", ("algo.reward_lr=0.03", "algo.gradient_penalty=0", "algo.reward_steps=40"))
        if task.terminates:
            yield Cell(name, "gail", "horizon-leaks", "expert", ("algo.horizon=ignore",))
        for group in range(healthy):
            yield Cell(name, "iql", "", "noisy expert", (*fast, "algo.beta=1"), group=group)
            yield Cell(name, "bc", "", "noisy expert", group=group)
            yield Cell(name, "cql", "", "noisy expert", ("algo.cql_alpha=1", *few), group=group)
            yield Cell(name, "awac", "", "noisy expert", (*fast, "algo.awac_lambda=0.1"), group=group)
            if task.box:
                yield Cell(name, "td3_bc", "", "noisy expert", group=group)
            yield Cell(name, "dagger", "", expert=task.expert, group=group)
            yield Cell(name, "ensemble_dagger", "", expert=task.expert, group=group)
            yield Cell(name, "gail", "", "expert", group=group)


def make_data(tasks: dict[str, Task], home: Path) -> None:
    """Data of every task; `few` is 12 episodes."""
    for name, task in tasks.items():
        whole, good = task.episodes, 3 * task.episodes // 10
        shares = {"expert": [(0.0, whole)], "noisy expert": [(0.3, whole)], "mixed": [(0.9, whole - good), (0.0, good)], "few": [(0.7, 12)]}
        env = envs.make(load(task.env, task.settings).config.env, [0], 4)
        act = collection.play_with(f"{task.home}:{task.expert}", env)
        spaces = collection.observation_space(env), collection.action_space(env)
        for kind, parts in shares.items():
            place = home / name.replace(" ", "-") / kind.replace(" ", "-")
            made = (each for seed, (noise, count) in enumerate(parts) for each in collection.record(env, act, count, noise, seed))
            folder.write(place, made, *spaces, env_id=task.env, source=kind)
        env.close()


def look(cell: Cell, home: Path, seeds: int, quick: bool, keep: Path | None = None) -> dict[str, Any]:
    """Train a cell's group, and say what the diagnosis names first."""
    torch.set_num_threads(1)
    task = EVERY[cell.task]
    name = f"{cell.task} {cell.algorithm} {cell.cause or 'sound'} {cell.group}".replace(" ", "_")
    place = Path(mkdtemp()) if keep is None else keep / name
    asks, plays = bool(cell.expert), cell.algorithm in ("gail", "airl")
    budget: tuple[str, ...] = ASKING if asks else PLAYING if plays else OFFLINE
    usual = tuple(each for each in budget if cell.algorithm != "dt" or not each.startswith("net."))
    data = home / cell.task.replace(" ", "-") / cell.data.replace(" ", "-")
    named = [f"algo.expert={task.home}:{cell.expert}"] if asks else [f"data.path={data}"]
    try:
        short = ["run.max_env_steps=256" if plays else "run.max_env_steps=200"] if quick else []
        short += ["algo.n_steps=16"] if quick and plays else []
        settings = [*task.settings, *usual, f"spec.threshold={task.threshold}", *named, *cell.settings, *short]
        config = load(f"{task.env}:{cell.algorithm}", settings).config
        first = 10 + 10 * cell.group
        group = Store(place / "runs").create_group([config.model_copy(update={"seed": seed}) for seed in range(first, first + seeds)])
        with own_actions_stored() if cell.cause == "labels-are-own-actions" else nullcontext():
            train_runs(group.runs)
        found = diagnose(group)
        ends = [float(run.evaluations[1][-1]) for run in group.runs if len(run.evaluations[1])]
    except Exception:  # noqa: BLE001  # a cell that fails is reported, and the others are looked at
        return {"cell": vars(cell), "error": traceback.format_exc()[-1500:]}
    finally:
        if keep is None:
            shutil.rmtree(place, ignore_errors=True)
    return {"cell": vars(cell), **found, "ends": ends}


def diagnose(group: Group) -> dict[str, Any]:
    """What the diagnosis of a group names first, the other causes that it lists, and all that its findings speak of."""
    examined = examine_group(group)
    if examined is None:
        return {"named": "nothing", "causes": [], "mentioned": [], "verdict": ""}
    causes = [(each.id, str(each.severity), each.kind) for each in examined.diagnosis.causes]
    causes_of = {rule.id: rule.causes for rule in registry.rules()}
    mentioned = sorted({cause for each in examined.diagnosis.findings for cause in causes_of.get(each.rule, ())})
    return {"named": causes[0][0], "causes": causes[:4], "mentioned": mentioned, "verdict": examined.diagnosis.verdict}


ALWAYS = ("mixture-scored", "horizon-leaks")
"""Wrong however the policy does."""
BUG = "labels-are-own-actions"
"""Code that is wrong: where it did no harm, neither an alarm nor silence would be a mistake."""


def hurts(seen: dict[str, Any], sound: list[dict[str, Any]]) -> bool:
    """Whether a planted fault counts. Where the same algorithm does not get there without a fault either, nobody knows what one costs."""
    cell = seen["cell"]
    threshold = EVERY[cell["task"]].threshold
    twins = [each for each in sound if (each["cell"]["task"], each["cell"]["algorithm"]) == (cell["task"], cell["algorithm"])]
    hopeless = bool(twins) and all(end < threshold for each in twins for end in each["ends"])
    return cell["cause"] in ALWAYS or (not hopeless and all(end < threshold for end in seen["ends"]))


def does_well(seen: dict[str, Any]) -> bool:
    """Whether every seed's last evaluation reaches the threshold, and nothing is wrong all the same."""
    threshold = EVERY[seen["cell"]["task"]].threshold
    return seen["cell"]["cause"] not in (*ALWAYS, BUG) and bool(seen["ends"]) and all(end >= threshold for end in seen["ends"])


def to_rows(looks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Shares of faults that are named first, and of groups that are sound or do well with an alarm at HIGH."""
    planted = [each for each in looks if each["cell"]["cause"] and "error" not in each]
    sound = [each for each in looks if not each["cell"]["cause"] and "error" not in each]
    broken = [f"{each['cell']['task']} {each['cell']['algorithm']} [{each['cell']['cause']}]" for each in looks if "error" in each]
    shared = {"unit": "%", "command": "python -m benchmarks.recorded_data.faults"}
    about = f"in {len(TASKS)} other environments that no rule was fitted on, second look"

    def named(groups: list[dict[str, Any]], which: str) -> dict[str, Any]:
        right = [each["named"] == each["cell"]["cause"] for each in groups]
        wrong = [
            f"{each['cell']['task']}: {each['cell']['cause']} → {each['named']}"
            for each, good in zip(groups, right, strict=True)
            if not good
        ]
        share = wilson(sum(right), len(right))
        interval = [100 * share["low"], 100 * share["high"]]
        what = f"planted faults of recorded data and of imitation {about}, {which}first cause ({len(groups)} groups)"
        return {
            "what": what,
            "value": 100 * float(np.mean(right)),
            "better": "higher",
            "interval": interval,
            "note": "; ".join(wrong),
            **shared,
        }

    def mentioned(groups: list[dict[str, Any]]) -> dict[str, Any]:
        silent = [f"{each['cell']['task']}: {each['cell']['cause']}" for each in groups if each["cell"]["cause"] not in each["mentioned"]]
        return {
            "what": f"planted faults {about} that did no harm: share that some finding mentions, however mild ({len(groups)} groups)",
            "value": 100 * (1 - len(silent) / len(groups)),
            "better": "higher",
            "note": "not: " + "; ".join(silent) if silent else "",
            **shared,
        }

    def alarmed(groups: list[dict[str, Any]], which: str) -> dict[str, Any]:
        false = [
            each for each in groups if each["causes"] and each["causes"][0][1] == str(Severity.HIGH) and "fault" in each["causes"][0][2]
        ]
        share = wilson(len(false), len(groups))
        return {
            "what": f"alarms at HIGH {which} {about} ({len(groups)} groups)",
            "value": 100 * len(false) / len(groups),
            "better": "lower",
            "interval": [100 * share["low"], 100 * share["high"]],
            "bar": 2.0,
            "stretch": 0.5,
            "note": "; ".join(f"{each['cell']['task']} {each['cell']['algorithm']}: {each['named']}" for each in false),
            **shared,
        }

    counted = [each for each in planted if hurts(each, sound)]
    well = [each for each in (*sound, *planted) if does_well(each)]
    rows = [named(counted, "") | {"bar": 80.0, "stretch": 92.0}] if counted else []
    rows += [named(planted, "harmless ones among them, ")] if planted else []
    harmless = [each for each in planted if each not in counted]
    rows += [mentioned(harmless)] if harmless else []
    rows += [alarmed(well, "where every seed does well")] if well else []
    rows += [alarmed(sound, "without a fault, those that fall short among them,")] if sound else []
    if broken:
        rows.append(
            {"what": f"groups that failed to train or to be examined {about}", "value": len(broken), "note": "; ".join(broken), **shared}
        )
    return rows


def main() -> None:
    parser = provenance.parser(__doc__)
    parser.add_argument("--procs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--healthy", type=int, default=2, help="sound groups of every algorithm in every environment")
    parser.add_argument("--only", nargs="*", help="causes, to try the script")
    parser.add_argument("--within", type=float, default=3_600.0, help="seconds after which no group is begun")
    parser.add_argument("--lines", type=Path, help="note every group in this file, and go on from there the next time")
    parser.add_argument("--keep", type=Path, help="leave the runs in this folder")
    parser.add_argument("--development", action="store_true", help="instead: tasks on which rules may be written, without a result")
    parser.add_argument(
        "--tasks", nargs="*", help="only these, without a result: several processes share the work, their lines are put together"
    )
    args = parser.parse_args()
    tasks = DEVELOPMENT if args.development else TASKS
    tasks = {name: task for name, task in tasks.items() if args.tasks is None or name in args.tasks}
    looks = [json.loads(line) for line in args.lines.read_text().splitlines()] if args.lines and args.lines.exists() else []
    seen = [Cell(**{**each["cell"], "settings": tuple(each["cell"]["settings"])}) for each in looks]
    cells = [cell for cell in list_cells(tasks, args.healthy) if (args.only is None or cell.cause in args.only) and cell not in seen]
    home, began = Path(mkdtemp()), time.monotonic()
    make_data(tasks, home)
    # Cheap ones first, so that whatever stops it leaves most of them known.
    cells.sort(key=lambda cell: cell.algorithm in SLOW)
    with ProcessPoolExecutor(args.procs, get_context("spawn")) as pool:
        waiting = {pool.submit(look, cell, home, args.seeds, args.quick, args.keep) for cell in cells[: args.procs]}
        left = cells[args.procs :]
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for each in done:
                found = each.result()
                looks.append(found)
                said = found.get("named") or found["error"].strip().splitlines()[-1]
                cell = found["cell"]
                print(cell["task"], cell["algorithm"], f"[{cell['cause']}] named", said, found.get("causes"), flush=True)
                if args.lines:
                    with args.lines.open("a") as file:
                        file.write(json.dumps(found) + "\n")
                if left and time.monotonic() - began < args.within:
                    waiting.add(pool.submit(look, left.pop(0), home, args.seeds, args.quick, args.keep))
    shutil.rmtree(home, ignore_errors=True)
    if left:
        print(f"{len(left)} groups were not begun: the same command goes on", flush=True)
        return
    rows = to_rows(looks)
    print(json.dumps(rows, indent=1), flush=True)
    if args.development or args.tasks is not None:
        return
    provenance.write("offline_faults", rows, provenance.provenance("python -m benchmarks.recorded_data.faults"), args.quick)


if __name__ == "__main__":
    main()
