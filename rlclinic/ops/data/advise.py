"""Which way suits recorded data, from what is measured on it and on its simulator. Imports torch when it has to."""

import importlib.util
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from rlclinic import references, trust
from rlclinic.actions import Action
from rlclinic.config import files, load
from rlclinic.datasets import Dataset, advice, quality
from rlclinic.datasets.advice import Option, Situation
from rlclinic.datasets.formats import find, read
from rlclinic.errors import RlclinicError
from rlclinic.ops.data.check import describe
from rlclinic.ops.data.requests import AdviseRequest
from rlclinic.report.models import DataAdvice, DataLack, DataReason, DataWay

if TYPE_CHECKING:
    from rlclinic.config import Config

PLAY_SECONDS: Final = 2.0
"""How long the environment is played at random."""
COPIES: Final = 8
MOST_JUDGED: Final = 200_000
"""Transitions from which fitted Q evaluation learns; of more, whole episodes evenly spread."""
FAST: Final = 3_000.0
"""Env steps a second above which an algorithm that throws its data away is the simplest choice."""
GAMMA: Final = 0.99
SEEDS: Final = 4


@dataclass(frozen=True)
class _Simulator:
    """The environment, as far as it could be played."""

    steps_per_second: float
    returns: tuple[float, ...]
    """Of episodes at random."""


def advise(request: AdviseRequest) -> DataAdvice:
    """Rank the four ways for this data, with the commands that go them and that would settle it."""
    path = find(request.data)
    data = read(path)
    if request.env is not None:
        # Of ENV:VARIANT the environment: which algorithm suits is the question.
        request = request.model_copy(update={"env": load(request.env).config.env.id})
    notes: list[str] = []
    name = request.env or data.env_id
    config = _find_config(name) if name is not None else None
    simulator = None if request.env is None else _play(data, request, notes)
    situation = _measure(data, request, config, simulator, notes)
    report = describe(path, data, situation.quality)
    errors = [finding for finding in situation.quality.findings if finding.level == "error"]
    if errors:
        return DataAdvice(data=str(path), env=name, verdict="repair", report=report, notes=[finding.do for finding in errors])
    ranked = advice.rank(situation)
    suits = ranked[0].impossible is None and ranked[0].points > 0
    ways = [_describe(option, situation, data, str(path), name or "ENV", simulator) for option in ranked]
    lacks = [] if suits else advice.find_lacks(situation)
    return DataAdvice(
        data=str(path),
        env=name,
        verdict=ranked[0].way if suits else "collect",
        ways=ways,
        lacks=[
            DataLack(what=lack.what, collect=lack.collect, command=Action("data collect", "RUN", episodes=lack.episodes, noise=lack.noise))
            for lack in lacks
        ],
        settle=_settle([way for way in ways if way.impossible is None]) if suits else [],
        report=report,
        notes=notes,
    )


def _find_config(env: str) -> "Config | None":
    """What the environment's file says of it; None for data of an environment that is not known here."""
    try:
        return load(env).config
    except RlclinicError:
        return None


def _play(data: Dataset, request: AdviseRequest, notes: list[str]) -> _Simulator | None:
    """Play the environment at random for a while; None, with a note, where it cannot be made here. A wrong name is an error."""
    config = load(str(request.env)).config
    files.check_environment(config.env.id)
    trust.approve(*trust.names_in(config.env))
    if importlib.util.find_spec("torch") is None:
        notes.append('the simulator was not measured: that needs pip install "rlclinic[train]"')
        return None
    from rlclinic.training import envs
    from rlclinic.training.data import collection, recorded

    try:
        env = envs.make(config.env, [request.seed], COPIES)
    except RlclinicError as error:
        notes.append(f"{config.env.id} cannot be made here: {str(error).splitlines()[0]}")
        return None
    try:
        recorded.check_fit(data, env, config.env.id)
        speed, returns = collection.measure_random(env, PLAY_SECONDS, request.seed)
    finally:
        env.close()
    return _Simulator(speed, tuple(returns))


