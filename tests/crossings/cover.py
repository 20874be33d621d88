"""Configs that cross every two features with each other, and what must hold for each of them.

`cover` yields small runs until every two levels of any two features have been together in one that trains, or were refused. The test
takes the first few; `python -m tests.crossings.cover FOLDER` goes through all of them.
"""

import argparse
import itertools
import json
import math
import random
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from typer.testing import CliRunner

from rlclinic.config import Config
from rlclinic.errors import ConfigError, RlclinicError
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.serve.cli.app import app as command_line
from rlclinic.training.__main__ import train_runs
from tests.crossings import environment
from tests.training.cohorts import ALGOS, REPLAY, TABLES, Interrupted, assert_same_run, interrupt_at, saved, table, train
from tests.training.imitation.test_adversarial import demonstrations
from tests.training.recordings import OFFLINE, ONLINE, data_of

Row = dict[str, str]
"""The level of every feature."""
Settings = dict[str, dict[str, Any]]

_OWN = f"{environment.__name__}:{environment.Crossed.__name__}"
_LINEAR: Final = {"start": 3e-3, "end": 0.0, "warmup": 0.2}


def _own(obs: str = "vector", action: str = "choice", masked: bool = False, **more: Any) -> dict[str, Any]:
    kwargs = {"obs": obs, "action": action, **({"masked": True} if masked else {})}
    return {"id": _OWN, "kwargs": kwargs, "action_mask": masked, **more}


def _vector(mode: str, action: str) -> dict[str, Any]:
    return {"id": "CrossedVector", "kwargs": {"mode": mode, "action": action}}


def _algorithms() -> dict[str, Settings]:
    found = {kind: {"algo": settings} for kind, settings in (ALGOS | REPLAY | TABLES).items()}
    for kind, (task, settings) in (OFFLINE | ONLINE).items():
        online = {"then_online": True, "offline_steps": 100} if kind in ONLINE else {}
        found[kind] = {"algo": settings, "data": {"path": data_of(task), "holdout": 0.1, **online}}
    small = {"n_steps": 16, "batch_size": 16, "n_epochs": 2, "reward_steps": 2, "reward_batch_size": 8, "reward_hidden": [6]}
    found["gail"] = {"algo": {"name": "gail", **small}, "data": {"path": demonstrations("discrete")}}
    found["airl"] = {"algo": {"name": "airl", **small}, "data": {"path": demonstrations("box")}}
    expert = f"{Path(__file__).parents[1] / 'training' / 'imitation' / 'expert.py'}:pendulum"
    rounds = {"expert": expert, "train_freq": 12, "gradient_steps": 6, "n_epochs": 2, "batch_size": 8}
    found["dagger"] = {"algo": {"name": "dagger", **rounds}}
    found["ensemble_dagger"] = {"algo": {"name": "ensemble_dagger", "ensemble": 2, "doubt": 0.02, **rounds}}
    return found


