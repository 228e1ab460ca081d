// SPDX-License-Identifier: Apache-2.0
// What becomes of a checkpoint when all images are there: the commit of each level, and the end.
#include "base/printable.hpp"
#include "coord/checkpoint.hpp"
#include "coord/daemon.hpp"
#include "coord/local_level.hpp"
#include "coord/patience.hpp"
#include "sys/own_variable.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>
#include <utility>

namespace cryo::coord {

// What is based on other snapshots, or has levels, is listed: the metadata say of which ranks. So
// are ranks on nodes of one name, which know nothing of each other.
bool Checkpoint::may_count(const cli::CommonOptions &options) const
{
    const char *wanted = sys::own_variable("CRYO_LISTED_RANKS");
    const size_t listed = wanted != nullptr ? strtoul(wanted, nullptr, 10) : most_listed_ranks;
    const bool has_bases = options.wants_delta() && snapshot_.previous();
    return reports_.ranks().size() > listed && !request_.contains("local") && !has_bases &&
           !around_.members.had_namesakes();
}

// With the copies that their nodes have of them.
std::vector<SnapshotImage> Checkpoint::images() const
{
    std::vector<SnapshotImage> images = reports_.images();
    for (SnapshotImage &image : images) {
        if (!image.checksum.empty()) // a node's own name has no slash (Members::add)
            image.local =
                local_rank_directory(base_of_node(request_.at("local").get<std::string>(),
                                                  image.node.substr(0, image.node.find('/'))),
                                     geteuid(), snapshot_.level_name(), image.rank);
    }
    return images;
}

void Checkpoint::commit()
{
    stage_ = Stage::finishing;
    around_.watchers.say("finished locally");
    const auto keep = request_.value("keep", 0U);
    const auto then = [weak = weak_from_this()](const Result<void> &done) {
        if (const auto one = weak.lock())
            one->committed(done);
    };
    if (is_counted_) // of all ranks of the job, whose numbers begin with 0
        snapshot_.commit_counted(static_cast<uint32_t>(reports_.ranks().size()), reports_.bytes(),
                                 keep, then);
    else
        snapshot_.commit(images(), keep, then);
}

// What becomes of the job when the snapshot is there.
void Checkpoint::committed(const Result<void> &done)
{
    if (!done)
        give_up(done.error().text(), done.error().code());
    else if (redundant_.is_wanted())
        make_redundant();
    else
        established();
}

// The snapshot is there, whatever becomes of this. The nodes keep their images until the end of it.
void Checkpoint::make_redundant()
{
    stage_ = Stage::encoding;
    around_.watchers.say("encoding");
    for (const std::string &remark : redundant_.remarks())
        reports_.notices().add(remark);
    const auto longest = std::max(image_patience * longest_silence(),
                                  longest_image(request_.value("patience", default_patience_s)));
    redundant_.begin(number_, images(), reports_.ranks(),
                     longest + time_to_write(reports_.bytes(), 0),
                     [weak = weak_from_this()](const Result<void> &done) {
                         if (const auto one = weak.lock())
                             one->encoded(done);
                     });
}

// The commit of that level is a line of the metadata.
void Checkpoint::encoded(const Result<void> &done)
{
    if (!done) {
        lacks_sets(done.error());
        established();
        return;
    }
    snapshot_.add_sets(redundant_.scheme(), redundant_.sets(),
                       [weak = weak_from_this()](const Result<void> &named) {
                           const auto one = weak.lock();
                           if (!one)
                               return;
                           one->is_redundant_ = bool(named);
                           if (!named)
                               one->lacks_sets(named.error());
                           one->established();
                       });
}

void Checkpoint::lacks_sets(const Error &why)
{
    reports_.notices().add(printable_message(fmt::format(
        "the snapshot is there, but the nodes have no parity of it (--redundancy {}): {}",
        redundant_.scheme(), why.text())));
}

Message Checkpoint::good_end()
{
    std::vector<std::string> notices = reports_.notices().all();
    if (!snapshot_.kept_all().empty())
        notices.push_back(snapshot_.kept_all());
    if (!around_.ranks.refused().empty())
        notices.push_back("not in the snapshot: " + around_.ranks.refused());
    Message end(Type::end, {{"ok", true},
                            {"reference", std::filesystem::path(snapshot_.path()).filename()},
                            {"path", snapshot_.path()},
                            {"seq", snapshot_.seq()},
                            {"ranks", reports_.ranks().size()},
                            {"bytes", reports_.bytes()},
                            {"seconds", silence_.since_begun().count()},
                            {"longest_stop_ns", reports_.longest_stop()},
                            {"notices", notices}});
    if (const std::set<int> &needs = reports_.needs(); !needs.empty())
        end.fields["needs"] = needs;
    if (is_redundant_)
        end.fields.update(
            {{"redundancy", redundant_.scheme()}, {"parity_bytes", redundant_.parity_bytes()}});
    return end;
}

void Checkpoint::established()
{
    stage_ = Stage::finishing;
    snapshot_.unlock(); // before any command is told of it
    const std::string wanted = request_.value("after", "none");
    // Ranks that have resumed meanwhile are past the saved state. They are not ended.
    std::optional<std::string> silent;
    if (wanted != "none")
        silent = resumed_.empty() ? silence_.why() : resumed_;
    const std::string after = silent ? "none" : wanted;
    const Message finish(Type::finish,
                         {{"checkpoint", number_}, {"after", after}, {"redundant", is_redundant_}});
    // Ranks that wait for it do not wait for the daemons on the way.
    if (wanted == "none")
        around_.members.tell_along_tree(finish);
    else
        around_.members.tell_all(finish);
    around_.watchers.say(after == "stop" ? "stopped" : "established");
    if (silent)
        around_.watchers.tell(
            end_of(Error(ETIMEDOUT, fmt::format("{} is there, but the job goes on: {}",
                                                snapshot_.path(), *silent))));
    else
        around_.watchers.tell(good_end());
    around_.watchers.release();
    if (after == "term")
        around_.end_launcher();
    if (wanted == "none" || job_ended_) {
        end();
    } else { // until the tree has finished it
        snapshot_.release();
        stage_ = Stage::held;
        look_at_tree(); // it may have been abandoned meanwhile
    }
}

} // namespace cryo::coord
