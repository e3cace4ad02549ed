#ifndef PIPESTAGE_PACKAGE_CONTRACT_RULES_H_
#define PIPESTAGE_PACKAGE_CONTRACT_RULES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "package/contract.h"

namespace pipestage {

// Internal to the library: the rules of docs/formats.md about how the parts of
// a contract agree. Every error is InvalidArgument and begins with the place.

// Names and axes of the model's inputs, targets and outputs.
absl::Status CheckTensorRules(const PackageContract& contract);
// That neighbouring stages agree with each other and with the model.
absl::Status CheckStageRules(const PackageContract& contract);
// Expressions: "?" only where allowed, every name bound.
absl::Status CheckSizeRules(const PackageContract& contract);
absl::Status CheckLossRules(const PackageContract& contract);
// Every file named is in `files`.
absl::Status CheckFileRules(const PackageContract& contract);

// That no two tensors of the list named `list` have one name.
absl::Status CheckNamesDiffer(absl::string_view list,
                              absl::Span<const TensorContract> tensors);

// "list[index]".
std::string Indexed(absl::string_view list, size_t index);
// The name in quotes.
std::string Quoted(absl::string_view name);
// "<place>: <problem>".
absl::Status ContractError(absl::string_view place, absl::string_view problem);

}  // namespace pipestage

#endif  // PIPESTAGE_PACKAGE_CONTRACT_RULES_H_
