"""What parts of a script owe each other: a wrapper to what it wraps, rows that enter a loss together, a rollout to its one update."""

# ruff: noqa: E501 — a message reads best whole

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.lint.code.environments import wrappers
from rlclinic.diagnosis.lint.code.reading import words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot, argument, keyword
from rlclinic.diagnosis.lint.code.symbolic import agents, formulas, laws
from rlclinic.diagnosis.lint.code.symbolic.execution import Closure, Record, Symbol
from rlclinic.diagnosis.lint.code.symbolic.formulas import called, execution

_CHANGED: Final = {"RewardWrapper": "reward", "ObservationWrapper": "observation", "ActionWrapper": "action"}
"""What each kind of wrapper changes, and the method that does it."""
_MOST_BOUND: Final = 100.0
_FEW_STEPS: Final = 10
_OF_RATIOS: Final = frozenset({"exp", "clamp", "clip", "min", "minimum"})
"""What a loss with a ratio of probabilities is made with."""


@check("COD450", Severity.HIGH, ["andrychowicz2021matters"])
def rows_of_another_selection(script: Script) -> Iterator[Spot]:
    """One array of a minibatch is taken out by other rows than the rest.

    ## Why it hurts
    Each action then meets the advantage of another step: nothing fails, and the gradient is noise.

    ## When it is fine
    Arrays that were already put into the order of the others.

    ## Fix
    Take every array of a minibatch out by the same index.

    ## Wrong
    ```python
    for rows in torch.randperm(2048).split(64):
        log_prob = policy(obs[rows]).log_prob(actions[rows])
        loss = -(log_prob * advantages[: len(rows)]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```

    ## Right
    ```python
    for rows in torch.randperm(2048).split(64):
        log_prob = policy(obs[rows]).log_prob(actions[rows])
        loss = -(log_prob * advantages[rows]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```
    """
    for scope in [*script.functions, script.tree]:
        taken: dict[str, list[ast.Subscript]] = {}
        others: list[ast.Subscript] = []
        for each in script.inside(scope, ast.Subscript):
            if not isinstance(each.ctx, ast.Load):
                continue
            if isinstance(each.slice, ast.Name):
                taken.setdefault(each.slice.id, []).append(each)
            elif isinstance(each.slice, ast.Slice) and each.slice.upper is not None and not isinstance(each.slice.upper, ast.Constant):
                others.append(each)
        for rows, subscripts in taken.items():
            bases = {ast.unparse(each.value) for each in subscripts}
            for other in others if len(bases) >= 2 else ():
                if _is_counted(other.slice, rows):
                    yield Spot(
                        other,
                        f"the others are taken out by `{rows}`, and this one by its length alone: each row meets that of another step",
                        f"[{rows}]",
                    )
        flattened = [
            call
            for call in script.calls("flatten", "reshape", "view", within=scope)
            if isinstance(call.func, ast.Attribute) and [ast.unparse(one) for one in call.args[:2]] == ["0", "1"]
        ]
        turned = [each for each in flattened if script.last(each.func.value) in ("transpose", "permute", "swapaxes")]  # type: ignore[attr-defined]
        if len(turned) == 1 and len(flattened) >= 2:
            yield Spot(
                turned[0],
                "this array is turned before it is flattened, and the others are not: its rows are in another order",
                "the same for all",
            )


def _is_counted(cut: ast.expr, rows: str) -> bool:
    """Whether a slice is the first len(rows) of something."""
    if not isinstance(cut, ast.Slice) or cut.lower is not None or cut.upper is None:
        return False
    upper = ast.unparse(cut.upper)
    return upper in (f"len({rows})", f"{rows}.shape[0]", f"{rows}.size", f"{rows}.size(0)", f"{rows}.numel()")


@check("COD451", Severity.HIGH, ["towers2024gymnasium"])
def wrapper_loses_what_it_wraps(script: Script) -> Iterator[Spot]:
    """A wrapper leaves out what the environment inside of it says: its reward, one of its ends, or the end itself.

    ## Why it hurts
    The agent learns another task than the one that is wrapped, and episodes go on after their end.

    ## When it is fine
    Wrappers that replace the reward on purpose, and say so.

    ## Fix
    Hand on all five values; add up what several steps pay, and stop at either end.

    ## Wrong
    ```python
    class Repeat(gym.Wrapper):
        def step(self, action):
            total = 0.0
            for _ in range(4):
                obs, reward, terminated, truncated, info = self.env.step(action)
                total = reward
            return obs, total, terminated, truncated, info
    ```

    ## Right
    ```python
    class Repeat(gym.Wrapper):
        def step(self, action):
            total = 0.0
            for _ in range(4):
                obs, reward, terminated, truncated, info = self.env.step(action)
                total += reward
                if terminated or truncated:
                    break
            return obs, total, terminated, truncated, info
    ```
    """
    for kind in script.classes:
        bases = {ast.unparse(base).rpartition(".")[2] for base in kind.bases}
        methods = {each.name: each for each in kind.body if isinstance(each, ast.FunctionDef)}
        for base, name in _CHANGED.items():
            method = methods.get(name)
            given = method.args.args[1].arg if base in bases and method is not None and len(method.args.args) == 2 else ""
            if given and method is not None and not any(isinstance(each, ast.Name) and each.id == given for each in ast.walk(method)):
                for returned in script.inside(method, ast.Return)[:1]:
                    yield Spot(
                        returned,
                        f"{kind.name}.{name} never looks at the {given} that it is given: what the environment says is lost",
                        given,
                    )
        step = methods.get("step")
        if step is not None and any(base.endswith("Wrapper") for base in bases):
            yield from _lost_in_step(script, kind, step)


_GOES_ON: Final = re.compile(r"never|endless|infinite|ignor|continu|no[_ ]?(end|term)|without|surviv|immortal", re.IGNORECASE)
"""How wrappers are called, or described, that take ends away on purpose."""


def _inner_steps(step: ast.FunctionDef) -> list[tuple[ast.Assign, list[str]]]:
    """Steps of the environment inside, and the five names that they are unpacked into."""
    found = []
    for each in ast.walk(step):
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Tuple) and isinstance(each.value, ast.Call):
            names = [one.id if isinstance(one, ast.Name) else "" for one in each.targets[0].elts]
            if len(names) == 5 and isinstance(each.value.func, ast.Attribute) and each.value.func.attr == "step":
                found.append((each, names))
    return found


