"""Vector environments and Stable-Baselines3's settings, as far as numbers in the script decide them."""

import ast
from collections.abc import Iterator

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.lint.code.evaluation import chain, models
from rlclinic.diagnosis.lint.code.reading import flow, words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot, argument, keyword
from rlclinic.diagnosis.lint.code.reading.signs import factors

VECTORS = frozenset({"DummyVecEnv", "SubprocVecEnv", "SyncVectorEnv", "AsyncVectorEnv"})
DEFAULTS = {"PPO": (2048, 64), "A2C": (5, None), "RecurrentPPO": (128, 128), "MaskablePPO": (2048, 64)}
FEW_ROLLOUTS = 5
LOUDEST = 1.0
"""Deviation of action noise, on actions between -1 and 1."""


UNHEARD = {
    "on-policy": {
        "ent_coef": (0.0, 0.3, "the entropy bonus outweighs any advantage, and the policy stays random"),
        "clip_range": (0.02, 0.9, "one update moves the policy hardly at all, or without a bound"),
        "gae_lambda": (0.5, 1.0, "advantages are little more than the critic's own errors"),
        "n_epochs": (1, 60, "the policy is fitted to one rollout until it knows nothing else"),
        "vf_coef": (1e-3, 10.0, "the critic learns nothing, or drowns the policy in a shared network"),
        "max_grad_norm": (0.01, 1e9, "every update is cut to almost nothing"),
    },
    "off-policy": {
        "buffer_size": (1000, 1e9, "every batch comes from the last few episodes, which is what a replay is there to prevent"),
        "batch_size": (8, 1e5, "each gradient is that of a handful of transitions"),
        "tau": (1e-5, 1.0, "the target network stands still, or runs past the trained one"),
        "gradient_steps": (-1, 1e5, "hardly anything is learned between two steps of the environment"),
        "train_freq": (1, 1e5, "hardly anything is learned"),
        "exploration_final_eps": (0.0, 0.3, "a large share of the actions stays random to the end"),
        "exploration_fraction": (0.005, 1.0, "nothing is explored"),
        "target_update_interval": (1, 200_000, "the target network stands still"),
    },
    "both": {"gamma": (0.8, 0.99999, "only the next few rewards count, or returns have no bound")},
}
"""Least and greatest values that tuned settings stay far inside of, and what happens beyond."""
LEAST_STEPS = 16
"""Steps below which a rollout is the one that is too short, not the minibatch too large."""
OFF_POLICY = frozenset({"DQN", "QRDQN", "SAC", "TD3", "DDPG", "TQC", "CrossQ"})


@check("COD809", Severity.MEDIUM, ["raffin2021sb3"])
def setting_far_outside(script: Script) -> Iterator[Spot]:
    """A setting of a Stable-Baselines3 agent is far outside of what any tuned configuration uses.

    ## Why it hurts
    Such values make the method another one: an entropy bonus above any advantage, a clip range that allows nothing, a replay that holds
    one episode, a learning rate at which nothing settles. Learning that begins when the budget is spent never begins.

    ## When it is fine
    An experiment about that very setting. A discount of 1 is left alone where the environment is in the script and its clock ends episodes.

    ## Fix
    Begin with the default, and change it by factors of 2 to 3.

    ## Wrong
    ```python
    from stable_baselines3 import PPO

    model = PPO("MlpPolicy", "CartPole-v1", ent_coef=1.0)
    model.learn(100_000)
    ```

    ## Right
    ```python
    from stable_baselines3 import PPO

    model = PPO("MlpPolicy", "CartPole-v1", ent_coef=0.01)
    model.learn(100_000)
    ```
    """
    for kept, call in models(script).items():
        kind = "on-policy" if script.last(call) in DEFAULTS else "off-policy" if script.last(call) in OFF_POLICY else ""
        for name, (least, greatest, why) in {**UNHEARD.get(kind, {}), **UNHEARD["both"]}.items():
            number = number_of(script, call, name, None)
            if name == "gamma" and number == 1.0 and ends_by_the_clock(script, call):
                continue  # a sum of so many rewards has a bound
            if name == "gamma" and number == 0.0 and ends_with_each_step(script):
                continue  # nothing comes later
            if name == "buffer_size" and number is not None and holds_everything(script, number):
                continue
            if number is not None and (not least <= number <= greatest or (name == "gradient_steps" and number == 0)):
                yield Spot(keyword(call, name) or call, f"{name} is {number:g}: {why}")
        yield from _longer_than_the_budget(script, kept, call)
    for call in script.calls("NormalActionNoise", "OrnsteinUhlenbeckActionNoise") if models(script) else ():
        spread = argument(call, 1, "sigma")
        sizes = [script.constant(factor) for factor in factors(spread)] if spread is not None else []
        loudest = max((size for size in sizes if size is not None), default=0.0)
        if loudest > LOUDEST:
            yield Spot(call, f"the noise has a deviation of {loudest:g}, on actions between -1 and 1: every action is an extreme one")


