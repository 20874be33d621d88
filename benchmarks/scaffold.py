"""Is what `rlclinic new env` writes sound as it is, and are its mistakes found once somebody has changed it?

python -m benchmarks.scaffold

Eighteen environments of other spaces, terms and difficulties are written, looked at by `lint --env` and tested by the tests that came with
them. Then one mistake each is put into the files of two of them, of the kinds that people make when they change an environment: a mistake
is found if one of the tests fails or `lint --env` says something of it.
"""

# ruff: noqa: E501 — lines of code in a table

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from benchmarks import provenance
from rlclinic.ops.diagnose.requests import NewEnvRequest
from rlclinic.ops.tasks.new_env import write_environment

COMMAND: Final = "python -m benchmarks.scaffold"
CLEAN: Final[tuple[dict[str, str], ...]] = (
    {},
    {"difficulty": "0..1"},
    {"obs": "box:1", "action": "box:3", "terms": "task"},
    {"obs": "box:3", "action": "discrete:2", "terms": "goal,time"},
    {"obs": "box:4", "action": "discrete:5", "difficulty": "1..10", "terms": "task,progress,effort"},
    {"obs": "box:20", "action": "box:7", "terms": "task,progress,comfort"},
    {"obs": "dict:8", "difficulty": "0..1"},
    {"obs": "dict:2", "action": "discrete:4", "terms": "task"},
    {"obs": "discrete:16", "action": "discrete:4", "difficulty": "0..1", "terms": "task,safety"},
    {"obs": "discrete:10", "action": "discrete:2", "terms": "task,time"},
    {"obs": "discrete:25", "action": "discrete:3", "difficulty": "0..100", "terms": "task,progress,effort,time,safety"},
    {"obs": "discrete:8", "action": "box:2", "terms": "task,energy"},
    {"obs": "box:6", "action": "box:3", "difficulty": "0..1", "terms": "reach,shaping"},
    {"obs": "box:2", "action": "discrete:3", "terms": "task,progress"},
    {"obs": "box:8", "action": "multidiscrete:3x3", "difficulty": "0..1", "terms": "task,progress,effort"},
    {"obs": "discrete:12", "action": "multidiscrete:3x2", "terms": "task,safety"},
    {"obs": "image:36", "action": "box:2", "difficulty": "0..1", "terms": "task,progress,safety"},
    {"obs": "image:16", "action": "discrete:4", "terms": "task,time"},
)
POINT: Final = {"difficulty": "0..1"}
LINE: Final = {"obs": "discrete:16", "action": "discrete:4", "difficulty": "0..1", "terms": "task,progress,safety"}
ENV, TERMS, YAML = "task.py", "task_terms.py", "task.yaml"
MISTAKES: Final = (
    ("the seed is ignored", POINT, ENV, "super().reset(seed=seed)", "super().reset()"),
    ("the generator of all processes is used", POINT, ENV, "self.np_random.uniform(-1, 1, AXES)", "np.random.uniform(-1, 1, AXES)"),
    ("the time limit is missing", POINT, ENV, "truncated = self.steps >= MAX_STEPS and not terminated", "truncated = False"),
    ("the time limit is a termination", POINT, ENV, "terminated = self.reached ", "terminated = self.reached or self.steps >= MAX_STEPS "),
    ("the goal does not end the episode", POINT, ENV, "terminated = self.reached ", "terminated = False "),
    ("success is said at the time limit", POINT, ENV, '"is_success": self.reached', '"is_success": terminated or truncated'),
    ("success is never said", LINE, ENV, '"is_success": self.reached', '"is_success": False'),
    ("success is said halfway", LINE, ENV, '"is_success": self.reached', '"is_success": self.position > CELLS // 2'),
    ("the reward has a part that is no term", POINT, ENV, "return self._observe(), reward, ter", "return self._observe(), reward - 0.05, ter"),
    ("the reward has the wrong sign", POINT, ENV, "return self._observe(), reward, ter", "return self._observe(), -reward, ter"),
    ("the task costs", LINE, TERMS, '"task": 1.0', '"task": -1.0'),
    ("difficulty is the wrong way round", POINT, ENV, "0.8 * self.difficulty", "0.8 * (1 - self.difficulty)"),
    ("difficulty does nothing", LINE, ENV, "round(self.difficulty * (CELLS - 2))", "round(CELLS - 2)"),
    ("observations leave their space", POINT, ENV, "spaces.Box(-4.0, 4.0", "spaces.Box(-0.5, 0.5"),
    ("observations have another type", POINT, ENV, ".astype(np.float32)", ".astype(np.float64)"),
    ("the observation is an array that later steps change", POINT, ENV, "def _observe(self) -> Any:\n", "def _observe(self) -> Any:\n        self._seen = getattr(self, '_seen', np.zeros(self.observation_space.shape, np.float32))\n        self._seen[:] = self._look()\n        return self._seen\n\n    def _look(self) -> Any:\n"),
    ("copies share their state", LINE, ENV, "self.position = int(np.clip(wanted, 0, CELLS - 1))", "type(self).position = int(np.clip(wanted, 0, CELLS - 1)); vars(self).pop('position', None)"),
    ("steps are not counted anew", POINT, ENV, "self.steps, self.reached, self.bumped = 0, False, False", "self.steps, self.reached, self.bumped = getattr(self, 'steps', 0), False, False"),
    ("a potential that is kept at the end", POINT, ENV, "measure(self), self, terminated)", "measure(self), self, False)"),
    ("another discount than the learner's", POINT, YAML, "gamma: 0.99            #", "gamma: 0.9            #"),
    ("closeness is paid in every step", POINT, TERMS, 'return float(env.bumped)', 'return -10 * max(0.0, 1 - env.distance)'),
    ("an action has no effect", POINT, ENV, "push = np.clip(action, -1, 1)", "push = np.clip(action, -1, 1) * [1, 0]"),
    ("the task is paid in every step near the goal", POINT, TERMS, "return float(env.reached)", "return float(env.distance < 0.5)"),
    ("a step returns four values", LINE, ENV, "reward, terminated, truncated, {**info", "reward, terminated or truncated, {**info"),
)  # fmt: skip
"""(what, whose files, which file, what stands there, what stands there instead)."""


