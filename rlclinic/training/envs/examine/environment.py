"""Looks at a user's environment for a few seconds and writes down what it does; judging is left to rlclinic.diagnosis. Free of torch.

python -m rlclinic.training.envs.examine.environment TARGET SECONDS [JSON [search]]

The command runs in a process of its own, because an environment may block, crash or print: facts come out as lines of JSON on
the real standard output, one after each phase, so that what was seen is known even if the process must be killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any, TextIO

import numpy as np
from gymnasium import spaces

from rlclinic.errors import ConfigError, RlclinicError
from rlclinic.training.envs import making
from rlclinic.training.envs.examine import farming, inside, play, repeat, scripts, search, source, transitions
from rlclinic.training.envs.examine.contract import Broken, Clock, Notes, OutOfTime, Probe
from rlclinic.training.envs.examine.target import TRAINED, Make, factory_of

Facts = dict[str, Any]
Report = Callable[[Facts], None]

PHASES = (
    ("contract", 0.5),
    ("seeding", 0.15),
    ("resets", 0.15),
    ("effects", 0.15),
    ("random actions", 0.4),
    ("constant actions", 0.2),
    ("inside", 0.3),
    ("scripted actions", 0.1),
    ("farming", 0.4),
)
"""In this order, each with the share of the time that it may use."""
SEARCH = ("search", 0.3)
"""The last phase where runs are diagnosed: what simple policies can earn, against what was trained."""
MOST_SEARCH = 4.0
"""Seconds of it, at most."""


RUNNING = ("NormalizeObservation", "NormalizeReward")
"""Wrappers that change with all that they have seen: scales do not matter behind them."""
MOST_WRAPPERS = 50


def examine(make: Make, name: str, seconds: float, report: Report = lambda facts: None, *, searches: bool = False) -> Facts:
    """Everything that was seen within the time; `report` gets the facts so far before and after every phase."""
    clock, notes = Clock(seconds), Notes()
    facts: Facts = {"name": name, "limit": seconds, "phase": "making", "done": [], "skipped": {}}
    report(facts)
    make = _with_statistics_frozen(make)
    env = make()
    facts["made_seconds"] = clock.spent
    _refuse_what_is_none(env, name)
    probe = Probe(env, notes, clock)
    facts |= described(env, notes) | source.read(env)
    for phase, share in (*PHASES[:-1], SEARCH, PHASES[-1]) if searches else PHASES:
        facts["phase"] = phase
        report(facts)
        clock.phase(share)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            why = _run(phase, probe, make, name, facts, notes)
        if why:
            facts["skipped"][phase] = why
        else:
            facts["done"].append(phase)
        facts |= {"breaches": list(notes.breaches.values()), "looked_steps": notes.steps}
    facts |= {"phase": "finished", "seconds": clock.spent}
    report(facts)
    _close(env)
    return facts


def _refuse_what_is_none(env: Any, name: str) -> None:
    """ConfigError for what is no single environment."""
    if not hasattr(env, "reset") or not hasattr(env, "step"):
        raise ConfigError(
            f"{name} made a {type(env).__name__}, which has no reset() and step().\n  It is no environment.\n"
            "  Try: a class that extends gymnasium.Env, or a function that returns one"
        )
    if hasattr(env, "num_envs"):
        raise ConfigError(
            f"{name} is a vector of {env.num_envs} environments.\n  The contract of single ones is what is checked.\n"
            "  Try: the environment that the vector is made of"
        )


def _run(phase: str, probe: Probe, make: Make, name: str, facts: Facts, notes: Notes) -> str:
    """Why a phase could not be finished; "" if it could."""
    if "space-missing" in notes.breaches:
        return "a space is missing"
    if phase != "contract" and facts["skipped"].get("contract"):
        return "the contract is broken"
    try:
        return _phase(phase, probe, make, name, facts, notes)
    except OutOfTime:
        return "no time left" if facts["done"] else "too slow"
    except Broken:
        return "the environment raised, or broke its contract"


def _phase(phase: str, probe: Probe, make: Make, name: str, facts: Facts, notes: Notes) -> str:
    repeats = bool(facts.get("seeding", {}).get("repeats"))
    match phase:
        case "contract":
            _first_steps(probe, facts)
        case "seeding":
            single = make() is probe.env
            facts["seeding"] = repeat.seeding(probe, None if single else lambda: Probe(make(), notes, probe.clock), notes)
        case "resets":
            facts["resets"] = repeat.resetting(probe, repeats, notes)
        case "effects":
            if "seeding" not in facts:
                return "whether episodes can be repeated is not known"
            if not repeats:
                return "episodes cannot be repeated"
            facts["effects"] = repeat.effects(probe, notes)
        case "random actions":
            _random(probe, facts, notes)
        case "constant actions":
            facts["constant"] = _constants(probe)
        case "inside":
            # What it raises in copies of itself, with what was put into them, says nothing of it.
            facts["inside"] = {}
            with contextlib.suppress(Exception):
                inside.look(make, probe.clock, facts["inside"])
        case "scripted actions":
            act = scripts.script_for(name)
            if act is None:
                return "no script for this task"
            facts["scripted"] = play.play(probe, act, play.SCRIPTED_EPISODES, play.RANDOM_STEPS, 1).to_record()
        case "search":
            # What it raises was noted already, where every step is watched.
            with contextlib.suppress(Exception):
                facts["search"] = search.search(probe.env, probe.seen, min(MOST_SEARCH, 0.25 * facts["limit"]))
        case "farming":
            facts["farming"] = farming.measure(probe)
    return ""


def _first_steps(probe: Probe, facts: Facts) -> None:
    """A few steps, timed: where they are slow, later phases make do with fewer."""
    probe.reset(0)
    began, before = probe.clock.spent, probe.notes.steps
    for _ in range(10):
        _, _, terminated, truncated, _ = probe.step(probe.env.action_space.sample())
        if terminated or truncated or probe.clock.spent - began > 0.05 * facts["limit"]:
            break
    taken = (probe.clock.spent - began) / (probe.notes.steps - before)
    probe.length = repeat.length_for(facts["limit"], taken)


def _random(probe: Probe, facts: Facts, notes: Notes) -> None:
    before = notes.counted("observation-out-of-bounds")
    act = play.random_actions(probe.env.action_space, 0)
    found = play.play(probe, act, play.RANDOM_EPISODES, play.RANDOM_STEPS, 0)
    facts["random"] = found.to_record() | {
        "out_of_bounds": notes.counted("observation-out-of-bounds") - before,
        "shows_clock": play.shows_clock(found),
    }
    facts["rewards"] = play.summarize_rewards(found)
    facts["reward_terms"] = play.summarize_terms(found)
    facts["late_returns"] = play.find_late_returns(found)
    facts["dimensions"] = play.dimensions(found)
    facts["transitions"] = transitions.describe(probe.env.action_space, found)
    probe.seen = found.features
    # What it raises was noted already, where every step is watched.
    with contextlib.suppress(Exception):
        facts["speed"] = play.speed(probe.env)
    facts["summed_up"] = play.is_large(probe.env.observation_space)


def _constants(probe: Probe) -> dict[str, Any]:
    return {
        label: play.play(probe, play.always(action), play.CONSTANT_EPISODES, play.CONSTANT_STEPS, 2).to_record()
        for label, action in play.constants(probe.env.action_space).items()
    }


def described(env: Any, notes: Notes) -> Facts:
    """The spaces and the time limit, in numbers and words."""
    found: Facts = {"time_limit": making.find_time_limit(env), "spec_id": env.spec.id if getattr(env, "spec", None) else None}
    names = [type(each).__name__ for each in unwrap(env)]
    found |= {"wrappers": names, "running_statistics": [name for name in names if name in RUNNING]}
    for role in ("observation", "action"):
        space = getattr(env, f"{role}_space", None)
        if space is None or not isinstance(space, spaces.Space):
            notes.breach("space-missing", f"{role}_space is {space!r}, not a gymnasium.spaces.Space")
            found[f"{role}_space"] = {"text": "none", "kind": "none"}
            continue
        found[f"{role}_space"] = _space(space)
    return found


def unwrap(env: Any) -> list[Any]:
    """The wrappers around an environment, the outermost first, and the environment itself last."""
    layers: list[Any] = []
    while env is not None and len(layers) < MOST_WRAPPERS:
        layers.append(env)
        env = env.__dict__.get("env") if hasattr(env, "__dict__") else None
    return layers


def _with_statistics_frozen(make: Make) -> Make:
    """Environments whose normalizers stay as they were made: what is seen is what they are given, and an episode can be repeated."""

    def make_frozen() -> Any:
        env = make()
        for layer in unwrap(env):
            if type(layer).__name__ in RUNNING and hasattr(layer, "update_running_mean"):
                layer.update_running_mean = False
        return env

    return make_frozen


def _space(space: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "text": str(space)[:300],
        "kind": type(space).__name__,
        "shape": list(space.shape or ()),
        "dtype": str(space.dtype),
    }
    if isinstance(space, spaces.Discrete):
        found["n"] = int(space.n)
    if isinstance(space, spaces.Box):
        low, high = (bound.ravel()[:64].astype(np.float64) for bound in (space.low, space.high))
        found |= {"low": [_json(each) for each in low], "high": [_json(each) for each in high], "size": int(space.low.size)}
        found["bounded"] = bool(np.isfinite(space.low).all() and np.isfinite(space.high).all())
    return found


def _json(value: float) -> float | str:
    return float(value) if np.isfinite(value) else str(float(value))


def _close(env: Any) -> None:
    # Closing is a courtesy; what was seen stays true.
    with contextlib.suppress(Exception):
        env.close()


def main() -> None:
    """The command; its answer's last line is the whole of the facts, or {"error": …}."""
    out = os.fdopen(os.dup(1), "w")
    # An environment that prints must not be taken for its examiner.
    os.dup2(2, 1)
    target, seconds = sys.argv[1], float(sys.argv[2])
    kwargs = json.loads(sys.argv[3]) if len(sys.argv) > 3 else {}
    searches = len(sys.argv) > 4 and sys.argv[4] == SEARCH[0]
    warnings.simplefilter("ignore")
    try:
        name = str(kwargs["id"]) if target == TRAINED else target
        examine(factory_of(target, kwargs), name, seconds, lambda facts: _say(out, facts), searches=searches)
    except RlclinicError as error:
        _say(out, {"error": str(error), "exit_code": error.exit_code})


def _say(out: TextIO, facts: Facts) -> None:
    out.write(json.dumps(facts, default=float) + "\n")
    out.flush()


if __name__ == "__main__":
    main()
