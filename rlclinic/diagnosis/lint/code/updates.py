"""Gradient steps: clearing, ordering, which parameters an optimizer holds, schedules, modes of the network."""

import ast
import math
from collections.abc import Iterator

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.lint.code.environments.vectors import number_of
from rlclinic.diagnosis.lint.code.evaluation import models
from rlclinic.diagnosis.lint.code.reading import nets, words
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot, argument, keyword, position
from rlclinic.diagnosis.lint.code.symbolic import formulas

BLOCKS = ("body", "orelse", "finalbody")
LEAST_RATE, MOST_RATE = 1e-7, 0.05
MOST_RATE_SB3 = math.nextafter(0.01, 0.0)
"""Stable-Baselines3's policies are networks, which do not settle above this; a script of one's own may train a linear function."""


@check("COD401", Severity.HIGH, ["jones2021debugging"])
def gradients_never_cleared(script: Script) -> Iterator[Spot]:
    """Gradients are never cleared between steps.

    ## Why it hurts
    backward() adds to what is there: every step is taken along the sum of all gradients so far, and grows without bound.

    ## When it is fine
    Gradients that are set to None by hand.

    ## Fix
    optimizer.zero_grad() before each backward().

    ## Wrong
    ```python
    import torch

    optimizer = torch.optim.Adam(net.parameters())
    for batch in batches:
        loss = compute(batch)
        loss.backward()
        optimizer.step()
    ```

    ## Right
    ```python
    import torch

    optimizer = torch.optim.Adam(net.parameters())
    for batch in batches:
        loss = compute(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```
    """
    cleared = {script.owner(call) for call in script.calls("zero_grad")}
    by_hand = any(
        isinstance(node, ast.Attribute) and node.attr == "grad" and isinstance(node.ctx, ast.Store) for node in script.all(ast.Attribute)
    )
    if not script.calls("backward") or by_hand or "zero_" in script.words:
        return
    known = nets.optimizers(script)
    for name in known:
        steps = _steps(script, name)
        alike = name in cleared or ("." in name and name.rpartition(".")[2] in {each.rpartition(".")[2] for each in cleared})
        if steps and not alike and not cleared - set(known):
            yield Spot(
                nets.gradient_before(script, steps[0]),
                f"`{name}` steps on gradients that are never cleared: each one is the sum of all before it",
                f"{name}.zero_grad()",
            )


def _steps(script: Script, optimizer: str) -> list[ast.Call]:
    handed = [call for call in script.calls("step") if call.args and script.dotted(call.args[0]) == optimizer]
    # agent.optimizer made here may be self.optimizer there.
    alike = [
        call for call in script.calls("step") if "." in optimizer and script.owner(call).rpartition(".")[2] == optimizer.rpartition(".")[2]
    ]
    return [call for call in script.calls("step") if script.owner(call) == optimizer] + handed + alike


@check("COD412", Severity.HIGH, ["jones2021debugging"])
def gradients_cleared_outside_the_loop(script: Script) -> Iterator[Spot]:
    """Gradients are cleared once, before the loop that takes the steps.

    ## Why it hurts
    From the second step on, every gradient is the sum of all before it: steps grow without bound.

    ## When it is fine
    Never, but for gradients that are accumulated on purpose and cleared after each step.

    ## Fix
    optimizer.zero_grad() inside the loop, before backward().

    ## Wrong
    ```python
    import torch

    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    optimizer.zero_grad()
    for batch in batches:
        loss = compute(batch)
        loss.backward()
        optimizer.step()
    ```

    ## Right
    ```python
    import torch

    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for batch in batches:
        optimizer.zero_grad()
        loss = compute(batch)
        loss.backward()
        optimizer.step()
    ```
    """
    for name in nets.optimizers(script):
        for step in (call for call in script.calls("step") if script.owner(call) == name and script.loops(call)):
            cleared = [call for call in script.calls("zero_grad") if script.scope(call) is script.scope(step)]
            outer = script.loops(step)[-1]
            if cleared and not script.calls("zero_grad", within=outer) and script.calls("backward", within=outer):
                yield Spot(
                    cleared[0], f"gradients are cleared once, and `{name}` steps again and again (line {position(step)[0]}): they pile up"
                )


