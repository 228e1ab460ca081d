#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Another user of the machine, who reaches the port of a job's first daemon, forges frames, floods it,
and looks for the job's secret and sockets; or whose processes root's commands are to save.

    job_frames.py DIRECTORY_OF_COMMANDS FAKE_RANK
"""
import errno
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import attack

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system",
                                "coord"))
import jobs  # noqa: E402

STEPS = 1_000_000  # longer than any test
ENOUGH = 10        # seconds, for a checkpoint meanwhile

# Frames as daemons, ranks and commands send them, without a key. What comes back is printed in hex,
# one line for each connection.
FRAMES = """
import json, socket, struct, sys
header = struct.Struct("<IBxxx")
port = int(sys.argv[1])
def frame(kind, body, length=None):
    return header.pack(len(body) if length is None else length, kind) + body
def message(**fields):
    return frame(7, json.dumps(fields).encode())
hello = frame(1, struct.pack("=IIIi", 2, 0, 2, 1) + b"space")
image = message(type="image", checkpoint=1, rank=0, file="../../../../forged", bytes=1)
join = message(type="join", addresses=["127.0.0.1"], port=port)
attempts = [hello, hello + frame(5, b""), image, join, join + image,
            message(type="checkpoint", directory=sys.argv[2], after="term"),
            message(type=7), frame(7, b"[" * 60000), frame(4, bytes(4096)),
            frame(7, b"", 0xffffffff), frame(255, b"x" * 100), bytes(100000), b"\\xff" * 100000,
            # What begins as TLS does: a handshake, an alert, application data, all forged.
            b"\\x16\\x03\\x01\\x02\\x00\\x01\\x00\\x01\\xfc\\x03\\x03" + bytes(508),
            b"\\x15\\x03\\x03\\x00\\x02\\x02\\x00", b"\\x17\\x03\\x03\\x40\\x00" + bytes(16384),
            b"\\x16\\x03\\x01\\xff\\xff" + bytes(65535)]
for attempt in attempts:
    with socket.create_connection(("127.0.0.1", port), 10) as one:
        heard = b""
        try:
            one.sendall(attempt)
            one.shutdown(socket.SHUT_WR)
            while more := one.recv(65536):
                heard += more
        except OSError:
            pass
        print(heard.hex(), flush=True)
print("over", flush=True)
"""

# As many connections as this user may have, again and again, until the test has had enough. A third
# says nothing, a third a byte now and then, a third what is no handshake.
FLOOD = """
import os, resource, select, socket, sys
port = int(sys.argv[1])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
os.set_blocking(0, False)
held, count = [], 0
while os.getppid() != 1 and not select.select([0], [], [], 0)[0]:
    try:
        one = socket.create_connection(("127.0.0.1", port), 1)
        one.setblocking(False)
        held.append(one)
        count += 1
        if count % 3 == 1:
            one.send(b"\\x16")
        elif count % 3 == 2:
            one.send(bytes(64))
    except OSError:
        pass
    if len(held) > 1000:
        for one in held[:500]:
            one.close()
        del held[:500]
    if count == 500:
        print("ready", flush=True)
    for one in held[::97]:
        try:
            one.send(b"\\x03")
        except OSError:
            pass
"""

# Prints what it could read or reach of the victim's.
SPY = """
import os, socket, sys
for pid in sys.argv[3:]:
    for name in "environ", "maps", "mem", "fd":
        path = f"/proc/{pid}/{name}"
        try:
            if name == "fd":
                os.listdir(path)
            else:
                open(path, "rb").read(1)
            print(path)
        except OSError:
            pass
    if b"CRYO_JOB" in open(f"/proc/{pid}/cmdline", "rb").read():
        print("the command line of", pid)
for directory in sys.argv[1], os.path.dirname(sys.argv[1]):
    try:
        print(os.listdir(directory))
    except OSError:
        pass
for name in ".root", *sys.argv[2].split(","):
    with socket.socket(socket.AF_UNIX) as one:
        try:
            one.connect(f"{sys.argv[1]}/{name}")
            print(name)
        except OSError:
            pass
