"""solution.yaml: the trained agent as one document, with settings, results and the code that runs it."""

import statistics
from textwrap import indent
from typing import Any

from rlclinic.ops.outcomes import GroupReport
from rlclinic.runs.record import Group, Run

NAMES = {"ppo": "PPO", "a2c": "A2C", "reinforce": "REINFORCE"}
# The document calls the clip range by the paper's letter.
RENAMED = {"clip_range": "clip_epsilon"}


def as_yaml(group: Group, report: GroupReport) -> str:
    """The whole document as YAML text."""
    import yaml

    document = describe(group, report)
    code = document.pop("deployment_code")
    text = yaml.safe_dump({"rl_training_solution": document}, sort_keys=False, allow_unicode=True, width=100)
    # Code as a block, as people write it: the dumper would quote and escape it.
    return f"{text}  deployment_code: |\n{indent(code, '    ')}"


def describe(group: Group, report: GroupReport) -> dict[str, Any]:
    """The document as data."""
    algo, env = report.config["algo"], report.config["env"]
    return {
        "algorithm": _algorithm(algo),
        "environment": report.env,
        "training_configuration": {
            **_spaces(group),
            "reward_design": {
                "task_reward": "the environment's own" + (", normalized for training" if env.get("normalize_reward") else ""),
                "shaping_rewards": [wrapper["id"] for wrapper in env.get("wrappers") or [] if "eward" in wrapper["id"]],
                "exploration_bonus": f"entropy, weight {algo['ent_coef']}" if algo.get("ent_coef") else "none",
            },
            "n_envs": env["n_envs"],
            "max_env_steps": report.max_env_steps,
            "network": report.config["net"],
            "seeds": [seed.seed for seed in report.seeds],
        },
        "hyperparameters": {RENAMED.get(key, key): value for key, value in algo.items() if key != "name" and value is not None},
        "training_results": _results(group, report),
        "curriculum_stages": [],
        "deployment_code": deployment_code(group, report),
    }


def deployment_code(group: Group, report: GroupReport) -> str:
    """A script that loads the best seed's best policy and runs one episode."""
    run = report.best_run or (report.seeds[0].run if report.seeds else "RUN")
    kwargs = "".join(f", {key}={value!r}" for key, value in (report.config["env"].get("kwargs") or {}).items())
    return f"""import gymnasium
import rlclinic

run = rlclinic.load_run({str(group.path.parent.parent / run)!r})
policy = run.policy("@best")

env = gymnasium.make({report.env!r}{kwargs})
obs, _ = env.reset(seed=0)
ended, total = False, 0.0
while not ended:
    action = policy.act(obs, deterministic=True)
    obs, reward, terminated, truncated, _ = env.step(action)
    total, ended = total + float(reward), terminated or truncated
print(total)
"""


def _algorithm(algo: dict[str, Any]) -> str:
    name = NAMES.get(algo["name"], algo["name"])
    return f"{name} with a learned baseline" if algo["name"] == "reinforce" and algo.get("baseline") else name


def _spaces(group: Group) -> dict[str, str]:
    """Observation and action space as training met them; it writes them down when it starts."""
    # Read anew: the group may have been made, and its records read, before training wrote this.
    engine = Run(group.runs[0].path).record.get("engine") if group.runs else None
    known = engine if isinstance(engine, dict) else {}
    shape, action = known.get("obs_shape"), known.get("action")
    unknown = "not recorded: training never started"
    return {
        "state_space": " x ".join(map(str, shape)) + " numbers" if shape else unknown,
        "action_space": _action_space(action["kind"], action["sizes"]) if action else unknown,
    }


def _action_space(kind: str, sizes: list[int]) -> str:
    match kind:
        case "discrete":
            return f"{sizes[0]} discrete actions"
        case "multi_discrete":
            return f"{len(sizes)} discrete components of {', '.join(map(str, sizes))} values"
        case "multi_binary":
            return f"{len(sizes)} binary components"
        case _:
            return f"{sizes[0]}-dimensional continuous control"


def _results(group: Group, report: GroupReport) -> dict[str, Any]:
    tables = {run.id: run.metrics for run in group.runs}
    rates = [rate for table in tables.values() if (rate := table.last("val/roll/success_rate")) is not None]
    episodes = [_episodes_at(run, seed.threshold_reached_at) for run, seed in zip(group.runs, report.seeds, strict=True)]
    solved = [number for number in episodes if number is not None]
    return {
        "verdict": report.verdict,
        "threshold": report.threshold,
        "seeds_that_reached_it": f"{report.n_reached} of {report.n_runs}",
        "episodes_to_solve": round(statistics.median(solved)) if solved else None,
        "env_steps_to_solve": _rounded(report.steps_to_threshold.value) if report.n_reached else None,
        "final_success_rate": round(statistics.mean(rates), 4) if rates else None,
        "average_episode_reward": None if report.last.value is None else round(report.last.value, 3),
        "average_episode_reward_95_percent": [report.last.low, report.last.high] if report.last.low is not None else None,
        "best_episode_reward": report.best,
        "training_time_hours": None if report.wall_seconds is None else round(report.wall_seconds / 3600, 5),
    }


def _episodes_at(run: Run, step: int | None) -> float | None:
    """Episodes that had ended when the threshold was first reached."""
    if step is None:
        return None
    steps, episodes = run.metrics.series("total_episodes")
    before = episodes[steps <= step]
    return float(before[-1]) if len(before) else None


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)
