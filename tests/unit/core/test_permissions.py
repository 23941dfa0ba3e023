"""Which calls may run: AutoGPT's patterns against what a call would do, whatever its spelling."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from perdure.config import DENIED
from perdure.core.permissions import Permissions, check_permissions, digest_of_call, judge
from perdure.errors import PatternInvalid
from perdure.tools.builtin.catalogue import catalogue

ROOT = "/home/ada/ws"
AUTOGPT = Permissions(
    allow=("read_file({workspace}/**)", "list_folder({workspace}/**)", "web_search(*)", "execute_shell(git:**)"),
    deny=("read_file(**.env)", "read_file(**.key)", "execute_shell(rm:-rf **)", "execute_shell(sudo:**)"),
)


def outcome(permissions, tool, arguments, workspace=ROOT):
    """Return what may become of a call."""
    return judge(permissions, tool, arguments, workspace).outcome


def shell(line, *, allow=(), deny=()):
    """Return what may become of a shell's line."""
    lists = {
        name: tuple(f"execute_shell({one})" for one in texts) for name, texts in (("allow", allow), ("deny", deny))
    }
    return outcome(Permissions(**lists), "execute_shell", {"command_line": line})


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("read_file", {"filename": "a.txt"}, "allow"),
        ("read_file", {"filename": f"{ROOT}/deep/er/a.txt"}, "allow"),
        ("read_file", {"filename": "x/../a.txt"}, "allow"),
        ("read_file", {"filename": "../other/a.txt"}, "ask"),
        ("read_file", {"filename": f"{ROOT}/../ws2/a.txt"}, "ask"),
        ("read_file", {"filename": f"{ROOT}2/a.txt"}, "ask"),
        ("read_file", {"filename": "//etc/passwd"}, "ask"),
        ("read_file", {"filename": "~/a.txt"}, "allow"),
        ("read_file", {"filename": ".env"}, "deny"),
        ("read_file", {"filename": "x/../.env/."}, "deny"),
        ("read_file", {"filename": "/etc/prod.env"}, "deny"),
        ("list_folder", {}, "allow"),
        ("list_folder", {"folder": "."}, "allow"),
        ("list_folder", {"folder": "/"}, "ask"),
        ("write_to_file", {"filename": "a.txt", "contents": "x"}, "ask"),
        ("web_search", {"query": "either/or"}, "allow"),
        ("execute_shell", {"command_line": "git add src/x.py"}, "allow"),
        ("execute_shell", {"command_line": "git status"}, "allow"),
        ("execute_shell", {"command_line": "git"}, "allow"),
        ("execute_shell", {"command_line": "gitk"}, "ask"),
        ("execute_shell", {"command_line": "git status; ls"}, "ask"),
        ("execute_shell", {"command_line": "git status && sudo ls"}, "deny"),
        ("execute_shell", {"command_line": "rm -rf /"}, "deny"),
        ("execute_shell", {"command_line": ""}, "ask"),
        ("read_webpage", {"url": "https://example.org/"}, "ask"),
        ("todo", {}, "ask"),
    ],
)
def test_deny_goes_before_allow_and_the_rest_asks(tool, arguments, expected):
    """With AutoGPT's own patterns: paths are compared as they are meant, a line by each of its commands."""
    assert expected == outcome(AUTOGPT, tool, arguments)


def test_a_verdict_names_the_pattern_and_what_was_decisive():
    """So that people and models can be told why."""
    denied = judge(AUTOGPT, "execute_shell", {"command_line": "git log; sudo x"}, ROOT)
    assert ("deny", "execute_shell(sudo:**)") == (denied.outcome, denied.rule)
    allowed = judge(AUTOGPT, "read_file", {"filename": "b/../a"}, ROOT)
    assert ("allow", "read_file({workspace}/**)", f"{ROOT}/a") == (allowed.outcome, allowed.rule, allowed.subject)
    asked = judge(AUTOGPT, "execute_shell", {"command_line": "git log; ls -l"}, ROOT)
    assert ("ask", "", "ls -l") == (asked.outcome, asked.rule, asked.subject)


def test_one_star_stops_at_a_slash_and_two_do_not():
    """As in AutoGPT; a star alone is any call of the tool."""
    one, two, alone = (Permissions(allow=(f"read_file({text})",)) for text in ("{workspace}/*", "{workspace}/**", "*"))
    for permissions, expected in ((one, "ask"), (two, "allow"), (alone, "allow")):
        assert "allow" == outcome(permissions, "read_file", {"filename": "a"})
        assert expected == outcome(permissions, "read_file", {"filename": "a/b"})
    assert "allow" == outcome(alone, "read_file", {"filename": "/etc/passwd"})


