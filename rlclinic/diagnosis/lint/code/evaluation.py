"""Evaluation: the same normalizer, the same wrappers, another environment, the intended actions."""

import ast
from collections.abc import Iterator

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.lint.code.reading import words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot, argument, keyword, position

ALGORITHMS = frozenset(
    {"PPO", "A2C", "DQN", "SAC", "TD3", "DDPG", "TQC", "QRDQN", "TRPO", "RecurrentPPO", "MaskablePPO", "ARS", "CrossQ", "HER"}
)
SEEN = frozenset(
    {
        "VecFrameStack", "FrameStackObservation", "FrameStack", "ResizeObservation", "GrayscaleObservation", "GrayScaleObservation",
        "RescaleAction", "ClipAction", "AtariWrapper", "AtariPreprocessing", "FlattenObservation", "TimeAwareObservation",
        "TransformObservation", "RescaleObservation", "MaxAndSkipObservation", "DtypeObservation", "NormalizeObservation",
        "FilterObservation", "DelayObservation", "StickyAction", "VecNormalize",
    }
)  # fmt: skip
"""Wrappers that change what the agent sees or does."""


def models(script: Script) -> dict[str, ast.Call]:
    """Stable-Baselines3 agents: the names they are kept under, and the call that makes them."""
    models_made = {}
    for node in script.all(ast.Assign):
        if isinstance(node.value, ast.Call) and script.last(node.value) in ALGORITHMS and script.is_sb3:
            models_made[script.dotted(node.targets[0])] = node.value
    return models_made


def chain(script: Script, node: ast.AST | None, depth: int = 8) -> list[ast.Call]:
    """The calls that an environment was made by, from the outermost wrapper to gymnasium.make."""
    calls: list[ast.Call] = []
    value = node
    while value is not None and depth > 0:
        depth -= 1
        value = script.resolve(value)
        if not isinstance(value, ast.Call):
            break
        calls.append(value)
        value = _inside(script, value)
    return calls


def _inside(script: Script, call: ast.Call) -> ast.AST | None:
    if script.last(call) == "load" and len(call.args) > 1:
        return call.args[1]
    given = argument(call, 0, "env") or keyword(call, "venv") or argument(call, 0, "env_id")
    if isinstance(given, ast.List) and given.elts:
        given = given.elts[0]
    if isinstance(given, ast.Lambda):
        given = given.body
    if isinstance(given, ast.ListComp):
        given = given.elt.body if isinstance(given.elt, ast.Lambda) else given.elt
    return given


def _training_env(script: Script) -> ast.AST | None:
    envs = [argument(call, 1, "env") for call in models(script).values()]
    return next((env for env in envs if env is not None), None)


def _evaluated(script: Script) -> Iterator[tuple[ast.Call, ast.AST]]:
    """Where environments are used for evaluation."""
    for call in script.calls("evaluate_policy"):
        given = argument(call, 1, "env")
        if given is not None:
            yield call, given
    for call in script.calls("EvalCallback", "MaskableEvalCallback"):
        given = argument(call, 0, "eval_env")
        if given is not None:
            yield call, given


def _is_normalized(script: Script, node: ast.AST | None) -> bool:
    made = chain(script, node)
    return any(script.last(call) == "VecNormalize" or script.called(call).endswith("VecNormalize.load") for call in made)


@check("COD701", Severity.HIGH, ["raffin2021sb3"])
def evaluation_without_normalizer(script: Script) -> Iterator[Spot]:
    """The agent was trained on normalized observations and is evaluated on raw ones.

    ## Why it hurts
    Training looks good and evaluation looks random: the policy has never seen such numbers.

    ## When it is fine
    Never.

    ## Fix
    Wrap the evaluation environment in VecNormalize(…, training=False), with the statistics of training.

    ## Wrong
    ```python
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecNormalize

    env = VecNormalize(make_vec_env("Pendulum-v1", n_envs=4))
    model = PPO("MlpPolicy", env)
    model.learn(100_000)
    eval_env = make_vec_env("Pendulum-v1")
    evaluate_policy(model, eval_env)
    ```

    ## Right
    ```python
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecNormalize

    env = VecNormalize(make_vec_env("Pendulum-v1", n_envs=4))
    model = PPO("MlpPolicy", env)
    model.learn(100_000)
    env.save("stats.pkl")
    eval_env = VecNormalize.load("stats.pkl", make_vec_env("Pendulum-v1"))
    eval_env.training = False
    eval_env.norm_reward = False
    evaluate_policy(model, eval_env)
    ```
    """
    training = _training_env(script)
    if training is None or not _is_normalized(script, training):
        return
    for call, env in _evaluated(script):
        made = chain(script, env)
        if (
            made
            and not _is_normalized(script, env)
            and script.last(made[0]) != "get_env"
            and script.last(made[-1]) in ("make", "make_vec_env", "make_atari_env")
        ):
            yield Spot(call, f"the agent was trained on normalized observations; `{ast.unparse(env)}` shows it raw ones")


