"""Lint: silent on every shipped variant and on rl-zoo3's tuned settings, loud on what nobody would choose."""

# ruff: noqa: E501 — tables

import json
from pathlib import Path
from typing import Any

import pytest

from rlclinic.config import files, from_record
from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint import checks
from rlclinic.diagnosis.lint.config import linter
from rlclinic.errors import ConfigError, NotFound, UsageError
from rlclinic.ops.diagnose import lint as operation

SHIPPED = [f"{entry.env}:{variant}" for entry in files.available(Path(__file__).parent) for variant in entry.variants]
SAMPLES = Path(__file__).parents[2] / "readers" / "samples"

# rl-zoo3 2.9.2, hyperparams/ppo.yml and a2c.yml: its settings by our names, without wrappers and what else our schema has no word for.
ZOO: dict[str, dict[str, dict[str, Any]]] = json.loads((Path(__file__).parents[1] / "zoo_settings.json").read_text())
CASES = [(algo, env) for algo, envs in ZOO.items() for env in envs]
# What Stable-Baselines3 uses where the zoo says nothing.
DEFAULTS: dict[str, dict[str, Any]] = {
    "ppo": {
        "env.n_envs": 1, "algo.n_steps": 2048, "algo.batch_size": 64, "algo.n_epochs": 10, "algo.gamma": 0.99, "algo.gae_lambda": 0.95,
        "algo.learning_rate": 3e-4, "algo.clip_range": 0.2, "algo.ent_coef": 0.0, "algo.vf_coef": 0.5, "algo.max_grad_norm": 0.5,
        "run.max_env_steps": 1_000_000,
    },
    "a2c": {
        "env.n_envs": 1, "algo.n_steps": 5, "algo.gamma": 0.99, "algo.gae_lambda": 1.0, "algo.learning_rate": 7e-4, "algo.ent_coef": 0.0,
        "algo.vf_coef": 0.5, "algo.max_grad_norm": 0.5, "algo.optimizer": "rmsprop", "run.max_env_steps": 1_000_000,
    },
}  # fmt: skip


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Away from a ./config/environments that a demo left in the checkout: these tests are about what is shipped."""
    monkeypatch.chdir(tmp_path)


def tuned(algo: str, env: str) -> dict[str, Any]:
    return {"algo.name": algo, "env.id": env, **DEFAULTS[algo], **ZOO[algo][env]}


def nested(settings: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in settings.items():
        part, name = key.split(".")
        found.setdefault(part, {})[name] = value
    return found


def _rollout(settings: dict[str, Any]) -> int:
    return int(settings["env.n_envs"] * settings["algo.n_steps"])


def ids(found: linter.Lint) -> set[str]:
    return {finding.rule for finding in found.findings}


# ── silent ──


@pytest.mark.parametrize("ref", SHIPPED)
def test_shipped_variants_raise_no_alarm(ref: str) -> None:
    found = linter.lint_config(files.load(ref).config)
    assert [f"{finding.rule}: {finding.text}" for finding in found.findings] == []
    assert found.checks > 30


@pytest.mark.parametrize(("algo", "env"), CASES, ids=lambda value: str(value))
def test_rl_zoo3s_tuned_settings_raise_no_alarm(algo: str, env: str) -> None:
    found = linter.lint(tuned(algo, env), name=env)
    assert [f"{finding.rule}: {finding.text}" for finding in found.findings] == []


def test_rl_zoo3s_tuned_settings_raise_no_alarm_as_configs_of_ours() -> None:
    said, refused = [], []
    for algo, env in CASES:
        try:
            config = from_record({"name": env, **nested(tuned(algo, env))})
        except ConfigError:
            refused.append(env)
            continue
        said += [f"{algo} {env} {finding.rule}: {finding.text}" for finding in linter.lint_config(config).findings]
    assert said == []
    # Minibatches larger than the rollout: Stable-Baselines3 takes what there is, our schema asks what was meant.
    larger = [env for algo, env in CASES if algo == "ppo" and _rollout(tuned(algo, env)) < tuned(algo, env)["algo.batch_size"]]
    assert refused == larger


# ── loud: every fault of the catalogue that settings show, at each of its severities ──

PPO = "CartPole-v1:ppo_zoo"
TIER_C: dict[str, tuple[str, list[list[str]]]] = {
    "ENV-08 threshold of another version": ("SET101", [["spec.return_range=none", "spec.threshold=900"], ["env.max_episode_steps=200"]]),
    "TERM-04 another time limit, no time in obs": ("SET102", [["env.max_episode_steps=480"], ["env.max_episode_steps=495"]]),
    "POL-01 learning rate x 30, x 100": ("LRN101", [["algo.learning_rate=0.03"], ["algo.learning_rate=0.1"], ["algo.learning_rate=1"]]),
    "POL-02 learning rate / 100": ("LRN102", [["algo.learning_rate=1e-6"], ["algo.learning_rate=1e-7"]]),
    "POL-07 clip range tiny": ("BAT105", [["algo.clip_range=0.02"], ["algo.clip_range=0.005"], ["algo.clip_range=0.001"]]),
    "POL-08 clip range off": ("BAT105", [["algo.clip_range=0.9"], ["algo.clip_range=0.99"]]),
    "POL-09 very many epochs": ("BAT103", [["algo.n_epochs=40"], ["algo.n_epochs=50"], ["algo.n_epochs=100"]]),
    "POL-10 target_kl tiny": ("BAT106", [["algo.target_kl=5e-4"], ["algo.target_kl=1e-5"]]),
    "POL-12 entropy bonus large": ("ENT306", [["algo.ent_coef=0.2"], ["algo.ent_coef=0.5"], ["algo.ent_coef=1"]]),
    "POL-15 advantages not normalized": ("SET103", [["algo.normalize_advantage=off"]]),
    "ADV-01 gamma small": ("VAL208", [["algo.gamma=0.45"], ["algo.gamma=0.5"], ["algo.gamma=0.8"]]),
    "ADV-02 no discount": ("VAL209", [["algo.gamma=1.0"]]),
    "ADV-03 lambda 0": ("VAL210", [["algo.gae_lambda=0"], ["algo.gae_lambda=0.05"]]),
    "ADV-04 lambda 1, long horizon": (
        "SET104", [["algo.gae_lambda=1", "algo.gamma=0.99", "algo.n_steps=256"], ["algo.gae_lambda=1", "algo.gamma=0.999", "algo.n_steps=1024"]],
    ),
    "VAL-01 critic without weight": ("VAL202", [["algo.vf_coef=0"]]),
    "VAL-03 value clip tight": ("SET105", [["algo.clip_range_vf=0.2"], ["algo.clip_range_vf=0.01"]]),
    "BAT-02 rollout of 8 or 16": ("BAT102", [["env.n_envs=1", "algo.n_steps=8", "algo.batch_size=8"], ["env.n_envs=1", "algo.n_steps=16", "algo.batch_size=16"]]),
    "BAT-03 one giant minibatch, one epoch": ("SET107", [["algo.n_epochs=1"], ["algo.n_epochs=1", "algo.n_steps=256", "algo.batch_size=1.0"]]),
    "BAT-05 a handful of rollouts": ("BAT101", [["algo.n_steps=2048"], ["algo.n_steps=8192", "algo.batch_size=1.0"]]),
    "OPT-01 schedule ends early": ("LRN104", [['algo.learning_rate={"start": 1e-3, "end": 0, "to": 0.1}'], ['algo.learning_rate={"start": 1e-3, "end": 0, "to": 0.3}']]),
    "OPT-02 high rate, no decay": ("SET108", [["algo.learning_rate=0.002"], ["algo.learning_rate=0.01"]]),
    "OPT-04 SGD at Adam's rate": ("LRN106", [["algo.optimizer=sgd"]]),
    "OPT-05 gradient limit tiny": ("BAT107", [["algo.max_grad_norm=1e-3"], ["algo.max_grad_norm=1e-4"]]),
    "OPT-06 no gradient limit": ("SET109", [["algo.max_grad_norm=100"], ["algo.max_grad_norm=1e9"]]),
    "NET-02 sigmoid": ("GRD409", [["net.activation=sigmoid"]]),
    "NET-03 policy head large": ("BAT108", [["net.policy_gain=5"], ["net.policy_gain=50"]]),
    "BUD-01 budget far too small": ("SET110", [["run.max_env_steps=1000"], ["run.max_env_steps=9000"]]),
    "EVA-03 threshold in shaped rewards": ("SET111", [['env.wrappers=[{"id": "NormalizeReward"}]'], ['env.wrappers=["module:ShapedReward"]']]),
    "two-unit network": ("GRD410", [["net.hidden=[2]"]]),
}  # fmt: skip


@pytest.mark.parametrize("fault", TIER_C)
def test_a_fault_that_settings_show_is_found_before_training_at_every_severity(fault: str) -> None:
    id, severities = TIER_C[fault]
    for changes in severities:
        found = linter.lint_config(files.load(PPO, changes).config)
        assert id in ids(found), changes


def test_a_minibatch_that_leaves_a_rest_is_refused_by_our_schema_and_found_elsewhere() -> None:
    with pytest.raises(ConfigError, match="batch_size"):
        files.load(PPO, ["algo.batch_size=100"])
    for batch, rest in ((60, 16), (17, 1)):
        found = linter.lint({"algo.name": "ppo", "env.n_envs": 8, "algo.n_steps": 32, "algo.batch_size": batch})
        assert [finding.rule for finding in found.findings] == ["SET106"]
        assert f"the last one has {rest}" in found.findings[0].text


# OFF-05 (learning_starts 0) is not judged: rl-zoo3's tuned DQN settings use it on several tasks.
OFF_POLICY: dict[str, tuple[str, dict[str, Any]]] = {
    "OFF-01 target hardly ever updated": ("SET201", {"algo.name": "dqn", "algo.target_update_interval": 30_000}),
    "OFF-02 target follows at once, SAC": ("SET202", {"algo.name": "sac", "algo.tau": 1.0}),
    "OFF-02 target follows at once, DQN": ("SET202", {"algo.name": "dqn", "algo.target_update_interval": 1}),
    "OFF-03 replay of 1,000": ("SET203", {"algo.name": "dqn", "algo.buffer_size": 1_000}),
    "OFF-04 learning starts at half": ("SET204", {"algo.name": "sac", "algo.learning_starts": 50_000}),
    "OFF-08 fixed temperature 1": ("SET205", {"algo.name": "sac", "algo.ent_coef": 1.0}),
    "OFF-08 target entropy positive": ("SET206", {"algo.name": "sac", "algo.target_entropy": 2.0}),
    "EXP-01 epsilon decays in 1 %": ("SET207", {"algo.name": "dqn", "algo.exploration_fraction": 0.01}),
    "EXP-02 epsilon stays at a half": ("SET208", {"algo.name": "dqn", "algo.exploration_final_eps": 0.5}),
    "few gradient steps": ("SET209", {"algo.name": "sac", "algo.train_freq": 1_000, "algo.gradient_steps": 5}),
    "OFF-07 thirty-two gradient steps per step": ("SET210", {"algo.name": "td3", "algo.train_freq": 1, "algo.gradient_steps": 32}),
    "replay shorter than the warm-up": ("SET211", {"algo.name": "dqn", "algo.buffer_size": 6_000, "algo.learning_starts": 8_000}),
    "two transitions per gradient step": ("SET213", {"algo.name": "dqn", "algo.batch_size": 2}),
    "EXP-03 no exploration": ("SET212", {"algo.name": "td3", "algo.action_noise": "none"}),
    "rate far too high": ("QVL106", {"algo.name": "dqn", "algo.learning_rate": 0.1}),
    "rate far too low": ("QVL107", {"algo.name": "sac", "algo.learning_rate": 1e-7}),
}
# rl-zoo3 2.9.2, hyperparams/dqn.yml, sac.yml, td3.yml and ddpg.yml, by our names.
ZOO_OFF_POLICY: dict[str, dict[str, dict[str, Any]]] = json.loads((Path(__file__).parents[1] / "zoo_off_policy.json").read_text())
# What Stable-Baselines3 uses where the zoo says nothing.
_ACTOR: dict[str, Any] = {
    "algo.buffer_size": 1_000_000, "algo.learning_starts": 100, "algo.batch_size": 256, "algo.train_freq": 1, "algo.gradient_steps": 1,
    "algo.gamma": 0.99, "algo.tau": 0.005,
}  # fmt: skip
DEFAULTS_OFF_POLICY: dict[str, dict[str, Any]] = {
    "dqn": {**_ACTOR, "algo.batch_size": 32, "algo.train_freq": 4, "algo.tau": 1.0, "algo.target_update_interval": 10_000,
            "algo.learning_rate": 1e-4, "algo.exploration_fraction": 0.1, "algo.exploration_initial_eps": 1.0, "algo.exploration_final_eps": 0.05},
    "sac": {**_ACTOR, "algo.learning_rate": 3e-4, "algo.ent_coef": "auto", "algo.target_entropy": "auto", "algo.target_update_interval": 1},
    "td3": {**_ACTOR, "algo.learning_rate": 1e-3, "algo.policy_delay": 2},
    "ddpg": {**_ACTOR, "algo.learning_rate": 1e-3, "algo.policy_delay": 1},
}  # fmt: skip
HEALTHY_OFF_POLICY: list[dict[str, Any]] = [
    {"algo.name": "dqn", "algo.learning_rate": 2.3e-3, "algo.batch_size": 64, "algo.buffer_size": 100_000, "algo.learning_starts": 1_000,
     "algo.target_update_interval": 10, "algo.train_freq": 256, "algo.exploration_fraction": 0.16, "algo.exploration_final_eps": 0.04,
     "run.max_env_steps": 50_000},
    {"algo.name": "dqn", "algo.buffer_size": 10_000, "algo.learning_starts": 1_000, "algo.target_update_interval": 600,
     "algo.exploration_fraction": 0.2, "algo.exploration_final_eps": 0.07, "run.max_env_steps": 120_000},
    {"algo.name": "sac", "algo.tau": 0.01, "algo.ent_coef": 0.1, "algo.buffer_size": 50_000, "algo.learning_starts": 0, "algo.gamma": 0.9999,
     "run.max_env_steps": 50_000},
    {"algo.name": "sac", "algo.tau": 0.01, "algo.ent_coef": "auto", "algo.learning_starts": 10_000, "run.max_env_steps": 500_000},
]  # fmt: skip


@pytest.mark.parametrize("fault", OFF_POLICY)
def test_a_fault_in_off_policy_settings_is_found(fault: str) -> None:
    id, settings = OFF_POLICY[fault]
    assert id in ids(linter.lint({"run.max_env_steps": 100_000, **settings}))


@pytest.mark.parametrize("settings", HEALTHY_OFF_POLICY)
def test_tuned_off_policy_settings_raise_no_alarm(settings: dict[str, Any]) -> None:
    assert [finding.text for finding in linter.lint(settings).findings] == []


@pytest.mark.parametrize(("algo", "env"), [(algo, env) for algo, envs in ZOO_OFF_POLICY.items() for env in envs])
def test_rl_zoo3s_tuned_off_policy_settings_raise_no_alarm(algo: str, env: str) -> None:
    settings = {"algo.name": algo, "env.id": env, "run.max_env_steps": 1_000_000, **DEFAULTS_OFF_POLICY[algo], **ZOO_OFF_POLICY[algo][env]}
    assert [finding.text for finding in linter.lint(settings).findings] == []


def test_every_check_of_settings_is_made_by_a_test() -> None:
    tested = {id for id, _ in TIER_C.values()} | {id for id, _ in OFF_POLICY.values()} | {"SET106"}
    assert {each.id for each in checks.checks("SET")} <= tested


# ── what is said ──


def test_severe_findings_come_first_and_rules_can_be_left_out() -> None:
    config = files.load("CartPole-v1:ppo", ["algo.vf_coef=0", "algo.gamma=1.0"]).config
    found = linter.lint_config(config)
    assert [finding.severity for finding in found.findings] == sorted((f.severity for f in found.findings), key=lambda s: -s.rank)
    assert found.findings[0].severity is Severity.HIGH
    assert not linter.lint_config(config, ignore=["VAL"]).findings


def test_a_selection_may_mean_rules_and_checks_of_settings() -> None:
    config = files.load("CartPole-v1:ppo", ["algo.gamma=0.5", "algo.max_grad_norm=1e6"]).config
    assert ids(linter.lint_config(config)) == {"VAL208", "SET109"}
    assert ids(linter.lint_config(config, select=["SET"])) == {"SET109"}
    assert ids(linter.lint_config(config, select=["VAL"])) == {"VAL208"}
    assert ids(linter.lint_config(config, ignore=["gradients-not-limited"])) == {"VAL208"}
    with pytest.raises(NotFound, match="no rule begins with 'XYZ'"):
        linter.lint_config(config, select=["XYZ"])


@pytest.mark.parametrize("fault", TIER_C)
def test_a_remedy_of_a_finding_can_be_typed_and_cures_it(fault: str) -> None:
    id, severities = TIER_C[fault]
    for changes in severities:
        (finding,) = [each for each in linter.lint_config(files.load(PPO, changes).config).findings if each.rule == id][:1]
        overrides = [remedy.override for remedy in finding.remedies if remedy.override]
        if overrides and id.startswith("SET"):
            assert id not in ids(linter.lint_config(files.load(PPO, [*changes, overrides[0]]).config))


def test_the_numbers_that_follow_from_a_config_are_shown() -> None:
    found = linter.lint_config(files.load("CartPole-v1:ppo_zoo").config).derived
    assert found["horizon_steps"] == pytest.approx(50)
    assert found["gae_horizon_steps"] == pytest.approx(1 / (1 - 0.98 * 0.8))
    assert found["updates"] == 391
    assert found["samples_per_update"] == 256
    assert found["minibatches_per_epoch"] == 1
    assert found["gradient_steps"] == 391 * 20
    assert found["samples_per_gradient_step"] == pytest.approx(256 / 20)
    assert found["rollout_share_of_budget"] == pytest.approx(256 / 100_000)
    rates = [found[f"learning_rate_at_{place}_percent"] for place in (0, 50, 100)]
    assert rates == pytest.approx([1e-3, 5e-4, 0.0])


def test_settings_that_are_not_there_are_not_judged() -> None:
    found = linter.lint({"algo.name": "ppo", "algo.gamma": 0.5})
    assert [finding.rule for finding in found.findings] == ["VAL208"]
    assert found.derived == {"horizon_steps": 2.0}


# ── what can be looked at ──


def test_a_yaml_file_a_run_and_a_group_can_be_looked_at(tmp_path: Path) -> None:
    from rlclinic.runs.store import Store

    config = files.load("CartPole-v1:ppo", ["algo.gamma=0.5"]).config
    group = Store(tmp_path / "runs").create_group([config])
    path = tmp_path / "mine.yaml"
    path.write_text("ppo:\n  env: {id: CartPole-v1}\n  algo: {name: ppo, gamma: 0.5}\n")
    for ref in (str(path), group.id, group.runs[0].id, "@last", str(group.runs[0].path)):
        assert "VAL208" in ids(operation.lint(ref, runs_dir=tmp_path / "runs").lint), ref


def test_another_frameworks_folder_is_looked_at_in_its_own_words() -> None:
    found = operation.lint(str(SAMPLES / "sb3_zoo"))
    assert not found.ours
    assert found.lint.derived["horizon_steps"] == pytest.approx(50)
    with pytest.raises(UsageError, match="cannot be changed here"):
        operation.lint(str(SAMPLES / "sb3_zoo"), ["algo.gamma=0.9"])
