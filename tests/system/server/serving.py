# SPDX-License-Identifier: Apache-2.0
"""A cr_server with a directory and a key of its own.

    class Topic(serving.Case):
        def test_it(self):
            self.serve()
            self.save("--second", self.url("a"), program.pid)
"""
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "commands"))
import case  # noqa: E402
import ports  # noqa: E402
from case import PATIENCE  # noqa: E402

main = case.main


class Case(case.Case):
    def setUp(self):
        super().setUp()
        self.server = None
        held = ports.hold() # also while there is no server
        self.addCleanup(held.close)
        self.port = ports.number(held)
        self.server_words = [] # in front of it
        before = os.environ.get("CRYO_SERVER_KEY")
        os.environ["CRYO_SERVER_KEY"] = self.path("key")
        self.addCleanup(self.put_back, before)
        done = self.run_command("cr_server", "--new-key")
        self.assertEqual((0, self.path("key") + "\n"), (done.returncode, done.stdout), done.stderr)

    @staticmethod
    def put_back(before):
        if before is None:
            del os.environ["CRYO_SERVER_KEY"]
        else:
            os.environ["CRYO_SERVER_KEY"] = before

    def serve(self, *words, listen=None, **where):
        with open(self.path("said"), "a", encoding="utf-8") as errors:
            self.server = self.spawn(*self.server_words, case.command("cr_server"), "--directory", "images",
                                     "--listen", listen or f"127.0.0.1:{self.port}", *words, stderr=errors,
                                     **where)
        line = self.server.stdout.readline()
        found = re.fullmatch(r"cr_server: cryo://127\.0\.0\.1:(\d+)/ has \d+ images? in images\n", line)
        self.assertTrue(found, (line, self.said()))
        self.port = int(found[1])

    def end_server(self, number=signal.SIGTERM):
        self.server.send_signal(number)
        status = self.server.wait(PATIENCE)
        self.assertEqual(0 if number == signal.SIGTERM else -number, status, self.said())

    def said(self):
        """By the server, on standard error."""
        with open(self.path("said"), encoding="utf-8") as file:
            return file.read()

    def url(self, name, port=None):
        return f"cryo://127.0.0.1:{port or self.port}/{name}"

    def stored(self):
        """Names of images that the server has, and what is on its way."""
        return sorted(name.split("~")[0] for name in os.listdir(self.path("images")) if name != ".lock")

    def start_large(self):
        """A program whose image has more than a server takes ahead."""
        return self.start(setup="import os; memory = os.urandom(24 << 20)")


class Middle:
    """Stands between a client and the server: records what the client says, and may end it there."""

    def __init__(self, to, most=None, then=lambda: None, connections=1):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.recorded = []
        self._to, self._most, self._then = to, most, then
        self._passed = 0
        self._connections = connections
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self):
        for _ in range(self._connections):
            self._pass_on()

    def _pass_on(self):
        near, _ = self.listener.accept()
        far = socket.create_connection(("127.0.0.1", self._to), PATIENCE)
        with near, far:
            while self._most is None or self._passed < self._most:
                readable, _, _ = select.select([near, far], [], [], PATIENCE)
                if not readable:
                    return
                for one, other in ((near, far), (far, near)):
                    if one not in readable:
                        continue
                    data = one.recv(65536)
                    if not data:
                        return
                    if one is near:
                        self.recorded.append(data)
                        self._passed += len(data)
                    other.sendall(data)
            self._then()

    def end(self):
        self._thread.join(PATIENCE)
        self.listener.close()


def run(words, **how):
    return subprocess.run(words, check=False, capture_output=True, text=True, timeout=PATIENCE, **how)
