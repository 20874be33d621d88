"""What a question means. Nothing leaves the machine.

Guides and commands are found by likeness to questions that are known to ask for them (words.yaml, examples.yaml), in ideas (words that
mean the same), stems, pairs of words and pieces of words, so that a slip of the pen does not matter. What is most like a question that
nothing here answers is not answered. Rules, metrics and settings are found by their names (BM25).
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np

from rlclinic.config import yaml_text
from rlclinic.ops.diagnose.ask import guides

FILE: Final = "words.yaml"
EXAMPLES: Final = "examples.yaml"
Kind = Literal["guide", "command", "rule", "metric", "setting"]

LEAST_ALIKE: Final = 0.12
"""How much must speak for a document (0 to about 1); below, nobody knows what is meant."""
ALIKE: Final = 0.4
"""Likeness from which a question is one of those that are known, nearly word for word."""
LEAST_FAMILIAR: Final = 0.5
"""Share of a question's words that must be known here; at or below, it is about something else."""
LEAST_OF_THE_TRADE: Final = 0.3
"""The same where one of them is a word that only the trade uses."""
MOST_OF_IT: Final = 0.8
"""Share of a question's weight that a rule, metric or setting must have to be what is asked about."""
MOST_IN_A_NAME: Final = 4
"""Words of a question that is the name of a rule, a metric or a setting, and nothing else."""
UNKNOWN: Final = "unknown"
NOTHING: Final = "nothing"
"""The idea of words that tell no question from another: names of environments and algorithms."""
K1, B = 1.2, 0.5
"""BM25's: how soon repeated words stop counting, and how much long documents are held back."""
_TOKEN: Final = re.compile(r"[a-z0-9_]+")
_NUMBER: Final = re.compile(r"\d+(_\d+)*[kmb]?")
_DEFINES: Final = re.compile(r"^\s*(what (is|are|does)|explain|define|meaning of|what do)\b", re.IGNORECASE)
_MEANS: Final = re.compile(r"\s+means?\W*$", re.IGNORECASE)
"""The end of "what does X mean", where X alone is the name."""
_ENDINGS: Final = ("ingly", "edly", "ing", "ies", "ed", "es", "ly", "s")


@dataclass(frozen=True)
class Document:
    """Something that answers questions: what it is called, and a text that is asked so or that it says."""

    kind: Kind
    name: str
    title: str
    ideas: tuple[str, ...]


@dataclass(frozen=True)
class Match:
    """A document and how well it fits."""

    document: Document
    score: float
    covered: float
    """Share of the question's weight that the document has."""


def search(question: str, most: int = 4) -> list[Match]:
    """Documents that fit a question, the best first; none where nothing fits well enough."""
    defines = _DEFINES.match(question)
    explained = _explained(_MEANS.sub("", question) if defines else question)
    asked = _likened(question)
    # A name alone asks for its meaning; a sentence that happens to hold the words of a name does not.
    named = len(_tokens(question)) <= MOST_IN_A_NAME
    plain = asked and asked[0].score >= ALIKE
    if explained and not plain and (defines or (named and (not asked or len(read_ideas(question)) == 1))):
        return [*explained, *asked][:most]
    return [*asked, *explained][:most] if asked else []


def _explained(question: str) -> list[Match]:
    """Rules, metrics and settings that a question names."""
    weights = {idea: _index().weight(idea) for idea in set(read_ideas(question))}
    total = sum(weights.values())
    by_name: dict[tuple[str, str], list[Match]] = {}
    for document in _index().documents if total else ():
        score, shared = _index().score(document, weights), sum(weights[idea] for idea in set(document.ideas) & weights.keys())
        by_name.setdefault((document.kind, document.name), []).append(Match(document, score, shared / total))
    fitting = [max(matches, key=lambda match: match.score) for matches in by_name.values()]
    return sorted((match for match in fitting if match.covered > MOST_OF_IT), key=lambda match: -match.score)


