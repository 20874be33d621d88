"""YAML that grows, nests or refers to itself is refused with a clear error wherever YAML is read, and quickly."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from rlclinic import readers
from rlclinic.config import files, set_values
from rlclinic.errors import ConfigError, RlclinicError
from rlclinic.runs.store import Store
from rlclinic.serve.cli.app import app
from rlclinic.serve.http.app import create_app
from rlclinic.serve.http.settings import Settings as ServerSettings
from rlclinic.treatment.trial import variant_file
from tests.serve.mcp.stores import call


def laughs(levels: int = 9, width: int = 9) -> str:
    """Each level names the one before `width` times: 355 characters, a billion values."""
    lines = ["a0: &a0 [x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * width)}]" for level in range(1, levels)]
    return "{" + ", ".join(lines) + "}"


BOMB = laughs()
HOSTILE = {
    "laughs": BOMB,
    "recursive": "{a: &a [*a]}",
    "recursive mapping": "{a: &a {b: *a}}",
    "deep": "{a: " + "[" * 30_000 + "]" * 30_000 + "}",
    "deep mappings": "{a: " * 5_000 + "1" + "}" * 5_000,
    "merges": "{a: &a {x: 1}, b: &b {<<: [*a, *a]}, c: &c {<<: [*b, *b]}, d: {<<: *d}}",
    "many": "{a: [" + "1," * 300_000 + "1]}",
    "long number": "{a: " + "1" * 10_000 + "}",
    "no date": "{a: 2001-99-99, b: 2001-12-14t99:59:43.10-05:00}",
    "python": "{a: !!python/object/apply:os.system ['true']}",
    "binary": "{a: !!binary '====', b: !!set {x, y}}",
}


def in_time(work: Callable[[], Any], seconds: float = 2.0) -> Any:
    """What it raised of ours, or gave; anything else fails the test, and so does taking long."""
    began = time.monotonic()
    try:
        return work()
    except RlclinicError as error:
        return error
    finally:
        assert time.monotonic() - began < seconds


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_change_of_a_config_is_refused_or_taken_quickly(text: str) -> None:
    config = files.load("CartPole-v1:ppo").config
    for key in ("env.kwargs", "algo.learning_rate", "net.hidden"):
        in_time(lambda key=key: set_values(config, [f"{key}={text}"]))


@pytest.mark.parametrize("text", [BOMB, "{a: &a 1, b: *a}", "{a: &a [*a]}"])
def test_changes_have_no_aliases(text: str) -> None:
    config = files.load("CartPole-v1:ppo").config
    with pytest.raises(ConfigError, match="alias"):
        set_values(config, [f"env.kwargs={text}"])


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 100_000, "[" * 5_000 + "]" * 5_000])
def test_json_in_a_change_has_a_depth_too(text: str) -> None:
    config = files.load("CartPole-v1:ppo").config
    with pytest.raises(ConfigError, match="levels"):
        set_values(config, [f"env.kwargs={text}"])


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_config_file_is_refused_or_read_quickly(text: str, project: Path) -> None:
    (project / "bomb.yaml").write_text(f"ppo:\n  env: {{id: CartPole-v1}}\n  algo: {text}\n")
    in_time(lambda: files.load("bomb.yaml"))
    result = in_time(lambda: CliRunner().invoke(app, ["lint", "bomb.yaml"]), 4.0)
    assert "unexpectedly" not in result.output
    in_time(lambda: variant_file.has_variant((project / "bomb.yaml").read_text(), "ppo"))


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("name", ["args.yml", "config.yml", "params.yaml", "hparams.yaml"])
def test_settings_beside_a_log_are_left_out_or_read_quickly(text: str, name: str, tmp_path: Path) -> None:
    lines = ["time/total_timesteps,rollout/ep_rew_mean", *(f"{step},{step}" for step in range(100, 1_000, 100))]
    (tmp_path / "progress.csv").write_text("\n".join(lines))
    for folder in (tmp_path, tmp_path / "CartPole-v1"):
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    in_time(lambda: readers.read(str(tmp_path)))


@pytest.mark.parametrize("section", ["spec", "env", "algo", "net", "run", "data", "bonus"])
@pytest.mark.parametrize("value", ["0", "text", "[1, {a: b}]", "null", "{id: {a: 1}, name: [p]}"])
def test_a_section_that_is_no_section_is_refused_in_words(section: str, value: str, project: Path) -> None:
    for text in (f"ppo:\n  {section}: {value}\n  algo: {{name: p}}\n", f"{section}: {value}\nppo: {{env: {{id: CartPole-v1}}}}\n"):
        (project / "odd.yaml").write_text(text)
        in_time(lambda: files.load("odd.yaml"))


@pytest.mark.parametrize("text", ["2.5.", "1__0", "1_", "9" * 5_000, "1e999", "-.5.e3"])
def test_what_looks_like_a_number_and_is_none_is_refused_in_words(text: str) -> None:
    config = files.load("CartPole-v1:ppo").config
    for key in ("env.kwargs", "algo.learning_rate", "algo.n_steps", "net.hidden"):
        for value in (text, f"[{text}]", f"{{a: {text}}}"):
            in_time(lambda key=key, value=value: set_values(config, [f"{key}={value}"]))


@pytest.mark.parametrize("key", ["algo.n_steps", "algo.batch_size", "env.n_envs", "run.max_env_steps", "algo.n_epochs"])
def test_a_number_of_a_hundred_digits_is_answered_at_once(key: str) -> None:
    in_time(lambda: files.load("CartPole-v1:ppo_zoo", [f"{key}={'7' * 130}34"]))


def test_nothing_else_parses_yaml() -> None:
    package = Path(readers.__file__).parent.parent
    parses = re.compile(r"yaml\.(safe_load|load|compose|parse|load_all|safe_load_all|full_load|unsafe_load)\b")
    places = {str(file.relative_to(package)) for file in package.rglob("*.py") if parses.search(file.read_text())}
    # The second has it in a text: in the tests that `new env` writes for the user's own settings.
    assert places == {"config/yaml_text.py", "ops/tasks/scaffold.py"}


def test_a_file_may_still_use_anchors(project: Path) -> None:
    (project / "anchors.yaml").write_text(
        "_base: &base\n  env: {id: CartPole-v1, n_envs: 4}\n  algo: &algo {name: ppo, gamma: 0.9}\n"
        "ppo:\n  <<: *base\nppo_fast:\n  <<: *base\n  algo: {<<: *algo, n_epochs: 3}\n"
    )
    assert files.load("anchors.yaml:ppo_fast").config.algo.gamma == 0.9


def test_a_request_with_a_bomb_is_answered_at_once(project: Path) -> None:
    Store("runs").root.mkdir()
    settings = ServerSettings(mcp=False, prepare=False, no_token=True)
    with TestClient(create_app(Store("runs"), settings), base_url="http://localhost") as client:
        began = time.monotonic()
        answer = client.post("/api/v1/config/validate", json={"ref": "CartPole-v1:ppo", "changes": [f"env.kwargs={BOMB}"]})
        assert time.monotonic() - began < 2
        assert answer.status_code in (200, 422), answer.text
        assert "alias" in answer.text


def test_an_agent_with_a_bomb_is_answered_at_once(project: Path) -> None:
    Store("runs").root.mkdir()
    answer = in_time(lambda: call("validate_config", config_id="CartPole-v1:ppo", overrides={"env.kwargs": BOMB}), 8.0)
    assert "alias" in answer.text
    assert json.dumps(answer.data)
