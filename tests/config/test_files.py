from pathlib import Path

import pytest

from rlclinic.config import files
from rlclinic.config.algorithms import A2CConfig, PPOConfig
from rlclinic.config.files import available, load
from rlclinic.config.records import flatten, to_record
from rlclinic.config.schedule import Schedule
from rlclinic.errors import ConfigError, NotFound

NAMED = (
    "CartPole-v1",
    "Acrobot-v1",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
    "Pendulum-v1",
    "LunarLander-v3",
    "FrozenLake-v1",
    "Taxi-v3",
    "CliffWalking-v1",
    "LunarLanderContinuous-v3",
    "BipedalWalker-v3",
    "HalfCheetah-v5",
    "DeepSea-v0",
    "Delivery-v0",
    "DoorKey-v0",
    "MultiRoom-v0",
    "Maze-v0",
    "SparseMountainCar-v0",
    "Hopper-v5",
    "Walker2d-v5",
    "ALE/Pong-v5",
    "ALE/Breakout-v5",
)
SHIPPED = [entry for entry in available(Path(__file__).parent) if entry.shipped]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Away from a ./config/environments that a demo left in the checkout: these tests are about what is shipped."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder with room for a user's environments."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "config" / "environments"
    folder.mkdir(parents=True)
    return folder


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


# ── what is shipped ──


def test_the_named_environments_are_shipped() -> None:
    assert {entry.env for entry in SHIPPED} == set(NAMED)
    assert all("ppo" in entry.variants and entry.problem is None for entry in SHIPPED)


@pytest.mark.parametrize("entry", SHIPPED, ids=lambda entry: entry.env)
def test_every_shipped_environment_has_a_threshold_a_description_and_a_source(entry: files.Available) -> None:
    assert entry.spec.threshold is not None
    assert entry.spec.description
    assert entry.spec.source.startswith("https://")


@pytest.mark.parametrize("entry", SHIPPED, ids=lambda entry: entry.env)
def test_every_shipped_variant_evaluates_while_it_trains(entry: files.Available) -> None:
    for variant in entry.variants:
        run = load(f"{entry.env}:{variant}").config.run
        assert run.eval_every_env_steps is not None
        assert run.max_env_steps >= 10 * run.eval_every_env_steps


@pytest.mark.parametrize("path", [entry.path for entry in SHIPPED] + [files.DEFAULTS], ids=lambda path: path.stem)
def test_every_shipped_file_explains_its_unusual_values(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if line.strip() and not line.lstrip().startswith("#")]
    assert sum("#" in line for line in lines) >= 4


def test_the_zoo_variants_are_the_zoos_settings() -> None:
    cartpole = load("CartPole-v1:ppo_zoo").config
    assert (cartpole.env.n_envs, cartpole.run.max_env_steps) == (8, 100_000)
    assert cartpole.algo == PPOConfig(
        n_steps=32,
        batch_size=256,
        n_epochs=20,
        gamma=0.98,
        gae_lambda=0.8,
        learning_rate={"start": 1e-3, "end": 0},
        clip_range={"start": 0.2, "end": 0},
    )
    lander = load("LunarLander-v3:ppo_zoo").config
    assert (lander.env.n_envs, lander.run.max_env_steps) == (16, 1_000_000)
    assert lander.algo == PPOConfig(n_steps=1024, batch_size=64, n_epochs=4, gamma=0.999, gae_lambda=0.98, ent_coef=0.01)
    assert lander.algo.learning_rate == 3e-4


@pytest.mark.parametrize("game", ["Pong", "Breakout"])
def test_atari_variants_are_the_zoos_settings_for_all_games(game: str) -> None:
    config = load(f"ALE/{game}-v5:ppo").config
    falls = {"end": 0, "schedule": "linear"}
    assert config.algo == PPOConfig(
        n_steps=128, batch_size=256, n_epochs=4, ent_coef=0.01, learning_rate={"start": 2.5e-4, **falls}, clip_range={"start": 0.1, **falls}
    )
    env = config.env
    assert (env.n_envs, env.frame_stack, env.frames_per_step, env.episodic_life, env.clip_raw_reward) == (8, 4, 4, True, 1.0)
    assert config.run.max_env_steps == 10_000_000


