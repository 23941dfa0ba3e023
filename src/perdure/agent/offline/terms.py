"""Words of a text, and which of them say nothing.

A word is a run of letters (and digits after the first) in any script that separates words; text in scripts that do not
is cut into pairs of characters. Small letters, composed form. Words are not stemmed here: what is shown to a person
must be a word that stands in the text. Pure. Called by `profile` and `sentences`.
"""

import re
import unicodedata

WORD_LENGTH_MIN = 3
WORD_LENGTH_MAX = 40


def words_of(text: str) -> list[str]:
    """List the words of `text` in order, each time they occur, without stop words."""
    return [word for word in all_words_of(text) if word not in _STOP_WORDS and _is_telling(word)]


def all_words_of(text: str) -> list[str]:
    """List all words of `text` in order: what `words_of` does, with stop words and short ones."""
    words: list[str] = []
    for match in _WORD.finditer(unicodedata.normalize("NFC", text).lower()):
        run = match[0]
        if match.lastgroup == "unspaced":
            words.extend(run[at : at + _PAIR] for at in range(max(1, len(run) - 1)))
        else:
            words.append(run)
    return words


# Scripts written without blanks between words (Thai to Khmer, kana, Han), and marks that belong to the letter before.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_MARKS = "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0903\u093a-\u094f\u0981-\u0dff"
_PAIR = 2
_REST = rf"[^\W_{_UNSPACED}]*+"
_WORD = re.compile(rf"(?P<unspaced>[{_UNSPACED}]+)|(?P<word>[^\W\d_{_UNSPACED}]{_REST}(?:[{_MARKS}]+{_REST})*+)")
_SHORT_WORDS_SCRIPT = re.compile(f"[{_UNSPACED}\uac00-\ud7af]")


def _is_telling(word: str) -> bool:
    return WORD_LENGTH_MIN <= len(word) <= WORD_LENGTH_MAX or (
        len(word) == _PAIR and bool(_SHORT_WORDS_SCRIPT.match(word))
    )


# English, German, French, Spanish, Italian, Portuguese, Dutch; one paragraph each. Other languages lose nothing: what
# stands in every document weighs nothing (`weights`).
_STOPS = """
    a about above across after again against all almost along already also although always am among an and another
    any anything are aren around as ask at away back be became because become becomes been before behind being below
    beside besides best better between beyond both bring but by call came can cannot cause certain clearly come
    comes could couldn day days did didn do does doesn doing don done down due during each either else enough
    especially etc even ever every everything example examples except far few first followed following follows for
    form found from full further gave general generally get gets give given gives go goes going good got great had
    hadn happen happens hardly has hasn have haven having he help hence her here hers herself him himself his hour
    hours how however if in indeed inside instead into is isn it its itself just keep kept kind know known large
    last later least less let lets like likely little long look made mainly make makes making man many may maybe me
    mean means might mine minute minutes month months more moreover most mostly much must my myself namely near
    nearly necessary need needed needs neither never nevertheless new next no nobody none nor not note nothing now
    obviously of off often old on once one ones only onto or other others otherwise ought our ours ourselves out
    outside over own part particular perhaps please possible possibly provide provided provides put quite rather
    really regarding right said same say says second see seem seems seen set several shall she should shouldn show
    shown shows simply since single small so some someone something sometimes soon still such take taken takes tell
    than that the their theirs them themselves then there therefore these they thing things think this those though
    three through thus time to today together too took toward towards tried try turn two under unless until up upon
    us use used useful user uses using usual usually various very via want wants was wasn way ways we week weeks
    well went were weren what whatever when whenever where whereas whether which while who whole whom whose why will
    with within without won would wouldn year years yes yet you your yours yourself yourselves
    aber als auch auf aus bei bin bis das dass dem den der des die dies diese dieser dieses durch ein eine einem
    einen einer eines für haben hat hatte ich ihr ihre ist kann keine mehr mit nach nicht noch nur oder sein seine
    sich sie sind über und uns von vor war waren was wenn werden wie wir wird zum zur
    aux avec ces cette comme dans des elle elles est être ils leur leurs les lui mais même nous ont par pas plus
    pour que qui sans ses son sont sur tous tout une vous
    como con cuando del desde ella ellos entre era esta este esto fue hay las los más muy para pero por porque ser
    sin sobre sus también todo una uno unos
    che come dei del della delle dello gli nel nella non per più questa questo sono sua suo una
    aos com como das dos ela ele ela não nas nos num pela pelo mas mais são seu sua uma
    aan bij dat deze door een het hun maar met naar niet ook van voor wat zijn
"""
_STOP_WORDS = frozenset(_STOPS.split())