def _lost_in_step(script: Script, kind: ast.ClassDef, step: ast.FunctionDef) -> Iterator[Spot]:
    for inner, (_, reward, terminated, truncated, _) in _inner_steps(step):
        for returned in script.inside(step, ast.Return):
            five = returned.value.elts if isinstance(returned.value, ast.Tuple) and len(returned.value.elts) == 5 else []
            if five and isinstance(five[3], ast.Constant) and five[3].value is False and truncated:
                where = f"{kind.name}.step returns False for `truncated`, whatever the environment says: a time limit is lost"
                yield Spot(returned, where, "truncated")
            read = {one.id for one in ast.walk(step) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}
            lost = five and isinstance(five[2], ast.Constant) and five[2].value is False and terminated
            if lost and terminated not in read and not _GOES_ON.search(f"{kind.name} {ast.get_docstring(kind) or ''}"):
                where = f"{kind.name}.step returns False for `terminated`, whatever the environment says: a real end is lost"
                yield Spot(returned, where, terminated)
        loops = script.loops(inner)
        if not loops or not isinstance(loops[0], ast.For) or step not in script.ancestors(loops[0]):
            continue
        loop = loops[0]
        kept = [
            each
            for each in ast.walk(loop)
            if isinstance(each, ast.Assign | ast.AugAssign)
            and each is not inner
            and any(isinstance(one, ast.Name) and one.id == reward for one in ast.walk(each.value))
        ]
        summed = any(
            isinstance(each, ast.AugAssign)
            or words.own_name(each.targets[0]) in {one.id for one in ast.walk(each.value) if isinstance(one, ast.Name)}
            for each in kept
        )
        handed = any(isinstance(each, ast.Call) and any(isinstance(one, ast.Name) and one.id == reward for given in each.args for one in ast.walk(given))
                     and isinstance(each.func, ast.Attribute) for each in ast.walk(loop))  # fmt: skip
        if kept and not summed and not handed:
            yield Spot(
                kept[0], f"{kind.name} does several steps, and keeps what the last of them paid: the rewards of the others are lost", "+="
            )
        leaves = [each for each in ast.walk(loop) if isinstance(each, ast.Break | ast.Return)]
        if not leaves:
            for place in (loop.body[-1], loop):
                yield Spot(
                    place,
                    f"{kind.name} goes on stepping after an end: what the environment returns then means nothing",
                    "if terminated or truncated: break",
                )
        elif terminated and truncated:
            tests = [one for leaf in leaves for one in script.ancestors(leaf) if isinstance(one, ast.If)]
            named = {one.id for test in tests for one in ast.walk(test.test) if isinstance(one, ast.Name)}
            if terminated in named and truncated not in named and not any(words.COMBINED(name) for name in named - {terminated}):
                yield Spot(tests[0], f"{kind.name} stops at real ends alone, and steps on after a time limit", "terminated or truncated")


@check("COD452", Severity.MEDIUM, ["schulman2017ppo"])
def rollout_used_again(script: Script) -> Iterator[Spot]:
    """A plain policy gradient takes several steps on the same rollout.

    ## Why it hurts
    After the first step the policy is another one than that which acted, and nothing corrects for it: the gradient is wrong, and grows
    more so with each step.

    ## When it is fine
    Losses with a ratio of probabilities, as PPO's; single steps that add up gradients.

    ## Fix
    Collect anew before each step, or weight with the ratio of the new and the old probability.

    ## Wrong
    ```python
    import gymnasium as gym, torch

    env = gym.make("CartPole-v1")
    policy = torch.nn.Linear(4, 2)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    for _ in range(500):
        obs, _ = env.reset()
        seen, taken, rewards, over = [], [], [], False
        while not over:
            x = torch.as_tensor(obs)
            action = torch.distributions.Categorical(logits=policy(x)).sample()
            obs, reward, terminated, truncated, _ = env.step(action.item())
            over = terminated or truncated
            seen.append(x)
            taken.append(action)
            rewards.append(reward)
        returns, total = [], 0.0
        for reward in reversed(rewards):
            total = reward + 0.99 * total
            returns.insert(0, total)
        for _ in range(10):
            log_prob = torch.distributions.Categorical(logits=policy(torch.stack(seen))).log_prob(torch.stack(taken))
            loss = -(log_prob * torch.tensor(returns)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```

    ## Right
    ```python
    import gymnasium as gym, torch

    env = gym.make("CartPole-v1")
    policy = torch.nn.Linear(4, 2)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    for _ in range(500):
        obs, _ = env.reset()
        seen, taken, rewards, over = [], [], [], False
        while not over:
            x = torch.as_tensor(obs)
            action = torch.distributions.Categorical(logits=policy(x)).sample()
            obs, reward, terminated, truncated, _ = env.step(action.item())
            over = terminated or truncated
            seen.append(x)
            taken.append(action)
            rewards.append(reward)
        returns, total = [], 0.0
        for reward in reversed(rewards):
            total = reward + 0.99 * total
            returns.insert(0, total)
        log_prob = torch.distributions.Categorical(logits=policy(torch.stack(seen))).log_prob(torch.stack(taken))
        loss = -(log_prob * torch.tensor(returns)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```
    """
    run = execution(script)
    collecting = {loop for event in run.events if event.name == "env step" for loop in event.loops}
    for policy in laws.policies(script):
        value = policy.event.value
        if value is None or any(called(part) in _OF_RATIOS for part in formulas.parts(value, into_networks=False, into_arrays=False)):
            continue
        for loop in policy.event.loops:
            again = (
                isinstance(loop, ast.For)
                and loop not in collecting
                and isinstance(loop.iter, ast.Call)
                and script.last(loop.iter) == "range"
            )
            if not again or not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name):
                continue
            used = any(isinstance(each, ast.Name) and each.id == loop.target.id for statement in loop.body for each in ast.walk(statement))
            if not used and formulas.number(_count(script, loop)) != 1:
                for where in (loop, policy.event.node):
                    yield Spot(
                        where,
                        "the same rollout is used for several steps of a plain policy gradient: after the first it is another policy's",
                        "collect anew, or weight with the ratio of probabilities",
                    )


def _count(script: Script, loop: ast.For) -> Symbol | None:
    walked = execution(script).walked.get(loop)
    return (
        walked.args[-1]
        if isinstance(walked, Symbol) and walked.op == "range" and walked.args and isinstance(walked.args[-1], Symbol)
        else None
    )


