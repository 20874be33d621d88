"""What checks say of scripts that use Stable-Baselines3 and environments of their own, by what is made of what (`execution`)."""

# ruff: noqa: E501 — a message reads best whole

import ast
import re
from collections.abc import Callable, Iterator
from typing import Final

from rlclinic.diagnosis.lint.code.environments import vectors
from rlclinic.diagnosis.lint.code.reading import words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot, argument, keyword, position
from rlclinic.diagnosis.lint.code.symbolic import formulas
from rlclinic.diagnosis.lint.code.symbolic.execution import Closure, Execution, Record, Symbol, Table, Value
from rlclinic.diagnosis.lint.code.symbolic.formulas import called, execution

ALGORITHMS: Final = frozenset({"PPO", "A2C", "DQN", "SAC", "TD3", "DDPG", "TQC", "QRDQN", "TRPO", "RecurrentPPO", "MaskablePPO"})
MOST_TEMPERATURE: Final = 2.0
MOST_STEPS_PER_GRADIENT: Final = 500
MOST_RATE: Final = 0.01
_ACTOR_CRITICS: Final = frozenset({"SAC", "TD3", "DDPG", "TQC"})
_SEEN: Final = frozenset(
    {
        "VecFrameStack",
        "FrameStackObservation",
        "FrameStack",
        "ResizeObservation",
        "GrayscaleObservation",
        "RescaleAction",
        "FlattenObservation",
    }
)


def _spot(where: ast.AST | None, text: str, fix: str = "", strength: float = 1.0) -> Spot:
    return Spot(where if where is not None else ast.Pass(), text, fix, strength)


def models(run: Execution) -> list[Symbol]:
    """Agents that are made; those that are loaded are not among them."""
    return [each for each in run.calls if each.op == "call" and called(each) in ALGORITHMS]


def is_agent(value: Value, model: Symbol) -> bool:
    """Whether a value is an agent, or one of several that a function may return."""
    while isinstance(value, Symbol) and value.op == "carried":
        value = value.args[0]
    return value is model or (isinstance(value, Symbol) and value.op == "phi" and any(is_agent(each, model) for each in value.args[1:]))


def _training(run: Execution) -> list[Value]:
    envs = [each.args[1] if len(each.args) > 1 else each.keys.get("env") for each in models(run)]
    return [each for each in envs if each is not None and not (isinstance(each, Symbol) and each.op == "const")]


def evaluated(run: Execution) -> Iterator[tuple[Symbol, Value]]:
    """Where environments are used for evaluation."""
    for each in run.calls:
        place = {"evaluate_policy": 1, "EvalCallback": 0, "MaskableEvalCallback": 0}.get(called(each))
        if place is not None:
            env = each.args[place] if len(each.args) > place else each.keys.get("env") or each.keys.get("eval_env")
            if env is not None:
                yield each, env
    for event in run.events:
        if event.name == "env step" and isinstance(event.value, Symbol) and len(event.value.args) > 1:
            asked = [part for part in formulas.parts(event.value.args[1], into_networks=False) if called(part) == "predict" and part.args]
            if asked and isinstance(asked[0].args[0], Symbol):
                yield asked[0], event.subject


def chain(env: Value | None) -> list[Symbol]:
    """An environment and what it wraps, from the outside in."""
    made: list[Symbol] = []
    while isinstance(env, Symbol) and env.op == "env" and len(made) < 12:
        made.append(env)
        env = env.args[0] if env.args else None
    return made


def _names(env: Value) -> set[str]:
    return {str(each.data) for each in chain(env)}


def _is_normalized(env: Value) -> bool:
    return bool(_names(env) & {"VecNormalize", "VecNormalize.load"})


def target_follows_at_once(script: Script) -> Iterator[Spot]:
    for model in models(execution(script)):
        tau, interval = formulas.number(model.keys.get("tau")), formulas.number(model.keys.get("target_update_interval"))
        if called(model) in _ACTOR_CRITICS and tau is not None and tau >= 0.5:
            yield _spot(
                formulas.written(model.keys["tau"]),
                f"tau is {tau:g}: the target network is hardly slower than the trained one, and targets run away with it",
                "tau=0.005",
            )
        if called(model) == "DQN" and interval is not None and interval < 10 and (tau is None or tau > 0.5):
            yield _spot(
                formulas.written(model.keys["target_update_interval"]),
                f"target_update_interval is {interval:g}: the target network is copied at every step, and is the trained one",
                "a thousand steps and more",
            )


