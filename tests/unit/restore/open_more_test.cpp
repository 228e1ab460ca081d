// SPDX-License-Identifier: Apache-2.0
// Sockets that this user may not open, and filters and groups that no socket can have: a restart is
// refused by name, before there is a process.
#include "base/fd.hpp"
#include "forged_image.hpp"

#include <cerrno>
#include <linux/capability.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
#include <vector>

namespace cryo::restore {

namespace {

constexpr uint32_t socket_file = 1, socket_id = 11, other_id = 12; // FILE, OPEN_FILE

// Takes a capability from this thread for a while, where it has it.
class Without
{
  public:
    explicit Without(uint32_t capability)
    {
        syscall(SYS_capget, &head_, before_);
        __user_cap_data_struct now[2] = {before_[0], before_[1]};
        now[capability / 32].effective &= ~(1U << capability % 32);
        EXPECT_EQ(0, syscall(SYS_capset, &head_, now));
    }
    ~Without() { EXPECT_EQ(0, syscall(SYS_capset, &head_, before_)); }
    Without(const Without &) = delete;
    Without &operator=(const Without &) = delete;

  private:
    __user_cap_header_struct head_ = {_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct before_[2] = {};
};

class OpenMore : public ForgedImage
{
  protected:
    void SetUp() override
    {
        ForgedImage::SetUp();
        if (!HasFatalFailure())
            add_file(socket_file, image::FileKind::socket);
    }
    void add_socket(uint32_t domain, uint32_t kind, uint32_t protocol, image::Bytes local = {})
    {
        add_open(socket_id, socket_file);
        add_descriptor(5, socket_id);
        image::Socket socket;
        socket.open_file = socket_id;
        socket.domain = domain;
        socket.kind = kind;
        socket.protocol = protocol;
        socket.state = local.empty() ? image::SocketState::fresh : image::SocketState::bound;
        socket.local = local;
        socket.options = options_;
        add(socket);
    }
    void add_filter(uint32_t socket, const std::vector<uint64_t> &instructions)
    {
        image::SocketMore more;
        more.socket = socket;
        more.filter = image::List<uint64_t>::of(instructions);
        add(more);
    }
    void add_group(uint32_t socket, std::string_view interface, std::string_view group,
                   std::string_view sources = {}, uint32_t packets = 0)
    {
        image::GroupMember member;
        member.socket = socket;
        member.interface = interface;
        member.group = image::as_bytes(group);
        member.sources = image::as_bytes(sources);
        member.packets = packets;
        add(member);
    }

