"""What an expert was asked and what it said, kept apart from what was done: in memory to learn from, and in the run's folder.

    labels/round-0000/   a dataset (rlclinic.datasets): the steps of a round, with the actions that were executed, and beside them
        label            the expert's action; zeros where there is none
        queries          how often it was asked about the step: 0, 1, or 2 where the question was repeated
        answered         whether label is an answer
        by_expert        whether the expert acted
        error            how far the policy was from the label when it was asked, before it learned from it; nan where there is none
        spread           how far two answers were apart; nan where it was asked once
        doubt            how far policies side by side were from each other; 0 with one
    labels/answers.jsonl every answer of an expert that costs something, as it came in: a round that was interrupted takes them from there

Rows lie env by env, step by step; actions and labels are the environment's own. A round's folder is there when all of it is, and a resume
reads those up to its checkpoint.
"""

import hashlib
import json
import shutil
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlclinic.datasets import Dataset, Episode, folder
from rlclinic.errors import CheckpointCorrupt, ConfigError
from rlclinic.runs import disk
from rlclinic.training.data import collection
from rlclinic.training.envs.base import VecEnv
from rlclinic.training.loops import off_policy
from rlclinic.training.loops.off_policy import Learner, Plan, Transitions

LABELS: Final = "labels"
ANSWERS: Final = "answers.jsonl"
BESIDE: Final = ("label", "queries", "answered", "by_expert", "error", "spread", "doubt")


@dataclass
class Labels:
    """A cohort's labels, [M, R, ...]; the first `rows` of R are there."""

    obs: Tensor
    next_obs: Tensor
    action: Tensor
    """What was done, as the env takes it: [M, R] choices or [M, R, K]."""
    label: Tensor
    """What the expert said, in the same units."""
    reward: Tensor
    terminated: Tensor
    queries: Tensor
    """[M, R] uint8."""
    answered: Tensor
    by_expert: Tensor
    error: Tensor
    spread: Tensor
    doubt: Tensor
    round_size: int
    rows: int = 0

    @property
    def rounds(self) -> int:
        return self.rows // self.round_size

    def count_queries(self) -> list[list[int]]:
        """How often each member's expert was asked, round by round."""
        asked: list[list[int]] = self.queries[:, : self.rows].unflatten(1, (-1, self.round_size)).sum(2, dtype=torch.int64).tolist()
        return asked

    def shown(self, plan: Plan, learner: Learner) -> Tensor:
        """The observations so far, as the networks see them."""
        return off_policy.normalize_obs(plan, learner, self.obs[:, : self.rows])


def start(plan: Plan, env: VecEnv, members: int, rounds: int, device: torch.device) -> Labels:
    """Room for the labels of all rounds."""
    size = plan.cycle_size
    rows = (members, size * rounds)
    action = (*rows,) if env.action.kind == "discrete" else (*rows, env.action.sizes[0])
    kind = torch.int64 if env.action.kind == "discrete" else torch.float32

    def empty(*shape: int, dtype: torch.dtype = torch.float32, value: float = 0.0) -> Tensor:
        return torch.full(shape, value, dtype=dtype, device=device)

    return Labels(
        obs=empty(*rows, *env.obs_shape),
        next_obs=empty(*rows, *env.obs_shape),
        action=empty(*action, dtype=kind),
        label=empty(*action, dtype=kind),
        reward=empty(*rows),
        terminated=empty(*rows, dtype=torch.bool),
        queries=empty(*rows, dtype=torch.uint8),
        answered=empty(*rows, dtype=torch.bool),
        by_expert=empty(*rows, dtype=torch.bool),
        error=empty(*rows, value=float("nan")),
        spread=empty(*rows, value=float("nan")),
        doubt=empty(*rows),
        round_size=size,
    )


def by_env(steps: Tensor) -> Tensor:
    """[M, T, N, ...] -> [M, N * T, ...]: the order in which a round is kept."""
    return steps.transpose(1, 2).flatten(1, 2)


def add(labels: Labels, transitions: Transitions, sent: Tensor, told: dict[str, Tensor]) -> None:
    """Take in a round. sent [M, T, N, ...]: what the envs were given; told: what BESIDE names."""
    first, last = labels.rows, labels.rows + labels.round_size
    new = {
        "obs": transitions.obs,
        "next_obs": transitions.next_obs,
        "action": sent,
        "reward": transitions.reward,
        "terminated": transitions.terminated,
        **told,
    }
    for name, values in new.items():
        getattr(labels, name)[:, first:last] = by_env(values)
    labels.rows = last


def write(run: Path, labels: Labels, member: int, transitions: Transitions, env: VecEnv, facts: dict[str, Any]) -> None:
    """The newest round of one member as a dataset in its folder."""
    number, n_envs, steps = labels.rounds - 1, transitions.obs.shape[2], transitions.obs.shape[1]
    place = run / LABELS / f"round-{number:04d}"
    shutil.rmtree(place, ignore_errors=True)
    first = labels.rows - labels.round_size
    ends = (transitions.terminated | transitions.truncated)[member].cpu().numpy()
    spaces = collection.observation_space(env), collection.action_space(env)
    with (
        disk.guarded(place),
        folder.Writer(place, *spaces, source=f"round {number} of {run.name}", facts={"round": number}, **facts) as out,
    ):
        for env_index in range(n_envs):
            # An episode that goes on in the next round is cut where this one ends: its future has a value.
            cuts = [0, *(np.flatnonzero(ends[:, env_index]) + 1).tolist()]
            cuts = cuts if cuts[-1] == steps else [*cuts, steps]
            for begin, end in pairwise(cuts):
                rows = slice(first + env_index * steps + begin, first + env_index * steps + end)
                obs = _numbers(labels.obs, member, rows)
                over = bool(transitions.terminated[member, end - 1, env_index])
                episode = Episode(
                    np.concatenate([obs, _numbers(labels.next_obs, member, slice(rows.stop - 1, rows.stop))]),
                    _numbers(labels.action, member, rows),
                    _numbers(labels.reward, member, rows),
                    over,
                    not over,
                )
                out.add(episode, {name: _numbers(getattr(labels, name), member, rows) for name in BESIDE})


