"""The digest as Markdown.

Every quotation is a line of this form, and can be checked by a machine (`sentences.lines_quoted` is the rule):

    - `path:12`: “The sentence.”        - `path:12-13`: “A sentence on two lines.”

Names are printable by construction (`listing.name_of`), terms are words, sentences were chosen to need no escape, so
nothing in a folder can change what this page looks like. There are no dates and no absolute paths: the same documents
give the same bytes. Pure. Called by the tool `compose_digest`.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from perdure.agent.offline.grouping import Comparison, Group
from perdure.agent.offline.listing import Listing, name_of
from perdure.agent.offline.profile import Profile
from perdure.agent.offline.sentences import Quotation
from perdure.agent.offline.terms import words_of

HEAD = "# Digest of "
"""How every page begins, and by what an earlier one is known as ours."""

GROUP_QUOTATIONS_MAX = 12
SINGLE_QUOTATIONS_MAX = 60
PAIRS_MAX = 100
INDEX_TERMS_MAX = 300
INDEX_FILES_MAX = 10
INDEX_TERMS_PER_FILE = 3


def render(
    listing: Listing,
    profiles: Mapping[str, Profile],
    failures: Mapping[str, Mapping[str, Any]],
    comparison: Comparison,
    introduction: Mapping[str, str] | None = None,
) -> str:
    """Write the whole page; `failures` are the documents that have no profile, with type and message.

    `introduction` is what a model has written, as one line without markup, with the model's name.
    """
    page = _Page(profiles, comparison)
    head = _head(listing, profiles, failures, comparison)
    parts: list[Iterable[str]] = [head, _introduction(introduction or {}), _overview(comparison["groups"])]
    parts += [page.group(number, group) for number, group in enumerate(comparison["groups"], start=1)]
    parts += [_pairs(comparison["alike"]), page.single(), page.index(), _failures(failures)]
    return "\n\n".join("\n".join(lines) for lines in map(list, parts) if lines) + "\n"


class _Page:
    """The parts that need to look into the documents."""

    def __init__(self, profiles: Mapping[str, Profile], comparison: Comparison) -> None:
        self._profiles = profiles
        self._comparison = comparison
        self._quoted: set[str] = set()

    def group(self, number: int, group: Group) -> Iterator[str]:
        yield f"## Group {number}: {', '.join(group['terms'][:3])}"
        yield ""
        yield f"Key terms: {', '.join(group['terms'])}."
        yield ""
        yield from self._quotations(group["names"], group["terms"], GROUP_QUOTATIONS_MAX)
        yield from self._files(sorted(group["names"]))

    def single(self) -> Iterator[str]:
        if not self._comparison["single"]:
            return
        yield "## Single"
        yield ""
        yield "Documents that fit no group."
        yield ""
        yield from self._quotations(self._comparison["single"], (), SINGLE_QUOTATIONS_MAX)
        yield from self._files(self._comparison["single"])

    def index(self) -> Iterator[str]:
        holders = self._holders()
        if not holders:
            return
        widest = sorted(holders, key=lambda term: (-len(holders[term]), term))[:INDEX_TERMS_MAX]
        yield "## Index of terms"
        yield ""
        for term in sorted(widest):
            names = holders[term]
            most = sorted(names, key=lambda name: (-self._profiles[name]["terms"][term], name))[:INDEX_FILES_MAX]
            more = [f"and {len(names) - len(most)} more"] if len(names) > len(most) else []
            yield f"- {term}: {', '.join([f'`{name}`' for name in sorted(most)] + more)}"

    def _holders(self) -> dict[str, list[str]]:
        """Say in which files the terms of the groups, and the first terms of each file, stand."""
        wanted = {term for group in self._comparison["groups"] for term in group["terms"]}
        for terms in self._comparison["key_terms"].values():
            wanted.update(terms[:INDEX_TERMS_PER_FILE])
        holders: defaultdict[str, list[str]] = defaultdict(list)
        for name in sorted(self._profiles):
            for term in wanted.intersection(self._profiles[name]["terms"]):
                holders[term].append(name)
        return holders

    def _quotations(self, names: Sequence[str], terms: Sequence[str], most: int) -> Iterator[str]:
        """Quote one sentence of each file, none twice: what a copy says has been said."""
        lines: list[str] = []
        for name in names:
            quotation = self._best_sentence(name, terms)
            if quotation is not None and len(lines) < most:
                self._quoted.add(quotation["text"])
                lines.append(f"- `{name}:{_place(quotation)}`: “{quotation['text']}”")
        if lines:
            yield from (*lines, "")

    def _best_sentence(self, name: str, terms: Sequence[str]) -> Quotation | None:
        """Choose the sentence with most of the terms; where that is equal, the one that tells most about the file."""
        wanted = {*terms, *self._comparison["key_terms"][name]}
        fresh = [each for each in self._profiles[name]["sentences"] if each["text"] not in self._quoted]
        return max(fresh, key=lambda each: len(wanted.intersection(words_of(each["text"]))), default=None)

    def _files(self, names: Sequence[str]) -> Iterator[str]:
        yield "| file | lines | its own terms |"
        yield "|---|--:|---|"
        for name in names:
            terms = ", ".join(self._comparison["key_terms"][name]) or "(no words)"
            yield f"| `{name}` | {self._profiles[name]['lines']} | {terms} |"


def _head(
    listing: Listing, profiles: Mapping[str, Profile], failures: Mapping[str, Any], comparison: Comparison
) -> Iterator[str]:
    groups, single, alike = comparison["groups"], comparison["single"], comparison["alike"]
    words = sum(profile["words"] for profile in profiles.values())
    yield f"{HEAD}{_count(len(profiles), 'document')}"
    yield ""
    yield f"- read: {_count(len(profiles), 'document')}, {_count(words, 'word')}"
    yield f"- groups: {len(groups)}, with {_count(len(profiles) - len(single), 'document')}"
    yield f"- single: {_count(len(single), 'document')}"
    yield f"- near-duplicates: {_count(len(alike), 'pair')}"
    yield f"- could not be read: {_count(len(failures), 'document')}"
    if listing["left_aside"]:
        kinds = (
            f"{'`' + kind + '`' if kind.startswith('.') else kind} × {count}" for kind, count in listing["left_aside"]
        )
        yield f"- left aside: {', '.join(kinds)}"
    guessed = [f"`{name}` ({profiles[name]['encoding']})" for name in sorted(profiles) if _is_guess(profiles[name])]
    if guessed:
        yield f"- not UTF-8, read as: {', '.join(guessed)}"


def _introduction(introduction: Mapping[str, str]) -> Iterator[str]:
    if introduction.get("text"):
        yield f"Written by {name_of(introduction['model'])}, a language model, and not checked:"
        yield ""
        yield f"> {introduction['text']}"


def _overview(groups: Sequence[Group]) -> Iterator[str]:
    if groups:
        yield "| group | documents | key terms |"
        yield "|--:|--:|---|"
        for number, group in enumerate(groups, start=1):
            yield f"| {number} | {len(group['names'])} | {', '.join(group['terms'])} |"
        yield ""
        yield "A quotation stands word for word in the file and lines before it; several lines are joined by a blank."
        yield "The most typical documents of a group are quoted first."


def _pairs(alike: Sequence[tuple[str, str, float]]) -> Iterator[str]:
    if alike:
        yield "## Near-duplicates"
        yield ""
        yield "Share of runs of five words that both have."
        yield ""
        for one, other, share in alike[:PAIRS_MAX]:
            yield f"- `{one}` and `{other}`: {int(share * 100)} %"
        if len(alike) > PAIRS_MAX:
            yield f"- and {_count(len(alike) - PAIRS_MAX, 'pair')} more"


def _failures(failures: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    if failures:
        yield "## Not read"
        yield ""
        yield "| file | reason |"
        yield "|---|---|"
        for name in sorted(failures):
            yield f"| `{name}` | {_reason(failures[name])} |"


_REASON_LENGTH_MAX = 120


def _reason(failure: Mapping[str, Any]) -> str:
    """Give the reader's own reason; of any other error only its type, since its message may say anything."""
    kind = str(failure.get("type", "")).rpartition(".")[2]
    reason = str(failure.get("message", "")) if kind == "UnreadableDocument" else f"failed: {kind}"
    return name_of(reason[:_REASON_LENGTH_MAX])


def _is_guess(profile: Profile) -> bool:
    return profile["encoding"] not in {"utf-8", "utf-8-sig"}


def _place(quotation: Quotation) -> str:
    first, last = quotation["first"], quotation["last"]
    return str(first) if first == last else f"{first}-{last}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
