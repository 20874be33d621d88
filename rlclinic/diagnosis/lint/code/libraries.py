"""What a script does with a library's agents: whether they are trained before they are judged, in which tasks, and by which rewards."""

import ast
from collections.abc import Callable, Iterator
from typing import Final

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.lint.code.environments import wrappers
from rlclinic.diagnosis.lint.code.reading import words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot, position
from rlclinic.diagnosis.lint.code.symbolic import agents, formulas
from rlclinic.diagnosis.lint.code.symbolic.execution import Closure, Items, Record, Symbol, Value
from rlclinic.diagnosis.lint.code.symbolic.formulas import called, execution

_JUDGED: Final = frozenset({"predict", "save"})
_KEPT_OUT: Final = frozenset({"learn", "predict", "save", "get_env", "set_logger", "set_random_seed", "get_vec_normalize_env"})
_CALLBACKS: Final = frozenset(
    {"EvalCallback", "CheckpointCallback", "CallbackList", "StopTrainingOnRewardThreshold", "EveryNTimesteps", "MaskableEvalCallback",
     "StopTrainingOnNoModelImprovement", "StopTrainingOnMaxEpisodes"}
)  # fmt: skip
_NOISES: Final = frozenset({"NormalActionNoise", "OrnsteinUhlenbeckActionNoise", "VectorizedActionNoise"})
_DISCRETE: Final = (
    "CartPole-",
    "MountainCar-",
    "Acrobot-",
    "LunarLander-",
    "FrozenLake",
    "Taxi-",
    "CliffWalking-",
    "Blackjack-",
    "ALE/",
    "MiniGrid-",
)
_CONTINUOUS: Final = (
    "Pendulum-", "MountainCarContinuous-", "LunarLanderContinuous-", "BipedalWalker", "HalfCheetah-", "Hopper-", "Walker2d-", "Ant-",
    "Humanoid", "Swimmer-", "Reacher-", "Pusher-", "InvertedPendulum-", "InvertedDoublePendulum-",
)  # fmt: skip
_NEEDS_DISCRETE: Final = frozenset({"DQN", "QRDQN"})
_NEEDS_BOX: Final = frozenset({"SAC", "TD3", "DDPG", "TQC"})


def layers(env: Value | None, depth: int = 12) -> list[Symbol | Record]:
    """An environment and what it wraps, from the outside in: libraries' wrappers and the script's own, vectors by their first copy."""
    made: list[Symbol | Record] = []
    while env is not None and len(made) < depth:
        if isinstance(env, Items):
            env = env.items[0] if env.items else None
        elif isinstance(env, Symbol) and env.op == "env":
            made.append(env)
            env = env.stored[0] if env.stored else env.args[0] if env.args else None
        elif isinstance(env, Record) and (
            env.kind.is_environment() or any("Wrapper" in name or name.endswith("Env") for name in env.kind.external())
        ):
            made.append(env)
            env = env.attributes.get("given")
        else:
            break
    return made


