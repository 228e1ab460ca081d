#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The backend criu with the criu that the distribution has: criu_test.py BIN COUNTER. For root."""
import errno
import glob
import json
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "system",
                                "programs"))
from waiting import PATIENCE, wait_until  # noqa: E402

ENOSUPPORT = 2356 & 0xff  # CR_ENOSUPPORT
BIN, COUNTER = sys.argv[1:3]


def state(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return "gone"


class Criu(unittest.TestCase):
    """A counter that was started by nobody special, in a session of its own."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="criu.", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, self.directory)
        self.image = self.path("image")
        self.started = []
        self.addCleanup(self.end_all)

    def end_all(self):
        for process in self.started:
            process.kill()
            process.wait()

    def path(self, name):
        return os.path.join(self.directory, name)

    def spawn(self, *words, **where):
        where = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL,
                 "stderr": subprocess.DEVNULL, "cwd": self.directory, "start_new_session": True,
                 **where}
        process = subprocess.Popen([str(word) for word in words], **where)
        self.started.append(process)
        return process

    def counter(self):
        os.mkfifo(self.path("count.go"))
        process = self.spawn(COUNTER, self.path("count"))
        wait_until("its first number", lambda: self.numbers() == 1)
        return process

    def numbers(self):
        try:
            with open(self.path("count"), encoding="ascii") as file:
                lines = file.read().split()
        except FileNotFoundError:
            return 0
        self.assertEqual([str(i) for i in range(len(lines))], lines)
        return len(lines)

    def tell(self, word="on"):
        with open(self.path("count.go"), "w", encoding="ascii") as file:
            file.write(word + "\n")

    def count_on(self):
        before = self.numbers()
        self.tell()
        wait_until("the next number", lambda: self.numbers() == before + 1)

    def command(self, name, *words, **where):
        return subprocess.run([os.path.join(BIN, name), *(str(word) for word in words)],
                              **{"cwd": self.directory, "check": False, "capture_output": True,
                                 "text": True, "timeout": PATIENCE, **where})

    def save(self, *words):
        done = self.command("cr_checkpoint", "--backend=criu", "-f", self.image, *words)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assert_tidy()
        return done

    def refuse(self, code, *words, **where):
        done = self.command("cr_checkpoint", "-f", self.image, *words, **where)
        self.assertEqual(code, done.returncode, done.stderr)
        self.assertFalse(os.path.exists(self.image))
        self.assert_tidy()
        return done.stderr

    def assert_tidy(self):
        wait_until("temporary files to go", lambda: not glob.glob(self.path(".cryo*")) and
                   not glob.glob("/tmp/*cryo*"))

    def restart(self, *words, **where):
        return self.spawn(os.path.join(BIN, "cr_restart"), *words, **where)

    def assert_good(self, counter, numbers):
        """A restart of the image goes on behind so many numbers, as a child, and ends as it ends."""
        restarted = self.restart("-q", self.image)
        wait_until("the process", lambda: state(counter.pid) not in ("gone", "Z"))
        self.assertEqual(numbers, self.numbers())
        self.count_on()
        with open(f"/proc/{counter.pid}/stat", encoding="ascii") as file:
            self.assertEqual(restarted.pid, int(file.read().rsplit(")", 1)[1].split()[1]))
        self.tell("end")
        self.assertEqual(7, restarted.wait(PATIENCE))
        self.assert_tidy()

    def test_it_goes_on_and_comes_back(self):
        counter = self.counter()
        self.count_on()
        said = self.save("-v", counter.pid)
        self.assertEqual("", said.stdout)
        self.assertIn("image", said.stderr)
        self.count_on()
        counter.kill()
        counter.wait()
        os.truncate(self.path("count"), 4)
        self.assert_good(counter, 2)

    def test_killed_and_restarted_from_a_pipe(self):
        counter = self.counter()
        self.save("--kill", counter.pid)
        self.assertEqual(-signal.SIGKILL, counter.wait(PATIENCE))
        with subprocess.Popen(["cat", self.image], stdout=subprocess.PIPE) as cat:
            restarted = self.restart("-F", "0", stdin=cat.stdout)
            wait_until("the process", lambda: state(counter.pid) not in ("gone", "Z"))
        self.count_on()
        restarted.send_signal(signal.SIGTERM)  # is passed on
        self.assertEqual(-signal.SIGTERM, restarted.wait(PATIENCE))

    def test_signals(self):
        counter = self.counter()
        self.save("--stop", counter.pid)
        wait_until("its stop", lambda: state(counter.pid) == "T")
        counter.send_signal(signal.SIGCONT)
        self.count_on()
        self.save("--term", counter.pid)
        self.assertEqual(-signal.SIGTERM, counter.wait(PATIENCE))
        self.assert_good(counter, 2)

    def test_the_image_fails_and_the_program_goes_on(self):
        counter = self.counter()
        for end in ("--kill", "--run"):
            done = self.command("cr_checkpoint", "--backend=criu", "--clobber", "-f", "/dev/full",
                                end, counter.pid)
            self.assertEqual(errno.ENOSPC, done.returncode, done.stderr)
            self.count_on()
        # So it does when nobody is left who could give leave to end it.
        reader, writer = os.pipe()
        command = self.spawn(os.path.join(BIN, "cr_checkpoint"), "--backend=criu", "--kill", "-F",
                             writer, counter.pid, pass_fds=[writer])
        os.close(writer)
        os.read(reader, 1)  # the image is on its way, and does not fit into the pipe
        self.assertEqual("t", state(counter.pid))
        command.kill()
        os.close(reader)
        self.count_on()
        self.assert_tidy()

    def test_a_tree_with_a_pipe(self):
        # The child counts; what its parent gets through a pipe is the numbers.
        os.mkfifo(self.path("go"))

        def got():
            try:
                with open(self.path("got"), encoding="ascii") as file:
                    return file.read().split()
            except FileNotFoundError:
                return []

        def ask(word):
            with open(self.path("go"), "w", encoding="ascii") as file:
                file.write(word + "\n")

        tree = self.spawn("sh", "-c", "exec 3<>go; { i=0; while read go <&3; do i=$((i+1)); "
                          "echo $i; done; } | while read n; do echo $n >> got; done")
        ask("on")
        wait_until("the first number", lambda: got() == ["1"])
        self.refuse(errno.ENOTSUP, "--backend=criu", "--pid", tree.pid)
        self.save("--kill", tree.pid)
        tree.wait(PATIENCE)
        about = json.loads(self.command("cr_inspect", "--json", self.image).stdout)
        self.assertEqual(3, len(about["snapshots"][0]["images"][0]["records"]["foreign"][0]["pids"]))
        restarted = self.restart(self.image)
        wait_until("the tree", lambda: state(tree.pid) not in ("gone", "Z"))
        ask("on")
        wait_until("the second number", lambda: got() == ["1", "2"])
        os.killpg(tree.pid, signal.SIGKILL)
        self.assertEqual(-signal.SIGKILL, restarted.wait(PATIENCE))

    def test_a_connection(self):
        listener = socket.create_server(("127.0.0.1", 0))
        here = socket.create_connection(listener.getsockname())
        there = listener.accept()[0]
        program = self.spawn("sleep", "1000", pass_fds=[here.fileno()])
        here.close()
        said = self.refuse(errno.ENOTSUP, "--backend=criu", program.pid)
        self.assertIn("onnected TCP socket", said)
        self.assertIn("--sockets=close", said)
        self.assertEqual("S", state(program.pid))
        self.save("--sockets=close", "--kill", program.pid)
        there.close()
        listener.close()

    def test_who_may(self):
        counter = self.counter()
        said = self.refuse(ENOSUPPORT, counter.pid)
        self.assertIn("statically linked", said)
        self.assertIn("--backend=criu", said)
        sleeper = self.spawn("sleep", "1000")
        said = self.refuse(ENOSUPPORT, sleeper.pid)
        self.assertIn("under cr_run", said)
        self.assertIn("--backend=criu", said)
        os.chmod(self.directory, 0o777)
        said = self.refuse(errno.EPERM, "--backend=criu", counter.pid, user=1000)
        self.assertIn("root only", said)
        said = self.refuse(errno.ENOTSUP, "--delta", "--backend=criu", counter.pid)
        self.assertIn("--delta", said)
        self.count_on()

    def test_the_image(self):
        counter = self.counter()
        self.save("--compress=always", counter.pid)
        self.assertEqual(0o400, os.stat(self.image).st_mode & 0o777)
        shown = self.command("cr_inspect", self.image)
        self.assertIn("criu 3.", shown.stdout)
        self.assertIn("counter", shown.stdout)
        verified = self.command("cr_inspect", "--verify", self.image)
        self.assertEqual(0, verified.returncode, verified.stdout)
        extracted = self.command("cr_inspect", "--extract", "pstree.img", "-o",
                                 self.path("pstree"), self.image)
        self.assertEqual(0, extracted.returncode, extracted.stderr)
        said = self.command("cr_restart", self.image)
        self.assertEqual(errno.EBUSY, said.returncode)
        self.assertIn(f"pid {counter.pid} is in use", said.stderr)
        for option in ("--backend=user", "--no-restore-pid", "--lazy", "--pidns"):
            self.assertEqual(errno.ENOTSUP,
                             self.command("cr_restart", option, self.image).returncode, option)
        # criu's own refusal: a file is not there.
        counter.kill()
        counter.wait()
        os.unlink(self.path("count"))
        said = self.command("cr_restart", self.image)
        self.assertNotEqual(0, said.returncode)
        self.assertIn("/count", said.stderr)
        # What criu had begun and ended is a child of init's, which may not have looked yet.
        wait_until("nothing to be left of it", lambda: state(counter.pid) == "gone")
        self.assert_tidy()

    def test_a_job_of_a_terminal(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execl("/bin/sh", "sh", "-c", "stty -echo; cat; exit 3")
        cat = wait_until("its child", lambda: subprocess.run(
            ["pgrep", "-P", str(pid), "-x", "cat"], check=False, stdout=subprocess.PIPE).stdout)
        self.save("--kill", int(cat))
        self.assertEqual(3, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        os.close(terminal)
        pid, terminal = pty.fork()
        if pid == 0:
            os.execl(os.path.join(BIN, "cr_restart"), "cr_restart", "-q", self.image)
        wait_until("the process", lambda: state(int(cat)) not in ("gone", "Z"))
        os.write(terminal, b"hello\n")
        said = b""
        while b"hello\r\n" not in said:
            said += os.read(terminal, 100)
        os.write(terminal, b"\x04")
        self.assertEqual(0, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        os.close(terminal)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
