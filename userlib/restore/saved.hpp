// SPDX-License-Identifier: Apache-2.0
//
// An image's metadata in memory: every record, decoded and kept. Strings live as long as the Saved.
#pragma once

#include "image/reader.hpp"
#include "image/records.hpp"

#include <deque>
#include <map>
#include <set>

namespace cryo::restore {

struct FileOptions;

struct Saved {
    image::Process process;
    image::Memory memory;
    image::Agent agent;
    image::Cpu cpu;
    std::vector<image::Thread> threads;
    std::vector<image::Region> regions;
    std::vector<image::Guard> guards;
    std::vector<image::AioContext> aio_contexts;
    std::map<uint32_t, image::File> files;
    std::map<uint32_t, image::OpenFile> open_files;
    std::vector<image::Descriptor> descriptors;
    std::map<uint32_t, image::Pipe> pipes; // by FILE
    std::vector<image::Eventfd> eventfds;
    std::vector<image::Signalfd> signalfds;
    std::map<uint32_t, image::Pidfd> pidfds; // by OPEN_FILE
    std::vector<image::EpollItem> epoll_items;
    std::vector<image::InotifyWatch> watches;
    std::vector<image::Lock> locks;
    std::map<uint32_t, image::Terminal> terminals; // by FILE
    std::map<uint32_t, image::PosixQueue> queues;  // by FILE
    std::map<uint32_t, image::Socket> sockets;
    std::map<uint32_t, image::SocketMore> socket_more; // by the SOCKET's OPEN_FILE
    std::vector<image::GroupMember> group_members;
    std::vector<image::Passed> passed;
    std::map<uint32_t, image::Senders> senders; // by the SOCKET's OPEN_FILE
    std::vector<image::Connection> connections;
    std::vector<image::Waiting> waiting;
    std::set<uint32_t> owned;       // open files whose owner (F_SETOWN) is a process that has them
    std::set<uint32_t> only_passed; // open files that no process has
    std::set<uint32_t>
        listeners; // of only_passed, those that this process listens on; by OPEN_FILE
    std::vector<image::Ipc> ipc;
    std::vector<image::SemaphoreUndo> undo; // of all processes
    std::vector<image::Sigaction> actions;
    std::vector<image::Timer> timers;
    std::vector<image::PendingSignal> pending;
    std::vector<image::Rlimit> limits;
    std::string arguments, environment;
    std::vector<uint64_t> auxv;

    std::deque<std::vector<uint8_t>> payloads; // what the strings point into
};

Result<void> read_saved(image::Image &image, Saved &saved);
// names_apart.cpp. The files that name UNIX sockets belong to the program, which may still use
// them. A rehearsal has abstract names instead, in a network namespace of its own.
void keep_names_apart(Saved &saved);
// relocate.cpp: every path that the image knows, once, before anything uses one.
void relocate(Saved &saved, const FileOptions &options);

} // namespace cryo::restore
