"""Exploration of Q-learners: whether actions are ever drawn at random, when, and for how long."""

# ruff: noqa: E501 — a message reads best whole

import ast
import math
import re
from collections.abc import Callable, Iterator
from typing import Final

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.lint.code.reading import words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot
from rlclinic.diagnosis.lint.code.schedules import value_at

LARGE_EPSILON = 0.3
FEW_UPDATES = 2_000
"""Updates within which nobody has explored enough: some twenty episodes of CartPole."""
_FLOOR = re.compile(r"end|min|final|low")
DRAWS = ("random", "rand", "uniform", "random_sample")


@check("COD508", Severity.MEDIUM, ["mnih2015dqn", "nikanjam2022faults"])
def epsilon_never_decays(script: Script) -> Iterator[Spot]:
    """The share of random actions is large and stays as it began.

    ## Why it hurts
    The agent never acts on what it learned: training returns are capped, and late states are never visited.

    ## When it is fine
    A small constant share, below 0.3.

    ## Fix
    Let it fall to 0.01-0.05 over the first 10-50 % of the run.

    ## Wrong
    ```python
    import random

    epsilon = 1.0
    for step in range(100_000):
        if random.random() < epsilon:
            action = env.action_space.sample()
    ```

    ## Right
    ```python
    import random

    epsilon = 1.0
    for step in range(100_000):
        if random.random() < epsilon:
            action = env.action_space.sample()
        epsilon = max(0.05, epsilon * 0.999)
    ```
    """
    for node in script.all(ast.Compare):
        drawn = any(script.last(each) in ("random", "rand", "uniform", "random_sample") for each in ast.walk(node))
        names = [
            comparator
            for comparator in (node.left, *node.comparators)
            if isinstance(comparator, ast.Name | ast.Attribute) and words.EPSILON(words.own_name(comparator))
        ]
        if not drawn or not names:
            continue
        name = words.own_name(names[0])
        if any(words.EPSILON(each.arg) for each in script.all(ast.arg)):
            name = _passed(script, node, name)
        made = [each for each in script.all(ast.Assign, ast.AugAssign, ast.AnnAssign) if name in _set(each)]
        whole = [each for other, each, _ in script.named if other.rpartition(".")[2] == name]
        value = script.constant(whole[0]) if len(made) == 1 and len(whole) == 1 else None
        if value is not None and value >= LARGE_EPSILON:
            yield Spot(made[0], f"`{name}` stays at {value:g}: that share of all actions is random to the end")


def _passed(script: Script, node: ast.AST, name: str) -> str:
    """What the caller calls a function's own epsilon, where one caller gives one name; "" otherwise."""
    function = script.scope(node)
    if not isinstance(function, ast.FunctionDef):
        return ""
    parameters = [argument.arg for argument in function.args.args if argument.arg != "self"]
    given = {
        value.id
        for call in script.calls(function.name)
        for parameter, value in zip(parameters, call.args, strict=False)
        if parameter == name and isinstance(value, ast.Name)
    }
    # A caller that decides by another name, or by the method's own state, is not followed.
    return given.pop() if len(given) == 1 and all(call.args for call in script.calls(function.name)) else ""


@check("COD519", Severity.MEDIUM, ["mnih2015dqn"])
def epsilon_decays_with_updates(script: Script) -> Iterator[Spot]:
    """The share of random actions falls by a factor with each update, and is at its floor within a few episodes.

    ## Why it hurts
    How long the agent explores then hangs on how often it learns: a factor of 0.995 at every update leaves 0.01 after 919 of them, about
    ten episodes of CartPole. What is met later is never tried out.

    ## When it is fine
    Where an update is made once an episode, or the task is as simple as that.

    ## Fix
    Let it fall with env steps, over the first 10-50 % of the budget.

    ## Wrong
    ```python
    class Agent:
        def __init__(self):
            self.epsilon, self.epsilon_min, self.epsilon_decay = 1.0, 0.01, 0.995

        def replay(self, batch):
            loss = self.loss(batch)
            loss.backward()
            self.optimizer.step()
            if self.epsilon > self.epsilon_min:
                self.epsilon *= self.epsilon_decay
    ```

    ## Right
    ```python
    class Agent:
        def __init__(self):
            self.epsilon, self.epsilon_min, self.epsilon_decay = 1.0, 0.01, 0.995

        def replay(self, batch):
            loss = self.loss(batch)
            loss.backward()
            self.optimizer.step()

        def end_episode(self):
            self.epsilon = max(self.epsilon_min, self.epsilon * self.epsilon_decay)
    ```
    """
    for learning in script.calls("backward"):
        function = script.scope(learning)
        if not isinstance(function, ast.FunctionDef):
            continue
        around = script.loops(learning)[:1]
        changes: list[ast.AugAssign | ast.Assign] = [*script.inside(function, ast.AugAssign), *script.inside(function, ast.Assign)]
        for node in changes:
            name, factor = _falls_by(node)
            # The same turn of the same loop: what falls after all the updates of an episode is another matter.
            if (
                factor is None
                or script.scope(node) is not function
                or script.loops(node)[:1] != around
                or _once_an_episode(script, function)
            ):
                continue
            share = value_at(script, factor, {})
            floor = next((each for each in map(script.constant, _floors(script, function, name)) if each), 0.01)
            if share is None or not 0 < share < 1 or not 0 < floor < 1:
                continue
            updates = math.ceil(math.log(floor) / math.log(share))
            if updates < FEW_UPDATES:
                yield Spot(
                    node,
                    f"`{name}` is multiplied by {share:g} at every update: from 1 it is {floor:g} after {updates:,} of them",
                    "let it fall with env steps, over the first 10-50 % of the budget",
                )


