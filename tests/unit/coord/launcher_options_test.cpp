// SPDX-License-Identifier: Apache-2.0
//
// Which options of a launcher a restart gives again.
#include "coord/launcher_options.hpp"

#include "../scratch.hpp"

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <vector>

using cryo::coord::launcher_options;
using cryo::coord::LauncherOptions;
using cryo::coord::placing_option;
using Words = std::vector<std::string>;

namespace {

Words again(const Words &command, const Words &instead = {})
{
    const LauncherOptions found = launcher_options(command, "/srv/ann", instead);
    EXPECT_EQ(found.unknown, "");
    return found.words;
}

} // namespace

TEST(LauncherOptions, PlacesAndTransportsAreGivenAgain)
{
    EXPECT_EQ(
        again({"mpirun", "-np", "4", "--oversubscribe", "--map-by", "node", "-bind-to", "none",
               "--mca", "btl", "tcp,self", "-x", "UCX_TLS=tcp", "./app", "--oversubscribe"}),
        Words({"--oversubscribe", "--map-by", "node", "-bind-to", "none", "--mca", "btl",
               "tcp,self", "-x", "UCX_TLS=tcp"}));
    EXPECT_EQ(again({"mpirun", "-n", "4", "./app"}), Words());
    EXPECT_EQ(again({"mpirun", "--map-by=:OVERSUBSCRIBE", "--", "-n"}),
              Words({"--map-by=:OVERSUBSCRIBE"}));
}

TEST(LauncherOptions, NewHostsReplaceNumbersOfRanksPerHost)
{
    const Words hosts = cryo::coord::host_options("mpirun", "n1:4,n9:4");
    EXPECT_EQ(hosts, Words({"--host", "n1:4,n9:4"}));
    EXPECT_EQ(again({"mpirun", "--hostfile", "nodes", "-rf", "ranks", "-N", "4", "--map-by",
                     "ppr:4:node", "--bind-to", "core", "./app"},
                    hosts),
              Words({"--bind-to", "core"}));
    EXPECT_EQ(again({"mpirun", "--host", "n1,n2", "--map-by", "node", "--nolocal", "./app"}, hosts),
              Words({"--map-by", "node"}));
    EXPECT_EQ(again({"mpirun", "--mca", "rmaps_rank_file_path", "ranks", "--mca",
                     "orte_default_hostfile", "nodes", "--mca", "rmaps_base_mapping_policy", "node",
                     "--mca", "rmaps_base_oversubscribe", "1", "./app"},
                    hosts),
              Words({"--mca", "rmaps_base_mapping_policy", "node", "--mca",
                     "rmaps_base_oversubscribe", "1"}));
    EXPECT_EQ(again({"mpirun", "--mca", "rmaps_base_mapping_policy", "ppr:4:node", "./app"}, hosts),
              Words());
    // Hosts without numbers leave the rest as it is.
    EXPECT_EQ(again({"mpirun", "--host", "n1,n2", "-N", "4", "./app"}, {"--host", "n3,n4"}),
              Words({"-N", "4"}));
}

TEST(LauncherOptions, HostsAreListedWithTheirSlots)
{
    using cryo::coord::HostRanks;
    using Hosts = std::vector<HostRanks>;
    const auto listed = [](const Words &command) {
        return cryo::coord::listed_hosts(command, "/srv/ann");
    };
    EXPECT_EQ(listed({"mpirun", "-n", "4", "--host", "n1:4,n2,n2", "./app"}),
              (Hosts{{"n1", 0, 4}, {"n2", 0, 2}}));
    EXPECT_EQ(listed({"mpirun", "--host=n1:4", "./app"}), (Hosts{{"n1", 0, 4}}));
    EXPECT_EQ(listed({"mpirun", "-n", "4", "./app", "--host", "n1"}), Hosts());
    EXPECT_EQ(listed({"mpirun", "--hostfile", "no-such-file", "./app"}), Hosts());
    EXPECT_EQ(listed({"./app"}), Hosts());
}

TEST(LauncherOptions, HostsOfAFileAreListedWithTheirSlots)
{
    using cryo::coord::HostRanks;
    using Hosts = std::vector<HostRanks>;
    const cryo::Scratch scratch;
    std::ofstream(scratch / "hosts") << "# of the cluster\n"
                                        "n1 max_slots=8 slots=4 # the fast one\n"
                                        "  n2 slots = 3\r\n"
                                        "n3:2\n"
                                        "n4 max-slots=8\n"
                                        "n5 slots=-1\n"
                                        "ann@n6 slots=4\n"
                                        "fe80::1 slots=4\n"
                                        "n1\n";
    const auto listed = [&](const Words &more) {
        Words command = {"mpirun", "--hostfile", "hosts"};
        command.insert(command.end(), more.begin(), more.end());
        command.emplace_back("./app");
        return cryo::coord::listed_hosts(command, scratch.path());
    };
    EXPECT_EQ(listed({}),
              (Hosts{{"n1", 0, 5}, {"n2", 0, 3}, {"n3", 0, 2}, {"n4", 0, 1}, {"n5", 0, 1}}));
    // With these beside it, the file's others get no ranks.
    EXPECT_EQ(listed({"--host", "n1,n3:2"}), (Hosts{{"n1", 0, 1}, {"n3", 0, 2}}));
}

TEST(LauncherOptions, NumbersAndDirectoriesOfRanksAreNot)
{
    EXPECT_EQ(again({"mpirun", "-n", "4", "--wdir", "/tmp", "--preload-files", "a", "./app"}),
              Words());
}

