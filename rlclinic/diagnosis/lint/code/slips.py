"""Slips that are plain in the text of a script: what each adds to the check of that fault, and three checks of their own."""

# ruff: noqa: E501 — a message reads best whole

import ast
from collections.abc import Callable, Iterator
from typing import Final

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.lint.code.environments.wrappers import defined, is_wrapper, own_attribute
from rlclinic.diagnosis.lint.code.policy import CLIPS, STORES
from rlclinic.diagnosis.lint.code.reading import words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot, argument, keyword, position
from rlclinic.diagnosis.lint.code.reading.signs import operand

_LAST: Final = ("final_obs", "final_observation", "terminal_observation")
_EXPLORING: Final = frozenset({"explore", "add_noise", "noise", "training", "train", "stochastic", "noisy", "exploring", "with_noise"})
_CERTAIN: Final = frozenset({"deterministic", "greedy", "evaluate", "evaluation", "eval_mode", "is_eval", "test"})
_LEARNING: Final = ("backward", "learn", "update", "train_step", "optimize", "optimize_model", "train")
_AS_IT_IS: Final = frozenset({"clone", "copy", "detach", "reshape", "view", "flatten"})
_ADVANTAGES: Final = frozenset({"adv", "advs", "advantage", "advantages", "gae", "gaes"})
_RETURNS: Final = frozenset({"returns", "return_", "ret", "rets", "value_targets", "v_targets"})
_JOINED: Final = frozenset({"append", "concatenate", "hstack", "concat", "stack", "r_"})


@check("COD116", Severity.HIGH, ["raffin2021sb3"])
def actions_without_bounds(script: Script) -> Iterator[Spot]:
    """The action space of an environment of this script has no bounds.

    ## Why it hurts
    SAC, TD3 and DDPG scale their actions to the bounds: infinite ones make them infinite or NaN. Policies of PPO and A2C draw around
    0 with a deviation of 1, whatever the task's units are, and nothing is cut off.

    ## When it is fine
    Where a wrapper rescales actions to finite bounds.

    ## Fix
    spaces.Box(-1.0, 1.0, …), rescaled in step.

    ## Wrong
    ```python
    import gymnasium as gym
    import numpy as np


    class Arm(gym.Env):
        def __init__(self):
            self.action_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    ```

    ## Right
    ```python
    import gymnasium as gym
    import numpy as np


    class Arm(gym.Env):
        def __init__(self):
            self.action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    ```
    """
    for kind, _ in defined(script):
        for node in script.inside(kind, ast.Assign):
            box = node.value
            if own_attribute(node.targets[0]) == "action_space" and isinstance(box, ast.Call) and script.last(box) == "Box":
                bounds = [argument(box, 0, "low"), argument(box, 1, "high")]
                if all(each is not None and _is_endless(each) for each in bounds):
                    yield Spot(node, f"the actions of {kind.name} have no bounds", "Box(-1.0, 1.0, …), rescaled in step")


def _is_endless(node: ast.expr) -> bool:
    text = ast.unparse(node).lower()
    return text.endswith(("np.inf", "math.inf", "numpy.inf")) or "float('inf')" in text or "float('-inf')" in text


