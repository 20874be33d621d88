"""Scripts written another way: the same meaning in other names, expressions and places. What reads meaning says the same of them.

    python -m benchmarks.lint.rewrite                       every way, every 4th planted fault, all clean scripts
    python -m benchmarks.lint.rewrite --ways short where    only some ways
    python -m benchmarks.lint.rewrite --every 1 --misses    all faults, and which were found before and are not any more

Faults are those of the first four sets, without the held-out half of the fourth, and of the checks' own authors. Each way is a function of a
syntax tree that keeps the line on which a piece of code was written first; so the line that a fault may be reported on is known in the new text, too.
"""

# ruff: noqa: E501, SIM102 — a template of code and the conditions for it read best whole

import ast
import keyword
import re
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import Any, Final

from benchmarks import provenance
from benchmarks.lint import mutants, sets
from benchmarks.lint.__main__ import alarms, check, is_found
from benchmarks.lint.mutants import Mutant
from rlclinic.diagnosis.lint.code.reading import words

COMMAND: Final = "python -m benchmarks.lint.rewrite"
KEPT: Final = frozenset(
    {"__call__", "__enter__", "__exit__", "__getitem__", "__init__", "__iter__", "__len__", "__next__", "__post_init__", "__repr__",
     "_on_rollout_end", "_on_step", "_on_training_end", "_on_training_start", "action", "action_space", "actions", "add", "append",
     "apply", "args", "automatic_optimization", "backward", "batch_size", "bias", "bool", "buffer_size", "clear", "close", "cls",
     "collect", "config", "configure_optimizers", "copy", "count", "data", "detach", "device", "dim", "done", "draw", "dtype",
     "entropy", "env", "envs", "eval", "extend", "features_dim", "features_extractor", "fill", "float", "forward", "gamma", "get",
     "globals", "grad", "hparams", "id", "index", "info", "infos", "init", "insert", "int", "item", "items", "join", "keys", "learn",
     "learning_rate", "load", "load_state_dict", "locals", "log", "log_dict", "log_prob", "logger", "loss", "lr", "main",
     "manual_backward", "max", "mean", "metadata", "min", "mode", "model", "n_calls", "n_steps", "name", "next_obs", "np_random",
     "num_envs", "num_timesteps", "numpy", "obs", "observation", "observation_space", "on_fit_start", "on_train_batch_end",
     "on_train_end", "on_train_epoch_end", "on_train_start", "optimizer", "optimizers", "param_groups", "parameters", "path",
     "policy", "pop", "popleft", "predict", "prepare_data", "push", "put", "remove", "render", "reset", "reverse", "reward",
     "rewards", "rows", "rsample", "run", "sample", "save", "save_hyperparameters", "seed", "self", "setup", "shape",
     "single_action_space", "single_observation_space", "size", "sort", "spec", "split", "state_dict", "std", "step", "sum", "tau",
     "terminated", "to", "total_timesteps", "train", "train_dataloader", "trainer", "training", "training_env", "training_step",
     "truncated", "type", "unwrapped", "update", "val_dataloader", "validation_step", "values", "verbose", "view", "weight",
     "zero_grad"}
)  # fmt: skip
"""Names that a library may know: they stay as attributes and keywords."""
NOUNS: Final = (
    "apfel", "birne", "wolke", "lampe", "stuhl", "regen", "tisch", "brief", "vogel", "stein", "blume", "ofen", "leiter", "kanne",
     "feder", "tasse", "kerze", "brille", "koffer", "zange", "nadel", "teller", "spiegel", "hammer", "pinsel", "eimer", "korb",
     "seil", "tuch", "glocke", "wiese", "hecke", "zaun", "tor", "pfad", "teich", "ufer", "insel", "welle", "sand", "muschel", "anker",
     "segel", "mast", "kiel", "ruder", "boje", "fackel", "harfe", "geige", "trommel", "pfeife", "laute", "orgel", "saite", "bogen",
     "takt", "klang", "echo", "nebel", "frost", "hagel", "donner", "blitz", "sturm", "brise", "tau", "morgen", "abend", "nacht",
     "stern", "mond", "sonne", "planet", "komet", "rakete", "bahn", "schiene", "zug", "wagen", "rad", "achse", "kette", "schraube",
     "mutter", "bolzen", "feile", "saege", "bohrer", "hobel", "leim", "lack", "farbe", "faden", "stoff", "wolle", "seide", "leinen",
     "samt", "knopf", "naht", "saum", "kragen", "tasche", "guertel", "stiefel", "sohle", "absatz", "huette", "dach", "giebel",
     "ziegel", "balken", "diele", "treppe", "keller", "kammer", "erker", "balkon", "garten", "beet", "rasen", "laube", "quelle",
     "brunnen", "bach", "fluss", "strom", "delta", "bucht", "kap", "klippe", "gipfel", "grat", "hang", "tal", "schlucht", "hoehle",
     "grotte", "gletscher", "moor", "heide", "wald", "lichtung", "schneise", "ast", "zweig", "blatt", "wurzel", "rinde", "harz",
     "zapfen", "nuss",
)  # fmt: skip