    image::List<uint64_t> options_ = {}; // of the socket
};

TEST_F(OpenMore, ARawSocketTakesItsPrivilege)
{
    add_socket(AF_INET, SOCK_RAW, 253);
    const Without privilege(CAP_NET_RAW);
    expect_refusal(EPERM, "takes CAP_NET_RAW");
}

TEST_F(OpenMore, AFilterThatIsTooLongIsRefused)
{
    add_socket(AF_INET, SOCK_DGRAM, 0);
    add_filter(socket_id, std::vector<uint64_t>(4097, 6)); // each one a return
    expect_refusal(EINVAL, "filter is too long");
}

TEST_F(OpenMore, AFilterThatIsNoProgramIsRefused)
{
    add_socket(AF_INET, SOCK_DGRAM, 0);
    add_filter(socket_id, {0}); // does not end in a return
    expect_refusal(EINVAL, "attaching a socket's filter");
}

TEST_F(OpenMore, AFilterOfWhatIsNoSocketIsRefused)
{
    add_socket(AF_INET, SOCK_DGRAM, 0);
    add_filter(other_id, {6});
    expect_refusal(EINVAL, "no socket has a filter");
}

TEST_F(OpenMore, AGroupThatDoesNotExistIsRefused)
{
    add_socket(AF_NETLINK, SOCK_RAW, 0);
    const std::vector<uint32_t> groups = {1, 0x7fffffff};
    image::SocketMore more;
    more.socket = socket_id;
    more.groups = image::List<uint32_t>::of(groups);
    add(more);
    expect_refusal(EINVAL, "joining group 2147483647");
}

TEST_F(OpenMore, AnInterfaceThatIsNotThereIsRefused)
{
    const Fd allowed(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
    if (!allowed)
        GTEST_SKIP() << "packet sockets take a privilege";
    sockaddr_ll name = {};
    name.sll_family = AF_PACKET;
    add_socket(AF_PACKET, SOCK_RAW, 0,
               image::Bytes(reinterpret_cast<const uint8_t *>(&name), sizeof(name)));
    image::SocketMore more;
    more.socket = socket_id;
    more.interface = "not-there";
    add(more);
    expect_refusal(ENODEV, "no network device not-there here");
}

TEST_F(OpenMore, ANewNameOfASocketFileIsOneInItsDirectory)
{
    sockaddr_un name = {};
    name.sun_family = AF_UNIX;
    const std::string path = testing::TempDir() + "renamed_socket." + std::to_string(getpid());
    ASSERT_LT(path.size(), sizeof(name.sun_path));
    path.copy(name.sun_path, path.size());
    add_socket(AF_UNIX, SOCK_STREAM, 0,
               image::Bytes(reinterpret_cast<const uint8_t *>(&name), sizeof(name)));
    image::SocketMore more;
    more.socket = socket_id;
    more.file_name = "../elsewhere";
    add(more);
    expect_refusal(EINVAL, "what a socket's file was renamed to is no name");
    EXPECT_NE(access(path.c_str(), F_OK), 0);
}

constexpr std::string_view multicasts("\xef\xff\x4d\x03", 4); // 239.255.77.3

TEST_F(OpenMore, AGroupOnAnInterfaceThatIsNotThereIsRefused)
{
    add_socket(AF_INET, SOCK_DGRAM, 0);
    add_group(socket_id, "lo", multicasts);
    add_group(socket_id, "not-there", multicasts);
    expect_refusal(ENODEV, "no network device not-there here, on which a socket had joined "
                           "239.255.77.3");
}

TEST_F(OpenMore, AnAddressToSendToGroupsThatIsNotHereIsRefused)
{
    const std::vector<uint64_t> options = {IPPROTO_IP, IP_MULTICAST_IF, htonl(0xcb007109)};
    options_ = image::List<uint64_t>::of(options);
    add_socket(AF_INET, SOCK_DGRAM, 0);
    expect_refusal(EADDRNOTAVAIL, "no network device here has the address 203.0.113.9");
}

TEST_F(OpenMore, AnInterfaceToSendToGroupsThatIsNotHereIsRefused)
{
    if (!Fd(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0)))
        GTEST_SKIP() << "no IPv6 here";
    const std::vector<uint64_t> options = {IPPROTO_IPV6, IPV6_MULTICAST_IF, 1};
    options_ = image::List<uint64_t>::of(options);
    add_socket(AF_INET6, SOCK_DGRAM, 0);
    expect_refusal(ENODEV, "IPV6_MULTICAST_IF");
}

TEST_F(OpenMore, AGroupOfWhatIsNoInternetSocketIsRefused)
{
    add_socket(AF_UNIX, SOCK_DGRAM, 0);
    add_group(socket_id, "lo", multicasts);
    expect_refusal(EINVAL, "no internet socket has joined a multicast group");
}

TEST_F(OpenMore, AGroupOfWhatIsNoSocketIsRefused)
{
    add_socket(AF_INET, SOCK_DGRAM, 0);
    add_group(other_id, "lo", multicasts);
    expect_refusal(EINVAL, "no internet socket has joined a multicast group");
}

TEST_F(OpenMore, AGroupWithoutAnAddressIsRefused)
{
    add_socket(AF_INET, SOCK_DGRAM, 0);
    add_group(socket_id, "lo", {});
    expect_refusal(EINVAL, "an address of an unknown kind");
}

TEST_F(OpenMore, SourcesThatAreCutOffAreRefused)
{
    add_socket(AF_INET, SOCK_DGRAM, 0);
    add_group(socket_id, "lo", multicasts, "12345");
    expect_refusal(EINVAL, "an address of an unknown kind");
}

TEST_F(OpenMore, AGroupThatIsNoneIsRefused)
{
    add_socket(AF_INET, SOCK_DGRAM, 0);
    add_group(socket_id, "lo", "\x7f\x01\x01\x01");
    expect_refusal(EINVAL, "joining 127.1.1.1 on lo");
}

TEST_F(OpenMore, AGroupThatIsJoinedTwiceIsRefused)
{
    add_socket(AF_INET, SOCK_DGRAM, 0);
    add_group(socket_id, "lo", multicasts);
    add_group(socket_id, "lo", multicasts);
    expect_refusal(EADDRINUSE, "joining 239.255.77.3 on lo");
}

TEST_F(OpenMore, MoreSourcesThanTheKernelTakesAreRefused)
{
    add_socket(AF_INET, SOCK_DGRAM, 0);
    std::string sources;
    for (int i = 0; i < 4096; i++)
        sources += {127, static_cast<char>(i >> 8), static_cast<char>(i), 1};
    add_group(socket_id, "lo", multicasts, sources);
    expect_refusal(ENOBUFS, "net.ipv4.igmp_max_msf");
}

TEST_F(OpenMore, AnotherSocketDoesNotJoinAsOneOfPackets)
{
    add_socket(AF_INET, SOCK_DGRAM, 0);
    add_group(socket_id, "lo", multicasts, {}, 1);
    expect_refusal(EINVAL, "no internet socket has joined a multicast group");
}

TEST_F(OpenMore, AnAddressThatNoInterfaceHasIsNotJoined)
{
    if (!Fd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)))
        GTEST_SKIP() << "packet sockets take a privilege";
    add_socket(AF_PACKET, SOCK_RAW, 0);
    add_group(socket_id, "lo", std::string(33, 'x'), {}, 1);
    expect_refusal(EINVAL, "joined what is no address");
}

} // namespace

} // namespace cryo::restore