@check("COD413", Severity.HIGH, ["andrychowicz2021matters"])
def learning_rate_out_of_range(script: Script) -> Iterator[Spot]:
    """The learning rate is far outside of what anybody uses.

    ## Why it hurts
    With Adam, weights move by about the learning rate in every step: above 0.05 the policy is another one after each update, below
    1e-7 nothing moves.

    ## When it is fine
    Tables and linear functions, and schedules that multiply it.

    ## Fix
    3e-4; usual are 1e-5 to 1e-3.

    ## Wrong
    ```python
    import torch

    optimizer = torch.optim.Adam(net.parameters(), lr=0.3)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ```

    ## Right
    ```python
    import torch

    optimizer = torch.optim.Adam(net.parameters(), lr=3e-4)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ```
    """
    made = [
        (call, keyword(call, "lr") or argument(call, 1, "lr"))
        for call in nets.optimizers(script).values()
        if script.last(call).startswith(("Adam", "RMS", "NAdam", "RAdam"))
    ]
    rates: list[tuple[ast.AST, float | None, float]] = [(call, script.constant(given), MOST_RATE) for call, given in made]
    followed = formulas.execution(script)
    if followed.complete and followed.optimizers:
        # The number is named where it is written: in the settings, if it comes from there.
        rates = []
        for optimizer in followed.optimizers:
            given_rate = optimizer.keys.get("lr") or (optimizer.args[1] if len(optimizer.args) > 1 else None)
            where = formulas.written(given_rate) if given_rate is not None else None
            if str(optimizer.data).startswith(("Adam", "RMS", "NAdam", "RAdam")) and optimizer.node is not None:
                rates.append((where or optimizer.node, formulas.number(given_rate), MOST_RATE))
    rates += [
        (keyword(call, "learning_rate") or call, number_of(script, call, "learning_rate", None), MOST_RATE_SB3)
        for call in models(script).values()
    ]
    for call, rate, most in rates:
        if rate is not None and not LEAST_RATE <= rate <= most:
            far = "the policy jumps with every step" if rate > most else "nothing will move"
            yield Spot(call, f"a learning rate of {rate:g}: {far}")


@check("COD402", Severity.HIGH, ["jones2021debugging"])
def gradients_cleared_before_step(script: Script) -> Iterator[Spot]:
    """Gradients are cleared between backward and step.

    ## Why it hurts
    The step sees no gradient: nothing is ever learned, while losses are printed as usual.

    ## When it is fine
    Never.

    ## Fix
    zero_grad(), backward(), step(), in this order.

    ## Wrong
    ```python
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    ```

    ## Right
    ```python
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ```
    """
    for block in _blocks(script):
        last = ""
        clearing: list[ast.Call] = []
        for statement in block:
            for call in _own_calls(script, statement):
                name = _name(script, call)
                if name == "backward":
                    last = "backward"
                elif name == "zero_grad" and last == "backward":
                    last = "cleared:" + script.owner(call)
                    clearing = [call]
                elif name == "step" and last in (f"cleared:{script.owner(call)}",):
                    for where in (call, *clearing):
                        yield Spot(where, f"`{script.owner(call)}` steps right after its gradients were cleared: the step does nothing")
                    last = ""
                elif name == "step" and words.OPTIMIZER(script.owner(call).rpartition(".")[2]):
                    last = ""


@check("COD403", Severity.HIGH, ["jones2021debugging"])
def step_before_backward(script: Script) -> Iterator[Spot]:
    """The optimizer steps before the gradients are computed.

    ## Why it hurts
    The gradients were just cleared, so the step does nothing; those that backward computes afterwards are cleared unused.

    ## When it is fine
    Never.

    ## Fix
    zero_grad(), backward(), step(), in this order.

    ## Wrong
    ```python
    optimizer.zero_grad()
    optimizer.step()
    loss.backward()
    ```

    ## Right
    ```python
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ```
    """
    for block in _blocks(script):
        events = [call for statement in block for call in _own_calls(script, statement) if _is_event(script, call)]
        names = [_name(script, call) for call in events]
        for place in range(len(events) - 2):
            fresh = place == 0 or names[place - 1] == "step"
            same = script.owner(events[place]) == script.owner(events[place + 1])
            if fresh and same and names[place : place + 3] == ["zero_grad", "step", "backward"]:
                yield Spot(events[place + 1], "the step is taken before backward(), on gradients that were just cleared")


