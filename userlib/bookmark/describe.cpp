// SPDX-License-Identifier: Apache-2.0
#include "bookmark/node.hpp"

#include <fmt/format.h>

namespace cryo::bookmark {

std::string describe(const StateEntry &s)
{
    std::string who = fmt::format("rank {}: ", s.rank);
    std::string comm = s.comm ? fmt::format(" (communicator {:016x})", s.comm) : std::string();
    switch (s.doing) {
    case Doing::silent:
        return who + "computes and has not called MPI since the request";
    case Doing::running:
        if (s.want > s.have)
            return who + fmt::format("runs on: it has entered {} of {} collectives{}", s.have,
                                     s.want, comm);
        return who + "runs on to where it can stop";
    case Doing::collective:
        return who + "is inside a collective" + comm;
    case Doing::epoch:
        return who + "has an open one-sided epoch";
    case Doing::receiving:
        return who + (s.comm ? "waits for a message from any rank" + comm
                             : fmt::format("waits for a message from rank {}", s.on));
    case Doing::needed:
        return who + fmt::format("runs on because rank {} waits for a message from it", s.on);
    case Doing::draining:
        return who + fmt::format("has received {} of the {} messages sent to it", s.have, s.want);
    case Doing::finishing:
        return who + "has operations of its own that are not complete";
    case Doing::saving:
        return who + "is saving";
    case Doing::gone:
        return who + "is gone: it has left MPI, or ended";
    case Doing::failed:
        return who + "could not save";
    case Doing::corrupt:
        return who + fmt::format("has received {} messages where {} were sent, or not all their "
                                 "bytes: its counters are wrong",
                                 s.have, s.want);
    }
    return who;
}

} // namespace cryo::bookmark