@check("COD711", Severity.HIGH, ["raffin2021sb3"])
def untrained_agent_judged(script: Script) -> Iterator[Spot]:
    """An agent is evaluated or saved that never learned.

    ## Why it hurts
    It was made and not loaded, and `learn` is never called on it: what is measured is a random policy, whatever was trained elsewhere.

    ## When it is fine
    As the baseline of an untrained agent; say so in its name.

    ## Fix
    model.learn(total_timesteps=…) before, or Algorithm.load(path).

    ## Wrong
    ```python
    from stable_baselines3 import DQN
    from stable_baselines3.common.evaluation import evaluate_policy

    model = DQN("MlpPolicy", "CartPole-v1")
    model.learn(50_000)
    model.save("dqn")
    final = DQN("MlpPolicy", "CartPole-v1")
    print(evaluate_policy(final, eval_env))
    ```

    ## Right
    ```python
    from stable_baselines3 import DQN
    from stable_baselines3.common.evaluation import evaluate_policy

    model = DQN("MlpPolicy", "CartPole-v1")
    model.learn(50_000)
    model.save("dqn")
    final = DQN.load("dqn")
    print(evaluate_policy(final, eval_env))
    ```
    """
    run = execution(script)
    if not script.is_sb3 or not run.complete:
        return
    names = {ast.unparse(target).lower() for each in script.all(ast.Assign) for target in each.targets}
    for model in agents.models(run):
        uses: list[Symbol] = []
        other = False
        for call in run.calls:
            if call is model:
                continue
            if call.op == "method" and call.args and agents.is_agent(call.args[0], model):
                if called(call) in _JUDGED:
                    uses.append(call)
                other = other or called(call) not in _KEPT_OUT - {"learn"}
            elif any(agents.is_agent(part, model) for part in (*call.args, *call.keys.values())):
                if called(call) == "evaluate_policy":
                    uses.append(call)
                else:
                    other = True
        holders = [record for record in run.records if model in record.attributes.values()]
        escapes = any(event.value is model or event.subject is model for event in run.events)
        baseline = any(word in name for name in names for word in ("random", "untrained", "baseline", "before", "fresh"))
        learned = any(called(each) == "learn" for each in run.calls)
        if (
            uses
            and not other
            and not holders
            and not escapes
            and not baseline
            and (learned or any(called(each) == "save" for each in uses))
        ):
            for where in dict.fromkeys((uses[0].node, model.node)):
                yield Spot(
                    where or ast.Pass(),
                    "this agent was made, and neither trained nor loaded: a random policy is judged",
                    "model.learn(…)",
                )


@check("COD712", Severity.MEDIUM, ["raffin2021sb3"])
def evaluated_by_changed_rewards(script: Script) -> Iterator[Spot]:
    """The evaluation environment changes rewards.

    ## Why it hurts
    Returns are in units of the wrapper: they can be compared neither with the literature nor with another scale, and a shaping that is
    gamed looks like success.

    ## When it is fine
    Where the changed reward is the task's own.

    ## Fix
    Leave scaling, clipping and shaping to the training environment.

    ## Wrong
    ```python
    import gymnasium as gym
    from stable_baselines3 import SAC
    from stable_baselines3.common.evaluation import evaluate_policy


    class Scaled(gym.RewardWrapper):
        def reward(self, reward):
            return 0.1 * reward


    model = SAC("MlpPolicy", Scaled(gym.make("Pendulum-v1")))
    model.learn(10_000)
    print(evaluate_policy(model, Scaled(gym.make("Pendulum-v1"))))
    ```

    ## Right
    ```python
    import gymnasium as gym
    from stable_baselines3 import SAC
    from stable_baselines3.common.evaluation import evaluate_policy


    class Scaled(gym.RewardWrapper):
        def reward(self, reward):
            return 0.1 * reward


    model = SAC("MlpPolicy", Scaled(gym.make("Pendulum-v1")))
    model.learn(10_000)
    print(evaluate_policy(model, gym.make("Pendulum-v1")))
    ```
    """
    run = execution(script)
    for call, env in agents.evaluated(run):
        held = layers(env)
        for each in held:
            own = isinstance(each, Record) and any(name.endswith("RewardWrapper") for name in each.kind.external())
            known = isinstance(each, Symbol) and str(each.data) in ("TransformReward", "NormalizeReward")
            if own or known:
                name = each.kind.name if isinstance(each, Record) else each.data
                for where in (held[0].node, call.node):
                    if where is not None:
                        yield Spot(where, f"{name} changes the rewards that the agent is judged by", "evaluate on raw rewards")
                break


@check("COD811", Severity.MEDIUM, ["raffin2021sb3"])
def callback_never_passed(script: Script) -> Iterator[Spot]:
    """A callback is made and given to nobody.

    ## Why it hurts
    Nothing is evaluated, saved or stopped by it: the best agent is not kept, and the script does not say so.

    ## When it is fine
    Never; delete it.

    ## Fix
    model.learn(…, callback=…)

    ## Wrong
    ```python
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import EvalCallback

    model = PPO("MlpPolicy", "CartPole-v1")
    evaluation = EvalCallback(eval_env, eval_freq=1000)
    model.learn(100_000)
    ```

    ## Right
    ```python
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import EvalCallback

    model = PPO("MlpPolicy", "CartPole-v1")
    evaluation = EvalCallback(eval_env, eval_freq=1000)
    model.learn(100_000, callback=evaluation)
    ```
    """
    if not script.is_sb3:
        return
    own = {kind.name for kind in script.classes if any(ast.unparse(base).endswith("Callback") for base in kind.bases)}
    for each in script.all(ast.Assign):
        made = each.value.elts if isinstance(each.value, ast.List | ast.Tuple) else [each.value]
        if (
            isinstance(each.targets[0], ast.Name)
            and made
            and all(isinstance(one, ast.Call) and script.last(one) in _CALLBACKS | own for one in made)
        ):
            name = each.targets[0].id
            if not any(one.id == name and isinstance(one.ctx, ast.Load) for one in script.all(ast.Name)):
                yield Spot(each, f"`{name}` is given to nobody: learn does not know of it", f"callback={name}")