"""


class Frames(jobs.Case):
    identity = attack.user(attack.VICTIM)

    def setUp(self):
        super().setUp()
        os.chown(self.scratch, attack.VICTIM, attack.VICTIM)
        os.chmod(self.scratch, 0o755)
        self.job = self.start(2, STEPS, FAKE_NODES="2")
        self.save(self.job)
        words = jobs.variable(self.job, "CRYO_JOB").split(":")
        self.directory, self.port = f"{self.runtime}/{words[0]}", words[2]
        self.daemons = self.job.status()["daemons"]

    def attacker(self, program, *words, **more):
        return subprocess.Popen(["/usr/bin/python3", "-S", "-c", program, *map(str, words)],
                                text=True, stdout=subprocess.PIPE, cwd="/",
                                **attack.user(attack.ATTACKER), **more)

    def assert_unharmed(self):
        begun = time.monotonic()
        self.save(self.job)
        self.assertLess(time.monotonic() - begun, ENOUGH)
        self.check_store()
        self.assertEqual(sorted(self.daemons), sorted(self.job.status()["daemons"]))
        self.assertEqual([], list(Path(self.scratch).rglob("*forged*")))

    def test_frames(self):
        with self.attacker(FRAMES, self.port, self.store) as attacker:
            said, _ = attacker.communicate(timeout=jobs.PATIENCE)
        *heard, over = said.splitlines()
        self.assertEqual("over", over)
        self.assertEqual(17, len(heard))
        for one in heard: # nothing, or an alert of TLS, of seven bytes
            self.assertTrue(one == "" or one[:4] == "1503" and len(one) == 14, one)
        self.assert_unharmed()

    def test_keys(self):
        """With keys that an attacker may think of, without one, and by older protocols."""
        for words in (["-psk", "00" * 32, "-psk_identity", "join/elsewhere"],
                      ["-psk", "00", "-psk_identity", "join/"],
                      ["-psk", "ff" * 32, "-psk_identity", "child/1/1"],
                      ["-psk", "00" * 32, "-psk_identity", "A" * 120], [], ["-tls1_2"],
                      ["-tls1_2", "-psk", "00" * 32, "-psk_identity", "join/elsewhere"]):
            if "-tls1_2" not in words:
                words = ["-tls1_3", *words]
            done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{self.port}",
                                   "-quiet", *words], input="hello\n", text=True, cwd="/",
                                  timeout=jobs.PATIENCE, capture_output=True, check=False,
                                  **attack.user(attack.ATTACKER))
            self.assertEqual("", done.stdout, words)
            self.assertIn("alert", done.stderr, words)
        self.assert_unharmed()

    def test_flood(self):
        with self.attacker(FLOOD, self.port, stdin=subprocess.PIPE) as attacker:
            try:
                self.assertEqual("ready\n", attacker.stdout.readline())
                for _ in range(3):
                    self.assert_unharmed()
                # Other jobs of this user start meanwhile.
                again = self.start(2, STEPS, FAKE_NODES="2")
                self.save(again)
                again.kill()
                self.assertIsNone(attacker.poll())
            finally:
                attacker.kill()
        self.assert_unharmed()

    def test_what_can_be_seen(self):
        status = self.job.status()
        with self.attacker(SPY, self.directory, ",".join(os.listdir(self.directory)), self.job.pid,
                           *status["daemons"], *status["ranks"]) as attacker:
            said, _ = attacker.communicate(timeout=jobs.PATIENCE)
        self.assertEqual("", said)
        self.assertEqual(0, attacker.returncode)
        self.assert_unharmed()

    def test_daemon_of_the_attacker(self):
        """Cryo's own daemon, as a node of the victim's job, without its secret."""
        words = jobs.variable(self.job, "CRYO_JOB").split(":")
        words[1] = "0" * len(words[1])
        runtime = f"{self.scratch}.attacker"
        os.mkdir(runtime, 0o700)
        self.addCleanup(subprocess.run, ["rm", "-r", runtime], check=True)
        os.chown(runtime, attack.ATTACKER, attack.ATTACKER)
        done = subprocess.run([jobs.variable(self.job, "CRYO_DAEMON"), "--node"], text=True,
                              env=self.settings(CRYO_JOB=":".join(words), CRYO_NODE="elsewhere") |
                              {"CRYO_RUNTIME_DIR": runtime}, timeout=jobs.PATIENCE, cwd="/",
                              capture_output=True, check=False, **attack.user(attack.ATTACKER))
        self.assertNotEqual(0, done.returncode)
        self.assertIn("did not take this one", done.stderr)
        self.assert_unharmed()


# Becomes a program without a job, in whose runtime directory ranks seem to have left one.
LEFT = """
import os, sys
os.umask(0o077)
job = f"{os.environ['CRYO_RUNTIME_DIR']}/{os.getpid()}-0"
os.makedirs(job)
variables = f"{job}/.variables"
if sys.argv[1] == "fifo":
    os.mkfifo(variables)