def _name(script: Script, call: ast.Call) -> str:
    """backward for manual_backward, too."""
    return script.last(call).removeprefix("manual_")


def _is_event(script: Script, call: ast.Call) -> bool:
    name = _name(script, call)
    return name in ("zero_grad", "backward") or (name == "step" and words.OPTIMIZER(script.owner(call).rpartition(".")[2]))


def _blocks(script: Script) -> list[list[ast.stmt]]:
    """Runs of statements in which something is stepped or clipped."""
    return script.once("blocks", lambda: list(_all_blocks(script)))


def _all_blocks(script: Script) -> Iterator[list[ast.stmt]]:
    holders = {script.parents[script.statement(call)] for call in script.calls("step", "clip_grad_norm_", "clip_grad_value_")}
    for node in sorted(holders, key=position):
        for field in BLOCKS:
            block = getattr(node, field, None)
            if isinstance(block, list) and len(block) > 1 and isinstance(block[0], ast.stmt):
                yield block


def _own_calls(script: Script, statement: ast.stmt) -> list[ast.Call]:
    """Calls of a plain statement; those inside a loop, a branch or a with belong to another block."""
    if isinstance(statement, ast.Expr | ast.Assign | ast.AugAssign):
        return sorted(
            (node for node in ast.walk(statement) if isinstance(node, ast.Call)),
            key=lambda node: (node.end_lineno or 0, node.end_col_offset or 0),
        )
    return []


@check("COD404", Severity.HIGH, ["jones2021debugging"])
def optimizer_never_steps(script: Script) -> Iterator[Spot]:
    """An optimizer is made and never steps.

    ## Why it hurts
    Gradients are computed, and the weights stay as they were.

    ## When it is fine
    Where the optimizer is handed to something that steps it.

    ## Fix
    optimizer.step() after backward().

    ## Wrong
    ```python
    import torch

    optimizer = torch.optim.Adam(net.parameters())
    for batch in batches:
        optimizer.zero_grad()
        compute(batch).backward()
    ```

    ## Right
    ```python
    import torch

    optimizer = torch.optim.Adam(net.parameters())
    for batch in batches:
        optimizer.zero_grad()
        compute(batch).backward()
        optimizer.step()
    ```
    """
    if not script.calls("backward"):
        return
    for name, call in nets.optimizers(script).items():
        if not _steps(script, name) and not _is_passed_on(script, name, call):
            yield Spot(call, f"gradients are computed, and `{name}` never steps", f"{name}.step() after backward()")


def _is_passed_on(script: Script, name: str, made: ast.Call) -> bool:
    """Given to something that may step it: another library, a function here whose parameter is stepped, a loop over several of them."""
    for loop in script.all(ast.For, ast.AsyncFor, ast.comprehension):
        if any(script.dotted(part) == name for part in ast.walk(loop.iter)):
            return True
    for node in script.all(ast.Return, ast.Tuple, ast.List, ast.Dict):
        if name in {script.dotted(each) for each in ast.iter_child_nodes(node)}:
            return True
    for call in script.all(ast.Call):
        given = [script.dotted(each) for each in [*call.args, *(key.value for key in call.keywords)]]
        scheduling = "lr_scheduler" in script.called(call) or script.last(call).endswith(("LR", "Scheduler"))
        if call is made or name not in given or scheduling:
            continue
        function = next((each for each in script.functions if each.name == script.last(call)), None)
        if function is None:
            return True
        parameters = [each.arg for each in function.args.args if each.arg != "self"]
        place = given.index(name)
        known = parameters[place] if place < len(parameters) else ""
        if not known or any(script.owner(step) == known for step in script.calls("step", within=function)):
            return True
    return False


