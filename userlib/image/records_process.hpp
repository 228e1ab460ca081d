// SPDX-License-Identifier: Apache-2.0
//
// What an image says about the process itself: where and when it was saved, ids, threads,
// limits, the CPU. Include records.hpp, which has the whole list.
//
// Numbers that Linux fixes in its ABI (signal numbers, resources, clocks, scheduling policies,
// PROT_ bits, …) are stored as they are; everything else has a numbering of its own here.
#pragma once

#include "image/record_codec.hpp"

namespace cryo::image {

// The making of this image: by whom, where and how. Nothing here is needed to restart.
struct ImageInfo {
    static constexpr RecordType type = RecordType::image_info;
    static constexpr uint16_t version = 1;
    static constexpr bool required = false;

    std::string_view tool = {}; // version of Cryo
    std::string_view host = {};
    std::string_view boot_id = {};
    std::string_view kernel = {}; // uname -v
    std::string_view user = {};
    std::string_view request = {};  // the command line that asked for it
    std::string_view backend = {};  // kmod, user, criu, self
    std::string_view snapshot = {}; // fork or stop
    int64_t started = 0;            // nanoseconds since the epoch
    uint64_t stopped_ns = 0;        // how long the program was stopped
    uint64_t total_ns = 0;          // from the request to the last page

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("tool", s.tool);
        v("host", s.host);
        v("boot_id", s.boot_id);
        v("kernel", s.kernel);
        v("user", s.user);
        v("request", s.request);
        v("backend", s.backend);
        v("snapshot", s.snapshot);
        v("started", s.started, Show::time);
        v("stopped_ns", s.stopped_ns);
        v("total_ns", s.total_ns);
    }
};

// The process: one per image. Ids are those of its own namespaces.
struct Process {
    static constexpr RecordType type = RecordType::process;
    static constexpr uint16_t version = 10;
    static constexpr bool required = true;

    uint32_t pid = 0;
    uint32_t ppid = 0;
    uint32_t pgid = 0;
    uint32_t sid = 0;
    uint32_t foreground_pgid = 0; // of the controlling terminal
    uint32_t uid = 0;
    uint32_t euid = 0;
    uint32_t suid = 0;
    uint32_t fsuid = 0;
    uint32_t gid = 0;
    uint32_t egid = 0;
    uint32_t sgid = 0;
    uint32_t fsgid = 0;
    List<uint32_t> groups = {};
    uint64_t cap_inheritable = 0;
    uint64_t cap_permitted = 0;
    uint64_t cap_effective = 0;
    uint64_t cap_bounding = 0;
    uint64_t cap_ambient = 0;
    uint32_t securebits = 0;
    std::string_view comm = {};
    uint32_t exe_file = 0; // FILE id of the executable
    std::string_view exe = {};
    uint32_t cwd_file = 0; // FILE id, for a directory that was removed; else 0
    std::string_view cwd = {};
    std::string_view root = {};
    std::string_view tty = {}; // controlling terminal, if it is a pseudo-terminal
    std::string_view cgroup = {};
    uint32_t umask = 0;
    uint32_t personality = 0;
    uint32_t dumpable = 0;
    bool no_new_privs = false;
    bool child_subreaper = false;
    bool keep_caps = false;
    bool thp_disable = false;
    uint32_t seccomp = 0; // mode: 0 none, 1 strict, 2 filter
    int32_t oom_score_adj = 0;
    uint32_t coredump_filter = 0;
    uint32_t exit_signal = 0;
    int64_t cut_realtime = 0; // clocks at the cut, nanoseconds
    int64_t cut_monotonic = 0;
    int64_t cut_boottime = 0;
    int64_t start_boottime = 0; // when the process was started
    bool stopped = false;       // by a signal; since version 2
    uint32_t membarrier = 0;    // MEMBARRIER_CMD_REGISTER_ bits; since version 3
    bool memory_merge = false;  // PR_SET_MEMORY_MERGE; since version 4
    bool thp_advised = false;   // thp_disable is for memory without advice; since version 5
    int64_t login_uid = -1;     // for the audit log; -1: not known; since version 6
    bool no_terminal = false;   // it has no controlling terminal of any kind; since version 7
    uint32_t write_execute = 0; // PR_MDWE_ bits; since version 8
    uint32_t stop_signal = 0;   // that has stopped it; 0: not known; since version 9
    uint32_t shares = 0;        // with its parent: CLONE_ bits; since version 10

