"""The task around the learner: environments without a library, shields, and stages of a curriculum."""

import ast
from collections.abc import Iterator
from typing import Final

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.lint.code.episodes import LEGACY_UNPACKED, method, own_returns
from rlclinic.diagnosis.lint.code.reading import flow, words
from rlclinic.diagnosis.lint.code.reading.script import Function, Script, Spot, keyword, position

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


@check("COD128", Severity.MEDIUM, ["towers2024gymnasium"])
def return_lacks_its_last_reward(script: Script) -> Iterator[Spot]:
    """An environment of this script tells an episode's return before it adds the reward of the step.

    ## Why it hurts
    At the end of an episode the last reward is missing, which is where most tasks pay: success and failure are told as the same
    return, and whoever picks models by it picks at random.

    ## When it is fine
    Where what is told is meant to be the sum up to the step before.

    ## Fix
    Add the reward and count the step first, then write info.

    ## Wrong
    ```python
    class RoomEnv:
        def reset(self):
            self.at, self.total_reward = 0, 0.0
            return self.at, {}

        def step(self, action):
            self.at += action
            reward = float(self.at == 9)
            info = {"total_reward": self.total_reward}
            self.total_reward += reward
            return self.at, reward, self.at == 9, False, info
    ```

    ## Right
    ```python
    class RoomEnv:
        def reset(self):
            self.at, self.total_reward = 0, 0.0
            return self.at, {}

        def step(self, action):
            self.at += action
            reward = float(self.at == 9)
            self.total_reward += reward
            info = {"total_reward": self.total_reward}
            return self.at, reward, self.at == 9, False, info
    ```
    """
    for step, _ in _environments(script):
        added = {script.dotted(node.target): node for node in script.inside(step, ast.AugAssign) if isinstance(node.op, ast.Add)}
        for told in script.inside(step, ast.Dict):
            for value in told.values:
                sums = [part for part in ast.walk(value) if isinstance(part, ast.Attribute) and script.dotted(part) in added]
                late = [part for part in sums if position(added[script.dotted(part)]) > position(told)]
                for part in late:
                    node = added[script.dotted(part)]
                    if any(word in ast.unparse(node.value).lower() for word in _PAID) and not script.loops(node):
                        text = f"`{script.dotted(part)}` is told before line {node.lineno} adds the step's reward"
                        yield Spot(value, f"{text}: at the end of an episode its last one is missing")


_PAID: Final = ("reward", "cost", "score", "gain")


def _environments(script: Script) -> Iterator[tuple[Function, Function]]:
    """step and reset of the classes that have both."""
    for owner in script.classes:
        step, reset = method(owner, "step"), method(owner, "reset")
        if step is not None and reset is not None:
            yield step, reset


@check("COD129", Severity.LOW, ["pardo2018time"])
def limit_asked_before_the_step_counts(script: Script) -> Iterator[Spot]:
    """The step limit is asked before the step is counted: episodes are longer than it says.

    ## Why it hurts
    An episode of `max_steps` 100 has 101. Returns are compared with a bound that was computed for 100, and what is told of an
    episode's length is one less than it was.

    ## When it is fine
    Where one step more is meant.

    ## Fix
    Count the step first: self.steps += 1, then truncated = self.steps >= self.max_steps.

    ## Wrong
    ```python
    class RoomEnv:
        def reset(self):
            self.at, self.steps = 0, 0
            return self.at, {}

        def step(self, action):
            self.at += action
            truncated = self.steps >= self.max_steps
            self.steps += 1
            return self.at, float(self.at == 9), self.at == 9, truncated, {}
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
            truncated = self.steps >= self.max_steps
            return self.at, float(self.at == 9), self.at == 9, truncated, {}
    ```
    """
    for step, reset in _environments(script):
        counted = {
            script.dotted(node.target): node
            for node in script.inside(step, ast.AugAssign)
            if isinstance(node.op, ast.Add) and _constant(node.value) == 1 and isinstance(node.target, ast.Attribute)
        }
        for asked in script.inside(step, ast.Compare):
            count = counted.get(script.dotted(asked.left))
            plain = isinstance(asked.comparators[0], ast.Name | ast.Attribute | ast.Constant)
            if count is None or not plain or position(count) < position(asked) or not isinstance(asked.ops[0], ast.GtE | ast.Gt | ast.Eq):
                continue
            if not _starts_at_0(script, reset, script.dotted(asked.left)) or not isinstance(
                script.statement(asked), ast.Assign | ast.Return
            ):
                continue
            more = 2 if isinstance(asked.ops[0], ast.Gt) else 1
            limit = ast.unparse(asked.comparators[0])
            text = f"`{ast.unparse(asked)}` is asked before line {count.lineno} counts the step: an episode lasts `{limit}` + {more} steps"
            yield Spot(asked, text)


def _starts_at_0(script: Script, reset: Function, name: str) -> bool:
    made = [value for each, value, where in script.named if each == name and script.scope(where) is reset]
    return bool(made) and all(_constant(value) == 0 for value in made)


