"""Networks of other packages: names, shapes and a forward pass, and everything that our own have."""

import json
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlclinic import plugins
from rlclinic.config import Config, NetConfig, from_record, network, set_values, shape_key, to_record
from rlclinic.errors import ConfigError
from rlclinic.ops.diagnose.diagnose import diagnose
from rlclinic.runs.record import Run
from rlclinic.training import policy as policies
from rlclinic.training.__main__ import train_runs
from rlclinic.training.envs.base import ActionSpec, Picture
from rlclinic.training.maths import distributions
from rlclinic.training.nets import mlp
from tests.training.cohorts import REPLAY, TASKS, Interrupted, assert_same_run, interrupt_at, make_config, table, task_of, train

NAMES = {"residual": "ResidualSettings", "mixing": "MixingSettings", "missized": "MissizedSettings", "missing": "MissingSettings"}
NET: dict[str, Any] = {"hidden": [6], "encoder": "residual"}
KINDS = ("ppo", "a2c", "reinforce", "dqn", "td3", "ddpg", "sac")


def declare(monkeypatch: pytest.MonkeyPatch, names: dict[str, str]) -> None:
    entries = [EntryPoint(name, f"tests.training.plugin.networks:{value}", network.ENTRY_POINTS) for name, value in names.items()]
    monkeypatch.setattr(plugins, "entry_points", lambda *, group: entries if group == network.ENTRY_POINTS else [])


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    declare(monkeypatch, NAMES)


def config_of(kind: str = "ppo", seed: int = 0, **net: Any) -> Config:
    task = TASKS[task_of(kind)][0] if kind in REPLAY else TASKS["discrete"][0]
    run = {"max_env_steps": 320 if kind in REPLAY else 144, "eval_episodes": 2, "checkpoint_every_env_steps": 48}
    return make_config(kind, task, seed, net={**NET, **net}, run=run)


# ── settings ──


def test_settings_of_a_network_are_checked_by_its_class_and_stored_whole() -> None:
    config = config_of(encoder_args={"width": 12})
    assert config.net.encoder_args == {"width": 12, "blocks": 2}
    assert from_record(to_record(config)) == config
    assert shape_key(config) != shape_key(config_of())
    with pytest.raises(ConfigError, match=r"net\.encoder_args\.width=1: must be at least 2\.\n  Units of each block\.\n  Try: .*width=8"):
        config_of(encoder_args={"width": 1})
    with pytest.raises(ConfigError, match=r"net\.encoder_args\.widht is no setting of the network residual[\s\S]*net\.encoder_args\.width"):
        config_of(encoder_args={"widht": 3})
    with pytest.raises(ConfigError, match=r"net\.encoder_args: net\.encoder=auto takes none \(width given\)"):
        config_of(encoder="auto", encoder_args={"width": 3})


def test_another_network_begins_with_its_own_settings_whatever_order_they_are_typed_in() -> None:
    config = set_values(make_config(), ["net.encoder_args.width=4", "net.encoder=residual"])
    assert config.net.encoder_args == {"width": 4, "blocks": 2}
    assert set_values(config, ["net.encoder=missized"]).net.encoder_args == {"width": 8, "blocks": 2}
    assert set_values(config, ["encoder=residual"]).net.encoder_args == {"width": 4, "blocks": 2}
    assert set_values(config, ["net.encoder=auto"]).net == make_config().net


@pytest.mark.parametrize("settings", [{"encoder": "conv"}, {"encoder": "conv", "images": "impala"}])
def test_convolutions_are_refused_for_vectors(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"net\.encoder=conv, but observations are vectors of 4 numbers"):
        mlp.build(NetConfig(**settings), 4, distributions.Categorical(2))


def test_convolutions_are_the_network_called_conv() -> None:
    distribution = distributions.of(ActionSpec("discrete", (3,)))
    auto, named = (mlp.build(NetConfig(encoder=name), 40 * 40, distribution, Picture(40, 40, 1)) for name in ("auto", "conv"))
    assert auto.encoder == named.encoder
    assert auto.layout.shapes == named.layout.shapes