def holds_everything(script: Script, size: float) -> bool:
    """Whether a memory is as large as all that a model ever sees: a short trial, or rows that the script puts in by itself."""
    given = [argument(call, 0, "total_timesteps") for call in script.calls("learn")]
    budgets = [script.constant(each) if each is not None else None for each in given]
    return all(budget is not None and budget <= size for budget in budgets)


def ends_by_the_clock(script: Script, model: ast.Call) -> bool:
    """Whether the agent's environment is one of this script whose steps are counted, and whose count terminates every episode."""
    given = argument(model, 1, "env")
    parts = [part for part, _ in flow.made_of(script, given)] if given is not None else []
    named = {words.own_name(part.func if isinstance(part, ast.Call) else part) for part in parts}
    for own in (each for each in script.all(ast.ClassDef) if each.name in named):
        step = next((part for part in own.body if isinstance(part, ast.FunctionDef) and part.name == "step"), None)
        if step is None:
            continue
        counted = {ast.unparse(each.target) for each in script.inside(step, ast.AugAssign) if script.constant(each.value) is not None}
        for value in script.inside(step, ast.Return) if counted else ():
            ended = value.value.elts[2] if isinstance(value.value, ast.Tuple) and len(value.value.elts) == 5 else None
            if ended is not None and any(counted & {ast.unparse(part) for part in ast.walk(each)} for each in _any_of(script, ended)):
                return True
    return False


def ends_with_each_step(script: Script) -> bool:
    """Whether an environment of the script ends every episode with its first step."""
    steps = [each for each in script.functions if each.name == "step"]
    five = [
        each.value.elts[2]
        for step in steps
        for each in script.inside(step, ast.Return)
        if isinstance(each.value, ast.Tuple) and len(each.value.elts) == 5
    ]
    return bool(five) and all(isinstance(each, ast.Constant) and each.value is True for each in five)


def _any_of(script: Script, node: ast.AST) -> Iterator[ast.Compare]:
    """The comparisons each of which makes a condition true."""
    made = script.resolve(node)
    if isinstance(made, ast.BoolOp) and isinstance(made.op, ast.Or):
        for each in made.values:
            yield from _any_of(script, each)
    elif isinstance(made, ast.BinOp) and isinstance(made.op, ast.BitOr):
        yield from _any_of(script, made.left)
        yield from _any_of(script, made.right)
    elif isinstance(made, ast.Call) and script.last(made) in ("bool", "bool_") and made.args:
        yield from _any_of(script, made.args[0])
    elif isinstance(made, ast.Compare):
        yield made


def _longer_than_the_budget(script: Script, kept: str, call: ast.Call) -> Iterator[Spot]:
    """Steps before learning, or between two copies of the target, that the run does not have."""
    budgets = [script.constant(argument(each, 0, "total_timesteps")) for each in script.calls("learn") if script.owner(each) == kept]
    known = [
        each * (_repeats(script, where) or 1.0) for each, where in zip(budgets, _learned(script, kept), strict=True) if each is not None
    ]
    for name, happens in (("learning_starts", "learning begins"), ("target_update_interval", "the target network is copied")):
        number = number_of(script, call, name, None)
        if number is not None and known and len(known) == len(budgets) and number >= sum(known):
            yield Spot(
                keyword(call, name) or call, f"{name} is {number:g}, and the whole budget {sum(known):g} steps: {happens} when it is over"
            )


