"""A script, run with symbols in place of numbers: what each value is made of, whatever it is called.

Nothing of the script is executed. Its statements are followed in their order: functions and methods are entered where they are called, with
what they are given; objects keep their attributes, arrays and lists what is put into them, networks who they are and whom they are a copy
of. Loops are passed twice, so that what one pass leaves is seen by the next; of branches both are taken, and what differs is joined. The
result are formulas (`Symbol`) and what happened in which order (`Event`): steps of environments, gradients, optimizers, copies of weights.
"""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from rlclinic.diagnosis.lint.code.reading import words
from rlclinic.diagnosis.lint.code.symbolic import foreign

MOST_STEPS: Final = 30_000
"""Expressions that are evaluated before a script is given up; training scripts of one file need fewer than twenty thousand."""
MOST_NODES: Final = 60_000
MOST_DEEP: Final = 14
MOST_NAMED: Final = 2_000
MOST_ITEMS: Final = 12
ARRAYS: Final = frozenset({"zeros", "empty", "ones", "full", "zeros_like", "empty_like", "ones_like", "full_like"})
NO_GRAD: Final = frozenset({"no_grad", "inference_mode"})
OPTIMIZERS: Final = frozenset({"Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "Adadelta", "NAdam", "RAdam", "Adamax"})
_ENVIRONMENTS: Final = frozenset(
    {"make", "make_vec", "make_vec_env", "make_atari_env", "SyncVectorEnv", "AsyncVectorEnv", "DummyVecEnv", "SubprocVecEnv"}
)
_LOSSES: Final = frozenset({"MSELoss", "SmoothL1Loss", "HuberLoss", "L1Loss", "CrossEntropyLoss", "NLLLoss"})
_SAME_OBJECT: Final = frozenset(
    {"to", "cuda", "cpu", "eval", "train", "requires_grad_", "compile", "float", "double", "setup", "half", "share_memory", "apply"}
)
_IN_PLACE: Final = frozenset({"copy_", "mul_", "add_", "lerp_", "fill_", "sub_", "set_"})
_SAME_ARRAY: Final = frozenset({"to", "cpu", "cuda", "float", "view", "reshape", "numpy", "astype"})
_DRAWING: Final = frozenset({"randint", "choice", "integers", "randperm", "permutation", "arange", "argmax", "sample"})
_ORDER: Final = {
    "DataLoader": ("dataset",), "mse_loss": ("input", "target"), "smooth_l1_loss": ("input", "target"), "huber_loss": ("input", "target"),
    "where": ("condition", "input", "other"), "minimum": ("input", "other"), "maximum": ("input", "other"),
    "Linear": ("in_features", "out_features"), "stack": ("tensors",), "cat": ("tensors",), "deepcopy": ("x",),
    "from_numpy": ("ndarray",), "as_tensor": ("data",), "tensor": ("data",), "clamp": ("input", "min", "max"), "exp": ("input",),
    "softmax": ("input",), "log_softmax": ("input",), "Sequential": (), "zeros": ("size",),
}  # fmt: skip
"""Parameters of a library's functions, in the order that they have without names."""
_METHODS_ORDER: Final = {
    "gather": ("dim", "index"), "clamp": ("min", "max"), "clip": ("min", "max"), "log_prob": ("value",), "masked_fill": ("mask", "value"),
    "step": ("action",), "copy_": ("src",), "load_state_dict": ("state_dict",),
}  # fmt: skip
_CONTAINERS: Final = frozenset({"ModuleList", "ModuleDict", "ParameterList"})


class Symbol:
    """A value: what it is made of, and where."""

    __slots__ = ("args", "copy_of", "data", "free", "guards", "keys", "known", "label", "loops", "node", "op", "owner", "site", "stored")

    def __init__(self, op: str, args: tuple["Value", ...] = (), node: ast.AST | None = None, data: Any = None) -> None:
        self.op, self.args, self.node, self.data = op, args, node, data
        self.keys: dict[str, Value] = {}
        """Keyword arguments of a call."""
        self.stored: list[Value] = []
        """What was put into an array."""
        self.copy_of: Symbol | None = None
        """For a network: the one that it was copied from."""
        self.owner: Record | None = None
        """For a part of a network: the whole."""
        self.site: ast.AST | None = None
        """Where the network was asked in whose code it was made."""
        self.label = ""
        """What the script calls a part of something that is not known, where it takes it out."""
        self.free = False
        """Made where no gradient is kept."""
        self.guards: tuple[Value, ...] = ()
        """Conditions of the branches that it was made in."""
        self.loops: tuple[ast.AST, ...] = ()
        """Loops that it was made in."""
        self.known: dict[Any, Any] | None = None
        """What was asked of it when the run was over, and the answer."""

    def __repr__(self) -> str:
        held = ", ".join(map(repr, self.args))
        return f"{self.op}{'' if self.data is None else ':' + str(self.data)[:30]}({held})"


class Items:
    """A list or a tuple."""

    __slots__ = ("chosen_by", "is_open", "items", "limit", "node", "placed")

    def __init__(self, items: list["Value"], node: ast.AST | None = None, is_open: bool = False) -> None:
        self.items, self.node, self.is_open = items, node, is_open
        self.chosen_by: Value | None = None
        """The condition under which something is in the list: [i for i, end in enumerate(ends) if not end]."""
        self.limit: Value | None = None
        """The most that a deque keeps."""
        self.placed: list[tuple[Value, int, Value]] = []
        """What was put in place of what stood there, where, and in which run of a loop: observations[i] = next_obs."""

    def __repr__(self) -> str:
        return f"[{len(self.items)} items]"


class Table:
    """A dictionary with keys that are known."""

    __slots__ = ("items", "made_by", "node")

    def __init__(self, items: dict[Any, "Value"], node: ast.AST | None = None, made_by: "Value | None" = None) -> None:
        self.items, self.node, self.made_by = items, node, made_by
        """What is called for a key that is not there yet."""


class Record:
    """An object of one of the script's classes."""

    __slots__ = ("attributes", "copy_of", "kind", "node")

    def __init__(self, kind: "Kind", node: ast.AST | None) -> None:
        self.kind, self.node = kind, node
        self.attributes: dict[str, Value] = {}
        self.copy_of: Record | None = None


@dataclass(eq=False)
class Kind:
    """A class of the script."""

    node: ast.ClassDef | None
    scope: "Scope"
    bases: list["Value"]
    name: str
    fields: list[str] | None = None

    def lineage(self) -> Iterator["Kind"]:
        yield self
        for base in self.bases:
            if isinstance(base, Kind) and base is not self:
                yield from base.lineage()

    def external(self) -> list[str]:
        """Classes of libraries that it extends."""
        return [str(base.data) for kind in self.lineage() for base in kind.bases if isinstance(base, Symbol) and base.op == "ext"]

    def method(self, name: str, after: "Kind | None" = None) -> "tuple[ast.FunctionDef, Kind] | None":
        passed = after is None
        for kind in self.lineage():
            if passed and kind.node is not None:
                for statement in kind.node.body:
                    if isinstance(statement, ast.FunctionDef) and statement.name == name:
                        return statement, kind
            passed = passed or kind is after
        return None

    def is_network(self) -> bool:
        return self._is_network

    @cached_property
    def _is_network(self) -> bool:
        return any(name.rpartition(".")[2] in ("Module", "LightningModule", "ScriptModule") for name in self.external())

    def is_callback(self) -> bool:
        return any(name.rpartition(".")[2] == "Callback" for name in self.external())

    def is_trainer(self) -> bool:
        """A module that trains networks which are its parts."""
        return self._is_trainer

    @cached_property
    def _is_trainer(self) -> bool:
        doing = {"backward", "manual_backward", "load_state_dict", "zero_grad", "deepcopy", "configure_optimizers"}
        named = {node.attr for kind in self.lineage() if kind.node for node in ast.walk(kind.node) if isinstance(node, ast.Attribute)}
        return bool(doing & named) or self.method("configure_optimizers") is not None

    def is_environment(self) -> bool:
        """It steps with an action and resets; an agent's step is told the whole transition."""
        step = self.method("step")
        if step is None or self.method("reset") is None:
            return False
        given = step[0].args
        return len(given.args) - len(given.defaults) <= 2 or given.vararg is not None


@dataclass(eq=False)
class Closure:
    """A function of the script."""

    node: ast.FunctionDef | ast.Lambda
    scope: "Scope"
    bound: "Value | None" = None
    kind: Kind | None = None


Value = Symbol | Items | Table | Record | Kind | Closure


@dataclass(eq=False)
class Scope:
    """Names of a function or of the module."""

    outer: "Scope | None" = None
    names: dict[str, Value] = field(default_factory=dict)
    returned: list[Value] = field(default_factory=list)
    reasons: list[Value | None] = field(default_factory=list)
    """For each value that is returned, the condition under which it is."""
    exits: list[tuple[Value, list[tuple["Record", dict[str, Value]]]]] = field(default_factory=list)
    """Conditions under which the function was left early, and what objects held by then."""
    yielded: list[Value] = field(default_factory=list)
    yields: dict[ast.Yield, tuple[Value, Value | None]] = field(default_factory=dict)
    """The latest value of each place that yields, and the condition under which it does."""
    outside: set[str] = field(default_factory=set)
    given: set[str] = field(default_factory=set)
    """Parameters that a call gave a value."""
    defaulted: set[str] = field(default_factory=set)
    """Parameters that have their default, in a call of the script."""
    kind: Kind | None = None
    bound: Value | None = None
    is_foreign: bool = False
    """Whether its code stands in a library, and what happens in it happens where the script calls it."""
    depth: int = 0
    """How many conditions held when the function was entered."""
    loops: int = 0
    """How many loops the function was entered in."""

    def find(self, name: str) -> Value | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names and not (name in scope.outside and scope.outer is not None):
                return scope.names[name]
            scope = scope.outer
        return None


@dataclass
class Event:
    """Something that happened, in the order of the run."""

    name: str
    subject: Value
    value: Value | None
    node: ast.AST
    guards: tuple[Value, ...] = ()
    loops: tuple[ast.AST, ...] = ()
    calls: tuple[tuple[ast.AST, list[Value]], ...] = ()
    """For what is stored, and for steps of environments: the calls on the way there, and what they were given."""


class _GivenUp(Exception):
    pass


def constant(value: Any, node: ast.AST | None = None) -> Symbol:
    """A number, a text, True, False or None."""
    return Symbol("const", (), node, value)


class Execution:
    """What a script does."""

    def __init__(self, tree: ast.Module) -> None:
        self.events: list[Event] = []
        self.sums: list[Symbol] = []
        """Every sum, difference and comparison that was made."""
        self.calls: list[Symbol] = []
        self.optimizers: list[Symbol] = []
        self.records: list[Record] = []
        self.complete = True
        self.known: dict[str, Any] = {}
        """What was asked of the run before, and the answer."""
        self._steps = 0
        self._guards: tuple[Value, ...] = ()
        self._loops: tuple[ast.AST, ...] = ()
        self._runs: list[int] = []
        """Loops that are being passed: when each was begun."""
        self._free = 0
        self._called_at: ast.AST | None = None
        """Where the script called the library's function that is being followed."""
        self._foreign: dict[str, Value] = {}
        self._site: ast.AST | None = None
        self.copies: list[tuple[Symbol | Record, Symbol | Record]] = []
        """Networks that were copied as a whole, and from which one."""
        self._weight_sets: dict[int, list[tuple[Value, Symbol]]] = {}
        self.tests: dict[ast.While, Value] = {}
        """What each loop asks after its passes."""
        self.named: list[tuple[int, Value]] = []
        """Networks and weights, and the line on which they got a name."""
        self.walked: dict[ast.AST, Value] = {}
        """What each loop walks over."""
        self.reached: set[int] = set()
        """Lines of functions that the script itself calls."""
        self._last_test: Value | None = None
        """The condition of the branch that was passed last; None where only one of its ways is possible."""
        self.dists: list[Symbol] = []
        """Distributions that were made."""
        self.unpacked: list[tuple[list[tuple[str, Value]], ast.AST]] = []
        """Names that a tuple was taken apart into, and what each of them got."""
        self._given_networks: dict[int, Symbol] = {}
        self.flags: list[Symbol] = []
        """What was joined by `or` and `and`."""
        self.callers: dict[int, ast.AST] = {}
        """For filters in functions of the script: where the function was called."""
        self.aliases: list[tuple[ast.AST, Value]] = []
        """Assignments of one name to another, and what both hold."""
        self.switches: list[tuple[ast.If | ast.IfExp, bool]] = []
        """Branches that a call decided by True or False, and which one it took."""
        self.bound: dict[int, tuple[Value, list[ast.AST]]] = {}
        """Statements that gave a value a name, or returned it, by the value's id."""
        self._left = False
        """Whether the branch that was certain ended in a return."""
        self._active: list[ast.AST] = []
        self._frames: list[tuple[ast.AST, set[int], int, list[Value]]] = []
        """Calls that are being followed, what they were given, and how many networks are among that."""
        self._run: set[ast.AST] = set()
        self._module = Scope()
        self._modules = _names_of_modules(tree)
        """Names whose parameters or weights are asked for somewhere: networks, wherever they come from."""
        nodes = sum(1 for _ in ast.walk(tree))
        if nodes > MOST_NODES:
            self.complete = False
            return
        try:
            self._block(tree.body, self._module)
            self.reached = {function.lineno for function in self._run if isinstance(function, ast.FunctionDef)}
            self._run_the_rest(tree)
        except (_GivenUp, RecursionError):
            self.complete = False

    def answer(self, function: Closure, *given: float) -> Value | None:
        """What a function of the script returns for numbers; nothing else of the run is changed by that."""
        kept = len(self.events), len(self.sums), len(self.calls)
        self._steps = max(0, self._steps - 2_000)
        try:
            return self._enter(function, [constant(each) for each in given], {}, function.node)
        except (_GivenUp, RecursionError):
            return None
        finally:
            del self.events[kept[0] :], self.sums[kept[1] :], self.calls[kept[2] :]

    def _run_the_rest(self, tree: ast.Module) -> None:
        """Functions that nobody calls: entry points of a framework, or of another file."""
        # Modules that are trained come first: callbacks and functions are handed them when they are.
        modules = [each for each in tree.body if isinstance(each, ast.ClassDef) and any(
            isinstance(one, ast.FunctionDef) and one.name == "training_step" for one in each.body
        )]  # fmt: skip
        for statement in [*modules, *(each for each in tree.body if each not in modules)]:
            if isinstance(statement, ast.FunctionDef) and statement not in self._run:
                self._enter_alone(Closure(statement, self._module))
            elif isinstance(statement, ast.ClassDef):
                kind = self._module.names.get(statement.name)
                if not isinstance(kind, Kind) or kind.is_environment():
                    continue
                made = [record for record in self.records if kind in record.kind.lineage()]
                methods = [
                    one for one in statement.body if isinstance(one, ast.FunctionDef) and one not in self._run and one.name != "__init__"
                ]
                if methods and not made:
                    initializer = kind.method("__init__")
                    given = self._unknown(initializer[0], skip=1) if initializer else []
                    record = self._make(kind, given, {}, statement)
                    made = [record] if isinstance(record, Record) else []
                if made and any(one.name == "training_step" for one in methods):
                    self._train_as_lightning(made[-1], kind)
                for one in methods if made else ():
                    if one not in self._run and kind.is_callback() and self._enter_hook(one, made[-1], kind):
                        continue
                    if one not in self._run:
                        static = any(isinstance(mark, ast.Name) and mark.id == "staticmethod" for mark in one.decorator_list)
                        self._enter_alone(Closure(one, self._module, None if static else made[-1], kind))

    def _enter_hook(self, hook: ast.FunctionDef, callback: Record, kind: Kind) -> bool:
        """A hook of a Lightning callback: it is given the trainer and the module that is trained."""
        modules = [each for each in self.records if any(name.endswith("LightningModule") for name in each.kind.external())]
        places = hook.args.args
        if not hook.name.startswith("on_") or len(places) < 3 or not modules:
            return False
        given = self._unknown(hook, 1)
        given[1] = modules[-1]
        outer = self._loops
        if hook.name.startswith(("on_train_batch", "on_train_epoch", "on_before", "on_after")):
            # Once for each batch or epoch: in a loop, though the trainer's.
            self._loops = (
                *outer,
                ast.copy_location(ast.For(target=ast.Name(id="batch"), iter=ast.Name(id="batches"), body=[], orelse=[]), hook),
            )
        self._enter(Closure(hook, self._module, callback, kind), given, {}, hook)
        self._loops = outer
        return True

    def _train_as_lightning(self, module: Record, kind: Kind) -> None:
        """What a trainer does with a module: its hooks in their order, and steps over the batches that its loader gives."""

        def ask(name: str, *given: Value) -> Value | None:
            found = kind.method(name)
            if found is None:
                return None
            unknown = self._unknown(found[0], skip=1 + len(given))
            return self._enter(Closure(found[0], found[1].scope, module, found[1]), [*given, *unknown], {}, found[0])

        for hook in ("prepare_data", "setup", "on_fit_start", "on_train_start"):
            ask(hook)
        batches = ask("train_dataloader") or module.attributes.get("given batches")
        step = kind.method("training_step")
        if step is None:
            return
        loop = ast.copy_location(ast.For(target=ast.Name(id="batch"), iter=ast.Name(id="batches"), body=[], orelse=[]), step[0])
        known = isinstance(batches, Items) and bool(batches.items)
        self._loops = (*self._loops, loop)
        for _ in range(2):
            ask("on_train_epoch_start")
            ask("on_train_batch_start")
            before = len(self.events)
            returned = ask("training_step", *([self._element(batches, step[0])] if known and batches is not None else []))
            is_manual = _is_false(module.attributes.get("automatic_optimization"))
            learns = any(event.name == "backward" for event in self.events[before:])
            if not is_manual and learns and not (isinstance(returned, Symbol) and returned.op == "const"):
                for optimizer in _held(self._configured(module, step[0])):
                    if isinstance(optimizer, Symbol) and optimizer.op == "optimizer":
                        self._event("optimizer step", optimizer, None, step[0])
                        self._event("optimizer zero_grad", optimizer, None, step[0])
            ask("on_train_batch_end")
            ask("on_train_epoch_end")
        self._loops = self._loops[:-1]

    def _unknown(self, function: ast.FunctionDef, skip: int = 0) -> list[Value]:
        places = [*function.args.posonlyargs, *function.args.args][skip:]
        return [Symbol("net" if each.arg in self._modules else "parameter", (), each, each.arg) for each in places]

    def _enter_alone(self, closure: Closure) -> None:
        assert isinstance(closure.node, ast.FunctionDef)
        is_property = closure.bound is not None
        self._enter(closure, self._unknown(closure.node, 1 if is_property else 0), {}, closure.node)

    # ── statements ──

    def _block(self, body: list[ast.stmt], scope: Scope) -> None:
        outer = self._guards
        for statement in body:
            self._left = False
            self._statement(statement, scope)
            if isinstance(statement, ast.If | ast.With) and self._left:
                # The branch is certain, and it returns: what follows is never reached.
                break
            if isinstance(statement, ast.If) and _leaves(statement.body) and not statement.orelse and self._last_test is not None:
                # What follows an early exit happens only where its condition does not hold.
                self._guards = (*self._guards, Symbol("Not", (self._last_test,), statement))
        self._guards = outer

    def _statement(self, node: ast.stmt, scope: Scope) -> None:
        self._count()
        if isinstance(node, ast.Expr):
            self._eval(node.value, scope)
        elif isinstance(node, ast.Assign):
            value = self._eval(node.value, scope)
            if (
                isinstance(node.value, ast.ListComp | ast.GeneratorExp)
                and isinstance(node.targets[0], ast.Tuple)
                and isinstance(value, Items)
            ):
                # q1, q2 = (make() for _ in range(2)): each name gets one of its own.
                missing = len(node.targets[0].elts) - 1 if value.is_open and len(value.items) == 1 else 0
                for _ in range(min(missing, MOST_ITEMS)):
                    again = self._eval(node.value, scope)
                    value = Items([*value.items, *(again.items if isinstance(again, Items) else ())], node, is_open=False)
            for target in node.targets:
                self._assign(target, value, scope, node)
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self._assign(node.target, self._eval(node.value, scope), scope, node)
        elif isinstance(node, ast.AugAssign):
            old = self._eval(_loaded(node.target), scope)
            given = self._eval(node.value, scope)
            if isinstance(old, Items) and isinstance(node.op, ast.Add):
                self._extend(old, given)
            elif not self._changed_rows(node, given, scope):
                made = self._operation(type(node.op).__name__, (old, given), node)
                made.data = "in place"
                self._event("update", old, made, node)
                if not (isinstance(old, Symbol) and old.op == "weights"):
                    self._assign(node.target, made, scope, node)
        elif isinstance(node, ast.Return):
            scope.returned.append(self._eval(node.value, scope) if node.value is not None else constant(None, node))
            self._note_bound(scope.returned[-1], node)
            scope.reasons.append(self._guards[-1] if len(self._guards) > scope.depth else None)
            if len(self._loops) > scope.loops:
                self._event("leave", scope.returned[-1], None, node)
        elif isinstance(node, ast.Break):
            self._event("leave", constant(None, node), None, node)
        elif isinstance(node, ast.If):
            self._if(node, scope)
        elif isinstance(node, ast.For):
            self._for(node, scope)
        elif isinstance(node, ast.While):
            self._eval(node.test, scope)
            self._twice(node, scope, lambda: None)
            self.tests[node] = self._eval(node.test, scope)
        elif isinstance(node, ast.With):
            self._with(node, scope)
        elif isinstance(node, ast.FunctionDef):
            scope.names[node.name] = Closure(node, scope)
        elif isinstance(node, ast.ClassDef):
            scope.names[node.name] = Kind(node, scope, [self._eval(base, scope) for base in node.bases], node.name, self._fields(node))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                path = f"{node.module or ''}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name if alias.asname else name
                scope.names[name] = Symbol("ext", (), node, path)
        elif isinstance(node, ast.Try):
            for body in (node.body, node.orelse, *(handler.body for handler in node.handlers), node.finalbody):
                self._block(body, scope)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            scope.outside |= set(node.names)
        elif isinstance(node, ast.Assert):
            self._eval(node.test, scope)
        elif isinstance(node, ast.Match):
            self._match(node, scope)
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                if isinstance(target, ast.Subscript):
                    self._event("emptied", self._eval(target.value, scope), None, node)

    def _changed_rows(self, node: ast.AugAssign, given: Value, scope: Scope) -> bool:
        """targets[open_ended] += values: of what was computed before, the rows that a condition chose."""
        target = node.target
        if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Name):
            return False
        holder = scope.names.get(target.value.id)
        key = self._eval(target.slice, scope)
        test = key.chosen_by if isinstance(key, Items) else None
        if test is None or not isinstance(holder, Symbol) or holder.op not in ("call", "method"):
            return False
        if not isinstance(node.op, ast.Add | ast.Sub):
            return False
        chosen = self._symbol("phi", (test, given, constant(0, node)), node)
        self._assign(target.value, self._operation(type(node.op).__name__, (holder, chosen), target), scope, node)
        return True

    def _match(self, node: ast.Match, scope: Scope) -> None:
        """Cases as a chain of branches; names that a pattern binds get what they stand for where it is a tuple, else the subject."""
        subject = self._eval(node.subject, scope)
        chain: list[ast.stmt] = []
        for case in reversed(node.cases):
            for pattern in ast.walk(case.pattern):
                if isinstance(pattern, ast.MatchAs | ast.MatchStar) and pattern.name:
                    scope.names.setdefault(pattern.name, self._symbol("item", (subject,), node))
            parts = case.pattern.patterns if isinstance(case.pattern, ast.MatchSequence) else []
            for place, part in enumerate(parts):
                if isinstance(part, ast.MatchAs) and part.name:
                    scope.names[part.name] = self._part(subject, place, len(parts), node)
            test = case.guard or (
                ast.Compare(left=node.subject, ops=[ast.Eq()], comparators=[case.pattern.value])
                if isinstance(case.pattern, ast.MatchValue)
                else ast.Name(id=f"case of line {case.body[0].lineno}", ctx=ast.Load())
            )
            is_last = isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None and case.guard is None
            if isinstance(case.pattern, ast.MatchAs) and case.pattern.name and case.pattern.pattern is None:
                scope.names[case.pattern.name] = subject
            branch = ast.If(test=ast.fix_missing_locations(ast.copy_location(test, node)), body=case.body, orelse=chain)
            chain = list(case.body) if is_last and not chain else [ast.copy_location(branch, case.body[0])]
        self._block(chain, scope)

    def _fields(self, node: ast.ClassDef) -> list[str] | None:
        own = [
            statement.target.id
            for statement in node.body
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
        ]
        marks = {_last_name(mark.func if isinstance(mark, ast.Call) else mark) for mark in node.decorator_list}
        return (
            own
            if own
            and (
                marks & {"dataclass", "define", "struct"}
                or {_last_name(base) for base in node.bases} & {"NamedTuple", "TypedDict", "BaseModel"}
            )
            else None
        )

    def _if(self, node: ast.If, scope: Scope) -> None:
        test = self._eval(node.test, scope)
        decided = bool(node.test.value) if isinstance(node.test, ast.Constant) else self._decided(test)
        if decided is None:
            decided = _switch(node.test, scope)
            self._note_switch(node, decided)
        if decided is None and isinstance(test, Items) and test.chosen_by is not None and not node.orelse:
            decided = True  # what is done to the rows of an empty list is nothing
        if decided is not None:
            taken = node.body if decided else node.orelse
            self._left = False
            self._block(taken, scope)
            self._last_test = None
            self._left = self._left or (bool(taken) and isinstance(taken[-1], ast.Return | ast.Raise))
            return
        self._branch_by(test, node, scope)
        self._last_test = test
        self._left = False

    def _note_switch(self, node: ast.If | ast.IfExp, decided: bool | None) -> None:
        if decided is not None and len(self.switches) < MOST_NAMED:
            self.switches.append((node, decided))

    def _branch_by(self, test: Value, node: ast.If, scope: Scope) -> None:
        outer, before = self._guards, dict(scope.names)
        attributes = [(record, dict(record.attributes)) for record in self.records]
        self._guards = (*outer, test)
        self._block(node.body, scope)
        after_body, scope.names = scope.names, dict(before)
        changed = [(record, record.attributes) for record, old in attributes if record.attributes != old]
        if node.body and isinstance(node.body[-1], ast.Return) and not node.orelse and scope.outer is not None:
            scope.exits.append((test, [(record, dict(record.attributes)) for record, _ in attributes]))
        for record, old in attributes:
            if record.attributes != old:
                record.attributes = dict(old)
        ends = _leaves(node.body)
        self._guards = (*outer, Symbol("Not", (test,), node))
        self._block(node.orelse, scope)
        self._guards = outer
        for record, then in changed:
            for name, value in then.items():
                other = record.attributes.get(name)
                if other is not value:
                    record.attributes[name] = self._join(test, value, other, node) if other is not None else value
        after_else = scope.names
        other_ends = _leaves(node.orelse)
        if ends and not isinstance(node.body[-1], ast.Continue):
            return
        if other_ends:
            scope.names = after_body
            return
        for name in after_body.keys() | after_else.keys():
            one, other = after_body.get(name), after_else.get(name)
            if one is not other and one is not None:
                scope.names[name] = self._join(test, one, other, node) if other is not None else one

    def _decided(self, test: Value) -> bool | None:
        """The branch that is certain: a name is None or not, the file is the main one."""
        if isinstance(test, Symbol) and test.op == "Not" and test.args:
            inner = self._decided(test.args[0])
            return None if inner is None else not inner
        if isinstance(test, Symbol) and test.op == "const" and test.data is None:
            return False
        if isinstance(test, Symbol) and test.op == "Compare" and len(test.args) == 2:
            left, right = test.args
            if test.data in ("Is", "IsNot") and isinstance(right, Symbol) and right.op == "const" and right.data is None:
                if isinstance(left, Symbol) and left.op == "const":
                    return (left.data is None) == (test.data == "Is")
                made = isinstance(left, Symbol) and left.op == "call" and str(left.data).startswith(("torch.", "numpy."))
                if made or not isinstance(left, Symbol) or left.op in ("net", "env", "optimizer", "array", "dist"):
                    return test.data == "IsNot"
            if isinstance(left, Symbol) and left.op == "ext" and left.data == "__name__":
                return True
            if _counts_arguments(left):
                # A script that is started without arguments.
                return {"Gt": False, "GtE": False, "Eq": False, "Lt": True, "LtE": True}.get(str(test.data))
            numbers = [
                each.data for each in (left, right) if isinstance(each, Symbol) and each.op == "const" and isinstance(each.data, int)
            ]
            if len(numbers) == 2 and any("counted" in each.keys for each in (left, right) if isinstance(each, Symbol)):
                one, other = numbers
                return {
                    "Lt": one < other,
                    "LtE": one <= other,
                    "Gt": one > other,
                    "GtE": one >= other,
                    "Eq": one == other,
                    "NotEq": one != other,
                }.get(str(test.data))
        return None

    def _join(self, test: Value, one: Value, other: Value, node: ast.AST) -> Value:
        if one is other:
            return one
        if isinstance(one, Items) and isinstance(other, Items) and len(one.items) == len(other.items) and one.items:
            return Items([self._join(test, a, b, node) for a, b in zip(one.items, other.items, strict=True)], node)
        if isinstance(one, Table) and isinstance(other, Table) and one.items.keys() == other.items.keys():
            return Table({key: self._join(test, one.items[key], other.items[key], node) for key in one.items}, node)
        if isinstance(one, Record) and isinstance(other, Record) and one.kind is other.kind and _is_plain(one.kind):
            made = Record(one.kind, one.node)
            for name, value in one.attributes.items():
                made.attributes[name] = self._join(test, value, other.attributes.get(name, value), node)
            return made
        if isinstance(one, Table | Record) and isinstance(other, Table | Record) and type(one) is type(other):
            return one
        if isinstance(one, Kind | Closure | Record) and isinstance(other, Symbol) and other.op == "const":
            return one
        if isinstance(other, Kind | Closure | Record | Items | Table) and (not isinstance(one, Symbol) or one.op == "const"):
            return other
        if isinstance(one, Kind | Closure | Record | Table):
            return one
        return self._symbol("phi", (test, one, other), node)

    def _for(self, node: ast.For, scope: Scope) -> None:
        iterated = self._stream(self._eval(node.iter, scope), node.iter)
        self.walked[node] = iterated
        known = _iterate(iterated)
        if known is not None and 0 < len(known) <= MOST_ITEMS and not (isinstance(iterated, Items) and iterated.is_open):
            self._loops = (*self._loops, node)
            for item in known:
                self._assign(node.target, item, scope, node)
                self._block(node.body, scope)
            self._loops = self._loops[:-1]
            return
        self._twice(node, scope, lambda: self._assign(node.target, self._element(iterated, node), scope, node))

    def _twice(self, node: ast.For | ast.While, scope: Scope, begin: Callable[[], None]) -> None:
        self._loops = (*self._loops, node)
        self._runs.append(self._steps)
        before = dict(scope.names)
        begin()
        self._block(node.body, scope)
        for name, value in list(scope.names.items()):
            old = before.get(name)
            if isinstance(value, Symbol) and old is not None and old is not value and value.op != "const":
                scope.names[name] = self._symbol("carried", (value, old), node, name)
        begin()
        self._block(node.body, scope)
        self._loops = self._loops[:-1]
        self._runs.pop()
        self._block(node.orelse, scope)

    def _with(self, node: ast.With, scope: Scope) -> None:
        free = 0
        for item in node.items:
            value = self._eval(item.context_expr, scope)
            if isinstance(value, Symbol) and str(value.data).rpartition(".")[2] in NO_GRAD:
                free = 1
            if item.optional_vars is not None:
                self._assign(item.optional_vars, value, scope, node)
        self._free += free
        self._block(node.body, scope)
        self._free -= free

    def _assign(self, target: ast.expr, value: Value, scope: Scope, node: ast.AST) -> None:
        if isinstance(target, ast.Name | ast.Attribute) and isinstance(value, Symbol):
            name = target.id if isinstance(target, ast.Name) else target.attr
            _label(value, name)
            if name in self._modules:
                _become_network(value)
        if isinstance(value, Record) or (isinstance(value, Symbol) and value.op in ("net", "weights")):
            self.named.append((getattr(node, "lineno", 0), value))
        if isinstance(target, ast.Name | ast.Attribute):
            self._note_bound(value, node)
        if isinstance(target, ast.Name):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and len(self.aliases) < MOST_NAMED:
                self.aliases.append((node, value))
            if target.id in scope.outside:
                outer = scope.outer
                while outer is not None and outer.outer is not None and target.id not in outer.names:
                    outer = outer.outer
                scope = outer or scope
            self._begin_anew(scope.names.get(target.id), value, node)
            scope.names[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            starred = next((place for place, each in enumerate(target.elts) if isinstance(each, ast.Starred)), None)
            known = self._known_items(value, node) if starred is not None else None
            if starred is None and len(target.elts) > 2 and len(self.unpacked) < MOST_NAMED:
                names = [(each.id, self._part(value, place, len(target.elts), node)) for place, each in enumerate(target.elts)
                         if isinstance(each, ast.Name)]  # fmt: skip
                self.unpacked.append((names, node))
            for place, each in enumerate(target.elts):
                if starred is None:
                    self._assign(each, self._part(value, place, len(target.elts), node), scope, node)
                elif known is not None and len(known) >= len(target.elts) - 1:
                    after = len(target.elts) - place - 1
                    if isinstance(each, ast.Starred):
                        self._assign(each.value, Items(known[place : len(known) - after], node), scope, node)
                    else:
                        self._assign(each, known[place] if place < starred else known[-after - 1], scope, node)
                elif place >= starred:
                    inner = each.value if isinstance(each, ast.Starred) else each
                    self._assign(inner, self._symbol("item", (value,), node), scope, node)
                else:
                    self._assign(each, self._part(value, place, len(target.elts), node), scope, node)
        elif isinstance(target, ast.Attribute):
            holder = self._eval(target.value, scope)
            if isinstance(holder, Record):
                if isinstance(value, Symbol) and value.op in ("net", "weights") and value.owner is None:
                    value.owner = holder
                self._begin_anew(holder.attributes.get(target.attr), value, node)
                holder.attributes[target.attr] = value
            elif isinstance(holder, Table):
                holder.items[target.attr] = value
            elif isinstance(holder, Symbol):
                if target.attr == "requires_grad" and _is_true(value) and holder.op in ("call", "method", "array"):
                    # A tensor that becomes a parameter where it stands: log_alpha.requires_grad = True
                    holder.op, holder.args = "weights", (Symbol(holder.op, holder.args, holder.node, holder.data),)
                self._event("set", holder, value, node, target.attr)
        elif isinstance(target, ast.Subscript):
            holder, key = self._eval(target.value, scope), self._eval(target.slice, scope)
            if isinstance(holder, Table):
                self._note_bound(value, node)
            self._store(holder, key, value, node)

    def _begin_anew(self, old: Value | None, new: Value, node: ast.AST) -> None:
        """self.rewards = []: what was in the list before is not asked for again."""
        if isinstance(old, Items) and isinstance(new, Items) and new.is_open and not new.items:
            self._event("begun anew", old, None, node)

    def _note_bound(self, value: Value, node: ast.AST) -> None:
        if isinstance(value, Symbol | Items):
            statements = self.bound.setdefault(id(value), (value, []))[1]
            if node not in statements and len(statements) < MOST_ITEMS:
                statements.append(node)

    def _store(self, holder: Value, key: Value, value: Value, node: ast.AST) -> None:
        if isinstance(holder, Table):
            name = key.data if isinstance(key, Symbol) and key.op == "const" and isinstance(key.data, str | int) else "?"
            holder.items[name] = value
        elif isinstance(holder, Items):
            place = key.data if isinstance(key, Symbol) and key.op == "const" else None
            if isinstance(place, int) and -len(holder.items) <= place < len(holder.items):
                holder.items[place] = value
            else:
                self._append(holder, value)
                holder.placed = [*holder.placed[-MOST_ITEMS:], (key, self._runs[-1] if self._runs else 0, value)]
                self._event("store", holder, value, node)
        elif isinstance(holder, Symbol):
            source = _array_of(holder)
            columns = _columns_of(source, value)
            if columns:
                for column, held in columns:
                    self._store(column, key, held, node)
            elif source is not None:
                if len(source.stored) < MOST_ITEMS * 3:
                    # Rows that are set by a flag hold it, too.
                    source.stored.append(self._symbol("put", (value, key), node))
            elif len(holder.stored) < MOST_ITEMS:
                holder.stored.append(self._symbol("put", (value, key), node))
            self._event("store", holder, value, node)

    def _known_items(self, value: Value, node: ast.AST) -> list[Value] | None:
        """All values of a tuple whose length is known; a step has five."""
        if isinstance(value, Symbol) and value.op == "step":
            return [self._part(value, place, 5, node) for place in range(5)]
        if isinstance(value, Symbol) and value.op == "reset":
            return [self._part(value, place, 2, node) for place in range(2)]
        return list(value.items) if isinstance(value, Items) and not value.is_open else None

    def _part(self, value: Value, place: int, count: int, node: ast.AST) -> Value:
        """One of the values that something is unpacked into."""
        if isinstance(value, Items) and not value.is_open:
            return value.items[place] if place < len(value.items) else self._symbol("item", (value,), node, place)
        if isinstance(value, Record) and value.kind.fields and place < len(value.kind.fields):
            return value.attributes.get(value.kind.fields[place]) or self._symbol("item", (value,), node, place)
        if isinstance(value, Symbol):
            if value.op == "step":
                # (obs, reward, terminated, truncated) of an environment of the script: five values, less the last.
                return self._symbol("stepped", (value,), node, (place, 5 if count == 4 and returns_both_ends(value.args[0]) else count))
            if value.op == "reset":
                return self._symbol("observed", (value,), node) if place == 0 else self._symbol("item", (value,), node, place)
            if value.op == "columns" and value.args:
                return self._symbol("column", (self._part(value.args[0], place, count, node),), node, place)
            if value.op in ("phi", "read", "carried", "element") and all(not isinstance(argument, Symbol) for argument in value.args[1:]):
                parts = [self._part(argument, place, count, node) for argument in value.args]
                return self._symbol(value.op, tuple(parts), node, value.data)
        return self._symbol("item", (value,), node, place)

    # ── expressions ──

    def _count(self) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise _GivenUp

    def _symbol(self, op: str, args: tuple[Value, ...], node: ast.AST | None, data: Any = None) -> Symbol:
        made = Symbol(op, args, self._called_at or node, data)
        made.free, made.guards, made.site, made.loops = self._free > 0, self._guards, self._site, self._loops
        if op == "out" and made.site is None:
            made.site = self._asked_from(args[0])
        return made

    def _asked_from(self, network: Value) -> ast.AST | None:
        """The call that chose the network, where a function was given it: score(critic, x) is read there, not inside of score."""
        site = None
        for place in range(len(self._frames) - 1, -1, -1):
            call, given, *_ = self._frames[place]
            if id(network) not in given:
                break
            site = call
            # The function around it had to choose between several networks, or knows this one by itself.
            if place > 0 and self._frames[place - 1][2] > 1:
                break
        return site

    def _operation(self, op: str, args: tuple[Value, ...], node: ast.AST) -> Symbol:
        """A sum, a product, …; of inputs and weights it is what a layer answers."""
        weights = [each for each in args if isinstance(each, Symbol) and each.op == "weights"]
        if op == "MatMult" and not weights:
            weights = [each for each in (_as_weights(argument) for argument in args) if each is not None]
            args = tuple(_as_weights(argument) or argument for argument in args) if len(weights) == 1 else args
        others = [each for each in args if each not in weights]
        if len(weights) == 1 and len(others) == 1:
            if op == "MatMult":
                return self._symbol("out", (weights[0], others[0]), node, "linear" if args[0] is weights[0] else None)
            if op == "Add" and isinstance(others[0], Symbol) and others[0].op == "out":
                return others[0]
        counted = _counted(op, args)
        if counted is not None:
            return self._count_of(counted, node)
        made = self._symbol(op, args, node)
        self.sums.append(made)
        return self._new_weights(made, weights, node) or made

    def _count_of(self, number: int, node: ast.AST) -> Symbol:
        """How many there are of something that is listed in the script."""
        made = constant(number, node)
        made.keys = {"counted": made}
        return made

    def _new_weights(self, made: Symbol, weights: list[Symbol], node: ast.AST) -> Symbol | None:
        """Weights after a step along their gradient, or blended with those of another network: they stay the same weights."""
        if made.op in ("Add", "Sub") and len(weights) == 1 and any(_holds_slope(each) for each in made.args):
            self._event("update", weights[0], made, node)
            return weights[0]
        if made.op == "Add":
            blended = [
                next((one for one in each.args if isinstance(one, Symbol) and one.op == "weights"), None)
                for each in made.args
                if isinstance(each, Symbol) and each.op == "Mult"
            ]
            if len(blended) == 2 and blended[0] is not None and blended[1] is not None and blended[0] is not blended[1]:
                slow = next((each for each in blended if each is not None and each.copy_of is not None), blended[0])
                self._event("blend", slow, made, node)
                return slow
        return None

    def _event(self, name: str, subject: Value, value: Value | None, node: ast.AST, data: str | None = None) -> None:
        node = self._called_at or node
        calls = tuple((frame[0], frame[3]) for frame in self._frames) if name in ("store", "env step", "env reset") else ()
        self.events.append(Event(name if data is None else f"{name} {data}", subject, value, node, self._guards, self._loops, calls))

    def _eval(self, node: ast.AST, scope: Scope) -> Value:
        self._count()
        if isinstance(node, ast.Constant):
            return constant(node.value, node)
        if isinstance(node, ast.Name):
            known = scope.find(node.id)
            return known if known is not None else Symbol("ext", (), node, node.id)
        if isinstance(node, ast.Attribute):
            return self._attribute(self._eval(node.value, scope), node.attr, node)
        if isinstance(node, ast.Call):
            return self._call(node, scope)
        if isinstance(node, ast.BinOp):
            left, right = self._eval(node.left, scope), self._eval(node.right, scope)
            if isinstance(left, Items) and isinstance(right, Items) and isinstance(node.op, ast.Add):
                return Items([*left.items, *right.items], node, left.is_open or right.is_open)
            listed, times = (left, right) if isinstance(left, Items) else (right, left)
            if isinstance(listed, Items) and isinstance(times, Symbol) and isinstance(node.op, ast.Mult) and len(listed.items) == 1:
                # [None] * capacity: as many places as the number says; what fills them comes later.
                few = times.op == "const" and isinstance(times.data, int) and 0 < times.data <= MOST_ITEMS
                return Items(list(listed.items) * (times.data if few else 1), node, is_open=not few)
            return self._operation(type(node.op).__name__, (left, right), node)
        if isinstance(node, ast.UnaryOp):
            inner = self._eval(node.operand, scope)
            return self._symbol(type(node.op).__name__, (inner,), node)
        if isinstance(node, ast.BoolOp):
            first = self._eval(node.values[0], scope)
            if isinstance(first, Symbol) and first.op == "const" and bool(first.data) == isinstance(node.op, ast.And):
                # memory or Replay(), of a memory that was not given; explore and random() < epsilon, where explore is True
                rest = node.values[1:]
                return self._eval(rest[0] if len(rest) == 1 else ast.copy_location(ast.BoolOp(node.op, rest), node), scope)
            if isinstance(node.op, ast.Or) and isinstance(first, Record | Kind | Closure):
                return first
            either = self._symbol(type(node.op).__name__, tuple(self._eval(each, scope) for each in node.values), node)
            self.flags.append(either)
            return either
        if isinstance(node, ast.Compare):
            args = (self._eval(node.left, scope), *(self._eval(comparator, scope) for comparator in node.comparators))
            return self._symbol("Compare", args, node, type(node.ops[0]).__name__)
        if isinstance(node, ast.IfExp):
            test = self._eval(node.test, scope)
            decided = self._decided(test)
            if decided is None:
                decided = _switch(node.test, scope)
                self._note_switch(node, decided)
            if decided is not None:
                return self._eval(node.body if decided else node.orelse, scope)
            outer, self._guards = self._guards, (*self._guards, test)
            one = self._eval(node.body, scope)
            self._guards = (*outer, Symbol("Not", (test,), node))
            other = self._eval(node.orelse, scope)
            self._guards = outer
            return self._join(test, one, other, node)
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return self._listed(node, scope)
        if isinstance(node, ast.Dict):
            return self._dictionary(node, scope)
        if isinstance(node, ast.Subscript):
            return self._subscript(self._eval(node.value, scope), self._eval(node.slice, scope), node)
        if isinstance(node, ast.Slice):
            parts = tuple(self._eval(each, scope) for each in (node.lower, node.upper, node.step) if each is not None)
            return self._symbol("slice", parts, node, node)
        if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp):
            return self._comprehension(node, scope)
        if isinstance(node, ast.Lambda):
            return Closure(node, scope)
        if isinstance(node, ast.NamedExpr):
            value = self._eval(node.value, scope)
            self._assign(node.target, value, scope, node)
            return value
        if isinstance(node, ast.Starred):
            return self._eval(node.value, scope)
        if isinstance(node, ast.JoinedStr):
            for each in node.values:
                if isinstance(each, ast.FormattedValue):
                    self._eval(each.value, scope)
            return Symbol("text", (), node)
        if isinstance(node, ast.Await | ast.YieldFrom | ast.Yield) and node.value is not None:
            value = self._eval(node.value, scope)
            if isinstance(node, ast.Yield):
                scope.yielded.append(value)
                scope.yields[node] = (value, self._guards[-1] if len(self._guards) > scope.depth else None)
            elif isinstance(node, ast.YieldFrom):
                scope.yielded += _iterate(value) or [self._element(value, node)]
            return value
        return self._symbol("unknown", (), node)

    def _listed(self, node: ast.Tuple | ast.List | ast.Set, scope: Scope) -> Value:
        items: list[Value] = []
        for element in node.elts:
            value = self._eval(element, scope)
            if isinstance(element, ast.Starred):
                items += _iterate(value) or [value]
            else:
                items.append(value)
        return Items(items, node, is_open=isinstance(node, ast.List) and not items)

    def _dictionary(self, node: ast.Dict, scope: Scope) -> Value:
        items: dict[Any, Value] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            held = self._eval(value, scope)
            if key is None:
                items.update(held.items if isinstance(held, Table) else {})
            else:
                name = self._eval(key, scope)
                items[name.data if isinstance(name, Symbol) and name.op == "const" and not isinstance(name.data, bytes) else "?"] = held
        return Table(items, node)

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp, scope: Scope) -> Value:
        inner = Scope(scope, kind=scope.kind, bound=scope.bound)
        made: list[tuple[Value | None, Value]] = []
        chosen: list[Value] = []
        closed = True

        def walk(generators: list[ast.comprehension]) -> None:
            nonlocal closed
            if not generators:
                if isinstance(node, ast.DictComp):
                    made.append((self._eval(node.key, inner), self._eval(node.value, inner)))
                else:
                    made.append((None, self._eval(node.elt, inner)))
                return
            first = generators[0]
            iterated = self._stream(self._eval(first.iter, inner), first.iter)
            known = _iterate(iterated)
            if known is None or len(known) > MOST_ITEMS or (isinstance(iterated, Items) and iterated.is_open) or not known:
                closed = False
                known = [self._element(iterated, node)]
            for item in known:
                self._assign(first.target, item, inner, node)
                chosen.extend(self._eval(test, inner) for test in first.ifs)
                walk(generators[1:])

        walk(node.generators)
        if isinstance(node, ast.DictComp):
            pairs = {key.data if isinstance(key, Symbol) and key.op == "const" else "?": value for key, value in made}
            return Table(pairs, node)
        listed = Items([value for _, value in made], node, is_open=not closed)
        listed.chosen_by = chosen[-1] if chosen else None
        return listed

    def _stream(self, value: Value, node: ast.AST) -> Value:
        """What an object gives that is walked over."""
        found = value.kind.method("__iter__") if isinstance(value, Record) and not value.kind.fields else None
        if found is not None and isinstance(value, Record):
            return self._enter(Closure(found[0], found[1].scope, value, found[1]), [], {}, node)
        return value

    def _element(self, iterated: Value, node: ast.AST) -> Value:
        """Any element of what is walked over."""
        if isinstance(iterated, Items):
            if not iterated.items:
                return self._symbol("element", (iterated,), node)
            # A place that was kept free with None is filled later.
            held = [each for each in iterated.items if not (isinstance(each, Symbol) and each.op == "const" and each.data is None)]
            kinds = {type(each) for each in held}
            if len(held) == 1 or (kinds & {Items, Record, Table} and len(kinds) == 1):
                return self._any_row(held, node)
            return self._symbol("element", (iterated,), node)
        if isinstance(iterated, Symbol):
            if iterated.op == "zipped":
                return Items([self._element(argument, node) for argument in iterated.args], node)
            if iterated.op == "enumerated":
                return Items([self._symbol("index", (), node), self._element(iterated.args[0], node)], node)
            if iterated.op == "range":
                return self._symbol("index", (iterated,), node)
            inner = iterated.args[0] if iterated.args else None
            listed = not isinstance(inner, Symbol) or inner.op in ("zipped", "enumerated")
            if iterated.op in ("sampled", "reversed", "carried") and inner is not None and listed:
                return self._element(inner, node)
            if iterated.op == "phi":
                held = [argument for argument in iterated.args[1:] if not isinstance(argument, Symbol)]
                if held:
                    return self._element(held[0], node)
        return self._symbol("element", (iterated,), node)

    def _standing_at(self, holder: Items, key: Value) -> Value | None:
        """An observation that stands at a place of a list now: not what is put there later, nor what stands beside it."""
        if not holder.placed:
            return None
        known = [value for place, run, value in holder.placed if place is key or run != (self._runs[-1] if self._runs else 0)]
        last = known[-1] if known else holder.items[0]
        return last if isinstance(last, Symbol) and last.op in ("observed", "stepped", "phi") else None

    def _any_row(self, rows: list[Value], node: ast.AST) -> Value:
        """The latest row of a list; where rows are made in several places, what differs may be either."""
        last = rows[-1]
        if not isinstance(last, Items) or not isinstance(last.node, ast.Tuple):
            return last
        others = [row for row in rows[::-1] if isinstance(row, Items) and len(row.items) == len(last.items)]
        other = next((row for row in others if isinstance(row.node, ast.Tuple) and _is_made_elsewhere(row, last)), None)
        return self._join(self._symbol("either", (), node), last, other, node) if other is not None else last

    def _attribute(self, holder: Value, name: str, node: ast.AST) -> Value:
        if isinstance(holder, Symbol):
            if holder.op == "ext":
                return Symbol("ext", (), node, f"{holder.data}.{name}")
            if holder.op in ("phi", "carried") and name not in ("T", "shape", "data"):
                inner = [argument for argument in holder.args[-2:] if isinstance(argument, Record)]
                if inner:
                    return self._attribute(inner[0], name, node)
            if name == "names" and holder.op == "attribute" and holder.data == "dtype":
                columns = source.keys.get("columns") if (source := _array_of(holder.args[0])) is not None else None
                if isinstance(columns, Table):
                    return Items([constant(each) for each in columns.items], node)
            known = self._of_timestep(holder, name, node)
            return known if known is not None else self._symbol("attribute", (holder,), node, name)
        if isinstance(holder, Record):
            if name in holder.attributes:
                return holder.attributes[name]
            found = holder.kind.method(name)
            if found is not None:
                marks = {_last_name(mark) for mark in found[0].decorator_list}
                closure = Closure(found[0], found[1].scope, None if "staticmethod" in marks else holder, found[1])
                return self._enter(closure, [], {}, node) if marks & {"property", "cached_property"} else closure
            default = self._class_value(holder.kind, name)
            if default is None and name == "apply" and holder.kind.method("__call__") is not None:
                return self._symbol("module function", (holder,), node)
            return default if default is not None else self._symbol("attribute", (holder,), node, name)
        if isinstance(holder, Kind):
            if name == "_fields" and holder.fields:
                return Items([constant(each) for each in holder.fields], node)
            default = self._class_value(holder, name)
            if default is not None:
                return default
            found = holder.method(name)
            if found is not None:
                marks = {_last_name(mark) for mark in found[0].decorator_list}
                return Closure(found[0], found[1].scope, holder if "classmethod" in marks else None, found[1])
            return Symbol("ext", (), node, f"{holder.name}.{name}")
        if isinstance(holder, Table) and name in holder.items:
            return holder.items[name]
        return self._symbol("attribute", (Symbol("settings", (), node) if isinstance(holder, Table) else holder,), node, name)

    def _of_timestep(self, holder: Symbol, name: str, node: ast.AST) -> Value | None:
        """A part of what dm_env's step and reset return: an object with a reward, a discount and an observation."""
        if name not in ("reward", "discount", "observation"):
            return None
        if holder.op in ("phi", "carried"):
            steps = [each for each in holder.args[-2:] if isinstance(each, Symbol) and each.op == "step"]
            inner = steps or [each for each in holder.args[-2:] if isinstance(each, Symbol) and each.op == "reset"]
            return self._of_timestep(inner[-1], name, node) if inner else None
        if holder.op == "step":
            if name == "discount":
                return self._symbol("Sub", (constant(1.0), self._symbol("stepped", (holder,), node, (2, 5))), node)
            return self._symbol("stepped", (holder,), node, (0 if name == "observation" else 1, 5))
        return self._symbol("observed", (holder,), node) if holder.op == "reset" and name == "observation" else None

    def _class_value(self, kind: Kind, name: str) -> Value | None:
        for each in kind.lineage():
            for statement in each.node.body if each.node is not None else ():
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.target.id == name:
                    return self._default(statement.value, each.scope) if statement.value is not None else None
                if isinstance(statement, ast.Assign) and any(isinstance(one, ast.Name) and one.id == name for one in statement.targets):
                    return self._eval(statement.value, each.scope)
        return None

    def _default(self, node: ast.expr, scope: Scope) -> Value:
        """A field's default; of field(default=…) and field(default_factory=…) what is in it."""
        if isinstance(node, ast.Call) and _last_name(node.func) in ("field", "Field"):
            for key in node.keywords:
                if key.arg == "default":
                    return self._eval(key.value, scope)
                if key.arg == "default_factory":
                    return self._apply(self._eval(key.value, scope), [], {}, node)
        return self._eval(node, scope)

    def _subscript(self, holder: Value, key: Value, node: ast.AST) -> Value:
        place = key.data if isinstance(key, Symbol) and key.op == "const" else None
        if isinstance(key, Symbol) and key.op == "USub" and isinstance(key.args[0], Symbol) and isinstance(key.args[0].data, int):
            place = -key.args[0].data
        if isinstance(holder, Items):
            if isinstance(place, int) and -len(holder.items) <= place < len(holder.items):
                return holder.items[place]
            if isinstance(key, Symbol) and key.op == "slice":
                cut = _cut(holder, key)
                if cut is not None:
                    return Items(cut, node)
                backwards = isinstance(key.data, ast.Slice) and isinstance(key.data.step, ast.UnaryOp)
                return self._symbol("reversed", (holder,), node) if backwards else holder
            return self._standing_at(holder, key) or self._element(holder, node)
        if isinstance(holder, Table):
            if place in holder.items:
                return holder.items[place]
            if holder.made_by is not None:
                if isinstance(key, Symbol) and key.op != "const" and _is_observed(key):
                    # A dictionary of values for observations is a table.
                    return self._symbol("out", (self._table_array(holder, node), key), node)
                name = place if place is not None else "?"
                if name not in holder.items:
                    holder.items[name] = self._apply(holder.made_by, [], {}, node)
                return holder.items[name]
            return next(iter(holder.items.values())) if len(holder.items) == 1 else self._symbol("item", (holder,), node, place)
        if isinstance(holder, Record):
            if holder.kind.fields and isinstance(place, int) and place < len(holder.kind.fields):
                return holder.attributes.get(holder.kind.fields[place]) or self._symbol("item", (holder,), node, place)
            found = holder.kind.method("__getitem__")
            if found is not None:
                return self._enter(Closure(found[0], found[1].scope, holder, found[1]), [key], {}, node)
        if isinstance(holder, Symbol):
            listed = holder.args[0] if holder.op in ("reversed", "sampled") and holder.args else None
            if isinstance(listed, Items) and listed.items and not (isinstance(key, Symbol) and key.op == "slice"):
                return self._element(listed, node)
            if holder.op in ("step", "reset") and isinstance(key, Symbol) and key.op == "slice":
                cut = _cut(Items(self._known_items(holder, node) or []), key)
                if cut is not None:
                    return Items(cut, node)
            if isinstance(place, int) and place >= 0 and holder.op in ("step", "reset", "columns"):
                return self._part(holder, place, 5 if holder.op == "step" else 2, node)
            table = _array_of(holder)
            if table is not None and isinstance(place, str) and isinstance(table.keys.get("columns"), Table):
                return self._column_of(holder, table, place, node)
            if table is not None and table.data in ("zeros", "ones", "full", "empty") and _is_observed(key):
                # An entry of a table for an observation: what is known of it.
                if isinstance(key, Items) and len(key.items) > 1:
                    row = self._symbol("out", (table, key.items[0]), node)
                    is_whole = isinstance(key.items[1], Symbol) and key.items[1].op == "slice"
                    return row if is_whole else self._symbol("item", (row, key.items[1]), node)
                return self._symbol("out", (table, key), node)
            return self._symbol("read" if table is not None else "item", (holder, key), node, place)
        return self._symbol("item", (holder, key), node, place)

    def _column_of(self, holder: Value, table: Symbol, name: str, node: ast.AST) -> Value:
        """rows[i]["obs"] of a structured array: the row of that column."""
        columns = table.keys["columns"]
        column = columns.items.get(name) if isinstance(columns, Table) else None
        if column is None:
            return self._symbol("item", (holder,), node, name)
        keys: list[Value] = []
        while isinstance(holder, Symbol) and holder is not table:
            keys += holder.args[1:] if holder.op == "read" else ()
            holder = holder.args[0]
        for key in reversed(keys):
            column = self._symbol("read", (column, key), node)
        return column

    def _table_array(self, holder: Table, node: ast.AST) -> Symbol:
        """The values of a dictionary that makes its entries itself, as one array."""
        known = holder.items.get("table")
        if not isinstance(known, Symbol):
            known = self._symbol("array", (), node, "zeros")
            holder.items["table"] = known
        return known

    # ── calls ──

    def _call(self, node: ast.Call, scope: Scope) -> Value:
        args: list[Value] = []
        for argument in node.args:
            value = self._eval(argument, scope)
            if isinstance(argument, ast.Starred):
                known = _iterate(value)
                if isinstance(node.func, ast.Name) and node.func.id == "zip":
                    return self._symbol("columns", (self._element(value, node),), node)
                args += known if known is not None and not (isinstance(value, Items) and value.is_open) else self._spread(value, node)
            else:
                args.append(value)
        keys: dict[str, Value] = {}
        starred: list[Value] = []
        for key in node.keywords:
            value = self._eval(key.value, scope)
            if key.arg is not None:
                keys[key.arg] = value
            elif isinstance(value, Table):
                keys.update({str(name): held for name, held in value.items.items()})
                starred.append(value)
            elif isinstance(value, Record):
                keys.update(value.attributes)
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            return Symbol("super", (), node, scope)
        if isinstance(node.func, ast.Attribute):
            holder = self._eval(node.func.value, scope)
            return self._method(holder, node.func.attr, args, keys, node, scope)
        if isinstance(node.func, ast.Call) or not isinstance(node.func, ast.Name):
            return self._apply(self._eval(node.func, scope), args, keys, node)
        made = self._apply(self._eval(node.func, scope), args, keys, node)
        if starred and isinstance(made, Symbol) and made.op == "call" and made.node is node:
            made.stored = starred
        return made

    def _spread(self, value: Value, node: ast.AST) -> list[Value]:
        """f(*x) where x is not known: its columns or elements."""
        if isinstance(value, Items) and value.items:
            is_net = isinstance(value.items[-1], Symbol) and value.items[-1].op in ("net", "called")
            if is_net or all(isinstance(each, Items) for each in value.items):
                return list(value.items)
        return [self._symbol("element", (value,), node)]

    def _apply(self, function: Value, args: list[Value], keys: dict[str, Value], node: ast.AST) -> Value:
        if isinstance(function, Closure):
            return self._enter(function, args, keys, node)
        if isinstance(function, Kind):
            return self._make(function, args, keys, node)
        if isinstance(function, Record):
            for name in ("forward", "__call__"):
                found = function.kind.method(name)
                if found is not None:
                    out = self._ask(function, Closure(found[0], found[1].scope, function, found[1]), args, keys, node)
                    if function.kind.is_network() and isinstance(out, Symbol) and out.op in ("unknown", "const"):
                        return self._symbol("out", (self._as_network(function, node), *args), node)
                    return out
            return self._symbol("out", (self._as_network(function, node), *args), node)
        if isinstance(function, Symbol):
            if function.op == "net":
                return self._symbol("out", (function, *args, *keys.values()), node)
            if function.op == "loss":
                return self._library(str(function.data), args, keys, node)
            if function.op == "ext":
                return self._library(str(function.data), args, keys, node)
            if function.op == "phi":
                for argument in function.args[1:]:
                    if isinstance(argument, Closure | Kind | Record) or (isinstance(argument, Symbol) and argument.op == "net"):
                        return self._apply(argument, args, keys, node)
            if function.op == "call" and args and _is_tool(function) and words.NETWORK(str(function.data).rpartition(".")[2]):
                # Made by a class of another file that is called like a network, and asked about something.
                _become_network(function)
            if function.op == "net":
                return self._symbol("out", (function, *args, *keys.values()), node)
            if function.op == "parameter" and args and words.NETWORK(str(function.data)) and not words.ENVIRONMENT(str(function.data)):
                # A network of another file: what is called like one, and asked about something.
                network = self._given_networks.setdefault(id(function), Symbol("net", (), function.node, str(function.data)))
                return self._symbol("out", (network, *args, *keys.values()), node)
            if function.op in ("parameter", "attribute"):
                made = self._symbol("asked", (function, *args), node, function.data)
                made.keys = keys
                return made
            if function.op == "gradient of":
                value = self._apply(function.args[0], args, keys, node)
                loss = value.items[0] if isinstance(value, Items) and value.items else value
                self._event("backward", loss, loss, node)
                slope = self._symbol("slope", (), node)
                if function.data == "grad":
                    return (
                        Items([slope, value.items[1]], node)
                        if _is_true(function.keys.get("has_aux")) and isinstance(value, Items)
                        else slope
                    )
                return Items([slope, value] if function.data == "grad_and_value" else [value, slope], node)
            if function.op == "module function":
                return self._apply(function.args[0], args[1:], keys, node)
            if function.op == "vmap":
                return self._apply(function.args[0], args, keys, node)
            if function.op == "partial":
                return self._apply(function.args[0], [*function.args[1:], *args], {**function.keys, **keys}, node)
        return self._symbol("called", (function, *args, *keys.values()), node)

    def _ask(self, record: Record, closure: Closure, args: list[Value], keys: dict[str, Value], node: ast.AST) -> Value:
        """Enter a method of a network: what is made in it is written where the network is asked."""
        outer = self._site
        is_module = any(name.endswith("LightningModule") for name in record.kind.external())
        is_network = record.kind.is_network() and not is_module and not record.kind.is_trainer()
        if is_network and outer is None:
            self._site = node
        out = self._enter(closure, args, keys, node)
        self._site = outer
        return out

    def _as_network(self, record: Record, node: ast.AST) -> Symbol:
        made = Symbol("net", (), node, record.kind.name)
        made.owner = record
        return made

    def _make(self, kind: Kind, args: list[Value], keys: dict[str, Value], node: ast.AST) -> Value:
        record = Record(kind, node)
        self.records.append(record)
        fields = next((each.fields for each in kind.lineage() if each.fields), None)
        initializer = kind.method("__init__")
        if initializer is not None:
            self._enter(Closure(initializer[0], initializer[1].scope, record, initializer[1]), args, keys, node)
        elif fields:
            names = [name for each in reversed(list(kind.lineage())) for name in each.fields or []]
            for name, value in zip(names, args, strict=False):
                record.attributes[name] = value
            record.attributes.update(keys)
            if len(self.unpacked) < MOST_NAMED:
                self.unpacked.append((list(record.attributes.items()), self._handed_over(args, node)))
            for name in names:
                if name not in record.attributes:
                    default = self._class_value(kind, name)
                    if default is not None:
                        record.attributes[name] = default
            later = kind.method("__post_init__")
            if later is not None:
                self._enter(Closure(later[0], later[1].scope, record, later[1]), [], {}, node)
        elif not kind.is_environment():
            record.attributes.update(keys)
            if args:
                record.attributes["given"] = args[0]
        return record

    def _handed_over(self, args: list[Value], node: ast.AST) -> ast.AST:
        """The call that gave all of these values to the function which is being followed: memory.push(a, b, c) for Row(*given)."""
        for call, given, _, _ in self._frames[-1:]:
            if len(args) > 2 and all(id(each) in given for each in args):
                return call
        return node

    def _enter(self, closure: Closure, args: list[Value], keys: dict[str, Value], node: ast.AST) -> Value:
        function = closure.node
        self._run.add(function)
        if self._active.count(function) > 1 or len(self._active) > MOST_DEEP:
            return self._symbol("unknown", tuple(args), node)
        scope = Scope(closure.scope, kind=closure.kind, bound=closure.bound, depth=len(self._guards), loops=len(self._loops))
        places = [each.arg for each in [*function.args.posonlyargs, *function.args.args]]
        given = [closure.bound, *args] if closure.bound is not None else args
        for name, value in zip(places, given, strict=False):
            scope.names[name] = value
        if function.args.vararg is not None:
            scope.names[function.args.vararg.arg] = Items(list(given[len(places) :]), node)
        names = {*places, *(keyword.arg for keyword in function.args.kwonlyargs)}
        for name, value in keys.items():
            if name in names:
                scope.names[name] = value
        if function.args.kwarg is not None:
            scope.names[function.args.kwarg.arg] = Table({name: value for name, value in keys.items() if name not in names}, node)
        defaults = [*zip(reversed(places), reversed(function.args.defaults), strict=False)]
        defaults += [
            (one.arg, value) for one, value in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True) if value is not None
        ]
        for name, default in defaults:
            if name not in scope.names:
                scope.names[name] = self._eval(default, closure.scope)
                scope.defaulted |= {name} if node is not function else set()
        for name in names:
            scope.names.setdefault(name, Symbol("parameter", (), function, name))
        if len(places) > 3 and len(self.unpacked) < MOST_NAMED:
            self.unpacked.append(([(name, scope.names[name]) for name in places if name in scope.names], node))
        scope.given = {*places[: len(given)], *(name for name in keys if name in names)}
        passed = [*args, *keys.values()]
        networks = sum(any(isinstance(held, Symbol) and held.op in ("net", "weights") for held in _held(value)) for value in passed)
        self._frames.append((node, {id(held) for value in passed for held in _held(value)}, networks, passed))
        if isinstance(function, ast.Lambda):
            self._active.append(function)
            value = self._eval(function.body, scope)
            self._active.pop()
            self._frames.pop()
            return value
        free = any(_last_name(mark.func if isinstance(mark, ast.Call) else mark) in NO_GRAD for mark in function.decorator_list)
        self._active.append(function)
        self._free += free
        guards, loops, so_far, outer = self._guards, self._loops, len(self.events), self._called_at
        scope.is_foreign = closure.scope.is_foreign
        if scope.is_foreign and self._called_at is None:
            self._called_at = node
        self._block(function.body, scope)
        self._called_at = outer
        for test, held in scope.exits:
            # What an object held where the function was left early is one of the things that it may hold now.
            for record, then in held:
                for name, value in then.items():
                    now = record.attributes.get(name)
                    if now is not None and now is not value and isinstance(now, Symbol) and isinstance(value, Symbol):
                        record.attributes[name] = self._join(test, value, now, function)
        self._left = False
        self._guards, self._loops = guards, loops
        self._free -= free
        self._active.pop()
        self._frames.pop()
        if scope.yielded:
            made = scope.yielded[-MOST_ITEMS:]
            rows = list(scope.yields.values())
            if len(rows) > 1 and len({len(row.items) if isinstance(row, Items) else 0 for row, _ in rows}) == 1:
                # What is walked over comes from any of the places that yield: a step in the middle of an episode, or its last one.
                yielding = list(scope.yields)
                either = rows[-1][0]
                for number in range(len(rows) - 2, -1, -1):
                    row, reason = rows[number]
                    # Why the one or the other is yielded says something where one of them leaves a place empty.
                    known = reason if _leaves_empty(row) != _leaves_empty(either) else None
                    test = known if known is not None else self._symbol("either", (), node)
                    either = self._join(test, row, either, yielding[number + 1])
                made = [*made, either]
            return Items(made, node, is_open=True)
        is_manual = any(event.name == "backward" for event in self.events[so_far:])
        if function.name == "training_step" and scope.returned and not is_manual:
            # Lightning takes the gradient of what its training step returns.
            value = scope.returned[-1]
            loss = value.items.get("loss", value) if isinstance(value, Table) else value
            self._event("backward", loss, loss, function.body[-1])
        return self._returned(scope, function, node)

    def _returned(self, scope: Scope, function: ast.AST, node: ast.AST) -> Value:
        if not scope.returned:
            return constant(None, node)
        joined = scope.returned[-1]
        for value, reason in reversed(list(zip(scope.returned[:-1], scope.reasons, strict=False))):
            if not (isinstance(value, Symbol) and value.op == "const" and value.data is None):
                joined = self._join(reason if reason is not None else self._symbol("either", (), node), value, joined, function)
        return joined

    def _method(self, holder: Value, name: str, args: list[Value], keys: dict[str, Value], node: ast.Call, scope: Scope) -> Value:
        if isinstance(holder, Symbol) and holder.op == "super":
            inner = holder.data
            kind, bound = inner.kind, inner.bound
            if isinstance(bound, Record) and kind is not None:
                found = bound.kind.method(name, after=kind)
                if found is not None:
                    return self._enter(Closure(found[0], found[1].scope, bound, found[1]), args, keys, node)
                if name == "__init__" and not bound.kind.is_network() and args:
                    bound.attributes.setdefault("given", args[0])
            return self._symbol("unknown", tuple(args), node)
        if isinstance(holder, Record):
            if name == "_replace" and holder.kind.fields:
                return self._replaced(holder, keys, node)
            if name == "save_hyperparameters" and holder.kind.method(name) is None:
                settings = {given: value for given, value in scope.names.items() if value is not holder}
                given_whole = args[0] if args and isinstance(args[0], Table | Record) else None
                holder.attributes["hparams"] = given_whole or Table({**settings, **keys}, node)
                return holder
            if holder.kind.is_environment() and name in ("step", "reset"):
                return self._stepped(holder, name, args, keys, node)
            if name in holder.attributes:
                return self._apply(holder.attributes[name], args, keys, node)
            found = holder.kind.method(name)
            if found is not None:
                marks = {_last_name(mark) for mark in found[0].decorator_list}
                closure = Closure(found[0], found[1].scope, None if "staticmethod" in marks else holder, found[1])
                return self._ask(holder, closure, args, keys, node)
            if name == "apply" and len(args) > 1 and holder.kind.method("__call__") is not None:
                return self._apply(holder, args[1:], keys, node)
            made_of = self._class_value(holder.kind, name)
            if isinstance(made_of, Kind):
                return self._apply(made_of, args, keys, node)
            return self._of_network(holder, name, args, keys, node)
        if isinstance(holder, Kind):
            return self._apply(self._attribute(holder, name, node), args, keys, node)
        if isinstance(holder, Items):
            return self._of_items(holder, name, args, keys, node)
        if isinstance(holder, Table):
            return self._of_table(holder, name, args, keys, node)
        if isinstance(holder, Symbol):
            if holder.op == "ext" and name in ("step", "reset") and words.ENVIRONMENT(str(holder.data)) and "." not in str(holder.data):
                return self._stepped(holder, name, args, keys, node)
            if holder.op == "ext":
                return self._library(f"{holder.data}.{name}", args, keys, node)
            return self._of_symbol(holder, name, args, keys, node)
        return self._symbol("method", (holder, *args), node, name)

    def _stepped(self, env: Value, name: str, args: list[Value], keys: dict[str, Value], node: ast.AST) -> Value:
        made = self._symbol(name, (env, *args), node)
        made.keys = keys
        self._event(f"env {name}", env, made, node)
        return made

    def _of_network(self, holder: Value, name: str, args: list[Value], keys: dict[str, Value], node: ast.AST) -> Value:
        """Methods that every torch module has."""
        if name in _SAME_OBJECT:
            if name == "eval" and not args:
                self._event("eval mode", holder, None, node)
            return holder
        if name == "load_state_dict" and args:
            self._event("load", holder, args[0], node)
            return holder
        if name in ("save_hyperparameters", "hparams"):
            return holder
        if name == "register_buffer" and len(args) > 1 and isinstance(holder, Record) and isinstance(args[0], Symbol):
            holder.attributes[str(args[0].data)] = args[1]
        if name == "zero_grad":
            self._event("clear", holder, None, node)
        if name in ("manual_backward", "backward") and args:
            self._event("backward", args[0], args[0], node)
        if name in ("optimizers",):
            return self._configured(holder, node)
        made = self._symbol("method", (holder, *args), node, name)
        made.keys = keys
        return made

    def _configured(self, holder: Value, node: ast.AST) -> Value:
        """The optimizers of a Lightning module: one, or a list in the order that they were returned in."""
        found = holder.kind.method("configure_optimizers") if isinstance(holder, Record) else None
        if found is None or not isinstance(holder, Record):
            return self.optimizers[-1] if len(self.optimizers) == 1 else self._symbol("unknown", (), node)
        if "configured optimizers" not in holder.attributes:
            made = self._enter(Closure(found[0], found[1].scope, holder, found[1]), [], {}, node)
            if isinstance(made, Items) and made.items and isinstance(made.items[0], Items):
                made = made.items[0]
            if isinstance(made, Items) and len(made.items) == 1:
                made = made.items[0]
            if isinstance(made, Table):
                made = made.items.get("optimizer", made)
            holder.attributes["configured optimizers"] = made
        return holder.attributes["configured optimizers"]

    def _of_items(self, holder: Items, name: str, args: list[Value], keys: dict[str, Value], node: ast.AST) -> Value:
        if name in ("append", "appendleft", "insert", "add") and args:
            self._append(holder, args[-1])
            self._event("store", holder, args[-1], node)
            return constant(None, node)
        if name == "extend" and args:
            self._extend(holder, args[0])
            return constant(None, node)
        if name in ("pop", "popleft", "sample", "choice"):
            if name.startswith("pop"):
                self._event("emptied", holder, None, node)
            return self._element(holder, node)
        if name in ("copy",):
            return Items(list(holder.items), node, holder.is_open)
        if name in ("clear",):
            self._event("emptied", holder, None, node)
            return constant(None, node)
        if name == "reverse":
            self._event("reverse", holder, None, node)
            return constant(None, node)
        return self._symbol("method", (holder, *args), node, name)

    def _append(self, holder: Items, value: Value) -> None:
        holder.is_open = True
        if len(holder.items) < MOST_ITEMS:
            holder.items.append(value)
        else:
            holder.items[-1] = value

    def _extend(self, holder: Items, given: Value) -> None:
        for each in (_iterate(given) or [self._symbol("element", (given,), None)])[:MOST_ITEMS]:
            self._append(holder, each) if isinstance(given, Symbol) or holder.is_open else holder.items.append(each)

    def _of_table(self, holder: Table, name: str, args: list[Value], keys: dict[str, Value], node: ast.AST) -> Value:
        if name == "items":
            return Items([Items([constant(key), value]) for key, value in holder.items.items()], node)
        if name == "values":
            return Items(list(holder.items.values()), node)
        if name == "keys":
            return Items([constant(key) for key in holder.items], node)
        if name in ("get", "pop", "setdefault") and args and isinstance(args[0], Symbol) and args[0].op == "const":
            known = holder.items.get(args[0].data)
            return known if known is not None else args[1] if len(args) > 1 else self._symbol("unknown", (), node)
        if name in ("apply_gradients", "replace"):
            return Table({**holder.items, **{key: value for key, value in keys.items() if key != "grads"}}, node)
        if name in holder.items and isinstance(holder.items[name], Closure | Symbol | Record):
            return self._apply(holder.items[name], args, keys, node)
        if name == "update" and args and isinstance(args[0], Table):
            holder.items.update(args[0].items)
            return constant(None, node)
        return self._symbol("method", (holder, *args), node, name)

    def _of_symbol(self, holder: Symbol, name: str, args: list[Value], keys: dict[str, Value], node: ast.AST) -> Value:
        args = _in_order(_METHODS_ORDER.get(name, ()), args, keys)
        if holder.op == "parser":
            if name == "add_argument" and args and isinstance(args[-1], Symbol) and isinstance(args[-1].data, str) and "default" in keys:
                holder.keys[args[-1].data.lstrip("-").replace("-", "_")] = keys["default"]
            if name in ("parse_args", "parse_known_args"):
                settings = Table(dict(holder.keys), node)
                return Items([settings, Items([], node)], node) if name == "parse_known_args" else settings
            return holder if name == "add_argument_group" else self._symbol("method", (holder, *args), node, name)
        if name == "fit" and args and isinstance(args[0], Record) and args[0].kind.method("training_step") is not None:
            loader = args[1] if len(args) > 1 else keys.get("train_dataloaders")
            if loader is not None:
                args[0].attributes["given batches"] = loader
        if holder.op in ("optimizer", "schedule"):
            if name in ("step", "zero_grad") and holder.op == "optimizer":
                self._event(f"optimizer {name}", holder, None, node)
            if name == "add_param_group" and args and holder.args:
                group = args[0].items.get("params", args[0]) if isinstance(args[0], Table) else args[0]
                holder.args = (Items([holder.args[0], group], node), *holder.args[1:])
            return self._symbol("method", (holder, *args), node, name)
        if name in ("setup", "prepare", "setup_module") and args and _is_tool(holder):
            return args[0] if len(args) == 1 else Items(args, node)
        if name == "step" and args and isinstance(args[0], Symbol) and args[0].op == "optimizer":
            self._event("optimizer step", args[0], None, node)
            return constant(None, node)
        if name == "last" and not args and holder.op in ("step", "phi", "carried"):
            steps = (
                [holder] if holder.op == "step" else [each for each in holder.args[-2:] if isinstance(each, Symbol) and each.op == "step"]
            )
            if steps:
                return self._symbol("stepped", (steps[-1],), node, (2, 4))
        if name in ("step", "reset") and holder.op not in ("net", "dist") and (name == "reset" or args):
            return self._stepped(holder, name, args, keys, node)
        if name in _SAME_OBJECT and _is_tool(holder) and not str(holder.data).startswith(_LIBRARIES):
            return holder
        if name == "backward":
            is_other = holder.op in ("attribute", "parameter", "called", "asked") or _is_tool(holder)
            value = args[0] if args and not isinstance(args[0], Items) and is_other else holder
            self._event("backward", value, value, node)
            return constant(None, node)
        if holder.op == "net":
            return self._of_network(holder, name, args, keys, node)
        if name == "load_state_dict" and args:
            self._event("load", holder, args[0], node)
        if name == "requires_grad_" and holder.op in ("call", "method", "array") and not any(_is_false(each) for each in args):
            return self._symbol("weights", (holder,), node, name)
        if holder.op == "weights" and name in ("requires_grad_", "to", "float", "double", "cuda", "cpu"):
            return holder
        if holder.op == "weights" and name == "detach":
            return holder
        source = _network_of_weights(holder) if name in ("detach", "clone") else None
        if source is not None:
            if name == "detach":
                return holder
            twin = self._symbol("weights", (), node, name)
            twin.copy_of = source  # type: ignore[assignment]
            self.copies.append((twin, source))
            return twin
        if holder.op == "weights" and name in ("clone", "copy"):
            twin = self._symbol("weights", (), node, name)
            twin.copy_of = holder
            self.copies.append((twin, holder))
            return twin
        if name in _IN_PLACE:
            made = self._symbol("method", (holder, *args), node, name)
            made.keys = keys
            self._event(f"in place {name}", holder, made, node)
            return made
        if name in ("dot", "matmul", "mm", "mv") and len(args) == 1:
            return self._operation("MatMult", (holder, args[0]), node)
        if name in ("sample", "choices", "choice") and args and isinstance(args[0], Items) and args[0].items and holder.op == "call":
            # A generator of one's own draws from a list: random.Random(0).sample(memory, 32)
            return self._symbol("sampled", (args[0],), node)
        if name in ("append", "add", "push", "store") and args:
            self._event("store", holder, Items(args, node), node)
            if holder.op == "array" and name == "append":
                holder.stored.append(args[0])
        made = self._symbol("method", (holder, *args), node, name)
        made.keys = keys
        self.calls.append(made)
        return made

    def _library(self, path: str, args: list[Value], keys: dict[str, Value], node: ast.AST) -> Value:
        name = path.rpartition(".")[2]
        args = _in_order(_ORDER.get(name, ()), args, keys)
        first = args[0] if args else None
        if name in OPTIMIZERS and ("optim" in path or path == name):
            made = self._symbol("optimizer", tuple(args), node, name)
            made.keys = keys
            if "params" in keys and not args:
                made.args = (keys["params"],)
            self.optimizers.append(made)
            return made
        if name in _LOSSES:
            return self._symbol(
                "loss",
                (),
                node,
                {"MSELoss": "mse_loss", "L1Loss": "l1_loss", "HuberLoss": "huber_loss"}.get(
                    name, "smooth_l1_loss" if name == "SmoothL1Loss" else name
                ),
            )
        if name in _CONTAINERS and first is not None:
            return first
        made_of_values = isinstance(first, Items) and any(not isinstance(each, Symbol) or each.op != "const" for each in first.items)
        fresh = (
            name in ("zeros", "tensor", "ones", "full", "randn", "rand", "empty", "normal")
            and _is_true(keys.get("requires_grad"))
            and not made_of_values
        )
        if name == "Parameter" or fresh:
            return self._symbol("weights", tuple(args), node, name)
        if (
            path.startswith(("torch.nn.", "flax.linen.", "flax.nnx.", "equinox.nn.", "haiku."))
            and name[:1].isupper()
            and ".utils." not in path
        ) or name in ("Sequential", "Linear"):
            made = self._symbol("net", tuple(args), node, name)
            made.keys = keys
            return made
        if name in ("deepcopy", "copy") and len(args) == 1:
            made_copy = self._copied(first, {}) if name == "deepcopy" else first  # type: ignore[arg-type]
            if isinstance(made_copy, Record | Symbol) and isinstance(first, Record | Symbol) and made_copy is not first:
                self.copies.append((made_copy, first))
            return made_copy  # type: ignore[return-value]
        if path.endswith("VecNormalize.load") and len(args) > 1:
            made = self._symbol("env", (args[1], args[0]), node, "VecNormalize.load")
            return made
        if (
            name in _ENVIRONMENTS
            or (
                name.endswith(("Env", "VecNormalize", "Wrapper", "TimeLimit", "VecFrameStack", "Monitor", "RecordEpisodeStatistics"))
                and name[:1].isupper()
            )
            or (path.startswith(_WRAPPERS) and name[:1].isupper() and _is_env(first))
        ):
            made = self._symbol("env", tuple(args), node, name)
            made.keys = keys
            self._fill_vector(made, first, node)
            return made
        if ("distributions" in path and name[:1].isupper()) or name in ("Categorical", "Normal", "MultivariateNormal", "Bernoulli", "Beta"):
            made = self._symbol("dist", (*args, *keys.values()), node, name)
            made.keys = keys
            self.dists.append(made)
            return made
        if name in ARRAYS and "." in path:
            made = self._symbol("array", tuple(args), node, name)
            made.keys = keys
            fields = _fields_of(keys.get("dtype"))
            if fields and first is not None:
                columns: dict[Any, Value] = {
                    field: self._symbol("array", (Items([first, *sizes], node),), node, name) for field, sizes in fields.items()
                }
                made.keys = {**keys, "columns": Table(columns, node)}
            return made
        known_class = self._of_another_package(path)
        if known_class is not None:
            return self._apply(known_class, args, keys, node)
        if name == "namedtuple" and (len(args) > 1 or "field_names" in keys):
            listed = args[1] if len(args) > 1 else keys["field_names"]
            names = [str(each.data) for each in listed.items if isinstance(each, Symbol)] if isinstance(listed, Items) else []
            if isinstance(listed, Symbol) and isinstance(listed.data, str):
                names = listed.data.replace(",", " ").split()
            return Kind(None, self._module, [], str(getattr(first, "data", name)), names)
        if name in ("functional_call", "vmap") and first is not None:
            return self._symbol("vmap", tuple(args), node) if name == "vmap" else self._called_with(first, args, node)
        if path in ("list", "tuple", "iter", "sorted", "tqdm", "np.array", "trange") or name in ("deque", "list", "tuple"):
            kept = Items(list(first.items) if isinstance(first, Items) else [], node, is_open=True)
            if name == "deque":
                kept.limit = keys.get("maxlen") or (args[1] if len(args) > 1 else None)
            if first is None or name == "deque":
                return kept
            if isinstance(first, Items):
                return Items(list(first.items), node, first.is_open)
            if name in ("list", "tuple", "tqdm", "iter"):
                return first
            return Items([], node, is_open=True)
        if name == "defaultdict":
            return Table(dict(keys), node, first if first is not None else None)
        if path == "dict":
            pairs = first.items if isinstance(first, Items) else []
            known_pairs = {
                each.items[0].data: each.items[1]
                for each in pairs
                if isinstance(each, Items) and len(each.items) == 2 and isinstance(each.items[0], Symbol) and each.items[0].op == "const"
            }
            if isinstance(first, Symbol) and first.op == "zipped":
                pair = self._element(first, node)
                known_pairs = {"?": pair.items[-1]} if isinstance(pair, Items) and len(pair.items) == 2 else {}
            return Table({**(first.items if isinstance(first, Table) else known_pairs), **keys}, node)
        if name in ("SimpleNamespace", "Namespace", "TensorDict"):
            return Table({**(first.items if isinstance(first, Table) else {}), **keys}, node)
        if name in ("jit", "compile", "njit", "checkpoint", "remat") and isinstance(first, Closure | Record):
            return first
        if path.endswith("TrainState.create"):
            return Table(keys, node)
        if path == "iter" and isinstance(first, Record):
            return self._stream(first, node)
        if path == "next" and first is not None and not isinstance(first, Record):
            return self._element(first, node)
        if name in ("TensorDataset", "StackDataset"):
            return Items(args, node)
        if name == "DataLoader" and first is not None:
            return self._loaded_batches(first, node)
        if name == "astuple" and isinstance(first, Record) and first.kind.fields:
            return Items(_iterate(first) or [], node)
        if path in ("fields", "dataclasses.fields") and isinstance(first, Record | Kind):
            names = (first.kind if isinstance(first, Record) else first).fields or []
            return Items([Table({"name": constant(each)}, node) for each in names], node)
        if name in ("asdict", "vars") and isinstance(first, Record):
            return Table(dict(first.attributes), node)
        if path.endswith(("dataclasses.replace", "copy.replace")) and isinstance(first, Record):
            return self._replaced(first, keys, node)
        if name == "cli" and isinstance(first, Kind):
            return self._make(first, [], {}, node)
        if name == "ArgumentParser":
            return self._symbol("parser", (), node)
        if name == "scan" and isinstance(first, Closure) and len(args) > 2:
            return self._scanned(first, args, keys, node)
        if path == "zip":
            args = [
                Items(_iterate(argument) or [], node)
                if isinstance(argument, Table) or (isinstance(argument, Record) and argument.kind.fields)
                else argument
                for argument in args
            ]
            if all(isinstance(argument, Items) and not argument.is_open for argument in args):
                return Items(
                    [
                        Items(list(row), node)
                        for row in zip(*(argument.items for argument in args if isinstance(argument, Items)), strict=False)
                    ],
                    node,
                )
            return self._symbol("zipped", tuple(args), node)
        if path == "enumerate" and first is not None:
            if isinstance(first, Items) and not first.is_open:
                return Items([Items([constant(place), each]) for place, each in enumerate(first.items)], node)
            return self._symbol("enumerated", (first,), node)
        if path == "reversed" and first is not None:
            return self._symbol("reversed", (first,), node)
        if path == "len" and isinstance(first, Items) and not first.is_open and first.items:
            return self._count_of(len(first.items), node)
        if path == "range" and args and any("counted" in each.keys for each in args if isinstance(each, Symbol)):
            bounds = [each.data for each in args if isinstance(each, Symbol) and each.op == "const" and isinstance(each.data, int)]
            if len(bounds) == len(args) and 0 < len(range(*bounds)) <= MOST_ITEMS:
                return Items([self._count_of(each, node) for each in range(*bounds)], node)
        if path == "range":
            return self._symbol("range", tuple(args), node)
        if path == "map" and len(args) == 2 and first is not None:
            known = _iterate(args[1])
            if isinstance(args[1], Symbol) and args[1].op == "columns":
                return args[1]
            if known is not None and not (isinstance(args[1], Items) and args[1].is_open):
                return Items([self._apply(first, [each], {}, node) for each in known], node)
            return Items([self._apply(first, [self._element(args[1], node)], {}, node)], node, is_open=True)
        if path in ("random.sample", "random.choices") and first is not None:
            return self._symbol("sampled", (first,), node)
        if name in ("getenv",) or path.endswith("environ.get"):
            # A script that is started without settings in its environment.
            return args[1] if len(args) > 1 else constant(None, node)
        if path == "getattr" and len(args) > 1 and isinstance(args[1], Symbol) and isinstance(args[1].data, str) and first is not None:
            return self._attribute(first, args[1].data, node)
        if path == "setattr" and len(args) > 2 and isinstance(first, Record) and isinstance(args[1], Symbol):
            first.attributes[str(args[1].data)] = args[2]
        if name == "parse_args" and not args:
            return self._symbol("settings", (), node)
        if name == "partial" and isinstance(first, Closure | Kind | Record):
            made = self._symbol("partial", tuple(args), node, name)
            made.keys = keys
            return made
        if "lr_scheduler" in path:
            return self._symbol("schedule", tuple(args), node, name)
        if name in ("dot", "matmul", "inner", "mm", "mv", "vdot") and len(args) == 2:
            return self._operation("MatMult", (args[0], args[1]), node)
        if name == "linear" and len(args) > 1 and isinstance(args[1], Symbol) and args[1].op == "weights":
            return self._symbol("out", (args[1], args[0]), node, "linear")
        if name == "grad" and first is not None and not isinstance(first, Closure):
            self._event("backward", first, first, node)
        if name in ("tree_map", "map") and isinstance(first, Closure) and len(args) > 1 and path != "map":
            return self._mapped(first, args[1:], node)
        if name in ("apply_updates", "stop_gradient") and first is not None and not isinstance(first, Symbol):
            return first
        if name in ("grad", "value_and_grad", "grad_and_value") and isinstance(first, Closure):
            made = self._symbol("gradient of", (first,), node, name)
            made.keys = keys
            return made
        if name == "backward" and first is not None:
            self._event("backward", first, first, node)
        if name.startswith("_foreach_") and name.endswith("_") and first is not None:
            # torch._foreach_lerp_(slow, fast, tau): each weight of the one with the other's.
            weights = [self._element(each, node) if isinstance(each, Items) else each for each in args]
            self._event(f"in place {name[9:]}", weights[0], self._symbol("method", tuple(weights), node, name[9:]), node)
        if name == "zero_grad":
            self._event("clear", Symbol("ext", (), node, path), None, node)
        if name.startswith("clip_grad") and first is not None:
            self._event("clip", first, None, node)
        if name in _ERRORS and len(args) == 2 and isinstance(first, Symbol) and first.op == "Sub" and _is_nothing(args[1]):
            # An error that was subtracted before, against zeros.
            args = list(first.args)
        made = self._symbol("call", tuple(args), node, path)
        made.keys = keys
        self.calls.append(made)
        if name == "lfilter" and self._frames:
            self.callers[id(made)] = self._frames[-1][0]
        return made

    def _of_another_package(self, path: str) -> Value | None:
        """A library's class whose objects hold what the script gives them."""
        if path not in self._foreign:
            tree = foreign.source(path)
            if tree is None:
                return None
            scope = Scope(is_foreign=True)
            self._block(tree.body, scope)
            self._foreign[path] = scope.names[path.rpartition(".")[2]]
        return self._foreign[path]

    def _fill_vector(self, vector: Symbol, factories: Value | None, node: ast.AST) -> None:
        """One of the copies that a vector holds, made by the function that it is given."""
        factory = factories.items[0] if isinstance(factories, Items) and factories.items else factories
        if isinstance(factory, Closure | Kind) and vector.data != "make":
            copy = self._apply(factory, [], {}, node)
            if isinstance(copy, Record) or (isinstance(copy, Symbol) and copy.op == "env"):
                vector.stored = [copy]

    def _loaded_batches(self, dataset: Value, node: ast.AST) -> Value:
        """What a DataLoader gives: rows of its dataset, stacked field by field; of a TensorDataset parts of each tensor."""
        if isinstance(dataset, Items):
            return Items([Items([self._symbol("sampled", (each,), node) for each in dataset.items], node)], node, is_open=True)
        row: Value | None = None
        if isinstance(dataset, Record) and dataset.kind.method("__iter__") is not None:
            row = self._element(self._stream(dataset, node), node)
        elif isinstance(dataset, Record) and dataset.kind.method("__getitem__") is not None:
            row = self._subscript(dataset, self._symbol("index", (), node), node)
        if isinstance(row, Items):
            return Items([Items([self._symbol("column", (each,), node) for each in row.items], node)], node, is_open=True)
        if isinstance(row, Table):
            columns: dict[Any, Value] = {key: self._symbol("column", (each,), node) for key, each in row.items.items()}
            return Items([Table(columns, node)], node, is_open=True)
        if isinstance(row, Record) and row.kind.fields:
            made = Record(row.kind, node)
            made.attributes = {key: self._symbol("column", (each,), node) for key, each in row.attributes.items()}
            return Items([made], node, is_open=True)
        return self._symbol("element", (dataset,), node)

    def _replaced(self, record: Record, keys: dict[str, Value], node: ast.AST) -> Record:
        made = Record(record.kind, node)
        made.attributes = {**record.attributes, **keys}
        self.records.append(made)
        return made

    def _scanned(self, body: Closure, args: list[Value], keys: dict[str, Value], node: ast.AST) -> Value:
        """jax.lax.scan(body, first, rows): a loop that carries what the body returns first."""
        backwards = _is_true(keys.get("reverse"))
        rows = args[2]
        row: Value = (
            Items([self._element(each, node) for each in rows.items], node) if isinstance(rows, Items) else self._element(rows, node)
        )
        carry: Value = args[1]
        out: Value = constant(None, node)
        loop = ast.copy_location(ast.For(target=ast.Name(id="row"), iter=ast.Name(id="rows"), body=[], orelse=[]), node)
        self.walked[loop] = self._symbol("reversed" if backwards else "element", (rows,), node)
        self._loops = (*self._loops, loop)
        for _ in range(2):
            made = self._enter(body, [carry, row], {}, node)
            after, out = (made.items[0], made.items[1]) if isinstance(made, Items) and len(made.items) == 2 else (made, made)
            carry = self._symbol("carried", (after, args[1]), loop) if isinstance(after, Symbol) else after
            self._event("store", out, out, node)
        self._loops = self._loops[:-1]
        return Items([carry, out], node)

    def _mapped(self, function: Closure, trees: list[Value], node: ast.AST) -> Value:
        """tree_map(function, tree, …): the function of each of their leaves."""
        first = trees[0]
        if isinstance(first, Table):
            return Table({key: self._mapped(function, [_branch(tree, key) or tree for tree in trees], node) for key in first.items}, node)
        if isinstance(first, Items):
            return Items(
                [self._mapped(function, [_branch(tree, place) or tree for tree in trees], node) for place in range(len(first.items))],
                node,
                first.is_open,
            )
        return self._enter(function, trees, {}, node)

    def _called_with(self, module: Value, args: list[Value], node: ast.AST) -> Value:
        """functional_call(module, weights, inputs): the weights say which network it is."""
        given = args[2].items if len(args) > 2 and isinstance(args[2], Items) else args[2:]
        weights = args[1] if len(args) > 1 else module
        leaves = [each for each in _held(weights) if isinstance(each, Symbol) and each.op == "weights"]
        known = self._weights_as_network(module, leaves[0] if leaves else weights, node)
        if not leaves:
            values = list(weights.items.values()) if isinstance(weights, Table) else [weights]
            copied = any(isinstance(each, Symbol) and each.op == "method" and each.data in ("clone", "detach") for each in values)
            others = [network for held, network in self._weight_sets[id(module)] if network is not known]
            if others and copied:
                known.copy_of = others[0]
        return self._symbol("out", (known, *given), node)

    def _weights_as_network(self, module: Value, weights: Value, node: ast.AST) -> Symbol:
        """A module that is asked with weights of its own: another one for each set of weights."""
        sets = self._weight_sets.setdefault(id(module), [])
        known = next((network for held, network in sets if held is weights), None)
        if known is None:
            is_net = isinstance(module, Symbol) and module.op == "net"
            known = Symbol("net", module.args if is_net else (), node, module.data if is_net else "functional")  # type: ignore[union-attr]
            known.stored = [weights]
            sets.append((weights, known))
            if isinstance(weights, Symbol) and weights.copy_of is not None:
                known.copy_of = self._weights_as_network(module, weights.copy_of, node)
        return known

    def _copied(self, value: Value, known: dict[int, Value]) -> Value:
        """A deep copy: networks in it are new ones that know whom they were copied from."""
        if id(value) in known:
            return known[id(value)]
        if isinstance(value, Record):
            made = Record(value.kind, value.node)
            made.copy_of = value
            known[id(value)] = made
            for name, held in value.attributes.items():
                made.attributes[name] = self._copied(held, known)
            return made
        if isinstance(value, Items):
            return Items([self._copied(each, known) for each in value.items], value.node, value.is_open)
        if isinstance(value, Table):
            return Table({key: self._copied(each, known) for key, each in value.items.items()}, value.node)
        if isinstance(value, Symbol) and value.op in ("net", "weights"):
            made_net = Symbol(value.op, value.args, value.node, value.data)
            made_net.keys = value.keys
            made_net.copy_of = value
            owner = known.get(id(value.owner)) if value.owner is not None else None
            made_net.owner = owner if isinstance(owner, Record) else None
            known[id(value)] = made_net
            return made_net
        return value


