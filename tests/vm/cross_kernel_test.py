#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An image that was taken on one kernel is restarted on others, whose vdso differs.

    cross_kernel_test.py BUILD FROM TO...     on the host: boots the kernels one after the other
    cross_kernel_test.py BUILD save|restart   in the machines
"""
import os
import shutil
import subprocess
import sys
import tempfile
import time

PROGRAM = "vdso"
PATIENCE = 240  # seconds; these machines are emulated


def wait_for(path, process):
    deadline = time.monotonic() + PATIENCE
    while not os.path.exists(path):
        if process.poll() is not None:
            sys.exit(f"ended with status {process.returncode} before {path}")
        if time.monotonic() > deadline:
            sys.exit(f"no {path}")
        time.sleep(0.05)


def save(build, out):
    # Ids that a machine has not given away yet a few seconds after its start.
    with open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as file:
        file.write("20000")
    # The directory must be writable for the restart too, where others may run it.
    os.mkdir(f"{out}/run")
    program = subprocess.Popen([f"{build}/bin/cr_run", f"{build}/tests/programs/{PROGRAM}", "--dir",
                                f"{out}/run"], stdout=subprocess.DEVNULL)
    wait_for(f"{out}/run/ready.1", program)
    subprocess.run([f"{build}/bin/cr_checkpoint", "--kill", "-f", f"{out}/image", str(program.pid)],
                   check=True)
    program.wait()


def restart(build, out):
    process = subprocess.Popen([f"{build}/bin/cr_restart", f"{out}/image"])
    with open(f"{out}/run/check.tmp", "w", encoding="ascii") as file:
        file.write("last\n")
    os.rename(f"{out}/run/check.tmp", f"{out}/run/check.1")
    status = process.wait(PATIENCE)
    with open(f"{out}/run/verdict.1", encoding="ascii") as file:
        verdict = file.read().strip()
    os.remove(f"{out}/run/check.1")
    os.remove(f"{out}/run/verdict.1")
    if status != 0 or verdict != "PASS":
        sys.exit(f"status {status}: {verdict}")


def in_machine(kernel, build, what, out):
    here = os.path.dirname(os.path.abspath(__file__))
    command = [f"{here}/../../scripts/vm", "run", "--kernel", kernel, "--no-module", "--out", out,
               "--", sys.executable, "-B", os.path.abspath(__file__), build, what]
    done = subprocess.run(command, check=False)
    if done.returncode != 0:
        sys.exit(f"{what} on {kernel}: status {done.returncode}")


def main():
    build, first, *rest = sys.argv[1:]
    if first in ("save", "restart"):
        {"save": save, "restart": restart}[first](build, os.environ["CRYO_VM_OUT"])
        return
    out = tempfile.mkdtemp(prefix="cross_kernel.")
    in_machine(first, build, "save", out)
    for kernel in rest:
        in_machine(kernel, build, "restart", out)
    shutil.rmtree(out)
    print(f"saved on {first}, restarted on {' and '.join(rest)}")


if __name__ == "__main__":
    main()
