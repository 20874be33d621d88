"""Other frameworks' hyperparameters by our dotted names. Only what is written there: no defaults, neither theirs nor ours."""

import ast
import base64
import json
import math
import pickletools
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from rlclinic.runs.coerce import real, whole

Settings = dict[str, Any]

_ALGO: Final = frozenset(
    {
        *(
            "learning_rate",
            "n_steps",
            "batch_size",
            "n_epochs",
            "gamma",
            "gae_lambda",
            "clip_range",
            "clip_range_vf",
            "ent_coef",
            "vf_coef",
        ),
        *("max_grad_norm", "target_kl", "normalize_advantage", "value_lr", "optimizer", "weight_decay", "adam_eps", "baseline"),
        *("buffer_size", "learning_starts", "tau", "train_freq", "gradient_steps", "target_update_interval", "target_entropy"),
        *("exploration_fraction", "exploration_initial_eps", "exploration_final_eps", "policy_delay", "target_policy_noise"),
        *("target_noise_clip", "use_sde", "sde_sample_freq"),
    }
)
_SCHEDULED: Final = frozenset({"learning_rate", "clip_range", "clip_range_vf", "ent_coef", "vf_coef", "value_lr"})
_CLEANRL: Final = {
    "num_envs": "env.n_envs",
    "num_steps": "algo.n_steps",
    "minibatch_size": "algo.batch_size",
    "update_epochs": "algo.n_epochs",
    "clip_coef": "algo.clip_range",
    "total_timesteps": "run.max_env_steps",
    "env_id": "env.id",
    "gym_id": "env.id",
    "start_e": "algo.exploration_initial_eps",
    "end_e": "algo.exploration_final_eps",
    "train_frequency": "algo.train_freq",
    "target_network_frequency": "algo.target_update_interval",
    "policy_lr": "algo.learning_rate",
    "q_lr": "algo.value_lr",
    "policy_frequency": "algo.policy_delay",
    "alpha": "algo.ent_coef",
}
# Longest first: "ppo_lstm" is no "ppo".
_ALGORITHMS: Final = sorted(
    (
        *("recurrentppo", "recurrent_ppo", "ppo_lstm", "maskableppo", "maskable_ppo", "ppo_mask", "ppo2", "ppo", "a2c", "a3c", "reinforce"),
        *("vpg", "dqn", "qrdqn", "rainbow", "c51", "sac", "td3", "ddpg", "tqc", "trpo", "ars", "rpo", "ppg", "crossq", "impala", "appo"),
    ),
    key=len,
    reverse=True,
)
_SAME: Final = {
    "recurrentppo": "recurrent_ppo",
    "ppo_lstm": "recurrent_ppo",
    "maskableppo": "maskable_ppo",
    "ppo_mask": "maskable_ppo",
    "ppo2": "ppo",
}
_FAMILIES: Final = {
    "ppo": ("ppo", "recurrent_ppo", "maskable_ppo", "rpo", "ppg", "appo"),
    "dqn": ("dqn", "qrdqn", "c51", "rainbow"),
    "sac": ("sac", "tqc", "crossq"),
    "td3": ("td3", "ddpg"),
    "a2c": ("a2c", "a3c", "reinforce", "vpg"),
    "trpo": ("trpo",),
}
"""Algorithms whose logs have the same tags."""
_ACTIVATIONS: Final = {"tanh", "relu", "elu", "gelu", "silu", "leaky_relu", "sigmoid"}
_MAX_TEXT: Final = 10_000


def find_algorithm(text: object) -> str | None:
    """The algorithm that a name begins with: "PPO_3", "dqn_atari", "ppo_continuous_action"; None if it is none that is known."""
    lowered = str(text).lower()[:80]
    found = next((name for name in _ALGORITHMS if re.match(rf"{name}(?![a-z0-9])", lowered)), None)
    return _SAME.get(found, found) if found else None


