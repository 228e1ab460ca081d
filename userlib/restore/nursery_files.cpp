// SPDX-License-Identifier: Apache-2.0
// What a new process opens before its execve: pidfds and files of /proc about the processes that
// are made with it. System calls only.
#include "restore/birth_words.hpp"
#include "restore/nursery.hpp"
#include "sys/raw.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::restore {

namespace {

// Of a file of /proc.
class Path
{
  public:
    Path(int pid, const std::string &name)
    {
        char digits[12];
        int count = 0;
        for (int rest = pid; rest > 0; rest /= 10)
            digits[count++] = static_cast<char>('0' + rest % 10);
        put("/proc/", 6);
        while (count > 0)
            put(&digits[--count], 1);
        if (!name.empty())
            put("/", 1);
        put(name.data(), name.size());
    }
    bool is_whole() const { return size_ < sizeof(text_); }
    const char *get() const { return text_; }

  private:
    void put(const char *from, size_t size)
    {
        for (size_t i = 0; i < size && is_whole(); i++)
            text_[size_++] = from[i];
    }

    char text_[64] = "";
    size_t size_ = 0;
};

// Puts a descriptor in the place of another one. 0, or −errno.
long replace(int fd, long made)
{
    if (sys::failed(made))
        return made;
    const long placed = sys::call(SYS_dup3, made, fd, O_CLOEXEC);
    sys::call(SYS_close, made);
    return sys::failed(placed) ? placed : 0;
}

} // namespace

// Waits until the target processes exist. 0, or −errno.
long Nursery::open_pidfds(const Newborn &own)
{
    for (const Newborn::Pidfd &one : own.pidfds) {
        const int pid = await_word(births_[one.process].pid);
        const long made = pid < 0 ? pid : sys::call(SYS_pidfd_open, pid, one.flags);
        if (const long placed = replace(one.fd, made); placed != 0)
            return placed;
    }
    return 0;
}

// Waits, too. 0, or −errno.
long Nursery::open_proc_files(const Newborn &own)
{
    for (const Newborn::ProcFile &one : own.proc_files) {
        const int pid = await_word(births_[one.process].pid);
        if (pid < 0)
            return pid;
        const Path path(pid, one.name);
        if (!path.is_whole())
            return -ENAMETOOLONG;
        const long made = sys::call(SYS_openat, AT_FDCWD, path.get(), one.flags | O_CLOEXEC, 0);
        if (!sys::failed(made) && one.position != 0)
            sys::call(SYS_lseek, made, one.position, SEEK_SET);
        if (const long placed = replace(one.fd, made); placed != 0)
            return placed;
    }
    return 0;
}

} // namespace cryo::restore
