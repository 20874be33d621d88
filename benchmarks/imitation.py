"""Imitation on Pendulum: DAgger beside cloning, rules that ask less, and whether planted faults are named.

python -m benchmarks.imitation [--only dagger safe_dagger ensemble_dagger] [--seed 8]
python -m benchmarks.imitation --faults

The expert is a rule that pumps energy and then balances (-125 on the evaluation's 20 starts). Every arm has 1,600 steps (8 episodes) in
16 rounds of 100, and 8 seeds as one cohort; a policy's score is the mean of 20 episodes of its own after the last round. Cloning is the
same loop with the expert acting throughout. Faults are planted one at a time into DAgger, three seeds each; a diagnosis counts where
its first cause is the fault's. Arms that are done are kept in build/, so that the measurement goes on where it stopped.
"""

import json
import math
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks import provenance
from rlclinic import stats
from rlclinic.config import load
from rlclinic.ops.diagnose.diagnose import examine_group
from rlclinic.runs.record import Group, Run
from rlclinic.runs.store import Store
from rlclinic.training.__main__ import train_runs
from rlclinic.training.imitation import labels

COMMAND = "python -m benchmarks.imitation"
ENV = "Pendulum-v1"
ROUNDS, STEPS = 16, 100
ARMS: dict[str, dict[str, Any]] = {
    "cloning": {"variant": "dagger", "settings": ["algo.beta=1"]},
    "dagger": {"variant": "dagger", "settings": []},
    "dagger, beta from 1 to 0.47": {
        "variant": "dagger",
        "settings": ['algo.beta={"start": 1, "end": 0.4667, "schedule": "linear"}'],
    },
    "safe_dagger": {"variant": "safe_dagger", "settings": []},
    "ensemble_dagger": {"variant": "ensemble_dagger", "settings": []},
    "thrifty_dagger": {"variant": "thrifty_dagger", "settings": []},
}
FAULTS: dict[str, tuple[str, list[str]]] = {
    "expert-drives": ("expert", ["algo.beta=0.95"]),
    "labels-are-own-actions": ("expert", []),
    "old-rounds-dropped": ("expert", ["algo.keep_rounds=1"]),
    "too-few-passes": ("expert", ["algo.n_epochs=0", "algo.gradient_steps=15"]),
    "noisy-policy-collects": ("expert", ["algo.policy_noise=1"]),
    "expert-inconsistent": ("undecided", ["algo.repeat_queries=0.1"]),
    "mixture-scored": ("expert", ["algo.beta=0.5", "run.eval_episodes=0"]),
}
UNSAFE = 0.25
"""As a share of the range of actions."""
_draw = np.random.default_rng(0)


def expert(obs: Any) -> list[float]:
    """Pump energy until the pendulum is nearly up, then hold it there."""
    cosine, sine, speed = map(float, obs)
    angle = math.atan2(sine, cosine)
    if abs(angle) < 0.6 and abs(speed) < 4:
        return [-(12 * angle + 3 * speed)]
    return [2 * (5 - speed * speed / 6 - 5 * cosine) * math.copysign(1.0, speed)]


def undecided(obs: Any) -> list[float]:
    """The same, thrown off by half of the range."""
    return [expert(obs)[0] + float(_draw.normal(0.0, 2.0))]


@contextmanager
def own_actions_stored() -> Iterator[None]:
    """The classic mistake: what was executed is stored as the label."""
    kept = labels.add

    def add(into: labels.Labels, transitions: Any, sent: Any, told: dict[str, Any]) -> None:
        own = ~told["by_expert"]
        mine = own if sent.dim() == own.dim() else own.unsqueeze(-1)
        told["label"] = mine * sent + ~mine * told["label"]
        told["error"] = told["error"].masked_fill(own, 0.0)
        kept(into, transitions, sent, told)

    with mock.patch.object(labels, "add", add):
        yield


def train(folder: Path, variant: str, who: str, settings: list[str], seeds: int, rounds: int, first: int = 0) -> Group:
    """One arm as one cohort."""
    total = rounds * STEPS
    usual = [f"algo.train_freq={STEPS}", f"run.max_env_steps={total}", f"run.eval_every_env_steps={2 * STEPS}", "run.eval_episodes=20"]
    config = load(f"{ENV}:{variant}", [*usual, f"algo.expert={Path(__file__)}:{who}", *settings]).config
    group = Store(folder).create_group([config.model_copy(update={"seed": seed}) for seed in range(first, first + seeds)])
    train_runs(group.runs)
    return group


def place_of(name: str, seeds: int, rounds: int, first: int = 0) -> Path:
    """Where an arm's runs lie."""
    fresh = f"-from-{first}" if first else ""
    return provenance.SCRATCH / "imitation" / f"{name.replace(' ', '-').replace(',', '')}-{seeds}-{rounds}{fresh}"


def name_cause(group: Group) -> str:
    """The first cause that a diagnosis names."""
    examined = examine_group(group)
    return "nothing" if examined is None else examined.diagnosis.causes[0].id


def measure(name: str, arm: dict[str, Any], seeds: int, rounds: int, first: int = 0) -> dict[str, Any]:
    """The last evaluation and the number of questions of every seed; kept for the next time."""
    place = place_of(name, seeds, rounds, first)
    record = place / "measured.json"
    if not record.exists():
        shutil.rmtree(place, ignore_errors=True)
        group = train(place / "runs", arm["variant"], "expert", arm["settings"], seeds, rounds, first)
        returns = [float(run.evaluations[1][-1]) for run in group.runs]
        asked = [sum(int(data.beside["queries"].sum()) for data in labels.read(run.path)) for run in group.runs]
        record.write_text(json.dumps({"returns": returns, "queries": asked, "unsafe": [share_unsafe(run) for run in group.runs]}))
    measured: dict[str, Any] = json.loads(record.read_text())
    returns, asked = measured["returns"], measured["queries"]
    print(f"{name}: {np.mean(returns):.0f} {[round(each) for each in returns]}, {np.mean(asked):.0f} questions")
    return measured


