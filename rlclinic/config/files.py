"""Configs from files: `CartPole-v1:ppo`, `mine.yaml:fast`, or any Gymnasium id, with the origin of every setting.

A file holds `spec:` (the task), variants (`ppo:`, `ppo_fast:`), `_name:` sections for anchors, and settings that all variants
inherit: `_base:` and bare top-level ones. A user's ./config/environments comes before the files that are shipped.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from rlclinic import plain_files
from rlclinic.actions import Action
from rlclinic.config import gymnasium_registry, gymnasium_solver, yaml_lines, yaml_text
from rlclinic.config.algorithms import ALGORITHMS, takes_raw_rewards
from rlclinic.config.environment import Spec
from rlclinic.config.experiment import Config
from rlclinic.config.network import NetConfig
from rlclinic.config.overrides import TYPED, algorithm_of, apply
from rlclinic.config.records import to_record
from rlclinic.config.run import RunConfig
from rlclinic.config.schema import flatten
from rlclinic.config.setting_names import ALIASES, find_setting, list_fields
from rlclinic.config.validation import validate
from rlclinic.config.yaml_lines import SECTIONS, Located, Tree
from rlclinic.errors import ConfigError, NotFound, nearest

__all__ = ["Available", "Loaded", "available", "check_environment", "load", "use_folder", "user_folder"]

_SHIPPED: Final = Path(__file__).parent / "environments"
DEFAULTS: Final = Path(__file__).parent / "defaults.yaml"
_USER: Final = Path("config/environments")
_folder: ContextVar[Path] = ContextVar("folder", default=_USER)
_FILE: Final = re.compile(r"(?P<path>.+\.ya?ml)(:(?P<variant>[^:/\\]+))?")


@dataclass(frozen=True)
class Loaded:
    """A config, where each of its settings comes from, and what was dropped or assumed on the way."""

    config: Config
    origins: dict[str, str]
    """By dotted key: `<file>:<line>`, `--set`, `spec` (Gymnasium's registry) or `default`."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Available:
    """An environment that has a file: its variants and what is known about the task."""

    env: str
    variants: tuple[str, ...]
    path: Path
    shipped: bool
    spec: Spec
    problem: str | None = None
    """Why the file could not be read, if so."""


@dataclass(frozen=True)
class _Source:
    """A file that has been read, in its parts."""

    path: Path
    spec: Tree
    inherited: Tree
    variants: dict[str, Tree]

    def variant(self, name: str) -> Tree:
        return yaml_lines.merge(self.inherited, self.variants[name])


def user_folder() -> Path:
    """Where a user's own environments and adopted variants lie: ./config/environments, unless `use_folder` names another."""
    return _folder.get()


@contextmanager
def use_folder(folder: Path | None) -> Iterator[None]:
    """Within: another folder than ./config/environments, as a server over several projects needs it. None: as it was."""
    token = _folder.set(folder or _folder.get())
    try:
        yield
    finally:
        _folder.reset(token)


def load(ref: str, overrides: Sequence[str] = (), search: Path | None = None) -> Loaded:
    """The config that `ref` names, with `key=value` overrides applied before anything is checked.

    `ref`: `<env>:<variant>`, `<env>` (its `ppo` variant), a path to a YAML file with or without `:<variant>`, or an environment
    without a file (`Foo-v0`, `module:Foo-v0`, `module:Class`, `file.py:Class`, `probe:1`, each with an algorithm's name or
    without: `Foo-v0:a2c`), which gets general settings.
    `search` replaces ./config/environments. Raises NotFound and ConfigError, each with what to type.
    """
    tree, name, notes = _find(ref, search or user_folder())
    tree["name"] = Located(name, "name")
    record = _fill_defaults(yaml_lines.drop_origins(tree))
    origins = yaml_lines.list_origins(tree)
    before = algorithm_of(record)
    for key in apply(record, overrides):
        # An override hides what stood inside of the setting; another algorithm hides all of the old one's settings.
        hidden = "algo." if key == "algo.name" and before != algorithm_of(record) else key + "."
        origins = {old: origin for old, origin in origins.items() if not old.startswith(hidden)} | {key: TYPED}
    config = validate(record, origins)
    return Loaded(config, {key: _find_origin(key, origins) for key in flatten(to_record(config))}, tuple(notes))


def check_environment(env_id: str, search: Path | None = None) -> None:
    """Raise NotFound, with the nearest names, for an environment that does not exist: a typo is cheaper here than in a process."""
    shipped = [_name_environment(path) for path in _list_files(_SHIPPED)]
    if env_id not in shipped:
        gymnasium_registry.look_up(env_id, [*(_name_environment(path) for path in _list_files(search or user_folder())), *shipped])


def available(search: Path | None = None) -> list[Available]:
    """Every environment with a file, a user's own first, each by name. A file that cannot be read is listed with its problem."""
    return [_describe_file(path, folder == _SHIPPED) for folder in (search or user_folder(), _SHIPPED) for path in _list_files(folder)]


def _describe_file(path: Path, shipped: bool) -> Available:
    try:
        source = _read(path)
        own = _translate_spec(source.spec)
        spec = validate(
            {"env": {"id": _name_environment(path)}, "spec": yaml_lines.drop_origins(own)}, yaml_lines.list_origins(own, "spec.")
        ).spec
    except ConfigError as error:
        return Available(_name_environment(path), (), path, shipped, Spec(), str(error))
    return Available(_name_environment(path), tuple(source.variants), path, shipped, spec)


def _name_environment(path: Path) -> str:
    """The environment that a file is called after: a namespace's slash is a dash in a file name."""
    return re.sub(r"^ALE-", "ALE/", path.stem)


def _list_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.glob("*.y*ml") if path.suffix in (".yaml", ".yml") and plain_files.is_plain(path))