def write(folder: Path, options: dict[str, str]) -> None:
    """An environment called Task in folder/task."""
    write_environment(NewEnvRequest(name="Task", to=folder / "task", **options))


def judge(folder: Path) -> str:
    """What says something of the environment: `tests`, `lint`, or nothing."""
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "task"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if tests.returncode:
        return "tests"
    command = [sys.executable, "-m", "rlclinic", "lint", "--env", "task/task.py:Task", "--seconds", "8", "--fail-on", "low"]
    lint = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return "lint" if lint.returncode else ""


def judge_clean(options: dict[str, str]) -> str:
    with tempfile.TemporaryDirectory() as name:
        write(Path(name), options)
        return judge(Path(name))


def judge_mistake(mistake: tuple[str, dict[str, str], str, str, str]) -> str:
    what, options, file, before, after = mistake
    with tempfile.TemporaryDirectory() as name:
        write(Path(name), options)
        path = Path(name) / "task" / file
        text = path.read_text()
        if before not in text:
            raise ValueError(f"{what}: {file} has no {before!r}")
        path.write_text(text.replace(before, after))
        return judge(Path(name))


def main() -> None:
    """Measure, and save the rows as benchmarks/results/scaffold.json."""
    parser = provenance.parser(__doc__)
    parser.add_argument("--processes", type=int, default=1)
    args = parser.parse_args()
    most = 2 if args.quick else None
    with ThreadPoolExecutor(args.processes) as pool:  # each waits for processes of its own
        sound = pool.map(judge_clean, CLEAN[:most])
        wrong = pool.map(judge_mistake, MISTAKES[:most])
        clean = [(str(options or "as it is"), said) for options, said in zip(CLEAN, sound, strict=False)]
        found = [(mistake[0], said) for mistake, said in zip(MISTAKES, wrong, strict=False)]
    alarms = sum(bool(said) for _, said in clean)
    for what, said in clean:
        print(f"clean    {said or 'quiet':5} {what}", flush=True)
    for what, said in found:
        print(f"mistake  {said or 'MISSED':5} {what}", flush=True)
    caught = sum(bool(said) for _, said in found)
    rows: list[dict[str, object]] = [
        {
            "what": "new env: findings of lint --env and failed tests, other spaces and terms",
            "unit": f"of {len(clean)}",
            "value": alarms,
            "bar": 0,
            "stretch": 0,
            "better": "lower",
        },
        {
            "what": "new env: mistakes found by its tests or lint --env",
            "unit": f"% of {len(found)}",
            "value": round(100 * caught / len(found), 1),
            "bar": 95,
            "stretch": 100,
            "better": "higher",
        },
        {
            "what": "new env: mistakes found by its tests alone",
            "unit": f"% of {len(found)}",
            "value": round(100 * sum(said == "tests" for _, said in found) / len(found), 1),
            "better": "higher",
        },
    ]
    print(provenance.write("scaffold", rows, provenance.provenance(COMMAND), args.quick))


if __name__ == "__main__":
    main()
