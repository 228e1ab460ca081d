#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that are saved in a container, and come back in a fresh one of the same image.

    test_containers.py DIRECTORY-OF-COMMANDS PODMAN [TestCase.test_name]

Root's containers and another user's. Left out by name where podman runs none; a failure with CI=true.
"""
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))
from podman import Podman, leave_hybrid_cgroups  # noqa: E402
from waiting import wait_until  # noqa: E402

PODMAN = os.path.abspath(sys.argv.pop(2))
BIN = os.path.abspath(sys.argv.pop(1))
NOBODY = 65534
with open("/proc/sys/kernel/overflowuid", encoding="ascii") as unknown:
    UNKNOWN = unknown.read().strip()  # the owner of files whose owner has no number in a container
# Writes numbers one after the other, and how it finds itself. Its descriptors share an open file, as
# standard output and standard error do; it watches some; it has a thread.
PROGRAM = r"""
import contextlib, json, os, select, signal, socket, threading, time
numbers = open("/images/numbers", "a")
again = os.dup(numbers.fileno())
counts = [os.eventfd(0) for _ in range(2)]
watch = select.epoll()
for count in counts: watch.register(count, select.EPOLLIN)
threading.Thread(target=threading.Event().wait, daemon=True).start()
reaped, ends = [], False

def leave_an_orphan(*_):
    child = os.fork()
    if child == 0:
        if os.fork() != 0: os._exit(0)
        os._exit(7)
    os.waitpid(child, 0)

def end(*_):
    global ends
    ends = True

def field(name):
    for line in open("/proc/self/status"):
        if line.startswith(name + ":"):
            return line.split()[1]

signal.signal(signal.SIGUSR1, leave_an_orphan)
signal.signal(signal.SIGTERM, end)
number = 0
while not ends:
    number += 1
    os.write(again, b"%d\n" % number)
    os.eventfd_write(counts[1], 1)
    assert [one for one, _ in watch.poll(1)] == [counts[1]]
    os.eventfd_read(counts[1])
    try:
        reaped.append(os.waitstatus_to_exitcode(os.waitpid(-1, os.WNOHANG)[1])) if os.waitid(
            os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) else None
    except ChildProcessError:
        pass
    state = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "number": number,
                        "filter": field("Seccomp"), "effective": field("CapEff"), "reaped": reaped,
                        "hosts": open("/etc/hosts").read()})
    with contextlib.suppress(OSError):  # it has come back, and its way on before has done this already
        os.symlink(state, "/images/state.new")
    with contextlib.suppress(OSError):
        os.rename("/images/state.new", "/images/state")
    time.sleep(0.01)