def _written(script: Script, model: Symbol) -> list[ast.Call]:
    """The call that makes an agent, in the tree that names are resolved in."""
    return [call for call in script.calls(called(model)) if model.node is not None and position(call) == position(model.node)]


def settings_far_outside(script: Script) -> Iterator[Spot]:
    """Settings of agents, wherever their numbers come from."""
    run = execution(script)
    for model in models(run):
        kind = "on-policy" if called(model) in vectors.DEFAULTS else "off-policy" if called(model) in vectors.OFF_POLICY else ""
        limits = {**vectors.UNHEARD.get(kind, {}), **vectors.UNHEARD["both"]}
        numbers = {name: number for name, value in model.keys.items() if (number := formulas.number(value)) is not None}
        for name, (least, greatest, why) in limits.items():
            number = numbers.get(name)
            if name == "gamma" and number == 1.0 and any(vectors.ends_by_the_clock(script, call) for call in _written(script, model)):
                continue  # a sum of so many rewards has a bound
            if name == "gamma" and number == 0.0 and vectors.ends_with_each_step(script):
                continue  # nothing comes later
            if name == "buffer_size" and number is not None and vectors.holds_everything(script, number):
                continue
            if number is not None and (not least <= number <= greatest or (name == "gradient_steps" and number == 0)):
                yield _spot(given(model, name), f"{name} is {number:g}: {why}")
        if kind == "off-policy" and numbers.get("ent_coef", 0.0) > MOST_TEMPERATURE:
            yield _spot(
                given(model, "ent_coef"),
                f"ent_coef is {numbers['ent_coef']:g}: entropy outweighs every reward, and the policy stays random",
            )
        rarely = numbers.get("train_freq", 1.0) / max(numbers.get("gradient_steps", 1.0), 1.0)
        if kind == "off-policy" and rarely > MOST_STEPS_PER_GRADIENT and numbers.get("gradient_steps", 1.0) > 0:
            yield _spot(
                given(model, "train_freq"), f"one gradient step for {rarely:g} steps of the environment: hardly anything is learned"
            )
        budgets = _budgets(run, model)
        for name, happens in (("learning_starts", "learning begins"), ("target_update_interval", "the target network is copied")):
            if budgets and numbers.get(name, 0.0) >= sum(budgets) > 0:
                yield _spot(
                    given(model, name),
                    f"{name} is {numbers[name]:g}, and the whole budget {sum(budgets):g} steps: {happens} when it is over",
                )


def rate_far_outside(script: Script) -> Iterator[Spot]:
    for model in models(execution(script)):
        rate = formulas.number(model.keys.get("learning_rate"))
        if rate is not None and rate >= MOST_RATE:
            yield _spot(given(model, "learning_rate"), f"a learning rate of {rate:g}: the policy jumps with every step")


def given(model: Symbol, name: str) -> ast.AST | None:
    """Where a setting is written: in the call, or where its number stands."""
    own = next((each.value for each in getattr(model.node, "keywords", ()) if each.arg == name), None)
    return own or _named(model, name) or formulas.written(model.keys[name]) or model.node


def _named(model: Symbol, name: str) -> ast.AST | None:
    """Where a setting that comes with others, by two stars, gets its name."""
    for table in model.stored:
        node = table.node if isinstance(table, Table) else None
        for key in node.keywords if isinstance(node, ast.Call) else ():
            if key.arg == name:
                return key.value
        if isinstance(node, ast.Dict):
            for written, value in zip(node.keys, node.values, strict=True):
                if isinstance(written, ast.Constant) and written.value == name:
                    return value
    return None