@check("COD453", Severity.MEDIUM, ["nikanjam2022faults"])
def optimizer_made_anew(script: Script) -> Iterator[Spot]:
    """A new optimizer is made for every step.

    ## Why it hurts
    Adam's averages begin at nothing each time: every step has its full length, whatever the gradient, and momentum never builds up.

    ## When it is fine
    Networks that are made anew as well, and plain SGD.

    ## Fix
    Make it once, before the loop.

    ## Wrong
    ```python
    policy = torch.nn.Linear(4, 2)
    for batch in batches:
        optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
        loss = loss_of(policy, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```

    ## Right
    ```python
    policy = torch.nn.Linear(4, 2)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    for batch in batches:
        loss = loss_of(policy, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```
    """
    run = execution(script)
    for optimizer in {id(each.node): each for each in run.optimizers}.values():
        if not optimizer.loops or optimizer.data == "SGD" or _is_configured(script, optimizer):
            continue
        loop = optimizer.loops[-1]
        held = formulas.parameters(optimizer)
        inside = any(_is_made_in(each, loop) for each in held)
        steps = [event for event in run.events if event.name == "optimizer step" and getattr(event.subject, "node", None) is optimizer.node]
        within = [event for event in steps if loop in event.loops]
        once = any(not _is_repeated(run.walked, event.loops[event.loops.index(loop) + 1 :]) for event in within)
        if held and not inside and once:
            around = [each for each in script.all(ast.For) if each is loop or getattr(each, "lineno", 0) == getattr(loop, "lineno", -1)]
            called_at = [
                call
                for each in around[:1]
                for call in ast.walk(each)
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "configure_optimizers"
            ]
            for where in (*called_at[:1], optimizer.node):
                if where is not None:
                    yield Spot(
                        where,
                        "a new optimizer is made for every step: its averages begin at nothing each time",
                        "make it once, before the loop",
                    )


def _is_configured(script: Script, optimizer: Symbol) -> bool:
    """Made where Lightning asks for it, once."""
    inside = any(
        isinstance(each, ast.FunctionDef)
        and each.name == "configure_optimizers"
        and each.lineno <= getattr(optimizer.node, "lineno", 0) <= (each.end_lineno or 0)
        for each in script.functions
    )
    return inside and not script.calls("configure_optimizers")


def _is_made_in(value: object, loop: ast.AST) -> bool:
    if isinstance(value, Symbol):
        return loop in value.loops
    return isinstance(value, Record) and any(_is_made_in(each, loop) for each in value.attributes.values() if isinstance(each, Symbol))


def _is_repeated(walked: Mapping[ast.AST, object], loops: tuple[ast.AST, ...]) -> bool:
    """Whether steps are taken many times in a loop, and not once for each of several optimizers."""
    return any(isinstance(walked.get(loop), Symbol) or loop not in walked for loop in loops)


# ── environments of the script ──


def integers_for_observations(script: Script) -> Iterator[Spot]:
    for kind in script.classes:
        for method in [each for each in kind.body if isinstance(each, ast.FunctionDef) and each.name == "observation"]:
            for call in script.calls("astype", within=method):
                if (
                    call.args
                    and "int" in ast.unparse(call.args[0])
                    and any(isinstance(each.op, ast.Div) for each in script.inside(method, ast.BinOp))
                ):
                    yield Spot(call, f"{kind.name} rounds what it has divided to whole numbers: small differences are gone", "np.float32")


def never_limited(script: Script) -> Iterator[Spot]:
    """gym.make(…).unwrapped: the environment without its time limit."""
    if script.words & {"TimeLimit", "max_episode_steps", "max_steps", "horizon", "_max_episode_steps", "episode_length"}:
        return
    for each in script.all(ast.Attribute):
        statement = script.statement(each)
        made = isinstance(each.value, ast.Call) and script.last(each.value) == "make" and each.attr == "unwrapped"
        if made and isinstance(statement, ast.Assign) and statement.value is each and script.is_sb3:
            yield Spot(
                statement,
                "the time limit is taken off with the other wrappers: an episode of a good policy never ends",
                "TimeLimit(env, 500)",
            )


def limit_of_a_few_steps(script: Script) -> Iterator[Spot]:
    for call in script.calls("TimeLimit", "make", "make_vec"):
        given = keyword(call, "max_episode_steps") or (call.args[1] if script.last(call) == "TimeLimit" and len(call.args) > 1 else None)
        limit = script.constant(given) if given is not None else None
        if limit is not None and 0 < limit < _FEW_STEPS:
            yield Spot(call, f"episodes are cut after {limit:g} steps: nothing that takes longer can be learned", "the task's own limit")


def ends_as_time_limits(script: Script) -> Iterator[Spot]:
    """`terminated` is always False, and `truncated` is set by the state."""
    for kind, methods in wrappers.defined(script):
        step = methods.get("step")
        if step is None or wrappers.is_wrapper(kind):
            continue
        counters = wrappers._counters(step)
        for five in wrappers._five(step):
            if not (isinstance(five.elts[2], ast.Constant) and five.elts[2].value is False):
                continue
            for value, where in wrappers._values(step, five.elts[3]):
                parts = value.values if isinstance(value, ast.BoolOp) and isinstance(value.op, ast.Or) else []
                if len(parts) > 1 and any(not wrappers._is_clock(part, counters) and not _is_limit(part) for part in parts):
                    for place in dict.fromkeys((where, five)):
                        yield Spot(
                            place,
                            f"{kind.name} reports real ends as time limits: learners add a future that the state does not have",
                            "terminated",
                        )


def _is_limit(node: ast.expr) -> bool:
    text = ast.unparse(node).lower()
    return any(word in text for word in ("max", "limit", "horizon", "step", "time", "trunc", "minute", "clock", "tick", "frame"))


