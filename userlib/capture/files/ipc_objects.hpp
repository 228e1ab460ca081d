// SPDX-License-Identifier: Apache-2.0
//
// System V objects of stopped processes: those that their functions have named (agent/ipc.cpp), and
// those they have mapped. Each is described once, no matter how many use it.
//
//     IpcObjects ipc(strings, objects);
//     ipc.look(proc, uses, space, problems);       // each process, while all are stopped
//     ipc.look_undo(process, session, problems);   // then each once more, with what it shares
//     ipc.object_of(mapping.inode);                // of a mapped segment
//     ipc.save_contents(writer);                   // while stopped: nothing else freezes them
//     ipc.write_records(writer);                   // for the first process
//
// Looking changes nothing that the processes could see, except the times of a segment that is
// attached for reading.
#pragma once

#include "capture/memory/objects.hpp"
#include "image/records.hpp"
#include "image/writer.hpp"
#include "look/problems.hpp"
#include "look/proc.hpp"
#include "look/regions.hpp"
#include "protocol/agent.hpp"

#include <map>
#include <set>

namespace cryo::capture {

class AgentSession;
class Strings;

class IpcObjects
{
  public:
    IpcObjects(Strings &strings, Objects &objects) : strings_(strings), objects_(objects) {}

    void look(const Proc &proc, const std::vector<agent::IpcUse> &uses, const AddressSpace &space,
              Problems &problems);
    // Reads what the exit of this process does to semaphores; to be called after look() for all
    // processes.
    void look_undo(const image::Process &process, AgentSession &session, Problems &problems);
    // The object with the contents of a segment; 0: there is none.
    uint32_t object_of(uint64_t segment) const;
    Result<void> save_contents(image::ImageWriter &writer) const;
    bool has_contents() const { return !all_.empty(); }
    Result<void> write_records(image::ImageWriter &writer) const;

  private:
    using Key = std::pair<image::IpcKind, int>;

    // False: the object no longer exists.
    Result<bool> describe(const Key &key);
    Result<bool> describe_segment(image::Ipc &ipc);
    Result<bool> describe_semaphores(image::Ipc &ipc);
    Result<bool> describe_queue(image::Ipc &ipc);
    Result<void> describe_undo(const image::Ipc &ipc, const image::Process &process,
                               AgentSession &session);

    Strings &strings_;
    Objects &objects_;
    std::map<Key, image::Ipc> all_;
    std::vector<CopiedContents> messages_;
    std::set<std::pair<pid_t, int>> undoes_; // process and set, for operations with SEM_UNDO
    std::vector<image::SemaphoreUndo> undo_;
};

} // namespace cryo::capture