def _budgets(run: Execution, model: Symbol) -> list[float]:
    """Steps that an agent learns for; nothing where some call is not understood, or is repeated."""
    held = []
    for learn in run.calls:
        if called(learn) == "learn" and learn.args and is_agent(learn.args[0], model):
            number = formulas.number(learn.args[1] if len(learn.args) > 1 else learn.keys.get("total_timesteps"))
            if number is None or len(learn.loops) > len(model.loops):
                return []
            held.append(number)
    return held


_MOST_AT_FIRST: Final = {"learning_rate": 0.05, "clip_range": 1.0}
"""The largest value that a schedule may begin with."""


def schedule_rises(script: Script) -> Iterator[Spot]:
    """A learning rate or clip range, as a function of the share of training that remains, that is larger at the end than at the beginning."""
    run = execution(script)
    for model in models(run):
        for name in ("learning_rate", "clip_range"):
            given = model.keys.get(name)
            if isinstance(given, Closure):
                # Close to the end in place of there: what is divided by what remains has no value at all then.
                values = [formulas.evaluated(run.answer(given, remaining)) for remaining in (1.0, 0.5, 0.01)]
                if values[0] is not None and values[0] > _MOST_AT_FIRST[name]:
                    keyword = next((each.value for each in getattr(model.node, "keywords", ()) if each.arg == name), model.node)
                    yield _spot(
                        keyword,
                        f"the {name} begins at {values[0]:g}: far more than any usual one",
                        "3e-4" if name == "learning_rate" else "0.2",
                    )
                if None not in values and values[0] < values[1] < values[2]:  # type: ignore[operator]
                    yield _spot(
                        given.node if isinstance(given.node, ast.Lambda) else given.node.body[-1],
                        f"the {name} rises from {values[0]:g} to {values[2]:g}: the argument is the share that remains, and falls from 1 to 0",
                        "progress_remaining * start",
                    )


def never_evaluated(script: Script) -> Iterator[Spot]:
    """An EvalCallback whose first evaluation lies behind the end of training."""
    run = execution(script)
    if any(True for _ in vectors.few_rollouts(script)):
        return  # a budget of hardly any rollouts is said by itself
    for model in models(run):
        budgets = _budgets(run, model)
        env = model.args[1] if len(model.args) > 1 else model.keys.get("env")
        for each in run.calls if budgets else ():
            every = formulas.number(each.keys.get("eval_freq")) if called(each) in ("EvalCallback", "MaskableEvalCallback") else None
            if every is not None and every * _copies(env) > max(budgets):
                keyword = next((one.value for one in getattr(each.node, "keywords", ()) if one.arg == "eval_freq"), each.node)
                yield _spot(
                    keyword,
                    f"the first evaluation would be after {every * _copies(env):g} steps, and training ends after {max(budgets):g}: none is ever made",
                    "a tenth of the budget, divided by the number of environments",
                )


def _copies(env: Value | None) -> float:
    """How many environments step at once, where the script says it."""
    return next((number for each in chain(env) if (number := formulas.number(each.keys.get("n_envs"))) is not None), 1.0)


def synchronized_backwards(script: Script) -> Iterator[Spot]:
    """sync_envs_normalization(eval_env, training_env): the statistics of training are replaced by those of the evaluation."""
    for each in execution(script).calls:
        if called(each) != "sync_envs_normalization" or len(each.args) != 2 or not isinstance(each.node, ast.Call):
            continue
        first, second = (words.own_name(argument) for argument in each.node.args[:2]) if len(each.node.args) == 2 else ("", "")
        if "train" in second.lower() and "train" not in first.lower():
            yield _spot(
                each.node,
                "the first one gives its statistics to the second: those of training are replaced by those of the evaluation",
                "sync_envs_normalization(training_env, eval_env)",
            )