_ERRORS: Final = frozenset({"mse_loss", "smooth_l1_loss", "huber_loss", "l1_loss"})


def _is_made_elsewhere(row: Items, other: Items) -> bool:
    """Whether a row is not that of the same statement: written in another place, or by another call, where nothing was left to choose."""
    chosen, plain = ([isinstance(each, Symbol) and each.op == "phi" for each in held.items] for held in (row, other))
    decided = [each for each, one, two in zip(other.items, chosen, plain, strict=True) if one and not two]
    return row.node is not other.node or any(isinstance(each, Symbol) and each.op not in ("carried", "stepped") for each in decided)


def _is_nothing(value: Value) -> bool:
    """Zeros that nothing was written into."""
    return isinstance(value, Symbol) and value.op == "array" and value.data in ("zeros", "zeros_like") and not value.stored


_OF_MODULES: Final = frozenset({"parameters", "named_parameters", "state_dict", "load_state_dict"})


def _names_of_modules(tree: ast.Module) -> set[str]:
    """What is called x in x.parameters() and self.x.state_dict(); optimizers have a state_dict, too, and no parameters."""
    held: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            held.setdefault(_last_name(node.value), set()).add(node.attr)
    return {
        name for name, used in held.items() if used & _OF_MODULES and not used & {"zero_grad", "step", "param_groups"} and name != "self"
    }