@check("COD405", Severity.HIGH, ["nikanjam2022faults"])
def optimizer_of_replaced_network(script: Script) -> Iterator[Spot]:
    """A network is made anew after its optimizer was built.

    ## Why it hurts
    The optimizer holds the old network's parameters: the new one gets gradients and never changes.

    ## When it is fine
    Where the optimizer is built again, too.

    ## Fix
    Build the optimizer last.

    ## Wrong
    ```python
    import torch
    from torch import nn

    net = nn.Sequential(nn.Linear(4, 2))
    optimizer = torch.optim.Adam(net.parameters())
    net = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
    ```

    ## Right
    ```python
    import torch
    from torch import nn

    net = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(net.parameters())
    ```
    """
    for name, call in nets.optimizers(script).items():
        for net in sorted((nets.held_by(script, call) or set()) & set(nets.modules(script))):
            later = [
                assignment
                for assignment in script.assignments(net, call)
                if assignment.line > position(call) and _is_new(assignment.whole, net)
            ]
            rebuilt = [where for other, _, where in script.named if other == name and later and position(where) > later[-1].line]
            if later and not rebuilt and script.scope(later[-1].statement) is script.scope(call):
                text = f"`{name}` (line {position(call)[0]}) holds the parameters of the `{net}` that is replaced here"
                yield Spot(later[-1].statement, f"{text}: the new one never learns")


def _is_new(value: ast.AST | None, net: str) -> bool:
    """Made from scratch, not a wrapper around itself."""
    return isinstance(value, ast.Call) and net.rpartition(".")[2] not in set(words.identifiers(value))


@check("COD406", Severity.HIGH, ["nikanjam2022faults"])
def optimizer_misses_parameters(script: Script) -> Iterator[Spot]:
    """A network (or a standard deviation) is used in training and no optimizer holds it.

    ## Why it hurts
    It stays as it was made: a critic that predicts noise, or an exploration that never shrinks.

    ## When it is fine
    Target networks and networks that are frozen on purpose; those with such names are left alone.

    ## Fix
    torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=…)

    ## Wrong
    ```python
    import torch
    from torch import nn

    actor = nn.Sequential(nn.Linear(4, 2))
    critic = nn.Sequential(nn.Linear(4, 1))
    optimizer = torch.optim.Adam(actor.parameters(), lr=3e-4)
    loss = policy_loss(actor(obs)) + value_loss(critic(obs))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ```

    ## Right
    ```python
    import torch
    from torch import nn

    actor = nn.Sequential(nn.Linear(4, 2))
    critic = nn.Sequential(nn.Linear(4, 1))
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=3e-4)
    loss = policy_loss(actor(obs)) + value_loss(critic(obs))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ```
    """
    known = nets.optimizers(script)
    if not known or not script.calls("backward"):
        return
    held = [nets.held_by(script, call) for call in known.values()]
    if any(each is None for each in held):
        return
    covered = {name for each in held for name in each or ()}
    homes = {_home(script, call) for call in known.values()}
    for name, node in {**nets.modules(script), **_loose_parameters(script)}.items():
        elsewhere = _home(script, node) not in homes or not _same_owner(name, covered)
        if name in covered or _is_spare(name) or elsewhere or _is_written(script, name):
            continue
        if _is_asked(script, name) and not _is_loaded_only(script, name) and not _is_part(script, name):
            yield Spot(node, f"no optimizer holds the parameters of `{name}`: it stays as it was made")
    yield from _missing_parts(script, {script.owner(call) for made in known.values() for call in script.calls("parameters", within=made)})


def _is_written(script: Script, name: str) -> bool:
    """Whether a function other than an optimizer writes the weights: vector_to_parameters(step, actor.parameters())."""
    return any(
        script.owner(parameters) == name
        for call in script.calls("vector_to_parameters", "set_flat_params", "set_flat_params_to", "assign_params_from_flat")
        for parameters in script.calls("parameters", within=call)
    )