def _learned(script: Script, kept: str) -> list[ast.Call]:
    return [call for call in script.calls("learn") if script.owner(call) == kept]


def _repeats(script: Script, call: ast.Call) -> float | None:
    """How often a loop over a range runs a call."""
    loop = next(iter(script.loops(call)), None)
    counted = loop.iter if isinstance(loop, ast.For) and script.called(loop.iter) == "range" else None
    return script.constant(counted.args[0]) if isinstance(counted, ast.Call) and len(counted.args) == 1 else None


def number_of(script: Script, call: ast.Call, name: str, default: float | None) -> float | None:
    """A setting as a number: given by its name, or in a dictionary that is unpacked into the call."""
    given = keyword(call, name)
    for each in call.keywords if given is None else ():
        settings = script.resolve(each.value) if each.arg is None else None
        if isinstance(settings, ast.Call) and script.called(settings) == "dict":
            given = given or keyword(settings, name)
        elif isinstance(settings, ast.Dict):
            given = given or next(
                (value for key, value in zip(settings.keys, settings.values, strict=True) if getattr(key, "value", None) == name), None
            )
    return default if given is None else script.constant(given)


def n_envs(script: Script, node: ast.AST | None) -> float | None:
    """How many copies an environment has; 1 for a plain one, None if the script does not show it."""
    for call in chain(script, node):
        if script.last(call) in ("make_vec_env", "make_atari_env"):
            given = argument(call, 1, "n_envs")
            return 1.0 if given is None else script.constant(given)
        if script.last(call) in VECTORS:
            return _copies(script, _made_of(script, call))
        if script.last(call) == "make":
            return 1.0
    return 1.0 if isinstance(node, ast.Constant) else None


def _copies(script: Script, made_of: ast.AST | None) -> float | None:
    if isinstance(made_of, ast.List):
        return float(len(made_of.elts))
    if isinstance(made_of, ast.ListComp) and isinstance(made_of.generators[0].iter, ast.Call):
        counted = made_of.generators[0].iter
        return script.constant(counted.args[-1]) if script.called(counted) == "range" and counted.args else None
    return None


def _made_of(script: Script, call: ast.Call) -> ast.AST | None:
    """The list of functions that a vector environment is built from."""
    given = argument(call, 0, "env_fns")
    return script.resolve(given) if given is not None else None


@check("COD801", Severity.MEDIUM, ["raffin2021sb3"])
def batch_does_not_divide_rollout(script: Script) -> Iterator[Spot]:
    """The rollout is not a multiple of the minibatch.

    ## Why it hurts
    Each epoch ends on a smaller minibatch that takes a full-size step; with one row left over, its normalized advantage is NaN.

    ## When it is fine
    Where the rest is nearly a whole minibatch.

    ## Fix
    Choose batch_size so that it divides n_steps x n_envs.

    ## Wrong
    ```python
    from stable_baselines3 import PPO

    env = make_vec_env("CartPole-v1", n_envs=5)
    model = PPO("MlpPolicy", env, n_steps=100, batch_size=64, seed=0)
    ```

    ## Right
    ```python
    from stable_baselines3 import PPO

    env = make_vec_env("CartPole-v1", n_envs=4)
    model = PPO("MlpPolicy", env, n_steps=128, batch_size=64, seed=0)
    ```
    """
    for call in models(script).values():
        if script.last(call) not in ("PPO", "RecurrentPPO", "MaskablePPO"):
            continue
        steps, batch = DEFAULTS[script.last(call)]
        n_steps, rows, envs = (
            number_of(script, call, "n_steps", steps),
            number_of(script, call, "batch_size", batch),
            n_envs(script, argument(call, 1, "env")),
        )
        if not n_steps or not rows or not envs or rows < 1:
            continue
        rest = (n_steps * envs) % rows
        if rest:
            text = (
                f"{n_steps:g} steps x {envs:g} envs = {n_steps * envs:g} transitions, in minibatches of {rows:g}: the last one has {rest:g}"
            )
            short = n_steps * envs < rows and n_steps < LEAST_STEPS
            place = keyword(call, "n_steps" if short else "batch_size") or call
            yield Spot(place, text + (", whose deviation is NaN" if rest == 1 else ""))