def test_a_table_has_no_network_before_it() -> None:
    with pytest.raises(ConfigError, match=r"net\.encoder=residual, but q_learning keeps a table"):
        make_config("q_learning", {"id": "FrozenLake-v1"}, net=NET)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("mixing", "what it computes for a member depends on the others"),
        ("missized", r"puts out \(2, 3, 8\)[\s\S]*Its `out` says \(2, 3, 9\)"),
        ("missing", r"tests\.training\.plugin\.nowhere\) cannot be built"),
    ],
)
def test_a_network_that_would_fail_late_or_silently_is_refused(name: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        mlp.build(NetConfig(encoder=name), 4, distributions.Categorical(2))


def test_its_settings_need_no_torch() -> None:
    code = "import sys; import tests.training.plugin.networks; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# ── training ──


@pytest.mark.parametrize("kind", KINDS)
def test_its_members_learn_as_they_would_alone_and_resume_as_if_never_stopped(tmp_path: Path, kind: str) -> None:
    configs = [config_of(kind, seed) for seed in (0, 1)]
    together, alone = train(tmp_path / "both", configs), train(tmp_path / "one", configs[1:])
    assert_same_run(together[1], alone[0])
    broken: list[Run] = []

    def stop(row: dict[str, Any]) -> None:
        broken[:] = [row["run"]]
        interrupt_at(100)(row)

    with pytest.raises(Interrupted):
        train(tmp_path / "one", configs[1:], callback=stop)
    assert train_runs(broken, resume=True)
    assert_same_run(broken[0], alone[0])
    engine = Run(alone[0].path).record["engine"]
    assert (engine["kind"], engine["why"]) == (
        "reference",
        "net.encoder=residual is a network of another package: losses are differentiated",
    )
    rows = table(alone[0])
    for name in ("dormant_critic", "rank_critic", "activation_norm_critic"):
        assert any(row[f"train/sentinel/{name}"] for row in rows), name
    assert rows[0]["train/sentinel/weight_norm"] != rows[-1]["train/sentinel/weight_norm"]


@pytest.mark.parametrize("kind", ["ppo", "sac"])
def test_its_weights_learn_in_every_network_that_has_it(tmp_path: Path, kind: str) -> None:
    from safetensors.torch import load_file

    run = train(tmp_path, [config_of(kind)])[0]
    first, *_, last = (load_file(run.checkpoint(str(step)).path / "policy.safetensors") for step in sorted(_steps(run)))
    inside = [name for name in last if "block1.weight" in name and "target" not in name]
    assert len(inside) == 2
    assert all(not torch.equal(first[name], last[name]) for name in inside), inside


def _steps(run: Run) -> list[int]:
    return [int(path.name) for path in (run.path / "checkpoints").iterdir() if path.name.isdigit()]


def test_a_policy_is_loaded_with_its_network_and_plays(tmp_path: Path) -> None:
    run = train(tmp_path, [config_of()])[0]
    policy = policies.load(run, "@last")
    assert int(policy.act(np.zeros(4, np.float32))) in (0, 1)
    assert policy.evaluate(3).returns.shape == (1, 3)


def test_programs_that_are_kept_between_runs_are_refused_to_it(tmp_path: Path) -> None:
    config = set_values(config_of(), ["run.engine=compiled"])
    with pytest.raises(ConfigError, match=r"net\.encoder=residual is a network of another package[\s\S]*run\.engine=reference"):
        train(tmp_path, [config])


def test_a_run_whose_package_is_gone_is_still_read_and_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = train(tmp_path, [config_of()])[0]
    declare(monkeypatch, {})
    gone = Run(run.path)
    with pytest.raises(ConfigError, match=r"net\.encoder: no installed package has a network 'residual'; there are auto, conv\."):
        policies.load(gone, "@last")
    with pytest.raises(ConfigError, match="no installed package has a network 'residual'"):
        train_runs([gone], resume=True)
    assert gone.record["net"]["encoder_args"] == {"width": 8, "blocks": 2}
    assert diagnose(run.id, tmp_path / "runs").diagnosis.facts.env == "CartPole-v1"


def test_images_may_go_through_it_too() -> None:
    picture = Picture(5, 4, 3)
    policy = mlp.build(NetConfig(encoder="residual", hidden=()), picture.size, distributions.Categorical(2), picture)
    params = policy.layout.views(torch.cat([mlp.initialize(policy, seed) for seed in (0, 1)]))
    obs = torch.randint(0, 256, (2, 6, 5, 4, 3), dtype=torch.uint8)
    dist, value = mlp.actor_critic(policy, params, obs)
    assert (policy.actor_trunk, dist.shape, value.shape) == ("trunk", (2, 6, 2), (2, 6))


def test_the_schema_has_only_plain_types_for_it() -> None:
    fields = NetConfig.model_json_schema()["properties"]
    assert json.dumps([fields["encoder"]["type"], fields["encoder_args"]["type"]]) == '["string", "object"]'


def test_a_record_of_a_run_without_a_network_of_its_own_is_what_it_was_before_there_were_any() -> None:
    record = to_record(make_config())
    assert "encoder" not in record["net"]
    assert from_record(record) == make_config()
    assert set_values(config_of(), ["net.encoder=auto"]) == config_of(encoder="auto")