@check("COD414", Severity.HIGH, ["nikanjam2022faults"])
def network_part_without_optimizer(script: Script) -> Iterator[Spot]:
    """A network gives its parts to optimizers one by one, and leaves one out.

    ## Why it hurts
    The part that is left out gets gradients and never changes.

    ## When it is fine
    Parts that are frozen on purpose; those with such names are left alone.

    ## Fix
    One optimizer over self.parameters(), or one for every part.

    ## Wrong
    ```python
    import torch
    from torch import nn


    class Agent(nn.Module):
        def __init__(self):
            super().__init__()
            self.actor = nn.Sequential(nn.Linear(4, 2))
            self.critic = nn.Sequential(nn.Linear(4, 1))
            self.optimizer = torch.optim.Adam(self.actor.parameters(), lr=1e-3)

        def learn(self, loss):
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
    ```

    ## Right
    ```python
    import torch
    from torch import nn


    class Agent(nn.Module):
        def __init__(self):
            super().__init__()
            self.actor = nn.Sequential(nn.Linear(4, 2))
            self.critic = nn.Sequential(nn.Linear(4, 1))
            self.optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)

        def learn(self, loss):
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
    ```
    """
    # A network whose own __init__ gives optimizers its parts, one by one, and leaves one out.
    for owner in (kind for kind in script.classes if kind.name in nets.module_classes(script)):
        inside = set(ast.walk(owner))
        made = [call for call in [*nets.optimizers(script).values(), *nets.configured_optimizers(script)] if call in inside and call.args]
        held = {script.owner(call) for each in made for call in script.calls("parameters", "named_parameters", within=each)}
        held |= {name for each in made for name in nets.held_by(script, each) or () if name != "self"}
        if not held or "self" in held or any(nets.held_by(script, each) is None for each in made):
            continue
        for node in (each for each in ast.walk(owner) if isinstance(each, ast.Assign)):
            name = script.dotted(node.targets[0])
            trained = script.last(node.value) in ("Sequential", "Linear", "Parameter") or nets.makes_network(script, node.value)
            if name.startswith("self.") and trained and name not in held and not _is_spare(name):
                yield Spot(node, f"the optimizers of {owner.name} hold other parts, and not `{name}`: it stays as it was made")


def _missing_parts(script: Script, held: set[str]) -> Iterator[Spot]:
    """Networks inside a network of which an optimizer got other parts, one by one."""
    for name, node in nets.modules(script).items():
        parts = {each.rpartition(".")[2] for each in held if each.rpartition(".")[0] == name}
        value = node.value if isinstance(node, ast.Assign) else node
        owner = next((kind for kind in script.classes if kind.name == script.last(value)), None)
        if not parts or name in held or owner is None or _is_spare(name):
            continue
        for each in ast.walk(owner):
            attribute = script.dotted(each.targets[0]) if isinstance(each, ast.Assign) else ""
            made = isinstance(each, ast.Assign) and script.last(each.value) in ("Sequential", "Linear", "Parameter")
            if made and attribute.startswith("self.") and attribute.removeprefix("self.") not in parts and not _is_spare(attribute):
                handed = [
                    one
                    for one in script.calls("Adam", "AdamW", "RMSprop", "SGD")
                    if any(words.own_name(part) in parts for part in ast.walk(one))
                ]
                for where in (node, *handed[:1]):
                    yield Spot(where, f"no optimizer holds `{name}.{attribute.removeprefix('self.')}`: it stays as it was made")


def _is_spare(name: str) -> bool:
    word = name.rpartition(".")[2].lower()
    kept = ("target", "targ", "old", "best", "ema", "frozen", "eval", "teacher", "expert", "prior", "random", "fixed", "init")
    return any(part in word for part in kept)


def _home(script: Script, node: ast.AST) -> ast.AST:
    """The class that a statement is in, else its function or the module: only what lives together is compared."""
    return next((ancestor for ancestor in script.ancestors(node) if isinstance(ancestor, ast.ClassDef)), script.scope(node))