def test_an_atari_game_without_a_file_gets_what_is_the_same_in_all_of_them() -> None:
    found = load("ALE/Asteroids-v5")
    assert found.config.env == load("ALE/Breakout-v5").config.env.model_copy(update={"id": "ALE/Asteroids-v5"})
    assert found.config.spec.threshold is None
    assert "ALE/Asteroids-v5 has no file of its own" in found.notes[0]
    assert load("ALE/Asteroids-v5:a2c").config.env.frame_stack == 4


@pytest.mark.parametrize(
    ("env", "numbers"),
    [
        ("HalfCheetah-v5", (64, 20, 0.98, 0.92, 0.1, 0.000401762, 0.58096, 0.8, 2.0633e-5)),
        ("Hopper-v5", (32, 5, 0.999, 0.99, 0.2, 0.00229519, 0.835671, 0.7, 9.80828e-5)),
        ("Walker2d-v5", (32, 20, 0.99, 0.95, 0.1, 0.000585045, 0.871923, 1, 5.05041e-5)),
    ],
)
def test_mujoco_variants_are_the_zoos_settings(env: str, numbers: tuple[float, ...]) -> None:
    config = load(env).config
    algo = config.algo
    assert isinstance(algo, PPOConfig)
    found = (algo.batch_size, algo.n_epochs, algo.gamma, algo.gae_lambda, algo.clip_range, algo.ent_coef, algo.vf_coef, algo.max_grad_norm)
    assert (*found, algo.learning_rate) == numbers
    assert (config.env.n_envs, algo.n_steps, config.env.normalize_obs, config.env.normalize_reward) == (1, 512, True, True)
    assert (config.net.hidden, config.net.activation, config.net.log_std_init) == ((256, 256), "relu", -2)


# ── which config a reference means ──


@pytest.mark.parametrize("ref", ["CartPole-v1", "CartPole-v1:ppo"])
def test_ppo_is_the_variant_when_none_is_named(ref: str) -> None:
    config = load(ref).config
    assert (config.name, config.env.id, config.algo.name, config.spec.threshold) == ("CartPole-v1:ppo", "CartPole-v1", "ppo", 475)


def test_a_variant_is_found_by_name() -> None:
    assert load("CartPole-v1:a2c").config.algo == A2CConfig()


def test_a_file_is_also_found_by_the_environment_in_it() -> None:
    config = load("Taxi-v4:ppo_masked").config
    assert (config.name, config.env.id, config.env.action_mask) == ("Taxi-v4:ppo_masked", "Taxi-v4", True)


@pytest.mark.parametrize(
    ("ref", "says"),
    [
        ("CartPole-v1:pp", r"CartPole-v1 has no variant pp \(it has: ppo, ppo_zoo, a2c, reinforce(?s:.*)Try: CartPole-v1:ppo"),
        ("CartPole-v1:xyz", "Try: CartPole-v1:ppo, or CartPole-v1:ppo_zoo, or CartPole-v1:a2c"),
        ("Cartpole-v1", "no environment Cartpole-v1(?s:.*)Try: CartPole-v1"),
        ("CartPole-v0:typo", r"CartPole-v0 has no variant typo \(it has: ppo, a2c, reinforce"),
        ("probe:1:typo", "probe:1 has no variant typo"),
        ("nowhere:Foo-v0", "no module `nowhere`"),
        ("missing.yaml", "no file missing.yaml"),
    ],
)
def test_a_reference_to_nothing_offers_the_nearest(ref: str, says: str) -> None:
    with pytest.raises(NotFound, match=says):
        load(ref)


def test_a_missing_file_offers_its_neighbours(here: Path) -> None:
    write(here, "mine.yaml", "ppo: {env: {id: X-v0}}")
    with pytest.raises(NotFound, match=r"Try: config/environments/mine.yaml"):
        load("config/environments/min.yaml")


