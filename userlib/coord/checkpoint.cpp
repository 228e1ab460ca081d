// SPDX-License-Identifier: Apache-2.0
#include "coord/checkpoint.hpp"

#include "coord/daemon.hpp"
#include "coord/image_copy.hpp"
#include "coord/patience.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <utility>

namespace cryo::coord {

using nlohmann::json;

namespace {

constexpr int64_t inquire_ms = 2000;

bool holds(const json &request)
{
    return request.value("after", "none") != "none";
}

// What daemons are told of the level of their own directories (docs/stores.md).
json local_level(const json &request, const std::string &name)
{
    return {{"directory", request.at("local")},
            {"name", name},
            {"keep", request.value("keep_local", 1U)},
            {"alone", request.contains("redundancy")},
            // Where ranks are held, nothing runs beside the copies.
            {"rate", holds(request) ? 0 : request.value("copy_rate", uint64_t(0))}};
}

} // namespace

Checkpoint::Checkpoint(uint64_t number, const json &request, Surroundings around)
    : around_(std::move(around)), number_(number), request_(request),
      reports_(around_.ranks.shared(), around_.members), generation_(around_.ranks.generation()),
      agreement_(around_.local), silence_(around_.members, number_),
      standstill_(request, reports_, around_.members),
      redundant_(around_.loop, around_.members, around_.local), snapshot_(around_.loop)
{}

Result<void> Checkpoint::begin()
{
    around_.watchers.say("requested");
    if (Result<void> possible = redundant_.plan(request_, reports_.ranks()); !possible)
        return possible;
    ImageOptions options = image_options(request_);
    if (Result<void> possible = choose_delta(options.common); !possible)
        return possible;
    const Result<std::string> token = snapshot_.begin(around_.job, request_);
    if (!token) {
        snapshot_.release();
        return token.error();
    }
    is_counted_ = may_count(options.common);
    if (is_counted_) {
        if (Result<void> made =
                snapshot_.make_groups(static_cast<uint32_t>(reports_.ranks().size()));
            !made) {
            snapshot_.release();
            return made;
        }
    }
    const int64_t patience = request_.value("patience", default_patience_s);
    if (patience > 0)
        patience_ = around_.loop.after(patience * 1000, [weak = weak_from_this(), patience] {
            const auto one = weak.lock();
            if (one && (one->stage_ == Stage::preparing ||
                        (one->stage_ == Stage::pending && !one->agreement_.stands_still())))
                one->give_up(fmt::format("not all ranks could stop within {} s; --status names "
                                         "them, --time gives them longer",
                                         patience),
                             ETIMEDOUT);
        });
    options.fork = options.fork && !holds(request_); // held ranks need no copy
    for (const auto &[number, member] : around_.members.all())
        awaited_.insert(awaited_.end(), number);
    Message prepare(Type::prepare, {{"checkpoint", number_},
                                    {"directory", snapshot_.directory()},
                                    {"token", *token},
                                    {"options", to_json(options)},
                                    {"hold", holds(request_)}});
    if (const std::optional<int> previous = snapshot_.previous();
        previous && options.common.wants_delta())
        prepare.fields["previous"] = *previous;
    if (is_counted_)
        prepare.fields["counted"] = true;
    if (request_.contains("local"))
        prepare.fields["local"] = local_level(request_, snapshot_.level_name());
    silence_.begin();
    around_.members.tell_along_tree(prepare);
    if (stage_ != Stage::over) // this node's daemon may have answered already
        watch_members();
    return {};
}

// With `auto`, which automatic checkpoints ask for, images are complete where they cannot be
// deltas.
Result<void> Checkpoint::choose_delta(cli::CommonOptions &options)
{
    if (!options.wants_delta())
        return {};
    std::string why;
    if (request_.contains("local")) // a level has an image without the other snapshots'
        why = "an image in a node's directory (--local) is always complete";
    else if (options.backend != "auto" && options.backend != "user" && options.backend != "kmod")
        why = fmt::format("an image of the backend {} is always complete", options.backend);
    if (why.empty())
        return {};
    if (options.delta != "auto")
        return Error(EINVAL,
                     fmt::format("--delta={}: {}; leave one of the two out", options.delta, why));
    options.delta = "none";
    reports_.notices().add("no delta was made: " + why);
    return {};
}

void Checkpoint::hear(uint32_t member, const Message &message)
{
    const json &fields = message.fields;
    if (message.type == Type::alive) {
        images_grow(member, message);
        return;
    }
    if (stage_ == Stage::over || fields.value("checkpoint", uint64_t(0)) != number_)
        return;
    switch (message.type) {
    case Type::prepared:
        prepared(member, message);
        break;
    case Type::cut:
        if (speaks_for(member, fields.at("rank")) && images_are_due(member)) {
            reports_.cut(fields.at("rank"));
            look_at_images();
        }
        break;
    case Type::image:
        if (speaks_for(member, fields.at("rank")) &&
            (fields.contains("error") || images_are_due(member)))
            image_came(message);
        break;
    case Type::local:
        if (request_.contains("local") && speaks_for(member, fields.at("rank")) &&
            images_are_due(member))
            image_on_node(fields.at("rank"));
        break;
    case Type::encoded:
        redundant_.hear(member, message);
        break;
    case Type::idle:
        if (stage_ == Stage::cancelling && awaited_.erase(member) != 0 && awaited_.empty())
            all_have_answered();
        break;
    default:
        break;
    }
}

void Checkpoint::rank_left(uint32_t rank)
{
    // The image of a rank that has a frozen copy is still being written.
    if (stage_ != Stage::cancelling && !reports_.is_frozen(rank))
        give_up(fmt::format("rank {} has ended", rank), ESRCH);
}

void Checkpoint::member_gone(uint32_t member, const std::string &node, const std::string &lost)
{
    reports_.keep_name(member, node);
    if (stage_ == Stage::encoding) // also one whose ranks have ended
        redundant_.give_up(Error(ECONNRESET, fmt::format("the daemon of node {} has ended", node)));
    if (!lost.empty())
        give_up(lost, ECONNRESET);
    // Ranks may have ended whose frozen copies it was writing.
    if (stage_ != Stage::over && reports_.misses_one_of(member))
        give_up(fmt::format("the daemon of node {} has ended before its images were there", node),
                ECONNRESET);
    if (stage_ != Stage::over && awaited_.erase(member) != 0 && awaited_.empty())
        all_have_answered();
}

void Checkpoint::launcher_gone()
{
    job_ended_ = true;
    if (stage_ == Stage::encoding) // without the ranks
        return;
    if (stage_ != Stage::running || !reports_.all_are_cut())
        give_up("the job has ended", ESRCH);
}

void Checkpoint::call_off()
{
    if (stage_ == Stage::preparing || stage_ == Stage::encoding || is_taking_images())
        give_up("it was called off", ECANCELED);
}

bool Checkpoint::is_taking_images() const
{
    return stage_ == Stage::pending || stage_ == Stage::running;
}

// A daemon may only report on the ranks that it had when the checkpoint began.
bool Checkpoint::speaks_for(uint32_t member, uint32_t rank)
{
    if (reports_.is_of(member, rank))
        return true;
    around_.members.expel(member, fmt::format("speaks for rank {}, which is not its own", rank));
    return false;
}

// A report of one image before all ranks stand still would end the wait for ranks (--time). The
// daemon that reports it may have been deceived by the one above it in the tree: it stays.
bool Checkpoint::images_are_due(uint32_t member)
{
    if (agreement_.images_are_due())
        return true;
    const Member *at = around_.members.find(member);
    if (stage_ == Stage::cancelling || at == nullptr)
        return false;
    give_up(fmt::format("the daemon of node {} has an image of a rank before all ranks stand still",
                        at->name),
            EPROTO);
    return false;
}

void Checkpoint::prepared(uint32_t member, const Message &message)
{
    if (stage_ != Stage::preparing)
        return;
    if (message.fields.contains("error")) {
        give_up(message.fields.at("error"), ENOENT);
        return;
    }
    if (awaited_.erase(member) != 0 && awaited_.empty())
        all_have_answered();
}

// All daemons have prepared the checkpoint, or cancelled it.
void Checkpoint::all_have_answered()
{
    if (stage_ == Stage::cancelling) {
        end();
        return;
    }
    if (stage_ != Stage::preparing)
        return;
    stage_ = Stage::pending;
    around_.watchers.say("pending");
    if (Result<void> begun = agreement_.begin(); !begun) {
        give_up(begun.error().text(), begun.error().code());
        return;
    }
    tell_missing();
    look_at_tree();
}

// Asks regularly which ranks are missing.
void Checkpoint::tell_missing()
{
    around_.loop.after(inquire_ms, [weak = weak_from_this()] {
        const auto one = weak.lock();
        if (!one || one->stage_ != Stage::pending || one->agreement_.stands_still())
            return;
        one->around_.watchers.tell(Message(Type::waiting));
        one->agreement_.inquire();
        one->tell_missing();
    });
}

// A daemon's report on a rank's image. The image's name and process are known here.
void Checkpoint::image_came(const Message &message)
{
    const json &fields = message.fields;
    const uint32_t rank = fields.at("rank");
    if (fields.contains("error")) {
        give_up(fmt::format("rank {} on node {}: {}", rank,
                            around_.members.name(reports_.ranks().at(rank).member),
                            fields.at("error").get<std::string>()),
                fields.value("code", EIO));
        return;
    }
    if (reports_.has_image(rank))
        return; // a daemon of Cryo's says so once
    const std::vector<int> needs = fields.value("needs", std::vector<int>());
    if (is_counted_ && !(fields.value("described", false) && needs.empty())) {
        give_up(fmt::format("rank {} on node {}: its image has no metadata of its own", rank,
                            around_.members.name(reports_.ranks().at(rank).member)),
                EPROTO);
        return;
    }
    if (!has_bases(rank, needs))
        return;
    add_image(rank,
              {.bytes = fields.value("bytes", uint64_t(0)),
               .checksum = fields.value("checksum", ""),
               .needs = needs,
               .is_described = fields.value("described", false)},
              fields.value("stopped_ns", uint64_t(0)));
    for (const json &notice : fields.value("notices", json::array()))
        reports_.notices().add(fmt::format("rank {}: {}", rank, notice.get<std::string>()));
    look_at_images();
}

// False: the checkpoint ends, since what the image is based on is not there.
bool Checkpoint::has_bases(uint32_t rank, const std::vector<int> &needs)
{
    const auto missing =
        std::ranges::find_if(needs, [&](int seq) { return !snapshot_.has_image(seq, rank); });
    if (missing == needs.end())
        return true;
    give_up(fmt::format("rank {} on node {}: its image is based on that of snapshot {}, which is "
                        "not a finished one",
                        rank, around_.members.name(reports_.ranks().at(rank).member), *missing),
            ESTALE);
    return false;
}

void Checkpoint::add_image(uint32_t rank, ImageReports::Image image, uint64_t stopped_ns)
{
    const bool local = request_.contains("local");
    if (!local || !is_image_checksum(image.checksum))
        image.checksum.clear();
    reports_.add(rank, std::move(image), stopped_ns);
    if (local)
        image_on_node(rank);
}

// Here a command that waits for this level alone (--until local) returns.
void Checkpoint::image_on_node(uint32_t rank)
{
    if (!reports_.on_node(rank) || told_of_nodes_ || stage_ != Stage::running)
        return;
    told_of_nodes_ = true;
    around_.watchers.say("local");
}

void Checkpoint::images_grow(uint32_t member, const Message &message)
{
    if (!is_taking_images())
        return;
    for (const json &one : message.fields.at("images")) {
        const uint32_t rank = one.at("rank");
        const uint64_t bytes = one.at("bytes");
        if (!speaks_for(member, rank))
            return;
        reports_.grow(rank, bytes);
    }
}

void Checkpoint::look_at_tree()
{
    if (stage_ == Stage::preparing || stage_ == Stage::over || agreement_.is_finished())
        return;
    switch (agreement_.outcome()) {
    case bookmark::Node::Outcome::abandoned:
        if (stage_ == Stage::held)
            end();
        else if (stage_ != Stage::cancelling)
            give_up(agreement_.reason(), ECANCELED);
        break;
    case bookmark::Node::Outcome::done:
        if (stage_ == Stage::held) {
            end();
        } else if (const auto why = silence_.why()) {
            give_up(*why, ETIMEDOUT);
        } else {
            agreement_.finish();
            look_at_images();
        }
        break;
    default:
        break;
    }
}

void Checkpoint::look_at_images()
{
    if (!is_taking_images())
        return;
    if (stage_ == Stage::pending) {
        stage_ = Stage::running;
        reports_.count_from_now();
        around_.watchers.say("running");
    }
    around_.watchers.tell(reports_.message());
    // Held ranks have their images, but are not told so yet: the tree waits for them.
    const bool held = holds(request_);
    if (!reports_.complete() || !(agreement_.is_finished() || held))
        return;
    if (const auto why = silence_.why(); why && held)
        give_up(*why, ETIMEDOUT);
    else
        commit();
}

// The daemons are asked regularly for a sign of life. What they are told at the beginning is as
// good as a question: no rank has been stopped before.
void Checkpoint::watch_members()
{
    around_.loop.after(longest_silence().count() / looks_in_silence, [weak = weak_from_this()] {
        const auto one = weak.lock();
        if (one && one->stage_ != Stage::over && one->stage_ != Stage::held &&
            one->look_at_members())
            one->ask_members();
    });
}

void Checkpoint::ask_members()
{
    around_.members.tell_along_tree(Message(Type::look, {{"number", silence_.asked()}}));
    if (stage_ != Stage::over)
        watch_members();
}

// False: the checkpoint is over.
bool Checkpoint::look_at_members()
{
    if (stage_ == Stage::cancelling) {
        for (const uint32_t member : silence_.silent())
            awaited_.erase(member);
        if (Clock::now() - failure_.when > image_patience * longest_silence())
            awaited_.clear(); // they speak, and do not say that they have stopped
        if (awaited_.empty())
            end();
        return stage_ != Stage::over;
    }
    // Once all ranks have resumed, it does no harm that this daemon has not polled for a while.
    const bool asked = silence_.since_asked() < longest_silence();
    if (const auto why = silence_.why(); why && (asked || !agreement_.is_finished()))
        give_up(*why, ETIMEDOUT);
    if (is_taking_images() && (agreement_.is_finished() || agreement_.stands_still())) {
        if (auto why = standstill_.at_cut(agreement_.is_finished()))
            give_up(std::move(*why), ETIMEDOUT);
    }
    if (is_taking_images() && asked) { // else what daemons have said meanwhile is not read yet
        if (auto why = standstill_.of_images(stage_ == Stage::pending))
            give_up(std::move(*why), ETIMEDOUT);
    }
    // The whole job may have been stopped with this daemon, by a scheduler: no image grew then.
    if (!asked)
        reports_.excuse(silence_.since_asked());
    return stage_ != Stage::over;
}

void Checkpoint::give_up(std::string error, int code)
{
    if (stage_ == Stage::encoding && (code == ETIMEDOUT || code == ECONNRESET) && resumed_.empty())
        resumed_ = error; // held ranks do not wait for ever for a daemon
    if (stage_ == Stage::over || stage_ == Stage::cancelling ||
        snapshot_.is_committing()) // it decides by itself
        return;
    if (stage_ == Stage::encoding) {
        redundant_.give_up(Error(code, std::move(error)));
        return;
    }
    if (stage_ == Stage::held) { // it is committed: there is nothing to give up
        end();
        return;
    }
    stage_ = Stage::cancelling;
    failure_ = {.error = std::move(error), .code = code, .when = Clock::now()};
    awaited_.clear();
    for (const auto &[number, member] : around_.members.all())
        awaited_.insert(awaited_.end(), number);
    agreement_.abandon();
    around_.members.tell_all(Message(Type::cancel, {{"checkpoint", number_}}));
}

void Checkpoint::end()
{
    const auto self = shared_from_this();
    around_.loop.call_off(patience_);
    const Stage last = std::exchange(stage_, Stage::over);
    around_.over();
    snapshot_.release(); // removes what is not committed
    if (last == Stage::cancelling) {
        if (by_program_)
            agreement_.decline();
        around_.watchers.say("error");
        around_.watchers.tell(end_of(Error(failure_.code, failure_.error)));
    } else if (last == Stage::held) {
        around_.watchers.keep("established");
        around_.watchers.tell(Message(Type::end, {{"ok", true}})); // commands that continued it
    }
    around_.watchers.release();
}

} // namespace cryo::coord
