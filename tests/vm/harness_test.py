# SPDX-License-Identifier: Apache-2.0
"""scripts/vm keeps its promises: what goes in, what comes out, and what makes a run fail."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

from vmlib import clock  # noqa: E402 (needs the path above)

VM = pathlib.Path(__file__).resolve().parents[2] / "scripts/vm"
KERNEL_REPORT, NODE_DIED, TIMEOUT, NO_START = 250, 251, 252, 253


def vm_run(*arguments, kernel="6.12", **kwargs):
    """Runs scripts/vm run and returns what it printed and how it ended."""
    return subprocess.run([VM, "run", "--kernel", kernel, *arguments], capture_output=True,
                          text=True, timeout=250, check=False, stdin=subprocess.DEVNULL, **kwargs)


def run_directories():
    """The directories of runs that are going on; each names its processes' sockets."""
    return {path for path in pathlib.Path("/tmp").glob("cryo-vm-*")}


def processes_of(directory):
    """The processes whose command line speaks of a run's directory."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if str(directory).encode() in (entry / "cmdline").read_bytes():
                found.append(entry.name)
        except OSError:
            continue
    return found


class Command(unittest.TestCase):
    """One boot as a user: the surroundings of the command and its way out."""

    SCRIPT = r"""
set -e
test "$(id -un) $(id -u) $(id -g)" = "cryo-user 1000 1000"
id -Gn | grep -qw cryo
test "$(pwd)" = "$WHERE"
test "$GREETING" = "it's here"
test -r "$WHERE/file" && ! touch "$WHERE/other" 2>/dev/null
! touch /usr/forbidden 2>/dev/null
echo scratch >/tmp/file; echo scratch >/dev/shm/file; echo scratch >"$HOME/file"
test -w /dev/null && test -c /dev/ptmx && test -d /proc/self/task && test -d /sys/kernel
getent hosts node1 localhost >/dev/null
awk -v mhz="$MHZ" '/^cpu MHz/ && ($4 < mhz * 0.85 || $4 > mhz * 1.15) { exit 1 }' /proc/cpuinfo
python3 -c 'import os; m, s = os.openpty(); print(os.ttyname(s))'
echo to stderr >&2
echo result >"$CRYO_VM_OUT/result"
sleep 1000 &
exit 42
"""

    def test_command(self):
        with tempfile.TemporaryDirectory() as place:
            os.chmod(place, 0o755)
            here, out = pathlib.Path(place) / "here", pathlib.Path(place) / "out"
            here.mkdir()
            (here / "file").write_text("host")
            done = vm_run("--no-module", "--user", "--out", out, "--env", "GREETING=it's here",
                          "--env", f"WHERE={here}", "--env", f"MHZ={clock.tsc_khz() / 1000}", "--",
                          self.SCRIPT, cwd=here)
            self.assertEqual((done.returncode, done.stderr), (42, "to stderr\n"))
            self.assertEqual(done.stdout, "/dev/pts/0\n")
            self.assertEqual((out / "result").read_text(), "result\n")
            self.assertEqual([path.name for path in here.iterdir()], ["file"])

    def test_arguments_are_not_split(self):
        done = vm_run("--no-module", "--", "printf", "%s|", "a b", "", "$HOME", "'")
        self.assertEqual((done.returncode, done.stdout), (0, "a b||$HOME|'|"))


class Reports(unittest.TestCase):
    """A kernel that complains fails the run, whatever the command says."""

    def test_warning(self):
        done = vm_run("--no-module", "--",
                      "echo '<4>WARNING: CPU: 0 PID: 1 at a test' >/dev/kmsg; echo done")
        self.assertEqual((done.returncode, done.stdout), (KERNEL_REPORT, "done\n"))
        self.assertIn("WARNING: CPU: 0 PID: 1 at a test", done.stderr)

    def test_panic(self):
        done = vm_run("--no-module", "--", "echo c >/proc/sysrq-trigger; sleep 1000")
        self.assertEqual(done.returncode, KERNEL_REPORT)
        self.assertIn("Kernel panic - not syncing: sysrq triggered crash", done.stderr)


class Ends(unittest.TestCase):
    """However a run ends, nothing of it is left."""

    def setUp(self):
        self.before = run_directories()

    def assert_nothing_left(self, directories):
        """Waits for what dies with the harness to be gone."""
        deadline = time.monotonic() + 30
        while any(d.exists() or processes_of(d) for d in directories):
            self.assertLess(time.monotonic(), deadline, f"left over: {directories}")
            time.sleep(0.05)

    def test_machine_off_without_a_word(self):
        done = vm_run("--no-module", "--", "echo b >/proc/sysrq-trigger; sleep 1000")
        self.assertEqual(done.returncode, NODE_DIED)
        self.assertIn("the machine went off while running the command", done.stderr)

    def test_timeout(self):
        done = vm_run("--no-module", "--timeout", "1", "--", "true")
        self.assertEqual(done.returncode, TIMEOUT)
        self.assertIn("node1: still starting after 1.0 s (--timeout)", done.stderr)

    def test_killed(self):
        for sig in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(sig=sig), subprocess.Popen(
                    [VM, "run", "--kernel", "6.12", "--no-module", "--", "echo up; sleep 1000"],
                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as harness:
                self.assertEqual(harness.stdout.readline(), b"up\n")
                ours = {d for d in run_directories() - self.before
                        if str(harness.pid) in parents(processes_of(d))}
                self.assertEqual(len(ours), 1)
                harness.send_signal(sig)
                harness.wait()
                self.assert_nothing_left(ours)


def parents(pids):
    """The parents of these processes."""
    found = set()
    for pid in pids:
        try:
            stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
            found.add(stat.rpartition(")")[2].split()[1])
        except OSError:
            continue
    return found


class Nodes(unittest.TestCase):
    """Several machines are one small cluster."""

    SCRIPT = r"""
set -e
for node in $CRYO_VM_NODES; do busybox ping -c 1 -W 20 $node >/dev/null; done
echo here >"$CRYO_VM_OUT/$(hostname)"
until [ -s "$CRYO_VM_OUT/node1" ] && [ -s "$CRYO_VM_OUT/node2" ]; do sleep 0.1; done
echo "$CRYO_VM_NODE sees all"
case $CRYO_VM_NODE in node2) exit 5 ;; esac
"""

    def test_two_nodes(self):
        with tempfile.TemporaryDirectory() as out:
            done = vm_run("--no-module", "--nodes", "2", "--on", "all", "--out", out, "--",
                          self.SCRIPT)
            self.assertEqual((done.returncode, done.stderr), (5, ""))
            self.assertEqual(sorted(done.stdout.splitlines()),
                             ["node1: node1 sees all", "node2: node2 sees all"])


class Module(unittest.TestCase):
    """The module is there, with the device as the udev rule makes it, and can be unloaded."""

    def test_loaded(self):
        done = vm_run("--user", "--", "stat -c '%U:%G %a' /dev/cryo; grep -c ^cryo /proc/modules")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "root:cryo 664\n1\n", ""))


if __name__ == "__main__":
    sys.exit(unittest.main())