def _likened(question: str) -> list[Match]:
    """Guides and commands by how much the question is like those that are known to ask for them; none where it is more like one that
    nothing here answers, or where half of its words are strange."""
    bank = _bank()
    trade = not _trade().isdisjoint(_tokens(question))
    if bank.familiarity(question) <= (LEAST_OF_THE_TRADE if trade else LEAST_FAMILIAR):
        return []
    ranked = sorted(bank.compare(question).items(), key=lambda entry: -entry[1])
    if not ranked or ranked[0][0] == UNKNOWN or ranked[0][1] < LEAST_ALIKE:
        return []
    return [Match(bank.documents[name], score, score) for name, score in ranked if name != UNKNOWN and score >= LEAST_ALIKE]


def read_ideas(text: str) -> list[str]:
    """The ideas of a text: phrases and words that mean the same are one, and words that say nothing are left out."""
    phrases, words, empty = _synonyms()
    clean = f" {' '.join(_tokens(text))} "
    ideas = []
    for phrase, idea in phrases:
        if f" {phrase} " in clean:
            ideas.append(idea)
            clean = clean.replace(f" {phrase} ", " ")
    for word in clean.split():
        known = words.get(word) or words.get(_stem(word))
        if known is not None:
            ideas.append(known)
        elif word not in empty and not _NUMBER.fullmatch(word):
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
            plain = " ".join(_tokens(each))
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
        self._counts = {id(document): Counter(set(document.ideas)) for document in documents}
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


class _Bank:
    """Questions that are known to ask for something, as weighted features, and what being like one of them speaks for.

    That is fitted by ridge regression (one against all) of what is asked for on how much the known questions are alike: a word that
    questions for several documents share speaks for none of them, however rare it is.
    """

    def __init__(self, documents: dict[str, Document], questions: Sequence[tuple[str, str]]) -> None:
        self.documents = documents
        self._names = sorted({name for name, _ in questions})
        read = [_features(text) for _, text in questions]
        known = Counter(feature for features in read for feature in features)
        self._rarity = {feature: math.log(1 + len(read) / (1 + n)) for feature, n in known.items()}
        self._strange = math.log(1 + len(read))
        self._where: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
        for place, features in enumerate(read):
            for feature, weight in self._weigh(features).items():
                self._where[feature].append((place, weight))
        shared = [found for found in self._where.values() if len(found) > 1]
        rows = np.zeros((len(read), len(shared)), dtype=np.float32)
        for column, found in enumerate(shared):
            for place, weight in found:
                rows[place, column] = weight
        # The dual form: there are fewer questions than features. Every question is as long as the blocks together.
        alike = rows @ rows.T
        np.fill_diagonal(alike, sum(BLOCKS.values()) * (1 + RIDGE))
        wanted = np.array([[float(name == other) for other in self._names] for name, _ in questions], dtype=np.float32)
        self._speaks = np.linalg.solve(alike, wanted)
        answered = [text for name, text in questions if name != UNKNOWN]
        spelled = [str(each) for same in read_words()["words"].values() for each in same]
        self._words = {word for text in (*answered, *spelled) for word in _content(text)}
        self._by_piece: dict[str, set[str]] = defaultdict(set)
        for word in self._words:
            for piece in set(_pieces(word)):
                self._by_piece[piece].add(word)

    def _weigh(self, features: Counter[tuple[str, str]]) -> dict[tuple[str, str], float]:
        """Features by how much they tell, each block of them as long as its weight."""
        raw = {feature: (1 + math.log(n)) * self._rarity.get(feature, self._strange) for feature, n in features.items()}
        lengths: dict[str, float] = defaultdict(float)
        for (block, _), weight in raw.items():
            lengths[block] += weight * weight
        return {
            (block, name): math.sqrt(BLOCKS[block] / lengths[block]) * weight for (block, name), weight in raw.items() if lengths[block]
        }

    def compare(self, question: str) -> dict[str, float]:
        """How much a question speaks for each document: about 0 for none, half or more for a question that is known word for word."""
        likeness = np.zeros(len(self._speaks), dtype=np.float32)
        for feature, weight in self._weigh(_features(question)).items():
            for place, other in self._where.get(feature, ()):
                likeness[place] += weight * other
        return dict(zip(self._names, map(float, likeness @ self._speaks), strict=True))

    def familiarity(self, question: str) -> float:
        """Share of the words that are known here, or nearly so."""
        words = [word for word in _content(question) if not _NUMBER.fullmatch(word)]
        return sum(word in self._words or self._is_near(word) for word in words) / len(words) if words else 1.0

    def _is_near(self, word: str) -> bool:
        pieces = set(_pieces(word))
        shared = Counter(other for piece in pieces for other in self._by_piece.get(piece, ()))
        return len(word) > 3 and any(n / (len(pieces | set(_pieces(other)))) >= 0.4 for other, n in shared.most_common(12))