def never_begun(script: Script) -> Iterator[Spot]:
    """step counts something up that nothing ever sets."""
    for kind, methods in wrappers.defined(script):
        step = methods.get("step")
        whole = "reset" in methods and len(kind.bases) == 1 and ast.unparse(kind.bases[0]).endswith(("Env", "Wrapper"))
        if step is None or not whole:
            continue
        set_somewhere = {
            wrappers.own_attribute(part)
            for each in ast.walk(kind)
            if isinstance(each, ast.Assign | ast.AnnAssign)
            for target in (each.targets if isinstance(each, ast.Assign) else [each.target])
            for part in ast.walk(target)
        } | {
            part.id
            for each in kind.body
            if isinstance(each, ast.Assign | ast.AnnAssign)
            for part in ast.walk(each)
            if isinstance(part, ast.Name)
        }
        if any(isinstance(each, ast.Call) and words.own_name(each.func) == "setattr" for each in ast.walk(kind)):
            continue
        missed: dict[str, ast.AST] = {}
        for each in ast.walk(step):
            name = wrappers.own_attribute(each.target) if isinstance(each, ast.AugAssign) else ""
            if name and name not in set_somewhere:
                missed.setdefault(name, each)
        for name, where in missed.items():
            readers = [
                each
                for each in ast.walk(step)
                if isinstance(each, ast.Compare) and any(wrappers.own_attribute(one) == name for one in ast.walk(each))
            ]
            for place in (*readers[:1], *(methods["reset"].body[:1] if "reset" in methods else ()), where):
                yield Spot(place, f"self.{name} is counted in step, and set nowhere: reset must begin it", f"self.{name} = 0")


def seed_of_every_reset(script: Script) -> Iterator[Spot]:
    """super().reset(seed=0)"""
    for call in script.calls("reset"):
        seed = keyword(call, "seed")
        of_super = (
            isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call) and script.last(call.func.value) == "super"
        )
        if of_super and isinstance(seed, ast.Constant) and seed.value is not None:
            yield Spot(call, f"every reset seeds the generator with {seed.value!r}: each episode is the same one", "seed=seed")


def bounds_far_apart(script: Script) -> Iterator[Spot]:
    """A Box of actions that reaches far beyond what a policy that begins near 0 ever tries."""
    if not script.is_sb3:
        return
    for each in script.all(ast.Assign):
        if words.own_name(each.targets[0]) == "action_space" and isinstance(each.value, ast.Call) and script.last(each.value) == "Box":
            high = keyword(each.value, "high") or (each.value.args[1] if len(each.value.args) > 1 else None)
            bound = script.constant(high) if high is not None else None
            if bound is not None and bound >= _MOST_BOUND:
                yield Spot(
                    each,
                    f"actions reach up to {bound:g}, and a policy begins near 0 with a spread of 1: most of the range is never tried",
                    "[-1, 1], scaled in step",
                )


def actions_of_one_sign(script: Script) -> Iterator[Spot]:
    """np.clip(action, 0, 1), of a space that reaches from -1 to 1."""
    for kind, methods in _own(script):
        boxes = [
            each.value
            for method in methods.values()
            for each in ast.walk(method)
            if isinstance(each, ast.Assign) and words.own_name(each.targets[0]) == "action_space" and isinstance(each.value, ast.Call)
        ]
        step = methods.get("step")
        if len(boxes) != 1 or script.last(boxes[0]) != "Box" or step is None or len(step.args.args) != 2:
            continue
        low, high = (
            script.constant(given) if (given := argument(boxes[0], place, name)) is not None else None
            for place, name in ((0, "low"), (1, "high"))
        )
        action = step.args.args[1].arg
        for call in script.calls("clip", within=step):
            bounds = [script.constant(each) for each in call.args[1:3]]
            of_action = bool(call.args) and any(isinstance(each, ast.Name) and each.id == action for each in ast.walk(call.args[0]))
            plain = bool(call.args) and not any(isinstance(each, ast.BinOp) for each in ast.walk(call.args[0]))
            if not of_action or not plain or len(bounds) != 2 or low is None or high is None or None in bounds:
                continue
            if low < 0 < high and (bounds[0] >= 0 or bounds[1] <= 0):  # type: ignore[operator]
                yield Spot(
                    call,
                    f"{kind.name} cuts off half of its actions, which reach from {low:g} to {high:g}",
                    f"np.clip(action, {low:g}, {high:g})",
                )


# ── agents of Stable-Baselines3 ──