@check("COD802", Severity.MEDIUM, ["schulman2016nuts"])
def few_rollouts(script: Script) -> Iterator[Spot]:
    """The budget is a handful of rollouts.

    ## Why it hurts
    However good each update is, there are too few of them: PPO's default rollout is 2048 steps for every copy of the environment.

    ## When it is fine
    A test that the script runs at all.

    ## Fix
    More steps, or a smaller n_steps.

    ## Wrong
    ```python
    from stable_baselines3 import PPO

    env = make_vec_env("CartPole-v1", n_envs=8)
    model = PPO("MlpPolicy", env, seed=0)
    model.learn(total_timesteps=20_000)
    ```

    ## Right
    ```python
    from stable_baselines3 import PPO

    env = make_vec_env("CartPole-v1", n_envs=8)
    model = PPO("MlpPolicy", env, n_steps=32, batch_size=256, seed=0)
    model.learn(total_timesteps=100_000)
    ```
    """
    for name, call in models(script).items():
        if script.last(call) not in DEFAULTS:
            continue
        n_steps, envs = number_of(script, call, "n_steps", DEFAULTS[script.last(call)][0]), n_envs(script, argument(call, 1, "env"))
        for learn in (each for each in script.calls("learn") if script.owner(each) == name):
            total = script.constant(argument(learn, 0, "total_timesteps"))
            if total and n_steps and envs and total < FEW_ROLLOUTS * n_steps * envs and not script.loops(learn):
                too_long = keyword(call, "n_steps") if total < n_steps * envs else None
                for where in (learn, *([too_long] if too_long is not None else [])):
                    yield Spot(
                        where,
                        f"{total:g} steps are {max(total / (n_steps * envs), 1):.0f} rollouts of {n_steps * envs:g}: hardly any update",
                        "more steps, or a smaller n_steps",
                        1.0 if total < n_steps * envs else 0.4,
                    )


@check("COD803", Severity.MEDIUM, ["raffin2021sb3"])
def learn_in_a_loop(script: Script) -> Iterator[Spot]:
    """`learn` is called in a loop and starts counting at 0 each time.

    ## Why it hurts
    Schedules restart with every call, so the learning rate jumps back up; logs overlap.

    ## When it is fine
    A new agent in every round; that is left alone.

    ## Fix
    model.learn(steps, reset_num_timesteps=False)

    ## Wrong
    ```python
    from stable_baselines3 import PPO

    model = PPO("MlpPolicy", "CartPole-v1", seed=0)
    for round in range(10):
        model.learn(10_000)
        model.save(f"agent_{round}")
    ```

    ## Right
    ```python
    from stable_baselines3 import PPO

    model = PPO("MlpPolicy", "CartPole-v1", seed=0)
    for round in range(10):
        model.learn(10_000, reset_num_timesteps=False)
        model.save(f"agent_{round}")
    ```
    """
    for call in script.calls("learn"):
        if script.is_sb3 and script.loops(call) and keyword(call, "reset_num_timesteps") is None and not _is_made_in(script, call):
            yield Spot(call, "each call starts counting at 0 again: schedules restart, logs overlap", "learn(…, reset_num_timesteps=False)")


def _is_made_in(script: Script, call: ast.Call) -> bool:
    """A new agent in every round of the loop."""
    inside = {node for loop in script.loops(call)[:1] for node in ast.walk(loop)}
    return any(assignment.statement in inside for assignment in script.assignments(script.owner(call), call))


