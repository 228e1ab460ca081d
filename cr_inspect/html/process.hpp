// SPDX-License-Identifier: Apache-2.0
//
// The section of a page about one image: a process, or a version of a file.
//
//     ProcessSection section(page, limits, input);
//     section.show("p3", "melt", source, entry);
#pragma once

#include "html/pieces.hpp"
#include "input.hpp"

namespace cryo::inspect {

class ProcessSection
{
  public:
    ProcessSection(Html &page, const PageLimits &limits, const Input &input)
        : page_(page), limits_(limits), input_(input)
    {}

    // `id` is that of the section, for links; `title` what it is called, empty: as the page is.
    void show(const std::string &id, const std::string &title, const Source &source,
              const Entry &entry);

  private:
    void facts(const Description &about);
    void threads(const Description &about);
    void descriptors(const Description &about);
    void other_files(const Description &about);
    void environment(const Description &about);
    void records(const Description &about);
    void versions(const Description &about);
    void chain(const Source &source, const Entry &entry);

    Html &page_;
    const PageLimits &limits_;
    const Input &input_;
};

} // namespace cryo::inspect
