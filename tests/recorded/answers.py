"""What is asked of the recorded runs, through each face, and how an answer is compared with the one that was recorded.

An answer has facts (fields, numbers, ids, commands, exit codes) and words (sentences). Facts stay as they are; words may be improved,
after which `python -m tests.recorded.record --words` writes them anew. What depends on the clock, the machine or the folder is taken out.
"""

import contextlib
import json
import math
import os
import re
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tests.recorded import faces

FOLDER = Path(__file__).resolve().parent
RUNS, IDS, ANSWERS = FOLDER / "runs", FOLDER / "ids.json", FOLDER / "answers"
SAMPLES = FOLDER.parent / "readers" / "samples"
WRITTEN = 1_700_000_000
"""When the samples' files were written, as far as the answers are concerned: a log of the last minutes would be called running."""

# ── what is asked ──

COMMANDS: dict[str, tuple[str, ...]] = {
    "runs": (
        "runs list",
        "runs list --all",
        "runs list --state stopped",
        "runs list --env Pendulum -n 1",
        "runs list --group {sick}",
        "runs list --trial {trial}",
        "runs show {healthy}-s0",
        "runs show {healthy}",
        "runs show {sac}-s0",
        "runs show {table}-s0",
        "runs metrics {healthy}-s0 --list",
        "runs metrics {healthy}-s1 -m val/roll/ep_rew_mean --points 5",
        "runs metrics {dqn}-s0 -m loss --from-step 256",
        "runs logs {ppo}-s0",
        "runs checkpoints {healthy}-s0",
        "runs checkpoints {dqn}-s0",
        "runs checkpoints {healthy}-s0 --inspect",
        "runs rm {table} --dry-run",
    ),
    "status": ("status", "status {healthy}", "status {ppo}", "status {sick}", "status {sac} --threshold -500 --budget 2000"),
    "diagnose": (
        "diagnose {sick}",
        "diagnose {sick}-s1",
        "diagnose {healthy}",
        "diagnose {dqn}",
        "diagnose {sac}",
        "diagnose {table}",
        "diagnose {sick} --fail-on high",
        "diagnose {sick} --select LRN --select ENT302",
        "diagnose {sick} --ignore LRN101 --out report",
    ),
    "diagnose_foreign": (
        "diagnose {samples}/sb3_ppo --threshold 475",
        "diagnose {samples}/sb3_sac",
        "diagnose {samples}/sb3_dqn/console.txt",
        "diagnose {samples}/sb3_zoo",
        "diagnose {samples}/cleanrl --budget 100k",
        "diagnose {samples}/rllib_ppo",
        "diagnose {samples}/gymnasium_solver",
    ),
    "prescribe": (
        "prescribe {sick}",
        "prescribe {sick} --no-recorded",
        "prescribe {healthy}",
        "prescribe {dqn}",
        "prescribe {samples}/sb3_ppo --threshold 475 --as sb3",
    ),
    "compare": (
        "compare {healthy} {sick}",
        "compare {sick} {healthy} {samples}/sb3_ppo --pairwise --threshold 475",
        "compare {healthy}-s0 {healthy}-s1 --full",
        "compare CartPole-v1:ppo CartPole-v1:ppo_zoo",
    ),
    "regress": (
        "regress {healthy} {sick}",
        "regress {sick} {healthy} --outcome return",
        "regress {healthy} --save-baseline baseline.json",
        "regress {healthy} {healthy} --strict",
    ),
    "lint": (
        "lint CartPole-v1:ppo",
        "lint CartPole-v1:ppo --set algo.learning_rate=0.5 --set algo.gamma=0.5",
        "lint {sick} --fail-on high",
        "lint {sac}",
        "lint CartPole-v1:dqn --set algo.buffer_size=200",
    ),
    "catalog": (
        "rules",
        "rules LRN101",
        "rules policy-step-too-large",
        "rules --family replay",
        "envs",
        "envs Pole",
        "guide --all",
        "guide too-slow",
        "guide 9",
        "history CartPole-v1",
        "history Pendulum-v1",
    ),
    "config": (
        "config show CartPole-v1:ppo",
        "config show CartPole-v1:a2c --set algo.learning_rate=1e-3",
        "config show CartPole-v1:reinforce",
        "config show CartPole-v1:dqn",
        "config show Pendulum-v1:sac",
        "config show Pendulum-v1:td3",
        "config show Pendulum-v1:ddpg",
        "config show FrozenLake-v1:q",
        "config show {sick}",
        "config show {ppo}-s0",
    ),
    "treat": (
        "trial --list",
        "trial --show {trial}",
        "trial {sick} --rx 1 --dry-run",
        "trial {sick} --set algo.learning_rate=1e-3 --looks 2 --per-look 4 --dry-run",
        "trial CartPole-v1:ppo CartPole-v1:ppo_zoo --dry-run",
        "optimize --resume {optimize}",
        "optimize {sick} --budget 100k --dry-run",
        "sensitivity --resume {sensitivity}",
        "sensitivity CartPole-v1:ppo --dry-run",
        "adopt {trial} --as CartPole-v1:tried --dry-run --force",
        "adopt {trial} --as CartPole-v1:tried --force",
        "adopt {trial} --as CartPole-v1:tried",
    ),
    "agents": (
        "agents budget",
        "agents budget --env-steps 1M --wall 2h",
        "agents audit",
        "agents report --hours 1",
        "import {samples}/sb3_ppo --as sb3 --threshold 475",
        "serve token list",
        "stop {healthy}",
        "adjust {healthy} --set algo.ent_coef=0.01",
    ),
    "errors": (
        "runs show gone",
        "runs show {healthy}-s9",
        "diagnose nowhere/at/all",
        "diagnose {samples}/README.md",
        "config show CartPole-v1:pppo",
        "config show CartPool-v1:ppo",
        "train CartPole-v1:ppo --set algo.learning_rat=1",
        "train CartPole-v1:ppo --set algo.gamma=2",
        "train CartPole-v1:ppo --set algo.batch_size=100 --seeds 0",
        "train --resume {healthy}-s0",
        "train {healthy}-s0@17",
        "train CartPole-v1:ppo --device tpu",
        "evaluate {healthy}-s0@17",
        "compare {healthy}",
        "rules XYZ999",
        "guide what is the meaning of life",
        "envs Nothing",
        "trial {healthy} --rx 9",
        "trial --show t000",
        "optimize --resume o000",
        "prescribe gone",
        "regress {healthy} gone",
        "adopt t000 --as CartPole-v1:x",
        "adjust {healthy} --set algo.n_steps=3",
        "runs metrics {healthy}-s0 -m nothing",
        "history NoSuchEnv-v0",
        "lint",
        "nonsense",
        "runs nonsense",
        "diagnose --nonsense",
        "diagnose {sick} --fail-on nonsense",
    ),
}