def policy_of_another_observation(script: Script) -> Iterator[Spot]:
    """MlpPolicy for observations that are a dictionary, and MultiInputPolicy for those that are none."""
    run = execution(script)
    for model in models(run):
        policy = model.args[0] if model.args else model.keys.get("policy")
        env = model.args[1] if len(model.args) > 1 else model.keys.get("env")
        inner = chain(env)[-1] if chain(env) else env
        made = inner.stored[0] if isinstance(inner, Symbol) and inner.stored else env
        if not isinstance(made, Record) or any("Wrapper" in name for name in made.kind.external()):
            continue
        space = made.attributes.get("observation_space")
        is_dictionary = called(space) == "Dict" if isinstance(space, Symbol) else None
        name = policy.data if isinstance(policy, Symbol) and policy.op == "const" else None
        wrapped = any(each.data in ("FlattenObservation", "FilterObservation") for each in chain(env))
        if is_dictionary is None or policy is None or not isinstance(name, str) or wrapped or len(chain(env)) > 3:
            continue
        if is_dictionary and name in ("MlpPolicy", "CnnPolicy"):
            yield _spot(
                policy.node,
                f"{name} takes one array, and this environment shows a dictionary: making the agent raises",
                '"MultiInputPolicy"',
            )
        elif space is not None and not is_dictionary and called(space) in ("Box", "Discrete") and name == "MultiInputPolicy":
            yield _spot(policy.node, f"{name} takes a dictionary, and this environment shows one array", '"MlpPolicy"')


_PICTURES: Final = ("ALE/", "CarRacing-", "PongNoFrameskip", "BreakoutNoFrameskip", "VizdoomBasic", "procgen")
_VECTORS: Final = (
    "CartPole-", "Pendulum-", "MountainCar", "Acrobot-", "LunarLander", "BipedalWalker", "HalfCheetah-", "Hopper-", "Walker2d-", "Ant-",
    "Humanoid", "Swimmer-", "Reacher-", "Pusher-", "InvertedPendulum-", "InvertedDoublePendulum-",
)  # fmt: skip
_ATARI: Final = re.compile(r"NoFrameskip-v\d|Deterministic-v\d")


def flat_policy_for_pictures(script: Script) -> Iterator[Spot]:
    """MlpPolicy, of a task that shows pictures, and CnnPolicy, of one that shows none."""
    run = execution(script)
    for model in models(run):
        policy = model.args[0] if model.args else model.keys.get("policy")
        env = model.args[1] if len(model.args) > 1 else model.keys.get("env")
        held = [each for each in formulas.parts(env) if each.op == "const" and isinstance(each.data, str)] if env is not None else []
        held += [one for each in chain(env) for made in each.stored for one in _ids(made)]
        shown = next((each.data for each in held if each.data.startswith(_PICTURES) or _ATARI.search(each.data)), None)
        changed = any("Flatten" in str(each.data) or "-ram" in str(each.data) for each in (*chain(env), *held))
        name = policy.data if isinstance(policy, Symbol) and policy.op == "const" else None
        if shown and not changed and name == "MlpPolicy":
            yield _spot(policy.node, f"{shown} shows pictures: MlpPolicy takes every pixel for a number of its own", '"CnnPolicy"')  # type: ignore[union-attr]
        vector = next((each.data for each in held if each.data.startswith(_VECTORS)), None)
        drawn = any(word in str(each.data) for each in chain(env) for word in ("Pixel", "Render", "Image"))
        if vector and not drawn and name == "CnnPolicy":
            yield _spot(policy.node, f"{vector} shows a vector of numbers: there is no picture in it to convolve", '"MlpPolicy"')  # type: ignore[union-attr]


def _ids(made: Value) -> list[Symbol]:
    return (
        [each for each in formulas.parts(chain(made)[-1].args[0]) if isinstance(each.data, str)]
        if chain(made) and chain(made)[-1].args
        else []
    )


def stack_of_one(script: Script) -> Iterator[Spot]:
    """VecFrameStack(env, n_stack=1)"""
    for call in script.calls("VecFrameStack", "FrameStack", "FrameStackObservation"):
        given = argument(call, 1, "n_stack") or keyword(call, "num_stack") or keyword(call, "stack_size")
        if given is not None and script.constant(given) == 1:
            yield _spot(given, "a stack of a single frame is that frame: nothing shows how fast anything moves", "4")


