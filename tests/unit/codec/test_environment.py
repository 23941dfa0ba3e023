"""Which environment variables are taken for secrets, and which plain words are not."""

import pytest

from perdure.codec.environment import secrets_in

SECRET = [
    ("OPENAI_API_KEY", "sk-proj-4f9aQ27xLm"),
    ("ANTHROPIC_API_KEY", "sk-ant-api03-Zq81"),
    ("AWS_ACCESS_KEY_ID", "AKIA4QZX81LMPO20"),
    ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCY"),
    ("GITHUB_TOKEN", "ghp_16C7e42F292c"),
    ("GH_PAT", "ghp_16C7e42F292c"),
    ("DB_PASSWORD", "correct horse battery"),
    ("MYSQL_PWD", "tr0ub4dor&3"),
    ("CLIENT_SECRET", "8xLOxBtZp8qQ"),
    ("api_key_2", "d41d8cd98f00b204"),
    ("LICENSE_KEY", "A1B2C3D4E5F6G7"),
    ("SESSION_COOKIE", "c00kie-4f9aQ27"),
    ("SOME_TOKEN", "1234567890123456"),
]
PLAIN = [
    ("SSH_PRIVATE_KEY", "/home/me/.ssh/id_rsa"),
    ("KEYCHAIN_TOKEN", "./token.txt"),
    ("USE_TOKEN", "true"),
    ("TOKEN", "short"),
    ("MAX_TOKEN", "1048576"),
    ("API_TOKEN", "12345678"),
    ("DB_PASSWORD", "postgres"),
    ("DB_PASSWORD", "ChangeMe"),
    ("DB_PASSWORD", "aaaaaaaaaaaa"),
    ("SORT_KEY", "created-at-date"),
    ("PRIMARY_KEY", "customer_number"),
    ("PUBLIC_KEY", "ssh-rsa AAAAB3NzaC1yc2EA4f9"),
    ("TOKEN_TYPE", "bearer-4f9aQ27xLm"),
    ("SECRET_NAME", "prod-4f9aQ27xLm"),
    ("PWD", "work-4f9aQ27xLm"),
    ("PATH", "/usr/bin:/bin"),
    ("MONKEY", "bananas-are-good-4"),
    ("EDITOR", "vim-4f9aQ27xLm"),
    ("DATABASE_URL", "postgres://localhost:5432/app"),
    ("OPENAI_BASE_URL", "https://host:8080/v1"),
]


@pytest.mark.parametrize(("name", "value"), SECRET)
def test_what_says_that_it_is_secret_is_taken_for_one(name, value):
    """A name that says so, and a value that could be one, make a secret; blanks around it are none of it."""
    assert ((name, value),) == secrets_in({name: f" {value}\n", "HOME": "/root"})


@pytest.mark.parametrize(("name", "value"), PLAIN)
def test_no_plain_word_is_taken_for_a_secret(name, value):
    """Paths, switches, numbers, placeholders, names of columns and addresses stay readable in every record."""
    assert () == secrets_in({name: value})


def test_of_an_address_the_password_is_secret():
    """Of a URL that holds a password only that is masked, as it is spelt and as it is meant."""
    found = secrets_in({"DATABASE_URL": "postgres://app:p%40ss-w0rd-77@db:5432/app", "REDIS": "redis://:tiny@db"})
    assert (("DATABASE_URL", "p@ss-w0rd-77"),) == found


def test_an_address_that_gives_access_is_secret_as_a_whole():
    """Whoever knows the address of a webhook can post there."""
    url = "https://hooks.example/services/T0/B0/4f9aQ27xLm"
    assert (("SLACK_WEBHOOK_URL", url),) == secrets_in({"SLACK_WEBHOOK_URL": url})


def test_what_is_too_large_is_no_secret():
    """A variable of a megabyte is data, whatever it is called."""
    assert () == secrets_in({"SOME_TOKEN": "x1y2z3-" * 20_000})
