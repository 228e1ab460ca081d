#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs Cryo's test programs under a tool and judges what they say.

    run_program.py --list build/release/tests/programs/programs.json heap_brk
    run_program.py --list … --tool cryo-user --mode rollback --bin build/release/bin --tag files
    run_program.py --list … --sabotage offset
"""

import argparse
import json
import os
import signal
import sys

import needs
import processes
import session
import tools

MODES = ("plain", "restart", "continue", "rollback", "generations")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="programs; without any, all that --tag selects")
    parser.add_argument("--list", required=True, help="programs.json of a build")
    parser.add_argument("--tool", default="plain", help="plain, cryo or cryo-BACKEND")
    parser.add_argument("--bin", default="", help="directory of cr_run, cr_checkpoint, cr_restart")
    parser.add_argument("--mode", choices=MODES, action="append",
                        help="may be repeated; plain for the tool plain, else restart")
    parser.add_argument("--generations", type=int, default=10, metavar="N",
                        help="checkpoints in a row of mode generations")
    parser.add_argument("--tag", action="append", default=[],
                        help="only programs with this tag; !TAG: only those without")
    parser.add_argument("--sabotage", action="store_true",
                        help="each program undoes what it tests, and must notice")
    parser.add_argument("--word", action="append", default=[],
                        help="said with 'check': newids if ids may differ")
    parser.add_argument("--restart-option", action="append", default=[], metavar="OPTION",
                        help="given to the tool's restart")
    parser.add_argument("--checkpoint-option", action="append", default=[], metavar="OPTION",
                        help="given to the tool's checkpoint")
    parser.add_argument("--plain-user", action="store_true",
                        help="run by root: programs and tool as a user without privileges")
    parser.add_argument("--refusals", metavar="FILE",
                        help="lines 'NAME words': programs that this tool refuses, saying that")
    parser.add_argument("--scratch", help="where the runs keep their files")
    parser.add_argument("--timeout", type=float, default=60, metavar="SECONDS",
                        help="patience for each step of a run")
    parser.add_argument("--left-out", action="store_true",
                        help="only print the programs whose needs this machine does not meet")
    return parser.parse_args()


def select(programs, names, tags):
    """The programs asked for, in the order of the list."""
    known = {program["name"] for program in programs}
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"run_program: no test program is called {', '.join(unknown)}")
    chosen = [program for program in programs if not names or program["name"] in names]
    for tag in tags:
        wanted = not tag.startswith("!")
        chosen = [program for program in chosen
                  if (tag.removeprefix("!") in program["tags"]) == wanted]
    if not chosen:
        sys.exit("run_program: no test program has these tags")
    return chosen


def runs_of(program, tool, modes, options):
    """(label, function) of every run that the options ask of one program."""
    def new_session():
        return session.Session(program, tool, options.scratch, options.timeout, options.word)
    if options.sabotage:
        return [(f"sabotage {name}", lambda name=name: new_session().run_sabotage(name))
                for name in program["sabotages"]]
    return [(mode, lambda mode=mode: new_session().run(mode, options.generations))
            for mode in modes]


def main():
    options = parse_arguments()
    options.bin = options.bin and os.path.abspath(options.bin)
    processes.have_own_ipc()
    processes.have_own_network()
    if options.plain_user:
        processes.become_plain_user(options.bin)
    with open(options.list, encoding="utf-8") as file:
        programs = select(json.load(file), options.names, options.tag)
    if options.left_out:
        for program in programs:
            if missing := needs.unmet(program["needs"]):
                print(f"{program['name']}: {', '.join(missing)}")
        return 0

    if options.refusals:
        with open(options.refusals, encoding="utf-8") as file:
            lines = [line.split(None, 1) for line in file if line.strip() and line[0] != "#"]
        refusals = {name: words.strip() for name, words in lines}
        for program in programs:
            program["refused"] = refusals.get(program["name"], program["refused"])

    tool = tools.make(options.tool, options.bin, options.restart_option,
                      options.checkpoint_option)
    modes = options.mode or (["plain"] if options.tool == "plain" else ["restart"])
    if foreign := [mode for mode in modes if mode not in tool.modes]:
        sys.exit(f"run_program: the tool {options.tool} does not do {', '.join(foreign)}")
    # A test must not inherit what its caller ignores or blocks.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    processes.adopt_orphans()

    count = {"PASS": 0, "FAIL": 0, "LACKS": 0}
    for program in programs:
        if missing := needs.unmet(program["needs"]):
            print(f"left out: {program['name']}: this machine has no {', '.join(missing)}")
            continue
        for label, run in runs_of(program, tool, modes, options):
            outcome = run()
            count[outcome.kind] += 1
            print(f"{outcome.kind} {program['name']} {label}"
                  + (f": {outcome.text}" if outcome.text else ""), flush=True)

    # Where a test machine is meant to be complete, what it lacks is a failure.
    if os.environ.get("CI") == "true":
        count["FAIL"] += count["LACKS"]
        count["LACKS"] = 0
    print(f"{count['PASS']} passed, {count['FAIL']} failed, {count['LACKS']} skipped")
    if count["FAIL"]:
        return 1
    return session.LACKS_FEATURE if count["LACKS"] else 0


if __name__ == "__main__":
    sys.exit(main())
