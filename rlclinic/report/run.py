"""One run as a document: how it stands, its curve, its newest numbers, its main settings, what it kept."""

from collections.abc import Mapping
from typing import Any, Final

from rlclinic.actions import Action
from rlclinic.report.document import Block, Commands, Figure, Rows, Text
from rlclinic.report.format import count, duration, number, percent, short
from rlclinic.report.models import RunInfo
from rlclinic.runs import history
from rlclinic.treatment.prescription.prescription import worded

MAIN_SETTINGS: Final = (
    "algo.learning_rate", "algo.n_steps", "algo.batch_size", "algo.n_epochs", "algo.gamma", "algo.gae_lambda", "algo.clip_range",
    "algo.ent_coef", "algo.vf_coef", "algo.max_grad_norm", "algo.target_kl", "algo.buffer_size", "algo.learning_starts", "env.n_envs",
    "net.hidden", "run.max_env_steps",
)  # fmt: skip


def describe_info(info: RunInfo) -> list[Block]:
    """`runs show RUN`."""
    from rlclinic.report.charts import CurveDrawing, svg

    run = info.run
    steps = f"{count(run.env_steps)}/{count(run.max_env_steps)} {info.curve.step_unit}"
    header = f"{run.id} · {run.name} · seed {run.seed} · {run.state} · {steps}"
    result = f"last evaluation {number(run.eval_mean)} · best {number(run.best_eval)}"
    if run.success_rate is not None:
        result += f" · success {percent(run.success_rate)}"
    if run.threshold is not None:
        reached = f"reached at {short(run.threshold_reached_at)}" if run.threshold_reached_at is not None else "not reached"
        reached += ", lost again" if run.lost else ""
        result += f" · threshold {number(run.threshold, 4)} {reached}"
    kept = ", ".join(f"{row.step}{' @best' if row.best else ''}{' @last' if row.last else ''}" for row in info.checkpoints)
    about = [("reason", info.reason or ""), ("from", run.parent or ""), ("result", result)]
    end = [
        ("settings", main_settings(info.config)),
        ("kept", kept or "no checkpoint yet"),
        ("time", f"{duration(info.wall_seconds)} · {count(info.steps_per_second)} steps/s"),
        ("folder", info.path),
    ]
    return [
        Text(header),
        Rows([pair for pair in about if pair[1]]),
        Figure(lambda: svg(info.curve), f"Return against {info.curve.step_unit}; dashes: threshold.", None, CurveDrawing(info.curve)),
        Rows([(name, number(value)) for name, value in info.latest.items()], 38, 2),
        Rows(end),
        Commands([("next", Action("diagnose", run.id))]),
    ]


def main_settings(config: Mapping[str, Any]) -> str:
    """The settings that are looked at first: learning_rate 0.001, linear to 0 · n_steps 32 · …"""
    flat = history.dotted(config)
    return " · ".join(f"{key.partition('.')[2]} {worded(flat[key])}" for key in MAIN_SETTINGS if flat.get(key) is not None)