def _loose_parameters(script: Script) -> dict[str, ast.AST]:
    kinds = nets.module_classes(script)
    inside = {node for kind in script.classes if kind.name in kinds for node in ast.walk(kind)}
    return {
        script.dotted(node.targets[0]): node
        for node in script.all(ast.Assign)
        if node not in inside and script.last(node.value) == "Parameter" and script.dotted(node.targets[0])
    }


def _is_asked(script: Script, name: str) -> bool:
    """Whether a network is called, or a parameter used."""
    quiet = ("load_state_dict", "state_dict", "parameters", "to", "eval")
    if any(
        script.dotted(call.func) == name or script.owner(call) == name for call in script.all(ast.Call) if script.last(call) not in quiet
    ):
        return True
    used = [node for node in script.all(ast.Name, ast.Attribute) if isinstance(node.ctx, ast.Load) and script.dotted(node) == name]
    return any(isinstance(script.parents[node], ast.BinOp | ast.Call | ast.Attribute) for node in used)


def _same_owner(name: str, covered: set[str]) -> bool:
    """Compared only with what is kept in the same place: attributes with attributes, variables with variables."""
    return any(("." in name) == ("." in each) for each in covered if each)


def _is_loaded_only(script: Script, name: str) -> bool:
    return any(script.owner(call) == name for call in script.calls("load_state_dict", "requires_grad_"))


def _is_part(script: Script, name: str) -> bool:
    """Given to another network or to an agent, which may hold its parameters; or known under another name, too."""
    if any(script.dotted(node.value) == name for node in script.all(ast.Assign, ast.Return) if node.value is not None):
        return True
    return any(
        script.dotted(given) == name
        for call in script.all(ast.Call)
        if script.last(call)[:1].isupper()
        for given in [*call.args, *(key.value for key in call.keywords)]
    )


@check("COD407", Severity.MEDIUM, ["godbole2023playbook"])
def clipping_after_the_step(script: Script) -> Iterator[Spot]:
    """Gradients are clipped where it has no effect: after the step, or before backward.

    ## Why it hurts
    A rare large gradient goes through unclipped and can undo the learning of many updates.

    ## When it is fine
    Never.

    ## Fix
    backward(), clip_grad_norm_(), step(), in this order.

    ## Wrong
    ```python
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    ```

    ## Right
    ```python
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    optimizer.step()
    ```
    """
    for block in _blocks(script):
        done = ""
        for place, statement in enumerate(block):
            for call in _own_calls(script, statement):
                name = script.last(call)
                if name in ("clip_grad_norm_", "clip_grad_value_"):
                    if done == "step":
                        yield Spot(call, "gradients are clipped after the step that used them")
                    elif not done and any(script.calls("backward", within=later) for later in block[place + 1 :]):
                        yield Spot(call, "gradients are clipped before backward() computes them")
                elif name == "step" and words.OPTIMIZER(script.owner(call).rpartition(".")[2]):
                    done = "step"
            done = "backward" if script.calls("backward", within=statement) else done


@check("COD408", Severity.MEDIUM, ["andrychowicz2021matters"])
def schedule_of_another_length(script: Script) -> Iterator[Spot]:
    """A hand-written schedule falls over another length than the loop has.

    ## Why it hurts
    Counted in updates but divided by steps, the learning rate hardly falls at all; the other way round it is 0 long before the end.

    ## When it is fine
    Where it is meant to reach its end early, or never.

    ## Fix
    Divide by the loop's own length.

    ## Wrong
    ```python
    total_timesteps = 100_000
    num_updates = total_timesteps // 2048
    for update in range(num_updates):
        frac = 1.0 - update / total_timesteps
        optimizer.param_groups[0]["lr"] = frac * 3e-4
    ```

    ## Right
    ```python
    total_timesteps = 100_000
    num_updates = total_timesteps // 2048
    for update in range(num_updates):
        frac = 1.0 - update / num_updates
        optimizer.param_groups[0]["lr"] = frac * 3e-4
    ```
    """
    for node in script.all(ast.BinOp):
        if not isinstance(node.op, ast.Div) or not _is_one_minus(script, node) or not isinstance(node.right, ast.Name | ast.Attribute):
            continue
        floored = script.parents.get(script.parents[node])
        if script.last(floored) in ("max", "clip", "clamp", "maximum") if floored is not None else False:
            continue  # exploration that falls to a floor and stays there
        for loop in script.loops(node):
            if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name) or loop.target.id not in _names(node.left):
                continue
            if not isinstance(loop.iter, ast.Call) or script.called(loop.iter) != "range" or not loop.iter.args:
                continue
            bound = loop.iter.args[1] if len(loop.iter.args) > 1 else loop.iter.args[0]
            if _lengths_differ(script, node.right, bound, loop.target.id):
                yield Spot(node, f"the schedule falls over `{words.own_name(node.right)}`, the loop runs over `{ast.unparse(bound)}`")


