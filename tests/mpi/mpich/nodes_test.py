#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job of MPICH's on two nodes, saved and brought back with its ranks on the other ones: a node is a
network with an address of its own, a host name and System V objects of its own. Needs root.

    nodes_test.py --bin DIRECTORY --mpirun mpiexec.mpich -- ./program ARGUMENT ...

This process is on the first node; hydra reaches the second one by a stand-in for ssh.
"""
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "traffic"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import inside  # noqa: E402
import job_test  # noqa: E402

# Mounts, too: /sys tells of the network of whoever has mounted it.
NAMESPACES = inside.CLONE_NEWNET | inside.CLONE_NEWNS | 0x04000000 | 0x08000000 # UTS, IPC
FIRST, SECOND = "192.0.2.1", "192.0.2.2" # for examples only (RFC 5737)


def enter_node(name, hosts):
    inside.leave(NAMESPACES)
    inside.mount("--make-rprivate", "/")
    inside.mount("-t", "sysfs", "sysfs", "/sys")
    inside.mount("--bind", str(hosts), "/etc/hosts")
    subprocess.run(["hostname", name], check=True)


def ip(*words):
    subprocess.run(["ip", *words], check=True)


class SecondNode:
    """A process that keeps it, and ends with the object."""

    def __init__(self, hosts):
        self.ready, ready = os.pipe()
        self.end, end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            enter_node("second", hosts)
            os.write(ready, b"x")
            os.close(end) # the parent's end is its life
            os.close(ready)
            os.read(self.end, 1)
            os._exit(0)
        self.life = end
        os.close(ready)
        os.read(self.ready, 1)
        inside.loopback_up()
        ip("link", "add", "nic", "type", "veth", "peer", "name", "other")
        ip("link", "set", "other", "netns", str(self.pid), "name", "nic")
        ip("address", "add", f"{FIRST}/24", "dev", "nic")
        ip("link", "set", "nic", "up")
        self.here("ip", "address", "add", f"{SECOND}/24", "dev", "nic")
        self.here("ip", "link", "set", "nic", "up")
        self.here("ip", "link", "set", "lo", "up")

    def prefix(self):
        return ["nsenter", "--target", str(self.pid), "--net", "--uts", "--ipc", "--mount"]

    def here(self, *words):
        subprocess.run([*self.prefix(), *words], check=True)

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def stand_in(directory, node):
    """What hydra takes for ssh: [OPTION ...] HOST COMMAND."""
    script = Path(directory, "ssh")
    script.write_text("#!/bin/sh\n"
                      'while [ "${1#-}" != "$1" ]; do shift; done\n'
                      f'[ "$1" = {SECOND} ] || exit 9\n'
                      "shift\n"
                      f'exec env -i "PATH=$PATH" {" ".join(node.prefix())} sh -c "$*"\n')
    script.chmod(0o755)
    return script


def main():
    parser = job_test.options_of_jobs(__doc__, patience=90, generations=2)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cryo-j-", dir="/tmp") as directory:
        hosts = Path(directory, "hosts")
        hosts.write_text(f"127.0.0.1 localhost\n{FIRST} first\n{SECOND} second\n")
        enter_node("first", hosts)
        node = SecondNode(hosts)
        jobs = job_test.Jobs(options, directory)
        jobs.settings.update(CRYO_LISTEN=FIRST, UCX_NET_DEVICES="nic")
        launcher = ["-launcher", "ssh", "-launcher-exec", str(stand_in(directory, node)),
                    "-localhost", FIRST]
        ways = [[*launcher, "-hosts", f"{a},{b}"] for a, b in ((FIRST, SECOND), (SECOND, FIRST))]
        try:
            mpirun = [options.mpirun, *ways[0], "-n", str(options.ranks)]
            jobs.start([*mpirun, *options.command])
            if jobs.wait() != 0:
                jobs.fail("natively, the job fails")
            natively = job_test.result(jobs.text())
            jobs.start([*jobs.command("cr_run"), *mpirun, *options.command])
            for generation in range(options.generations):
                reference = jobs.save("--term")
                if reference is None:
                    jobs.fail("the job came to its end before it was saved")
                way = ways[(generation + 1) % 2]
                jobs.start([*jobs.command("ompi-restart"), "--mpirun_opts", " ".join(way),
                            reference])
            if jobs.wait() != 0:
                jobs.fail("the job fails")
            if job_test.result(jobs.text()) != natively or not natively:
                jobs.fail("natively:\n" + "\n".join(natively) + "\nsaved:")
        finally:
            jobs.kill()
            node.close()
    print(f"saved and restarted {options.generations} times on two nodes: the same result")


if __name__ == "__main__":
    main()
