// SPDX-License-Identifier: Apache-2.0
#include "coord/spread.hpp"

#include "base/fd.hpp"
#include "coord/job.hpp"
#include "sys/own_variable.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <functional>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <nss.h>
#include <set>
#include <sstream>
#include <sys/socket.h>
#include <unistd.h>

namespace cryo::coord {

namespace {

namespace fs = std::filesystem;

constexpr size_t most_processes = 4096; // examined at most

std::string program_of(pid_t pid)
{
    std::error_code ignored;
    return fs::read_symlink(fmt::format("/proc/{}/exe", pid), ignored).filename();
}

std::vector<pid_t> children_of(pid_t pid)
{
    std::vector<pid_t> children;
    std::error_code failed;
    for (const auto &task : fs::directory_iterator(fmt::format("/proc/{}/task", pid), failed)) {
        std::ifstream in(task.path() / "children");
        for (pid_t child = 0; in >> child;)
            children.push_back(child);
    }
    return children;
}

std::string value(const Variables &variables, const char *name)
{
    const auto at = variables.find(name);
    return at != variables.end() ? at->second : std::string();
}

// Compares the numbers that the launcher gave a rank: of all ranks, and of those on this node.
Spread told(const Variables &variables)
{
    constexpr const char *pairs[][2] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                                        {"PMI_SIZE", "MPI_LOCALNRANKS"}};
    for (const auto &[all, here] : pairs) {
        const std::string size = value(variables, all);
        const std::string local = value(variables, here);
        if (!size.empty() && !local.empty())
            return size == local ? Spread::one_node : Spread::several;
    }
    return Spread::unknown;
}

bool goes_elsewhere(const std::string &program)
{
    constexpr std::string_view known[] = {"ssh", "rsh", "srun", "qrsh", "blaunch", "pbs_tmrsh"};
    return std::ranges::find(known, program) != std::end(known);
}

// The first IPv4 address of those that fit, or IPv6 where they have no other; "": there is none.
std::string address_where(const std::function<bool(const ifaddrs &)> &fits)
{
    ifaddrs *list = nullptr;
    if (getifaddrs(&list) != 0)
        return {};
    std::string four;
    std::string six;
    for (const ifaddrs *one = list; one != nullptr; one = one->ifa_next) {
        if (one->ifa_addr == nullptr || !fits(*one))
            continue;
        char text[INET6_ADDRSTRLEN] = {};
        if (one->ifa_addr->sa_family == AF_INET && four.empty()) {
            inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in *>(one->ifa_addr)->sin_addr, text,
                      sizeof(text));
            four = static_cast<const char *>(text);
        } else if (one->ifa_addr->sa_family == AF_INET6 && six.empty()) {
            const in6_addr &address = reinterpret_cast<sockaddr_in6 *>(one->ifa_addr)->sin6_addr;
            if (IN6_IS_ADDR_LINKLOCAL(&address))
                continue;
            inet_ntop(AF_INET6, &address, text, sizeof(text));
            six = static_cast<const char *>(text);
        }
    }
    freeifaddrs(list);
    return four.empty() ? six : four;
}

// As the network has them: four bytes, sixteen, or none for another family.
std::string bytes_of(const sockaddr &address)
{
    if (address.sa_family == AF_INET) {
        const in_addr &four = reinterpret_cast<const sockaddr_in &>(address).sin_addr;
        return {reinterpret_cast<const char *>(&four), sizeof(four)};
    }
    if (address.sa_family == AF_INET6) {
        const in6_addr &six = reinterpret_cast<const sockaddr_in6 &>(address).sin6_addr;
        return {reinterpret_cast<const char *>(&six), sizeof(six)};
    }
    return {};
}

std::string bytes_of(const std::string &address)
{
    char bytes[sizeof(in6_addr)];
    for (const auto &[family, size] :
         {std::pair(AF_INET, sizeof(in_addr)), std::pair(AF_INET6, sizeof(in6_addr))}) {
        if (inet_pton(family, address.c_str(), static_cast<char *>(bytes)) == 1)
            return {static_cast<const char *>(bytes), size};
    }
    return {};
}

bool begin_alike(const std::string &one, const std::string &other, unsigned bits)
{
    if (one.empty() || one.size() != other.size() || bits > 8 * one.size())
        return false;
    const unsigned whole = bits / 8;
    const unsigned rest = bits % 8;
    return one.compare(0, whole, other, 0, whole) == 0 &&
           (rest == 0 || static_cast<unsigned char>(one[whole] ^ other[whole]) >> (8 - rest) == 0);
}

