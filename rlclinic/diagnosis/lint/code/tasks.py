"""The task around the learner: environments without a library, shields, and stages of a curriculum."""

import ast
from collections.abc import Iterator
from typing import Final

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.lint.code.episodes import LEGACY_UNPACKED, method, own_returns
from rlclinic.diagnosis.lint.code.reading import flow, words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot, position

FEW_EPISODES: Final = 20
"""Episodes up to which a success rate says little: of 20, an agent that succeeds in 60 % shows 80 % or more once in twenty times."""
_SUCCESS: Final = ("success", "solved", "win", "won", "reached", "passed")
_STAGES: Final = ("stage", "lesson", "curriculum", "difficulty", "level")
_LIMITS: Final = ("max_", "limit", "horizon", "time_out", "timeout")


@check("COD124", Severity.MEDIUM, ["pardo2018time", "towers2024gymnasium"])
def ends_merged_into_done(script: Script) -> Iterator[Spot]:
    """An environment of this script has one `done` for the end of the task and for its step limit.

    ## Why it hurts
    Nobody who learns from it can tell them apart. Cut at the limit as if the task had ended, good states near it are taught to be
    worthless.

    ## When it is fine
    Tasks whose limit is a part of the task and is seen in the observation.

    ## Fix
    Return terminated and truncated, as Gymnasium does: obs, reward, terminated, truncated, info.

    ## Wrong
    ```python
    class RoomEnv:
        def reset(self):
            self.at, self.steps = 0, 0
            return self.at

        def step(self, action):
            self.at += action
            self.steps += 1
            done = self.at == 9 or self.steps >= self.max_steps
            return self.at, float(self.at == 9), done, {}
    ```

    ## Right
    ```python
    class RoomEnv:
        def reset(self):
            self.at, self.steps = 0, 0
            return self.at, {}

        def step(self, action):
            self.at += action
            self.steps += 1
            return self.at, float(self.at == 9), self.at == 9, self.steps >= self.max_steps, {}
    ```
    """
    for owner in script.classes:
        step = method(owner, "step")
        if step is None or method(owner, "reset") is None or any(script.dotted(base) not in ("object", "") for base in owner.bases):
            continue
        for returned in own_returns(script, step):
            parts = returned.value.elts if isinstance(returned.value, ast.Tuple) else []
            if len(parts) != LEGACY_UNPACKED:
                continue
            merged = [part for part in parts if (either := _either(script, part)) is not None and any(map(_is_limit, either.values))]
            if merged:
                text = (
                    f"`{ast.unparse(merged[0])}` of {owner.name}.step is true where the task has ended and where its step limit has run out"
                )
                yield Spot(returned, text)


def _either(script: Script, part: ast.expr) -> ast.BoolOp | None:
    value = script.resolve(part)
    return value if isinstance(value, ast.BoolOp) and isinstance(value.op, ast.Or) else None


def _is_limit(condition: ast.expr) -> bool:
    """self.steps >= self.max_steps."""
    if not isinstance(condition, ast.Compare) or not isinstance(condition.ops[0], ast.GtE | ast.Gt | ast.Eq):
        return False
    return any(word in name.lower() for name in words.identifiers(condition) for word in _LIMITS)


@check("COD125", Severity.LOW, ["pardo2018time", "schulman2015gae"])
def advantages_know_one_end(script: Script) -> Iterator[Spot]:
    """Advantages are computed with one flag for both kinds of ends.

    ## Why it hurts
    The same `dones` takes the next value away and cuts the trace. At a time limit the trace must be cut, but the value kept: the task
    would have gone on.

    ## When it is fine
    Tasks without a time limit; callers that hand over terminations only, and never a rollout with several episodes in it.

    ## Fix
    Two flags: bootstrap where not terminated, cut the trace where terminated or truncated.

    ## Wrong
    ```python
    def compute_gae(rewards, values, next_value, dones, gamma, lam):
        advantages, gae = [], 0.0
        for t in reversed(range(len(rewards))):
            following = next_value if t == len(rewards) - 1 else values[t + 1]
            delta = rewards[t] + gamma * following * (1 - dones[t]) - values[t]
            gae = delta + gamma * lam * (1 - dones[t]) * gae
            advantages.insert(0, gae)
        return advantages
    ```

    ## Right
    ```python
    def compute_gae(rewards, values, next_values, terminated, truncated, gamma, lam):
        advantages, gae = [], 0.0
        for t in reversed(range(len(rewards))):
            delta = rewards[t] + gamma * next_values[t] * (1 - terminated[t]) - values[t]
            gae = delta + gamma * lam * (1 - (terminated[t] or truncated[t])) * gae
            advantages.insert(0, gae)
        return advantages
    ```
    """
    if any(words.TRUNCATED(word) or words.TERMINATED(word) for word in script.words) or script.is_sb3:
        return
    for function in script.functions:
        given = {argument.arg for argument in function.args.args if words.COMBINED(argument.arg)}
        masks = [
            node
            for node in script.inside(function, ast.BinOp)
            if isinstance(node.op, ast.Sub) and words.own_name(node.right) in given and flow.polarity(script, node) < 0
        ]
        products = [ancestor for mask in masks for ancestor in _product(script, mask)]
        traces = [each for each in products if words.mentions(each, words.LAMBDA)]
        values = [each for each in products if words.mentions(each, words.GAMMA) and not words.mentions(each, words.LAMBDA)]
        if traces and values:
            flag = words.own_name(masks[0].right)
            yield Spot(values[0], f"`{flag}` is all that {function.name} knows of ends: at a time limit the next value is lost, too")


