// SPDX-License-Identifier: Apache-2.0
#include "resources/socket/packet_hold.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <dlfcn.h>
#include <fmt/format.h>
#include <memory>
#include <type_traits>

namespace cryo::resources {

namespace {

// The part of libnftables that is used. The library is loaded when it is needed: most checkpoints
// and restarts do without it, and so does an installation of Cryo.
struct Nftables {
    struct Context;
    Context *(*make)(uint32_t flags);
    void (*free)(Context *);
    int (*buffer_output)(Context *);
    int (*buffer_error)(Context *);
    const char *(*error)(Context *);
    int (*run)(Context *, const char *commands);
};

Result<Nftables> load()
{
    void *library = dlopen("libnftables.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
        return Error(ENOTSUP, "holding packets back needs libnftables, which is not installed "
                              "(Debian: libnftables1)");
    Nftables all = {};
    bool complete = true;
    const auto find = [&](auto &function, const char *name) {
        function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
        complete = complete && function != nullptr;
    };
    find(all.make, "nft_ctx_new");
    find(all.free, "nft_ctx_free");
    find(all.buffer_output, "nft_ctx_buffer_output");
    find(all.buffer_error, "nft_ctx_buffer_error");
    find(all.error, "nft_ctx_get_error_buffer");
    find(all.run, "nft_run_cmd_from_buffer");
    if (!complete)
        return Error(ENOTSUP, "libnftables lacks a function that holding packets back needs");
    return all;
}

const Result<Nftables> &loaded()
{
    static const Result<Nftables> library = load();
    return library;
}

// All commands, or none.
Result<void> run(const std::string &commands)
{
    const Result<Nftables> &library = loaded();
    if (!library)
        return library.error();
    const std::unique_ptr<Nftables::Context, void (*)(Nftables::Context *)> context(
        library->make(0), library->free);
    if (!context || library->buffer_output(context.get()) != 0 ||
        library->buffer_error(context.get()) != 0)
        return Error(ENOMEM, "the packet filter (nftables) cannot be used");
    if (library->run(context.get(), commands.c_str()) == 0)
        return {};
    // "Error: Could not process rule: No such file or directory", and the command below it.
    std::string said = library->error(context.get());
    said.resize(std::min(said.find('\n'), said.size()));
    return Error(EPROTO, fmt::format("the packet filter (nftables) says: {}", said));
}

struct Host {
    std::string text;
    bool is_v4;
};

// An IPv4 address in an IPv6 one is that of the packets.
Host host_of(const TcpAddress &address)
{
    char text[INET6_ADDRSTRLEN] = "";
    if (address.get()->sa_family == AF_INET) {
        inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in *>(address.get())->sin_addr, text,
                  sizeof(text));
        return {text, true};
    }
    const in6_addr &host = reinterpret_cast<const sockaddr_in6 *>(address.get())->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&host)) {
        inet_ntop(AF_INET, host.s6_addr + 12, text, sizeof(text));
        return {text, true};
    }
    inet_ntop(AF_INET6, &host, text, sizeof(text));
    return {text, false};
}

// The set that the connection is in, with what is in it.
std::string element(uint64_t number, const TcpEnd &end)
{
    const Host local = host_of(end.local), peer = host_of(end.peer);
    return fmt::format("element {} {} {{ {} . {} . {} . {} }}", table_of(number),
                       local.is_v4 ? "v4" : "v6", local.text, end.local.port(), peer.text,
                       end.peer.port());
}

} // namespace

std::string table_of(uint64_t number)
{
    return fmt::format("inet cryo_held_{:016x}", number);
}

uint32_t mark_of(uint64_t number)
{
    const auto low = static_cast<uint32_t>(number);
    return low != 0 ? low : 1;
}

// The addresses are those that the socket knows: of packets that come, after all translation of
// addresses (NAT), and of those that go, before it.
std::string rules_to_hold(uint64_t number, const std::vector<TcpEnd> &ends)
{
    const std::string table = table_of(number);
    std::string all = fmt::format("create table {}\n", table);
    for (const char *family : {"4", "6"})
        all += fmt::format("add set {} v{} {{ type ipv{}_addr . inet_service . ipv{}_addr . "
                           "inet_service; }}\n",
                           table, family, family, family);
    for (const TcpEnd &end : ends)
        all += fmt::format("add {}\n", element(number, end));
    for (const char *way : {"input", "output"}) {
        const bool comes = way[0] == 'i';
        all += fmt::format("add chain {} {} {{ type filter hook {} priority {}; }}\n", table,
                           comes ? "coming" : "going", way, comes ? 350 : -350);
        all += fmt::format("add rule {} {} meta mark 0x{:08x} accept\n", table,
                           comes ? "coming" : "going", mark_of(number));
        for (const char *family : {"", "6"})
            all += fmt::format("add rule {} {} ip{} {} . tcp {} . ip{} {} . tcp {} @v{} drop\n",
                               table, comes ? "coming" : "going", family, comes ? "daddr" : "saddr",
                               comes ? "dport" : "sport", family, comes ? "saddr" : "daddr",
                               comes ? "sport" : "dport", family[0] == 0 ? "4" : "6");
    }
    return all;
}

Result<void> can_hold_packets()
{
    const Result<Nftables> &library = loaded();
    return library ? Result<void>() : library.error();
}

Result<void> hold_packets(uint64_t number, const std::vector<TcpEnd> &ends)
{
    return run(rules_to_hold(number, ends));
}

Result<void> are_held(uint64_t number, const TcpEnd &end)
{
    return run("get " + element(number, end));
}

Result<void> pass_packets(uint64_t number)
{
    const Result<void> removed = run("delete table " + table_of(number));
    return removed || removed.error().code() == ENOTSUP ? removed
                                                        : Error(ESTALE, removed.error().text());
}

} // namespace cryo::resources