def _falls_by(node: ast.AugAssign | ast.Assign) -> tuple[str, ast.expr | None]:
    """The share of random actions that a statement multiplies, and by what: eps *= d, eps = eps * d, eps = max(floor, eps * d)."""
    if isinstance(node, ast.AugAssign):
        name = words.own_name(node.target)
        return name, node.value if words.EPSILON(name) and isinstance(node.op, ast.Mult) else None
    name = words.own_name(node.targets[0])
    for product in ast.walk(node.value) if words.EPSILON(name) else ():
        if isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult):
            for share, other in ((product.left, product.right), (product.right, product.left)):
                if words.own_name(share) == name:
                    return name, other
    return name, None


def _floors(script: Script, function: ast.AST, name: str) -> list[ast.expr]:
    """What a share of random actions is compared with or kept above where it falls, as it was set."""
    beside = [
        words.own_name(each)
        for node in [*script.inside(function, ast.Compare), *script.inside(function, ast.Call)]
        if name in set(words.identifiers(node))
        for each in ast.walk(node)
        if isinstance(each, ast.Name | ast.Attribute) and _FLOOR.search(words.own_name(each).lower())
    ]
    return [value for other, value, _ in script.named if other.rpartition(".")[2] in beside]


def _once_an_episode(script: Script, function: ast.FunctionDef) -> bool:
    """Whether it is called where no step is taken: at the end of an episode."""
    sites = script.calls(function.name)
    steps = [call for call in script.calls("step") if words.ENVIRONMENT(script.owner(call).rpartition(".")[2])]
    taken = [script.loops(step)[:1] for step in steps]
    return bool(sites) and not any(loop in taken for site in sites if (loop := script.loops(site)[:1]))


@check("COD513", Severity.HIGH, ["mnih2015dqn"])
def epsilon_cut_at_once(script: Script) -> Iterator[Spot]:
    """The share of random actions is cut to its floor by the first step of its decay.

    ## Why it hurts
    min() of a floor and a value above it is the floor: exploration ends before anything is known.

    ## When it is fine
    Never.

    ## Fix
    epsilon = max(epsilon_end, epsilon * decay)

    ## Wrong
    ```python
    epsilon = min(epsilon_end, epsilon * 0.995)
    ```

    ## Right
    ```python
    epsilon = max(epsilon_end, epsilon * 0.995)
    ```
    """
    for node in script.all(ast.Assign):
        name, call = words.own_name(node.targets[0]), node.value
        if not words.EPSILON(name) or script.called(call) not in ("min", "numpy.minimum") or not isinstance(call, ast.Call):
            continue
        falling = any(isinstance(argument, ast.BinOp) and name in set(words.identifiers(argument)) for argument in call.args)
        others = [argument for argument in call.args if not isinstance(argument, ast.BinOp)]
        floor = any(_FLOOR.search(words.own_name(other).lower()) or (script.constant(other) or 1.0) < LARGE_EPSILON for other in others)
        if falling and floor:
            yield Spot(node, f"the smaller of the two is taken: `{name}` is at its floor after one step", f"{name} = max(…)")


