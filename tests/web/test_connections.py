"""Connections of `perfatlas web`: requests that do not arrive are given up."""

from __future__ import annotations

import contextlib
import socket
import time
from typing import Final
from urllib.parse import urlsplit

import pytest

pytest.importorskip("uvicorn")

from perfatlas.web.asking import REQUEST_LIMIT_S
from perfatlas.web.connections import most_connections

HEAD: Final = b"GET /static/page.css HTTP/1.1\r\nHost: localhost\r\n"
BODY: Final = b"POST /api/estimate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"


def _connected(address: str) -> socket.socket:
    url = urlsplit(address)
    return socket.create_connection((url.hostname, url.port), timeout=3 * REQUEST_LIMIT_S)


@pytest.mark.parametrize("sent", [b"", HEAD, BODY, HEAD + b"\r\n" + HEAD])
def test_unfinished_requests_are_given_up(sent: bytes, address: str) -> None:
    with _connected(address) as client:
        client.sendall(sent)
        received = b""
        while part := client.recv(65_536):
            received += part
    expected = b"408" if sent == BODY else b"200" if sent.endswith(HEAD) and sent != HEAD else b""
    assert received[9:12] == expected


def test_a_flood_of_idle_connections_is_limited(address: str) -> None:
    most = most_connections()
    with contextlib.ExitStack() as opened:
        flood = [opened.enter_context(_connected(address)) for _ in range(3 * most)]
        time.sleep(1.0)
        closed = 0
        for client in flood:
            client.settimeout(0.0)
            with contextlib.suppress(BlockingIOError):
                with contextlib.suppress(ConnectionResetError):
                    client.recv(1)
                closed += 1
        assert most - 5 <= closed <= most + 5
    time.sleep(1.0)
    with _connected(address) as client:
        client.sendall(HEAD + b"\r\n")
        assert client.recv(12).endswith(b"200")
