"""docs/questions.md: questions that people ask, the commands that answer them, and what these really print.

The commands run on a small store that is made of recorded runs (tests/diagnosis/cases), so that the page can be written again at
any time: python -m docs.generate. Ids, ages and seconds differ from time to time; the page shows those of its own store.
"""

import importlib
import json
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

AGE_SECONDS = 130
AGENT_LINES = 14
INTRODUCTION = """# Questions, and what to type

Each command prints what is shown below it, on runs that were recorded for the tests of this project. The outputs are real: the page
is written by `python -m docs.generate`, which runs the commands.
"""


Call = tuple[str, dict[str, Any]]
"""A tool and its arguments."""


class Question(NamedTuple):
    """One question: what was asked, what there is, what to type, what an agent calls, and what to make of the answer."""

    asked: str
    commands: tuple[str, ...]
    comment: str
    most: int = 40
    """Lines that are shown."""
    calls: tuple[Call, ...] = ()
    """The same asked by an agent, of the MCP server."""


QUESTIONS = (
    Question(
        "I just trained CartPole-v1 with PPO, and it takes too long to reach the threshold.",
        ("rlclinic diagnose slow",),
        "The first cause is the answer, and the first RX is what to change. `prove it` tries it on fresh seeds; `use it` just trains.",
        calls=(("diagnose_run", {"run_id": "slow"}),),
    ),
    Question(
        "Run abc123 did not converge well: what is wrong with my hyperparameters?",
        ("rlclinic diagnose abc123-s0", "rlclinic lint abc123"),
        "A single run can be diagnosed too; `lint` looks at its settings alone, and works before anything is trained.",
        calls=(("diagnose_run", {"run_id": "abc123-s0"}), ("validate_config", {"config_id": "abc123"})),
    ),
    Question(
        "My Pong training is stuck at −20: how can it converge faster?",
        ("rlclinic diagnose logs/ppo/PongNoFrameskip-v4_1 --threshold 18 --budget 10M",),
        "The log is Stable-Baselines3's progress.csv (here one written for this page). What it does not hold is named, with the lines that "
        "add it. Nothing is written into that folder; `--out DIR` writes the report elsewhere.",
        calls=(("diagnose_run", {"run_id": "logs/ppo/PongNoFrameskip-v4_1", "threshold": 18.0, "budget_env_steps": 10_000_000}),),
    ),
    Question(
        "My CartPole run finished but did not solve the environment: what went wrong?",
        ("rlclinic diagnose high", "rlclinic rules POL101"),
        "Every cause names its rule, and `rules` says what it looks for, why it hurts, when it is fine, and where that is known from.",
        60,
        calls=(("diagnose_run", {"run_id": "high"}), ("explain_rule", {"rule": "POL101"})),
    ),
    Question(
        "I have a run in progress: is it going well, or should I stop it?",
        ("rlclinic status going",),
        "CONTINUE, STOP or ADJUST, with the probability of getting there in the budget; `--watch` keeps looking.",
        calls=(("get_training_status", {"run_id": "going"}),),
    ),
    Question(
        "My PPO run keeps crashing or shows weird metrics.",
        ("rlclinic diagnose crashed",),
        "What failed is a cause as well. `rlclinic runs logs RUN` shows the end of its log.",
        calls=(("diagnose_run", {"run_id": "crashed"}), ("get_run_info", {"run_id": "crashed-s0"})),
    ),
    Question(
        "How can I make my training converge faster?",
        ("rlclinic prescribe abc123", "rlclinic history CartPole-v1"),
        "Exact changes for one group, and what separates solved from failed among all that was tried. With few groups it says so.",
        48,
        calls=(("prescribe", {"run_id": "abc123"}), ("compare_runs", {"run_ids": ["fine", "abc123"]})),
    ),
    Question(
        "Just finished training CartPole with PPO.",
        ("rlclinic diagnose fine", "rlclinic runs show fine"),
        "A healthy group gets two lines. `train` itself ends with the same verdict, and with the top finding where there is one.",
        calls=(("diagnose_run", {"run_id": "fine"}),),
    ),
    Question(
        "What batch size should I use for a PPO loop on my robot simulation?",
        ("rlclinic lint Pendulum-v1:ppo --set algo.batch_size=1024 --set algo.n_epochs=1",),
        "The numbers that follow from a choice decide, not the batch size alone: gradient steps per rollout, and how many rollouts the "
        "budget pays for. Change one and type it again; what cannot work is refused with the nearest value that does.",
        calls=(("validate_config", {"config_id": "Pendulum-v1:ppo", "overrides": {"algo.batch_size": 1024, "algo.n_epochs": 1}}),),
    ),
    Question(
        "I have 100k expert demonstrations: offline RL or an online loop?",
        ("rlclinic guide offline-or-online",),
        "No file answers it, so this is a guide and not a measurement: what decides, in which order, with its sources, the commands that "
        "measure a part of it, and what is not assessable here. `rlclinic guide` lists all questions; words of one are enough.",
        calls=(("get_guide", {"question": "100k expert demonstrations: offline RL or an online loop?"}),),
    ),
    Question(
        "My DAgger keeps diverging after a few iterations.",
        ("rlclinic guide dagger-diverges",),
        "A guide again: DAgger is not trained here, and no log says who labelled which state. The learner's own log can be diagnosed as "
        "any other.",
        calls=(("get_guide", {"question": "My DAgger keeps diverging"}),),
    ),
    Question(
        "How should I structure the reward?",
        ("rlclinic lint --env MountainCar-v0 --seconds 4",),
        "Look at the reward before an agent does: how often it comes, how large it is, and whether random actions ever see a difference. "
        "Here chance never finds anything better, so the reward needs shaping, or the agent more exploration.",
        calls=(("describe_environment", {"env_id": "MountainCar-v0", "examine": True}),),
    ),
    Question(
        "We have a control problem, a decent simulator and some expert data: is RL overkill?",
        ("rlclinic lint --env MountainCar-v0 --seconds 4",),
        "The same look answers part of it: constant actions never get there, and a rule of one line (`scripted`) reaches the goal in "
        "about 120 steps without any learning. Where such a rule exists, it is the bar that RL has to pass.",
        20,
        calls=(("describe_environment", {"env_id": "MountainCar-v0", "examine": True}),),
    ),
)
IN_A_BROWSER = """## The same in a browser

`rlclinic serve` answers all of them, too: 1 to 8 on the page of the group or run, 9 while settings are typed into the *Train…* dialog,
10 and 11 on the page *Guide*, 12 and 13 on the page *Environments* (*Look closely*). A test asks each of them there.
"""


