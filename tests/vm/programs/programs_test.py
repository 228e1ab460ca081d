#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The test programs on this kernel, under both backends and across, one line each.

    programs_test.py RUN_PROGRAM PROGRAMS_JSON BIN REFUSALS [--tool TOOL]... [--all] [--without NAME]...

Without --all a selection: what hangs on the kernel, its ids, or the module.
"""

import argparse
import json
import os
import subprocess
import sys

TOOLS = ("cryo-kmod", "cryo-user", "cryo-user+kmod", "cryo-kmod+user")
# By the module, as whoever this is: original ids, registers, memory of every kind, locks held.
MODULE = ["life", "counting_8", "heap_malloc", "sse", "x87", "private_file", "protections",
          "sparse_terabyte", "reservation", "thp", "hugetlb", "hugetlb_shared", "hugetlbfs", "process_ids",
          "process_settings", "mutex_robust", "log_rollback", "pipe_contents", "passed_in_stream",
          "passed_in_packets", "tcp_members", "aio", "fork_memory"]
# Without it: a plain user gets new ids.
USER = ["life", "counting_1", "heap_brk", "protections", "shared_description", "passed_in_stream",
        "passed_in_packets", "process_settings", "aio", "fork_memory"]
# Saved by one, brought back by the other.
ACROSS = ["counting_8", "heap_malloc", "private_file", "fork_memory"]


def choose(everything, tool, new_ids, options):
    """Names of the programs for one tool."""
    # Programs that remember ids, or hold locks with owners, need the old ones.
    if options.all and not new_ids:
        return [program["name"] for program in everything
                if "trees" not in program["tags"] and program["name"] not in options.without]
    return {"cryo-kmod": MODULE, "cryo-user": USER}.get(tool, ACROSS)


def set_huge_pages_aside():
    """For the programs about them, which are left out where there are none."""
    if os.getuid() == 0:
        with open("/proc/sys/vm/nr_hugepages", "w", encoding="ascii") as file:
            file.write("12")
        os.makedirs("/dev/hugepages", exist_ok=True)
        subprocess.run(["mount", "-t", "hugetlbfs", "none", "/dev/hugepages"], check=True)


def use_huge_pages_always():
    """Then a restart that forgets who wants none of them shows."""
    mode = "/sys/kernel/mm/transparent_hugepage/enabled"
    if os.getuid() == 0 and os.path.exists(mode):
        with open(mode, "w", encoding="ascii") as file:
            file.write("always")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runner")
    parser.add_argument("list")
    parser.add_argument("bin")
    parser.add_argument("refusals")
    parser.add_argument("--tool", action="append", choices=TOOLS, help="only this (default: all)")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--without", action="append", default=[])
    options = parser.parse_args()
    with open(options.list, encoding="utf-8") as file:
        everything = json.load(file)

    set_huge_pages_aside()
    use_huge_pages_always()
    failed = []
    for tool in options.tool or TOOLS:
        command = [sys.executable, "-B", options.runner, "--list", options.list, "--tool", tool,
                   "--bin", options.bin, "--mode", "rollback", "--refusals", options.refusals]
        # The module gives a plain user the old ids; without it there are new ones.
        new_ids = os.getuid() != 0 and not tool.endswith("kmod")
        if new_ids:
            command += ["--restart-option=--no-restore-pid", "--word", "newids"]
        done = subprocess.run([*command, *choose(everything, tool, new_ids, options)], check=False,
                              stdout=subprocess.PIPE, text=True)
        print(f"== {tool}\n{done.stdout}", end="", flush=True)
        if done.returncode not in (0, 77):
            failed.append(tool)
    print(f"failed: {', '.join(failed)}" if failed else "all came back")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