else:
    os.symlink(sys.argv[1], variables)
os.execvp("sleep", ["sleep", "600"])
"""


class Orders(jobs.Case):
    """Root's commands, about processes of another user, whose environments and directories name things."""

    identity = attack.user(attack.VICTIM)

    def setUp(self):
        super().setUp()
        os.chown(self.scratch, attack.VICTIM, attack.VICTIM)
        os.chmod(self.scratch, 0o755)

    def of_root(self, *words):
        def little(): # what is read without end must not take the machine's memory
            resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        return subprocess.run([f"{jobs.OPTIONS.bin}/ompi-checkpoint", *map(str, words)], text=True,
                              capture_output=True, check=False, env=self.settings(), cwd="/",
                              timeout=jobs.PATIENCE, stdin=subprocess.DEVNULL, preexec_fn=little)

    def test_directories(self):
        """Of a job's parameters: only where its user may make them."""
        closed = tempfile.mkdtemp(prefix="cryo-closed-", dir="/tmp")
        self.addCleanup(shutil.rmtree, closed)
        os.chmod(closed, 0o755)
        job = self.start(1, STEPS, OMPI_MCA_hook_cryo_directory=f"{closed}/of/the/attacker")
        done = self.of_root(job.pid)
        self.assertNotEqual(0, done.returncode)
        self.assertIn(f"{closed}/of/the/attacker: Permission denied", done.stderr)
        self.assertEqual([], os.listdir(closed))
        job.kill()
        own = f"{self.scratch}/of/the/user"
        job = self.start(1, STEPS, OMPI_MCA_hook_cryo_directory=own)
        done = self.of_root(job.pid)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(attack.VICTIM, os.stat(own).st_uid)
        job.kill()

    def test_job_of_a_third_user(self):
        """Whose name the attacker's process has in its environment: root saves it for nobody else."""
        job = self.start(1, STEPS)
        words = jobs.variable(job, "CRYO_JOB").split(":")
        words[1] = "0" * len(words[1]) # root's command needs no secret, and the attacker knows none
        program = subprocess.Popen(["/usr/bin/sleep", "600"], cwd="/",
                                   env=self.settings(CRYO_JOB=":".join(words)),
                                   **attack.user(attack.ATTACKER))
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        done = self.of_root(program.pid)
        self.assertEqual(errno.EACCES, done.returncode, done.stderr)
        self.assertIn(f"leads to a job of user {attack.VICTIM}", done.stderr)
        self.assertEqual([], list(Path(self.store).glob("*")))
        done = self.of_root(job.pid)
        self.assertEqual(0, done.returncode, done.stderr)
        job.kill()

    def test_variables_that_ranks_have_left(self):
        for what in "fifo", "/dev/zero":
            program = subprocess.Popen(["/usr/bin/python3", "-S", "-c", LEFT, what], cwd="/",
                                       env=self.settings(), **self.identity)
            self.addCleanup(program.wait)
            self.addCleanup(program.kill)
            comm = Path(f"/proc/{program.pid}/comm")
            jobs.wait_for(lambda at=comm: at.read_text() == "sleep\n", "the program")
            done = self.of_root(program.pid)
            self.assertEqual(errno.ENOENT, done.returncode, done.stderr)
            self.assertIn("start the job as `cr_run mpirun", done.stderr)


if __name__ == "__main__":
    attack.main_of_jobs(jobs)