@check("COD702", Severity.MEDIUM, ["raffin2021sb3"])
def normalizer_not_saved(script: Script) -> Iterator[Spot]:
    """The agent is saved without the statistics of its normalizer.

    ## Why it hurts
    Loaded later, it sees observations on another scale and acts at random.

    ## When it is fine
    Where the statistics are saved elsewhere.

    ## Fix
    env.save("vecnormalize.pkl") beside model.save(…), or CheckpointCallback(save_vecnormalize=True).

    ## Wrong
    ```python
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import VecNormalize

    env = VecNormalize(make_vec_env("Pendulum-v1"))
    model = PPO("MlpPolicy", env, seed=0)
    model.learn(100_000)
    model.save("agent")
    ```

    ## Right
    ```python
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import VecNormalize

    env = VecNormalize(make_vec_env("Pendulum-v1"))
    model = PPO("MlpPolicy", env, seed=0)
    model.learn(100_000)
    model.save("agent")
    env.save("vecnormalize.pkl")
    ```
    """
    saved = [call for call in script.calls("save") if script.owner(call) in models(script)]
    made = [node for node in script.all(ast.Assign) if script.last(node.value) == "VecNormalize"]
    if not saved or not made or "save_vecnormalize" in script.words:
        return
    kept = {script.dotted(node.targets[0]) for node in made}
    others = [call for call in script.calls("save") if script.owner(call) in kept or "normalize" in ast.unparse(call).lower()]
    if not others:
        yield Spot(
            saved[0], "the agent is saved without the statistics that its observations were normalized with", "env.save('vecnormalize.pkl')"
        )


@check("COD703", Severity.MEDIUM, ["raffin2021sb3"])
def normalizer_learns_in_evaluation(script: Script) -> Iterator[Spot]:
    """The normalizer of the evaluation environment goes on learning, and normalizes rewards.

    ## Why it hurts
    Evaluations drift with their own statistics, and returns are reported in units that nobody knows.

    ## When it is fine
    Never for reported results.

    ## Fix
    VecNormalize(…, training=False, norm_reward=False)

    ## Wrong
    ```python
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import VecNormalize

    venv = VecNormalize.load("stats.pkl", make_vec_env("Pendulum-v1"))
    model = PPO.load("agent")
    ```

    ## Right
    ```python
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import VecNormalize

    venv = VecNormalize.load("stats.pkl", make_vec_env("Pendulum-v1"))
    venv.training = False
    venv.norm_reward = False
    model = PPO.load("agent")
    ```
    """
    if not script.is_sb3:
        return
    stopped = {
        script.dotted(node.value) for node in script.all(ast.Attribute) if node.attr == "training" and isinstance(node.ctx, ast.Store)
    }
    training = words.own_name(_training_env(script) or script.tree)
    for _, env in _evaluated(script):
        made = next((call for call in chain(script, env) if script.last(call) == "VecNormalize"), None)
        if made is not None and keyword(made, "training") is None and words.own_name(env) != training and script.dotted(env) not in stopped:
            text = "its statistics go on changing while the agent is evaluated, and rewards are reported normalized"
            yield Spot(made, text, "VecNormalize(…, training=False, norm_reward=False)")
    used = {words.own_name(env) for _, env in _evaluated(script)}
    if not script.calls("learn") or used:
        for name, value, where in script.named:
            if script.called(value).endswith("VecNormalize.load") and name not in stopped and (name in used or not script.calls("learn")):
                yield Spot(
                    where,
                    "after loading, statistics go on changing and rewards are normalized",
                    f"{name}.training = False; {name}.norm_reward = False",
                )


