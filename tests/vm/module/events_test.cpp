// SPDX-License-Identifier: Apache-2.0
//
// The event group: an event reaches the listeners it is meant for and no others. A test proves that
// an event was withheld by the next one that arrives: events keep their order.
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "device_test.hpp"
#include "events/listener.hpp"

namespace cryo::test {
namespace {

using namespace std::chrono_literals;
constexpr auto patience = 10s;

cryo_event event_of(cryo_phase phase, uint64_t done = 0, uint64_t total = 0)
{
    cryo_event event = {};
    event.operation = CRYO_OP_CHECKPOINT;
    event.phase = phase;
    event.bytes_done = done;
    event.bytes_total = total;
    return event;
}

class Events : public DeviceTest
{
  protected:
    // Retries until the rate limit admits the event.
    void announce(const cryo_event &event) const
    {
        int rc = 0;
        while ((rc = device().announce_raw(event)) == -EAGAIN)
            sched_yield();
        ASSERT_EQ(0, rc);
    }

    // Plain users may listen on kernels that can filter by user; root may listen everywhere.
    bool may_join() const { return geteuid() == 0 || device().has(CRYO_FEATURE_EVENTS_PER_USER); }
};

#define JOIN_OR_RETURN(listener)                                                                   \
    auto listener##_or = EventListener::join();                                                    \
    if (!may_join()) {                                                                             \
        ASSERT_FALSE(listener##_or);                                                               \
        EXPECT_EQ(EPERM, listener##_or.error().code());                                            \
        return;                                                                                    \
    }                                                                                              \
    ASSERT_TRUE(listener##_or) << listener##_or.error().text();                                    \
    EventListener listener = *std::move(listener##_or)

// The next event, which must come.
Event heard_by(EventListener &listener)
{
    auto next = listener.next(patience);
    if (!next || !*next) {
        ADD_FAILURE() << (next ? "nothing was heard" : next.error().text());
        return {};
    }
    return **next;
}

// Runs `body` in a child and reaps it; the body's value is the exit code.
int in_child(const std::function<int()> &body)
{
    pid_t child = fork();
    if (child == 0)
        _exit(body());
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

TEST_F(Events, CarryWhatWasAnnounced)
{
    JOIN_OR_RETURN(listener);
    struct stat ns = {};
    ASSERT_EQ(0, stat("/proc/self/ns/pid", &ns));

    announce(event_of(CRYO_PHASE_STARTED));
    announce(event_of(CRYO_PHASE_PROGRESS, uint64_t{5} << 33, uint64_t{7} << 33));
    cryo_event failed = event_of(CRYO_PHASE_FAILED);
    failed.operation = CRYO_OP_RESTART;
    failed.error = ENOSPC;
    failed.target = 4711;
    announce(failed);

    Event event = heard_by(listener);
    EXPECT_EQ(static_cast<uint32_t>(getpid()), event.pid);
    EXPECT_EQ(ns.st_ino, event.pidns_inode);
    EXPECT_EQ(CRYO_OP_CHECKPOINT, event.operation);
    EXPECT_EQ(CRYO_PHASE_STARTED, event.phase);
    event = heard_by(listener);
    EXPECT_EQ(CRYO_PHASE_PROGRESS, event.phase);
    EXPECT_EQ(uint64_t{5} << 33, event.bytes_done);
    EXPECT_EQ(uint64_t{7} << 33, event.bytes_total);
    event = heard_by(listener);
    EXPECT_EQ(CRYO_OP_RESTART, event.operation);
    EXPECT_EQ(CRYO_PHASE_FAILED, event.phase);
    EXPECT_EQ(ENOSPC, event.error);
    EXPECT_EQ(uint32_t{4711}, event.target);
}

// The structure as it was before it had a target.
TEST_F(Events, AnOlderCallerIsUnderstood)
{
    JOIN_OR_RETURN(listener);
    cryo_event event = event_of(CRYO_PHASE_STARTED);
    event.size = offsetof(cryo_event, target);
    event.target = 4711; // the module must not read it
    int rc = 0;
    while ((rc = call(CRYO_IOC_EVENT, &event)) == -EAGAIN)
        sched_yield();
    ASSERT_EQ(0, rc);
    EXPECT_EQ(uint32_t{0}, heard_by(listener).target);
}

// A shell under cr_run whose script prints "begun" and waits for its standard input.
pid_t start_shell(const char *bin, const char *script, int (&in)[2], int (&out)[2])
{
    EXPECT_EQ(0, pipe2(in, O_CLOEXEC));
    EXPECT_EQ(0, pipe2(out, O_CLOEXEC));
    const pid_t program = fork();
    if (program == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        const std::string run = std::string(bin) + "/cr_run";
        execl(run.c_str(), "cr_run", "sh", "-c", script, nullptr);
        _exit(127);
    }
    EXPECT_GT(program, 0);
    char begun[6] = {};
    EXPECT_EQ(6, read(out[0], begun, sizeof(begun)));
    return program;
}

// Checks the events between the first and the last, which is returned.
Event last_after_progress(EventListener &listener, uint64_t &steps)
{
    Event event = heard_by(listener);
    EXPECT_EQ(CRYO_PHASE_STARTED, event.phase);
    uint64_t before = 0;
    for (steps = 0; (event = heard_by(listener)).phase == CRYO_PHASE_PROGRESS; steps++) {
        EXPECT_GT(event.bytes_done, before);
        EXPECT_GE(event.bytes_total, event.bytes_done);
        before = event.bytes_done;
    }
    return event;
}

// CRYO_BIN: the directory of the commands.
TEST_F(Events, TheCommandsAnnounceWhatTheyDo)
{
    JOIN_OR_RETURN(listener);
    const char *bin = getenv("CRYO_BIN");
    ASSERT_NE(nullptr, bin);
    const std::string image = "/tmp/events." + std::to_string(getpid());
    int in[2], out[2];
    const pid_t program = start_shell(bin, "echo begun; read line; true", in, out);
    const auto command = [&](const std::string &arguments) {
        return system((std::string(bin) + arguments).c_str()); // NOLINT: a test's own words
    };
    const std::string pid = std::to_string(program);
    EXPECT_EQ(0, command("/cr_checkpoint -q --backend kmod -f " + image + " " + pid));
    Event event = heard_by(listener);
    EXPECT_EQ(CRYO_PHASE_STARTED, event.phase);
    EXPECT_EQ(static_cast<uint32_t>(program), event.target);
    EXPECT_NE(event.pid, event.target);
    event = heard_by(listener);
    struct stat saved = {};
    EXPECT_EQ(0, stat(image.c_str(), &saved));
    EXPECT_EQ(CRYO_PHASE_FINISHED, event.phase);
    EXPECT_EQ(CRYO_OP_CHECKPOINT, event.operation);
    EXPECT_EQ(static_cast<uint64_t>(saved.st_size), event.bytes_done);

    EXPECT_NE(0, command("/cr_checkpoint -q --noclobber --backend kmod -f " + image + " " + pid +
                         " 2>&1"))
        << "the image exists";
    EXPECT_EQ(CRYO_PHASE_STARTED, heard_by(listener).phase);
    event = heard_by(listener);
    EXPECT_EQ(CRYO_PHASE_FAILED, event.phase);
    EXPECT_EQ(EEXIST, event.error);

    kill(program, SIGKILL);
    waitpid(program, nullptr, 0);
    EXPECT_EQ(0, command("/cr_restart -q --backend kmod " + image + " < /dev/null"));
    event = heard_by(listener);
    EXPECT_EQ(CRYO_OP_RESTART, event.operation);
    EXPECT_EQ(CRYO_PHASE_STARTED, event.phase);
    EXPECT_EQ(static_cast<uint32_t>(program), event.target);
    EXPECT_EQ(CRYO_PHASE_FINISHED, heard_by(listener).phase);
    for (int fd : {in[0], in[1], out[0], out[1]})
        close(fd);
    unlink(image.c_str());
}

TEST_F(Events, TellHowFarALargeProgramIs)
{
    JOIN_OR_RETURN(listener);
    const char *bin = getenv("CRYO_BIN");
    ASSERT_NE(nullptr, bin);
    const std::string image = "/tmp/events." + std::to_string(getpid());
    int in[2], out[2];
    const pid_t program = start_shell(
        bin, "x=$(head -c 50000000 /dev/zero | tr '\\0' x); echo begun; read line; true", in, out);
    const auto command = [&](const std::string &arguments) {
        return system((std::string(bin) + arguments).c_str()); // NOLINT: a test's own words
    };
    const std::string pid = std::to_string(program);
    EXPECT_EQ(0, command("/cr_checkpoint -q --kill --backend kmod -f " + image + " " + pid));
    uint64_t steps = 0;
    EXPECT_EQ(CRYO_PHASE_FINISHED, last_after_progress(listener, steps).phase);
    EXPECT_GE(steps, 1U);
    waitpid(program, nullptr, 0);
    EXPECT_EQ(0, command("/cr_restart -q --backend kmod " + image + " < /dev/null"));
    EXPECT_EQ(CRYO_PHASE_FINISHED, last_after_progress(listener, steps).phase);
    EXPECT_GE(steps, 1U);
    for (int fd : {in[0], in[1], out[0], out[1]})
        close(fd);
    unlink(image.c_str());
}

TEST_F(Events, AreAboutTheCallerWhoeverOpenedTheDevice)
{
    JOIN_OR_RETURN(listener);
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        announce(event_of(CRYO_PHASE_FINISHED));
        _exit(HasFailure());
    }
    int status = -1;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
    EXPECT_EQ(static_cast<uint32_t>(child), heard_by(listener).pid);
}

TEST_F(Events, TooManyAreRefusedAndTheRestIsHeard)
{
    JOIN_OR_RETURN(listener);
    const uint32_t rate = device().features().event_rate;
    uint32_t sent = 0, refused = 0;
    for (uint32_t i = 0; i < 20 * rate; i++) {
        int rc = device().announce_raw(event_of(CRYO_PHASE_PROGRESS, i));
        ASSERT_TRUE(rc == 0 || rc == -EAGAIN) << rc;
        (rc ? refused : sent)++;
        if (rc == 0) {
            EXPECT_EQ(i, heard_by(listener).bytes_done);
        }
    }
    EXPECT_GT(sent, 0U);
    EXPECT_GT(refused, 0U) << "a flood of " << 20 * rate << " events was let through";
}

// Counts how many of `tries` events are admitted; `next` sets the sender's identity for each.
struct Flood {
    uint64_t sent = 0, seconds = 0;
};

template <class Next>
Flood flood(const Device &device, uint64_t tries, const Next &next)
{
    Flood result;
    const auto begin = std::chrono::steady_clock::now();
    for (uint64_t i = 0; i < tries; i++) {
        next(i);
        if (device.announce_raw(event_of(CRYO_PHASE_PROGRESS, i)) == 0)
            result.sent++;
    }
    const auto took = std::chrono::steady_clock::now() - begin;
    result.seconds = static_cast<uint64_t>(std::chrono::ceil<std::chrono::seconds>(took).count());
    return result;
}

// One more second is allowed, as the first one may have begun before the flood.
TEST_F(Events, AUserHasNoMoreThanTheRate)
{
    const uint64_t rate = device().features().event_rate;
    announce(event_of(CRYO_PHASE_STARTED)); // so that the current second has budget left
    const Flood all = flood(device(), 100 * rate, [](uint64_t) {});
    EXPECT_LE(all.sent, rate * (all.seconds + 1));
    EXPECT_GE(all.sent, 1U);
}

// If users shared budgets, one of so many would share the flood's.
TEST_F(Events, RootSeesThatAFloodCostsOthersNothing)
{
    constexpr uid_t flooding = 5000, others = 6000;
    constexpr unsigned count = 200;
    const auto as = [](uid_t uid, const auto &body) {
        EXPECT_EQ(0, seteuid(uid));
        body();
        EXPECT_EQ(0, seteuid(0));
    };
    const uint64_t rate = device().features().event_rate;
    for (unsigned i = 0; i < count; i++) {
        as(flooding, [&] {
            // Until this second's budget is used up.
            for (uint64_t n = 0; n <= 10 * rate; n++) {
                if (device().announce_raw(event_of(CRYO_PHASE_PROGRESS, n)) != 0)
                    return;
            }
            ADD_FAILURE() << "a flood was let through";
        });
        as(others + i,
           [&] { EXPECT_EQ(0, device().announce_raw(event_of(CRYO_PHASE_PROGRESS, i))) << i; });
    }
}

// Subordinate ids of a user, and of root in its own user namespace, share that user's budget.
TEST_F(Events, RootSeesThatAUserNamespaceGivesNoBudget)
{
    constexpr uid_t owner = 7000;
    constexpr unsigned ids = 100;
    const uint64_t rate = device().features().event_rate;
    int ready[2], go[2];
    ASSERT_EQ(0, pipe(ready));
    ASSERT_EQ(0, pipe(go));
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        char byte = 0;
        if (setresgid(owner, owner, owner) || setresuid(owner, owner, owner) ||
            unshare(CLONE_NEWUSER) || write(ready[1], "r", 1) != 1 || read(go[0], &byte, 1) != 1 ||
            setresuid(0, 0, 0))
            _exit(2);
        const Flood all = flood(device(), ids * rate, [&](uint64_t i) {
            if (seteuid(0) || seteuid(static_cast<uid_t>(i % ids)))
                _exit(3);
        });
        _exit(all.sent < 1 ? 4 : all.sent <= rate * (all.seconds + 1) ? 0 : 5);
    }
    char byte = 0;
    EXPECT_EQ(1, read(ready[0], &byte, 1));
    for (const char *map : {"uid_map", "gid_map"}) {
        const std::string file = "/proc/" + std::to_string(child) + "/" + map;
        std::ofstream(file) << "0 700000 " << ids << "\n";
    }
    EXPECT_EQ(1, write(go[1], "g", 1));
    int status = -1;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
    for (int fd : {ready[0], ready[1], go[0], go[1]})
        close(fd);
}

TEST_F(Events, NobodyListeningIsNoError)
{
    announce(event_of(CRYO_PHASE_STARTED));
}

TEST_F(Events, RootHearsEveryUser)
{
    JOIN_OR_RETURN(listener);
    EXPECT_EQ(0, in_child([&] {
                  if (setresgid(1234, 1234, 1234) || setresuid(1234, 1234, 1234))
                      return 2;
                  announce(event_of(CRYO_PHASE_PROGRESS, 1234));
                  return 0;
              }));
    EXPECT_EQ(1234U, heard_by(listener).bytes_done);
}

TEST_F(Events, RootSeesThatUsersDoNotHearEachOther)
{
    auto as = [](uid_t uid) {
        return setresgid(uid, uid, uid) == 0 && setresuid(uid, uid, uid) == 0;
    };
    EXPECT_EQ(0, in_child([&] {
                  int ready[2] = {}, go[2] = {};
                  if (pipe(ready) || pipe(go))
                      return 2;
                  pid_t listening = fork();
                  if (listening == 0) {
                      if (!as(2001))
                          _exit(3);
                      auto listener = EventListener::join();
                      if (!device().has(CRYO_FEATURE_EVENTS_PER_USER))
                          _exit(listener ? 4 : 0); // must not listen at all
                      char byte = 0;
                      if (!listener || write(ready[1], "r", 1) != 1 || read(go[0], &byte, 1) != 1)
                          _exit(5);
                      announce(event_of(CRYO_PHASE_PROGRESS, 2001));
                      _exit(heard_by(*listener).bytes_done == 2001 ? 0 : 6);
                  }
                  close(ready[1]);
                  char byte = 0;
                  if (read(ready[0], &byte, 1) == 1) {
                      for (uid_t other : {2002U, 0U})
                          in_child([&] {
                              if (other && !as(other))
                                  return 7;
                              announce(event_of(CRYO_PHASE_PROGRESS, 2002));
                              return 0;
                          });
                      if (write(go[1], "g", 1) != 1)
                          return 8;
                  }
                  int status = -1;
                  waitpid(listening, &status, 0);
                  return WIFEXITED(status) ? WEXITSTATUS(status) : 9;
              }));
}

TEST_F(Events, RootSeesThatNetworkNamespacesAreApart)
{
    JOIN_OR_RETURN(listener);
    EXPECT_EQ(0, in_child([&] {
                  if (unshare(CLONE_NEWNET))
                      return 2;
                  announce(event_of(CRYO_PHASE_PROGRESS, 1));
                  return 0;
              }));
    announce(event_of(CRYO_PHASE_PROGRESS, 2));
    EXPECT_EQ(2U, heard_by(listener).bytes_done);
}

TEST_F(Events, RootSeesThePidOfTheNamespaceWithItsName)
{
    JOIN_OR_RETURN(listener);
    struct stat own = {};
    ASSERT_EQ(0, stat("/proc/self/ns/pid", &own));
    EXPECT_EQ(0, in_child([&] {
                  if (unshare(CLONE_NEWPID))
                      return 2;
                  return in_child([&] {
                      announce(event_of(CRYO_PHASE_PROGRESS, 3));
                      return 0;
                  });
              }));
    Event event = heard_by(listener);
    EXPECT_EQ(1U, event.pid);
    EXPECT_NE(own.st_ino, event.pidns_inode);
}

} // namespace
} // namespace cryo::test
