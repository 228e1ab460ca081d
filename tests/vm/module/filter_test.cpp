// SPDX-License-Identifier: Apache-2.0
//
// A process must gain nothing by a command that a system call would deny: under a seccomp filter it
// may query, not act; what mmap(2) and munmap(2) refuse, RESTORE refuses. CRYO_BIN: the directory
// of the commands.
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sstream>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>

#include "misuse.hpp"

namespace cryo::test {
namespace {

// The features of the commands that act.
uint64_t acting()
{
    uint64_t all = 0;
    for (const Command &command : commands())
        all |= command.acting;
    return all;
}

bool filter_by(sock_filter *rules, unsigned short count, unsigned flags)
{
    const sock_fprog filter = {count, rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter) == 0;
}

// A filter that denies nothing.
bool deny_nothing()
{
    sock_filter rules[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    return filter_by(rules, std::size(rules), 0);
}

// Like a sandbox: no memory both writable and executable by mmap or mprotect, all else is allowed.
// `flags`: as for seccomp(2).
bool deny_writable_code(unsigned flags = 0)
{
    constexpr unsigned protection = offsetof(seccomp_data, args) + 2 * sizeof(uint64_t);
    sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, protection),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, PROT_WRITE | PROT_EXEC),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROT_WRITE | PROT_EXEC, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EXDEV),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return filter_by(rules, std::size(rules), flags);
}

// A thread that was joined may not have ended yet, and on older kernels seccomp() puts a filter on
// all threads only if none of them has another one, threads that are ending included.
void await_end_of_others()
{
    while (std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}) > 1)
        sched_yield();
}