def learning_starts_too_late(script: Script) -> Iterator[Spot]:
    run = execution(script)
    for model in models(run):
        starts = model.keys.get("learning_starts")
        for learn in run.calls:
            if called(learn) == "learn" and learn.args and is_agent(learn.args[0], model) and starts is not None:
                budget = learn.args[1] if len(learn.args) > 1 else learn.keys.get("total_timesteps")
                if budget is starts:
                    keyword = next((each for each in getattr(model.node, "keywords", ()) if each.arg == "learning_starts"), None)
                    yield _spot(
                        keyword.value if keyword else model.node,
                        "learning begins when the whole budget is spent: the agent stays as it was made",
                        "1000",
                    )


def evaluated_in_training_env(script: Script) -> Iterator[Spot]:
    run = execution(script)
    training = _training(run)
    for call, env in evaluated(run):
        if any(env is each for each in training):
            if isinstance(env, Symbol) and env.op == "env":
                text = (
                    "the environment that was trained on is the one that the agent is judged in: wrappers and statistics of training count"
                )
                yield _spot(call.node, text, "a second environment", strength=0.4)
                for model in models(run):
                    own = model.args[1] if len(model.args) > 1 else model.keys.get("env")
                    is_evaluation = isinstance(model.node, ast.Call) and any(
                        words.EVALUATION(words.own_name(given))
                        for given in [*model.node.args[1:2], *(each.value for each in model.node.keywords if each.arg == "env")]
                    )
                    if own is env and is_evaluation and isinstance(model.node, ast.Call):
                        place = model.node.args[1] if len(model.node.args) > 1 else model.node
                        yield _spot(place, "the agent is trained in the environment that it is to be judged in", "the training environment")
            for record in run.records:
                if any(name.endswith("BaseCallback") for name in record.kind.external()) and env in record.attributes.values():
                    yield _spot(
                        record.node,
                        "the callback evaluates in the environment that is trained on: it resets it in the middle of a rollout",
                        "a second environment",
                    )


def acts_in_another_env(script: Script) -> Iterator[Spot]:
    """An action for what one environment shows is taken in another one."""
    for event in execution(script).events:
        if (
            event.name != "env step"
            or not isinstance(event.value, Symbol)
            or not isinstance(event.subject, Symbol)
            or event.subject.op != "env"
        ):
            continue
        shown = [_env_of(part) for given in event.value.args[1:] for part in formulas.parts(given) if part.op in ("observed", "stepped")]
        others = [each for each in shown if isinstance(each, Symbol) and each.op == "env"]
        if others and len(others) == len(shown) and not any(each is event.subject for each in others):
            yield _spot(
                event.node,
                "the action is chosen for what one environment shows, and taken in another one",
                "step the environment that was reset",
            )


def _env_of(value: Symbol) -> Value | None:
    inner = value.args[0] if value.args else None
    return inner.args[0] if isinstance(inner, Symbol) and inner.op in ("step", "reset") and inner.args else None


def without_normalizer(script: Script) -> Iterator[Spot]:
    run = execution(script)
    if not any(_is_normalized(each) for each in _training(run)):
        return
    for call, env in evaluated(run):
        if chain(env) and not _is_normalized(env):
            for where in (*_made_at(run, env), call.node):
                yield _spot(
                    where,
                    "the agent was trained on normalized observations, and this environment shows it raw ones",
                    "VecNormalize(…, training=False)",
                )


def wrapped_otherwise(script: Script) -> Iterator[Spot]:
    run = execution(script)
    wanted = {name for each in _training(run) for name in _names(each)} & _SEEN
    for _, env in evaluated(run):
        missing = sorted(wanted - _names(env))
        for where in _made_at(run, env) if chain(env) and missing else ():
            yield _spot(
                where,
                f"this environment lacks {', '.join(missing)}, which the agent was trained with",
                "make both by one function",
            )


def _made_at(run: Execution, env: Value) -> list[ast.AST]:
    """Where an environment was made, and where it got its name."""
    named = [each for each in formulas.bound_at(run, env) if not isinstance(each, ast.Return)]
    return [each for each in (chain(env)[0].node, *named[-1:]) if each is not None]