@check("COD134", Severity.HIGH, ["towers2024gymnasium"])
def last_observation_unused(script: Script) -> Iterator[Spot]:
    """The last observation of an episode is looked up, and the first one of the next is stored.

    ## Why it hurts
    A vector of environments that resets by itself returns the next episode's first observation. Stored as the successor, it ties the
    last state of an episode to a state that has nothing to do with it, and the value there is learned from that.

    ## When it is fine
    Never: what is looked up is meant to be stored.

    ## Fix
    Store the copy that holds the last observations.

    ## Wrong
    ```python
    next_obs, rewards, terminated, truncated, infos = envs.step(actions)
    real_next_obs = next_obs.copy()
    for i in np.flatnonzero(terminated | truncated):
        real_next_obs[i] = infos["final_obs"][i]
    buffer.add(obs, next_obs, actions, rewards, terminated)
    obs = next_obs
    ```

    ## Right
    ```python
    next_obs, rewards, terminated, truncated, infos = envs.step(actions)
    real_next_obs = next_obs.copy()
    for i in np.flatnonzero(terminated | truncated):
        real_next_obs[i] = infos["final_obs"][i]
    buffer.add(obs, real_next_obs, actions, rewards, terminated)
    obs = next_obs
    ```
    """
    for node in script.all(ast.Assign):
        target = node.targets[0]
        if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Name):
            continue
        if not any(name in _LAST for name in words.identifiers(node.value)):
            continue
        scope, name = script.scope(node), target.value.id
        written = {each.value for each in script.all(ast.Subscript) if isinstance(each.ctx, ast.Store)}
        read = [
            each for each in script.inside(scope, ast.Name) if each.id == name and isinstance(each.ctx, ast.Load) and each not in written
        ]
        made = script.latest(name, node)
        source = operand(script, made.value) if made is not None and isinstance(made.value, ast.Call) else None
        if read or not isinstance(source, ast.Name):
            continue
        for call in script.calls(*STORES, within=scope):
            if any(isinstance(each, ast.Name) and each.id == source.id for part in call.args for each in ast.walk(part)):
                yield Spot(call, f"`{name}` holds the last observations, and `{source.id}` is stored, which begins the next episode", name)


@check("COD118", Severity.HIGH, ["nikanjam2022faults"])
def made_without_its_arguments(script: Script) -> Iterator[Spot]:
    """A class of this script is made without arguments that its __init__ needs.

    ## Why it hurts
    Python raises TypeError when the line is reached, which in a trainer may be after hours.

    ## When it is fine
    Never.

    ## Fix
    Give what __init__ asks for.

    ## Wrong
    ```python
    class Agent:
        def __init__(self, obs_size, n_actions):
            self.sizes = obs_size, n_actions


    agents = [Agent(config) for _ in range(4)]
    ```

    ## Right
    ```python
    class Agent:
        def __init__(self, obs_size, n_actions):
            self.sizes = obs_size, n_actions


    agents = [Agent(config["obs_size"], config["n_actions"]) for _ in range(4)]
    ```
    """
    names = [owner.name for owner in script.classes]
    for owner in script.classes:
        made = next((each for each in owner.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)
        # A metaclass or a decorator may call it otherwise; of two classes of one name nobody knows which is meant.
        if made is None or made.decorator_list or owner.decorator_list or owner.keywords or names.count(owner.name) > 1:
            continue
        given = [*made.args.posonlyargs, *made.args.args][1:]
        needed = [each.arg for each in given[: len(given) - len(made.args.defaults)]]
        needed += [each.arg for each, default in zip(made.args.kwonlyargs, made.args.kw_defaults, strict=True) if default is None]
        for call in script.calls(owner.name):
            starred = any(isinstance(each, ast.Starred) for each in call.args) or any(key.arg is None for key in call.keywords)
            if not isinstance(call.func, ast.Name) or starred or script.assigned.get((script.scope(call), owner.name)):
                continue
            known = {each.arg for each in given[: len(call.args)]} | {key.arg for key in call.keywords}
            if missing := [name for name in needed if name not in known]:
                yield Spot(call, f"{owner.name} is made without {' and '.join(missing)}")


# ── what is added to other checks ──


def one_start(script: Script) -> Iterator[Spot]:
    """An evaluation over several episodes that all have the same seed."""
    for call in script.calls("reset"):
        seed, loops = keyword(call, "seed"), script.loops(call)
        loop = loops[0] if loops else None
        if seed is None or not isinstance(loop, ast.For) or script.called(loop.iter) not in ("range", "tqdm", "trange"):
            continue
        scope = script.scope(call)
        named = words.EVALUATION(getattr(scope, "name", "")) or words.EVALUATION(script.owner(call).rpartition(".")[2])
        if not isinstance(scope, ast.FunctionDef) and not named:
            continue
        learns = script.calls(*_LEARNING, *STORES - {"append", "record"}, within=loop)
        under = any(isinstance(each, ast.If | ast.IfExp) and loop in script.ancestors(each) for each in script.ancestors(call))
        plain = all(
            isinstance(each, ast.Constant | ast.Name | ast.Attribute | ast.BinOp | ast.operator | ast.expr_context)
            for each in ast.walk(seed)
        )
        if learns or under or not plain or (isinstance(seed, ast.Constant) and seed.value is None):
            continue
        changed = {each.id for each in ast.walk(loop) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)} | {
            each.attr for each in ast.walk(loop) if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)
        }
        steps = script.calls("step", within=loop)
        if steps and not changed & set(words.identifiers(seed)):
            yield Spot(
                call,
                f"every episode of this evaluation starts alike, from seed {ast.unparse(seed)}: it is one episode, many times",
                "another seed for each episode",
            )


