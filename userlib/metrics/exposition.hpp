// SPDX-License-Identifier: Apache-2.0
//
// Text in the form that Prometheus reads (text format 0.0.4). All values of a family stand
// together, below its help and its type, in whatever order they were added.
//
//     constexpr Family restarts = {"cryo_restarts_total", Type::counter, "Restarts."};
//     Exposition text;
//     text.add(restarts, {{"pid", "412"}, {"command", "solver"}}, 2);
//     send(text.text());
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cryo::metrics {

enum class Type : uint8_t { counter, gauge };

struct Family {
    const char *name;
    Type type;
    const char *help;
    int digits = 0; // behind the point
};

using Labels = std::vector<std::pair<const char *, std::string>>;

class Exposition
{
  public:
    // Labels may hold any text: what a reader could take for something else is escaped.
    void add(const Family &family, const Labels &labels, double value);
    std::string text() const;

  private:
    std::vector<const Family *> order_; // in which families were added first
    std::map<const Family *, std::string> lines_;
};

} // namespace cryo::metrics