def test_a_pattern_without_a_root_counts_from_the_workspace():
    """`docs/**` is a folder of the workspace, `**.md` any such file."""
    docs = Permissions(allow=("read_file(docs/**)", "read_file(**.md)"))
    paths = ("docs/a", "docs", "docs2/a", "a.md", "/etc/a.md")
    found = [outcome(docs, "read_file", {"filename": path}) for path in paths]
    assert ["allow", "allow", "ask", "allow", "allow"] == found


def test_letters_that_mean_something_elsewhere_mean_nothing_here():
    """Neither in a pattern nor in the name of the workspace."""
    dots = Permissions(allow=("read_file({workspace}/a.b+c[d]/**)",))
    assert "allow" == outcome(dots, "read_file", {"filename": "a.b+c[d]/x"}, "/w*.(x)")
    assert "ask" == outcome(dots, "read_file", {"filename": "axb+c[d]/x"}, "/w*.(x)")
    assert "ask" == outcome(dots, "read_file", {"filename": "/wzz.x/a.b+c[d]/x"}, "/w*.(x)")
    assert "allow" == outcome(Permissions(allow=("read_file({workspace}/**)",)), "read_file", {"filename": "a"}, "/")


def test_each_path_of_a_call_counts():
    """What is copied out of the workspace is asked for, and what is denied at either end is denied."""
    both = Permissions(allow=("copy_file({workspace}/**)", "git_add({workspace}/**)"), deny=("copy_file(**.key)",))
    assert "allow" == outcome(both, "copy_file", {"source": "a", "destination": "b"})
    assert "ask" == outcome(both, "copy_file", {"source": "a", "destination": "/tmp/b"})
    assert "deny" == outcome(both, "copy_file", {"source": "a.key", "destination": "/tmp/b"})
    assert "ask" == outcome(both, "git_add", {"path": ["a", "../b"]})
    assert "allow" == outcome(both, "git_add", {"path": ["a", "b"]})


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://docs.python.org/3/", "allow"),
        ("HTTPS://Docs.Python.ORG:443/3/", "allow"),
        ("https://docs.python.org", "allow"),
        ("https://docs.python.org@evil.example/3/", "ask"),
        ("https://me@docs.python.org/3/", "ask"),
        ("https://docs.python.org.evil.example/", "ask"),
        ("http://docs.python.org/3/", "ask"),
        ("https://docs.python.org/private/x", "deny"),
        ("https://docs.python.org/3/%2E%2e/private/x", "deny"),
        ("https://docs.python.org./private/x", "deny"),
        ("https://me@docs.python.org:8443/private/x", "deny"),
        ("https://[::1", "ask"),
        ("https://docs\u3002python.org/private/x", "deny"),
        ("https://docs.python\uff0eorg/3", "allow"),
    ],
)
def test_an_address_is_compared_as_it_is_meant(url, expected):
    """Host in small letters, without dots that lead up, and no user's name passes for a host."""
    permissions = Permissions(
        allow=("read_webpage(https://docs.python.org/**)",), deny=("read_webpage(https://docs.python.org/private/*)",)
    )
    assert expected == outcome(permissions, "read_webpage", {"url": url})


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ls -l", "allow"),
        ("ls", "allow"),
        ("/tmp/ls", "ask"),
        ("PATH=/tmp ls", "ask"),
        ("ls $(cat x)", "ask"),
        ("ls | tee x", "ask"),
        ("$X -l", "ask"),
        ("ls <<EOF\n'\nEOF\nevil", "ask"),
        ("ls 'a", "ask"),
        ("npm run build", "allow"),
        ("npm run build --now", "ask"),
        ("cat /data/x", "allow"),
        ("cat /data/../etc/passwd", "ask"),
        ("cat /data/x /etc/passwd", "ask"),
        ("cat /data/x/$Y", "ask"),
        ("cat docs/x", "allow"),
        ("cat docs/x.txt", "allow"),
        ("cat docs/../../etc/passwd", "ask"),
        ("cat docs/{x,../y}", "ask"),
        ("cat docs/x docs/y", "ask"),
        ("head -n5 docs/x", "allow"),
        ("head -n5 docs/..", "ask"),
        ("make --file={workspace}/x", "allow"),
        ("make --file={workspace}/../x", "ask"),
        ("ls &> out rm x", "ask"),
    ],
)
def test_a_program_is_allowed_as_it_is_named_and_nothing_beside_it(line, expected):
    """Not another of that name, not with another environment, not what cannot be read."""
    patterns = (
        "ls:**",
        "npm run build",
        "cat:/data/**",
        "cat:docs/**",
        "head:-n5 docs/*",
        "make:--file={workspace}/**",
    )
    assert expected == shell(line.replace("{workspace}", ROOT), allow=patterns)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("git log > out", "allow"),
        ("git log 2>&1 >> {workspace}/a/out", "allow"),
        ("git log 2> /dev/null >&2", "allow"),
        ("git apply < /data/patch", "allow"),
        ("git log > /etc/x", "ask"),
        ("git log >> ../x", "ask"),
        ("git log 2> {workspace}/../x", "ask"),
        ("git log >| ~/.bashrc", "ask"),
        ("git log &> $HOME/x", "ask"),
        ("git log >& a*", "ask"),
        ("git log <> /x", "ask"),
    ],
)
def test_a_program_that_is_allowed_writes_no_file_elsewhere(line, expected):
    """What the shell writes for it lies in the workspace; a pattern of a program is none of any file."""
    assert expected == shell(line.replace("{workspace}", ROOT), allow=("git:**",))