def _label(value: Symbol, name: str) -> None:
    """Note what a part of something is called, where it is taken out, cast and moved in the same breath."""
    inner: Value = value
    while isinstance(inner, Symbol) and inner.op in ("call", "method") and inner.args and str(inner.data).rpartition(".")[2] in _CASTING:
        inner = inner.args[0]
    if isinstance(inner, Symbol) and not inner.label and not isinstance(inner.data, str):
        holder = inner.args[0] if inner.args else None
        made = isinstance(holder, Symbol) and (
            holder.op == "out" or str(holder.data).rpartition(".")[2] in ("max", "min", "sort", "topk", "chunk")
        )
        is_part = inner.op in ("item", "element", "column", "read") and not made
        if is_part or (words.REWARD(name) and inner.op in ("Add", "Sub", "Mult", "Div", "phi", "called", "unknown")):
            inner.label = name


_CASTING: Final = frozenset(
    {"FloatTensor", "LongTensor", "BoolTensor", "Tensor", "tensor", "as_tensor", "from_numpy", "array", "asarray", "to", "float", "long",
     "bool", "int", "unsqueeze", "squeeze", "view", "reshape", "astype", "flatten", "cpu", "cuda", "stack", "copy"}
)  # fmt: skip


def _become_network(value: Symbol) -> None:
    """A network whose class, or whose maker, is in another file."""
    made_elsewhere = value.op == "call" and str(value.data).rpartition(".")[2][:1].isupper() and not str(value.data).startswith(_LIBRARIES)
    if value.op == "parameter" or made_elsewhere:
        value.op, value.args, value.data = "net", (), str(value.data).rpartition(".")[2]