def switch_never_thrown(script: Script) -> Iterator[Spot]:
    """A method that explores unless it is told not to, and an evaluation that does not tell it."""
    for function in script.functions:
        places = function.args.args
        pairs = [*zip(reversed(places), reversed(function.args.defaults), strict=False)]
        pairs += [
            (place, default)
            for place, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
            if default is not None
        ]
        for place, default in pairs:
            on = isinstance(default, ast.Constant) and default.value is True and place.arg in _EXPLORING
            off = isinstance(default, ast.Constant) and default.value is False and place.arg in _CERTAIN
            sites = script.calls(function.name)
            if not (on or off) or len(sites) < 2:
                continue
            index = places.index(place) - (places[0].arg == "self") if place in places else 99
            given = [call for call in sites if len(call.args) > index or any(key.arg in (place.arg, None) for key in call.keywords)]
            decides = any(isinstance(each, ast.Name) and each.id == place.arg for each in ast.walk(function))
            if given or not decides:
                continue
            learning = [call for call in sites if _learns_around(script, call)]
            for call in sites:
                if (
                    learning
                    and call not in learning
                    and script.calls("step", within=script.scope(call))
                    and script.scope(call) is not script.tree
                ):
                    yield Spot(
                        call, f"actions of an evaluation explore: `{place.arg}` is never given, here or anywhere", f"{place.arg}={not on}"
                    )


def _learns_around(script: Script, call: ast.Call) -> bool:
    scope = script.scope(call)
    names = {*_LEARNING, *STORES, "step_and_learn", "store_transition", "observe", "cache"} - {"append", "record"}
    taken = list(script.calls(*names, within=scope))
    agent = script.owner(call)
    told = [each for each in script.calls("step", within=scope) if agent and script.owner(each) == agent]
    kept = [
        each for each in script.calls("append", within=scope) if each.args and (len(each.args) > 1 or isinstance(each.args[0], ast.Tuple))
    ]
    return bool(taken or told or kept)


def bounds_apart(script: Script) -> Iterator[Spot]:
    """clamp(ratio, c, 1 + c), clamp(ratio, 1 - c, c)."""
    for call in script.calls("clamp", "clip", "clip_by_value"):
        is_function = isinstance(call.func, ast.Attribute) and script.owner(call).partition(".")[0] in (
            "torch",
            "np",
            "numpy",
            "jnp",
            "tf",
            "jax",
        )
        low, high = argument(call, 1 if is_function else 0, "min"), argument(call, 2 if is_function else 1, "max")
        if low is None or high is None:
            continue
        below, above = _beside_one(low, ast.Sub), _beside_one(high, ast.Add)
        if (above and above == ast.unparse(low)) or (below and below == ast.unparse(high)):
            yield Spot(
                call,
                f"the ratio is clipped between {ast.unparse(low)} and {ast.unparse(high)}: one of the bounds lacks its 1",
                "clamp(ratio, 1 - clip, 1 + clip)",
            )