def _set(statement: ast.Assign | ast.AugAssign | ast.AnnAssign) -> set[str]:
    """Names that a statement sets."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    parts = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return {words.own_name(part) for part in parts}


@check("COD509", Severity.HIGH, ["nikanjam2022faults"])
def no_exploration(script: Script) -> Iterator[Spot]:
    """A Q-learner always takes the greedy action.

    ## Why it hurts
    What looks worst at the start is never tried: the first random preferences decide the outcome.

    ## When it is fine
    Optimistic initial values, or learning from recorded data.

    ## Fix
    if random.random() < epsilon: action = env.action_space.sample()

    ## Wrong
    ```python
    obs, info = env.reset()
    while True:
        action = q_net(obs).argmax().item()
        obs, reward, terminated, truncated, info = env.step(action)
        loss = update(obs, action, reward)
        loss.backward()
    ```

    ## Right
    ```python
    import random

    obs, info = env.reset()
    while True:
        action = q_net(obs).argmax().item() if random.random() > epsilon else env.action_space.sample()
        obs, reward, terminated, truncated, info = env.step(action)
        loss = update(obs, action, reward)
        loss.backward()
    ```
    """
    learner = script.calls("backward") and not script.calls("log_prob", "Categorical", "Normal", "rsample")
    acts = [step for step in script.calls("step") if step.args and words.ENVIRONMENT(script.owner(step).rpartition(".")[2])]
    if not learner or script.is_sb3 or not acts:
        return
    for call in script.calls("argmax"):
        function, target = script.scope(call), script.statement(call)
        action = words.own_name(target.targets[0]) if isinstance(target, ast.Assign) else ""
        if words.EVALUATION(getattr(function, "name", "")) or not (action.startswith("act") or isinstance(target, ast.Return)):
            continue
        callers = [script.scope(site) for site in script.calls(function.name)] if isinstance(function, ast.FunctionDef) else []
        if not any(_draws(script, caller) for caller in (function, *callers)):
            yield Spot(call, "every action is the greedy one: nothing around it draws a random one")
            return


def _draws(script: Script, node: ast.AST) -> bool:
    """Whether chance has a say: a draw, a share of random actions, noise."""
    named = words.mentions(node, words.CHANCE)
    drawn = script.calls(
        "random", "rand", "uniform", "choice", "multinomial", "normal", "randn", "randint", "bernoulli", "randn_like", within=node
    )
    return named or bool(drawn) or any("action_space" in script.owner(call) for call in script.calls("sample", within=node))


@check("COD511", Severity.HIGH, ["mnih2015dqn"])
def exploration_inverted(script: Script) -> Iterator[Spot]:
    """Random actions are taken where greedy ones are meant, and the other way round.

    ## Why it hurts
    Exploration is small at the start and grows as epsilon falls: the trained agent ends up acting at random.

    ## When it is fine
    Where the name means the share of greedy actions.

    ## Fix
    if random.random() < epsilon: action = env.action_space.sample()

    ## Wrong
    ```python
    import random

    if random.random() > epsilon:
        action = env.action_space.sample()
    else:
        action = q_net(obs).argmax().item()
    ```

    ## Right
    ```python
    import random

    if random.random() < epsilon:
        action = env.action_space.sample()
    else:
        action = q_net(obs).argmax().item()
    ```
    """
    for node in script.all(ast.If, ast.IfExp):
        test = node.test
        if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
            continue
        drawn_left = any(script.last(each) in DRAWS for each in ast.walk(test.left))
        share = test.comparators[0] if drawn_left else test.left
        drawn_right = any(script.last(each) in DRAWS for each in ast.walk(test.comparators[0]))
        if drawn_left == drawn_right or not words.EPSILON(words.own_name(share) or script.last(share)):
            continue
        below = isinstance(test.ops[0], ast.Lt | ast.LtE) == drawn_left
        otherwise = node.orelse
        if isinstance(node, ast.If) and not node.orelse and isinstance(node.body[-1], ast.Return | ast.With | ast.Continue):
            # The branch returns: what follows is the other one.
            block = next((each for field in ("body", "orelse") if node in (each := getattr(script.parents[node], field, []))), [])
            otherwise = block[block.index(node) + 1 :]
        first, second = _acts_at_random(script, node.body), _acts_at_random(script, otherwise)
        if first != second and first != below:
            yield Spot(node, f"random actions are taken with probability 1 - `{ast.unparse(share)}`: exploration grows as it should fall")


def _acts_at_random(script: Script, part: ast.AST | list[ast.stmt]) -> bool:
    """Whether a branch draws an action instead of asking for the best one."""
    nodes = part if isinstance(part, list) else [part]
    calls = [each for node in nodes for each in ast.walk(node) if isinstance(each, ast.Call)]
    if any(script.last(call) in ("argmax", "max") for call in calls):
        return False
    return any(
        script.last(call) in ("randint", "randrange", "choice", "integers") or "action_space" in script.owner(call) for call in calls
    )


_JUDGED: Final = re.compile(r"^(is_?)?(eval\w*|test\w*|deterministic|greedy|inference)$")
_LEARNING: Final = re.compile(r"^(is_?)?(train\w*|explore|exploring|learning|stochastic|add_noise|noisy)$")
_NOISY: Final = frozenset({"normal", "randn", "randn_like", "standard_normal", "uniform", "noise", "rsample", "sample", "randint"})
_KEEPING: Final = frozenset(
    {"remember", "store", "push", "add", "learn", "update", "store_transition", "train_step", "optimize", "step_learn"}
)


def switched_the_wrong_way(script: Script) -> Iterator[tuple[str, Spot]]:
    """if evaluate: noise; if not training: learn."""
    for node in script.all(ast.If):
        turned = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)
        asked = node.test.operand if isinstance(node.test, ast.UnaryOp) and turned else node.test
        name = words.own_name(asked).lower() if isinstance(asked, ast.Name | ast.Attribute) else ""
        judged, learning = bool(_JUDGED.match(name)), bool(_LEARNING.match(name))
        if not judged and not learning:
            continue
        quiet, loud = (node.body, node.orelse) if judged != turned else (node.orelse, node.body)
        called = {script.last(each) for part in quiet for each in ast.walk(part) if isinstance(each, ast.Call)}
        other = {script.last(each) for part in loud for each in ast.walk(part) if isinstance(each, ast.Call)}
        added = any(
            isinstance(each, ast.BinOp | ast.AugAssign)
            and isinstance(each.op, ast.Add)
            and _NOISY & {script.last(one) for one in ast.walk(each) if isinstance(one, ast.Call)}
            for part in quiet
            for each in ast.walk(part)
        )
        if added and not _NOISY & other:
            yield (
                "COD511",
                Spot(
                    node,
                    f"noise is added to actions where `{ast.unparse(node.test)}` asks for an evaluation, and to none in training",
                    f"not {name}",
                ),
            )
        elif called & {"sample", "rsample"} and not other & {"sample", "rsample"} and other & {"argmax", "mean", "tanh", "max"}:
            yield (
                "COD511",
                Spot(
                    node,
                    f"actions are drawn where `{ast.unparse(node.test)}` asks for an evaluation, and certain in training",
                    f"not {name}",
                ),
            )
        methods = {
            script.last(each)
            for part in quiet
            for each in ast.walk(part)
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)
        }
        if methods & _KEEPING and not other and methods & {"remember", "learn", "store", "store_transition", "push"}:
            yield (
                "COD415",
                Spot(
                    node,
                    f"experience is kept and learned from where `{ast.unparse(node.test)}` asks for an evaluation, and nowhere in training",
                    f"not {name}",
                ),
            )


def _switched(id: str) -> Callable[[Script], Iterator[Spot]]:
    return lambda script: (spot for check, spot in switched_the_wrong_way(script) if check == id)


def decayed_twice(script: Script) -> Iterator[Spot]:
    """The same statement makes epsilon smaller in a loop and in the one around it."""
    held: dict[tuple[ast.AST, str], list[ast.stmt]] = {}
    changes: list[ast.Assign | ast.AugAssign] = [*script.all(ast.Assign), *script.all(ast.AugAssign)]
    for node in changes:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if (
            words.EPSILON(words.own_name(target))
            and script.loops(node)
            and words.mentions(node.value, lambda name: "decay" in name.lower())
        ):
            held.setdefault((script.scope(node), ast.unparse(node)), []).append(node)
    for several in held.values():
        depths = {len(script.loops(each)) for each in several}
        if len(several) > 1 and len(depths) > 1:
            inner = max(several, key=lambda each: len(script.loops(each)))
            yield Spot(
                inner,
                "the chance to explore falls here at every step, and once more at the end of each episode: it is over within the first few",
                "once an episode",
            )


def chosen_in_evaluation(script: Script) -> Iterator[Spot]:
    """A method whose share of random actions is large unless it is given, and an evaluation that does not give it."""
    for function in script.functions:
        places = [*function.args.args]
        for place, default in zip(reversed(places), reversed(function.args.defaults), strict=False):
            number = script.constant(default)
            if (
                words.EPSILON(place.arg)
                and number is not None
                and number >= 0.2
                and function.name in ("act", "choose_action", "select_action", "get_action", "choose")
            ):
                sites = script.calls(function.name)
                bare = [
                    call
                    for call in sites
                    if len(call.args) < places.index(place) + (0 if places[0].arg == "self" else 1)
                    and place.arg not in {key.arg for key in call.keywords}
                ]
                for call in bare if len(bare) < len(sites) else []:
                    yield Spot(
                        function,
                        f"line {call.lineno} acts without a chance to explore, and gets {number:g} by default: actions of an evaluation are random",
                        f"{place.arg}=0.0",
                    )
                    break


MEANINGS: Final[dict[str, tuple[Callable[[Script], Iterator[Spot]], ...]]] = {
    "COD415": (_switched("COD415"),),
    "COD508": (decayed_twice,),
    "COD511": (_switched("COD511"),),
    "COD710": (chosen_in_evaluation,),
}
"""What is added to which check."""
