"""The loop between agent and environment: ends of episodes, resets, observations, and environments written in the script."""

import ast
from collections.abc import Iterator

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.lint.code.reading import flow, nets, words
from rlclinic.diagnosis.lint.code.reading.script import Function, Script, Spot, keyword, position
from rlclinic.diagnosis.lint.code.reading.signs import factors
from rlclinic.diagnosis.lint.code.symbolic import agents

SB3_VECTORS = frozenset(
    {
        "make_vec_env", "make_atari_env", "DummyVecEnv", "SubprocVecEnv", "VecNormalize", "VecFrameStack", "VecMonitor",
        "VecTransposeImage",
        "VecVideoRecorder", "get_env", "VecCheckNan", "load", "create_envs",
    }
)  # fmt: skip
VECTORS = SB3_VECTORS | {"make_vec", "SyncVectorEnv", "AsyncVectorEnv", "make_gym", "make_gymnasium", "RecordEpisodeStatistics"}
LEGACY_UNPACKED = 4
TRANSITION = 4
"""Parts of a stored transition, at least."""


@check("COD101", Severity.LOW, ["pardo2018time"])
def time_limit_counted_as_end(script: Script) -> Iterator[Spot]:
    """An episode that was cut by its time limit is treated as one that ended.

    ## Why it hurts
    A terminal state has no future, a time limit only stops the clock. Counting both as the end teaches the value function that good
    states close to the limit are worthless; good agents regress at the cap.

    ## When it is fine
    Tasks without a time limit, and tasks whose observation contains the time left. Many published scripts do this and still learn.

    ## Fix
    Bootstrap with `terminated` alone; let both flags cut the trace and reset the environment.

    ## Wrong
    ```python
    next_obs, reward, terminated, truncated, info = env.step(action)
    done = terminated or truncated
    target = reward + gamma * next_value * (1 - done)
    ```

    ## Right
    ```python
    next_obs, reward, terminated, truncated, info = env.step(action)
    over = terminated or truncated
    target = reward + gamma * next_value * (1 - terminated)
    ```
    """
    if _is_bootstrapped_at_a_limit(script) or not words.mentions(script.tree, words.GAMMA):
        return
    masks = [
        node
        for node in script.all(ast.BinOp, ast.UnaryOp, ast.IfExp)
        if flow.polarity(script, node) < 0 and _cuts_a_bootstrap(script, node)
    ]
    handled = script.words & {"final_observation", "final_obs", "terminal_observation", "TimeLimit.truncated", "_final_observation"}
    for node in masks if not handled else ():
        flag = node.test if isinstance(node, ast.IfExp) else node
        if flow.ends(script, flag) == {"terminated", "truncated"}:
            stored = list(_stored_for_a_mask(script, position(node)[0]))
            if stored:
                yield from stored
                return
            yield Spot(node, f"`{ast.unparse(node)}` takes the future's value away at a time limit, too")
            return
    rows = [
        node for node in script.all(ast.Subscript) if isinstance(node.ctx, ast.Store) and words.END(words.own_name(node.slice))
    ]  # next_value[terminated] = 0
    if masks or rows:
        yield from _stored_for_a_mask(script, position([*masks, *rows][0])[0])


def _stored_for_a_mask(script: Script, line: int) -> Iterator[Spot]:
    """Both ends as one, stored with a transition whose future another function masks by what it reads back."""
    for call in script.calls("append", "add", "store", "push", "remember", "insert", "put"):
        given = [part for argument in call.args for part in _stored_parts(script, argument)] + [key.value for key in call.keywords]
        if len(given) < TRANSITION or _handles_timeouts(script, call):
            continue
        kinds = [flow.ends(script, each) if flow.polarity(script, each) or words.mentions(each, words.END) else set() for each in given]
        both = [each for each, kind in zip(given, kinds, strict=True) if kind == {"terminated", "truncated"}]
        if both and not any(len(kind) == 1 for kind in kinds):
            text = f"`{ast.unparse(both[0])}` is true at a time limit too, and line {line} takes the future's value away there"
            yield Spot(call, text, "store `terminated` alone; end the episode at either")
            return


