# SPDX-License-Identifier: Apache-2.0
"""Finds in a kernel log what must never be there: reports of a kernel that went wrong."""

import re

_STAMP = r"^(?:<\d+>)?\[[ ]*\d+\.\d+\](?:\[[ ]*[TC]\d+\])?[ ]"
_REPORT = re.compile(_STAMP + r"""(?:.*?\b)?(?:
      BUG:\ | kernel\ BUG\ at | Oops\b | KASAN: | KCSAN: | KFENCE: | UBSAN:
    | general\ protection\ fault(?!.*\bip:)       # with ip: it is a user program's
    | Kernel\ panic | Unable\ to\ handle\ kernel | double\ fault
    | rcu:.*\bstall | INFO:\ rcu.*\bstall | detected\ stalls
    | INFO:\ task\ .*\ blocked\ for\ more\ than | soft\ lockup | hard\ LOCKUP
    | possible\ (?:circular|recursive)\ locking | suspicious\ RCU\ usage | DEBUG_LOCKS_WARN_ON
    | bad\ unlock\ balance | held\ lock\ freed | refcount_t: | unreferenced\ object
    )""", re.VERBOSE)
# Many subsystems write "WARNING:" into a line of advice; a report begins with it.
_WARNING = re.compile(_STAMP + r"WARNING: ")
_CONTEXT = 40


def reports(text):
    """The lines of the first report in a log with what follows it; empty when the log is clean."""
    lines = text.replace("\r", "").splitlines()
    for number, line in enumerate(lines):
        if _REPORT.search(line) or _WARNING.search(line):
            return lines[number:number + _CONTEXT]
    return []