_WRAPPERS: Final = ("gymnasium.wrappers.", "gym.wrappers.", "stable_baselines3.common.vec_env.", "stable_baselines3.common.atari_wrappers.")


def _is_env(value: Value | None) -> bool:
    return (isinstance(value, Symbol) and value.op == "env") or (isinstance(value, Record) and value.kind.is_environment())


_LIBRARIES: Final = ("torch.", "numpy.", "gym.", "gymnasium.", "stable_baselines3.", "tensorflow.", "jax.", "optax.", "random.")


def _network_of_weights(value: Value) -> "Symbol | Record | None":
    """The network of which something is one of the weights, as its own methods give them."""
    while isinstance(value, Symbol) and value.op in ("element", "item", "column", "carried") and value.args:
        value = value.args[0]
        if isinstance(value, Items) and len(value.items) == 2:
            value = value.items[1]
    if isinstance(value, Symbol) and value.op == "method" and value.data == "items" and value.args:
        value = value.args[0]
    if isinstance(value, Symbol) and value.op == "method" and value.data in ("named_parameters", "parameters", "state_dict") and value.args:
        holder = value.args[0]
        return holder if isinstance(holder, Record) or (isinstance(holder, Symbol) and holder.op == "net") else None
    return None


def _switch(test: ast.expr, scope: Scope) -> bool | None:
    """What parameters say that a call set to True or False, or left at such a default."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _switch(test.operand, scope)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        held = [_switch(each, scope) for each in test.values]
        decisive = isinstance(test.op, ast.Or)
        return decisive if decisive in held else None if None in held else not decisive
    value = scope.names.get(test.id) if isinstance(test, ast.Name) and test.id in scope.given | scope.defaulted else None
    if isinstance(value, Symbol) and value.op == "Not" and isinstance(value.args[0], Symbol) and isinstance(value.args[0].data, bool):
        value = constant(not value.args[0].data)
    return value.data if isinstance(value, Symbol) and value.op == "const" and isinstance(value.data, bool) else None


def _counts_arguments(value: Value) -> bool:
    """len(sys.argv)"""
    return (
        isinstance(value, Symbol)
        and value.op == "call"
        and value.data == "len"
        and bool(value.args)
        and isinstance(value.args[0], Symbol)
        and value.args[0].op == "ext"
        and str(value.args[0].data).endswith("argv")
    )


def _in_order(names: tuple[str, ...], args: list[Value], keys: dict[str, Value]) -> list[Value]:
    """Arguments that were given by their names, where they would stand without."""
    given = list(args)
    for name in names[len(args) :]:
        if name not in keys:
            break
        given.append(keys[name])
    return given


def _leaves_empty(row: Value) -> bool:
    """Whether None stands in one of the fields."""
    held = row.items if isinstance(row, Items) else row.attributes.values() if isinstance(row, Record) else ()
    return any(isinstance(each, Symbol) and each.op == "const" and each.data is None for each in held)


def _is_plain(kind: Kind) -> bool:
    """A tuple with names: an object without methods, that is what its fields are."""
    if not kind.fields:
        return False
    return kind.node is None or not any(isinstance(each, ast.FunctionDef) for each in kind.node.body)


def _is_tool(value: Symbol) -> bool:
    """An object of a library's class that nothing else is known of: Fabric(), Accelerator(), GradScaler()."""
    return value.op == "call" and str(value.data).rpartition(".")[2][:1].isupper()


