"""What a script prepares and then leaves out: an order that is never shuffled, weights that stay frozen, a method that nobody calls."""

import ast
import re
from collections.abc import Callable, Iterator
from typing import Final

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.lint.code.reading import flow, words
from rlclinic.diagnosis.lint.code.reading.script import Function, Script, Spot, keyword

_SHUFFLING: Final = frozenset(
    {"randperm", "permutation", "shuffle", "SubsetRandomSampler", "RandomSampler", "choice", "choices", "randint", "integers", "sample",
     "DataLoader", "multinomial", "permuted"}
)  # fmt: skip
_COPYING: Final = frozenset({"copy_", "lerp_", "load_state_dict"})
_HOOKS: Final = ("on_", "configure_", "train_", "val_", "test_", "predict_", "_on_", "__", "visit_", "training_", "validation_")


@check("COD417", Severity.MEDIUM, ["andrychowicz2021matters"])
def minibatches_in_order(script: Script) -> Iterator[Spot]:
    """Minibatches are cut from a rollout in the order of its steps, and nothing shuffles it.

    ## Why it hurts
    Neighbouring steps are alike: each minibatch shows one moment of a few episodes, its gradient points there, and every epoch repeats
    the same parts in the same order.

    ## When it is fine
    Recurrent policies, which need whole sequences.

    ## Fix
    order = torch.randperm(batch_size) in each epoch.

    ## Wrong
    ```python
    import torch

    for epoch in range(10):
        order = torch.arange(2048)
        for start in range(0, 2048, 64):
            rows = order[start : start + 64]
            loss = loss_of(obs[rows], actions[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```

    ## Right
    ```python
    import torch

    for epoch in range(10):
        order = torch.randperm(2048)
        for start in range(0, 2048, 64):
            rows = order[start : start + 64]
            loss = loss_of(obs[rows], actions[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```
    """
    recurrent = script.words & {"LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "hidden_state", "lstm", "gru"}
    if recurrent or (not script.calls("backward", "training_step") and "training_step" not in {each.name for each in script.functions}):
        return
    for call in script.calls("arange"):
        statement = script.statement(call)
        scope = script.scope(call)
        name = words.own_name(statement.targets[0]) if isinstance(statement, ast.Assign) and statement.value is call else ""
        loops = [loop for loop in script.loops(call) if isinstance(loop, ast.For)]
        cut = _cuts(script, scope, name) if name else _is_cut(script, call)
        mixed = script.calls(*_SHUFFLING - {"sample"}, within=scope)
        learns = script.calls("backward", "step", within=scope) or any(
            isinstance(each, ast.Yield) for each in script.inside(scope, ast.Yield)
        )
        if cut and not mixed and (learns or loops) and not _is_mixed_elsewhere(script, name):
            yield Spot(
                statement,
                "minibatches are cut in the order of the steps: nothing shuffles them",
                "torch.randperm(n) in each epoch",
            )


def _cuts(script: Script, scope: ast.AST, name: str) -> bool:
    """Whether parts of an order of rows are taken in a loop: order[a : a + n], order.split(n)."""
    for each in script.inside(scope, ast.Subscript):
        cut = isinstance(each.slice, ast.Slice) and (each.slice.lower is not None) and not isinstance(each.slice.lower, ast.Constant)
        if cut and words.own_name(each.value) == name and script.loops(each):
            return True
    return any(
        script.owner(call) == name or any(words.own_name(given) == name for given in call.args[:1])
        for call in script.calls("split", "chunk", "array_split", "tensor_split", within=scope)
    )


def _is_cut(script: Script, call: ast.Call) -> bool:
    """arange(n).split(size), array_split(arange(n), parts)"""
    parent = script.parents.get(call)
    around = script.parents.get(parent) if parent is not None else None
    return script.last(parent) in ("array_split", "split") or (  # type: ignore[arg-type]
        isinstance(parent, ast.Attribute) and parent.attr in ("split", "chunk") and isinstance(around, ast.Call)
    )


def _is_mixed_elsewhere(script: Script, name: str) -> bool:
    """shuffle(order) in another function, or an order that another one is put into."""
    return any(words.own_name(given) == name for call in script.calls("shuffle") for given in call.args) if name else False


@check("COD418", Severity.HIGH, ["fujimoto2018td3"])
def frozen_for_good(script: Script) -> Iterator[Spot]:
    """Weights that an optimizer holds are frozen for a moment, and never released.

    ## Why it hurts
    A critic is often frozen while the actor learns through it. Left frozen, it gets no gradient any more: it stays what it was after
    its first update, and the actor follows it.

    ## When it is fine
    Copies for targets, and parts that are meant to stay as they were loaded.

    ## Fix
    requires_grad = True again, after the actor's step.

    ## Wrong
    ```python
    import torch

    q_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
    for step in range(1000):
        q_optimizer.zero_grad()
        critic_loss(batch).backward()
        q_optimizer.step()
        for p in critic.parameters():
            p.requires_grad = False
        pi_optimizer.zero_grad()
        actor_loss(batch).backward()
        pi_optimizer.step()
    ```

    ## Right
    ```python
    import torch

    q_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
    for step in range(1000):
        q_optimizer.zero_grad()
        critic_loss(batch).backward()
        q_optimizer.step()
        for p in critic.parameters():
            p.requires_grad = False
        pi_optimizer.zero_grad()
        actor_loss(batch).backward()
        pi_optimizer.step()
        for p in critic.parameters():
            p.requires_grad = True
    ```
    """
    frozen, released = [], set()
    for node, what, value in _freezing(script):
        if value is False:
            frozen.append((node, what))
        else:
            released.add(what)
    held = [
        ast.unparse(given)
        for name in _OPTIMIZERS
        for call in script.calls(name)
        for given in [*call.args[:1], keyword(call, "params")]
        if given
    ]
    held += [ast.unparse(call) for call in script.calls("add_param_group")]
    for node, what in frozen:
        # One network, or several in a chain.
        for name in re.findall(r"([\w.]+)\.parameters\(\)", what) or [what]:
            used = any(each == name or f"{name}.parameters" in each or f"*{name}" in each for each in held)
            kept = what in released or any(f"{name}.parameters()" in each or each == name for each in released)
            if name and used and not kept and not words.TARGET(name.rpartition(".")[2]):
                for where in (node, *(node.body[:1] if isinstance(node, ast.For) else ())):
                    yield Spot(
                        where,
                        f"`{name}` is frozen here and never released: its optimizer has nothing to do any more",
                        "requires_grad = True again",
                    )


_OPTIMIZERS: Final = ("Adam", "AdamW", "SGD", "RMSprop", "NAdam", "RAdam")


def _freezing(script: Script) -> Iterator[tuple[ast.AST, str, bool | None]]:
    """Where gradients are switched off or on, of what; None where a function is told which."""
    for node in script.all(ast.Assign):
        target = node.targets[0]
        if isinstance(target, ast.Attribute) and target.attr == "requires_grad" and isinstance(target.value, ast.Name):
            loop = next((each for each in script.loops(node) if isinstance(each, ast.For)), None)
            walked = loop is not None and any(isinstance(each, ast.Name) and each.id == target.value.id for each in ast.walk(loop.target))
            value = node.value.value if isinstance(node.value, ast.Constant) and isinstance(node.value.value, bool) else None
            if loop is not None and walked:
                yield loop, ast.unparse(loop.iter), value
    for call in script.calls("requires_grad_"):
        given = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None if call.args else True
        value = given if isinstance(given, bool) else None
        owner = script.owner(call)
        loop = next((each for each in script.loops(call) if isinstance(each, ast.For)), None)
        if loop is not None and any(isinstance(each, ast.Name) and each.id == owner for each in ast.walk(loop.target)):
            yield loop, ast.unparse(loop.iter), value
        elif owner and isinstance(script.parents.get(call), ast.Expr):
            yield call, owner, value


@check("COD419", Severity.HIGH, ["nikanjam2022faults"])
def never_called(script: Script) -> Iterator[Spot]:
    """A method that copies weights, empties a memory or lets exploration fall is written, and nobody calls it.

    ## Why it hurts
    The target network stays what it was at the start, old experience is learned from as if it were new, or actions stay random to the
    end. The script runs, and nothing says that a step of it is missing.

    ## When it is fine
    Files whose methods are called from another one; those that make no object of the class are left alone.

    ## Fix
    Call it where its turn is.

    ## Wrong
    ```python
    class Agent:
        def __init__(self):
            self.target.load_state_dict(self.net.state_dict())

        def update_target(self):
            self.target.load_state_dict(self.net.state_dict())

        def learn(self, batch):
            loss = self.loss(batch)
            loss.backward()


    agent = Agent()
    for step in range(1000):
        agent.learn(collect())
    ```

    ## Right
    ```python
    class Agent:
        def __init__(self):
            self.target.load_state_dict(self.net.state_dict())

        def update_target(self):
            self.target.load_state_dict(self.net.state_dict())

        def learn(self, batch):
            loss = self.loss(batch)
            loss.backward()


    agent = Agent()
    for step in range(1000):
        agent.learn(collect())
        if step % 100 == 0:
            agent.update_target()
    ```
    """
    if not script.calls("backward") and "training_step" not in {each.name for each in script.functions}:
        return
    made = {script.last(call) for call in script.all(ast.Call)}
    texts = {node.value for node in script.all(ast.Constant) if isinstance(node.value, str)}
    for function in script.functions:
        if isinstance(function, ast.AsyncFunctionDef) or function.name in script.mentioned | texts or function.name.startswith(_HOOKS):
            continue
        holder = script.parents.get(function)
        own = isinstance(holder, ast.ClassDef) and holder.name in made
        alone = holder is script.tree and any(isinstance(each, ast.Expr | ast.If | ast.For | ast.While) for each in script.tree.body[-1:])
        inner = isinstance(holder, ast.FunctionDef)
        deed = _deed(script, function) if own or alone or inner else ""
        if deed and not function.decorator_list[1:] and not any("property" in ast.unparse(mark) for mark in function.decorator_list):
            yield Spot(function, f"`{function.name}` {deed}, and nothing calls it", f"call {function.name}() where its turn is")


def _deed(script: Script, function: Function) -> str:
    """What a function does that training needs again and again."""
    called = {script.last(call) for call in script.inside(function, ast.Call)}
    if called & _COPYING and not called & {"load", "save"} and "torch.load" not in ast.unparse(function):
        return "copies weights"
    body = [each for each in function.body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
    if body and all(_empties(script, statement) for statement in body):
        return "empties what was collected"
    changes: list[ast.Assign | ast.AugAssign] = [*script.inside(function, ast.Assign), *script.inside(function, ast.AugAssign)]
    for node in changes:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if isinstance(target, ast.Attribute) and words.EPSILON(target.attr):
            return "lets exploration fall"
    return ""


def _empties(script: Script, statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Delete):
        return True
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return script.last(statement.value) == "clear"
    if isinstance(statement, ast.For):
        return all(_empties(script, each) for each in statement.body)
    if isinstance(statement, ast.Assign):
        values = statement.value.elts if isinstance(statement.value, ast.Tuple) else [statement.value]
        return all(isinstance(each, ast.List) and not each.elts for each in values)
    return False


@check("COD420", Severity.HIGH, ["nikanjam2022faults"])
def lightning_steps_by_itself(script: Script) -> Iterator[Spot]:
    """A Lightning module steps its optimizers by hand and leaves automatic optimization on, or returns no loss where it is on.

    ## Why it hurts
    With automatic optimization the trainer calls backward and step on what training_step returns: by hand as well, each gradient is
    taken twice or the trainer raises; without a loss it skips the batch, and nothing is learned.

    ## When it is fine
    Never.

    ## Fix
    self.automatic_optimization = False in __init__, or return the loss.

    ## Wrong
    ```python
    import lightning as L


    class Agent(L.LightningModule):
        def training_step(self, batch, batch_idx):
            optimizer = self.optimizers()
            loss = self.loss(batch)
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
    ```

    ## Right
    ```python
    import lightning as L


    class Agent(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, batch_idx):
            optimizer = self.optimizers()
            loss = self.loss(batch)
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
    ```
    """
    for kind in script.classes:
        step = next((each for each in kind.body if isinstance(each, ast.FunctionDef) and each.name == "training_step"), None)
        if step is None or not any(ast.unparse(base).endswith("LightningModule") for base in kind.bases):
            continue
        is_manual = "automatic_optimization" in ast.unparse(kind)
        by_hand = [call for call in script.inside(kind, ast.Call) if script.last(call) in ("manual_backward", "optimizers")]
        if by_hand and not is_manual:
            text = "optimizers are stepped by hand, and automatic optimization is left on"
            for where in (by_hand[0], step):
                yield Spot(where, text, "self.automatic_optimization = False")
        returned = [each for each in script.inside(step, ast.Return) if each.value is not None]
        if not is_manual and not by_hand and not returned:
            for place in (step, step.body[-1]):
                yield Spot(place, "training_step returns no loss: the trainer learns nothing from the batch", "return loss")


def overwritten_in_a_walk(script: Script) -> Iterator[Spot]:
    """for slow, fast in zip(…parameters()): slow = …: the loop's own name gets a new tensor, and no weight changes."""
    for loop in script.all(ast.For):
        walked = {script.last(call) for call in ast.walk(loop.iter) if isinstance(call, ast.Call)}
        if not walked & {"parameters", "state_dict", "named_parameters"} or not isinstance(loop.target, ast.Tuple | ast.Name):
            continue
        names = {each.id for each in ast.walk(loop.target) if isinstance(each, ast.Name)}
        for node in script.inside(loop, ast.Assign):
            target = node.targets[0]
            if (
                isinstance(target, ast.Name)
                and target.id in names
                and names & {each.id for each in ast.walk(node.value) if isinstance(each, ast.Name)}
            ):
                later = [each for each in script.inside(loop, ast.Name) if each.id == target.id and each.lineno > node.lineno]
                if not later:
                    yield Spot(
                        node,
                        f"`{target.id}` gets a new tensor, and the network keeps its old weights",
                        "copy_(), lerp_(), .data = …",
                    )


def last_observation_aliased(script: Script) -> Iterator[Spot]:
    """successor = next_obs; successor[i] = final_obs: the next observation itself is overwritten."""
    for node in script.all(ast.Assign):
        target = node.targets[0]
        if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Name):
            continue
        if not any(name in ("final_obs", "final_observation", "terminal_observation") for name in words.identifiers(node.value)):
            continue
        made = script.latest(target.value.id, node)
        if made is not None and isinstance(made.value, ast.Name) and made.value.id != target.value.id:
            yield Spot(
                made.statement,
                f"`{target.value.id}` is `{made.value.id}` itself: the last observation of an episode overwrites the first of the next",
                f"{made.value.id}.copy()",
            )


def one_row_for_all(script: Script) -> Iterator[Spot]:
    """defaultdict(lambda: row), [[0.0] * actions] * states: every state of the table holds the very same row."""
    text = "every state holds the very same row: what is learned about one of them is written into all"
    for call in script.calls("defaultdict"):
        made = call.args[0] if call.args else None
        if isinstance(made, ast.Lambda) and isinstance(made.body, ast.Name) and _is_row(script, script.resolve(made.body)):
            yield Spot(call, text, "a new row in the lambda")
    for node in script.all(ast.BinOp):
        rows = node.left if isinstance(node.op, ast.Mult) and isinstance(node.left, ast.List) else None
        if rows is not None and len(rows.elts) == 1 and _is_row(script, rows.elts[0]) and not isinstance(node.right, ast.List):
            holder = script.parents.get(node)
            written = isinstance(holder, ast.Assign) and isinstance(holder.targets[0], ast.Name | ast.Attribute)
            name = ast.unparse(holder.targets[0]) if written and isinstance(holder, ast.Assign) else ""
            if name and any(
                isinstance(each.value, ast.Subscript) and ast.unparse(each.value.value) == name and isinstance(each.ctx, ast.Store)
                for each in script.all(ast.Subscript)
            ):
                yield Spot(node, text, "[row() for _ in range(states)]")


def _is_row(script: Script, node: ast.AST) -> bool:
    """A list of numbers, or an array: what is changed where it lies."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return isinstance(node.left, ast.List) or isinstance(node.right, ast.List)
    return isinstance(node, ast.List) or (isinstance(node, ast.Call) and script.last(node) in ("zeros", "ones", "full", "empty"))


def share_kept_by_nobody(script: Script) -> Iterator[Spot]:
    """epsilon = self.epsilon * 0.99 in a method that never reads it: the share that actions are drawn by stays what it was."""
    compared = {
        part.attr
        for node in script.all(ast.Compare)
        if any(
            script.last(each) in flow.DRAWS or script.last(each) == "random_sample" for each in ast.walk(node) if isinstance(each, ast.Call)
        )
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute) and words.own_name(part.value) == "self"
    }
    for function in script.functions if compared else ():
        read = {each.id for each in ast.walk(function) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
        for node in script.inside(function, ast.Assign):
            target = node.targets[0]
            if not isinstance(target, ast.Name) or target.id in read or target.id not in compared or len(node.targets) > 1:
                continue
            if any(isinstance(each, ast.Attribute) and each.attr == target.id for each in ast.walk(node.value)):
                yield Spot(
                    node,
                    f"`{target.id}` is a name of this function alone, and nobody reads it: `self.{target.id}` stays what it was",
                    f"self.{target.id} = …",
                )


MEANINGS: Final[dict[str, tuple[Callable[[Script], Iterator[Spot]], ...]]] = {
    "COD134": (last_observation_aliased,),
    "COD506": (overwritten_in_a_walk,),
    "COD518": (one_row_for_all,),
    "COD508": (share_kept_by_nobody,),
}
"""What is added to which check."""
