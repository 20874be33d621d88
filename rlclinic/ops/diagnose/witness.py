"""The environments of runs that are diagnosed: who may have them run, and what was seen of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rlclinic import trust
from rlclinic.actions import Action, Argument
from rlclinic.diagnosis.lint.env import EnvLint, lint_facts
from rlclinic.errors import UsageError
from rlclinic.ops.diagnose.examine_env import facts_in_process, facts_of
from rlclinic.runs import env_code
from rlclinic.runs.record import Group, Run

SECONDS: Final = 20.0
"""How long each environment is looked at, at most."""
TRAINED: Final = "trained"
"""Stands for the environment that a run of ours was trained on."""

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
        env, kwargs = _find_trained(owner)
        if trust.names_code(env):
            trust.check(env)
    elif trust.names_code(env):
        trust.approve(env)
    return _judge(facts_of(env, dict(kwargs), SECONDS, searches=True))


def _judge(facts: Mapping[str, Any]) -> Seen:
    return Seen(lint_facts(facts), facts)


def _find_trained(owner: Run | Group | None) -> tuple[str, dict[str, Any]]:
    if owner is None or owner.record.get("source"):
        raise UsageError(
            Argument("env", "trained"),
            " is for runs that were trained here: a log of others does not hold its environment.\n"
            "  There is nothing to look at.\n  Name it: ",
            Action("diagnose", "LOGS", env="my_env.py:MyEnv"),
        )
    env_code.check_found(owner)
    config = owner.config.env
    return str(config.id), dict(config.kwargs or {})
