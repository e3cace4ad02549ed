#ifndef PIPESTAGE_BASE_IDS_H_
#define PIPESTAGE_BASE_IDS_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <utility>

namespace pipestage {

// An integer that names one kind of thing, so that a rank is never passed where
// a stage is wanted. Cheap as the integer it holds; printed as the bare number.
template <typename Tag, typename Value>
class StrongId {
 public:
  using ValueType = Value;

  constexpr StrongId() = default;
  constexpr explicit StrongId(Value value) : value_(value) {}

  constexpr Value value() const { return value_; }

  friend constexpr auto operator<=>(StrongId, StrongId) = default;
  constexpr StrongId operator+(Value d) const { return StrongId(value_ + d); }
  constexpr StrongId operator-(Value d) const { return StrongId(value_ - d); }
  constexpr StrongId& operator++() {
    ++value_;
    return *this;
  }

  template <typename H>
  friend H AbslHashValue(H h, StrongId id) {
    return H::combine(std::move(h), id.value_);
  }
  friend std::ostream& operator<<(std::ostream& os, StrongId id) {
    return os << id.value_;
  }

 private:
  Value value_ = 0;
};

// Position of a worker in its pipeline, from 0.
using Rank = StrongId<struct RankTag, int32_t>;
// Position of a stage in its model, from 0.
using StageIndex = StrongId<struct StageIndexTag, int32_t>;
// Position of a microbatch in its call, from 0.
using MicrobatchIndex = StrongId<struct MicrobatchIndexTag, int32_t>;
// One Step or Eval; unique within an epoch, and increasing.
using CallId = StrongId<struct CallIdTag, int64_t>;
// Lifetime of a coordinator.
using Epoch = StrongId<struct EpochTag, int64_t>;
// Membership of a pipeline: raised whenever a communicator is formed.
using Generation = StrongId<struct GenerationTag, int64_t>;
// Lifetime of a worker process.
using Incarnation = StrongId<struct IncarnationTag, int64_t>;

}  // namespace pipestage

#endif  // PIPESTAGE_BASE_IDS_H_