def _numbers(tensor: Tensor, member: int, rows: slice) -> NDArray[Any]:
    return tensor[member, rows].cpu().numpy()


def load(labels: Labels, member: int, run: Path, rounds: int) -> None:
    """Take a member's rounds from a run's folder. CheckpointCorrupt where one is missing or of another shape."""
    for number in range(rounds):
        place = run / LABELS / f"round-{number:04d}"
        rows = slice(number * labels.round_size, (number + 1) * labels.round_size)
        try:
            data = folder.read(place)
            if len(data) != labels.round_size:
                raise ConfigError(f"it has {len(data)} steps, and a round has {labels.round_size}")
            index = np.arange(len(data))
            steps = data.transitions(index)
            labels.obs[member, rows] = _as_tensor(steps.observations, labels.obs)
            labels.next_obs[member, rows] = _as_tensor(steps.next_observations, labels.next_obs)
            labels.action[member, rows] = _as_tensor(steps.actions, labels.action)
            labels.reward[member, rows] = _as_tensor(steps.rewards, labels.reward)
            labels.terminated[member, rows] = _as_tensor(steps.terminated, labels.terminated)
            for name in BESIDE:
                into: Tensor = getattr(labels, name)
                into[member, rows] = _as_tensor(data.beside[name], into)
        except (ConfigError, KeyError, ValueError, RuntimeError) as error:
            raise CheckpointCorrupt(f"the labels of round {number} of {run.name} cannot be read: {error}") from error
    labels.rows = rounds * labels.round_size


def _as_tensor(values: NDArray[Any], like: Tensor) -> Tensor:
    return torch.from_numpy(np.array(values)).to(like.device, like.dtype)


def forget_later(run: Path, rounds: int) -> None:
    """Remove rounds that come after a checkpoint: they are collected again."""
    for place in (run / LABELS).glob("round-*"):
        if place.name.removeprefix("round-").isdigit() and int(place.name.removeprefix("round-")) >= rounds:
            shutil.rmtree(place, ignore_errors=True)


def copy(source: Path, run: Path, rounds: int) -> None:
    """A fork's own copy of its parent's labels."""
    for number in range(rounds):
        name = f"round-{number:04d}"
        if not (run / LABELS / name).exists():
            with disk.guarded(run / LABELS / name):
                shutil.copytree(source / LABELS / name, run / LABELS / name)


def read(run: Path) -> list[Dataset]:
    """The rounds of a run, for whoever looks at it."""
    return [folder.read(place) for place in sorted((run / LABELS).glob("round-*")) if folder.is_dataset(place)]


class Answers:
    """The answers of one run's expert, written down as they come in, so that none is asked for twice.

    A question is its place (round, step, env, which time) and its observation: environments that do not go on exactly after a resume ask
    other questions.
    """

    def __init__(self, run: Path, first_round: int) -> None:
        self.path = run / LABELS / ANSWERS
        self._known: dict[tuple[int, ...], tuple[str, Any]] = {}
        self._asked = Counter[int]()
        for said in disk.read_json_lines(self.path):
            try:
                place = tuple(int(number) for number in said["at"])
                self._asked[place[0]] += 1
                if place[0] >= first_round:
                    self._known[place] = str(said["obs"]), said["action"]
            except (ValueError, KeyError, TypeError, IndexError):
                continue

    def count_queries(self, kept: list[int]) -> int:
        """How often the expert was asked, where so many questions are kept of each round.

        More were asked where a round was interrupted and its environments did not go on as before: those answers are of no use, and paid
        for. Fewer are written down here where a fork took rounds over.
        """
        rounds = {*range(len(kept)), *self._asked}
        return sum(max(kept[number] if number < len(kept) else 0, self._asked[number]) for number in rounds)

    def find(self, place: tuple[int, ...], obs: NDArray[Any]) -> tuple[bool, Any]:
        """Whether this very question was answered before, and how; it is given out once."""
        known = self._known.get(place)
        if known is None or known[0] != digest(obs):
            return False, None
        del self._known[place]
        return True, known[1]

    def add(self, place: tuple[int, ...], obs: NDArray[Any], action: Any) -> None:
        """Write an answer down (None: there was none)."""
        self._known.pop(place, None)
        with disk.guarded(self.path):
            self.path.parent.mkdir(exist_ok=True)
        disk.append_line(self.path, json.dumps({"at": place, "obs": digest(obs), "action": action}))


def digest(obs: NDArray[Any]) -> str:
    """An observation's name in the record of answers."""
    return hashlib.sha256(np.ascontiguousarray(obs).tobytes()).hexdigest()[:16]
