"""Renders deploy/chart without Helm: the part of Go's templates that it uses, and an error for anything else."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).resolve().parents[2] / "deploy" / "chart"
_ACTION = re.compile(r"(\s*)\{\{-\s(.*?)\s-?\}\}|\{\{\s(.*?)\s-?\}\}", re.DOTALL)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\(|\)|\||-?\d+|\.[\w.]*|\w+')
Block = list[Any]


class ChartError(Exception):
    """What Helm would refuse, or what this renderer does not know."""


def render(values: dict[str, Any] | None = None, release: str = "test") -> list[dict[str, Any]]:
    """Every object that the chart makes with these values over its own."""
    texts = render_texts(values, release)
    return [made for name, text in texts.items() if name.endswith(".yaml") for made in yaml.safe_load_all(text) if made]


def render_texts(values: dict[str, Any] | None = None, release: str = "test") -> dict[str, str]:
    """Every template as text, by its name."""
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    scope = {
        "Values": merge(yaml.safe_load((CHART / "values.yaml").read_text()), values or {}),
        "Release": {"Name": release, "Namespace": "default", "Service": "Helm"},
        "Chart": {"Name": about["name"], "AppVersion": about["appVersion"], "Version": about["version"]},
    }
    sources = {path.name: parse(path.read_text()) for path in sorted((CHART / "templates").iterdir())}
    defined = {block[1]: block[2] for parsed in sources.values() for block in parsed if block[0] == "define"}
    return {name: run(parsed, scope, defined) for name, parsed in sources.items() if not name.startswith("_")}


def merge(usual: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Values over those of the chart; a name that the chart does not have is an error."""
    if unknown := given.keys() - usual.keys():
        raise ChartError(f"the chart has no value {sorted(unknown)}")
    deep = {key: isinstance(usual[key], dict) and bool(usual[key]) and isinstance(value, dict) for key, value in given.items()}
    return {**usual, **{key: merge(usual[key], value) if deep[key] else value for key, value in given.items()}}


def parse(source: str) -> Block:
    """Texts and actions; what `if`, `with`, `range` and `define` enclose lies inside of them."""
    root: Block = []
    open_blocks, opened, at = [root], [], 0
    for match in _ACTION.finditer(source):
        # `{{-` takes the blanks before it away, `-}}` those behind it.
        open_blocks[-1].append(("text", source[at : match.start()]))
        at = match.end()
        if match[0].endswith("-}}"):
            at += len(source[at:]) - len(source[at:].lstrip())
        action = match[2] if match[2] is not None else match[3]
        word, _, rest = action.partition(" ")
        if word == "end":
            open_blocks.pop()
            opened.pop()
        elif word in ("if", "with", "range", "define"):
            inside: Block = []
            open_blocks[-1].append((word, rest.strip('"') if word == "define" else tokens(rest), inside))
            open_blocks.append(inside)
            opened.append(word)
        else:
            open_blocks[-1].append(("write", tokens(action)))
    if opened:
        raise ChartError(f"{opened[-1]} has no end")
    root.append(("text", source[at:]))
    if "{{" in "".join(part[1] for part in root if part[0] == "text"):
        raise ChartError("an action was not understood")
    return root


def tokens(text: str) -> list[str]:
    """The words of a pipeline."""
    found = _TOKEN.findall(text)
    if "".join(found) != re.sub(r'("(?:[^"\\]|\\.)*")|\s+', r"\1", text):
        raise ChartError(f"not understood: {text}")
    return found


def run(block: Block, dot: Any, defined: dict[str, Block]) -> str:
    """A block as text; the dot is what its fields are looked up in."""

    def include(name: str, inner: Any) -> str:
        return run(defined[name], inner, defined)

    written = ""
    for kind, *parts in block:
        if kind == "text":
            written += parts[0]
        elif kind == "write":
            written += say(evaluate(parts[0], dot, include))
        elif kind == "range":
            written += "".join(run(parts[1], item, defined) for item in evaluate(parts[0], dot, include))
        elif kind != "define" and (value := evaluate(parts[0], dot, include)):
            written += run(parts[1], value if kind == "with" else dot, defined)
    return written


def evaluate(words: list[str], dot: Any, include: Callable[[str, Any], str]) -> Any:
    """The value of a pipeline: what one part gives is the last argument of the next."""
    rest, depth = [[]], 0
    for word in words:
        depth += (word == "(") - (word == ")")
        if word == "|" and depth == 0:
            rest.append([])
        else:
            rest[-1].append(word)
    value: list[Any] = []
    for part in rest:
        value = [call(part, value, dot, include)]
    return value[0]


def call(words: list[str], piped: list[Any], dot: Any, include: Callable[[str, Any], str]) -> Any:
    """One command of a pipeline."""
    arguments: list[Any] = []
    name = words[0] if re.fullmatch(r"[A-Za-z]\w*", words[0]) else None
    at = 1 if name else 0
    while at < len(words):
        if words[at] == "(":
            end, depth = at + 1, 1
            while depth:
                depth += (words[end] == "(") - (words[end] == ")")
                end += 1
            arguments.append(evaluate(words[at + 1 : end - 1], dot, include))
            at = end
        else:
            arguments.append(read(words[at], dot))
            at += 1
    arguments += piped
    if name is None:
        return arguments[0]
    functions: dict[str, Callable[..., Any]] = {
        "include": include,
        "quote": lambda value: yaml.safe_dump(say(value), default_style='"').strip(),
        "nindent": lambda width, text: "\n" + "\n".join(" " * width + line for line in text.splitlines()),
        "default": lambda usual, value: value or usual,
        "toYaml": lambda value: yaml.safe_dump(value, sort_keys=False).strip(),
        "printf": lambda form, *given: form % given,
        "join": lambda separator, items: separator.join(map(str, items)),
        "not": lambda value: not value,
        "required": require,
        "fail": fail,
    }
    if name not in functions:
        raise ChartError(f"no function {name}")
    return functions[name](*arguments)


def fail(message: str) -> Any:
    """Values that do not go together."""
    raise ChartError(message)


def require(message: str, value: Any) -> Any:
    """A value that must be given."""
    if not value:
        raise ChartError(message)
    return value


def read(word: str, dot: Any) -> Any:
    """A literal, or a field of the dot; a field that is not there is an error, where Helm would write nothing."""
    if word.startswith('"'):
        return yaml.safe_load(word)
    if not word.startswith("."):
        return int(word)
    for name in word.split(".")[1:]:
        if name:
            if name not in dot:
                raise ChartError(f"no value {word}")
            dot = dot[name]
    return dot


def say(value: Any) -> str:
    """A value as Go writes it."""
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
