// SPDX-License-Identifier: Apache-2.0
#include "ratios.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <string_view>
#include <sys/resource.h>

namespace cryo::bench {

namespace {

constexpr const char *kTime = "time";

double seconds(const timeval &t)
{
    return double(t.tv_sec) + double(t.tv_usec) / 1e6;
}

double median(std::vector<double> values)
{
    std::ranges::sort(values);
    size_t n = values.size();
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

} // namespace

double cpu_seconds()
{
    double sum = 0;
    for (int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
        rusage u;
        getrusage(who, &u);
        sum += seconds(u.ru_utime) + seconds(u.ru_stime);
    }
    return sum;
}

double geometric_mean(const std::vector<double> &values)
{
    double sum = 0;
    for (double v : values)
        sum += std::log(v);
    return std::exp(sum / double(values.size()));
}

class Bench::Collector : public benchmark::BenchmarkReporter
{
  public:
    explicit Collector(Bench &bench) : bench_(bench) {}

    bool ReportContext(const Context &) override { return true; }
    void ReportRuns(const std::vector<Run> &runs) override
    {
        for (const Run &run : runs) {
            if (run.run_type != Run::RT_Iteration)
                continue;
            const std::string &name = run.run_name.function_name;
            if (run.error_occurred) {
                fmt::print(stderr, "{}: {}\n", name, run.error_message);
                bench_.failed_ = true;
                continue;
            }
            auto &values = bench_.values_[name];
            values[kTime].push_back(run.real_accumulated_time / double(run.iterations));
            for (const auto &[counter, value] : run.counters)
                values[counter].push_back(value.value);
        }
    }

  private:
    Bench &bench_;
};

Bench::Bench(int argc, char **argv)
{
    std::vector<std::string> words{argv[0]};
    for (int i = 1; i < argc; i++) {
        if (std::string_view(argv[i]) == "--full")
            full_ = true;
        else
            words.emplace_back(argv[i]);
    }
    words.insert(words.begin() + 1,
                 {"--benchmark_enable_random_interleaving=true",
                  full_ ? "--benchmark_repetitions=9" : "--benchmark_repetitions=1",
                  full_ ? "--benchmark_min_time=0.05" : "--benchmark_min_time=0"});
    std::vector<char *> pointers;
    for (std::string &word : words)
        pointers.push_back(word.data());
    int count = int(pointers.size());
    benchmark::Initialize(&count, pointers.data());
    if (benchmark::ReportUnrecognizedArguments(count, pointers.data()))
        exit(255);
}

void Bench::run()
{
    Collector collector(*this);
    if (benchmark::RunSpecifiedBenchmarks(&collector) == 0)
        failed_ = true;
}

double Bench::time(const std::string &benchmark) const
{
    return counter(benchmark, kTime);
}

double Bench::counter(const std::string &benchmark, const std::string &name) const
{
    auto run = values_.find(benchmark);
    if (run == values_.end())
        return NAN;
    auto values = run->second.find(name);
    return values == run->second.end() ? NAN : median(values->second);
}

void Bench::ratio(const std::string &what, double measured, std::optional<Target> target)
{
    lines_.push_back({what, measured, target});
}

int Bench::finish() const
{
    fmt::print("{:<56} {:>9} {:>9}\n", "", "measured", "target");
    for (const Line &l : lines_) {
        std::string target;
        std::string verdict;
        if (l.target) {
            target = fmt::format("{} {:g}", l.target->at_least ? "≥" : "≤", l.target->value);
            verdict = !full_ ? "" : l.target->met_by(l.measured) ? "met" : "MISSED";
        }
        fmt::print("{:<56} {:>9.3g} {:>9}  {}\n", l.what, l.measured, target, verdict);
    }
    if (!full_)
        fmt::print("smoke size: these figures say nothing about speed; scripts/bench measures\n");
    return failed_ ? 1 : 0;
}

} // namespace cryo::bench