@check("COD804", Severity.HIGH, ["raffin2021sb3"])
def one_environment_in_many(script: Script) -> Iterator[Spot]:
    """A vector environment holds the same object several times.

    ## Why it hurts
    The copies step and reset each other: episodes are mixed, and nothing that is recorded belongs together.

    ## When it is fine
    Never.

    ## Fix
    DummyVecEnv([lambda: gym.make(env_id) for _ in range(n)])

    ## Wrong
    ```python
    import gymnasium as gym
    from stable_baselines3.common.vec_env import DummyVecEnv

    env = gym.make("CartPole-v1")
    venv = DummyVecEnv([lambda: env for _ in range(4)])
    ```

    ## Right
    ```python
    import gymnasium as gym
    from stable_baselines3.common.vec_env import DummyVecEnv

    venv = DummyVecEnv([lambda: gym.make("CartPole-v1") for _ in range(4)])
    ```
    """
    for call in script.calls(*VECTORS):
        given = _made_of(script, call)
        repeated = given
        many = False
        if isinstance(given, ast.BinOp) and isinstance(given.op, ast.Mult):
            repeated = given.left if isinstance(given.left, ast.List) else given.right
            many = (script.constant(given.right if repeated is given.left else given.left) or 2) > 1
        if isinstance(given, ast.ListComp):
            repeated, many = ast.List(elts=[given.elt]), True
        if isinstance(given, ast.List) and len(given.elts) > 1:
            many = len({ast.dump(elt) for elt in given.elts}) < len(given.elts)
        first = repeated.elts[0] if isinstance(repeated, ast.List) and repeated.elts else None
        if (
            many
            and isinstance(first, ast.Lambda)
            and isinstance(first.body, ast.Name)
            and first.body.id not in {each.arg for each in first.args.args}
        ):
            yield Spot(
                call,
                f"all copies are the one object `{first.body.id}`: they step each other's episodes",
                "[lambda: gym.make(…) for _ in range(n)]",
            )


@check("COD805", Severity.HIGH, ["raffin2021sb3"])
def closure_over_loop_variable(script: Script) -> Iterator[Spot]:
    """A lambda in a list uses the loop's variable, which it sees only when it is called.

    ## Why it hurts
    Every lambda sees the last value: all copies get the same seed, rank or level.

    ## When it is fine
    Lambdas that are called at once.

    ## Fix
    lambda i=i: make(i)

    ## Wrong
    ```python
    envs = SyncVectorEnv([lambda: make_env(i) for i in range(8)])
    ```

    ## Right
    ```python
    envs = SyncVectorEnv([lambda i=i: make_env(i) for i in range(8)])
    ```
    """
    for node in script.all(ast.ListComp):
        if not isinstance(node.elt, ast.Lambda):
            continue
        looped = {each.id for generator in node.generators for each in ast.walk(generator.target) if isinstance(each, ast.Name)}
        own = {each.arg for each in [*node.elt.args.args, *node.elt.args.kwonlyargs]}
        used = {each.id for each in ast.walk(node.elt.body) if isinstance(each, ast.Name)}
        late = sorted((looped & used) - own - {"_"})
        if late:
            yield Spot(
                node, f"every lambda sees the last value of `{late[0]}`: all copies are made alike", f"lambda {late[0]}={late[0]}: …"
            )


@check("COD806", Severity.MEDIUM, ["henderson2018matters"])
def same_seed_in_every_copy(script: Script) -> Iterator[Spot]:
    """Every copy of the environment is made with the same seed.

    ## Why it hurts
    They play the same episodes: eight copies bring the data of one.

    ## When it is fine
    Paired comparisons that mean it.

    ## Fix
    seed + i

    ## Wrong
    ```python
    envs = SyncVectorEnv([make_env("CartPole-v1", seed=seed) for i in range(8)])
    ```

    ## Right
    ```python
    envs = SyncVectorEnv([make_env("CartPole-v1", seed=seed + i) for i in range(8)])
    ```
    """
    for call in script.calls(*VECTORS):
        given = _made_of(script, call)
        if not isinstance(given, ast.ListComp):
            continue
        looped = {node.id for generator in given.generators for node in ast.walk(generator.target) if isinstance(node, ast.Name)}
        used = {node.id for node in ast.walk(given.elt) if isinstance(node, ast.Name)}
        seeded = words.mentions(given.elt, lambda name: "seed" in name.lower()) or any(
            key.arg == "seed" for node in ast.walk(given.elt) if isinstance(node, ast.Call) for key in node.keywords
        )
        if seeded and not looped & used:
            yield Spot(given, "every copy gets the same seed: they play the same episodes", "seed + i")


