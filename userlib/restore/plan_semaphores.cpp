// SPDX-License-Identifier: Apache-2.0
// What System V semaphores record of a process: what its end will do to them (SEM_UNDO), and
// that it was the last to change one. Both result from operations only, so the process
// operates on them again: two opposite operations in one call, which leave the value as it is.
#include "restore/plan_parts.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <sys/sem.h>
#include <sys/syscall.h>

namespace cryo::restore {

namespace {

constexpr int highest = 32767; // of a value

struct Pair {
    sembuf first, second;
};

// A change and its opposite, ordered so that the value stays from 0 to 32767.
Pair there_and_back(size_t number, sembuf change, int value)
{
    change.sem_num = static_cast<unsigned short>(number);
    sembuf back = change;
    back.sem_op = static_cast<short>(-change.sem_op);
    back.sem_flg = IPC_NOWAIT;
    const int changed = value + change.sem_op;
    return changed >= 0 && changed <= highest ? Pair{change, back} : Pair{back, change};
}

void operate(Program &program, const std::string &about, int set, const Pair &pair, bool must)
{
    const Operand operations = program.data(&pair, sizeof(pair));
    if (must)
        program.call(about, SYS_semop, {value(set), operations, value(2)});
    else
        program.try_call(about, SYS_semop, {value(set), operations, value(2)});
}

// An operation with SEM_UNDO leaves its opposite to be done at the end.
void leave_to_be_added(Program &program, const image::Ipc &ipc, uint32_t number, int addition)
{
    constexpr int most = (highest + 1) / 2; // there is room for it above or below every value
    const std::string about = fmt::format(
        "having semaphore {} of set {} changed when the process ends (SEM_UNDO)", number, ipc.id);
    while (addition != 0) {
        const int part = std::clamp(addition, -most, most);
        const sembuf change = {0, static_cast<short>(-part), SEM_UNDO | IPC_NOWAIT};
        operate(program, about, ipc.id,
                there_and_back(number, change, static_cast<int>(ipc.values[number])), true);
        addition -= part;
    }
}

} // namespace

// The values are set already: setting one now would clear the undo values of all processes.
Result<void> plan_semaphore_undo(Planning &p)
{
    for (const image::SemaphoreUndo &undo : p.saved.of<image::SemaphoreUndo>()) {
        const auto ipc =
            std::find_if(p.saved.of<image::Ipc>().begin(), p.saved.of<image::Ipc>().end(),
                         [&](const image::Ipc &one) {
                             return one.kind == image::IpcKind::semaphores && one.id == undo.id;
                         });
        if (ipc == p.saved.of<image::Ipc>().end() || undo.numbers.size() != undo.additions.size())
            return Error(EINVAL, "a damaged record of what is to be undone (SEM_UNDO)");
        for (size_t i = 0; i < undo.numbers.size(); i++) {
            if (undo.numbers[i] >= ipc->values.size() || ipc->values[undo.numbers[i]] > highest)
                return Error(EINVAL, "a damaged record of what is to be undone (SEM_UNDO)");
            if (undo.pid == p.saved.process.pid)
                leave_to_be_added(p.plan.program, *ipc, undo.numbers[i],
                                  static_cast<int16_t>(undo.additions[i]));
        }
    }
    return {};
}

// Makes semctl(GETPID) name this process where it was the last to change a semaphore. A set without
// any operation (sem_otime 0) gets none: programs take that for a set that is not initialised.
void plan_semaphore_pids(Planning &p)
{
    if (!p.options.keeps(p.saved.process.pid))
        return;
    for (const image::Ipc &ipc : p.saved.of<image::Ipc>()) {
        const bool operated = (ipc.flags & image::kIpcOperated) != 0;
        for (size_t i = 0; i < std::min(ipc.pids.size(), ipc.values.size()); i++) {
            constexpr std::string_view about = "telling who has changed a semaphore";
            if (ipc.pids[i] != p.saved.process.pid)
                continue;
            if (operated)
                operate(p.plan.program, std::string(about), ipc.id,
                        there_and_back(i, {0, 1, IPC_NOWAIT}, static_cast<int>(ipc.values[i])),
                        false);
            else
                p.plan.program.try_call(
                    about, SYS_semctl,
                    {value(ipc.id), value(i), value(SETVAL), value(ipc.values[i])});
        }
    }
}

} // namespace cryo::restore
