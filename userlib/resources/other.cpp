// SPDX-License-Identifier: Apache-2.0
// What no other kind recognises: files of /proc about processes that have ended, whatever those
// are called. All else cannot be saved.
//
// Such a file tells nothing of its process any more, but what does not end with it (mountinfo). A
// restart opens it about a process of its own, which then ends, too.
#include "resources/every_kind.hpp"

#include "resources/about_process.hpp"
#include "resources/reopening.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace cryo::resources {

using image::FileKind;

namespace {

std::string_view refused(const Seen &seen)
{
    if (about_ended(seen))
        return "";
    if (seen.link == "anon_inode:[io_uring]")
        return "a ring, of which the kernel does not tell whether requests are under way,";
    if (seen.link == "anon_inode:[fanotify]")
        return "a group whose events can only be taken, and may keep other processes waiting,";
    return "a kernel object,";
}

// A process that does nothing, and ends with this object.
class IdleProcess
{
  public:
    IdleProcess() : pid_(sys::call(SYS_clone, 0, 0, 0, 0, 0)) // no signal tells of its end
    {
        if (pid_ != 0)
            return;
        // System calls only: this is a copy of a process with any number of threads.
        constexpr timespec long_enough = {60, 0};
        sys::call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
        sys::call(SYS_nanosleep, &long_enough, nullptr);
        sys::call(SYS_exit_group, 0);
    }
    ~IdleProcess()
    {
        if (sys::failed(pid_))
            return;
        sys::call(SYS_kill, pid_, SIGKILL);
        while (sys::call(SYS_waitid, P_PID, pid_, nullptr, WEXITED | __WALL, nullptr) == -EINTR)
            ;
    }
    IdleProcess(const IdleProcess &) = delete;
    IdleProcess &operator=(const IdleProcess &) = delete;

    long pid() const { return pid_; } // or -errno

  private:
    long pid_;
};

// Whether /proc knows processes by the ids that they have for us.
bool has_our_ids()
{
    char own[16] = "";
    const ssize_t size = readlink("/proc/self", own, sizeof(own) - 1);
    return size > 0 && std::to_string(getpid()) == own;
}

Result<void> open(Opening &opening)
{
    std::vector<const image::OpenFile *> wanted = opening.of_kind(FileKind::other);
    std::erase_if(wanted, [&](const image::OpenFile *one) { return opening.is_opened(one->id); });
    if (wanted.empty())
        return {};
    if (!has_our_ids())
        return Error(ENOTSUP, "files of /proc about processes that have ended cannot be opened "
                              "again: /proc is that of another pid namespace");
    const IdleProcess process;
    if (sys::failed(process.pid()))
        return Error::from_errno("making a process for a file of /proc",
                                 static_cast<int>(-process.pid()));
    for (const image::OpenFile *one : wanted) {
        const std::string_view saved = opening.of<image::File>().at(one->file).path;
        const std::optional<AboutProcess> about = in_directory_of_process(saved);
        if (!about)
            return Error(ENOTSUP, fmt::format("{} cannot be restored", saved));
        const std::string path = fmt::format("/proc/{}/{}", process.pid(), about->name);
        const uint32_t flags = (one->flags & ~creation_flags) | O_NOFOLLOW | O_CLOEXEC;
        Fd made(::open(path.c_str(), static_cast<int>(flags)));
        if (!made)
            return Error(errno, fmt::format("opening {} once more, about a process that has ended: "
                                            "{}",
                                            saved, strerror(errno)));
        // Where the file has less to tell about the present process, that is no loss.
        lseek(made.get(), static_cast<off_t>(one->position), SEEK_SET);
        if (Result<void> kept = opening.keep(std::move(made), one->id); !kept)
            return kept;
    }
    return {};
}

} // namespace

const Kind other_kind = {
    .is = [](const Seen &) { return true; },
    .has_own_file = true,
    .refused = refused,
    .open = open,
};

} // namespace cryo::resources
