# SPDX-License-Identifier: Apache-2.0
"""A run: boot the nodes, run the command, stream its output, judge the kernel's log.

    status = run.run(kernel, options, module)
"""

import json
import os
import pathlib
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import time

from . import host, initramfs, kernlog, qemu

# The command's own status is passed on as it is; these are the harness's. docs/testing-vm.md
KERNEL_REPORT = 250
NODE_DIED = 251
TIMEOUT = 252
NO_START = 253

_SCRATCH = ("/tmp", "/var/tmp", "/run", "/dev/shm")
_ENVIRONMENT = ("PATH", "LANG", "CI")
_ENVIRONMENT_PREFIXES = ("LC_", "CRYO_", "GTEST_", "ASAN_", "UBSAN_", "TSAN_")
_POLL = 0.02
# The kernel alone takes a few seconds of a processor, of which a busy machine has few.
KERNEL_PATIENCE = 120


class NeverStarted(Exception):
    """A kernel did not get as far as its first program: nothing of ours has run yet."""


def run(kernel, options, module):
    """Boots, runs the command, and returns the exit status for the caller."""
    try:
        return Run(kernel, options, module).go()
    except NeverStarted as hang:
        host.say(str(hang))
        return NO_START


class Run:
    """One boot of one or more nodes."""

    def __init__(self, kernel, options, module):
        self._kernel = kernel
        self._options = options
        self._module = module
        self._nodes = [f"node{k}" for k in range(1, options.nodes + 1)]
        self._commanded = self._nodes if options.on == "all" else self._nodes[:1]
        self._dir = pathlib.Path(tempfile.mkdtemp(prefix="cryo-vm-", dir="/tmp"))
        self._starting = set(self._nodes)
        self._machines = {}
        self._streams = []
        self._servers = None
        self._started = 0.0

    def go(self):
        """Runs it all; returns the exit status for the caller."""
        try:
            self._write_orders()
            self._serve()
            self._started = time.monotonic()
            self._boot()
            status = self._judge(self._watch())
            if status:
                self._keep()
            return status
        finally:
            self._end()

    # -- before ------------------------------------------------------------------------------

    def _write_orders(self):
        (self._dir / "etc").mkdir()
        for name, text in self._etc_files().items():
            (self._dir / "etc" / name).write_text(text)
        (self._dir / "out").mkdir()
        (self._dir / "out").chmod(0o1777)
        if self._options.out:
            self._options.out.mkdir(parents=True, exist_ok=True)
            # The command may be another user in there.
            self._options.out.chmod(stat.S_IMODE(self._options.out.stat().st_mode) | 0o1777)
        for number, node in enumerate(self._nodes, 1):
            own = self._dir / node
            own.mkdir()
            (own / "config").write_text(self._config(number, node))
            (own / "command").write_text(self._command(node))
            if node in self._commanded:
                for name, target in (("stdout", sys.stdout), ("stderr", sys.stderr)):
                    (own / name).touch()
                    prefix = f"{node}: ".encode() if len(self._commanded) > 1 else b""
                    self._streams.append(Stream(own / name, target.buffer, prefix))

    def _config(self, number, node):
        places = [f"    keep {shlex.quote(place)}" for place in self._kept_places()]
        if self._options.overlay:
            places.append("    /sbin/modprobe overlay")
        places += [f"    overlay {shlex.quote(place)}" for place in self._options.overlay]
        settings = {
            "modules_root": self._kernel.root,
            "module": self._module or "",
            "group": "cryo",
            "user": "1" if self._options.user else "",
            "nodes": " ".join(self._nodes),
            "address": f"10.77.0.{number}" if len(self._nodes) > 1 else "",
            "runs_command": "1" if node in self._commanded else "",
            "interactive": "1" if self._options.interactive else "",
        }
        lines = [f"{name}={shlex.quote(str(value))}" for name, value in settings.items()]
        return "\n".join([*lines, "host_places() {", *places, "    :", "}", ""])

    def _kept_places(self):
        """Directories under the scratch places that the command needs from the host."""
        wanted = [host.REPO, host.cache(), pathlib.Path.cwd(), *self._options.share]
        kept = set()
        for path in wanted:
            path = path.absolute()
            for scratch in _SCRATCH:
                if path.is_relative_to(scratch) and path != pathlib.Path(scratch):
                    first = path.relative_to(scratch).parts[0]
                    kept.add(str(pathlib.Path(scratch) / first))
        return sorted(kept)

    def _command(self, node):
        home = "/run/home/" + ("cryo-user" if self._options.user else "root")
        user = "cryo-user" if self._options.user else "root"
        environment = {name: value for name, value in os.environ.items()
                       if name in _ENVIRONMENT or name.startswith(_ENVIRONMENT_PREFIXES)}
        environment |= {"HOME": home, "USER": user, "LOGNAME": user, "SHELL": "/bin/sh",
                        "TMPDIR": "/tmp", "MODPROBE_OPTIONS": f"-d {self._kernel.root}",
                        "CRYO_VM_OUT": "/run/cryo-vm/out", "CRYO_VM_NODE": node,
                        "CRYO_VM_NODES": " ".join(self._nodes),
                        "CRYO_VM_KERNEL": self._options.kernel,
                        "CRYO_VM_KDIR": str(self._kernel.build_dir),
                        "CRYO_VM_MODULE": str(self._module or "")}
        environment |= self._options.env
        command = self._options.command
        if len(command) == 1:
            command = ["/bin/sh", "-c", command[0]]
        exports = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()
                   if name.isidentifier()]
        return "\n".join(["#!/bin/sh", *exports,
                          f"cd {shlex.quote(os.getcwd())} || exit 126",
                          f"exec {shlex.join(command)}", ""])

    def _etc_files(self):
        def lines_without(path, *unwanted):
            text = pathlib.Path(path).read_text(errors="replace")
            return [line for line in text.splitlines()
                    if line and not any(match(line.split(":")) for match in unwanted)]
        passwd = lines_without("/etc/passwd", lambda f: f[0] == "cryo-user",
                               lambda f: len(f) > 2 and f[2] == "1000")
        passwd.append("cryo-user:x:1000:1000:Cryo test user:/run/home/cryo-user:/bin/bash")
        group = lines_without("/etc/group", lambda f: f[0] in ("cryo", "cryo-user"),
                              lambda f: len(f) > 2 and f[2] == "1000")
        taken = {line.split(":")[2] for line in group if line.count(":") >= 3}
        gid = next(str(n) for n in range(990, 100, -1) if str(n) not in taken)
        group += ["cryo-user:x:1000:", f"cryo:x:{gid}:cryo-user"]
        hosts = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
        if len(self._nodes) > 1:
            hosts += [f"10.77.0.{k} {node}" for k, node in enumerate(self._nodes, 1)]
        else:
            hosts.append("127.0.1.1 node1")
        return {"passwd": "\n".join(passwd) + "\n", "group": "\n".join(group) + "\n",
                "hosts": "\n".join(hosts) + "\n", "hostname": "node\n"}

    def _serve(self):
        order = {"run": str(self._dir), "uid": os.getuid(), "gid": os.getgid(),
                 "out": str(self._options.out.absolute()) if self._options.out else None,
                 "log": str(self._dir / "virtiofsd.log"),
                 "shares": [{"socket": str(self._dir / node / f"{what}.sock"), "what": what}
                            for node in self._nodes for what in ("root", "run")]}
        program = pathlib.Path(__file__).with_name("shares.py")
        self._servers = subprocess.Popen(host.as_root([sys.executable, "-I", str(program)]),
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._servers.stdin.write(json.dumps(order).encode() + b"\n")
        self._servers.stdin.flush()
        if self._servers.stdout.readline() != b"ready\n":
            raise host.Failure("the file servers of the virtual machine could not be started "
                               "(they need root and the package qemu-system-common)")

    def _boot(self):
        lan = qemu.Lan() if len(self._nodes) > 1 else None
        shape = qemu.Shape(self._options.memory, self._options.cpus, self._options.cpu,
                           self._options.append)
        early = initramfs.needed_by(self._kernel)
        initrd = self._dir / "initramfs" if early else None
        if early:
            initrd.write_bytes(early)
        for number, node in enumerate(self._nodes, 1):
            if self._options.console:
                (self._dir / node / "console").touch()
                self._streams.append(Stream(self._dir / node / "console", sys.stderr.buffer, b""))
            self._machines[node] = qemu.Machine(self._kernel, shape, number, self._dir / node,
                                                initrd, lan,
                                                self._options.interactive and number == 1)

    # -- while it runs -----------------------------------------------------------------------

    def _watch(self):
        """Streams output until every command has ended; returns what went wrong, or None."""
        deadline = self._started + self._options.timeout
        waiting = set(self._commanded)
        unbooted = set(self._commanded)
        while waiting:
            dead = [node for node, machine in self._machines.items() if machine.ended()]
            for stream in self._streams:
                stream.pump()
            for node in [n for n in unbooted if (self._dir / n / "booted").exists()]:
                unbooted.discard(node)
                host.note(f"{node}: {self._kernel.release} runs the command after "
                          f"{time.monotonic() - self._started:.1f} s")
            self._check_kernels()
            waiting -= {n for n in waiting if (self._dir / n / "status").exists()}
            broken = [n for n in dead if not (self._dir / n / "status").exists()]
            if broken:
                return NODE_DIED, broken[0]
            if waiting and time.monotonic() > deadline:
                return TIMEOUT, sorted(waiting)[0]
            time.sleep(_POLL)
        for stream in self._streams:
            stream.pump()
        return None

    def _check_kernels(self):
        if not self._starting or time.monotonic() < self._started + self._options.patience:
            return
        self._starting = {n for n in self._starting if not (self._dir / n / "alive").exists()}
        for node in self._starting:
            raise NeverStarted(f"{node}: kernel {self._kernel.release} did not start its first "
                               f"program within {self._options.patience} s; its last words:\n"
                               + qemu.tail(self._dir / node / "console"))

    def _judge(self, wrong):
        for stream in self._streams:
            stream.finish()
        took = time.monotonic() - self._started
        host.note(f"the run took {took:.1f} s")
        for node, machine in self._machines.items():
            log = self._dir / node / "dmesg"
            text = log.read_text(errors="replace") if log.exists() else ""
            report = kernlog.reports(text) or kernlog.reports(machine.kernel_log())
            if report:
                host.say(f"{node}: the kernel ({self._kernel.release}) reported:")
                print("\n".join(report), file=sys.stderr)
                return KERNEL_REPORT
        if wrong:
            return self._explain(*wrong)
        if any((self._dir / node / "module-stuck").exists() for node in self._nodes):
            host.say("cryo.ko could not be unloaded after the command and all its processes ended")
            return KERNEL_REPORT
        return max(int((self._dir / node / "status").read_text()) for node in self._commanded)

    def _explain(self, code, node):
        own = self._dir / node
        if (own / "failed").exists():
            host.say(f"{node}: {(own / 'failed').read_text().strip()}; the kernel's last words:\n"
                     + qemu.tail(own / "console"))
            return NO_START
        booted = "running the command" if (own / "booted").exists() else "starting"
        if code == TIMEOUT:
            host.say(f"{node}: still {booted} after {self._options.timeout} s (--timeout); "
                     "the kernel's last words:\n" + qemu.tail(own / "console"))
        else:
            host.say(f"{node}: the machine went off while {booted}; last words:\n"
                     + qemu.tail(own / "console") + qemu.tail(own / "qemu.log")
                     + qemu.tail(self._dir / "virtiofsd.log"))
        return code

    # -- after -------------------------------------------------------------------------------

    def _keep(self):
        """What a failing test's kernels and helpers said goes where scripts/test keeps it."""
        place = os.environ.get("CRYO_TEST_KEEP")
        if not place:
            return
        for node in self._nodes:
            for name in ("dmesg", "console", "qemu.log"):
                log = self._dir / node / name
                if log.exists():
                    shutil.copyfile(log, pathlib.Path(place) / f"{node}.{name}")

    def _end(self):
        for machine in self._machines.values():
            machine.off()
        if self._servers:
            # The servers clean up behind themselves and behind us, this directory included.
            self._servers.stdin.close()
            self._servers.wait()
        else:
            host.remove(self._dir)


class Stream:
    """Copies what a growing file gets to a descriptor of ours, by whole lines if prefixed."""

    def __init__(self, path, target, prefix):
        self._file = open(path, "rb", buffering=0)
        self._target = target
        self._prefix = prefix
        self._rest = b""

    def pump(self):
        """Copies what is there now."""
        while data := self._file.read(1 << 16):
            if self._prefix:
                *lines, self._rest = (self._rest + data).split(b"\n")
                data = b"".join(self._prefix + line + b"\n" for line in lines)
            self._target.write(data)
            self._target.flush()

    def finish(self):
        """Copies the end, also of a last line without a newline."""
        self.pump()
        if self._rest:
            self._target.write(self._prefix + self._rest + b"\n")
            self._target.flush()
        self._file.close()
