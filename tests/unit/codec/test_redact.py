"""Known secrets give way to their masks: in all spellings, in every kind of value, and cheaply where there are none."""

import base64
import html
import json
import random
import string
import time
from datetime import date
from urllib.parse import quote, quote_plus
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.codec import known
from perdure.codec.known import Secret, process
from perdure.codec.masks import Masks
from perdure.codec.redact import TextStream, cut_redacted, redact, redact_payload, redact_text
from perdure.errors import LimitExceeded, SecretMissing, UsageError
from perdure.limits import NESTING_MAX, SECRET_BYTES_MAX, SECRETS_MAX
from perdure.model import entry as e
from tests.property.drawing import VALUES

AWKWARD = "p@ss/w+rd=\"x\n'ü" + "-1"  # of the public report: raw forms with quotes, line ends and letters beyond ASCII
PLAIN = "sk-4f9aQ27xLmPo30"
MASK = "[secret KEY]"
PEM = (
    "-----BEGIN KEY-----\n"
    + "\n".join("MIIEowIBAAKCAQEA4f9aQ27xLm" + letter * 30 for letter in "abc")
    + "\n-----END KEY-----"
)

SPELT = {
    "raw": lambda text: text,
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON with letters": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "JSON in JSON": lambda text: json.dumps(json.dumps(text))[3:-3],
    "JSON, slashes escaped": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "URL": lambda text: quote(text, safe=""),
    "path of a URL": quote,
    "form": quote_plus,
    "URL, small": lambda text: quote(text, safe="").replace("%C3%BC", "%c3%bc").replace("%2B", "%2b")
    .replace("%2F", "%2f").replace("%3D", "%3d").replace("%0A", "%0a"),
    "repr": lambda text: repr(text)[1:-1],
    "shell": lambda text: text.replace("'", "'\"'\"'"),
    "HTML": html.escape,
    "hex": lambda text: text.encode().hex(),
    "HEX": lambda text: text.encode().hex().upper(),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64, one before": lambda text: base64.b64encode(b"u" + text.encode() + b"v").decode(),
    "base64, two before": lambda text: base64.b64encode(b"u:" + text.encode() + b"vw").decode(),
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
}  # fmt: skip


@pytest.fixture
def key():
    """One known secret."""
    process.know("KEY", PLAIN)
    return PLAIN


@pytest.mark.parametrize("secret", [AWKWARD, PLAIN, "correct horse", "schlüssel", "日本語の鍵です！"])
@pytest.mark.parametrize("spelling", SPELT)
def test_a_secret_is_masked_however_it_is_spelt(spelling, secret):
    """In any usual spelling, in the middle of a longer text or of bytes, nothing of the secret is left to be read."""
    process.know("KEY", secret)
    spelt = SPELT[spelling](secret)
    for found in (redact_text(f"<{spelt}>"), redact(f"<{spelt}>".encode()).decode()):
        assert MASK in found
        assert spelt not in found
        assert len(found) <= len(MASK) + 10  # of base64 what comes of its neighbours is left


def test_lines_of_a_secret_are_masked_one_by_one():
    """A key of many lines is found where it was indented, wrapped anew or quoted only in part."""
    process.know("KEY", PEM)
    indented = "".join(f"    {line}\r\n" for line in PEM.splitlines())
    assert "MIIE" not in redact_text(indented)
    assert MASK == redact_text(PEM)


def test_bytes_that_are_no_text_are_masked_too():
    """A secret of random bytes is found in bytes, and in texts that spell it in hex, base64 or escapes."""
    secret = bytes(range(200, 232))
    process.know("KEY", secret)
    assert b"a" + MASK.encode() + b"b" == redact(b"a" + secret + b"b")
    for spelt in (secret.hex(), base64.b64encode(secret).decode(), repr(secret)):
        assert MASK in redact_text(spelt)


def test_every_part_of_a_value_is_looked_through(key):
    """Keys, members, nested containers, bytes and ids are redacted; what else there is stays as it is."""
    other = UUID("12345678-9abc-4def-8123-456789abcdef")
    process.know("ID", str(other))
    value = {
        key: [key, {"x": (key.encode(), 1, None)}],
        "set": {key, 2},
        "frozen": frozenset({key}),
        "id": other,
        "day": date(2026, 1, 2),
        "secret": Secret("KEY"),
    }
    assert redact(value) == {
        MASK: [MASK, {"x": (MASK.encode(), 1, None)}],
        "set": {MASK, 2},
        "frozen": frozenset({MASK}),
        "id": "[secret ID]",
        "day": date(2026, 1, 2),
        "secret": Secret("KEY"),
    }


def test_no_item_is_lost_where_two_keys_have_one_mask(key):
    """A secret that has changed has the mask that it had; both stay keys of a dict."""
    process.know("KEY", "another-text-77")
    found = redact({key: 1, "another-text-77": 2, "x": 3})
    assert {MASK: 1, f"{MASK} 2": 2, "x": 3} == found


