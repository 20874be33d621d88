from pathlib import Path

import pytest

from rlclinic.config.algorithms import PPOConfig, ReinforceConfig
from rlclinic.config.files import Loaded, available, load
from rlclinic.config.gymnasium_solver import FLAT_KEYS
from rlclinic.config.records import from_record, to_record
from rlclinic.config.schedule import Schedule, value_at
from rlclinic.errors import ConfigError, RlclinicError

# A file as gymnasium-solver has them: flat keys, anchors in `_` sections, two merges in one mapping, fields at the top.
CART = """
spec:
  source: https://example.org/cart
  description: Balance a pole.
  render_fps: 50
  action_space: {discrete: 2, labels: {0: left, 1: right}}
  observation_space:
    default: state
    variants: {state: {shape: [4], dtype: float32, components: [{name: x, range: [-4.8, 4.8]}]}}
  rewards: {per_step: +1, range: [0, 1]}
  returns: {episodic: steps balanced, range: [0, 500], threshold_solved: 475}

gamma: 0.98

_env: &env
  env_id: CartPole-v1
  project_id: CartPole-v1_state
  n_envs: 8
  n_steps: 32
  model_id: mlp_tiny
  max_env_steps: 1e5
_eval: &eval
  eval_freq_epochs: 10
  eval_warmup_epochs: 50
  eval_episodes: 30

ppo:
  <<: *env
  <<: *eval
  algo_id: ppo
  description: the usual one
  batch_size: 0.25
  n_epochs: 20
  gae_lambda: 0.8
  policy_lr: {start: 1e-3, end: 1e-5, schedule: cosine, from: 0.5, warmup: 0.1}
  clip_range: {start: 0.2}
  normalize_advantages: rollout

ppo_side_keys:
  <<: [*env, *eval]
  algo_id: ppo
  batch_size: 256
  policy_lr: 1e-3
  policy_lr_schedule: linear
  policy_lr_schedule_end_value: 0
  ent_coef_schedule: exponential
  ent_coef_schedule_start_value: 0.01
  ent_coef_schedule_end_value: 0.0001
  ent_coef_schedule_start: 10000
  ent_coef_schedule_end: 0.5
  vf_coef_schedule: null

reinforce:
  <<: *env
  algo_id: reinforce
  n_steps: 1024
  batch_size: 2048
  clip_range: 0.1
  returns_type: mc:episode
  policy_targets: advantages
  normalize_returns: baseline
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "CartPole-v1.yaml").write_text(CART)
    return tmp_path


def variant(folder: Path, body: str, *, name: str = "ppo") -> Loaded:
    """A file with one flat variant of these lines, loaded."""
    lines = "\n".join(f"  {line}" for line in body.strip().splitlines())
    (folder / "A-v0.yaml").write_text(f"{name}:\n  env_id: A-v0\n  model_id: mlp_tiny\n{lines}\n")
    return load(f"A-v0:{name}", search=folder)


def test_a_flat_file_becomes_nested_sections(folder: Path) -> None:
    config = load("CartPole-v1:ppo", search=folder).config
    assert isinstance(config.algo, PPOConfig)
    assert (config.name, config.env.id, config.env.n_envs, config.algo.n_steps) == ("CartPole-v1:ppo", "CartPole-v1", 8, 32)
    assert (config.algo.gamma, config.algo.gae_lambda, config.algo.n_epochs) == (0.98, 0.8, 20)
    assert (config.algo.normalize_advantage, config.run.max_env_steps, config.run.eval_episodes) == ("rollout", 100_000, 30)
    assert from_record(to_record(config)) == config


def test_a_fractional_batch_is_a_share_of_the_rollout(folder: Path) -> None:
    config = load("CartPole-v1:ppo", search=folder).config
    assert config.batch_rows == 64


def test_schedules_are_carried_over_with_their_warm_up_as_a_share_of_their_window(folder: Path) -> None:
    rate = load("CartPole-v1:ppo", search=folder).config.algo.learning_rate
    assert rate == Schedule.model_validate({"schedule": "cosine", "start": 1e-3, "end": 1e-5, "from": 0.5, "warmup": 0.05})
    assert value_at(rate, 50_000, 100_000) == pytest.approx(1e-5)
    assert value_at(rate, 55_000, 100_000) == 1e-3


def test_a_schedule_has_their_defaults_linear_to_zero(folder: Path) -> None:
    config = load("CartPole-v1:ppo", search=folder).config
    assert isinstance(config.algo, PPOConfig)
    assert config.algo.clip_range == Schedule(start=0.2, end=0, schedule="linear")


def test_side_keys_make_a_schedule_too(folder: Path) -> None:
    algo = load("CartPole-v1:ppo_side_keys", search=folder).config.algo
    assert algo.learning_rate == Schedule(start=1e-3, end=0)
    expected = {"schedule": "exponential", "start": 0.01, "end": 1e-4, "from": 10_000, "to": 0.5}
    assert algo.ent_coef == Schedule.model_validate(expected)
    assert algo.vf_coef == 0.5


def test_the_task_is_read_from_their_spec(folder: Path) -> None:
    spec = load("CartPole-v1:ppo", search=folder).config.spec
    assert (spec.threshold, spec.return_range, spec.description) == (475, (0, 500), "Balance a pole.")
    entry = next(entry for entry in available(folder) if not entry.shipped)
    assert (entry.variants, entry.spec) == (("ppo", "ppo_side_keys", "reinforce"), spec)


@pytest.mark.parametrize(
    ("spec", "threshold", "bounds"),
    [
        ("{rewards: {threshold_solved: 200}}", 200, None),
        ("{rewards: {threshold_solved: 200}, returns: {threshold_solved: 300, range: [0, 400]}}", 300, (0, 400)),
        ("{returns: {threshold_solved: 18, range: [-inf, inf]}}", 18, None),
        ("{returns: {threshold_solved: 18, range: [-.inf, .inf]}}", 18, None),
        ("{returns: {threshold_solved: 18, range: [0, 1]}}", 18, None),
        ("{returns: {range: unknown}, action_space: {discrete: 2}}", None, None),
    ],
)
def test_either_block_may_hold_the_threshold(folder: Path, spec: str, threshold: float | None, bounds: object) -> None:
    found = variant(folder, f"spec: {spec}\nmax_env_steps: 1e6").config.spec
    assert (found.threshold, found.return_range) == (threshold, bounds)


def test_what_a_file_leaves_out_has_their_default_and_says_so(folder: Path) -> None:
    loaded = variant(folder, "algo_id: ppo\nmax_env_steps: 1e6")
    algo = loaded.config.algo
    assert isinstance(algo, PPOConfig)
    assert (algo.n_steps, algo.batch_size, algo.clip_range_vf, loaded.config.env.n_envs) == (2048, 64, 0.2, 8)
    assert (loaded.config.run.eval_episodes, loaded.config.run.eval_deterministic) == (100, False)
    assert (loaded.config.net.activation, loaded.config.net.shared) == ("relu", True)
    assert loaded.origins["algo.clip_range_vf"] == "gymnasium-solver's default"
    assert loaded.config.seed == 0


def test_what_a_file_switches_off_stays_off(folder: Path) -> None:
    algo = variant(folder, "max_env_steps: 1e6\nclip_range_vf: null").config.algo
    assert isinstance(algo, PPOConfig)
    assert algo.clip_range_vf is None


def test_a_file_from_before_model_ids_has_the_defaults_of_its_time(tmp_path: Path) -> None:
    (tmp_path / "Old-v0.yaml").write_text(
        "env_id: Old-v0\nppo:\n  hidden_dims: [32, 32]\n  n_timesteps: 3e5\n  learning_rate: lin_0.001\n  activation: tanh\n"
    )
    config = load("Old-v0", search=tmp_path).config
    assert isinstance(config.algo, PPOConfig)
    assert (config.env.n_envs, config.algo.batch_size, config.algo.optimizer, config.algo.clip_range_vf) == (1, 0.25, "adamw", None)
    assert (config.net.hidden, config.net.activation, config.run.max_env_steps) == ((32, 32), "tanh", 300_000)
    assert config.algo.learning_rate == Schedule(start=1e-3, end=0)


@pytest.mark.parametrize(
    ("model", "hidden"), [("mlp_tiny", (64,)), ("mlp_small", (128, 128)), ("mlp_medium", (256, 256)), ("mlp_large", (512, 512))]
)
def test_a_model_id_is_a_list_of_widths(tmp_path: Path, model: str, hidden: tuple[int, ...]) -> None:
    (tmp_path / "A-v0.yaml").write_text(f"ppo: {{env_id: A-v0, max_env_steps: 1e6, model_id: {model}}}")
    assert load("A-v0", search=tmp_path).config.net.hidden == hidden


def test_epochs_are_counted_in_env_steps(folder: Path) -> None:
    run = variant(folder, "n_envs: 4\nn_steps: 64\nmax_epochs: 100\neval_freq_epochs: 5").config.run
    assert (run.max_env_steps, run.eval_every_env_steps) == (25_600, 1_280)


@pytest.mark.parametrize(
    ("line", "stops", "threshold"),
    [("", True, 475), ("early_stop_on_eval_threshold: false", False, 475), ("early_stop_on_eval_threshold: 15", True, 15)],
)
def test_a_run_stops_at_its_threshold_as_it_did_there(folder: Path, line: str, stops: bool, threshold: float) -> None:
    config = variant(folder, f"max_env_steps: 1e6\neval_freq_epochs: 1\nreward_threshold: 475\n{line}").config
    assert (config.run.stop_at_threshold, config.spec.threshold) == (stops, threshold)


def test_without_a_threshold_or_evaluations_nothing_stops_a_run(folder: Path) -> None:
    assert not variant(folder, "max_env_steps: 1e6\neval_freq_epochs: 1").config.run.stop_at_threshold
    assert not variant(folder, "max_env_steps: 1e6\nreward_threshold: 475").config.run.stop_at_threshold


def test_reinforce_keeps_what_it_has_and_notes_what_it_has_not(folder: Path) -> None:
    loaded = load("CartPole-v1:reinforce", search=folder)
    algo = loaded.config.algo
    assert isinstance(algo, ReinforceConfig)
    assert (algo.baseline, algo.normalize_advantage, algo.n_steps, algo.learning_rate) == (True, "rollout", 1024, 1e-2)
    for word in ("batch_size", "clip_range", "mc:episode", "project_id"):
        assert any(word in note and "is dropped" in note for note in loaded.notes), word


def test_reinforce_has_no_baseline_unless_asked_for(folder: Path) -> None:
    algo = variant(folder, "algo_id: reinforce\nmax_env_steps: 1e6").config.algo
    assert isinstance(algo, ReinforceConfig)
    assert (algo.baseline, algo.normalize_advantage) == (False, "off")


def test_the_machines_number_of_cores_is_no_setting(folder: Path) -> None:
    loaded = variant(folder, "n_envs: auto\nmax_env_steps: 1e6")
    assert loaded.config.env.n_envs == 8
    assert "depends on the machine" in loaded.notes[0]


def test_a_missing_budget_is_replaced_and_noted(folder: Path) -> None:
    loaded = variant(folder, "algo_id: ppo")
    assert loaded.config.run.max_env_steps == 1_000_000
    assert "no max_env_steps" in loaded.notes[-1]


def test_environment_settings_are_carried_over(folder: Path) -> None:
    body = """