def _beside_one(node: ast.expr, operator: type[ast.operator]) -> str:
    if isinstance(node, ast.BinOp) and isinstance(node.op, operator):
        one, other = (node.left, node.right)
        if isinstance(other, ast.Constant) and operator is ast.Add:
            one, other = other, one
        if isinstance(one, ast.Constant) and one.value == 1 and not isinstance(other, ast.Constant):
            return ast.unparse(other)
    return ""


def clipped_as_stored(script: Script) -> Iterator[Spot]:
    """actions[t] = action.clamp(…), beside the log-probability of the unclipped one."""
    for node in script.all(ast.Assign):
        target, value = node.targets[0], node.value
        if not isinstance(target, ast.Subscript) or not isinstance(value, ast.Call) or script.last(value) not in CLIPS:
            continue
        inner = operand(script, value)
        if not isinstance(inner, ast.Name) or not words.ACTION(inner.id) or not words.ACTION(words.own_name(target)):
            continue
        made = script.latest(inner.id, node)
        names = (
            {each.id for each in ast.walk(made.statement) if isinstance(each, ast.Name)}
            if made is not None and isinstance(made.statement, ast.Assign)
            else set()
        )
        beside = [
            each
            for each in script.all(ast.Assign)
            if isinstance(each.targets[0], ast.Subscript) and script.scope(each) is script.scope(node)
        ]
        if any(words.LOG_PROB(words.own_name(each.targets[0])) for each in beside) and (
            any(words.LOG_PROB(name) for name in names) or script.calls("log_prob", within=script.scope(node))
        ):
            yield Spot(
                node,
                f"`{inner.id}` is clipped as it is stored; its log-probability is that of the unclipped one",
                "clip only what goes to env.step()",
            )


def clipped_as_handed_over(script: Script) -> Iterator[Spot]:
    """buffer.store(obs, clip(action), reward, value, log_prob)."""
    for call in script.calls(*STORES):
        given = [part for each in call.args for part in (each.elts if isinstance(each, ast.Tuple) else [each])]
        for part in given if any(words.LOG_PROB(words.own_name(each)) for each in given) else ():
            inner = operand(script, part) if isinstance(part, ast.Call) and script.last(part) in CLIPS else None
            if inner is not None and words.ACTION(words.own_name(inner)):
                yield Spot(
                    call,
                    f"`{words.own_name(inner)}` is clipped as it is stored; its log-probability is that of the unclipped one",
                    "clip only what goes to env.step()",
                )


def returns_are_advantages(script: Script) -> Iterator[Spot]:
    """returns = advantages."""
    for node in script.all(ast.Assign):
        value = node.value
        while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _AS_IT_IS:
            value = value.func.value
        if _plain(words.own_name(value)) in _ADVANTAGES and _plain(words.own_name(node.targets[0])) in _RETURNS:
            yield Spot(
                node,
                "these are advantages: the value must be added back before the critic learns from them",
                "returns = advantages + values",
            )


def _plain(name: str) -> str:
    """A name without what says where it is kept: `ret` of b_ret and ret_buf."""
    return name.lower().removeprefix("b_").removeprefix("mb_").removeprefix("batch_").removesuffix("_buf").removesuffix("_buffer")


def spread_is_no_parameter(script: Script) -> Iterator[Spot]:
    """self.log_std = torch.zeros(n) in a network: no parameter, and so never learned."""
    for kind in script.classes:
        if not any(ast.unparse(base).endswith("Module") for base in kind.bases):
            continue
        for node in script.inside(kind, ast.Assign):
            name = own_attribute(node.targets[0]).lower()
            if (
                "log" in name
                and any(part in name for part in ("std", "sig", "scale"))
                and (made := _filled(script, node.value)) is not None
            ):
                text = ast.unparse(node.value)
                if script.called(made).startswith("torch.") and "requires_grad" not in text and "fixed" not in name:
                    yield Spot(
                        node,
                        f"self.{own_attribute(node.targets[0])} is a plain tensor: no optimizer ever changes the policy's spread",
                        "nn.Parameter(…)",
                    )