print("ended", flush=True)
raise SystemExit(5)
"""
BESIDE = "cr_run python3 -S /images/program.py & exec sleep 1000"
RESTRICTED = ("--cap-drop=all", "--security-opt=no-new-privileges", "--read-only")
# As Apptainer has it: files of its own, and all else is the machine's. podman then wants a cgroup, and,
# where it is not root's, the machine's /dev/mqueue, which few machines without systemd have.
FILES_ONLY = ("--cgroups=no-conmon", "--pid=host", "--ipc=host", "--security-opt=seccomp=unconfined",
              "--security-opt=no-new-privileges",
              *(() if os.path.isdir("/dev/mqueue") else ("--tmpfs=/dev/mqueue",)))


class Containers:
    """`uid`: whose they are; None: root's. `owners`: what cr_restart is told of the machine's /usr."""

    uid = None
    owners = ()

    def setUp(self):
        self.podman = self.enterContext(Podman(PODMAN, BIN, self.uid))
        with open(self.path("program.py"), "x", encoding="ascii") as file:
            file.write(PROGRAM)
        os.chmod(self.path("program.py"), 0o644)
        self.podman.import_image()

    def enterContext(self, manager):  # unittest has it from Python 3.11 on
        self.addCleanup(manager.__exit__, None, None, None)
        return manager.__enter__()

    def path(self, name):
        return os.path.join(self.podman.images, name)

    def state(self):
        try:
            return json.loads(os.readlink(self.path("state")))
        except FileNotFoundError:
            return None

    def await_state(self, name, what, condition=lambda _: True):
        """A state that is written from now on: as a link, so that no file is open under a name that it
        is about to lose."""
        if os.path.lexists(self.path("state")):
            os.remove(self.path("state"))
        try:
            return wait_until(what, lambda: (now := self.state()) and condition(now) and now)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.podman('logs', name, check=False)}") from error

    def save(self, name, pid, *options):
        """Saved inside, and removed with its container."""
        said = self.podman.within(name, "cr_checkpoint", *options, "-f", "/images/image", str(pid))
        self.assertEqual("", said)
        self.podman.remove(name)
        return self.state()

    def assert_whole(self):
        """No number is missing, and none is there twice."""
        with open(self.path("numbers"), encoding="ascii") as file:
            numbers = [int(line) for line in file.read().split("\n")[:-1]]
        self.assertEqual(list(range(1, len(numbers) + 1)), numbers)

    def restart(self, *options):
        return ("cr_restart", *self.owners, *options)

    def go_through(self, options, restart_options, same_id):
        """From one container into a second, and from that into a third."""
        self.podman.start("first", "sh", "-c", BESIDE, options=options)
        before = self.await_state("first", "its start")
        self.assertNotIn("cannot be saved", self.podman("logs", "first"))
        for name in ("second", "third"):
            saved = self.save("first" if name == "second" else "second", before["pid"], "--kill")
            self.podman.start(name, *self.restart(*restart_options, "/images/image"),
                              options=(*options, f"--hostname={name}", f"--add-host={name}:127.1.2.3"))
            # The first state that it writes here may be one that it made before it was saved.
            after = self.await_state(name, "its return",
                                     lambda now: now["number"] > saved["number"] + 1)
            self.assertEqual(name, after["host"])
            self.assertIn("127.1.2.3", after["hosts"])
            self.assertEqual(saved["filter"], after["filter"])
            if same_id:
                self.assertEqual(saved["pid"], after["pid"])
            before = after
        self.assert_whole()
        self.podman("stop", "--time=60", "third")
        self.assertIn("ended", self.podman("logs", "third"))
        self.assertEqual("5", self.podman.look("third", "State.ExitCode"))
        self.assert_whole()
        return before

    def test_with_new_ids(self):
        state = self.go_through((), ("--no-restore-pid",), False)
        self.assertEqual("2", state["filter"])

    def test_with_old_ids(self):
        state = self.go_through(("--cap-add=CHECKPOINT_RESTORE",), (), True)
        self.assertEqual("2", state["filter"])

    def test_restricted(self):
        """No capability, no way to get some, and no file may be changed but those of /images."""
        state = self.go_through(RESTRICTED, ("--no-restore-pid",), False)
        self.assertEqual(("2", 0), (state["filter"], int(state["effective"], 16)))

    def test_files_only(self):
        """Such a program ends when its files are gone: no container's end is its own."""
        self.go_through(FILES_ONLY, ("--no-restore-pid",), False)

    def test_old_ids_without_a_privilege(self):
        self.podman.start("first", "sh", "-c", BESIDE)
        self.save("first", self.await_state("first", "its start")["pid"])
        said = self.podman.run("sh", "-c", " ".join([*self.restart("/images/image"), "; echo $?"]))
        self.assertIn("--cap-add", said)
        self.assertIn("--no-restore-pid", said)

    def test_as_first_process(self):
        """It is what orphans become the children of, and gets the signals of the container's end."""
        self.podman.start("first", "cr_run", "python3", "-S", "/images/program.py")
        self.assertEqual(1, self.await_state("first", "its start")["pid"])
        self.podman("kill", "--signal=USR1", "first")
        self.await_state("first", "its orphan", lambda now: now["reaped"] == [7])
        self.save("first", 1)
        self.podman.start("second", *self.restart("--no-restore-pid", "/images/image"))
        self.await_state("second", "its return", lambda now: now["pid"] != 1)
        self.podman("kill", "--signal=USR1", "second")
        self.await_state("second", "another orphan", lambda now: now["reaped"] == [7, 7])
        self.podman("stop", "--time=60", "second")
        self.assertEqual("5", self.podman.look("second", "State.ExitCode"))
        self.assert_whole()

    def test_orphans_of_others(self):
        """Where cr_restart is the first process it leaves no zombies."""
        self.podman.start("first", "sh", "-c", BESIDE)
        self.save("first", self.await_state("first", "its start")["pid"])
        self.podman.start("second", *self.restart("--no-restore-pid", "/images/image"))
        self.await_state("second", "its return")
        for _ in range(3):
            self.podman("kill", "--signal=USR1", "second")
        self.await_state("second", "its going on")
        wait_until("no zombies", lambda: not self.podman.within(
            "second", "sh", "-c", "grep -l 'State:.Z' /proc/[0-9]*/status", check=False))

    def test_from_outside(self):
        """The names of its files are others' here."""
        self.podman.start("first", "cr_run", "python3", "-S", "/images/program.py")
        self.await_state("first", "its start")
        done = subprocess.run([os.path.join(BIN, "cr_checkpoint"), "-f", self.path("image"),
                               self.podman.look("first", "State.Pid")], capture_output=True, text=True,
                              check=False)
        self.assertNotEqual(0, done.returncode)
        self.assertIn("has other files than cr_checkpoint, as in a container", done.stderr)
        self.assertIn("where it is process 1 ", done.stderr)
        self.await_state("first", "its going on")

    def test_terminal(self):
        """It is the container's, and another one's at the restart."""
        self.podman.start("first", "cr_run", "python3", "-S", "/images/program.py", options=["--tty"])
        self.await_state("first", "its start")
        self.save("first", 1)
        self.podman.start("second", *self.restart("--no-restore-pid", "/images/image"),
                          options=["--tty"])
        self.await_state("second", "its return")
        self.podman("stop", "--time=60", "second")
        self.assertIn("ended", self.podman("logs", "second"))
        self.assert_whole()