def _stored_parts(script: Script, argument: ast.expr) -> list[ast.expr]:
    """The parts of a transition: of a tuple, of a list, of a record that is made here."""
    if isinstance(argument, ast.Tuple | ast.List):
        return argument.elts
    if isinstance(argument, ast.Call) and script.last(argument)[:1].isupper() and len(argument.args) + len(argument.keywords) >= TRANSITION:
        return [*argument.args, *(key.value for key in argument.keywords)]
    return [argument]


def _handles_timeouts(script: Script, call: ast.Call) -> bool:
    """Stable-Baselines3's buffers read from the infos which ends are time limits, unless they are told not to."""
    made = script.resolve(call.func.value) if isinstance(call.func, ast.Attribute) else call
    own = script.called(made).startswith(("stable_baselines3.", "sb3_contrib."))
    told = keyword(made, "handle_timeout_termination") if isinstance(made, ast.Call) else None
    return own and not (isinstance(told, ast.Constant) and told.value is False)


def _is_bootstrapped_at_a_limit(script: Script) -> bool:
    """if truncated: reward += gamma * value(next_obs)."""
    for node in script.all(ast.AugAssign):
        branch = next((ancestor for ancestor in script.ancestors(node) if isinstance(ancestor, ast.If)), None)
        discounted = words.mentions(node.value, words.GAMMA) or any(nets.is_network(script, each) for each in ast.walk(node.value))
        if words.RETURN(words.own_name(node.target)) and branch is not None and discounted and words.mentions(branch.test, words.TRUNCATED):
            return True
    return False