    // Readers of version 8 would bring back what is not dumpable as something that is, and those of
    // version 9 as two what is shared.
    bool needs_version() const { return write_execute != 0 || dumpable != 1 || shares != 0; }

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("pid", s.pid);
        v("ppid", s.ppid);
        v("pgid", s.pgid);
        v("sid", s.sid);
        v("foreground_pgid", s.foreground_pgid);
        v("uid", s.uid);
        v("euid", s.euid);
        v("suid", s.suid);
        v("fsuid", s.fsuid);
        v("gid", s.gid);
        v("egid", s.egid);
        v("sgid", s.sgid);
        v("fsgid", s.fsgid);
        v("groups", s.groups);
        v("cap_inheritable", s.cap_inheritable, Show::hex);
        v("cap_permitted", s.cap_permitted, Show::hex);
        v("cap_effective", s.cap_effective, Show::hex);
        v("cap_bounding", s.cap_bounding, Show::hex);
        v("cap_ambient", s.cap_ambient, Show::hex);
        v("securebits", s.securebits, Show::hex);
        v("comm", s.comm);
        v("exe_file", s.exe_file);
        v("exe", s.exe);
        v("cwd_file", s.cwd_file);
        v("cwd", s.cwd);
        v("root", s.root);
        v("tty", s.tty);
        v("cgroup", s.cgroup);
        v("umask", s.umask, Show::octal);
        v("personality", s.personality, Show::hex);
        v("dumpable", s.dumpable);
        v("no_new_privs", s.no_new_privs);
        v("child_subreaper", s.child_subreaper);
        v("keep_caps", s.keep_caps);
        v("thp_disable", s.thp_disable);
        v("seccomp", s.seccomp);
        v("oom_score_adj", s.oom_score_adj);
        v("coredump_filter", s.coredump_filter, Show::hex);
        v("exit_signal", s.exit_signal);
        v("cut_realtime", s.cut_realtime);
        v("cut_monotonic", s.cut_monotonic);
        v("cut_boottime", s.cut_boottime);
        v("start_boottime", s.start_boottime);
        v("stopped", s.stopped);
        v("membarrier", s.membarrier, Show::hex);
        v("memory_merge", s.memory_merge);
        v("thp_advised", s.thp_advised);
        v("login_uid", s.login_uid);
        v("no_terminal", s.no_terminal);
        v("write_execute", s.write_execute, Show::hex);
        v("stop_signal", s.stop_signal);
        v("shares", s.shares, Show::hex);
    }
};

// Text or numbers that the kernel gave the program at exec; longer ones continue in further records
// of the same type, in order of `part`.
// argv as in /proc/PID/cmdline: strings, each ended by NUL.
struct Args {
    static constexpr RecordType type = RecordType::args;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    uint32_t part = 0;
    Bytes data = {};

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("part", s.part);
        v("data", s.data);
    }
};

// The environment as in /proc/PID/environ.
struct Environ {
    static constexpr RecordType type = RecordType::environ;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    uint32_t part = 0;
    Bytes data = {};

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("part", s.part);
        v("data", s.data);
    }
};

// Pairs of (type, value) as in /proc/PID/auxv.
struct Auxv {
    static constexpr RecordType type = RecordType::auxv;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    List<uint64_t> pairs = {};

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("pairs", s.pairs);
    }
};

// How to read Thread::registers.
enum class RegisterLayout : uint32_t {
    none = 0,            // nothing saved
    x86_64_sigframe = 1, // ucontext of the signal frame at Thread::sp; registers is empty
    x86_64_user = 2,     // the 27 words of the user register set, then the XSAVE area
    // rbx rbp r12-r15 rsp rip: where the thread waits inside the agent's signal handler, whose
    // return brings back the rest from the signal frame, a ucontext at Thread::sp
    x86_64_parked = 3,
};

// How a system call that the checkpoint interrupted goes on.
enum class SyscallRestart : uint32_t {
    none = 0,     // the thread was not in one, or it simply returns
    again = 1,    // run it again with the saved arguments
    adjusted = 2, // run it again with the time that was left
    eintr = 3,    // return EINTR
};

