// SPDX-License-Identifier: Apache-2.0
//
// System V objects of stopped processes: what their functions have named (agent/ipc.cpp), and what
// they have mapped. Each is described once, whoever uses it.
//
//     IpcObjects ipc(strings, objects);
//     ipc.look(proc, uses, space, problems);       // each process, while all stand still
//     ipc.look_undo(proc, session, problems);      // then each once more
//     ipc.object_of(mapping.inode);                // of a mapped segment
//     ipc.save_contents(writer);                   // the same: nothing else freezes them
//     ipc.write_records(writer);                   // of the first process
//
// Looking changes nothing that the processes could see, but the times of a segment that is attached
// to be read.
#pragma once

#include "agent/protocol.hpp"
#include "capture/objects.hpp"
#include "capture/problems.hpp"
#include "capture/proc.hpp"
#include "capture/regions.hpp"
#include "image/records.hpp"
#include "image/writer.hpp"

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
    // What their ends will do to semaphores: each process, when all have been looked at.
    void look_undo(const Proc &proc, AgentSession &session, Problems &problems);
    // The object that has the contents of a segment; 0: there is none.
    uint32_t object_of(uint64_t segment) const;
    Result<void> save_contents(image::ImageWriter &writer) const;
    bool has_contents() const { return !all_.empty(); }
    Result<void> write_records(image::ImageWriter &writer) const;

  private:
    using Key = std::pair<image::IpcKind, int>;

    // False: there is no such object any more.
    Result<bool> describe(const Key &key);
    Result<bool> describe_segment(image::Ipc &ipc);
    Result<bool> describe_semaphores(image::Ipc &ipc);
    Result<bool> describe_queue(image::Ipc &ipc);
    Result<void> describe_undo(const image::Ipc &ipc, const Proc &proc, AgentSession &session);

    Strings &strings_;
    Objects &objects_;
    std::map<Key, image::Ipc> all_;
    std::vector<CopiedContents> messages_;
    std::set<std::pair<pid_t, int>> undoes_; // who has operated with SEM_UNDO on which set
    std::vector<image::SemaphoreUndo> undo_;
};

} // namespace cryo::capture
