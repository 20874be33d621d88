"""Do the tools suffice? Questions with known answers over recorded runs, answered by a scripted MCP client.

python -m benchmarks.agents            ask all of them, write benchmarks/results/agents.json

The answers are known from how the runs were made (tests/diagnosis/recipes.py) or are computed from their rows here, never taken from
the tool that is asked. A question may take two calls and 2,000 tokens, counted as characters / 4 of the larger of text and data.
"""

import importlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import anyio

from benchmarks import provenance

MOST_TOKENS: Final = 2_000
FAULTS: Final = (
    "cp-lr-x100", "cp-lr-d100", "cp-lr-early0", "cp-sgd", "cp-gamma-50", "cp-vf-0", "cp-tkl-1e5", "cp-mgn-1e5", "cp-giant", "cp-budget",
    "cp-rew-flip", "cp-obs-const", "cp-nan", "bug-advantage-sign", "bug-dead-surrogate", "bug-termination-ignored",
)  # fmt: skip
HEALTHY: Final = ("cp-healthy", "pd-healthy", "cp-lr-x10")
EVAL, KL = "val/roll/ep_rew_mean", "train/metrics/kl_divergence"


@dataclass
class World:
    """The store, and what is known about the runs in it."""

    groups: dict[str, Any]
    """By the name of their recipe; the store knows them by ids that say nothing."""
    histories: dict[str, Sequence[Any]]
    recipes: dict[str, Any]

    def id(self, name: str, seed: int | None = None) -> str:
        """A group's id, or a run's."""
        return str(self.groups[name].id if seed is None else self.groups[name].runs[seed].id)


@dataclass(frozen=True)
class Question:
    """What somebody asks, which call answers it, how the answer is read, and what is true."""

    asked: str
    tool: str
    arguments: Callable[[World], dict[str, Any]]
    read: Callable[[str, dict[str, Any]], Any]
    true: Callable[[World], Any]
    agree: Callable[[Any, Any], bool] = field(default=lambda said, true: said == true)


@dataclass(frozen=True)
class Asked:
    """A question and how it went."""

    asked: str
    right: bool
    tokens: float
    said: Any
    true: Any


# ── questions ──


def _fault(name: str) -> Question:
    return Question(
        f"Group {name} did not learn as it should: what is wrong?",
        "diagnose_run",
        lambda world: {"run_id": world.id(name)},
        lambda _, data: data["causes"][0]["id"],
        lambda world: {world.recipes[name].cause, *world.recipes[name].also},
        lambda said, true: said in true,
    )


def _healthy(name: str) -> Question:
    return Question(
        f"Group {name} has just finished: is anything wrong with it?",
        "diagnose_run",
        lambda world: {"run_id": world.id(name)},
        lambda _, data: data["causes"][0]["id"],
        lambda _: {"healthy", "no-reference"},
        lambda said, true: said in true,
    )


def _reached(world: World, name: str) -> list[int | None]:
    found = []
    for history in world.histories[name]:
        series = history.series[EVAL]
        passed = series.steps[series.values >= history.threshold]
        found.append(int(passed[0]) if len(passed) else None)
    return found


def _near(said: float, true: float) -> bool:
    return abs(said - true) <= 1e-3 * max(abs(true), 1e-9)


def _column(data: dict[str, Any], name: str) -> dict[str, Any]:
    return next(column for column in data["columns"] if column["name"] == name)


