"""What names hold where their words do not say it: `absorbing` is a termination if it is the third value of env.step.

Checks know the field's words in many spellings (`words`). An author with words of their own is understood by the flow of values: what
env.step and env.reset return, what distributions and networks make, and what assignments, calls, fields, lists and dictionaries pass on.
A name whose values agree on one meaning is given that word as an ending in the tree (`absorbing_terminated`), so that every check
understands it; findings say the author's own name (`Names.restore`).
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

from rlclinic.diagnosis.lint.code.reading import words

OPTIMIZERS: Final = frozenset({"Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "NAdam", "RAdam"})

MOST_ROUNDS: Final = 8
"""Assignments that a meaning is followed through; most values pass fewer than five."""
MOST_NODES: Final = 60_000
"""Nodes of a tree above which names stay as they are: nobody writes such a training script by hand."""
_PASSING: Final = frozenset(
    {"float", "int", "bool", "tensor", "as_tensor", "asarray", "array", "Tensor", "FloatTensor", "LongTensor", "BoolTensor", "from_numpy",
     "stack", "cat", "concatenate", "hstack", "vstack", "to", "cpu", "cuda", "numpy", "unsqueeze", "squeeze", "view", "reshape", "flatten",
     "detach",
     "clone", "copy", "astype", "type", "long", "double", "item", "list", "tuple", "expand", "float32", "sum", "mean", "clamp", "clip"}
)  # fmt: skip
_FLAGS: Final = frozenset({"terminated", "truncated", "ended", "not_ended"})
_MODULES: Final = frozenset({"torch", "th", "np", "numpy", "F", "jnp", "random"})
_MAKES_ENV: Final = frozenset({"make", "make_vec", "make_vec_env", "SyncVectorEnv", "AsyncVectorEnv", "DummyVecEnv", "SubprocVecEnv"})
_DRAWS: Final = frozenset({"sample", "randint", "choice", "choices", "integers", "randperm"})
_SQUARES: Final = frozenset({"pow", "square", "mse_loss", "smooth_l1_loss", "huber_loss"})
_STEP: Final = ("next_obs", "reward", "terminated", "truncated", None)
_KNOWN: Final = (
    # A name that already says its meaning keeps it; the first that fits counts.
    ("not_ended", words.NOT_ENDED), ("truncated", words.TRUNCATED), ("terminated", words.TERMINATED), ("ended", words.COMBINED),
    ("log_prob", words.LOG_PROB), ("entropy", words.ENTROPY), ("ratio", words.RATIO), ("advantage", words.ADVANTAGE),
    ("value", words.VALUE), ("reward", words.REWARD), ("epsilon", words.EPSILON), ("policy_loss", words.POLICY_LOSS),
    ("value_loss", words.VALUE_LOSS),
)  # fmt: skip
_WORDS: Final = (
    words.END, words.NOT_ENDED, words.COMBINED, words.TERMINATED, words.TRUNCATED, words.LOG_PROB, words.ADVANTAGE, words.RETURN,
    words.VALUE, words.ENTROPY, words.RATIO, words.GAMMA, words.LAMBDA, words.LOSS, words.EPSILON, words.OBSERVATION, words.ACTION,
    words.TARGET,
)  # fmt: skip
_FLAG_WORDS: Final = (words.END, words.NOT_ENDED, words.COMBINED, words.TERMINATED, words.TRUNCATED)
_TOGETHER: Final = {
    # Values of one name that differ, and what it holds then.
    frozenset({"obs", "next_obs"}): "obs",
    frozenset({"terminated", "ended"}): "ended",
    frozenset({"truncated", "ended"}): "ended",
    frozenset({"net", "target_net"}): "net",
    frozenset({"return", "value"}): "return",
    frozenset({"return", "reward"}): "return",
}


class Place(NamedTuple):
    """A name by its kind: variables and parameters apart from attributes, fields and keys."""

    is_field: bool
    name: str


class Names:
    """The names that were given a meaning."""

    def __init__(self, tree: ast.Module) -> None:
        """Rewrites the tree."""
        self.original: dict[str, str] = {}
        nodes = list(ast.walk(tree))
        if len(nodes) > MOST_NODES or not any(
            isinstance(node, ast.Attribute) and node.attr in ("step", "log_prob", "backward") for node in nodes
        ):
            return
        try:
            meanings = _Meanings(tree, nodes).find()
        except RecursionError:
            # An expression of a thousand terms: its names stay as they are.
            return
        methods = {statement for node in nodes if isinstance(node, ast.ClassDef) for statement in node.body}
        for node in nodes:
            _rename(node, meanings, self.original, node in methods)

    def restore(self, text: str) -> str:
        """A message in the author's own names."""
        if not self.original:
            return text
        pattern = "|".join(sorted(map(re.escape, self.original), key=len, reverse=True))
        return re.sub(rf"\b({pattern})\b", lambda hit: self.original[hit[1]], text)


