#ifndef PIPESTAGE_PACKAGE_CONTRACT_RULES_H_
#define PIPESTAGE_PACKAGE_CONTRACT_RULES_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "package/contract.h"

namespace pipestage {

// Internal to the library: the rules of docs/formats.md about how the parts of
// a contract agree. Every error is InvalidArgument and begins with the place.

// Names, axes, and that neighbouring stages and the model agree.
absl::Status CheckTensorRules(const PackageContract& contract);
// Expressions: "?" only where allowed, every name bound.
absl::Status CheckSizeRules(const PackageContract& contract);
absl::Status CheckLossRules(const PackageContract& contract);
// Every file named is in `files`.
absl::Status CheckFileRules(const PackageContract& contract);

// "<place>: <problem>".
absl::Status ContractError(absl::string_view place, absl::string_view problem);

}  // namespace pipestage

#endif  // PIPESTAGE_PACKAGE_CONTRACT_RULES_H_