FEATURES: dict[str, dict[str, Settings]] = {
    "algorithm": _algorithms(),
    "task": {
        "CartPole": {"env": {"id": "CartPole-v1", "max_episode_steps": 20}},
        "Pendulum": {"env": {"id": "Pendulum-v1", "max_episode_steps": 10}},
        "FrozenLake": {"env": {"id": "FrozenLake-v1", "max_episode_steps": 20}},
        "masked Taxi": {"env": {"id": "Taxi-v3", "action_mask": True, "max_episode_steps": 20}},
        "Acrobot": {"env": {"id": "Acrobot-v1", "max_episode_steps": 15}},
        "CartPole of Gymnasium": {"env": {"id": "CartPole-v1", "native": "never"}},
        "Pendulum of Gymnasium": {"env": {"id": "Pendulum-v1", "native": "never", "max_episode_steps": 10}},
        "own": {"env": _own()},
        "own, box": {"env": _own(action="box")},
        "own, masked": {"env": _own(masked=True)},
        "own, masked choices": {"env": _own(action="choices", masked=True)},
        "own, later choice": {"env": _own(action="later choice")},
        "own, switches": {"env": _own(action="switches")},
        "own, doubles": {"env": _own(obs="doubles", action="box")},
        "own, state": {"env": _own(obs="state")},
        "own, states": {"env": _own(obs="states", action="box")},
        "own, bits": {"env": _own(obs="bits")},
        "own, dict": {"env": _own(obs="dict")},
        "own, dict and box": {"env": _own(obs="dict", action="box")},
        "own, image": {"env": _own(obs="image")},
        "own, image and box": {"env": _own(obs="image and numbers", action="box")},
        "NEXT_STEP": {"env": _vector("NEXT_STEP", "choice")},
        "NEXT_STEP, box": {"env": _vector("NEXT_STEP", "box")},
        "SAME_STEP": {"env": _vector("SAME_STEP", "choice")},
        "DISABLED": {"env": _vector("DISABLED", "box")},
    },
    "copies": {"2": {"env": {"n_envs": 2}}, "1": {"env": {"n_envs": 1}}, "3": {"env": {"n_envs": 3}}},
    "wrapping": {
        "bare": {},
        "stacked": {"env": {"frame_stack": 2}},
        "timed": {"env": {"time_in_obs": True}},
        "limited": {"env": {"max_episode_steps": 3}},
        "stacked and timed": {"env": {"frame_stack": 3, "time_in_obs": True}},
        "wrapped": {"env": {"wrappers": [{"id": "gymnasium.wrappers:ClipReward", "kwargs": {"min_reward": -1.0, "max_reward": 0.9}}]}},
    },
    "normalizers": {
        "none": {},
        "obs": {"env": {"normalize_obs": True}},
        "reward": {"env": {"normalize_reward": True}},
        "both": {"env": {"normalize_obs": True, "normalize_reward": True, "clip_obs": 2.0, "clip_reward": 1.0}},
    },
    "rewards": {
        "raw": {},
        "clipped": {"env": {"clip_raw_reward": 0.3}},
        "turned": {"env": {"reward_scale": -2.0}},
        "shifted": {"env": {"train_reward_scale": 0.5, "train_reward_shift": -0.1}},
    },
    "workers": {"0": {}, "2": {"env": {"workers": 1}}},
    "reports": {
        "none": {},
        "info": {"env": {"log_info": ["progress"]}},
        "advantages of terms": {"env": {"term_advantages": True}},
        "weights of terms": {"env": {"term_weights": {"half": 3.0}}},
    },
    "network": {
        "plain": {"net": {"hidden": [8, 6]}},
        "shared": {"net": {"hidden": [8], "shared": True}},
        "normed": {"net": {"hidden": [8], "layer_norm": True, "activation": "relu"}},
        "linear": {"net": {"hidden": []}},
        "own deviation": {"net": {"hidden": [8], "state_dependent_std": True, "critic_hidden": [6, 4], "activation": "elu"}},
    },
    "optimizer": {
        "usual": {},
        "lamb": {"algo": {"optimizer": "lamb", "weight_decay": 1e-3}},
        "sgd": {"algo": {"optimizer": "sgd", "momentum": 0.9}},
        "adamw": {"algo": {"optimizer": "adamw", "weight_decay": 1e-2}},
        "rmsprop": {"algo": {"optimizer": "rmsprop"}},
    },
    "rate": {
        "constant": {},
        "linear": {"algo": {"learning_rate": _LINEAR}},
        "steered": {"algo": {"learning_rate": {"schedule": "kl_adaptive", "start": 1e-3}}},
        "points": {"algo": {"learning_rate": {"schedule": "piecewise", "points": [[0, 1e-3], [0.5, 1e-4], [0.5, 3e-3]]}}},
        "own for values": {"algo": {"value_lr": 1e-3}},
        "none": {"algo": {"learning_rate": 0.0}},
    },
    "extra": {
        "none": {},
        "n_step": {"algo": {"n_step": 3}},
        "prioritized": {"algo": {"prioritized": True, "priority_beta": 0.5}},
        "saving": {"algo": {"optimize_memory_usage": True}},
        "averaged": {"algo": {"policy_average": 5}},
        "target_kl": {"algo": {"target_kl": 1e-3}},
        "vtrace": {"algo": {"advantage": "vtrace", "rho_clip": 1.5}},
        "segments": {"algo": {"segment_length": 8}},
        "whole rollouts": {"algo": {"normalize_advantage": "rollout", "batch_size": 1.0}},
        "clipped values": {"algo": {"clip_range_vf": 0.2, "ent_coef": {"start": 0.01, "end": 0.0}}},
        "clipped gradients": {"algo": {"max_grad_norm": 0.05}},
        "small replay": {"algo": {"buffer_size": 37}},
    },
    "gamma": {
        "usual": {},
        "0": {"algo": {"gamma": 0.0}},
        "1": {"algo": {"gamma": 1.0}},
        "rising": {"algo": {"gamma": {"start": 0.8, "end": 0.99}}},
    },
    "engine": {"eager": {}, "reference": {"run": {"engine": "reference"}}, "autograd": {"run": {"engine": "autograd"}}},
    "bonus": {
        "none": {},
        **{kind: {"bonus": {"kind": kind}} for kind in ("count", "episodic_count", "rnd", "noveld", "icm")},
        "shared": {"bonus": {"kind": "count", "value_head": "shared", "until": "first_success"}},
        "own and episodic": {"bonus": {"kind": "rnd", "value_head": "own", "episodic": True}},
    },
    "cost": {"none": {}, "limit": {"cost": {"limit": 1.0}}, "free": {"cost": {"limit": 1e6, "multiplier": 0.5}}},
    "curriculum": {
        "none": {},
        "stages": {
            "curriculum": {
                "stages": [{"name": "short", "env": {"length": 2}, "min_episodes": 5}, {"name": "long", "env": {"length": 5}}],
                "window": 20,
                "eval_episodes": 1,
            }
        },
        "uniform": {"curriculum": {"kind": "uniform", "parameter": "length", "values": [2, 5], "eval_episodes": 2}},
        "learnability": {"curriculum": {"kind": "learnability", "levels": 3}},
        "plr": {"curriculum": {"kind": "plr", "parameter": "length", "range": [2, 6], "bins": 3, "eval_episodes": 0}},
        "alp_gmm": {"curriculum": {"kind": "alp_gmm", "parameter": "length", "range": [2, 6], "bins": 3, "success_return": 0.5}},
    },
    "evaluation": {
        "end": {"run": {"eval_episodes": 2}},
        "often": {"run": {"eval_episodes": 3, "eval_every_env_steps": 50}},
        "sampled": {"run": {"eval_episodes": 2, "eval_every_env_steps": 90, "eval_deterministic": False}},
        "never": {"run": {"eval_episodes": 0}},
    },
    "records": {
        "none": {},
        "films": {"run": {"film_every_env_steps": 100}},
        "histograms": {"run": {"histograms_every_env_steps": 60}},
        "events": {"run": {"tensorboard": True}},
    },
    "goal": {
        "unknown": {},
        "far": {"spec": {"threshold": 1e6, "return_range": [-10, 2e6]}},
        "near": {"spec": {"threshold": -1e6}},
        "stops": {"spec": {"threshold": -1e6}, "run": {"stop_at_threshold": True}},
        "success": {"spec": {"success": 0.5}},
    },
    "saving": {"often": {"run": {"checkpoint_every_env_steps": 40}}, "seldom": {}, "no replay": {"run": {"save_replay": False}}},
}
"""What can be set, by feature and level; the first level of each is the usual one."""
NATIVE: Final = {"CartPole", "Pendulum", "FrozenLake", "masked Taxi", "Acrobot"}
"""Tasks whose environments are restored bit for bit."""
_TASK_OF: Final = {"td3": "Pendulum", "ddpg": "Pendulum", "sac": "Pendulum", "sac with a fixed temperature": "Pendulum", "airl": "Pendulum"}