def _rename(node: ast.AST, meanings: dict[Place, str], original: dict[str, str], is_method: bool) -> None:
    def given(is_field: bool, name: str) -> str:
        meaning = meanings.get(Place(is_field, name))
        if meaning is None:
            return name
        original[f"{name}_{meaning}"] = name
        return f"{name}_{meaning}"

    if isinstance(node, ast.Name):
        node.id = given(False, node.id)
    elif isinstance(node, ast.arg):
        node.arg = given(False, node.arg)
    elif isinstance(node, ast.Attribute):
        node.attr = given(True, node.attr)
    elif isinstance(node, ast.FunctionDef) and not node.name.startswith("__"):
        node.name = given(is_method, node.name)
    elif isinstance(node, ast.keyword) and node.arg:
        # A keyword is the parameter of a function or the field of a record: whichever has a meaning.
        node.arg = given(False, node.arg) if Place(False, node.arg) in meanings else given(True, node.arg)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
        node.value = given(True, node.value)


def _returned_by(function: ast.FunctionDef) -> list[ast.expr]:
    return [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value is not None]


class _Meanings:
    def __init__(self, tree: ast.Module, nodes: list[ast.AST]) -> None:
        self.tree, self.nodes = tree, nodes
        self.held: dict[Place, set[str]] = defaultdict(set)
        self.functions: dict[str, ast.FunctionDef | None] = {}
        self.methods: set[ast.AST] = set()
        self.fields: dict[str, list[str]] = {}
        self.modules = {"Module", "LightningModule"}
        self.returns: dict[str, list[ast.expr]] = {}
        self.returned: dict[tuple[str, int | None], str | None] = {}
        self.kind: dict[Place, str] = {}
        # Steps of a recursion over a rollout: reversed(range(T)), range(T - 1, -1, -1).
        loops = [node for node in nodes if isinstance(node, ast.For) and isinstance(node.iter, ast.Call)]
        loops = [node for node in loops if words.own_name(node.iter.func) in ("range", "reversed")]  # type: ignore[attr-defined]
        self.looped = {inner for loop in loops for inner in loop.body if isinstance(inner, ast.Assign)}
        self.own_class: dict[ast.AST, str] = {}
        self.buffers: set[str] = set()
        kinds = [node for node in nodes if isinstance(node, ast.ClassDef)]
        for _ in range(3):
            self.modules |= {kind.name for kind in kinds if any(words.own_name(base) in self.modules for base in kind.bases)}
        for kind in kinds:
            own = [each.target.id for each in kind.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)]
            bases = {words.own_name(base) for base in kind.bases}
            marks = {words.own_name(mark.func if isinstance(mark, ast.Call) else mark) for mark in kind.decorator_list}
            if own and (bases & {"NamedTuple", "TypedDict"} or "dataclass" in marks):
                self.fields[kind.name] = own
            called = {words.own_name(node.func) for node in ast.walk(kind) if isinstance(node, ast.Call)}
            if called & _DRAWS and kind.name not in self.modules and not called & {"backward", "step", "reset"}:
                self.buffers.add(kind.name)
            for node in ast.walk(kind):
                self.own_class[node] = kind.name
            for statement in kind.body:
                if isinstance(statement, ast.FunctionDef):
                    self.methods.add(statement)
                    self.returns[f"{kind.name}.{statement.name}"] = _returned_by(statement)
                    if statement.name == "__init__":
                        self.functions[kind.name] = None if kind.name in self.functions else statement
        for node in nodes:
            if isinstance(node, ast.FunctionDef):
                self.functions[node.name] = None if node.name in self.functions else node
                self.returns[node.name] = [] if node.name in self.returns else _returned_by(node)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and words.own_name(node.value.func) == "namedtuple":
                self._note_namedtuple(node.value)

    def _note_namedtuple(self, call: ast.Call) -> None:
        if len(call.args) < 2 or not isinstance(call.args[0], ast.Constant):
            return
        listed = call.args[1]
        if isinstance(listed, ast.Constant) and isinstance(listed.value, str):
            self.fields[str(call.args[0].value)] = listed.value.replace(",", " ").split()
        elif isinstance(listed, ast.Tuple | ast.List):
            self.fields[str(call.args[0].value)] = [str(element.value) for element in listed.elts if isinstance(element, ast.Constant)]

    def find(self) -> dict[Place, str]:
        """The names that hold one thing and do not say so."""
        for _ in range(MOST_ROUNDS):
            before = sum(map(len, self.held.values()))
            self._note_returned()
            for node in self.nodes:
                self._pass_on(node)
            if sum(map(len, self.held.values())) == before:
                break
        found = {}
        # What is called is a method of a library, unless the script defines it; `data` and the like are attributes of tensors.
        called = {node.func.attr for node in self.nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)} - set(
            self.functions
        )
        imported = {
            (alias.asname or alias.name) for node in self.nodes if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names
        }
        protected = imported | {"self", "cls", "_", "data", "shape", "grad", "mean", "values", "loss", "T"}
        for place in self.held:
            meaning = self._agreed(place)
            if meaning is None or place.name in protected or (place.is_field and place.name in called and "net" not in meaning):
                continue
            if meaning == "target_net":
                if not words.TARGET(place.name):
                    found[place] = meaning
            elif meaning == "net":
                if not words.NETWORK(place.name) and not words.TARGET(place.name):
                    found[place] = meaning
            elif meaning in ("policy_loss", "value_loss", "loss"):
                if not words.LOSS(place.name):
                    found[place] = meaning
            elif meaning in ("env", "buffer", "optimizer"):
                if not {"env": words.ENVIRONMENT, "buffer": words.BUFFER, "optimizer": words.OPTIMIZER}[meaning](place.name):
                    found[place] = meaning
            elif meaning in _FLAGS:
                if not any(word(place.name) for word in (*_FLAG_WORDS, words.LOG_PROB, words.RETURN, words.ACTION, words.OBSERVATION)):
                    found[place] = meaning
            elif not any(word(place.name) for word in _WORDS) and not words.NETWORK(place.name):
                found[place] = meaning
        return found

    def _agreed(self, place: Place) -> str | None:
        """What all values of a name have in common."""
        held = self.held.get(place)
        if not held:
            return None
        if len(held) == 1:
            return next(iter(held))
        return _TOGETHER.get(frozenset(held)) or None

    # ── what an expression holds ──

    def meaning(self, node: ast.AST | None, index: int | None = None) -> str | None:
        """The meaning of a value, or of one of the values that it is unpacked into."""
        if isinstance(node, ast.Tuple | ast.List):
            return (
                self.meaning(node.elts[index])
                if index is not None and index < len(node.elts)
                else self.meaning(node.elts[0])
                if len(node.elts) == 1
                else None
            )
        if isinstance(node, ast.Call):
            return self._of_call(node, index)
        if index is not None:
            return None
        if isinstance(node, ast.Name | ast.Attribute):
            return self._of_name(Place(isinstance(node, ast.Attribute), words.own_name(node)))
        if isinstance(node, ast.Subscript):
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                return self._of_name(Place(True, node.slice.value))
            if isinstance(node.value, ast.Call):
                place = node.slice.value if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int) else None
                return self._of_call(node.value, place)
            return self.meaning(node.value)
        if isinstance(node, ast.ListComp | ast.GeneratorExp):
            return self.meaning(node.elt)
        if isinstance(node, ast.BoolOp):
            return self._combine([self.meaning(each) for each in node.values]) if isinstance(node.op, ast.Or) else None
        if isinstance(node, ast.UnaryOp):
            inner = self.meaning(node.operand)
            if isinstance(node.op, ast.Not | ast.Invert):
                return "not_ended" if inner in ("terminated", "truncated", "ended") else None
            return "policy_loss" if inner == "objective" else None
        if isinstance(node, ast.BinOp):
            return self._of_operation(node)
        if isinstance(node, ast.IfExp):
            meanings = {self.meaning(node.body), self.meaning(node.orelse)} - {None}
            return meanings.pop() if len(meanings) == 1 else _TOGETHER.get(frozenset(meaning for meaning in meanings if meaning)) or None
        return None

    def _of_name(self, place: Place) -> str | None:
        agreed = self._agreed(place)
        if agreed is not None:
            return agreed
        return next((meaning for meaning, says in _KNOWN if says(place.name)), None) if place not in self.held else None

    def _combine(self, meanings: list[str | None]) -> str | None:
        return "ended" if len(meanings) > 1 and all(meaning in ("terminated", "truncated", "ended") for meaning in meanings) else None

    def _of_operation(self, node: ast.BinOp) -> str | None:
        left, right = self.meaning(node.left), self.meaning(node.right)
        if isinstance(node.op, ast.BitOr):
            return self._combine([left, right])
        if isinstance(node.op, ast.Sub):
            if isinstance(node.left, ast.Constant) and node.left.value == 1 and right in ("terminated", "truncated", "ended"):
                return "not_ended"
            if left == right == "log_prob":
                return "log_ratio"
            if right == "value" and left not in ("value", "q_value"):
                return "advantage"
            if right == "q_value" and left is not None and left not in ("q_value", "log_prob"):
                return "error"
        if isinstance(node.op, ast.Add | ast.Sub) and isinstance(node.left, ast.BinOp | ast.Name | ast.Subscript | ast.Attribute):
            for one, other in ((left, node.right), (right, node.left)):
                if one == "reward" and any(words.GAMMA(words.own_name(each)) for each in ast.walk(other)):
                    return "target_sum"
        if isinstance(node.op, ast.Pow) and left in ("advantage", "error"):
            return "value_loss"
        if isinstance(node.op, ast.Mult):
            if {left, right} in ({"log_prob", "advantage"}, {"ratio", "advantage"}):
                return "objective"
            if isinstance(node.left, ast.UnaryOp) and isinstance(node.left.op, ast.USub):
                inner = self.meaning(node.left.operand)
                if {inner, right} == {"log_prob", "advantage"}:
                    return "policy_loss"
        return None

    def _of_call(self, node: ast.Call, index: int | None) -> str | None:
        name = words.own_name(node.func)
        held = node.func.value if isinstance(node.func, ast.Attribute) else None
        if isinstance(held, ast.Name) and held.id in _MODULES:
            held = None
        if name == "step" and held is not None and node.args and index is not None:
            return _STEP[index] if index < len(_STEP) and not words.OPTIMIZER(words.own_name(held)) else None
        if name == "reset" and held is not None:
            return "obs" if index in (None, 0) else None
        if name in _MAKES_ENV and index is None:
            return "env"
        if name in OPTIMIZERS and index is None:
            return "optimizer"
        if name in self.buffers and index is None:
            return "buffer"
        if name == "exp" and index is None and (inner := self.meaning(held) or (self.meaning(node.args[0]) if node.args else None)):
            return "ratio" if inner == "log_ratio" else None
        if name in ("min", "minimum", "max", "maximum", "amin") and index is None and node.args:
            first = node.args[0].value if isinstance(node.args[0], ast.Starred) else node.args[0]
            inner = self.meaning(first) or self.meaning(first, 0)
            return inner if inner in ("q_value", "objective") else None
        if name in _SQUARES and index is None:
            inner = self.meaning(held) if held is not None else None
            given = {self.meaning(argument) for argument in node.args}
            return "value_loss" if inner in ("advantage", "error") or "value" in given or given & {"advantage", "error"} else None
        if name == "setup" and index is not None and index < len(node.args):
            return self.meaning(node.args[index])
        forward = self._find_forward(node)
        if forward is not None:
            return self._returned(forward, index) or ("q_value" if len(node.args) >= 2 and self._is_critic(node) else None)
        if index is not None:
            return self._returned(name, index)
        if name == "log_prob" and held is not None:
            return "log_prob"
        if name == "entropy" and held is not None:
            return "entropy"
        if name in ("logical_or", "bitwise_or"):
            return self._combine([self.meaning(argument) for argument in node.args])
        if name == "logical_not" and node.args:
            return "not_ended" if self.meaning(node.args[0]) in ("terminated", "truncated", "ended") else None
        if name == "deepcopy" and node.args:
            return "target_net" if self.meaning(node.args[0]) in ("net", "target_net") else None
        if name == "requires_grad_" or (name in ("to", "eval", "train", "compile") and self.meaning(held) in ("net", "target_net")):
            return self.meaning(held)
        if name in ("Sequential", "ModuleList", "mlp", "MLP") or (name in self.modules and name not in ("Module", "LightningModule")):
            return "net"
        if name in ("where",) and len(node.args) == 3:
            meanings = {self.meaning(argument) for argument in node.args[1:]}
            return meanings.pop() if len(meanings) == 1 else None
        if name in _PASSING:
            inner = (
                self.meaning(held) if held is not None and words.own_name(held) not in ("torch", "th", "np", "numpy", "F", "jnp") else None
            )
            return inner or (self.meaning(node.args[0]) if node.args else None)
        if re.search(r"(^|_)(critic|value|baseline|vf|v)($|_)", name.lower()) and len(node.args) == 1 and self.functions.get(name) is None:
            return "value"
        if len(node.args) >= 2 and self._is_critic(node):
            return "q_value"
        return self._returned(name, None)

    def _is_critic(self, node: ast.Call) -> bool:
        """A network that is asked about an observation and an action."""
        name = words.own_name(node.func).lower()
        return re.search(r"(^|_)(critic|q|qf|qs|twin)s?\d?($|_)", name) is not None

    def _find_forward(self, node: ast.Call) -> str | None:
        """The forward of one of the script's networks, if that is what a call asks."""
        if isinstance(node.func, ast.Name) and node.func.id == "self":
            kind: str | None = self.own_class.get(node)
        else:
            place = self._place(node.func)
            kind = self.kind.get(place) if place is not None else None
        key = f"{kind}.forward"
        return key if kind in self.modules and key in self.returns else None

    def _returned(self, name: str, index: int | None) -> str | None:
        return self.returned.get((name, index))

    def _note_returned(self) -> None:
        """What the script's own functions return, as far as it is known by now: a function may call itself."""
        for name, values in self.returns.items():
            longest = max((len(each.elts) for each in values if isinstance(each, ast.Tuple)), default=0)
            for index in (None, *range(longest)):
                meanings = {self.meaning(each, index) for each in values}
                self.returned[name, index] = meanings.pop() if len(meanings) == 1 else None

    # ── what names get ──

    def _pass_on(self, node: ast.AST) -> None:
        if isinstance(node, ast.Compare) and len(node.comparators) == 1:
            # random.random() < x: x is how often a random action is taken.
            for drawn, chance in ((node.left, node.comparators[0]), (node.comparators[0], node.left)):
                is_uniform = (
                    isinstance(drawn, ast.Call) and words.own_name(drawn.func) in ("random", "rand", "uniform") and not drawn.keywords
                )
                if is_uniform and isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
                    self._give(self._place(chance.func if isinstance(chance, ast.Call) else chance), "epsilon")
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            # log_prob + x in the loss of a temperature: x is the entropy to keep.
            for one, other in ((node.left, node.right), (node.right, node.left)):
                if self.meaning(one) == "log_prob" and isinstance(other, ast.Name | ast.Attribute) and self.meaning(other) is None:
                    self._give(self._place(other), "target_entropy" if "entrop" in words.own_name(other).lower() else None)
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value)
                if node in self.looped and self.meaning(node.value) == "target_sum" and not words.LOSS(words.own_name(target)):
                    self._give(self._place(target), "return")
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            self._assign(node.target, node.value)
        elif isinstance(node, ast.For | ast.comprehension):
            self._walk(node.target, node.iter)
        elif isinstance(node, ast.Call):
            self._call(node)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    self._give(Place(True, key.value), self.meaning(value))

    def _walk(self, target: ast.expr, walked: ast.expr) -> None:
        """The variables of a loop: elements of what it walks over."""
        name = words.own_name(walked.func) if isinstance(walked, ast.Call) else ""
        if isinstance(walked, ast.Call) and name in ("zip", "enumerate", "reversed", "list", "tuple") and walked.args:
            given = [walked.args[0]] if name != "zip" else walked.args
            targets = target.elts if isinstance(target, ast.Tuple) else [target]
            targets = targets[1:] if name == "enumerate" else targets
            for one, value in zip(targets, given, strict=False):
                self._walk(one, value)
        elif isinstance(target, ast.Name):
            self._give(self._place(target), self.meaning(walked))

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            for index, each in enumerate(target.elts):
                inner = value.elts[index] if isinstance(value, ast.Tuple | ast.List) and index < len(value.elts) else None
                self._give(self._place(each), self.meaning(inner) if inner is not None else self.meaning(value, index))
                if inner is not None:
                    self._note_kind(self._place(each), inner)
        else:
            self._give(self._place(target), self.meaning(value))
            self._note_kind(self._place(target), value)

    def _note_kind(self, place: Place | None, value: ast.expr) -> None:
        """Which of the script's networks a name is."""
        if place is None:
            return
        if isinstance(value, ast.Call):
            name = words.own_name(value.func)
            if name in self.modules:
                self.kind[place] = name
            elif name in ("deepcopy", "setup", "compile") and value.args:
                self._note_kind(place, value.args[0])
            elif name in ("to", "eval", "requires_grad_", "cuda", "train") and isinstance(value.func, ast.Attribute):
                self._note_kind(place, value.func.value)
        elif isinstance(value, ast.Name | ast.Attribute):
            source = self._place(value)
            if source in self.kind:
                self.kind[place] = self.kind[source]

    def _place(self, target: ast.AST) -> Place | None:
        if isinstance(target, ast.Name):
            return Place(False, target.id)
        if isinstance(target, ast.Attribute):
            return Place(True, target.attr)
        if isinstance(target, ast.Subscript):
            if isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str):
                return Place(True, target.slice.value)
            return self._place(target.value)
        return None

    def _give(self, place: Place | None, meaning: str | None) -> None:
        if place is not None and meaning and meaning not in ("objective", "log_ratio", "error", "target_sum"):
            self.held[place].add(meaning)

    def _call(self, node: ast.Call) -> None:
        name = words.own_name(node.func)
        if name == "backward" and isinstance(node.func, ast.Attribute):
            self._give(self._place(node.args[0] if node.args else node.func.value), "loss")
        if name in ("append", "appendleft", "insert") and isinstance(node.func, ast.Attribute) and node.args:
            self._give(self._place(node.func.value), self.meaning(node.args[-1]))
        elif name == "load_state_dict" and isinstance(node.func, ast.Attribute) and node.args:
            source = node.args[0]
            if isinstance(source, ast.Call) and words.own_name(source.func) == "state_dict" and isinstance(source.func, ast.Attribute):
                place = self._place(node.func.value)
                if place is not None and self._agreed(place) == "net" and not self._is_optimized(place):
                    self.held[place] = {"target_net"}
        for place, value in self._given(node, name):
            self._give(place, self.meaning(value))
            self._note_kind(place, value)

    def _given(self, node: ast.Call, name: str) -> Iterator[tuple[Place, ast.expr]]:
        """The parameters or fields that a call fills."""
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            return
        fields = self.fields.get(name)
        if fields is not None:
            yield from ((Place(True, field), value) for field, value in zip(fields, node.args, strict=False))
        function = self.functions.get(name)
        if function is not None:
            names = [each.arg for each in [*function.args.posonlyargs, *function.args.args]]
            names = names[1:] if function in self.methods and names[:1] in (["self"], ["cls"]) else names
            yield from ((Place(False, one), value) for one, value in zip(names, node.args, strict=False))
        for key in node.keywords:
            if key.arg:
                accepted = function is not None and key.arg in {each.arg for each in [*function.args.args, *function.args.kwonlyargs]}
                yield Place(not accepted, key.arg), key.value

    def _is_optimized(self, place: Place) -> bool:
        """Whether an optimizer gets this network's parameters."""
        return any(
            isinstance(node, ast.Call) and words.own_name(node.func) == "parameters" and isinstance(node.func, ast.Attribute)
            and self._place(node.func.value) == place and self._goes_to_optimizer(node)
            for node in self.nodes
        )  # fmt: skip

    def _goes_to_optimizer(self, parameters: ast.Call) -> bool:
        return any(
            isinstance(node, ast.Call) and re.search(r"Adam|SGD|RMSprop|Optim|optim", words.own_name(node.func)) is not None
            and any(inner is parameters for given in [*node.args, *(key.value for key in node.keywords)] for inner in ast.walk(given))
            for node in self.nodes
        )  # fmt: skip
