"""Members of a cohort: M runs of one shape that train as one program, each with its own numbers, folder and fate."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from rlclinic.actions import Action
from rlclinic.config import Config, Schedule, kl_adapted, numbers, set_values, value_at
from rlclinic.errors import ConfigError, RunError
from rlclinic.runs import outcome
from rlclinic.runs.export.events import EventFile
from rlclinic.runs.record import Run
from rlclinic.runs.writer import RunWriter
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.nets.mlp import ActorCritic

# A bound that one member sets and another does not is infinite for the other. All unset: the code for it is skipped.
_UNBOUNDED: Final = ("target_kl", "max_grad_norm", "clip_range_vf")


@dataclass
class Member:
    """One run's place in a cohort."""

    run: Run
    config: Config
    writer: RunWriter
    state: str = "running"
    reason: str | None = None
    ended_at: int | None = None
    """The env step at which it left; the rest of the cohort may have gone on."""
    adapted: dict[str, float] = field(default_factory=dict)
    """Present values of KL-adaptive numbers: the one part of a schedule that is not a function of the step."""
    best_eval: float | None = None
    eval_mean: float | None = None
    improved: bool = False
    """Whether the last evaluation was the best so far and is not saved yet."""
    success_rate: float | None = None
    reached_at: int | None = None
    spent: bool = False
    """Whether its expert was asked as often as it may be."""
    eval_env_steps: int = 0
    """Env steps of its evaluations, those before a resume too."""
    switch: dict[str, float] = field(default_factory=dict)
    """The evaluation at which it went from recorded data to the environment, the lowest one before it was regained, and when that was."""
    baseline: dict[str, float] = field(default_factory=dict)
    """What a random policy gets in this run's environment; empty where it could not be measured."""
    events: EventFile | None = None
    """Where TensorBoard reads along, if the config asks for it."""
    interventions: list[dict[str, Any]] = field(default_factory=list)
    """Changes of numbers that are still to come: those that a resume replays."""
    _keyed: tuple[Config, str] | None = None

    @property
    def numbers_key(self) -> str:
        """What the algorithm's numbers are a function of, beside the step: equal for members that differ in nothing but the seed."""
        if self._keyed is None or self._keyed[0] is not self.config:
            self._keyed = self.config, sys.intern(repr((numbers(self.config.algo), self.config.run.max_env_steps)))
        return self._keyed[1]

    @property
    def path(self) -> Path:
        return self.run.path

    @property
    def active(self) -> bool:
        return self.state == "running"

    def end(self, state: str, reason: str | None, env_steps: int) -> None:
        """Leave the cohort: finished, stopped or failed."""
        self.state, self.reason, self.ended_at = state, reason, env_steps
        text = f"{state} at env step {env_steps}" + (f": {reason}" if reason else "")
        try:
            self.writer.log(text)
            # At once, not when the whole cohort is through: who looks now should see that it has ended.
            figures = {"best_eval": self.best_eval, "success_rate": self.success_rate, "threshold_reached_at": self.reached_at}
            self.writer.status(state, env_steps, reason=reason, eval_env_steps=self.eval_env_steps or None, **figures)
        except RunError:
            # The disk that refused a row refuses its last words too; somebody may still read what the process prints.
            print(f"{self.run.id}: {text}", file=sys.stderr)

    def measure_switch(self, env_steps: int, online_from: int) -> None:
        """Take in an evaluation, for the dip when a policy of recorded data begins to learn from what it does itself."""
        assert self.eval_mean is not None
        if env_steps == online_from:
            self.switch = {"switch_return": self.eval_mean, "switch_lowest": self.eval_mean}
        elif self.switch and "switch_regained_at" not in self.switch:
            self.switch["switch_lowest"] = min(self.switch["switch_lowest"], self.eval_mean)
            if self.eval_mean >= self.switch["switch_return"]:
                self.switch["switch_regained_at"] = env_steps

    def describe_switch(self, env_steps: int, online_from: int) -> dict[str, float]:
        """The columns of a row: whether it acts, and the dip as a share of what had been learned above a random policy."""
        found = {"online": float(env_steps > online_from), **self.switch}
        if self.switch:
            before, random = self.switch["switch_return"], self.baseline.get("random_return")
            learned = before - random if random is not None and before > random else abs(before)
            found["switch_dip"] = (before - self.switch["switch_lowest"]) / max(learned, 1e-9)
        return found

    def is_lost(self) -> bool | None:
        """Whether it reached the threshold and lost it again, by the rows that are on disk; None if it never got there."""
        if self.reached_at is None:
            return None
        return outcome.measure_log(self.run.metrics, self.run.goal, "evaluation").lost

    @contextmanager
    def writing(self, env_steps: int) -> Iterator[None]:
        """A disk that refuses inside the block ends this member and leaves the others."""
        try:
            yield
        except RunError as error:
            self.end("failed", str(error), env_steps)

    def intervene(self, env_steps: int, changes: dict[str, Any]) -> None:
        """Change numbers from here on, and write it down first, so that a resume does the same at the same step."""
        try:
            changed = set_values(self.config, [f"{key}={_text(value)}" for key, value in changes.items()])
            self._check_numbers(changed)
        except ConfigError as error:
            self.writer.log(f"a change of numbers was refused: {error}")
            return
        self.writer.intervention({"env_steps": env_steps, "set": changes})
        self._apply(env_steps, changed, changes)

    def replay(self, env_steps: int) -> None:
        """Apply the recorded changes that took effect at this step."""
        while self.interventions and self.interventions[0]["env_steps"] <= env_steps:
            changes = self.interventions.pop(0)["set"]
            self._apply(env_steps, set_values(self.config, [f"{key}={_text(value)}" for key, value in changes.items()]), changes)

    def _apply(self, env_steps: int, config: Config, changes: dict[str, Any]) -> None:
        self.config = config
        for key in changes:
            self.adapted.pop(key.rpartition(".")[2], None)
        self.writer.log(f"from env step {env_steps}: " + ", ".join(f"{key} = {_text(value)}" for key, value in changes.items()))

    def _check_numbers(self, config: Config) -> None:
        """Only numbers may change while a run is running: a shape would need another program."""
        for part in ("env", "net", "data", "bonus", "cost", "curriculum", "run", "spec"):
            if getattr(config, part) != getattr(self.config, part):
                raise ConfigError(
                    f"{part}.* cannot change while a run is running: it is not a number of the algorithm.\n  Fork the run instead: ",
                    Action("train", f"{self.run.id}@STEP", set="…"),
                )
        fixed = set(type(config.algo).model_fields) - set(numbers(config.algo))
        for name in sorted(fixed):
            if getattr(config.algo, name) != getattr(self.config.algo, name, None):
                raise ConfigError(
                    f"algo.{name} cannot change while a run is running: it decides the program's shape.\n  Fork the run instead: ",
                    Action("train", f"{self.run.id}@STEP", set=f"algo.{name}=…"),
                )