def _find(ref: str, user: Path) -> tuple[Tree, str, list[str]]:
    """The settings that `ref` means, as nested sections; the config's name; notes."""
    if match := _FILE.fullmatch(ref):
        path = Path(match["path"])
        if not path.is_file():
            raise NotFound(f"no file {path}.\n  There is nothing to load.\n  Try: ", *_find_similar_files(path))
        source = _read(path)
        variant = _choose(source.variants, match["variant"], str(path))
        tree, notes = _nest(source, variant)
        env = yaml_lines.drop_origins(tree.get("env", {}))
        env_id = env.get("id", path.stem) if isinstance(env, dict) else path.stem
        return tree, _find_name(tree) or f"{env_id}:{variant}", notes
    env, wanted = _split(ref, user)
    sources = [_read(path) for path in _find_matching(env, user)]
    if not sources:
        return _load_general(env, wanted or "ppo", user)
    variants = {name: source for source in reversed(sources) for name in source.variants}
    if not variants or (wanted is not None and wanted in ALGORITHMS and wanted not in variants):
        return _load_general_variant(sources, variants, env, wanted or "ppo")
    chosen = _choose(variants, wanted, env)
    tree, notes = _nest(variants[chosen], chosen, sources)
    return tree, f"{env}:{chosen}", notes


def _split(ref: str, user: Path) -> tuple[str, str | None]:
    """`<env>[:<variant>]`, where the environment may itself be `module:Name`, `file.py:Name` or `probe:N`."""
    head, separator, tail = ref.rpartition(":")
    if not separator or head == "probe":
        return ref, None
    if tail in ALGORITHMS or _find_matching(head, user):
        return head, tail
    # `module:Foo-v0`: an id, and no variant. `Foo-v0:typo`, `module:Foo:typo`: neither can be a module's name.
    if re.fullmatch(r".*-v\d+|.+:[^/\\]+", head):
        raise _make_variant_error(tail, ALGORITHMS, head)
    return ref, None


@cache
def _read_text(path: Path, modified: int) -> str:
    return plain_files.read_text(path, yaml_text.MOST_BYTES, errors="replace")


def _find_matching(env: str, user: Path) -> list[Path]:
    """Files for an environment, the strongest first: by file name, or else by the env id that stands in them."""
    paths = [path for folder in (user, _SHIPPED) for path in _list_files(folder)]
    stems = {env, env.replace("/", "-"), env.replace("/", "_")}
    by_name = [path for path in paths if path.stem in stems]
    if by_name:
        return by_name
    named = re.compile(rf"id:\s*['\"]?{re.escape(env)}['\"]?\s*([,}}#]|$)", re.MULTILINE)
    return [path for path in paths if named.search(_read_text(path, path.stat().st_mtime_ns))]


def _read(path: Path) -> _Source:
    label = path.name if path.parent in (_SHIPPED, DEFAULTS.parent) else str(path)
    root = yaml_lines.read(path, label)
    spec = root.pop("spec", {})
    base = root.pop("_base", {})
    inherited: Tree = {}
    variants: dict[str, Tree] = {}
    for key, value in root.items():
        if key.startswith("_"):
            continue
        if isinstance(value, dict) and _is_variant(key, value):
            variants[key] = value
        else:
            inherited[key] = value
    if isinstance(base, dict):
        inherited = yaml_lines.merge(inherited, base)
    if not variants and any(section in inherited for section in ("env", "env_id")):
        # A file that is one config, such as a stored record.
        variants = {path.stem: {}}
    return _Source(path, spec if isinstance(spec, dict) else {}, inherited, variants)


