// SPDX-License-Identifier: Apache-2.0
#include "look/udp_look.hpp"

#include "base/fd.hpp"
#include "look/socket_look.hpp"
#include "no_more_descriptors.hpp"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <gtest/gtest.h>
#include <iterator>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::capture {

namespace {

// A UDP socket with a port on the loopback interface.
struct Bound {
    Fd fd{socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    sockaddr_in at = {};
    struct stat status = {};

    Bound()
    {
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof(at);
        auto *name = reinterpret_cast<sockaddr *>(&at);
        EXPECT_EQ(0, bind(fd.get(), name, size));
        EXPECT_EQ(0, getsockname(fd.get(), name, &size));
        EXPECT_EQ(0, fstat(fd.get(), &status));
    }
    std::string local() const { return {reinterpret_cast<const char *>(&at), sizeof(at)}; }
    Result<uint32_t> shutdown() const { return udp_shutdown(fd.get(), local(), status.st_ino); }
};

TEST(UdpLook, AnOpenSocketIsOpen)
{
    const Bound one;
    const Result<uint32_t> found = one.shutdown();
    ASSERT_TRUE(found) << found.error().text();
    EXPECT_EQ(0U, *found);
}

TEST(UdpLook, AQuestionThatFailsIsNoAnswer)
{
    const Bound one;
    const NoMoreDescriptors none;
    const Result<uint32_t> found = one.shutdown();
    ASSERT_FALSE(found);
    EXPECT_EQ(EMFILE, found.error().code());
    const Result<SocketLook> look = look_at_socket(one.fd.get(), one.status.st_ino);
    ASSERT_TRUE(look) << look.error().text();
    EXPECT_NE(std::string::npos, look->problem.find("whether it was shut down")) << look->problem;
    EXPECT_TRUE(look->passing);
}

// As on one that has no udp_diag: ENOENT.
TEST(UdpLook, ToAKernelThatHasNoDiagnosticsItIsOpen)
{
    Bound one;
    one.at.sin_family = AF_APPLETALK;
    const Result<uint32_t> found = one.shutdown();
    ASSERT_TRUE(found) << found.error().text();
    EXPECT_EQ(0U, *found);
}

// Makes this process's calls of that number fail with this error for ever; of those of socket(2),
// only the ones for netlink.
bool forbid(int number, int error)
{
    sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog filter = {std::size(rules), rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

constexpr int no_filter = 200;
constexpr int not_open = 201;

// What a process finds for which these calls fail: 0 if it takes the socket for open, its error, or
// one of these numbers.
int look_without(const Bound &one, int number, int error)
{
    const pid_t child = fork();
    if (child == 0) {
        if (!forbid(number, error))
            _exit(no_filter);
        const Result<uint32_t> found = one.shutdown();
        if (!found)
            _exit(found.error().code());
        _exit(*found == 0 ? 0 : not_open);
    }
    int status = -1;
    EXPECT_GT(child, 0);
    EXPECT_EQ(child, waitpid(child, &status, 0));
    EXPECT_TRUE(WIFEXITED(status));
    return WEXITSTATUS(status);
}

// As in a service whose systemd unit has RestrictAddressFamilies=AF_INET, or where a container or a
// security module has another word for it.
TEST(UdpLook, WhereNetlinkIsForbiddenItIsOpen)
{
    const Bound one;
    for (const int error : {EAFNOSUPPORT, EPERM, EACCES}) {
        const int found = look_without(one, SYS_socket, error);
        if (found == no_filter)
            GTEST_SKIP() << "no seccomp";
        EXPECT_EQ(0, found) << strerror(error);
    }
}

// A question that could be asked another time.
TEST(UdpLook, WhereOnlySendingFailsItIsNotTakenForOpen)
{
    const Bound one;
    for (const int error : {EPERM, EACCES}) {
        const int found = look_without(one, SYS_sendto, error);
        if (found == no_filter)
            GTEST_SKIP() << "no seccomp";
        EXPECT_EQ(error, found);
    }
}

} // namespace

} // namespace cryo::capture