def _leaves(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Return | ast.Continue | ast.Break | ast.Raise)


def _held(value: Value) -> Iterator[Value]:
    """A value, and what a list or a dictionary of it holds."""
    yield value
    if isinstance(value, Items):
        for each in value.items:
            yield from _held(each) if not isinstance(each, Items | Table) else (each,)
    elif isinstance(value, Table):
        for each in value.items.values():
            yield from _held(each) if not isinstance(each, Items | Table) else (each,)


def _iterate(value: Value) -> list[Value] | None:
    if isinstance(value, Items):
        return value.items
    if isinstance(value, Symbol) and value.op == "columns" and value.args and not isinstance(value.args[0], Symbol):
        # zip(*rows): as many columns as a row has values.
        row = _iterate(value.args[0])
        return [Symbol("column", (each,), value.node, place) for place, each in enumerate(row)] if row is not None else None
    if isinstance(value, Table):
        return [constant(key) for key in value.items]
    if isinstance(value, Record) and value.kind.fields:
        return [value.attributes[name] for name in value.kind.fields if name in value.attributes]
    if isinstance(value, Symbol) and value.op == "reversed" and isinstance(value.args[0], Items) and not value.args[0].is_open:
        return value.args[0].items[::-1]
    return None


def _array_of(value: Value) -> Symbol | None:
    """The array that a value is, or is a part of."""
    while isinstance(value, Symbol):
        if value.op == "array":
            return value
        same = value.op == "method" and value.data in _SAME_ARRAY
        if (value.op in ("carried", "read") or same) and value.args:
            value = value.args[0]
        else:
            return None
    return None