def _measure(data: Dataset, request: AdviseRequest, config: "Config | None", simulator: _Simulator | None, notes: list[str]) -> Situation:
    """All that is known, each number measured or given."""
    threshold = None if config is None else config.spec.threshold
    good = threshold if request.good_return is None else request.good_return
    played = np.array(simulator.returns) if simulator is not None and simulator.returns else None
    random = request.random_return if request.random_return is not None or played is None else float(played.mean())
    deviation = None if played is None or not played.std() > 0 else float(played.std())
    known = random is not None and good is not None and good != random
    reference = quality.Reference(random, good) if known and random is not None and good is not None else None
    examined = quality.examine(data, reference, request.seed)
    if good is None:
        notes.append("what a good return is, is not known: name it, and the data's quality is measured by it")
    elif random is None:
        notes.append("what acting at random returns is not known: it is measured where the environment can be acted in")
    damaged = any(finding.level == "error" for finding in examined.findings)
    mixture, start = (None, None) if damaged else advice.measure_returns(data)
    online = None if simulator is None or request.env is None else _choose_online(request.env, data, simulator.steps_per_second)
    situation = Situation(
        examined,
        mixture=mixture,
        start_explains=start,
        good_return=good,
        good_share=None if good is None else float(np.mean(data.returns >= good)),
        random_return=random,
        above_random=None if deviation is None or random is None else (examined.return_mean - random) / deviation,
        steps_per_second=None if simulator is None else simulator.steps_per_second,
        needed_steps=None if online is None else online[1],
        budget=request.budget,
        expert_seconds=request.expert_seconds,
    )
    if damaged or not request.steps or not situation.rewarded:
        return situation
    if importlib.util.find_spec("torch") is None:
        notes.append('a copy was not judged: that needs pip install "rlclinic[train]"')
        return situation
    from rlclinic.training.data import off_policy_evaluation

    stride = math.ceil(len(data) / MOST_JUDGED)
    judged = data if stride == 1 else data.select(range(0, data.n_episodes, stride))
    gamma = GAMMA if config is None else float(getattr(config.algo, "gamma", GAMMA))
    return replace(situation, cloning=off_policy_evaluation.evaluate_cloning(judged, gamma, request.steps, request.seed))


def _choose_online(env: str, data: Dataset, speed: float) -> tuple[str, int]:
    """The algorithm that is known to need the fewest env steps here, and how many; among equals, what suits the simulator's speed."""
    careful = ("dqn", "ppo") if data.action_space.kind == "discrete" else ("sac", "ppo")
    names = careful[::-1] if speed >= FAST else careful
    budgets = {name: load(f"{env}:{name}").config.run.max_env_steps for name in names}
    best = min(names, key=lambda name: budgets[name])
    return best, budgets[best]


def _describe(option: Option, situation: Situation, data: Dataset, path: str, env: str, simulator: _Simulator | None) -> DataWay:
    """A way with its reasons, which algorithm of ours goes it, and the command."""
    settings: dict[str, object] = {"data": path}
    if option.way == "online":
        settings = {}
        name = "ppo" if simulator is None else _choose_online(env, data, simulator.steps_per_second)[0]
    elif option.way == "hybrid":
        settings["then_online"] = True
        if data.action_space.kind == "discrete":
            name = "cal_ql"
        elif situation.narrow or situation.aimless:
            # Nothing is learned from such data alone: begin in the environment.
            name = "rlpd"
        else:
            # What was measured: the data for two thirds of the steps, and little of what is new in a batch at first
            # (benchmarks.recorded_data.hopper).
            name, config = "iql", _find_config(f"{env}:iql")
            budget = [] if config is None else [f"data.offline_steps={2 * config.run.max_env_steps // 3}"]
            settings["set"] = [*budget, "data.recorded_share=0.9"]
    elif option.way == "offline":
        name = "cql" if situation.aimless else "iql"
    elif situation.asks:
        questions = f"{advice.LABELLED_EPISODES}x{round(situation.quality.length_mean)}"
        name, settings = "dagger", {"expert": "EXPERT", "queries": questions}
    else:
        name = "bc"
    return DataWay(
        way=option.way,
        points=option.points,
        impossible=option.impossible,
        algorithm=name,
        command=Action("train", f"{env}:{name}", **settings, seeds=SEEDS),
        reasons=[
            DataReason(
                points=reason.points,
                what=reason.what,
                number=reason.number,
                source=_cite(reason.source),
            )
            for reason in option.reasons
        ],
    )


def _cite(source: str) -> str:
    """Where a number or a claim comes from, in one short line."""
    if source not in references.REFERENCES:
        return source
    known = references.cite(source)
    return f"{known.authors} {known.year}, {known.url}"


def _settle(ways: Sequence[DataWay]) -> list[Action]:
    """What would settle it: the two best ways against each other, on fresh seeds."""
    first, *others = ways
    if not others:
        return [first.command]
    both = [way for way in (first, others[0]) if way.way in ("imitation", "offline") and way.algorithm != "dagger"]
    if len(both) == 2:
        return [first.command, Action("trial", "@last", set=[f"algo.name={others[0].algorithm}"], outcome="return")]
    return [first.command, others[0].command, Action("compare", "@last~1", "@last")]