def usual_task(algorithm: str) -> str:
    """A task that suits an algorithm."""
    if algorithm in OFFLINE | ONLINE:
        return "Pendulum" if (OFFLINE | ONLINE)[algorithm][0] == "box" else "CartPole"
    return "FrozenLake" if algorithm in TABLES else "Pendulum" if "dagger" in algorithm else _TASK_OF.get(algorithm, "CartPole")


def make_config(row: Row, seed: int = 0, **changes: dict[str, Any]) -> Config:
    """The config of a row; later features change what earlier ones say, `changes` come last."""
    algorithm = row["algorithm"]
    on_policy = algorithm in ALGOS or algorithm in ("gail", "airl")
    steps = 96 if "dagger" in algorithm else 300 if not on_policy or algorithm == "a2c" else 144
    sections: Settings = {"run": {"max_env_steps": steps}}
    for part in [*(FEATURES[name][level] for name, level in row.items()), changes]:
        for section, settings in part.items():
            sections[section] = {**sections.get(section, {}), **settings}
    return Config(**sections, seed=seed)  # type: ignore[arg-type]


def factory_of(row: Row) -> Callable[..., Any] | None:
    return environment.CrossedVector if "_STEP" in row["task"] or row["task"] == "DISABLED" else None


# ── covering every two levels ──

