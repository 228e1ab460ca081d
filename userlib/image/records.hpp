// SPDX-License-Identifier: Apache-2.0
//
// All typed records of the format, and what is common to them: the list of types, their names, and
// a way from a number read in a file to the C++ type.
//
//     with_record_type(view.type, [&]<class R>() {
//         R record;
//         if (decode(view.payload, record))
//             R::fields(record, printer);
//     });
//
// To add a record type: a number in format.hpp, a struct in one of the headers, a line in
// AllRecords, a paragraph in docs/image-format.md.
#pragma once

#include "image/records_delta.hpp"
#include "image/records_files.hpp"
#include "image/records_foreign.hpp"
#include "image/records_ipc.hpp"
#include "image/records_memory.hpp"
#include "image/records_process.hpp"
#include "image/records_signals.hpp"
#include "image/records_sockets.hpp"
#include "image/records_tree.hpp"

namespace cryo::image {

template <class... R>
struct TypeList {
    template <class F>
    static bool find(RecordType type, F &&f)
    {
        return ((R::type == type ? (f.template operator()<R>(), true) : false) || ...);
    }
    template <class F>
    static void each(F &&f)
    {
        (f.template operator()<R>(), ...);
    }
};

using AllRecords =
    TypeList<ImageInfo, Process, Memory, Args, Environ, Auxv, Thread, Region, File, OpenFile,
             Descriptor, Sigaction, PendingSignal, Timer, Pipe, Eventfd, Signalfd, EpollItem,
             InotifyWatch, Lock, Rlimit, Cpu, Notice, Socket, Terminal, Object, Attachment, Tree,
             Member, Agent, PageDigests, Foreign, Ipc, Guard, PosixQueue, PageTracker, Passed,
             Senders, Connection, Waiting, SemaphoreUndo, Pidfd, AioContext, SocketMore,
             GroupMember, PeerCredentials, KeptConnection, Delta, DeltaService, DeltaVersion,
             CallFilter, ThreadFilters>;

// Calls f.template operator()<R>() for the record with this number; false if there is none.
template <class F>
bool with_record_type(RecordType type, F &&f)
{
    return AllRecords::find(type, f);
}

// The highest version of this record that we know; 0 for a type that we do not know.
uint16_t known_version(RecordType type);

// "THREAD"; nullptr for a type that we do not know.
const char *name_of(RecordType type);

const char *name_of(Codec codec);
const char *name_of(ExtentKind kind);
const char *name_of(RegisterLayout layout);
const char *name_of(SyscallRestart restart);
const char *name_of(TimerKind kind);
const char *name_of(RegionKind kind);
const char *name_of(FileKind kind);
const char *name_of(LockKind kind);
const char *name_of(SocketState state);
const char *name_of(ObjectKind kind);
const char *name_of(IpcKind kind);
const char *name_of(Scope scope);
const char *name_of(MemberState state);
const char *name_of(DeltaBase base);
const char *name_of(DeltaMode mode);
const char *name_of(DeltaState state);

} // namespace cryo::image