@check("COD704", Severity.MEDIUM, ["raffin2021sb3"])
def evaluation_on_training_env(script: Script) -> Iterator[Spot]:
    """The environment that is trained on is also used for evaluation.

    ## Why it hurts
    Evaluation in the middle of training resets it and breaks the rollout; shaped or normalized rewards of training are reported as
    the result.

    ## When it is fine
    A quick look after training, with an environment without reward wrappers.

    ## Fix
    Make a second environment: eval_env = Monitor(gym.make(…)).

    ## Wrong
    ```python
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import EvalCallback

    env = make_vec_env("CartPole-v1")
    model = PPO("MlpPolicy", env, seed=0)
    model.learn(100_000, callback=EvalCallback(env))
    ```

    ## Right
    ```python
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import EvalCallback

    env = make_vec_env("CartPole-v1")
    model = PPO("MlpPolicy", env, seed=0)
    model.learn(100_000, callback=EvalCallback(make_vec_env("CartPole-v1")))
    ```
    """
    training = _training_env(script)
    name = words.own_name(training) if training is not None else ""
    if not name:
        return
    for alias, value, where in script.named:
        if words.EVALUATION(alias.rpartition(".")[2]) and isinstance(value, ast.Name) and value.id == name:
            yield Spot(where, f"`{alias}` is `{name}`, which is trained on: wrappers and statistics of training count", strength=0.4)
    for call, env in _evaluated(script):
        if words.own_name(env) == name and isinstance(env, ast.Name) and not _is_remade(script, env, training):
            periodic = script.last(call) != "evaluate_policy"
            text = f"`{name}` is trained on, too: " + (
                "evaluation resets it in the middle of a rollout" if periodic else "wrappers and statistics of training count"
            )
            yield Spot(call, text, strength=1.0 if periodic else 0.4)


def _is_remade(script: Script, env: ast.Name, training: ast.AST | None) -> bool:
    made = script.assignments(env.id, env)
    return training is not None and any(each.line > position(training) for each in made)


@check("COD705", Severity.MEDIUM, ["raffin2021sb3"])
def evaluation_env_wrapped_otherwise(script: Script) -> Iterator[Spot]:
    """The evaluation environment lacks wrappers that the agent was trained with.

    ## Why it hurts
    The agent sees or does something else than it learned: evaluation is low, or raises on shapes.

    ## When it is fine
    Wrappers that only record.

    ## Fix
    Make both environments by one function.

    ## Wrong
    ```python
    import gymnasium as gym
    from gymnasium.wrappers import RescaleAction
    from stable_baselines3 import PPO

    env = RescaleAction(gym.make("Pendulum-v1"), -1, 1)
    eval_env = gym.make("Pendulum-v1")
    model = PPO("MlpPolicy", env, seed=0)
    evaluate_policy(model, eval_env)
    ```

    ## Right
    ```python
    import gymnasium as gym
    from gymnasium.wrappers import RescaleAction
    from stable_baselines3 import PPO

    env = RescaleAction(gym.make("Pendulum-v1"), -1, 1)
    eval_env = RescaleAction(gym.make("Pendulum-v1"), -1, 1)
    model = PPO("MlpPolicy", env, seed=0)
    evaluate_policy(model, eval_env)
    ```
    """
    training = _training_env(script)
    own = {
        kind.name
        for kind in script.classes
        if any("Wrapper" in script.dotted(base) for base in kind.bases) and not any("Reward" in script.dotted(base) for base in kind.bases)
    }
    trained = [script.last(call) for call in chain(script, training)]
    if training is None or not trained or trained[-1] not in ("make", "make_vec_env", "make_atari_env"):
        return
    seen = {name for name in trained if name in SEEN | own} - {"VecNormalize"}
    for call, env in _evaluated(script):
        made = [script.last(each) for each in chain(script, env)]
        missing = sorted(seen - set(made))
        if made and missing and made[-1] in ("make", "make_vec_env") and words.own_name(env) != words.own_name(training):
            yield Spot(call, f"`{ast.unparse(env)}` lacks {', '.join(missing)}, which the agent was trained with")