def networks_of_no_use(script: Script) -> Iterator[Spot]:
    """A layer of one or two units, or none that bends."""
    if not script.is_sb3:
        return
    for call in script.calls("dict", *agents.ALGORITHMS):
        activation = keyword(call, "activation_fn")
        if activation is not None and ast.unparse(activation).endswith("Identity"):
            yield Spot(activation, "without an activation between them all layers are one linear map", "nn.Tanh or nn.ReLU")
        arch = keyword(call, "net_arch")
        for part in ast.walk(arch) if arch is not None else ():
            if isinstance(part, ast.List) and any(
                isinstance(one, ast.Constant) and isinstance(one.value, int) and 0 < one.value < 4 for one in part.elts
            ):
                yield Spot(part, "a layer of so few units lets hardly anything through", "64 and more")
    for table in script.all(ast.Dict):
        for key, value in zip(table.keys, table.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == "activation_fn" and ast.unparse(value).endswith("Identity"):
                yield Spot(value, "without an activation between them all layers are one linear map", "nn.Tanh or nn.ReLU")


def settings_against_each_other(script: Script) -> Iterator[Spot]:
    """Settings of an agent that are fine alone, and not together."""
    for model in agents.models(execution(script)):
        numbers = {name: number for name, value in model.keys.items() if (number := formulas.number(value)) is not None}
        if called(model) in ("DQN", "QRDQN") and numbers.get("tau", 1.0) < 0.1 and numbers.get("target_update_interval", 10_000.0) > 100:
            for name in ("tau", "target_update_interval"):
                if name in model.keys:
                    where = agents.given(model, name)
                    if where is not None:
                        yield Spot(
                            where,
                            f"the target network takes {numbers['tau']:g} of the new weights every {numbers.get('target_update_interval', 10_000):g} steps: it stands still",
                            "tau=1.0, or an interval of 1",
                        )
        norm = numbers.get("max_grad_norm")
        if norm is not None and 0 < norm < 0.01:
            where = agents.given(model, "max_grad_norm")
            if where is not None:
                yield Spot(where, f"max_grad_norm is {norm:g}: every update is cut to almost nothing", "0.5")
        steps, frequency = numbers.get("gradient_steps", 1.0), numbers.get("train_freq", 1.0 if called(model) != "DQN" else 4.0)
        if steps > 0 and frequency > 0 and steps / frequency > 100:
            where = agents.given(model, "gradient_steps")
            if where is not None:
                yield Spot(
                    where,
                    f"{steps:g} gradient steps for every {frequency:g} steps of the environment: the same few transitions are learned by heart",
                    "1",
                )


def schedule_out_of_range(script: Script) -> Iterator[Spot]:
    """A schedule of the learning rate that falls below 0, or begins far too high."""
    run = execution(script)
    for model in agents.models(run):
        rate = model.keys.get("learning_rate")
        if not isinstance(rate, Closure):
            continue
        course = [formulas.number(run.answer(rate, at)) for at in (1.0, 0.5, 0.0)]
        held = [each for each in course if each is not None]
        body = rate.node.body[-1] if isinstance(rate.node, ast.FunctionDef) else rate.node.body
        if held and min(held) < 0:
            yield Spot(body, f"the learning rate falls to {min(held):.2g}: below 0 each step undoes what the loss asks for", "max(0, …)")
        elif held and max(held) >= agents.MOST_RATE:
            yield Spot(body, f"the learning rate reaches {max(held):.2g}: the policy jumps with every step", "3e-4")


def scheduler_grows(script: Script) -> Iterator[Spot]:
    """ExponentialLR and StepLR with a factor above 1, or one that ends learning within a few steps."""
    for call in script.calls("ExponentialLR", "StepLR", "MultiStepLR"):
        place = 1 if script.last(call) == "ExponentialLR" else 2
        given = keyword(call, "gamma") or (call.args[place] if len(call.args) > place else None)
        factor = script.constant(given) if given is not None else None
        if factor is not None and factor > 1:
            yield Spot(call, f"the learning rate is multiplied by {factor:g} each time: it grows without a bound", "0.99")
        elif factor is not None and factor < 0.5 and script.last(call) == "ExponentialLR":
            yield Spot(call, f"the learning rate is multiplied by {factor:g} each time: after a few of them nothing is learned", "0.99")


def statistics_never_move(script: Script) -> Iterator[Spot]:
    """VecNormalize(training=False) around the environment that is trained in."""
    for env in agents._training(execution(script)):
        for each in agents.chain(env)[:1]:
            frozen = each.keys.get("training")
            if each.data == "VecNormalize" and isinstance(frozen, Symbol) and frozen.data is False and each.node is not None:
                later = [event for event in execution(script).events if event.name == "set training" and event.subject is each]
                if not later:
                    yield Spot(
                        each.node,
                        "the statistics of the training environment never move: observations are divided by what nobody measured",
                        "training=True",
                    )


def saved_before_it_learned(script: Script) -> Iterator[Spot]:
    run = execution(script)
    order = {id(call): place for place, call in enumerate(run.calls)}
    for model in agents.models(run):
        learns = [order[id(call)] for call in run.calls if called(call) == "learn" and call.args and agents.is_agent(call.args[0], model)]
        saves = [call for call in run.calls if called(call) == "save" and call.args and agents.is_agent(call.args[0], model)]
        if learns and saves and all(order[id(call)] < learns[0] and not call.guards and call.loops == () for call in saves):
            for call in saves[:1]:
                if call.node is not None:
                    yield Spot(call.node, "the agent is saved before it has learned anything, and never after", "after model.learn(…)")


def scores_for_probabilities(script: Script) -> Iterator[Spot]:
    """Categorical(relu(x)): numbers that no softmax has made probabilities."""
    for dist in execution(script).dists:
        if called(dist) == "Normal" or dist.data != "Categorical":
            continue
        probs = dist.keys.get("probs") or (dist.args[0] if dist.args and "logits" not in dist.keys else None)
        while isinstance(probs, Symbol) and probs.op == "Add" and formulas.number(probs.args[1]) is not None:
            probs = probs.args[0]
        if (
            isinstance(probs, Symbol)
            and called(probs) in ("relu", "tanh", "elu", "leaky_relu", "softplus", "gelu", "silu")
            and probs.node is not None
        ):
            yield Spot(
                probs.node,
                f"{called(probs)} does not make probabilities: they are rescaled silently, and actions that it sets to 0 are never tried",
                "softmax(x, dim=-1)",
            )


# ── steps, resets and rewards of environments ──


def _own(script: Script) -> Iterator[tuple[ast.ClassDef, dict[str, ast.FunctionDef]]]:
    for kind, methods in wrappers.defined(script):
        if not wrappers.is_wrapper(kind):
            yield kind, methods


def both_ends_at_once(script: Script) -> Iterator[Spot]:
    """terminated and truncated: hardly ever both."""
    joined: list[tuple[ast.AST, list[ast.expr]]] = [(each, each.values) for each in script.all(ast.BoolOp) if isinstance(each.op, ast.And)]
    joined += [(each, [each.left, each.right]) for each in script.all(ast.BinOp) if isinstance(each.op, ast.BitAnd)]
    joined += [(each, each.args) for each in script.calls("logical_and", "bitwise_and")]
    for node, values in joined:
        names = [words.own_name(each) for each in values]
        two = len(names) == 2 and not any(words.NOT_ENDED(name) for name in names)
        if two and any(words.TERMINATED(one) and words.TRUNCATED(other) for one, other in (names, names[::-1])):
            yield Spot(
                node, "an episode ends where it is terminated or truncated; both at once hardly ever happens", "terminated or truncated"
            )


def ends_at_once(script: Script) -> Iterator[Spot]:
    for kind, methods in _own(script):
        for five in wrappers._five(methods["step"]) if "step" in methods else []:
            alone = len(wrappers._five(methods["step"])) == 1
            # What a step leaves as it was has no second one: a problem of a single decision.
            moves = any(isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store) for each in ast.walk(methods["step"]))
            ends = isinstance(five.elts[2], ast.Constant) and five.elts[2].value is True
            if alone and ends and moves and len(methods["step"].body) > 2:
                yield Spot(five, f"every step of {kind.name} is reported as the end of the episode", "terminated")


