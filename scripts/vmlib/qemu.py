# SPDX-License-Identifier: Apache-2.0
"""One virtual machine: its QEMU command line and process."""

import dataclasses
import os
import pathlib
import random
import subprocess

from . import clock, host
from .kernels import Kernel

# Emulated SMAP makes the kernel's user copies several times slower than on a real CPU, and the
# fast string instructions are slow here; without them ratios are like those of a real machine.
CPU = "max,erms=off,fsrm=off,smap=off,smep=off,la57=off"
_COMMAND_LINE = ("console=ttyS0 loglevel=5 panic=-1 oops=panic mitigations=off tsc=reliable "
                 "no_timer_check random.trust_cpu=on rcupdate.rcu_cpu_stall_timeout=60 "
                 "root=cryoroot rootfstype=virtiofs ro")


@dataclasses.dataclass(frozen=True)
class Shape:
    """What a machine is made of."""
    memory: str
    cpus: int
    cpu: str
    append: str


class Lan:
    """A network of one run: multicast on the loopback interface, apart from other runs'."""

    def __init__(self):
        pick = random.SystemRandom()
        self._group = f"239.{pick.randrange(192, 255)}.{pick.randrange(256)}.{pick.randrange(256)}"
        self._port = pick.randrange(20000, 30000)
        self._mac = f"52:54:00:{pick.randrange(256):02x}:{pick.randrange(256):02x}"

    def arguments(self, number):
        """What QEMU needs for node `number`."""
        return ["-netdev", f"socket,id=lan,mcast={self._group}:{self._port},localaddr=127.0.0.1",
                "-device", f"virtio-net-pci,netdev=lan,romfile=,mac={self._mac}:{number:02x}"]


class Machine:
    """A running QEMU. It dies with the harness, whatever the harness dies of."""

    def __init__(self, kernel: Kernel, shape: Shape, number: int, directory: pathlib.Path,
                 initramfs: pathlib.Path | None, lan: Lan | None, terminal: bool):
        self.console = directory / "console"
        self.log = directory / "qemu.log"
        append = f"{_COMMAND_LINE} {shape.append} cryo.node=node{number} "
        # On a busy machine the guest measures wrongly, and its clock ran fifteen times too fast.
        if clock.tsc_khz():
            append += f"tsc_early_khz={clock.tsc_khz()} "
        init = host.GUEST / "init"
        append += f"cryo.init={init}" if initramfs else f"init={init}"
        argv = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none",
                "-no-reboot", "-machine", "q35,memory-backend=ram,vmport=off,smbus=off,sata=off",
                "-bios", "qboot.rom", "-object",
                f"memory-backend-memfd,id=ram,size={shape.memory},share=on",
                "-m", shape.memory, "-smp", str(shape.cpus), "-cpu", shape.cpu,
                "-accel", "tcg,thread=single", "-kernel", str(kernel.vmlinuz), "-append", append,
                "-chardev", f"file,id=console,path={self.console}", "-serial", "chardev:console"]
        if initramfs:
            argv += ["-initrd", str(initramfs)]
        for tag in ("root", "run"):
            argv += ["-chardev", f"socket,id={tag},path={directory}/{tag}.sock", "-device",
                     f"vhost-user-fs-pci,queue-size=1024,chardev={tag},tag=cryo{tag}"]
        if lan:
            argv += lan.arguments(number)
        if terminal:
            argv += ["-chardev", "stdio,id=terminal,signal=off", "-serial", "chardev:terminal"]
        with open(self.log, "wb") as log:
            try:
                self.process = subprocess.Popen(argv,
                                                stdin=None if terminal else subprocess.DEVNULL,
                                                stdout=None if terminal else log, stderr=log, start_new_session=True,
                                                preexec_fn=host.die_with_parent())
            except FileNotFoundError as missing:
                raise host.Failure("qemu-system-x86_64 is not installed (package "
                                   "qemu-system-x86)") from missing

    def ended(self):
        """Whether the machine is off."""
        return self.process.poll() is not None

    def kernel_log(self):
        """What the kernel has printed so far."""
        try:
            return self.console.read_text(errors="replace")
        except OSError:
            return ""

    def off(self):
        """Switches it off, gently at first: QEMU may have a terminal to put back."""
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def tail(path, lines=15):
    """The last lines of a log, for a message."""
    if not os.path.exists(path):
        return ""
    return "\n".join(pathlib.Path(path).read_text(errors="replace").splitlines()[-lines:])