@check("COD706", Severity.MEDIUM, ["huang2022details"])
def fresh_statistics_in_evaluation(script: Script) -> Iterator[Spot]:
    """The evaluation environment normalizes with statistics of its own.

    ## Why it hurts
    NormalizeObservation starts from mean 0 and deviation 1: the first episodes of every evaluation are seen on another scale than in
    training.

    ## When it is fine
    After copying the statistics of training.

    ## Fix
    eval_env.obs_rms = env.obs_rms, and stop updating it.

    ## Wrong
    ```python
    import gymnasium as gym

    env = gym.wrappers.NormalizeObservation(gym.make("Pendulum-v1"))
    eval_env = gym.wrappers.NormalizeObservation(gym.make("Pendulum-v1"))
    ```

    ## Right
    ```python
    import gymnasium as gym

    env = gym.wrappers.NormalizeObservation(gym.make("Pendulum-v1"))
    eval_env = gym.wrappers.NormalizeObservation(gym.make("Pendulum-v1"))
    eval_env.obs_rms = env.obs_rms
    ```
    """
    if script.words & {"obs_rms", "set_obs_rms", "load_state_dict_rms"}:
        return
    made = [node for node in script.all(ast.Assign) if script.last(node.value) == "NormalizeObservation"]
    training = [node for node in made if not words.EVALUATION(words.own_name(node.targets[0]))]
    for node in made:
        if words.EVALUATION(words.own_name(node.targets[0])) and training:
            yield Spot(
                node,
                f"`{words.own_name(node.targets[0])}` starts with statistics of its own: the agent sees other numbers than in training",
                "eval_env.obs_rms = env.obs_rms, and update_running_mean = False",
            )


@check("COD707", Severity.LOW, ["raffin2021sb3"])
def sampled_actions_in_evaluation(script: Script) -> Iterator[Spot]:
    """`predict` is called without saying whether actions are sampled.

    ## Why it hurts
    The default samples: returns are those of the exploring policy, and differ from call to call.

    ## When it is fine
    Tasks whose best policy is a mixed one (Atari, games).

    ## Fix
    model.predict(obs, deterministic=True)

    ## Wrong
    ```python
    from stable_baselines3 import PPO

    model = PPO.load("agent")
    action, state = model.predict(obs)
    ```

    ## Right
    ```python
    from stable_baselines3 import PPO

    model = PPO.load("agent")
    action, state = model.predict(obs, deterministic=True)
    ```
    """
    if not script.is_sb3:
        return
    for call in script.calls("predict"):
        owner = script.owner(call).rpartition(".")[2]
        if keyword(call, "deterministic") is None and len(call.args) < 4 and ("model" in owner or "agent" in owner):
            yield Spot(
                call,
                "predict() samples unless told otherwise: this is the exploring policy, not the learned one",
                "model.predict(obs, deterministic=True)",
            )
            break
    for call in script.calls("predict", "evaluate_policy", "EvalCallback"):
        given = keyword(call, "deterministic")
        if isinstance(given, ast.Constant) and given.value is False:
            yield Spot(given, "actions are sampled in evaluation: this is the exploring policy, not the learned one", "deterministic=True")


@check("COD708", Severity.HIGH, ["raffin2021sb3"])
def loaded_model_is_dropped(script: Script) -> Iterator[Spot]:
    """A saved agent is loaded and the result is thrown away.

    ## Why it hurts
    load() makes a new agent and returns it; the one it is called on keeps its own, often untrained, weights.

    ## When it is fine
    Never; set_parameters(path) changes an agent in place.

    ## Fix
    model = PPO.load(path, env=env)

    ## Wrong
    ```python
    from stable_baselines3 import PPO

    model = PPO("MlpPolicy", "CartPole-v1", seed=0)
    model.load("agent")
    ```

    ## Right
    ```python
    from stable_baselines3 import PPO

    model = PPO.load("agent")
    ```
    """
    if not script.is_sb3:
        return
    for node in script.all(ast.Expr):
        call = node.value
        if not isinstance(call, ast.Call) or script.last(call) != "load":
            continue
        owner = script.owner(call)
        if owner in models(script) or owner.rpartition(".")[2] in ALGORITHMS:
            yield Spot(
                node,
                f"load() returns the loaded agent and leaves `{owner}` as it is",
                f"model = {script.last(models(script).get(owner, call)) or 'PPO'}.load(…)",
            )