_OTHERS: Final = (1.0, 0.4, 0.4, 0.0)
"""The share of the other features that are drawn, by how often the pair was refused."""
_REPORTED: Final = ("cost", "curriculum", "reports")

Pair = frozenset[tuple[str, str]]


def pairs_of(row: Row) -> set[Pair]:
    return {frozenset(two) for two in itertools.combinations(row.items(), 2)}


def all_pairs() -> list[Pair]:
    levels = [[(name, level) for level in FEATURES[name]] for name in FEATURES]
    return [frozenset(two) for one, other in itertools.combinations(levels, 2) for two in itertools.product(one, other)]


def is_config(row: Row) -> bool:
    """Whether a config says nothing against it; what only an environment can tell is found out by training."""
    try:
        make_config(row)
    except ConfigError:
        return False
    return True


class Cover:
    """Rows until every pair was in one that trained, or could not be."""

    def __init__(self, seed: int, candidates: int = 12) -> None:
        self.draw, self.candidates = random.Random(seed), candidates
        self.missing = all_pairs()
        self.draw.shuffle(self.missing)
        self.refused: set[Pair] = set()
        self.covered: set[Pair] = set()
        self.tries: dict[Pair, int] = {}

    def rows(self) -> Iterator[Row]:
        """Tell with `trained` or `refuse` what became of each."""
        while self.missing:
            pair = self.missing[-1]
            tried = self.tries.get(pair, 0)
            made = [row for row in (self._complete(pair, tried) for _ in range(self.candidates)) if row is not None]
            if not made:
                self._give_up(pair)
                continue
            yield max(made, key=lambda row: len(pairs_of(row) - self.covered))

    def trained(self, row: Row) -> None:
        self.covered |= pairs_of(row)
        self.missing = [pair for pair in self.missing if pair not in self.covered]

    def refuse(self, pair: Pair) -> None:
        """It may be another feature of the row that does not suit: it is tried again with fewer, and at last alone."""
        self.tries[pair] = self.tries.get(pair, 0) + 1
        if self.tries[pair] >= len(_OTHERS):
            self._give_up(pair)

    def _give_up(self, pair: Pair) -> None:
        self.refused.add(pair)
        self.missing = [other for other in self.missing if other != pair]

    def _complete(self, pair: Pair, tried: int) -> Row | None:
        """A row with this pair: the usual levels, then as many others as the config puts up with, in any order."""
        fixed = dict(pair)
        algorithm = fixed.get("algorithm") or self._suitable(fixed)
        if algorithm is None:
            return None
        usual = {name: next(iter(levels)) for name, levels in FEATURES.items()}
        task = usual_task(algorithm)
        # What only an environment of our own reports, or has as an argument.
        if any(fixed.get(name, "none") != "none" for name in _REPORTED):
            task = "own, state" if algorithm in TABLES else "own, box" if task == "Pendulum" else "own"
        row = {**usual, "algorithm": algorithm, "task": task, **fixed}
        if not is_config(row):
            return None
        free = [name for name in FEATURES if name not in (*fixed, "algorithm", "task")]
        if not row["task"].startswith("own"):
            free = [name for name in free if name not in _REPORTED]
        for name in self.draw.sample(free, round(len(free) * _OTHERS[tried])):
            if name not in fixed:
                other = {**row, name: self.draw.choice(list(FEATURES[name]))}
                if is_config(other):
                    row = other
        return row

    def _suitable(self, fixed: dict[str, str]) -> str | None:
        """An algorithm that has these settings."""
        usual = {name: next(iter(levels)) for name, levels in FEATURES.items()}
        box = any(word in fixed.get("task", "") for word in ("box", "Pendulum", "doubles", "states", "DISABLED"))
        for algorithm in self.draw.sample(list(FEATURES["algorithm"]), len(FEATURES["algorithm"])):
            fits = "task" not in fixed or (usual_task(algorithm) == "Pendulum") == box or algorithm in ALGOS
            if fits and is_config({**usual, "algorithm": algorithm, "task": usual_task(algorithm), **fixed}):
                return algorithm
        return None