FACTS: Final = (
    Question(
        "How many seeds reached the threshold?",
        "get_run_info",
        lambda world: {"run_id": world.id("cp-healthy")},
        lambda _, data: sum(run.get("threshold_reached_at") is not None for run in data["runs"]),
        lambda world: sum(step is not None for step in _reached(world, "cp-healthy")),
    ),
    Question(
        "At which env step did each seed get there?",
        "get_run_info",
        lambda world: {"run_id": world.id("cp-healthy")},
        lambda _, data: [run.get("threshold_reached_at") for run in data["runs"]],
        lambda world: _reached(world, "cp-healthy"),
    ),
    Question(
        "Which learning rate was it trained with?",
        "get_run_info",
        lambda world: {"run_id": world.id("cp-lr-x100")},
        lambda _, data: data["config"]["algo"]["learning_rate"],
        lambda _: 0.1,
    ),
    Question(
        "What was the largest KL of a seed?",
        "get_run_metrics",
        lambda world: {"run_id": world.id("cp-lr-x100", 0), "metric_names": [KL], "limit": 8},
        lambda _, data: _column(data, KL)["high"],
        lambda world: float(world.histories["cp-lr-x100"][0].series[KL].values.max()),
        _near,
    ),
    Question(
        "When was that?",
        "get_run_metrics",
        lambda world: {"run_id": world.id("cp-lr-x100", 0), "metric_names": [KL], "limit": 8},
        lambda _, data: _column(data, KL)["high_at"],
        lambda world: float(world.histories["cp-lr-x100"][0].series[KL].steps[world.histories["cp-lr-x100"][0].series[KL].values.argmax()]),
    ),
    Question(
        "Is the spike still to be seen in eight rows?",
        "get_run_metrics",
        lambda world: {"run_id": world.id("cp-lr-x100", 0), "metric_names": [KL], "limit": 8},
        lambda _, data: max(row[f"{KL}:max"] for row in data["metrics"]),
        lambda world: float(world.histories["cp-lr-x100"][0].series[KL].values.max()),
        _near,
    ),
    Question(
        "What was its last evaluation?",
        "get_run_metrics",
        lambda world: {"run_id": world.id("cp-lr-d100", 1), "metric_names": [EVAL], "limit": 4},
        lambda _, data: _column(data, EVAL)["last"],
        lambda world: float(world.histories["cp-lr-d100"][1].series[EVAL].values[-1]),
        _near,
    ),
    Question(
        "Why did the run end before its budget?",
        "get_run_info",
        lambda world: {"run_id": world.id("cp-nan", 0)},
        lambda _, data: "observation[0] = nan" in str(data["stopping_message"]),
        lambda _: True,
    ),
    Question(
        "Which groups have failed runs?",
        "list_runs",
        lambda _: {"state": "failed"},
        lambda _, data: {run["group"] for run in data["runs"]},
        lambda world: {world.id("cp-nan")},
    ),
    Question(
        "Which settings differ between these two?",
        "compare_runs",
        lambda world: {"run_ids": [world.id("cp-healthy"), world.id("cp-gamma-50")]},
        lambda _, data: set(data["differences"]),
        lambda _: {"algo.gamma"},
    ),
    Question(
        "How many seeds of each reached the threshold?",
        "compare_runs",
        lambda world: {"run_ids": [world.id("cp-healthy"), world.id("cp-lr-d100")]},
        lambda _, data: [side["reached"] for side in data["comparison"].values()],
        lambda world: [sum(step is not None for step in _reached(world, name)) for name in ("cp-healthy", "cp-lr-d100")],
    ),
    Question(
        "What exactly should be changed where the rate is too high?",
        "prescribe",
        lambda world: {"run_id": world.id("cp-lr-x100")},
        lambda _, data: data["prescriptions"][0]["overrides"][0].partition("=")[0],
        lambda _: "algo.learning_rate",
    ),
    Question(
        "And where the discount is too low?",
        "prescribe",
        lambda world: {"run_id": world.id("cp-gamma-50")},
        lambda _, data: data["prescriptions"][0]["overrides"][0].partition("=")[0],
        lambda _: "algo.gamma",
    ),
    Question(
        "What does a log of Stable-Baselines3 lack for a full diagnosis?",
        "diagnose_run",
        lambda _: {"run_id": "logs/pong", "threshold": 18.0},
        lambda _, data: "config:algo.gamma" in data["not_assessable"]["needs"],
        lambda _: True,
    ),
    Question(
        "Stuck at -20: why?",
        "diagnose_run",
        lambda _: {"run_id": "logs/pong", "threshold": 18.0},
        lambda _, data: data["causes"][0]["id"],
        lambda _: "learning-rate-too-low",
    ),
    Question(
        "Would this config be accepted?",
        "validate_config",
        lambda _: {"config_id": "CartPole-v1:ppo_zoo", "overrides": {"algo.clip_range": 7}},
        lambda _, data: data["valid"],
        lambda _: False,
    ),
    Question(
        "How many gradient steps does each rollout get?",
        "validate_config",
        lambda _: {"config_id": "CartPole-v1:ppo_zoo"},
        lambda _, data: data["derived"]["updates_per_rollout"] if "updates_per_rollout" in data["derived"] else data["derived"],
        lambda _: 8 * 32 // 256 * 20,
        lambda said, true: true in (said.values() if isinstance(said, dict) else [said]),
    ),
    Question(
        "What counts as solved on CartPole-v1?",
        "describe_environment",
        lambda _: {"env_id": "CartPole-v1"},
        lambda _, data: data["environments"][0]["threshold"],
        lambda _: 475,
    ),
    Question(
        "When is a large policy step fine?",
        "explain_rule",
        lambda _: {"rule": "POL101"},
        lambda text, _: "When it is fine" in text,
        lambda _: True,
    ),
    Question(
        "Is the run in progress still running, and how far is it?",
        "get_training_status",
        lambda world: {"run_id": world.id("going"), "include_details": False},
        lambda _, data: (data["running"], data["progress"]["total_timesteps"], data["progress"]["max_env_steps"]),
        lambda _: (True, 6_144, 10_240),
    ),
    Question(
        "Which checkpoint is the best one?",
        "list_checkpoints",
        lambda world: {"run_id": world.id("going", 0)},
        lambda _, data: [row["name"] for row in data["checkpoints"] if row["best"]],
        lambda _: ["5120"],
    ),
    Question(
        "What does its log end with?",
        "get_run_logs",
        lambda world: {"run_id": world.id("going", 0), "lines": 1},
        lambda _, data: data["log"].endswith("running at env step 6144"),
        lambda _: True,
    ),
    Question(
        "Can I see it?",
        "get_plot",
        lambda world: {"run_ids": [world.id("cp-healthy"), world.id("cp-lr-x100")]},
        lambda _, data: (data["metrics"], data["bytes"] > 0),
        lambda _: ([EVAL], True),
    ),
    Question(
        "What would it cost to learn which numbers of this config matter?",
        "start_sensitivity",
        lambda world: {"run_id": world.id("cp-healthy"), "only": ["learning_rate", "gamma"], "seeds": 3, "dry_run": True},
        lambda _, data: (data["runs"], data["max_env_steps"]),
        # Two numbers, times and divided by 2 and 4, and the config as it is; three seeds each, 50,000 env steps a run.
        lambda _: ((2 * 4 + 1) * 3, (2 * 4 + 1) * 3 * 50_000),
    ),
    Question(
        "100k expert demonstrations: offline RL or an online loop?",
        "get_guide",
        lambda _: {
            "question": "I have a dataset of 100k expert demonstrations. Should I use offline RL or set up an online training loop?"
        },
        lambda _, data: (data["guide"]["name"], data["guide"]["call"][0].startswith("advise_data")),
        lambda _: ("offline-or-online", True),
    ),
    Question(
        "My DAgger gets worse than the cloned policy after a few iterations: can that be diagnosed here?",
        "get_guide",
        lambda _: {"question": "My DAgger implementation keeps diverging after a few iterations."},
        lambda _, data: (data["guide"]["name"], bool(data["guide"]["cannot"]), len(data["guide"]["steps"]) > 3),
        lambda _: ("dagger-diverges", True, True),
    ),
    Question(
        "Does chance ever see a reward on MountainCar-v0, and what does a rule of one line earn?",
        "describe_environment",
        lambda _: {"env_id": "MountainCar-v0", "examine": True},
        lambda _, data: (
            [finding["rule"] for finding in data["findings"]],
            next(each["mean"] for each in data["played"] if each["label"] == "scripted"),
        ),
        lambda _: (["ENV308"], -120),
        lambda said, true: said[0] == true[0] and abs(said[1] - true[1]) < 5,
    ),
    Question(
        "What may agents still use?",
        "morning_report",
        lambda _: {},
        lambda _, data: (data["budget"]["left_env_steps"], data["ran"]),
        lambda _: (1_000_000, []),
    ),
)
QUESTIONS: Final = (*map(_fault, FAULTS), *map(_healthy, HEALTHY), *FACTS)


