"""Which addresses belong to everybody. Pure: it resolves nothing and connects to nothing (that is `fetching.py`).

A page that a model wants to read must not reach what only this machine or its network can reach: the services of the
host, of the office, of the cloud that it runs in. Addresses that carry another one inside count as that one, too.
"""

from __future__ import annotations

import ipaddress
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052: the last 32 bits are an address of version 4
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")  # RFC 4291, long out of use; some stacks still go there


def read_address(text: str) -> Address | None:
    """Return the address that `text` is; None where it is a name."""
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def is_public(address: Address) -> bool:
    """Whether anybody on the internet could mean this host by this address."""
    inner = _inner(address)
    return all(map(_is_global, inner)) if inner else _is_global(address)


def _is_global(address: Address) -> bool:
    is_site_local = isinstance(address, ipaddress.IPv6Address) and address.is_site_local
    is_special = address.is_multicast or address.is_reserved or address.is_unspecified or is_site_local
    return address.is_global and not is_special


def _inner(address: Address) -> tuple[Address, ...]:
    """Return the addresses of version 4 to which one of version 6 leads."""
    if isinstance(address, ipaddress.IPv4Address):
        return ()
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64 or address in _COMPATIBLE:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
    return tuple(one for one in found if one is not None)
