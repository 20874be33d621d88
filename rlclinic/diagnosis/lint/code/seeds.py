"""Seeds: whether a run can be repeated, and whether every episode is another one."""

import ast
from collections.abc import Iterator

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.lint.code.episodes import is_gymnasium
from rlclinic.diagnosis.lint.code.reading import words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot, keyword


@check("COD901", Severity.HIGH, ["towers2024gymnasium"])
def env_seed_is_gone(script: Script) -> Iterator[Spot]:
    """`env.seed()` is called, which Gymnasium does not have.

    ## Why it hurts
    It raises AttributeError; behind a try, the environment stays unseeded.

    ## When it is fine
    Stable-Baselines3's vector environments, which have it; they are left alone.

    ## Fix
    env.reset(seed=seed), once before the first episode.

    ## Wrong
    ```python
    import gymnasium as gym

    env = gym.make("CartPole-v1")
    env.seed(0)
    ```

    ## Right
    ```python
    import gymnasium as gym

    env = gym.make("CartPole-v1")
    obs, info = env.reset(seed=0)
    ```
    """
    if not script.uses("gymnasium"):
        return
    for call in script.calls("seed"):
        name = words.own_name(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        if words.ENVIRONMENT(name) and not words.VECTOR(name) and is_gymnasium(script, call):
            yield Spot(call, "Gymnasium's environments have no seed(): this raises AttributeError", f"{name}.reset(seed=…)")


@check("COD902", Severity.LOW, ["henderson2018matters", "agarwal2021rliable"])
def nothing_is_seeded(script: Script) -> Iterator[Spot]:
    """The script trains without any seed.

    ## Why it hurts
    The run cannot be repeated. Two runs of the same settings differ, often by more than two settings do.

    ## When it is fine
    One of many runs whose spread is reported.

    ## Fix
    torch.manual_seed(seed), numpy's generator, and env.reset(seed=seed); or seed=… for Stable-Baselines3.

    ## Wrong
    ```python
    from stable_baselines3 import PPO

    model = PPO("MlpPolicy", "CartPole-v1")
    model.learn(100_000)
    ```

    ## Right
    ```python
    from stable_baselines3 import PPO

    model = PPO("MlpPolicy", "CartPole-v1", seed=0)
    model.learn(100_000)
    ```
    """
    # A library's learner gets its seed from whoever uses it: a script runs by itself, or makes or steps an environment.
    stepped = any(words.ENVIRONMENT(script.owner(call).rpartition(".")[2]) for call in script.calls("step", "reset"))
    runs = stepped or "__main__" in script.words or script.calls("make", "make_vec")
    learned = [call for call in script.calls("backward") if runs or script.scope(call) is script.tree]
    trains = learned or (script.calls("learn") if script.is_sb3 else [])
    seeded = any("seed" in word.lower() for word in script.words) or script.calls("manual_seed", "set_random_seed")
    if trains and not seeded:
        yield Spot(trains[0], "no seed is set anywhere: the run cannot be repeated, and luck cannot be told from progress")


@check("COD903", Severity.MEDIUM, ["henderson2018matters"])
def same_episode_again_and_again(script: Script) -> Iterator[Spot]:
    """The environment is seeded with the same number at every reset.

    ## Why it hurts
    All episodes start alike and draw the same chances: the agent learns one episode by heart and fails on any other.

    ## When it is fine
    Evaluation on fixed starts, with a seed of its own for each episode.

    ## Fix
    Seed at the first reset only: env.reset(seed=seed), later env.reset().

    ## Wrong
    ```python
    for episode in range(1000):
        obs, info = env.reset(seed=42)
        loss = play(env, obs)
        loss.backward()
    ```

    ## Right
    ```python
    obs, info = env.reset(seed=42)
    for episode in range(1000):
        loss = play(env, obs)
        loss.backward()
        obs, info = env.reset()
    ```
    """
    learns = bool(script.calls("backward")) or any(
        isinstance(node.op, ast.Add) for node in script.all(ast.AugAssign) if isinstance(node.target, ast.Subscript)
    )
    for call in script.calls("reset"):
        seed = keyword(call, "seed")
        loops = script.loops(call)
        name = words.own_name(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        if seed is None or not loops or not learns or not words.ENVIRONMENT(name) or words.EVALUATION(name):
            continue
        if any(
            isinstance(ancestor, ast.If | ast.IfExp) and any(isinstance(part, ast.Eq | ast.Is) for part in ast.walk(ancestor.test))
            for ancestor in script.ancestors(call)
        ):
            continue  # if episode == 0, if obs is None: once
        if words.EVALUATION(getattr(script.scope(call), "name", "")) or (isinstance(seed, ast.Constant) and seed.value is None):
            continue
        if not isinstance(seed, ast.Constant | ast.Name | ast.Attribute) or ast.unparse(seed) in _changing(loops):
            continue
        yield Spot(
            call,
            f"every episode starts from the same state: `{name}` is seeded with {ast.unparse(seed)} at each reset",
            f"seed once, then {name}.reset()",
        )


def _changing(loops: list[ast.For | ast.While | ast.AsyncFor]) -> set[str]:
    """Names and attributes that the loops change: their variables, and what is assigned inside (self.seed = None after the first reset)."""
    names = set()
    for loop in loops:
        for node in ast.walk(loop):
            targets = (
                node.targets
                if isinstance(node, ast.Assign)
                else [node.target]
                if isinstance(node, ast.AugAssign | ast.For | ast.AnnAssign)
                else []
            )
            names |= {ast.unparse(part) for target in targets for part in ast.walk(target) if isinstance(part, ast.Name | ast.Attribute)}
    return names
