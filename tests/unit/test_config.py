"""Settings: which source wins, what is refused, and where the store is found."""

from pathlib import Path

import pytest

from perdure.config import find_place, load_config, unknown_variables
from perdure.core.permissions import judge
from perdure.errors import ConfigInvalid
from perdure.limits import WORKSPACE_FILE_BYTES_MAX


@pytest.fixture
def places(tmp_path):
    """A project with a folder below it, and a home."""
    (tmp_path / "home" / ".config" / "perdure").mkdir(parents=True)
    (tmp_path / "project" / ".perdure").mkdir(parents=True)
    (tmp_path / "project" / "below").mkdir()
    return tmp_path


def load(places, *, flags=None, user="", project="", **environ):
    """Settings as seen from the folder below the project."""
    (places / "home" / ".config" / "perdure" / "config.toml").write_text(user, "utf-8")
    (places / "project" / ".perdure" / "config.toml").write_text(project, "utf-8")
    environ = {"HOME": str(places / "home"), **environ}
    return load_config(flags or {}, folder=places / "project" / "below", environ=environ)


def test_flag_beats_environment_beats_project_beats_user_beats_default(places):
    """Taking the strongest away uncovers the next."""
    sources = {
        "flags": {"model": "flag"},
        "PERDURE_MODEL": "environment",
        "project": 'model = "project"',
        "user": 'model = "user"',
    }
    seen = []
    while True:
        seen.append(load(places, **sources).text("model"))
        if not sources:
            break
        del sources[next(iter(sources))]
    assert ["flag", "environment", "project", "user", ""] == seen