def _lengths_differ(script: Script, total: ast.expr, bound: ast.expr, counter: str) -> bool:
    """By their numbers where the script shows both, else by their names: updates are not steps."""
    whole, length = script.constant(total), script.constant(bound)
    if whole is not None and length is not None:
        return not 0.5 <= whole / max(length, 1) <= 2
    name = words.own_name(total).lower()
    counted = any(word in each.lower() for each in (counter, *_names(bound)) for word in ("update", "iter", "rollout"))
    return (
        whole is None and counted and name not in {each.lower() for each in _names(bound)} and ("timestep" in name or "total_steps" in name)
    )


def _is_one_minus(script: Script, node: ast.AST) -> bool:
    parent = script.parents.get(node)
    return (
        isinstance(parent, ast.BinOp)
        and isinstance(parent.op, ast.Sub)
        and isinstance(parent.left, ast.Constant)
        and parent.left.value == 1
    )


def _names(node: ast.AST) -> set[str]:
    return set(words.identifiers(node))


@check("COD409", Severity.MEDIUM, ["andrychowicz2021matters"])
def scheduler_of_another_length(script: Script) -> Iterator[Spot]:
    """A learning-rate scheduler is made for another number of steps than it takes.

    ## Why it hurts
    The rate is 0 (or rises again) long before the end, or hardly falls.

    ## When it is fine
    Where that is meant.

    ## Fix
    Give it the number of times that scheduler.step() is called.

    ## Wrong
    ```python
    import torch

    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100)
    for update in range(10_000):
        train()
        scheduler.step()
    ```

    ## Right
    ```python
    import torch

    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10_000)
    for update in range(10_000):
        train()
        scheduler.step()
    ```
    """
    lengths = {
        "CosineAnnealingLR": (1, "T_max"),
        "LinearLR": (3, "total_iters"),
        "PolynomialLR": (1, "total_iters"),
        "OneCycleLR": (2, "total_steps"),
    }
    for kind, (place, name) in lengths.items():
        for call in script.calls(kind):
            total = script.constant(argument(call, place, name))
            statement = script.statement(call)
            kept = script.dotted(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
            for step in [each for each in script.calls("step") if script.owner(each) == kept and kept]:
                runs = _repetitions(script, step)
                if total and runs and not 0.5 <= total / runs <= 2:
                    yield Spot(call, f"{kind} falls over {total:g} steps, and is stepped {runs:g} times")


def _repetitions(script: Script, node: ast.AST) -> float | None:
    total = 1.0
    for loop in script.loops(node):
        if not isinstance(loop, ast.For) or script.called(loop.iter) != "range" or not isinstance(loop.iter, ast.Call):
            return None
        bounds = [script.constant(each) for each in loop.iter.args]
        if any(bound is None for bound in bounds) or len(bounds) > 2:
            return None
        total *= (bounds[-1] or 0) - ((bounds[0] or 0) if len(bounds) == 2 else 0)
    return total if script.loops(node) else None


# ── modes ──


@check("COD410", Severity.MEDIUM, ["huang2022details"])
def noise_layers_never_switched(script: Script) -> Iterator[Spot]:
    """Dropout or batch normalization is never switched between acting and learning.

    ## Why it hurts
    The policy that acts is not the one that is updated: log-probabilities differ by chance, and ratios are off before the first step.

    ## When it is fine
    Dropout that is meant as exploration.

    ## Fix
    net.eval() while acting and evaluating, net.train() while learning; or leave such layers out.

    ## Wrong
    ```python
    from torch import nn

    net = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5), nn.Linear(64, 2))
    loss = compute(net)
    loss.backward()
    ```

    ## Right
    ```python
    from torch import nn

    net = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5), nn.Linear(64, 2))
    net.eval()
    rollout = collect(net)
    net.train()
    loss = compute(net, rollout)
    loss.backward()
    ```
    """
    noisy = next(nets.noisy_layers(script), None)
    if noisy is None or not script.calls("backward"):
        return
    if not script.calls("eval"):
        yield Spot(noisy, f"{script.last(noisy)} stays on while acting and evaluating: eval() is never called")
    elif not [call for call in script.calls("train") if script.owner(call) not in ("", "self") or not call.args]:
        yield Spot(script.calls("eval")[0], f"eval() is called and train() never again: {script.last(noisy)} is off while learning")


@check("COD411", Severity.MEDIUM, ["huang2022details"])
def rollout_with_gradient(script: Script) -> Iterator[Spot]:
    """Log-probabilities of the rollout are kept with their graphs.

    ## Why it hurts
    Memory grows with every step of the rollout, and the old policy's log-probabilities push against the update.

    ## When it is fine
    Algorithms that differentiate through the rollout's own log-probabilities (REINFORCE).

    ## Fix
    with torch.no_grad(): around acting.

    ## Wrong
    ```python
    for step in range(n_steps):
        action, logprob = agent.act(obs)
        logprobs[step] = logprob
        obs, reward, terminated, truncated, info = envs.step(action)
    ratio = (new_logprob - logprobs).exp()
    ```

    ## Right
    ```python
    for step in range(n_steps):
        with torch.no_grad():
            action, logprob = agent.act(obs)
        logprobs[step] = logprob
        obs, reward, terminated, truncated, info = envs.step(action)
    ratio = (new_logprob - logprobs).exp()
    ```
    """
    if not words.mentions(script.tree, words.RATIO):
        return
    for node in script.all(ast.Assign):
        target = node.targets[0]
        if not isinstance(target, ast.Subscript) or not words.LOG_PROB(words.own_name(target)) or not isinstance(node.value, ast.Name):
            continue
        assigned = script.latest(node.value.id, node)
        loops = script.loops(node)
        scope = script.scope(node)
        unseen = isinstance(scope, ast.FunctionDef) and not script.calls(scope.name)
        if (
            assigned is None
            or not isinstance(assigned.value, ast.Call)
            or not loops
            or unseen
            or script.is_without_gradient(assigned.statement)
        ):
            continue
        steps = [
            call for call in script.calls("step", within=loops[0]) if call.args and words.ENVIRONMENT(script.owner(call).rpartition(".")[2])
        ]
        if steps and script.last(assigned.value) not in ("detach", "item", "numpy") and keyword(assigned.value, "grad") is None:
            yield Spot(
                assigned.statement,
                f"`{node.value.id}` is kept with its graph: memory grows with the rollout, and the old policy gets a gradient",
            )


@check("COD415", Severity.HIGH, ["nikanjam2022faults"])
def learning_never_begins(script: Script) -> Iterator[Spot]:
    """The gradient stands behind a condition that no step of the loop meets.

    ## Why it hurts
    The script runs to its end, and the weights are those that it began with.

    ## When it is fine
    Never.

    ## Fix
    A warm-up that is shorter than the loop, and a memory that holds more than it.

    ## Wrong
    ```python
    import torch

    net = torch.nn.Linear(4, 2)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(10_000):
        if step > 10_000:
            loss = net(batch).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```

    ## Right
    ```python
    import torch

    net = torch.nn.Linear(4, 2)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(10_000):
        if step > 1_000:
            loss = net(batch).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```
    """
    yield from ()
