# SPDX-License-Identifier: Apache-2.0
"""A port for a server that ends and comes back, or that is never there.

    held = ports.hold()                # until held.close()
    server = start("--listen", f"127.0.0.1:{ports.number(held)}")
"""
import socket


def hold():
    """A socket whose port of the loopback interface goes to nobody who asks for any, or connects. A server
    that is told of it may listen there if it allows another socket of the port, too (SO_REUSEADDR)."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held


def number(held):
    return held.getsockname()[1]