def _is_variant(key: str, value: Tree) -> bool:
    """Whether a mapping at the top is a variant, rather than a section or a schedule that all variants inherit."""
    if key in SECTIONS:
        return False
    if any(inner in value for inner in ("env", "algo", "net", "run", "env_id", "algo_id")):
        return True
    known = key in ALIASES or key in gymnasium_solver.FLAT_KEYS
    return not known and not any(key in members for algo in ALGORITHMS for members in list_fields(algo).values())


def _nest(source: _Source, variant: str, others: Sequence[_Source] = ()) -> tuple[Tree, list[str]]:
    """A variant with its spec as nested sections, flat files translated and aliases resolved."""
    tree = source.variant(variant)
    own = tree.pop("spec", {})
    spec = _translate_spec(
        yaml_lines.merge({"spec": _find_spec([source, *others])}, {"spec": own} if isinstance(own, dict) else {})["spec"]
    )
    if not any(isinstance(tree.get(section), dict) for section in ("env", "algo", "net", "run")):
        return gymnasium_solver.translate(tree, spec, _find_family(variant))
    return _resolve({**tree, "spec": spec}, variant), []


def _find_spec(sources: Sequence[_Source]) -> Tree:
    """What the first file knows about the task; a user's file of variants need not repeat it."""
    return next((source.spec for source in sources if source.spec), {})


def _translate_spec(spec: Any) -> Tree:
    foreign = {"returns", "rewards", "action_space", "observation_space"} & set(spec)
    return gymnasium_solver.translate_spec(spec) if foreign else dict(spec)


def _resolve(tree: Tree, variant: str) -> Tree:
    """Each setting under its own name in its own section."""
    named = _get_section(tree, "algo").get("name")
    family = _find_family(variant)
    name = str(yaml_lines.drop_origins(named)) if named else family
    name = name if name in ALGORITHMS else family
    result: dict[str, Any] = {"algo": {} if named else {"name": Located(family, "variant")}}
    for key, value in tree.items():
        inner = value.items() if key in SECTIONS and isinstance(value, dict) else None
        for path, item in [(f"{key}.{short}", item) for short, item in inner] if inner is not None else [(key, value)]:
            _place_setting(result, path, item, name)
    return result


def _find_family(variant: str) -> str:
    """The algorithm that a variant is called by: `a2c_fast` is A2C."""
    known = sorted(ALGORITHMS, key=len, reverse=True)  # td3_bc before td3
    return next((name for name in known if re.match(rf"{name}(_|-|$)", variant)), "ppo")


def _place_setting(result: dict[str, Any], key: str, value: "Located | Tree", algo: str) -> None:
    origin = value.origin if isinstance(value, Located) else next(iter(yaml_lines.list_origins(value).values()), "")
    try:
        path = find_setting(key, algo)
    except ConfigError as error:
        raise ConfigError(*([f"{origin}: "] if origin else []), *error.parts) from None
    if len(path) == 1:
        result[path[0]] = value
        return
    section = result.setdefault(path[0], {})
    if path[1] in section:
        raise ConfigError(
            f"{origin}: {'.'.join(path)} is given twice, once under another name.\n"
            "  One of the two values would be ignored.\n"
            "  Try: remove one of the lines"
        )
    section[path[1]] = value


def _fill_defaults(record: dict[str, Any]) -> dict[str, Any]:
    """The record with every default written out, so that an override can reach into any setting."""
    defaults: dict[str, Any] = {"spec": Spec(), "net": NetConfig(), "run": RunConfig()}
    if (algo := algorithm_of(record)) is not None:
        defaults["algo"] = ALGORITHMS[algo]()
    filled = dict(record)
    for section, model in defaults.items():
        given = record.get(section, {})
        filled[section] = {**model.model_dump(mode="json"), **given} if isinstance(given, dict) else given
    return filled