def share_unsafe(run: Run) -> float:
    """Steps in which what was done lies more than UNSAFE of the range from what the expert would have done."""
    off = []
    for data in labels.read(run.path):
        seen = data.transitions(np.arange(len(data))).observations
        right = np.clip([expert(obs)[0] for obs in seen], -2.0, 2.0)
        off.append(np.abs(np.asarray(data.actions)[:, 0] - right) > 4.0 * UNSAFE)
    return float(np.concatenate(off).mean())


def name_fault(fault: str, seeds: int, rounds: int) -> dict[str, Any]:
    """The first cause that a diagnosis of a group with the fault names, and what its seeds return in the end."""
    place = provenance.SCRATCH / "imitation" / f"fault-{fault}-{seeds}-{rounds}"
    record = place / "named.json"
    if not record.exists():
        shutil.rmtree(place, ignore_errors=True)
        who, settings = FAULTS[fault]
        with own_actions_stored() if fault == "labels-are-own-actions" else nullcontext():
            group = train(place / "runs", "dagger", who, settings, seeds, rounds)
        ends = [float(run.evaluations[1][-1]) for run in group.runs if len(run.evaluations[1])]
        record.write_text(json.dumps({"cause": name_cause(group), "ends": ends}))
    named: dict[str, Any] = json.loads(record.read_text())
    print(f"planted {fault}: named {named['cause']}, returns {[round(each) for each in named['ends']]}", flush=True)
    return named


def main() -> None:
    """Measure all arms, then all faults; or some arms, of which `dagger` is always one."""
    parser = provenance.parser(__doc__)
    parser.add_argument("--only", nargs="*", choices=list(ARMS), help="these arms beside dagger, and no faults")
    parser.add_argument("--faults", action="store_true", help="the planted faults, and of the arms dagger alone")
    parser.add_argument("--seed", type=int, default=0, help="the first seed of the arms: a fresh one where a rule was changed since")
    args = parser.parse_args()
    quick = args.quick
    seeds, rounds = (2, 2) if quick else (8, ROUNDS)
    rows: list[dict[str, Any]] = []

    def add(what: str, unit: str, value: float, better: str, bar: float | None = None, stretch: float | None = None, **more: Any) -> None:
        limits = {"better": better, "bar": bar, "stretch": stretch}
        rows.append({"what": what, "unit": unit, "value": value, **limits, "command": command, "first_seed": args.seed, **more})

    if args.faults:
        args.only = ["dagger"]
    parts = " --faults" if args.faults else "" if args.only is None else f" --only {' '.join(args.only)}"
    command = COMMAND + parts + (f" --seed {args.seed}" if args.seed else "")
    wanted = {name: arm for name, arm in ARMS.items() if args.only is None or name in ("dagger", *args.only)}
    arms = {name: measure(name, arm, seeds, rounds, args.seed) for name, arm in wanted.items()}
    bars = {"dagger": (-250.0, -180.0)}
    for name, measured in arms.items():
        returns = np.array(measured["returns"])
        what = f"{ENV}, {rounds} rounds of {STEPS} steps, {seeds} seeds: return of {name}"
        interval = list(stats.bootstrap_interval(returns, np.mean))
        add(what, "", float(returns.mean()), "higher", *bars.get(name, (None, None)), interval=interval)
    best = float(np.mean(arms["dagger"]["returns"]))
    for name in (each for each in arms if each.endswith("_dagger")):
        asked = 100 * float(np.mean(arms[name]["queries"]) / np.mean(arms["dagger"]["queries"]))
        behind = 100 * (best - float(np.mean(arms[name]["returns"]))) / abs(best)
        held = name != "thrifty_dagger"
        add(f"questions of {name}, of dagger's", "%", asked, "lower", *((50.0, 25.0) if held else (None, None)))
        add(f"return of {name} below dagger's", "%", behind, "lower", 15.0 if held else None)
        unsafe, usual = (100 * float(np.mean(arms[each]["unsafe"])) for each in (name, "dagger"))
        what = f"{name}: steps in which what is done lies more than {UNSAFE:.0%} of the range from the expert's"
        add(what, "%", unsafe, "lower", usual if held else None, note="the bar is dagger's")
    if args.only is not None and not args.faults:
        provenance.write("imitation", rows, provenance.provenance(COMMAND), quick)
        return
    named = {fault: name_fault(fault, min(seeds, 3), rounds) for fault in FAULTS}
    right = 100 * sum(fault == found["cause"] for fault, found in named.items()) / len(named)
    missed = {fault: found for fault, found in named.items() if fault != found["cause"]}
    wrong = "; ".join(f"{fault}: {found['cause']} (returns {[round(each) for each in found['ends']]})" for fault, found in missed.items())
    add("planted faults that the first cause names", "%", right, "higher", 80.0, 92.0, **({"note": wrong} if wrong else {}))
    (group,) = Store(place_of("dagger", seeds, rounds, args.seed) / "runs").groups()
    healthy = name_cause(group)
    add(f"false alarms without a fault: its first cause is {healthy}", "%", 100.0 * (healthy in FAULTS), "lower", 2.0, 0.5)
    provenance.write("imitation", rows, provenance.provenance(COMMAND), quick)


if __name__ == "__main__":
    main()
