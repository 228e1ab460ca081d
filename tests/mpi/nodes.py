# SPDX-License-Identifier: Apache-2.0
"""Nodes on one machine: each has a network with an address of its own, a host name, mounts and System V
objects of its own, and all see the same files. Needs root.

    with Nodes(4, directory) as nodes:      # this process is on the first one from now on
        nodes.settings                      # for launchers: how to reach the others
"""
import ctypes
import os
import signal
import subprocess
from pathlib import Path

import inside

# Mounts, too: /sys tells of the network of whoever has mounted it.
NAMESPACES = inside.CLONE_NEWNET | inside.CLONE_NEWNS | 0x04000000 | 0x08000000 # UTS, IPC
PR_SET_PDEATHSIG = 1
NAMES = ("first", "second", "third", "fourth")
NIC = "nic" # on each node


def address_of(name):
    return f"192.0.2.{NAMES.index(name) + 1}" # for examples only (RFC 5737)


def enter(name, hosts):
    inside.leave(NAMESPACES)
    inside.mount("--make-rprivate", "/")
    inside.mount("-t", "sysfs", "sysfs", "/sys")
    inside.mount("--bind", str(hosts), "/etc/hosts")
    subprocess.run(["hostname", name], check=True)


def run(*words):
    subprocess.run(words, check=True)


def stay(_name):
    while True:
        signal.pause()


class Node:
    """One that a process keeps, connected to the first one's bridge; in it that process does nothing
    but `live(name)`, and does not come back from there."""

    def __init__(self, name, hosts, live=stay):
        ready, says_ready = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL) # whatever becomes of the test
            enter(name, hosts)
            os.write(says_ready, b"x")
            live(name)
        os.close(says_ready)
        os.read(ready, 1)
        os.close(ready)
        run("ip", "link", "add", name, "type", "veth", "peer", "name", "other")
        run("ip", "link", "set", "other", "netns", str(self.pid), "name", NIC)
        run("ip", "link", "set", name, "master", NIC, "up")
        for words in (["address", "add", f"{address_of(name)}/24", "dev", NIC],
                      ["link", "set", NIC, "up"], ["link", "set", "lo", "up"]):
            run(*self.prefix(), "ip", *words)

    def prefix(self):
        return ["nsenter", "--target", str(self.pid), "--net", "--uts", "--ipc", "--mount"]

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


class Nodes:
    def __init__(self, count, directory, live=stay):
        hosts = Path(directory, "hosts")
        hosts.write_text("127.0.0.1 localhost\n" +
                         "".join(f"{address_of(name)} {name}\n" for name in NAMES[:count]))
        enter(NAMES[0], hosts)
        inside.loopback_up()
        run("ip", "link", "add", NIC, "type", "bridge")
        run("ip", "address", "add", f"{address_of(NAMES[0])}/24", "dev", NIC)
        run("ip", "link", "set", NIC, "up")
        self.others = {name: Node(name, hosts, live) for name in NAMES[1:count]}
        self.ssh = self.stand_in(Path(directory, "ssh"))
        self.settings = {
            "CRYO_LISTEN": address_of(NAMES[0]), "UCX_NET_DEVICES": NIC,
            "OMPI_MCA_plm_rsh_agent": str(self.ssh), "OMPI_MCA_oob_tcp_if_include": NIC,
            "OMPI_MCA_btl_tcp_if_include": NIC,
            "PRTE_MCA_plm_ssh_agent": str(self.ssh), "PRTE_MCA_prte_if_include": NIC}

    def stand_in(self, script):
        """What launchers take for ssh: [OPTION ...] HOST COMMAND. Nothing of the environment comes along."""
        cases = "".join(f"{name} | {address_of(name)}) node='{' '.join(node.prefix())}' ;;\n"
                        for name, node in self.others.items())
        script.write_text("#!/bin/sh\n"
                          'while [ "${1#-}" != "$1" ]; do shift; done\n'
                          f'case $1 in\n{cases}*) exit 9 ;;\nesac\n'
                          "shift\n"
                          f'exec env -i "PATH=$PATH" TMPDIR={script.parent} $node sh -c "$*"\n')
        script.chmod(0o755)
        return script

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for node in self.others.values():
            node.end()
