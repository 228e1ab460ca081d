#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is in the way may pass by itself: then it is tried again, and the program goes on meanwhile."""
import errno
import json
import re
import socket
import threading
import time

import case

LISTENS = """
import os, socket, tempfile
def answer():
    taken = listener.accept()[0]
    taken.sendall(b"well")
    taken.close()
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
"""
ON_REQUEST = "if line.strip() == 'answer': answer()"


class Retry(case.Case):
    def start_server(self, setup="", each=ON_REQUEST):
        """It listens, and answers one connection when it is told to; and the port."""
        program = self.spawn(case.command("cr_run"), "/usr/bin/python3", "-S", "-c",
                             case.ECHO.format(setup=LISTENS + setup, each=each))
        port = int(program.stdout.readline())
        self.assertEqual("ready\n", program.stdout.readline())
        return program, port

    def connect(self, port):
        connection = socket.create_connection(("127.0.0.1", port), case.PATIENCE)
        self.addCleanup(connection.close)
        return connection

    def saved_after(self, program, let_pass):
        """A checkpoint that is refused at first, until LET_PASS has been called."""
        checkpoint = self.spawn(case.command("cr_checkpoint"), "-v", "--json", "--retry=60", "-f",
                                "image", program.pid, stderr=-1)
        for line in checkpoint.stderr:
            if "refused for now" in line:
                break
        else:
            self.fail("it was not refused at first")
        let_pass()
        said, rest = checkpoint.communicate(timeout=case.PATIENCE)
        self.assertEqual(0, checkpoint.returncode, said + rest)
        self.assertGreaterEqual(json.loads(said)["tries"], 2)
        self.end(program)
        self.assert_good("image")

    def test_accepted_meanwhile(self):
        program, port = self.start_server()
        connection = self.connect(port)

        def accept():
            self.assert_alive(program, "answer")
            self.assertEqual(b"well", connection.recv(9))

        self.saved_after(program, accept)

    def test_closed_meanwhile(self):
        program, port = self.start_server(
            "held = []", "held.append(listener.accept()[0]) if not held else held[0].close()")
        connection = self.connect(port)
        self.assert_alive(program)

        def close():
            self.assert_alive(program)
            self.assertEqual(b"", connection.recv(9))

        self.saved_after(program, close)

    def test_request_ended_meanwhile(self):
        """Of asynchronous I/O: it waits for a pipe, and its event is in the image."""
        program, _ = self.start_server("""
import ctypes, struct
listener.close()
ends = os.pipe()
kernel = ctypes.CDLL(None, use_errno=True).syscall
context = ctypes.c_ulong()
assert kernel(206, 1, ctypes.byref(context)) == 0, ctypes.get_errno()  # io_setup
# Data, key, flags, IOCB_CMD_POLL, priority, descriptor, POLLIN.
request = ctypes.create_string_buffer(
    struct.pack("<QIIHhIQQqQII", 7, 0, 0, 5, 0, ends[0], 1, 0, 0, 0, 0, 0))
assert kernel(209, context, 1, ctypes.byref(ctypes.pointer(request))) == 1  # io_submit
def data_of_event():
    event = (ctypes.c_uint64 * 4)()
    assert kernel(208, context, 0, 1, ctypes.byref(event), None) == 1  # io_getevents
    return event[0]
""", """
    if line.strip() == 'end': os.write(ends[1], b'x')
    if line.strip() == 'fetch': assert data_of_event() == 7
""")
        self.saved_after(program, lambda: self.assert_alive(program, "end"))
        restarted = self.restart("-q", "image")
        self.assert_alive(restarted, "fetch")
        self.assert_alive(restarted)
        self.end(restarted)

    def test_short_connections(self):
        """One after the other: often somebody is there or about to be."""
        program, port = self.start_server("""
import threading
def serve():
    while True:
        answer()
threading.Thread(target=serve, daemon=True).start()
""")
        ended = threading.Event()
        answered = []

        def call():
            while not ended.wait(0.002):
                with socket.create_connection(("127.0.0.1", port), case.PATIENCE) as connection:
                    answered.append(connection.recv(9))

        caller = threading.Thread(target=call)
        caller.start()
        try:
            for _ in range(10):
                done = self.checkpoint("--retry=60", "-f", "image", program.pid)
                self.assertEqual(0, done.returncode, done.stderr)
        finally:
            ended.set()
            caller.join(case.PATIENCE)
        self.assertEqual({b"well"}, set(answered), "no client has noticed")
        self.end(program)
        self.assert_good("image")

    def assert_tried(self, said):
        found = re.search(r"tried (\d+) times over ([\d.]+) s", said)
        self.assertIsNotNone(found, said)
        self.assertGreaterEqual(int(found[1]), 2)
        return float(found[2])

    def test_nobody_accepts(self):
        program, port = self.start_server()
        self.connect(port)
        said = self.refuse(errno.ENOTSUP, "--retry=1", "-f", "image", program.pid)
        self.assertIn("nobody has accepted yet", said)
        self.assertLessEqual(0.5, self.assert_tried(said))
        self.assertIn("--retry=SECONDS tries for longer", said)
        self.assertEqual([], self.files())
        said = self.refuse(errno.ENOTSUP, "--retry=0", "-f", "image", program.pid)
        self.assertNotIn("tried", said)
        self.assert_alive(program, "answer")

    def test_connection_that_stays(self):
        """It is not waited for as long as for what changes all the time."""
        program, port = self.start_server(each="held = listener.accept()")
        self.connect(port)
        self.assert_alive(program)
        begun = time.monotonic()
        said = self.refuse(errno.ENOTSUP, "--retry=600", "-f", "image", program.pid)
        self.assertIn("--sockets=close", said)
        self.assert_tried(said)
        self.assertNotIn("tries for longer", said)
        self.assertLess(time.monotonic() - begun, case.PATIENCE)

    def test_something_else_too(self):
        """What does not pass by itself is said at once, together with what might have."""
        program, port = self.start_server(
            "import ctypes\n"
            "context = ctypes.c_ulong()\n"
            "assert ctypes.CDLL(None).syscall(206, 1, ctypes.byref(context)) == 0\n"  # io_setup
            "ctypes.memset(context.value + 16, 0, 4)")  # what says that this is a ring
        self.connect(port)
        said = self.refuse(errno.ENOTSUP, "-f", "image", program.pid)
        self.assertIn("nobody has accepted yet", said)
        self.assertIn("whose ring is not understood", said)
        self.assertNotIn("tried", said)

    def test_limit_of_time(self):
        program, port = self.start_server()
        self.connect(port)
        begun = time.monotonic()
        done = self.checkpoint("-t", "1", "--retry=600", "-f", "image", program.pid)
        self.assertLess(time.monotonic() - begun, case.PATIENCE)
        self.assertIn(done.returncode, (errno.ENOTSUP, errno.ETIME))
        self.assertNotIn("--retry", done.stderr)
        self.assert_alive(program, "answer")

    def test_killed_when_it_can_be_saved(self):
        program, port = self.start_server()
        self.connect(port)
        self.refuse(errno.ENOTSUP, "--retry=1", "--kill", "-f", "image", program.pid)
        self.assert_alive(program, "answer")
        self.save("--kill", "-f", "image", program.pid)
        self.assertEqual(-9, program.wait(case.PATIENCE))
        self.assert_good("image")


if __name__ == "__main__":
    case.processes.have_own_network()  # for the ports of programs that are killed and come back
    case.main()