def infer_algorithm_from_tags(names: Collection[str]) -> str | None:
    """The algorithm that SB3, CleanRL or RLlib writes such tags for; None if several do."""
    for algo, tag in (
        # The library imitation: its discriminator, beside the tags of the PPO that it trains, and what it clones.
        *(("gail", "mean/disc/disc_acc_expert"), ("bc", "bc/prob_true_act")),
        *(
            ("ppo", "train/clip_fraction"),
            ("ppo", "losses/clipfrac"),
            ("ppo", "train/fraction_clipped"),
            ("trpo", "train/is_line_search_success"),
        ),
        *(("dqn", "rollout/exploration_rate"), ("dqn", "losses/td_loss"), ("sac", "train/ent_coef"), ("sac", "losses/alpha")),
        *(("a2c", "train/policy_loss"), ("ppo", "train/policy_gradient_loss"), ("td3", "train/critic_loss")),
        *(("sac", "learners/default_policy/alpha_value"), ("dqn", "learners/default_policy/qf_loss")),
    ):
        if tag in names:
            return algo
    return None


def infer_algorithm_from_series(known: Collection[str], names: Collection[str] = ()) -> str | None:
    """The algorithm whose own quantities a log holds, whoever wrote it; None if several have them."""
    if "train/metrics/clip_fraction" in known or any(name.endswith(("cur_kl_coeff", "curr_kl_coeff")) for name in names):
        return "ppo"
    if "train/hp/alpha" in known and "train/loss/critic" in known:
        return "sac"
    return "dqn" if {"train/hp/epsilon", "train/loss/td"} <= set(known) else None


def check_algorithm(named: str | None, names: Collection[str]) -> str | None:
    """The algorithm by a folder's name and by the tags: a name may say more ("maskable_ppo"), but not something else."""
    tagged = infer_algorithm_from_tags(names)
    return named if tagged is None or named in _FAMILIES.get(tagged, ()) else tagged


def parse_value(text: str) -> Any:
    """A setting that was printed: a number, a truth, None, a list or dict of these; otherwise the text itself."""
    text = text.strip()
    try:
        value = ast.literal_eval(text) if len(text) <= _MAX_TEXT else text
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return {"true": True, "false": False, "null": None}.get(text.lower(), text)
    value = list(value) if isinstance(value, tuple) else value
    return value if value is None or isinstance(value, bool | int | float | str | list | dict) else text


def parse_number(value: Any) -> Any:
    """A schedule or number as SB3, rl-zoo3 and YAML 1.1 spell it: `lin_0.001`, `3e-4` (a text there), `LinearSchedule(...)`."""
    if isinstance(value, Mapping):
        value = value.get("value_schedule", value.get("value"))
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text.startswith("lin_"):
        start = _to_float(text[4:])
        return None if start is None else {"schedule": "linear", "start": start, "end": 0.0}
    call = re.fullmatch(r"(\w+)\((.*)\)", text[:500])
    if call is None:
        plain = _to_float(text)
        return text if plain is None else plain
    given = {key: _to_float(part) for key, part in re.findall(r"(\w+)=([^,)]+)", call[2])}
    if call[1] == "FloatSchedule":
        return parse_number(call[2])
    if call[1] == "ConstantSchedule":
        return given.get("val")
    if call[1] == "LinearSchedule" and given.get("start") is not None:
        return {"schedule": "linear", "start": given["start"], "end": given.get("end") or 0.0, "to": given.get("end_fraction") or 1.0}
    return None


