#ifndef PIPESTAGE_WORKER_TORCH_ARGUMENT_TEMPLATE_H_
#define PIPESTAGE_WORKER_TORCH_ARGUMENT_TEMPLATE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ATen/core/function_schema.h"
#include "ATen/core/ivalue.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/torch/exported_graph.h"

namespace pipestage {

// The slots of a run: values by number.
using Slots = std::vector<c10::IValue>;
struct SlotRef {
  int slot = -1;
  bool is_number = false;  // else a tensor
};
// The slot of a named value; FailedPrecondition if no earlier node makes it.
using SlotLookup =
    std::function<absl::StatusOr<SlotRef>(const std::string& name)>;

// One argument of a call, worked out as far as it can be without a run.
class ArgumentTemplate {
 public:
  // What `argument` is for a schema's argument `formal`. Devices become
  // `device`. FailedPrecondition for a kind of argument that cannot be given.
  static absl::StatusOr<ArgumentTemplate> Create(
      const c10::Argument& formal, const ExportedArgument& argument,
      const SlotLookup& lookup, c10::Device device);
  static ArgumentTemplate Constant(c10::IValue value);
  static ArgumentTemplate Slot(int slot);

  c10::IValue Make(const Slots& slots) const {
    return kind_ == Kind::kConstant ? constant_
           : kind_ == Kind::kSlot   ? slots[slots_[0]]
                                    : MakeOther(slots);
  }

  // The slots it reads; may hold -1, which is none.
  const std::vector<int>& slots() const { return slots_; }
  // Its value if that is no matter of the run, else null.
  const c10::IValue* constant() const {
    return kind_ == Kind::kConstant ? &constant_ : nullptr;
  }

 private:
  enum class Kind {
    kConstant,
    kSlot,
    kSlotAsTensor,  // a number where the schema wants a tensor
    kSlotAsFloat,   // an integer where the schema wants a float
    kTensors,
    kOptionalTensors,
    kInts,  // with slots_[i] >= 0 in place of ints_[i]
    kFloats,
    kBools,
  };

  static absl::StatusOr<ArgumentTemplate> CreateSlot(
      const c10::Argument& formal, const ExportedArgument& argument,
      const SlotLookup& lookup);
  static absl::StatusOr<ArgumentTemplate> CreateTensors(
      const c10::Argument& formal, const ExportedArgument& argument,
      const SlotLookup& lookup);
  static absl::StatusOr<ArgumentTemplate> CreateNumbers(
      const c10::Argument& formal, const ExportedArgument& argument,
      const SlotLookup& lookup);

  c10::IValue MakeOther(const Slots& slots) const;
  c10::IValue MakeTensors(const Slots& slots) const;
  c10::IValue MakeOptionalTensors(const Slots& slots) const;
  c10::IValue MakeInts(const Slots& slots) const;
  c10::IValue MakeFloats(const Slots& slots) const;
  c10::IValue MakeBools(const Slots& slots) const;

  Kind kind_ = Kind::kConstant;
  c10::IValue constant_;
  std::vector<int> slots_;
  std::vector<int64_t> ints_;
  std::vector<double> floats_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_ARGUMENT_TEMPLATE_H_