@contextmanager
def store() -> Iterator[Path]:
    """A folder with the runs that the questions are about, as the current one."""
    stored = importlib.import_module("tests.diagnosis.stored")
    recorded = importlib.import_module("tests.ops.recorded")
    with tempfile.TemporaryDirectory() as name, chdir(name):
        groups = {
            "slow": stored.write_group("cp-lr-d100"),
            "high": stored.write_group("cp-lr-x100"),
            "crashed": stored.write_group("cp-nan"),
            "abc123": stored.write_group("cp-lr-x30"),
            "fine": stored.write_group("cp-healthy"),
            "going": recorded.record_group(Path("runs"), seeds=(0, 1), state="running", share_done=0.6),
        }
        _rename(groups)
        write_pong(Path("logs/ppo/PongNoFrameskip-v4_1"))
        for file in Path("logs").rglob("*"):
            os.utime(file, (0, 0))  # of another day: nobody writes to it any more
        yield Path(name)


def _rename(groups: dict[str, Any]) -> None:
    """Groups and runs under ids that can be read, and two minutes old."""
    for wanted, group in groups.items():
        for run in group.runs:
            _age(run.path / "config.json", "created", group.id, wanted)
            if wanted != "going":
                _age(run.path / "status.json", "heartbeat", group.id, wanted)
            run.path.rename(run.path.with_name(run.id.replace(group.id, wanted)))
        _age(group.path / "group.json", "created", group.id, wanted)
        group.path.rename(group.path.with_name(wanted))


def _age(path: Path, key: str, id: str, wanted: str) -> None:
    record = json.loads(path.read_text().replace(id, wanted))
    path.write_text(json.dumps({**record, key: record[key] - AGE_SECONDS}))


