// SPDX-License-Identifier: Apache-2.0
#include "capture/process/describe.hpp"

#include "base/clock.hpp"
#include "capture/memory/tracker.hpp"
#include "capture/process/aio.hpp"
#include "capture/process/settings.hpp"
#include "capture/process/shared_memory.hpp"
#include "capture/process/signals.hpp"
#include "look/cpu.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

namespace cryo::capture {

using image::RegionKind;

namespace {

// /proc/PID/stat after the name, which may contain any character; the first field is number 3.
std::vector<std::string_view> stat_fields(std::string_view stat)
{
    std::vector<std::string_view> fields(3);
    stat.remove_prefix(std::min(stat.rfind(')') + 2, stat.size()));
    while (!stat.empty())
        fields.push_back(take_word(stat));
    fields.resize(std::max<size_t>(fields.size(), 53));
    return fields;
}

std::string name_in(const std::string &stat)
{
    const size_t open = std::min(stat.find('(') + 1, stat.size());
    const size_t close = stat.rfind(')');
    return close == std::string::npos ? std::string() : stat.substr(open, close - open);
}

uint64_t number(std::string_view text, int base = 10)
{
    return take_number(text, base);
}

// The name of the pseudo-terminal with this number from /proc/PID/stat; empty for other devices.
std::string terminal_path(uint64_t device)
{
    constexpr unsigned first = 136;
    constexpr unsigned last = 143;
    const unsigned kind = major(device);
    if (kind < first || kind > last)
        return {};
    return fmt::format("/dev/pts/{}", (kind - first) * 256 + minor(device));
}

// "Uid: real effective saved filesystem"
void four_ids(std::string_view line, uint32_t *real, uint32_t *effective, uint32_t *saved,
              uint32_t *fs)
{
    for (uint32_t *to : {real, effective, saved, fs})
        *to = static_cast<uint32_t>(take_number(line));
}

Result<void> describe_process(Description &d, const agent::ProcessFacts &facts)
{
    Result<std::string> status = d.proc.read("status");
    Result<std::string> stat = d.proc.read("stat");
    Result<std::string> exe = d.proc.link("exe");
    Result<std::string> cwd = d.proc.link("cwd");
    Result<std::string> root = d.proc.link("root");
    Result<std::string> personality = d.proc.read("personality");
    Result<std::string> arguments = d.proc.read("cmdline");
    Result<std::string> environment = d.proc.read("environ");
    Result<std::string> auxv = d.proc.read("auxv");
    for (const auto *part :
         {&status, &stat, &exe, &cwd, &root, &personality, &arguments, &environment, &auxv}) {
        if (!*part)
            return part->error();
    }
    const std::vector<std::string_view> f = stat_fields(*stat);
    image::Process &p = d.process;
    p.pid = static_cast<uint32_t>(d.proc.pid());
    p.ppid = static_cast<uint32_t>(number(f[4]));
    p.pgid = static_cast<uint32_t>(number(f[5]));
    p.sid = static_cast<uint32_t>(number(f[6]));
    p.tty = d.strings.keep(terminal_path(number(f[7])));
    p.no_terminal = number(f[7]) == 0;
    if (!p.tty.empty())
        p.foreground_pgid = static_cast<uint32_t>(number(f[8]));
    four_ids(field(*status, "Uid"), &p.uid, &p.euid, &p.suid, &p.fsuid);
    four_ids(field(*status, "Gid"), &p.gid, &p.egid, &p.sgid, &p.fsgid);
    p.comm = d.strings.keep(name_in(*stat));
    p.exe = d.strings.keep(*exe);
    p.cwd = d.strings.keep(*cwd);
    p.root = d.strings.keep(*root);
    p.umask = static_cast<uint32_t>(number(field(*status, "Umask"), 8));
    p.personality = static_cast<uint32_t>(number(*personality, 16));
    p.dumpable = static_cast<uint32_t>(facts.dumpable);
    p.no_new_privs = facts.no_new_privs > 0;
    p.keep_caps = facts.keep_caps > 0;
    p.membarrier = facts.membarrier;
    p.child_subreaper = facts.subreaper != 0;
    p.thp_disable = facts.thp_disable > 0;
    p.thp_advised = p.thp_disable && (facts.thp_disable & 2) != 0; // PR_THP_DISABLE_EXCEPT_ADVISED
    p.memory_merge = facts.memory_merge > 0;
    p.write_execute = facts.write_execute;
    if (p.dumpable != 1 && (p.uid != 0 || p.euid != 0 || p.suid != 0))
        d.problems.add("that it is not dumpable", "only root's own such programs are saved");
    if (facts.protection_keys != 0)
        d.problems.add("protection keys (pkey_alloc)", "free them before the checkpoint");
    if (facts.segments != 0)
        d.problems.add("a table of segments of its own (modify_ldt)", "do without, as Cryo would "
                                                                      "not bring it back");
    p.cap_inheritable = number(field(*status, "CapInh"), 16);
    p.cap_permitted = number(field(*status, "CapPrm"), 16);
    p.cap_effective = number(field(*status, "CapEff"), 16);
    p.cap_bounding = number(field(*status, "CapBnd"), 16);
    p.cap_ambient = number(field(*status, "CapAmb"), 16);
    std::vector<uint32_t> groups;
    for (std::string_view left = field(*status, "Groups"); left.find_first_of("0123456789") == 0;)
        groups.push_back(static_cast<uint32_t>(take_number(left)));
    p.groups = d.strings.keep_list(groups);
    if (Result<std::string> score = d.proc.read("oom_score_adj"); score)
        p.oom_score_adj = atoi(score->c_str());
    if (Result<std::string> filter = d.proc.read("coredump_filter"); filter)
        p.coredump_filter = static_cast<uint32_t>(number(*filter, 16));
    if (Result<std::string> login = d.proc.read("loginuid"); login) // not every kernel has it
        p.login_uid = static_cast<int64_t>(number(*login));
    p.seccomp = static_cast<uint32_t>(number(field(*status, "Seccomp")));
    p.cut_realtime = clock_ns(CLOCK_REALTIME);
    p.cut_monotonic = clock_ns(CLOCK_MONOTONIC);
    p.cut_boottime = clock_ns(CLOCK_BOOTTIME);

    image::Memory &m = d.memory;
    m.object = memory_object;
    m.start_code = number(f[26]);
    m.end_code = number(f[27]);
    m.start_stack = number(f[28]);
    m.start_data = number(f[45]);
    m.end_data = number(f[46]);
    m.start_brk = number(f[47]);
    m.arg_start = number(f[48]);
    m.arg_end = number(f[49]);
    m.env_start = number(f[50]);
    m.env_end = number(f[51]);
    m.brk = facts.brk;
    m.mlockall = facts.mlockall;

    d.status = std::move(*status);
    d.arguments = *arguments;
    d.environment = *environment;
    d.auxv.resize(auxv->size() / sizeof(uint64_t));
    memcpy(d.auxv.data(), auxv->data(), d.auxv.size() * sizeof(uint64_t));

    describe_cpu(d);

    if (p.euid != p.uid || p.suid != p.uid || p.egid != p.gid || p.sgid != p.gid)
        d.problems.add("the process runs with other ids than its user's (setuid or setgid)",
                       "no way yet");
    constexpr uint64_t amx_tiles = 1 << 18;
    if ((facts.xcomp_permitted & amx_tiles) != 0)
        d.problems.add("the program uses AMX tiles", "no way yet");
    if (exe->size() > 10 && exe->compare(exe->size() - 10, 10, " (deleted)") == 0)
        d.problems.add("the program file " + *exe + " is gone",
                       "put it back before the checkpoint");
    if (*root != "/")
        d.problems.add("the process has another root directory, " + *root,
                       "run cr_checkpoint inside it");
    return {};
}

// Read from /proc because prlimit needs CAP_SYS_RESOURCE for another user's limits. The lines are
// in the order of the limits' numbers.
Result<void> describe_limits(Description &d)
{
    constexpr size_t name_width = 26;
    const Result<std::string> limits = d.proc.read("limits");
    if (!limits)
        return limits.error();
    std::string_view rest = *limits;
    take_line(rest); // the headings
    const auto take_limit = [](std::string_view &line) {
        const std::string_view word = take_word(line);
        return word == "unlimited" ? RLIM_INFINITY : number(word);
    };
    for (uint32_t resource = 0; !rest.empty(); resource++) {
        std::string_view line = take_line(rest);
        line.remove_prefix(std::min(name_width, line.size()));
        image::Rlimit record;
        record.resource = resource;
        record.soft = take_limit(line);
        record.hard = take_limit(line);
        d.limits.push_back(record);
    }
    if (d.limits.size() != RLIM_NLIMITS)
        return Error(EPROTO, d.proc.path("limits") + ": is not understood");
    return {};
}

void describe_regions(Description &d, SharedContents &common, MappedImages &images, bool is_first)
{
    // Cryo's own libraries are saved whole, so that another release of Cryo can restart the image.
    std::set<std::pair<uint64_t, uint64_t>> own_libraries;
    for (const uint64_t inside : d.own_libraries) {
        for (size_t i = 0; i < d.space.mappings.size(); i++) {
            const Mapping &m = d.space.mappings[i];
            if (inside < m.start || inside >= m.end)
                continue;
            // A library's .bss is anonymous: use the mapping before it.
            const Mapping &named = m.inode != 0 || i == 0 ? m : d.space.mappings[i - 1];
            own_libraries.emplace(named.device, named.inode);
        }
    }
    SharedMappings shared(d, common, is_first);
    for (const Mapping &m : d.space.mappings) {
        image::Region region;
        region.start = m.start;
        region.end = m.end;
        region.prot = m.prot;
        region.kind = m.kind;
        region.flags = m.flags;
        region.object = memory_object;
        region.object_page = m.start / image::kPageSize;
        region.huge_page_size = m.huge_page_size;
        describe_policy(d.strings, m.policy, region.numa_mode, region.numa_nodes);
        if (images.has(m)) {
            region.kind = RegionKind::anonymous;
            region.flags |= image::kRegionAllSaved;
        } else if (m.kind == RegionKind::hugetlb && m.path != huge_anonymous) {
            region.flags |= image::kRegionAllSaved; // private memory of a file
        } else if (m.kind == RegionKind::private_file || m.kind == RegionKind::shared_file ||
                   m.kind == RegionKind::memfd) {
            const uint32_t file = d.files.mapped(m.path, m.device, m.inode);
            region.file = file;
            region.file_offset = m.offset;
            const bool gone =
                m.deleted || (d.files.files()[file - 1].flags & image::kFileUnlinked) != 0;
            const bool wanted =
                d.options.save_private || (d.options.save_exe && m.path == d.process.exe);
            // If the file is recreated with its contents, untouched pages continue to follow the
            // file.
            const bool made_again =
                gone && d.files.files()[file - 1].object != 0 && common.find(m) == nullptr;
            if (m.kind == RegionKind::private_file &&
                ((gone && !made_again) || wanted || own_libraries.count({m.device, m.inode}) != 0))
                region.flags |= image::kRegionAllSaved;
            else if (m.kind == RegionKind::private_file && !made_again)
                d.mapped_files.push_back(file);
        }
        if (m.shared) {
            shared.add(m, region);
        } else if (m.kind == RegionKind::anonymous && m.path.rfind("[anon:", 0) == 0) {
            region.name = d.strings.keep(m.path.substr(6, m.path.size() - 7));
        }
        d.regions.push_back(region);
    }
    std::sort(d.mapped_files.begin(), d.mapped_files.end());
    d.mapped_files.erase(std::unique(d.mapped_files.begin(), d.mapped_files.end()),
                         d.mapped_files.end());
    d.memory.vdso_start = d.space.vdso_start;
    d.memory.vdso_size = d.space.vdso_end - d.space.vdso_start;
    d.memory.vvar_start = d.space.vvar_start;
    d.memory.vvar_size = d.space.vvar_end - d.space.vvar_start;
}

// Excludes parts of the process that do not belong to the program (an MPI library): they are not
// saved, and no thread of the program may be inside them.
void describe_lodger(Description &d, const agent::LodgerFacts *facts)
{
    if (facts == nullptr)
        return;
    for (uint32_t i = 0; i < std::min(facts->range_count, agent::lodger_ranges); i++)
        d.left_out.push_back({facts->ranges[i][0], facts->ranges[i][1]});
    for (int fd = 0; fd < agent::lodger_fds; fd++) {
        if ((facts->fds[fd / 64] >> (fd % 64) & 1) != 0)
            d.own_descriptors.insert(fd);
    }
    for (const image::Thread &thread : d.threads) {
        for (const AddressRange &range : d.left_out) {
            if (thread.fs_base >= range.start && thread.fs_base < range.end)
                d.problems.add(fmt::format("thread {} is inside the MPI library", thread.tid),
                               "save the job with ompi-checkpoint, or try again");
        }
    }
    const auto text = [](const char(&from)[256]) {
        return std::string(from, strnlen(from, sizeof(from)));
    };
    if (facts->refused != 0)
        d.problems.add(text(facts->what), text(facts->way_out));
}

} // namespace

Result<void> ask_to_describe(AgentSession &session)
{
    return session.facts().ask_ahead(agent::ProcessRequest{}, agent::ThreadsRequest{},
                                     agent::ActionsRequest{}, agent::OwnRequest{},
                                     agent::LodgerRequest{});
}

Result<void> describe(Description &d, AgentSession &session)
{
    Result<agent::ProcessFacts> facts = session.facts().process();
    if (!facts)
        return facts.error();
    d.agent.protocol = agent::protocol_version;
    d.agent.resume_info = facts->resume_info;
    d.early.hear(facts->since_advice);
    Result<std::vector<agent::ThreadFacts>> threads = session.facts().threads();
    if (!threads)
        return threads.error();
    Result<Actions> actions = session.facts().actions();
    if (!actions)
        return actions.error();
    Result<agent::OwnFacts> own = session.facts().own();
    if (!own)
        return own.error();
    Result<std::unique_ptr<agent::LodgerFacts>> lodger = session.facts().lodger();
    if (!lodger)
        return lodger.error();
    // All answers have been fetched: a failure from here on leaves the protocol in step.
    if (Result<void> done = describe_process(d, *facts); !done)
        return done;
    if (Result<void> done = describe_threads(d, *threads); !done)
        return done;
    if (Result<void> done = describe_filters(d, session); !done)
        return done;
    if (Result<void> done = describe_signals(d, session, *facts, *actions); !done)
        return done;
    if (Result<void> done = describe_limits(d); !done)
        return done;
    d.own_libraries.assign(std::begin(own->libraries), std::end(own->libraries));
    d.own_libraries.push_back(facts->resume_info);
    d.own_descriptors = {std::begin(own->fds), std::end(own->fds)};
    describe_lodger(d, lodger->get());
    return {};
}

Result<void> look_at_memory(Description &d, AgentSession &session)
{
    // Code in the process that is not the program's may still run and change memory.
    if (!d.left_out.empty())
        d.early = EarlyLook();
    Result<std::string> smaps = d.early.smaps(d.proc, d.status);
    Result<Watchers> watchers = smaps ? who_watches(session, d.proc, *smaps) : smaps.error();
    if (watchers && watchers->others && d.early.was_used()) {
        // The watcher may have stopped watching since the early look.
        d.early = EarlyLook();
        smaps = d.early.smaps(d.proc, d.status);
        watchers = smaps ? who_watches(session, d.proc, *smaps) : smaps.error();
    }
    if (!watchers)
        return watchers.error();
    d.watched = std::move(watchers->ours);
    Result<AddressSpace> space =
        address_space_of(d.proc, *smaps, d.left_out, d.watched, d.problems);
    if (!space)
        return space.error();
    d.space = std::move(*space);
    if (Result<void> looked = look_at_aio(d, session); !looked)
        return looked;
    std::vector<RemoteAddress> addresses;
    for (const Mapping &m : d.space.mappings)
        addresses.emplace_back(m.start);
    Result<std::vector<agent::Policy>> policies = session.memory().policies(addresses);
    if (!policies)
        return policies.error();
    for (size_t i = 0; i < policies->size(); i++)
        d.space.mappings[i].policy = (*policies)[i];
    Result<std::vector<agent::IpcUse>> uses = session.facts().ipc();
    if (!uses)
        return uses.error();
    d.ipc_uses = std::move(*uses);
    return {};
}

void describe_memory(Description &d, SharedContents &shared, MappedImages &images, bool is_first)
{
    describe_regions(d, shared, images, is_first);
    refuse_guards(d);
}

void describe_children(Description &d, const std::set<pid_t> &known)
{
    std::string children;
    for (const image::Thread &thread : d.threads) {
        Result<std::string> list = d.proc.read(fmt::format("task/{}/children", thread.tid));
        if (!list) {
            children += "unknown, for " + list.error().text() + " ";
            continue;
        }
        for (std::string_view rest = *list; !rest.empty();) {
            const auto child = static_cast<pid_t>(take_number(rest));
            // A subreaper that asked for its own checkpoint has become our parent.
            if (child != getpid() && known.count(child) == 0)
                children += fmt::format("{} ", child);
        }
    }
    if (!children.empty())
        d.problems.add("the process has children: " + children,
                       "--tree saves them too; or wait for them to end");
}

void describe_directory(Description &d)
{
    struct stat status;
    if (stat(d.proc.path("cwd").c_str(), &status) == 0)
        d.process.cwd_file = d.files.removed_directory(std::string(d.process.cwd), status);
}

} // namespace cryo::capture
