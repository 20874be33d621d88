"""Train an RL agent, find out why a run does not learn, and prove the fix.

    import rlclinic
    group = rlclinic.train("CartPole-v1:ppo")
    action = group.runs[0].policy("@best").act(obs)

Nothing heavy is imported until it is used: `import rlclinic` needs neither torch nor gymnasium.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlclinic.python import advise_data, ask, compare, diagnose, lint_env, load_group, load_run, prescribe, race, train, trial

__version__ = "0.1.0"
__all__ = [
    "__version__",
    "advise_data",
    "ask",
    "compare",
    "diagnose",
    "lint_env",
    "load_group",
    "load_run",
    "prescribe",
    "race",
    "train",
    "trial",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'rlclinic' has no attribute {name!r}")
    from rlclinic import python

    return getattr(python, name)


def __dir__() -> list[str]:
    return __all__