def _cuts_a_bootstrap(script: Script, node: ast.AST) -> bool:
    """Whether a mask takes part in gamma * next value; a mask of the trace alone (gamma * lambda * advantage) does not."""
    product: ast.AST = node
    while isinstance(parent := script.parents.get(product), ast.expr):
        product = parent
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult) and _discounts(parent):
            return True
    statement = script.statement(node)
    target = words.own_name(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
    used = [
        each
        for each in (script.inside(script.scope(node), ast.BinOp) if target else ())
        if isinstance(each.op, ast.Mult) and target in map(words.own_name, factors(each))
    ]
    return any(_discounts(each) for each in used)


def _discounts(product: ast.BinOp) -> bool:
    names = [words.own_name(factor) for factor in factors(product)]
    return any(map(words.GAMMA, names)) and not any(map(words.LAMBDA, names))


@check("COD102", Severity.HIGH, ["towers2024gymnasium"])
def old_step_signature(script: Script) -> Iterator[Spot]:
    """`step` is unpacked into four values, as in the old gym.

    ## Why it hurts
    Gymnasium's step returns five. The line raises ValueError, or, behind a wrapper that hides one, the flags mean something else.

    ## When it is fine
    Stable-Baselines3's own vector environments, which do return four; they are left alone.

    ## Fix
    obs, reward, terminated, truncated, info = env.step(action)

    ## Wrong
    ```python
    import gymnasium as gym

    env = gym.make("CartPole-v1")
    obs, info = env.reset()
    obs, reward, done, info = env.step(env.action_space.sample())
    ```

    ## Right
    ```python
    import gymnasium as gym

    env = gym.make("CartPole-v1")
    obs, info = env.reset()
    obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
    ```
    """
    if not script.uses("gymnasium"):
        return
    for node in script.all(ast.Assign):
        target = node.targets[0]
        if script.last(node.value) != "step" or not isinstance(target, ast.Tuple) or len(target.elts) != LEGACY_UNPACKED:
            continue
        if _is_env_call(script, node.value) and is_gymnasium(script, node.value):
            yield Spot(node, "step() returns five values: obs, reward, terminated, truncated, info")


@check("COD103", Severity.LOW, ["towers2024gymnasium"])
def gym_in_place_of_gymnasium(script: Script) -> Iterator[Spot]:
    """The unmaintained package gym is imported.

    ## Why it hurts
    It gets no fixes, does not work with NumPy 2, and mixes both kinds of end into one flag.

    ## When it is fine
    Old environments that exist for gym only.

    ## Fix
    import gymnasium as gym, then unpack five values from step() and two from reset().

    ## Wrong
    ```python
    import gym

    env = gym.make("CartPole-v1")
    ```

    ## Right
    ```python
    import gymnasium as gym

    env = gym.make("CartPole-v1")
    ```
    """
    for node in script.all(ast.Import, ast.ImportFrom):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        fallback = any(isinstance(ancestor, ast.Try | ast.ExceptHandler | ast.FunctionDef) for ancestor in script.ancestors(node))
        if any(name.partition(".")[0] == "gym" for name in names) and not fallback:
            yield Spot(node, "the package gym gets no fixes any more; gymnasium continues it")
            return


@check("COD104", Severity.HIGH, ["towers2024gymnasium"])
def reset_returns_two_values(script: Script) -> Iterator[Spot]:
    """The pair that `reset` returns is used as the observation.

    ## Why it hurts
    The policy gets (obs, info) in place of the observation: an error at the first forward pass, or an array of objects that is
    silently wrong.

    ## When it is fine
    Stable-Baselines3's own vector environments, whose reset returns the observation alone; they are left alone.

    ## Fix
    obs, info = env.reset(seed=seed)

    ## Wrong
    ```python
    import gymnasium as gym

    env = gym.make("CartPole-v1")
    obs = env.reset()
    obs, reward, terminated, truncated, info = env.step(policy(obs))
    ```

    ## Right
    ```python
    import gymnasium as gym

    env = gym.make("CartPole-v1")
    obs, info = env.reset()
    obs, reward, terminated, truncated, info = env.step(policy(obs))
    ```
    """
    if not script.uses("gymnasium"):
        return
    for node in script.all(ast.Assign):
        target = node.targets[0]
        if script.last(node.value) != "reset" or not isinstance(target, ast.Name) or not _is_env_call(script, node.value):
            continue
        if not is_gymnasium(script, node.value) or _is_taken_apart(script, target.id, node):
            continue
        if not any(words.own_name(call.func.value) == words.own_name(node.value.func.value) for call in _env_steps(script)):  # type: ignore[attr-defined]
            continue
        yield Spot(node, f"`{target.id}` is the pair (obs, info), not the observation", f"{target.id}, info = …reset()")


def _is_taken_apart(script: Script, name: str, at: ast.AST) -> bool:
    scope = script.scope(at)
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) and script.dotted(node.value) == name:
            return True
        if (
            isinstance(node, ast.Subscript)
            and script.dotted(node.value) == name
            and isinstance(node.slice, ast.Constant)
            and node.slice.value == 0
        ):
            return True
        if script.called(node) == "isinstance" and isinstance(node, ast.Call) and script.dotted(node.args[0]) == name:
            return True
    return False


@check("COD105", Severity.HIGH, ["nikanjam2022faults"])
def no_reset_after_end(script: Script) -> Iterator[Spot]:
    """The environment is stepped in a loop that neither resets it nor leaves when an episode ends.

    ## Why it hurts
    After the end an environment's answers mean nothing: the state drifts out of its box, rewards stop, and the agent learns from that.

    ## When it is fine
    Vector environments, which reset themselves; they are left alone.

    ## Fix
    if terminated or truncated: obs, info = env.reset()

    ## Wrong
    ```python
    import gymnasium as gym

    env = gym.make("CartPole-v1")
    obs, info = env.reset()
    for step in range(10_000):
        obs, reward, terminated, truncated, info = env.step(act(obs))
    ```

    ## Right
    ```python
    import gymnasium as gym

    env = gym.make("CartPole-v1")
    obs, info = env.reset()
    for step in range(10_000):
        obs, reward, terminated, truncated, info = env.step(act(obs))
        if terminated or truncated:
            obs, info = env.reset()
    ```
    """
    for call in _env_steps(script):
        loops = script.loops(call)
        owner = script.owner(call)
        if not loops or not _is_single_env(script, call) or script.calls("reset", within=loops[-1]):
            continue
        if _leaves_at_the_end(script, loops[0]) or any(
            script.calls("reset", within=function) for function in _called_functions(script, loops[-1], owner)
        ):
            continue
        yield Spot(call, f"`{owner}` is stepped on and on, and nothing in the loop resets it or leaves at the end of an episode")


