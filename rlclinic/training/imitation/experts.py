"""Whoever is asked what to do: a trained policy, a function, a program that answers JSON lines, a person.

All of them are an `Expert`: `answer` takes the observations of one member's envs and which of them the question is about. An answer that
is missing, late or no action of the environment's is None: the state stays without a label, the policy acts, and the run's log says why.
After GIVE_UP of them in a row the run stops, with everything kept, and can be resumed when the expert is back.
"""

import contextlib
import json
import os
import queue
import shlex
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from rlclinic import trust
from rlclinic.actions import Action
from rlclinic.config import Config
from rlclinic.errors import ConfigError, NotFound, RunError
from rlclinic.runs import labelling
from rlclinic.runs.record import Run
from rlclinic.training.envs import modules
from rlclinic.training.envs.base import VecEnv

GIVE_UP: Final = 20
"""Questions in a row without an answer after which nobody is there."""
RESTARTS: Final = 3
"""How often a command that has ended is started again before it has answered anything."""
MOST_LINES, MOST_CHARACTERS = 1_000, 1_000_000
"""Of what a command has written and nobody has read, and of a line: a command that never stops writing fills no memory."""
PERSON: Final = "person"
Floats = NDArray[Any]


class ExpertSilent(RunError):
    """The expert does not answer any more: the run stops, and goes on when it is resumed."""


@dataclass(frozen=True)
class Question:
    """What is asked, beside the observation."""

    run: Path
    place: tuple[int, ...]
    """Round, step, env, and which time it is asked."""
    allowed: Floats | None = None
    """[N, A] bool: which choices each env allows now; None: all of them."""

    def list_allowed(self, env: int) -> list[int] | None:
        """The choices that one env allows; None: all of them."""
        return None if self.allowed is None else np.flatnonzero(self.allowed[env]).tolist()


@dataclass
class Expert:
    """Somebody who says what to do."""

    name: str
    answer: Callable[[Floats, int, Question], Any]
    """Of all envs' observations [N, ...], the number of one of them, and the question: an action as the env takes it; None: none."""
    costs: bool = True
    """Whether answers are written down one by one, so that none is asked for twice."""
    close: Callable[[], None] = lambda: None


def make(config: Config, env: VecEnv, runs: Path, say: Callable[[str], None], stops: Callable[[], bool]) -> Expert:
    """The expert that a config names. say: into the runs' logs; stops: whether somebody has asked for the end."""
    name = config.algo.expert  # type: ignore[union-attr]
    if not name:
        raise ConfigError(
            f"{config.algo.name} asks an expert, and none is named.\n  There would be nobody to imitate.\n  Type: ",
            Action("train", config.name or f"{config.env.id}:{config.algo.name}", expert="RUN|my.py:function|person"),
        )
    if name == PERSON:
        spec = env.action
        bounded = spec.low is not None and spec.high is not None
        bounds = {"low": spec.low.tolist(), "high": spec.high.tolist()} if bounded else {"choices": spec.sizes[0]}  # type: ignore[union-attr]

        def show(obs: Floats, index: int, question: Question) -> Any:
            about = {**bounds, "allowed": question.list_allowed(index)}
            return labelling.wait(question.run, question.place, obs[index].tolist(), stops, **about)

        return Expert(name, show)
    if name.startswith(trust.COMMAND):
        program = Program(name.removeprefix(trust.COMMAND), config.algo.answer_seconds, say)  # type: ignore[union-attr]
        return Expert(name, lambda obs, index, question: program.ask(obs[index], question), close=program.close)
    if trust.names_code(name):
        return Expert(name, call(name))
    return Expert(name, follow(name, config, env, runs), costs=False)


def read_action(answer: Any, env: VecEnv, allowed: list[int] | None = None) -> Floats | np.int64:
    """An answer as an action of the environment; ConfigError says what is wrong with it. Beyond the bounds it is cut to them.

    allowed: the choices that there are now; None: all of them.
    """
    spec = env.action
    try:
        action = np.asarray(answer, np.float64)
    except (TypeError, ValueError):
        raise ConfigError(f"{answer!r:.200} is no number") from None
    if not np.isfinite(action).all():
        raise ConfigError(f"{answer!r:.200} is not finite")
    if spec.kind == "discrete":
        if action.size != 1 or action.item() != int(action.item()) or not 0 <= action.item() < spec.sizes[0]:
            raise ConfigError(f"{answer!r:.200} is none of the choices 0 to {spec.sizes[0] - 1}")
        if allowed is not None and int(action.item()) not in allowed:
            raise ConfigError(f"{answer!r:.200} is forbidden here: {allowed!s:.200} are allowed")
        return np.int64(action.item())
    if action.size != spec.sizes[0]:
        raise ConfigError(f"{answer!r:.200} has {action.size} numbers, and the environment takes {spec.sizes[0]}")
    return np.clip(action.reshape(spec.sizes[0]), spec.low, spec.high).astype(np.float32)


def call(name: str) -> Callable[[Floats, int, Question], Any]:
    """A function of the user's: one observation in, one action out."""
    home, _, inside = name.rpartition(":")
    function = getattr(modules.import_home(home, name), inside, None)
    if not callable(function):
        raise NotFound(f"{name}: there is no function {inside!r}.\n  Write file.py:function; it takes an observation and returns an action")

    def answer(obs: Floats, index: int, question: Question) -> Any:
        said = function(obs[index].copy())
        return None if said is None else np.asarray(said).tolist()

    return answer