# ── what must hold ──

FILLED: Final = {
    "bonus": "train/bonus/share",
    "cost": "train/cost/multiplier",
    "curriculum": "train/curriculum/stage",
    "reports": "train/info/progress/mean",
}
"""A column that a feature fills wherever it is on."""


class Refused(Exception):
    """The row was refused before anything was trained, with a reason."""


@dataclass
class Checked:
    """One row under all invariants."""

    row: Row
    folder: Path
    alarms: list[str] = field(default_factory=list)
    """Findings that were called severe."""

    def run(self, **changes: dict[str, Any]) -> Run:
        return self._train([make_config(self.row, **changes)])[0]

    def _train(self, configs: list[Config], **options: Any) -> list[Run]:
        return train(self.folder, configs, factory=factory_of(self.row), **options)

    @property
    def exact(self) -> bool:
        """Whether a resume must repeat every bit: native environments, and a replay that is kept."""
        keeps = self.row["saving"] != "no replay" or not hasattr(make_config(self.row).algo, "buffer_size")
        return self.row["task"] in NATIVE and self.row["workers"] == "0" and self.row["wrapping"] != "wrapped" and keeps

    def check(self) -> None:
        try:
            alone = self.run()
        except RlclinicError as error:
            raise Refused(str(error)) from None
        assert alone.status.state == "finished", f"{alone.status.state}: {alone.status.reason}"
        self.check_table(alone)
        self.check_cohort(alone)
        self.check_unobserved(alone)
        self.check_resume(alone)
        self.check_commands(alone)

    def judge(self) -> tuple[str, str]:
        """trained, refused or failed; and why."""
        try:
            self.check()
        except Refused as error:
            return "refused", str(error)
        except Exception:  # noqa: BLE001 - whatever it is, the next row is looked at
            return "failed", traceback.format_exc()
        return "trained", ""

    def check_table(self, run: Run) -> None:
        rows = table(run)
        assert rows, "no rows"
        steps = [int(row["total_timesteps"]) for row in rows]
        assert steps == sorted(set(steps)), f"steps {steps}"
        for row in rows:
            for name, cell in row.items():
                assert cell is not None, f"{name} is missing at {row['total_timesteps']}"
                assert cell == "" or math.isfinite(float(cell)), f"{name}={cell} at {row['total_timesteps']}"
        for name, column in FILLED.items():
            if self.row[name] != "none" and not (name == "reports" and self.row["reports"] != "info"):
                assert any(row.get(column) for row in rows), f"{column} stays blank: {name} is on and does nothing"

    def check_cohort(self, alone: Run) -> None:
        together = self._train([make_config(self.row, seed) for seed in (1, 0)])
        assert_same_run(alone, together[1])

    def check_unobserved(self, alone: Run) -> None:
        """Evaluations, films, histograms and events change nothing of what is learned."""
        quiet = {"film_every_env_steps": None, "histograms_every_env_steps": None, "tensorboard": False, "stop_at_threshold": False}
        if make_config(self.row).run.stop_at_threshold:
            return
        every = make_config(self.row).run.checkpoint_every_env_steps or 40
        unseen = self.run(run={**quiet, "eval_episodes": 0, "checkpoint_every_env_steps": every})
        assert saved(unseen)["policy.safetensors"] == saved(alone)["policy.safetensors"], "being watched changed what was learned"

    def check_resume(self, alone: Run) -> None:
        steps = [int(row["total_timesteps"]) for row in table(alone)]
        if len(steps) < 2:
            return
        cut = Store(self.folder / "runs").create_group([make_config(self.row)]).runs[0]
        with suppress(Interrupted):
            train_runs([cut], factory=factory_of(self.row), callback=interrupt_at(steps[-1]))
        # Forked first: a replay is kept with the newest checkpoint alone.
        if checkpoints := Run(cut.path).checkpoints:
            fork = self._train([make_config(self.row)], parent=f"{cut.id}@{checkpoints[-1].step}", start="fork")[0]
            assert fork.status.state == "finished", f"forked: {fork.status.state}: {fork.status.reason}"
            if self.exact:
                assert saved(fork) == saved(alone), "a fork without a change went elsewhere"
        train_runs([Run(cut.path)], factory=factory_of(self.row), resume=True)
        again = Run(cut.path)
        assert again.status.state == "finished", f"resumed: {again.status.state}: {again.status.reason}"
        if self.exact:
            assert_same_run(alone, again)

    def check_commands(self, run: Run) -> None:
        """Every command that reads a run works on this one."""
        group = run.id.split("-s")[0]
        says = json.loads(self.command("diagnose", run.id, "--json"))
        self.alarms = [finding["rule"] for finding in says["diagnosis"]["findings"] if finding["severity"] == "high"]
        # Settings that are crossed are often faults by themselves. What was saved is whole all the same: CKP110 is left out, as a state
        # that was met once lies far off the mean of few rows.
        broken = [rule for rule in self.alarms if rule.startswith("CKP") and rule != "CKP110"]
        assert not broken or self.row["rate"] == "none", f"{broken} on a sound checkpoint"
        json.loads(self.command("status", run.id, "--json"))
        json.loads(self.command("runs", "show", run.id, "--json"))
        json.loads(self.command("runs", "table", "--of", "runs", "--json"))
        self.command("runs", "metrics", run.id)
        self.command("compare", run.id, group)
        self.command("runs", "export", run.id, "--out", str(self.folder / "export.html"))
        if factory_of(self.row) is None and run.checkpoints:
            shown = json.loads(self.command("evaluate", f"{run.id}/@last", "-n", "2", "--json"))
            again = json.loads(self.command("evaluate", f"{run.id}/@last", "-n", "2", "--json"))
            assert shown == again, "two evaluations of one policy differ"
            at_end = table(run)[-1]["val/roll/ep_rew_mean"]
            if at_end and make_config(self.row).run.eval_deterministic and make_config(self.row).run.eval_episodes == 2:
                assert math.isclose(shown["return_mean"], float(at_end), rel_tol=1e-4), f"{shown['return_mean']} is not {at_end}"

    def command(self, *words: str, may_exit: tuple[int, ...] = (0,)) -> str:
        result = CliRunner().invoke(command_line, [*words, "--runs-dir", str(self.folder / "runs")])
        if result.exit_code not in may_exit:
            reason = "".join(traceback.format_exception(result.exception)) if result.exception else ""
            raise AssertionError(f"rlclinic {' '.join(words)}: exit {result.exit_code}\n{result.output}\n{reason}")
        return result.stdout