def _called_functions(script: Script, node: ast.AST, env: str) -> list[Function]:
    """Functions of the script that the loop calls, and that can reach the environment."""
    calls = [each for each in script.inside(node, ast.Call) if script.last(each) not in ("step", "reset")]
    reaching = [call for call in calls if script.owner(call) == "self" or env in [script.dotted(given) for given in call.args]]
    return [function for function in script.functions if function.name in {script.last(each) for each in reaching}]


def _leaves_at_the_end(script: Script, loop: ast.AST) -> bool:
    if isinstance(loop, ast.While) and not isinstance(loop.test, ast.Constant):
        return True
    return any(isinstance(node, ast.Break | ast.Return) for node in ast.walk(loop))


@check("COD106", Severity.HIGH, ["tambon2023rlmutation"])
def observation_not_updated(script: Script) -> Iterator[Spot]:
    """The new observation is not carried over to the next step.

    ## Why it hurts
    The agent acts on the first observation of the episode again and again; every stored transition is wrong. Returns stay at the
    level of chance.

    ## When it is fine
    Never.

    ## Fix
    obs = next_obs at the end of the loop's body.

    ## Wrong
    ```python
    obs, info = env.reset()
    while True:
        action = act(obs)
        next_obs, reward, terminated, truncated, info = env.step(action)
        buffer.add(obs, action, reward, next_obs, terminated)
        if terminated or truncated:
            obs, info = env.reset()
    ```

    ## Right
    ```python
    obs, info = env.reset()
    while True:
        action = act(obs)
        next_obs, reward, terminated, truncated, info = env.step(action)
        buffer.add(obs, action, reward, next_obs, terminated)
        obs = next_obs
        if terminated or truncated:
            obs, info = env.reset()
    ```
    """
    for call in _env_steps(script):
        statement = script.statement(call)
        loops = script.loops(call)
        if not loops or not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Tuple):
            continue
        new = words.own_name(statement.targets[0].elts[0])
        for old in _reset_into(script, script.owner(call), loops[0]) - {new}:
            if _is_read(loops[0], old) and not _is_carried(script, loops[0], old, new):
                # a = a2: where the next action is carried over, and the observation is not.
                beside = [
                    each
                    for each in script.inside(loops[0], ast.Assign)
                    if isinstance(each.value, ast.Name) and isinstance(each.targets[0], ast.Name) and position(each) > position(statement)
                ]
                for where in (_chosen_for(script, loops[0], statement, old), *beside[:1]):
                    yield Spot(
                        where,
                        f"`{old}` is never set to `{new}`: the agent acts on the first observation of the episode for ever",
                        f"{old} = {new}",
                    )


def _chosen_for(script: Script, loop: ast.AST, step: ast.stmt, old: str) -> ast.AST:
    """The line that chooses the action for an observation, where there is one before the step."""
    reading = [
        script.statement(each)
        for each in ast.walk(loop)
        if isinstance(each, ast.Name) and each.id == old and isinstance(each.ctx, ast.Load) and position(each) < position(step)
    ]
    chosen = [each for each in reading if isinstance(each, ast.Assign) and each is not step]
    return chosen[0] if chosen else step