@check("COD812", Severity.HIGH, ["raffin2021sb3"])
def agent_of_another_action_space(script: Script) -> Iterator[Spot]:
    """An agent is made for actions that it cannot take.

    ## Why it hurts
    DQN chooses among numbered actions, SAC, TD3 and DDPG among vectors: with the other kind, making the agent raises.

    ## When it is fine
    Never.

    ## Fix
    DQN, QRDQN, PPO or A2C for Discrete; SAC, TD3, DDPG, TQC, PPO or A2C for Box.

    ## Wrong
    ```python
    from stable_baselines3 import DQN

    model = DQN("MlpPolicy", "Pendulum-v1")
    model.learn(10_000)
    ```

    ## Right
    ```python
    from stable_baselines3 import SAC

    model = SAC("MlpPolicy", "Pendulum-v1")
    model.learn(10_000)
    ```
    """
    run = execution(script)
    for model in agents.models(run):
        env = model.args[1] if len(model.args) > 1 else model.keys.get("env")
        held = layers(env)
        inner = held[-1] if held else env
        if isinstance(inner, Symbol) and inner.op == "env":
            inner = inner.args[0] if inner.args else inner.keys.get("id")
        changed = [
            each
            for each in held[:-1]
            if isinstance(each, Record) and not any(name.endswith(("RewardWrapper", "ObservationWrapper")) for name in each.kind.external())
        ]
        changed_too = [each for each in held if isinstance(each, Symbol) and "Action" in str(each.data)]
        if changed or changed_too:
            continue
        kind = _space(script, inner)
        continuous = any("continuous" in each.keys for each in held if isinstance(each, Symbol))
        if called(model) in _NEEDS_DISCRETE and kind == "Box":
            yield Spot(
                model.node or ast.Pass(), f"{called(model)} chooses among numbered actions, and this task takes vectors", "SAC, TD3 or PPO"
            )
        elif called(model) in _NEEDS_BOX and kind == "Discrete" and not continuous:
            yield Spot(model.node or ast.Pass(), f"{called(model)} chooses vectors, and this task takes numbered actions", "DQN or PPO")


def _space(script: Script, inner: Value | None) -> str:
    """Box or Discrete, by the name of a known task or by an environment of the script; "" where that is not seen."""
    if isinstance(inner, Symbol) and inner.op == "const" and isinstance(inner.data, str):
        name = inner.data.rpartition(":")[2]
        return "Box" if name.startswith(_CONTINUOUS) else "Discrete" if name.startswith(_DISCRETE) else ""
    if isinstance(inner, Record):
        for kind, methods in wrappers.defined(script):
            if kind.name == inner.kind.name:
                made = {
                    words.own_name(each.value.func)
                    for method in methods.values()
                    for each in ast.walk(method)
                    if isinstance(each, ast.Assign)
                    and wrappers.own_attribute(each.targets[0]) == "action_space"
                    and isinstance(each.value, ast.Call)
                }
                return made.pop() if len(made) == 1 else ""
    return ""


def noise_never_given(script: Script) -> Iterator[Spot]:
    """TD3 and DDPG act without noise unless they are given some."""
    run = execution(script)
    made = [each for each in run.calls if called(each) in _NOISES]
    for model in agents.models(run):
        if called(model) in ("TD3", "DDPG") and "action_noise" not in model.keys and not any(each is None for each in model.keys.values()):
            learns = any(called(each) == "learn" and each.args and agents.is_agent(each.args[0], model) for each in run.calls)
            hidden = any(key.arg is None for key in getattr(model.node, "keywords", ())) and not _is_known_table(model)
            if learns and not hidden:
                strength = 1.0 if made else 0.4
                yield Spot(
                    model.node or ast.Pass(),
                    f"{called(model)} is deterministic and gets no action_noise: it never tries anything",
                    "action_noise=NormalActionNoise(…)",
                    strength,
                )


