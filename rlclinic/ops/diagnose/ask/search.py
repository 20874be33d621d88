"""What a question means: words are brought to ideas, and everything that answers questions is ranked by BM25. Nothing leaves the machine.

words.yaml says which words mean the same, how else the questions of the guides are asked, and what commands are asked for.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal

from rlclinic.config import yaml_text
from rlclinic.ops.diagnose.ask import guides

FILE: Final = "words.yaml"
Kind = Literal["guide", "command", "rule", "metric", "setting"]

LEAST_COVERED: Final = 0.36
"""Share of a question's weight that the best document must have in common with it; below, nobody knows what is meant."""
NOTHING: Final = "nothing"
"""The idea of words that tell no question from another: names of environments and algorithms."""
OTHERS: Final = 0.5
"""How much the other ways to ask for the same thing count beside the best one."""
K1, B = 1.2, 0.5
"""BM25's: how soon repeated words stop counting, and how much long documents are held back."""
_TOKEN: Final = re.compile(r"[a-z0-9_]+")
_DEFINES: Final = re.compile(r"^\s*(what (is|are|does)|explain|define|meaning of|what do)\b", re.IGNORECASE)
_ENDINGS: Final = ("ingly", "edly", "ing", "ies", "ed", "es", "ly", "s")


@dataclass(frozen=True)
class Document:
    """Something that answers questions: what it is called, and a text that is asked so or that it says."""

    kind: Kind
    name: str
    title: str
    ideas: tuple[str, ...]
    weight: float = 1.0


@dataclass(frozen=True)
class Match:
    """A document and how well it fits."""

    document: Document
    score: float
    covered: float
    """Share of the question's weight that the document has."""


def search(question: str, most: int = 4) -> list[Match]:
    """Documents that fit a question, the best first; none where nothing fits well enough."""
    ideas = read_ideas(question)
    if not ideas:
        return []
    index = _index()
    if len(set(ideas)) == 1 and len({each.name for each in index.documents if each.kind == "guide" and ideas[0] in each.ideas}) > 2:
        return []  # a word that could mean any of them
    weights = {idea: index.weight(idea) for idea in set(ideas)}
    total = sum(weights.values())
    by_name: dict[tuple[str, str], list[Match]] = {}
    for document in index.documents:
        score, shared = index.score(document, weights), sum(weights[idea] for idea in set(document.ideas) & weights.keys())
        by_name.setdefault((document.kind, document.name), []).append(Match(document, score * document.weight, shared / total))
    fitting = [match for matches in by_name.values() if (match := _together(matches)).covered >= LEAST_COVERED and match.score > 0]
    defined = _DEFINES.match(question) is not None
    ranked = sorted(fitting, key=lambda match: -match.score * _prior(match, defined))
    return ranked[:most]


def _together(matches: list[Match]) -> Match:
    """What a document's best text scores, and a share of what its other texts do: one that is often asked so is more likely meant."""
    ranked = sorted(matches, key=lambda match: -match.score)
    others = sum(match.score for match in ranked[1:4]) / 3 if len(ranked) > 1 else ranked[0].score
    best = max(ranked, key=lambda match: match.covered)
    return Match(ranked[0].document, ranked[0].score + OTHERS * others, best.covered)


def _prior(match: Match, defined: bool) -> float:
    """Guides answer most questions; a word that is asked for by itself ("what is …") is explained."""
    if match.document.kind == "guide":
        return 1.0
    if match.document.kind == "command":
        return 0.9
    return 1.0 if defined and match.covered > 0.8 else 0.4


def read_ideas(text: str) -> list[str]:
    """The ideas of a text: phrases and words that mean the same are one, and words that say nothing are left out."""
    phrases, words, empty = _synonyms()
    clean = f" {' '.join(_TOKEN.findall(text.lower().replace(chr(8217), chr(39)).replace(chr(39), '')))} "
    ideas = []
    for phrase, idea in phrases:
        if f" {phrase} " in clean:
            ideas.append(idea)
            clean = clean.replace(f" {phrase} ", " ")
    for word in clean.split():
        known = words.get(word) or words.get(_stem(word))
        if known is not None:
            ideas.append(known)
        elif word not in empty and not word.isdecimal():
            ideas.append(_stem(word))
    return [idea for idea in ideas if idea != NOTHING]


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