def _reset_into(script: Script, owner: str, loop: ast.AST) -> set[str]:
    """Names that hold the first observation when the loop begins."""
    names = set()
    for node in ast.walk(script.scope(loop)):
        if position(node) >= position(loop):
            continue
        if isinstance(node, ast.Assign) and script.last(node.value) == "reset" and script.owner(node.value) == owner:  # type: ignore[arg-type]
            target = node.targets[0].elts[0] if isinstance(node.targets[0], ast.Tuple) else node.targets[0]
            names.add(words.own_name(target))
    return names - {""}


def _is_read(node: ast.AST, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Load) for each in ast.walk(node))


def _is_carried(script: Script, loop: ast.AST, old: str, new: str) -> bool:
    """Whether the loop sets `old` by anything but a reset."""
    for node in ast.walk(loop):
        if isinstance(node, ast.Call) and script.owner(node) == old and script.last(node) in ("copy_", "fill_", "append", "update"):
            return True
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign) else []
        names = {words.own_name(part) for target in targets for part in ([*target.elts] if isinstance(target, ast.Tuple) else [target])}
        if old in names and script.last(getattr(node, "value", node)) != "reset":
            return True
    return False


# ── environments that the script defines ──


def env_classes(script: Script) -> Iterator[ast.ClassDef]:
    """Classes that extend gymnasium.Env."""
    for kind in script.classes:
        if any(script.dotted(base) in ("gymnasium.Env", "gymnasium.core.Env", "gym.Env") for base in kind.bases) and script.uses(
            "gymnasium"
        ):
            yield kind