@given(VALUES)
def test_what_holds_no_secret_is_the_same_object(value):
    """Whatever the value: without a secret in it redaction gives back the very object."""
    process.know("KEY", "a text that no example draws")
    assert redact(value) is value


def test_redaction_comes_to_rest(key):
    """To redact what was redacted changes nothing, even where a secret is part of the name of another."""
    process.know("OTHER", "KEY-other-secret")
    process.know("KEY-other-secret-2", "some more text 33")
    once = redact_text(f"{key} KEY-other-secret some more text 33")
    assert once == redact_text(once)


def test_what_holds_itself_is_left_to_the_codec(key):
    """A list that holds itself, or is nested without end, ends the walk and is refused by whoever encodes it."""
    endless = [key]
    endless.append(endless)
    assert MASK == redact(endless)[0]
    deep = key
    for _ in range(NESTING_MAX - 1):
        deep = [deep]
    assert MASK in str(redact(deep))


def test_texts_are_redacted_before_they_are_cut(key):
    """No limit leaves half a secret at the end of a text."""
    for size in range(60):
        cut = cut_redacted("x" * 20 + key + "y" * 40, size)
        assert "sk-4" not in cut
        assert len(cut.encode()) <= size


def test_a_payload_is_redacted_but_for_what_it_is_found_by(key):
    """Texts of an entry, nested ones too, are masked; paths, tools and import paths are what they are."""
    driver = e.Driver(kind="program", target=f"{key}:x", folder=f"/{key}")
    started = e.TaskStarted(
        name=key, goal=f"use {key}", driver=driver, holder=None, state=e.NOTHING, workspace=f"/{key}"
    )
    found = redact_payload(started)
    assert (MASK, f"use {MASK}", f"/{key}", driver) == (found.name, found.goal, found.workspace, found.driver)
    plan = e.PlanAdopted(steps=("a", key))
    assert ("a", MASK) == redact_payload(plan).steps
    clean = e.PlanAdopted(steps=("a", "b"))
    assert redact_payload(clean) is clean


@pytest.mark.parametrize("spelling", ["raw", "JSON", "hex", "URL"])
def test_a_stream_that_is_cut_anywhere_shows_what_the_whole_text_would(spelling):
    """Wherever a text is cut into two or three pieces, what is shown in the end is the redacted whole."""
    process.know("KEY", AWKWARD)
    text = f"say {SPELT[spelling](AWKWARD)} twice: {SPELT[spelling](AWKWARD)}p"
    expected = redact_text(text)
    for first in range(len(text)):
        for second in (first, min(first + 3, len(text))):
            stream = TextStream()
            pieces = [text[:first], text[first:second], text[second:]]
            shown = [stream.take(piece) for piece in pieces]
            assert expected == "".join(shown) + stream.finish()
            assert not any(AWKWARD[:8] in piece for piece in shown)


def test_of_a_secret_that_begins_with_another_no_rest_is_shown():
    """Cut anywhere, letter by letter too: the longer one is masked whole, the shorter one where it stands alone."""
    short, long = "sk-4f9a7c2e8b1d", "sk-4f9a7c2e8b1d-and-what-follows"
    process.know("SHORT", short)
    process.know("LONG", long)
    text = f"{long} {short}, {long}! {short}"
    expected = redact_text(text)
    for size in range(1, len(text)):
        stream = TextStream()
        shown = [stream.take(text[at : at + size]) for at in range(0, len(text), size)]
        assert expected == "".join(shown) + stream.finish()


def test_a_stream_holds_back_no_more_than_it_must(key):
    """What cannot be the beginning of a secret is shown at once, so that lines appear as they are written."""
    stream = TextStream()
    assert "a line\n" == stream.take("a line\n")
    assert "ask " == stream.take("ask sk-4f9")
    assert "sk-4f9!" == stream.take("!")
    assert "" == stream.finish()


def test_nothing_known_costs_nothing():
    """Where no secret is known, values, texts and streams pass as they are."""
    value = {"a": [PLAIN]}
    assert redact(value) is value
    assert PLAIN == TextStream().take(PLAIN)


def test_twenty_secrets_cost_little():
    """A megabyte of prose is looked through for twenty secrets in all spellings well under ten milliseconds."""
    drawn = random.Random(1)
    letters = string.ascii_letters + string.digits
    for number in range(20):
        process.know(f"KEY{number}", "".join(drawn.choice(letters) for _ in range(40)))
    words = ["".join(drawn.choice(string.ascii_lowercase) for _ in range(drawn.randint(2, 9))) for _ in range(2_000)]
    prose = " ".join(drawn.choice(words) for _ in range(170_000))[:1_000_000]
    taken = []
    for _ in range(20):
        began = time.perf_counter()
        assert redact(prose) is prose
        taken.append(time.perf_counter() - began)
    assert min(taken) < 0.01


