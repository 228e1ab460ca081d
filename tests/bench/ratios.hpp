// SPDX-License-Identifier: Apache-2.0
//
// Ratios between Google Benchmarks that ran alternately in the same process, and the table of which
// meet their target. Absolute times of a machine mean little; the cost of one method relative to
// another, measured alternately, does. Each value is the median of all repetitions.
//
//     void write_image(benchmark::State &state) { for (auto _ : state) ...; }
//
//     int main(int argc, char **argv)
//     {
//         Bench bench(argc, argv);                    // --full; otherwise smoke size
//         benchmark::RegisterBenchmark("image", write_image)->Iterations(1);
//         ...
//         bench.run();
//         bench.ratio("speed beside dd", bench.time("dd") / bench.time("image"), at_least(0.9));
//         return bench.finish();                      // 1 if a result was wrong
//     }
#pragma once

#include <benchmark/benchmark.h>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cryo::bench {

struct Target {
    bool at_least = true;
    double value = 0;

    bool met_by(double measured) const { return at_least ? measured >= value : measured <= value; }
};

inline Target at_least(double value)
{
    return {true, value};
}
inline Target at_most(double value)
{
    return {false, value};
}

// User and system time of this process and of its reaped children, in seconds.
double cpu_seconds();

double geometric_mean(const std::vector<double> &values);

class Bench
{
  public:
    Bench(int argc, char **argv);

    bool full() const { return full_; } // otherwise smoke size: only results count

    // Runs the registered benchmarks, alternately. Medians are available afterwards.
    void run();

    double time(const std::string &benchmark) const; // seconds per iteration
    double counter(const std::string &benchmark, const std::string &name) const;

    // A line of the table; without a target it is for information only.
    void ratio(const std::string &what, double measured, std::optional<Target> target);

    // Prints the table. The exit code: 1 if a benchmark reported a wrong result, else 0.
    int finish() const;

  private:
    class Collector;
    struct Line {
        std::string what;
        double measured;
        std::optional<Target> target;
    };

    bool full_ = false;
    bool failed_ = false;
    std::map<std::string, std::map<std::string, std::vector<double>>> values_;
    std::vector<Line> lines_;
};

} // namespace cryo::bench