def _text(value: Any) -> str:
    import json

    return value if isinstance(value, str) else json.dumps(value)


def current_numbers(member: Member, env_steps: int) -> dict[str, float | None]:
    """Every number of a member's algorithm as it stands at this step."""
    budget = member.config.run.max_env_steps
    found: dict[str, float | None] = {}
    for name, number in numbers(member.config.algo).items():
        if number is None:
            found[name] = None
        elif name in member.adapted and isinstance(number, Schedule) and value_at(number, env_steps, budget) == number.start:
            found[name] = member.adapted[name]  # past its warm-up, a KL-adaptive number is what it has become
        else:
            found[name] = value_at(number, env_steps, budget)
    return found


def adapt(member: Member, kl: float) -> None:
    """Let KL-adaptive numbers react to the update's KL."""
    for name, number in numbers(member.config.algo).items():
        if isinstance(number, Schedule) and number.schedule == "kl_adaptive":
            member.adapted[name] = kl_adapted(number, member.adapted.get(name, number.start), kl)


def hyperparameters(members: list[Member], env_steps: int, policy: ActorCritic, device: torch.device) -> Hyperparameters:
    """All numbers as [M, 1] tensors, and `step_size`: the learning rate, per parameter where the critic has its own."""
    return from_numbers(_together(members, env_steps), policy, device)