def normalizer_goes_on(script: Script) -> Iterator[Spot]:
    run = execution(script)
    training = _training(run)
    for _, env in evaluated(run):
        outer = next(iter(chain(env)), None)
        if outer is None or any(env is each for each in training) or outer.data not in ("VecNormalize", "VecNormalize.load"):
            continue
        for name, text in (
            ("training", "its statistics go on changing while the agent is evaluated"),
            ("norm_reward", "returns are reported in units that nobody knows"),
        ):
            given = outer.keys.get(name)
            later = [event for event in run.events if event.name == f"set {name}" and event.subject is outer]
            if later:
                last = later[-1].value
                if isinstance(last, Symbol) and last.data is True:
                    yield _spot(later[-1].node, f"{name} is True in evaluation: {text}", f"{name} = False")
            elif isinstance(given, Symbol) and given.data is True:
                yield _spot(formulas.written(given), f"{name} is True in evaluation: {text}", f"{name}=False")
            elif (
                given is None
                and outer.data == "VecNormalize.load"
                and any(event.name in ("set training", "set norm_reward") and event.subject is outer for event in run.events)
            ):
                yield _spot(outer.node, f"{name} is loaded as it was in training, and stays so in evaluation: {text}", f"{name} = False")


def statistics_of_its_own(script: Script) -> Iterator[Spot]:
    run = execution(script)
    synchronized = {
        id(given)
        for each in run.calls
        if called(each) in ("sync_envs_normalization", "EvalCallback", "MaskableEvalCallback")
        for given in each.args
    }
    if not any(_is_normalized(each) for each in _training(run)):
        return
    for call, env in evaluated(run):
        outer = next(iter(chain(env)), None)
        loaded = call.args[0] if call.args and called(call) in ("evaluate_policy", "predict") else None
        is_loaded = isinstance(loaded, Symbol) and loaded.op == "call" and called(loaded) == "load"
        if is_loaded and outer is not None and outer.data == "VecNormalize" and id(env) not in synchronized:
            yield _spot(
                outer.node,
                "the loaded agent is evaluated with fresh statistics: it sees other numbers than in training",
                "VecNormalize.load(path, venv)",
            )


def _receiver(script: Script, call: ast.Call) -> str:
    """What a method is asked of: the last name, or what a call that gave it is named."""
    holder = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    return script.dotted(holder.func if isinstance(holder, ast.Call) else holder).rpartition(".")[2]


def _is_in_use(script: Script, node: ast.AST) -> bool:
    """Whether the class that something stands in is made somewhere."""
    owner = next((each for each in script.ancestors(node) if isinstance(each, ast.ClassDef)), None)
    return owner is None or bool(script.calls(owner.name))


def statistics_never_saved(script: Script) -> Iterator[Spot]:
    run = execution(script)
    saved = any(
        called(each) == "save" and each.args and isinstance(each.args[0], Symbol) and each.args[0].op == "env" for each in run.calls
    ) or any(
        _receiver(script, call).endswith(("env", "get_vec_normalize_env")) and _is_in_use(script, call) for call in script.calls("save")
    )
    if saved or not any(_is_normalized(each) for each in _training(run)) or len(models(run)) == 0:
        return
    for load in [each for _, env in evaluated(run) for each in chain(env) if each.data == "VecNormalize.load"]:
        yield _spot(
            load.node,
            "statistics are loaded that this script never saves: env.save(…) is missing beside model.save(…)",
            "env.save(path)",
        )


# ── environments of the script ──


def state_survives_reset(script: Script) -> Iterator[Spot]:
    """What step changes and reads, and reset does not set."""
    for owner, step, reset in _environments(script):
        methods = {each.name: each for each in owner.body if isinstance(each, ast.FunctionDef)}
        renewed = _assigned(reset)
        for called_too in {each.attr for each in ast.walk(reset) if isinstance(each, ast.Attribute)} & methods.keys():
            renewed |= _assigned(methods[called_too])
        for each in ast.walk(step):
            if (
                isinstance(each, ast.AugAssign)
                and _attribute(each.target)
                and _attribute(each.target) not in renewed
                and "__init__" in methods
            ):
                name = _attribute(each.target)
                if name in _assigned(methods["__init__"]) and not name.startswith(("total", "num_", "n_episodes", "global")):
                    counts = isinstance(each.value, ast.Constant)
                    text = f"self.{name} goes on from one episode to the next: step changes it, and reset does not set it"
                    for where in (each, reset.body[0]) if counts else reset.body[:1]:
                        yield _spot(where, text, f"self.{name} = … in reset")