// Runs `body` in a child, which returns 0, or the number of the failed line.
template <class Body>
int in_child(const Body &body)
{
    const pid_t child = fork();
    if (child == 0)
        _exit(body());
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

// A condition that must hold in a child.
#define MUST(condition)                                                                            \
    if (!(condition))                                                                              \
    return __LINE__ % 250 + 1

bool is_mapped(uint64_t address)
{
    unsigned char there = 0;
    return mincore(reinterpret_cast<void *>(address), page, &there) == 0;
}

class Filtered : public DeviceTest
{
  protected:
    uint64_t features() const
    {
        cryo_features now = {};
        now.size = sizeof(now);
        return call(CRYO_IOC_FEATURES, &now) == 0 ? now.features : 0;
    }
};

TEST_F(Filtered, GetsNoMemoryThatTheFilterDenies)
{
    EXPECT_EQ(0, in_child([&]() -> int {
                  cryo_region region = {};
                  region.start = free_area;
                  region.end = free_area + page;
                  region.fd = -1;
                  region.prot = PROT_READ | PROT_WRITE | PROT_EXEC;
                  cryo_restore restore = restore_of({&region, 1});
                  // Memory that a restore would unmap.
                  void *const before = reinterpret_cast<void *>(free_area + 16 * page);
                  MUST(mmap(before, page, rw, anon | MAP_FIXED, -1, 0) == before);
                  MUST(deny_writable_code());
                  MUST(mmap(nullptr, page, region.prot, anon, -1, 0) == MAP_FAILED &&
                       errno == EXDEV);
                  const cryo_restore asked = restore;
                  MUST(call(CRYO_IOC_RESTORE, &restore) == -EPERM);
                  MUST(memcmp(&asked, &restore, sizeof(asked)) == 0);
                  MUST(!is_mapped(free_area));
                  MUST(is_mapped(free_area + 16 * page));
                  return 0;
              }));
}

TEST_F(Filtered, MayAskButNotAct)
{
    auto writable = Device::open(Device::Access::ReadWrite);
    ASSERT_TRUE(writable) << writable.error().text();
    EXPECT_EQ(acting(), writable->features().features & (acting() | CRYO_FEATURE_FILTERED));
    EXPECT_EQ(0, in_child([&]() -> int {
                  Fd in(open("/dev/null", O_RDONLY)), out(memfd_create("out", 0));
                  MUST(deny_writable_code());
                  MUST((features() & (acting() | CRYO_FEATURE_FILTERED)) == CRYO_FEATURE_FILTERED);
                  for (const Command &command : commands()) {
                      Argument argument(command);
                      if (command.descriptor != 0) {
                          const int to = out.get();
                          argument.set(command.descriptor, &to, sizeof(to));
                      }
                      const int rc =
                          ioctl(writable->fd(), command.number, argument.get()) == 0 ? 0 : -errno;
                      MUST(rc == (command.acting != 0 ? -EPERM : 0));
                      MUST(rc == 0 || argument.unchanged());
                      // Refused before anything is read: an invalid structure reveals nothing more.
                      MUST(command.acting == 0 ||
                           (ioctl(writable->fd(), command.number, nullptr) < 0 && errno == EPERM));
                  }
                  MUST(lseek(out.get(), 0, SEEK_END) == 0);
                  return 0;
              }));
}

TEST_F(Filtered, IsEachThreadForItself)
{
    EXPECT_EQ(
        0, in_child([&]() -> int {
            uint64_t inside = 0;
            std::thread([&] {
                if (deny_writable_code())
                    inside = features();
            }).join();
            MUST((inside & CRYO_FEATURE_FILTERED) != 0);
            MUST((features() & CRYO_FEATURE_FILTERED) == 0);
            MUST((features() & CRYO_FEATURE_RESTORE) != 0);
            // A filter that another thread puts on all threads counts as well.
            await_end_of_others();
            bool on_all = false;
            std::thread([&] { on_all = deny_writable_code(SECCOMP_FILTER_FLAG_TSYNC); }).join();
            MUST(on_all);
            MUST((features() & (acting() | CRYO_FEATURE_FILTERED)) == CRYO_FEATURE_FILTERED);
            return 0;
        }));
}

// Some regions are mapped, then another thread installs a filter, then no more are mapped.
TEST_F(Filtered, InTheMiddleOfARestoreGoesNoFurther)
{
    constexpr uint32_t many = 30000;
    std::vector<cryo_region> regions(many);
    for (uint32_t i = 0; i < many; i++) {
        regions[i] = {};
        regions[i].start = free_area + uint64_t{2} * i * page; // with gaps, so that none are merged
        regions[i].end = regions[i].start + page;
        regions[i].fd = -1;
        regions[i].prot = rw;
    }
    constexpr int came_too_late = 251;
    int result = came_too_late;
    for (int attempt = 0; attempt < 10 && result == came_too_late; attempt++)
        result = in_child([&]() -> int {
            cryo_restore restore = restore_of(regions);
            bool filtered = false;
            std::thread other([&] {
                while (!is_mapped(free_area))
                    ;
                filtered = deny_writable_code(SECCOMP_FILTER_FLAG_TSYNC);
            });
            const int rc = call(CRYO_IOC_RESTORE, &restore);
            other.join();
            MUST(rc == 0 && filtered && restore.mapped > 0);
            if (restore.mapped == many)
                return came_too_late;
            MUST(!is_mapped(regions[restore.mapped].start));
            MUST(call(CRYO_IOC_RESTORE, &restore) == -EPERM);
            return 0;
        });
    EXPECT_EQ(0, result);
}

// Denials other than seccomp: the kernel's own, which hold inside the module, too.
TEST_F(Filtered, WhatTheKernelDeniesToMmapAndMunmap)
{
    constexpr int pr_set_mdwe = 65; // from 6.3 on
    constexpr long sys_mseal = 462; // from 6.10 on
    cryo_region region = {};
    region.start = free_area;
    region.end = free_area + page;
    region.fd = -1;
    region.prot = PROT_READ | PROT_WRITE | PROT_EXEC;
    const cryo_restore restore = restore_of({&region, 1});
    EXPECT_EQ(0, in_child([&]() -> int {
                  if (prctl(pr_set_mdwe, 1, 0, 0, 0) != 0)
                      return errno == EINVAL ? 0 : 1;
                  cryo_restore mine = restore;
                  MUST(mmap(nullptr, page, region.prot, anon, -1, 0) == MAP_FAILED);
                  MUST(call(CRYO_IOC_RESTORE, &mine) == -EACCES);
                  MUST(!is_mapped(free_area));
                  return 0;
              }));
    EXPECT_EQ(0, in_child([&]() -> int {
                  void *const sealed = reinterpret_cast<void *>(free_area + 16 * page);
                  MUST(mmap(sealed, page, rw, anon | MAP_FIXED, -1, 0) == sealed);
                  if (syscall(sys_mseal, sealed, page, 0) != 0)
                      return errno == ENOSYS ? 0 : 1;
                  cryo_restore mine = restore;
                  MUST(call(CRYO_IOC_RESTORE, &mine) == -EPERM);
                  MUST(is_mapped(free_area + 16 * page));
                  return 0;
              }));
}

// Runs a command under a filter; returns its exit status, and its output in `said`.
int run_filtered(bool (*filter)(), const std::vector<std::string> &words, std::string &said)
{
    const std::string log = "/tmp/filter." + std::to_string(getpid());
    const int status = in_child([&]() -> int {
        std::vector<char *> arguments;
        arguments.reserve(words.size() + 1);
        for (const std::string &word : words)
            arguments.push_back(const_cast<char *>(word.c_str()));
        arguments.push_back(nullptr);
        const int to = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(to, STDOUT_FILENO);
        dup2(to, STDERR_FILENO);
        close(STDIN_FILENO);
        open("/dev/null", O_RDONLY);
        if (!filter())
            return 126;
        execv(arguments[0], arguments.data());
        return 127;
    });
    std::ostringstream text;
    text << std::ifstream(log).rdbuf();
    said = text.str();
    unlink(log.c_str());
    return status;
}

// Under a filter the commands do without the module, and give the reason if they may not.
TEST_F(Filtered, CommandsFallBackOnTheUserBackend)
{
    const char *bin = getenv("CRYO_BIN");
    ASSERT_NE(nullptr, bin);
    const std::string image = "/tmp/filtered." + std::to_string(getpid());
    int in[2], out[2];
    ASSERT_EQ(0, pipe2(in, O_CLOEXEC));
    ASSERT_EQ(0, pipe2(out, O_CLOEXEC));
    const std::string run = std::string(bin) + "/cr_run";
    const pid_t program = fork();
    if (program == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        execl(run.c_str(), "cr_run", "sh", "-c", "echo begun; read line; exit 7", nullptr);
        _exit(127);
    }
    close(out[1]); // otherwise the read below would hang if the program fails to start
    char begun[6] = {};
    ASSERT_EQ(6, read(out[0], begun, sizeof(begun)));
    const std::string save = std::string(bin) + "/cr_checkpoint -q --kill --backend kmod -f " +
                             image + " " + std::to_string(program);
    ASSERT_EQ(0, system(save.c_str())); // NOLINT: a test's own words
    waitpid(program, nullptr, 0);

    const std::string restart = std::string(bin) + "/cr_restart";
    std::string said;
    EXPECT_NE(0, run_filtered(deny_nothing, {restart, "--backend", "kmod", image}, said));
    EXPECT_NE(said.find("under a seccomp filter"), std::string::npos) << said;
    EXPECT_NE(said.find("--backend=user"), std::string::npos) << said;
    EXPECT_EQ(7, run_filtered(deny_nothing, {restart, "-v", "--no-restore-pid", image}, said))
        << said;
    EXPECT_NE(said.find("backend user"), std::string::npos) << said;
    EXPECT_NE(said.find("under a seccomp filter"), std::string::npos) << said;
    // An error of the filter itself is named.
    const auto strict = [] { return deny_writable_code(); };
    EXPECT_NE(0, run_filtered(strict, {restart, "--no-restore-pid", image}, said));
    EXPECT_NE(said.find(strerror(EXDEV)), std::string::npos) << said;
    EXPECT_NE(said.find("mapping"), std::string::npos) << said;
    for (int fd : {in[0], in[1], out[0]})
        close(fd);
    unlink(image.c_str());
}

} // namespace
} // namespace cryo::test