# ── names ──


def _own_names(tree: ast.Module) -> tuple[set[str], set[str]]:
    """What a script names itself: variables and functions, and attributes."""
    imported = {
        alias.asname or alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    names: set[str] = set()
    attributes: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            attributes.add(node.attr)
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, ast.FunctionDef):
                    attributes.add(each.name)
                elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                    attributes.add(each.target.id)
    # What stands in texts (options, keys, namedtuples) or is given to somebody else by name cannot be renamed in one place.
    texts = {
        word.replace("-", "_")
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200
        for word in re.findall(r"[A-Za-z_][\w-]*", node.value)
    }
    given = {
        each.arg
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and not _is_own(node.func, names | attributes, imported)
        for each in node.keywords
        if each.arg
    }
    # What a library gives by name to a method that it calls stays, too.
    given |= {
        each.arg
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name in KEPT
        for each in (*node.args.args, *node.args.kwonlyargs)
    }
    own = {name for name in names if not name.startswith("__")} - imported - given - {"self", "cls"}
    kept = KEPT | texts | given | imported
    return own - {name for name in attributes if name in kept}, {name for name in attributes if not name.startswith("__")} - kept


def _is_own(function: ast.expr, own: set[str], imported: set[str]) -> bool:
    if isinstance(function, ast.Name):
        return function.id in own and function.id not in imported
    return isinstance(function, ast.Attribute) and function.attr in own and function.attr not in KEPT


class _Renaming(ast.NodeTransformer):
    def __init__(self, tree: ast.Module, rename: Callable[[list[str]], dict[str, str]]) -> None:
        self.names, self.attributes = _own_names(tree)
        taken = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | {
            node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)
        }
        wanted = rename(sorted(self.names | self.attributes))
        self.map: dict[str, str] = {}
        used = set(taken) | set(keyword.kwlist)
        for name in sorted(self.names | self.attributes):
            new = wanted[name]
            while new in used:
                new += "x"
            used.add(new)
            self.map[name] = new

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self.names:
            node.id = self.map[node.id]
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        self.generic_visit(node)
        if node.arg in self.names:
            node.arg = self.map[node.arg]
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr in self.attributes:
            node.attr = self.map[node.attr]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        is_method = node.args.args and node.args.args[0].arg in ("self", "cls")
        self.generic_visit(node)
        if node.name in (self.attributes if is_method else self.names):
            node.name = self.map[node.name]
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.generic_visit(node)
        if node.name in self.names:
            node.name = self.map[node.name]
        return node

    def visit_Global(self, node: ast.Global) -> ast.AST:
        node.names = [self.map.get(name, name) if name in self.names else name for name in node.names]
        return node

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST:
        node.names = [self.map.get(name, name) if name in self.names else name for name in node.names]
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        imported: set[str] = set()
        own = _is_own(node.func, self.names | self.attributes, imported)
        self.generic_visit(node)
        if own:
            for each in node.keywords:
                if each.arg in self.names or each.arg in self.attributes:
                    each.arg = self.map[str(each.arg)]
        return node


def rename_to_nouns(tree: ast.Module) -> None:
    """Words of another language that say nothing of what they hold."""
    _Renaming(tree, lambda names: {name: NOUNS[place % len(NOUNS)] for place, name in enumerate(names)}).visit(tree)


def rename_to_camel(tree: ast.Module) -> None:
    """next_obs becomes nextObs."""

    def rename(names: list[str]) -> dict[str, str]:
        made = {}
        for name in names:
            first, *rest = [part for part in name.split("_") if part] or [name]
            made[name] = first + "".join(part.capitalize() for part in rest) if rest else name
        return made

    _Renaming(tree, rename).visit(tree)


