# SPDX-License-Identifier: Apache-2.0
"""The command line of scripts/vm."""

import argparse
import pathlib
import signal
import sys

from . import chroot, host, kernels, module, qemu, run, source


def _parser():
    parser = argparse.ArgumentParser(
        prog="scripts/vm", description="Runs commands on real kernels under QEMU, on this "
        "machine's own (read-only) files. docs/testing-vm.md tells how it works.")
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    def kernel_options(sub):
        sub.add_argument("--kernel", required=True, choices=kernels.NAMES)
        sub.add_argument("--flavour", default="cloud", choices=[*kernels.FLAVOURS])
        sub.add_argument("--verbose", "-v", action="store_true", help="show steps and times")

    def running_options(sub):
        kernel_options(sub)
        sub.add_argument("--nodes", type=int, default=1, metavar="N",
                         help="so many machines on one network")
        sub.add_argument("--on", choices=["first", "all"], default="first",
                         help="which nodes run the command (first)")
        sub.add_argument("--user", action="store_true", help="run it as uid 1000, not as root")
        sub.add_argument("--module", action=argparse.BooleanOptionalAction, default=True,
                         help="load cryo.ko built for that kernel (the default)")
        sub.add_argument("--memory", help="memory of each node (1G)")
        sub.add_argument("--cpus", type=int, help="CPUs of each node (2; 1 with several nodes)")
        sub.add_argument("--cpu", default=qemu.CPU, help="QEMU's CPU model")
        sub.add_argument("--append", default="", help="more kernel parameters")
        sub.add_argument("--console", action="store_true", help="show the kernel's log as it comes")
        sub.add_argument("--timeout", type=float, default=300, metavar="S",
                         help="seconds for the whole run (300)")
        sub.add_argument("--out", type=pathlib.Path, metavar="DIR",
                         help="the guest's $CRYO_VM_OUT, a writable directory all nodes share")
        sub.add_argument("--share", type=pathlib.Path, action="append", default=[], metavar="DIR",
                         help="a directory under /tmp that the command must see")
        sub.add_argument("--overlay", action="append", default=[], metavar="DIR",
                         help="a directory of the host where the guest may write (to scratch)")
        sub.add_argument("--env", action="append", default=[], metavar="NAME=VALUE",
                         help="one more environment variable of the command")

    sourcing = commands.add_parser("source", help="print the path of a kernel's source tree")
    sourcing.add_argument("--kernel", required=True, choices=["6.12"])
    sourcing.add_argument("--verbose", "-v", action="store_true", help="show steps and times")
    sourcing.set_defaults(function=_source)

    running = commands.add_parser("run", help="boot a kernel and run a command on it")
    running_options(running)
    running.add_argument("command", nargs="+", metavar="COMMAND",
                         help="a program with arguments, or one word: a shell script")
    running.set_defaults(function=_run, interactive=False)

    shell = commands.add_parser("shell", help="boot a kernel and open a shell on it")
    running_options(shell)
    shell.set_defaults(function=_run, interactive=True, timeout=86400,
                       command=["exec bash -i"])

    fetching = commands.add_parser("fetch", help="put a kernel into the cache")
    kernel_options(fetching)
    fetching.add_argument("--refresh", action="store_true",
                          help="take the archive's newest, also when one is cached")
    fetching.set_defaults(function=_fetch)

    unpacking = commands.add_parser(
        "tree", help="put a tree of another Debian release into the cache, print its path")
    unpacking.add_argument("name", choices=chroot.NAMES)
    unpacking.add_argument("--verbose", "-v", action="store_true", help="show steps and times")
    unpacking.set_defaults(function=_tree)

    listing = commands.add_parser("list", help="show the kernels in the cache")
    listing.set_defaults(function=_list, verbose=False)

    building = commands.add_parser("build", help="build cryo.ko for a kernel, print its path")
    kernel_options(building)
    building.set_defaults(function=_build)
    return parser


def _run(options):
    options.env = dict(pair.split("=", 1) for pair in options.env)
    options.memory = options.memory or "1G"
    options.cpus = options.cpus or (1 if options.nodes > 1 else 2)
    kernel = kernels.get(options.kernel, options.flavour)
    built = module.build(kernel) if options.module else None
    # The debug kernel's checkers see every step of the boot.
    options.patience = run.KERNEL_PATIENCE * (3 if options.kernel == kernels.DEBUG else 1)
    return run.run(kernel, options, built)


def _fetch(options):
    print(kernels.get(options.kernel, options.flavour, options.refresh).release)
    return 0


def _list(_options):
    for name, flavour, release in kernels.available():
        print(f"{name:6} {flavour:8} {release or 'damaged; will be made again'}")
    return 0


def _tree(options):
    print(chroot.get(options.name))
    return 0


def _source(options):
    print(source.get(options.kernel))
    return 0


def _build(options):
    print(module.build(kernels.get(options.kernel, options.flavour)))
    return 0


def main(argv):
    """Runs one command line; returns the exit status."""
    options = _parser().parse_args(argv)
    host.set_verbose(options.verbose)
    for sig in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, lambda number, _: sys.exit(128 + number))
    try:
        return options.function(options)
    except host.Failure as failure:
        host.say(str(failure))
        return run.NO_START
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