TEST(LauncherOptions, NamesOfFilesAreThoseOfTheJobsDirectory)
{
    EXPECT_EQ(again({"mpirun", "--hostfile", "nodes", "-rf", "/etc/ranks", "./app"}),
              Words({"--hostfile", "/srv/ann/nodes", "-rf", "/etc/ranks"}));
    EXPECT_EQ(again({"mpirun", "--hostfile=../nodes", "./app"}), Words({"--hostfile=/srv/nodes"}));
}

TEST(LauncherOptions, WhatIsGivenNowReplacesTheJobs)
{
    const Words command = {"mpirun", "--host", "one:2,two:2", "--mca",    "btl",  "tcp,self",
                           "--mca",  "pml",    "ob1",         "--map-by", "node", "./app"};
    EXPECT_EQ(again(command, {"--hostfile", "others"}),
              Words({"--mca", "btl", "tcp,self", "--mca", "pml", "ob1", "--map-by", "node"}));
    EXPECT_EQ(again(command, {"-mca", "btl", "self,vader", "--map-by", "slot"}),
              Words({"--host", "one:2,two:2", "--mca", "pml", "ob1"}));
}

// Launchers would add hosts to those that are lost.
TEST(LauncherOptions, WhatIsGivenBehindAnUnknownOneReplacesTheJobs)
{
    const Words command = {"mpirun", "--host", "one:2,two:2", "--bind-to", "core", "./app"};
    EXPECT_EQ(again(command, {"--of-tomorrow", "5", "--host", "one:4"}),
              Words({"--bind-to", "core"}));
    EXPECT_EQ(again(command, {"--of-tomorrow", "--bind-to", "none"}),
              Words({"--host", "one:2,two:2"}));
}

TEST(LauncherOptions, VariablesOfNowReplaceTheJobs)
{
    setenv("OMPI_MCA_btl", "self,vader", 1);
    unsetenv("UNSET_HERE");
    EXPECT_EQ(again({"mpirun", "--mca", "btl", "tcp,self", "-x", "LD_PRELOAD=/lib/x.so", "-x",
                     "UNSET_HERE", "-x", "PATH", "./app"}),
              Words({"-x", "PATH"}));
    unsetenv("OMPI_MCA_btl");
}

TEST(LauncherOptions, NothingBehindAnUnknownOneIsTaken)
{
    const LauncherOptions found = launcher_options(
        {"mpirun", "--oversubscribe", "--of-tomorrow", "--map-by", "node", "./app"}, "/", {});
    EXPECT_EQ(found.words, Words({"--oversubscribe"}));
    EXPECT_EQ(found.unknown, "--of-tomorrow");
    EXPECT_EQ(launcher_options({"mpirun", "--mca", "btl"}, "/", {}).unknown, "--mca");
}

TEST(LauncherOptions, OnlyOfALauncher)
{
    EXPECT_EQ(again({"./script", "--oversubscribe"}), Words());
    EXPECT_EQ(again({}), Words());
}

TEST(LauncherOptions, WhereRanksArePlacedTheJobsPlacesAreNotGivenAgain)
{
    const Words command = {"mpirun",
                           "--host",
                           "one:2,two:2",
                           "--map-by",
                           "node",
                           "--rank-by",
                           "slot",
                           "-N",
                           "2",
                           "--bind-to",
                           "none",
                           "--mca",
                           "rmaps_base_mapping_policy",
                           "node",
                           "--mca",
                           "rmaps_base_oversubscribe",
                           "1",
                           "--mca",
                           "pml",
                           "ob1",
                           "./app"};
    EXPECT_EQ(
        launcher_options(command, "/srv/ann", {"--host", "one:3", "--map-by", "slot"}, true).words,
        Words({"--bind-to", "none", "--mca", "rmaps_base_oversubscribe", "1", "--mca", "pml",
               "ob1"}));
    EXPECT_EQ(launcher_options({"mpiexec.hydra", "-f", "nodes", "-ppn", "2", "-bind-to", "core",
                                "-map-by", "socket", "./app"},
                               "/srv/ann", {}, true)
                  .words,
              Words({"-bind-to", "core", "-map-by", "socket"}));
}

TEST(LauncherOptions, AnOptionThatPlacesRanksIsFound)
{
    EXPECT_EQ(placing_option("mpirun", {"--mca", "pml", "ob1", "--bind-to", "none"}), "");
    EXPECT_EQ(placing_option("mpirun", {"--oversubscribe", "-H", "one"}), "-H");
    EXPECT_EQ(placing_option("mpirun", {"--rankfile", "ranks"}), "--rankfile");
    EXPECT_EQ(placing_option("mpirun", {"--mca", "rmaps", "seq"}), "--mca");
    EXPECT_EQ(placing_option("mpirun", {"--of-tomorrow", "5", "--rankfile", "ranks"}),
              "--rankfile");
    EXPECT_EQ(placing_option("mpiexec.hydra", {"-map-by", "core"}), "");
    EXPECT_EQ(placing_option("mpiexec.hydra", {"-ppn", "2"}), "-ppn");
}

TEST(LauncherOptions, OfSrun)
{
    EXPECT_EQ(again({"srun", "--mpi=pmix", "-N2", "-n", "4", "--cpu-bind", "none", "-K", "./app"}),
              Words({"--mpi=pmix", "-N2", "--cpu-bind", "none", "-K"}));
    EXPECT_EQ(again({"srun", "--mpi=pmix", "-w", "n1", "./app"}, {"--nodelist", "n2"}),
              Words({"--mpi=pmix"}));
}