def rename_to_initials(tree: ast.Module) -> None:
    """next_obs becomes no, reward re."""

    def rename(names: list[str]) -> dict[str, str]:
        made: dict[str, str] = {}
        for name in names:
            parts = [part for part in re.split(r"_|(?<=[a-z])(?=[A-Z])", name) if part] or [name]
            short = "".join(part[0] for part in parts).lower() if len(parts) > 1 else name[:2].lower()
            while short in made.values():
                short += name[len(short) % len(name)].lower()
            made[name] = re.sub(r"\W", "q", short)
        return made

    _Renaming(tree, rename).visit(tree)


# ── expressions ──


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield block


def _name(text: str, like: ast.AST, store: bool = False) -> ast.Name:
    return ast.copy_location(ast.Name(text, ast.Store() if store else ast.Load()), like)


def split_into_temporaries(tree: ast.Module) -> None:
    """Every operand that is an expression of its own gets a name first."""
    count = 0

    def hoist(node: ast.expr, before: list[ast.stmt]) -> ast.expr:
        nonlocal count
        inner = unfold(node, before)
        if not isinstance(inner, ast.BinOp | ast.Call) or (
            isinstance(inner, ast.Call) and _last(inner.func) in ("super", "zip", "range", "reversed")
        ):
            return inner
        if isinstance(inner, ast.Call) and any(isinstance(each, ast.Starred) for each in inner.args):
            return inner
        count += 1
        before.append(ast.copy_location(ast.Assign([_name(f"part_{count}", inner, store=True)], inner), inner))
        return _name(f"part_{count}", inner)

    def unfold(node: ast.expr, before: list[ast.stmt]) -> ast.expr:
        if isinstance(node, ast.BinOp):
            node.left, node.right = hoist(node.left, before), hoist(node.right, before)
        elif isinstance(node, ast.UnaryOp):
            node.operand = hoist(node.operand, before)
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                node.func.value = hoist(node.func.value, before)
            node.args = [each if isinstance(each, ast.GeneratorExp | ast.Starred) else hoist(each, before) for each in node.args]
        elif isinstance(node, ast.Attribute | ast.Subscript):
            node.value = unfold(node.value, before) if isinstance(node.value, ast.Attribute | ast.Name) else hoist(node.value, before)
        return node

    for block in list(_blocks(tree)):
        made: list[ast.stmt] = []
        for statement in block:
            before: list[ast.stmt] = []
            if isinstance(statement, ast.Assign | ast.Return | ast.AugAssign | ast.Expr) and statement.value is not None:
                statement.value = unfold(statement.value, before)
            made += [*before, statement]
        block[:] = made


def inline_temporaries(tree: ast.Module) -> None:
    """A name that is used once, in the next statement of its block, gives way to what it holds."""
    loads = Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    stores = Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    for block in list(_blocks(tree)):
        place = 0
        while place < len(block) - 1:
            first, after = block[place], block[place + 1]
            single = isinstance(first, ast.Assign) and len(first.targets) == 1 and isinstance(first.targets[0], ast.Name)
            name = first.targets[0].id if single else ""  # type: ignore[attr-defined]
            simple = isinstance(after, ast.Assign | ast.Return | ast.Expr | ast.AugAssign) and after.value is not None
            if single and simple and loads[name] == 1 and stores[name] == 1:
                uses = [node for node in ast.walk(after.value) if isinstance(node, ast.Name) and node.id == name]  # type: ignore[attr-defined]
                lazy = [
                    inner
                    for node in ast.walk(after)
                    if isinstance(node, ast.Lambda | ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.SetComp | ast.IfExp)
                    for inner in ast.walk(node)
                ]
                if len(uses) == 1 and not any(uses[0] is node for node in lazy):
                    after.value = _Replacing(uses[0], first.value).visit(after.value)  # type: ignore[attr-defined]
                    del block[place]
                    place = max(0, place - 1)
                    continue
            place += 1