def _to_float(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def translate_sb3(raw: Mapping[str, Any]) -> Settings:
    """Settings of SB3 and rl-zoo3: their names are ours, their spelling of schedules and networks is not."""
    found: Settings = {}
    for key, value in raw.items():
        if key in _ALGO:
            _put_algo(found, key, value)
        elif key == "n_envs" and isinstance(value, int):
            found["env.n_envs"] = value
        elif key in ("n_timesteps", "_total_timesteps"):
            if (steps := _to_count(value)) is not None:
                found["run.max_env_steps"] = steps
        elif key == "seed" and isinstance(value, int):
            found["seed"] = value
        elif key == "frame_stack" and isinstance(value, int):
            found["env.frame_stack"] = value
        elif key == "env_wrapper" and value:
            found["env.wrappers"] = [_name_wrapper(item) for item in _as_list(value)[:50]]
        elif key == "normalize":
            found |= _translate_normalize(value)
        elif key == "policy_kwargs":
            found |= translate_network(value)
    return found


def _put_algo(found: Settings, key: str, value: Any) -> None:
    if key in _SCHEDULED:
        value = parse_number(value) if value is not None else None
        if value is None and key != "clip_range_vf":
            return
    elif key == "normalize_advantage" and isinstance(value, bool):
        value = "batch" if value else "off"
    elif key == "train_freq" and isinstance(value, list | tuple) and value:
        value = value[0]
    elif key == "train_freq" and isinstance(value, Mapping):
        value = _read_pickled_frequency(str(value.get(":serialized:", "")))
        if value is None:
            return
    elif isinstance(value, str):
        value = parse_number(value)
    if value is None or isinstance(value, bool | int | float | str) or (key in _SCHEDULED and isinstance(value, Mapping)):
        found[f"algo.{key}"] = value


def _read_pickled_frequency(text: str) -> int | None:
    """train_freq of a saved model: SB3 pickles (4, step). Opcodes are read, nothing is executed; None for what is no number of steps."""
    try:
        opcodes = list(pickletools.genops(base64.b64decode(text, validate=True)))
    except (ValueError, IndexError, UnicodeDecodeError, EOFError, OverflowError):
        return None
    numbers = [value for opcode, value, _ in opcodes if opcode.name in ("BININT", "BININT1", "BININT2") and isinstance(value, int)]
    words = {value for _, value, _ in opcodes if isinstance(value, str)}
    return numbers[0] if len(numbers) == 1 and numbers[0] >= 1 and "step" in words and "TrainFreq" in words else None


def _name_wrapper(item: Any) -> str:
    """The name of one of rl-zoo3's wrappers, which are texts or {name: arguments}."""
    name = next(iter(item), "?") if isinstance(item, Mapping) else item
    return name if isinstance(name, str) else "?"


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _to_count(value: Any) -> int | None:
    steps = whole(parse_number(value) if isinstance(value, str) else value)
    return steps if steps is not None and steps > 0 else None


def _translate_normalize(value: Any) -> Settings:
    """rl-zoo3's `normalize`: a truth, or the arguments of VecNormalize as text."""
    given = _parse_call(value) if isinstance(value, str) else value
    if isinstance(given, bool):
        return {"env.normalize_obs": given, "env.normalize_reward": given}
    if isinstance(given, Mapping):
        return {"env.normalize_obs": bool(given.get("norm_obs", True)), "env.normalize_reward": bool(given.get("norm_reward", True))}
    return {}


def translate_network(value: Any) -> Settings:
    """SB3's policy_kwargs, as a dict or as rl-zoo3's text `dict(net_arch=dict(pi=[64], vf=[64]), activation_fn=nn.Tanh)`."""
    given = _parse_call(value) if isinstance(value, str) else value
    if not isinstance(given, Mapping):
        return {}
    found: Settings = {}
    layers = given.get("net_arch")
    if isinstance(layers, list) and len(layers) == 1 and isinstance(layers[0], Mapping):
        layers = layers[0]
    if isinstance(layers, list) and all(isinstance(width, int) for width in layers):
        found["net.hidden"] = list(layers)
    elif isinstance(layers, Mapping):
        for ours, widths in (("net.hidden", layers.get("pi")), ("net.critic_hidden", layers.get("vf", layers.get("qf")))):
            if isinstance(widths, list) and all(isinstance(width, int) for width in widths):
                found[ours] = list(widths)
    given_name = given.get("activation_fn")
    name = given_name[:200].strip("<>'\" ").rsplit(".", 1)[-1] if isinstance(given_name, str) else ""
    name = "leaky_relu" if name == "LeakyReLU" else name.lower()
    if name in _ACTIVATIONS:
        found["net.activation"] = name
    if (std := real(given.get("log_std_init"))) is not None:
        found["net.log_std_init"] = std
    return found


def _parse_call(text: str) -> Any:
    """The value of `dict(key=value, ...)` or of a literal, read without executing anything; names stay texts. None if it is neither."""
    try:
        tree = ast.parse(text.strip()[:_MAX_TEXT], mode="eval").body
        return _to_literal(tree)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _to_literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("dict", "Namespace") and not node.args:
        return {keyword.arg: _to_literal(keyword.value) for keyword in node.keywords if keyword.arg}
    if isinstance(node, ast.Dict):
        return {
            _to_literal(key): _to_literal(value) for key, value in zip(node.keys, node.values, strict=True) if isinstance(key, ast.Constant)
        }
    if isinstance(node, ast.List | ast.Tuple):
        return [_to_literal(item) for item in node.elts]
    if isinstance(node, ast.Attribute | ast.Name):
        return ast.unparse(node)
    return ast.literal_eval(node)


def translate_cleanrl(raw: Mapping[str, Any]) -> Settings:
    """CleanRL's arguments: minibatches become a batch size, `anneal_lr` a schedule, `clip_vloss` a range."""
    found: Settings = {}
    for key, value in raw.items():
        if key in _CLEANRL:
            found[_CLEANRL[key]] = value
        elif key in _ALGO and key != "batch_size":
            found[f"algo.{key}"] = value
        elif key == "seed":
            found["seed"] = value
    envs, steps, parts = raw.get("num_envs"), raw.get("num_steps"), raw.get("num_minibatches")
    if "algo.batch_size" not in found and all(isinstance(item, int) and item > 0 for item in (envs, steps, parts)):
        found["algo.batch_size"] = int(envs) * int(steps) // int(parts)  # type: ignore[arg-type]
    elif "num_minibatches" not in raw and isinstance(raw.get("batch_size"), int):
        found["algo.batch_size"] = raw["batch_size"]
    if raw.get("anneal_lr") is True and isinstance(found.get("algo.learning_rate"), float | int):
        found["algo.learning_rate"] = {"schedule": "linear", "start": found["algo.learning_rate"], "end": 0.0}
    if isinstance(raw.get("norm_adv"), bool):
        found["algo.normalize_advantage"] = "batch" if raw["norm_adv"] else "off"
    if isinstance(raw.get("clip_vloss"), bool):
        found["algo.clip_range_vf"] = raw.get("clip_coef") if raw["clip_vloss"] else None
    if raw.get("autotune") is True:
        found["algo.ent_coef"] = "auto"
    if (budget := _to_count(found.get("run.max_env_steps"))) is not None:
        found["run.max_env_steps"] = budget
    return found


def load_aliases() -> Mapping[str, str]:
    """The names that other tools use for our settings."""
    from rlclinic.config.setting_names import ALIASES  # a third of a second that most logs do not need

    return ALIASES


def translate_usual(raw: Mapping[str, Any]) -> Settings:
    """Settings by any of the names that the field uses: SB3's, and the aliases of our own config."""
    found, names = translate_sb3(raw), load_aliases()
    for key, value in raw.items():
        last = re.split(r"[./]", str(key))[-1]
        ours = names.get(last) or (f"algo.{last}" if last in _ALGO else None)
        if ours and ours not in found and isinstance(value, bool | int | float | str):
            found[ours] = parse_number(value) if isinstance(value, str) and ours != "env.id" else value
    return found


def parse_markdown_table(text: str) -> dict[str, Any]:
    """`|param|value|` lines, as CleanRL writes its arguments into TensorBoard."""
    found: dict[str, Any] = {}
    for line in text.splitlines():
        cells = line.strip().strip("|").split("|")
        if len(cells) >= 2 and not set(cells[0].strip()) <= {"-", ":"} and cells[0].strip() != "param":
            found[cells[0].strip()] = parse_value("|".join(cells[1:]))
    return found


def parse_written(text: str) -> dict[str, Any]:
    """Settings as scripts put them into a log: a table, JSON, or what Python prints for a dict or a Namespace; {} if it is none."""
    found = parse_markdown_table(text) if text.lstrip().startswith("|") else _parse_call(text)
    if found is None:
        try:
            found = json.loads(text[:_MAX_TEXT])
        except (ValueError, RecursionError):
            found = None
    return {str(key): value for key, value in found.items()} if isinstance(found, Mapping) else {}


def make_schedule(raw: Mapping[str, Any], name: str) -> Any:
    """gymnasium-solver's `<name>_schedule*` keys as one schedule; the plain value where there is none."""
    kind = raw.get(f"{name}_schedule")
    if not isinstance(kind, str):
        return raw.get(name)
    parts = {"start": "_start_value", "end": "_end_value", "from": "_start", "to": "_end", "warmup": "_warmup"}
    given = {key: raw.get(f"{name}_schedule{suffix}") for key, suffix in parts.items()}
    base: Settings = {"schedule": kind, "start": raw.get(name), "end": 0.0}
    return base | {key: value for key, value in given.items() if isinstance(value, int | float)}


def find_first(values: Iterable[Any]) -> Any:
    """The first value that says something."""
    return next((value for value in values if value is not None), None)