// One per thread; the leader (tid = pid) first.
struct Thread {
    static constexpr RecordType type = RecordType::thread;
    static constexpr uint16_t version = 3;
    static constexpr bool required = true;

    uint32_t tid = 0;
    std::string_view name = {};
    RegisterLayout layout = RegisterLayout{};
    Bytes registers = {};
    uint64_t ip = 0;
    uint64_t sp = 0;
    uint64_t fs_base = 0;
    uint64_t gs_base = 0;
    uint64_t sigmask = 0;
    uint64_t altstack_sp = 0;
    uint64_t altstack_size = 0;
    uint32_t altstack_flags = 0;
    uint64_t robust_list = 0;
    uint64_t robust_list_size = 0;
    uint64_t clear_child_tid = 0;
    uint64_t rseq = 0;
    uint32_t rseq_size = 0;
    uint32_t rseq_flags = 0;
    uint32_t rseq_signature = 0;
    int64_t syscall = -1; // number of the interrupted system call, or -1
    List<uint64_t> syscall_args = {};
    SyscallRestart restart = SyscallRestart{};
    int64_t time_left = -1; // of that call, nanoseconds; -1: none
    uint32_t policy = 0;    // SCHED_…
    uint32_t sched_flags = 0;
    int32_t nice = 0;
    uint32_t priority = 0;
    uint64_t deadline_runtime = 0;
    uint64_t deadline = 0;
    uint64_t deadline_period = 0;
    uint32_t ioprio = 0;
    uint64_t timer_slack = 0;
    uint32_t parent_death_signal = 0;
    Bytes affinity = {};    // CPU mask, CPU 0 in the first bit
    uint32_t numa_mode = 0; // MPOL_ of memory without a policy of its own
    Bytes numa_nodes = {};
    // Since version 2: privileges, if they differ from the first thread's, which are in PROCESS.
    bool own_credentials = false;
    bool no_new_privs = false;
    uint32_t securebits = 0;
    uint64_t cap_inheritable = 0;
    uint64_t cap_permitted = 0;
    uint64_t cap_effective = 0;
    uint64_t cap_bounding = 0;
    uint64_t cap_ambient = 0;
    // Since version 3:
    uint32_t tsc = 0;                // PR_TSC_…; 0: not known
    uint32_t machine_check = 0;      // 1 + PR_MCE_KILL_…; 0: not known
    List<uint32_t> speculation = {}; // by PR_SPEC_…, as PR_GET_SPECULATION_CTRL tells it
    uint32_t cpuid = 0;              // 1 + what ARCH_GET_CPUID tells; 0: not known
    bool io_flusher = false;         // PR_SET_IO_FLUSHER

    bool needs_version() const
    {
        constexpr uint32_t trapped = 2; // PR_TSC_SIGSEGV
        return tsc == trapped || cpuid == 1;
    }

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("tid", s.tid);
        v("name", s.name);
        v("layout", s.layout);
        v("registers", s.registers);
        v("ip", s.ip, Show::hex);
        v("sp", s.sp, Show::hex);
        v("fs_base", s.fs_base, Show::hex);
        v("gs_base", s.gs_base, Show::hex);
        v("sigmask", s.sigmask, Show::hex);
        v("altstack_sp", s.altstack_sp, Show::hex);
        v("altstack_size", s.altstack_size);
        v("altstack_flags", s.altstack_flags, Show::hex);
        v("robust_list", s.robust_list, Show::hex);
        v("robust_list_size", s.robust_list_size);
        v("clear_child_tid", s.clear_child_tid, Show::hex);
        v("rseq", s.rseq, Show::hex);
        v("rseq_size", s.rseq_size);
        v("rseq_flags", s.rseq_flags);
        v("rseq_signature", s.rseq_signature, Show::hex);
        v("syscall", s.syscall);
        v("syscall_args", s.syscall_args);
        v("restart", s.restart);
        v("time_left", s.time_left);
        v("policy", s.policy);
        v("sched_flags", s.sched_flags, Show::hex);
        v("nice", s.nice);
        v("priority", s.priority);
        v("deadline_runtime", s.deadline_runtime);
        v("deadline", s.deadline);
        v("deadline_period", s.deadline_period);
        v("ioprio", s.ioprio, Show::hex);
        v("timer_slack", s.timer_slack);
        v("parent_death_signal", s.parent_death_signal);
        v("affinity", s.affinity);
        v("numa_mode", s.numa_mode);
        v("numa_nodes", s.numa_nodes);
        v("own_credentials", s.own_credentials);
        v("no_new_privs", s.no_new_privs);
        v("securebits", s.securebits, Show::hex);
        v("cap_inheritable", s.cap_inheritable, Show::hex);
        v("cap_permitted", s.cap_permitted, Show::hex);
        v("cap_effective", s.cap_effective, Show::hex);
        v("cap_bounding", s.cap_bounding, Show::hex);
        v("cap_ambient", s.cap_ambient, Show::hex);
        v("tsc", s.tsc);
        v("machine_check", s.machine_check);
        v("speculation", s.speculation, Show::hex);
        v("cpuid", s.cpuid);
        v("io_flusher", s.io_flusher);
    }
};