@check("COD807", Severity.LOW, ["raffin2021sb3"])
def processes_without_guard(script: Script) -> Iterator[Spot]:
    """Worker processes are started at the top level of the script.

    ## Why it hurts
    Where processes are spawned (Windows, macOS), each worker imports the script again and starts workers of its own.

    ## When it is fine
    On Linux with fork, and in notebooks.

    ## Fix
    Put it under if __name__ == "__main__":

    ## Wrong
    ```python
    from stable_baselines3.common.vec_env import SubprocVecEnv

    venv = SubprocVecEnv([make for _ in range(4)])
    ```

    ## Right
    ```python
    from stable_baselines3.common.vec_env import SubprocVecEnv

    if __name__ == "__main__":
        venv = SubprocVecEnv([make for _ in range(4)])
    ```
    """
    for call in script.calls("SubprocVecEnv", "AsyncVectorEnv"):
        guarded = any(
            isinstance(ancestor, ast.If) and "__name__" in set(words.identifiers(ancestor.test)) for ancestor in script.ancestors(call)
        )
        if script.scope(call) is script.tree and not guarded and not script.source.cells:
            yield Spot(call, "worker processes import this script again, and start workers of their own", 'if __name__ == "__main__":')


@check("COD808", Severity.LOW, ["raffin2021sb3"])
def returns_not_recorded(script: Script) -> Iterator[Spot]:
    """A vector environment is built without Monitor.

    ## Why it hurts
    No return is logged: ep_rew_mean is missing, and nobody can see whether the agent learns.

    ## When it is fine
    Where VecMonitor or make_vec_env records; those are left alone.

    ## Fix
    DummyVecEnv([lambda: Monitor(gym.make(env_id))])

    ## Wrong
    ```python
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    venv = DummyVecEnv([lambda: gym.make("CartPole-v1")])
    model = PPO("MlpPolicy", venv, seed=0)
    ```

    ## Right
    ```python
    from stable_baselines3 import PPO
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv

    venv = DummyVecEnv([lambda: Monitor(gym.make("CartPole-v1"))])
    model = PPO("MlpPolicy", venv, seed=0)
    ```
    """
    if not models(script) or script.words & {"Monitor", "VecMonitor", "make_vec_env", "make_atari_env"}:
        return
    for call in script.calls("DummyVecEnv", "SubprocVecEnv"):
        yield Spot(call, "without Monitor no return is logged: ep_rew_mean is missing from every log", "lambda: Monitor(gym.make(…))")
        return


@check("COD810", Severity.HIGH, ["raffin2021sb3"])
def callback_stops_training(script: Script) -> Iterator[Spot]:
    """A callback ends training at its first call.

    ## Why it hurts
    `_on_step` returns whether to go on: False, or a last line that returns it whatever happened, stops `learn` after one step. The agent
    that is saved and evaluated is the untrained one.

    ## When it is fine
    Never without a condition.

    ## Fix
    return True

    ## Wrong
    ```python
    from stable_baselines3.common.callbacks import BaseCallback


    class Logger(BaseCallback):
        def _on_step(self):
            self.logger.record("x", 1)
            return False
    ```

    ## Right
    ```python
    from stable_baselines3.common.callbacks import BaseCallback


    class Logger(BaseCallback):
        def _on_step(self):
            self.logger.record("x", 1)
            return True
    ```
    """
    for function in script.functions:
        if function.name != "_on_step" or not script.is_sb3:
            continue
        ends = [each for each in script.inside(function, ast.Return) if script.scope(each) is function]
        unconditional = [each for each in ends if script.parents.get(each) is function and _is_false(each)]
        early = next((each for each in function.body if isinstance(each, ast.If)), None)
        if unconditional:
            yield Spot(
                unconditional[0], "every call ends with False, and False stops training: it is over after the first step", "return True"
            )
        elif ends and early is not None and all(_is_false(each) for each in script.inside(early, ast.Return)) and _waits(early):
            first = script.inside(early, ast.Return)
            for each in first:
                yield Spot(each, "False stops training, and nothing has been recorded at the first step: it is over at once", "return True")


def _is_false(node: ast.Return) -> bool:
    return isinstance(node.value, ast.Constant) and node.value.value is False


def _waits(node: ast.If) -> bool:
    """Whether a condition holds while there are no results yet: len(x) == 0, not x."""
    test = node.test
    empty = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq | ast.Lt) and "len(" in ast.unparse(test.left)
    return empty or (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not))