def _fields_of(dtype: Value | None) -> dict[str, list[Value]]:
    """Columns of a structured array, and the sizes of an entry: [("obs", "f4", 4), ("done", bool)]; none for any other type."""
    if isinstance(dtype, Symbol) and dtype.args and str(dtype.data).endswith("dtype"):
        dtype = dtype.args[0]
    rows = [row.items for row in dtype.items if isinstance(row, Items) and row.items] if isinstance(dtype, Items) else []
    fields: dict[str, list[Value]] = {}
    for name, *rest in rows:
        if isinstance(name, Symbol) and isinstance(name.data, str):
            sizes = rest[1] if len(rest) > 1 else Items([])
            fields[name.data] = list(sizes.items) if isinstance(sizes, Items) else [sizes]
    return fields


def _columns_of(array: Symbol | None, row: Value) -> list[tuple[Value, Value]]:
    """The columns of a structured array, and what a row puts into each; none for any other array."""
    columns = array.keys.get("columns") if array is not None else None
    if not isinstance(columns, Table) or not isinstance(row, Items) or len(row.items) != len(columns.items):
        return []
    return list(zip(columns.items.values(), row.items, strict=True))


def _as_weights(value: Value) -> Symbol | None:
    """Numbers that a script made itself and multiplies an input with: a linear function."""
    while (
        isinstance(value, Symbol)
        and value.op in ("carried", "attribute")
        and value.args
        and value.data in (None, "T", value.data if value.op == "carried" else "T")
    ):
        value = value.args[-1] if value.op == "carried" else value.args[0]
    while isinstance(value, Symbol) and value.op in ("Add", "Sub") and value.data == "in place" and value.args:
        inner = value.args[0]
        while isinstance(inner, Symbol) and inner.op == "carried" and inner.args:
            inner = inner.args[-1]
        value = inner
    if isinstance(value, Symbol) and value.op in ("Mult", "Div") and value.data is None:
        return next((found for found in map(_as_weights, value.args) if found is not None and found.op != "array"), None)
    if isinstance(value, Symbol):
        if value.op == "array" and value.data == "zeros" and not value.stored:
            return value
        if value.op in ("method", "call") and str(value.data).rpartition(".")[2] in ("normal", "standard_normal", "randn", "uniform"):
            return value
    return None