def _worked_out_for_nothing(step: ast.FunctionDef, action: str) -> list[ast.Assign]:
    """All that is made of an action, where none of it is read."""
    uses = [each for each in ast.walk(step) if isinstance(each, ast.Name) and each.id == action and isinstance(each.ctx, ast.Load)]
    made = [
        each
        for each in ast.walk(step)
        if isinstance(each, ast.Assign) and len(each.targets) == 1 and any(one is use for one in ast.walk(each.value) for use in uses)
    ]
    within = {id(one) for each in made for one in ast.walk(each.value)}
    names = {each.targets[0].id for each in made if isinstance(each.targets[0], ast.Name)}
    read = {each.id for each in ast.walk(step) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
    plain = all(isinstance(each.targets[0], ast.Name) for each in made)
    return made if made and plain and all(id(use) in within for use in uses) and not names & (read | {action}) else []


def action_never_read(script: Script) -> Iterator[Spot]:
    for kind, methods in _own(script):
        step = methods.get("step")
        if step is None or "reset" not in methods or len(step.args.args) != 2 or len(step.body) < 3:
            continue
        name = step.args.args[1].arg
        for made in _worked_out_for_nothing(step, name):
            yield Spot(
                made,
                f"what {kind.name}.step works out of its action is read nowhere: whatever the agent does, the same happens",
                "use it",
            )
        if not name.startswith("_") and not any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(step)):
            drawn = [
                each for each in ast.walk(step) if isinstance(each, ast.Call) and ast.unparse(each.func).endswith("action_space.sample")
            ]
            for where in (*drawn[:1], step):
                yield Spot(
                    where,
                    f"{kind.name}.step never looks at its action: whatever the agent does, the same happens",
                    name,
                    1.0 if drawn else 0.4,
                )


def observed_before_the_step(script: Script) -> Iterator[Spot]:
    """The observation that step returns is made before the state changes."""
    for kind, methods in _own(script):
        step = methods.get("step")
        for five in wrappers._five(step) if step is not None else []:
            shown = five.elts[0]
            if step is None or not isinstance(shown, ast.Name):
                continue
            made = [
                (place, each)
                for place, each in enumerate(step.body)
                if isinstance(each, ast.Assign) and any(isinstance(one, ast.Name) and one.id == shown.id for one in each.targets)
            ]
            if len(made) != 1 or not isinstance(made[0][1].value, ast.Call):
                continue
            place, statement = made[0]
            helper = methods.get(wrappers.own_attribute(statement.value.func)) if isinstance(statement.value, ast.Call) else None
            read = {wrappers.own_attribute(each) for each in ast.walk(helper)} - {""} if helper is not None else set()
            changed_later = {name for each in step.body[place + 1 :] for name in _changed(each)}
            changed_before = {name for each in step.body[:place] for name in _changed(each)}
            if read & changed_later and not read & changed_before:
                yield Spot(
                    statement,
                    f"{kind.name}.step looks before it acts: what it returns is the observation from before the step",
                    "after the state has changed",
                )


def _changed(statement: ast.stmt) -> set[str]:
    targets = [
        target
        for each in ast.walk(statement)
        if isinstance(each, ast.Assign | ast.AugAssign)
        for target in (each.targets if isinstance(each, ast.Assign) else [each.target])
    ]
    return {wrappers.own_attribute(part) for target in targets for part in ast.walk(target)} - {""}


def kept_by_reset(script: Script) -> Iterator[Spot]:
    """hasattr and getattr in reset: what the last episode left goes on."""
    for kind, methods in _own(script):
        reset = methods.get("reset")
        for call in script.calls("hasattr", "getattr", within=reset) if reset is not None else []:
            if (
                call.args
                and isinstance(call.args[0], ast.Name)
                and call.args[0].id == "self"
                and len(call.args) > 1
                and isinstance(call.args[1], ast.Constant)
            ):
                statement = script.statement(call)
                readers = [
                    each
                    for each in (ast.walk(methods["step"]) if "step" in methods else ())
                    if wrappers.own_attribute(each) == call.args[1].value
                ]
                if readers:
                    yield Spot(
                        statement,
                        f"{kind.name}.reset keeps self.{call.args[1].value!s} where there is one: it goes on from one episode to the next",
                        "set it",
                    )


def fixed_generator_in_reset(script: Script) -> Iterator[Spot]:
    for kind, methods in _own(script):
        for name in ("reset", "_reset", "_sample_goal"):
            for call in script.calls("default_rng", "RandomState", "Generator", within=methods[name]) if name in methods else []:
                if call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value is not None:
                    yield Spot(
                        call,
                        f"{kind.name}.{name} makes a generator with the same seed each time: each episode is the same one",
                        "self.np_random",
                    )


def goals_unread(script: Script) -> Iterator[Spot]:
    """compute_reward for goals that hindsight puts in its place."""
    for kind in script.classes:
        method = next((each for each in kind.body if isinstance(each, ast.FunctionDef) and each.name == "compute_reward"), None)
        if method is None or len(method.args.args) < 4:
            continue
        given = [each.arg for each in method.args.args[1:3]]
        read = {each.id for each in ast.walk(method) if isinstance(each, ast.Name)}
        own = [
            each for each in ast.walk(method) if isinstance(each, ast.BinOp) and any(wrappers.own_attribute(one) for one in ast.walk(each))
        ]
        if not set(given) & read:
            yield Spot(
                own[0] if own else method,
                f"{kind.name}.compute_reward does not read the goals that it is given: hindsight rewards are those of another goal",
                given[0],
            )
        for call in script.calls("norm", within=method):
            if not keyword(call, "axis") and len(call.args) == 1 and script.words & {"HerReplayBuffer"}:
                yield Spot(
                    call,
                    "the distance is taken over the whole batch: hindsight asks for many goals at once, and all get the same reward",
                    "axis=-1",
                )


def far_is_paid(script: Script) -> Iterator[Spot]:
    """A distance that is paid for as it is, or a step that is paid for being far away."""
    for kind in script.classes:
        for method in [
            each for each in kind.body if isinstance(each, ast.FunctionDef) and each.name in ("compute_reward", "step", "reward")
        ]:
            returned = [each.value for each in script.inside(method, ast.Return) if each.value is not None]
            if method.name == "step":
                returned = [each.elts[1] for each in returned if isinstance(each, ast.Tuple) and len(each.elts) == 5]
            for value in returned:
                sign, bare = 1, value
                while True:
                    if isinstance(bare, ast.UnaryOp) and isinstance(bare.op, ast.USub):
                        sign, bare = -sign, bare.operand
                    elif isinstance(bare, ast.Call) and isinstance(bare.func, ast.Name) and bare.func.id in ("float", "int") and bare.args:
                        bare = bare.args[0]
                    elif isinstance(bare, ast.Call) and isinstance(bare.func, ast.Attribute) and bare.func.attr == "astype":
                        bare = bare.func.value
                    else:
                        break
                distant = isinstance(bare, ast.Call) and script.last(bare) == "norm" and sign > 0
                compared = (
                    isinstance(bare, ast.Compare)
                    and len(bare.ops) == 1
                    and any(word in ast.unparse(bare.left).lower() for word in ("dist", "norm", "error"))
                )
                far = compared and isinstance(bare, ast.Compare) and isinstance(bare.ops[0], ast.Gt | ast.GtE) == (sign > 0)
                if distant or far:
                    yield Spot(value, f"{kind.name}.{method.name} pays for being far away", "-distance")