@pytest.mark.parametrize(
    "line",
    ["cat /etc/x", "cat //etc/x", "cat /usr/../etc/x", "cat < /etc/x", "cat 2>&1 < /etc/../etc/x", "/bin/cat /etc/x"],
)
def test_a_path_is_denied_however_it_is_written(line):
    """Without what leads up and down again, and also where the shell opens it for the program."""
    assert "deny" == shell(line, allow=("*",), deny=("cat:/etc/**",))


@pytest.mark.parametrize(
    "line",
    ["sudo ls /x", "/usr/bin/sudo ls", "env sudo ls", "bash -c 'a; sudo ls'", "a <<E\nsudo ls\nE", "s'ud'o", "sudo"],
)
@pytest.mark.parametrize("pattern", ["sudo", "sudo:*", "sudo:**"])
def test_a_program_is_denied_however_it_is_started(line, pattern):
    """Also where every line is allowed: a pattern of `deny` is taken widely."""
    assert "deny" == shell(line, allow=("*",), deny=(pattern,))


def test_a_tool_has_the_patterns_of_its_other_names():
    """A pattern may be older than the tool's name."""
    permissions = Permissions(allow=("write_file({workspace}/**)",), deny=("put(**.env)",))
    call = ("write_to_file", {"filename": "a"}, ROOT)
    assert "ask" == judge(permissions, *call).outcome
    assert "allow" == judge(permissions, *call, aliases=("write_file",)).outcome
    assert (
        "deny" == judge(permissions, "write_to_file", {"filename": ".env"}, ROOT, aliases=("write_file", "put")).outcome
    )


def test_what_fits_none_of_the_only_ones_is_denied():
    """The tools that are named so; others are not concerned, and what fits still has to be allowed."""
    permissions = Permissions(only=("execute_shell(git:**)", "execute_shell(ls:**)"), allow=("execute_shell(ls:**)",))
    found = [outcome(permissions, "execute_shell", {"command_line": line}) for line in ("ls", "git x", "ls; cat", "`")]
    assert ["allow", "ask", "deny", "deny"] == found
    assert "ask" == outcome(permissions, "read_file", {"filename": "a"})


def test_a_tool_of_anybody_is_compared_by_its_values():
    """In the order of the arguments' names, not in one that a model can choose; a path among them as it is meant."""
    permissions = Permissions(allow=("send(ada:**)", "tidy(/data/**)"), deny=("send(**:all)",))
    assert "allow" == outcome(permissions, "send", {"text": "hi", "a_to": "ada"})
    assert "deny" == outcome(permissions, "send", {"z_list": "all", "a_to": "ada"})
    assert "deny" == outcome(permissions, "send", {"a_to": "ada", "z_list": "all"})
    assert "ask" == outcome(permissions, "tidy", {"where": "/data/../etc"})
    assert "ask" == outcome(permissions, "send", {"n": 1, "of": {"b": [True]}})


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("read_file", "not TOOL"),
        ("read_file()", "not TOOL"),
        ("read file(x)", "not TOOL"),
        ("read_file({worksapce}/**)", "{worksapce} is not known"),
        ("read_file(~/x)", "~ is not known"),
        ("read_file({workspace}/../x)", "without"),
        ("read_file(/a//b)", "without"),
    ],
)
@pytest.mark.parametrize("field", ["allow", "deny", "only"])
def test_a_pattern_that_could_never_be_meant_so_is_refused_by_name(pattern, why, field):
    """Before anything runs: a pattern that fits nothing protects from nothing."""
    with pytest.raises(PatternInvalid, match=why) as caught:
        check_permissions(Permissions(**{field: ("web_search(*)", pattern)}))
    assert pattern == caught.value.pattern


def test_good_patterns_pass():
    """Those of AutoGPT, and a shell's braces are no holes."""
    check_permissions(AUTOGPT)
    check_permissions(Permissions(allow=("execute_shell(awk:{print} **)", "server.tool-x(a b)")))