def _load_general(env: str, algo: str, user: Path) -> tuple[Tree, str, list[str]]:
    """General settings for an environment without a file."""
    entry = gymnasium_registry.look_up(env, [_name_environment(path) for folder in (user, _SHIPPED) for path in _list_files(folder)])
    tree, whence = _load_defaults(algo)
    if env.startswith("ALE/"):
        tree |= _load_atari(algo)
    tree["env"] = {**_get_section(tree, "env"), "id": Located(env, "name")}
    known = {"threshold": entry.threshold, "max_episode_steps": entry.max_episode_steps}
    tree["spec"] = {key: Located(value, "spec") for key, value in known.items() if value is not None}
    return tree, f"{env}:{algo}", [f"{env} has no file of its own: general settings for {algo} ({whence})."]


def _load_defaults(algo: str) -> tuple[Tree, str]:
    """General settings of an algorithm, and where they stand; for one of another package, in its class."""
    source = _read(DEFAULTS)
    if algo in source.variants:
        return _resolve(source.variant(algo), algo), DEFAULTS.name
    like = source.variant({"on_policy": "ppo", "offline": "bc"}.get(ALGORITHMS[algo].loop, "sac"))
    return _resolve({**like, "algo": {"name": Located(algo, "variant")}}, algo), "its package"


def _load_atari(algo: str) -> Tree:
    """What is the same in all Atari games: frames, rewards and the network; for PPO everything."""
    games = _resolve(_read(_SHIPPED / "ALE-Breakout-v5.yaml").variant("ppo"), "ppo")
    return games if algo == "ppo" else {name: games[name] for name in ("env", "net")}


def _load_general_variant(sources: list[_Source], variants: dict[str, _Source], env: str, algo: str) -> tuple[Tree, str, list[str]]:
    """General settings of an algorithm that an environment's files have no variant for; the task stays as the files have it."""
    tree, whence = _load_defaults(algo)
    if variants:
        first = "ppo" if "ppo" in variants else next(iter(variants))
        own, _ = _nest(variants[first], first, sources)
        task = _get_section(own, "env")
        if takes_raw_rewards(algo):
            task = {key: value for key, value in task.items() if key != "normalize_reward"}
        if ALGORITHMS[algo].loop in ("offline", "imitation"):
            # How many copies act, and what is normalized while they do, was tuned for whoever acts.
            of_acting = ("n_envs", "normalize_obs", "normalize_reward")
            task = {key: value for key, value in task.items() if key not in of_acting} | _get_section(tree, "env")
        tree |= {"env": task, "spec": _get_section(own, "spec")}
    else:
        tree |= {"env": {"id": Located(env, "name"), **_get_section(tree, "env")}, "spec": _translate_spec(_find_spec(sources))}
    return tree, f"{env}:{algo}", [f"{env} has no {algo} variant: general settings for {algo} ({whence})."]


def _get_section(tree: Tree, name: str) -> Tree:
    section = tree.get(name, {})
    return section if isinstance(section, dict) else {}


def _choose(variants: Mapping[str, object], variant: str | None, where: str) -> str:
    if variant is not None and variant in variants:
        return variant
    if variant is None and ("ppo" in variants or len(variants) == 1):
        return "ppo" if "ppo" in variants else next(iter(variants))
    if variant is None and not variants:
        raise NotFound(f"{where} holds no settings.\n  There would be nothing to run.\n  Try: ppo: {{env: {{id: CartPole-v1}}}}")
    if variant is None:
        listed = ", or ".join(f"{where}:{name}" for name in variants)
        raise NotFound(
            f"{where} has {len(variants)} variants, and none is called `ppo`.\n  It cannot be told which one is meant.\n  Try: {listed}"
        )
    raise _make_variant_error(variant, variants, where)


def _make_variant_error(variant: str, variants: Iterable[str], where: str) -> NotFound:
    known = list(variants)
    hint = ", or ".join(f"{where}:{name}" for name in nearest(variant, known) or known[:3])
    return NotFound(
        f"{where} has no variant {variant} (it has: {', '.join(known)}).\n  There are no settings to train with.\n  Try: {hint}"
    )


def _find_similar_files(path: Path) -> tuple[str, ...]:
    siblings = [item.name for item in _list_files(path.parent)]
    similar = [str(path.parent / name) for name in nearest(path.name, siblings)]
    return (", or ".join(similar),) if similar else (Action("envs"), ", which lists those that are there")


def _find_name(tree: Tree) -> str | None:
    name = tree.get("name")
    return str(name.value) if isinstance(name, Located) and name.value else None


def _find_origin(key: str, origins: dict[str, str]) -> str:
    """The origin of a leaf: its own, or that of the setting it lies in."""
    while key:
        if key in origins:
            return origins[key]
        key = key.rpartition(".")[0]
    return "default"
