"""From a cold start to an adopted config by MCP calls alone, with the server killed in the middle."""

import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from mcp import Client, StdioServerParameters

from rlclinic.ops.jobs import models
from rlclinic.runs import lock
from rlclinic.runs.store import Store
from tests.serve.mcp.stores import Answer, ask, ran

MOST_CALLS, MOST_TOKENS, CHARACTERS_PER_TOKEN = 12, 8_000, 4
SICK = {"config_id": "CartPole-v1:ppo", "seeds": 4, "max_env_steps": 18_000, "overrides": {"algo.learning_rate": 0.1}}


class Talk:
    """One conversation over several lives of the server; counts calls and what a model has to read and write."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.calls, self.characters = folder, 0, 0

    def __call__(self, part: Callable[["Talk", Client], Awaitable[Any]], *, kill: bool = False) -> Any:
        """Say a part of it to a fresh server; with `kill`, the server dies at its end without a word."""
        pid = self.folder / "server.pid"
        words = f"echo $$ > {pid}; exec {sys.executable} -m rlclinic mcp --budget-env-steps 3M --budget-wall 20min"
        server = StdioServerParameters(command="sh", args=["-c", words], env={**os.environ, "OMP_NUM_THREADS": "1"}, cwd=self.folder)
        said: list[Any] = []

        async def connected() -> None:
            async with Client(server) as client:
                said.append(await part(self, client))
                if kill:
                    os.kill(int(pid.read_text()), signal.SIGKILL)

        try:
            ran(connected)
        except Exception:
            # A client whose server was killed may complain when it hangs up; not before.
            if not (kill and said):
                raise
        return said[0]

    async def ask(self, client: Client, tool: str, **arguments: Any) -> Answer:
        answer = await ask(client, tool, **arguments)
        self.calls += 1
        self.characters += len(json.dumps(arguments)) + max(len(answer.text), len(json.dumps(answer.data)))
        assert not answer.error, answer.text
        return answer

    async def waited(self, client: Client, name: str) -> None:
        while not (await self.ask(client, "wait_for_run", run_id=name, timeout_s=300, past_alerts=True)).data["done"]:
            pass


async def evening(talk: Talk, client: Client) -> str:
    """Train something sick, find out why, and start the trial of the first prescription."""
    sick = (await talk.ask(client, "start_training", **SICK, idempotency_key="sick", hypothesis="a large rate learns fast")).data["run_id"]
    await talk.waited(client, sick)
    diagnosis = await talk.ask(client, "diagnose_run", run_id=sick)
    assert diagnosis.data["recommendations"][0]["overrides"][0].startswith("algo.learning_rate=")
    await talk.ask(client, "start_trial", **trial_of(sick))
    return str(sick)


async def night(talk: Talk, client: Client, sick: str) -> str:
    """A new server knows nothing but the store: the same start is found, not made again."""
    again = await talk.ask(client, "start_trial", **trial_of(sick))
    assert again.data["repeated"]
    assert again.data["state"] in models.LIVE
    trial = str(again.data["trial_id"])
    await talk.waited(client, trial)
    assert (await talk.ask(client, "get_trial", trial_id=trial)).data["verdict"] == "adopt"
    await talk.ask(client, "adopt", trial_id=trial, as_variant="CartPole-v1:cured")
    return trial


def trial_of(sick: str) -> dict[str, Any]:
    return {"run_id": sick, "rx": [1], "per_look": 4, "looks": 3, "idempotency_key": "cure", "hypothesis": "smaller steps reach it"}


@pytest.mark.slow
def test_from_a_cold_start_to_an_adopted_config_although_the_server_is_killed(tmp_path: Path) -> None:
    talk, store = Talk(tmp_path), Store(tmp_path / "runs")
    sick = talk(evening, kill=True)
    job = models.everything(store)[-1]
    assert job.live
    assert job.pid is not None
    time.sleep(1)
    assert lock.started(job.pid) == job.process_started, "the trial ended with the server that started it"
    trial = talk(lambda talk, client: night(talk, client, sick))
    assert trial == job.refers
    adopted = yaml.safe_load((tmp_path / "config" / "environments" / "CartPole-v1.yaml").read_text())
    assert "cured" in adopted
    tokens = talk.characters / CHARACTERS_PER_TOKEN
    print(f"{talk.calls} calls, {tokens:,.0f} tokens")
    assert talk.calls <= MOST_CALLS
    assert tokens <= MOST_TOKENS
