# SPDX-License-Identifier: Apache-2.0
"""An S3 server of a test's own, and what may happen on the way to it.

    server = objects.Server(case)                  # in a directory of its own; ends with the test
    case.run_command("cr_store", ..., env=server.environment())
    server.kill(); server.start()                  # it goes on where it was

    with objects.Way(server) as way:               # another endpoint for the same server
        way.cut(after=1 << 20, then=server.kill)   # once so many bytes have passed to it
        way.refuse(3)                              # the next connections: 503 Slow Down
"""
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "programs"))
import ports  # noqa: E402

BUCKET = "images"
ACCESS, SECRET = "test:tester", "a/secret+of=the:tests"
STRANGER, STRANGERS_SECRET = "test:stranger", "another-secret"
PYTHON = "/usr/bin/python3"  # the one that Debian's packages are for

SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"


class Server:
    def __init__(self, case, *options):
        self.case = case
        self.options = options
        self.kept = tempfile.TemporaryDirectory(prefix="cryo-objects.", dir=os.environ.get("TMPDIR", "/var/tmp"))
        held = ports.hold() # also while it is not there
        self.port = ports.number(held)
        self.process = None
        case.addCleanup(held.close)
        case.addCleanup(self.kept.cleanup)
        case.addCleanup(self.kill)
        self.start("--bucket", BUCKET)

    def start(self, *more):
        complaints = os.path.join(self.kept.name, "complaints")
        with open(complaints, "a", encoding="utf-8") as errors:
            self.process = subprocess.Popen(
                [PYTHON, "-B", os.path.join(HERE, "object_server.py"), self.kept.name, "--port", str(self.port),
                 *self.options, *more], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True)
        if self.process.stdout.readline() != f"ready {self.port}\n":
            self.kill()
            with open(complaints, encoding="utf-8") as errors:
                raise AssertionError(f"the S3 server does not start: {errors.read()}")

    def kill(self):
        process, self.process = self.process, None # a thread of a Way calls this, too
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()

    def environment(self, port=None, scheme="http", **changes):
        """Of a command that uses it. None: a variable is not set."""
        made = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        made.update(AWS_ENDPOINT_URL=f"{scheme}://127.0.0.1:{port or self.port}", AWS_REGION="eu-test-1",
                    AWS_ACCESS_KEY_ID=ACCESS, AWS_SECRET_ACCESS_KEY=SECRET, HOME=self.kept.name)
        made.update(changes)
        return {name: value for name, value in made.items() if value is not None}

    def contents(self):
        """Files on its disk that are contents of objects, the largest last."""
        found = []
        for directory, _, names in os.walk(os.path.join(self.kept.name, "devices", "disk", "objects")):
            found += [os.path.join(directory, name) for name in names if name.endswith(".data")]
        return sorted(found, key=os.path.getsize)


class Way:
    """Passes bytes on, and counts those to the server."""

    def __init__(self, server):
        self.server = server
        self.sent = 0
        self.received = 0
        self.refused = 0
        self.to_refuse = 0
        self.at = {"sent": (None, None), "received": (None, None)}
        self.lock = threading.Lock()
        self.door = socket.create_server(("127.0.0.1", 0))
        self.port = self.door.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with self.lock: # whatever happens at a cut is over then
            pass
        self.door.shutdown(socket.SHUT_RDWR)
        self.door.close()

    def environment(self, **changes):
        return self.server.environment(port=self.port, **changes)

    def cut(self, direction="sent", after=0, then=lambda: None):
        """All connections are cut, once, when so many bytes more have passed in this direction."""
        with self.lock:
            self.at[direction] = (getattr(self, direction) + after, then)

    def refuse(self, connections):
        self.to_refuse = connections

    def serve(self):
        while True:
            try:
                client, _ = self.door.accept()
            except OSError:
                return
            with self.lock:
                refuse = self.to_refuse > 0
                self.to_refuse -= refuse
            threading.Thread(target=self.turn_away if refuse else self.pass_on, args=(client,), daemon=True).start()

    def turn_away(self, client):
        with client:
            client.recv(1 << 16)
            client.sendall(b"HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\nConnection: close\r\n"
                           b"Content-Length: %d\r\n\r\n" % len(SLOW_DOWN) + SLOW_DOWN)
            self.refused += 1

    def pass_on(self, client):
        try:
            server = socket.create_connection(("127.0.0.1", self.server.port))
        except OSError:
            client.close()
            return
        both = (client, server)
        back = threading.Thread(target=self.copy, args=(server, client, "received", both), daemon=True)
        back.start()
        self.copy(client, server, "sent", both)
        back.join()
        for one in both:
            one.close()

    def copy(self, source, target, direction, both):
        try:
            while piece := source.recv(1 << 14):
                with self.lock:
                    setattr(self, direction, getattr(self, direction) + len(piece))
                    limit, then = self.at[direction]
                    if limit is not None and getattr(self, direction) >= limit:
                        self.at[direction] = (None, None)
                        then()
                        break
                target.sendall(piece)
        except OSError:
            pass
        for one in both:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


if __name__ == "__main__":
    sys.exit("this is imported by tests")