def test_a_digest_stands_for_one_call():
    """Another value, type, name or tool gives another; the order of the arguments does not."""
    calls = [("a", {"x": 1}), ("a", {"x": 2}), ("a", {"x": "1"}), ("a", {"y": 1}), ("b", {"x": 1}), ("a", {"x": True})]
    assert len(calls) == len({digest_of_call(*call) for call in calls})
    assert digest_of_call("a", {"x": 1, "y": 2}) == digest_of_call("a", {"y": 2, "x": 1})


TOKENS = st.lists(
    st.sampled_from([
        "ok", "evil", "ok", "evil", " ", " ", ";", "\n", "&&", "||", "|", "&", "'", '"', "\\", "$(", ")", "`", "#", "(",
        "{ ", " }", "if ", "then ", "fi", "<<A\n", "\nA\n", "<(", ">o", "<o", "2>&1", "x=1 ", "$x", "${x}", "!", "x",
    ]),
    max_size=14,
)  # fmt: skip


@pytest.fixture(scope="module")
def bin_folder(tmp_path_factory):
    """A folder with two programs: `ok`, which does nothing, and `evil`, which leaves a trace."""
    folder = tmp_path_factory.mktemp("bin")
    for name, text in (("ok", ":"), ("evil", 'echo x >> "$TRACE"')):
        path = folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    return folder


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=TOKENS)
@example(parts=["ok", " ", "#", "'", "\n", "evil", " ", "#", "'"])
@example(parts=["ok", "<<A\n", "'", "\nA\n", "evil", " ", "#", "'"])
@example(parts=["ok", " ", '"', "$(", "evil", ")", '"'])
@example(parts=["ok", "\\", "\n", "evil"])
@example(parts=["ok", ">o", "&", "evil"])
@example(parts=["evil", "$x"])
@example(parts=[">o", " ", "evil", "`", "`"])
def test_a_real_shell_never_runs_more_than_was_read(bin_folder, tmp_path, parts):
    """Whatever the line: where all of it is allowed nothing else ran, and what ran and is denied was found."""
    line = "".join(parts)
    if "evil" not in line:
        return
    is_allowed = shell(line, allow=("ok:**",)) == "allow"
    is_denied = shell(line, allow=("*",), deny=("evil:**",)) == "deny"
    if is_denied and not is_allowed:
        return  # whatever it runs
    trace = tmp_path / "trace"
    trace.unlink(missing_ok=True)
    environ = {"PATH": str(bin_folder), "TRACE": str(trace), "HOME": str(tmp_path)}
    subprocess.run(
        [Path("/bin/bash"), "-c", line], env=environ, cwd=tmp_path, capture_output=True, timeout=20, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert not os.path.exists(trace), line


def test_the_paths_of_each_tool_are_compared():
    """Of every tool that comes with the agent it is known what patterns see; a new one has its row here."""
    seen = {
        "append_to_file": ["filename"], "copy_file": ["source", "destination"], "delete_file": ["filename"],
        "execute_python_file": ["filename"], "get_file_info": ["filename"], "list_folder": ["folder"],
        "move_file": ["source", "destination"], "read_file": ["filename"], "search_in_files": ["directory"],
        "write_to_file": ["filename"],
    }  # fmt: skip
    by_hand = {"execute_shell", "execute_python_code", "fetch_webpage", "read_webpage", "web_search"}
    git = {name for name in catalogue() if "git" in name or name == "clone_repository"}
    named = {tool.name: tool for tool in catalogue().values() if tool.name not in git}
    assert seen.keys() | by_hand == named.keys()
    for name, parameters in seen.items():
        assert set(parameters) <= set(named[name].shape.signature.parameters)
        for outside in parameters:
            given = dict.fromkeys(parameters, "x")
            inside = Permissions(allow=(f"{name}({{workspace}}/**)",))
            assert "allow" == outcome(inside, name, given)
            assert "ask" == outcome(inside, name, given | {outside: "/etc/x"})


@pytest.mark.parametrize(
    "line", ["rm -rf x", "rm -fr x", "rm -R x", "rm -f -r x", "rm -v -rf x", "rm -rvf x", "rm --recursive x", "sudo ls"]
)
def test_what_is_denied_where_nobody_says_otherwise_is_denied_however_it_is_spelt(line):
    """Flags apart, together, in any order, long or short; a plain `rm` is only asked about."""
    asked = {"command_line": line}
    assert "deny" == judge(Permissions(deny=DENIED), "execute_shell", asked, ROOT, ()).outcome
    assert (
        "ask" == judge(Permissions(deny=DENIED), "execute_shell", {"command_line": "rm -f a-r.txt"}, ROOT, ()).outcome
    )