@check("COD135", Severity.LOW, ["narvekar2020curriculum"])
def stage_without_a_way_out(script: Script) -> Iterator[Spot]:
    """A stage of a curriculum is trained until it is mastered, however long that takes.

    ## Why it hurts
    An agent that never gets there trains in that stage for ever, and never sees the task itself. Nothing says so: the log goes on.

    ## When it is fine
    Where somebody watches, or a limit stands outside of the script.

    ## Fix
    Give every stage a share of the budget; `curriculum.escape_after` does so, and says when a stage was left that way.

    ## Wrong
    ```python
    for stage in stages:
        success_rate = 0.0
        while success_rate < stage["threshold"]:
            train(stage, episodes=100)
            success_rate = evaluate(stage, episodes=200)
    ```

    ## Right
    ```python
    for stage in stages:
        success_rate = 0.0
        while success_rate < stage["threshold"] and episodes < stage["most_episodes"]:
            episodes += train(stage, episodes=100)
            success_rate = evaluate(stage, episodes=200)
    ```
    """
    for loop, compared in _stages_to_master(script):
        either = isinstance(loop.test, ast.BoolOp) and isinstance(loop.test.op, ast.And)
        if not either and not any(_is_left(script, loop, node) for node in (*script.all(ast.Break), *script.all(ast.Return, ast.Raise))):
            yield Spot(compared, f"nothing but `{ast.unparse(compared)}` ends the stage: one that is never mastered is never left")


@check("COD136", Severity.LOW, ["narvekar2020curriculum"])
def earlier_stages_left_behind(script: Script) -> Iterator[Spot]:
    """Stages of a curriculum are trained one after the other, and none is ever played again.

    ## Why it hurts
    What was learned in an earlier stage is overwritten by the later ones, and nobody sees it: the success rate that is printed is
    that of the present stage.

    ## When it is fine
    Later stages that contain all of the earlier ones.

    ## Fix
    Play 10-20 % of the episodes in earlier stages, and evaluate all of them; `curriculum.rehearsal` and val/stage/N do so.

    ## Wrong
    ```python
    for stage in stages:
        success_rate = 0.0
        while success_rate < stage["threshold"]:
            success_rate = train(stage, episodes=200)
    ```

    ## Right
    ```python
    for place, stage in enumerate(stages):
        success_rate = 0.0
        while success_rate < stage["threshold"]:
            success_rate = train(stage, episodes=200)
            for earlier in stages[:place]:
                train(earlier, episodes=20)
    ```
    """
    for loop, _ in _stages_to_master(script):
        around = _loop_of_stages(script, loop)
        if around is None:
            continue
        inside = {name.lower() for name in words.identifiers(around)}
        sliced = [node for node in script.inside(around, ast.Subscript) if isinstance(node.slice, ast.Slice)]
        if not sliced and not any(word in name for name in inside for word in _GOES_BACK):
            text = (
                f"`{ast.unparse(around.target)}` is the only stage that is played: what earlier ones taught is neither kept nor looked at"
            )
            yield Spot(around, text)


_GOES_BACK: Final = ("rehears", "earlier", "previous", "forget", "retain", "review", "past", "mix", "evaluat", "validat", "sample", "all_")


def _stages_to_master(script: Script) -> Iterator[tuple[ast.While, ast.Compare]]:
    """Loops in a loop over stages that go on while success is below something, with that comparison."""
    for loop in script.all(ast.While):
        if _loop_of_stages(script, loop) is None:
            continue
        compared = (part for part in ast.walk(loop.test) if isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.Lt | ast.LtE))
        by_success = (part for part in compared if any(word in ast.unparse(part.left).lower() for word in _SUCCESS))
        if (part := next(by_success, None)) is not None:
            yield loop, part


def _loop_of_stages(script: Script, node: ast.AST) -> ast.For | None:
    return next(
        (
            loop
            for loop in script.loops(node)
            if isinstance(loop, ast.For) and any(word in ast.unparse(loop.iter).lower() for word in _STAGES)
        ),
        None,
    )


def _is_left(script: Script, loop: ast.While, node: ast.AST) -> bool:
    """Whether a break, return or raise leaves this loop."""
    if isinstance(node, ast.Break):
        return bool(loops := script.loops(node)) and loops[0] is loop
    return loop in script.ancestors(node) and script.scope(node) is script.scope(loop)


@check("COD137", Severity.MEDIUM, ["pytorch2025load"])
def policy_out_of_a_pickle(script: Script) -> Iterator[Spot]:
    """A whole policy is loaded with torch.load, and not its weights.

    ## Why it hurts
    Such a file is a pickle, and whoever wrote it decides what runs here. torch 2.6 and later refuse it; older ones need the class to be
    where it was when the file was written.

    ## When it is fine
    A file of one's own, with weights_only=False.

    ## Fix
    Make the policy, then policy.load_state_dict(torch.load(path, weights_only=True)).

    ## Wrong
    ```python
    import torch

    policy = torch.load("policy.pth")
    action = policy.act(obs)
    ```

    ## Right
    ```python
    import torch

    policy = Policy(obs_size, n_actions)
    policy.load_state_dict(torch.load("policy.pth", weights_only=True))
    action = policy.act(obs)
    ```
    """
    for name, value, where in script.named:
        if script.called(value) not in ("torch.load", "th.load") or keyword(value, "weights_only") is not None:  # type: ignore[arg-type]
            continue
        asked = [
            call
            for call in script.all(ast.Call)
            if script.scope(call) is script.scope(where)
            and (script.dotted(call.func) == name or (script.owner(call) == name and script.last(call) in _OF_A_POLICY))
        ]
        if asked:
            text = f"`{name}` is a whole object out of a file, as `{ast.unparse(asked[0].func)}` shows"
            yield Spot(where, f"{text}: loading it runs what its writer put there")


_OF_A_POLICY: Final = frozenset({
    "act", "predict", "forward", "eval", "select_action", "get_action", "choose_action", "sample_action", "take_action",
    "get_action_and_value",
})  # fmt: skip
"""Methods that a dictionary of weights and a tensor, which are loaded the same way, do not have."""