env_kwargs: {is_slippery: false, map_name: "4x4"}
env_wrappers:
  - {id: DiscreteEncoder, encoding: array}
  - {id: RescaleAction, min_action: -1, max_action: 1}
normalize_obs: rolling
frame_stack: null
max_episode_steps: 50
max_env_steps: 1e6
accelerator: gpu
seed: 42
frame_skip: 1
"""
    loaded = variant(folder, body)
    env = loaded.config.env
    assert env.kwargs == {"is_slippery": False, "map_name": "4x4"}
    assert [wrapper.id for wrapper in env.wrappers] == ["RescaleAction"]
    assert (env.normalize_obs, env.frame_stack, env.max_episode_steps) == (True, 1, 50)
    assert (loaded.config.run.device, loaded.config.seed) == ("cuda", 42)
    assert "one-hot" in loaded.notes[0]


def test_ram_observations_are_an_argument_of_the_environment(folder: Path) -> None:
    assert variant(folder, "obs_type: ram\nmax_env_steps: 1e6\nenv_kwargs: {x: 1}").config.env.kwargs == {"x": 1, "obs_type": "ram"}


def test_mettas_names_are_understood(folder: Path) -> None:
    numbers = {"clip_coef": 0.1, "vf_clip_coef": 0.3, "update_epochs": 3, "minibatch_size": 128, "bptt_horizon": 64}
    off = {"prio_alpha": 0, "vtrace_rho_clip": 1, "max_env_steps": "1e6"}
    loaded = variant(folder, "\n".join(f"{key}: {value}" for key, value in (numbers | off).items()))
    algo = loaded.config.algo
    assert isinstance(algo, PPOConfig)
    assert (algo.clip_range, algo.clip_range_vf, algo.n_epochs, algo.batch_size, algo.n_steps) == (0.1, 0.3, 3, 128, 64)
    assert any("vtrace_rho_clip" in note for note in loaded.notes)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("obs_type: rgb", r"obs_type=rgb \(.*A-v0.yaml:4\): observations that are images"),
        ("obs_type: objects", "obs_type=objects"),
        ("policy: cnn", "policy=cnn"),
        ("resize_obs: [84, 84]", "resize_obs="),
        ("frame_skip: 4", "frame_skip=4"),
        ("prio_alpha: 0.6", "prio_alpha=0.6"),
        ("env_wrappers: [{id: CartPoleV1_RewardShaper, scale: 1}]", "CartPoleV1_RewardShaper .* is gymnasium-solver's own code"),
        ("algo_id: qlearning", "algo_id=qlearning .* is no algorithm here"),
        ("n_epoch: 3", r"A-v0.yaml:4: n_epoch is no setting(?s:.*)algo.n_epochs"),
        ("policy_lr: fast\nmax_env_steps: 1e6", r"algo.learning_rate=fast \(.*A-v0.yaml:4\)"),
        ("n_steps: many\nmax_epochs: 3\neval_freq_epochs: 2", "algo.n_steps=many"),
        ("policy_lr: {start: 1e-3, from: soon, warmup: 0.1}\nmax_env_steps: 1e6", "algo.learning_rate.from=soon"),
        ("batch_size: 100\nmax_env_steps: 1e6", "algo.batch_size=100 does not divide the rollout of 16384"),
        ("policy_lr: {start: 1e-3, to: 2e6}\nmax_env_steps: 1e6", r"algo.learning_rate.to=2e\+06 lies past the budget"),
    ],
)
def test_what_cannot_be_carried_over_is_refused(folder: Path, body: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        variant(folder, body)


@pytest.mark.parametrize("model", ["cnn_nature", "mlp_tyni"])
def test_an_unknown_network_is_refused(tmp_path: Path, model: str) -> None:
    (tmp_path / "A-v0.yaml").write_text(f"ppo: {{env_id: A-v0, model_id: {model}}}")
    with pytest.raises(ConfigError, match=rf"model_id={model}(?s:.*)Try: model_id: mlp_tiny"):
        load("A-v0", search=tmp_path)


@pytest.mark.parametrize("key", sorted(FLAT_KEYS))
def test_every_key_of_theirs_may_stand_at_the_top_of_a_file(tmp_path: Path, key: str) -> None:
    (tmp_path / "A-v0.yaml").write_text(f"{key}: {{}}\nppo: {{env_id: A-v0, model_id: mlp_tiny, max_env_steps: 1e6}}")
    assert next(entry for entry in available(tmp_path) if not entry.shipped).variants == ("ppo",)


@pytest.mark.parametrize("key", sorted(FLAT_KEYS))
def test_whatever_a_key_of_theirs_holds_the_answer_is_a_config_or_an_error_of_ours(folder: Path, key: str) -> None:
    for value in ("null", "true", "3", "word", "[1, 2]", "{a: 1}"):
        settings = {"env_id": "A-v0", "max_env_steps": "1e6", key: value}
        (folder / "A-v0.yaml").write_text("ppo:\n" + "".join(f"  {name}: {item}\n" for name, item in settings.items()))
        said = "Try: "
        try:
            load("A-v0", search=folder)
        except RlclinicError as error:
            said = str(error)
        assert "Try: " in said
