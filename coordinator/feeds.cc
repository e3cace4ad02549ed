#include "coordinator/feeds.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "tensor/split_merge.h"

namespace pipestage {
namespace {

// An argument of the call with the stages that take it, by rank.
struct Argument {
  int index;
  std::optional<int> axis;
  const HostTensor* tensor;
  std::map<Rank, std::vector<StageIndex>> takers;
};

bool IsPositional(const PackageContract& contract, const std::string& name) {
  const auto& inputs = contract.stages.front().inputs;
  return std::any_of(inputs.begin(), inputs.end(),
                     [&](const auto& input) { return input.name == name; });
}

std::map<Rank, std::vector<StageIndex>> TakersOf(
    const PackageContract& contract, const Plan& plan,
    const std::string& name) {
  std::map<Rank, std::vector<StageIndex>> takers;
  for (const StageContract& stage : contract.stages) {
    const auto& keywords = stage.keyword_inputs;
    const bool takes =
        (stage.index == StageIndex(0) && IsPositional(contract, name)) ||
        std::find(keywords.begin(), keywords.end(), name) != keywords.end();
    if (takes) takers[plan.owner(stage.index)].push_back(stage.index);
  }
  return takers;
}

std::vector<Argument> Arguments(const PackageContract& contract,
                                const Plan& plan, const CallInputs& inputs) {
  std::vector<Argument> arguments;
  int index = 0;
  for (const TensorContract& input : contract.inputs) {
    arguments.push_back({index++, input.axis, &inputs.inputs.at(input.name),
                         TakersOf(contract, plan, input.name)});
  }
  const StageIndex last(plan.num_stages() - 1);
  for (const TensorContract& target : contract.targets) {
    const auto found = inputs.targets.find(target.name);
    if (found != inputs.targets.end()) {
      arguments.push_back(
          {index, target.axis, &found->second, {{plan.owner(last), {last}}}});
    }
    ++index;
  }
  return arguments;
}

// Cuts an argument into messages of whole microbatches.
void AppendFeeds(const Argument& argument, const Microbatches& microbatches,
                 std::vector<Feed>& feeds) {
  const size_t total = argument.tensor->data.size();
  if (!argument.axis) {
    feeds.push_back({argument.index, 0, 0, total, argument.tensor, 0});
    return;
  }
  const size_t row_bytes = total / microbatches.total_rows();
  Feed feed{argument.index, 0, 0, 0, argument.tensor, *argument.axis};
  for (int32_t m = 0; m < microbatches.count(); ++m) {
    const size_t size = row_bytes * microbatches.rows(MicrobatchIndex(m));
    if (feed.num_microbatches > 0 &&
        feed.size_bytes + size > kFeedMessageBytes) {
      feeds.push_back(feed);
      feed.first_microbatch = m;
      feed.num_microbatches = 0;
      feed.size_bytes = 0;
    }
    ++feed.num_microbatches;
    feed.size_bytes += size;
  }
  feeds.push_back(feed);
}

// Where in their rank's row `stages` use the feed first.
int FirstUse(const Feed& feed, const std::vector<StageIndex>& stages,
             const Plan& plan) {
  int first = INT_MAX;
  for (const StageIndex stage : stages) {
    const auto& positions = plan.forward_positions[stage.value()];
    const auto begin = positions.begin() + feed.first_microbatch;
    const auto end = feed.num_microbatches == 0 ? positions.end()
                                                : begin + feed.num_microbatches;
    first = std::min(first, *std::min_element(begin, end));
  }
  return first;
}

absl::StatusOr<Buffer> GatherParts(const Feed& feed,
                                   const Microbatches& microbatches) {
  Buffer all = Buffer::Allocate(feed.size_bytes);
  size_t offset = 0;
  for (int32_t i = 0; i < feed.num_microbatches; ++i) {
    const MicrobatchIndex m(feed.first_microbatch + i);
    PIPESTAGE_ASSIGN_OR_RETURN(
        const HostTensor part,
        SliceRows(*feed.tensor, feed.axis, microbatches.first_row(m),
                  microbatches.rows(m)));
    if (part.data.empty()) continue;
    std::memcpy(all.mutable_data() + offset, part.data.data(),
                part.data.size());
    offset += part.data.size();
  }
  return all;
}

}  // namespace

std::vector<std::vector<Feed>> PlanFeeds(const PackageContract& contract,
                                         const Plan& plan,
                                         const Microbatches& microbatches,
                                         const CallInputs& inputs) {
  // By first use and, where that is the same, in the arguments' order.
  std::vector<std::vector<std::pair<int, Feed>>> ordered(plan.num_ranks());
  for (const Argument& argument : Arguments(contract, plan, inputs)) {
    std::vector<Feed> feeds;
    AppendFeeds(argument, microbatches, feeds);
    for (const auto& [rank, stages] : argument.takers) {
      for (const Feed& feed : feeds) {
        ordered[rank.value()].emplace_back(FirstUse(feed, stages, plan), feed);
      }
    }
  }
  std::vector<std::vector<Feed>> by_rank(plan.num_ranks());
  for (int r = 0; r < plan.num_ranks(); ++r) {
    std::stable_sort(
        ordered[r].begin(), ordered[r].end(),
        [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [use, feed] : ordered[r]) by_rank[r].push_back(feed);
  }
  return by_rank;
}

absl::StatusOr<FeedMessage> MakeFeedMessage(const Feed& feed,
                                            const Microbatches& microbatches) {
  FeedMessage message;
  message.header.set_argument(feed.argument);
  message.header.set_first_microbatch(feed.first_microbatch);
  message.header.set_num_microbatches(feed.num_microbatches);
  if (feed.num_microbatches == 0) {
    message.data = feed.tensor->data;
    return message;
  }
  if (feed.axis != 0 && feed.num_microbatches > 1) {
    PIPESTAGE_ASSIGN_OR_RETURN(message.data, GatherParts(feed, microbatches));
    return message;
  }
  const MicrobatchIndex first(feed.first_microbatch);
  const MicrobatchIndex last = first + (feed.num_microbatches - 1);
  const int64_t first_row = microbatches.first_row(first);
  PIPESTAGE_ASSIGN_OR_RETURN(
      const HostTensor part,
      SliceRows(
          *feed.tensor, feed.axis, first_row,
          microbatches.first_row(last) + microbatches.rows(last) - first_row));
  message.data = part.data;
  return message;
}

}  // namespace pipestage