def go_through(folder: Path, seed: int, seconds: float) -> list[dict[str, Any]]:
    """Rows of a cover until it is whole or the time is up, kept in a file from which the next call goes on; those of this call."""
    folder.mkdir(parents=True, exist_ok=True)
    kept, cover, told = folder / f"rows-{seed}.jsonl", Cover(seed), []
    before = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    for each in before:
        cover.refuse(frozenset(map(tuple, each["pair"]))) if each["outcome"] == "refused" else cover.trained(each["row"])
    end = time.monotonic() + seconds
    for number, row in enumerate(cover.rows(), len(before)):
        if time.monotonic() > end:
            break
        pair, began = cover.missing[-1], time.process_time()
        checked = Checked(row, folder / f"row-{seed}-{number}")
        outcome, why = checked.judge()
        cover.refuse(pair) if outcome == "refused" else cover.trained(row)
        shutil.rmtree(checked.folder, ignore_errors=True)
        told.append({"row": row, "outcome": outcome, "why": why, "pair": sorted(pair), "alarms": checked.alarms})
        told[-1]["seconds"] = round(time.process_time() - began, 2)
        with kept.open("a") as file:
            file.write(json.dumps(told[-1]) + "\n")
        if outcome == "failed":
            print(f"\n#{number} {unusual(row)}\n{why[-1500:]}", flush=True)
    print(f"missing {len(cover.missing)}, covered {len(cover.covered)}, refused {len(cover.refused)}, rows {len(before) + len(told)}")
    return told


def unusual(row: Row) -> Row:
    """What of a row is not the usual."""
    return {name: level for name, level in row.items() if level != next(iter(FEATURES[name]))}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=800)
    asked = parser.parse_args()
    return int(any(each["outcome"] == "failed" for each in go_through(asked.folder, asked.seed, asked.seconds)))


if __name__ == "__main__":
    sys.exit(main())