def goal_is_where_it_is(script: Script) -> Iterator[Spot]:
    for table in script.all(ast.Dict):
        held = {key.value: value for key, value in zip(table.keys, table.values, strict=True) if isinstance(key, ast.Constant)}
        one, other = held.get("achieved_goal"), held.get("desired_goal")
        spaces = any(isinstance(each, ast.Call) and script.last(each)[:1].isupper() for each in (one, other))
        same = one is not None and other is not None and not spaces and ast.unparse(one) == ast.unparse(other)
        if same and one is not None and other is not None and any(wrappers.own_attribute(each) for each in ast.walk(one)):
            for where in (one, other):
                yield Spot(
                    where,
                    "the goal that is wanted and the one that was reached are the same thing: every step is a success",
                    "two things",
                )


def shown_twice(script: Script) -> Iterator[Spot]:
    """concatenate([self.pos, self.pos])"""
    for _, methods in wrappers.defined(script):
        for method in methods.values():
            for call in script.calls("concatenate", "array", "hstack", within=method):
                listed = call.args[0].elts if call.args and isinstance(call.args[0], ast.List | ast.Tuple) else []
                texts = [ast.unparse(each) for each in listed if not isinstance(each, ast.Constant)]
                if (
                    1 < len(texts) < 9
                    and len(set(texts)) < len(texts)
                    and any(wrappers.own_attribute(part) for each in listed for part in ast.walk(each))
                ):
                    yield Spot(
                        call, "the observation shows the same thing twice: something else that belongs there is missing", "each once"
                    )


def predicted_and_not_taken(script: Script) -> Iterator[Spot]:
    """action, _ = model.predict(obs), and a random action is taken."""
    for function in [*script.functions, script.tree]:
        for call in script.calls("predict", within=function):
            statement = script.statement(call)
            target = statement.targets[0] if isinstance(statement, ast.Assign) else None
            first = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else target
            if not isinstance(first, ast.Name):
                continue
            read = [each for each in script.inside(function, ast.Name) if each.id == first.id and isinstance(each.ctx, ast.Load)]
            random = [
                each
                for each in script.calls("step", within=function)
                if each.args and ast.unparse(each.args[0]).endswith("action_space.sample()")
            ]
            if not read and random and script.scope(call) is script.scope(random[0]):
                yield Spot(random[0], "the agent is asked for an action, and a random one is taken", first.id)


def pointer_never_begins_again(script: Script) -> Iterator[Spot]:
    """A rollout's write position that only grows."""
    for kind in script.classes:
        methods = {each.name: each for each in kind.body if isinstance(each, ast.FunctionDef)}
        for method in methods.values():
            for each in script.inside(method, ast.AugAssign):
                name = wrappers.own_attribute(each.target)
                written = name and any(
                    isinstance(one, ast.Subscript) and isinstance(one.ctx, ast.Store) and wrappers.own_attribute(one.slice) == name
                    for one in ast.walk(method)
                )
                if not written or method.name == "__init__":
                    continue
                begins = [
                    other for other in methods.values() if other.name != "__init__" and other is not method and name in _set_in(other)
                ]
                guarded = any(isinstance(one, ast.Assert) and name in ast.unparse(one.test) for one in ast.walk(kind))
                wraps = any(isinstance(one, ast.Mod) for one in ast.walk(kind)) or name in _set_in(method)
                if not begins and guarded and not wraps:
                    readers = [one for one in ast.walk(kind) if isinstance(one, ast.Assert) and name in ast.unparse(one.test)]
                    for where in (each, *readers[:2]):
                        yield Spot(
                            where, f"self.{name} only grows: after the first rollout there is no room for a second one", f"self.{name} = 0"
                        )


def _set_in(function: ast.FunctionDef) -> set[str]:
    """Attributes that a method gives a new value, and not a part of one."""
    targets = [target for each in ast.walk(function) if isinstance(each, ast.Assign) for target in each.targets]
    return {wrappers.own_attribute(each) for target in targets for each in (target.elts if isinstance(target, ast.Tuple) else [target])}


def logarithm_as_deviation(script: Script) -> Iterator[Spot]:
    """Normal(mean, log_std)"""
    for call in script.calls("Normal"):
        scale = keyword(call, "scale") or (call.args[1] if len(call.args) > 1 else None)
        if scale is None:
            continue
        made = script.resolve(scale)
        for each in (scale, made):
            name = words.own_name(each).lower() if isinstance(each, ast.Name | ast.Attribute) else ""
            if name.startswith(("log_std", "logstd", "log_scale", "log_sigma", "logsigma")):
                statement = script.statement(made) if made is not scale and hasattr(made, "lineno") else call
                for where in dict.fromkeys((statement, call)):
                    yield Spot(
                        where,
                        f"`{words.own_name(each)}` is a logarithm, and stands where the deviation is meant: below 0 there is none",
                        ".exp()",
                    )
                break


def spread_never_learned(script: Script) -> Iterator[Spot]:
    """self.log_std = torch.as_tensor(…), in a network."""
    for kind in script.classes:
        if not any(ast.unparse(base).endswith("Module") for base in kind.bases):
            continue
        for each in ast.walk(kind):
            if isinstance(each, ast.Assign) and wrappers.own_attribute(each.targets[0]).startswith(("log_std", "logstd", "log_sigma")):
                tensor = (
                    isinstance(each.value, ast.Call)
                    and script.called(each.value).startswith("torch.")
                    and script.last(each.value) in ("as_tensor", "tensor", "zeros", "ones", "full")
                )
                if tensor and not keyword(each.value, "requires_grad") and "Parameter" not in ast.unparse(each.value):  # type: ignore[arg-type]
                    yield Spot(each, "the spread of the policy is a plain tensor: no optimizer ever changes it", "nn.Parameter(…)")


