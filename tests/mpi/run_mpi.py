#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs an MPI program natively and under the capsule; both must succeed and print the same.

    run_mpi.py --preload libcryo_openmpi.so --ranks 4 --transport vader -- ./program ARGUMENT ...

Lines that begin with '#' may differ; with --said, all that do not begin like it. --once runs it
under the capsule only. A job that hangs is shown, rank by rank, with the place where each waits, and
killed. --build BUILD runs it with Open MPI 5.0, in a tree of another release (inside.py).
"""
import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import inside

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "system" / "programs"))
import processes  # noqa: E402

# Open MPI's, and MPICH's: its own shared memory, or what it has between nodes (UCX).
TRANSPORTS = {"vader": {"OMPI_MCA_btl": "self,vader"}, "tcp": {"OMPI_MCA_btl": "self,tcp"},
              "both": {"OMPI_MCA_btl": "self,vader,tcp"},
              "shm": {}, "ucx": {"MPIR_CVAR_NOLOCAL": "1"}}


def need_old_ids():
    """A test is skipped where no process can be given an id by choice."""
    if not processes.keep_ids():
        print("left out: old ids are not to be had")
        sys.exit(77)


def environment(directory, transport):
    """Loopback only, any number of ranks on any number of cores, sessions of this job's own."""
    settings = dict(os.environ)
    settings.update(
        TMPDIR=str(directory),
        OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none",
        OMPI_MCA_mpi_yield_when_idle="1", OMPI_MCA_plm_rsh_agent="false",
        OMPI_MCA_pml="ob1", OMPI_MCA_osc="^ucx",
        OMPI_MCA_btl_vader_single_copy_mechanism="none",
        OMPI_MCA_btl_vader_backing_directory=str(directory),
        # Open MPI 5.0, whose launcher is PRTE, has other names for these settings.
        PRTE_ALLOW_RUN_AS_ROOT="1", PRTE_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe",
        PRTE_MCA_hwloc_default_binding_policy="none",
        OMPI_MCA_btl_sm_backing_directory=str(directory),
        OMPI_MCA_btl_tcp_if_include="lo", OMPI_MCA_oob_tcp_if_include="lo",
        PMIX_MCA_gds="hash", UCX_NET_DEVICES="lo")
    settings.update(TRANSPORTS[transport])
    return settings


def exporting(mpirun, name, value):
    """The launcher's option for a variable of the ranks'."""
    return ["-genv", name, value] if "mpich" in mpirun else ["-x", f"{name}={value}"]


def threads_of(pid):
    """Their directories; none, if the process has ended: glob() would raise what scandir() does."""
    try:
        return [Path(f"/proc/{pid}/task/{tid}") for tid in sorted(os.listdir(f"/proc/{pid}/task"))]
    except OSError:
        return []


def descendants(pid):
    """Processes below pid, itself included."""
    found = [pid]
    for parent in found:
        for path in (thread / "children" for thread in threads_of(parent)):
            try:
                found += [int(child) for child in path.read_text().split()]
            except OSError:
                pass
    return found


def read(path):
    try:
        return Path(path).read_text(errors="replace").strip().replace("\0", " ")
    except OSError as error:
        return f"({error.strerror})"


def show_where_they_wait(pid):
    """The watchdog's report: every process and thread of the job, and what it does."""
    for process in descendants(pid):
        print(f"--- {process}: {read(f'/proc/{process}/cmdline')}", file=sys.stderr)
        for thread in threads_of(process):
            print(f"    {thread.name} {read(thread / 'comm')}: "
                  f"{read(thread / 'wchan')}; call {read(thread / 'syscall')}", file=sys.stderr)
        if shutil.which("gdb"):
            trace = subprocess.run(
                ["gdb", "-p", str(process), "-batch", "-ex", "thread apply all backtrace 20"],
                capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
            print(trace.stdout[-6000:], file=sys.stderr)


@contextlib.contextmanager
def eager(settings):
    """Jobs of Open MPI that are started within have the greatest weight, where that is permitted. Ranks
    yield while they wait (environment()), and Linux 6.18 has a task that yields wait for a whole slice of
    its virtual time: beside two programs that compute, a job took 17 times as long. The slice of a
    heavy task is short, and others lose little by it, as a rank that yields computes for microseconds."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    if "OMPI_MCA_btl" in settings: # MPICH's ranks do not yield
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, -20)
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)


# Jobs have process groups and no sessions of their own: Linux 6.18 makes everybody else wait for
# seconds when processes of another session (an autogroup) do little but yield.
def run_job(command, settings, patience):
    """Exit code and output of the job; None when it hung."""
    with eager(settings):
        started = subprocess.Popen(command, env=settings, stdin=subprocess.DEVNULL, text=True,
                                   errors="replace", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   process_group=0)
    with started as job:
        try:
            output, errors = job.communicate(timeout=patience)
            return job.returncode, output, errors
        except subprocess.TimeoutExpired:
            print(f"the job hangs: {' '.join(command)}", file=sys.stderr)
            show_where_they_wait(job.pid)
            for process in reversed(descendants(job.pid)):
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            output, errors = job.communicate()
            return None, output, errors


def run_program(options, preload):
    with tempfile.TemporaryDirectory(prefix="cryo-mpi-", dir=options.scratch) as directory:
        settings = environment(directory, options.transport)
        command = [options.mpirun, "-n", str(options.ranks)]
        if options.build:
            command = inside.prefix(options.build) + command
            settings.update(inside.environment(options.build, directory))
        settings.update(setting.split("=", 1) for setting in options.set)
        if not preload: # the capsule keeps the library's crash handlers out anyway
            settings["OMPI_MCA_opal_signal"] = ""
        if preload:
            command += exporting(options.mpirun, "LD_PRELOAD", preload)
        settings["CRYO_SCRATCH"] = directory
        command += options.command
        code, output, errors = run_job(command, settings, options.patience)
    if code is None or (code == 0 if options.expect == "failure" else code != int(options.expect)):
        sys.exit(f"{'under the capsule' if preload else 'natively'}: exit code {code}, not "
                 f"{options.expect}\n{output}\n{errors}")
    if not options.said:
        return sorted(line for line in output.splitlines() if not line.startswith("#"))
    # Natively other things are complained of, so errors only count where nothing is compared.
    lines = (output + errors if options.once else output).splitlines()
    said = sorted(line for line in lines if re.match(options.said, line))
    return said or sys.exit(f"the job said nothing of what was asked for\n{output}\n{errors}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preload", required=True)
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--transport", choices=TRANSPORTS, default="vader")
    parser.add_argument("--patience", type=int, default=150, help="seconds until a job hangs")
    parser.add_argument("--expect", default="0", help="the job's exit code, or failure: any but 0")
    parser.add_argument("--said", metavar="REGEX",
                        help="compare the lines that begin like this, and want some")
    parser.add_argument("--build", help="run it with Open MPI 5.0, and this build of Cryo")
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE",
                        help="a variable of the job's environment")
    parser.add_argument("--scratch", help="where the jobs' directories are made")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()

    under_capsule = run_program(options, options.preload)
    if options.once:
        print("\n".join(under_capsule))
        return
    natively = run_program(options, "")
    if under_capsule != natively:
        sys.exit("the outputs differ\n--- natively\n" + "\n".join(natively) +
                 "\n--- under the capsule\n" + "\n".join(under_capsule))
    print(f"{len(natively)} lines, the same natively and under the capsule")


if __name__ == "__main__":
    main()