ROUTES = (
    "health",
    "session",
    "runs",
    "runs?env=CartPole&sort=seed&limit=3",
    "runs?state=stopped",
    "runs?trial={trial}&trials=true",
    "groups",
    "groups?algo=a2c&trials=true",
    "facets",
    "runs/{healthy}-s0",
    "runs/{sac}-s0",
    "runs/{healthy}-s0/metrics?points=4",
    "runs/{healthy}-s0/metrics.csv",
    "runs/{healthy}-s0/log",
    "runs/{healthy}-s0/checkpoints",
    "runs/{healthy}-s0/videos",
    "runs/{sick}-s0/diagnosis",
    "groups/{healthy}",
    "groups/{sick}",
    "groups/{sick}/config",
    "groups/{sick}/metrics?points=4",
    "groups/{sick}/diagnosis",
    "groups/{dqn}/diagnosis",
    "groups/{sick}/prescriptions",
    "groups/{healthy}/files/report.md",
    "curves?of={healthy}&of={sick}&points=4",
    "compare?of={healthy}&of={sick}",
    "status",
    "status?group={sick}",
    "trials",
    "trials/{trial}",
    "studies",
    "studies/optimize/{optimize}",
    "studies/sensitivity/{sensitivity}",
    "history?env=CartPole-v1",
    "rules?family=replay",
    "rules/LRN101",
    "guides",
    "guides/too-slow",
    "environments",
    "environments?pattern=Pole",
    "jobs",
    "ledger",
    "budget",
    "audit",
    "morning?seconds=60",
    "runs/gone",
    "groups/gone/diagnosis",
    "trials/t000",
    "rules/XYZ999",
    "runs?limit=-1",
    "runs?sort=nonsense",
)

POSTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("config/validate", {"ref": "CartPole-v1:ppo", "changes": ["algo.learning_rate=0.5"]}),
    ("config/validate", {"ref": "CartPole-v1:ppo", "changes": ["algo.gamma=2"]}),
    ("trials/preview", {"target": "{sick}", "rx": [1]}),
    ("studies/sensitivity/preview", {"target": "{sick}"}),
    ("trainings", {"nonsense": 1}),
)

CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("list_runs", {}),
    ("list_runs", {"env_filter": "Pendulum", "limit": 2}),
    ("list_runs", {"algo_filter": "dqn", "state": "stopped"}),
    ("get_run_info", {"run_id": "{healthy}-s0"}),
    ("get_run_info", {"run_id": "{sick}"}),
    ("get_run_metrics", {"run_id": "{healthy}-s0", "limit": 3}),
    ("get_run_metrics", {"run_id": "{dqn}-s0", "metric_names": ["loss"], "from_step": 256}),
    ("get_run_logs", {"run_id": "{ppo}-s0", "lines": 5}),
    ("list_checkpoints", {"run_id": "{healthy}-s0"}),
    ("get_training_status", {}),
    ("get_training_status", {"run_id": "{sick}", "include_details": True}),
    ("wait_for_run", {"run_id": "{healthy}", "timeout_s": 1}),
    ("compare_runs", {"run_ids": ["{healthy}", "{sick}"], "metrics": ["train/loss/value"]}),
    ("get_plot", {"run_ids": ["{healthy}"]}),
    ("diagnose_run", {"run_id": "{sick}"}),
    ("diagnose_run", {"run_id": "{sick}", "detail": "detailed"}),
    ("diagnose_run", {"run_id": "{sac}"}),
    ("prescribe", {"run_id": "{sick}"}),
    ("get_guide", {}),
    ("get_guide", {"question": "too-slow"}),
    ("explain_rule", {"rule": "LRN101"}),
    ("get_trial", {"trial_id": "{trial}"}),
    ("get_optimize", {"search_id": "{optimize}"}),
    ("get_sensitivity", {"study_id": "{sensitivity}"}),
    ("validate_config", {"config_id": "CartPole-v1:ppo", "overrides": {"algo.learning_rate": 0.5}}),
    ("validate_config", {"config_id": "CartPole-v1:ppo", "overrides": {"algo.gamma": 2}}),
    ("describe_environment", {"env_id": "CartPole"}),
    ("start_trial", {"run_id": "{sick}", "rx": [1], "dry_run": True}),
    ("start_sensitivity", {"run_id": "{sick}", "dry_run": True}),
    ("adopt", {"trial_id": "{trial}", "as_variant": "CartPole-v1:tried", "dry_run": True}),
    ("morning_report", {"hours": 1}),
    ("start_training", {"config_id": "CartPole-v1:ppo"}),
    ("get_run_info", {"run_id": "gone"}),
    ("list_runs", {"nonsense": 1}),
)

RESOURCES = (
    "rl://runs/{sick}/config",
    "rl://runs/{sick}/diagnosis",
    "rl://runs/{sick}/report",
    "rl://catalog/metrics",
    "rl://catalog/rules",
    "rl://catalog/algorithms",
    "rl://catalog/environments",
    "rl://ledger",
    "rl://morning-report",
)


def ids() -> dict[str, str]:
    """What the recorded groups, the trial and the studies are called."""
    return json.loads(IDS.read_text())


def filled(asked: Any) -> Any:
    """A question with the ids and folders that it names."""
    if isinstance(asked, dict):
        return {key: filled(value) for key, value in asked.items()}
    if isinstance(asked, list):
        return [filled(value) for value in asked]
    return asked.format(samples=_samples(), **ids()) if isinstance(asked, str) else asked


@cache
def _samples() -> Path:
    """The samples' folder, its files as old as they are meant to be: a checkout makes them anew."""
    for path in SAMPLES.rglob("*"):
        os.utime(path, (WRITTEN, WRITTEN))
    return SAMPLES