def _is_known_table(model: Symbol) -> bool:
    return len(model.keys) > sum(key.arg is not None for key in getattr(model.node, "keywords", ()))


def rate_of_schedule(script: Script) -> Iterator[Spot]:
    """A schedule that begins at a rate that nobody uses."""
    run = execution(script)
    for model in agents.models(run):
        given = model.keys.get("learning_rate")
        rate = formulas.evaluated(run.answer(given, 1.0)) if isinstance(given, Closure) else None
        if rate is not None and rate >= agents.MOST_RATE:
            yield Spot(
                agents.given(model, "learning_rate") or ast.Pass(),
                f"the learning rate begins at {rate:g}: the policy jumps with every step",
            )


def resumed_without_replay(script: Script) -> Iterator[Spot]:
    """An agent with a replay is loaded and trained on, and the replay that was saved beside it is not loaded."""
    run = execution(script)
    saved = any(called(each) == "save_replay_buffer" for each in run.calls)
    if not saved or any(called(each) == "load_replay_buffer" for each in run.calls):
        return
    for learn in run.calls:
        if called(learn) == "learn" and learn.args and isinstance(learn.args[0], Symbol) and called(learn.args[0]) == "load":
            yield Spot(
                learn.node or ast.Pass(), "training goes on with an empty replay, though one was saved", "model.load_replay_buffer(path)"
            )


def _is_dropped(script: Script, call: Symbol) -> bool:
    where = position(call.node) if call.node is not None else None
    return any(isinstance(each.value, ast.Call) and position(each.value) == where for each in script.all(ast.Expr))


def load_dropped(script: Script) -> Iterator[Spot]:
    """agent.load(…) on an agent, whose result nobody keeps."""
    run = execution(script)
    made = agents.models(run) if script.is_sb3 else []
    for call in run.calls:
        loaded = called(call) == "load" and call.op == "method" and bool(call.args)
        if loaded and any(agents.is_agent(call.args[0], model) for model in made) and _is_dropped(script, call):
            yield Spot(call.node or ast.Pass(), "load() returns the loaded agent and leaves this one as it is", "model = PPO.load(…)")


def seed_of_another(script: Script) -> Iterator[Spot]:
    """A function gets a seed and hands a fixed one on to what it makes."""
    takers = {each.name: [one.arg for one in each.args.args] for each in script.functions}
    fixed = {
        target.id for each in script.tree.body if isinstance(each, ast.Assign) for target in each.targets if isinstance(target, ast.Name)
    }
    for function in script.functions:
        seeds = {each.arg for each in [*function.args.args, *function.args.kwonlyargs] if "seed" in each.arg.lower()}
        if not seeds or not script.is_sb3:
            continue
        for call in script.inside(function, ast.Call):
            names = takers.get(script.last(call), [])
            given = next((key.value for key in call.keywords if key.arg == "seed"), None)
            if given is None and "seed" in names and names.index("seed") < len(call.args) and isinstance(call.func, ast.Name):
                given = call.args[names.index("seed")]
            if given is None or script.last(call) not in agents.ALGORITHMS | takers.keys():
                continue
            used = {one.id for one in ast.walk(given) if isinstance(one, ast.Name)}
            if isinstance(given, ast.Subscript) and used <= fixed and used and not used & seeds:
                yield Spot(
                    given,
                    f"the seed here is `{ast.unparse(given)}` whatever seed {function.name} is given: runs over seeds are one run",
                    "seed=seed",
                )


MEANINGS: Final[dict[str, tuple[Callable[[Script], Iterator[Spot]], ...]]] = {
    "COD413": (rate_of_schedule,),
    "COD806": (seed_of_another,),
    "COD708": (load_dropped,),
    "COD809": (noise_never_given, resumed_without_replay),
}
"""What is added to which check."""