@pytest.mark.parametrize("algo", ["ppo", "a2c", "reinforce"])
def test_an_environment_without_a_file_gets_general_settings(algo: str) -> None:
    loaded = load(f"BipedalWalkerHardcore-v3:{algo}")
    config = loaded.config
    assert (config.name, config.env.id, config.algo.name) == (f"BipedalWalkerHardcore-v3:{algo}", "BipedalWalkerHardcore-v3", algo)
    assert config.env.normalize_obs
    assert config.env.normalize_reward
    assert (config.spec.threshold, config.spec.max_episode_steps) == (300, 2000)
    assert loaded.origins["spec.threshold"] == "spec"
    assert loaded.origins["env.normalize_obs"].startswith("defaults.yaml:")
    assert "general settings" in loaded.notes[0]


def test_a_table_does_not_take_over_rewards_that_an_environments_file_scales_for_gradients(here: Path) -> None:
    write(here, "Foo-v0.yaml", "ppo: {env: {id: Foo-v0, normalize_reward: true}}")
    assert load("Foo-v0:a2c").config.env.normalize_reward
    assert not load("Foo-v0:q_learning").config.env.normalize_reward


def test_the_general_settings_are_eight_envs_and_a_falling_rate() -> None:
    config = load("CartPole-v0").config
    assert isinstance(config.algo, PPOConfig)
    assert (config.env.n_envs, config.algo.n_steps, config.batch_rows, config.algo.n_epochs) == (8, 256, 256, 10)
    assert config.algo.learning_rate == Schedule(start=3e-4, end=0)


@pytest.mark.parametrize(
    ("ref", "env"), [("probe:1", "probe:1"), ("probe:2:a2c", "probe:2"), ("json:Foo-v0", "json:Foo-v0"), ("json:Foo-v0:a2c", "json:Foo-v0")]
)
def test_an_id_with_a_colon_is_no_variant(ref: str, env: str) -> None:
    config = load(ref).config
    assert config.env.id == env
    assert config.algo.name == ("a2c" if ref.endswith("a2c") else "ppo")


def test_an_algorithm_without_a_variant_gets_general_settings_on_the_files_environment() -> None:
    loaded = load("CliffWalking-v1:reinforce")
    assert loaded.config.algo.name == "reinforce"
    assert loaded.config.env == load("CliffWalking-v1").config.env
    assert loaded.config.spec.threshold == load("CliffWalking-v1").config.spec.threshold == -15
    assert "has no reinforce variant" in loaded.notes[0]


# ── files of one's own ──


def test_a_users_file_comes_first_and_the_shipped_variants_stay(here: Path) -> None:
    write(here, "CartPole-v1.yaml", "ppo:\n  env: {id: CartPole-v1, n_envs: 4}\nmine:\n  env: {id: CartPole-v1, n_envs: 2}\n")
    assert load("CartPole-v1").config.env.n_envs == 4
    assert load("CartPole-v1:mine").config.env.n_envs == 2
    assert load("CartPole-v1:mine").config.spec.threshold == 475, "the shipped file knows the task"
    assert load("CartPole-v1:ppo_zoo").config.env.n_envs == 8


def test_another_folder_may_be_searched(tmp_path: Path) -> None:
    write(tmp_path, "Mine-v0.yml", "only: {env: {id: json:Mine-v0}, algo: {name: a2c}}")
    loaded = load("Mine-v0", search=tmp_path)
    assert (loaded.config.name, loaded.config.algo.name) == ("Mine-v0:only", "a2c")
    assert [entry.env for entry in available(tmp_path) if not entry.shipped] == ["Mine-v0"]


def test_a_file_may_be_named_with_and_without_its_variant(here: Path) -> None:
    path = write(here, "any.yaml", "ppo: {env: {id: X-v0}}\nfast: {env: {id: X-v0, n_envs: 1}}\n")
    assert load(str(path)).config.name == "X-v0:ppo"
    assert load(f"{path}:fast").config.env.n_envs == 1
    with pytest.raises(NotFound, match="has no variant fats"):
        load(f"{path}:fats")


def test_several_variants_without_ppo_leave_the_choice_to_the_user(here: Path) -> None:
    path = write(here, "any.yaml", "fast: {env: {id: X-v0}}\nslow: {env: {id: X-v0}}\n")
    with pytest.raises(NotFound, match=rf"Try: {path}:fast, or {path}:slow"):
        load(str(path))