def in_copy(folder: Path, work: Callable[[Path], Any]) -> Any:
    """What `work` gives with a copy of the recorded runs under `folder`, which it is given and which is the working folder."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(RUNS, folder / "runs", symlinks=True)
    with contextlib.chdir(folder):
        return work(folder)


def ask_commands(family: str, folder: Path) -> dict[str, Any]:
    """Every command of a family with --json, one after the other: what one writes into the run folders, the next may read."""
    return in_copy(folder, lambda here: {line: _ask_command(line, here) for line in COMMANDS[family]})


def _ask_command(line: str, here: Path) -> Any:
    code, out, err = faces.run_command(*filled(line).split(), "--json")
    try:
        said = json.loads(out) if out else None
    except json.JSONDecodeError:
        said = out
    # Progress and warnings are words; an error is what the user has instead of an answer.
    return steady({"exit code": code, "json": said} | ({"stderr": err} if code else {}), here)


def ask_http(folder: Path) -> dict[str, Any]:
    """What the routes answer to GET, and to the POSTs that start nothing."""

    def work(here: Path) -> dict[str, Any]:
        with faces.http_client(Path("runs")) as client:
            said = {f"GET {route}": _read_response(client.get(f"/api/v1/{filled(route)}")) for route in ROUTES}
            # The same as a page of this server would send.
            headers = {"Origin": "http://localhost"}
            for route, body in POSTS:
                said[f"POST {route} {json.dumps(body)}"] = _read_response(
                    client.post(f"/api/v1/{route}", json=filled(body), headers=headers)
                )
            return steady(said, here)

    return in_copy(folder, work)


def _read_response(response: Any) -> dict[str, Any]:
    kind = response.headers.get("content-type", "").partition(";")[0]
    return {"status": response.status_code, "type": kind, "body": response.json() if kind.endswith("json") else response.text}


def ask_mcp(folder: Path) -> dict[str, Any]:
    """What the tools and resources answer: data whole, of texts only that there is one."""

    def work(here: Path) -> dict[str, Any]:
        async def talk(client: Any) -> dict[str, Any]:
            from mcp import MCPError

            said: dict[str, Any] = {}
            for tool, arguments in CALLS:
                result = await client.call_tool(tool, filled(arguments))
                said[f"{tool} {json.dumps(arguments)}"] = {
                    "error": bool(result.is_error),
                    "data": result.structured_content,
                    "parts": [(part.type, part.type != "text" or bool(part.text.strip())) for part in result.content],
                }
            for uri in RESOURCES:
                try:
                    text = str((await client.read_resource(filled(uri))).contents[0].text)
                except MCPError as error:
                    text = f"error: {error}"
                said[uri] = json.loads(text) if text.startswith(("{", "[")) else bool(text)
            return said

        return steady(json.loads(json.dumps(faces.ask_mcp(faces.mcp_server(Path("runs")), talk))), here)

    return in_copy(folder, work)


def ask_shapes(folder: Path) -> dict[str, Any]:
    """Options, routes, tools, public Python names and config keys: names, types, defaults; no words."""

    def work(_: Path) -> dict[str, Any]:
        with faces.http_client(Path("runs")) as client:
            routes = faces.describe_routes(client.get("/api/v1/openapi.json").json())
        config = find_config(routes)
        return {
            "commands": faces.describe_commands(),
            "config": config,
            "http": json.loads(json.dumps(routes).replace(json.dumps(config), '"a config"')),
            "mcp": faces.describe_mcp(faces.mcp_server(Path("runs"))),
            "python": faces.describe_python(),
        }

    return in_copy(folder, work)


def find_config(shape: Any) -> Any:
    """The schema of a config, which the description of the routes has inside that of a trial; None where there is none."""
    if isinstance(shape, dict):
        if {name.rstrip("*") for name in shape.get("fields", ())} >= {"env", "algo", "net", "run", "seed"}:
            return shape
        return next((config for part in shape.values() if (config := find_config(part)) is not None), None)
    return next((config for part in shape if (config := find_config(part)) is not None), None) if isinstance(shape, list) else None


QUESTIONS: dict[str, Callable[[Path], dict[str, Any]]] = {
    **{f"cli_{family}": lambda folder, family=family: ask_commands(family, folder) for family in COMMANDS},
    "http": ask_http,
    "mcp": ask_mcp,
    "shapes": ask_shapes,
}

# ── what is the same everywhere ──

# Of the clock, and of the machine.
ELSEWHERE = frozenset({"age_seconds", "cores", "created", "ended_seconds_ago", "modified", "set_at", "since", "time"})


def steady(said: Any, here: Path, key: str = "") -> Any:
    """An answer without what the clock, the machine or the folder decides."""
    if isinstance(said, dict):
        return {name: steady(value, here, name) for name, value in said.items()}
    if isinstance(said, list):
        return [steady(value, here, key) for value in said]
    if key in ELSEWHERE and said is not None:
        return "(differs)"
    if isinstance(said, str):
        said = said.replace(str(here), "(here)").replace(str(SAMPLES), "(samples)")
        if "╭" in said:  # a box as wide as the terminal
            said = " ".join(re.sub("[─╭╮╰╯│]", " ", said).split())
        said = re.sub(r"\b20\d\d-\d\d-\d\d( \d\d:\d\d)?\b", "(date)", said)
        # A line of a shipped file moves with every variant that is added above it; tests/config holds origins to their lines.
        return re.sub(r"\b([\w.-]+\.yaml):\d+\b", r"\1:(line)", said)
    return said


# ── comparing ──


ADDED = {
    r"› causes › \d+ › kind$": "where a cause lies is one field, in place of sets of ids that each face had of its own",
    r"› causes\* › items › fields › kind$": "the same, as it is described",
}
"""Fields that came later, and why: what reads answers passes over what it does not know."""


def is_words(text: Any) -> bool:
    """A sentence, which may be improved; a command or an option is none."""
    return isinstance(text, str) and " " in text and not text.startswith(("rlclinic ", "--"))


def facts(before: Any, now: Any) -> list[str]:
    """Where two answers differ in anything but sentences."""
    return [text for text, words in _differences(before, now, "") if not words]


def words(before: Any, now: Any) -> list[str]:
    """Where two answers differ in sentences."""
    return [text for text, words in _differences(before, now, "") if words]


def _differences(before: Any, now: Any, where: str) -> Iterator[tuple[str, bool]]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in [*before, *(key for key in now if key not in before)]:
            place = f"{where} › {key}" if where else str(key)
            if key not in now:
                yield f"{place} is gone", False
            elif key not in before:
                if not any(re.search(added, place) for added in ADDED):
                    yield f"{place} is new", False
            else:
                yield from _differences(before[key], now[key], place)
    elif isinstance(before, list) and isinstance(now, list):
        if len(before) != len(now):
            yield f"{where} has {len(now)} entries instead of {len(before)}", False
        for place, pair in enumerate(zip(before, now, strict=False)):
            yield from _differences(*pair, f"{where} › {place}")
    elif isinstance(before, float) and isinstance(now, float) and math.isclose(before, now, rel_tol=1e-9):
        # Sums in numpy differ in the last bit between machines.
        return
    elif before != now or type(before) is not type(now):
        yield f"{where}: {now!r} instead of {before!r}", is_words(before) and is_words(now)


def with_words(before: Any, now: Any) -> Any:
    """What was recorded, with the sentences of now."""
    if isinstance(before, dict) and isinstance(now, dict):
        return {key: with_words(value, now[key]) if key in now else value for key, value in before.items()}
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return [with_words(*pair) for pair in zip(before, now, strict=True)]
    return now if is_words(before) and is_words(now) else before


def load(name: str) -> dict[str, Any]:
    """What was recorded."""
    return json.loads((ANSWERS / f"{name}.json").read_text())


def save(name: str, said: dict[str, Any]) -> None:
    """Record."""
    ANSWERS.mkdir(exist_ok=True)
    (ANSWERS / f"{name}.json").write_text(written(said) + "\n")


def written(value: Any, margin: str = "") -> str:
    """JSON whose small parts and lists of numbers take a line each: with a number to a line they would be most of these files."""
    line = json.dumps(value, ensure_ascii=False)
    below = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    if len(margin) + len(line) <= 140 or not any(isinstance(each, dict | list | str) for each in below):
        return line
    inner = margin + " "
    if isinstance(value, list):
        return "[\n" + ",\n".join(inner + written(each, inner) for each in value) + f"\n{margin}]"
    parts = (f"{inner}{json.dumps(key, ensure_ascii=False)}: {written(each, inner)}" for key, each in value.items())
    return "{\n" + ",\n".join(parts) + f"\n{margin}}}"