// A filter of system calls (seccomp) that the process is under. One that no thread has of its own
// is of the surroundings, with whose like a restart compares it.
struct CallFilter {
    static constexpr RecordType type = RecordType::call_filter;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    uint32_t filter = 0; // within the process, from 1
    bool logs = false;   // SECCOMP_FILTER_FLAG_LOG
    // Instructions of classic BPF: the code in the lowest 16 bits, 8 bits each for the jumps if
    // true and if false, and 32 bits for the operand.
    List<uint64_t> code = {};

    static constexpr uint32_t CallFilter::*key = &CallFilter::filter;

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("filter", s.filter);
        v("logs", s.logs);
        v("code", s.code, Show::hex);
    }
};

// The filters that a thread is under, beside those of its process's surroundings.
struct ThreadFilters {
    static constexpr RecordType type = RecordType::thread_filters;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    uint32_t tid = 0;
    uint32_t of_surroundings = 0;  // so many others were put on before
    bool speculation_lost = false; // they were put on without SECCOMP_FILTER_FLAG_SPEC_ALLOW
    List<uint32_t> filters = {};   // CALL_FILTER, in the order in which they were put on

    static constexpr uint32_t ThreadFilters::*key = &ThreadFilters::tid;

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("tid", s.tid);
        v("of_surroundings", s.of_surroundings);
        v("speculation_lost", s.speculation_lost);
        v("filters", s.filters);
    }
};

// The agent inside the program: where a restart informs it.
struct Agent {
    static constexpr RecordType type = RecordType::agent;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    uint32_t protocol = 0;
    uint64_t resume_info = 0; // address of its ResumeInfo

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("protocol", s.protocol);
        v("resume_info", s.resume_info, Show::hex);
    }
};

struct Rlimit {
    static constexpr RecordType type = RecordType::rlimit;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    uint32_t resource = 0;
    uint64_t soft = 0;
    uint64_t hard = 0;

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("resource", s.resource);
        v("soft", s.soft, Show::hex);
        v("hard", s.hard, Show::hex);
    }
};

// CPU features that the program may rely on. A restart on a CPU that lacks one is refused, and the
// message names it.
struct Cpu {
    static constexpr RecordType type = RecordType::cpu;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    std::string_view vendor = {};
    std::string_view model = {};
    uint64_t xcr0 = 0;       // state components the system had switched on
    uint64_t xsave_used = 0; // components not in their initial state in some thread
    uint32_t xsave_size = 0;
    // names as in /proc/cpuinfo, separated by spaces; libraries may have chosen code by them
    std::string_view features = {};
    std::string_view tunables = {}; // GLIBC_TUNABLES the program was started with
    bool baseline = false;          // started by cr_run --cpu=baseline

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("vendor", s.vendor);
        v("model", s.model);
        v("xcr0", s.xcr0, Show::hex);
        v("xsave_used", s.xsave_used, Show::hex);
        v("xsave_size", s.xsave_size);
        v("features", s.features);
        v("tunables", s.tunables);
        v("baseline", s.baseline);
    }
};

// Something that the user should know about this image, such as what was not saved.
struct Notice {
    static constexpr RecordType type = RecordType::notice;
    static constexpr uint16_t version = 1;
    static constexpr bool required = false;

    uint32_t severity = 0;         // 0 information, 1 warning
    std::string_view subject = {}; // fd 5, region 7f00…, signal 64
    std::string_view text = {};

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("severity", s.severity);
        v("subject", s.subject);
        v("text", s.text);
    }
};

} // namespace cryo::image