def test_a_stored_config_is_a_file_without_variants(here: Path) -> None:
    import yaml

    config = load("CartPole-v1:a2c", ["seed=5"]).config
    path = write(here, "stored.yaml", yaml.safe_dump(to_record(config)))
    assert load(str(path)).config == config


def test_sections_that_begin_with_an_underscore_are_no_variants(here: Path) -> None:
    write(here, "A-v0.yaml", "_x: &x {n_envs: 2}\nppo: {env: {id: A-v0, <<: *x}}\n")
    assert next(entry for entry in available() if entry.env == "A-v0").variants == ("ppo",)
    assert load("A-v0").config.env.n_envs == 2


def test_base_and_top_level_settings_are_inherited_by_every_variant(here: Path) -> None:
    text = """
gamma: 0.9
seed: 7
env: {id: A-v0, n_envs: 4}
_base:
  algo: {n_steps: 64}
  env: {frame_stack: 2}
ppo:
  algo: {n_epochs: 3}
other:
  algo: {name: ppo, gamma: 0.8}
  env: {n_envs: 16}
"""
    write(here, "A-v0.yaml", text)
    with pytest.raises(ConfigError, match=r"A-v0.yaml:\d+: algo.gamma is given twice, once under another name"):
        load("A-v0:other")
    write(here, "A-v0.yaml", text.replace("gamma: 0.8", "gae_lambda: 0.8"))
    ppo, other = load("A-v0").config, load("A-v0:other").config
    assert isinstance(ppo.algo, PPOConfig)
    assert (ppo.seed, ppo.algo.gamma, ppo.algo.n_steps, ppo.algo.n_epochs, ppo.env.n_envs, ppo.env.frame_stack) == (7, 0.9, 64, 3, 4, 2)
    assert (other.algo.gae_lambda, other.algo.n_steps, other.env.n_envs, other.env.frame_stack) == (0.8, 64, 16, 2)


@pytest.mark.parametrize(("variant", "algo"), [("a2c", "a2c"), ("ppo_fast", "ppo"), ("reinforce-plain", "reinforce"), ("mine", "ppo")])
def test_a_variant_without_an_algorithms_name_has_the_one_that_it_is_called_by(here: Path, variant: str, algo: str) -> None:
    write(here, "A-v0.yaml", f"{variant}: {{env: {{id: A-v0}}}}\n")
    assert load(f"A-v0:{variant}").config.algo.name == algo


def test_aliases_and_flat_keys_are_understood_beside_sections(here: Path) -> None:
    write(
        here,
        "A-v0.yaml",
        "ppo:\n  env: {id: A-v0, num_envs: 2}\n  algo: {policy_lr: 1e-4, clip_coef: 0.1}\n  max_env_steps: 1e5\n  n_steps: 128\n",
    )
    config = load("A-v0").config
    assert isinstance(config.algo, PPOConfig)
    assert (config.env.n_envs, config.algo.learning_rate, config.algo.clip_range) == (2, 1e-4, 0.1)
    assert (config.run.max_env_steps, config.algo.n_steps) == (100_000, 128)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ppo:\n  env: {id: A-v0}\n  algo: {clip_rage: 0.1}\n", r"A-v0.yaml:3: algo.clip_rage is no setting(?s:.*)algo.clip_range"),
        ("ppo:\n  env: {id: A-v0}\n  algo: {gamma: 2}\n", r"algo.gamma=2 \(config/environments/A-v0.yaml:3\): must be at most 1"),
        ("ppo:\n  env: {id: A-v0}\n  algo: {name: ppoo}\n", "algo.name=ppoo is no algorithm"),
        ("ppo:\n  env: {id: A-v0\n", "A-v0.yaml:3 is not valid YAML"),
        ("ppo:\n  env: {n_envs: 3}\n", "env.id is missing"),
        ("spec: {treshold: 3}\nppo:\n  env: {id: A-v0}\n", "A-v0.yaml:1: spec.treshold is no setting(?s:.*)spec.threshold"),
        ("ppo:\n  env: {id: A-v0}\n  net: relu\n", "net=relu"),
        ("ppo:\n  env: {id: A-v0}\n  algo: ppo\n", "algo"),
        ("ppo:\n  env: {id: A-v0}\n  algo: {name: [ppo]}\n", "algo.name="),
        ("ppo:\n  env: A-v0\n  net: {hidden: [8]}\n", "env=A-v0"),
        ("ppo:\n  env: {id: A-v0}\n  algo: {tuning: {}}\n", "algo.tuning is no setting"),
        ("ppo:\n  env: {id: A-v0}\n  algo: {n_steps: 100}\n", "algo.batch_size=256 does not divide the rollout of 800"),
    ],
)
def test_a_file_with_a_mistake_is_refused_with_its_line(here: Path, text: str, says: str) -> None:
    write(here, "A-v0.yaml", text)
    with pytest.raises(ConfigError, match=says):
        load("A-v0")