# ── asking ──


@contextmanager
def world() -> Iterator[World]:
    """A store of recorded runs as the current folder."""
    stored, recorded = importlib.import_module("tests.diagnosis.stored"), importlib.import_module("tests.diagnosis.recorded")
    recipes, small = importlib.import_module("tests.diagnosis.recipes"), importlib.import_module("tests.ops.recorded")
    budgets, page = importlib.import_module("rlclinic.ops.jobs.budget"), importlib.import_module("docs.generate.questions")
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        groups = {name: stored.write_group(name) for name in (*FAULTS, *HEALTHY)}
        groups["going"] = small.record_group(Path("runs"), seeds=(0, 1), state="running", share_done=0.6)
        small.add_checkpoint(groups["going"].runs[0].path, 5_120, best=True)
        page.write_pong(Path("logs/pong"))
        budgets.set_budget(Path("runs"), env_steps=1_000_000)
        histories = {name: recorded.load(name)[1] for name in (*FAULTS, *HEALTHY)}
        yield World(groups, histories, {recipe.name: recipe for recipe in recipes.RECIPES})


def ask_all(questions: Sequence[Question] = QUESTIONS) -> list[Asked]:
    """Every question, through a real client."""
    with world() as known, ThreadPoolExecutor(1) as elsewhere:
        return elsewhere.submit(anyio.run, _asked, known, questions).result()