// On an interface by its name, or on the one in a network (10.1.0.0/16), as Open MPI takes both.
std::string address_on(const std::string &word)
{
    const size_t slash = word.find('/');
    if (slash == std::string::npos)
        return address_where([&](const ifaddrs &one) { return word == one.ifa_name; });
    const std::string network = bytes_of(word.substr(0, slash));
    unsigned bits = 0;
    const char *last = word.data() + word.size();
    const auto [end, error] = std::from_chars(word.data() + slash + 1, last, bits);
    if (network.empty() || error != std::errc() || end != last)
        return {};
    return address_where(
        [&](const ifaddrs &one) { return begin_alike(bytes_of(*one.ifa_addr), network, bits); });
}

// Of any interface: a network of the cluster's own need not have a route to elsewhere.
std::string address_of_any()
{
    return address_where([](const ifaddrs &one) {
        return (one.ifa_flags & IFF_UP) != 0 && (one.ifa_flags & IFF_LOOPBACK) == 0;
    });
}

// Nothing is sent: connect() of a datagram socket looks for a route, and chooses an address.
std::string address_towards(const sockaddr *other, socklen_t length)
{
    const Fd fd(socket(other->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own = {};
    socklen_t size = sizeof(own);
    char text[INET6_ADDRSTRLEN] = {};
    if (!fd || connect(fd.get(), other, length) != 0 ||
        getsockname(fd.get(), reinterpret_cast<sockaddr *>(&own), &size) != 0 ||
        getnameinfo(reinterpret_cast<sockaddr *>(&own), size, static_cast<char *>(text),
                    sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0)
        return {};
    return static_cast<const char *>(text);
}

bool is_loopback(const std::string &address)
{
    return address.starts_with("127.") || address == "::1";
}

std::string address_of_host()
{
    char name[256] = {};
    addrinfo *found = nullptr;
    __nss_configure_lookup("hosts", "files"); // do not wait for a name server
    if (gethostname(static_cast<char *>(name), sizeof(name) - 1) != 0 ||
        getaddrinfo(static_cast<const char *>(name), nullptr, nullptr, &found) != 0)
        return {};
    std::string address;
    for (const addrinfo *one = found; one != nullptr && address.empty(); one = one->ai_next) {
        // If the name leads to another host, we cannot listen at that address.
        const std::string own = address_towards(one->ai_addr, one->ai_addrlen);
        char text[INET6_ADDRSTRLEN] = {};
        if (getnameinfo(one->ai_addr, one->ai_addrlen, static_cast<char *>(text), sizeof(text),
                        nullptr, 0, NI_NUMERICHOST) == 0 &&
            own == static_cast<const char *>(text) && !is_loopback(own))
            address = own;
    }
    freeaddrinfo(found);
    return address;
}

std::string address_to_elsewhere()
{
    sockaddr_in four = {};
    four.sin_family = AF_INET;
    four.sin_port = htons(9);
    inet_pton(AF_INET, "192.0.2.1", &four.sin_addr); // for examples (RFC 5737)
    std::string own = address_towards(reinterpret_cast<sockaddr *>(&four), sizeof(four));
    if (!own.empty())
        return own;
    sockaddr_in6 six = {};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(9);
    inet_pton(AF_INET6, "2001:db8::1", &six.sin6_addr); // likewise (RFC 3849)
    return address_towards(reinterpret_cast<sockaddr *>(&six), sizeof(six));
}

} // namespace

Spread spread_of(pid_t launcher)
{
    const std::string program = program_of(launcher);
    if (program == "srun") { // its ranks are not below it
        const Result<Variables> variables = variables_of(launcher);
        return variables && value(*variables, "SLURM_JOB_NUM_NODES") == "1" ? Spread::one_node
                                                                            : Spread::several;
    }
    std::vector<pid_t> look = children_of(launcher);
    for (size_t i = 0; i < look.size() && look.size() < most_processes; i++) {
        if (goes_elsewhere(program_of(look[i])))
            return Spread::several;
        const Result<Variables> variables = variables_of(look[i]);
        if (!variables)
            continue;
        if (const Spread said = told(*variables); said != Spread::unknown)
            return said;
        const std::vector<pid_t> below = children_of(look[i]);
        look.insert(look.end(), below.begin(), below.end());
    }
    return Spread::unknown;
}

std::string own_address()
{
    if (const char *own = sys::own_variable("CRYO_LISTEN"); own != nullptr && *own != 0)
        return own;
    for (const char *name : {"OMPI_MCA_oob_tcp_if_include", "OMPI_MCA_btl_tcp_if_include"}) {
        const char *names = sys::own_variable(name);
        if (names == nullptr)
            continue;
        std::istringstream list(names);
        for (std::string word; std::getline(list, word, ',');) {
            if (std::string at = address_on(word); !at.empty())
                return at;
        }
    }
    for (const std::string &address :
         {address_of_host(), address_to_elsewhere(), address_of_any()}) {
        if (!address.empty())
            return address;
    }
    return "127.0.0.1";
}

} // namespace cryo::coord
