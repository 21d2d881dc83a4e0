"""Everything that is not the recorder's socket: the host's services, the network, every socket family."""

from __future__ import annotations

from pathlib import Path

from arena.verdict import Failed
from tests.hostile.seen import Breaches, Seen, expect


@expect(bare="always")
def host_services(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(bare="always")
def datagrams_out(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(bare="always")
def name_resolution(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect()
def metadata_service(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(bare="as root")
def raw_and_packet_sockets(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect()
def ping_sockets(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect()
def vsock_to_the_hypervisor(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(bare="always")
def netlink_sockets(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect()
def kernel_crypto_sockets(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(contained_only="the kernel would load drivers for it")
def rare_socket_families(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(bare="always")
def abstract_socket(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(verdict=Failed)
def sockets_passed_through_the_recorder(seen: Seen) -> Breaches:
    seen.get("attempt")
    mark = seen.record.events[0].body["episode_id"].partition("-")[2]
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    if any(mark in str(link.readlink()) for link in links):
        yield "the recorder keeps descriptors of the agent's"