def _product(script: Script, node: ast.AST) -> list[ast.BinOp]:
    """The whole product that a factor belongs to."""
    found = None
    while isinstance(parent := script.parents.get(node), ast.BinOp) and isinstance(parent.op, ast.Mult):
        node = found = parent
    return [found] if found is not None else []


@check("COD126", Severity.HIGH, ["towers2024gymnasium"])
def action_mended_after_the_step(script: Script) -> Iterator[Spot]:
    """An action is replaced after the environment has carried it out.

    ## Why it hurts
    What was unsafe has happened. The safe action is overwritten at the next turn of the loop and never reaches the environment.

    ## When it is fine
    Never: what is written there has no effect.

    ## Fix
    Ask before the step: if monitor.is_unsafe(obs, action): action = monitor.safe_action(obs); then env.step(action).

    ## Wrong
    ```python
    while not over:
        action = policy(obs)
        obs, reward, terminated, truncated, info = env.step(action)
        over = terminated or truncated
        if monitor.is_unsafe(obs, action):
            action = monitor.safe_action(obs)
    ```

    ## Right
    ```python
    while not over:
        action = policy(obs)
        if monitor.is_unsafe(obs, action):
            action = monitor.safe_action(obs)
        obs, reward, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    ```
    """
    for call in script.calls("step"):
        loops = script.loops(call)
        if (
            not loops
            or not call.args
            or not isinstance(call.args[0], ast.Name)
            or not words.ENVIRONMENT(script.owner(call).rpartition(".")[2])
        ):
            continue
        action, loop = call.args[0].id, loops[0]
        uses = sorted((node for node in ast.walk(loop) if isinstance(node, ast.Name) and node.id == action), key=position)
        made_first = bool(uses) and isinstance(uses[0].ctx, ast.Store) and _is_always_run(script, uses[0], loop)
        after = [node for node in uses if position(node) > position(call.args[0])]
        for place, node in enumerate(after):
            read_later = any(isinstance(each.ctx, ast.Load) for each in after[place + 1 :])
            branch = next((each for each in script.ancestors(node) if isinstance(each, ast.If)), None)
            if (
                isinstance(node.ctx, ast.Store)
                and made_first
                and not read_later
                and branch is not None
                and loop in script.ancestors(branch)
            ):
                carried = f"`{action}` is replaced after `{ast.unparse(call)}` has carried it out"
                text = f"{carried}: nothing reads it again before line {uses[0].lineno} makes another"
                yield Spot(node, text, f"move lines {branch.lineno} to {branch.end_lineno} before the step")


def _is_always_run(script: Script, node: ast.AST, loop: ast.AST) -> bool:
    """Whether nothing but the loop decides whether a line is run."""
    for ancestor in script.ancestors(node):
        if ancestor is loop:
            return True
        if isinstance(ancestor, ast.If | ast.Try | ast.For | ast.While):
            return False
    return False


@check("COD127", Severity.MEDIUM, ["agarwal2021rliable"])
def promoted_on_few_episodes(script: Script) -> Iterator[Spot]:
    """A stage of a curriculum is left on the success rate of a few episodes.

    ## Why it hurts
    It is asked again and again, and one lucky batch is enough: 8 of 10 is reached by an agent that succeeds in 60 % after some six
    batches. It then trains on tasks that it is not ready for.

    ## When it is fine
    Tasks without chance, where one episode is as good as a hundred.

    ## Fix
    A window of 100 episodes or more, and a lower confidence bound in place of the mean; `curriculum.stages` does so.

    ## Wrong
    ```python
    for stage in stages:
        success_rate = 0.0
        while success_rate < stage["threshold"]:
            results = train_batch(stage, episodes=10)
            success_rate = np.mean([result["success"] for result in results])
    ```

    ## Right
    ```python
    for stage in stages:
        recent = deque(maxlen=200)
        while len(recent) < 200 or np.mean(recent) - 2 * np.std(recent) / 200**0.5 < stage["threshold"]:
            recent.extend(result["success"] for result in train_batch(stage, episodes=10))
    ```
    """
    if not any(stage in word.lower() for word in script.words for stage in _STAGES):
        return
    for node in script.all(ast.While, ast.If):
        for compared in [part for part in ast.walk(node.test) if isinstance(part, ast.Compare)]:
            for side in (compared.left, *compared.comparators):
                episodes = _episodes_behind(script, side, node)
                if episodes is not None and episodes <= FEW_EPISODES:
                    text = f"`{ast.unparse(compared)}` decides by {episodes} episodes, batch after batch, until one of them is lucky"
                    yield Spot(compared, text)
                    return


def _episodes_behind(script: Script, rate: ast.expr, near: ast.AST) -> int | None:
    """How many episodes a success rate is a mean of; None where that cannot be seen."""
    if not any(word in ast.unparse(rate).lower() for word in _SUCCESS):
        return None
    name = words.own_name(rate)
    means = [rate] if isinstance(rate, ast.Call) else [
        node.value
        for node in script.all(ast.Assign)
        if name and name in [words.own_name(target) for target in node.targets] and script.scope(node) is script.scope(near)
    ]  # fmt: skip
    for mean in means:
        if script.last(mean) not in ("mean", "average", "fmean") or not isinstance(mean, ast.Call) or not mean.args:
            continue
        for part in ast.walk(mean.args[0]):
            if isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Slice) and (count := _constant(part.slice.lower)) is not None:
                return abs(count)
            if isinstance(part, ast.Name) and (made := script.resolve(part)) is not part and isinstance(made, ast.Call):
                sizes = [_constant(each) for each in (*made.args, *(key.value for key in made.keywords))]
                if counts := [size for size in sizes if size]:
                    return counts[-1]
    return None


def _constant(node: ast.expr | None) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _constant(node.operand)
        return None if inner is None else -inner
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None
