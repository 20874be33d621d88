"""Write runs/ and answers/ of this folder: `python -m tests.recorded.record`.

The tests beside this file hold what users see to what was recorded. When to run what:

- `python -m tests.recorded.record`: runs and answers anew, with the code that is checked out. Only where a change that users are meant
  to notice has been decided, or the run folder's format has a new version (keep the old runs then, beside the new ones): it
  makes every test here pass, whatever the code does. Seeds, ids and metrics come out the same on the same machine; clocks do not.
- `python -m tests.recorded.record --answers`: only the answers, over the runs that are there.
- `python -m tests.recorded.record --words`: only sentences in the answers. Fields, numbers, commands and exit codes that differ are
  named and left as they were recorded.
"""

import argparse
import contextlib
import json
import random
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from tests.recorded import answers, faces, resumes

SMALL = ("net.hidden=[8]", "run.eval_episodes=4")
SHORT = (*SMALL, "algo.n_steps=64", "run.eval_every_env_steps=2560")


def main() -> None:
    """Record what the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--answers", action="store_true", help="only the answers, over the runs that are there")
    choice.add_argument("--words", action="store_true", help="only sentences in the answers")
    asked = parser.parse_args()
    if not asked.answers and not asked.words:
        record_runs()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        record_answers(only_words=asked.words)


def record_runs() -> None:
    """Train everything in a folder of its own, and keep it with the ids and with what the stopped runs end as when they are resumed."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        letters = random.Random(0)
        with mock.patch.object(secrets, "choice", letters.choice):
            ids = train_all()
        for path in Path("runs").rglob("*"):
            # Nothing here reads the checkpoints of a study's runs, and they are most of its bytes.
            if path.name == "checkpoints" and path.is_dir() and path.parent.name.partition("-")[0] not in ids.values():
                shutil.rmtree(path)
        Path("ids.json").write_text(json.dumps(ids, indent=1) + "\n")
        shutil.rmtree(answers.RUNS, ignore_errors=True)
        shutil.copytree("runs", answers.RUNS, symlinks=True)
        shutil.copy("ids.json", answers.IDS)
    resumes.record()


def train_all() -> dict[str, str]:
    """Train the groups, the trial and the studies in ./runs; what each is called in the commands of answers.py."""
    ids = {
        "healthy": _train("CartPole-v1:ppo", 2, *SMALL, "run.max_env_steps=8192", "run.eval_every_env_steps=2048"),
        "sick": _train("CartPole-v1:a2c", 3, *SHORT, "run.max_env_steps=12800", "algo.learning_rate=0.5"),
        "ppo": _stop("CartPole-v1:ppo", 4, *SMALL, "algo.n_epochs=2", "run.max_env_steps=4096", "run.eval_every_env_steps=1024"),
        "dqn": _stop(
            *("CartPole-v1:dqn", 8, *SMALL, "run.max_env_steps=2048", "run.eval_every_env_steps=512"),
            *("algo.learning_starts=128", "algo.batch_size=16", "algo.gradient_steps=4"),
        ),
        "sac": _stop(
            *("Pendulum-v1:sac", 4, *SMALL, "run.max_env_steps=1200", "run.eval_every_env_steps=400"),
            *("algo.learning_starts=100", "algo.batch_size=16"),
        ),
        "table": _stop("FrozenLake-v1:q", 8, "run.max_env_steps=3200", "run.eval_every_env_steps=400", "run.eval_episodes=20"),
    }
    few = ("--jobs", "1", "--yes", "--quiet", "--json")
    seeds = ("--looks", "2", "--per-look", "2")
    trial = _run("trial", ids["sick"], "--rx", "1", *seeds, "--max-env-steps", "5120", "--outcome", "return", *few)
    study = _run("sensitivity", "CartPole-v1:a2c", "--only", "algo.learning_rate", "--factors", "4", "--seeds", "2", *_set(5120), *few)
    search = _run("optimize", "CartPole-v1:a2c", "--budget", "60k", "--run-env-steps", "5120", *_set(5120, "algo.learning_rate=0.5"), *few)
    return ids | {"trial": _id_of(trial, "t"), "sensitivity": _id_of(study, "s"), "optimize": _id_of(search, "o")}


def _id_of(answer: Any, letter: str) -> str:
    (found,) = {path.name for path in Path("runs").glob("@*/*") if path.is_dir() and path.name.startswith(letter)}
    assert found in json.dumps(answer)
    return found


def _set(budget: int, *more: str) -> list[str]:
    return [word for change in (*SHORT, f"run.max_env_steps={budget}", *more) for word in ("--set", change)]


def _train(ref: str, seeds: int, *changes: str) -> str:
    words = [word for change in changes for word in ("--set", change)]
    return str(_run("train", ref, "--seeds", str(seeds), *words, "--quiet", "--json")["group"])


def _stop(ref: str, rows: int, *changes: str) -> str:
    """Train one seed and stop it after some rows, with a checkpoint."""
    import rlclinic

    group = rlclinic.train(ref, callback=_stop_after(rows), overrides=changes)
    assert group.runs[0].status.state == "stopped"
    return str(group.id)


def _stop_after(rows: int) -> Callable[[dict[str, Any]], bool]:
    seen: list[dict[str, Any]] = []

    def look(row: dict[str, Any]) -> bool:
        seen.append(row)
        return len(seen) < rows

    return look


def _run(*words: str) -> Any:
    code, out, err = faces.run_command(*words)
    if code:
        sys.exit(f"rlclinic {' '.join(words)} ended with {code}:\n{err}")
    return json.loads(out)


def record_answers(only_words: bool) -> None:
    """Ask every question of answers.py, and write what it gave."""
    for name, ask in answers.QUESTIONS.items():
        said = ask(Path.cwd() / name)
        if only_words:
            before = answers.load(name)
            for difference in answers.facts(before, said):
                print(f"{name}: {difference}")
            said = answers.with_words(before, said)
        answers.save(name, said)


if __name__ == "__main__":
    main()