def _filled(script: Script, node: ast.expr) -> ast.Call | None:
    """torch.zeros(n), -0.5 * torch.ones(n)"""
    parts = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.operand] if isinstance(node, ast.UnaryOp) else [node]
    return next((each for each in parts if isinstance(each, ast.Call) and script.last(each) in ("zeros", "ones", "full", "tensor")), None)


def corrected_by_the_raw_action(script: Script) -> Iterator[Spot]:
    """log(1 - x²) of the x that goes into tanh, in place of what comes out."""
    for call in script.calls("tanh"):
        inner = operand(script, call) if call.args or isinstance(call.func, ast.Attribute) else None
        statement = script.statement(call)
        if (
            not isinstance(inner, ast.Name)
            or not isinstance(statement, ast.Assign)
            or inner.id in {each.id for target in statement.targets for each in ast.walk(target) if isinstance(each, ast.Name)}
        ):
            continue
        for log in script.calls("log", "log1p", within=script.scope(call)):
            for each in ast.walk(log):
                if (
                    isinstance(each, ast.BinOp)
                    and isinstance(each.op, ast.Sub)
                    and isinstance(each.left, ast.Constant)
                    and each.left.value == 1
                    and _squared(each.right) == inner.id
                    and position(log) > position(call)
                ):
                    yield Spot(
                        log,
                        f"the correction is that of tanh at `{inner.id}`, and is written with `{inner.id}` itself: it needs what tanh returned",
                        "log(1 - tanh(x)**2)",
                    )


def _squared(node: ast.expr) -> str:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and isinstance(node.right, ast.Constant) and node.right.value == 2:
        return words.own_name(node.left) if isinstance(node.left, ast.Name) else ""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("pow", "square"):
        held = node.func.value
        if isinstance(held, ast.Name) and held.id in ("torch", "np", "jnp"):
            return words.own_name(node.args[0]) if node.args else ""
        return words.own_name(held)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and ast.unparse(node.left) == ast.unparse(node.right):
        return words.own_name(node.left)
    return ""


def ends_swapped(script: Script) -> Iterator[Spot]:
    """return obs, reward, truncated, terminated, info."""
    for kind, methods in defined(script):
        for each in ast.walk(methods["step"]) if "step" in methods else ():
            if isinstance(each, ast.Return) and isinstance(each.value, ast.Tuple) and len(each.value.elts) == 5:
                third, fourth = (words.own_name(one) for one in each.value.elts[2:4])
                late = words.TERMINATED(fourth) and not words.TRUNCATED(fourth) and not words.TERMINATED(third)
                early = words.TRUNCATED(third) and not words.TERMINATED(third) and not words.TRUNCATED(fourth)
                if late or early:
                    yield Spot(
                        each,
                        f"{kind.name}.step returns `{fourth if late else third}` in the place of {'truncated' if late else 'terminated'}",
                        "return obs, reward, terminated, truncated, info",
                    )