def write_pong(folder: Path) -> None:
    """A progress.csv as Stable-Baselines3 writes it, of a run whose learning rate is far too low."""
    folder.mkdir(parents=True)
    heads = ["time/total_timesteps", "rollout/ep_rew_mean", "rollout/ep_len_mean", "train/approx_kl", "train/clip_fraction"]
    heads += ["train/entropy_loss", "train/explained_variance", "train/learning_rate", "train/value_loss"]
    lines = [",".join(heads)]
    for n in range(1, 121):
        wobble = ((n * 37) % 11 - 5) / 50
        row = [8192 * n, -20.4 + wobble, 905 + n % 7, 2e-7 * (1 + wobble), 0.0, -1.79, 0.05 + wobble / 10, 1e-7, 0.02 + wobble / 1000]
        lines.append(",".join(f"{value:.6g}" for value in row))
    (folder / "progress.csv").write_text("\n".join(lines) + "\n")


def answer(command: str) -> tuple[int, str]:
    """What a command prints in the current folder, and its exit code."""
    from typer.testing import CliRunner

    from rlclinic.serve.cli.app import app

    os.environ["COLUMNS"] = "120"
    result = CliRunner().invoke(app, shlex.split(command)[1:])
    return result.exit_code, result.stdout


def called(call: Call) -> tuple[bool, str]:
    """What a tool of the MCP server answers in the current folder, and whether that is an error."""
    from concurrent.futures import ThreadPoolExecutor

    import anyio
    from mcp import Client

    from rlclinic.runs.store import Store
    from rlclinic.serve.mcp.server import build
    from rlclinic.serve.mcp.settings import Settings

    async def asked() -> tuple[bool, str]:
        async with Client(build(Store("runs"), Settings(local=True))) as client:
            result = await client.call_tool(*call)
            return bool(result.is_error), str(getattr(result.content[0], "text", ""))

    # In a thread of its own: whoever asks may have a loop running, as a test does that keeps a browser open.
    with ThreadPoolExecutor(1) as elsewhere:
        return elsewhere.submit(anyio.run, asked).result()


def spelled(call: Call) -> str:
    """A call as an agent writes it."""
    return f"{call[0]}({', '.join(f'{key}={json.dumps(value)}' for key, value in call[1].items())})"


def steady(text: str) -> str:
    """The same text whenever the page is written: durations differ, and lines end where their words do."""
    text = re.sub(r"(?m)^((?:all of it|took) .*?)[\d.]+ s$", r"\g<1>0.4 s", text)
    text = re.sub(r"[\d,]+ steps/s: a million steps in [^,]*,", "36,000 steps/s: a million steps in 28 s,", text)
    text = re.sub(r"[\d,]+ steps/s", "36,000 steps/s", text)
    text = re.sub(r"checks in [\d.]+ s", "checks in 1.4 s", text)
    text = re.sub(r"\b\d+ (s|min) ago", "2 min ago", text)
    # How many random episodes are played depends on the machine.
    text = re.sub(r"all \d+ random", "all 33 random", re.sub(r"\d+ truncated", "33 truncated", text))
    text = re.sub(r"(?m)^(  random .* )\d+$", r"\g<1>33", text)
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines())


def page() -> str:
    """docs/questions.md."""
    lines = [INTRODUCTION]
    with store():
        for place, question in enumerate(QUESTIONS, 1):
            lines += [f"## {place}. {question.asked}", ""]
            for command in question.commands:
                code, text = answer(command)
                if code:
                    raise SystemExit(f"`{command}` ended with {code}: the page stays as it is")
                lines += ["```sh", command, "```", "", "```text", *_cut(steady(text), question.most), "```", ""]
            for call in question.calls:
                error, text = called(call)
                if error:
                    raise SystemExit(f"{spelled(call)} failed: the page stays as it is\n{text}")
                lines += ["An agent calls", "", "```text", spelled(call), *_cut(steady(text), AGENT_LINES), "```", ""]
            lines += [question.comment, ""]
    return "\n".join([*lines, IN_A_BROWSER])


def _cut(text: str, most: int) -> list[str]:
    found = text.splitlines()
    return found if len(found) <= most else [*found[:most], "…"]
