// SPDX-License-Identifier: Apache-2.0
#include "capture/process/settings.hpp"

#include "capture/memory/pages.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace cryo::capture {

namespace {

// The kernel keeps them per thread; the C library keeps all threads equal, raw calls do not.
constexpr const char *ids[] = {"Uid", "Gid", "Groups"};

uint64_t set(std::string_view status, std::string_view name)
{
    std::string_view text = field(status, name);
    return take_number(text, 16);
}

} // namespace

void describe_credentials(Description &d, std::string_view first, std::string_view status,
                          const agent::ThreadFacts &facts, image::Thread &thread)
{
    if (thread.tid == d.process.pid) {
        d.process.securebits = static_cast<uint32_t>(std::max(facts.securebits, 0));
        return;
    }
    for (const char *name : ids) {
        if (field(first, name) != field(status, name))
            d.problems.add(fmt::format("thread {} runs with other ids ({}) than the first thread",
                                       thread.tid, name),
                           "give all threads the same");
    }
    std::string_view no_new_privs = field(status, "NoNewPrivs");
    thread.no_new_privs = take_number(no_new_privs) != 0;
    thread.securebits = static_cast<uint32_t>(std::max(facts.securebits, 0));
    thread.cap_inheritable = set(status, "CapInh");
    thread.cap_permitted = set(status, "CapPrm");
    thread.cap_effective = set(status, "CapEff");
    thread.cap_bounding = set(status, "CapBnd");
    thread.cap_ambient = set(status, "CapAmb");
    thread.own_credentials = true;
}

void describe_settings(Strings &strings, const agent::ThreadFacts &facts, image::Thread &thread)
{
    thread.tsc = static_cast<uint32_t>(facts.tsc);
    thread.machine_check = static_cast<uint32_t>(facts.machine_check);
    std::vector<uint32_t> speculation;
    for (const int32_t one : facts.speculation)
        speculation.push_back(static_cast<uint32_t>(one));
    thread.speculation = strings.keep_list(speculation);
    thread.cpuid = static_cast<uint32_t>(facts.cpuid);
}

void refuse_guards(Description &d)
{
    const auto not_known = [&](const Error &error) {
        d.problems.add("guard pages: " + error.text(), "nothing shows where they are");
    };
    Result<PageMap> map = PageMap::open(d.proc);
    if (!map)
        return not_known(map.error());
    for (const image::Region &region : d.regions) {
        const bool copied = region.file != 0 && (region.flags & image::kRegionAllSaved) != 0;
        if (!copied && (region.flags & image::kRegionShared) == 0)
            continue;
        Result<std::vector<Run>> guards = map->guards(region.start, region.end);
        if (!guards)
            return not_known(guards.error());
        if (!guards->empty())
            d.problems.add(
                fmt::format("memory at {:x}: guard pages (MADV_GUARD_INSTALL) in {}",
                            guards->front().start,
                            copied ? "a file whose contents are saved" : "a shared mapping"),
                "remove them before the checkpoint");
    }
}

void describe_policy(Strings &strings, const agent::Policy &policy, uint32_t &mode,
                     image::Bytes &nodes)
{
    mode = static_cast<uint32_t>(policy.mode);
    if (policy.mode != 0)
        nodes = image::as_bytes(strings.keep(
            std::string(reinterpret_cast<const char *>(policy.nodes), sizeof(policy.nodes))));
}

} // namespace cryo::capture