# --- the registry ---------------------------------------------------------------------------------------------------
def test_a_secret_of_the_environment_is_known_by_its_name():
    """`Secret(name)` is the variable of that name, whether the environment was read before it was named or after."""
    before = Secret("DATABASE")
    process.read_environment({"DATABASE": "4f9aQ27xLm", "LATER": "Zq81-Zq82-Zq83"})
    assert ("4f9aQ27xLm", "[secret DATABASE]") == (before.reveal(), redact_text("4f9aQ27xLm"))
    assert "Zq81-Zq82-Zq83" == redact_text("Zq81-Zq82-Zq83")
    after = Secret("LATER")
    assert ("[secret LATER]", "Zq81-Zq82-Zq83") == (redact_text("Zq81-Zq82-Zq83"), after.reveal())


def test_a_secret_that_has_changed_is_masked_as_before():
    """Old and new text have one mask, and the new one is given out."""
    process.read_environment({"API_TOKEN": "old-4f9aQ27xLm"})
    process.read_environment({"API_TOKEN": "new-4f9aQ27xLm"})
    assert "new-4f9aQ27xLm" == Secret("API_TOKEN").reveal()
    assert "[secret API_TOKEN] [secret API_TOKEN]" == redact_text("old-4f9aQ27xLm new-4f9aQ27xLm")


def test_of_an_address_the_whole_is_given_out():
    """Of a URL only the password is masked, until somebody asks for the secret of that name."""
    url = "postgres://app:p-w0rd-77x@db/app"
    process.read_environment({"DATABASE_URL": url})
    assert "postgres://app:[secret DATABASE_URL]@db/app" == redact_text(url)
    assert url == Secret("DATABASE_URL").reveal()
    assert "[secret DATABASE_URL]" == redact_text(url)


def test_a_text_can_be_brought_by_the_program():
    """A secret from a vault is known by the name that the program gives it; equal by name, shown by name."""
    vault = Secret("mail key", "4f9aQ27xLm\n")
    assert ("4f9aQ27xLm", "Secret('mail key')", "[secret mail key]") == (vault.reveal(), repr(vault), str(vault))
    assert (True, False, True) == (
        vault == Secret("mail key"),
        vault == "mail key",
        len({vault, Secret("mail key")}) == 1,
    )
    with pytest.raises(AttributeError, match="does not change"):
        vault.name = "x"


@pytest.mark.parametrize("name", ["", " x", "x ", "a]b", 'a"b', "a\nb", "x" * 200, 3])
def test_a_name_must_stand_in_any_text(name):
    """Masks are put into JSON and lines of a log as they are: what could break them is no name."""
    with pytest.raises(UsageError, match="name it by letters"):
        Secret(name)


def test_a_text_that_cannot_be_masked_is_refused():
    """Too short a text would be masked by chance, too long a one is none; the error does not show it."""
    with pytest.raises(UsageError, match="shorter than 8 bytes") as refused:
        Secret("x", "hunter2")
    assert "hunter2" not in str(refused.value)
    with pytest.raises(LimitExceeded, match="secret 'x' in bytes"):
        Secret("x", "y" * (SECRET_BYTES_MAX + 1))
    process.read_environment({"SHORT": "tiny"})
    with pytest.raises(UsageError, match="shorter than 8 bytes"):
        Secret("SHORT").reveal()


def test_an_unknown_secret_says_what_to_do():
    """A text that this process does not have is asked for by name."""
    with pytest.raises(SecretMissing, match="set the environment variable MAIL_KEY"):
        Secret("MAIL_KEY").reveal()


def test_there_is_a_maximum():
    """A process that comes to know secrets without end is told so, and still masks those that it knows."""
    for number in range(SECRETS_MAX):
        known.process._all[f"K{number}", f"text-{number:08}".encode()] = None
    with pytest.raises(LimitExceeded, match="known secrets"):
        process.know("one more", "4f9aQ27xLm")


def test_names_are_listed():
    """What is known is listed by name, never by text."""
    process.read_environment({"B_TOKEN": "4f9aQ27xLm", "A_TOKEN": "4f9aQ27xLn"})
    assert ("A_TOKEN", "B_TOKEN") == process.names


@given(st.text(min_size=8, max_size=40).filter(lambda text: len(text.strip().encode("utf-8", "ignore")) > 7))
def test_any_text_can_be_a_secret(secret):
    """Whatever letters it has, it is masked in texts and in their bytes."""
    try:
        raw = secret.strip().encode()
    except UnicodeEncodeError:
        return
    masks = Masks([("KEY", raw)])
    if masks.in_text("[secret KEY]") == "[secret KEY]" and raw.decode() not in MASK:
        assert raw.decode() not in masks.in_text(f"a{raw.decode()}b")
        assert raw not in masks.in_bytes(b"a" + raw + b"b")


def test_entries_know_no_other_texts():
    """A payload is walked through by its fields: every type of entry that holds texts can be."""
    assert all(issubclass(kind, msgspec.Struct) for kind in e.Payload.__args__)