RIDGE: Final = 1.0
"""How much the fit is held back, in lengths of a question; between 0.3 and 2 it makes no difference."""
BLOCKS: Final = {"idea": 1.0, "stem": 1.0, "pair": 0.4, "piece": 0.7}
"""How much each kind of feature counts."""
_LITTLE: Final = frozenset(
    {"a", "an", "the", "and", "or", "of", "to", "in", "on", "at", "for", "from", "with", "by", "as", "is", "are", "was", "were",
     "be", "been", "am", "do", "does", "did", "have", "has", "had", "i", "my", "me", "we", "our", "you", "your", "it", "its",
     "this", "that", "these", "those"}
)  # fmt: skip


def _features(text: str) -> Counter[tuple[str, str]]:
    tokens = _tokens(text)
    telling = [word for word in tokens if word not in _LITTLE]
    features = [("idea", idea) for idea in read_ideas(text)]
    features += [("stem", _stem(word)) for word in telling]
    features += [("pair", f"{one} {other}") for one, other in pairwise(tokens)]
    features += [("piece", piece) for word in telling for piece in _pieces(word)]
    return Counter(features)


def _tokens(text: str) -> list[str]:
    plain = text.lower().replace(chr(8217), chr(39)).replace(chr(39), "")
    short = read_words()["short"]
    spelled = " ".join(str(short.get(word.strip(".,;:!?()"), word)) for word in plain.split())
    return _TOKEN.findall(spelled)


@cache
def _trade() -> frozenset[str]:
    return frozenset(read_words()["trade"])


def _content(text: str) -> list[str]:
    """Stems of the words that say what a question is about."""
    empty = _synonyms()[2]
    return [_stem(word) for word in _tokens(text) if word not in empty and word not in _LITTLE]


def _pieces(word: str) -> list[str]:
    framed = f"^{word}$"
    return [framed[place : place + 3] for place in range(len(framed) - 2)]


@cache
def _bank() -> _Bank:
    data = read_words()
    examples: dict[str, list[str]] = yaml_text.load(
        files("rlclinic.ops.diagnose.ask").joinpath(EXAMPLES).read_text(encoding="utf-8"), EXAMPLES
    )
    documents: dict[str, Document] = {}
    questions: list[tuple[str, str]] = [(UNKNOWN, str(text)) for text in examples[UNKNOWN]]
    for guide in guides.list_guides().guides:
        documents[guide.name] = Document("guide", guide.name, guide.question, ())
        asked = (guide.question, *data["asks"].get(guide.name, ()), *examples.get(guide.name, ()))
        questions += [(guide.name, str(text)) for text in asked]
    for entry in data["commands"]:
        documents[entry["type"]] = Document("command", entry["type"], entry["answer"], ())
        more = [text for begin, texts in examples.items() if f"{entry['type']} ".startswith(f"{begin} ") for text in texts]
        questions += [(entry["type"], str(text)) for text in (*entry["asks"], *more)]
    return _Bank(documents, questions)


@cache
def _index() -> _Index:
    return _Index(list(_documents()))


def _documents() -> Iterable[Document]:
    from rlclinic import metrics
    from rlclinic.config import ALGORITHMS, EnvConfig, NetConfig, RunConfig
    from rlclinic.ops.diagnose.rules import list_rules

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