def seed_not_handed_on(script: Script) -> Iterator[Spot]:
    """A wrapper's reset that takes a seed and resets what it wraps without it."""
    for kind, methods in defined(script):
        reset = methods.get("reset")
        if reset is None or not is_wrapper(kind):
            continue
        taken = {each.arg for each in (*reset.args.args[1:], *reset.args.kwonlyargs)} | (
            {reset.args.kwarg.arg} if reset.args.kwarg else set()
        )
        used = {each.id for each in ast.walk(reset) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
        for call in script.calls("reset", within=reset):
            inner = isinstance(call.func, ast.Attribute) and (script.called(call.func.value) == "super" or script.owner(call) == "self.env")
            if inner and not call.args and not call.keywords and taken and not taken & used:
                yield Spot(
                    call, f"{kind.name}.reset takes a seed and does not hand it on: episodes cannot be repeated", "super().reset(**kwargs)"
                )


def clock_stands_still(script: Script) -> Iterator[Spot]:
    """A count of steps that ends episodes, is set back in reset, and that nobody counts up."""
    for kind, methods in defined(script):
        step, reset = methods.get("step"), methods.get("reset")
        if step is None or reset is None:
            continue
        stored = [
            each for each in ast.walk(kind) if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store) and own_attribute(each)
        ]
        for node in ast.walk(step):
            if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.GtE | ast.Gt | ast.Eq):
                continue
            name = own_attribute(node.left)
            sets = [script.statement(each) for each in stored if own_attribute(each) == name] if name else []
            zero = all(isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant) and each.value.value == 0 for each in sets)
            in_reset = any(each in ast.walk(reset) for each in sets)
            if sets and zero and in_reset and not any(each in ast.walk(step) for each in sets):
                yield Spot(node, f"self.{name} is 0 at every reset and never counted up: this limit is never reached", f"self.{name} += 1")


def callback_returns_nothing(script: Script) -> Iterator[Spot]:
    """`_on_step` without a return: None is no True."""
    for function in script.functions:
        kind = script.parents.get(function)
        bases = [ast.unparse(base) for base in kind.bases] if isinstance(kind, ast.ClassDef) else []
        if function.name != "_on_step" or not script.is_sb3 or not any("Callback" in base for base in bases):
            continue
        ends = [each for each in script.inside(function, ast.Return) if script.scope(each) is function and each.value is not None]
        raises = any(
            isinstance(each, ast.Raise | ast.Pass) or (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
            for each in function.body[-1:]
        )
        if not ends and not raises:
            yield Spot(
                function.body[-1],
                "_on_step returns nothing, and what is not True stops training: it is over after the first step",
                "return True",
            )


def library_settings(script: Script) -> Iterator[Spot]:
    """Noise around another mean than 0, and a DQN that begins without any random action."""
    if not script.is_sb3:
        return
    for call in script.calls("NormalActionNoise", "OrnsteinUhlenbeckActionNoise"):
        mean = argument(call, 0, "mean")
        number = script.constant(mean)
        if mean is not None and (script.last(mean) in ("ones", "ones_like") or (number is not None and number != 0)):
            yield Spot(call, "the noise has another mean than 0: every action is pushed the same way", "mean=np.zeros(n)")
    for call in script.calls("DQN", "QRDQN"):
        first, last = (script.constant(keyword(call, name)) for name in ("exploration_initial_eps", "exploration_final_eps"))
        if first is not None and first < 0.05 and (last is None or last <= first):
            yield Spot(
                keyword(call, "exploration_initial_eps") or call,
                f"exploration begins with a chance of {first:g}: hardly anything is tried",
                "exploration_initial_eps=1.0",
            )


def judged_where_trained(script: Script) -> Iterator[Spot]:
    """evaluate_policy(model, model.get_env())."""
    for call in script.calls("evaluate_policy"):
        env = argument(call, 1, "env")
        made = script.resolve(env) if env is not None else None
        if made is not None and script.last(made) == "get_env":
            yield Spot(
                call,
                "the agent is judged in the environment that it is trained in: its statistics and its episode in progress are disturbed",
                "an environment of its own",
            )


def space_not_widened(script: Script) -> Iterator[Spot]:
    """A wrapper that adds to the observation, and keeps the space."""
    for kind, methods in defined(script):
        shown = methods.get("observation")
        if shown is None or not any(ast.unparse(base).endswith("ObservationWrapper") for base in kind.bases):
            continue
        ends = [each.value for each in ast.walk(shown) if isinstance(each, ast.Return) and each.value is not None]
        spaces = [
            each
            for each in script.inside(kind, ast.Assign)
            if own_attribute(each.targets[0]) in ("observation_space", "_observation_space")
        ]
        same = all(ast.unparse(each.value) in ("env.observation_space", "self.env.observation_space") for each in spaces)
        for end in ends:
            while isinstance(end, ast.Call) and isinstance(end.func, ast.Attribute) and end.func.attr == "astype":
                end = end.func.value
            joined = isinstance(end, ast.Call) and script.last(end) in _JOINED and len(shown.args.args) > 1
            if joined and same and any(isinstance(each, ast.Name) and each.id == shown.args.args[1].arg for each in ast.walk(end)):
                yield Spot(
                    spaces[0] if spaces else end,
                    f"{kind.name} adds to the observation, and its space is still that of what it wraps",
                    "self.observation_space = spaces.Box(…) with the new shape",
                )


def noise_runs_away(script: Script) -> Iterator[Spot]:
    """theta * (x - mu): noise that is pushed from its mean."""
    for node in script.all(ast.BinOp):
        if not isinstance(node.op, ast.Mult):
            continue
        for rate, pull in ((node.left, node.right), (node.right, node.left)):
            if "theta" in words.own_name(rate).lower() and isinstance(pull, ast.BinOp) and isinstance(pull.op, ast.Sub):
                away = words.own_name(pull.right).lower().lstrip("_") in ("mu", "mean") and words.own_name(pull.left)
                parent = script.parents.get(node)
                taken = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Sub) and parent.right is node
                if (
                    away
                    and not taken
                    and not isinstance(parent, ast.UnaryOp)
                    and script.calls("randn", "standard_normal", "normal", "gauss", "random", "randn_like")
                ):
                    yield Spot(
                        node,
                        "the noise is pushed away from its mean, the farther the harder: it runs to a bound and stays there",
                        "theta * (mu - x)",
                    )