def returns_both_ends(env: Value) -> bool:
    """Whether a step of an environment of the script gives four values, the last of which is no dictionary."""
    found = env.kind.method("step") if isinstance(env, Record) else None
    returned = [each.value for each in ast.walk(found[0]) if isinstance(each, ast.Return)] if found is not None else []
    tuples = [each for each in returned if isinstance(each, ast.Tuple) and len(each.elts) == 4]
    last = [each.elts[3] for each in tuples]
    return bool(last) and not any(
        isinstance(each, ast.Dict | ast.DictComp)
        or (isinstance(each, ast.Call) and _last_name(each.func) == "dict")
        or "info" in _last_name(each)
        for each in last
    )


def _is_observed(key: Value) -> bool:
    """What an environment showed, as it is or made into a number: not the answer of a network, nor a counter."""
    if isinstance(key, Items):
        return bool(key.items) and len(key.items) < 4 and _is_observed(key.items[0])
    pending: list[Value] = [key]
    seen: set[int] = set()
    shown = False
    while pending and len(seen) < 60:
        current = pending.pop()
        if isinstance(current, Items):
            pending += current.items[:MOST_ITEMS]
        if not isinstance(current, Symbol) or id(current) in seen:
            continue
        seen.add(id(current))
        if current.op in ("out", "index", "sampled", "array", "net") or str(current.data).rpartition(".")[2] in _DRAWING:
            return False
        if current.op in ("observed", "reset") or (current.op == "stepped" and current.data[0] == 0):
            shown = True
        elif current.op not in ("env", "step", "reset"):
            pending += current.args[1:] if current.op == "phi" else current.args
    return shown


