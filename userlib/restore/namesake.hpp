// SPDX-License-Identifier: Apache-2.0
//
// A namesake is a helper process that has the id and the groups of a process to be restored, before
// that one is made. Sockets that the namesake makes or connects name its id as their peer
// (SO_PEERCRED) also after its end, and so name the restored process. Its user is the caller's, as
// that of all restored processes: servers trust the user that a socket names, so an image does not
// decide it.
//
//     const auto listens = [&](int, Made &) { return sys::call(SYS_listen, fd, 3); };
//     Result<Namesake> one = Namesake::make(412, groups, how, listens);
//     if (one && one->act() == 0) ...
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "restorer/make_process.hpp"

#include <array>
#include <functional>
#include <sys/types.h>
#include <vector>

namespace cryo::restore {

class Namesake
{
  public:
    // Descriptors that it has made; −1: none.
    using Made = std::array<int, 2>;
    // The work of the namesake, in its own memory, which is a copy of ours; by system calls only.
    // Returns 0, or −errno. Its descriptors are those that were open when it was made.
    using Deed = std::function<long(int word, Made &made)>;
    struct Maker {
        MakeProcess make;
        const Ids &ids;
    };

    static Result<Namesake> make(pid_t wished, const std::vector<gid_t> &groups, const Maker &maker,
                                 const Deed &deed);
    Namesake(Namesake &&other) noexcept;
    Namesake &operator=(Namesake &&) = delete;
    Namesake(const Namesake &) = delete;
    Namesake &operator=(const Namesake &) = delete;
    ~Namesake(); // it ends, and its id is free

    pid_t pid() const { return pid_; }
    // Lets it do its deed, and waits for that: 0, or errno. What it has made is appended to `made`.
    int act(int word, std::vector<Fd> &made);
    int act()
    {
        std::vector<Fd> none;
        return act(0, none);
    }

  private:
    explicit Namesake(Fd control) : control_(std::move(control)) {}

    Fd control_;
    pid_t pid_ = 0;
};

} // namespace cryo::restore
