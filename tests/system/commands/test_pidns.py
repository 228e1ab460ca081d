#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cr_restart --pidns, as a plain user: the old ids in a pid namespace, and what comes with that."""
import errno
import json
import os
import pty
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import case

# Says who it and its threads are; a line of input is a Python expression.
ASKED = """
import os, signal, sys, threading, time
threads = [threading.Thread(target=time.sleep, args=(3600,), daemon=True) for _ in range(3)]
for one in threads: one.start()
signal.signal(signal.SIGUSR1, lambda *_: print("usr1", flush=True))
def ids():
    return os.getpid(), [one.native_id for one in threads], sorted(map(int, os.listdir("/proc/self/task")))
def status(name):
    with open("/proc/self/status", encoding="ascii") as file:
        return [line.split()[1] for line in file if line.startswith(name)]
"""
POLL = "7"  # the system call
CAPABILITIES = "status('CapInh') + status('CapPrm') + status('CapEff') + status('CapAmb')"


class PidNamespace(case.Case):
    def asked(self, *prefix, **how):
        program = self.spawn(*prefix, case.command("cr_run"), "/usr/bin/python3", "-S", "-c",
                             ASKED + "print('ready', flush=True)\n"
                             "for line in sys.stdin: print(eval(line), flush=True)",
                             stderr=subprocess.DEVNULL, **how)
        self.assertEqual("ready\n", program.stdout.readline())
        return program

    @staticmethod
    def ask(program, expression):
        program.stdin.write(expression + "\n")
        program.stdin.flush()
        return program.stdout.readline().strip()

    def child_of(self, pid):
        def look():
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
                return file.read().split()
        return int(case.wait_until("a child", look)[0])

    def inside(self, restarted):
        """The restored process, as it is called here; and the first of its namespace."""
        first = self.child_of(restarted.pid)
        return self.child_of(first), first

    def back(self, *words, **how):
        return self.spawn(case.command("cr_restart"), "-q", "--pidns", *words, **how)

    def await_gone(self, pid):
        case.wait_until(f"the end of {pid}", lambda: case.state(pid) in "Zg")

    def test_ids_are_the_old_ones(self):
        program = self.asked()
        before = self.ask(program, "ids()")
        self.save("--kill", "-f", "image", program.pid)
        program.wait()
        refused = self.run_command("cr_restart", "--restore-pid", "image")
        self.assertEqual(errno.EPERM, refused.returncode)
        self.assertIn("--pidns", refused.stderr)
        restarted = self.back("image")
        self.assertEqual(before, self.ask(restarted, "ids()"))
        self.assertEqual("1", self.ask(restarted, "os.getppid()"))
        self.assertEqual(str(["0" * 16] * 4), self.ask(restarted, CAPABILITIES))
        self.assertEqual(str(os.getuid()), self.ask(restarted, "os.stat('.').st_uid"))

        # Once more, from here and by the name it has here.
        pid, first = self.inside(restarted)
        said = self.refuse(errno.ENOTSUP, "--kill", restarted.pid)
        self.assertIn(f"save it by its own id, {pid}", said)
        self.save("--kill", pid)
        self.assertEqual(-signal.SIGKILL, restarted.wait(case.PATIENCE))
        self.await_gone(first)
        again = self.back(f"context.{pid}")
        self.assertEqual(before, self.ask(again, "ids()"))

    def test_generations_are_rehearsed(self):
        """Whose the libraries are does not show in the user namespace that each of them is saved
        in, and has to be known in it for the rehearsal."""
        program = self.asked()
        before = self.ask(program, "ids()")
        self.save("--rehearse", "--kill", "-f", "image.0", program.pid)
        program.wait()
        for generation in range(1, 4):
            restarted = self.back(f"image.{generation - 1}")
            self.assertEqual(before, self.ask(restarted, "ids()"))
            pid, first = self.inside(restarted)
            self.save("--rehearse", "--kill", "-f", f"image.{generation}", pid)
            self.assertEqual(-signal.SIGKILL, restarted.wait(case.PATIENCE))
            self.await_gone(first)
        self.assertEqual(before, self.ask(self.back("image.3"), "ids()"))

    def test_failure_inside_is_told_to_a_caller_that_ignores_ends(self):
        program = self.asked()
        self.save("--kill", "-f", "image", program.pid)
        program.wait()
        restarted = self.back("image")
        self.assertEqual("0", self.ask(restarted, "0"))
        pid, _ = self.inside(restarted)
        done = self.checkpoint("-f", "nowhere/image", pid, preexec_fn=lambda: signal.signal(
            signal.SIGCHLD, signal.SIG_IGN))
        self.assertNotEqual(0, done.returncode)
        self.assertIn("nowhere", done.stderr)

    def test_end_and_signals_are_those_of_the_program(self):
        program = self.asked()
        self.save("--kill", "-f", "image", program.pid)
        program.wait()
        restarted = self.back("image")
        self.assertEqual("0", self.ask(restarted, "0"))
        pid, first = self.inside(restarted)
        self.await_read(pid)
        restarted.send_signal(signal.SIGUSR1)
        self.assertEqual("usr1\n", restarted.stdout.readline())
        restarted.communicate("os._exit(42)\n")
        self.assertEqual(42, restarted.returncode)
        self.await_gone(first)
        restarted = self.back("image")
        self.assertEqual("0", self.ask(restarted, "0"))
        restarted.send_signal(signal.SIGTERM)
        self.assertEqual(-signal.SIGTERM, restarted.wait(case.PATIENCE))
        # A program whose cr_restart is killed lives on, as without a namespace.
        restarted = self.back("image")
        pid, first = self.inside(restarted)
        self.assertEqual("0", self.ask(restarted, "0"))
        # From when on they do not end with it, nothing of its is open there any more.
        case.wait_until("the first process to settle",
                        lambda: os.readlink(f"/proc/{first}/fd/0") == "/dev/null")
        os.kill(restarted.pid, signal.SIGKILL)
        restarted.wait()
        self.assertEqual("1", self.ask(restarted, "1"))
        os.kill(pid, signal.SIGKILL)
        self.await_gone(first)

    def test_thousands_of_remarks(self):
        count = 3500
        with socket.create_server(("127.0.0.1", 0), backlog=count) as server:
            program = self.asked()
            connected = (
                "(globals().update(resource=__import__('resource'), socket=__import__('socket')),"
                f" resource.setrlimit(resource.RLIMIT_NOFILE, ({count + 100},) * 2),"
                f" globals().update(all=[socket.create_connection({server.getsockname()})"
                f" for _ in range({count})]), len(all))[-1]")
            self.assertEqual(str(count), self.ask(program, connected))
            self.save("--kill", "--sockets=close", "-f", "image", program.pid)
        program.wait()
        remarks = Path(self.directory, "remarks")
        with remarks.open("w", encoding="ascii") as file:
            restarted = self.spawn(case.command("cr_restart"), "--pidns", "image", stderr=file)
        self.assertEqual(str(count), self.ask(restarted, "len(all)"))
        case.wait_until("the last line", lambda: "goes on" in remarks.read_text(encoding="ascii"))
        self.assertEqual(count, remarks.read_text(encoding="ascii").count("a connection, is closed"))

    def test_a_child_is_killed_as_soon_as_it_is_back(self):
        count = 20
        signs = Path(self.directory, "go")
        program = self.spawn(case.command("cr_run"), "/usr/bin/python3", "-S", "-c", f"""
import os, signal
children = [os.fork() or signal.pause() for _ in range({count})]
print("ready", flush=True)
while not os.path.exists("go"): pass
for child in children: os.kill(child, signal.SIGKILL)
print([os.waitpid(child, 0)[1] for child in children], flush=True)
""")
        self.assertEqual("ready\n", program.stdout.readline())
        self.save("--tree", "--kill", "-f", "image", program.pid)
        program.wait()
        signs.touch()
        restarted = self.back("image", stderr=subprocess.PIPE)
        said, complaint = restarted.communicate(timeout=case.PATIENCE)
        self.assertEqual((f"{[9] * count}\n", "", 0), (said, complaint, restarted.returncode))

    def test_what_the_first_leaves_behind_lives_on(self):
        program = self.asked()
        child = self.ask(program, "os.fork() or time.sleep(3600)")
        self.save("--kill", "-f", "image", program.pid)
        program.wait()
        restarted = self.back("--json", "image", stderr=subprocess.PIPE)
        said = json.loads(restarted.stderr.readline())
        pid, first = self.inside(restarted)
        self.assertEqual((pid, program.pid, 2), (said["pid"], said["own_pid"], said["processes"]))
        case.wait_until("the sleep of its child", lambda: self.ask(
            restarted, f"open('/proc/{child}/status').read().splitlines()[2].split()") ==
            "['State:', 'S', '(sleeping)']")
        left = self.child_of(pid)
        restarted.stdin.write("os._exit(3)\n")
        restarted.stdin.close()
        self.assertEqual(3, restarted.wait(case.PATIENCE))
        restarted.stdin = None
        self.assertIn(case.state(first), "RSD") # alive, whatever it does just now
        self.assertEqual(str(first), case.status(left, "PPid"))
        os.kill(left, signal.SIGKILL)
        self.await_gone(first)

    @staticmethod
    def reads_input(pid):
        with open(f"/proc/{pid}/syscall", encoding="ascii") as file:
            return file.read().split()[:2] == ["0", "0x0"]

    def await_read(self, pid):
        """Of the next line: Python does not hear of what comes just before a read until that has
        read something."""
        case.wait_until("the read of the next line", lambda: self.reads_input(pid))

    def test_a_terminal(self):
        program = self.asked()
        self.save("--kill", "-f", "image", program.pid)
        program.wait()
        # The program's standard streams are pipes: they become cr_restart's, here a terminal.
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.directory)
            os.execv(case.command("cr_restart"), ["cr_restart", "-q", "--pidns", "image"])
        try:
            os.write(terminal, b"0\n")
            with open(terminal, "rb", buffering=0, closefd=False) as screen:
                seen = b""
                while not seen.endswith(b"0\r\n0\r\n"):
                    seen += screen.read(1)
                self.await_read(self.child_of(self.child_of(pid)))
                os.write(terminal, b"\x03")
                while b"KeyboardInterrupt" not in seen and not seen.endswith(b"^C"):
                    seen += screen.read(1)
            self.assertEqual(signal.SIGINT, os.WTERMSIG(os.waitpid(pid, 0)[1]))
        finally:
            os.close(terminal)

    def test_by_default(self):
        """A plain user who says nothing has the old ids all the same; --restore-pid insists."""
        if case.processes.keep_ids():
            self.skipTest("old ids are to be had")
        program = self.asked()
        before = self.ask(program, "ids()")
        self.save("--kill", "-f", "image", program.pid)
        program.wait()
        restarted = self.spawn(case.command("cr_restart"), "image", stderr=subprocess.PIPE)
        self.assertEqual(before, self.ask(restarted, "ids()"))
        restarted.stdin.close()
        self.assertEqual(0, restarted.wait())
        said = [line for line in restarted.stderr if "pid namespace" in line]
        self.assertEqual(1, len(said), said)
        self.assertIn("--no-restore-pid gives them new ones", said[0])
        with open(self.path("image"), "rb") as image:
            done = self.run_command("cr_restart", "-q", "-F", "0", stdin=None, text=False,
                                    input=image.read())
        self.assertEqual(0, done.returncode, done.stderr)
        done = self.run_command("cr_restart", "--restore-pid", "image")
        self.assertEqual(errno.EPERM, done.returncode, done.stderr)
        self.assertIn("--pidns", done.stderr)

    def test_refusals(self):
        program = self.asked()
        self.save("--kill", "-f", "image", program.pid)
        program.wait()
        done = self.run_command("cr_restart", "--pidns", "--no-restore-pid", "image")
        self.assertEqual(255, done.returncode, done.stderr)
        done = self.run_command("cr_restart", "--pidns", "absent")
        self.assertEqual(errno.ENOENT, done.returncode, done.stderr)
        # Where nobody may make user namespaces.
        for words, said in ((["--pidns"], "cr_restart: --pidns: "),
                            ([], "cr_restart: choosing ids needs a privilege here, so")):
            done = subprocess.run(
                ["unshare", "--user", "--map-root-user", "sh", "-c",
                 "echo 0 > /proc/sys/user/max_user_namespaces; exec setpriv --bounding-set=-all "
                 '--inh-caps=-all "$@"', "sh", case.command("cr_restart"), *words, "image"],
                cwd=self.directory, capture_output=True, text=True, check=False,
                timeout=case.PATIENCE)
            self.assertEqual(errno.ENOSPC, done.returncode, done.stderr)
            self.assertIn("max_user_namespaces", done.stderr)
            self.assertTrue(done.stderr.startswith(said), done.stderr)

    def test_the_first_of_a_namespace(self):
        program = self.asked("unshare", "--user", "--map-current-user", "--pid", "--fork",
                               "--mount-proc")
        self.assertEqual("1", self.ask(program, "os.getpid()"))
        pid = self.child_of(program.pid)
        # The signal comes from inside, where a first process gets only those that it handles.
        for option in ("--kill", "--stop", "--term"):
            self.assertIn("first process of its pid namespace",
                          self.refuse(errno.ENOTSUP, option, "-f", "image", pid))
        self.assertNotIn("image", self.files())
        self.save("--signal=USR1", "-f", "image", pid)
        # Python runs its handler when the main thread comes along.
        self.assertEqual("usr1", self.ask(program, "1 + 1"))
        self.assertEqual("2\n", program.stdout.readline())
        self.save("-f", "image", pid)
        os.kill(pid, signal.SIGKILL)  # as nobody inside could
        program.wait()
        done = self.run_command("cr_restart", "--pidns", "image")
        self.assertEqual(errno.EEXIST, done.returncode, done.stderr)
        self.assertIn("the id 1", done.stderr)
        restarted = self.spawn(case.command("cr_restart"), "-q", "--no-restore-pid", "image")
        self.assertEqual("5", self.ask(restarted, "2 + 3"))

    def test_first_of_a_namespace_waits_for_checkpointers(self):
        """Its end ends them, and one that has just ended the program has to say so. The name of their
        file counts: here it is a shell's."""
        program = self.asked()
        self.save("--kill", "-f", "image", program.pid)
        program.wait()
        shutil.copy("/bin/sh", self.path("cr_checkpoint"))
        os.mkfifo(self.path("hold"))
        restarted = self.spawn(
            "unshare", "--user", "--map-current-user", "--pid", "--fork", "--mount-proc", "sh", "-c",
            './cr_checkpoint -c "read line <hold; echo told >said" & exec "$0" "$@"',
            case.command("cr_restart"), "-q", "--no-restore-pid", "--owner", "65534", "image")
        self.assertEqual("5", self.ask(restarted, "2 + 3"))
        first = self.child_of(restarted.pid)

        def waits():
            with open(f"/proc/{first}/syscall", encoding="ascii") as file:
                return file.read().split()[0] == POLL
        restarted.stdin.close()
        case.wait_until("its waiting for the other one", waits)
        with open(self.path("hold"), "w", encoding="ascii") as hold:
            hold.write("go on\n")
        self.assertEqual(0, restarted.wait(case.PATIENCE))
        with open(self.path("said"), encoding="ascii") as said:
            self.assertEqual("told\n", said.read())


if __name__ == "__main__":
    case.main(plain_user=True)
