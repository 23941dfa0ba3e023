"""Which addresses are public."""

from __future__ import annotations

import pytest

from perdure.tools.web.addresses import is_public, read_address

PRIVATE = (
    "127.0.0.1", "10.0.0.1", "172.16.5.5", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
    "255.255.255.255", "240.0.0.1", "198.18.0.1", "192.0.2.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1",
    "fec0::1", "ff02::1", "2001:db8::1",
)  # fmt: skip
CARRYING = ("::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2001:0:7f00:1::")
PUBLIC = ("8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::")


@pytest.mark.parametrize("text", PRIVATE)
def test_an_address_that_is_not_everybodys_is_private(text):
    """Loopback, link-local, private, shared, reserved and multicast ones alike."""
    assert not is_public(read_address(text))


@pytest.mark.parametrize("text", CARRYING)
def test_an_address_that_carries_a_private_one_counts_as_that(text):
    """Mapped, translated and tunnelled addresses lead to the inner one."""
    assert not is_public(read_address(text))


@pytest.mark.parametrize("text", PUBLIC)
def test_an_address_of_the_internet_is_public(text):
    """So are those that carry one."""
    assert is_public(read_address(text))


def test_a_name_is_no_address():
    """Whatever the system's resolver would make of it: what it makes of it is judged."""
    assert read_address("localhost") is None
    assert read_address("2130706433") is None
