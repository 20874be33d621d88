"""One typed function per user operation; results are pydantic models.

The command line, servers and agents are tables over these functions. A name is imported when it is used: listing runs
must not pay for training.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlclinic.ops.catalog import complete_reference, list_environments, show_config
    from rlclinic.ops.comparing import Comparison, compare
    from rlclinic.ops.gate_models import BaselineSaved, Regression
    from rlclinic.ops.history import history_of
    from rlclinic.ops.imports import import_path
    from rlclinic.ops.live import adjust, get_training_status, stop
    from rlclinic.ops.machine import doctor
    from rlclinic.ops.metric_rows import get_metric_rows, one_run
    from rlclinic.ops.plans import TrainPlan, TrainRequest, plan_training
    from rlclinic.ops.policies import evaluate, play
    from rlclinic.ops.regressing import regress, save_baseline
    from rlclinic.ops.report import get_group_report, show, write_group_reports
    from rlclinic.ops.runs import (
        complete_selector,
        get_run_info,
        get_run_logs,
        get_run_metrics,
        list_checkpoints,
        list_runs,
        remove_runs,
        run_row,
    )
    from rlclinic.ops.training import train

_WHERE = {
    "catalog": ("complete_reference", "list_environments", "show_config"),
    "comparing": ("Comparison", "compare"),
    "history": ("history_of",),
    "imports": ("import_path",),
    "live": ("adjust", "get_training_status", "stop"),
    "machine": ("doctor",),
    "plans": ("TrainPlan", "TrainRequest", "plan_training"),
    "policies": ("evaluate", "play"),
    "regressing": ("regress", "save_baseline"),
    "gate_models": ("BaselineSaved", "Regression"),
    "report": ("get_group_report", "show", "write_group_reports"),
    "runs": (
        "complete_selector",
        "get_run_info",
        "get_run_logs",
        "get_run_metrics",
        "list_checkpoints",
        "list_runs",
        "remove_runs",
        "run_row",
    ),
    "metric_rows": ("get_metric_rows", "one_run"),
    "training": ("train",),
}
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "BaselineSaved",
    "Comparison",
    "Regression",
    "TrainPlan",
    "TrainRequest",
    "adjust",
    "compare",
    "complete_reference",
    "complete_selector",
    "doctor",
    "evaluate",
    "get_group_report",
    "get_metric_rows",
    "get_run_info",
    "get_run_logs",
    "get_run_metrics",
    "get_training_status",
    "history_of",
    "import_path",
    "list_checkpoints",
    "list_environments",
    "list_runs",
    "one_run",
    "plan_training",
    "play",
    "regress",
    "remove_runs",
    "run_row",
    "save_baseline",
    "show",
    "show_config",
    "stop",
    "train",
    "write_group_reports",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, *globals()]