@pytest.mark.parametrize("algo", ["ppo", "{name: ppoo}", "{name: [ppo]}"])
def test_a_wrong_algorithm_is_named_even_where_settings_are_overridden(here: Path, algo: str) -> None:
    write(here, "A-v0.yaml", f"ppo:\n  env: {{id: A-v0}}\n  algo: {algo}\n")
    with pytest.raises(ConfigError, match="algo"):
        load("A-v0", ["clip_range=0.1"])
    assert load("A-v0", ["clip_range=0.1", "algo.name=ppo"]).config.algo == PPOConfig(clip_range=0.1)


def test_a_variant_may_have_the_name_of_a_setting(here: Path) -> None:
    write(here, "A-v0.yaml", "gamma: {start: 0.9, end: 0.99}\nbaseline: {env: {id: A-v0}}\n")
    config = load("A-v0:baseline").config
    assert config.algo.gamma == Schedule(start=0.9, end=0.99)


def test_a_file_that_only_knows_the_task_gets_general_settings(here: Path) -> None:
    write(here, "A-v0.yaml", "spec: {threshold: 5}\n")
    loaded = load("A-v0")
    assert (loaded.config.env.id, loaded.config.spec.threshold, loaded.config.env.normalize_obs) == ("A-v0", 5, True)


def test_a_broken_file_is_listed_with_its_problem_and_breaks_nothing_else(here: Path) -> None:
    write(here, "Broken-v0.yaml", "a: [")
    write(here, "Odd-v0.yaml", "spec: {threshold: high}\nppo: {env: {id: Odd-v0}}")
    entries = {entry.env: entry for entry in available()}
    assert "not valid YAML" in str(entries["Broken-v0"].problem)
    assert "spec.threshold=high (config/environments/Odd-v0.yaml:1)" in str(entries["Odd-v0"].problem)
    assert set(NAMED) < set(entries)
    assert load("CartPole-v1").config.env.id == "CartPole-v1"


# ── where a setting comes from ──


def test_every_setting_has_an_origin() -> None:
    loaded = load("CartPole-v1:ppo", ["clip_range=0.1", "learning_rate.end=1e-5"])
    assert set(loaded.origins) == set(flatten(to_record(loaded.config)))
    assert loaded.origins["algo.clip_range"] == "--set"
    assert loaded.origins["algo.learning_rate.end"] == "--set"
    assert loaded.origins["algo.vf_coef"] == "default"


def test_an_origin_points_at_the_line() -> None:
    loaded = load("CartPole-v1:ppo")
    name, line = loaded.origins["algo.n_epochs"].split(":")
    text = (files._SHIPPED / name).read_text().splitlines()[int(line) - 1]
    assert text.strip() == f"n_epochs: {loaded.config.algo.n_epochs}"


def test_an_override_hides_what_stood_in_the_file() -> None:
    origins = load("CartPole-v1:ppo", ["learning_rate={start: 1e-4}"]).origins
    assert {origins[f"algo.learning_rate.{key}"] for key in ("start", "end", "from")} == {"--set"}
    other = load("CartPole-v1:ppo", ["algo.name=a2c"]).origins
    assert other["algo.n_steps"] == "default"
    assert other["algo.name"] == "--set"
    assert other["env.n_envs"].startswith("CartPole-v1.yaml:")


def test_an_override_may_repair_a_file(here: Path) -> None:
    write(here, "A-v0.yaml", "ppo:\n  env: {id: A-v0}\n  algo: {n_steps: 100}\n")
    assert load("A-v0", ["batch_size=200"]).config.batch_rows == 200
