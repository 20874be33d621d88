"""The environments of runs that are diagnosed: who may have them run, and what was seen of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rlclinic import trust
from rlclinic.actions import Action, Argument
from rlclinic.config.environment import EnvConfig
from rlclinic.diagnosis.environment_evidence import CAUSES
from rlclinic.diagnosis.lint.env import EnvLint, lint_facts
from rlclinic.errors import RlclinicError, UsageError
from rlclinic.ops.diagnose.examine_env import facts_in_process, facts_of
from rlclinic.runs import env_code
from rlclinic.runs.record import Group, Run

SECONDS, SECONDS_UNASKED = 20.0, 10.0
"""How long each environment is looked at, at most: where somebody named it, and where nobody did."""
TRAINED: Final = "trained"
"""Stands for the environment that a run of ours was trained on."""
OWN: Final = "own"
"""The same, but only where its code is still what was trained and approved: nobody has to be asked."""

Env = str | Callable[[], Any] | Any


@dataclass(frozen=True)
class Seen:
    """What an examination of an environment wrote down, and what is to be said about it."""

    lint: EnvLint
    facts: Mapping[str, Any]


def look(env: Env, kwargs: Mapping[str, Any], owner: Run | Group | None) -> Seen:
    """Examine an environment: a registered id, module:Class, file.py:Class, `trained`, or an object of this program. Its code is run.

    Whoever names code has said yes to it; code that only stands in a run folder must have been approved before. Where nothing may be
    run (a read-only server), nothing is, not even an environment that everybody knows.
    """
    if not isinstance(env, str):
        instance = hasattr(env, "reset") and hasattr(env, "step") and not isinstance(env, type)
        name = type(env).__name__ if instance else getattr(env, "__name__", type(env).__name__)
        return _judge(facts_in_process((lambda: env) if instance else env, name, SECONDS, searches=True))
    trust.refuse_where_nothing_is_run(env)
    if env == TRAINED:
        config = _find_trained(owner)
        trust.check_envs([config])
        return _look_at_trained(config, SECONDS)
    if trust.names_code(env):
        trust.approve(env)
    return _judge(facts_of(env, dict(kwargs), SECONDS, searches=True))


def look_at_own(owner: Run | Group | None) -> Seen | None:
    """Examine a run's own environment without being asked to: only where its code is, byte for byte, what was trained and approved."""
    try:
        if owner is None or owner.record.get("source") or env_code.hash_of(owner) is None or env_code.find_object(owner) is not None:
            return None
        if env_code.list_changes(owner):
            return None
        config = _find_trained(owner)
    except RlclinicError:
        return None
    if not all(map(trust.may_run, trust.names_in(config))):
        return None
    try:
        return _look_at_trained(config, SECONDS_UNASKED)
    except RlclinicError:
        # Nobody asked for it: what the log says stands.
        return None


def _look_at_trained(config: EnvConfig, seconds: float) -> Seen:
    """The environment with its wrappers; and, where something is wrong behind them, without."""
    settings = config.model_dump(mode="json")
    seen = _judge({**facts_of(TRAINED, settings, seconds, searches=True), "name": config.id})
    if not config.wrappers or not any(finding.rule in CAUSES for finding in seen.lint.findings):
        return seen
    bare = lint_facts(facts_of(TRAINED, {**settings, "wrappers": []}, seconds))
    alone = {finding.rule for finding in bare.findings}
    names = ", ".join(wrapper.id for wrapper in config.wrappers)
    findings = [
        finding
        if finding.rule in alone
        else finding.model_copy(update={"text": f"{finding.text} (with its wrappers {names}; not without them)"})
        for finding in seen.lint.findings
    ]
    return Seen(seen.lint.model_copy(update={"findings": tuple(findings)}), seen.facts)


def _judge(facts: Mapping[str, Any]) -> Seen:
    return Seen(lint_facts(facts), facts)


def _find_trained(owner: Run | Group | None) -> EnvConfig:
    if owner is None or owner.record.get("source"):
        raise UsageError(
            Argument("env", "trained"),
            " is for runs that were trained here: a log of others does not hold its environment.\n"
            "  There is nothing to look at.\n  Name it: ",
            Action("diagnose", "LOGS", env="my_env.py:MyEnv"),
        )
    env_code.check_found(owner)
    return owner.config.env