def stops_while_near(script: Script) -> Iterator[Spot]:
    """if kl < limit: break"""
    for each in script.all(ast.If):
        test = each.test
        if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not any(isinstance(one, ast.Break) for one in each.body):
            continue
        left, right = ("kl" in ast.unparse(side).lower() for side in (test.left, test.comparators[0]))
        limits = [
            "target" in ast.unparse(side).lower() or "max" in ast.unparse(side).lower() or "limit" in ast.unparse(side).lower()
            for side in (test.left, test.comparators[0])
        ]
        if left and limits[1] and not limits[0] and isinstance(test.ops[0], ast.Lt | ast.LtE):
            yield Spot(each, "the update is broken off while the policy is still near the old one, and goes on when it has run away", ">")
        elif right and limits[0] and not limits[1] and isinstance(test.ops[0], ast.Gt | ast.GtE):
            yield Spot(each, "the update is broken off while the policy is still near the old one, and goes on when it has run away", "<")


def clip_never_used(script: Script) -> Iterator[Spot]:
    """A ratio of probabilities, and a clipping range that nothing reads."""
    read = {words.own_name(each).lower() for each in script.all(ast.Name, ast.Attribute) if isinstance(each.ctx, ast.Load)}
    given = {argument.arg.lower() for function in script.functions for argument in [*function.args.args, *function.args.kwonlyargs]}
    names = {
        name
        for name in given | {words.own_name(target).lower() for each in script.all(ast.Assign) for target in each.targets}
        if name in _CLIPS
    }
    kept = {words.own_name(each).lower() for each in script.all(ast.Attribute) if isinstance(each.ctx, ast.Load)}
    if not names or any(name in kept or (name in read and name not in given) for name in names):
        return
    for policy in laws.policies(script):
        value = policy.event.value
        held = list(formulas.parts(value, into_networks=False, into_arrays=False)) if value is not None else []
        clipped = any(called(part) in ("clamp", "clip", "min", "minimum", "where") for part in held)
        for part in held if not clipped else []:
            if part.op == "Mult" and part.node is not None and any(called(one) == "exp" for one in part.args):
                yield Spot(
                    part.node,
                    "the ratio of probabilities is not clipped, though there is a range for it: one rollout can move the policy anywhere",
                    "torch.min(ratio * a, clipped * a)",
                )


_CLIPS: Final = frozenset(
    {"clip", "clip_ratio", "clip_eps", "clip_range", "clip_coef", "clip_epsilon", "clip_param", "eps_clip", "epsilon_clip"}
)


def counts_nothing(script: Script) -> Iterator[Spot]:
    """Running statistics whose count stays what it was."""
    for kind in script.classes:
        methods = {each.name: each for each in kind.body if isinstance(each, ast.FunctionDef)}
        start = methods.get("__init__")
        names = _set_in(start) if start is not None else set()
        if not {"mean", "var"} <= names or not names & {"count", "n"}:
            continue
        name = "count" if "count" in names else "n"
        moved = (
            set().union(*(_changed(each) for method in methods.values() if method is not start for each in method.body))
            if len(methods) > 1
            else set()
        )
        if "mean" in moved and name not in moved:
            for method in methods.values():
                readers = [
                    each
                    for each in ast.walk(method)
                    if method is not start and wrappers.own_attribute(each) == name and isinstance(getattr(each, "ctx", None), ast.Load)
                ]
                last = [each for each in method.body if method is not start and {"mean", "var"} & _changed(each)]
                for where in [script.statement(each) for each in readers[:1]] + last[-1:]:
                    yield Spot(
                        where, f"self.{name} never grows: statistics follow the last batch, and forget all others", f"self.{name} = total"
                    )


def settings_of_td3(script: Script) -> Iterator[Spot]:
    for model in agents.models(execution(script)):
        numbers = {name: number for name, value in model.keys.items() if (number := formulas.number(value)) is not None}
        for name, most, why in (
            ("policy_delay", 100, "the actor hardly ever learns"),
            ("target_policy_noise", 1.0, "targets are those of random actions"),
            ("target_noise_clip", 2.0, "targets are those of random actions"),
        ):
            where = agents.given(model, name) if numbers.get(name, 0.0) > most else None
            if where is not None:
                yield Spot(where, f"{name} is {numbers[name]:g}: {why}")
        frequency = next((each.value for each in getattr(model.node, "keywords", ()) if each.arg == "train_freq"), None)
        if isinstance(frequency, ast.Tuple) and len(frequency.elts) == 2:
            often, unit = script.constant(frequency.elts[0]), getattr(frequency.elts[1], "value", "")
            if often is not None and unit == "episode" and often > 50:
                yield Spot(frequency, f"the agent learns once in {often:g} episodes", '(1, "step")')
        table = next((each.value for each in getattr(model.node, "keywords", ()) if each.arg == "replay_buffer_kwargs"), None)
        goals = keyword(table, "n_sampled_goal") if isinstance(table, ast.Call) else None
        if goals is not None and script.constant(goals) == 0:
            yield Spot(goals, "no goal is put in hindsight: sparse rewards stay unseen", "n_sampled_goal=4")


MEANINGS: Final[dict[str, tuple[Callable[[Script], Iterator[Spot]], ...]]] = {
    "COD105": (both_ends_at_once,),
    "COD106": (observed_before_the_step,),
    "COD109": (seed_of_every_reset, fixed_generator_in_reset),
    "COD111": (never_limited, ends_as_time_limits, ends_at_once),
    "COD112": (never_begun, kept_by_reset),
    "COD113": (action_never_read,),
    "COD114": (actions_of_one_sign, goals_unread, far_is_paid, goal_is_where_it_is),
    "COD115": (integers_for_observations, shown_twice),
    "COD116": (bounds_far_apart,),
    "COD133": (pointer_never_begins_again,),
    "COD205": (scores_for_probabilities,),
    "COD209": (stops_while_near, clip_never_used),
    "COD212": (logarithm_as_deviation,),
    "COD309": (counts_nothing,),
    "COD408": (scheduler_grows,),
    "COD413": (schedule_out_of_range,),
    "COD414": (spread_never_learned,),
    "COD703": (statistics_never_move,),
    "COD711": (saved_before_it_learned, predicted_and_not_taken),
    "COD809": (limit_of_a_few_steps, networks_of_no_use, settings_against_each_other, settings_of_td3),
}
"""What is added to which check."""