def from_numbers(per_member: list[dict[str, float | None]], policy: ActorCritic, device: torch.device) -> Hyperparameters:
    """The same from every member's numbers by name."""
    hp = _as_tensors(per_member, device)
    hp.pays_entropy = any(each["ent_coef"] for each in hp.per_member)
    hp.shortens_traces = any(each.get("gae_lambda", 1.0) != 1.0 for each in hp.per_member)
    hp.step_size = hp.learning_rate
    if hp.value_lr is not None:
        hp.step_size = hp.learning_rate.repeat(1, policy.layout.width)
        for name in policy.critic_names():
            first, last = policy.layout.span(name)
            hp.step_size[:, first:last] = hp.value_lr
    return hp


def _together(members: list[Member], env_steps: int) -> list[dict[str, float | None]]:
    """Every member's numbers. Members that differ in nothing but the seed have the same ones: a thousand of them, worked out once."""
    found: dict[tuple[Any, ...], dict[str, float | None]] = {}
    keys = [(member.numbers_key, *member.adapted.items()) for member in members]
    for key, member in zip(keys, members, strict=True):
        if key not in found:
            found[key] = current_numbers(member, env_steps)
    return [found[key] for key in keys]


def _as_tensors(per_member: list[dict[str, float | None]], device: torch.device) -> Hyperparameters:
    """Numbers by name as [M, 1]. Worked out once for members with the same ones, and sent to a GPU in one copy that nobody waits for."""
    hp = Hyperparameters(target_kl=None, clip_range_vf=None, value_lr=None, per_member=per_member)
    distinct = {id(each): each for each in per_member}
    names, table = [], []
    for name in per_member[0]:
        values = [each[name] for each in distinct.values()]
        if all(value is None for value in values):
            setattr(hp, name, None)
            continue
        if name == "value_lr":
            pairs = zip(values, distinct.values(), strict=True)
            values = [each["learning_rate"] if value is None else value for value, each in pairs]
        elif name in _UNBOUNDED:
            values = [float("inf") if value is None else value for value in values]
        names.append(name)
        # Any other number that is unset says so itself: it is not a number.
        table.append([float("nan") if value is None else value for value in values])
    place = {key: index for index, key in enumerate(distinct)}
    found = torch.tensor(table, dtype=torch.float32)[:, [place[id(each)] for each in per_member]]  # [K, M]
    if device.type == "cuda":
        found = found.pin_memory().to(device, non_blocking=True)
    for name, column in zip(names, found.unsqueeze(-1).unbind(0), strict=True):
        setattr(hp, name, column)
    return hp


def replay_numbers(members: list[Member], env_steps: int, action_size: int, device: torch.device) -> Hyperparameters:
    """All numbers of an algorithm with a replay as [M, 1] tensors, with epsilon and the target entropy worked out."""
    per_member = [current_numbers(member, env_steps) for member in members]
    for member, found in zip(members, per_member, strict=True):
        if "exploration_fraction" in found:
            found["epsilon"] = _epsilon(found, env_steps / member.config.run.max_env_steps)
        if "target_entropy" in found and found["target_entropy"] is None:
            found["target_entropy"] = -float(action_size)
    hp = _as_tensors(per_member, device)
    hp.learns_temperature = any(each.get("ent_coef") is None for each in per_member)
    hp.going = None if all(member.active for member in members) else [member.active for member in members]
    return hp


def _epsilon(found: dict[str, float | None], progress: float) -> float:
    """The share of random actions: its own schedule, or SB3's straight line from the initial to the final value."""
    own = found["exploration_eps"]
    if own is not None:
        return own
    start, end, fraction = (found[f"exploration_{name}"] or 0.0 for name in ("initial_eps", "final_eps", "fraction"))
    return end if progress >= fraction else start + (end - start) * progress / fraction


def one(hp: Hyperparameters, index: int) -> Hyperparameters:
    """The numbers of one member, still [1, 1]."""
    return Hyperparameters(**{name: value[index : index + 1] if isinstance(value, Tensor) else value for name, value in vars(hp).items()})


def adaptive(members: list[Member]) -> bool:
    """Whether some number follows the updates' KL, so that every update must be looked at before the next."""
    return any("schedule='kl_adaptive'" in key for key in {member.numbers_key for member in members})


def active_mask(members: list[Member], device: torch.device) -> Tensor:
    """[M, 1]: who still trains."""
    mask = torch.tensor([[member.active] for member in members])
    return mask if device.type == "cpu" else mask.pin_memory().to(device, non_blocking=True)
