"""The reference pages say what the code does: every verb, option, exit code, setting and field."""

import re
from pathlib import Path

import typer.main

from perdure.cli import exits
from perdure.cli.application import app
from perdure.config import SETTINGS
from perdure.logs import lines as log_lines

PAGES = Path(__file__).parents[2] / "docs" / "reference"
CLI = (PAGES / "cli.md").read_text("utf-8")
CONFIG = (PAGES / "config.md").read_text("utf-8")
LOG = (PAGES / "log.md").read_text("utf-8")
COMMANDS = typer.main.get_command(app).commands
COMMON = {"--store", "--json", "--help"}  # explained once for all


def section(verb):
    """What cli.md says of one verb."""
    return CLI.partition(f"\n## perdure {verb}\n")[2].partition("\n## ")[0]


def test_every_verb_has_a_section_and_every_section_a_verb():
    """Nothing is hidden, nothing promised."""
    assert sorted(COMMANDS) == sorted(re.findall(r"(?m)^## perdure (\S+)$", CLI))


def test_every_option_stands_in_the_section_of_its_verb():
    """An option that is not explained does not exist."""
    missing = [
        (verb, option)
        for verb, command in COMMANDS.items()
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
        if option.startswith("--") and option not in COMMON and f"{option}" not in section(verb)
    ]
    assert [] == missing


def test_no_section_explains_an_option_that_does_not_exist():
    """What was taken away is taken away there too."""
    known = {
        option for command in COMMANDS.values() for one in command.params for option in (*one.opts, *one.secondary_opts)
    }
    known |= COMMON
    assert set() == set(re.findall(r"--[a-z][a-z-]+", CLI)) - known


def test_the_exit_codes_are_those_of_the_table():
    """Every code that the table can give is explained, and no other."""
    codes = {code for _, code in exits.TABLE} | {exits.DONE, exits.FAILED}
    assert sorted(codes) == [int(code) for code in re.findall(r"(?m)^\| (\d+) \|", CLI)]


def test_every_setting_stands_on_its_page():
    """Key and variable of each, and no other."""
    rows = re.findall(r"(?m)^\| `(\w+)` \| `(\w+)` \|", CONFIG)
    assert [(setting.key, setting.variable) for setting in SETTINGS] == rows


def test_every_field_of_a_line_is_explained():
    """The fields that a line can have, as its makers name them, stand in the tables of log.md."""
    source = Path(log_lines.__file__).read_text("utf-8")
    made = set(re.findall(r'(?m)^\s+"([a-z_]+)": ', source)) | set(re.findall(r"([a-z_]+)=(?:asked|settled)\.", source))
    explained = set(re.findall(r"`([a-z_]+)`", LOG))
    assert {"id", "inputs", "key", "effect_key", "settled_by"} <= made
    assert set() == made - explained