def method(owner: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    """A method by name."""
    return next((statement for statement in owner.body if isinstance(statement, ast.FunctionDef) and statement.name == name), None)


def own_returns(script: Script, function: Function) -> list[ast.Return]:
    """The return statements of a function, those of functions inside it left out."""
    return [node for node in ast.walk(function) if isinstance(node, ast.Return) and script.scope(node) is function]


@check("COD107", Severity.HIGH, ["towers2024gymnasium"])
def env_step_returns_too_few(script: Script) -> Iterator[Spot]:
    """An environment of this script returns four values from `step`.

    ## Why it hurts
    Whatever trains on it expects five, and cannot tell a time limit from an end.

    ## When it is fine
    Never with Gymnasium.

    ## Fix
    return obs, reward, terminated, truncated, info

    ## Wrong
    ```python
    import gymnasium as gym


    class Room(gym.Env):
        def step(self, action):
            return self.obs, 0.0, False, {}
    ```

    ## Right
    ```python
    import gymnasium as gym


    class Room(gym.Env):
        def step(self, action):
            self.t += 1
            return self.obs, 0.0, self.t > self.goal, False, {}
    ```
    """
    for owner in env_classes(script):
        step = method(owner, "step")
        for each in own_returns(script, step) if step else []:
            if isinstance(each.value, ast.Tuple) and len(each.value.elts) == LEGACY_UNPACKED:
                yield Spot(each, f"{owner.name}.step returns four values; a Gymnasium environment returns five")


@check("COD108", Severity.HIGH, ["towers2024gymnasium"])
def env_reset_returns_only_obs(script: Script) -> Iterator[Spot]:
    """An environment of this script returns the observation alone from `reset`.

    ## Why it hurts
    Callers unpack (obs, info): they raise, or split the observation in two.

    ## When it is fine
    Never with Gymnasium.

    ## Fix
    return obs, {}

    ## Wrong
    ```python
    import gymnasium as gym
    import numpy as np


    class Room(gym.Env):
        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return np.zeros(3, dtype=np.float32)
    ```

    ## Right
    ```python
    import gymnasium as gym
    import numpy as np


    class Room(gym.Env):
        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return np.zeros(3, dtype=np.float32), {}
    ```
    """
    plain = ("array", "zeros", "ones", "asarray", "float32", "copy", "astype")
    for owner in env_classes(script):
        reset = method(owner, "reset")
        for each in own_returns(script, reset) if reset else []:
            value = each.value or each
            named = any(word in words.own_name(value).lower() for word in ("obs", "state"))
            single = isinstance(value, ast.Name | ast.Attribute) and not isinstance(script.resolve(value), ast.Tuple | ast.Call)
            if (named and single) or script.last(value) in plain:
                yield Spot(each, f"{owner.name}.reset returns the observation alone; Gymnasium expects (obs, info)")


@check("COD109", Severity.MEDIUM, ["towers2024gymnasium", "henderson2018matters"])
def env_reset_ignores_seed(script: Script) -> Iterator[Spot]:
    """An environment of this script takes no seed in `reset`, or does nothing with it.

    ## Why it hurts
    Episodes cannot be repeated: no run is reproducible, and two settings cannot be compared on the same starts. Without the
    parameter, reset(seed=0) raises.

    ## When it is fine
    Environments without any chance in them (they must still accept the parameter).

    ## Fix
    Begin reset with super().reset(seed=seed), and draw from self.np_random.

    ## Wrong
    ```python
    import gymnasium as gym


    class Room(gym.Env):
        def reset(self):
            return self.start(), {}
    ```

    ## Right
    ```python
    import gymnasium as gym


    class Room(gym.Env):
        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return self.start(), {}
    ```
    """
    for owner in env_classes(script):
        reset = method(owner, "reset")
        if reset is None:
            continue
        names = {each.arg for each in [*reset.args.args, *reset.args.kwonlyargs]}
        if "seed" not in names and reset.args.kwarg is None:
            yield Spot(reset, f"{owner.name}.reset takes no seed", "def reset(self, *, seed=None, options=None):")
        elif not _uses_seed(reset) and not _passes_all_on(reset):
            for where in (reset, *_base_resets(script, reset)):
                yield Spot(where, f"{owner.name}.reset takes a seed and does nothing with it", "super().reset(seed=seed)")


def _base_resets(script: Script, function: ast.FunctionDef) -> list[ast.Call]:
    """super().reset(…)"""
    calls = script.calls("reset", within=function)
    return [call for call in calls if isinstance(call.func, ast.Attribute) and script.called(call.func.value) == "super"]


def _passes_all_on(function: ast.FunctionDef) -> bool:
    """reset(**kwargs), which hands all of them to another reset."""
    rest = function.args.kwarg.arg if function.args.kwarg is not None else ""
    return bool(rest) and any(isinstance(node, ast.Name) and node.id == rest for node in ast.walk(function))


def _uses_seed(function: ast.FunctionDef) -> bool:
    return any(isinstance(node, ast.Name) and node.id == "seed" and isinstance(node.ctx, ast.Load) for node in ast.walk(function))


@check("COD110", Severity.MEDIUM, ["pardo2018time"])
def step_limit_reported_as_terminated(script: Script) -> Iterator[Spot]:
    """An environment of this script reports its step limit as `terminated`.

    ## Why it hurts
    Training takes it for a real end and does not bootstrap: states near the limit look worthless, though the task goes on.

    ## When it is fine
    Where running out of time is itself the failure, and the observation contains the time left.

    ## Fix
    Return the limit as the fourth value (truncated), or leave it to max_episode_steps when registering.

    ## Wrong
    ```python
    import gymnasium as gym


    class Room(gym.Env):
        def step(self, action):
            self.steps += 1
            terminated = self.steps >= self.max_steps
            return self.obs, -1.0, terminated, False, {}
    ```

    ## Right
    ```python
    import gymnasium as gym


    class Room(gym.Env):
        def step(self, action):
            self.steps += 1
            truncated = self.steps >= self.max_steps
            return self.obs, -1.0, self.at_goal(), truncated, {}
    ```
    """
    for owner in env_classes(script):
        step = method(owner, "step")
        for each in own_returns(script, step) if step else []:
            if not isinstance(each.value, ast.Tuple) or len(each.value.elts) != 5:
                continue
            terminated, truncated = each.value.elts[2], each.value.elts[3]
            if _never(script, truncated) and _is_clock(script, terminated):
                yield Spot(each, f"{owner.name} reports its step limit as `terminated`; `truncated` is always False")


def _is_clock(script: Script, node: ast.AST) -> bool:
    value = script.resolve(node)
    parts = value.values if isinstance(value, ast.BoolOp) else [value]
    for part in (script.resolve(each) for each in parts):
        if isinstance(part, ast.Call) and script.called(part) == "bool" and part.args:
            part = part.args[0]
        if isinstance(part, ast.Compare) and len(part.ops) == 1:
            left, right = words.own_name(part.left).lower(), words.own_name(part.comparators[0]).lower()
            counted = any(word in left for word in ("step", "time", "tick", "elapsed", "frame")) and "timestep_cost" not in left
            if counted and (right.startswith(("max", "horizon", "limit")) or "limit" in right or "max" in right or "length" in right):
                return True
    return False


@check("COD111", Severity.MEDIUM, ["pardo2018time"])
def episode_never_ends(script: Script) -> Iterator[Spot]:
    """An environment of this script never ends an episode, and nothing sets a time limit.

    ## Why it hurts
    No episode is ever complete: no return is logged, resets never happen, and the agent sees only where it drifted to.

    ## When it is fine
    Continuing tasks that are trained with an average-reward method.

    ## Fix
    Register it with max_episode_steps=…, or wrap it in gymnasium.wrappers.TimeLimit.

    ## Wrong
    ```python
    import gymnasium as gym


    class Room(gym.Env):
        def step(self, action):
            return self.obs, 1.0, False, False, {}


    gym.register(id="Room-v0", entry_point=Room)
    ```

    ## Right
    ```python
    import gymnasium as gym


    class Room(gym.Env):
        def step(self, action):
            return self.obs, 1.0, False, False, {}


    gym.register(id="Room-v0", entry_point=Room, max_episode_steps=200)
    ```
    """
    limited = any("max_episode_steps" in {key.arg for key in call.keywords} for call in script.calls("register", "make", "EnvSpec"))
    if limited or script.calls("TimeLimit"):
        return
    for owner in env_classes(script):
        step = method(owner, "step")
        ending = (
            [each.value for each in own_returns(script, step) if isinstance(each.value, ast.Tuple) and len(each.value.elts) == 5]
            if step
            else []
        )
        if ending and all(_never(script, each.elts[2]) and _never(script, each.elts[3]) for each in ending if isinstance(each, ast.Tuple)):
            ended = ending[0].elts[2] if isinstance(ending[0], ast.Tuple) else ending[0]
            latest = script.latest(ended.id, ended) if isinstance(ended, ast.Name) else None
            where = latest.statement if latest is not None else ending[0]
            used = any(kind_name in ast.unparse(call) for kind_name in (owner.name,) for call in script.all(ast.Call))
            text = f"{owner.name}.step never ends an episode, and nothing sets a time limit"
            yield Spot(where, text, strength=1.0 if used else 0.4)


def _never(script: Script, node: ast.AST) -> bool:
    value = script.resolve(node)
    return isinstance(value, ast.Constant) and value.value is False


@check("COD112", Severity.MEDIUM, ["tambon2023rlmutation"])
def state_survives_reset(script: Script) -> Iterator[Spot]:
    """Something that `step` changes is not set again by `reset`.

    ## Why it hurts
    An episode begins where the one before ended: a counter ends it at its first step, or the start is one that nobody meant.

    ## When it is fine
    Totals over all episodes.

    ## Fix
    Set it in reset, as in __init__.

    ## Wrong
    ```python
    import gymnasium as gym


    class Room(gym.Env):
        def __init__(self):
            self.clock = 0

        def reset(self, seed=None, options=None):
            super().reset(seed=seed)
            return self.obs, {}

        def step(self, action):
            self.clock += 1
            return self.obs, -1.0, self.at_goal(), self.clock >= 100, {}
    ```

    ## Right
    ```python
    import gymnasium as gym


    class Room(gym.Env):
        def __init__(self):
            self.clock = 0

        def reset(self, seed=None, options=None):
            super().reset(seed=seed)
            self.clock = 0
            return self.obs, {}

        def step(self, action):
            self.clock += 1
            return self.obs, -1.0, self.at_goal(), self.clock >= 100, {}
    ```
    """
    yield from agents.state_survives_reset(script)


# ── which calls are an environment's ──


def _env_steps(script: Script) -> list[ast.Call]:
    return [call for call in script.calls("step") if _is_env_call(script, call) and call.args]


def _is_env_call(script: Script, call: ast.AST) -> bool:
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    name = words.own_name(call.func.value)
    return words.ENVIRONMENT(name) and name != "self"


def is_gymnasium(script: Script, call: ast.AST) -> bool:
    """Whether a method is called on an environment that Gymnasium made, as far as the script shows: not on a vector of another library."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or is_sb3_vector(script, call) or script.uses("gym"):
        return False
    made = [each.whole for each in script.anywhere(script.owner(call), call) if each.value is not None]
    if made:
        return all(isinstance(each, ast.Call) and script.last(each) not in SB3_VECTORS for each in made)
    return any(script.called(each).startswith("gymnasium.make") for each in script.calls("make"))


def _made_by(script: Script, call: ast.Call) -> str:
    """The function that made the object of a method call, wrappers peeled off from outside; "" if the script does not show it."""
    value = script.resolve(call.func.value) if isinstance(call.func, ast.Attribute) else call
    return script.last(value)


def is_sb3_vector(script: Script, call: ast.AST) -> bool:
    """Whether a method is called on one of Stable-Baselines3's vector environments, which keep the old signatures."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    name = words.own_name(call.func.value)
    made = _made_by(script, call)
    return script.is_sb3 and (words.VECTOR(name) or made in SB3_VECTORS or made not in ("make", "") or (made == "" and name != "env"))


def _is_single_env(script: Script, call: ast.Call) -> bool:
    """Made by gymnasium.make here, so that it does not reset itself."""
    name = words.own_name(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    if words.VECTOR(name) or script.is_sb3:
        return False
    makers = {"make", *(kind.name for kind in env_classes(script))}
    return any(script.last(each.whole) in makers for each in script.anywhere(script.owner(call), call) if each.whole is not None)


@check("COD117", Severity.HIGH, ["towers2024gymnasium"])
def end_asked_before_anything_began(script: Script) -> Iterator[Spot]:
    """A loop over the steps of an episode asks whether it is over, and nothing has said so before its first turn.

    ## Why it hurts
    Python raises UnboundLocalError at the first episode. Where the name is known from the episode before, the next one is over before it
    has begun, and is never played.

    ## When it is fine
    Never.

    ## Fix
    done = False, beside each reset.

    ## Wrong
    ```python
    def train(env, agent, episodes):
        for episode in range(episodes):
            obs, info = env.reset()
            while not done:
                obs, reward, terminated, truncated, info = env.step(agent.act(obs))
                done = terminated or truncated
    ```

    ## Right
    ```python
    def train(env, agent, episodes):
        for episode in range(episodes):
            obs, info = env.reset()
            done = False
            while not done:
                obs, reward, terminated, truncated, info = env.step(agent.act(obs))
                done = terminated or truncated
    ```
    """
    for loop in script.all(ast.While):
        function = script.scope(loop)
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or not script.calls("step", within=loop):
            continue
        arguments = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
        shared = {name for node in ast.walk(function) if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
        for read in (each for each in ast.walk(loop.test) if isinstance(each, ast.Name) and words.END(each.id)):
            set_here = [
                node
                for node in script.inside(function, ast.Name)
                if node.id == read.id and isinstance(node.ctx, ast.Store) and script.scope(node) is function
            ]
            if set_here and read.id not in arguments | shared and all(position(node) > position(loop) for node in set_here):
                yield Spot(
                    loop,
                    f"`{read.id}` is asked before anything is known of the episode: it is first set in line {position(set_here[0])[0]}",
                    f"{read.id} = False, before the loop",
                )