def _environments(script: Script) -> Iterator[tuple[ast.ClassDef, ast.FunctionDef, ast.FunctionDef]]:
    for kind in script.classes:
        if any("Env" in ast.unparse(base) and "Vec" not in ast.unparse(base) for base in kind.bases):
            methods = {each.name: each for each in kind.body if isinstance(each, ast.FunctionDef)}
            if "step" in methods and "reset" in methods and not any("Wrapper" in ast.unparse(base) for base in kind.bases):
                yield kind, methods["step"], methods["reset"]


def _attribute(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self" else ""


def _assigned(function: ast.FunctionDef) -> set[str]:
    targets = [target for each in ast.walk(function) if isinstance(each, ast.Assign) for target in each.targets]
    targets += [each.target for each in ast.walk(function) if isinstance(each, ast.AnnAssign)]
    return {_attribute(part) for target in targets for part in ast.walk(target)} - {""}


def end_is_not_returned(script: Script) -> Iterator[Spot]:
    """step works out whether the episode ended, and returns False."""
    for owner, step, _ in _environments(script):
        computed = {each.targets[0].id for each in ast.walk(step) if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name)}
        ends = {name for name in computed if words.TERMINATED(name) or words.COMBINED(name)}
        for each in ast.walk(step):
            value = each.value if isinstance(each, ast.Return) else None
            if isinstance(value, ast.Tuple) and len(value.elts) == 5 and _is_false(value.elts[2]) and ends:
                used = {one.id for one in ast.walk(value) if isinstance(one, ast.Name)}
                if not ends & used and _is_false(value.elts[3]):
                    text = f"{owner.name}.step works out `{min(ends)}` and returns False in its place: the episode never ends there"
                    yield _spot(each, text, min(ends))


def _is_false(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def fixed_seed_in_reset(script: Script) -> Iterator[Spot]:
    for _, _, reset in _environments(script):
        for each in ast.walk(reset):
            if (
                isinstance(each, ast.Call)
                and ast.unparse(each.func).endswith("random.seed")
                and each.args
                and isinstance(each.args[0], ast.Constant)
            ):
                yield _spot(
                    each, "every reset seeds the generator with the same number: each episode is the same one", "super().reset(seed=seed)"
                )


def seed_not_passed_on(script: Script) -> Iterator[Spot]:
    """A function gets a seed, and the agent in it a fixed one."""
    for function in script.functions:
        names = {each.arg for each in [*function.args.args, *function.args.kwonlyargs]}
        for call in script.calls(*sorted(ALGORITHMS), within=function) if script.is_sb3 and any("seed" in name for name in names) else ():
            given = next((each.value for each in call.keywords if each.arg == "seed"), None)
            if isinstance(given, ast.Constant) and isinstance(given.value, int):
                yield _spot(
                    given,
                    f"the agent's seed is {given.value} whatever seed {function.name} is given: runs over seeds are one run",
                    "seed=seed",
                )


MEANINGS: Final[dict[str, tuple[Callable[[Script], Iterator[Spot]], ...]]] = {
    "COD809": (
        flat_policy_for_pictures,
        stack_of_one,
        target_follows_at_once,
        learning_starts_too_late,
        settings_far_outside,
        schedule_rises,
        never_evaluated,
    ),
    "COD812": (policy_of_another_observation,),
    "COD413": (rate_far_outside,),
    "COD704": (evaluated_in_training_env, acts_in_another_env),
    "COD701": (without_normalizer,),
    "COD705": (wrapped_otherwise,),
    "COD703": (normalizer_goes_on,),
    "COD706": (statistics_of_its_own, synchronized_backwards),
    "COD702": (statistics_never_saved,),
    "COD111": (end_is_not_returned,),
    "COD109": (fixed_seed_in_reset,),
    "COD806": (seed_not_passed_on,),
}
"""What is added to which check."""