def _counted(op: str, args: tuple[Value, ...]) -> int | None:
    """A sum of numbers, one of which says how many there are of something."""
    held = [each for each in args if isinstance(each, Symbol) and each.op == "const" and isinstance(each.data, int)]
    if len(held) != 2 or len(args) != 2 or not any("counted" in each.keys for each in held):
        return None
    one, other = (int(each.data) for each in held)
    return {"Add": one + other, "Sub": one - other, "Mult": one * other}.get(op)


def _branch(tree: Value, key: Any) -> Value | None:
    if isinstance(tree, Table):
        return tree.items.get(key)
    if isinstance(tree, Items) and isinstance(key, int) and key < len(tree.items):
        return tree.items[key]
    return None


def _holds_slope(value: Value, depth: int = 8) -> bool:
    """Whether a gradient is in a product or a sum."""
    if not isinstance(value, Symbol) or depth == 0:
        return False
    if (
        value.op == "slope"
        or (value.op == "call" and str(value.data).endswith("grad"))
        or (value.op == "attribute" and value.data == "grad")
    ):
        return True
    return value.op in ("Mult", "Add", "Sub", "Div", "item", "element", "read", "USub", "method", "call") and any(
        _holds_slope(each, depth - 1) for each in value.args
    )


def _cut(holder: Items, key: Symbol) -> list[Value] | None:
    """The part of a list or a tuple between two numbers; None where the list is still growing, or a bound is not a number."""
    node = key.data
    if holder.is_open or not isinstance(node, ast.Slice) or node.step is not None:
        return None
    bounds: list[int | None] = []
    for bound in (node.lower, node.upper):
        negative = isinstance(bound, ast.UnaryOp) and isinstance(bound.op, ast.USub)
        inner = bound.operand if isinstance(bound, ast.UnaryOp) else bound
        if inner is None:
            bounds.append(None)
        elif isinstance(inner, ast.Constant) and isinstance(inner.value, int):
            bounds.append(-inner.value if negative else inner.value)
        else:
            return None
    return holder.items[bounds[0] : bounds[1]]


def _is_true(value: Value | None) -> bool:
    return isinstance(value, Symbol) and value.op == "const" and value.data is True


def _is_false(value: Value | None) -> bool:
    return isinstance(value, Symbol) and value.op == "const" and value.data is False


def _last_name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _loaded(target: ast.expr) -> ast.expr:
    """A target as a value; evaluation does not look at the context."""
    return target
