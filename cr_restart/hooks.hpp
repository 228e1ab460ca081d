// SPDX-License-Identifier: Apache-2.0
//
// Commands that a user wants run when a restart has succeeded or failed (--run-on-...),
// by kind of failure: so a script can wait and try again, or start afresh.
//
//     if (const int status = hooks.succeeded(alive.pid); status != 0)
//         return status;
//     return hooks.failed(error, code);
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

class Hooks
{
  public:
    struct Entry {
        const char *name;
        std::string *command;
        const char *help;
    };
    std::vector<Entry> list();

    // Both wait for the command, and return its exit status. The restored process goes on
    // meanwhile.
    int succeeded(pid_t pid) const;
    // `error`: errno or CR_E*; 0: wrong usage. Returns `code`
    // if the command's status is 0 or there is no command.
    int failed(int error, int code) const;

  private:
    std::string success_, args_, temporary_, environment_, permanent_, any_;
};
