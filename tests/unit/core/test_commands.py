"""What a line of a shell runs, as permissions read it: never less than it would; unclear where that is unsure."""

import pytest

from perdure.core.commands import commands_of, readings_of


def words(line):
    """Return the commands of a line as text, None where it is unclear."""
    commands = commands_of(line)
    return None if commands is None else [" ".join(command.words) for command in commands]


@pytest.mark.parametrize(
    ("line", "commands"),
    [
        ("ls -l 'a b'", ["ls -l a b"]),
        ("a; b && c || d | e & f\ng", ["a", "b", "c", "d", "e", "f", "g"]),
        ("echo 'a; b' \"c | d\" e\\;f", ["echo a; b c | d e;f"]),
        ("echo $(sudo x)", ["sudo x", "echo $(sudo x)"]),
        ("echo `sudo x`", ["sudo x", "echo `sudo x`"]),
        ('echo "$(sudo "a b")"', ["sudo a b", 'echo $(sudo "a b")']),
        ("echo '$(sudo x)'", ["echo $(sudo x)"]),
        ("echo \\$(sudo x)", ["echo $", "sudo x"]),
        ("diff <(sudo a) >(b)", ["sudo a", "b", "diff <(sudo a) >(b)"]),
        ("(a; b) && { c; }", ["a", "b", "c"]),
        ("if a; then b; else c; fi", ["a", "b", "c"]),
        ("for x in 1 2; do a $x; done", ["a $x"]),
        ("case $x in a) b;; c) d;; esac", ["b", "c", "d"]),
        ("! a", ["a"]),
        ("f() { sudo x; }", ["f", "sudo x"]),
        ("a > out 2>&1 < in", ["a > out 2>& 1 < in"]),
        ("a &> out", ["a > out"]),
        ("a |& b", ["a", "b"]),
        ('s"ud"o\\ x', ["sudo x"]),
        ("su\\\ndo x", ["sudo x"]),
        ("ls \\\n -l", ["ls -l"]),
        ("a # it's\nb # ' c", ["a", "b"]),
        ("a#b", ["a#b"]),
        ("a ''", ["a "]),
        ("X=1 a", ["X=1 a"]),
        ("", []),
        ("  # nothing", []),
    ],
)  # fmt: skip
def test_a_line_is_taken_apart(line, commands):
    """Into all that it runs, quotes away, with what stands in expansions before; rather one more than one less."""
    assert commands == words(line)


@pytest.mark.parametrize(
    "line",
    [
        "echo 'a",
        'echo "a',
        "echo $(a",
        "echo `a",
        "(a",
        "cat <<EOF\nsudo x\nEOF",
        "a ${x:-'b}",
        "$'\\x73udo' x",
        "a $[1]",
        "a &> out b",
    ],
)
def test_what_cannot_be_read_for_sure_is_unclear(line):
    """An open quote or bracket, a here-document, an expansion with a grammar of its own."""
    assert words(line) is None


def test_nesting_without_end_is_unclear():
    """Nobody writes a line like that for good reasons, and reading it costs no more than a bounded effort."""
    assert words("$(" * 10_000 + ")" * 10_000) is None
    assert words("(" * 10_000) is None


@pytest.mark.parametrize("line", ["$X a", "~/a b", "l* a", "{a,b} c", '"$(a)" b'])
def test_a_command_whose_name_is_an_expansion_is_not_known(line):
    """What it is, only the shell will say."""
    assert not commands_of(line)[-1].is_known


@pytest.mark.parametrize(
    "line",
    [
        "sudo x",
        "/usr/bin/sudo x",
        "a; b | sudo x",
        "env A=1 sudo x",
        "A=1 sudo x",
        ">out sudo x",
        "nice -n 5 sudo x",
        "xargs sudo x",
        "find . -exec sudo x",
        "bash -c 'a; sudo x'",
        "sh -c \"sh -c 'sudo x'\"",
        "eval 'sudo x'",
        "timeout 5 /bin/sudo x",
        "f() { sudo x; }; f",
        "function f { sudo x; }; f",
        "echo 'open; sudo x",
        "cat <<EOF\nsudo x\nEOF",
        "echo $(echo `sudo x`)",
        "trap 'sudo x' EXIT",
        "${X}sudo x",
        'su$X"do" x',
        "su$1do x",
        "setpriv --nnp sudo x",
    ],
)
def test_what_is_denied_is_found_in_every_reading(line):
    """By another path, behind another program, in a string that a shell is given, in a line that is unclear."""
    assert any(reading[:2] == ("sudo", "x") for reading in readings_of(line))


@pytest.mark.parametrize("line", ["echo sudo x", "grep 'sudo x' file", "ls # sudo x"])
def test_what_is_only_said_is_no_command(line):
    """An argument of a program that runs none, a quoted text, a comment."""
    assert all(reading[:1] != ("sudo",) for reading in readings_of(line))
