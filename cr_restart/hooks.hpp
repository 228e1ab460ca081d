// SPDX-License-Identifier: Apache-2.0
//
// Commands that a user wants run when a restart has succeeded or failed (--run-on-...), by kind of
// failure: a script can so wait and try again, or start afresh.
//
//     hooks.succeeded(alive.pid);
//     return hooks.failed(error);
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

    // In the background: the restored process goes on meanwhile.
    void succeeded(pid_t pid) const;
    // Waits for the command. `error`: errno or CR_E*; 0: wrong usage.
    void failed(int error) const;

  private:
    std::string success_, args_, temporary_, environment_, permanent_, any_;
};