@check("COD709", Severity.HIGH, ["raffin2021sb3"])
def best_is_never_replaced(script: Script) -> Iterator[Spot]:
    """The best result so far begins at minus infinity and is only replaced by smaller ones.

    ## Why it hurts
    Nothing is smaller than minus infinity: the best agent is never saved, or the worst one is.

    ## When it is fine
    Never.

    ## Fix
    if score > best:

    ## Wrong
    ```python
    best = float("-inf")
    for score in scores:
        if score < best:
            best = score
            model.save("best")
    ```

    ## Right
    ```python
    best = float("-inf")
    for score in scores:
        if score > best:
            best = score
            model.save("best")
    ```
    """
    for node in script.all(ast.If):
        test = node.test
        if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
            continue
        smaller = isinstance(test.ops[0], ast.Lt | ast.LtE)
        score, best = (test.left, test.comparators[0]) if smaller else (test.comparators[0], test.left)
        name = script.dotted(best)
        given = [each.whole for each in script.anywhere(name, best)] if name else []
        begins_low = any(each is not None and _is_minus_infinity(script, each) for each in given)
        kept = any(
            isinstance(each, ast.Assign) and script.dotted(each.targets[0]) == name and ast.unparse(each.value) == ast.unparse(score)
            for each in node.body
        )
        if begins_low and kept:
            yield Spot(
                test, f"`{name}` begins at minus infinity, and only what is smaller would replace it: nothing ever does", "score > best"
            )


def _is_minus_infinity(script: Script, node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = node.operand
        return words.own_name(inner) in ("inf", "Inf", "infty") or (
            script.called(inner) == "float" and isinstance(inner, ast.Call) and "inf" in ast.unparse(inner)
        )
    return script.called(node) == "float" and "-inf" in ast.unparse(node)


@check("COD710", Severity.MEDIUM, ["henderson2018matters"])
def chance_in_evaluation(script: Script) -> Iterator[Spot]:
    """Actions of an evaluation are noisy, though the certain ones could be had.

    ## Why it hurts
    What is reported is the exploring agent's return, which is lower, and changes with the noise.

    ## When it is fine
    Where the stochastic policy is what will be used.

    ## Fix
    deterministic=True, or no noise, in the environment that is evaluated in.

    ## Wrong
    ```python
    import gymnasium as gym
    import torch

    env, test_env = gym.make("Pendulum-v1"), gym.make("Pendulum-v1")
    mean = torch.nn.Linear(3, 1)


    def act(obs, deterministic=False):
        dist = torch.distributions.Normal(mean(torch.as_tensor(obs)), 0.3)
        if deterministic:
            return dist.mean.numpy()
        return dist.sample().numpy()


    memory = []
    obs, _ = env.reset(seed=0)
    for step in range(10_000):
        action = act(obs)
        next_obs, reward, terminated, truncated, _ = env.step(action)
        memory.append((obs, action, reward, next_obs, terminated))
        obs = next_obs
        if terminated or truncated:
            obs, _ = env.reset()
    seen, _ = test_env.reset(seed=1)
    over = False
    while not over:
        seen, reward, terminated, truncated, _ = test_env.step(act(seen))
        over = terminated or truncated
    ```

    ## Right
    ```python
    import gymnasium as gym
    import torch

    env, test_env = gym.make("Pendulum-v1"), gym.make("Pendulum-v1")
    mean = torch.nn.Linear(3, 1)


    def act(obs, deterministic=False):
        dist = torch.distributions.Normal(mean(torch.as_tensor(obs)), 0.3)
        if deterministic:
            return dist.mean.numpy()
        return dist.sample().numpy()


    memory = []
    obs, _ = env.reset(seed=0)
    for step in range(10_000):
        action = act(obs)
        next_obs, reward, terminated, truncated, _ = env.step(action)
        memory.append((obs, action, reward, next_obs, terminated))
        obs = next_obs
        if terminated or truncated:
            obs, _ = env.reset()
    seen, _ = test_env.reset(seed=1)
    over = False
    while not over:
        seen, reward, terminated, truncated, _ = test_env.step(act(seen, deterministic=True))
        over = terminated or truncated
    ```
    """
    yield from ()