def fraction_above_one(script: Script) -> Iterator[Spot]:
    """exploration_fraction=30: the share of the run in which epsilon falls."""
    for name, given in script.settings.items():
        number = script.constant(given)
        if number is not None and number > 1 and "frac" in name and "explor" in name and number <= 1000:
            yield Spot(
                given,
                f"{name} is {number:g}, and a share of the run: the chance to explore hardly falls before it is over",
                f"{name} of at most 1",
            )


def latest_in_place_of_any(script: Script) -> Iterator[Spot]:
    """batch = list(memory)[-batch_size:]."""
    for node in script.all(ast.Assign, ast.Return):
        cut = node.value
        if not isinstance(cut, ast.Subscript) or not isinstance(cut.slice, ast.Slice) or cut.slice.upper is not None:
            continue
        lower = cut.slice.lower
        counted = (
            isinstance(lower, ast.UnaryOp)
            and isinstance(lower.op, ast.USub)
            and words.mentions(lower, lambda name: "batch" in name.lower())
        )
        held = cut.value.args[0] if isinstance(cut.value, ast.Call) and script.last(cut.value) == "list" and cut.value.args else cut.value
        made = script.resolve(held)
        kept = script.last(made) == "deque" or words.BUFFER(words.own_name(held))
        if isinstance(node, ast.Return):
            function = script.scope(node)
            drawn = isinstance(function, ast.FunctionDef) and function.name.lower() in ("sample", "draw", "get_batch", "sample_batch")
        else:
            drawn = "batch" in words.own_name(node.targets[0]).lower()
        if counted and kept and drawn and script.calls("backward", "learn", "update", "step"):
            yield Spot(
                node,
                "the batch is the last few transitions, not a draw from all of them: they are all alike, and forgotten at once",
                "random.sample(memory, batch_size)",
            )