class _Replacing(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self.new if node is self.old else super().visit(node)


def move_into_functions(tree: ast.Module) -> None:
    """Formulas become functions of what they read."""
    made: list[ast.stmt] = []
    built_in = {
        "float",
        "int",
        "len",
        "max",
        "min",
        "sum",
        "abs",
        "range",
        "zip",
        "list",
        "tuple",
        "bool",
        "str",
        "round",
        "dict",
        "enumerate",
        "reversed",
    }
    imported = {
        alias.asname or alias.name.partition(".")[0]
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    for block in list(_blocks(tree)):
        for statement in block:
            if not isinstance(statement, ast.Assign | ast.Return) or not isinstance(statement.value, ast.BinOp):
                continue
            value = statement.value
            bad = (ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp, ast.NamedExpr, ast.Yield, ast.Await, ast.Call)
            names = sorted({node.id for node in ast.walk(value) if isinstance(node, ast.Name)} - built_in - imported)
            calls_own = [node for node in ast.walk(value) if isinstance(node, ast.Call) and _last(node.func) in ("super", "locals")]
            if any(isinstance(node, bad[:-1]) for node in ast.walk(value)) or calls_own or not names:
                continue
            name = f"compute_{len(made)}"
            arguments = ast.arguments([], [ast.copy_location(ast.arg(each), value) for each in names], None, [], [], None, [])
            body: list[ast.stmt] = [ast.copy_location(ast.Return(value), value)]
            function = ast.copy_location(ast.FunctionDef(name, arguments, body, [], None, None), value)
            function.type_params = []  # type: ignore[attr-defined]
            made.append(function)
            statement.value = ast.copy_location(ast.Call(_name(name, value), [_name(each, value) for each in names], []), value)
    after = next((place for place, node in enumerate(tree.body) if not isinstance(node, ast.Import | ast.ImportFrom | ast.Expr)), 0)
    tree.body[after:after] = made


def wrap_in_main(tree: ast.Module) -> None:
    """All but the imports moves into one function."""
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    rest = [node for node in tree.body if node not in imports]
    if not rest or any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in imports):
        return
    for node in ast.walk(tree):
        for block in _blocks(node):
            for place, statement in enumerate(block):
                if isinstance(statement, ast.Global):
                    block[place] = ast.copy_location(ast.Nonlocal(statement.names), statement)
    arguments = ast.arguments([], [], None, [], [], None, [])
    function = ast.copy_location(ast.FunctionDef("everything", arguments, rest, [], None, None), rest[0])
    function.type_params = []  # type: ignore[attr-defined]
    call = ast.copy_location(ast.Expr(ast.Call(ast.Name("everything", ast.Load()), [], [])), rest[-1])
    tree.body = [*imports, function, call]


def wrap_in_class(tree: ast.Module) -> None:
    """Variables of the module become attributes of an object; its statements a method."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    rest = [node for node in tree.body if node not in functions and node not in imports]
    stored = {
        node.id
        for statement in rest
        for node in _outside_functions(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    if any(isinstance(node, ast.Global) for node in ast.walk(tree)) or not stored:
        return
    for statement in rest:
        _ToAttributes(stored, "self").visit(statement)
    for function in functions:
        _ToAttributes(stored, "experiment").visit(function)
    holder = ast.parse("class Experiment:\n    def run(self):\n        pass\nexperiment = Experiment()\nexperiment.run()")
    for node in ast.walk(holder):
        if hasattr(node, "lineno"):
            node.lineno = 0
    method = holder.body[0].body[0]  # type: ignore[attr-defined]
    method.body = rest or method.body
    tree.body = [*imports, holder.body[0], holder.body[1], *functions, holder.body[2]]


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for inner in ast.iter_child_nodes(node):
        if not isinstance(
            inner, ast.FunctionDef | ast.Lambda | ast.ClassDef | ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.SetComp
        ):
            yield from _outside_functions(inner)


class _ToAttributes(ast.NodeTransformer):
    def __init__(self, names: set[str], holder: str) -> None:
        self.names, self.holder = names, holder

    def _without(self, hidden: set[str], node: ast.AST) -> ast.AST:
        outer, self.names = self.names, self.names - hidden
        self.generic_visit(node)
        self.names = outer
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        hidden = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
        hidden |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
        return self._without(hidden, node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return self._without({each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}, node)

    def _comprehension(self, node: ast.AST) -> ast.AST:
        return self._without({each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}, node)

    visit_ListComp = visit_GeneratorExp = visit_DictComp = visit_SetComp = _comprehension

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._without({each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}, node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self.names:
            return ast.copy_location(ast.Attribute(_name(self.holder, node), node.id, node.ctx), node)
        return node


# ── idioms ──


def _last(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _calls(template: str, like: ast.AST, **given: ast.expr) -> ast.expr:
    """An expression in which names stand for others."""
    made = ast.parse(template, mode="eval").body
    for node in ast.walk(made):
        ast.copy_location(node, like)

    class Filling(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            return given.get(node.id, node)

    result: ast.expr = Filling().visit(made)
    return result


def _imports(tree: ast.Module, text: str, name: str) -> None:
    known = {alias.asname or alias.name for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names}
    if name not in known:
        made = ast.parse(text).body[0]
        made.lineno = 0
        place = 1 if tree.body and isinstance(tree.body[0], ast.Expr) else 0
        place += sum(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
        tree.body.insert(place, made)


def _uses(tree: ast.Module, library: str) -> bool:
    return any(
        (isinstance(node, ast.Import) and any(alias.name.partition(".")[0] == library for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == library)
        for node in ast.walk(tree)
    )


def write_errors_out(tree: ast.Module) -> None:
    """F.mse_loss(a, b) becomes ((a - b) ** 2).mean(), and the formula becomes F.mse_loss."""
    if not _uses(tree, "torch"):
        return

    class Errors(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.AST:
            function = node.func
            of_module = isinstance(function, ast.Call) and _last(function.func) == "MSELoss" and not function.keywords
            if (_last(function) == "mse_loss" or of_module) and len(node.args) == 2 and not node.keywords:
                self.generic_visit(node)
                return _calls("((one - two) ** 2).mean()", node, one=node.args[0], two=node.args[1])
            inner = function.value if isinstance(function, ast.Attribute) and function.attr == "mean" and not node.args else None
            difference = None
            if (
                isinstance(inner, ast.BinOp)
                and isinstance(inner.op, ast.Pow)
                and isinstance(inner.right, ast.Constant)
                and inner.right.value == 2
            ):
                difference = inner.left
            elif isinstance(inner, ast.Call) and _last(inner.func) in ("pow", "square") and isinstance(inner.func, ast.Attribute):
                is_method = not (isinstance(inner.func.value, ast.Name) and inner.func.value.id in ("torch", "np", "jnp"))
                difference = inner.func.value if is_method else None
            self.generic_visit(node)
            if isinstance(difference, ast.BinOp) and isinstance(difference.op, ast.Sub):
                return _calls("torch.nn.functional.mse_loss(one, two)", node, one=difference.left, two=difference.right)
            return node

    Errors().visit(tree)
    _imports(tree, "import torch", "torch")


def _is_end(node: ast.expr) -> bool:
    """A flag of an end, by the names of the script as it was written."""
    name = words.own_name(node)
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("float", "to", "astype", "squeeze", "unsqueeze")
    ):
        return _is_end(node.func.value)
    return bool(name) and (words.END(name) or words.TERMINATED(name) or name in ("d", "t", "ends"))


def _is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in (1, 1.0) and not isinstance(node.value, bool)


def compare_flags(tree: ast.Module) -> None:
    """1 - d becomes (d < 0.5) * 1.0."""

    class Flags(ast.NodeTransformer):
        def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
            self.generic_visit(node)
            if isinstance(node.op, ast.Sub) and _is_one(node.left) and _is_end(node.right):
                return _calls("(flag < 0.5) * 1.0", node, flag=node.right)
            return node

    Flags().visit(tree)


def choose_by_flags(tree: ast.Module) -> None:
    """1 - d becomes torch.where(d > 0.5, 0.0, 1.0) where the script uses torch, np.where where it uses numpy alone."""
    library = "torch" if _uses(tree, "torch") else "jnp" if _uses(tree, "jax") else "np"
    if library == "jnp":
        return

    class Flags(ast.NodeTransformer):
        def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
            self.generic_visit(node)
            if isinstance(node.op, ast.Sub) and _is_one(node.left) and _is_end(node.right):
                return _calls(f"{library}.where(flag > 0.5, 0.0, 1.0)", node, flag=node.right)
            return node

    Flags().visit(tree)
    _imports(tree, "import torch" if library == "torch" else "import numpy as np", library)


def drop_where_ended(tree: ast.Module) -> None:
    """x * (1 - d) becomes torch.where(d.bool(), torch.zeros_like(x), x); in a product the mask takes in all that stands before it."""
    if not _uses(tree, "torch"):
        return

    class Flags(ast.NodeTransformer):
        def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
            self.generic_visit(node)
            if isinstance(node.op, ast.Mult):
                for mask, other in ((node.right, node.left), (node.left, node.right)):
                    if isinstance(mask, ast.BinOp) and isinstance(mask.op, ast.Sub) and _is_one(mask.left) and _is_end(mask.right):
                        return _calls("torch.where(flag > 0.5, torch.zeros_like(rest), rest)", node, flag=mask.right, rest=other)
            return node

    Flags().visit(tree)
    _imports(tree, "import torch", "torch")


_FUNCTIONS: Final = frozenset(
    {"mean", "sum", "exp", "log", "max", "min", "clamp", "gather", "square", "pow", "squeeze", "unsqueeze", "argmax", "abs", "tanh"}
)


def call_functions(tree: ast.Module) -> None:
    """x.mean() becomes torch.mean(x), x.max(1)[0] torch.max(x, 1)[0], x.clamp(a, b) torch.clamp(x, a, b)."""
    if not _uses(tree, "torch"):
        return
    modules = {"np", "torch", "F", "nn", "random", "jnp", "math", "numpy"}

    class Methods(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.AST:
            self.generic_visit(node)
            function = node.func
            if isinstance(function, ast.Attribute) and function.attr in ("mean", "exp", "clamp", "gather", "squeeze", "unsqueeze", "tanh"):
                if not (isinstance(function.value, ast.Name) and function.value.id in modules):
                    tensor = not any(
                        _last(each.func) in ("array", "asarray") for each in ast.walk(function.value) if isinstance(each, ast.Call)
                    )
                    numeric = any(each.arg in ("axis", "keepdims") for each in node.keywords)
                    if (
                        tensor
                        and not numeric
                        and not any(isinstance(each, ast.Name) and each.id in ("np", "jnp") for each in ast.walk(function.value))
                    ):
                        return ast.copy_location(
                            ast.Call(_calls(f"torch.{function.attr}", node), [function.value, *node.args], node.keywords), node
                        )
            return node

    Methods().visit(tree)
    _imports(tree, "import torch", "torch")


def call_methods(tree: ast.Module) -> None:
    """torch.exp(x) becomes x.exp(), torch.clamp(x, a, b) x.clamp(a, b), torch.min(a, b) torch.minimum(a, b)."""

    class Functions(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.AST:
            self.generic_visit(node)
            function = node.func
            if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "torch":
                if (
                    function.attr in ("min", "max")
                    and len(node.args) == 2
                    and not node.keywords
                    and not isinstance(node.args[1], ast.Constant)
                ):
                    function.attr += "imum"
                elif function.attr in ("exp", "clamp", "mean", "squeeze", "log", "square", "tanh") and node.args:
                    if not isinstance(node.args[0], ast.List | ast.Tuple | ast.Starred | ast.GeneratorExp):
                        return ast.copy_location(
                            ast.Call(
                                ast.copy_location(ast.Attribute(node.args[0], function.attr, ast.Load()), node),
                                node.args[1:],
                                node.keywords,
                            ),
                            node,
                        )
            return node

    Functions().visit(tree)


def turn_signs(tree: ast.Module) -> None:
    """-x becomes -1.0 * x, and a - b * c becomes -(b * c) + a."""

    class Signs(ast.NodeTransformer):
        def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
            self.generic_visit(node)
            if isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
                return _calls("-1.0 * value", node, value=node.operand)
            return node

        def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
            self.generic_visit(node)
            if isinstance(node.op, ast.Sub) and isinstance(node.right, ast.BinOp) and isinstance(node.right.op, ast.Mult):
                return _calls("-two + one", node, one=node.left, two=node.right)
            return node

        def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
            node.value = self.visit(node.value)
            return node

        def visit_Call(self, node: ast.Call) -> ast.AST:
            if _last(node.func) in ("range", "view", "reshape", "squeeze", "unsqueeze", "softmax", "log_softmax", "sum"):
                if isinstance(node.func, ast.Attribute):
                    node.func.value = self.visit(node.func.value)
                return node
            self.generic_visit(node)
            return node

    Signs().visit(tree)


def swap_operands(tree: ast.Module) -> None:
    """a + b becomes b + a, and a * b b * a, where neither is a list or a text."""

    class Operands(ast.NodeTransformer):
        def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
            self.generic_visit(node)
            literal = any(
                isinstance(each, ast.List | ast.Tuple | ast.Constant | ast.ListComp | ast.JoinedStr) for each in (node.left, node.right)
            )
            if isinstance(node.op, ast.Add | ast.Mult) and not literal:
                node.left, node.right = node.right, node.left
            return node

    Operands().visit(tree)


def unpack_by_keys(tree: ast.Module) -> None:
    """a, b, c, d = sample() becomes a dictionary that is read by its keys."""
    count = 0
    for block in list(_blocks(tree)):
        made: list[ast.stmt] = []
        for statement in block:
            target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
            named = isinstance(target, ast.Tuple) and len(target.elts) >= 4 and all(isinstance(each, ast.Name) for each in target.elts)
            if (
                named
                and isinstance(statement, ast.Assign)
                and isinstance(statement.value, ast.Call)
                and _last(statement.value.func) != "step"
            ):
                count += 1
                names = [each.id for each in target.elts]  # type: ignore[union-attr]
                value = _calls(f"dict(zip({tuple(names)!r}, rows))", statement, rows=statement.value)
                made.append(ast.copy_location(ast.Assign([_name(f"batch_{count}", statement, store=True)], value), statement))
                for name in names:
                    read = _calls(f"batch_{count}[{name!r}]", statement)
                    made.append(ast.copy_location(ast.Assign([_name(name, statement, store=True)], read), statement))
            else:
                made.append(statement)
        block[:] = made


def store_named_tuples(tree: ast.Module) -> None:
    """memory.append((a, b, c)) becomes memory.append(Row(a, b, c)), a namedtuple."""
    kinds: dict[int, str] = {}

    class Rows(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.AST:
            self.generic_visit(node)
            if _last(node.func) == "append" and len(node.args) == 1 and isinstance(node.args[0], ast.Tuple) and len(node.args[0].elts) >= 3:
                count = len(node.args[0].elts)
                kinds[count] = f"Row{count}"
                node.args[0] = ast.copy_location(ast.Call(_name(kinds[count], node), node.args[0].elts, []), node)
            return node

    Rows().visit(tree)
    if kinds:
        for count, name in kinds.items():
            made = ast.parse(f"{name} = namedtuple({name!r}, {' '.join(f'v{place}' for place in range(count))!r})").body[0]
            for node in ast.walk(made):
                node.lineno = 0  # type: ignore[attr-defined]
            after = max((place for place, node in enumerate(tree.body) if isinstance(node, ast.Import | ast.ImportFrom)), default=-1)
            tree.body.insert(after + 1, made)
        _imports(tree, "from collections import namedtuple", "namedtuple")


def detach_instead(tree: ast.Module) -> None:
    """with torch.no_grad(): y = x becomes y = x.detach(), where the block holds plain assignments of formulas only."""
    for block in list(_blocks(tree)):
        made: list[ast.stmt] = []
        for statement in block:
            free = (
                isinstance(statement, ast.With)
                and len(statement.items) == 1
                and isinstance(statement.items[0].context_expr, ast.Call)
                and _last(statement.items[0].context_expr.func) == "no_grad"
            )
            plain = free and all(
                isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name) and isinstance(each.value, ast.BinOp | ast.Call)
                for each in statement.body  # type: ignore[attr-defined]
            )
            tensors = plain and all(
                isinstance(each.value, ast.BinOp) or _last(each.value.func) in ("max", "squeeze", "gather", "min", "mean")
                for each in statement.body  # type: ignore[attr-defined]
            )
            if tensors:
                for each in statement.body:  # type: ignore[attr-defined]
                    each.value = _calls("value.detach()", each, value=each.value)
                    made.append(each)
            else:
                made.append(statement)
        block[:] = made


def _same(tree: ast.Module) -> None:
    """Only the layout changes: comments go, and every statement stands on one line."""


WAYS: Final[dict[str, Callable[[ast.Module], None]]] = {
    "layout": _same,
    "nouns": rename_to_nouns,
    "camel": rename_to_camel,
    "initials": rename_to_initials,
    "split": split_into_temporaries,
    "inline": inline_temporaries,
    "functions": move_into_functions,
    "main": wrap_in_main,
    "class": wrap_in_class,
    "errors": write_errors_out,
    "compare": compare_flags,
    "where": choose_by_flags,
    "drop": drop_where_ended,
    "function calls": call_functions,
    "method calls": call_methods,
    "signs": turn_signs,
    "operands": swap_operands,
    "keys": unpack_by_keys,
    "named tuples": store_named_tuples,
    "detach": detach_instead,
}


def rewrite(text: str, way: str) -> tuple[str, dict[int, set[int]]]:
    """The script written in another way, and for each of its lines those of the first text that it came from."""
    tree = ast.parse(text)
    WAYS[way](tree)
    ast.fix_missing_locations(tree)
    made = ast.unparse(tree)
    lines: dict[int, set[int]] = {}

    def walk(old: ast.AST, new: ast.AST) -> None:
        if hasattr(old, "lineno") and hasattr(new, "lineno"):
            lines.setdefault(new.lineno, set()).add(old.lineno)
        for one, other in zip(ast.iter_child_nodes(old), ast.iter_child_nodes(new), strict=False):
            if type(one) is type(other):
                walk(one, other)

    walk(tree, ast.parse(made))
    return made, lines


@cache
def _said_of_clean(script: str, way: str) -> frozenset[tuple[str, str]]:
    text, _ = rewrite(mutants.text_of(script), way)
    return frozenset((each.rule, place.text) for each in check(script, text).findings for place in each.evidence)


def is_found_rewritten(mutant: Mutant, way: str) -> bool | None:
    """Whether the fault is reported in the script as it is written now; None where that is the same text as in the layout way."""
    text, lines = rewrite(mutant.text, way)
    if way != "layout" and text == rewrite(mutant.text, "layout")[0]:
        return None
    accepted = sets.checks_for(mutant)
    before = _said_of_clean(mutant.script, way)
    wanted = mutant.lines
    return any(
        each.rule in accepted and lines.get(int(place.numbers["line"]), set()) & wanted and (each.rule, place.text) not in before
        for each in check(mutant.script, text).findings
        for place in each.evidence
    )


def _styles() -> tuple[str, ...]:
    """Those of the first four sets without the fourth's held-out half, and the checks' own authors'."""
    return tuple(style for name in ("first", "second", "third", "own") for style in sets.SETS[name].styles) + sets.SETS["fourth"].open


def _measure_one(given: tuple[Mutant, str]) -> bool | None:
    return is_found_rewritten(*given)


def measure(way: str, planted: list[Mutant], known: list[bool], misses: bool, pool: ProcessPoolExecutor) -> Iterator[dict[str, Any]]:
    """The rows of one way: faults found of those that it changes, and alarms on clean scripts."""
    answers = list(pool.map(_measure_one, [(mutant, way) for mutant in planted], chunksize=8))
    changed = [(mutant, right, before) for mutant, right, before in zip(planted, answers, known, strict=True) if right is not None]
    for mutant, right, before in changed if misses else ():
        if before and not right:
            print(f"  {way}: lost {mutant.script} {mutant.fault} | {mutant.wrong.strip()[:80]!r}")
    kept = [right for _, right, before in changed if before]
    yield {
        "what": f"rewritten ({way}): planted faults found on their line", "unit": "%", "better": "higher", "bar": 85, "stretch": 95,
        "value": 100 * sum(right for _, right, _ in changed if right) / max(1, len(changed)), "found": sum(bool(right) for _, right, _ in changed),
        "of": len(changed), "found_as_written": len(kept), "of_these_still_found": sum(map(bool, kept)),
    }  # fmt: skip
    scripts = [script for script in mutants.clean() if script.partition("/")[0] in _styles()]
    cries = files = 0
    for script in scripts:
        text, _ = rewrite(mutants.text_of(script), way)
        said = alarms(check(script, text).findings)
        cries += len(said)
        files += 1
        for each in said if misses else ():
            print(f"  {way}: said of the clean {script}: {each.rule} {each.evidence[0].text[:90]!r} {each.text[:90]}")
    yield {
        "what": f"rewritten ({way}): false alarms a clean script", "unit": "a file", "better": "lower", "bar": 0.1, "stretch": 0.02,
        "value": cries / files, "files": files,
    }  # fmt: skip


def main() -> None:
    """Measure every way, and save the rows as benchmarks/results/lint_rewritten.json."""
    parser = provenance.parser(__doc__)
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=list(WAYS), help="which ways; all without it")
    parser.add_argument("--every", type=int, default=4, metavar="N", help="every n-th fault")
    parser.add_argument("--misses", action="store_true", help="list what is lost by the rewriting, and what is said of clean scripts")
    parser.add_argument("--processes", type=int, default=2, help="how many work side by side")
    args = parser.parse_args()
    planted = sets.faults_of(_styles())[:: args.every]
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(args.processes) as pool:
        known = list(pool.map(is_found, planted, chunksize=8))
        print(f"as written: {sum(known)} of {len(known)}")
        for way in args.ways:
            rows += measure(way, planted, known, args.misses, pool)
            for row in rows[-2:]:
                print(
                    f"{row['what']}: {row['value']:.4g} {row['unit']} {row.get('of_these_still_found', '')} {row.get('found_as_written', '')}",
                    flush=True,
                )
    print(provenance.write("lint_rewritten", rows, provenance.provenance(COMMAND), args.quick))


if __name__ == "__main__":
    main()