def test_each_value_knows_where_it_came_from(places):
    """The origin is a flag, a variable, a path, or the word default."""
    config = load(places, flags={"app": "a:b", "log_dir": "x"}, user="unattended = true", PERDURE_MODEL="m")
    assert {
        "allow": "default",
        "app": "flag --app",
        "base_url": "default",
        "fast_model": "default",
        "mcp": "default",
        "prompt_strategy": "default",
        "search": "default",
        "deny": "default",
        "model": "PERDURE_MODEL",
        "health_min": "default",
        "unattended": str(places / "home" / ".config" / "perdure" / "config.toml"),
        "store": f"found {places / 'project' / '.perdure'}",
        "log_dir": "flag --log-dir",
        "log_keep": "default",
        "notify_command": "default",
        "notify_url": "default",
        "workspace_file_max": "default",
        "workspace_ignore": "default",
    } == {key: chosen.origin for key, chosen in config.chosen.items()}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("stroe = 'x'", "did you mean 'store'?"),
        (
            "zzz = 1",
            "known are allow, app, base_url, deny, fast_model, health_min, log_dir, log_keep, mcp, model, ",
        ),
        ("unattended = 'yes'", "true or false"),
        ("store = 3", "text in quotes"),
        ("store = ", "is not TOML"),
        ("[store]\na = 1", "text in quotes"),
        ("allow = 'read_file(*)'", "a list of texts"),
        ("deny = ['read_file(*)', 3]", "a list of texts"),
        ("permissions = 3", "must be a table"),
        ("[permissions]\nalow = []", "unknown key 'alow' in [permissions]; did you mean 'allow'?"),
        ("[permissions]\nzzz = []", "known are allow, deny"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name(places, text, said):
    """Nothing is passed over."""
    with pytest.raises(ConfigInvalid, match=r"config\.toml") as caught:
        load(places, project=text)
    assert said in str(caught.value)


@pytest.mark.parametrize(("text", "is_on"), [("1", True), ("TRUE", True), ("off", False), ("no", False), ("", False)])
def test_yes_and_no_in_the_environment(places, text, is_on):
    """The usual words are understood."""
    assert is_on == load(places, PERDURE_UNATTENDED=text).is_on("unattended")


def test_another_word_in_the_environment_is_refused(places):
    """The variable is named."""
    with pytest.raises(ConfigInvalid, match="PERDURE_UNATTENDED"):
        load(places, PERDURE_UNATTENDED="perhaps")


def test_the_store_is_found_upwards_and_else_made_here(places):
    """The nearest `.perdure` above; without one, one in the working directory."""
    assert str(places / "project" / ".perdure" / "perdure.db") == load(places).text("store")
    elsewhere = load_config(folder=places / "home", environ={"HOME": str(places / "home")})
    assert str(places / "home" / ".perdure" / "perdure.db") == elsewhere.text("store")


def test_a_relative_store_in_a_project_file_counts_from_the_project(places):
    """Whoever calls from a folder below gets the same one."""
    assert str(places / "project" / "data" / "t.db") == load(places, project='store = "data/t.db"').text("store")
    assert "memory://x" == load(places, project='store = "memory://x"').text("store")


def test_a_folder_of_another_user_is_refused(places, monkeypatch):
    """Its config could name code to run."""
    monkeypatch.setattr("os.getuid", lambda: 12_345)
    if (places / "project" / ".perdure").stat().st_uid == 0:
        monkeypatch.setattr(Path, "stat", lambda self, real=Path.stat, **how: _owned_by(real(self, **how), 54_321))
    with pytest.raises(ConfigInvalid, match="belongs to another user"):
        load(places)


def _owned_by(found, user):
    import os

    return os.stat_result((*found[:4], user, *found[5:10]))


def test_variables_that_set_nothing_are_named_with_the_nearest():
    """A typing error in the environment can be shown."""
    found = unknown_variables({"PERDURE_STROE": "", "PERDURE_STORE": "", "PERDURE_DEBUG": "", "OTHER": ""})
    assert {"PERDURE_STROE": "PERDURE_STORE"} == found


def test_a_place_that_is_given_is_taken(monkeypatch, tmp_path):
    """`perdure.open("x")` looks at no settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERDURE_STORE", "y.db")
    assert ("x.db", "y.db") == (find_place("x.db"), find_place())


@pytest.mark.parametrize(
    ("text", "size"), [("64 MiB", 64 << 20), ("10MB", 10_000_000), ("1 gib", 1 << 30), ("3 KB", 3_000), ("0 KB", 0)]
)
def test_sizes_have_units(places, text, size):
    """Units of a thousand and of 1,024 are told apart."""
    assert size == load(places, PERDURE_WORKSPACE_FILE_MAX=text).size_bytes("workspace_file_max")


@pytest.mark.parametrize("text", ["64", "MiB", "-1 MB", "1.5 MB", "1 MB x 5"])
def test_what_is_no_size_is_refused(places, text):
    """The error names where the value came from, the key and the value."""
    with pytest.raises(ConfigInvalid, match=r"PERDURE_WORKSPACE_FILE_MAX: workspace_file_max .*") as caught:
        load(places, PERDURE_WORKSPACE_FILE_MAX=text).size_bytes("workspace_file_max")
    assert repr(text) in str(caught.value)


def test_the_largest_file_is_the_limit(places):
    """The setting's default is the number of `limits.py`."""
    assert WORKSPACE_FILE_BYTES_MAX == load(places).size_bytes("workspace_file_max")


def test_a_secret_is_only_said_to_be_set(places):
    """A webhook's address lets whoever sees it post there."""
    config = load(places, PERDURE_NOTIFY_URL="https://host/secret", PERDURE_NOTIFY_COMMAND="beep")
    assert ("(set)", "beep", "") == (config.shown("notify_url"), config.shown("notify_command"), config.shown("model"))
    assert "https://host/secret" == config.text("notify_url")
    assert "" == load(places).shown("notify_url")


def test_what_a_notified_command_is_given_is_no_unknown_variable():
    """A `perdure doctor` in such a command has nothing to say about them."""
    given = {"PERDURE_TASK_ID": "1", "PERDURE_TASK_NAME": "x", "PERDURE_MODLE": "y"}
    assert {"PERDURE_MODLE": "PERDURE_MODEL"} == unknown_variables(given)


@pytest.mark.parametrize(
    ("text", "share"), [("50 % of 6", (0.5, 6)), ("100% of 20 calls", (1.0, 20)), ("0 % of 1", (0, 1))]
)
def test_a_share_is_percent_and_calls(places, text, share):
    """As the thresholds of health are written."""
    assert share == load(places, PERDURE_HEALTH_MIN=text).share("health_min")


@pytest.mark.parametrize("text", ["101 % of 6", "50 % of 0", "50 % of 21", "6 of 12", "half"])
def test_what_is_no_share_is_refused(places, text):
    """With the place, and an example."""
    with pytest.raises(ConfigInvalid, match=r"PERDURE_HEALTH_MIN.*50 % of 6"):
        load(places, PERDURE_HEALTH_MIN=text).share("health_min")


def test_lists_of_user_and_project_join(places):
    """Each text once, the user's first; in a table or above; one that is given takes the place of the default."""
    user = "[permissions]\nallow = ['a(*)', 'b(*)']"
    project = "allow = ['b(*)', 'c(*)']\n[permissions]\nallow = ['d(*)']\ndeny = []"
    config = load(places, user=user, project=project)
    permissions = config.permissions()
    assert (("a(*)", "b(*)", "c(*)", "d(*)"), ()) == (permissions.allow, permissions.deny)
    assert " and " in config.chosen["allow"].origin
    assert str(places / "project" / ".perdure" / "config.toml") == config.chosen["deny"].origin


def test_a_list_in_the_environment_has_a_line_for_each_text(places):
    """It goes before the files."""
    permissions = load(places, project="allow = ['a(*)']", PERDURE_ALLOW="b(x, y)\n\n c(*) \n").permissions()
    assert ("b(x, y)", "c(*)") == permissions.allow


def test_without_a_word_files_of_the_workspace_are_free_and_secrets_are_denied(places):
    """As in AutoGPT: what else there is, is asked."""
    permissions = load(places).permissions()
    calls = [
        ("read_file", {"filename": "a.md"}),
        ("write_to_file", {"filename": "a.md", "contents": "x"}),
        ("list_folder", {}),
        ("read_file", {"filename": "/etc/passwd"}),
        ("delete_file", {"filename": "a.md"}),
        ("search_in_files", {"pattern": "KEY="}),
        ("execute_shell", {"command_line": "ls"}),
        ("read_file", {"filename": ".env"}),
        ("execute_shell", {"command_line": "ls; sudo ls"}),
    ]
    outcomes = [judge(permissions, tool, arguments, "/ws").outcome for tool, arguments in calls]
    assert ["allow"] * 3 + ["ask"] * 4 + ["deny"] * 2 == outcomes


def test_a_pattern_that_is_none_is_refused_with_its_file(places):
    """Before anything runs by it."""
    config = load(places, project="deny = ['execute_shell']")
    with pytest.raises(ConfigInvalid, match=r"config\.toml: deny: permission 'execute_shell' is no pattern"):
        config.permissions()