async def _asked(known: World, questions: Sequence[Question]) -> list[Asked]:
    from mcp import Client

    from rlclinic.runs.store import Store
    from rlclinic.serve.mcp.server import build
    from rlclinic.serve.mcp.settings import Settings

    answers = []
    async with Client(build(Store("runs"), Settings(local=True))) as client:
        for question in questions:
            arguments = question.arguments(known)
            result = await client.call_tool(question.tool, arguments)
            text, data = str(getattr(result.content[0], "text", "")), result.structured_content or {}
            characters = len(json.dumps(arguments)) + max(len(text), len(json.dumps(data)))
            said, true = None if result.is_error else question.read(text, data), question.true(known)
            right = not result.is_error and question.agree(said, true) and characters / 4 <= MOST_TOKENS
            answers.append(Asked(question.asked, bool(right), characters / 4, text if result.is_error else said, true))
    return answers


def diagnosis_sizes(most: int | None = None) -> list[int]:
    """Characters of a concise diagnosis of every recorded group."""
    from rlclinic.ops.diagnose.diagnose import diagnose
    from rlclinic.serve.mcp.text.diagnosis import concise

    stored, recorded = importlib.import_module("tests.diagnosis.stored"), importlib.import_module("tests.diagnosis.recorded")
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        groups = [stored.write_group(name).id for name in recorded.names()[:most]]
        return [len(concise(diagnose(group, write=False))) for group in groups]


def main() -> None:
    """Ask, print what went wrong, write the figures."""
    options = provenance.parser(__doc__).parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    answers = ask_all(QUESTIONS[:3] if options.quick else QUESTIONS)
    for answer in answers:
        print(f"{'right' if answer.right else 'WRONG'}  {answer.tokens:6.0f} tokens  {answer.asked}")
        if not answer.right:
            print(f"       said {answer.said!r}, true is {answer.true!r}")
    share = 100 * sum(answer.right for answer in answers) / len(answers)
    tokens = sorted(answer.tokens for answer in answers)
    sizes = diagnosis_sizes(3 if options.quick else None)
    rows = [
        {"what": "diagnose_run, concise: the longest of all recorded groups", "value": max(sizes), "unit": "characters", "better": "lower"}
        | {"bar": 3_200, "stretch": 1_800},
        {
            "what": f"questions answered right, of {len(answers)}",
            "value": share,
            "unit": "%",
            "better": "higher",
            "bar": 90,
            "stretch": 100,
        },
        {"what": "tokens of a question and its answer, median", "value": tokens[len(tokens) // 2], "unit": "tokens", "better": "lower"}
        | {"bar": 800, "stretch": 400},
    ]
    print(provenance.write("agents", rows, provenance.provenance("python -m benchmarks.agents"), options.quick))


if __name__ == "__main__":
    main()
