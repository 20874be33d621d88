"""`watch` for skrl: watch(agent) before the trainer starts."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from rlclinic.errors import UsageError
from rlclinic.sentinels.transitions import EVERY, Transitions

__all__ = ["watch"]


def watch(agent: Any, *, env: Any = None, every: int = EVERY) -> Transitions:
    """Write our sentinel columns beside skrl's own, and its settings (which skrl writes nowhere) into config.json in the same folder.

    agent: any agent of skrl; env: the wrapped env, for the number of envs and its name. The agent's methods are called as before.
    """
    if not hasattr(agent, "record_transition") or not hasattr(agent, "track_data"):
        raise UsageError(
            f"{type(agent).__name__} is no agent of skrl: it has no record_transition and track_data.\n"
            "  No column could be written.\n  Call watch(agent) with the agent that the trainer gets"
        )
    models = [model for model in getattr(agent, "models", {}).values() if model is not None]
    parameters = [parameter for model in models for parameter in model.parameters()]
    transitions = Transitions(
        action_space=getattr(agent, "action_space", None),
        observation_space=getattr(agent, "observation_space", None),
        parameters=parameters,
        every=every,
        resets_take_a_step=_resets_take_a_step(env),
    )
    record, write = agent.record_transition, getattr(agent, "write_tracking_data", None)

    def record_transition(**seen: Any) -> Any:
        row = transitions.add(
            seen.get("observations", seen.get("states")), seen["actions"], seen["rewards"], seen["terminated"], seen["truncated"]
        )
        for name, value in (row or {}).items():
            agent.track_data(name, value)
        return record(**seen)

    def write_tracking_data(**given: Any) -> Any:
        _write_settings(agent, env, given.get("timesteps"))
        agent.write_tracking_data = write
        return write(**given)  # type: ignore[misc]

    agent.record_transition = record_transition
    if write is not None:
        # The folder is made when training begins: the settings are written with the first numbers.
        agent.write_tracking_data = write_tracking_data
    return transitions


def _write_settings(agent: Any, env: Any, timesteps: Any) -> None:
    """The agent's settings in the folder of its events, unless a file is there already."""
    folder = getattr(agent, "experiment_dir", None)
    if not folder or (path := Path(folder) / "config.json").exists() or not path.parent.is_dir():
        return
    cfg = agent.cfg
    raw = dataclasses.asdict(cfg) if dataclasses.is_dataclass(cfg) and not isinstance(cfg, type) else dict(cfg)
    plain = {key: value for key, value in raw.items() if isinstance(value, bool | int | float | str)}
    rates = raw.get("learning_rate")
    if isinstance(rates, tuple | list) and rates:
        # skrl keeps one for each network, the policy's first, even where its user gave a single one.
        plain |= {"learning_rate": rates[0]} | ({"value_lr": rates[-1]} if rates[-1] != rates[0] else {})
    inner = _find_spec(getattr(env, "_unwrapped", env))
    written = {"agent": {"class": type(agent).__name__, **plain}, "trainer": {"timesteps": timesteps}}
    written |= {"num_envs": env.num_envs} if hasattr(env, "num_envs") else {}
    written |= {"env": inner.id} if inner is not None else {}
    path.write_text(json.dumps(written), encoding="utf-8")


def _resets_take_a_step(env: Any) -> bool:
    """Whether the step after an end only resets, as Gymnasium's vector environments do unless they are told otherwise."""
    inner = getattr(env, "_env", env)
    mode = (getattr(inner, "metadata", None) or {}).get("autoreset_mode")
    return getattr(mode, "name", mode) == "NEXT_STEP"


def _find_spec(env: Any) -> Any:
    """What an environment is registered as; of several that were put together by hand, the first one."""
    spec = getattr(env, "spec", None)
    return getattr(next(iter(getattr(env, "envs", None) or ()), None), "spec", None) if spec is None else spec