@unittest.skipUnless(os.geteuid() == 0, "of another user")
class OfRoot(Containers, unittest.TestCase):
    pass


class OfAnother(Containers, unittest.TestCase):
    """The container has no number for the owner of the machine's /usr, as for most of its users."""

    uid = NOBODY if os.geteuid() == 0 else None
    owners = ("--owner", UNKNOWN)

    def test_files_of_unknown_owners(self):
        """They may be anybody's: nothing of theirs is opened unless it is asked for."""
        self.podman.start("first", "sh", "-c", BESIDE)
        self.save("first", self.await_state("first", "its start")["pid"])
        said = self.podman.run("sh", "-c", "cr_restart --no-restore-pid /images/image; echo ends with $?")
        self.assertIn("whose it was is not known, as in a user namespace", said)
        self.assertIn(f"--owner {UNKNOWN}", said)
        self.assertNotIn("ends with 0", said)


def why_not(uid):
    """What podman says where it runs no container."""
    with Podman(PODMAN, BIN, uid) as podman:
        try:
            podman.import_image()
            said = podman.run("cr_run", "--version")
            return None if "cr_run" in said else said
        except (AssertionError, subprocess.TimeoutExpired) as error:
            return str(error)


def main():
    leave_hybrid_cgroups()
    for uid in {NOBODY if os.geteuid() == 0 else None, None}:
        if why := why_not(uid):
            print(f"left out: podman runs no container here as user {uid or os.geteuid()}: {why}")
            sys.exit(1 if os.environ.get("CI") == "true" else 77)
    unittest.main()


if __name__ == "__main__":
    main()