@cache
def read_words() -> dict[str, Any]:
    """words.yaml."""
    text = files("rlclinic.ops.diagnose.ask").joinpath(FILE).read_text(encoding="utf-8")
    data: dict[str, Any] = yaml_text.load(text, FILE)
    return data


@cache
def _synonyms() -> tuple[list[tuple[str, str]], dict[str, str], frozenset[str]]:
    """Phrases (the longest first) and words by the idea that they mean, and words that say nothing."""
    phrases, words = [], {}
    for idea, spelled in read_words()["words"].items():
        for each in map(str, spelled):
            plain = " ".join(_TOKEN.findall(each.lower().replace("'", "")))
            if " " in plain:
                phrases.append((plain, idea))
            else:
                words[plain] = idea
                words.setdefault(_stem(plain), idea)
    phrases.sort(key=lambda entry: -len(entry[0]))
    return phrases, words, frozenset(read_words()["empty"].split())


class _Index:
    """Documents with the weights of their ideas (BM25)."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = documents
        self._counts = {id(document): Counter(document.ideas) for document in documents}
        self._mean = sum(len(document.ideas) for document in documents) / len(documents)
        known = Counter(idea for document in documents for idea in set(document.ideas))
        self._weights = {idea: math.log(1 + (len(documents) - n + 0.5) / (n + 0.5)) for idea, n in known.items()}
        self._unknown = math.log(1 + (len(documents) + 0.5) / 0.5)

    def weight(self, idea: str) -> float:
        """How much an idea tells: rare ones more; one that no document has, most of all."""
        return self._weights.get(idea, self._unknown)

    def score(self, document: Document, weights: dict[str, float]) -> float:
        counts = self._counts[id(document)]
        length = 1 - B + B * len(document.ideas) / self._mean
        return sum(weights[idea] * n * (K1 + 1) / (n + K1 * length) for idea, n in counts.items() if idea in weights)


@cache
def _index() -> _Index:
    return _Index(list(_documents()))


def _documents() -> Iterable[Document]:
    from rlclinic import metrics
    from rlclinic.config import ALGORITHMS, EnvConfig, NetConfig, RunConfig
    from rlclinic.ops.diagnose.rules import list_rules

    data = read_words()
    for guide in guides.list_guides().guides:
        for asked in (guide.question, *data["asks"].get(guide.name, ())):
            yield Document("guide", guide.name, guide.question, tuple(read_ideas(asked)))
        whole = " ".join([guide.name.replace("-", " "), guide.question, guide.answer, *guide.steps, *data["asks"].get(guide.name, ())])
        yield Document("guide", guide.name, guide.question, tuple(read_ideas(whole)), 0.9)
    for entry in data["commands"]:
        for asked in entry["asks"]:
            yield Document("command", entry["type"], entry["answer"], tuple(read_ideas(asked)))
    for rule in list_rules().rules:
        yield Document("rule", rule.id, rule.title, tuple(read_ideas(f"{rule.id} {rule.name.replace('-', ' ')} {rule.title}")))
    for metric in metrics.METRICS.values():
        spelled = metric.name.rsplit("/", 1)[-1]
        yield Document("metric", metric.name, metric.meaning, tuple(read_ideas(f"{spelled} {spelled.replace('_', ' ')}")))
    sections = {"env": EnvConfig, "net": NetConfig, "run": RunConfig}
    models: list[tuple[str, Any]] = [("algo", model) for model in ALGORITHMS.values()] + list(sections.items())
    seen = set()
    for section, model in models:
        for name, info in model.model_fields.items():
            if f"{section}.{name}" in seen or not info.description:
                continue
            seen.add(f"{section}.{name}")
            yield Document("setting", f"{section}.{name}", info.description, tuple(read_ideas(f"{name} {name.replace('_', ' ')}")))