def follow(name: str, config: Config, env: VecEnv, runs: Path) -> Callable[[Floats, int, Question], Any]:
    """The policy of a checkpoint, RUN@STEP, as it would act in evaluations."""
    from rlclinic.training import policy  # which imports what imports this

    base, _, which = name.partition("@")
    loaded = policy.load(Run(runs / base), f"@{which}" if which in ("best", "last") else which or "@best")
    seen, acts = loaded.config.env, loaded.make_envs(0, 1)
    try:
        differs = acts.obs_shape != env.obs_shape or acts.action.kind != env.action.kind or acts.action.sizes != env.action.sizes
    finally:
        acts.close()
    if differs or seen.frame_stack != config.env.frame_stack or seen.time_in_obs != config.env.time_in_obs:
        raise ConfigError(
            f"the expert {name} was trained in {seen.id} with other observations or actions than {config.env.id} has here.\n"
            "  It would be shown what it has never seen.\n  Give both the same env settings, or name another expert"
        )
    act = loaded.actor(env.n_envs, deterministic=True, seed=0)

    def answer(obs: Floats, index: int, question: Question) -> Any:
        # Always all envs: another number of rows would be another rounding, and a member must learn as it would alone.
        mask = None if question.allowed is None else torch.from_numpy(question.allowed).unsqueeze(0)
        chosen = act(torch.from_numpy(obs).unsqueeze(0), mask, 0)
        return chosen[0, index].tolist()

    return answer


class Program:
    """A command of the user's that reads questions and writes answers, a line of JSON each.

    A question is {"observation": [...], "round": 0, "step": 0, "env": 0}, and "allowed": [...] where some choices are forbidden; an answer
    is {"action": ...} or the action itself. What else it writes is passed over, before a question or between it and its answer: it must
    not push answers to the questions after theirs.
    """

    def __init__(self, command: str, seconds: float, say: Callable[[str], None]) -> None:
        trust.check(trust.COMMAND + command)
        self.command, self.seconds, self._say = command, seconds, say
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue(MOST_LINES)
        self._starts = 0
        self._babbles = False

    def ask(self, obs: Floats, question: Question) -> Any:
        """One answer; None where there is none in time."""
        process = self._running()
        if process is None:
            return None
        round_, step, env, _ = question.place
        asked = {"observation": obs.tolist(), "round": round_, "step": step, "env": env}
        if (allowed := question.list_allowed(env)) is not None:
            asked["allowed"] = allowed
        try:
            self._pass_over_old_lines()
            assert process.stdin is not None
            process.stdin.write(json.dumps(asked) + "\n")
            process.stdin.flush()
            said = self._wait_for_answer()
            self._starts = 0  # one that answers now and then is worth starting again, however often it ends in a long run
            return said
        except queue.Empty:
            self._say(f"the expert did not answer within {self.seconds:g} s: its command is started again")
            self.close()  # an answer that comes later would be taken for that to the next question
            return None
        except (OSError, EOFError):
            self._say(f"the expert's command has ended{self._code()}")
            self.close()
            return None

    def _pass_over_old_lines(self) -> None:
        """What was written before a question is no answer to it; EOFError where nothing comes any more."""
        with contextlib.suppress(queue.Empty):
            while (line := self._lines.get_nowait()) is not None:
                self._pass_over(line)
            raise EOFError

    def _wait_for_answer(self) -> Any:
        """The next line that is one; queue.Empty where it does not come in time, EOFError where nothing comes any more."""
        until = time.monotonic() + self.seconds
        while (line := self._lines.get(timeout=max(until - time.monotonic(), 0.0))) is not None:
            with contextlib.suppress(ValueError):
                said = json.loads(line)
                if not isinstance(said, dict):
                    return said
                if "action" in said:
                    return said["action"]
            self._pass_over(line)
        raise EOFError

    def _pass_over(self, line: str) -> None:
        if not self._babbles:
            self._say(f"the expert's command wrote {line.strip()!r:.200}, which is no answer: such lines are passed over")
        self._babbles = True

    def _running(self) -> "subprocess.Popen[str] | None":
        if self._process is not None:
            return self._process
        if self._starts > RESTARTS:
            return None
        self._starts += 1
        try:
            self._process = subprocess.Popen(
                shlex.split(self.command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",  # what it writes beside its answers may be anything
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._say(f"the expert's command cannot be started: {error}")
            return None
        self._lines = queue.Queue(MOST_LINES)
        threading.Thread(target=_read_lines, args=(self._process, self._lines), daemon=True).start()
        return self._process

    def _code(self) -> str:
        if self._process is None:
            return ""
        with contextlib.suppress(subprocess.TimeoutExpired):  # its output ends a moment before it does
            return f" with exit code {self._process.wait(1.0)}"
        return ""

    def close(self) -> None:
        """End the command and what it has started."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        try:
            process.wait(1.0)
        except subprocess.TimeoutExpired:
            try:
                os.killpg(process.pid, 9)
            except OSError:
                process.kill()
            process.wait()


def _read_lines(process: "subprocess.Popen[str]", lines: "queue.Queue[str | None]") -> None:
    assert process.stdout is not None
    while line := process.stdout.readline(MOST_CHARACTERS):
        lines.put(line)
    lines.put(None)
    process.stdout.close()