def ends_bootstrapped(script: Script) -> Iterator[Spot]:
    """A value is added to the reward where an episode really ended."""
    for loop in script.all(ast.For):
        names = {*words.identifiers(loop.iter)}
        ended = any(words.TERMINATED(name) for name in names) and not any(words.TRUNCATED(name) for name in names)
        inverted = any(isinstance(each, ast.Invert | ast.Not) for each in ast.walk(loop.iter))
        for node in script.inside(loop, ast.AugAssign) if ended and not inverted else ():
            added = isinstance(node.op, ast.Add) and words.REWARD(words.own_name(node.target)) and words.mentions(node.value, words.GAMMA)
            under = any(isinstance(each, ast.If) and loop in script.ancestors(each) for each in script.ancestors(node))
            if added and not under:
                yield Spot(
                    loop.iter,
                    "what would have come is added to the reward where the task ended: nothing comes after that",
                    "truncated & ~terminated",
                )


def returns_rescaled(script: Script) -> Iterator[Spot]:
    """Returns that are advantages plus values, normalised before the critic learns from them."""
    sums = [
        node
        for node in script.all(ast.Assign)
        if isinstance(node.value, ast.BinOp)
        and isinstance(node.value.op, ast.Add)
        and any(words.ADVANTAGE(words.own_name(each)) for each in (node.value.left, node.value.right))
        and any(words.VALUE(words.own_name(each)) for each in (node.value.left, node.value.right))
    ]
    of_sums = {words.own_name(node.targets[0]) for node in sums}
    for node in script.all(ast.Assign):
        value, target = node.value, words.own_name(node.targets[0])
        if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Div) or not isinstance(value.left, ast.BinOp):
            continue
        top, name = value.left, words.own_name(value.left.left)
        centred = isinstance(top.op, ast.Sub) and script.last(top.right) == "mean" and "std" in ast.unparse(value.right)
        made = script.latest(name, node)
        origin = {*words.identifiers(made.value)} if made is not None and made.value is not None else set()
        if centred and target == name and (name in of_sums or origin & of_sums) and not words.ADVANTAGE(name):
            yield Spot(
                node,
                f"`{name}` are advantages plus values, and are brought to another scale than those: the critic is taught what it never meant",
                "normalise the advantages only",
            )


def begun_again(script: Script) -> Iterator[Spot]:
    """A model that was trained, saved and loaded to go on, and counts from 0 again."""
    if not script.is_sb3:
        return
    saved = {ast.unparse(call.args[0]) for call in script.calls("save") if call.args}
    learned = script.calls("learn")
    for call in learned:
        model = script.latest(script.owner(call), call)
        made = model.value if model is not None else None
        if (
            not isinstance(made, ast.Call)
            or script.last(made) != "load"
            or keyword(call, "reset_num_timesteps") is not None
            or not made.args
        ):
            continue
        before = [each for each in learned if position(each) < position(made) and script.scope(each) is script.scope(call)]
        if before and ast.unparse(made.args[0]) in saved:
            yield Spot(
                call, "training goes on from what was saved, and its count and schedules begin at 0 again", "reset_num_timesteps=False"
            )


MEANINGS: Final[dict[str, tuple[Callable[[Script], Iterator[Spot]], ...]]] = {
    "COD109": (seed_not_handed_on,),
    "COD111": (clock_stands_still,),
    "COD115": (space_not_widened,),
    "COD132": (ends_swapped,),
    "COD202": (corrected_by_the_raw_action,),
    "COD203": (clipped_as_stored, clipped_as_handed_over),
    "COD209": (bounds_apart,),
    "COD414": (spread_is_no_parameter,),
    "COD501": (ends_bootstrapped,),
    "COD508": (fraction_above_one,),
    "COD514": (returns_are_advantages, returns_rescaled),
    "COD530": (noise_runs_away,),
    "COD535": (latest_in_place_of_any,),
    "COD704": (judged_where_trained,),
    "COD710": (switch_never_thrown,),
    "COD803": (begun_again,),
    "COD809": (library_settings,),
    "COD810": (callback_returns_nothing,),
    "COD903": (one_start,),
}
"""What is added to which check."""
