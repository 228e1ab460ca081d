# SPDX-License-Identifier: Apache-2.0
"""The tour's three machines: node1 to node3 on one network, each from the same disk, none with KVM.

    with machines.Cluster(disk) as cluster:
        cluster.start()
        cluster.run(2, "hostname")          # as root, by ssh
        cluster.lose(3)                      # as if its power were cut

node1's QEMU is the network's switch. Each node has a second network, which has this machine alone: ports of its
loopback lead to the node's ssh, and to Prometheus. Nothing leads from the nodes to elsewhere.
"""

import contextlib
import pathlib
import shlex
import shutil
import socket
import subprocess
import tempfile
import time

from vmlib import clock, host, kernlog, qemu

NODES = (1, 2, 3)
PATIENCE = 600
PAUSE = 0.5
_PATIENCE_FOR_LOGS = 20
PROMETHEUS = 9090
_MEMORY = "1536M"
_COMMAND_LINE = ("console=ttyS0 loglevel=5 panic=-1 oops=panic mitigations=off tsc=reliable no_timer_check "
                 "random.trust_cpu=on rcupdate.rcu_cpu_stall_timeout=60 net.ifnames=0 fsck.mode=skip "
                 "systemd.show_status=0 root=/dev/vda rw")


def _free_ports(count):
    """Of the loopback, for QEMU, which takes no port 0 that it would tell of."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


class Cluster(contextlib.AbstractContextManager):
    """Nothing of it is left when the context ends, nor when this process is killed."""

    def __init__(self, disk):
        self._disk = disk
        self._machines = {}
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="cryo-tour-", dir="/tmp"))
        *ports, self.prometheus = _free_ports(len(NODES) + 1)
        self.ports = dict(zip(NODES, ports))

    def __exit__(self, *_):
        for machine in self._machines.values():
            machine.kill()
            machine.wait()
        shutil.rmtree(self.place, ignore_errors=True)

    # -- machines ----------------------------------------------------------------------------

    def start(self):
        """Switches them on, the one with the switch last: QEMU 7.2 crashes if it has to send to a machine that
        has not connected yet."""
        for number in reversed(NODES):
            if number == NODES[0]:
                wait_until("the network", lambda: all(self._wire(node).exists() for node in NODES[1:]),
                           self._fail_if_off)
            self._machines[number] = self._start(number)

    def _wire(self, number):
        """A socket between this machine and the switch."""
        return self.place / f"lan{number}"

    def _start(self, number):
        append = f"{_COMMAND_LINE} systemd.hostname=node{number} tour.node={number} "
        # On a busy machine the guest measures wrongly, and its clock ran fifteen times too fast.
        if clock.tsc_khz():
            append += f"tsc_early_khz={clock.tsc_khz()}"
        argv = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
                "-machine", "q35,vmport=off,smbus=off,sata=off", "-bios", "qboot.rom", "-m", _MEMORY,
                "-smp", "1", "-cpu", qemu.CPU, "-accel", "tcg,thread=single",
                "-kernel", str(self._disk.vmlinuz), "-initrd", str(self._disk.initrd), "-append", append,
                # What is written goes to a file without a name.
                "-drive", f"file={self._disk.disk},format=raw,if=virtio,snapshot=on,cache=unsafe",
                "-chardev", f"file,id=console,path={self.console(number)}", "-serial", "chardev:console",
                *self._network(number),
                "-device", f"virtio-net-pci,netdev=nic,romfile=,mac=52:54:00:77:00:{number:02x}",
                "-device", "virtio-net-pci,netdev=out,romfile="]
        with open(self.place / f"qemu{number}.log", "wb") as log:
            return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                    start_new_session=True, preexec_fn=host.die_with_parent())

    def _network(self, number):
        def wire(name, end, to):
            return ["-netdev", f"stream,id={name},server={end},addr.type=unix,addr.path={self._wire(to)}"]
        # QEMU's part of the second network answers for all addresses, so the nodes' own must not be on it.
        out = f"user,id=out,net=10.78.{number}.0/24,restrict=on,ipv6=off"
        ways = {self.ports[number]: 22}
        if number == NODES[0]:
            ways[self.prometheus] = PROMETHEUS
        out += "".join(f",hostfwd=tcp:127.0.0.1:{port}-10.78.{number}.15:{inside}" for port, inside in ways.items())
        words = ["-netdev", out]
        if number != NODES[0]:
            return [*words, *wire("nic", "on", number)]
        for node in NODES[1:]:
            words += wire(f"to{node}", "off", node)
            words += ["-netdev", f"hubport,id=hub-to{node},hubid=0,netdev=to{node}"]
        return [*words, "-netdev", "hubport,id=nic,hubid=0"]

    def lose(self, number):
        """From one moment to the next. Returns the process that it was."""
        machine = self._machines.pop(number)
        machine.kill()
        machine.wait()
        return machine.pid

    def console(self, number):
        """The file with what its kernel says."""
        return self.place / f"console{number}"

    def _fail_if_off(self):
        for number, machine in self._machines.items():
            if machine.poll() is not None:
                raise host.Failure(f"node{number} went off; last words:\n" + qemu.tail(self.console(number))
                                   + qemu.tail(self.place / f"qemu{number}.log"))

    def kernel_reports(self):
        """What a kernel should not have said, as lines, by node."""
        found = {}
        for number in NODES:
            if self.console(number).exists():
                found[number] = kernlog.reports(self.console(number).read_text(errors="replace"))
        return {number: report for number, report in found.items() if report}

    # -- by ssh ------------------------------------------------------------------------------

    def options(self):
        """ssh's, for Ansible, too."""
        return ["-F", "none", "-i", str(self._disk.key), "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes",
                "-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={self.place}/known", "-o",
                "LogLevel=ERROR", "-o", "ControlMaster=auto", "-o", f"ControlPath={self.place}/%C",
                "-o", "ControlPersist=600", "-o", "ConnectTimeout=60"]

    def _ask(self, number, script, given=None, patience=PATIENCE):
        return subprocess.run(["ssh", *self.options(), "-p", str(self.ports[number]), "root@127.0.0.1", script],
                              input=given, stdin=None if given is not None else subprocess.DEVNULL,
                              capture_output=True, text=True, errors="replace", check=False,
                              timeout=patience)

    def run(self, number, script, user="root", given=None):
        """What the script has printed there; it may not fail."""
        if user != "root":
            script = f"runuser -l {user} -c {shlex.quote(script)}"
        done = self._ask(number, script, given)
        if done.returncode:
            raise host.Failure(f"node{number}: {script}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout.rstrip()

    def wait_for_ssh(self, number):
        """Until it lets root in."""
        wait_until(f"node{number}'s ssh", lambda: self._ask(number, "true").returncode == 0, self._fail_if_off)

    def wait_for(self, what, condition):
        """Until condition() has a value that counts; returns it."""
        return wait_until(what, condition, self._fail_if_off)

    def keep_logs(self, place):
        """For those who look into a failure."""
        for log in [*self.place.glob("console*"), *self.place.glob("*.log")]:
            shutil.copy(log, place)
        for number in self._machines:
            # One that does not answer keeps nobody waiting.
            with contextlib.suppress(subprocess.TimeoutExpired):
                said = self._ask(number, "journalctl -b --no-pager -q; tail -n 300 /var/log/slurm/*.log; "
                                 "tail -n 300 ~alice/*.log; ls -lR ~alice", patience=_PATIENCE_FOR_LOGS).stdout
                (pathlib.Path(place) / f"node{number}.log").write_text(said)


def address(number):
    """In the machines' own network."""
    return f"10.77.0.{number}"


def wait_until(what, condition, each_time):
    """Until condition() has a value that counts; returns it."""
    end = time.monotonic() + PATIENCE
    while True:
        each_time()
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise host.Failure(f"waited {PATIENCE} s in vain for {what}")
        time.sleep(PAUSE)
